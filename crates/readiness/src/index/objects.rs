//! The parts of cluster objects that the assessment needs, as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use arcstr::ArcStr;
use jiff::Timestamp;
pub use k8s_openapi::api::core::v1::NodeAddress;
use zeroize::Zeroizing;

use crate::assess::plugins::Plugin;
use crate::index::driver_pods::{DriverPod, Taint};
use crate::index::placement::{Placement, System};
use crate::index::platform::PlatformSignal;

/// An interned name.
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
    /// Creates the key of an object in a namespace.
    pub fn new(namespace: impl Into<Name>, name: impl Into<Name>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Returns the words by which kubectl finds the object, after its kind.
    pub fn words(&self) -> [&str; 3] {
        ["-n", &self.namespace, &self.name]
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

const WINDOWS: &str = "windows";

/// A Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The Node's uid, for owner references and events.
    pub uid: String,
    /// The label `kubernetes.io/os`, or `status.nodeInfo` if the label is absent.
    pub operating_system: String,
    /// Why the Node and its pods do not count, if they do not.
    pub left_out: Option<LeftOut>,
    /// Being deleted.
    pub deleting: bool,
    /// The platform that manages csi-proxy on the Node, if the Node shows one.
    pub platform: Option<PlatformSignal>,
    /// Annotated `windowsstorage.dev/management=Managed`: this operator manages the Node even if a platform is detected.
    pub given: bool,
    /// When condition `Ready` last became True; absent if it is not True.
    pub ready_since: Option<Timestamp>,
    /// `status.nodeInfo.bootID`. It changes when the host reboots.
    pub boot_id: String,
    /// The SSH host key from WMCO's annotation.
    pub wmco_host_key: Option<String>,
    /// The host key's type, from another annotation.
    pub wmco_host_key_type: Option<String>,
    /// `status.addresses`, in order.
    pub addresses: Vec<NodeAddress>,
    /// `status.nodeInfo.kubeletVersion`.
    pub kubelet_version: String,
    /// The build of Windows, such as `10.0.20348`, or else its name; empty if the Node shows neither.
    pub windows_build: String,
    /// `NoSchedule` and `NoExecute` taints.
    pub taints: Vec<Taint>,
    /// The Node's labels, sorted by key.
    pub labels: Labels,
}

/// Why a Node is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Labelled `windowsstorage.dev/ignore=true`.
    Ignored,
    /// No machine, and without a kubelet: pods on it run elsewhere, and no CSI driver ever registers there.
    Virtual,
}

/// Labels sorted by key.
pub type Labels = Arc<[(Name, Name)]>;

impl Node {
    /// Whether the operator handles this as a Windows node: ignored and deleted nodes do not count.
    pub fn is_windows(&self) -> bool {
        self.runs_windows() && self.left_out.is_none() && !self.deleting
    }

    /// Whether the Node's operating system is Windows, even if it is ignored or being deleted.
    pub fn runs_windows(&self) -> bool {
        self.system() == Some(System::Windows)
    }

    /// Returns the Node's operating system, if known.
    pub fn system(&self) -> Option<System> {
        match self.operating_system.as_str() {
            "" => None,
            WINDOWS => Some(System::Windows),
            _ => Some(System::Other),
        }
    }
}

/// A CSINode: the drivers and redirected plugins that the kubelet reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// Names of the entries in `spec.drivers`.
    pub drivers: Arc<BTreeSet<Name>>,
    /// The in-tree plugins whose volumes the kubelet redirects, from its annotation.
    pub redirected: Box<[&'static Plugin]>,
    /// The uid of the Node that owns it.
    pub node_uid: Option<Name>,
}

/// A Pod that has not terminated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// The Node that it is bound to.
    pub node_name: Option<Name>,
    /// The Pod's scheduling constraints.
    pub placement: Placement,
    /// The uid of the Pod's controller.
    pub controller: Option<Name>,
    /// Which nodes could take the Pod if it left its own, as a [`Moving`](crate::index::Moving)'s text. Absent for a Pod
    /// without relevant volumes, and for one that does not move: of a DaemonSet, or static.
    pub moving: Option<Name>,
    /// The Pod's relevant volumes.
    pub volumes: Box<[PodVolume]>,
    /// The csi-proxy pipes that the Pod mounts, without `\\.\pipe\`.
    pub csi_proxy_pipes: Box<[String]>,
    /// Present if the Pod looks like part of a CSI driver.
    pub driver: Option<Box<DriverPod>>,
}

