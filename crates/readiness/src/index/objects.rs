//! The parts of cluster objects that the assessment needs, as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use arcstr::ArcStr;
use jiff::Timestamp;
pub use k8s_openapi::api::core::v1::NodeAddress;
use zeroize::Zeroizing;

use crate::assess::plugins::Plugin;
use crate::assess::versions::Distribution;
use crate::index::driver_pods::{DriverPod, Taint};
use crate::index::placement::{Placement, System};
use crate::index::platform::PlatformSignal;

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

const WINDOWS: &str = "windows";

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
    /// Whose it is, by its labels and annotations.
    pub distribution: Distribution,
    /// The platform that looks after csi-proxy there, as far as the Node shows one.
    pub platform: Option<PlatformSignal>,
    /// Annotated `windowsstorage.dev/management=Managed`: an administrator gives it to this operator whatever it shows.
    pub given: bool,
    /// Since when its condition `Ready` is True; absent while it is not.
    pub ready_since: Option<Timestamp>,
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
    /// Its labels in the order of their keys.
    pub labels: Labels,
}

/// Labels in the order of their keys.
pub type Labels = Arc<[(Name, Name)]>;

impl Node {
    /// Whether the operator counts it among the Windows nodes.
    #[must_use]
    pub fn is_windows(&self) -> bool {
        self.runs_windows() && !self.ignored && !self.deleting
    }

    /// Whether Windows is its operating system, whatever else it is.
    #[must_use]
    pub fn runs_windows(&self) -> bool {
        self.system() == Some(System::Windows)
    }

    /// Its operating system, where that is known.
    #[must_use]
    pub fn system(&self) -> Option<System> {
        match self.operating_system.as_str() {
            "" => None,
            WINDOWS => Some(System::Windows),
            _ => Some(System::Other),
        }
    }
}

/// A CSINode: what the node's kubelet says of drivers and plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// Names of the entries in `spec.drivers`.
    pub drivers: Arc<BTreeSet<Name>>,
    /// The in-tree plugins whose volumes the kubelet redirects, as far as it has noted any.
    pub redirected: Box<[&'static Plugin]>,
}

/// A Pod that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// The Node that it is bound to.
    pub node_name: Option<Name>,
    /// Where else it might run.
    pub placement: Placement,
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
    /// Its `scheduling.nodeSelector`, which Kubernetes adds to that of its pods.
    pub selector: BTreeMap<String, String>,
    /// The system that this names.
    pub names: Option<System>,
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
