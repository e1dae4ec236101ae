//! Recommends the next step: in-tree or CSI at this version, and how to migrate data that no CSI driver takes over.
//!
//! Sources: the table of plugins; the vSphere driver's notes on redirected volumes.

use std::fmt::Write;

use crate::assess::codes;
use crate::assess::plugins::Plugin;
use crate::assess::report::{Finding, Source};
use crate::assess::versions::{Distribution, Release};
use crate::assess::volumes::Resolved;
use crate::index::{Cluster, WorkloadKey};

/// The Kubernetes in the OpenShift (4.13) at which new installations redirect vSphere volumes and upgraded clusters must opt
/// in.
const VSPHERE_OPT_IN: u64 = 26;
const OPT_IN: &str = r#"{"spec":{"vsphereStorageDriver":"CSIWithMigrationDriver"}}"#;
const VSPHERE_PLUGIN: &str = "kubernetes.io/vsphere-volume";
const VSPHERE_VERSIONS: &str = " Redirected vSphere volumes need vCenter and ESXi 7.0.3-21424296 or 8.0.1-22088125, \
                                or later.";
const ACKNOWLEDGED: &str =
    " Without them OpenShift asks for an acknowledgement before it upgrades.";

/// Recommends in-tree or CSI for a plugin's volumes, by the cluster's version and the kubelets' annotations. What cannot be
/// undone has its command only once the driver is missing on no node.
pub fn recommend(
    plugin: &Plugin,
    today: Release,
    noted: Option<bool>,
    is_missing: bool,
) -> Option<Finding> {
    let driver = plugin.driver?;
    let Plugin {
        name, removed_in, ..
    } = *plugin;
    let is_redirected = noted.unwrap_or_else(|| plugin.is_redirected_at(today));
    let gone = today.distribution.at(removed_in);
    let lost = plugin.lost_at(today, noted);
    let (code, mut message) = if plugin.is_gone_at(today) {
        (
            codes::PLUGIN_REMOVED,
            format!(
                "{today} has no in-tree plugin {name} any more (gone from {gone}): its volumes work on a Windows node \
                 only where {driver} is registered. See that the driver is on every Windows node."
            ),
        )
    } else if name == VSPHERE_PLUGIN
        && (today.distribution, today.minor) == (Distribution::OpenShift, VSPHERE_OPT_IN)
        && noted.is_none()
    {
        (
            codes::CSI_OPT_IN,
            format!(
                "at {today} volumes of {name} are redirected to {driver}; only a cluster that was upgraded to it has to \
                 opt in, or has them redirected from {} on. Deploy the driver on every Windows node first; then opt in, which cannot be undone.",
                today.distribution.at(plugin.always_from)
            ),
        )
    } else if is_redirected {
        (
            codes::CSI_RECOMMENDED,
            format!(
                "at {today} volumes of {name} are redirected to {driver} (by default from {lost} on) and work on a Windows node only where \
                 it is registered; the plugin is gone from {gone}. See that the driver is on every Windows node."
            ),
        )
    } else {
        (
            codes::IN_TREE_RECOMMENDED,
            format!(
                "at {today} the in-tree plugin {name} serves its volumes; from {lost} on they are redirected to \
                 {driver}. Have the driver on every Windows node before you upgrade to that."
            ),
        )
    };
    if name == VSPHERE_PLUGIN && (is_redirected || today.minor + 1 >= lost.minor) {
        message.push_str(VSPHERE_VERSIONS);
        if today.distribution == Distribution::OpenShift {
            message.push_str(ACKNOWLEDGED);
        }
    }
    let finding = Finding::new(code, format!("CSIDriver/{driver}"), message);
    Some(match code {
        codes::CSI_OPT_IN if !is_missing => {
            finding.run("oc patch storage cluster --type=merge -p", &[OPT_IN])
        }
        _ => finding,
    })
}

