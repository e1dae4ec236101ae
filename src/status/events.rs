//! Publishes Kubernetes events in the background: nothing waits for them, and a failure has no other effect.
//!
//! kube's `Recorder` counts what repeats within minutes in one event. It neither tries again, nor has it a deadline or a queue. It
//! names an event after its object, with 17 characters more: objects with names of more than 236 get none.

use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::api::{UPGRADEABLE, UpgradedWhileHeld};
use crate::client::deadline::{self, CallError};
use crate::status::conditions::is_fault;
use crate::status::sentence::shortened;

/// The maximum length of an event's note in bytes.
const NOTE_LIMIT: usize = 1024;
const CONTROLLER: &str = "windows-storage-operator";
/// How many events are published at a time.
const CONCURRENT: usize = 4;
/// The queue's capacity. Further events are dropped; the status contains the same information.
const QUEUE: usize = 2048;
/// How often an event is tried again; `PAUSES` are the shortest and longest pause before that; jitter adds up to as much.
const RETRIES: usize = 7;
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));

/// Publishes events. Stops when the last clone is dropped.
#[derive(Clone)]
pub struct EventSink {
    queue: mpsc::Sender<(ObjectReference, Event)>,
    _publisher: Arc<JoinSet<()>>,
}

impl EventSink {
    /// Creates a sink that publishes as this operator's `instance`.
    pub fn new(client: &Client, instance: Option<String>) -> Self {
        let (queue, mut receiver) = mpsc::channel(QUEUE);
        let reporter = Reporter {
            controller: CONTROLLER.to_owned(),
            instance,
        };
        let recorder = Recorder::new(client.clone(), reporter);
        let publishing = async move {
            let queued = futures::stream::poll_fn(|context| receiver.poll_recv(context));
            let publish = async |(object, event)| {
                if let Err(error) = publish_with_retries(&recorder, &object, &event).await {
                    tracing::warn!(
                        "{error}; the event is dropped; the status has the same message"
                    );
                }
            };
            queued.for_each_concurrent(CONCURRENT, publish).await;
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(publishing);
        Self {
            queue,
            _publisher: Arc::new(tasks),
        }
    }

    /// Publishes a changed condition.
    pub fn publish_condition(&self, object: &ObjectReference, condition: &Condition) {
        let mut event = warning(&condition.type_, &condition.reason, &condition.message);
        if !is_fault(condition) || condition.reason == "External" {
            event.type_ = EventType::Normal;
        }
        self.publish(object.clone(), event);
    }

    /// Publishes that the cluster was upgraded while upgrades were held.
    pub fn publish_upgraded(&self, object: &ObjectReference, upgraded: &UpgradedWhileHeld) {
        let UpgradedWhileHeld { from, to } = upgraded;
        let note = format!(
            "The cluster was upgraded from {from} to {to} while upgrades were held: pods with the volumes that held them may not start. Deploy \
             the missing CSI drivers now; windows-storage-operator check names them."
        );
        tracing::warn!("{note}");
        let event = warning(UPGRADEABLE, "UpgradedWhileHeld", &note);
        self.publish(object.clone(), event);
    }

    /// Queues an event.
    fn publish(&self, object: ObjectReference, event: Event) {
        if let Err(refused) = self.queue.try_send((object, event)) {
            tracing::debug!("{refused}; the event is dropped; the status has the same message");
        }
    }
}

/// Returns a warning about a condition. A note that is too long is cut.
fn warning(action: &str, reason: &str, note: &str) -> Event {
    Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some(shortened(note, NOTE_LIMIT).into_owned()),
        action: action.to_owned(),
        secondary: None,
    }
}

async fn publish_with_retries(
    recorder: &Recorder,
    object: &ObjectReference,
    event: &Event,
) -> Result<(), CallError> {
    let publish = || deadline::call("publish event", recorder.publish(event, object));
    let pauses = ExponentialBuilder::new()
        .with_jitter()
        .with_min_delay(PAUSES.0)
        .with_max_delay(PAUSES.1)
        .with_max_times(RETRIES);
    // Retrying does not help if the content was rejected.
    let may_pass = |error: &CallError| {
        let status = error.status();
        status.is_none_or(|status| status >= 500 || status == 429)
    };
    publish.retry(pauses).when(may_pass).await
}

/// Logs a changed condition, except the verdict, which is logged elsewhere.
pub(super) fn log(object: &ObjectReference, condition: &Condition) {
    if condition.type_ == UPGRADEABLE {
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
