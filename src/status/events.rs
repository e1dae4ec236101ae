//! Publishes Kubernetes events in the background: nothing waits for them, and a failure has no other effect.
//!
//! An event's name is derived from its content, so that a later process finds it. A repeated event only increments the
//! count in its series, the only part of an event that may change.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::api::{
    Api, ApiResource, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
};
use kube::{Client, Resource};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::api::{UPGRADEABLE, UpgradedWhileHeld};
use crate::assess::BlockedKind;
use crate::backoff;
use crate::deadline::{self, CallError};
use crate::index::ObjectKey;
use crate::status::conditions::is_fault;
use crate::status::sentence::shortened;

/// The maximum length of an event's note in bytes.
const NOTE_LIMIT: usize = 1024;
const CONTROLLER: &str = "windows-storage-operator";
/// The namespace of events about cluster-scoped objects.
const CLUSTER_NAMESPACE: &str = "default";
/// How many events are published at a time.
const CONCURRENT: usize = 4;
/// The queue's capacity. Further events are dropped; the status contains the same information.
const QUEUE: usize = 2048;
/// The number of attempts per event; `PAUSES` are the shortest and longest pause between them.
const ATTEMPTS: u32 = 8;
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// For how many events the number of occurrences is remembered.
const COUNTED: usize = 4096;

/// The object of an event.
#[derive(Clone, Debug)]
pub enum Subject {
    /// An object with a known uid.
    Object(ObjectReference),
    /// An object whose uid must be looked up, because `kubectl describe` finds events by uid.
    Named(BlockedKind, ObjectKey),
}

/// An event to publish.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The object of the event.
    pub subject: Subject,
    /// Whether the event is a warning.
    pub warning: bool,
    /// The condition that changed.
    pub action: String,
    /// The reason code.
    pub reason: String,
    /// The message for people. Truncated if it is too long.
    pub note: String,
    /// Distinguishes events with the same reason and object.
    pub driver: Option<String>,
    /// Whether the event is about a state, not a change: if an earlier process already published it, it is not a
    /// repetition.
    pub lasting: bool,
}

/// Publishes events. Stops when the last clone is dropped.
#[derive(Clone)]
pub struct EventSink(Arc<Queue>);

struct Queue {
    sender: mpsc::Sender<Draft>,
    overflowed: AtomicBool,
    _publisher: JoinSet<()>,
}

impl EventSink {
    /// Creates a sink that publishes as this operator's `instance`.
    #[must_use]
    pub fn new(client: &Client, instance: Option<String>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let publisher = Publisher::new(client, instance);
        let mut tasks = JoinSet::new();
        tasks.spawn(publisher.publish_all(receiver));
        Self(Arc::new(Queue {
            sender,
            overflowed: AtomicBool::new(false),
            _publisher: tasks,
        }))
    }

    /// Publishes a changed condition.
    pub fn publish_condition(&self, object: &ObjectReference, condition: &Condition) {
        self.publish(Draft {
            subject: Subject::Object(object.clone()),
            warning: is_fault(condition) && condition.reason != "External",
            action: condition.type_.clone(),
            reason: condition.reason.clone(),
            note: condition.message.clone(),
            driver: None,
            lasting: false,
        });
    }

    /// Publishes that the cluster was upgraded while upgrades were held.
    pub fn publish_upgraded(&self, object: &ObjectReference, upgraded: &UpgradedWhileHeld) {
        let UpgradedWhileHeld { from, to } = upgraded;
        let note = format!(
            "The cluster was upgraded from {from} to {to} while upgrades were held: pods with the volumes that held them may not start. Deploy \
             the missing CSI drivers now; windows-storage-operator check names them."
        );
        tracing::warn!("{note}");
        self.publish(Draft {
            subject: Subject::Object(object.clone()),
            warning: true,
            action: UPGRADEABLE.to_owned(),
            reason: "UpgradedWhileHeld".to_owned(),
            note,
            driver: None,
            lasting: false,
        });
    }

    /// Queues an event.
    pub fn publish(&self, draft: Draft) {
        let queue = &self.0;
        if let Err(refused) = queue.sender.try_send(draft)
            && !queue.overflowed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("{refused}; the event is dropped; the status has the same message");
        }
    }
}

struct Publisher {
    client: Client,
    instance: String,
    /// How often this process published each event, by the hash in its name.
    counts: Mutex<HashMap<u64, i32>>,
    /// Whether publishing the last event failed and was logged.
    is_failing: AtomicBool,
}

impl Publisher {
    fn new(client: &Client, instance: Option<String>) -> Self {
        Self {
            client: client.clone(),
            instance: instance.unwrap_or_else(|| CONTROLLER.to_owned()),
            counts: Mutex::default(),
            is_failing: AtomicBool::new(false),
        }
    }

    async fn publish_all(self, queue: mpsc::Receiver<Draft>) {
        let drafts = futures::stream::unfold(queue, |mut queue| async {
            queue.recv().await.map(|draft| (draft, queue))
        });
        let publish = async |draft| {
            let outcome = self.publish_with_retries(&draft).await;
            let was_failing = self.is_failing.swap(outcome.is_err(), Ordering::Relaxed);
            match outcome {
                Err(error) if was_failing => tracing::debug!("{error}; the event is dropped"),
                Err(error) => {
                    tracing::warn!(
                        "{error}; the event is dropped; the status has the same message"
                    );
                }
                Ok(()) => {}
            }
        };
        drafts.for_each_concurrent(CONCURRENT, publish).await;
    }

