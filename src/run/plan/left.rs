//! Finds statuses and pinned host keys of deleted nodes.

use std::collections::BTreeSet;

use crate::index::Node;
use crate::node::{HOST_KEYS_CONFIG_MAP, goes_with_node};
use crate::run::plan::Inputs;

/// A leftover of a node, to be removed from the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The node's name.
    pub node: String,
    /// The kind of leftover.
    pub what: LeftOver,
}

/// What is left of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOver {
    /// The status of a node that is no longer a Windows node.
    Status,
    /// The status and the host key of a deleted node.
    StatusAndKey,
    /// The host key of a node from which everything else was removed.
    Key,
}

/// Returns the statuses and host keys without a node. A key that an administrator added may be there before its
/// node, so it is removed only with a node that this process has seen. An ignored node keeps its key.
pub(super) fn left_behind(inputs: &Inputs<'_>, is_removed: bool) -> Vec<Left> {
    let (cluster, departed) = (inputs.cluster, &inputs.history.departed);
    let pins = cluster.config_maps.get(HOST_KEYS_CONFIG_MAP);
    let pins = pins.map(|map| &map.data);
    let is_there = |name: &str| cluster.nodes.get(name).is_some();
    let pinned = pins
        .into_iter()
        .flatten()
        .filter(|(name, key)| !is_there(name) && (goes_with_node(key) || departed.contains(*name)));
    let with_status = cluster.node_statuses.iter().map(|(name, _)| name);
    let names: BTreeSet<&String> = with_status.chain(pinned.map(|(name, _)| name)).collect();
    let left = names.into_iter().filter_map(|name| {
        let node = cluster.nodes.get(name.as_str());
        if node.is_some_and(|node| node.is_windows() || node.deleting) {
            return None;
        }
        let what = match node {
            Some(_) => LeftOver::Status,
            None => LeftOver::StatusAndKey,
        };
        Some(Left {
            node: name.clone(),
            what,
        })
    });
    // An ignored node may still have the agent.
    let is_windows = |name: &str| cluster.nodes.get(name).is_some_and(Node::is_windows);
    let unused = pins
        .into_iter()
        .flatten()
        .filter(|(name, key)| is_removed && is_windows(name) && goes_with_node(key));
    let unused = unused.map(|(name, _)| Left {
        node: name.clone(),
        what: LeftOver::Key,
    });
    left.chain(unused).collect()
}
