//! The cluster as plain data: the objects that were read, and whether they are complete.

mod driver_pods;
mod names;
mod objects;
mod owners;
mod placement;
mod platform;
mod selection;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};

pub use driver_pods::{DriverPod, NodeSide, Taint, Toleration};
pub use names::{drop_unused_names, intern};
pub use objects::{
    Access, Claim, ConfigMap, CsiNode, Labels, LeftOut, Name, Node, NodeAddress, ObjectKey,
    PersistentVolume, Pod, PodVolume, PodVolumeSource, Secret, StorageClass, VolumeType,
};
pub use owners::{ClaimTemplate, Owner, Revision, WorkloadKey, WorkloadKind};
pub use placement::{Placement, System};
pub use platform::{Platform, PlatformSignal};
pub use selection::{Moving, NodeSelection};
pub(crate) use selection::{from_text, to_text};
pub use table::{AnyTable, Key, Listed, Table};

pub use crate::assess::drivers::Image;

use crate::api::{
    CsiProxyStatus, SETTINGS_NAME, WindowsNodeStorageStatus, WindowsStorage, WindowsStorageSpec,
};
use crate::visible::some_of;

/// Where the cluster was read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The API server.
    #[default]
    Api,
    /// Files, which do not show what currently runs on nodes.
    Files,
}

/// All that was read from the cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Where it was read from.
    pub read_from: ReadFrom,
    /// Why a part of the files could not be read.
    pub unread_input: Option<String>,
    /// Namespaces of which the files have no object, although a volume is bound to a claim there.
    pub absent_namespaces: BTreeSet<Name>,
    /// Kinds of which the files have no object.
    pub absent_kinds: BTreeSet<&'static str>,
    /// The API server's version.
    pub api_server_version: Option<String>,
    /// The operator's own namespace.
    pub namespace: String,
    /// Nodes by name.
    pub nodes: Table<Name, Node>,
    /// `CSINodes` by name.
    pub csi_nodes: Table<Name, CsiNode>,
    /// Names of `CSIDrivers`.
    pub csi_drivers: Table<Name, ()>,
    /// Running and pending pods that have a relevant volume, are part of a CSI driver, or have both a controller and a
    /// node.
    pub pods: Table<ObjectKey, Pod>,
    /// The objects that create pods, by kind.
    pub owners: Owners,
    /// `PersistentVolumeClaims`.
    pub claims: Table<ObjectKey, Claim>,
    /// `PersistentVolumes` by name.
    pub volumes: Table<Name, PersistentVolume>,
    /// `StorageClasses` by name.
    pub classes: Table<Name, StorageClass>,
    /// The node selectors of `RuntimeClasses`, by name.
    pub runtime_classes: Table<Name, NodeSelection>,
    /// The node selectors of Namespaces that have one, by name.
    pub namespaces: Table<Name, NodeSelection>,
    /// `ConfigMaps` with a CSI driver's feature switches, in any namespace.
    pub feature_switches: Table<ObjectKey, ConfigMap>,
    /// The administrator's settings: the object `cluster`.
    pub settings: Table<String, WindowsStorage>,
    /// The statuses that the operator wrote, one per Windows node.
    pub node_statuses: Table<String, WindowsNodeStorageStatus>,
    /// `ConfigMaps` in the operator's namespace.
    pub config_maps: Table<String, ConfigMap>,
    /// The Secrets that the settings name, as far as they have been read.
    pub secrets: BTreeMap<String, Secret>,
}

/// The objects that create pods, one table per kind. The table of [`WorkloadKind::Pod`] stays empty.
#[derive(Clone, Debug, Default)]
pub struct Owners([Table<ObjectKey, Owner>; WorkloadKind::ALL.len()]);

impl Index<WorkloadKind> for Owners {
    type Output = Table<ObjectKey, Owner>;

    fn index(&self, kind: WorkloadKind) -> &Self::Output {
        &self.0[kind as usize]
    }
}

impl IndexMut<WorkloadKind> for Owners {
    fn index_mut(&mut self, kind: WorkloadKind) -> &mut Self::Output {
        &mut self.0[kind as usize]
    }
}

