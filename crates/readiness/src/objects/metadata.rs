//! The metadata of an object without what nobody looks at.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};

/// All of the metadata that something here reads. `managedFields`, the largest part of many objects, is skipped while it
/// is decoded.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
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
}

/// Decodes `metadata`.
pub(super) fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let read = Metadata::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        generation: read.generation,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        labels: read.labels,
        annotations: read.annotations,
        owner_references: read.owner_references,
        ..ObjectMeta::default()
    })
}
