//! Versions of Kubernetes, as API servers and kubelets give them.

use semver::Version;

/// A version such as `v1.30.4` or `v1.27.3-gke.100`.
#[must_use]
pub fn parse(text: &str) -> Option<Version> {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

/// The highest of them, as it was given. What is no version does not count.
#[must_use]
pub fn highest<'a>(versions: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let parsed = versions.filter_map(|text| Some((parse(text)?, text)));
    parsed
        .max_by(|(left, left_text), (right, right_text)| {
            // What a vendor adds to a version orders nothing, but the choice must not depend on the order of nodes.
            let order = left.cmp_precedence(right);
            order.then_with(|| left_text.cmp(right_text))
        })
        .map(|(_, text)| text)
}

/// Major and minor version.
#[must_use]
pub fn minor(text: &str) -> Option<(u64, u64)> {
    parse(text).map(|version| (version.major, version.minor))
}

/// Whether a kubelet on Windows is too old to see drivers that register after its start.
///
/// Mended in Kubernetes 1.23.10, 1.24.4 and 1.25.0.
#[must_use]
pub fn misses_registrations(kubelet: &str) -> bool {
    parse(kubelet).is_some_and(|version| match (version.major, version.minor) {
        (1, 23) => version.patch < 10,
        (1, 24) => version.patch < 4,
        older => older < (1, 23),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_is_by_number_and_not_by_letter() {
        let of = |texts: &[&'static str]| highest(texts.iter().copied());
        assert_eq!(
            of(&["v1.9.3", "v1.30.4", "v1.30.2+rke2r1"]),
            Some("v1.30.4")
        );
        assert_eq!(of(&["v1.30.4", "v1.30.4-gke.100"]), Some("v1.30.4"));
        assert_eq!(of(&["", "unknown"]), None);
    }

    #[test]
    fn kubelets_before_the_mend_miss_registrations() {
        for (kubelet, too_old) in [
            ("v1.22.17", true),
            ("v1.23.9", true),
            ("v1.23.10", false),
            ("v1.24.3", true),
            ("v1.24.4+abc", false),
            ("v1.25.0", false),
            ("v1.34.1", false),
            ("", false),
        ] {
            assert_eq!(misses_registrations(kubelet), too_old, "{kubelet}");
        }
    }
}
