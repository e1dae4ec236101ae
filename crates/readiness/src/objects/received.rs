//! An object as the API server sent it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::objects::metadata::Identity;
use crate::objects::{FieldError, decode_text};

/// An object of any kind as JSON text, with its decoded metadata.
///
/// Each object is decoded on its own when it is stored, so that a malformed one does not fail a whole list and the list
/// and watch code is compiled once instead of once per kind. kube's `DeserializeGuard` reads each object through two tree
/// copies, which took most of the time and memory of a list.
#[derive(Clone, Debug)]
pub struct Received {
    metadata: Box<ObjectMeta>,
    text: Box<RawValue>,
}

/// Only the metadata of an object.
#[derive(Deserialize)]
pub(super) struct OnlyMetadata {
    pub metadata: Identity,
}

impl Received {
    /// The object as JSON. Items of a list have no kind and apiVersion.
    pub fn text(&self) -> &str {
        self.text.get()
    }

    /// Decodes it.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, FieldError> {
        decode_text(self.text())
    }
}

impl<'de> Deserialize<'de> for Received {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let OnlyMetadata { metadata } =
            serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let metadata = Box::new(metadata.into());
        Ok(Self { metadata, text })
    }
}

impl Resource for Received {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{AnyTable, Cluster};
    use crate::objects::kind;

    #[test]
    fn managed_fields_are_not_decoded() {
        let text = r#"{"metadata":{"name":"web-0","namespace":"shop","resourceVersion":"7",
            "managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}}}],"selfLink":"s"},"spec":{"containers":[]}}"#;
        let received: Received = serde_json::from_str(text).unwrap();
        assert_eq!(received.meta().resource_version.as_deref(), Some("7"));
        assert!(received.meta().managed_fields.is_none());
    }

    #[test]
    fn an_object_that_cannot_be_read_is_rejected_by_its_name_and_field() {
        let text = r#"[{"metadata":{"name":"web-0","namespace":"shop"},"spec":{"volumes":[{"name":7}]}},
            {"metadata":{"name":"web-1"}}]"#;
        let received: Vec<Received> = serde_json::from_str(text).unwrap();
        let (mut cluster, pods) = (Cluster::default(), kind("v1", "Pod").unwrap());
        for object in &received {
            pods.absorb(&mut cluster, object);
        }
        let problem = cluster.pods.problem().unwrap();
        assert!(
            problem.starts_with("Pod shop/web-0 cannot be read: field spec.volumes[0]"),
            "{problem}"
        );
    }

    #[test]
    fn what_has_no_metadata_is_no_object() {
        assert!(serde_json::from_str::<Received>(r#"{"spec":{}}"#).is_err());
    }
}
