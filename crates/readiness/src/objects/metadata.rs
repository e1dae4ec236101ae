//! Decodes the metadata of objects, without the fields that are not used.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    ManagedFieldsEntry, ObjectMeta, OwnerReference, Time,
};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess};

use crate::index::{Name, intern};
use crate::objects::lenient::{Lenient, Shown};

object_only!(
    NodeMeta,
    Annotated,
    OwnedAnnotated,
    ClassMeta,
    PodMeta,
    OwnerMeta,
    DaemonSetMeta,
    RevisionMeta,
    Reference
);

pub(super) type Texts = BTreeMap<String, String>;

/// The metadata decoded for every object. Each kind decodes and checks the other fields that it uses. `managedFields`,
/// the largest part of many objects, is never decoded.
#[derive(Deserialize)]
#[serde(remote = "ObjectMeta", rename_all = "camelCase")]
pub(super) struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    #[serde(skip)]
    uid: Option<String>,
    #[serde(skip)]
    generation: Option<i64>,
    #[serde(skip)]
    creation_timestamp: Option<Time>,
    #[serde(skip)]
    deletion_timestamp: Option<Time>,
    #[serde(skip)]
    labels: Option<Texts>,
    #[serde(skip)]
    annotations: Option<Texts>,
    #[serde(skip)]
    owner_references: Option<Vec<OwnerReference>>,
    #[serde(skip)]
    deletion_grace_period_seconds: Option<i64>,
    #[serde(skip)]
    finalizers: Option<Vec<String>>,
    #[serde(skip)]
    generate_name: Option<String>,
    #[serde(skip)]
    managed_fields: Option<Vec<ManagedFieldsEntry>>,
    #[serde(skip)]
    self_link: Option<String>,
}

/// The metadata used from a Node.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub(super) struct NodeMeta {
    pub uid: Option<String>,
    pub deletion_timestamp: Option<Time>,
    pub labels: Option<Texts>,
    pub annotations: Option<Texts>,
}

/// The metadata used from a claim.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", default)]
pub(super) struct Annotated {
    pub annotations: Option<Texts>,
}

/// The metadata used from a CSINode.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub(super) struct OwnedAnnotated {
    pub annotations: Option<Texts>,
    pub owner_references: Option<Vec<Reference>>,
}

/// The metadata used from a StorageClass.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub(super) struct ClassMeta {
    pub creation_timestamp: Option<Time>,
    pub annotations: Option<Texts>,
}

/// The metadata used from a pod.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub(super) struct PodMeta {
    pub deletion_timestamp: Option<Time>,
    pub owner_references: Option<Vec<Reference>>,
}

/// The metadata used from objects that create pods.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub(super) struct OwnerMeta {
    pub uid: Option<String>,
    pub owner_references: Option<Vec<Reference>>,
}

/// The metadata used from a DaemonSet.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub(super) struct DaemonSetMeta {
    pub uid: Option<String>,
    pub annotations: Lenient<AppliedByOpenShift>,
    pub owner_references: Option<Vec<Reference>>,
}

/// Whether annotations say that an operator of OpenShift's applies the object. Source: `specHashAnnotation` in
/// `pkg/operator/resource/resourceapply/apps.go` of openshift/library-go, with which its operators of CSI drivers apply
/// their DaemonSets.
#[derive(Default)]
pub(super) struct AppliedByOpenShift(pub bool);

impl<'de> Shown<'de> for AppliedByOpenShift {
    fn of_object<A: MapAccess<'de>>(mut annotations: A) -> Result<Self, A::Error> {
        let mut found = false;
        while let Some((name, IgnoredAny)) = annotations.next_entry::<String, IgnoredAny>()? {
            found |= name == "operator.openshift.io/spec-hash";
        }
        Ok(Self(found))
    }
}

/// The metadata used from objects that may be one of several revisions.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub(super) struct RevisionMeta {
    pub uid: Option<String>,
    pub creation_timestamp: Option<Time>,
    pub owner_references: Option<Vec<Reference>>,
}

/// An owner reference.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", default)]
pub(super) struct Reference {
    controller: Option<bool>,
    /// Used only of a CSINode's Node, and of what keeps a pod where it is.
    kind: Lenient<String>,
    uid: String,
}

impl Reference {
    /// Returns the uid of an owner that is a Node.
    pub(super) fn of_node(&self) -> Option<Name> {
        let is_node = self.kind.0 == "Node" && !self.uid.is_empty();
        is_node.then(|| intern(&self.uid))
    }
}

pub(super) fn text<'a>(texts: Option<&'a Texts>, key: &str) -> Option<&'a str> {
    texts?.get(key).map(String::as_str)
}

/// Returns the creation time in seconds since 1970, or the minimum if there is none.
pub(super) fn created(at: Option<&Time>) -> i64 {
    at.map_or(i64::MIN, |time| time.0.as_second())
}

/// Whether a pod's controller makes it for its node: a drain leaves it there.
pub(super) fn stays(owners: Option<&[Reference]>) -> bool {
    let mut owners = owners.into_iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true));
    controller.is_some_and(|owner| matches!(owner.kind.0.as_str(), "DaemonSet" | "Node"))
}

/// Returns the uid of an object's controller.
pub(super) fn controller(owners: Option<&[Reference]>) -> Option<Name> {
    let controller = owners?
        .iter()
        .find(|owner| owner.controller == Some(true))?;
    // Anonymized dumps have empty uids, which identify nothing.
    (!controller.uid.is_empty()).then(|| intern(&controller.uid))
}
