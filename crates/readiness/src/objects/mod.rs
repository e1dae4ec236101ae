//! What is read of each kind of object, and the row of the index that it becomes.
//!
//! The same types decode what watches send and what files hold. A field that is used and has another type than
//! Kubernetes gives it is an error that names the field; fields that are not used are not looked at.

mod gathered;
mod load;
mod metadata;
mod node;
mod node_side;
mod own;
mod placement;
mod pod;
mod received;
mod storage;
mod strict;
mod workloads;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::index::{Cluster, Name, ObjectKey, Table, shared};
use crate::visible::visible;
pub use gathered::{Gathered, GatheredKind};
pub use load::{Loader, is_used};
pub use node::{CsiDriverObject, CsiNodeObject, NodeObject, RuntimeClassObject};
pub use node_side::registered_path;
pub use own::FeatureSwitchObject;
pub use pod::PodObject;
pub use received::Received;
pub use storage::{ClaimObject, ClassObject, VolumeObject};
use strict::Strict;
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
    /// What selects those objects that matter; all do without one.
    #[must_use]
    fn field_selector() -> Option<String> {
        None
    }
    /// Whether the object is worth decoding.
    #[must_use]
    fn is_of_interest(_object: &Value) -> bool {
        true
    }
    /// The key under which an object with that metadata is kept.
    fn key(meta: &ObjectMeta) -> Self::Key;
    /// What is kept; `None` where the object does not matter.
    fn row(self) -> Option<Self::Row>;
    /// Whether what such an object holds is a secret: then nothing is told of what is wrong with it, as that would quote it.
    #[must_use]
    fn is_secret() -> bool {
        false
    }
    /// Whether the nodes are to be listed first.
    #[must_use]
    fn follows_nodes() -> bool {
        false
    }
    /// Whether an object from the API server matters in this cluster.
    #[must_use]
    fn matters(_cluster: &mut Cluster, _row: &Self::Row) -> bool {
        true
    }
    /// Where it is kept.
    fn table(cluster: &mut Cluster) -> &mut Table<Self::Key, Self::Row>;
    /// Keeps it. Says whether that changes anything.
    fn put(cluster: &mut Cluster, key: Self::Key, row: Self::Row) -> bool {
        Self::table(cluster).apply(key, row)
    }
}

/// Does the same for each kind of object that the judgement rests on, and for those that help to explain it.
#[macro_export]
macro_rules! for_each_kind {
    ($do:ident) => {
        $do!($crate::objects::CsiNodeObject);
        $do!($crate::objects::CsiDriverObject);
        $do!($crate::objects::PodObject);
        // After the pods: a node that joins meanwhile must not be unknown to a pod on it.
        $do!($crate::objects::NodeObject);
        $do!($crate::objects::CronJobObject);
        $do!($crate::objects::DaemonSetObject);
        $do!($crate::objects::DeploymentObject);
        $do!($crate::objects::JobObject);
        $do!($crate::objects::ReplicaSetObject);
        $do!($crate::objects::ReplicationControllerObject);
        $do!($crate::objects::StatefulSetObject);
        $do!($crate::objects::ClaimObject);
        $do!($crate::objects::VolumeObject);
        $do!($crate::objects::ClassObject);
        $do!($crate::objects::RuntimeClassObject);
        $do!($crate::objects::FeatureSwitchObject);
        $do!($crate::api::WindowsStorage);
        $do!($crate::api::WindowsNodeStorage);
    };
}
pub use for_each_kind;

/// Takes an object as the API server sent it into its table. Says whether that changes anything.
pub fn absorb<K: Object>(cluster: &mut Cluster, object: &Received) -> bool {
    let key = K::key(object.meta());
    match object.decode::<K>() {
        Ok(object) => match object.row().filter(|row| K::matters(cluster, row)) {
            Some(row) => K::put(cluster, key, row),
            None => K::table(cluster).delete(&key),
        },
        // What it says is not known, so nothing good may follow from it.
        Err(problem) => {
            let problem = if K::is_secret() {
                "it is not as Kubernetes defines it"
            } else {
                &problem
            };
            let problem = format!("{} {key} cannot be read: {problem}", K::kind(&()));
            tracing::warn!("{problem}");
            K::table(cluster).reject(key, problem)
        }
    }
}

/// Decodes an object.
pub fn decode<K: DeserializeOwned>(value: &Value) -> Result<K, FieldError> {
    serde_path_to_error::deserialize(Strict(value)).map_err(|error| {
        let field = error.path().to_string();
        FieldError {
            // The names of fields in it are data, and so are values that are quoted.
            field: visible(if field == "." {
                "of the object"
            } else {
                &field
            }),
            what: visible(&error.into_inner().to_string()),
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
    shared(meta.name.as_deref().unwrap_or_default())
}

/// Decodes a name into its [`shared`] copy.
fn shared_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    String::deserialize(deserializer).map(|name| shared(&name))
}

/// The same where it may be absent.
fn optional_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Name>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(name.as_deref().map(shared))
}

/// The key of an object in a namespace. A manifest without one is of the namespace that kubectl would take.
fn object_key(meta: &ObjectMeta) -> ObjectKey {
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    ObjectKey::new(shared(namespace), name(meta))
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
    // An empty uid, as in a dump that was made anonymous, is nobody's.
    (!controller.uid.is_empty()).then(|| shared(&controller.uid))
}

#[cfg(test)]
mod tests;
