//! The assessment of the cluster, updated incrementally.

mod blocked;
mod counts;
mod csi_proxy;
mod dependents;
mod judge;
mod needs;
mod ownership;
mod report;
mod systems;
mod target;
mod workloads;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::assess::causes::DaemonSets;
use crate::assess::report::{Finding, Verdict};
use crate::assess::verdict::{self, Facts};
use crate::assess::volumes::{Resolved, ordinal_stem};
use crate::index::{Cluster, Name, Node, ObjectKey, System, WorkloadKey, WorkloadKind};
use crate::visible::some_of;
pub use blocked::{Blocked, BlockedKey, BlockedKind};
pub use counts::Counts;
pub use csi_proxy::{CsiProxyUse, daemon_sets_that_use_it};
pub use dependents::Dependency;
use dependents::Dependents;
pub use needs::Departed;
use needs::{Need, Needs, Uses};
use ownership::{Ownership, Standing};
use systems::Systems;

/// The assessment, derived from one [`Cluster`].
///
/// It follows the cluster's tables through their changed keys. Its state depends only on the objects, not on the order of
/// their changes, except for what it remembers about deleted nodes.
#[derive(Clone, Debug, Default)]
pub struct Assessment {
    entries: BTreeMap<WorkloadKey, Box<Entry>>,
    dependents: Dependents,
    ownership: Ownership,
    needs: Needs,
    /// The existing nodes, and deleted nodes that a workload still depends on.
    nodes: HashMap<Name, NodeKind>,
    systems: Systems,
    without_csi_node: BTreeSet<Name>,
    /// Each CSINode's drivers; `registered` counts the CSINodes per driver.
    csi_nodes: HashMap<Name, Arc<BTreeSet<Name>>>,
    registered: Counts<Name>,
    default_class: Option<Name>,
    /// The workloads to reassess in the current update.
    stale: Vec<WorkloadKey>,
}

/// The assessment of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    dependencies: Vec<Dependency>,
    /// The controller whose template volumes a live pod represents.
    controller: Option<Name>,
    /// The volumes of a pod on an ignored node: not a Windows workload, but the pod still represents its controller.
    out_of_sight: Vec<Resolved>,
    /// The node whose readiness the pod affects: the pod belongs to a CSI driver or mounts csi-proxy's pipes.
    concerns: Option<Name>,
    uses: Uses,
    findings: Vec<Finding>,
}

impl Entry {
    /// Returns the controller that a pod of this namespace represents, and for which volumes.
    fn standing(&self, namespace: &Name) -> Option<(ObjectKey, Vec<Standing>)> {
        let rows = self.uses.rows.iter().chain(&self.out_of_sight);
        let standing = Standing::of(rows);
        let controller = self.controller.as_ref();
        let controller = controller.filter(|_| !standing.is_empty())?;
        Some((
            ObjectKey::new(namespace.clone(), controller.clone()),
            standing,
        ))
    }

    /// Drops spare capacity: there are many entries, and few change.
    fn fitted(mut self) -> Self {
        self.dependencies.shrink_to_fit();
        self.uses.rows.shrink_to_fit();
        self.out_of_sight.shrink_to_fit();
        self.findings.shrink_to_fit();
        self
    }
}

/// How a Node affects the pods bound to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeKind {
    /// Pods on the node are Windows workloads.
    Windows,
    /// The administrator excluded the node: its pods are not Windows workloads, but represent their owners.
    Ignored,
    /// Pods on the node neither are Windows workloads nor represent their owners.
    Other,
    /// Like `Other`; the node's operating system is not known.
    Unclear,
}

impl NodeKind {
    fn of(node: &Node) -> Self {
        match node.system() {
            Some(System::Windows) if node.ignored => Self::Ignored,
            // Includes nodes that are being deleted: their pods may outlive them.
            Some(System::Windows) => Self::Windows,
            Some(System::Other) => Self::Other,
            None => Self::Unclear,
        }
    }

    fn system(self) -> Option<System> {
        match self {
            Self::Windows | Self::Ignored => Some(System::Windows),
            Self::Other => Some(System::Other),
            Self::Unclear => None,
        }
    }
}

/// The volumes that hold upgrades.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockingVolumes {
    /// The number of such volumes.
    pub count: usize,
    /// The first volumes, as named in the verdict's message.
    pub first: Vec<String>,
}

