//! Decodes the metadata of objects, without the fields that are not used.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    ManagedFieldsEntry, ObjectMeta, OwnerReference, Time,
};
use serde::Deserialize;

use crate::index::{Name, intern};

pub(super) type Texts = BTreeMap<String, String>;

/// k8s-openapi's type decodes all fields; `managedFields` is the largest part of many objects.
#[derive(Deserialize)]
#[serde(remote = "ObjectMeta", rename_all = "camelCase")]
pub(super) struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    uid: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<Texts>,
    annotations: Option<Texts>,
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

/// Returns a label or annotation.
pub(super) fn text<'a>(texts: Option<&'a Texts>, key: &str) -> Option<&'a str> {
    texts?.get(key).map(String::as_str)
}

/// Returns the creation time in seconds since 1970, or the minimum if there is none.
pub(super) fn created(meta: &ObjectMeta) -> i64 {
    let at = meta.creation_timestamp.as_ref();
    at.map_or(i64::MIN, |time| time.0.as_second())
}

/// Returns the uid of an object's controller.
pub(super) fn controller(meta: &ObjectMeta) -> Option<Name> {
    let mut owners = meta.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true))?;
    // Anonymized dumps have empty uids, which identify nothing.
    (!controller.uid.is_empty()).then(|| intern(&controller.uid))
}
