//! Finds the DaemonSets that OpenShift's own are to replace at the target version.

use crate::assess::causes::{DaemonSet, DaemonSets};
use crate::assess::drivers::VSPHERE;
use crate::assess::judgement::judged::Report;
use crate::assess::report::Finding;
use crate::assess::verdict::NAMED_VOLUMES;
use crate::assess::versions::Release;
use crate::index::WorkloadKind;
use crate::visible::some_of;

/// The drivers that OpenShift's operators are to bring to Windows nodes, in a version 5 that is not settled: the branches
/// release-5.0 of openshift/csi-operator and openshift/vmware-vsphere-csi-driver-operator do not have it (August 2026).
///
/// Source: openshift/enhancements, pull 2072, which is merged: "targeted for OpenShift 5.x", with these two drivers.
pub const PROVIDED: [&str; 2] = ["file.csi.azure.com", VSPHERE];
/// The namespace of OpenShift's drivers. Hand-made DaemonSets are there, too: the examples of the Windows Machine Config
/// Operator (`hack/manifests/csi`) use it.
const NAMESPACE: &str = "openshift-cluster-csi-drivers";

impl Report {
    /// Reports the hand-made DaemonSets that bring a driver which the target is to bring itself.
    pub(super) fn will_be_provided(&self, driver: &str, sets: &DaemonSets<'_>) -> Vec<Finding> {
        let target = self.target.filter(|target| target.is_openshift_5());
        let Some(target) = target.filter(|_| PROVIDED.contains(&driver)) else {
            return Vec::new();
        };
        let hand_made = sets.windows.iter().filter(|set| {
            let is_openshifts = set.node_side.is_openshifts && *set.key.namespace == *NAMESPACE;
            !is_openshifts
        });
        let pods = self.pods_caught_without(driver);
        let finding = |set| will_be_provided(driver, set, target, &pods);
        hand_made.map(finding).collect()
    }

    /// Returns the pods on Windows nodes that could not start elsewhere while no node has the driver.
    fn pods_caught_without(&self, driver: &str) -> Vec<String> {
        let workloads = self.workloads.iter();
        let caught = workloads.filter(|(key, used)| {
            let mut rows = used.rows.iter();
            key.kind == WorkloadKind::Pod
                && used.node.is_some()
                && rows.any(|row| row.driver() == Some(driver))
        });
        let caught = caught.map(|(key, _)| format!("pod {}", key.object));
        caught.collect()
    }
}

fn will_be_provided(
    driver: &str,
    set: &DaemonSet<'_>,
    target: Release,
    pods: &[String],
) -> Finding {
    let key = set.key;
    let caught = if pods.is_empty() {
        "No pod uses the driver now".to_owned()
    } else {
        let pods = some_of(pods, NAMED_VOLUMES);
        format!("A drain in between catches {pods}, whose volumes cannot be mounted until then")
    };
    // Without a command that could be copied: for now, the DaemonSet is needed.
    finding!(
        DRIVER_WILL_BE_PROVIDED,
        format!("DaemonSet/{key}"),
        "OpenShift is to bring {driver} to Windows nodes itself in a version 5 \
         (https://github.com/openshift/enhancements/pull/2072); two DaemonSets of one driver displace each other. If the \
         release notes of {target} say so, remove DaemonSet {key} before that upgrade, else keep it. First see that no \
         Windows node is drained until the end, as by an upgrade of the Windows Machine Config Operator; then delete the \
         DaemonSet; upgrade to {}; go on when check shows the driver on every Windows node. {caught}",
        target.number()
    )
}
