//! The whole judgement, from the cluster's tables to the report, in one pure function.

mod csi_proxy;
mod departed;
mod json;
pub(in crate::assess) mod judged;
mod memory;
pub(in crate::assess) mod needs;
mod ownership;
mod provided;
mod workloads;

use std::collections::{BTreeSet, HashMap};

use crate::assess::causes::{DaemonSet, DaemonSets};
use crate::assess::plugins::PLUGINS;
use crate::assess::redirection;
use crate::assess::verdict::{self, NAMED_VOLUMES, only_fresh_data_opens};
use crate::assess::versions::Release;
use crate::index::{Cluster, Name, ObjectKey};
use crate::visible::some_of;
pub use departed::Departed;
pub use judged::{BlockingVolumes, CsiProxyUse, Report};
pub use memory::Memory;
use needs::Needs;
use workloads::workloads;

/// Judges a cluster, for a future version if one is given: volumes that in-tree plugins still serve there do not hold
/// upgrades. `memory` must have learned from this cluster.
pub fn assess(cluster: &Cluster, memory: &Memory, target: Option<Release>) -> Report {
    let windows: BTreeSet<Name> = cluster
        .windows_nodes()
        .map(|(name, _)| name.clone())
        .collect();
    let without_csi_node = windows
        .iter()
        .filter(|name| cluster.csi_node(name).is_none());
    let today = redirection::today(cluster);
    let served = target.map(|target| redirection::served_at(cluster, today, target));
    let losses = PLUGINS.iter().filter_map(|plugin| {
        let loss = redirection::loss(cluster, today?, plugin, target);
        Some((plugin, loss))
    });
    let nodes = windows.iter().map(|name| (name.clone(), Vec::new()));
    let mut pods: HashMap<Name, Vec<ObjectKey>> = nodes.collect();
    for (key, pod) in cluster.pods.iter() {
        if let Some(keys) = pod.node_name.as_ref().and_then(|node| pods.get_mut(node)) {
            keys.push(key.clone());
        }
    }
    let sets = DaemonSet::all(cluster);
    let (workloads, lacking) = workloads(cluster, memory);
    let mut report = Report {
        verdict: verdict::unknown(&[]),
        blocking: BlockingVolumes::default(),
        today,
        target,
        served: served.unwrap_or_default(),
        losses: losses.collect(),
        without_csi_node: without_csi_node.cloned().collect(),
        workloads,
        lacking,
        needs: Needs::default(),
        csi_proxy_uses: HashMap::new(),
        pods,
        asked: sets
            .filter_map(|set| {
                let asked = memory.asked(cluster, &set.key.namespace, &set.owner.placement)?;
                Some((set.key.clone(), asked))
            })
            .collect(),
        windows,
    };
    for (key, used) in &report.workloads {
        for row in &used.rows {
            report.needs.add(key, used.node.as_ref(), row);
        }
    }
    report.needs.look(cluster, &report.windows);
    let stand_ins = report.look_for_daemon_sets(cluster);
    report.find_csi_proxy_uses(cluster);
    report.judge(cluster, &stand_ins);
    report
}

impl Report {
    /// Judges a cluster that was read once. Incomplete or stale inputs make the verdict `ReadinessUnknown`, because there is
    /// no earlier verdict to keep.
    pub fn once(cluster: &Cluster, target: Option<Release>) -> Self {
        let mut memory = Memory::default();
        memory.learn(cluster);
        let mut report = assess(cluster, &memory, target);
        report.verdict = only_fresh_data_opens(None, report.verdict, &cluster.stale());
        report
    }

    /// Without Windows nodes, a DaemonSet counts instead of a registration. Returns what stands in for the registrations of the
    /// drivers that in-tree volumes need. Anyone who may create such a DaemonSet opens the gate, so the verdict names it.
    fn look_for_daemon_sets(&mut self, cluster: &Cluster) -> Vec<String> {
        let mut stand_ins = Vec::new();
        if !self.windows.is_empty() {
            return stand_ins;
        }
        let all = DaemonSets::of_drivers(self, cluster, self.needs.drivers.keys());
        for (driver, need) in &mut self.needs.drivers {
            let sets = all[driver].that_register(driver);
            let sets = some_of(
                sets.map(|set| format!("DaemonSet {}", set.key)),
                NAMED_VOLUMES,
            );
            need.is_unbrought = sets.is_empty();
            if !need.is_unbrought && !need.in_tree.is_empty() {
                stand_ins.push(format!("{driver} by {sets}"));
            }
        }
        stand_ins
    }
}
