//! The readiness report: what the judgement says, for people and machines.

use serde::{Deserialize, Serialize};

/// The whole judgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessReport {
    /// Whether the cluster may be upgraded.
    pub verdict: Verdict,
    /// The Windows nodes, by name.
    pub nodes: Vec<NodeReadiness>,
    /// The volumes of Windows workloads that need a driver or are in-tree.
    pub volumes: Vec<VolumeUse>,
    /// What else is worth knowing.
    pub findings: Vec<Finding>,
}

impl ReadinessReport {
    /// The volumes that hold upgrades.
    pub fn blocking(&self) -> impl Iterator<Item = &VolumeUse> {
        self.volumes.iter().filter(|volume| volume.blocking)
    }
}

/// Whether the cluster may be upgraded, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Unknown does not exist: what is not known is `False`.
    pub upgradeable: Upgradeable,
    /// A word for machines.
    pub reason: Reason,
    /// A sentence for people, at most 32,768 characters.
    pub message: String,
}

/// A condition's status, without `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Upgradeable {
    /// Go.
    True,
    /// Hold.
    False,
}

impl Upgradeable {
    /// As conditions write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
        }
    }
}

/// Why the verdict is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// An input has not been read completely.
    ReadinessUnknown,
    /// There is no Windows node.
    NoWindowsNodes,
    /// No Windows workload uses an in-tree volume.
    NoInTreeVolumes,
    /// A volume's type has no driver that takes over.
    NoCSIMigration,
    /// A Windows node has no CSINode object.
    CSINodeMissing,
    /// A driver that an in-tree volume needs is missing on a Windows node.
    DriversMissing,
    /// Every driver that in-tree volumes need is registered on every Windows node.
    DriversRegistered,
    /// The administrator accepts the risk.
    Override,
}

impl Reason {
    /// As conditions write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadinessUnknown => "ReadinessUnknown",
            Self::NoWindowsNodes => "NoWindowsNodes",
            Self::NoInTreeVolumes => "NoInTreeVolumes",
            Self::NoCSIMigration => "NoCSIMigration",
            Self::CSINodeMissing => "CSINodeMissing",
            Self::DriversMissing => "DriversMissing",
            Self::DriversRegistered => "DriversRegistered",
            Self::Override => "Override",
        }
    }
}

/// One Windows node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReadiness {
    /// The node's name.
    pub name: String,
    /// Whether it has its CSINode object.
    pub csi_node: bool,
    /// The drivers that are registered on it.
    pub drivers: Vec<String>,
    /// The drivers that are needed and not registered on it.
    pub missing_drivers: Vec<String>,
    /// Whether a live pod on it mounts one of csi-proxy's pipes.
    pub needs_csi_proxy: bool,
}

/// A volume of a Windows workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeUse {
    /// Who uses it.
    pub workload: Workload,
    /// Its name in the workload.
    pub volume: String,
    /// How it was found.
    pub source: Source,
    /// The claim, where there is one.
    pub persistent_volume_claim: Option<String>,
    /// The `PersistentVolume`, where the claim is bound.
    pub persistent_volume: Option<String>,
    /// The class that decides, or that the claim names.
    pub storage_class: Option<String>,
    /// The in-tree plugin.
    pub plugin: Option<String>,
    /// The CSI driver that the volume needs.
    pub csi_driver: Option<String>,
    /// Whether it is an in-tree volume.
    pub in_tree: bool,
    /// Whether it holds upgrades.
    pub blocking: bool,
    /// The Windows nodes on which its driver is missing.
    pub missing_on: Vec<String>,
}

/// Who uses a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Workload {
    /// The object's kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How a volume was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// Written into the pod.
    Inline,
    /// Through a claim that is bound.
    PersistentVolume,
    /// Through the class of a claim that is not bound.
    StorageClass,
}

/// Something worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// A stable word for machines.
    pub code: String,
    /// `Kind/namespace/name` or `Kind/name`.
    pub object: String,
    /// What it is and what to do.
    pub message: String,
}