/// A volume of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVolume {
    /// The volume's name in the Pod.
    pub name: Name,
    /// The volume's source.
    pub source: PodVolumeSource,
}

/// The source of a Pod's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodVolumeSource {
    /// A claim in the Pod's namespace.
    Claim(Name),
    /// A generic ephemeral volume: a claim named `<pod>-<volume>`, created from this template.
    Ephemeral(Claim),
    /// An inline volume: a CSI driver or an in-tree type.
    Inline(VolumeType),
}

/// The driver or plugin that serves a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VolumeType {
    /// The CSI driver with this name.
    Csi(Name),
    /// An in-tree plugin.
    InTree(&'static Plugin),
    /// An in-tree plugin's volume of a form that its CSI driver does not take over: an Azure disk that is not managed.
    NotTakenOver(&'static Plugin),
}

impl VolumeType {
    /// Returns the in-tree plugin, if the volume is in-tree.
    pub fn plugin(&self) -> Option<&'static Plugin> {
        match self {
            Self::InTree(plugin) | Self::NotTakenOver(plugin) => Some(plugin),
            Self::Csi(_) => None,
        }
    }

    /// Returns the CSI driver that the volume needs, if any.
    pub fn driver(&self) -> Option<&str> {
        match self {
            Self::InTree(plugin) => plugin.driver,
            Self::NotTakenOver(_) => None,
            Self::Csi(driver) => Some(driver),
        }
    }
}

/// A `PersistentVolumeClaim`, or the template of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// `spec.volumeName`.
    pub volume_name: Option<Name>,
    /// The class; `None` means the default class, `""` means no class.
    pub storage_class: Option<Name>,
    /// The provisioner from the controller's annotation.
    pub provisioner: Option<Name>,
}

/// A `PersistentVolume`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentVolume {
    /// The driver or plugin; `None` for types that are not in-tree plugins and need no driver.
    pub source: Option<VolumeType>,
    /// Whether deleting the claim deletes the data: `persistentVolumeReclaimPolicy` is `Delete`.
    pub goes_with_claim: bool,
    /// The nodes that can use it, as a [`NodeSelection`](crate::index::NodeSelection)'s text; absent for all.
    pub node_affinity: Option<Name>,
    /// Who can use it at a time.
    pub access: Access,
    /// The claim that it is bound to, if it has a source.
    pub bound_to: Option<ObjectKey>,
}

/// Who can use a volume at a time, by its access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Pods on any number of nodes, or the volume does not say.
    #[default]
    Many,
    /// Pods on one node.
    OneNode,
    /// One pod.
    OnePod,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageClass {
    /// The provisioner.
    pub provisioner: Name,
    /// Whether it makes Azure disks that are not managed.
    pub unmanaged: bool,
    /// Marked as the default class.
    pub is_default: bool,
    /// Creation time in seconds since 1970. The newest of several default classes applies.
    pub created: i64,
}

/// A `ConfigMap` of the operator's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMap {
    /// The ConfigMap's `data`.
    pub data: BTreeMap<String, String>,
    /// Whether the ConfigMap is immutable.
    pub immutable: bool,
    /// For optimistic concurrency on writes.
    pub resource_version: String,
}

/// What was read of a Secret in the operator's namespace. `Debug` output omits the values.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// There is none with this name.
    Missing,
    /// Reading it is forbidden to this ServiceAccount, as `namespace:name`, if the API server names one.
    Forbidden(Option<String>),
    /// It could not be read, for this reason.
    Unread(String),
    /// Its `data`.
    Data(BTreeMap<String, Zeroizing<Vec<u8>>>),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("Missing"),
            Self::Forbidden(_) => f.write_str("Forbidden"),
            Self::Unread(why) => write!(f, "Unread({why})"),
            Self::Data(data) => f.debug_set().entries(data.keys()).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_its_content() {
        let secret = Secret::Data(BTreeMap::from([(
            "private-key.pem".to_owned(),
            Zeroizing::new(b"canary".to_vec()),
        )]));
        let shown = format!("{secret:?}");
        assert!(shown.contains("private-key.pem"));
        assert!(!shown.contains("canary") && !shown.contains("99, 97"));
    }
}
