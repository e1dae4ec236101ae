//! What to do next: in-tree or CSI at this version, and how to move data that no driver takes over.
//!
//! Sources: table 1 of the article on storage in the Windows Machine Config Operator 9; Kubernetes' own migration
//! table; the vSphere driver's notes on redirected volumes.

use std::fmt::Write;

use crate::assess::codes;
use crate::assess::plugins::Plugin;
use crate::assess::report::Finding;
use crate::assess::versions;
use crate::assess::volumes::Resolved;
use crate::index::{Cluster, WorkloadKey};

/// OpenShift 4.N is Kubernetes 1.(N + 13).
const OPENSHIFT_OFFSET: u64 = 13;
/// The first OpenShift of the table.
const FIRST_OPENSHIFT: u64 = 10;
const VSPHERE_PLUGIN: &str = "kubernetes.io/vsphere-volume";
const VSPHERE_VERSIONS: &str = " Redirected vSphere volumes need vCenter and ESXi 7.0.3-21424296 or 8.0.1-22088125, \
                                or later; without them OpenShift asks for an acknowledgement before it upgrades.";

/// In-tree or CSI for the volumes of that plugin, at that version of the cluster.
#[must_use]
pub fn recommend(plugin: &Plugin, kubernetes_version: &str) -> Option<Finding> {
    let driver = plugin.driver?;
    let (1, minor) = versions::minor(kubernetes_version)? else {
        return None;
    };
    let version = named(minor);
    let Plugin {
        name,
        csi_from,
        removed_in,
        ..
    } = plugin;
    let is_vsphere = *name == VSPHERE_PLUGIN;
    let (code, mut message) = if minor >= *removed_in {
        (
            codes::PLUGIN_REMOVED,
            format!(
                "{version} has no in-tree plugin {name} any more: its volumes work on a Windows node only where \
                 {driver} is registered. See that the driver is on every Windows node."
            ),
        )
    } else if is_vsphere && minor == *csi_from {
        (
            codes::CSI_OPT_IN,
            format!(
                "at {version} volumes of {name} are redirected to {driver}; only an OpenShift cluster that was upgraded \
                 to it has to opt in. Deploy the driver on every Windows node first, then opt in (oc patch storage \
                 cluster --type merge -p '{{\"spec\":{{\"vsphereStorageDriver\":\"CSIWithMigrationDriver\"}}}}')."
            ),
        )
    } else if minor >= *csi_from {
        (
            codes::CSI_RECOMMENDED,
            format!(
                "at {version} use {driver} for volumes of {name}: the plugin is gone from {}. Have the driver on every \
                 Windows node before you upgrade to that.",
                named(*removed_in)
            ),
        )
    } else {
        (
            codes::IN_TREE_RECOMMENDED,
            format!(
                "at {version} stay with the in-tree plugin {name}; {driver} is for {} and later. Deploy it before you \
                 upgrade to that.",
                named(*csi_from)
            ),
        )
    };
    if is_vsphere && minor + 1 >= *csi_from {
        message.push_str(VSPHERE_VERSIONS);
    }
    Some(Finding::new(code, format!("CSIDriver/{driver}"), message))
}

fn named(minor: u64) -> String {
    match minor.checked_sub(OPENSHIFT_OFFSET) {
        Some(openshift) if openshift >= FIRST_OPENSHIFT => {
            format!("Kubernetes 1.{minor} (OpenShift 4.{openshift})")
        }
        _ => format!("Kubernetes 1.{minor}"),
    }
}

