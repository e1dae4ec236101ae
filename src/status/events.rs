//! Events: each change of a condition told once, on the objects that people look at.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::deadline;

/// The most that the API server takes as an event's note, in bytes.
const NOTE_LIMIT: usize = 1024;

/// Publishes events. A failure is logged and changes nothing else.
#[derive(Clone)]
pub struct EventSink {
    recorder: Recorder,
}

impl EventSink {
    /// A sink that reports as this operator.
    #[must_use]
    pub fn new(client: Client, instance: Option<String>) -> Self {
        let reporter = Reporter {
            controller: "windows-storage-operator".to_owned(),
            instance,
        };
        Self {
            recorder: Recorder::new(client, reporter),
        }
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
        if let Err(error) =
            deadline::call("publish event", self.recorder.publish(&event, object)).await
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

    #[test]
    fn a_long_note_is_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
    }
}
