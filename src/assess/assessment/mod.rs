//! The judgement on the cluster, kept up to date in proportion to what changes.

mod dependents;
mod needs;
mod ownership;
mod report;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::assess::codes;
use crate::assess::report::{Finding, Verdict};
use crate::assess::verdict::{self, Facts};
use crate::assess::volumes::{self, Lookup, Resolution, ordinal_stem};
use crate::index::{
    Cluster, Name, Node, ObjectKey, Owner, Pod, WindowsRequest, WorkloadKey, WorkloadKind,
};
pub use dependents::Dependency;
use dependents::Dependents;
use needs::{Needs, Uses};
use ownership::{Controlled, Ownership};

/// All that was derived from the cluster.
///
/// It follows the tables of one [`Cluster`] by the keys that have changed in them. What it holds is a function of the
/// objects alone, not of the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Assessment {
    entries: BTreeMap<WorkloadKey, Entry>,
    dependents: Dependents,
    ownership: Ownership,
    needs: Needs,
    nodes: HashMap<Name, NodeKind>,
    without_csi_node: BTreeSet<Name>,
    /// The drivers of each CSINode, and how many CSINodes have each of them.
    csi_nodes: HashMap<Name, BTreeSet<Name>>,
    registered: HashMap<Name, usize>,
    default_class: Option<Name>,
    pipe_users: HashMap<Name, usize>,
}

/// What was derived from one workload.
#[derive(Clone, Debug, Default)]
struct Entry {
    dependencies: Vec<Dependency>,
    /// The controller for which a live pod stands.
    stands_for: Option<Name>,
    /// The node on which a live pod mounts pipes of csi-proxy.
    mounts_pipes_on: Option<Name>,
    uses: Uses,
    findings: Vec<Finding>,
}

/// What a Node means for the pods that are bound to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeKind {
    /// Its pods are Windows workloads.
    Windows,
    /// Its pods are nobody's concern, but stand for their owners: taken out by the administrator, or not known.
    OutOfSight,
    /// Its pods neither are Windows workloads nor stand for any.
    Other,
}

impl NodeKind {
    fn of(node: Option<&Node>) -> Self {
        match node {
            Some(node) if node.is_windows() => Self::Windows,
            // The workloads of a node that goes will be on another one: they must not be lost from sight meanwhile.
            Some(node) if node.operating_system == "windows" && !node.deleting => Self::OutOfSight,
            Some(_) => Self::Other,
            None => Self::OutOfSight,
        }
    }
}

impl Assessment {
    /// Takes in what has changed in the cluster since the last time. Returns the nodes whose readiness that may touch.
    pub fn update(&mut self, cluster: &mut Cluster) -> BTreeSet<Name> {
        let mut touched = BTreeSet::new();
        let mut stale = BTreeSet::new();
        let changed = Changed::take(cluster);
        let cluster = &*cluster;
        for node in &changed.nodes {
            self.node_changed(cluster, node, &mut stale, &mut touched);
        }
        for node in &changed.csi_nodes {
            self.csi_node_changed(cluster, node, &mut stale, &mut touched);
        }
        for driver in changed.csi_drivers {
            self.stale(&Dependency::Driver(driver), &mut stale);
        }
        for class in &changed.classes {
            self.stale(&Dependency::Class(class.clone()), &mut stale);
        }
        if !changed.classes.is_empty() {
            // A class that stays the default may have another provisioner.
            self.default_class = default_class(cluster);
            self.stale(&Dependency::DefaultClass, &mut stale);
        }
        for class in changed.runtime_classes {
            self.stale(&Dependency::RuntimeClass(class), &mut stale);
        }
        for volume in changed.volumes {
            self.stale(&Dependency::Volume(volume), &mut stale);
        }
        for claim in changed.claims {
            if let Some(stem) = ordinal_stem(&claim.name) {
                let key = ObjectKey::new(claim.namespace.clone(), stem);
                self.stale(&Dependency::ClaimsOf(key), &mut stale);
            }
            self.stale(&Dependency::Claim(claim), &mut stale);
        }
        stale.extend(changed.pods.into_iter().map(WorkloadKey::pod));
        for key in &changed.owners {
            let owner = cluster.owners.get(key);
            stale.extend(self.ownership.relink(key, owner));
        }
        self.judge_anew(cluster, stale, &mut touched);
        touched
    }

