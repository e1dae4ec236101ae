//! The parts of cluster objects that judgement needs, as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use zeroize::Zeroizing;

use crate::assess::plugins::Plugin;

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// `status.addresses`, in their order.
    pub addresses: Vec<NodeAddress>,
}

impl Node {
    /// Whether the operator counts it among the Windows nodes.
    #[must_use]
    pub fn is_windows(&self) -> bool {
        self.operating_system == "windows" && !self.ignored && !self.deleting
    }
}

/// One of a Node's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname`, …
    pub kind: String,
    /// The address.
    pub address: String,
}

/// A CSINode: the drivers that are registered on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// Names of the entries in `spec.drivers`.
    pub drivers: BTreeSet<String>,
}

/// A Pod that uses storage and has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// The Node that it is bound to.
    pub node_name: Option<String>,
    /// Asks for Windows by `spec.os.name` or a node selector.
    pub asks_for_windows: bool,
    /// Its volumes that matter for storage.
    pub volumes: Vec<PodVolume>,
    /// csi-proxy pipes that it mounts, without `\\.\pipe\`.
    pub csi_proxy_pipes: Vec<String>,
}

/// A volume of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVolume {
    /// Its name within the Pod.
    pub name: String,
    /// Where it comes from.
    pub source: PodVolumeSource,
}

/// Where a Pod's volume comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodVolumeSource {
    /// A claim in the Pod's namespace.
    Claim(String),
    /// A claim made for this Pod from a template, named `<pod>-<volume>`.
    Ephemeral {
        /// The template's class; `None` stands for the default class.
        storage_class: Option<String>,
    },
    /// Written into the Pod itself: a CSI driver or an in-tree type.
    Inline(VolumeType),
}

/// What serves a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeType {
    /// The CSI driver of that name.
    Csi(String),
    /// An in-tree plugin.
    InTree(&'static Plugin),
}

/// A `PersistentVolumeClaim`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// `spec.volumeName`.
    pub volume_name: Option<String>,
    /// Its class; `None` stands for the default class, `""` for none.
    pub storage_class: Option<String>,
    /// The provisioner that the controller has noted on it.
    pub provisioner: Option<String>,
}

/// A `PersistentVolume`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentVolume {
    /// What serves it; `None` for types that neither are in-tree plugins nor need a driver.
    pub source: Option<VolumeType>,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageClass {
    /// Its provisioner.
    pub provisioner: String,
    /// Marked as the default class.
    pub is_default: bool,
    /// Creation time in seconds since 1970: of several default classes the newest is taken.
    pub created: i64,
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