/// How to move the data of a volume that no driver takes over.
#[must_use]
pub fn move_data(cluster: &Cluster, workload: &WorkloadKey, volume: &Resolved) -> Option<Finding> {
    let plugin = volume.plugin().filter(|plugin| plugin.driver.is_none())?;
    let namespace = &workload.object.namespace;
    let (object, old) = match &volume.claim {
        Some(claim) => (
            format!("PersistentVolumeClaim/{namespace}/{claim}"),
            format!("claim {claim}"),
        ),
        None => (
            workload.to_string(),
            format!("volume {} of {workload}", volume.volume),
        ),
    };
    let removed_in = plugin.removed_in;
    let mut message = format!(
        "no CSI driver takes over from {} (gone from Kubernetes 1.{removed_in}), and Windows nodes never could mount it, \
         so the data of the {old} has to move: make a new claim with the class of a driver that Linux and Windows \
         share, such as smb.csi.k8s.io; copy in a Linux pod that mounts both, as pv-migrate does (it cannot mount NTFS), \
         on a node with a kubelet before 1.{removed_in}; then let the workload use the new claim. A VolumeSnapshot needs \
         a CSI driver on the old volume, which there is not.",
        plugin.name
    );
    let lost_with_claim = volume
        .persistent_volume
        .as_ref()
        .and_then(|name| Some((name, cluster.volumes.get(name)?)))
        .filter(|(_, persistent_volume)| persistent_volume.goes_with_claim);
    if let Some((name, _)) = lost_with_claim {
        // Writing to a String does not fail.
        let _ = write!(
            message,
            " Warning: PersistentVolume {name} has the reclaim policy Delete: its data is lost when the claim is \
             deleted. Keep it first: kubectl patch pv {name} -p \
             '{{\"spec\":{{\"persistentVolumeReclaimPolicy\":\"Retain\"}}}}'"
        );
    }
    Some(Finding::new(codes::DATA_MUST_MOVE, object, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::plugins;

    #[test]
    fn the_recommendation_follows_the_tables() {
        let code = |plugin: &str, version: &str| {
            let plugin = plugins::by_name(plugin).unwrap();
            recommend(plugin, version).map(|finding| finding.code)
        };
        // OpenShift 4.10 to 4.14
        let table = [
            ("aws-ebs", "InTree InTree CSI CSI Removed"),
            ("azure-disk", "InTree InTree CSI CSI Removed"),
            ("azure-file", "InTree InTree InTree CSI CSI"),
            ("gce-pd", "InTree InTree CSI CSI CSI"),
            ("vsphere-volume", "InTree InTree InTree OptIn CSI"),
        ];
        for (plugin, columns) in table {
            let plugin = &format!("kubernetes.io/{plugin}");
            for (minor, expected) in (23..).zip(columns.split(' ')) {
                let expected = match expected {
                    "InTree" => "InTreeRecommended",
                    "CSI" => "CSIRecommended",
                    "OptIn" => "CSIOptIn",
                    _ => "PluginRemoved",
                };
                let version = format!("v1.{minor}.3+abc");
                let found = code(plugin, &version);
                assert_eq!(found.as_deref(), Some(expected), "{plugin} {version}");
            }
            assert_eq!(code(plugin, "v1.33.0").as_deref(), Some("PluginRemoved"));
        }
        assert_eq!(code("kubernetes.io/rbd", "v1.27.0"), None);
        // Not a version that the table has, nor one of OpenShift that it has.
        let named = |version: &str| {
            let plugin = plugins::by_name("kubernetes.io/aws-ebs").unwrap();
            recommend(plugin, version).unwrap().message
        };
        let message = named("v1.22.0");
        assert!(
            message.starts_with("at Kubernetes 1.22 stay with the in-tree plugin"),
            "{message}"
        );
        let message = named("v1.23.0");
        assert!(
            message.starts_with("at Kubernetes 1.23 (OpenShift 4.10) stay with"),
            "{message}"
        );
        assert_eq!(code("kubernetes.io/aws-ebs", "unknown"), None);
    }

    #[test]
    fn versions_of_v_center_are_advised_on_one_version_before_and_from_then_on() {
        let advises = |plugin: &str, minor: u64| {
            let plugin = plugins::by_name(plugin).unwrap();
            let finding = recommend(plugin, &format!("v1.{minor}.0")).unwrap();
            finding.message.contains("vCenter")
        };
        let from = plugins::by_name(VSPHERE_PLUGIN).unwrap().csi_from;
        assert!(!advises(VSPHERE_PLUGIN, from - 2));
        assert!(advises(VSPHERE_PLUGIN, from - 1));
        assert!(advises(VSPHERE_PLUGIN, from));
        assert!(advises(VSPHERE_PLUGIN, from + 10));
        for minor in from - 2..from + 10 {
            assert!(!advises("kubernetes.io/azure-disk", minor), "{minor}");
        }
    }
}
