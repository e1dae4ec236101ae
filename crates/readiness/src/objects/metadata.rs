//! Decodes the metadata of objects, without the fields that are not used.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    ManagedFieldsEntry, ObjectMeta, OwnerReference, Time,
};
use serde::Deserialize;

use crate::index::{Name, intern};

object_only!(
    NodeMeta,
    Annotated,
    ClassMeta,
    PodMeta,
    OwnerMeta,
    RevisionMeta,
    Reference
);

/// Texts by key.
pub(super) type Texts = BTreeMap<String, String>;

/// That by which any object is known. All else is decoded, and checked, only with the kinds that it is used of;
/// `managedFields`, the largest part of many objects, never.
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

/// What is used of a Node's.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub(super) struct NodeMeta {
    pub uid: Option<String>,
    pub deletion_timestamp: Option<Time>,
    pub labels: Option<Texts>,
    pub annotations: Option<Texts>,
}

/// What is used of a claim's and of a CSINode's.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", default)]
pub(super) struct Annotated {
    pub annotations: Option<Texts>,
}

/// What is used of a StorageClass's.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub(super) struct ClassMeta {
    pub creation_timestamp: Option<Time>,
    pub annotations: Option<Texts>,
}

/// What is used of a pod's.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub(super) struct PodMeta {
    pub deletion_timestamp: Option<Time>,
    pub owner_references: Option<Vec<Reference>>,
}

/// What is used of that of objects that make pods.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub(super) struct OwnerMeta {
    pub uid: Option<String>,
    pub owner_references: Option<Vec<Reference>>,
}

/// The same of objects that may be one of several revisions.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", default)]
pub(super) struct RevisionMeta {
    pub uid: Option<String>,
    pub creation_timestamp: Option<Time>,
    pub owner_references: Option<Vec<Reference>>,
}

/// An owner of an object.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", default)]
pub(super) struct Reference {
    controller: Option<bool>,
    uid: String,
}

/// The text of that key.
pub(super) fn text<'a>(texts: Option<&'a Texts>, key: &str) -> Option<&'a str> {
    texts?.get(key).map(String::as_str)
}

/// When an object was made, in seconds since 1970; without that, before all others.
pub(super) fn created(at: Option<&Time>) -> i64 {
    at.map_or(i64::MIN, |time| time.0.as_second())
}

/// The uid of the controller among an object's owners.
pub(super) fn controller(owners: Option<&[Reference]>) -> Option<Name> {
    let controller = owners?
        .iter()
        .find(|owner| owner.controller == Some(true))?;
    // An empty uid, as in a dump that was made anonymous, is nobody's.
    (!controller.uid.is_empty()).then(|| intern(&controller.uid))
}
