//! Events: each change of a condition told once, on the objects that people look at.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::backoff;
use crate::deadline::{self, CallError};
use crate::status::sentence::shortened;
use crate::tasks::{self, Tasks};

/// The most that the API server takes as an event's note, in bytes.
pub(super) const NOTE_LIMIT: usize = 1024;
/// Who reports.
pub(super) const CONTROLLER: &str = "windows-storage-operator";
/// After so many events the library's recorder is replaced. It keeps each for minutes, to count those that come again, in
/// a table that never shrinks: 500 nodes that join at one time would take 3 MB for good.
const EVENTS_OF_RECORDER: u32 = 64;
/// How many are written at one time; those of one object in the order in which they were told.
const LANES: usize = 4;
/// How many may wait in a lane. Further ones are lost: what they tell is in the status as well.
const WAITING: usize = 512;
/// How often one is tried, and the pauses between.
const ATTEMPTS: u32 = 6;
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// How long a process that is about to end waits for its events.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Publishes events beside everything else: nobody waits for them. A failure is logged and changes nothing else.
#[derive(Clone)]
pub struct EventSink(Arc<Lanes>);

struct Lanes {
    senders: Vec<mpsc::Sender<Told>>,
    /// How many have not been written or given up yet.
    unwritten: watch::Sender<usize>,
    /// More were told than may wait, and that was said.
    overflowed: AtomicBool,
    /// They end with the sink.
    _tasks: Tasks<Infallible>,
}

struct Told {
    object: ObjectReference,
    event: Event,
}

impl EventSink {
    /// A sink that reports as this operator.
    #[must_use]
    pub fn new(client: &Client, instance: Option<String>) -> Self {
        let reporter = Reporter {
            controller: CONTROLLER.to_owned(),
            instance,
        };
        let unwritten = watch::Sender::new(0);
        let mut tasks = Tasks::new();
        let senders = (0..LANES).map(|_| {
            let (sender, receiver) = mpsc::channel(WAITING);
            let publisher = Publisher::new(client.clone(), reporter.clone());
            let lane = publisher.publish_all(receiver, unwritten.clone());
            tasks.spawn(tasks::lasting("a lane of events", lane));
            sender
        });
        Self(Arc::new(Lanes {
            senders: senders.collect(),
            unwritten,
            overflowed: AtomicBool::new(false),
            _tasks: tasks,
        }))
    }

    /// Tells of a condition that says something new.
    pub fn tell(&self, object: &ObjectReference, condition: &Condition) {
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
        let mut hasher = DefaultHasher::new();
        (&object.kind, &object.name).hash(&mut hasher);
        let lane = hasher.finish() % LANES as u64;
        let object = object.clone();
        let Lanes {
            senders, unwritten, ..
        } = &*self.0;
        unwritten.send_modify(|unwritten| *unwritten += 1);
        // There are few lanes.
        let lane = &senders[usize::try_from(lane).unwrap_or_default()];
        if let Err(refused) = lane.try_send(Told { object, event }) {
            unwritten.send_modify(|unwritten| *unwritten -= 1);
            if !self.0.overflowed.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "{refused}; events are lost, what they tell is in the status as well"
                );
            }
        }
    }

    /// Waits until all that was told is written or given up, and no longer than a process may take to end.
    pub async fn written(&self) {
        let mut unwritten = self.0.unwritten.subscribe();
        // It fails neither: the sender is here.
        let _ = timeout(LAST_WORDS, unwritten.wait_for(|unwritten| *unwritten == 0)).await;
    }
}

/// Writes what comes in one lane.
struct Publisher {
    client: Client,
    reporter: Reporter,
    recorder: Recorder,
    told: u32,
    /// The last event could not be written, and that was said.
    is_failing: bool,
}

impl Publisher {
    fn new(client: Client, reporter: Reporter) -> Self {
        Self {
            recorder: Recorder::new(client.clone(), reporter.clone()),
            client,
            reporter,
            told: 0,
            is_failing: false,
        }
    }

