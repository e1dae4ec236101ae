//! What to do next: in-tree or CSI at this version, and how to move data that no driver takes over.
//!
//! Sources: table 1 of the article on storage in the Windows Machine Config Operator 9; Kubernetes' own migration
//! table; the vSphere driver's notes on redirected volumes.

use std::fmt::Write;

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
            "PluginRemoved",
            format!(
                "{version} has no in-tree plugin {name} any more: its volumes work on a Windows node only where \
                 {driver} is registered. Deploy the driver on every Windows node."
            ),
        )
    } else if is_vsphere && minor == *csi_from {
        (
            "CSIOptIn",
            format!(
                "at {version} a cluster that was installed with it uses {driver}, and one that was upgraded to it has \
                 to opt in. Deploy the driver on every Windows node before you do."
            ),
        )
    } else if minor >= *csi_from {
        (
            "CSIRecommended",
            format!(
                "at {version} use {driver} for volumes of {name}: the plugin goes with {}.",
                named(*removed_in)
            ),
        )
    } else {
        (
            "InTreeRecommended",
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
    let mut message = format!(
        "no CSI driver takes over from {} (gone from Kubernetes 1.{}), so the data of the {old} has to move while the \
         plugin still works: make a new claim with the class of a CSI driver, copy from within a Windows pod that \
         mounts both, then let the workload use the new claim. pv-migrate copies in Linux pods and cannot mount NTFS; \
         a VolumeSnapshot needs a CSI driver on the old volume, which there is not.",
        plugin.name, plugin.removed_in
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
             deleted. Set Retain first."
        );
    }
    Some(Finding::new("DataMustMove", object, message))
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
        let table = [
            // OpenShift 4.10 to 4.14
            (
                "kubernetes.io/aws-ebs",
                ["InTree", "InTree", "CSI", "CSI", "Removed"],
            ),
            (
                "kubernetes.io/azure-disk",
                ["InTree", "InTree", "CSI", "CSI", "Removed"],
            ),
            (
                "kubernetes.io/azure-file",
                ["InTree", "InTree", "InTree", "CSI", "CSI"],
            ),
            (
                "kubernetes.io/gce-pd",
                ["InTree", "InTree", "CSI", "CSI", "CSI"],
            ),
            (
                "kubernetes.io/vsphere-volume",
                ["InTree", "InTree", "InTree", "OptIn", "CSI"],
            ),
        ];
        for (plugin, columns) in table {
            for (minor, expected) in (23..).zip(columns) {
                let expected = match expected {
                    "InTree" => "InTreeRecommended",
                    "CSI" => "CSIRecommended",
                    "OptIn" => "CSIOptIn",
                    _ => "PluginRemoved",
                };
                let version = format!("v1.{minor}.3+abc");
                assert_eq!(
                    code(plugin, &version).as_deref(),
                    Some(expected),
                    "{plugin} {version}"
                );
            }
            assert_eq!(code(plugin, "v1.33.0").as_deref(), Some("PluginRemoved"));
        }
        assert_eq!(code("kubernetes.io/rbd", "v1.27.0"), None);
        assert_eq!(code("kubernetes.io/aws-ebs", "unknown"), None);
    }
}