    /// The verdict on what was read. What has not been read completely makes it `ReadinessUnknown`.
    #[must_use]
    pub fn verdict(&self, cluster: &Cluster) -> Verdict {
        let unread = cluster.unread();
        if !unread.is_empty() {
            return verdict::unknown(&unread);
        }
        let in_tree = self.needs.drivers.values();
        let facts = Facts {
            windows_nodes: self.needs.windows.len(),
            in_tree: in_tree.map(|need| need.in_tree_volumes).sum::<usize>()
                + self.needs.abandoned_volumes,
            abandoned: self.needs.abandoned_volumes,
            without_csi_node: &self.without_csi_node,
            blocking: self.blocking(),
            named: self.first_blocking(),
        };
        verdict::verdict(&facts, cluster.upgrade_gate())
    }

    /// How many volumes hold upgrades.
    #[must_use]
    pub fn blocking(&self) -> usize {
        let drivers = self.needs.drivers.values().filter(|need| need.holds());
        drivers.map(|need| need.in_tree_volumes).sum::<usize>() + self.needs.abandoned_volumes
    }

    /// The first volumes that hold upgrades, in the order of reports, as the message names them.
    fn first_blocking(&self) -> Vec<String> {
        let of_drivers = self.needs.drivers.values().filter(|need| need.holds());
        let groups = of_drivers
            .map(|need| &need.in_tree)
            .chain([&self.needs.abandoned]);
        // The first ones of all are among the first ones of each.
        let first: BTreeSet<&WorkloadKey> = groups
            .flat_map(|group| group.keys().take(verdict::NAMED_VOLUMES))
            .collect();
        let mut lines = Vec::new();
        for key in first {
            let rows = self
                .entries
                .get(key)
                .map_or(&[][..], |entry| &entry.uses.rows);
            for row in rows.iter().filter(|row| row.plugin().is_some()) {
                let need = row
                    .driver()
                    .and_then(|driver| self.needs.drivers.get(driver));
                if need.is_some_and(|need| !need.holds()) {
                    continue;
                }
                if lines.len() == verdict::NAMED_VOLUMES {
                    return lines;
                }
                let missing = need.map(|need| &need.missing);
                lines.push(verdict::name_volume(key, row, missing));
            }
        }
        lines
    }

    fn node_changed(
        &mut self,
        cluster: &Cluster,
        name: &Name,
        stale: &mut BTreeSet<WorkloadKey>,
        touched: &mut BTreeSet<Name>,
    ) {
        let node = cluster.nodes.get(name);
        let kind = NodeKind::of(node);
        let old = match node {
            Some(_) => self.nodes.insert(name.clone(), kind),
            None => self.nodes.remove(name),
        };
        if old.unwrap_or(NodeKind::of(None)) != kind {
            self.stale(&Dependency::Node(name.clone()), stale);
        }
        let is_windows = kind == NodeKind::Windows;
        self.needs.node_changed(cluster, name, is_windows, touched);
        self.note_csi_node(cluster, name, is_windows);
        touched.insert(name.clone());
    }

    fn csi_node_changed(
        &mut self,
        cluster: &Cluster,
        name: &Name,
        stale: &mut BTreeSet<WorkloadKey>,
        touched: &mut BTreeSet<Name>,
    ) {
        let csi_node = cluster.csi_nodes.get(name);
        let new = csi_node.map(|csi_node| csi_node.drivers.clone());
        let old = match new.clone() {
            Some(drivers) => self.csi_nodes.insert(name.clone(), drivers),
            None => self.csi_nodes.remove(name),
        };
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        for driver in old.difference(&new) {
            if let Some(count) = self.registered.get_mut(driver) {
                *count -= 1;
                if *count == 0 {
                    self.registered.remove(driver);
                    self.stale(&Dependency::Driver(driver.clone()), stale);
                }
            }
        }
        for driver in new.difference(&old) {
            let count = self.registered.entry(driver.clone()).or_default();
            *count += 1;
            if *count == 1 {
                self.stale(&Dependency::Driver(driver.clone()), stale);
            }
        }
        let is_windows = self.needs.windows.contains(name);
        self.needs.node_changed(cluster, name, is_windows, touched);
        self.note_csi_node(cluster, name, is_windows);
        touched.insert(name.clone());
    }

