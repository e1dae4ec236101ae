//! Decides what the status of `WindowsStorage` should be, and whether it must be written.

use crate::api::SETTINGS_NAME;
use crate::index::{AnyTable, Cluster};
use crate::run::plan::{Inputs, LeftOver, Plan};
use crate::status::{ClusterInputs, NodesByKey, cluster_status, with_verdict};

impl Plan {
    /// Returns which keys the nodes need.
    fn nodes_by_key(&self, inputs: &Inputs<'_>) -> NodesByKey {
        let managed = self.nodes.iter().filter(|(_, plan)| plan.is_managed());
        let mut by_key = NodesByKey::new();
        for (name, _) in managed {
            if let Some(node) = inputs.cluster.nodes.get(name.as_str()) {
                let pool = self.spec.pools_of(&node.labels).next();
                let key = self.spec.private_key(pool).clone();
                by_key.entry(key).or_default().push(name.clone());
            }
        }
        by_key
    }

    /// Plans the status of the settings.
    pub(super) fn plan_settings(&mut self, inputs: &Inputs<'_>) {
        let Some((verdict, blocking)) = inputs.history.announced().cloned() else {
            return;
        };
        let (cluster, seen) = (inputs.cluster, &inputs.seen);
        let has_left_keys = self.left.iter().any(|left| left.what == LeftOver::Key);
        let of_cluster = ClusterInputs {
            verdict,
            blocking,
            windows_nodes: inputs.report.windows.len(),
            ready_nodes: self.ready,
            managed: self.has_rollout(),
            removal: self.removal_progress(inputs, has_left_keys),
            rollout: self.rollout.clone(),
            in_progress: self.judged.in_progress.clone(),
            version: inputs.payload.csi_proxy.version.clone(),
            nodes_by_key: self.nodes_by_key(inputs),
            services: self.services.clone(),
            services_problem: seen.services_problem.clone(),
            gate: seen.gate.clone(),
            turned: inputs.history.turned,
            kubernetes_version: seen.kubernetes_version.clone(),
        };
        let previous = cluster.settings.get(SETTINGS_NAME).cloned();
        let generation = (previous.as_ref()).and_then(|object| object.metadata.generation);
        let written = (previous.as_ref()).and_then(|object| object.status.as_ref());
        let before = written.cloned().unwrap_or_default();
        let when = (generation, inputs.now);
        let status = if self.is_complete {
            cluster_status(&before, cluster, &of_cluster, when)
        } else if cluster.settings.is_complete() && is_failing(cluster) {
            // Something cannot be read, possibly for long: update only the verdict, and keep everything else as last known.
            with_verdict(&before, &of_cluster, when)
        } else {
            return;
        };
        self.is_upgraded_while_held = status.upgraded_while_held.is_some();
        if written != Some(&status) {
            self.settings = Some((previous, status));
        }
    }
}

/// Returns whether something cannot be read that the status needs.
fn is_failing(cluster: &Cluster) -> bool {
    let beside: [&dyn AnyTable; 2] = [&cluster.config_maps, &cluster.node_statuses];
    let mut unread = cluster.unread().into_iter();
    unread.any(|unread| unread.problem.is_some())
        || beside.iter().any(|table| table.problem().is_some())
}
