//! Finds problems of a csi-proxy that runs as a DaemonSet and is not managed by this operator.

use crate::assess::causes::DaemonSet;
use crate::assess::judgement::judged::Report;
use crate::assess::report::Finding;
use crate::assess::{advisories, versions};
use crate::index::{Cluster, NodeSide, ObjectKey, System};

/// Reports the DaemonSets that run csi-proxy on Windows nodes, and those whose csi-proxy is too old.
pub fn daemon_sets(report: &Report, cluster: &Cluster) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, side) in that_run_it(cluster) {
        let tag = side.csi_proxy.as_deref().unwrap_or_default();
        let is_for_windows = match report.asked.get(key) {
            Some(system) => *system == System::Windows,
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
        let Some(number) = versions::parse(tag) else {
            continue;
        };
        let what = format!("DaemonSet {key} runs csi-proxy {version}");
        let known = advisories::on(advisories::CSI_PROXY, &number);
        findings.extend(known.map(|it| it.finding(object.clone(), &what)));
    }
    findings
}

/// Returns the DaemonSets that run csi-proxy on any node.
pub fn that_run_it(cluster: &Cluster) -> impl Iterator<Item = (&ObjectKey, &NodeSide)> {
    let sets = DaemonSet::all(cluster).filter(|set| set.node_side.csi_proxy.is_some());
    sets.map(|set| (set.key, set.node_side))
}
