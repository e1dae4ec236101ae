//! Decodes claims, volumes and storage classes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use serde::Deserialize;

use crate::index::{
    Access, Claim, ClaimTemplate, NodeSelection, ObjectKey, PersistentVolume, StorageClass, intern,
    to_text,
};
use crate::objects::metadata::{Meta, Object, Texts};
use crate::objects::volume_source::{CsiSource, InTreeSource, MANAGED, volume_type};

object_only!(ClaimSpec, VolumeSpec);

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const PROVISIONER_ANNOTATIONS: [&str; 2] = [
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub(super) struct ClaimSpec {
    volume_name: Option<String>,
    storage_class_name: Option<String>,
}

impl ClaimSpec {
    fn claim(&self, annotations: Option<&Texts>) -> Claim {
        let annotation = |key: &str| annotations?.get(key).map(String::as_str);
        let volume_name = self.volume_name.as_deref().filter(|name| !name.is_empty());
        let noted = PROVISIONER_ANNOTATIONS.into_iter().filter_map(&annotation);
        Claim {
            volume_name: volume_name.map(intern),
            // The annotation takes precedence over the field, as in Kubernetes.
            storage_class: annotation(CLASS_ANNOTATION)
                .or(self.storage_class_name.as_deref())
                .map(intern),
            provisioner: noted.filter(|name| !name.is_empty()).map(intern).next(),
        }
    }
}

pub(super) fn claim(object: Object<ClaimSpec>) -> Claim {
    let spec = object.spec.unwrap_or_default();
    spec.claim(object.metadata.annotations.as_ref())
}

/// A claim template of a StatefulSet or an ephemeral volume.
#[derive(Default, Deserialize)]
pub struct ClaimTemplateObject {
    metadata: Option<TemplateMeta>,
    spec: Option<ClaimSpec>,
}

#[derive(Deserialize)]
struct TemplateMeta {
    name: Option<String>,
    annotations: Option<Texts>,
}

impl ClaimTemplateObject {
    /// Returns the claim that the template creates.
    pub(super) fn claim(&self) -> Claim {
        let meta = self.metadata.as_ref();
        let annotations = meta.and_then(|meta| meta.annotations.as_ref());
        let default = ClaimSpec::default();
        self.spec.as_ref().unwrap_or(&default).claim(annotations)
    }

    pub(super) fn named(&self) -> ClaimTemplate {
        let name = self.metadata.as_ref().and_then(|meta| meta.name.as_deref());
        ClaimTemplate {
            name: intern(name.unwrap_or_default()),
            claim: self.claim(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub(super) struct VolumeSpec {
    persistent_volume_reclaim_policy: Option<String>,
    claim_ref: Option<core::ObjectReference>,
    access_modes: Option<Vec<String>>,
    node_affinity: Option<core::VolumeNodeAffinity>,
    csi: Option<CsiSource>,
    #[serde(flatten)]
    in_tree: InTreeSource,
}

pub(super) fn volume(object: Object<VolumeSpec, core::PersistentVolumeStatus>) -> PersistentVolume {
    let spec = object.spec.unwrap_or_default();
    let phase = object.status.and_then(|status| status.phase);
    let source = volume_type(spec.csi.as_ref(), spec.in_tree);
    let is_bound = phase.as_deref() == Some("Bound") && source.is_some();
    let claim = spec.claim_ref.filter(|_| is_bound);
    let required = spec.node_affinity.and_then(|affinity| affinity.required);
    let labels = zones(&object.metadata);
    let terms = required.map(|required| required.node_selector_terms);
    let nodes = NodeSelection { labels, terms };
    let nodes = (!nodes.is_empty()).then_some(nodes);
    PersistentVolume {
        node_affinity: nodes.map(|nodes| to_text(&nodes)),
        access: access(spec.access_modes.as_deref().unwrap_or_default()),
        bound_to: claim.and_then(|claim| {
            Some(ObjectKey::new(
                intern(&claim.namespace?),
                intern(&claim.name?),
            ))
        }),
        source,
        goes_with_claim: spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete"),
    }
}

/// Returns the labels by which the scheduler keeps pods in the zone of a volume, with the keys that nodes have today. What has
/// several zones is replicated, and not looked at.
///
/// Source: kube-scheduler's plugin `VolumeZone`.
fn zones(meta: &Meta) -> BTreeMap<String, String> {
    let one = |part: &str| {
        let key = format!("topology.kubernetes.io/{part}");
        let before = format!("failure-domain.beta.kubernetes.io/{part}");
        let value = meta.label(&key).or_else(|| meta.label(&before))?;
        let is_one = !value.is_empty() && !value.contains("__");
        is_one.then(|| (key, value.to_owned()))
    };
    ["zone", "region"].into_iter().filter_map(one).collect()
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
    metadata: Meta,
    provisioner: Option<String>,
    parameters: Option<Texts>,
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
            let is_managed = value.is_empty() || value.eq_ignore_ascii_case(MANAGED);
            key.eq_ignore_ascii_case(KIND_PARAMETER) && !is_managed
        }),
        is_default: keys.any(|key| meta.annotation(key) == Some("true")),
        created: meta.created(),
        provisioner: intern(&object.provisioner.unwrap_or_default()),
    }
}
