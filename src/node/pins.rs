//! Stores pinned host keys, by node name, in a ConfigMap in the operator's namespace. A node's own kubelet cannot write it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::client::deadline::{self, CallError};
use crate::node::host_key::{
    ACCEPTED, FIRST_CONTACT, HOST_KEYS_CONFIG_MAP, HostKeyPolicy, Judgement,
};
use crate::node::{HostKey, NodeError, Reason, Target};

/// How often a write is attempted. It conflicts if the ConfigMap was created or changed in the meantime.
const ATTEMPTS: u32 = 5;

/// The store of pinned host keys.
#[derive(Clone)]
pub struct Pins {
    api: Api<ConfigMap>,
    namespace: String,
    /// A new fleet has many first contacts at once, which would conflict: one write at a time.
    writing: Arc<Mutex<()>>,
}

impl Pins {
    /// Creates a store in the namespace of `api`.
    pub fn new(api: Api<ConfigMap>, namespace: String) -> Self {
        Self {
            api,
            namespace,
            writing: Arc::default(),
        }
    }

    /// Checks the host key of a target. A key that is trusted on first use is pinned.
    pub async fn trust(&self, target: &Target, key: &HostKey) -> Result<(), NodeError> {
        match target.host_keys.judge(&self.namespace, &target.node, key) {
            Judgement::Known => Ok(()),
            Judgement::New => {
                self.pin(&target.node, key).await?;
                let (key, kind) = (key.fingerprint(), key.kind());
                tracing::info!(%key, kind, "host key pinned on first use");
                Ok(())
            }
            Judgement::Refused(error) => {
                if error.reason == Reason::HostKeyUnknown {
                    // Create the ConfigMap, so that the command that accepts a key only has to change it.
                    self.make().await?;
                }
                Err(error)
            }
        }
    }

    /// Pins a key at the first contact, unless another key was pinned meanwhile.
    pub async fn pin(&self, node: &str, key: &HostKey) -> Result<(), NodeError> {
        self.edit(node, Some(format!("{key} {FIRST_CONTACT}")), |pinned| {
            let policy = HostKeyPolicy {
                pin: pinned.cloned(),
                trust_on_first_use: true,
                ..HostKeyPolicy::default()
            };
            match policy.judge(&self.namespace, node, key) {
                Judgement::New => Ok(true),
                Judgement::Known => Ok(false),
                Judgement::Refused(error) => Err(error),
            }
        })
        .await
    }

    /// Removes the pin of a deleted node, so that another host with that name is a first contact. A missing pin is no error.
    pub async fn remove(&self, node: &str) -> Result<(), NodeError> {
        self.edit(node, None, |pinned| Ok(pinned.is_some())).await
    }

    /// Pins a key that a person has accepted, if the current pin, or its absence, is still the one that was `shown` to them.
    pub async fn replace(
        &self,
        node: &str,
        shown: Option<&HostKey>,
        key: &HostKey,
    ) -> Result<(), NodeError> {
        self.edit(node, Some(format!("{key} {ACCEPTED}")), |pinned| {
            if pinned == Some(key) {
                return Ok(false);
            }
            if pinned == shown {
                return Ok(true);
            }
            let pinned = pinned.map_or_else(|| "none".to_owned(), HostKey::summary);
            Err(not_stored(format!(
                "the pinned key has changed meanwhile, to {pinned}, so nothing was changed; check it again"
            )))
        })
        .await
    }

    /// Sets or removes one pin if `is_to_change` returns true for the current pin. The write succeeds only if nothing else
    /// has changed since.
    async fn edit(
        &self,
        node: &str,
        pin: Option<String>,
        is_to_change: impl Fn(Option<&HostKey>) -> Result<bool, NodeError>,
    ) -> Result<(), NodeError> {
        let _writing = self.writing.lock().await;
        for _ in 0..ATTEMPTS {
            let existing = self.read().await?;
            let data = existing.as_ref().and_then(|map| map.data.as_ref());
            let pinned = data.and_then(|data| data.get(node));
            let pinned = pinned.map(|text| HostKey::parse(text));
            if !is_to_change(pinned.as_ref())? {
                return Ok(());
            }
            let written = match existing {
                None => {
                    self.create(pin.clone().map(|pin| (node.to_owned(), pin)))
                        .await
                }
                Some(map) if map.immutable == Some(true) => {
                    return Err(not_stored(format!(
                        "ConfigMap {HOST_KEYS_CONFIG_MAP} in namespace {} is immutable, so the pin of {node} was not changed. \
                         Scale the operator to 0 replicas first, since without pins it trusts whatever keys are shown; then put a \
                         copy with the same data and without \"immutable\" in its place",
                        self.namespace
                    )));
                }
                Some(map) => {
                    self.patch(&json!({
                        "metadata": {"resourceVersion": map.metadata.resource_version},
                        "data": {node: pin},
                    }))
                    .await
                }
            };
            match written {
                // Another client was faster.
                Err(error) if matches!(error.status(), Some(404 | 409)) => {}
                written => return written.map_err(|error| self.refused(&error)),
            }
        }
        Err(not_stored(format!(
            "the host key could not be stored: others keep changing ConfigMap {HOST_KEYS_CONFIG_MAP}"
        )))
    }

    async fn patch(&self, changes: &Value) -> Result<(), CallError> {
        let (parameters, changes) = (PatchParams::default(), Patch::Merge(changes));
        let patched = self.api.patch(HOST_KEYS_CONFIG_MAP, &parameters, &changes);
        deadline::call("store host key", patched).await.map(drop)
    }

    async fn create(&self, pin: Option<(String, String)>) -> Result<(), CallError> {
        let mut object = ConfigMap {
            data: Some(BTreeMap::from_iter(pin)),
            ..ConfigMap::default()
        };
        object.metadata.name = Some(HOST_KEYS_CONFIG_MAP.to_owned());
        let parameters = PostParams::default();
        let created = self.api.create(&parameters, &object);
        deadline::call("store host key", created).await.map(drop)
    }

    async fn read(&self) -> Result<Option<ConfigMap>, NodeError> {
        let reading = self.api.get_opt(HOST_KEYS_CONFIG_MAP);
        let read = deadline::call("read host keys", reading).await;
        read.map_err(|error| self.refused(&error))
    }

    /// Creates the ConfigMap if it does not exist.
    async fn make(&self) -> Result<(), NodeError> {
        if self.read().await?.is_some() {
            return Ok(());
        }
        match self.create(None).await {
            Err(error) if !error.is_conflict() => Err(self.refused(&error)),
            _ => Ok(()),
        }
    }

    fn refused(&self, error: &CallError) -> NodeError {
        let namespace = &self.namespace;
        let next = if error.is_forbidden() {
            "; whoever changes it, as the operator does by its Role, needs the rights to get, create and patch ConfigMaps there"
        } else {
            ""
        };
        not_stored(format!(
            "the host key could not be stored in ConfigMap {HOST_KEYS_CONFIG_MAP} of namespace {namespace}: {error}{next}"
        ))
    }
}

fn not_stored(message: String) -> NodeError {
    Reason::HostKeyNotStored.error(message)
}
