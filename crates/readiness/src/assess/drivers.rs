//! The CSI drivers known to support Windows nodes.
//!
//! Sources: the drivers' own manifests for Windows nodes.

use crate::index::Image;

/// A driver's node side for Windows.
#[derive(Debug, PartialEq, Eq)]
pub struct WindowsDriver {
    /// The driver's name.
    pub name: &'static str,
    /// The DaemonSet in the driver's own manifests, as `namespace/name`.
    pub daemon_set: &'static str,
    /// The repository with those manifests.
    pub home: &'static str,
    /// The suffixes of the driver's image repositories: upstream's, then OpenShift's.
    images: &'static [&'static str],
    /// The last part of upstream's image name, and the first version known to work without csi-proxy in HostProcess
    /// containers, if any. OpenShift's images have other versions and still use the pipes.
    without_csi_proxy: Option<(&'static str, (u64, u64))>,
}

macro_rules! drivers {
    ($($name:expr, $daemon_set:literal, $home:literal, $images:expr, $without_csi_proxy:expr;)+) => {
        [$(WindowsDriver {
            name: $name,
            daemon_set: $daemon_set,
            home: concat!("https://github.com/", $home),
            images: &$images,
            without_csi_proxy: $without_csi_proxy,
        }),+]
    };
}

/// All known drivers.
pub static WINDOWS_DRIVERS: [WindowsDriver; 6] = drivers! {
    VSPHERE, "vmware-system-csi/vsphere-csi-node-windows", "kubernetes-sigs/vsphere-csi-driver",
        ["csi-vsphere/driver", "cloud-provider-vsphere/csi/release/driver", "vmware-vsphere-csi-driver"], Some(("driver", (3, 5)));
    "smb.csi.k8s.io", "kube-system/csi-smb-node-win", "kubernetes-csi/csi-driver-smb",
        ["smbplugin", "smb-csi-driver"], Some(("smbplugin", (1, 17)));
    "disk.csi.azure.com", "kube-system/csi-azuredisk-node-win", "kubernetes-sigs/azuredisk-csi-driver",
        ["azuredisk-csi", "azure-disk-csi-driver"], Some(("azuredisk-csi", (1, 14)));
    "file.csi.azure.com", "kube-system/csi-azurefile-node-win", "kubernetes-sigs/azurefile-csi-driver",
        ["azurefile-csi", "azure-file-csi-driver"], Some(("azurefile-csi", (1, 28)));
    "pd.csi.storage.gke.io", "gce-pd-csi-driver/csi-gce-pd-node-win",
        "kubernetes-sigs/gcp-compute-persistent-disk-csi-driver",
        ["gcp-compute-persistent-disk-csi-driver", "gcp-pd-csi-driver"], None;
    "ebs.csi.aws.com", "kube-system/ebs-csi-node-windows", "kubernetes-sigs/aws-ebs-csi-driver",
        ["aws-ebs-csi-driver"], None;
};

/// The vSphere driver, which has a feature switch for Windows.
pub const VSPHERE: &str = "csi.vsphere.vmware.com";

impl WindowsDriver {
    /// Whether an image with [this name](image_name) belongs to the driver.
    #[must_use]
    pub fn is_image(&self, name: &str) -> bool {
        self.images.iter().any(|image| image_name(image) == name)
    }
}

/// Sidecars that many drivers share. Their versions say nothing about the driver.
const SIDECARS: [&str; 6] = [
    "csi-node-driver-registrar",
    "csi-livenessprobe",
    "livenessprobe",
    "csi-proxy",
    "csi-provisioner",
    "kube-rbac-proxy",
];
/// The prefix and the suffix (followed by a number) of OpenShift's image names.
const OPENSHIFT_PREFIX: &str = "ose-";
const OPENSHIFT_SUFFIX: &str = "-rhel";

/// Returns the driver with this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static WindowsDriver> {
    WINDOWS_DRIVERS.iter().find(|driver| driver.name == name)
}

/// Whether a driver's image is known to work without csi-proxy in HostProcess containers. False for an image without a
/// version.
#[must_use]
pub fn does_without_csi_proxy(driver: &str, image: Option<&Image>) -> bool {
    let known = by_name(driver).and_then(|driver| driver.without_csi_proxy);
    matches!((known, image), (Some((name, since)), Some(image)) if image.name == name && image.version >= since)
}

/// Returns the drivers whose image has this repository.
pub fn of_image(repository: &str) -> impl Iterator<Item = &'static str> + Clone {
    let repository = without_release(repository);
    let is_in = move |image: &&str| {
        repository
            .strip_suffix(*image)
            .map(|rest| rest.strip_suffix(OPENSHIFT_PREFIX).unwrap_or(rest))
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    WINDOWS_DRIVERS
        .iter()
        .filter(move |driver| driver.images.iter().any(&is_in))
        .map(|driver| driver.name)
}

/// Returns the last part of an image's repository, without OpenShift's prefix and suffix.
#[must_use]
pub fn image_name(repository: &str) -> &str {
    let repository = without_release(repository);
    let name = repository.rsplit('/').next().unwrap_or(repository);
    name.strip_prefix(OPENSHIFT_PREFIX).unwrap_or(name)
}

fn without_release(repository: &str) -> &str {
    match repository.rsplit_once(OPENSHIFT_SUFFIX) {
        Some((name, release))
            if !release.is_empty() && release.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            name
        }
        _ => repository,
    }
}

/// Whether an image with [this name](image_name) is a common sidecar.
#[must_use]
pub fn is_sidecar(name: &str) -> bool {
    SIDECARS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_the_end_of_its_repository() {
        let of = |repository| of_image(repository).collect::<Vec<_>>();
        assert_eq!(of("registry.k8s.io/csi-vsphere/driver"), [VSPHERE]);
        assert_eq!(of("smbplugin"), ["smb.csi.k8s.io"]);
        assert!(of("example.com/notsmbplugin").is_empty());
        assert!(of("example.com/driver").is_empty());
        let openshift = "registry.redhat.io/openshift4/ose-azure-disk-csi-driver-rhel9";
        assert_eq!(of(openshift), ["disk.csi.azure.com"]);
        assert_eq!(of("ose-vmware-vsphere-csi-driver"), [VSPHERE]);
        assert!(of("openshift4/ose-azure-disk-csi-driver-operator-rhel9").is_empty());
        assert!(of("openshift4/ose-azure-disk-csi-driver-rhel").is_empty());
        assert!(of("quay.io/openshift-release-dev/ocp-v4.0-art-dev").is_empty());
        assert!(is_sidecar(image_name("x/ose-csi-livenessprobe-rhel9")));
    }
}
