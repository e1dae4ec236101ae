//! Finds which pods on a node use, or can use, csi-proxy's pipes.

use crate::api::EXTERNAL;
use crate::assess::causes::DaemonSet;
use crate::assess::judgement::judged::{CsiProxyUse, Report};
use crate::assess::report::Finding;
use crate::index::{Cluster, Name, Platform, PlatformSignal, Pod};

impl Report {
    pub(super) fn find_csi_proxy_uses(&mut self, cluster: &Cluster) {
        let sets = DaemonSet::all(cluster).filter(|set| {
            !set.node_side.csi_proxy_pipes.is_empty() || set.node_side.may_reach_csi_proxy
        });
        let sets: Vec<_> = sets.collect();
        for (name, node) in cluster.windows_nodes() {
            let mut sets = sets.iter();
            let set = sets.find(|set| set.node_side.covers(name, node));
            let by_set = set.map(|set| CsiProxyUse {
                user: format!("DaemonSet {}", set.key),
                mounts: !set.node_side.csi_proxy_pipes.is_empty(),
            });
            let by_pod = || {
                let mut pods = self.pods_on(cluster, name).into_iter();
                let (key, pod) = pods.find(|(_, pod)| uses(pod))?;
                Some(CsiProxyUse {
                    user: format!("pod {key}"),
                    mounts: !pod.csi_proxy_pipes.is_empty(),
                })
            };
            if let Some(used) = by_set.or_else(by_pod) {
                self.csi_proxy_uses.insert(name.clone(), used);
            }
        }
    }
}

fn uses(pod: &Pod) -> bool {
    let driver = pod.driver.as_deref();
    !pod.csi_proxy_pipes.is_empty() || driver.is_some_and(|driver| driver.may_reach_csi_proxy)
}

/// Returns who looks after csi-proxy on a node, if not this operator: as the operator has last written, or else as the Node
/// shows.
fn external_owner(cluster: &Cluster, name: &str) -> Option<String> {
    let status = cluster.node_statuses.get(name);
    if let Some(status) = status.filter(|status| !status.management.is_empty()) {
        let is_external = status.management == EXTERNAL && !status.managed_by.is_empty();
        return is_external.then(|| status.managed_by.clone());
    }
    let node = cluster.nodes.get(name).filter(|node| !node.given)?;
    node.platform.as_ref().map(ToString::to_string)
}

/// Returns a finding on csi-proxy for a node that needs it, unless it runs.
pub(super) fn finding(cluster: &Cluster, name: &Name) -> Option<Finding> {
    let object = format!("Node/{name}");
    if let Some(csi_proxy) = cluster.csi_proxy(name) {
        let finding = || {
            finding!(
                CSI_PROXY_NOT_READY,
                object,
                "the node needs csi-proxy, but its service is {} and does not answer on {} pipe(s); see its status",
                csi_proxy.service_state,
                csi_proxy.missing_pipes.len()
            )
            .run("kubectl describe windowsnodestorage", &[name])
        };
        return (!csi_proxy.is_running()).then(finding);
    }
    let Some(owner) = external_owner(cluster, name) else {
        let finding = finding!(
            CSI_PROXY_UNKNOWN,
            object,
            "the node needs csi-proxy, and whether it runs there cannot be seen from here; where this operator runs, the \
             cluster shows it"
        );
        return Some(finding.run("kubectl get windowsnodestorages", &[]));
    };
    let platform = PlatformSignal::platform_in(&owner);
    Some(finding!(
        CSI_PROXY_UNKNOWN,
        object,
        "csi-proxy: not seen ({}). A driver here needs it; ask who looks after it ({owner}). On the node, sc.exe query \
         csi-proxy (or csiproxy) shows its service",
        platform.map_or(EXTERNAL, Platform::as_str)
    ))
}
