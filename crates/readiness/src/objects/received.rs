//! An object as the API server sent it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::objects::{Object, decode, metadata};

/// An object of any kind as its text, of which at least the metadata could be read.
///
/// It is decoded one by one when it is taken in: a malformed one must not end a whole list, and what lists and watches
/// need of code is there once rather than once a kind. kube's `DeserializeGuard` reads each object by way of two copies of
/// it as a tree, which was most of the time and of the memory that a list took.
#[derive(Clone, Debug)]
pub struct Received {
    metadata: ObjectMeta,
    text: Box<RawValue>,
}

#[derive(Deserialize)]
struct OnlyMetadata {
    #[serde(deserialize_with = "metadata::metadata")]
    metadata: ObjectMeta,
}

impl Received {
    /// The resource of a kind, to ask for.
    #[must_use]
    pub fn resource_of<K: Object>() -> ApiResource {
        ApiResource::erase::<K>(&())
    }

    /// All of it, as JSON; the items of a list have neither kind nor apiVersion.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.get()
    }

    /// The object, or the field that is not as it should be and what is wrong with it.
    pub fn decode<K: Object>(&self) -> Result<K, String> {
        let text = self.text.get();
        serde_json::from_str(text).map_err(|failure| {
            // Once more, for words that name the field.
            match serde_json::from_str(text).map(|value| decode::<K>(&value)) {
                Ok(Err(field)) => field.to_string(),
                Ok(Ok(_)) | Err(_) => failure.to_string(),
            }
        })
    }
}

impl<'de> Deserialize<'de> for Received {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let OnlyMetadata { metadata } =
            serde_json::from_str(text.get()).map_err(D::Error::custom)?;
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
    use crate::objects::PodObject;

    #[test]
    fn what_nobody_looks_at_is_not_decoded() {
        let text = r#"{"metadata":{"name":"web-0","namespace":"shop","resourceVersion":"7",
            "managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}}}],"selfLink":"s"},"spec":{"containers":[]}}"#;
        let received: Received = serde_json::from_str(text).unwrap();
        assert_eq!(received.meta().resource_version.as_deref(), Some("7"));
        assert!(received.meta().managed_fields.is_none());
        let pod: PodObject = received.decode().unwrap();
        assert!(pod.meta().managed_fields.is_none());
    }

    #[test]
    fn an_object_that_cannot_be_read_has_its_name_and_names_the_field() {
        let text = r#"[{"metadata":{"name":"web-0","namespace":"shop"},"spec":{"volumes":[{"name":7}]}},
            {"metadata":{"name":"web-1"}}]"#;
        let received: Vec<Received> = serde_json::from_str(text).unwrap();
        assert_eq!(received[0].meta().name.as_deref(), Some("web-0"));
        let problem = received[0].decode::<PodObject>().unwrap_err();
        assert!(problem.contains("spec.volumes[0]"), "{problem}");
        assert!(received[1].decode::<PodObject>().is_ok());
    }

    #[test]
    fn what_has_no_metadata_is_no_object() {
        assert!(serde_json::from_str::<Received>(r#"{"spec":{}}"#).is_err());
    }
}
