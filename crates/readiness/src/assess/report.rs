//! The types of the readiness report.

use serde::{Deserialize, Serialize};

use crate::assess::CsiProxyUse;

/// The report's `apiVersion`.
pub const API_VERSION: &str = "windowsstorage.dev/v1alpha1";
/// The report's `kind`.
pub const KIND: &str = "ReadinessReport";

/// The readiness report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessReport {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// The cluster that was judged.
    pub cluster: ClusterFacts,
    /// The target version, such as `1.27` or `4.14`; `None` for any future version.
    pub target: Option<String>,
    /// Whether the cluster may be upgraded.
    pub verdict: Verdict,
    /// The Windows nodes, sorted by name.
    pub nodes: Vec<NodeReadiness>,
    /// The volumes of Windows workloads that need a driver or are in-tree.
    pub volumes: Vec<VolumeUse>,
    /// The drivers that some Windows workload needs or some Windows node has, sorted by name.
    pub drivers: Vec<DriverReadiness>,
    /// Findings on the cluster as a whole.
    pub findings: Vec<Finding>,
}

impl ReadinessReport {
    /// The volumes that hold upgrades.
    pub fn blocking(&self) -> impl Iterator<Item = &VolumeUse> {
        self.volumes.iter().filter(|volume| volume.blocking)
    }
}

/// The cluster that was judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFacts {
    /// The API server's version, or for files, the highest kubelet version.
    pub kubernetes_version: Option<String>,
    /// The number of Windows nodes.
    pub windows_nodes: usize,
}

/// Whether the cluster may be upgraded, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// True or False.
    pub upgradeable: Upgradeable,
    /// The reason code.
    pub reason: Reason,
    /// The message for people.
    pub message: String,
}

names! {
    /// A condition's status, without `Unknown`.
    #[derive(Serialize, Deserialize)]
    pub enum Upgradeable {
        /// The upgrade may proceed.
        True,
        /// The upgrade is held.
        False,
    }
}

names! {
    /// The reason for the verdict.
    #[derive(Serialize, Deserialize)]
    pub enum Reason {
        /// An input has not been read completely.
        ReadinessUnknown,
        /// There is no Windows node.
        NoWindowsNodes,
        /// No Windows workload uses an in-tree volume.
        NoInTreeVolumes,
        /// No CSI driver takes over a volume.
        NoCSIMigration,
        /// A Windows node has no CSINode object.
        CSINodeMissing,
        /// A driver that an in-tree volume needs is missing on a Windows node.
        DriversMissing,
        /// Every driver that in-tree volumes need is registered on every Windows node.
        DriversRegistered,
        /// The administrator accepts the risk.
        Override,
        /// In-tree plugins still serve the volumes at the target version. Only `check` returns this.
        InTreeServed,
        /// A node is being updated. Only the gate returns this.
        NodeOperationInProgress,
    }
}

impl Reason {
    /// The reasons that the operator's own assessment returns: all but those of `check` and the gate.
    pub const JUDGED: &[Self] = Self::ALL.split_at(Self::ALL.len() - 2).0;
}

/// The readiness of one Windows node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReadiness {
    /// The node's name.
    pub name: String,
    /// Whether the node has a CSINode object.
    pub csi_node: bool,
    /// The drivers registered on the node.
    pub drivers: Vec<String>,
    /// The drivers that are needed but not registered on the node.
    pub missing_drivers: Vec<String>,
    /// Whether the CSINode exists, no driver is missing, and csi-proxy runs if needed (as far as known).
    pub ready: bool,
    /// The node's problems, and why drivers are missing on it.
    pub findings: Vec<Finding>,
    /// Whether csi-proxy must run on the node: a pod or DaemonSet uses its pipes, or the administrator requires it.
    #[serde(skip)]
    pub needs_csi_proxy: bool,
    /// What uses, or may use, csi-proxy on the node.
    #[serde(skip)]
    pub csi_proxy_use: Option<CsiProxyUse>,
}

/// The readiness of one CSI driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverReadiness {
    /// The driver's name.
    pub name: String,
    /// The Windows nodes where the driver is registered.
    pub registered_on: Vec<String>,
    /// The Windows nodes where the driver is needed but not registered.
    pub missing_on: Vec<String>,
    /// The driver's DaemonSet for Windows nodes, as `namespace/name`.
    pub daemon_set: Option<String>,
    /// The csi-proxy pipes that the DaemonSet mounts, without `\\.\pipe\`.
    pub csi_proxy_pipes: Vec<String>,
    /// Why the driver is missing, and what to do about it.
    pub findings: Vec<Finding>,
}

/// A volume of a Windows workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeUse {
    /// The workload that uses the volume.
    pub workload: Workload,
    /// The volume's name in the workload.
    pub volume: String,
    /// How it was found.
    pub source: Source,
    /// The claim, if any.
    pub persistent_volume_claim: Option<String>,
    /// The `PersistentVolume`, if the claim is bound.
    pub persistent_volume: Option<String>,
    /// The class that determines the driver, or that the claim names.
    pub storage_class: Option<String>,
    /// The in-tree plugin.
    pub plugin: Option<String>,
    /// The CSI driver that the volume needs.
    pub csi_driver: Option<String>,
    /// Whether the volume is in-tree.
    pub in_tree: bool,
    /// Whether the volume holds upgrades.
    pub blocking: bool,
    /// The Windows nodes where the volume's driver is missing.
    pub missing_on: Vec<String>,
}

/// A workload that uses a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Workload {
    /// The object's kind.
    pub kind: String,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

/// How a volume was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// In the pod's spec.
    Inline,
    /// Through a bound claim.
    PersistentVolume,
    /// Through the class of an unbound claim.
    StorageClass,
}

/// A problem or recommendation on an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// A stable code for machines.
    pub code: String,
    /// The object: `Kind/namespace/name` or `Kind/name`.
    pub object: String,
    /// The problem and what to do.
    pub message: String,
}

impl Finding {
    /// Creates a finding.
    #[must_use]
    pub fn new(code: &str, object: String, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            object,
            message: message.into(),
        }
    }
}
