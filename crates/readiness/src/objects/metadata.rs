//! The metadata of an object without what nobody looks at.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    ManagedFieldsEntry, ObjectMeta, OwnerReference, Time,
};
use serde::Deserialize;

/// All of the metadata that something here reads. `managedFields`, the largest part of many objects, is skipped while it
/// is decoded.
#[derive(Deserialize)]
#[serde(remote = "ObjectMeta", rename_all = "camelCase")]
pub(super) struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
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
