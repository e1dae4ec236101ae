//! `spec.nodePools` of `WindowsStorage`: settings for groups of nodes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rollout::number_or_percentage_schema;
use super::values::{PrivateKeySecretRef, pinned_version_schema, user_schema};
use crate::index::Name;

/// Settings for a group of nodes. A field that is not set has the value that holds for all nodes.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePool {
    /// The name of the pool.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        extend("x-kubernetes-validations" = [{
            "rule": "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "message": "use lower-case letters, digits and hyphens only, such as pool-1",
        }])
    )]
    pub name: String,
    /// The labels of the pool's nodes. A node must have all of them.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 16))]
    pub node_selector: BTreeMap<String, String>,
    /// How the operator logs in to the nodes of the pool.
    #[serde(default)]
    pub ssh: PoolSsh,
    /// Who manages csi-proxy on the nodes of the pool. If `spec.csiProxy.management` is Removed, this field has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management: Option<PoolManagement>,
    /// Pins the version of csi-proxy in the pool, instead of `spec.csiProxy.version`. With different pins, a new version can be tried in one
    /// pool first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = pinned_version_schema)]
    pub version: Option<String>,
    /// How the operator updates csi-proxy in the pool.
    #[serde(default)]
    pub rollout: PoolRollout,
}

/// How the operator logs in to the nodes of a pool.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolSsh {
    /// The user, instead of `spec.ssh.user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = user_schema)]
    pub user: Option<String>,
    /// The port of the SSH server, instead of `spec.ssh.port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// The private key, instead of `spec.ssh.privateKeySecretRef`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key_secret_ref: Option<PrivateKeySecretRef>,
}

/// Who manages csi-proxy on the nodes of a pool.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolManagement {
    /// As `spec.csiProxy.management`: Auto.
    Auto,
    /// This operator.
    Managed,
    /// Another owner.
    External,
}

/// How the operator updates csi-proxy in a pool.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolRollout {
    /// The maximum number of nodes of the pool that are updated at the same time: a number, or a percentage of its managed nodes, rounded
    /// up. If set, nodes and failures of the pool are counted separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "number_or_percentage_schema")]
    pub max_unavailable: Option<IntOrString>,
    /// Pauses the rollout in the pool.
    pub paused: bool,
}

impl PoolRollout {
    /// Whether nodes and failures of the pool are counted separately.
    pub fn is_apart(&self) -> bool {
        self.max_unavailable.is_some()
    }
}

impl NodePool {
    /// Whether a node with these labels belongs to the pool, if no earlier pool fits.
    pub fn fits(&self, labels: &[(Name, Name)]) -> bool {
        let has = |(key, value): (&String, &String)| {
            labels.iter().any(|(k, v)| **k == **key && **v == **value)
        };
        // A selector without labels is refused by the API server, and would be all nodes.
        !self.node_selector.is_empty() && self.node_selector.iter().all(has)
    }
}
