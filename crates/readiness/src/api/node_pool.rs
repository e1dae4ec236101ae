//! `spec.nodePools` of `WindowsStorage`: settings for groups of nodes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rollout::{number_or_percentage, number_or_percentage_schema};
use super::windows_storage::{
    Management, PrivateKeySecretRef, WindowsStorageSpec, pinned_version_schema,
};
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
    #[schemars(
        length(min = 1, max = 256),
        regex(pattern = r"^[^\s/:;,]+$"),
        extend("x-kubernetes-validations" = [{
            "rule": "self.matches('^[^ /:;,]+$')",
            "message": "a user name has neither spaces nor any of / : ; ,",
        }])
    )]
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
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "number_or_percentage"
    )]
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

impl WindowsStorageSpec {
    /// The pools that fit a node with these labels. It belongs to the first.
    pub fn pools_of<'a>(
        &'a self,
        labels: &'a [(Name, Name)],
    ) -> impl Iterator<Item = &'a NodePool> {
        self.node_pools.iter().filter(|pool| pool.fits(labels))
    }

    /// What is wanted of the nodes of a pool, or of those of none.
    pub fn for_pool(&self, pool: Option<&NodePool>) -> Cow<'_, Self> {
        let Some(NodePool {
            name: _,
            node_selector: _,
            ssh,
            management,
            version,
            rollout,
        }) = pool
        else {
            return Cow::Borrowed(self);
        };
        let mut spec = self.clone();
        if let Some(user) = &ssh.user {
            spec.ssh.user.clone_from(user);
        }
        spec.ssh.port = ssh.port.unwrap_or(spec.ssh.port);
        spec.ssh.private_key_secret_ref = self.private_key(pool).clone();
        if spec.csi_proxy.management != Management::Removed {
            spec.csi_proxy.management = match management {
                None => spec.csi_proxy.management,
                Some(PoolManagement::Auto) => Management::Auto,
                Some(PoolManagement::Managed) => Management::Managed,
                Some(PoolManagement::External) => Management::External,
            };
        }
        if version.is_some() {
            spec.csi_proxy.version.clone_from(version);
        }
        if let Some(most) = &rollout.max_unavailable {
            spec.rollout.max_unavailable = most.clone();
        }
        spec.rollout.paused |= rollout.paused;
        Cow::Owned(spec)
    }

    /// Returns the private key for the nodes of a pool, or without a pool.
    pub fn private_key<'a>(&'a self, pool: Option<&'a NodePool>) -> &'a PrivateKeySecretRef {
        let of_pool = pool.and_then(|pool| pool.ssh.private_key_secret_ref.as_ref());
        of_pool.unwrap_or(&self.ssh.private_key_secret_ref)
    }

    /// Returns the names of the Secrets with private keys.
    pub fn secrets(&self) -> BTreeSet<&str> {
        let pools = self.node_pools.iter().map(Some).chain([None]);
        pools
            .map(|pool| self.private_key(pool).name.as_str())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> WindowsStorageSpec {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_node_belongs_to_the_first_pool_of_which_it_has_all_labels() {
        let spec = spec(
            r#"{"nodePools":[
                {"name":"canary","nodeSelector":{"pool":"blue","canary":"yes"}},
                {"name":"blue","nodeSelector":{"pool":"blue"}},
                {"name":"none","nodeSelector":{}}]}"#,
        );
        let of = |labels: &[(&str, &str)]| {
            let labels: Vec<(Name, Name)> = labels
                .iter()
                .map(|(key, value)| (Name::from(*key), Name::from(*value)))
                .collect();
            let names: Vec<_> = spec.pools_of(&labels).map(|it| it.name.clone()).collect();
            names.join(" ")
        };
        assert_eq!(of(&[("canary", "yes"), ("pool", "blue")]), "canary blue");
        assert_eq!(of(&[("pool", "blue")]), "blue");
        assert_eq!(of(&[("pool", "green")]), "");
    }

    #[test]
    fn what_a_pool_does_not_say_is_as_for_all() {
        let spec = spec(
            r#"{"ssh":{"user":"ops"},"csiProxy":{"version":"v1.2.0"},"rollout":{"maxUnavailable":3},"nodePools":[
                {"name":"a","nodeSelector":{"a":"b"},"ssh":{"port":2222},"management":"External","rollout":{"maxUnavailable":"10%"}},
                {"name":"b","nodeSelector":{"a":"c"},"ssh":{"user":"admin"},"version":"v1.3.0","rollout":{"paused":true}}]}"#,
        );
        let a = spec.for_pool(spec.node_pools.first());
        assert_eq!((&*a.ssh.user, a.ssh.port), ("ops", 2222));
        assert_eq!(a.csi_proxy.management, Management::External);
        assert_eq!(a.rollout.max_unavailable_of(50), 5);
        let b = spec.for_pool(spec.node_pools.get(1));
        assert_eq!((&*b.ssh.user, b.ssh.port), ("admin", 22));
        let pins = [&a, &b].map(|spec| spec.csi_proxy.version.as_deref());
        assert_eq!(pins, [Some("v1.2.0"), Some("v1.3.0")]);
        assert!(b.rollout.paused && b.rollout.max_unavailable_of(50) == 3);
        let apart = spec.node_pools.iter().map(|pool| pool.rollout.is_apart());
        assert_eq!(apart.collect::<Vec<_>>(), [true, false]);
        assert_eq!(*spec.for_pool(None), spec);
    }

    #[test]
    fn what_is_to_be_removed_everywhere_is_removed_in_pools_as_well() {
        let spec = spec(
            r#"{"csiProxy":{"management":"Removed"},"nodePools":[
                {"name":"a","nodeSelector":{"a":"b"},"management":"Managed"}]}"#,
        );
        let pool = spec.for_pool(spec.node_pools.first());
        assert_eq!(pool.csi_proxy.management, Management::Removed);
    }

    #[test]
    fn what_the_schema_refuses_is_refused_where_it_is_not_checked() {
        let pool = |rollout: &str| {
            let text = format!(r#"{{"name":"a","nodeSelector":{{"a":"b"}},"rollout":{rollout}}}"#);
            serde_json::from_str::<NodePool>(&text).is_ok()
        };
        assert!(pool(r#"{"maxUnavailable":"10%"}"#) && pool(r#"{"maxUnavailable":null}"#));
        assert!(!pool(r#"{"maxUnavailable":0}"#) && !pool(r#"{"maxUnavailable":"101%"}"#));
    }
}
