//! Finds statuses and pinned host keys that are of no use any more.

use std::collections::BTreeSet;

use crate::index::Cluster;
use crate::node::{HOST_KEYS_CONFIG_MAP, goes_with_node};
use crate::run::plan::Inputs;

/// Returns the names of statuses of nodes that are deleted, or no Windows nodes any more.
pub(super) fn statuses(cluster: &Cluster) -> BTreeSet<String> {
    let names = cluster.node_statuses.iter().map(|(name, _)| name);
    let is_left = |name: &&String| {
        let node = cluster.nodes.get(name.as_str());
        node.is_none_or(|node| !(node.is_windows() || node.deleting))
    };
    names.filter(is_left).cloned().collect()
}

/// Returns the nodes whose host keys are to be removed: of those that are deleted, and, where everything is removed from all
/// nodes, the others. A key that an administrator added may be there before its node, so it is removed only with a node that
/// was seen: by this process, or by one that has written its status. An ignored node keeps its key: it may still have the agent.
pub(super) fn keys(inputs: &Inputs<'_>, is_removed: bool) -> BTreeSet<String> {
    let (cluster, departed) = (inputs.cluster, &inputs.history.departed);
    let pins = cluster.config_maps.get(HOST_KEYS_CONFIG_MAP);
    let pins = pins.into_iter().flat_map(|map| &map.data);
    let left = pins.filter(|(name, key)| match cluster.nodes.get(name.as_str()) {
        None => {
            let was_seen = departed.contains(*name) || cluster.node_statuses.get(*name).is_some();
            was_seen || goes_with_node(key)
        }
        Some(node) => is_removed && node.is_windows() && goes_with_node(key),
    });
    left.map(|(name, _)| name.clone()).collect()
}
