//! Finds out from the API why a needed driver is not registered.
//!
//! Each cause is a small function that returns a finding. A driver may have several causes.

pub mod csi_proxy;
mod folders;
mod no_pod;
mod of_driver;
mod of_node;
mod on_node;

pub(crate) use of_driver::of_driver;
pub(crate) use of_node::{known_of_windows, no_csi_node, virtual_nodes};
pub(crate) use on_node::{stale_entry, why_missing};

use std::collections::BTreeMap;
use std::iter;
use std::rc::Rc;

use crate::assess::drivers;
use crate::assess::judgement::judged::Report;
use crate::index::{
    AnyTable, Cluster, Name, Node, NodeSide, ObjectKey, Owner, Pod, ReadFrom, System, WorkloadKind,
};
use crate::objects::named_by_labels;

/// The DaemonSets of a driver.
#[derive(Clone, Debug, Default)]
pub struct DaemonSets<'a> {
    /// DaemonSets for Windows nodes, sorted by name, then namespace.
    pub windows: Vec<DaemonSet<'a>>,
    /// All others.
    pub others: Vec<DaemonSet<'a>>,
    /// DaemonSets for Windows nodes that show only their plugin's folder, where none shows the driver's name: one of them
    /// may be the driver's.
    pub perhaps: Rc<[DaemonSet<'a>]>,
}

/// One DaemonSet of a driver.
#[derive(Clone, Copy, Debug)]
pub struct DaemonSet<'a> {
    /// The DaemonSet's key.
    pub key: &'a ObjectKey,
    /// The DaemonSet.
    pub owner: &'a Owner,
    /// The driver's node side in the DaemonSet's template.
    pub node_side: &'a NodeSide,
}

impl<'a> DaemonSets<'a> {
    /// Returns the DaemonSets of one driver.
    pub fn of_driver(report: &Report, cluster: &'a Cluster, driver: &str) -> Self {
        let all = Self::of_drivers(report, cluster, iter::once(&driver.into()));
        all.into_values().next().unwrap_or_default()
    }

    /// Returns the DaemonSets that contain each of these drivers. Where no DaemonSet for Windows nodes shows a driver's name,
    /// one that shows only its plugin's folder may bring it, and does if no other driver and no other folder is left.
    pub fn of_drivers<'n>(
        report: &Report,
        cluster: &'a Cluster,
        drivers: impl Iterator<Item = &'n Name>,
    ) -> BTreeMap<Name, Self> {
        let none = |driver: &Name| (driver.clone(), Self::default());
        let mut all: BTreeMap<Name, Self> = drivers.map(none).collect();
        for set in DaemonSet::all(cluster) {
            // What admits pods refuses those whose selector and that of their namespace contradict each other.
            let added = cluster.namespaces.get(&set.key.namespace);
            let is_refused =
                added.is_some_and(|added| named_by_labels(&added.labels) == Some(System::Other));
            let is_for_windows = report.asked.get(set.key) == Some(&System::Windows) && !is_refused;
            for name in &set.node_side.names {
                match all.get_mut(name) {
                    Some(sets) if is_for_windows => sets.windows.push(set),
                    Some(sets) => sets.others.push(set),
                    None => {}
                }
            }
        }
        for sets in all.values_mut() {
            sets.windows.sort_by_key(DaemonSet::order);
            sets.others.sort_by_key(DaemonSet::order);
        }
        let is_open = |sets: &Self| sets.windows.is_empty();
        if report.windows.is_empty() || !all.values().any(is_open) {
            return all;
        }
        let folders = folders::open_folders(report, cluster);
        if folders.is_empty() {
            return all;
        }
        let of_folders: Rc<[DaemonSet<'a>]> = folders.values().flatten().copied().collect();
        let left = folders::OpenDrivers::of(report, cluster, &of_folders);
        for (driver, sets) in all.iter_mut().filter(|(_, sets)| is_open(sets)) {
            match left.is_of(driver, folders.len()) {
                Some(true) => sets.windows = of_folders.to_vec(),
                Some(false) => sets.perhaps = Rc::clone(&of_folders),
                None => {}
            }
        }
        all
    }

    /// Returns the DaemonSets for Windows nodes that can register the driver there, not only name it.
    pub fn that_register(&self, driver: &str) -> impl Iterator<Item = &DaemonSet<'a>> {
        let sets = self.windows.iter();
        sets.filter(move |set| set.node_side.registers.contains(driver))
    }
}

