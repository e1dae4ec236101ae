//! The parts of cluster objects that judgement needs, as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use arcstr::ArcStr;
pub use k8s_openapi::api::core::v1::NodeAddress;
use zeroize::Zeroizing;

use crate::assess::plugins::Plugin;
use crate::index::driver_pods::{DriverPod, Taint};

/// A name that many rows share.
pub type Name = ArcStr;

/// Namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: Name,
    /// The name.
    pub name: Name,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    #[must_use]
    pub fn new(namespace: impl Into<Name>, name: impl Into<Name>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The object's uid, for owner references and events.
    pub uid: String,
    /// `kubernetes.io/os`, or what `status.nodeInfo` says where the label is absent.
    pub operating_system: String,
    /// Labelled `windowsstorage.dev/ignore=true`.
    pub ignored: bool,
    /// Being deleted.
    pub deleting: bool,
    /// Carries WMCO's version annotation: WMCO looks after csi-proxy there.
    pub managed_by_wmco: bool,
    /// The version of WMCO whose services document the node follows.
    pub wmco_version: Option<String>,
    /// `status.nodeInfo.bootID`: another one means that the host was started again.
    pub boot_id: String,
    /// The host key that WMCO has noted in an annotation.
    pub wmco_host_key: Option<String>,
    /// Its type, from another.
    pub wmco_host_key_type: Option<String>,
    /// `status.addresses`, in their order.
    pub addresses: Vec<NodeAddress>,
    /// `status.nodeInfo.kubeletVersion`.
    pub kubelet_version: String,
    /// Taints that keep pods away.
    pub taints: Vec<Taint>,
}

impl Node {
    /// Whether the operator counts it among the Windows nodes.
    #[must_use]
    pub fn is_windows(&self) -> bool {
        self.runs_windows() && !self.ignored && !self.deleting
    }

    /// Whether Windows is its operating system, whatever else it is.
    #[must_use]
    pub fn runs_windows(&self) -> bool {
        self.operating_system == "windows"
    }

    /// Whether its operating system is known, and is not Windows.
    #[must_use]
    pub fn runs_another_system(&self) -> bool {
        !self.operating_system.is_empty() && !self.runs_windows()
    }
}

/// A CSINode: the drivers that are registered on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// Names of the entries in `spec.drivers`.
    pub drivers: Arc<BTreeSet<Name>>,
}

/// How a pod, or a pod template, asks for Windows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowsRequest {
    /// By its own `spec.os`, node selector or node affinity.
    pub by_itself: bool,
    /// Its RuntimeClass, which may ask in its stead.
    pub runtime_class: Option<Name>,
}

impl WindowsRequest {
    /// Whether nothing in it can ask for Windows.
    #[must_use]
    pub fn never_asks(&self) -> bool {
        !self.by_itself && self.runtime_class.is_none()
    }
}

/// A Pod that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// The Node that it is bound to.
    pub node_name: Option<Name>,
    /// How it asks for Windows.
    pub request: WindowsRequest,
    /// The uid of its controller.
    pub controller: Option<Name>,
    /// Its volumes that matter for storage.
    pub volumes: Box<[PodVolume]>,
    /// csi-proxy pipes that it mounts, without `\\.\pipe\`.
    pub csi_proxy_pipes: Box<[String]>,
    /// What it is as a part of a CSI driver, if it looks like one.
    pub driver: Option<Box<DriverPod>>,
}

/// A volume of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVolume {
    /// Its name within the Pod.
    pub name: Name,
    /// Where it comes from.
    pub source: PodVolumeSource,
}

/// Where a Pod's volume comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodVolumeSource {
    /// A claim in the Pod's namespace.
    Claim(Name),
    /// A claim made for this Pod, named `<pod>-<volume>`, from this template.
    Ephemeral(Claim),
    /// Written into the Pod itself: a CSI driver or an in-tree type.
    Inline(VolumeType),
}

/// What serves a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeType {
    /// The CSI driver of that name.
    Csi(Name),
    /// An in-tree plugin.
    InTree(&'static Plugin),
}

/// A `PersistentVolumeClaim`, or the template of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// `spec.volumeName`.
    pub volume_name: Option<Name>,
    /// Its class; `None` stands for the default class, `""` for none.
    pub storage_class: Option<Name>,
    /// The provisioner that the controller has noted on it.
    pub provisioner: Option<Name>,
}

/// A `PersistentVolume`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentVolume {
    /// What serves it; `None` for types that neither are in-tree plugins nor need a driver.
    pub source: Option<VolumeType>,
    /// Its data goes when its claim goes: `persistentVolumeReclaimPolicy` is `Delete`.
    pub goes_with_claim: bool,
    /// The claim that an in-tree one is bound to.
    pub bound_to: Option<ObjectKey>,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageClass {
    /// Its provisioner.
    pub provisioner: Name,
    /// Marked as the default class.
    pub is_default: bool,
    /// Creation time in seconds since 1970: of several default classes the newest is taken.
    pub created: i64,
}

/// A RuntimeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeClass {
    /// Whether its `scheduling.nodeSelector` asks for Windows.
    pub asks_for_windows: bool,
}

/// A `ConfigMap` of the operator's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMap {
    /// Its `data`.
    pub data: BTreeMap<String, String>,
    /// Cannot be changed.
    pub immutable: bool,
    /// For writes that must not overwrite another's.
    pub resource_version: String,
}

/// A Secret of the operator's namespace. Its content never appears in `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret {
    /// Its `data`.
    pub data: BTreeMap<String, Zeroizing<Vec<u8>>>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("keys", &self.data.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_its_content() {
        let secret = Secret {
            data: BTreeMap::from([(
                "private-key.pem".to_owned(),
                Zeroizing::new(b"canary".to_vec()),
            )]),
        };
        let shown = format!("{secret:?}");
        assert!(shown.contains("private-key.pem"));
        assert!(!shown.contains("canary") && !shown.contains("99, 97"));
    }
}
