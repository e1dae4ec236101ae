//! The CSI drivers that are known to have a node side for Windows.
//!
//! Sources: the drivers' own manifests for Windows nodes.

/// What is known of a driver's node side for Windows.
#[derive(Debug, PartialEq, Eq)]
pub struct WindowsDriver {
    /// The driver's name.
    pub name: &'static str,
    /// The DaemonSet in its own manifests, as `namespace/name`.
    pub daemon_set: &'static str,
    /// How the repositories of its image end.
    images: &'static [&'static str],
}

/// All of them.
pub static WINDOWS_DRIVERS: [WindowsDriver; 6] = [
    WindowsDriver {
        name: VSPHERE,
        daemon_set: "vmware-system-csi/vsphere-csi-node-windows",
        images: &[
            "csi-vsphere/driver",
            "cloud-provider-vsphere/csi/release/driver",
        ],
    },
    WindowsDriver {
        name: "smb.csi.k8s.io",
        daemon_set: "kube-system/csi-smb-node-win",
        images: &["smbplugin"],
    },
    WindowsDriver {
        name: "disk.csi.azure.com",
        daemon_set: "kube-system/csi-azuredisk-node-win",
        images: &["azuredisk-csi"],
    },
    WindowsDriver {
        name: "file.csi.azure.com",
        daemon_set: "kube-system/csi-azurefile-node-win",
        images: &["azurefile-csi"],
    },
    WindowsDriver {
        name: "pd.csi.storage.gke.io",
        daemon_set: "gce-pd-csi-driver/csi-gce-pd-node-win",
        images: &["gcp-compute-persistent-disk-csi-driver"],
    },
    WindowsDriver {
        name: "ebs.csi.aws.com",
        daemon_set: "kube-system/ebs-csi-node-windows",
        images: &["aws-ebs-csi-driver"],
    },
];

/// The vSphere driver, which has a switch for Windows.
pub const VSPHERE: &str = "csi.vsphere.vmware.com";

/// Containers that stand beside every driver and have versions of their own.
const SIDECARS: [&str; 3] = ["csi-node-driver-registrar", "livenessprobe", "csi-proxy"];

/// What is known of that driver.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static WindowsDriver> {
    WINDOWS_DRIVERS.iter().find(|driver| driver.name == name)
}

/// The drivers whose image is in that repository.
pub fn of_image(repository: &str) -> impl Iterator<Item = &'static str> {
    let is_in = move |image: &&str| {
        repository
            .strip_suffix(*image)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    WINDOWS_DRIVERS
        .iter()
        .filter(move |driver| driver.images.iter().any(&is_in))
        .map(|driver| driver.name)
}

/// Whether the last part of an image's name is that of a usual sidecar.
#[must_use]
pub fn is_sidecar(image: &str) -> bool {
    SIDECARS.contains(&image)
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
    }
}