    async fn publish_with_retries(&self, draft: &Draft) -> Result<(), CallError> {
        let mut attempt = 1;
        loop {
            let Err(error) = self.publish(draft, attempt == 1).await else {
                return Ok(());
            };
            // Retrying does not help if the content was rejected.
            let status = error.status();
            let is_refused = status.is_some_and(|status| status < 500 && status != 429);
            if is_refused || attempt == ATTEMPTS {
                return Err(error);
            }
            tracing::debug!(%error, attempt, "an event could not be published");
            sleep(backoff::pause(attempt, PAUSES.0, PAUSES.1)).await;
            attempt += 1;
        }
    }

    async fn publish(&self, draft: &Draft, is_first_attempt: bool) -> Result<(), CallError> {
        const WHAT: &str = "publish event";
        let regarding = match &draft.subject {
            Subject::Object(object) => Some(object.clone()),
            Subject::Named(kind, key) => self.find(*kind, key).await?,
        };
        // A deleted object needs no event.
        let Some(regarding) = regarding else {
            return Ok(());
        };
        let now = MicroTime(Timestamp::now());
        let id = event_id(draft, &regarding);
        let name = event_name(&regarding, id);
        let namespace = regarding.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| CLUSTER_NAMESPACE.to_owned());
        let events = Api::<Event>::namespaced(self.client.clone(), &namespace);
        let event = Event {
            metadata: ObjectMeta {
                namespace: Some(namespace),
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            event_time: Some(now.clone()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            action: Some(draft.action.clone()),
            reason: Some(draft.reason.clone()),
            regarding: Some(regarding),
            note: Some(shortened(&draft.note, NOTE_LIMIT).into_owned()),
            type_: Some(if draft.warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        };
        let created = deadline::call(WHAT, events.create(&PostParams::default(), &event)).await;
        let before = self.counts().get(&id).copied().unwrap_or_default();
        let count = match created {
            Ok(_) => 1,
            Err(error) if !error.is_conflict() => return Err(error),
            // Published by an earlier process, or by an attempt whose response was lost.
            Err(_) if before == 0 && (draft.lasting || !is_first_attempt) => 1,
            Err(_) => {
                let count = before.max(1).saturating_add(1);
                let series = json!({"series": {"count": count, "lastObservedTime": now}});
                let (parameters, patch) = (PatchParams::default(), Patch::Merge(series));
                deadline::call(WHAT, events.patch(&name, &parameters, &patch)).await?;
                count
            }
        };
        let mut counts = self.counts();
        if counts.len() >= COUNTED {
            counts.clear();
        }
        counts.insert(id, count);
        Ok(())
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, HashMap<u64, i32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up an object with a list request, because the operator has permission to list but not to get.
    async fn find(
        &self,
        kind: BlockedKind,
        key: &ObjectKey,
    ) -> Result<Option<ObjectReference>, CallError> {
        let kind = match kind {
            BlockedKind::Claim => ApiResource::erase::<PersistentVolumeClaim>(&()),
            BlockedKind::Pod => ApiResource::erase::<Pod>(&()),
        };
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), &key.namespace, &kind);
        let named = ListParams::default().fields(&format!("metadata.name={}", key.name));
        let found =
            deadline::call("read what an event is about", api.list_metadata(&named)).await?;
        Ok(found.items.first().map(|found| found.object_ref(&kind)))
    }
}

/// Returns the same ID for the same object, condition, reason and driver.
fn event_id(draft: &Draft, regarding: &ObjectReference) -> u64 {
    let uid = regarding.uid.as_deref().unwrap_or_default();
    let kind = regarding.kind.as_deref().unwrap_or_default();
    let driver = draft.driver.as_deref().unwrap_or_default();
    let said = [CONTROLLER, kind, uid, &draft.action, &draft.reason, driver].join("/");
    let digest = Sha256::digest(said);
    let first = digest[..8].iter();
    first.fold(0, |id, byte| id << 8 | u64::from(*byte))
}

fn event_name(regarding: &ObjectReference, id: u64) -> String {
    /// The longest prefix of the object's name. A name has at most 253 characters.
    const MOST: usize = 220;
    let name = regarding.name.as_deref().unwrap_or_default();
    // Object names are ASCII.
    let name = name.get(..MOST).unwrap_or(name);
    format!("{}.{id:016x}", name.trim_end_matches(['.', '-']))
}

/// Logs a changed condition, except the verdict, which is logged elsewhere.
pub(super) fn log(object: &ObjectReference, condition: &Condition) {
    if condition.type_ == "Upgradeable" {
        return;
    }
    let kind = object.kind.as_deref().unwrap_or_default();
    let name = object.name.as_deref().unwrap_or_default();
    tracing::info!(
        object = format!("{kind}/{name}"),
        reason = condition.reason,
        "the condition {} is {} now: {}",
        condition.type_,
        condition.status,
        shortened(&condition.message, NOTE_LIMIT)
    );
}

#[cfg(test)]
mod tests;
