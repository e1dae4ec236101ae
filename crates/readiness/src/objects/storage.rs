//! Claims, volumes, classes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use crate::index::{
    Claim, ClaimTemplate, Cluster, Name, ObjectKey, PersistentVolume, StorageClass, Table,
    VolumeType, shared,
};
use crate::objects::pod::{CsiSource, InTreeSource};
use crate::objects::{Object, annotation, metadata::metadata, name, object_key, optional_name};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const PROVISIONER_ANNOTATIONS: [&str; 2] = [
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// A `PersistentVolumeClaim`.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = core::PersistentVolumeClaim)]
pub struct ClaimObject {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    spec: Option<ClaimSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSpec {
    #[serde(default, deserialize_with = "optional_name")]
    volume_name: Option<Name>,
    #[serde(default, deserialize_with = "optional_name")]
    storage_class_name: Option<Name>,
}

impl ClaimSpec {
    fn claim<'a>(&self, annotation: impl Fn(&str) -> Option<&'a str>) -> Claim {
        let noted = PROVISIONER_ANNOTATIONS.into_iter().filter_map(&annotation);
        Claim {
            volume_name: self.volume_name.clone().filter(|name| !name.is_empty()),
            // The annotation wins over the field, as in Kubernetes.
            storage_class: annotation(CLASS_ANNOTATION)
                .map(shared)
                .or_else(|| self.storage_class_name.clone()),
            provisioner: noted.filter(|name| !name.is_empty()).map(shared).next(),
        }
    }
}

impl Object for ClaimObject {
    type Key = ObjectKey;
    type Row = Claim;

    fn key(meta: &ObjectMeta) -> ObjectKey {
        object_key(meta)
    }

    fn row(self) -> Option<Claim> {
        let meta = &self.metadata;
        let claim = self.spec.unwrap_or_default();
        Some(claim.claim(|key| annotation(meta, key)))
    }

    fn table(cluster: &mut Cluster) -> &mut Table<ObjectKey, Claim> {
        &mut cluster.claims
    }
}

/// The template of a claim, in a StatefulSet or in an ephemeral volume.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ClaimTemplateObject {
    metadata: Option<TemplateMeta>,
    spec: Option<ClaimSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct TemplateMeta {
    #[serde(default, deserialize_with = "optional_name")]
    name: Option<Name>,
    annotations: Option<BTreeMap<String, String>>,
}

impl ClaimTemplateObject {
    /// The claim that will be made.
    pub(super) fn claim(&self) -> Claim {
        let annotations = self
            .metadata
            .as_ref()
            .and_then(|meta| meta.annotations.as_ref());
        let annotation = |key: &str| annotations?.get(key).map(String::as_str);
        match &self.spec {
            Some(spec) => spec.claim(annotation),
            None => ClaimSpec::default().claim(annotation),
        }
    }

    pub(super) fn named(&self) -> ClaimTemplate {
        let name = self.metadata.as_ref().and_then(|meta| meta.name.clone());
        ClaimTemplate {
            name: name.unwrap_or_default(),
            claim: self.claim(),
        }
    }
}

/// A `PersistentVolume`.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = core::PersistentVolume)]
pub struct VolumeObject {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    spec: Option<VolumeSpec>,
    status: Option<VolumeStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct VolumeStatus {
    phase: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ClaimReference {
    namespace: Option<String>,
    name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeSpec {
    persistent_volume_reclaim_policy: Option<String>,
    claim_ref: Option<ClaimReference>,
    csi: Option<CsiSource>,
    #[serde(flatten)]
    in_tree: InTreeSource,
}

impl Object for VolumeObject {
    type Key = Name;
    type Row = PersistentVolume;

    fn key(meta: &ObjectMeta) -> Name {
        name(meta)
    }

    fn row(self) -> Option<PersistentVolume> {
        let spec = self.spec.unwrap_or_default();
        let phase = self.status.and_then(|status| status.phase);
        let is_bound_in_tree =
            phase.as_deref() == Some("Bound") && spec.csi.is_none() && spec.in_tree.0.is_some();
        let claim = spec.claim_ref.filter(|_| is_bound_in_tree);
        Some(PersistentVolume {
            bound_to: claim.and_then(|claim| Some(ObjectKey::new(claim.namespace?, claim.name?))),
            // A volume with a driver's name in it is not in-tree, whatever else it says.
            source: match (spec.csi, spec.in_tree.0) {
                (Some(csi), _) => Some(csi.volume_type()),
                (None, Some(plugin)) => Some(VolumeType::InTree(plugin)),
                (None, None) => None,
            },
            goes_with_claim: spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete"),
        })
    }

    fn table(cluster: &mut Cluster) -> &mut Table<Name, PersistentVolume> {
        &mut cluster.volumes
    }
}

/// A StorageClass.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = storage::StorageClass)]
pub struct ClassObject {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "optional_name")]
    provisioner: Option<Name>,
}

impl Object for ClassObject {
    type Key = Name;
    type Row = StorageClass;

    fn key(meta: &ObjectMeta) -> Name {
        name(meta)
    }

    fn row(self) -> Option<StorageClass> {
        let meta = &self.metadata;
        Some(StorageClass {
            is_default: DEFAULT_CLASS_ANNOTATIONS
                .into_iter()
                .any(|key| annotation(meta, key) == Some("true")),
            created: meta
                .creation_timestamp
                .as_ref()
                .map_or(i64::MIN, |time| time.0.as_second()),
            provisioner: self.provisioner.unwrap_or_default(),
        })
    }

    fn table(cluster: &mut Cluster) -> &mut Table<Name, StorageClass> {
        &mut cluster.classes
    }
}
