//! Pinned host keys, by node name in a ConfigMap of the operator's namespace, where a node's own kubelet cannot write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::oneshot::{self, Receiver};

use crate::deadline::{self, CallError};
use crate::node::host_key::{
    HOST_KEYS_CONFIG_MAP, HostKeyPolicy, Judgement, accepted, first_contact,
};
use crate::node::{HostKey, NodeError, Reason};

/// Writes that somebody else came in between of; more mean that nobody gets through.
const ATTEMPTS: u32 = 5;
/// Nodes that a message names; it is about all of them.
const MOST_NAMED: usize = 3;

/// Where pins are kept.
#[derive(Clone)]
pub struct Pins {
    api: Api<ConfigMap>,
    namespace: String,
    queue: Arc<Queue>,
}

/// First contacts that have not been written yet. A whole fleet that is met at once must not get into its own way: all
/// who wait are written together, by whichever of them comes to write.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Vec<FirstContact>>,
    writing: tokio::sync::Mutex<()>,
}

struct FirstContact {
    node: String,
    key: HostKey,
    pinned: oneshot::Sender<Result<(), NodeError>>,
}

/// First contacts that are being written. Whoever writes them may have to end in the middle: then they wait again, for
/// the next one.
struct Taken<'a> {
    queue: &'a Queue,
    contacts: Vec<FirstContact>,
}

impl Pins {
    /// The pins in that API's namespace.
    #[must_use]
    pub fn new(api: Api<ConfigMap>, namespace: String) -> Self {
        Self {
            api,
            namespace,
            queue: Arc::default(),
        }
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
        let mut pinned = self.queue.add(node, key);
        let _writing = self.queue.writing.lock().await;
        if let Ok(pinned) = pinned.try_recv() {
            return pinned;
        }
        let mut taken = self.queue.take();
        let results = self.pin_all(&taken.contacts).await;
        for (contact, result) in taken.contacts.drain(..).zip(results) {
            // Who does not wait any more need not know.
            let _ = contact.pinned.send(result);
        }
        // This one was among them.
        pinned.try_recv().unwrap_or_else(|_| Err(crowded()))
    }

    async fn pin_all(&self, contacts: &[FirstContact]) -> Vec<Result<(), NodeError>> {
        let mut problem = crowded();
        let mut judged = Vec::new();
        for _ in 0..ATTEMPTS {
            let existing = match self.read().await {
                Ok(existing) => existing,
                Err(error) => return contacts.iter().map(|_| Err(error.clone())).collect(),
            };
            let (known, new) = self.judge_all(contacts, existing.as_ref());
            judged = known;
            if new.is_empty() {
                break;
            }
            let written = match &existing {
                None => Ok(self.create(new).await),
                Some(existing) => self.write(existing, &new).await,
            };
            match written {
                Ok(Ok(_)) => {
                    for judged in &mut judged {
                        judged.get_or_insert(Ok(()));
                    }
                    break;
                }
                Ok(Err(error)) if error.is_conflict() => {}
                Ok(Err(error)) => {
                    problem = self.refused(&error);
                    break;
                }
                Err(error) => {
                    problem = error;
                    break;
                }
            }
        }
        let results = judged.into_iter();
        results
            .map(|judged| judged.unwrap_or_else(|| Err(problem.clone())))
            .collect()
    }