    async fn publish_all(
        mut self,
        mut lane: mpsc::Receiver<Told>,
        unwritten: watch::Sender<usize>,
    ) {
        while let Some(told) = lane.recv().await {
            let outcome = self.publish(&told).await;
            let fails = outcome.is_err();
            if let Err(error) = outcome {
                if self.is_failing {
                    tracing::debug!("{error}; the event is lost");
                } else {
                    tracing::warn!(
                        "{error}; events are lost, what they tell is in the status as well"
                    );
                }
            }
            self.is_failing = fails;
            unwritten.send_modify(|unwritten| *unwritten -= 1);
        }
        // The sink is gone, and this ends with it.
        std::future::pending::<()>().await;
    }

    async fn publish(&mut self, told: &Told) -> Result<(), CallError> {
        let recorder = self.recorder();
        let mut attempt = 1;
        loop {
            let publishing = recorder.publish(&told.event, &told.object);
            let error = match deadline::call("publish event", publishing).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            // What was refused for what it says or asks is refused again.
            let is_refused = error
                .status()
                .is_some_and(|status| status < 500 && status != 429);
            if is_refused || attempt == ATTEMPTS {
                return Err(error);
            }
            tracing::debug!(%error, attempt, "an event could not be published");
            sleep(backoff::pause(attempt, PAUSES.0, PAUSES.1)).await;
            attempt += 1;
        }
    }

    fn recorder(&mut self) -> Recorder {
        if self.told == EVENTS_OF_RECORDER {
            self.recorder = Recorder::new(self.client.clone(), self.reporter.clone());
            self.told = 0;
        }
        self.told += 1;
        self.recorder.clone()
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

    fn client(address: &str) -> Client {
        Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap()
    }

    fn told(sink: &EventSink, name: &str, reason: &str) {
        let object = crate::status::writer::reference("v1", "Node", name, name);
        sink.tell(
            &object,
            &Condition {
                type_: "Ready".to_owned(),
                status: "False".to_owned(),
                reason: reason.to_owned(),
                message: "it is not".to_owned(),
                observed_generation: None,
                last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                    jiff::Timestamp::UNIX_EPOCH,
                ),
            },
        );
    }

    #[tokio::test]
    async fn no_recorder_remembers_more_than_a_few_events() {
        let reporter = Reporter {
            controller: CONTROLLER.to_owned(),
            instance: None,
        };
        let mut publisher = Publisher::new(client("http://127.0.0.1:9"), reporter);
        for _ in 0..EVENTS_OF_RECORDER {
            publisher.recorder();
        }
        assert_eq!(publisher.told, EVENTS_OF_RECORDER);
        publisher.recorder();
        assert_eq!(publisher.told, 1);
    }

    #[tokio::test]
    async fn nobody_waits_for_events_and_no_more_than_so_many_wait() {
        // A server that takes requests and never answers.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sink = EventSink::new(
            &client(&format!("http://{}", listener.local_addr().unwrap())),
            None,
        );
        for number in 0..4 * LANES * WAITING {
            told(&sink, &format!("win-{number}"), "No");
        }
        let unwritten = *sink.0.unwritten.borrow();
        assert!(
            (WAITING..=LANES * WAITING + LANES).contains(&unwritten),
            "{unwritten} wait"
        );
    }

    #[tokio::test]
    async fn what_fails_is_tried_again_and_those_of_one_object_stay_in_order() {
        use std::sync::Mutex;

        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&seen);
        let answer = move |body: String| async move {
            let event: serde_json::Value = serde_json::from_str(&body).unwrap();
            let mut seen = noted.lock().unwrap();
            seen.push(event["reason"].as_str().unwrap().to_owned());
            match seen.len() {
                1 => (axum::http::StatusCode::SERVICE_UNAVAILABLE, String::new()),
                _ => (axum::http::StatusCode::CREATED, body),
            }
        };
        let path = "/apis/events.k8s.io/v1/namespaces/default/events";
        let router = axum::Router::new().route(path, axum::routing::post(answer));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await });
        let sink = EventSink::new(&client(&address), None);
        for reason in ["First", "Second", "Third"] {
            told(&sink, "win-1", reason);
        }
        sink.written().await;
        assert_eq!(*sink.0.unwritten.borrow(), 0);
        assert_eq!(*seen.lock().unwrap(), ["First", "First", "Second", "Third"]);
    }
}
