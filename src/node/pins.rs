//! Pinned host keys, by node name in a ConfigMap of the operator's namespace, where a node's own kubelet cannot write.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::deadline::{self, CallError};
use crate::node::host_key::{
    ACCEPTED, FIRST_CONTACT, HOST_KEYS_CONFIG_MAP, HostKeyPolicy, Judgement,
};
use crate::node::{HostKey, NodeError, Reason, Target};

/// Writes that came to nothing because the ConfigMap was made, or this pin changed, meanwhile.
const ATTEMPTS: u32 = 5;

/// Where pins are kept.
#[derive(Clone)]
pub struct Pins {
    api: Api<ConfigMap>,
    namespace: String,
    /// First contacts, many at one time where a fleet is new. The API server's work for a write grows with the ConfigMap, and
    /// it does it again for each write that another overtakes.
    contacts: mpsc::UnboundedSender<FirstContact>,
    /// Those whose pins are to be written; locked by whoever writes.
    waiting: Arc<Mutex<mpsc::UnboundedReceiver<FirstContact>>>,
}

struct FirstContact {
    node: String,
    pin: String,
    stored: oneshot::Sender<()>,
}

impl Pins {
    /// The pins in that API's namespace.
    #[must_use]
    pub fn new(api: Api<ConfigMap>, namespace: String) -> Self {
        let (contacts, waiting) = mpsc::unbounded_channel();
        Self {
            api,
            namespace,
            contacts,
            waiting: Arc::new(Mutex::new(waiting)),
        }
    }

    /// Makes sure that it is the host's key, as far as that can be known. A key that is trusted at first sight is pinned.
    pub async fn trust(&self, target: &Target, key: &HostKey) -> Result<(), NodeError> {
        match target.host_keys.judge(&self.namespace, &target.node, key) {
            Judgement::Known => Ok(()),
            Judgement::New => {
                self.pin(&target.node, key).await?;
                let (key, kind) = (key.fingerprint(), key.kind());
                tracing::info!(%key, kind, "host key pinned at the first contact");
                Ok(())
            }
            Judgement::Refused(error) => {
                if error.reason == Reason::HostKeyUnknown {
                    // The command that accepts a key changes the ConfigMap, so it has to be there.
                    self.make().await?;
                }
                Err(error)
            }
        }
    }

    /// Pins a key at the first contact, unless another key was pinned meanwhile.
    pub async fn pin(&self, node: &str, key: &HostKey) -> Result<(), NodeError> {
        let pin = format!("{key} {FIRST_CONTACT}");
        if self.pin_with_others(node, &pin).await {
            return Ok(());
        }
        self.edit(node, Some(pin), |pinned| {
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

    /// Pins it in one write with all that wait for the write before. Says whether it is stored: if any of them is pinned
    /// already, or there is no ConfigMap yet, none is.
    async fn pin_with_others(&self, node: &str, pin: &str) -> bool {
        let (stored, mut is_stored) = oneshot::channel();
        let contact = FirstContact {
            node: node.to_owned(),
            pin: pin.to_owned(),
            stored,
        };
        // The receiver lives as long as the sender.
        let _ = self.contacts.send(contact);
        let mut waiting = self.waiting.lock().await;
        let batch = iter::from_fn(|| waiting.try_recv().ok());
        // Who gave up may have done so because the node is gone, and another host may get its name.
        let batch: Vec<_> = batch
            .filter(|contact| !contact.stored.is_closed())
            .collect();
        let operations = batch.iter().flat_map(|contact| {
            let path = path(&contact.node);
            operations(&path, &Value::Null, &json!(contact.pin))
        });
        if !batch.is_empty() && self.patch(operations.collect()).await.is_ok() {
            for contact in batch {
                // One that has given up meanwhile does not mind.
                let _ = contact.stored.send(());
            }
        }
        is_stored.try_recv().is_ok()
    }

    /// Forgets the key of a node that is gone, so that another host of that name is met for the first time. A pin that is
    /// not there is fine.
    pub async fn remove(&self, node: &str) -> Result<(), NodeError> {
        self.edit(node, None, |pinned| Ok(pinned.is_some())).await
    }

    /// Pins a key that a person has accepted, in place of the pin that was shown to them: a pin, or that there was none.
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

    /// Sets or removes one pin where `is_to_change` says so of the one that is there. Nobody else's pin is touched, and
    /// this one only if it still is the one that was looked at.
    async fn edit(
        &self,
        node: &str,
        pin: Option<String>,
        is_to_change: impl Fn(Option<&HostKey>) -> Result<bool, NodeError>,
    ) -> Result<(), NodeError> {
        for _ in 0..ATTEMPTS {
            let existing = self.read().await?;
            let data = existing.as_ref().and_then(|map| map.data.as_ref());
            let stored = data.and_then(|data| data.get(node));
            let pinned = stored.map(|text| HostKey::parse(text));
            if !is_to_change(pinned.as_ref())? {
                return Ok(());
            }
            let written = match &existing {
                None => self.create(node, pin.clone()).await,
                Some(map) if map.immutable == Some(true) => {
                    return Err(not_stored(format!(
                        "ConfigMap {HOST_KEYS_CONFIG_MAP} in namespace {} is immutable, so the pin of {node} was not changed. \
                         Delete it and create it again without \"immutable\", or with the keys of all nodes in it",
                        self.namespace
                    )));
                }
                // An empty ConfigMap has no data to add to.
                Some(_) if data.is_none() => {
                    let data = json!({ node: pin });
                    self.patch(operations("/data", &Value::Null, &data)).await
                }
                Some(_) => {
                    let changes = operations(&path(node), &json!(stored), &json!(pin));
                    self.patch(changes).await
                }
            };
            match written {
                // Another client was faster. The API server answers 422 where a patch's test fails.
                Err(error) if matches!(error.status(), Some(404 | 409 | 422)) => {}
                written => return written.map_err(|error| self.refused(&error)),
            }
        }
        Err(not_stored(format!(
            "the host key could not be stored: others keep changing ConfigMap {HOST_KEYS_CONFIG_MAP}"
        )))
    }

    async fn patch(&self, operations: Vec<Value>) -> Result<(), CallError> {
        // These are operations of a JSON patch; without them nothing would be changed.
        let operations = serde_json::from_value(Value::Array(operations)).unwrap_or_default();
        let operations = Patch::Json::<()>(operations);
        let parameters = PatchParams::default();
        let api = &self.api;
        let patched = api.patch(HOST_KEYS_CONFIG_MAP, &parameters, &operations);
        deadline::call("store host key", patched).await.map(drop)
    }

    async fn create(&self, node: &str, pin: Option<String>) -> Result<(), CallError> {
        let pins = pin.map(|pin| (node.to_owned(), pin));
        let mut object = ConfigMap {
            data: Some(BTreeMap::from_iter(pins)),
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

    /// Makes the ConfigMap, if it is not there.
    async fn make(&self) -> Result<(), NodeError> {
        if self.read().await?.is_some() {
            return Ok(());
        }
        match self.create("", None).await {
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

/// Where a node's pin is. The name of a Node has no sign that such a path would have to escape.
fn path(node: &str) -> String {
    format!("/data/{node}")
}

/// The operations that change what is there from one value to another, or, with null, remove it.
fn operations(path: &str, old: &Value, new: &Value) -> Vec<Value> {
    let change = match new {
        Value::Null => json!({"op": "remove", "path": path}),
        new => json!({"op": "add", "path": path, "value": new}),
    };
    vec![json!({"op": "test", "path": path, "value": old}), change]
}

fn not_stored(message: String) -> NodeError {
    Reason::HostKeyNotStored.error(message)
}
