//! Decodes claims, volumes and storage classes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use serde::Deserialize;
use serde::de::MapAccess;
use serde::de::value::MapAccessDeserializer;

use crate::assess::NodeSelection;
use crate::index::{
    Access, Claim, ClaimTemplate, Name, ObjectKey, PersistentVolume, StorageClass, intern,
};
use crate::objects::interned_option;
use crate::objects::lenient::{Lenient, Shown};
use crate::objects::metadata::{Annotated, ClassMeta, Texts, created, text};
use crate::objects::pod::{CsiSource, InTreeSource, MANAGED, volume_type};

object_only!(
    ClaimSpec,
    ClaimTemplateObject,
    TemplateMeta,
    VolumeStatus,
    ClaimReference,
    VolumeAffinity
);

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const PROVISIONER_ANNOTATIONS: [&str; 2] = [
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

#[derive(Deserialize)]
pub(super) struct ClaimObject {
    metadata: Annotated,
    spec: Option<ClaimSpec>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase")]
struct ClaimSpec {
    #[serde(default, deserialize_with = "interned_option")]
    volume_name: Option<Name>,
    #[serde(default, deserialize_with = "interned_option")]
    storage_class_name: Option<Name>,
}

impl ClaimSpec {
    fn claim<'a>(&self, annotation: impl Fn(&str) -> Option<&'a str>) -> Claim {
        let noted = PROVISIONER_ANNOTATIONS.into_iter().filter_map(&annotation);
        Claim {
            volume_name: self.volume_name.clone().filter(|name| !name.is_empty()),
            // The annotation takes precedence over the field, as in Kubernetes.
            storage_class: annotation(CLASS_ANNOTATION)
                .map(intern)
                .or_else(|| self.storage_class_name.clone()),
            provisioner: noted.filter(|name| !name.is_empty()).map(intern).next(),
        }
    }
}

pub(super) fn claim(ClaimObject { metadata, spec }: ClaimObject) -> Claim {
    let spec = spec.unwrap_or_default();
    spec.claim(|key| text(metadata.annotations.as_ref(), key))
}

/// A claim template of a StatefulSet or an ephemeral volume.
#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
pub struct ClaimTemplateObject {
    metadata: Option<TemplateMeta>,
    spec: Option<ClaimSpec>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct TemplateMeta {
    #[serde(default, deserialize_with = "interned_option")]
    name: Option<Name>,
    annotations: Option<Texts>,
}

impl ClaimTemplateObject {
    /// Returns the claim that the template creates.
    pub(super) fn claim(&self) -> Claim {
        let meta = self.metadata.as_ref();
        let annotation = |key: &str| text(meta?.annotations.as_ref(), key);
        let default = ClaimSpec::default();
        self.spec.as_ref().unwrap_or(&default).claim(annotation)
    }

    pub(super) fn named(&self) -> ClaimTemplate {
        let name = self.metadata.as_ref().and_then(|meta| meta.name.clone());
        ClaimTemplate {
            name: name.unwrap_or_default(),
            claim: self.claim(),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct VolumeObject {
    metadata: VolumeMeta,
    spec: Option<VolumeSpec>,
    status: Option<VolumeStatus>,
}

#[derive(Deserialize)]
struct VolumeMeta {
    /// Decoded leniently: the verdict does not depend on it.
    #[serde(default)]
    labels: Lenient<ZoneLabels>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ZoneLabels {
    #[serde(rename = "topology.kubernetes.io/zone")]
    zone: Lenient<Option<String>>,
    #[serde(rename = "topology.kubernetes.io/region")]
    region: Lenient<Option<String>>,
    #[serde(rename = "failure-domain.beta.kubernetes.io/zone")]
    zone_before: Lenient<Option<String>>,
    #[serde(rename = "failure-domain.beta.kubernetes.io/region")]
    region_before: Lenient<Option<String>>,
}

impl<'de> Shown<'de> for ZoneLabels {
    fn of_object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(object))
    }
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct VolumeStatus {
    phase: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct ClaimReference {
    #[serde(default, deserialize_with = "interned_option")]
    namespace: Option<Name>,
    #[serde(default, deserialize_with = "interned_option")]
    name: Option<Name>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct VolumeAffinity {
    required: Option<core::NodeSelector>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeSpec {
    persistent_volume_reclaim_policy: Option<String>,
    claim_ref: Option<ClaimReference>,
    access_modes: Option<Vec<String>>,
    node_affinity: Option<VolumeAffinity>,
    csi: Option<CsiSource>,
    #[serde(flatten)]
    in_tree: InTreeSource,
}

pub(super) fn volume(object: VolumeObject) -> PersistentVolume {
    let spec = object.spec.unwrap_or_default();
    let phase = object.status.and_then(|status| status.phase);
    let source = volume_type(spec.csi.as_ref(), spec.in_tree);
    let is_bound = phase.as_deref() == Some("Bound") && source.is_some();
    let claim = spec.claim_ref.filter(|_| is_bound);
    let required = spec.node_affinity.and_then(|affinity| affinity.required);
    let labels = zones(object.metadata.labels.0);
    let terms = required.map(|required| required.node_selector_terms);
    let nodes = NodeSelection { labels, terms };
    let nodes = (!nodes.is_empty()).then_some(nodes);
    PersistentVolume {
        node_affinity: nodes.map(|nodes| intern(&nodes.to_text())),
        access: access(spec.access_modes.as_deref().unwrap_or_default()),
        bound_to: claim.and_then(|claim| Some(ObjectKey::new(claim.namespace?, claim.name?))),
        source,
        goes_with_claim: spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete"),
    }
}

/// Returns the labels by which the scheduler keeps pods in the zone of a volume, with the keys that nodes have today. What has
/// several zones is replicated, and not looked at.
///
/// Source: kube-scheduler's plugin `VolumeZone`.
fn zones(labels: ZoneLabels) -> BTreeMap<String, String> {
    let zones = [
        ("zone", labels.zone.0.or(labels.zone_before.0)),
        ("region", labels.region.0.or(labels.region_before.0)),
    ];
    let one = |(part, value): (&str, Option<String>)| {
        let value = value.filter(|value| !value.is_empty() && !value.contains("__"))?;
        Some((format!("topology.kubernetes.io/{part}"), value))
    };
    zones.into_iter().filter_map(one).collect()
}

fn access(modes: &[String]) -> Access {
    let has = |mode: &str| modes.iter().any(|it| it == mode);
    if has("ReadWriteMany") || has("ReadOnlyMany") {
        Access::Many
    } else if has("ReadWriteOnce") {
        Access::OneNode
    } else if has("ReadWriteOncePod") {
        Access::OnePod
    } else {
        Access::Many
    }
}

#[derive(Deserialize)]
pub(super) struct ClassObject {
    metadata: ClassMeta,
    #[serde(default, deserialize_with = "interned_option")]
    provisioner: Option<Name>,
    parameters: Option<BTreeMap<String, Lenient<String>>>,
}

/// The parameter of in-tree Azure disks. Keys count without case, and a class that names no kind makes managed disks.
///
/// Source: Kubernetes 1.26, `pkg/volume/azuredd/azure_provision.go`.
const KIND_PARAMETER: &str = "kind";

pub(super) fn class(object: ClassObject) -> StorageClass {
    let meta = object.metadata;
    let mut keys = DEFAULT_CLASS_ANNOTATIONS.into_iter();
    let mut parameters = object.parameters.iter().flatten();
    StorageClass {
        unmanaged: parameters.any(|(key, value)| {
            let is_managed = value.0.is_empty() || value.0.eq_ignore_ascii_case(MANAGED);
            key.eq_ignore_ascii_case(KIND_PARAMETER) && !is_managed
        }),
        is_default: keys.any(|key| text(meta.annotations.as_ref(), key) == Some("true")),
        created: created(meta.creation_timestamp.as_ref()),
        provisioner: object.provisioner.unwrap_or_default(),
    }
}