impl Owners {
    /// Returns the owner with this key; `None` for a Pod.
    pub fn get(&self, key: &WorkloadKey) -> Option<&Owner> {
        self[key.kind].get(&key.object)
    }

    /// Iterates over the owners of all kinds.
    pub fn iter(&self) -> impl Iterator<Item = (WorkloadKind, &ObjectKey, &Owner)> {
        let kinds = WorkloadKind::ALL.into_iter();
        kinds.flat_map(|kind| {
            self[kind]
                .iter()
                .map(move |(key, owner)| (kind, key, owner))
        })
    }
}

/// A kind, or a part of the files, that was not read completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The kind, or the part.
    pub kind: &'static str,
    /// The cause, if known. A list still in progress has none.
    pub problem: Option<String>,
}

impl Unread {
    /// Creates one with its cause.
    pub(crate) fn new(kind: &'static str, problem: impl Into<String>) -> Self {
        Self {
            kind,
            problem: Some(problem.into()),
        }
    }
}

/// How many nodes or namespaces a message names before it counts the rest.
const NAMED: usize = 10;

/// Joins names, and counts the rest beyond ten.
pub(crate) fn list(names: &BTreeSet<Name>) -> String {
    some_of(names.iter().map(Name::as_str), NAMED)
}

/// Names what was not read, and what several kinds have in common, such as a missing right, once.
pub fn list_unread(unread: &[Unread]) -> String {
    let mut groups: Vec<(Vec<&str>, Option<&str>)> = Vec::new();
    for Unread { kind, problem } in unread {
        let problem = problem.as_deref();
        match groups.iter_mut().find(|(_, common)| *common == problem) {
            Some((kinds, _)) => kinds.push(kind),
            None => groups.push((vec![kind], problem)),
        }
    }
    let groups = groups.iter().map(|(kinds, problem)| match problem {
        Some(problem) => format!("{} ({problem})", kinds.join(", ")),
        None => kinds.join(", "),
    });
    groups.collect::<Vec<_>>().join(", ")
}

impl Cluster {
    /// Whether everything that node management depends on has been read.
    pub fn knows_configuration(&self) -> bool {
        self.config_maps.is_complete()
            && self.settings.is_complete()
            && (self.wanted().secrets().iter()).all(|name| self.secrets.contains_key(*name))
            // If the settings exist but cannot be read, the defaults could contradict them.
            && !self.settings.is_unreadable(&SETTINGS_NAME.to_owned())
            // These show who manages a node. The operator must not log in before it knows.
            && self.nodes.is_complete()
            && self.node_statuses.is_complete()
            && self.owners[WorkloadKind::DaemonSet].is_complete()
    }

    /// Returns csi-proxy's last known state on a node. `None` for files, which do not show what currently runs.
    pub fn csi_proxy(&self, node: &str) -> Option<&CsiProxyStatus> {
        match self.read_from {
            ReadFrom::Api => self.node_statuses.get(node)?.csi_proxy.as_ref(),
            ReadFrom::Files => None,
        }
    }

    /// Returns the node's CSINode. One that an earlier Node of the same name owns does not count: the kubelet fills it
    /// again, or the garbage collector deletes it.
    pub fn csi_node(&self, node: &Name) -> Option<&CsiNode> {
        let csi_node = self.csi_nodes.get(node)?;
        let uid = self.nodes.get(node).map_or("", |node| &node.uid);
        let owner = csi_node.node_uid.as_deref();
        let is_of_another = owner.is_some_and(|owner| !uid.is_empty() && owner != uid);
        (!is_of_another).then_some(csi_node)
    }

    /// Whether the node's CSINode lists the driver.
    pub fn is_registered(&self, node: &Name, driver: &str) -> bool {
        let csi_node = self.csi_node(node);
        csi_node.is_some_and(|csi_node| csi_node.drivers.contains(driver))
    }

    /// Returns the Windows nodes, sorted by name.
    pub fn windows_nodes(&self) -> impl Iterator<Item = (&Name, &Node)> {
        self.nodes.iter().filter(|(_, node)| node.is_windows())
    }

    /// Returns the administrator's settings, or the defaults if there are none.
    pub fn wanted(&self) -> WindowsStorageSpec {
        let object = self.settings.get(SETTINGS_NAME);
        object.map(|object| object.spec.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
