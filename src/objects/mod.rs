//! What is read of each kind of object, and the row of the index that it becomes.
//!
//! The same types decode what watches send and what files hold. A field that is used and has another type than
//! Kubernetes gives it is an error that names the field; fields that are not used are not looked at.

mod load;
mod node;
mod node_side;
mod own;
mod placement;
mod pod;
mod storage;
mod workloads;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::index::{Cluster, Name, ObjectKey, Table};
pub use load::{Loader, is_used};
pub use node::{CsiDriverObject, CsiNodeObject, NodeObject, RuntimeClassObject};
pub use own::FeatureSwitchObject;
pub use pod::PodObject;
pub use storage::{ClaimObject, ClassObject, VolumeObject};
pub use workloads::{
    CronJobObject, DaemonSetObject, DeploymentObject, JobObject, ReplicaSetObject,
    ReplicationControllerObject, StatefulSetObject,
};

/// An object as it is decoded, and how it becomes a row of the index.
pub trait Object:
    Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static
{
    /// The row's key.
    type Key: Ord + Clone + Send + std::fmt::Display;
    /// The row.
    type Row: PartialEq + Send;
    /// Whether the object is worth decoding.
    #[must_use]
    fn is_of_interest(_object: &Value) -> bool {
        true
    }
    /// The key under which an object with that metadata is kept.
    fn key(meta: &ObjectMeta) -> Self::Key;
    /// What is kept; `None` where the object does not matter.
    fn row(self) -> Option<Self::Row>;
    /// Where it is kept.
    fn table(cluster: &mut Cluster) -> &mut Table<Self::Key, Self::Row>;
}

/// Decodes an object.
pub fn decode<K: DeserializeOwned>(value: Value) -> Result<K, FieldError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = error.path().to_string();
        FieldError {
            field: if field == "." {
                "object".to_owned()
            } else {
                field
            },
            what: error.into_inner().to_string(),
        }
    })
}

/// A field that is not as Kubernetes defines it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field {field}: {what}")]
pub struct FieldError {
    /// The field's path, such as `spec.volumes[0].name`.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
}

/// The key of an object without a namespace.
fn name(meta: &ObjectMeta) -> Name {
    meta.name.as_deref().unwrap_or_default().into()
}

/// The key of an object in a namespace. A manifest without one is of the namespace that kubectl would take.
fn object_key(meta: &ObjectMeta) -> ObjectKey {
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    ObjectKey::new(namespace, name(meta))
}

fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The uid of the controller among an object's owners.
fn controller(meta: &ObjectMeta) -> Option<Name> {
    let owners = meta.owner_references.as_ref()?;
    let controller = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some(controller.uid.as_str().into())
}

#[cfg(test)]
mod tests;
