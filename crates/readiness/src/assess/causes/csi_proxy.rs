//! Finds problems of a csi-proxy that runs as a DaemonSet and is not managed by this operator.

use crate::assess::judgement::Report;
use crate::assess::report::Finding;
use crate::assess::versions;
use crate::index::{Cluster, NodeSide, ObjectKey, System, WorkloadKind};

/// The oldest csi-proxy without the vulnerability that lets a pod run commands on its node. Source: CVE-2023-3893.
pub const OLDEST_SAFE: semver::Version = semver::Version::new(1, 1, 3);

/// Reports the DaemonSets that run csi-proxy on Windows nodes, and those whose csi-proxy is too old.
#[must_use]
pub fn daemon_sets(report: &Report, cluster: &Cluster) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, side) in that_run_it(cluster) {
        let tag = side.csi_proxy.as_deref().unwrap_or_default();
        let is_for_windows = match report.asked(key) {
            Some(system) => system == System::Windows,
            None => (cluster.windows_nodes()).any(|(name, node)| side.covers(name, node)),
        };
        if !is_for_windows {
            continue;
        }
        let object = format!("DaemonSet/{key}");
        let version = if tag.is_empty() {
            "of an unknown version"
        } else {
            tag
        };
        findings.push(finding!(
            CSI_PROXY_DAEMON_SET,
            object.clone(),
            "DaemonSet {key} runs csi-proxy {version} on Windows nodes. Two on a node take each other's pipes, so this operator installs \
             nothing on new nodes that it covers: remove it where this operator or the Windows Machine Config Operator manages csi-proxy, \
             or set spec.csiProxy.management of WindowsStorage to External"
        ));
        if versions::parse(tag).is_some_and(|version| version < OLDEST_SAFE) {
            findings.push(finding!(
                CSI_PROXY_VULNERABLE,
                object,
                "DaemonSet {key} runs csi-proxy {version}, with which a pod can run commands on its node (CVE-2023-3893); take {OLDEST_SAFE} \
                 or later"
            ));
        }
    }
    findings
}

/// Returns the DaemonSets that run csi-proxy on any node.
pub fn that_run_it(cluster: &Cluster) -> impl Iterator<Item = (&ObjectKey, &NodeSide)> {
    let sets = cluster.owners[WorkloadKind::DaemonSet].iter();
    sets.filter_map(|(key, owner)| {
        let side = owner.node_side.as_deref()?;
        side.csi_proxy.is_some().then_some((key, side))
    })
}
