//! What nodes that have left leave behind.

use crate::index::Cluster;
use crate::node::{HOST_KEYS_CONFIG_MAP, goes_with_node};
use crate::run::decide::Decisions;

impl Decisions {
    /// Nodes that have left and of which something is still there. A pin that an administrator has put there may wait for
    /// its node: it goes only with a node that was seen here. A node that is only ignored keeps its own.
    pub(super) fn departed(&mut self, cluster: &Cluster, look: bool) -> Vec<String> {
        let pins = cluster.config_maps.get(HOST_KEYS_CONFIG_MAP);
        if look {
            // Those that left while no operator ran.
            let made_here = |(_, key): &(&String, &String)| goes_with_node(key);
            let pinned = pins.iter().flat_map(|map| &map.data).filter(made_here);
            self.gone.extend(pinned.map(|(name, _)| name.clone()));
            let statuses = cluster.node_statuses.iter();
            self.gone.extend(statuses.map(|(name, _)| name.clone()));
            self.gone.retain(|name| {
                cluster
                    .nodes
                    .get(name.as_str())
                    .is_none_or(|node| !node.is_windows())
            });
        }
        let is_left = |name: &str| {
            pins.is_some_and(|map| map.data.contains_key(name))
                || cluster.node_statuses.get(name).is_some()
        };
        let gone: Vec<String> = self
            .gone
            .iter()
            .filter(|name| cluster.nodes.get(name.as_str()).is_none() && is_left(name))
            .cloned()
            .collect();
        self.gone
            .retain(|name| is_left(name) || cluster.nodes.get(name.as_str()).is_some());
        gone
    }
}
