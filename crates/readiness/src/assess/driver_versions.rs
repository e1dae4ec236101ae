//! The Kubernetes versions that each driver version supports, from the vendors' documentation.
//!
//! A driver, or a version of it, without documentation is not listed and not judged. The table does not apply to OpenShift,
//! which ships its own builds with its own versions: vSphere 3.3 ends at 1.30 here, but comes with OpenShift's 1.32.
//!
//! Sources: the READMEs of the SMB driver and the two Azure drivers at each release; docs/install.md of the EBS driver. For
//! vSphere, its release notes; for 3.1, kubernetes-sigs/kubespray#10451; for 3.6, 3.7 and the lower bound of 3.5,
//! vsphere-tmm/helm-charts#106; before 3.0, artifacts/compatibility-yaml of
//! vmware-tanzu/vsphere-kubernetes-drivers-operator; for OpenShift, the branches of openshift/vmware-vsphere-csi-driver.
//! GCE's README only recommends.

use std::fmt;
use std::ops::RangeInclusive;

use crate::assess::drivers::VSPHERE;

/// The major and minor version of a driver.
pub type Version = (u64, u64);

/// The minor versions of Kubernetes 1 that a driver version supports, where documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supported {
    /// The first supported version.
    pub least: Option<u64>,
    /// The last supported version.
    pub most: Option<u64>,
}

/// A driver, a range of its versions, and what they support.
pub type Row = (&'static str, RangeInclusive<Version>, Supported);

const fn since(least: u64) -> Supported {
    Supported {
        least: Some(least),
        most: None,
    }
}

const fn until(most: u64) -> Supported {
    Supported {
        least: None,
        most: Some(most),
    }
}

const fn within(least: u64, most: u64) -> Supported {
    Supported {
        least: Some(least),
        most: Some(most),
    }
}

const fn vsphere(version: Version, supported: Supported) -> Row {
    (VSPHERE, version..=version, supported)
}

/// The documented versions.
pub const ROWS: [Row; 16] = [
    ("ebs.csi.aws.com", (1, 12)..=(1, 64), since(20)),
    ("disk.csi.azure.com", (1, 22)..=(1, 34), since(21)),
    ("file.csi.azure.com", (1, 22)..=(1, 35), since(21)),
    ("smb.csi.k8s.io", (1, 10)..=(1, 20), since(21)),
    vsphere((2, 5), within(21, 23)),
    vsphere((2, 6), within(22, 24)),
    vsphere((2, 7), within(23, 25)),
    vsphere((3, 0), until(27)),
    vsphere((3, 1), until(28)),
    vsphere((3, 2), until(29)),
    vsphere((3, 3), within(27, 30)),
    vsphere((3, 4), until(32)),
    vsphere((3, 5), within(31, 33)),
    vsphere((3, 6), within(32, 34)),
    vsphere((3, 7), within(33, 35)),
    vsphere((3, 8), within(34, 36)),
];

/// Returns what a driver version supports, if documented.
#[must_use]
pub fn of(driver: &str, version: Version) -> Option<Supported> {
    let mut rows = ROWS.iter();
    let (.., supported) =
        rows.find(|(name, versions, _)| *name == driver && versions.contains(&version))?;
    Some(*supported)
}

/// Returns the driver versions that are documented to support this minor version of Kubernetes 1.
pub fn made_for(driver: &str, minor: u64) -> impl Iterator<Item = Version> {
    ROWS.iter()
        .filter(move |(name, ..)| *name == driver)
        .filter(move |(.., supported)| supported.names(minor))
        .map(|(_, versions, _)| *versions.end())
}

impl Supported {
    /// Whether no documentation rules out this minor version.
    #[must_use]
    pub fn allows(self, minor: u64) -> bool {
        self.least.is_none_or(|least| least <= minor) && self.most.is_none_or(|most| minor <= most)
    }

    /// Whether the documentation names this minor version. Of a range without a lower bound, only the upper bound counts.
    fn names(self, minor: u64) -> bool {
        self.allows(minor) && (self.least.is_some() || self.most == Some(minor))
    }
}

impl fmt::Display for Supported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (Some(least), Some(most)) => write!(f, "1.{least} to 1.{most}"),
            (Some(least), None) => write!(f, "1.{least} and later"),
            (None, Some(most)) => write!(f, "1.{most} and before"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::drivers;

    #[test]
    fn rows_are_of_known_drivers_and_do_not_overlap() {
        for (nth, (driver, versions, supported)) in ROWS.iter().enumerate() {
            assert!(drivers::by_name(driver).is_some(), "{driver}");
            assert!(!versions.is_empty(), "{driver} {versions:?}");
            let ends = supported.least.zip(supported.most);
            assert!(ends.is_none_or(|(least, most)| least <= most));
            let later = &ROWS[nth + 1..];
            let overlaps =
                |(other, next, _): &&Row| other == driver && next.start() <= versions.end();
            assert_eq!(later.iter().find(overlaps), None, "{driver} {versions:?}");
        }
    }

    #[test]
    fn a_version_allows_what_nothing_speaks_against() {
        let allowed = |driver: &str, version, minor| of(driver, version).map(|it| it.allows(minor));
        assert_eq!(allowed(VSPHERE, (3, 3), 26), Some(false));
        assert_eq!(allowed(VSPHERE, (3, 3), 27), Some(true));
        assert_eq!(allowed(VSPHERE, (3, 3), 30), Some(true));
        assert_eq!(allowed(VSPHERE, (3, 3), 31), Some(false));
        assert_eq!(allowed(VSPHERE, (3, 2), 24), Some(true));
        assert_eq!(allowed(VSPHERE, (3, 2), 30), Some(false));
        assert_eq!(allowed(VSPHERE, (3, 9), 24), None);
        assert_eq!(allowed("smb.csi.k8s.io", (1, 19), 20), Some(false));
        assert_eq!(allowed("smb.csi.k8s.io", (1, 19), 99), Some(true));
        assert_eq!(allowed("pd.csi.storage.gke.io", (1, 26), 24), None);
    }

    #[test]
    fn the_versions_for_a_kubernetes_are_those_that_are_known_to_be() {
        let made_for = |minor| made_for(VSPHERE, minor).collect::<Vec<_>>();
        assert_eq!(made_for(33), [(3, 5), (3, 6), (3, 7)]);
        // 3.0 to 3.2 and 3.4 may support it too, but their lower bounds are not documented.
        assert_eq!(made_for(27), [(3, 0), (3, 3)]);
        assert!(made_for(37).is_empty());
    }
}
