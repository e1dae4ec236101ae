//! The types of the readiness report.

use serde::{Deserialize, Serialize};

use crate::assess::CsiProxyUse;

/// The report's `apiVersion`.
pub const API_VERSION: &str = "windowsstorage.dev/v1alpha1";
/// The report's `kind`.
pub const KIND: &str = "ReadinessReport";

/// The whole judgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessReport {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// What was judged.
    pub cluster: ClusterFacts,
    /// The version that was judged for, such as `1.27` or `4.14`; `None` for any to come.
    pub target: Option<String>,
    /// Whether the cluster may be upgraded.
    pub verdict: Verdict,
    /// The Windows nodes, by name.
    pub nodes: Vec<NodeReadiness>,
    /// The volumes of Windows workloads that need a driver or are in-tree.
    pub volumes: Vec<VolumeUse>,
    /// The drivers that some Windows workload needs or some Windows node has, by name.
    pub drivers: Vec<DriverReadiness>,
    /// What else is worth knowing.
    pub findings: Vec<Finding>,
}

impl ReadinessReport {
    /// The volumes that hold upgrades.
    pub fn blocking(&self) -> impl Iterator<Item = &VolumeUse> {
        self.volumes.iter().filter(|volume| volume.blocking)
    }
}

/// What was judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFacts {
    /// The API server's version, or the highest kubelet version where only files were read.
    pub kubernetes_version: Option<String>,
    /// How many Windows nodes there are.
    pub windows_nodes: usize,
}

/// Whether the cluster may be upgraded, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// True or False.
    pub upgradeable: Upgradeable,
    /// A word for machines.
    pub reason: Reason,
    /// A sentence for people.
    pub message: String,
}

names! {
    /// A condition's status, without `Unknown`.
    #[derive(Serialize, Deserialize)]
    pub enum Upgradeable {
        /// Go.
        True,
        /// Hold.
        False,
    }
}

names! {
    /// Why the verdict is as it is.
    #[derive(Serialize, Deserialize)]
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
        /// The in-tree plugins still serve their volumes at the version that was judged for. Only `check` says so.
        InTreeServed,
        /// A node is in the middle of an update. Only the gate says so.
        NodeOperationInProgress,
    }
}

impl Reason {
    /// Those that the operator judges the cluster by: all but those of `check` and of the gate alone.
    pub const JUDGED: &[Self] = Self::ALL.split_at(Self::ALL.len() - 2).0;
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
    /// CSINode there, no driver missing, and csi-proxy running where it is needed and that can be known.
    pub ready: bool,
    /// What is wrong with it, and why drivers are missing on it.
    pub findings: Vec<Finding>,
    /// Whether csi-proxy has to run on it: something there uses its pipes, or the administrator says so.
    #[serde(skip)]
    pub needs_csi_proxy: bool,
    /// What uses csi-proxy there, or may.
    #[serde(skip)]
    pub csi_proxy_use: Option<CsiProxyUse>,
}

/// One CSI driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverReadiness {
    /// The driver's name.
    pub name: String,
    /// The Windows nodes on which it is registered.
    pub registered_on: Vec<String>,
    /// The Windows nodes on which it is needed and not registered.
    pub missing_on: Vec<String>,
    /// Its DaemonSet for Windows nodes, as `namespace/name`.
    pub daemon_set: Option<String>,
    /// The pipes of csi-proxy that the DaemonSet mounts, without `\\.\pipe\`.
    pub csi_proxy_pipes: Vec<String>,
    /// Why it is missing, and what to do about it.
    pub findings: Vec<Finding>,
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

impl Finding {
    /// A finding.
    #[must_use]
    pub fn new(code: &str, object: String, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            object,
            message: message.into(),
        }
    }
}
