//! Events: each change of a condition told once, on the objects that people look at.

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::deadline;

/// The most that the API server takes as an event's note, in bytes.
const NOTE_LIMIT: usize = 1024;
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
            controller: "windows-storage-operator".to_owned(),
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
            note: Some(cut(&condition.message, NOTE_LIMIT)),
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

fn cut(text: &str, bytes: usize) -> String {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
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

    #[test]
    fn a_long_note_is_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
    }
}
