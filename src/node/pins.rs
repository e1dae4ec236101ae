//! Pinned host keys, by node name in a ConfigMap of the operator's namespace, where a node's own kubelet cannot write.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::deadline::{self, CallError};
use crate::node::host_key::{HOST_KEYS_CONFIG_MAP, HostKeyPolicy, Judgement, first_contact};
use crate::node::{HostKey, NodeError, Reason};

/// Writes that somebody else came in between of; more mean that nobody gets through.
const ATTEMPTS: u32 = 5;

/// Where pins are kept.
#[derive(Clone)]
pub struct Pins {
    api: Api<ConfigMap>,
    namespace: String,
}

impl Pins {
    /// The pins in that API's namespace.
    #[must_use]
    pub fn new(api: Api<ConfigMap>, namespace: String) -> Self {
        Self { api, namespace }
    }

    /// Compares a presented key with the pinned one, where nothing else is known of the node.
    fn judge(&self, node: &str, pinned: Option<&HostKey>, presented: &HostKey) -> Judgement {
        let policy = HostKeyPolicy {
            pin: pinned.cloned(),
            trust_on_first_use: true,
            ..HostKeyPolicy::default()
        };
        self.judge_by(&policy, node, presented)
    }

    /// What to make of a presented key after all that is known of the node.
    #[must_use]
    pub fn judge_by(&self, policy: &HostKeyPolicy, node: &str, presented: &HostKey) -> Judgement {
        policy.judge(&self.namespace, node, presented)
    }

    /// Pins a key at the first contact, unless another key was pinned meanwhile.
    pub async fn pin(&self, node: &str, key: &HostKey) -> Result<(), NodeError> {
        for _ in 0..ATTEMPTS {
            let existing = self.read().await?;
            let pinned = existing
                .as_ref()
                .and_then(|map| map.data.as_ref()?.get(node));
            if let Some(pinned) = pinned {
                return match self.judge(node, Some(&HostKey::parse(pinned)), key) {
                    Judgement::Refused(error) => Err(error),
                    Judgement::Known | Judgement::New => Ok(()),
                };
            }
            let written = match &existing {
                None => {
                    let pins = BTreeMap::from([(node.to_owned(), first_contact(key))]);
                    self.create(pins).await
                }
                Some(existing) => self.write(existing, node, Some(key)).await?,
            };
            match written {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(self.refused(&error)),
            }
        }
        Err(crowded())
    }

    /// Forgets the key of a node that is gone, so that another host of that name is met for the first time. A pin that is
    /// not there is fine.
    pub async fn remove(&self, node: &str) -> Result<(), NodeError> {
        for _ in 0..ATTEMPTS {
            let Some(existing) = self.read().await? else {
                return Ok(());
            };
            let pinned = existing.data.as_ref().and_then(|data| data.get(node));
            if pinned.is_none() {
                return Ok(());
            }
            match self.write(&existing, node, None).await? {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => {}
                // The ConfigMap went in between.
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(self.refused(&error)),
            }
        }
        Err(crowded())
    }

    async fn read(&self) -> Result<Option<ConfigMap>, NodeError> {
        deadline::call("read host keys", self.api.get_opt(HOST_KEYS_CONFIG_MAP))
            .await
            .map_err(|error| self.refused(&error))
    }

    /// Makes the ConfigMap, if it is not there.
    pub async fn make(&self) -> Result<(), NodeError> {
        if self.read().await?.is_some() {
            return Ok(());
        }
        match self.create(BTreeMap::new()).await {
            Err(error) if !error.is_conflict() => Err(self.refused(&error)),
            _ => Ok(()),
        }
    }

    async fn create(&self, pins: BTreeMap<String, String>) -> Result<ConfigMap, CallError> {
        let object = ConfigMap {
            metadata: ObjectMeta {
                name: Some(HOST_KEYS_CONFIG_MAP.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(pins),
            ..ConfigMap::default()
        };
        let parameters = PostParams::default();
        let created = self.api.create(&parameters, &object);
        deadline::call("store host key", created).await
    }

    /// Sets or removes one pin, unless the ConfigMap has changed since it was read.
    async fn write(
        &self,
        existing: &ConfigMap,
        node: &str,
        key: Option<&HostKey>,
    ) -> Result<Result<ConfigMap, CallError>, NodeError> {
        if existing.immutable == Some(true) {
            let namespace = &self.namespace;
            return Err(NodeError::new(
                Reason::HostKeyNotStored,
                format!(
                    "ConfigMap {HOST_KEYS_CONFIG_MAP} in namespace {namespace} is immutable, so the pin of node {node} was not \
                     changed. Delete it and make it anew without \"immutable\", or with the keys of all nodes in it"
                ),
            ));
        }
        let change = json!({
            "metadata": {"resourceVersion": existing.metadata.resource_version},
            "data": {node: key.map(first_contact)},
        });
        let patch = Patch::Merge(&change);
        let parameters = PatchParams::default();
        let patched = self.api.patch(HOST_KEYS_CONFIG_MAP, &parameters, &patch);
        Ok(deadline::call("store host key", patched).await)
    }

    fn refused(&self, error: &CallError) -> NodeError {
        let namespace = &self.namespace;
        let next = if error.is_forbidden() {
            "; the operator's Role must let it get, create and patch ConfigMaps there"
        } else {
            ""
        };
        NodeError::new(
            Reason::HostKeyNotStored,
            format!(
                "the host key could not be stored in ConfigMap {HOST_KEYS_CONFIG_MAP} of namespace {namespace}: {error}{next}"
            ),
        )
    }
}

fn crowded() -> NodeError {
    NodeError::new(
        Reason::HostKeyNotStored,
        format!(
            "the host key could not be stored: others keep changing ConfigMap {HOST_KEYS_CONFIG_MAP}"
        ),
    )
}
