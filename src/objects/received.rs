//! An object as the API server sent it, whether it can be read or not.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::objects::{decode, metadata};

/// An object of which at least the metadata can be read: one that is malformed must not end a whole list.
///
/// kube's `DeserializeGuard` does the same by way of two copies of each object as a tree, which was most of the time and
/// of the memory that a list took.
#[derive(Clone, Debug)]
pub struct Received<K>(pub Result<K, Unreadable>);

/// An object that cannot be read.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// The field that is not as it should be, and what is wrong with it.
    pub problem: String,
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct OnlyMetadata {
    #[serde(deserialize_with = "metadata::metadata")]
    metadata: ObjectMeta,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Received<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let failure = match serde_json::from_str(text.get()) {
            Ok(object) => return Ok(Self(Ok(object))),
            Err(failure) => failure,
        };
        let OnlyMetadata { metadata } =
            serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        // Once more, for words that name the field.
        let told = serde_json::from_str(text.get()).map(|value| decode::<K>(&value));
        let problem = match told {
            Ok(Err(field)) => field.to_string(),
            Ok(Ok(_)) | Err(_) => failure.to_string(),
        };
        Ok(Self(Err(Unreadable { problem, metadata })))
    }
}

impl<K: Resource> Resource for Received<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(unreadable) => &unreadable.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(unreadable) => &mut unreadable.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::PodObject;

    #[test]
    fn what_nobody_looks_at_is_not_kept() {
        let text = r#"{"metadata":{"name":"web-0","namespace":"shop","resourceVersion":"7",
            "managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}}}],"selfLink":"s"},"spec":{"containers":[]}}"#;
        let received: Received<PodObject> = serde_json::from_str(text).unwrap();
        let meta = received.meta();
        assert_eq!(meta.resource_version.as_deref(), Some("7"));
        assert!(meta.managed_fields.is_none());
        assert!(received.0.is_ok());
    }

    #[test]
    fn an_object_that_cannot_be_read_has_its_name_and_names_the_field() {
        let text = r#"[{"metadata":{"name":"web-0","namespace":"shop"},"spec":{"volumes":[{"name":7}]}},
            {"metadata":{"name":"web-1"}}]"#;
        let received: Vec<Received<PodObject>> = serde_json::from_str(text).unwrap();
        let unreadable = received[0].0.as_ref().unwrap_err();
        assert_eq!(received[0].meta().name.as_deref(), Some("web-0"));
        assert!(
            unreadable.problem.contains("spec.volumes[0]"),
            "{}",
            unreadable.problem
        );
        assert!(received[1].0.is_ok());
    }

    #[test]
    fn what_has_no_metadata_is_no_object() {
        assert!(serde_json::from_str::<Received<PodObject>>(r#"{"spec":{}}"#).is_err());
    }
}
