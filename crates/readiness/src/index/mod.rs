//! The cluster as plain data: what was read, and whether it is complete.

mod driver_pods;
mod names;
mod objects;
mod owners;
mod placement;
mod platform;
mod table;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Index, IndexMut};

pub use driver_pods::{DriverPod, Image, NodeSide, Taint, Toleration};
pub use names::{drop_unused_names, intern};
pub use objects::{
    Claim, ConfigMap, CsiNode, Labels, Name, Node, NodeAddress, ObjectKey, PersistentVolume, Pod,
    PodVolume, PodVolumeSource, RuntimeClass, Secret, StorageClass, VolumeType,
};
pub use owners::{ClaimTemplate, Owner, Revision, WorkloadKey, WorkloadKind};
pub use placement::{Placement, System};
pub use platform::{Platform, PlatformSignal};
pub use table::{AnyTable, Key, Table, version_number};

use crate::api::{
    CsiProxyStatus, SETTINGS_NAME, WindowsNodeStorageStatus, WindowsStorage, WindowsStorageSpec,
};
use crate::objects::KINDS;

/// Where the cluster was read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The API server.
    #[default]
    Api,
    /// Files, which say nothing of what runs on nodes at present.
    Files,
}

/// Everything that is known of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Where it was read from.
    pub read_from: ReadFrom,
    /// What of the files could not be read, though it may be of use.
    pub unread_input: Option<String>,
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
    /// Pods that have not ended and have a volume of interest, a part in a CSI driver, or a controller and a node; of those
    /// that the API server has, not those on nodes of another system.
    pub pods: Table<ObjectKey, Pod>,
    /// Nodes whose pods were left out.
    pub without_pods: BTreeSet<Name>,
    /// The objects that make pods, by kind.
    pub owners: Owners,
    /// Claims.
    pub claims: Table<ObjectKey, Claim>,
    /// `PersistentVolumes` by name.
    pub volumes: Table<Name, PersistentVolume>,
    /// `StorageClasses` by name.
    pub classes: Table<Name, StorageClass>,
    /// `RuntimeClasses` by name.
    pub runtime_classes: Table<Name, RuntimeClass>,
    /// `ConfigMaps` with the feature switches of a CSI driver, in any namespace.
    pub feature_switches: Table<ObjectKey, ConfigMap>,
    /// What the administrator wants: the object `cluster`.
    pub settings: Table<String, WindowsStorage>,
    /// The status that the operator itself has written per Windows node.
    pub node_statuses: Table<String, WindowsNodeStorageStatus>,
    /// `ConfigMaps` of the operator's namespace.
    pub config_maps: Table<String, ConfigMap>,
    /// The Secret with the SSH key.
    pub secrets: Table<String, Secret>,
}

/// The objects that make pods: one table a kind. That of [`WorkloadKind::Pod`] stays empty.
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
    /// The owner of that key; a Pod is none.
    #[must_use]
    pub fn get(&self, key: &WorkloadKey) -> Option<&Owner> {
        self[key.kind].get(&key.object)
    }
}

/// A kind that cannot be relied on, or a part of the files that could hold any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread<'a> {
    /// What it is.
    pub kind: &'static str,
    /// Why, where it is known: a list that only has not ended yet has no problem.
    pub problem: Option<&'a str>,
}

impl fmt::Display for Unread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problem {
            Some(problem) => write!(f, "{} ({problem})", self.kind),
            None => f.write_str(self.kind),
        }
    }
}

impl Cluster {
    /// What the verdict rests on and has not been read completely.
    #[must_use]
    pub fn unread(&self) -> Vec<Unread<'_>> {
        let mut unread = self.unread_where(|table| !table.is_complete());
        unread.extend(self.unread_input.as_deref().map(|problem| Unread {
            kind: "a part of the files",
            problem: Some(problem),
        }));
        unread
    }

    /// The kinds on which the verdict rests and that were read once, but cannot be read at present.
    #[must_use]
    pub fn stale(&self) -> Vec<Unread<'_>> {
        self.unread_where(|table| table.is_complete() && table.problem().is_some())
    }

    fn unread_where(&self, is_unread: impl Fn(&dyn AnyTable) -> bool) -> Vec<Unread<'_>> {
        let kinds = KINDS.iter().filter(|kind| kind.decides);
        kinds
            .map(|kind| (kind.name(), kind.table(self)))
            .filter(|(_, table)| is_unread(*table))
            .map(|(kind, table)| Unread {
                kind,
                problem: table.problem(),
            })
            .collect()
    }

    /// Whether everything that work on nodes depends on has been read.
    #[must_use]
    pub fn knows_configuration(&self) -> bool {
        self.config_maps.is_complete()
            && self.secrets.is_complete()
            && self.settings.is_complete()
            // What the administrator wants is there and cannot be read: the defaults would be something else.
            && !self.settings.is_unreadable(&SETTINGS_NAME.to_owned())
            // Whose a node is follows from these: nobody logs in before.
            && self.nodes.is_complete()
            && self.node_statuses.is_complete()
            && self.owners[WorkloadKind::DaemonSet].is_complete()
    }

    /// csi-proxy as last seen on that node. Files say nothing of what runs at present.
    #[must_use]
    pub fn csi_proxy(&self, node: &str) -> Option<&CsiProxyStatus> {
        match self.read_from {
            ReadFrom::Api => self.node_statuses.get(node)?.csi_proxy.as_ref(),
            ReadFrom::Files => None,
        }
    }

    /// The Windows nodes, by name.
    pub fn windows_nodes(&self) -> impl Iterator<Item = (&Name, &Node)> {
        self.nodes.iter().filter(|(_, node)| node.is_windows())
    }

    /// What the administrator wants, by default everything at its default.
    #[must_use]
    pub fn wanted(&self) -> WindowsStorageSpec {
        let object = self.settings.get(SETTINGS_NAME);
        object.map(|object| object.spec.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
