//! Decodes each kind of object into a row of the index.
//!
//! The same types decode watch events and files. A used field of an unexpected type is an error that names the field;
//! unused fields are ignored, or have to fit where a type of Kubernetes' own is used.

/// Makes these structs decode from JSON objects only: serde's derive also accepts a list, with items in field order. The
/// structs derive with `remote = "Self"`, which leaves the trait implementation to this macro.
macro_rules! object_only {
    ($($struct:ty),+) => {$(
        impl<'de> serde::Deserialize<'de> for $struct {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Object;
                impl<'de> serde::de::Visitor<'de> for Object {
                    type Value = $struct;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }
                    fn visit_map<M: serde::de::MapAccess<'de>>(
                        self,
                        fields: M,
                    ) -> Result<$struct, M::Error> {
                        <$struct>::deserialize(serde::de::value::MapAccessDeserializer::new(fields))
                    }
                }
                deserializer.deserialize_map(Object)
            }
        }
    )+};
}

mod completeness;
mod gathered;
mod kinds;
mod load;
mod metadata;
mod node;
mod node_side;
mod own;
mod placement;
mod platform;
mod pod;
mod pod_spec;
mod received;
mod storage;
mod volume_source;
mod workloads;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::index::{Name, intern};
use crate::visible::visible;
pub use gathered::{Gathered, GatheredKind};
pub use kinds::{KINDS, Kind, Scope, cluster_kinds, kind, own_config_maps};
pub use load::Loader;
pub use node_side::driver_flags;
pub use own::FEATURE_SWITCHES;
pub use placement::SELECTOR_ANNOTATIONS;
pub(crate) use placement::{OS_ID_LABEL, named_by_labels};
pub use received::Received;

fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(value).map_err(FieldError::from)
}

/// Decodes an object from JSON; where that fails, once more to find the field's path.
fn decode_text<T: DeserializeOwned>(text: &str) -> Result<T, FieldError> {
    serde_json::from_str(text).or_else(|_| {
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json).map_err(FieldError::from)
    })
}

/// A field that does not match Kubernetes' definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field {field}: {what}")]
pub struct FieldError {
    /// The field's path, such as `spec.volumes[0].name`.
    pub field: String,
    /// The error.
    pub what: String,
}

impl From<serde_path_to_error::Error<serde_json::Error>> for FieldError {
    fn from(error: serde_path_to_error::Error<serde_json::Error>) -> Self {
        let field = error.path().to_string();
        // The place is one of the JSON that was made for this object.
        let what = error.into_inner().to_string();
        let what = what
            .rsplit_once(" at line ")
            .map_or(&*what, |(what, _)| what);
        Self {
            // The path may contain keys from the input, and the message may quote values.
            field: visible(if field == "." {
                "of the object"
            } else {
                &field
            }),
            what: visible(what),
        }
    }
}

fn interned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    String::deserialize(deserializer).map(|name| intern(&name))
}

#[cfg(test)]
mod tests;
