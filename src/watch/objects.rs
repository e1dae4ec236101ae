//! What is decoded of each kind, and what the index keeps of it.
//!
//! Decoding is lenient: an object with fields that are not as expected must not end a watch.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::api::{WindowsNodeStorage, WindowsNodeStorageStatus, WindowsStorage};
use crate::assess::plugins;
use crate::index::{
    Claim, ConfigMap, CsiNode, Node, NodeAddress, ObjectKey, PersistentVolume, Pod, PodVolume,
    PodVolumeSource, Secret, StorageClass, VolumeType,
};

/// An object as the watch decodes it, and how it becomes a row of the index.
pub trait Watched:
    Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static
{
    /// The row's key.
    type Key: Ord + Clone + Send;
    /// The row.
    type Row: PartialEq + Send;
    /// The key under which the object is kept.
    fn key(&self) -> Self::Key;
    /// What is kept; `None` where the object does not matter.
    fn row(self) -> Option<Self::Row>;
}

fn name(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

fn object_key(meta: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(meta.namespace.clone().unwrap_or_default(), name(meta))
}

fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer)?.as_str().map(str::to_owned)
}

const OS_LABEL: &str = "kubernetes.io/os";
const BETA_OS_LABEL: &str = "beta.kubernetes.io/os";
const IGNORE_LABEL: &str = "windowsstorage.dev/ignore";
const WMCO_VERSION: &str = "windowsmachineconfig.openshift.io/version";

macro_rules! decoded {
    ($(#[$doc:meta])* $name:ident, $kind:path) => {
        $(#[$doc])*
        #[derive(Resource, Clone, Debug, Default, Deserialize)]
        #[resource(inherit = $kind)]
        pub struct $name {
            metadata: ObjectMeta,
            #[serde(flatten)]
            rest: BTreeMap<String, Value>,
        }

        impl $name {
            /// The value at that path of the object, whose first part is a top-level field.
            fn at(&self, field: &str) -> &Value {
                self.rest.get(field).unwrap_or(&Value::Null)
            }
        }
    };
}

decoded!(
    /// A Node.
    NodeObject, core::Node
);
decoded!(
    /// A CSINode.
    CsiNodeObject, storage::CSINode
);
/// A CSIDriver, of which only the name matters.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = storage::CSIDriver)]
pub struct CsiDriverObject {
    metadata: ObjectMeta,
}

decoded!(
    /// A Pod.
    PodObject, core::Pod
);
decoded!(
    /// A `PersistentVolumeClaim`.
    ClaimObject, core::PersistentVolumeClaim
);
decoded!(
    /// A `PersistentVolume`.
    VolumeObject, core::PersistentVolume
);
decoded!(
    /// A StorageClass.
    ClassObject, storage::StorageClass
);

impl Watched for NodeObject {
    type Key = String;
    type Row = Node;

    fn key(&self) -> String {
        name(&self.metadata)
    }

    fn row(self) -> Option<Node> {
        let status = self.at("status");
        let operating_system = label(&self.metadata, OS_LABEL)
            .map(str::to_owned)
            .or_else(|| text(status, "/nodeInfo/operatingSystem"))
            .unwrap_or_default();
        let addresses = status
            .get("addresses")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        Some(Node {
            uid: self.metadata.uid.clone().unwrap_or_default(),
            ignored: label(&self.metadata, IGNORE_LABEL) == Some("true"),
            deleting: self.metadata.deletion_timestamp.is_some(),
            managed_by_wmco: annotation(&self.metadata, WMCO_VERSION).is_some(),
            addresses: addresses
                .filter_map(|entry| {
                    Some(NodeAddress {
                        kind: text(entry, "/type")?,
                        address: text(entry, "/address")?,
                    })
                })
                .collect(),
            operating_system,
        })
    }
}

impl Watched for CsiNodeObject {
    type Key = String;
    type Row = CsiNode;

    fn key(&self) -> String {
        name(&self.metadata)
    }

    fn row(self) -> Option<CsiNode> {
        let drivers = self
            .at("spec")
            .get("drivers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        Some(CsiNode {
            drivers: drivers.filter_map(|driver| text(driver, "/name")).collect(),
        })
    }
}

impl Watched for CsiDriverObject {
    type Key = String;
    type Row = ();

    fn key(&self) -> String {
        name(&self.metadata)
    }

    fn row(self) -> Option<()> {
        Some(())
    }
}

impl Watched for PodObject {
    type Key = ObjectKey;
    type Row = Pod;

    fn key(&self) -> ObjectKey {
        object_key(&self.metadata)
    }

    fn row(self) -> Option<Pod> {
        if let Some("Succeeded" | "Failed") = self.at("status").get("phase").and_then(Value::as_str)
        {
            return None;
        }
        let spec = self.at("spec");
        let selector = spec.get("nodeSelector");
        let selects = |key: &str| selector.and_then(|s| s.get(key)).and_then(Value::as_str);
        let mut pod = Pod {
            node_name: text(spec, "/nodeName").filter(|name| !name.is_empty()),
            asks_for_windows: text(spec, "/os/name").as_deref() == Some("windows")
                || [OS_LABEL, BETA_OS_LABEL]
                    .into_iter()
                    .any(|key| selects(key) == Some("windows")),
            ..Pod::default()
        };
        for volume in spec
            .get("volumes")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let Some(pipe) = csi_proxy_pipe(volume) {
                pod.csi_proxy_pipes.push(pipe);
            }
            if let (Some(name), Some(source)) = (text(volume, "/name"), pod_volume_source(volume)) {
                pod.volumes.push(PodVolume { name, source });
            }
        }
        (!pod.volumes.is_empty() || !pod.csi_proxy_pipes.is_empty()).then_some(pod)
    }
}