impl Assessment {
    /// Applies the cluster's changes since the last call. Returns the nodes whose readiness may have changed.
    pub fn update(&mut self, cluster: &mut Cluster) -> BTreeSet<Name> {
        for node in cluster.nodes.take_changed() {
            self.node_changed(cluster, &node);
        }
        for node in cluster.csi_nodes.take_changed() {
            self.csi_node_changed(cluster, &node);
        }
        for driver in cluster.csi_drivers.take_changed() {
            self.invalidate(&Dependency::Driver(driver));
        }
        let classes = cluster.classes.take_changed();
        if !classes.is_empty() {
            // The default class may be the same but have another provisioner.
            self.default_class = default_class(cluster);
            self.invalidate(&Dependency::DefaultClass);
        }
        for class in classes {
            self.invalidate(&Dependency::Class(class));
        }
        for class in cluster.runtime_classes.take_changed() {
            self.invalidate(&Dependency::RuntimeClass(class));
        }
        for volume in cluster.volumes.take_changed() {
            self.invalidate(&Dependency::Volume(volume));
        }
        for claim in cluster.claims.take_changed() {
            if let Some(stem) = ordinal_stem(&claim.name) {
                let key = ObjectKey::new(claim.namespace.clone(), stem);
                self.invalidate(&Dependency::ClaimsOf(key));
            }
            self.invalidate(&Dependency::Claim(claim));
        }
        let pods = cluster.pods.take_changed().into_iter();
        self.stale.extend(pods.map(WorkloadKey::pod));
        // DaemonSets and feature switches determine why a driver is missing.
        let mut causes_changed = !cluster.feature_switches.take_changed().is_empty();
        for kind in WorkloadKind::ALL {
            for object in cluster.owners[kind].take_changed() {
                causes_changed |= kind == WorkloadKind::DaemonSet;
                let key = WorkloadKey { object, kind };
                let owner = cluster.owners.get(&key);
                self.stale.extend(self.ownership.relink(&key, owner));
            }
        }
        self.judge_stale(cluster);
        self.look_for_daemon_sets(cluster);
        let mut touched = std::mem::take(&mut self.needs.touched);
        if causes_changed {
            let needs = self.needs.drivers.values();
            touched.extend(needs.flat_map(|need| need.missing.iter().cloned()));
        }
        touched
    }

    /// Returns the verdict. Incomplete inputs make it `ReadinessUnknown`.
    #[must_use]
    pub fn verdict(&self, cluster: &Cluster) -> Verdict {
        let unread = cluster.unread();
        if !unread.is_empty() {
            return verdict::unknown(&unread);
        }
        let abandoned = self.needs.abandoned.total();
        let needs = self.needs.drivers.values();
        let facts = Facts {
            windows_nodes: self.needs.windows.len(),
            in_tree: needs.map(|need| need.in_tree.total()).sum::<usize>() + abandoned,
            abandoned,
            served: 0,
            stand_ins: self.stand_ins(cluster),
            without_csi_node: &self.without_csi_node,
            blocking: self.blocking(),
            named: self.first_blocking(),
        };
        verdict::verdict(&facts, cluster.wanted().upgrade_gate)
    }

    /// Returns the volumes that hold upgrades.
    #[must_use]
    pub fn blocking_volumes(&self) -> BlockingVolumes {
        BlockingVolumes {
            count: self.blocking(),
            first: self.first_blocking(),
        }
    }

    /// Returns the number of volumes that hold upgrades.
    #[must_use]
    pub fn blocking(&self) -> usize {
        self.blocking_by_driver().map(|(_, volumes)| volumes).sum()
    }

    /// Returns the number of volumes that hold upgrades, by driver; `None` for those that no CSI driver takes over.
    pub fn blocking_by_driver(&self) -> impl Iterator<Item = (Option<&str>, usize)> + Clone {
        let drivers = self.needs.drivers.iter();
        drivers
            .filter(|(_, need)| need.holds())
            .map(|(driver, need)| (Some(driver.as_str()), need.in_tree.total()))
            .chain([(None, self.needs.abandoned.total())])
    }

    /// Counts the volumes and nodes that held upgrades and disappeared, instead of getting the missing driver. An object
    /// that is deleted and recreated, or created piece by piece, is missing only for a moment.
    #[must_use]
    pub fn departures(&self) -> &BTreeMap<Departed, u64> {
        &self.needs.departures
    }

