//! Decides what the status of `WindowsStorage` should be, and whether it must be written.

use crate::api::SETTINGS_NAME;
use crate::index::{AnyTable, Cluster};
use crate::run::plan::{Inputs, Plan};
use crate::status::cluster_status;

impl Plan {
    /// Plans the status of the settings. Before the first lists have ended nothing is said of them.
    pub(super) fn plan_settings(&mut self, inputs: &Inputs<'_>) {
        let cluster = inputs.cluster;
        let is_known = cluster.settings.is_complete();
        if !(self.is_complete || is_known && is_failing(cluster)) {
            return;
        }
        let status = cluster_status(self, inputs);
        let object = cluster.settings.get(SETTINGS_NAME);
        if object.and_then(|object| object.status.as_ref()) != Some(&status) {
            self.settings = Some((object.cloned(), status));
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
