//! Decides what the status of `WindowsStorage` should be, and whether it must be written.

use std::collections::BTreeSet;

use crate::api::{SETTINGS_NAME, WindowsStorage, WindowsStorageSpec, WindowsStorageStatus};
use crate::index::{AnyTable, Cluster};
use crate::node::{NodePlan, RolloutSlots, key_name};
use crate::run::decide::{Decisions, News};
use crate::status::{ClusterInputs, NodesByKey, cluster_status, node_pools, with_verdict};

impl Decisions {
    /// Returns which keys the nodes need.
    fn nodes_by_key(&self, cluster: &Cluster) -> NodesByKey {
        let managed = self.plans.iter().filter(|(_, plan)| plan.is_managed());
        let mut by_key = NodesByKey::new();
        for (name, _) in managed {
            if let Some(node) = cluster.nodes.get(name.as_str()) {
                let key = key_name(self.spec.pools_of(&node.labels).next());
                by_key.entry(key).or_default().push(name.clone());
            }
        }
        by_key
    }

    /// Returns the nodes that are being changed.
    pub fn in_progress(&self, slots: &RolloutSlots) -> BTreeSet<String> {
        let mut nodes = slots.in_progress();
        nodes.retain(|node| {
            let plan = self.plans.get(node);
            plan.is_some_and(|it| it.takes_part() && !matches!(it, NodePlan::RemovalWaits(_)))
        });
        nodes
    }

    /// Returns the nodes that are being changed according to the stored status, which the next process reads.
    pub fn stored_in_progress(&self, cluster: &Cluster) -> BTreeSet<String> {
        let seen = cluster.settings.get(SETTINGS_NAME);
        let status = match &self.unseen.settings {
            Some(written) => Some(&written.status),
            None => seen.and_then(|object| object.status.as_ref()),
        };
        let rollout = status.and_then(|status| status.rollout.as_ref());
        rollout.map_or_else(BTreeSet::new, |rollout| {
            rollout.in_progress.iter().cloned().collect()
        })
    }

    /// Returns whether the node exists and takes part in the rollout.
    pub(super) fn takes_part(&self, node: &str) -> bool {
        self.plans.get(node).is_some_and(NodePlan::takes_part)
    }

    /// Returns whether some node takes part in the rollout.
    pub fn has_rollout(&self) -> bool {
        self.plans.values().any(NodePlan::takes_part)
    }

    /// Returns the current object and its new status, if they differ.
    pub(super) fn settings(
        &mut self,
        cluster: &Cluster,
        news: &News<'_>,
        has_left_keys: bool,
    ) -> Option<(Option<WindowsStorage>, WindowsStorageStatus)> {
        let (verdict, blocking) = self.throttle.announced.clone()?;
        let inputs = ClusterInputs {
            verdict,
            blocking,
            windows_nodes: self.report.windows.len(),
            ready_nodes: self.ready,
            managed: self.has_rollout(),
            removal: self.removal_progress(news, has_left_keys),
            rollout: self.rollout.clone(),
            in_progress: self.in_progress(news.slots),
            version: self.payload.csi_proxy.version.clone(),
            node_pools: node_pools(cluster, &self.spec),
            nodes_by_key: self.nodes_by_key(cluster),
            services: self.services.clone(),
            services_problem: news.services_problem.clone(),
            gate: news.gate.clone(),
            kubernetes_version: news.kubernetes_version.to_owned(),
        };
        let mut previous = cluster.settings.get(SETTINGS_NAME).cloned();
        let generation = previous
            .as_ref()
            .and_then(|object| object.metadata.generation);
        if let Some(unseen) = &self.unseen.settings {
            let default = || WindowsStorage::new(SETTINGS_NAME, WindowsStorageSpec::default());
            previous.get_or_insert_with(default).status = Some(unseen.status.clone());
        }
        let written = previous.as_ref().and_then(|object| object.status.as_ref());
        let before = written.cloned().unwrap_or_default();
        let when = (generation, news.now);
        let status = if self.is_complete {
            cluster_status(&before, cluster, &inputs, when)
        } else if cluster.settings.is_complete()
            && (cluster.unread().iter()).any(|unread| unread.problem.is_some())
        {
            // Something cannot be read, possibly for long: update only the verdict, and keep everything else as last known.
            with_verdict(&before, &inputs, when)
        } else {
            return None;
        };
        self.is_upgraded_while_held = status.upgraded_while_held.is_some();
        (written != Some(&status)).then_some((previous, status))
    }
}
