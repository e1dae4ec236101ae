//! Parses and compares versions of Kubernetes and OpenShift.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use semver::Version;

/// The distribution whose version numbers a cluster uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distribution {
    /// Versions such as `1.27`.
    #[default]
    Kubernetes,
    /// Versions such as `4.14`.
    OpenShift,
}

/// OpenShift 4.N is Kubernetes 1.(N + 13).
const OPENSHIFT_OFFSET: u64 = 13;
/// The minor versions of Kubernetes 1 that the plugin table covers.
const KNOWN: RangeInclusive<u64> = 23..=37;

impl Distribution {
    /// Returns the release that contains this minor version of Kubernetes 1.
    #[must_use]
    pub const fn at(self, minor: u64) -> Release {
        Release {
            distribution: self,
            minor,
        }
    }

    /// Returns the versions that the plugin table covers, for messages.
    fn known(self) -> String {
        let (first, last) = (self.at(*KNOWN.start()), self.at(*KNOWN.end()));
        format!("{first} to {}", last.number())
    }
}

/// A minor version of Kubernetes or OpenShift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The distribution.
    pub distribution: Distribution,
    /// The minor version of the Kubernetes 1 that the release contains.
    pub minor: u64,
}

impl Release {
    /// Returns the version number, such as `1.27` or `4.14`.
    #[must_use]
    pub fn number(self) -> String {
        match self.distribution {
            Distribution::Kubernetes => format!("1.{}", self.minor),
            Distribution::OpenShift => {
                format!("4.{}", self.minor.saturating_sub(OPENSHIFT_OFFSET))
            }
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.distribution, self.number())
    }
}

/// Why a target version is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The plugin table does not cover the version.
    #[error("known are {}, and {}", Distribution::Kubernetes.known(), Distribution::OpenShift.known())]
    Unknown,
    /// The version is OpenShift's and the cluster's nodes are not, or the other way round.
    #[error(
        "the nodes of this cluster go by versions of {of:?}, so say {} for {target}: known are {}",
        of.at(target.minor).number(),
        of.known()
    )]
    OtherDistribution {
        /// The cluster's distribution.
        of: Distribution,
        /// The requested version.
        target: Release,
    },
}

impl FromStr for Release {
    type Err = TargetError;

    /// Parses `1.27` or `4.14`, optionally with a patch version. The plugin table must cover it.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        // Reject signs and leading zeros.
        let number = |part: &str| {
            let number: u64 = part.parse().ok()?;
            (number.to_string() == part).then_some(number)
        };
        let text = text.strip_prefix('v').unwrap_or(text);
        let numbers: Option<Vec<u64>> = text.split('.').map(number).collect();
        let release = match numbers.as_deref() {
            Some([1, minor] | [1, minor, _]) => Distribution::Kubernetes.at(*minor),
            Some([4, minor] | [4, minor, _]) => {
                Distribution::OpenShift.at(minor.saturating_add(OPENSHIFT_OFFSET))
            }
            _ => return Err(TargetError::Unknown),
        };
        let is_known = KNOWN.contains(&release.minor);
        is_known.then_some(release).ok_or(TargetError::Unknown)
    }
}

/// Parses a version such as `v1.30.4` or `v1.27.3-gke.100`.
#[must_use]
pub fn parse(text: &str) -> Option<Version> {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

/// Returns the highest version, unchanged. Ignores texts that are not versions.
#[must_use]
pub fn highest<'a>(versions: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let parsed = versions.filter_map(|text| Some((parse(text)?, text)));
    parsed
        .max_by(|(left, left_text), (right, right_text)| {
            // Vendor suffixes do not affect precedence, but the result must not depend on the order of nodes.
            let order = left.cmp_precedence(right);
            order.then_with(|| left_text.cmp(right_text))
        })
        .map(|(_, text)| text)
}

/// Whether a kubelet on Windows is too old to see drivers that register after its start.
///
/// Fixed in Kubernetes 1.23.10, 1.24.4 and 1.25.0.
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
    fn a_target_is_a_minor_version_that_the_tables_know() {
        for (text, shown, number) in [
            ("1.23", "Kubernetes 1.23", "1.23"),
            ("v1.27.4", "Kubernetes 1.27", "1.27"),
            ("1.37", "Kubernetes 1.37", "1.37"),
            ("4.10", "OpenShift 4.10", "4.10"),
            ("4.14.2", "OpenShift 4.14", "4.14"),
            ("4.24", "OpenShift 4.24", "4.24"),
        ] {
            let release: Release = text.parse().unwrap();
            assert_eq!(release.to_string(), shown);
            assert_eq!(release.number(), number);
        }
        for text in [
            "",
            "1",
            "1.",
            "1.22",
            "1.38",
            "2.27",
            "4.9",
            "4.25",
            "5.0",
            "1.27.",
            "1.27.x",
            "1.-27",
            "+1.27",
            "1.+27",
            "1.027",
            "01.27",
            "1.27.+4",
            "1.27.04",
            "1.27.1.1",
            "latest",
            "4.18446744073709551615",
        ] {
            let error = text.parse::<Release>().unwrap_err();
            let range = "known are Kubernetes 1.23 to 1.37, and OpenShift 4.10 to 4.24";
            assert_eq!(error.to_string(), range, "{text}");
        }
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