/// Explains how to migrate the data of a volume that no CSI driver takes over.
pub fn move_data(
    cluster: &Cluster,
    distribution: Distribution,
    workload: &WorkloadKey,
    volume: &Resolved,
) -> Option<Finding> {
    let plugin = volume.plugin().filter(|_| volume.driver().is_none())?;
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
    if let Some(driver) = plugin.driver {
        let message = not_managed(plugin, driver, &old, volume.source);
        return Some(Finding::new(codes::DATA_MUST_MOVE, object, message));
    }
    let removed_in = plugin.removed_in;
    let gone = distribution.at(removed_in);
    let mut message = format!(
        "no CSI driver takes over from {} (gone from {gone}), and Windows nodes never could mount it, \
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
    let Some((name, _)) = lost_with_claim else {
        return Some(Finding::new(codes::DATA_MUST_MOVE, object, message));
    };
    // Writing to a String cannot fail.
    let _ = write!(
        message,
        " Warning: PersistentVolume {name} has the reclaim policy Delete: its data is lost when the claim is deleted. \
         Keep it first"
    );
    let finding = Finding::new(codes::DATA_MUST_MOVE, object, message);
    let retain = r#"{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}"#;
    Some(finding.run("kubectl patch pv", &[name, "-p", retain]))
}

/// Explains what to do with an Azure disk that is not managed.
fn not_managed(plugin: &Plugin, driver: &str, old: &str, source: Source) -> String {
    let name = plugin.name;
    let what = format!(
        "the {old} is of {name} and not managed (kind Dedicated or Shared), and {driver} takes over managed disks only"
    );
    match source {
        Source::StorageClass => {
            format!("{what}: make the claim again with a class whose provisioner is {driver}")
        }
        Source::Inline | Source::PersistentVolume => format!(
            "{what}: stop its pods, make a managed disk of its blob (az disk create --resource-group GROUP --name NAME \
             --source BLOB_URI), a PersistentVolume of {driver} with that disk and a claim for it, and let the workload use \
             that claim"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::plugins;

    fn advice(plugin: &str, today: &str, noted: Option<bool>) -> Option<Finding> {
        let plugin = plugins::by_name(&format!("kubernetes.io/{plugin}")).unwrap();
        recommend(plugin, today.parse().unwrap(), noted, false)
    }

    /// Returns the advice for each version as a letter: in-tree, opt in, CSI, removed.
    fn letters(plugin: &str, major: u64, minors: impl Iterator<Item = u64>) -> String {
        let letter = |minor| {
            let finding = advice(plugin, &format!("{major}.{minor}"), None).unwrap();
            match finding.code.as_str() {
                "InTreeRecommended" => 'i',
                "CSIOptIn" => 'o',
                "CSIRecommended" => 'c',
                "PluginRemoved" => 'r',
                other => unreachable!("{other}"),
            }
        };
        minors.map(letter).collect()
    }

    #[test]
    fn the_advice_follows_the_tables_of_kubernetes_and_of_openshift() {
        for (plugin, kubernetes, openshift) in [
            // Kubernetes 1.23 to 1.31, OpenShift 4.10 to 4.18
            ("aws-ebs", "ccccrrrrr", "iiccrrrrr"),
            ("azure-disk", "ccccrrrrr", "iiccrrrrr"),
            ("azure-file", "iccccccrr", "iiiccccrr"),
            ("gce-pd", "cccccrrrr", "iicccrrrr"),
            ("cinder", "cccrrrrrr", "cccrrrrrr"),
            ("vsphere-volume", "iicccccrr", "iiiocccrr"),
            ("portworx-volume", "iiiiiiiic", "iiiiiiiic"),
        ] {
            assert_eq!(letters(plugin, 1, 23..=31), kubernetes, "{plugin}");
            assert_eq!(letters(plugin, 4, 10..=18), openshift, "{plugin}");
        }
        assert_eq!(advice("rbd", "1.27", None), None);
    }

    /// Each line: plugin, today's version, whether kubelets note that it is redirected, code, and words of the message.
    /// It can be turned on before it is the default, and off until the gate is locked.
    const ADVICE: &str = "
azure-file 1.23 - InTreeRecommended at Kubernetes 1.23 the in-tree plugin kubernetes.io/azure-file serves its volumes; from Kubernetes 1.24 on
azure-file 4.12 - InTreeRecommended from OpenShift 4.13 on
azure-disk 1.24 off InTreeRecommended from Kubernetes 1.25 on
vsphere-volume 4.13 off InTreeRecommended from OpenShift 4.14 on
vsphere-volume 4.13 on CSIRecommended gone from OpenShift 4.17
vsphere-volume 1.26 - CSIRecommended by default from Kubernetes 1.25 on
portworx-volume 1.27 on CSIRecommended by default from Kubernetes 1.31 on
gce-pd 4.15 - PluginRemoved OpenShift 4.15 has no in-tree plugin
gce-pd 1.28 off PluginRemoved Kubernetes 1.28 has no in-tree plugin
";

    #[test]
    fn the_advice_names_the_version_at_which_the_cluster_loses_the_plugin() {
        for line in ADVICE.lines().skip(1) {
            let mut parts = line.splitn(5, ' ');
            let [plugin, today, noted, code, words] = [(); 5].map(|()| parts.next().unwrap());
            let noted = (noted != "-").then_some(noted == "on");
            let finding = advice(plugin, today, noted).unwrap();
            assert_eq!(finding.code, code, "{line}");
            assert!(finding.message.contains(words), "{}", finding.message);
        }
    }

    #[test]
    fn versions_of_v_center_are_advised_on_one_version_before_and_from_then_on() {
        let advises = |plugin: &str, today: &str| {
            let finding = advice(plugin, today, None).unwrap();
            finding.message.contains("vCenter")
        };
        for (today, expected) in [
            ("1.23", false),
            ("1.24", true),
            ("1.25", true),
            ("1.35", true),
            ("4.11", false),
            ("4.12", true),
            ("4.13", true),
            ("4.22", true),
        ] {
            assert_eq!(advises("vsphere-volume", today), expected, "{today}");
            assert!(!advises("azure-disk", today), "{today}");
        }
    }
}
