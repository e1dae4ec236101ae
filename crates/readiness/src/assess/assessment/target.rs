//! Computes the verdict for a future version.

use crate::assess::assessment::Assessment;
use crate::assess::assessment::needs::Need;
use crate::assess::plugins::Plugin;
use crate::assess::report::Verdict;
use crate::assess::verdict::{self, Facts, NAMED_VOLUMES};
use crate::assess::volumes::Resolved;
use crate::index::{Cluster, WorkloadKey};

impl Assessment {
    /// Returns the verdict without the volumes of the `served` plugins. Takes time proportional to the cluster.
    pub(super) fn verdict_without(&self, cluster: &Cluster, served: &[&Plugin]) -> Verdict {
        let unread = cluster.unread();
        if !unread.is_empty() {
            return verdict::unknown(&unread);
        }
        let is_in_tree = |(_, row): &(_, &Resolved)| row.plugin().is_some();
        let is_served = |(_, row): &(_, &Resolved)| is_among(served, row);
        let (left_out, left): (Vec<_>, Vec<_>) =
            self.rows().filter(is_in_tree).partition(is_served);
        let in_tree = left.len();
        let mut blocking = left;
        blocking.retain(|(_, row)| self.is_blocking(row));
        let has_driver = |(_, row): &(&WorkloadKey, &Resolved)| row.driver().is_some();
        let abandoned = blocking.iter().filter(|row| !has_driver(row)).count();
        if blocking.len() > NAMED_VOLUMES {
            blocking.sort_by_key(has_driver);
        }
        let named = blocking.iter().take(NAMED_VOLUMES);
        let facts = Facts {
            windows_nodes: self.needs.windows.len(),
            in_tree,
            abandoned,
            served: left_out.len(),
            stand_ins: self.stand_ins(cluster),
            without_csi_node: &self.without_csi_node,
            blocking: blocking.len(),
            named: named
                .map(|(key, row)| {
                    let missing = self.need(row).map(|need| &need.missing);
                    verdict::name_volume(key, row, missing)
                })
                .collect(),
        };
        verdict::verdict(&facts, cluster.wanted().upgrade_gate)
    }

    fn need(&self, row: &Resolved) -> Option<&Need> {
        self.needs.drivers.get(row.driver()?)
    }

    /// Whether an in-tree volume holds upgrades.
    fn is_blocking(&self, row: &Resolved) -> bool {
        self.need(row).is_none_or(Need::holds)
    }

    /// Iterates over all volumes and their workloads, in report order.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&WorkloadKey, &Resolved)> {
        let entries = self.entries.iter();
        entries.flat_map(|(key, entry)| entry.uses.rows.iter().map(move |row| (key, row)))
    }
}

/// Whether a volume belongs to one of these plugins.
pub(super) fn is_among(plugins: &[&Plugin], row: &Resolved) -> bool {
    row.plugin().is_some_and(|plugin| plugins.contains(&plugin))
}
