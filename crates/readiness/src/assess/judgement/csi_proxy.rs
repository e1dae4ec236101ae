//! Finds which pods on a node use, or can use, csi-proxy's pipes.

use std::fmt;

use crate::assess::judgement::Report;
use crate::index::{Cluster, NodeSide, ObjectKey, Pod, WorkloadKind};

/// A pod or DaemonSet that uses, or may use, csi-proxy's pipes on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiProxyUse {
    /// The user: `DaemonSet namespace/name` or `pod namespace/name`.
    pub user: String,
    /// Whether it mounts the pipes. Otherwise it is a HostProcess container, which can reach them without a mount.
    pub mounts: bool,
}

impl fmt::Display for CsiProxyUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, mounts } = self;
        match mounts {
            true => write!(f, "{user} mounts pipes of csi-proxy"),
            false => write!(
                f,
                "{user} runs a driver in HostProcess containers that is not known to do without csi-proxy"
            ),
        }
    }
}

impl Report {
    /// Returns a user of csi-proxy on this Windows node: a DaemonSet that covers the node, else a pod on it. Picks the
    /// first by namespace and name.
    #[must_use]
    pub fn csi_proxy_use(&self, node: &str) -> Option<&CsiProxyUse> {
        self.csi_proxy_uses.get(node)
    }

    pub(super) fn find_csi_proxy_uses(&mut self, cluster: &Cluster) {
        // Their selectors are parsed once.
        let sets: Vec<_> = daemon_sets_that_use_it(cluster)
            .map(|(key, side)| (key, side, side.selection()))
            .collect();
        for (name, node) in cluster.windows_nodes() {
            let mut covering = sets.iter();
            let set = covering.find(|(_, side, selection)| {
                let selects = selection
                    .as_ref()
                    .is_none_or(|it| it.matches(name, &node.labels));
                selects && side.repelled_by(node).is_empty()
            });
            let used = set.map(|(key, side, _)| CsiProxyUse {
                user: format!("DaemonSet {key}"),
                mounts: !side.csi_proxy_pipes.is_empty(),
            });
            let used = used.or_else(|| {
                let mut pods = self.pods_on(cluster, name);
                pods.retain(|(_, pod)| uses(pod));
                let (key, pod) = pods.into_iter().min_by_key(|(key, _)| *key)?;
                Some(CsiProxyUse {
                    user: format!("pod {key}"),
                    mounts: !pod.csi_proxy_pipes.is_empty(),
                })
            });
            self.csi_proxy_uses
                .extend(used.map(|used| (name.clone(), used)));
        }
    }
}

/// Returns the DaemonSets whose pods use, or may use, csi-proxy on any node.
fn daemon_sets_that_use_it(cluster: &Cluster) -> impl Iterator<Item = (&ObjectKey, &NodeSide)> {
    let sets = cluster.owners[WorkloadKind::DaemonSet].iter();
    sets.filter_map(|(key, owner)| {
        let side = owner.node_side.as_deref()?;
        (!side.csi_proxy_pipes.is_empty() || side.may_reach_csi_proxy).then_some((key, side))
    })
}

fn uses(pod: &Pod) -> bool {
    let driver = pod.driver.as_deref();
    !pod.csi_proxy_pipes.is_empty() || driver.is_some_and(|driver| driver.may_reach_csi_proxy)
}