fn csi_proxy_pipe(volume: &Value) -> Option<String> {
    let path = volume.pointer("/hostPath/path")?.as_str()?;
    let pipe = path
        .strip_prefix(r"\\.\pipe\")
        .or_else(|| path.strip_prefix("//./pipe/"))?;
    pipe.starts_with("csi-proxy-").then(|| pipe.to_owned())
}

fn pod_volume_source(volume: &Value) -> Option<PodVolumeSource> {
    if let Some(claim) = text(volume, "/persistentVolumeClaim/claimName") {
        return Some(PodVolumeSource::Claim(claim));
    }
    if let Some(ephemeral) = volume.get("ephemeral") {
        let storage_class = text(ephemeral, "/volumeClaimTemplate/spec/storageClassName");
        return Some(PodVolumeSource::Ephemeral { storage_class });
    }
    volume_type(volume).map(PodVolumeSource::Inline)
}

fn volume_type(source: &Value) -> Option<VolumeType> {
    if let Some(driver) = text(source, "/csi/driver") {
        return Some(VolumeType::Csi(driver));
    }
    source
        .as_object()?
        .keys()
        .find_map(|field| plugins::by_field(field))
        .map(VolumeType::InTree)
}

impl Watched for ClaimObject {
    type Key = ObjectKey;
    type Row = Claim;

    fn key(&self) -> ObjectKey {
        object_key(&self.metadata)
    }

    fn row(self) -> Option<Claim> {
        let spec = self.at("spec");
        let noted = |key| annotation(&self.metadata, key).map(str::to_owned);
        Some(Claim {
            volume_name: text(spec, "/volumeName").filter(|name| !name.is_empty()),
            storage_class: noted("volume.beta.kubernetes.io/storage-class")
                .or_else(|| text(spec, "/storageClassName")),
            provisioner: noted("volume.kubernetes.io/storage-provisioner")
                .or_else(|| noted("volume.beta.kubernetes.io/storage-provisioner")),
        })
    }
}

impl Watched for VolumeObject {
    type Key = String;
    type Row = PersistentVolume;

    fn key(&self) -> String {
        name(&self.metadata)
    }

    fn row(self) -> Option<PersistentVolume> {
        Some(PersistentVolume {
            source: volume_type(self.at("spec")),
        })
    }
}

impl Watched for ClassObject {
    type Key = String;
    type Row = StorageClass;

    fn key(&self) -> String {
        name(&self.metadata)
    }

    fn row(self) -> Option<StorageClass> {
        let marked = |key| annotation(&self.metadata, key) == Some("true");
        Some(StorageClass {
            provisioner: self
                .at("provisioner")
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            is_default: marked("storageclass.kubernetes.io/is-default-class")
                || marked("storageclass.beta.kubernetes.io/is-default-class"),
            created: self
                .metadata
                .creation_timestamp
                .as_ref()
                .map_or(0, |time| time.0.as_second()),
        })
    }
}

impl Watched for WindowsStorage {
    type Key = String;
    type Row = WindowsStorage;

    fn key(&self) -> String {
        name(&self.metadata)
    }

    fn row(mut self) -> Option<WindowsStorage> {
        self.metadata.managed_fields = None;
        Some(self)
    }
}

impl Watched for WindowsNodeStorage {
    type Key = String;
    type Row = WindowsNodeStorageStatus;

    fn key(&self) -> String {
        name(&self.metadata)
    }

    fn row(self) -> Option<WindowsNodeStorageStatus> {
        Some(self.status.unwrap_or_default())
    }
}

impl Watched for core::ConfigMap {
    type Key = String;
    type Row = ConfigMap;

    fn key(&self) -> String {
        name(&self.metadata)
    }

    fn row(self) -> Option<ConfigMap> {
        Some(ConfigMap {
            data: self.data.unwrap_or_default(),
            immutable: self.immutable.unwrap_or_default(),
            resource_version: self.metadata.resource_version.unwrap_or_default(),
        })
    }
}

impl Watched for core::Secret {
    type Key = String;
    type Row = Secret;

    fn key(&self) -> String {
        name(&self.metadata)
    }

    fn row(self) -> Option<Secret> {
        let data = self.data.unwrap_or_default();
        Some(Secret {
            data: data
                .into_iter()
                .map(|(key, value)| (key, Zeroizing::new(value.0)))
                .collect(),
        })
    }
}