    fn note_csi_node(&mut self, cluster: &Cluster, name: &Name, is_windows: bool) {
        if is_windows && cluster.csi_nodes.get(name).is_none() {
            self.without_csi_node.insert(name.clone());
        } else {
            self.without_csi_node.remove(name);
        }
    }

    fn stale(&self, dependency: &Dependency, stale: &mut BTreeSet<WorkloadKey>) {
        stale.extend(self.dependents.of(dependency).cloned());
    }

    /// Pods first: whether they stand for their owners decides on those.
    fn judge_anew(
        &mut self,
        cluster: &Cluster,
        stale: BTreeSet<WorkloadKey>,
        touched: &mut BTreeSet<Name>,
    ) {
        let (pods, mut owners): (BTreeSet<_>, BTreeSet<_>) = stale
            .into_iter()
            .partition(|key| key.kind == WorkloadKind::Pod);
        for key in pods {
            let pod = cluster.pods.get(&key.object);
            let entry = pod.map(|pod| self.judge_pod(cluster, &key, pod));
            let stands_for = |entry: Option<&Entry>| entry.and_then(|e| e.stands_for.clone());
            let old = stands_for(self.entries.get(&key));
            let new = stands_for(entry.as_ref());
            owners.extend(self.ownership.restand(old.as_ref(), new.as_ref()));
            self.replace(cluster, key, entry, touched);
        }
        for key in owners {
            let owner = cluster.owners.get(&key);
            let entry = owner.map(|owner| self.judge_owner(cluster, &key, owner));
            self.replace(cluster, key, entry, touched);
        }
    }

    fn judge_pod(&self, cluster: &Cluster, key: &WorkloadKey, pod: &Pod) -> Entry {
        let mut entry = Entry::default();
        let kind = match &pod.node_name {
            Some(node) => {
                entry.dependencies.push(Dependency::Node(node.clone()));
                NodeKind::of(cluster.nodes.get(node))
            }
            None => unbound_kind(cluster, &pod.request, &mut entry.dependencies),
        };
        if !pod.csi_proxy_pipes.is_empty() {
            entry.mounts_pipes_on.clone_from(&pod.node_name);
        }
        if kind != NodeKind::Other {
            entry.stands_for.clone_from(&pod.controller);
        }
        if kind == NodeKind::Windows {
            let found = volumes::resolve(
                self.lookup(cluster, &|driver| self.shows_driver(cluster, driver)),
                key,
                &pod.volumes,
                &[],
            );
            entry.take(found, pod.node_name.clone());
        }
        entry
    }

    fn judge_owner(&self, cluster: &Cluster, key: &WorkloadKey, owner: &Owner) -> Entry {
        let mut entry = Entry::default();
        let kind = unbound_kind(cluster, &owner.request, &mut entry.dependencies);
        if kind != NodeKind::Windows || owner.finished {
            return entry;
        }
        let controlled = self.ownership.controlled(key);
        if controlled == Controlled::InCircle {
            entry.findings.push(Finding::new(
                codes::OWNER_CIRCLE,
                key.to_string(),
                format!(
                    "{key} is controlled by itself, by way of its owner references; it is judged on its own. Correct \
                     metadata.ownerReferences"
                ),
            ));
        }
        let stands_back = controlled == Controlled::Yes && key.kind.yields_to_its_controller();
        if stands_back || self.ownership.has_standing(key) {
            return entry;
        }
        let found = volumes::resolve(
            self.lookup(cluster, &|driver| self.shows_driver(cluster, driver)),
            key,
            &owner.volumes,
            &owner.claim_templates,
        );
        entry.take(found, None);
        entry
    }

