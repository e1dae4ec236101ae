//! Events: each change of a condition told once, on the objects that people look at.

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::deadline;
use crate::status::sentence::shortened;

/// The most that the API server takes as an event's note, in bytes.
pub(super) const NOTE_LIMIT: usize = 1024;
/// Who reports.
pub(super) const CONTROLLER: &str = "windows-storage-operator";
/// After so many events the library's recorder is replaced. It keeps each for minutes, to count those that come again, in
/// a table that never shrinks: 500 nodes that join at one time would take 3 MB for good.
const EVENTS_OF_RECORDER: u32 = 64;

/// Publishes events. A failure is logged and changes nothing else.
#[derive(Clone)]
pub struct EventSink {
    client: Client,
    reporter: Reporter,
    current: Arc<Mutex<Current>>,
}

struct Current {
    recorder: Recorder,
    told: u32,
}

impl EventSink {
    /// A sink that reports as this operator.
    #[must_use]
    pub fn new(client: Client, instance: Option<String>) -> Self {
        let reporter = Reporter {
            controller: CONTROLLER.to_owned(),
            instance,
        };
        let recorder = Recorder::new(client.clone(), reporter.clone());
        Self {
            client,
            reporter,
            current: Arc::new(Mutex::new(Current { recorder, told: 0 })),
        }
    }

    fn recorder(&self) -> Recorder {
        // Plain data, each change of which is one assignment.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.told == EVENTS_OF_RECORDER {
            *current = Current {
                recorder: Recorder::new(self.client.clone(), self.reporter.clone()),
                told: 0,
            };
        }
        current.told += 1;
        current.recorder.clone()
    }

    /// Tells of a condition that says something new.
    pub async fn tell(&self, object: &ObjectReference, condition: &Condition) {
        let good = condition.status == "True" || condition.reason == "External";
        let event = Event {
            type_: if good {
                EventType::Normal
            } else {
                EventType::Warning
            },
            reason: condition.reason.clone(),
            note: Some(shortened(&condition.message, NOTE_LIMIT).into_owned()),
            action: condition.type_.clone(),
            secondary: None,
        };
        let recorder = self.recorder();
        if let Err(error) = deadline::call("publish event", recorder.publish(&event, object)).await
        {
            tracing::debug!(%error, "an event could not be published");
        }
    }
}

/// A line for a condition that says something new. The verdict has one of its own.
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
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_recorder_remembers_more_than_a_few_events() {
        let config = kube::Config::new("http://127.0.0.1:9".parse().unwrap());
        let sink = EventSink::new(Client::try_from(config).unwrap(), None);
        let told = || sink.current.lock().unwrap().told;
        for _ in 0..EVENTS_OF_RECORDER {
            sink.recorder();
        }
        assert_eq!(told(), EVENTS_OF_RECORDER);
        sink.recorder();
        assert_eq!(told(), 1);
    }
}
