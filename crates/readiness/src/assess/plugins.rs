//! The in-tree volume plugins and the CSI drivers that take over their volumes.
//!
//! Source: Kubernetes, `k8s.io/csi-translation-lib` and the removed plugins' API documentation.

use std::fmt;

use crate::assess::drivers;
use crate::assess::versions::{Distribution, Release};

/// An in-tree volume plugin. Versions are Kubernetes 1 minor versions.
#[derive(PartialEq, Eq, Hash)]
pub struct Plugin {
    /// The plugin's name, which is also a StorageClass's provisioner.
    pub name: &'static str,
    /// The plugin's field in a `PersistentVolume`'s spec and in a Pod's volume.
    pub field: &'static str,
    /// The CSI driver that the volumes are redirected to; `None` if no driver takes over.
    pub driver: Option<&'static str>,
    /// The first version that redirects volumes unless an administrator disables it: `CSIMigration…` is on by default.
    redirected_from: u64,
    /// The same for OpenShift, which sets the feature gates itself.
    openshift_from: u64,
    /// The first version that always redirects volumes: the feature gate is locked.
    pub always_from: u64,
    /// The first version without the plugin.
    pub removed_in: u64,
}

/// Its name alone: a row refers to it, and is measured by what it shows.
impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Plugin {
    /// Returns the first release that redirects volumes by default, or without a driver, the first release without the
    /// plugin.
    pub fn redirected_from(&self, distribution: Distribution) -> Release {
        let minor = match distribution {
            Distribution::Kubernetes => self.redirected_from,
            Distribution::OpenShift => self.openshift_from,
        };
        distribution.at(minor)
    }

    /// Whether a release by default redirects volumes or no longer has the plugin.
    pub fn is_redirected_at(&self, release: Release) -> bool {
        release.minor >= self.redirected_from(release.distribution).minor
    }

    /// Returns the first release that takes the volumes from the plugin, which serves them today. If kubelets do not
    /// redirect them (`noted`) although that is the default, an administrator has turned it off, which is possible until
    /// it is locked.
    pub(crate) fn lost_at(&self, today: Release, noted: Option<bool>) -> Release {
        if noted == Some(false) && self.is_redirected_at(today) {
            today.distribution.at(self.always_from)
        } else {
            self.redirected_from(today.distribution)
        }
    }

    /// Whether a release no longer has the plugin.
    pub(crate) fn is_gone_at(&self, release: Release) -> bool {
        release.minor >= self.removed_in
    }
}

macro_rules! plugins {
    ($($name:literal, $field:literal, $driver:expr, $redirected:literal, $openshift:literal, $always:literal, $removed:literal;)+) => {
        [$(Plugin {
            name: concat!("kubernetes.io/", $name),
            field: $field,
            driver: $driver,
            redirected_from: $redirected,
            openshift_from: $openshift,
            always_from: $always,
            removed_in: $removed,
        }),+]
    };
}

/// All in-tree plugins that can hold an upgrade. Types such as nfs, iscsi, fc and hostPath stay in Kubernetes.
///
/// Sources: for Kubernetes, the feature gates in `pkg/features/kube_features.go` and the folders in `pkg/volume` of the
/// module `k8s.io/kubernetes`, from 1.22.17 to 1.37.2. For OpenShift, table 1 of the article on storage in the Windows
/// Machine Config Operator 9; plugins that are not in the table follow Kubernetes. A plugin without a driver counts as
/// redirected when it is removed.
pub static PLUGINS: [Plugin; 14] = plugins! {
    // CSIMigrationAWS: on at 1.23.17, locked at 1.25.16; plugin removed at 1.27.16. Table 1: CSI from OpenShift 4.12.
    "aws-ebs", "awsElasticBlockStore", Some("ebs.csi.aws.com"), 23, 25, 25, 27;
    // CSIMigrationAzureDisk: on at 1.23.17, GA at 1.24.17 but not locked before 1.25.16; removed at 1.27.16. Table 1: from
    // 4.12.
    "azure-disk", "azureDisk", Some("disk.csi.azure.com"), 23, 25, 25, 27;
    // CSIMigrationAzureFile: on at 1.24.17, GA at 1.26.15 but not locked before 1.27.16; removed at 1.30.14. Table 1: from
    // 4.13.
    "azure-file", "azureFile", Some("file.csi.azure.com"), 24, 26, 27, 30;
    // CSIMigrationGCE: on at 1.23.17, locked at 1.25.16; removed at 1.28.15. Table 1: from 4.12.
    "gce-pd", "gcePersistentDisk", Some("pd.csi.storage.gke.io"), 23, 25, 25, 28;
    // CSIMigrationOpenStack: on at 1.22.17 (since 1.18 per the gate's documentation); locked at 1.24.17; removed at
    // 1.26.15.
    "cinder", "cinder", Some("cinder.csi.openstack.org"), 18, 18, 24, 26;
    // CSIMigrationvSphere: off at 1.24.17, on at 1.25.16, GA at 1.26.15 but not locked before 1.27.16; removed at 1.30.14.
    // Table 1: from 4.13.
    "vsphere-volume", "vsphereVolume", Some("csi.vsphere.vmware.com"), 25, 26, 27, 30;
    // CSIMigrationPortworx: off at 1.30.14, on at 1.31.14, locked at 1.33.13; removed at 1.36.3.
    "portworx-volume", "portworxVolume", Some("pxd.portworx.com"), 31, 31, 33, 36;
    // CSIMigrationRBD was never on by default and was removed with the plugin: present at 1.30.14, removed at 1.31.14.
    "rbd", "rbd", None, 31, 31, 31, 31;
    // Present at 1.30.14, removed at 1.31.14.
    "cephfs", "cephfs", None, 31, 31, 31, 31;
    // Present at 1.25.16, removed at 1.26.15.
    "glusterfs", "glusterfs", None, 26, 26, 26, 26;
    // These three: present at 1.24.17, removed at 1.25.16.
    "flocker", "flocker", None, 25, 25, 25, 25;
    "quobyte", "quobyte", None, 25, 25, 25, 25;
    "storageos", "storageos", None, 25, 25, 25, 25;
    // Removed at 1.22.17.
    "scaleio", "scaleIO", None, 22, 22, 22, 22;
};

/// The plugin of Azure disks. Its driver takes over only those that are managed.
pub const AZURE_DISK: &str = "kubernetes.io/azure-disk";

/// Returns the plugin with this field.
pub(crate) fn by_field(field: &str) -> Option<&'static Plugin> {
    PLUGINS.iter().find(|plugin| plugin.field == field)
}

/// Returns the plugin with this name.
pub fn by_name(name: &str) -> Option<&'static Plugin> {
    PLUGINS.iter().find(|plugin| plugin.name == name)
}

/// Whether a built-in table lists a CSI driver with this name.
pub(crate) fn is_known_driver(name: &str) -> bool {
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
