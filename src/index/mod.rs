//! The cluster as plain data: what was read, and whether it is complete.

mod objects;
mod table;

use std::fmt;

pub use objects::{
    Claim, ConfigMap, CsiNode, Node, NodeAddress, ObjectKey, PersistentVolume, Pod, PodVolume,
    PodVolumeSource, Secret, StorageClass, VolumeType,
};
pub use table::Table;

use crate::api::{WindowsNodeStorageStatus, WindowsStorage};

/// Everything that the operator knows of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The operator's own namespace.
    pub namespace: String,
    /// Nodes by name.
    pub nodes: Table<String, Node>,
    /// `CSINodes` by name.
    pub csi_nodes: Table<String, CsiNode>,
    /// Names of `CSIDrivers`.
    pub csi_drivers: Table<String, ()>,
    /// Pods that have a volume of interest or mount one of csi-proxy's pipes.
    pub pods: Table<ObjectKey, Pod>,
    /// Claims.
    pub claims: Table<ObjectKey, Claim>,
    /// `PersistentVolumes` by name.
    pub volumes: Table<String, PersistentVolume>,
    /// `StorageClasses` by name.
    pub classes: Table<String, StorageClass>,
    /// What the administrator wants: the object `cluster`.
    pub settings: Table<String, WindowsStorage>,
    /// The status that the operator itself has written per Windows node.
    pub node_statuses: Table<String, WindowsNodeStorageStatus>,
    /// `ConfigMaps` of the operator's namespace.
    pub config_maps: Table<String, ConfigMap>,
    /// The Secret with the SSH key.
    pub secrets: Table<String, Secret>,
}

/// A kind that cannot be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread<'a> {
    /// The kind.
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
    /// The kinds on which the verdict rests and that have not been read completely.
    #[must_use]
    pub fn unread(&self) -> Vec<Unread<'_>> {
        let tables = self.verdict_tables().into_iter();
        tables
            .filter(|(_, complete, _)| !complete)
            .map(|(kind, _, problem)| Unread { kind, problem })
            .collect()
    }

    /// The kinds on which the verdict rests and that were read once, but cannot be read at present.
    #[must_use]
    pub fn stale(&self) -> Vec<Unread<'_>> {
        let tables = self.verdict_tables().into_iter();
        tables
            .filter(|(_, complete, problem)| *complete && problem.is_some())
            .map(|(kind, _, problem)| Unread { kind, problem })
            .collect()
    }

    fn verdict_tables(&self) -> [(&'static str, bool, Option<&str>); 8] {
        [
            ("Node", self.nodes.is_complete(), self.nodes.problem()),
            (
                "CSINode",
                self.csi_nodes.is_complete(),
                self.csi_nodes.problem(),
            ),
            (
                "CSIDriver",
                self.csi_drivers.is_complete(),
                self.csi_drivers.problem(),
            ),
            ("Pod", self.pods.is_complete(), self.pods.problem()),
            (
                "PersistentVolumeClaim",
                self.claims.is_complete(),
                self.claims.problem(),
            ),
            (
                "PersistentVolume",
                self.volumes.is_complete(),
                self.volumes.problem(),
            ),
            (
                "StorageClass",
                self.classes.is_complete(),
                self.classes.problem(),
            ),
            (
                "WindowsStorage",
                self.settings.is_complete(),
                self.settings.problem(),
            ),
        ]
    }

    /// Whether everything that work on nodes depends on has been read.
    #[must_use]
    pub fn knows_configuration(&self) -> bool {
        self.config_maps.is_complete()
            && self.secrets.is_complete()
            && self.settings.is_complete()
            && self.nodes.is_complete()
            && self.node_statuses.is_complete()
    }

    /// The Windows nodes, by name.
    pub fn windows_nodes(&self) -> impl Iterator<Item = (&String, &Node)> {
        self.nodes.iter().filter(|(_, node)| node.is_windows())
    }

    /// What the administrator wants, by default everything at its default.
    #[must_use]
    pub fn wanted(&self) -> crate::api::WindowsStorageSpec {
        self.settings
            .get(crate::api::SETTINGS_NAME)
            .map(|object| object.spec.clone())
            .unwrap_or_default()
    }
}