impl<'a> DaemonSet<'a> {
    /// Iterates over the DaemonSets that look like the node side of a driver, or use or run csi-proxy.
    pub fn all(cluster: &'a Cluster) -> impl Iterator<Item = Self> {
        let sets = cluster.owners[WorkloadKind::DaemonSet].iter();
        sets.filter_map(|(key, owner)| {
            let node_side = owner.node_side.as_deref()?;
            Some(Self {
                key,
                owner,
                node_side,
            })
        })
    }

    fn order(&self) -> (&'a Name, &'a Name) {
        (&self.key.name, &self.key.namespace)
    }

    /// Returns the object for a finding on the DaemonSet.
    fn object(&self) -> String {
        format!("DaemonSet/{}", self.key)
    }

    /// Whether the DaemonSet created the pod.
    fn has_made(&self, key: &ObjectKey, pod: &Pod) -> bool {
        let is_of_it = pod.controller.is_some() && pod.controller == self.owner.uid;
        is_of_it && key.namespace == self.key.namespace
    }
}

/// One node and one driver.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The driver.
    pub driver: &'a str,
    /// The driver's DaemonSets.
    pub sets: &'a DaemonSets<'a>,
    /// The node's name.
    pub name: &'a Name,
    /// The node.
    pub node: &'a Node,
    /// The pods bound to the node.
    pub pods: &'a [(&'a ObjectKey, &'a Pod)],
}

impl<'a> Place<'a> {
    /// Returns the driver's DaemonSets that could have a pod on the node: those that select it, or all if none does. The
    /// one that tolerates most of the node's taints comes first.
    fn sets_for_node(&self) -> Vec<&'a DaemonSet<'a>> {
        let selects = |set: &&DaemonSet<'_>| set.node_side.selects(self.name, self.node);
        let mut sets: Vec<_> = self.sets.windows.iter().collect();
        if sets.iter().any(selects) {
            sets.retain(selects);
        }
        // Anyone can make others beside those whose pods are there.
        let is_absent =
            |set: &DaemonSet<'_>| !self.pods.iter().any(|(key, pod)| set.has_made(key, pod));
        sets.sort_by_cached_key(|set| {
            (
                is_absent(set),
                set.node_side.not_tolerated(self.node).0.len(),
            )
        });
        sets
    }

    /// Whether files may lack a DaemonSet: they have none at all, or nothing of a namespace that the cluster has.
    fn may_lack_daemon_sets(&self) -> bool {
        let cluster = self.cluster;
        let has_none = cluster.owners[WorkloadKind::DaemonSet].is_empty();
        let may_lack = has_none || !cluster.absent_namespaces.is_empty();
        cluster.read_from == ReadFrom::Files && may_lack
    }

    /// Whether files may lack the pod that has made an entry: they show no pod of any driver on the node.
    fn may_lack_pods(&self) -> bool {
        let has_none = self.pods.iter().all(|(_, pod)| pod.driver.is_none());
        self.cluster.read_from == ReadFrom::Files && has_none
    }
}

/// Returns what to do if no DaemonSet installs the driver on Windows nodes.
fn deploy(driver: &str) -> String {
    match drivers::by_name(driver) {
        Some(known) => format!(
            "deploy it (upstream DaemonSet {}, see {})",
            known.daemon_set, known.home
        ),
        None => {
            "ask its vendor for one, or move the data to a driver that has one, such as smb.csi.k8s.io"
                .to_owned()
        }
    }
}

/// Whether the input is files without any pod in the namespace, so that a missing pod proves nothing.
fn lacks_pods_of(cluster: &Cluster, namespace: &Name) -> bool {
    cluster.read_from == ReadFrom::Files && !cluster.pods.has_any_of(namespace)
}
