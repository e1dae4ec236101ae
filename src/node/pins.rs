//! Stores pinned host keys, by node name, in a ConfigMap in the operator's namespace. A node's own kubelet cannot write it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::{Mutex, oneshot};

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
    /// First contacts that the next write stores as well: a write takes the API server the longer, the more pins there are.
    waiting: Arc<std::sync::Mutex<Vec<Contact>>>,
}

/// A first contact with a node. It is told once its pin is stored.
struct Contact {
    node: String,
    pin: String,
    stored: oneshot::Sender<()>,
}

/// Changes of pins by node.
type Changes = BTreeMap<String, Option<String>>;

impl Pins {
    /// Creates a store in the namespace of `api`.
    pub fn new(api: Api<ConfigMap>, namespace: String) -> Self {
        Self {
            api,
            namespace,
            writing: Arc::default(),
            waiting: Arc::default(),
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

    /// Pins a key at the first contact, unless another key was pinned meanwhile. The first of those that wait writes for all.
    pub async fn pin(&self, node: &str, key: &HostKey) -> Result<(), NodeError> {
        let (stored, mut is_stored) = oneshot::channel();
        let pin = format!("{key} {FIRST_CONTACT}");
        let contact = Contact {
            node: node.to_owned(),
            pin: pin.clone(),
            stored,
        };
        let waiting = || self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting().push(contact);
        let _writing = self.writing.lock().await;
        if is_stored.try_recv().is_ok() {
            return Ok(());
        }
        let mut batch = std::mem::take(&mut *waiting());
        batch.retain(|contact| contact.node != node);
        let changed = self.write(|pins| {
            let policy = HostKeyPolicy {
                pin: pins.get(node).map(|text| HostKey::parse(text)),
                trust_on_first_use: true,
                ..HostKeyPolicy::default()
            };
            let mut changes = match policy.judge(&self.namespace, node, key) {
                Judgement::New => Changes::from([(node.to_owned(), Some(pin.clone()))]),
                Judgement::Known => Changes::new(),
                Judgement::Refused(error) => return Err(error),
            };
            // The node of one that gave up may be gone, and another host may get its name.
            let is_first = |it: &&Contact| !it.stored.is_closed() && !pins.contains_key(&it.node);
            let others = batch.iter().filter(is_first);
            changes.extend(others.map(|it| (it.node.clone(), Some(it.pin.clone()))));
            Ok(changes)
        });
        let changed = changed.await?;
        for Contact { node, pin, stored } in batch {
            if changed.get(&node) == Some(&Some(pin)) {
                // Nobody may wait for it any more.
                let _ = stored.send(());
            }
        }
        Ok(())
    }

    /// Removes the pin of a deleted node, so that another host with that name is a first contact. A missing pin is no error.
    pub async fn remove(&self, node: &str) -> Result<(), NodeError> {
        let _writing = self.writing.lock().await;
        let removed = |pins: &BTreeMap<String, String>| {
            let is_there = pins.contains_key(node).then(|| (node.to_owned(), None));
            Ok(is_there.into_iter().collect())
        };
        self.write(removed).await.map(drop)
    }

    /// Pins a key that a person has accepted, if the current pin, or its absence, is still the one that was `shown` to them.
    pub async fn replace(
        &self,
        node: &str,
        shown: Option<&HostKey>,
        key: &HostKey,
    ) -> Result<(), NodeError> {
        let replaced = |pins: &BTreeMap<String, String>| {
            let pinned = pins.get(node).map(|text| HostKey::parse(text));
            if pinned.as_ref() == Some(key) {
                return Ok(Changes::new());
            }
            if pinned.as_ref() == shown {
                let pin = format!("{key} {ACCEPTED}");
                return Ok(Changes::from([(node.to_owned(), Some(pin))]));
            }
            let pinned = pinned.map_or_else(|| "none".to_owned(), |pinned| pinned.summary());
            Err(not_stored(format!(
                "the pinned key has changed meanwhile, to {pinned}, so nothing was changed; check it again"
            )))
        };
        self.write(replaced).await.map(drop)
    }

    /// Makes the changes that `change` returns for the current pins, and returns them. The write succeeds only if nothing
    /// else has changed since.
    async fn write(
        &self,
        change: impl Fn(&BTreeMap<String, String>) -> Result<Changes, NodeError>,
    ) -> Result<Changes, NodeError> {
        for _ in 0..ATTEMPTS {
            let existing = self.read().await?;
            let pins = existing.as_ref().and_then(|map| map.data.clone());
            let changes = change(&pins.unwrap_or_default())?;
            if changes.is_empty() {
                return Ok(changes);
            }
            let written = match existing {
                None => self.create(changes.clone()).await,
                Some(map) if map.immutable == Some(true) => {
                    return Err(not_stored(format!(
                        "ConfigMap {HOST_KEYS_CONFIG_MAP} in namespace {} is immutable, so no pin was changed. \
                         Scale the operator to 0 replicas first, since without pins it trusts whatever keys are shown; then put a \
                         copy with the same data and without \"immutable\" in its place",
                        self.namespace
                    )));
                }
                Some(map) => {
                    self.patch(&json!({
                        "metadata": {"resourceVersion": map.metadata.resource_version},
                        "data": changes,
                    }))
                    .await
                }
            };
            match written {
                // Another client was faster.
                Err(error) if matches!(error.status(), Some(404 | 409)) => {}
                written => {
                    return written
                        .map(|()| changes)
                        .map_err(|error| self.refused(&error));
                }
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

    async fn create(&self, pins: Changes) -> Result<(), CallError> {
        let pins = pins
            .into_iter()
            .filter_map(|(node, pin)| Some((node, pin?)));
        let mut object = ConfigMap {
            data: Some(pins.collect()),
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
        match self.create(Changes::new()).await {
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

#[cfg(test)]
mod tests;