    /// Whether a departed object would hold upgrades again if it came back.
    #[must_use]
    pub fn would_hold(&self, cluster: &Cluster, departed: &Departed) -> bool {
        let Departed::Volume(driver) = departed else {
            return true;
        };
        let mut nodes = self.needs.windows.iter();
        let has = |node: &Name| {
            self.csi_nodes
                .get(node)
                .is_some_and(|drivers| drivers.contains(driver))
        };
        !nodes.all(has) || self.needs.windows.is_empty() && !self.is_brought(cluster, driver)
    }

    /// Whether a DaemonSet would register the driver on new Windows nodes.
    fn is_brought(&self, cluster: &Cluster, driver: &str) -> bool {
        let sets = DaemonSets::of_driver(self, cluster, driver);
        sets.that_register(driver).next().is_some()
    }

    /// Without Windows nodes, returns what stands in for the registrations of the drivers that in-tree volumes need. Anyone
    /// who may create such a DaemonSet opens the gate, so the verdict names it.
    fn stand_ins(&self, cluster: &Cluster) -> Vec<String> {
        if !self.needs.windows.is_empty() {
            return Vec::new();
        }
        let needs = self.needs.drivers.iter();
        let in_tree = needs.filter(|(_, need)| need.in_tree.total() > 0);
        let named = in_tree.filter_map(|(driver, _)| {
            let sets = DaemonSets::of_driver(self, cluster, driver);
            let sets: Vec<String> = sets
                .that_register(driver)
                .map(|set| format!("DaemonSet {}", set.key))
                .collect();
            let sets = some_of(sets.iter().map(String::as_str), verdict::NAMED_VOLUMES);
            (!sets.is_empty()).then(|| format!("{driver} by {sets}"))
        });
        named.collect()
    }

    /// Returns the first volumes that hold upgrades, as named in the message, in report order. If there are too many to
    /// name all, volumes that no CSI driver takes over come first, because they determine the reason.
    fn first_blocking(&self) -> Vec<String> {
        let holding = self.needs.drivers.values().filter(|need| need.holds());
        let groups = holding.map(|need| &need.in_tree);
        // The first of all groups are among the first of each group.
        let first: BTreeSet<&WorkloadKey> = groups
            .chain([&self.needs.abandoned])
            .flat_map(|group| group.keys().take(verdict::NAMED_VOLUMES))
            .collect();
        let mut named = Vec::new();
        for key in first {
            let entry = self.entries.get(key);
            let rows = entry.map_or(&[][..], |entry| &entry.uses.rows);
            for row in rows.iter().filter(|row| row.plugin().is_some()) {
                let driver = row.driver();
                let need = driver.and_then(|driver| self.needs.drivers.get(driver));
                if need.is_none_or(Need::holds) {
                    named.push((key, row, need.map(|need| &need.missing)));
                }
            }
        }
        if self.blocking() > verdict::NAMED_VOLUMES {
            named.sort_by_key(|(_, row, _)| row.driver().is_some());
        }
        let named = named.into_iter().take(verdict::NAMED_VOLUMES);
        named
            .map(|(key, row, missing)| verdict::name_volume(key, row, missing))
            .collect()
    }

    fn node_changed(&mut self, cluster: &Cluster, name: &Name) {
        let node = cluster.nodes.get(name);
        let dependency = Dependency::Node(name.clone());
        let known = self.nodes.get(name).copied();
        // A pod can outlive its node by minutes.
        let gone = known.filter(|_| self.dependents.has(&dependency));
        let kind = node.map(NodeKind::of).or(gone);
        match kind {
            Some(kind) => self.nodes.insert(name.clone(), kind),
            None => self.nodes.remove(name),
        };
        if known != kind {
            self.invalidate(&dependency);
        }
        for dependency in self.systems.node_changed(name, node) {
            self.invalidate(&dependency);
        }
        let held = self.without_csi_node.contains(name) || self.needs.is_held_by(name);
        if held && !node.is_some_and(Node::is_windows) {
            self.needs.depart(Departed::Node);
        }
        self.drivers_changed(cluster, name);
    }

    fn csi_node_changed(&mut self, cluster: &Cluster, name: &Name) {
        let csi_node = cluster.csi_nodes.get(name);
        let new = csi_node.map(|csi_node| csi_node.drivers.clone());
        let old = match new.clone() {
            Some(drivers) => self.csi_nodes.insert(name.clone(), drivers),
            None => self.csi_nodes.remove(name),
        };
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        for driver in old.difference(&new) {
            if self.registered.remove(driver) {
                self.invalidate(&Dependency::Driver(driver.clone()));
            }
        }
        for driver in new.difference(&old) {
            if self.registered.add(driver) {
                self.invalidate(&Dependency::Driver(driver.clone()));
            }
        }
        self.drivers_changed(cluster, name);
    }

