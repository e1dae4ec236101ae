//! The in-tree volume plugins and the CSI drivers that take over from them.
//!
//! Source: Kubernetes, `k8s.io/csi-translation-lib` and the removed plugins' API documentation.

use crate::assess::drivers;

/// An in-tree volume plugin.
#[derive(Debug, PartialEq, Eq)]
pub struct Plugin {
    /// Its name, which is a StorageClass's provisioner as well.
    pub name: &'static str,
    /// Its field in a `PersistentVolume`'s spec and in a Pod's volume.
    pub field: &'static str,
    /// The CSI driver to which its volumes are redirected; `None` where no driver takes over.
    pub driver: Option<&'static str>,
    /// From which minor version of Kubernetes 1 on Windows nodes are better served by the driver. For the first five
    /// drivers of table 1 of the Windows Machine Config Operator 9 article that is its first column with CSI, for the
    /// others the version in which the redirection became generally available.
    pub csi_from: u64,
    /// The minor version of Kubernetes 1 that has the plugin no more.
    pub removed_in: u64,
}

macro_rules! plugins {
    ($($name:literal, $field:literal, $driver:expr, $csi_from:literal, $removed_in:literal;)+) => {
        [$(Plugin {
            name: concat!("kubernetes.io/", $name),
            field: $field,
            driver: $driver,
            csi_from: $csi_from,
            removed_in: $removed_in,
        }),+]
    };
}

/// All in-tree plugins that can hold an upgrade. Types such as nfs, iscsi, fc and hostPath stay in Kubernetes.
pub static PLUGINS: [Plugin; 14] = plugins! {
    "aws-ebs", "awsElasticBlockStore", Some("ebs.csi.aws.com"), 25, 27;
    "azure-disk", "azureDisk", Some("disk.csi.azure.com"), 25, 27;
    "azure-file", "azureFile", Some("file.csi.azure.com"), 26, 30;
    "gce-pd", "gcePersistentDisk", Some("pd.csi.storage.gke.io"), 25, 28;
    "cinder", "cinder", Some("cinder.csi.openstack.org"), 24, 26;
    "vsphere-volume", "vsphereVolume", Some("csi.vsphere.vmware.com"), 26, 30;
    "portworx-volume", "portworxVolume", Some("pxd.portworx.com"), 33, 36;
    "rbd", "rbd", None, 31, 31;
    "cephfs", "cephfs", None, 31, 31;
    "glusterfs", "glusterfs", None, 26, 26;
    "flocker", "flocker", None, 25, 25;
    "quobyte", "quobyte", None, 25, 25;
    "storageos", "storageos", None, 25, 25;
    "scaleio", "scaleIO", None, 22, 22;
};

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
    drivers::by_name(name).is_some() || PLUGINS.iter().any(|plugin| plugin.driver == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_known_from_either_table_by_its_whole_name() {
        for known in ["disk.csi.azure.com", "smb.csi.k8s.io"] {
            assert!(is_known_driver(known), "{known}");
        }
        for plugin in &PLUGINS {
            assert!(plugin.driver.is_none_or(is_known_driver), "{}", plugin.name);
        }
        for unknown in ["", "csi", "example.com/nfs", "kubernetes.io/azure-disk"] {
            assert!(!is_known_driver(unknown), "{unknown}");
        }
    }
}
