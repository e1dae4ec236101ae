//! The whole judgement, from the cluster's tables to the report, in one pure function.

mod csi_proxy;
mod departed;
mod json;
mod memory;
mod needs;
mod ownership;
mod provided;
mod workloads;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::api::BlockingVolume;
use crate::assess::causes::{DaemonSet, DaemonSets};
use crate::assess::partial::{self, Lacking};
use crate::assess::plugins::{PLUGINS, Plugin};
use crate::assess::redirection::{self, Loss};
use crate::assess::report::Verdict;
use crate::assess::verdict::{self, BlockingVolumes, Facts, NAMED_VOLUMES, only_fresh_data_opens};
use crate::assess::versions::Release;
use crate::assess::volumes::Resolved;
use crate::index::{Cluster, Name, ObjectKey, Pod, System, WorkloadKey};
use crate::visible::some_of;
pub use csi_proxy::CsiProxyUse;
pub use departed::Departed;
pub use memory::Memory;
use needs::Needs;
use workloads::{Used, workloads};

/// What is judged of a cluster.
#[derive(Clone, Debug)]
pub struct Report {
    /// The verdict. Incomplete inputs make it `ReadinessUnknown`.
    pub verdict: Verdict,
    /// The volumes that hold upgrades.
    pub blocking: BlockingVolumes,
    /// The Windows nodes.
    pub windows: BTreeSet<Name>,
    target: Option<Release>,
    /// The plugins whose volumes are served in-tree at the target.
    served: Vec<&'static Plugin>,
    /// When the volumes of each plugin need their driver; empty if the cluster's version is unknown.
    losses: Vec<(&'static Plugin, Loss)>,
    without_csi_node: BTreeSet<Name>,
    pub(super) workloads: BTreeMap<WorkloadKey, Used>,
    /// What files have nothing of that the workloads use.
    lacking: Lacking,
    needs: Needs,
    csi_proxy_uses: HashMap<Name, CsiProxyUse>,
    /// The pods on each Windows node.
    pods: HashMap<Name, Vec<ObjectKey>>,
    /// The operating systems that DaemonSets with the node side of a driver ask for.
    asked: HashMap<ObjectKey, System>,
}

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
    let served = target.map(|target| redirection::served_at(cluster, target));
    let plugins = PLUGINS.iter();
    let losses =
        plugins.filter_map(|plugin| Some((plugin, redirection::loss(cluster, plugin, target)?)));
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
    report.judge(cluster, stand_ins);
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

    /// Returns the number of volumes that hold upgrades, by driver; `None` for those that no CSI driver takes over.
    pub fn blocking_by_driver(&self) -> impl Iterator<Item = (Option<&str>, usize)> + Clone {
        let holding = self.needs.holding();
        holding
            .map(|(driver, need)| (Some(driver.as_str()), need.volumes()))
            .chain([(None, self.needs.abandoned.values().sum())])
    }

    /// Returns the operating system that a DaemonSet with the node side of a driver asks for.
    pub fn asked(&self, daemon_set: &ObjectKey) -> Option<System> {
        self.asked.get(daemon_set).copied()
    }

    /// Whether a workload needs the driver.
    pub fn needs(&self, driver: &str) -> bool {
        self.needs.drivers.contains_key(driver)
    }

    /// Returns the drivers that workloads need, sorted.
    pub fn needed_drivers(&self) -> impl Iterator<Item = &Name> {
        self.needs.drivers.keys()
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

    /// Sets the verdict, and the volumes that hold upgrades.
    fn judge(&mut self, cluster: &Cluster, stand_ins: Vec<String>) {
        let in_tree = self.rows().filter(|(_, row)| row.plugin().is_some());
        let (served, left): (Vec<_>, Vec<_>) = in_tree.partition(|(_, row)| self.is_served(row));
        let in_tree = left.len();
        let mut blocking = left;
        blocking.retain(|(_, row)| self.needs.is_blocking(row));
        let has_driver = |(_, row): &(&WorkloadKey, &Resolved)| row.driver().is_some();
        let abandoned = blocking.iter().filter(|row| !has_driver(row)).count();
        let mut found = BlockingVolumes {
            count: blocking.len(),
            ..BlockingVolumes::default()
        };
        for (_, row) in &blocking {
            let group = found.groups.entry(self.loss(row)).or_default();
            group.count += 1;
        }
        // Volumes that no CSI driver takes over determine the reason. If not all can be named, they come first.
        if blocking.len() > NAMED_VOLUMES {
            blocking.sort_by_key(has_driver);
        }
        blocking.truncate(NAMED_VOLUMES);
        for (key, row) in blocking {
            let missing = self.needs.of(row).map(|need| &need.missing);
            let group = found.groups.entry(self.loss(row)).or_default();
            group.named.push(verdict::name_volume(key, row, missing));
            found.first.push(BlockingVolume {
                namespace: key.object.namespace.to_string(),
                workload: format!("{}/{}", key.kind.as_str(), key.object.name),
                volume: row.named_as("/"),
                driver: row.driver().map(ToString::to_string),
                redirected: self.is_redirected(row),
            });
        }
        let mut unread = cluster.unread();
        unread.extend(partial::find(cluster, &self.windows, &self.lacking));
        let verdict = if unread.is_empty() {
            let facts = Facts {
                windows_nodes: self.windows.len(),
                in_tree,
                abandoned,
                served: served.len(),
                stand_ins,
                without_csi_node: &self.without_csi_node,
                blocking: &found,
            };
            verdict::verdict(&facts, cluster.wanted().upgrade_gate)
        } else {
            verdict::unknown(&unread)
        };
        self.verdict = verdict;
        self.blocking = found;
    }

    /// Iterates over all volumes and their workloads, in report order.
    fn rows(&self) -> impl Iterator<Item = (&WorkloadKey, &Resolved)> {
        let workloads = self.workloads.iter();
        workloads.flat_map(|(key, used)| used.rows.iter().map(move |row| (key, row)))
    }

    /// Whether an in-tree volume needs no driver, at the target or today.
    pub(super) fn needs_no_driver(&self, row: &Resolved) -> bool {
        match self.target {
            Some(_) => self.is_served(row),
            None => self.is_redirected(row) == Some(false),
        }
    }

    /// Whether the volume's plugin still serves it at the target.
    fn is_served(&self, row: &Resolved) -> bool {
        row.plugin()
            .is_some_and(|plugin| self.served.contains(&plugin))
    }

    /// Returns when an in-tree volume needs its driver, if the cluster's version is known.
    fn loss(&self, row: &Resolved) -> Option<Loss> {
        let plugin = row.plugin()?;
        let mut losses = self.losses.iter();
        let (_, loss) = losses.find(|(of, _)| *of == plugin)?;
        Some(*loss)
    }

    /// Whether an in-tree volume's plugin is redirected or gone today, if the cluster's version is known.
    fn is_redirected(&self, row: &Resolved) -> Option<bool> {
        Some(self.loss(row)? == Loss::Today)
    }

    pub(super) fn pods_on<'a>(
        &'a self,
        cluster: &'a Cluster,
        node: &str,
    ) -> Vec<(&'a ObjectKey, &'a Pod)> {
        let keys = self.pods.get(node).into_iter().flatten();
        keys.filter_map(|key| Some((key, cluster.pods.get(key)?)))
            .collect()
    }
}
