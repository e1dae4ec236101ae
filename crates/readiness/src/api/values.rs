//! Values that the settings for all nodes and those of a pool have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A private key in a Secret of the operator's namespace.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PrivateKeySecretRef {
    /// The name of the Secret.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: String,
    /// The key in the Secret's data. A passphrase is in passphrase for private-key.pem, otherwise in this key with the suffix .passphrase.
    #[schemars(length(min = 1, max = 230), regex(pattern = "^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

impl Default for PrivateKeySecretRef {
    /// The Secret and key of the Windows Machine Config Operator.
    fn default() -> Self {
        Self {
            name: "cloud-private-key".to_owned(),
            key: "private-key.pem".to_owned(),
        }
    }
}

/// Adds what a pinned version looks like.
pub(super) fn pinned_version_schema(schema: &mut schemars::Schema) {
    schema.insert("maxLength".to_owned(), 64.into());
    let pattern = r"^v?[0-9]+\.[0-9]+\.[0-9]+$";
    schema.insert("pattern".to_owned(), pattern.into());
    let rule = serde_json::json!([{
        "rule": "self.matches('^v?[0-9]+[.][0-9]+[.][0-9]+$')",
        "message": "write a version such as v1.3.0",
    }]);
    schema.insert("x-kubernetes-validations".to_owned(), rule);
}
