//! The in-tree volume plugins and the CSI drivers that take over from them.
//!
//! Source: Kubernetes, `k8s.io/csi-translation-lib` and the removed plugins' API documentation.

/// An in-tree volume plugin.
#[derive(Debug, PartialEq, Eq)]
pub struct Plugin {
    /// Its name, which is a StorageClass's provisioner as well.
    pub name: &'static str,
    /// Its field in a `PersistentVolume`'s spec and in a Pod's volume.
    pub field: &'static str,
    /// The CSI driver to which its volumes are redirected; `None` where no driver takes over.
    pub driver: Option<&'static str>,
}

const fn redirected(name: &'static str, field: &'static str, driver: &'static str) -> Plugin {
    Plugin {
        name,
        field,
        driver: Some(driver),
    }
}

const fn abandoned(name: &'static str, field: &'static str) -> Plugin {
    Plugin {
        name,
        field,
        driver: None,
    }
}

/// All in-tree plugins that can hold an upgrade. Types such as nfs, iscsi, fc and hostPath stay in Kubernetes.
pub static PLUGINS: [Plugin; 14] = [
    redirected(
        "kubernetes.io/aws-ebs",
        "awsElasticBlockStore",
        "ebs.csi.aws.com",
    ),
    redirected(
        "kubernetes.io/azure-disk",
        "azureDisk",
        "disk.csi.azure.com",
    ),
    redirected(
        "kubernetes.io/azure-file",
        "azureFile",
        "file.csi.azure.com",
    ),
    redirected(
        "kubernetes.io/gce-pd",
        "gcePersistentDisk",
        "pd.csi.storage.gke.io",
    ),
    redirected("kubernetes.io/cinder", "cinder", "cinder.csi.openstack.org"),
    redirected(
        "kubernetes.io/vsphere-volume",
        "vsphereVolume",
        "csi.vsphere.vmware.com",
    ),
    redirected(
        "kubernetes.io/portworx-volume",
        "portworxVolume",
        "pxd.portworx.com",
    ),
    abandoned("kubernetes.io/rbd", "rbd"),
    abandoned("kubernetes.io/cephfs", "cephfs"),
    abandoned("kubernetes.io/glusterfs", "glusterfs"),
    abandoned("kubernetes.io/flocker", "flocker"),
    abandoned("kubernetes.io/quobyte", "quobyte"),
    abandoned("kubernetes.io/storageos", "storageos"),
    abandoned("kubernetes.io/scaleio", "scaleIO"),
];

/// CSI drivers that are known to have a node side for Windows.
pub static WINDOWS_DRIVERS: [&str; 6] = [
    "csi.vsphere.vmware.com",
    "smb.csi.k8s.io",
    "disk.csi.azure.com",
    "file.csi.azure.com",
    "pd.csi.storage.gke.io",
    "ebs.csi.aws.com",
];

/// The plugin whose field that is.
#[must_use]
pub fn by_field(field: &str) -> Option<&'static Plugin> {
    PLUGINS.iter().find(|plugin| plugin.field == field)
}

/// The plugin of that name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Plugin> {
    PLUGINS.iter().find(|plugin| plugin.name == name)
}

/// Whether a table of this program knows the name as that of a CSI driver.
#[must_use]
pub fn is_known_driver(name: &str) -> bool {
    WINDOWS_DRIVERS.contains(&name) || PLUGINS.iter().any(|plugin| plugin.driver == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plugin_is_found_by_its_field_and_by_its_name() {
        for plugin in &PLUGINS {
            assert_eq!(by_field(plugin.field), Some(plugin));
            assert_eq!(by_name(plugin.name), Some(plugin));
        }
    }

    #[test]
    fn types_that_stay_in_kubernetes_are_not_plugins() {
        for field in [
            "nfs",
            "iscsi",
            "fc",
            "hostPath",
            "local",
            "emptyDir",
            "flexVolume",
            "csi",
        ] {
            assert_eq!(by_field(field), None, "{field}");
        }
    }
}