    fn lookup<'a>(
        &'a self,
        cluster: &'a Cluster,
        shows_driver: &'a dyn Fn(&str) -> bool,
    ) -> Lookup<'a> {
        Lookup {
            cluster,
            default_class: self.default_class.as_ref(),
            shows_driver,
        }
    }

    fn shows_driver(&self, cluster: &Cluster, driver: &str) -> bool {
        self.registered.contains_key(driver) || cluster.csi_drivers.get(driver).is_some()
    }

    fn replace(
        &mut self,
        cluster: &Cluster,
        key: WorkloadKey,
        new: Option<Entry>,
        touched: &mut BTreeSet<Name>,
    ) {
        let old = self.entries.remove(&key).unwrap_or_default();
        let new_or_none = new.as_ref();
        let dependencies = new_or_none.map_or(&[][..], |entry| &entry.dependencies);
        self.dependents
            .replace(&key, &old.dependencies, dependencies);
        // Added before what was there is taken away, so that a need that stays is not built up anew.
        if let Some(new) = new_or_none {
            self.needs.add(cluster, &key, &new.uses, touched);
            self.count_pipe_user(new.mounts_pipes_on.as_ref(), true, touched);
        }
        self.needs.remove(cluster, &key, &old.uses, touched);
        self.count_pipe_user(old.mounts_pipes_on.as_ref(), false, touched);
        if let Some(new) = new {
            self.entries.insert(key, new);
        }
    }

    fn count_pipe_user(&mut self, node: Option<&Name>, added: bool, touched: &mut BTreeSet<Name>) {
        let Some(node) = node else { return };
        let count = self.pipe_users.entry(node.clone()).or_default();
        let before = *count;
        *count = if added {
            before + 1
        } else {
            before.saturating_sub(1)
        };
        let after = *count;
        if after == 0 {
            self.pipe_users.remove(node);
        }
        if (before == 0) != (after == 0) {
            touched.insert(node.clone());
        }
    }
}

/// What an unbound pod, or one that a template would make, is: that depends on its RuntimeClass as well.
fn unbound_kind(
    cluster: &Cluster,
    request: &WindowsRequest,
    dependencies: &mut Vec<Dependency>,
) -> NodeKind {
    if let Some(class) = &request.runtime_class {
        dependencies.push(Dependency::RuntimeClass(class.clone()));
    }
    if cluster.asks_for_windows(request) {
        NodeKind::Windows
    } else {
        NodeKind::Other
    }
}

impl Entry {
    fn take(&mut self, found: Resolution, node: Option<Name>) {
        let Resolution {
            rows,
            findings,
            dependencies,
        } = found;
        self.uses = Uses { node, rows };
        self.findings.extend(findings);
        self.dependencies.extend(dependencies);
    }
}

/// The default class: of several the newest, then the first by name, as Kubernetes chooses.
fn default_class(cluster: &Cluster) -> Option<Name> {
    cluster
        .classes
        .iter()
        .filter(|(_, class)| class.is_default)
        .min_by(|(left_name, left), (right_name, right)| {
            right
                .created
                .cmp(&left.created)
                .then_with(|| left_name.cmp(right_name))
        })
        .map(|(name, _)| name.clone())
}

/// The keys of what has changed, by kind.
struct Changed {
    nodes: BTreeSet<Name>,
    csi_nodes: BTreeSet<Name>,
    csi_drivers: BTreeSet<Name>,
    pods: BTreeSet<ObjectKey>,
    claims: BTreeSet<ObjectKey>,
    volumes: BTreeSet<Name>,
    classes: BTreeSet<Name>,
    runtime_classes: BTreeSet<Name>,
    owners: Vec<WorkloadKey>,
}

impl Changed {
    fn take(cluster: &mut Cluster) -> Self {
        let owners = cluster.owners.tables_mut().into_iter();
        let owners = owners
            .flat_map(|(kind, table)| {
                let changed = table.take_changed().into_iter();
                changed.map(move |object| WorkloadKey { object, kind })
            })
            .collect();
        Self {
            nodes: cluster.nodes.take_changed(),
            csi_nodes: cluster.csi_nodes.take_changed(),
            csi_drivers: cluster.csi_drivers.take_changed(),
            pods: cluster.pods.take_changed(),
            claims: cluster.claims.take_changed(),
            volumes: cluster.volumes.take_changed(),
            classes: cluster.classes.take_changed(),
            runtime_classes: cluster.runtime_classes.take_changed(),
            owners,
        }
    }
}