    /// Updates the needs after a node started or stopped being a Windows node, or after its drivers changed.
    fn drivers_changed(&mut self, cluster: &Cluster, name: &Name) {
        self.needs.node_changed(cluster, name);
        let is_windows = self.needs.windows.contains(name);
        let lacks = is_windows && cluster.csi_nodes.get(name).is_none();
        needs::set(&mut self.without_csi_node, name, lacks);
        self.needs.touched.insert(name.clone());
    }

    /// Records whether each driver is installed. Without Windows nodes, a DaemonSet counts instead of a registration.
    fn look_for_daemon_sets(&mut self, cluster: &Cluster) {
        let has_nodes = !self.needs.windows.is_empty();
        let is_brought = |driver: &Name| has_nodes || self.is_brought(cluster, driver);
        let drivers: Vec<(Name, bool)> = self
            .needs
            .drivers
            .keys()
            .map(|driver| (driver.clone(), is_brought(driver)))
            .collect();
        for (driver, is_brought) in drivers {
            self.needs.set_brought(&driver, is_brought);
        }
    }

    /// Marks the workloads that depend on `dependency` for reassessment.
    fn invalidate(&mut self, dependency: &Dependency) {
        self.stale.extend(self.dependents.of(dependency).cloned());
    }

    /// Reassesses stale workloads. Pods come first, because owners depend on the pods that represent them.
    fn judge_stale(&mut self, cluster: &Cluster) {
        let mut stale = std::mem::take(&mut self.stale);
        stale.sort_unstable();
        stale.dedup();
        let mut owners = BTreeSet::new();
        for key in stale {
            if key.kind != WorkloadKind::Pod {
                owners.insert(key);
                continue;
            }
            let pod = cluster.pods.get(&key.object);
            let new = pod.map(|pod| self.judge_pod(cluster, &key, pod));
            let namespace = &key.object.namespace;
            let stands = new.as_ref().and_then(|entry| entry.standing(namespace));
            let stood = self.replace(cluster, &key, new).standing(namespace);
            if stood == stands {
                continue;
            }
            for (standing, is_there) in [(stands, true), (stood, false)] {
                if let Some((controller, standing)) = standing {
                    let touched = self.ownership.restand(&controller, &standing, is_there);
                    owners.extend(touched);
                }
            }
        }
        for key in owners {
            let owner = cluster.owners.get(&key);
            let entry = owner.map(|owner| self.judge_owner(cluster, &key, owner));
            // Most owners of a large cluster do not run on Windows.
            let entry = entry.filter(|entry| *entry != Entry::default());
            self.replace(cluster, &key, entry);
        }
    }

    /// Replaces an entry and returns the old one.
    fn replace(&mut self, cluster: &Cluster, key: &WorkloadKey, new: Option<Entry>) -> Entry {
        let old = self.entries.remove(key).unwrap_or_default();
        let dependencies = new.as_ref().map_or(&[][..], |new| &new.dependencies);
        let unused = self
            .dependents
            .replace(key, &old.dependencies, dependencies);
        for dependency in unused {
            match dependency {
                Dependency::Selector(text) => self.systems.forget(text),
                Dependency::Node(name) if cluster.nodes.get(name).is_none() => {
                    self.nodes.remove(name);
                }
                _ => {}
            }
        }
        // Add the new uses before removing the old, so that an unchanged need is not rebuilt.
        if let Some(new) = new {
            self.needs.add(cluster, key, &new.uses);
            self.needs.touched.extend(new.concerns.clone());
            self.entries.insert(key.clone(), Box::new(new.fitted()));
        }
        self.needs.remove(cluster, key, &old.uses);
        self.needs.touched.extend(old.concerns.clone());
        *old
    }
}

/// Returns the default class. Of several, Kubernetes takes the newest, then the first by name.
fn default_class(cluster: &Cluster) -> Option<Name> {
    let classes = cluster.classes.iter();
    classes
        .filter(|(_, class)| class.is_default)
        .min_by_key(|(name, class)| (Reverse(class.created), *name))
        .map(|(name, _)| name.clone())
}
