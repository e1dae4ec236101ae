//! Values that the settings for all nodes and those of a pool have.

use schemars::{JsonSchema, Schema};
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
pub(super) fn pinned_version_schema(schema: &mut Schema) {
    let pattern = r"^v?[0-9]+\.[0-9]+\.[0-9]+$";
    let rule = "self.matches('^v?[0-9]+[.][0-9]+[.][0-9]+$')";
    constrain(schema, 64, pattern, rule, "write a version such as v1.3.0");
}

/// Adds what the name of a user looks like.
pub(super) fn user_schema(schema: &mut Schema) {
    let rule = "self.matches('^[^ /:;,]+$')";
    let message = "a user name has neither spaces nor any of / : ; ,";
    constrain(schema, 256, r"^[^\s/:;,]+$", rule, message);
    schema.insert("minLength".to_owned(), 1.into());
}

/// Adds a bound and a pattern, which the rule repeats with words of its own.
fn constrain(schema: &mut Schema, longest: u32, pattern: &str, rule: &str, message: &str) {
    let validations = serde_json::json!([{"rule": rule, "message": message}]);
    schema.insert("maxLength".to_owned(), longest.into());
    schema.insert("pattern".to_owned(), pattern.into());
    schema.insert("x-kubernetes-validations".to_owned(), validations);
}