    /// What to say to those whose node is pinned already, and what to pin for the others. Of two who show different keys
    /// for one node the first is pinned.
    #[allow(clippy::type_complexity, reason = "a pair of two plain lists")]
    fn judge_all(
        &self,
        contacts: &[FirstContact],
        existing: Option<&ConfigMap>,
    ) -> (
        Vec<Option<Result<(), NodeError>>>,
        BTreeMap<String, Option<String>>,
    ) {
        let pinned = existing.and_then(|map| map.data.as_ref());
        let mut new: BTreeMap<String, Option<String>> = BTreeMap::new();
        let judged = contacts.iter().map(|FirstContact { node, key, .. }| {
            let stored = pinned.and_then(|pinned| pinned.get(node));
            let Some(known) = stored.or_else(|| new.get(node)?.as_ref()) else {
                new.insert(node.clone(), Some(first_contact(key)));
                return None;
            };
            match self.judge(node, Some(&HostKey::parse(known)), key) {
                Judgement::Refused(error) => Some(Err(error)),
                // What is only about to be pinned is known when it is stored.
                Judgement::Known | Judgement::New => stored.map(|_| Ok(())),
            }
        });
        (judged.collect(), new)
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
            let gone = BTreeMap::from([(node.to_owned(), None)]);
            match self.write(&existing, &gone).await? {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => {}
                // The ConfigMap went in between.
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(self.refused(&error)),
            }
        }
        Err(crowded())
    }

    /// Pins a key that a person has accepted, in place of the pin that was shown to them: a pin, or that there was none.
    pub async fn replace(
        &self,
        node: &str,
        shown: Option<&HostKey>,
        key: &HostKey,
    ) -> Result<(), NodeError> {
        let pins = BTreeMap::from([(node.to_owned(), Some(accepted(key)))]);
        for _ in 0..ATTEMPTS {
            let existing = self.read().await?;
            let data = existing.as_ref().and_then(|map| map.data.as_ref());
            let pinned = data.and_then(|data| data.get(node));
            let pinned = pinned.map(|text| HostKey::parse(text));
            if pinned.as_ref() == Some(key) {
                return Ok(());
            }
            if pinned.as_ref() != shown {
                let pinned = pinned.map_or_else(|| "none".to_owned(), |key| key.summary());
                return Err(NodeError::new(
                    Reason::HostKeyNotStored,
                    format!(
                        "the pinned key has changed meanwhile, to {pinned}, so nothing was changed; look again"
                    ),
                ));
            }
            let written = match &existing {
                None => Ok(self.create(pins.clone()).await),
                Some(existing) => self.write(existing, &pins).await,
            };
            match written? {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => {}
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

    async fn create(&self, pins: BTreeMap<String, Option<String>>) -> Result<ConfigMap, CallError> {
        let pins = pins.into_iter();
        let object = ConfigMap {
            metadata: ObjectMeta {
                name: Some(HOST_KEYS_CONFIG_MAP.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(pins.filter_map(|(node, pin)| Some((node, pin?))).collect()),
            ..ConfigMap::default()
        };
        let parameters = PostParams::default();
        let created = self.api.create(&parameters, &object);
        deadline::call("store host key", created).await
    }

    /// Sets or removes pins, unless the ConfigMap has changed since it was read.
    async fn write(
        &self,
        existing: &ConfigMap,
        pins: &BTreeMap<String, Option<String>>,
    ) -> Result<Result<ConfigMap, CallError>, NodeError> {
        if existing.immutable == Some(true) {
            let namespace = &self.namespace;
            let nodes: Vec<&str> = pins.keys().map(String::as_str).take(MOST_NAMED).collect();
            let nodes = nodes.join(", ");
            return Err(NodeError::new(
                Reason::HostKeyNotStored,
                format!(
                    "ConfigMap {HOST_KEYS_CONFIG_MAP} in namespace {namespace} is immutable, so the pin of {nodes} was not \
                     changed. Delete it and make it anew without \"immutable\", or with the keys of all nodes in it"
                ),
            ));
        }
        let change = json!({
            "metadata": {"resourceVersion": existing.metadata.resource_version},
            "data": pins,
        });
        let patch = Patch::Merge(&change);
        let parameters = PatchParams::default();
        let patched = self.api.patch(HOST_KEYS_CONFIG_MAP, &parameters, &patch);
        Ok(deadline::call("store host key", patched).await)
    }

    fn refused(&self, error: &CallError) -> NodeError {
        let namespace = &self.namespace;
        let next = if error.is_forbidden() {
            "; whoever changes it, as the operator does by its Role, needs the rights to get, create and patch ConfigMaps there"
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

impl Queue {
    fn add(&self, node: &str, key: &HostKey) -> Receiver<Result<(), NodeError>> {
        let (pinned, receiver) = oneshot::channel();
        self.waiting().push(FirstContact {
            node: node.to_owned(),
            key: key.clone(),
            pinned,
        });
        receiver
    }

    /// All who wait. A visit that has ended is no contact any more: its node may be gone.
    fn take(&self) -> Taken<'_> {
        let mut contacts = std::mem::take(&mut *self.waiting());
        contacts.retain(|contact| !contact.pinned.is_closed());
        Taken {
            queue: self,
            contacts,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<FirstContact>> {
        // A list whose every change is one call: a panic elsewhere leaves it usable.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.queue.waiting().append(&mut self.contacts);
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
