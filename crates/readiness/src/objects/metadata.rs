//! Decodes the metadata of objects, without the fields that are not used.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::index::{Name, intern};

pub(super) type Texts = BTreeMap<String, String>;

/// The metadata decoded for every object. Each kind decodes and checks the other fields that it uses.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

impl From<Identity> for ObjectMeta {
    fn from(identity: Identity) -> Self {
        Self {
            name: identity.name,
            namespace: identity.namespace,
            resource_version: identity.resource_version,
            ..Self::default()
        }
    }
}

/// The metadata that some kind uses. `managedFields`, the largest part of many objects, is never decoded.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta {
    pub uid: Option<String>,
    pub creation_timestamp: Option<Time>,
    pub deletion_timestamp: Option<Time>,
    pub labels: Option<Texts>,
    pub annotations: Option<Texts>,
    owner_references: Option<Vec<Reference>>,
}

/// An object with the parts of it that its kind's row is made from.
#[derive(Deserialize)]
pub(super) struct Object<S, T = IgnoredAny> {
    pub metadata: Meta,
    pub spec: Option<S>,
    pub status: Option<T>,
}

/// An owner reference.
#[derive(Deserialize)]
struct Reference {
    controller: Option<bool>,
    kind: Option<String>,
    uid: Option<String>,
}

impl Reference {
    /// Anonymized dumps have empty uids, which identify nothing.
    fn uid(&self) -> Option<Name> {
        let uid = self.uid.as_deref().filter(|uid| !uid.is_empty());
        uid.map(intern)
    }
}

impl Meta {
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key).map(String::as_str)
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns the creation time in seconds since 1970, or the minimum if there is none.
    pub(super) fn created(&self) -> i64 {
        let time = self.creation_timestamp.as_ref();
        time.map_or(i64::MIN, |time| time.0.as_second())
    }

    /// Returns the uid of an owner that is a Node.
    pub(super) fn node_uid(&self) -> Option<Name> {
        let owners = self.owner_references.iter().flatten();
        let mut nodes = owners.filter(|owner| owner.kind.as_deref() == Some("Node"));
        nodes.find_map(Reference::uid)
    }

    /// Returns the uid of the object's controller.
    pub(super) fn controller(&self) -> Option<Name> {
        self.controlling()?.uid()
    }

    /// Whether a pod's controller makes it for its node: a drain leaves it there.
    pub(super) fn stays(&self) -> bool {
        let kind = self.controlling().and_then(|owner| owner.kind.as_deref());
        matches!(kind, Some("DaemonSet" | "Node"))
    }

    fn controlling(&self) -> Option<&Reference> {
        let mut owners = self.owner_references.iter().flatten();
        owners.find(|owner| owner.controller == Some(true))
    }
}
