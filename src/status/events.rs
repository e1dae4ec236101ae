//! Publishes Kubernetes events in the background: nothing waits for them, and a failure has no other effect.
//!
//! kube's `Recorder` counts what repeats within minutes in one event. It neither tries again, nor has it a deadline or a queue. It
//! names an event after its object, with 17 characters more: objects with names of more than 236 get none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::api::{UPGRADEABLE, UpgradedWhileHeld};
use crate::assess::BlockedKind;
use crate::client::backoff;
use crate::client::deadline::{self, CallError};
use crate::index::ObjectKey;
use crate::status::conditions::is_fault;
use crate::status::sentence::shortened;

/// The maximum length of an event's note in bytes.
const NOTE_LIMIT: usize = 1024;
const CONTROLLER: &str = "windows-storage-operator";
/// How many events are published at a time.
const CONCURRENT: usize = 4;
/// The queue's capacity. Further events are dropped; the status contains the same information.
const QUEUE: usize = 2048;
/// The number of attempts per event; `PAUSES` are the shortest and longest pause between them.
const ATTEMPTS: u32 = 8;
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));

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
    /// The CSI driver that it is about, which distinguishes events with the same reason and object.
    pub driver: Option<String>,
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
    recorder: Recorder,
    /// Whether publishing the last event failed and was logged.
    is_failing: AtomicBool,
}

impl Publisher {
    fn new(client: &Client, instance: Option<String>) -> Self {
        let reporter = Reporter {
            controller: CONTROLLER.to_owned(),
            instance,
        };
        Self {
            client: client.clone(),
            recorder: Recorder::new(client.clone(), reporter),
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
            let Err(error) = self.publish(draft).await else {
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

    async fn publish(&self, draft: &Draft) -> Result<(), CallError> {
        let regarding = match &draft.subject {
            Subject::Object(object) => Some(object.clone()),
            Subject::Named(kind, key) => self.find(*kind, key).await?,
        };
        // A deleted object needs no event.
        let Some(regarding) = regarding else {
            return Ok(());
        };
        let event = Event {
            type_: if draft.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: draft.reason.clone(),
            note: Some(shortened(&draft.note, NOTE_LIMIT).into_owned()),
            action: draft.action.clone(),
            secondary: draft.driver.as_deref().map(csi_driver),
        };
        let publishing = self.recorder.publish(&event, &regarding);
        deadline::call("publish event", publishing).await
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

fn csi_driver(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("storage.k8s.io/v1".to_owned()),
        kind: Some("CSIDriver".to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
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
