//! Parses and compares versions of Kubernetes and OpenShift.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use semver::Version;

/// The distribution whose version numbers a cluster uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distribution {
    /// Versions such as `1.27`.
    Kubernetes,
    /// Versions such as `4.14` and `5.0`.
    OpenShift,
}

/// The minor versions of Kubernetes 1 that the plugin table covers.
const KNOWN: RangeInclusive<u64> = 23..=37;
/// OpenShift's versions, and the minor version of the Kubernetes 1 in each. 4.23 is the last 4.x, and the same release as
/// 5.0; there is no 4.24.
///
/// Sources: `KUBELET_GIT_VERSION` in the Makefile of openshift/windows-machine-config-operator at the branches
/// release-4.22, release-4.23 and release-5.0; `normalizeOCPVersion` in openshift/operator-framework-olm;
/// enhancements/ingress/select-haproxy-version.md in openshift/enhancements. For 5.1 nothing is released.
const OPENSHIFT: [(&str, u64); 20] = [
    ("4.5", 18),
    ("4.6", 19),
    ("4.7", 20),
    ("4.8", 21),
    ("4.9", 22),
    ("4.10", 23),
    ("4.11", 24),
    ("4.12", 25),
    ("4.13", 26),
    ("4.14", 27),
    ("4.15", 28),
    ("4.16", 29),
    ("4.17", 30),
    ("4.18", 31),
    ("4.19", 32),
    ("4.20", 33),
    ("4.21", 34),
    ("4.22", 35),
    ("4.23", 36),
    ("5.0", 36),
];

impl Distribution {
    /// Returns the release that contains this minor version of Kubernetes 1.
    pub const fn at(self, minor: u64) -> Release {
        Release {
            distribution: self,
            minor,
            openshift: None,
        }
    }

    /// Returns the versions that the plugin table covers, for messages.
    fn known(self) -> String {
        match self {
            Self::Kubernetes => format!("Kubernetes 1.{} to 1.{}", KNOWN.start(), KNOWN.end()),
            Self::OpenShift => "OpenShift 4.10 to 4.23 and 5.0".to_owned(),
        }
    }
}

/// A minor version of Kubernetes or OpenShift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The distribution.
    pub distribution: Distribution,
    /// The minor version of the Kubernetes 1 that the release contains.
    pub minor: u64,
    /// OpenShift's version where it was given: several contain the same Kubernetes.
    openshift: Option<&'static str>,
}

impl Release {
    /// Returns the version number, such as `1.27` or `4.14`. Where only the Kubernetes in an OpenShift is known, returns all
    /// versions with it: `4.23 or 5.0`.
    pub fn number(self) -> String {
        let number = self.known_number();
        number.unwrap_or_else(|| format!("with Kubernetes 1.{}", self.minor))
    }

    /// Returns the version number, unless it is of an OpenShift that is not known yet.
    fn known_number(self) -> Option<String> {
        match (self.distribution, self.openshift) {
            (Distribution::Kubernetes, _) => Some(format!("1.{}", self.minor)),
            (Distribution::OpenShift, Some(number)) => Some(number.to_owned()),
            (Distribution::OpenShift, None) => {
                let with = OPENSHIFT.iter().filter(|(_, minor)| *minor == self.minor);
                let with: Vec<&str> = with.map(|(number, _)| *number).collect();
                (!with.is_empty()).then(|| with.join(" or "))
            }
        }
    }

    /// Whether this was given as a version 5 of OpenShift.
    pub(crate) fn is_openshift_5(self) -> bool {
        self.openshift
            .is_some_and(|number| number.starts_with("5."))
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
        "the nodes of this cluster go by versions of {of:?}{}: known are {}",
        of.at(target.minor).known_number().map_or_else(String::new, |number| format!(", so say {number} for {target}")),
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

    /// Parses `1.27`, `4.14` or `5.0`, optionally with a patch version. The plugin table must cover it.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        // Reject signs and leading zeros.
        let number = |part: &str| {
            let number: u64 = part.parse().ok()?;
            (number.to_string() == part).then_some(number)
        };
        let text = text.strip_prefix('v').unwrap_or(text);
        let numbers: Option<Vec<u64>> = text.split('.').map(number).collect();
        let Some([major, minor] | [major, minor, _]) = numbers.as_deref() else {
            return Err(TargetError::Unknown);
        };
        if *major == 1 && KNOWN.contains(minor) {
            return Ok(Distribution::Kubernetes.at(*minor));
        }
        let number = format!("{major}.{minor}");
        let mut known = OPENSHIFT.iter().filter(|(_, with)| KNOWN.contains(with));
        let release = known.find(|(known, _)| *known == number);
        let release = release.map(|(number, minor)| Self {
            openshift: Some(number),
            ..Distribution::OpenShift.at(*minor)
        });
        release.ok_or(TargetError::Unknown)
    }
}

/// Parses a version such as `v1.30.4` or `v1.27.3-gke.100`.
pub fn parse(text: &str) -> Option<Version> {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

/// Returns the highest version, unchanged. Ignores texts that are not versions.
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
        for (text, minor, shown, number) in [
            ("1.23", 23, "Kubernetes 1.23", "1.23"),
            ("v1.27.4", 27, "Kubernetes 1.27", "1.27"),
            ("1.37", 37, "Kubernetes 1.37", "1.37"),
            ("4.10", 23, "OpenShift 4.10", "4.10"),
            ("4.14.2", 27, "OpenShift 4.14", "4.14"),
            ("4.22", 35, "OpenShift 4.22", "4.22"),
            ("4.23", 36, "OpenShift 4.23", "4.23"),
            ("5.0", 36, "OpenShift 5.0", "5.0"),
            ("v5.0.3", 36, "OpenShift 5.0", "5.0"),
        ] {
            let release: Release = text.parse().unwrap();
            assert_eq!(release.minor, minor, "{text}");
            assert_eq!(release.to_string(), shown);
            assert_eq!(release.number(), number);
            assert_eq!(release.is_openshift_5(), number == "5.0", "{text}");
        }
        for text in [
            "",
            "1",
            "1.",
            "1.22",
            "1.38",
            "2.27",
            "4.9",
            "4.24",
            "4.25",
            "4.023",
            "5",
            "5.",
            "5.1",
            "5.10",
            "05.0",
            "5.00",
            "5.0.03",
            "5.0.3.1",
            "50.0",
            "6.0",
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
            let range = "known are Kubernetes 1.23 to 1.37, and OpenShift 4.10 to 4.23 and 5.0";
            assert_eq!(error.to_string(), range, "{text}");
        }
    }

    #[test]
    fn the_openshift_of_a_kubernetes_is_named_as_far_as_it_is_known() {
        for (minor, shown) in [
            (18, "OpenShift 4.5"),
            (23, "OpenShift 4.10"),
            (35, "OpenShift 4.22"),
            (36, "OpenShift 4.23 or 5.0"),
            (37, "OpenShift with Kubernetes 1.37"),
            (99, "OpenShift with Kubernetes 1.99"),
        ] {
            let release = Distribution::OpenShift.at(minor);
            assert_eq!(release.to_string(), shown);
            assert!(!release.is_openshift_5(), "{minor}");
        }
        assert_eq!(
            Distribution::Kubernetes.at(99).to_string(),
            "Kubernetes 1.99"
        );
    }
}
