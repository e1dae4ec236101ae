//! The proof that watches have missed nothing: a second watch for each.
//!
//! A watch of something that does not change is silent for minutes, and so is one whose connection is dead but still open.
//! So each is started a second time, from the version it has reached. The API server sends everything that has happened
//! since before anything else, right after its first bytes. If these arrive, and nothing follows while the server answers
//! other requests, nothing was missed. This holds for all versions of Kubernetes. A list would not do: its resourceVersion
//! is that of the whole store, which every Lease advances. Nor would a bookmark, which comes a second later at the earliest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use kube::api::WatchParams;
use kube::core::WatchEvent;
use kube::{Client, Resource};
use tokio::time::timeout;

use crate::index::version_number;
use crate::objects::Received;
use crate::watch::freshness::Watched;

/// How long a second watch may take to start, or a request to be answered.
const BEGIN: Duration = Duration::from_secs(3);
/// How long nothing may follow its first bytes: at least this long, and until the server has answered [`QUESTIONS`]
/// requests.
const SILENCE: Duration = Duration::from_millis(30);
const QUESTIONS: usize = 3;
const LAST_LOOK: Duration = Duration::from_millis(5);
/// How long the server keeps it open, in seconds, if it does not notice the client's end: longer than a proof takes.
const SECOND_WATCH: u32 = 15;
/// How long the first watch may take to deliver what the second one shows.
const LATE: Duration = Duration::from_secs(1);

impl Watched {
    /// Starts a second watch where the first one is, on its own connection, like every watch.
    async fn begin_second(&self) -> Option<Second<'_>> {
        let Some(version) = self.progress.version() else {
            return self.is_not_served().await.then_some(Second::NotNeeded);
        };
        let parameters = WatchParams {
            timeout: Some(SECOND_WATCH),
            ..self.watch_parameters()
        };
        match timeout(BEGIN, self.api.watch(&parameters, &version)).await {
            Ok(Ok(events)) => Some(Second::Watch {
                first: self,
                answered: Instant::now(),
                events: events.boxed(),
            }),
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 403 | 404 | 410) => {
                // The first watch still runs, but could not be started again.
                self.progress.fall_behind();
                None
            }
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// Returns whether the kind is a custom resource whose definition is not installed: then there is nothing to watch.
    async fn is_not_served(&self) -> bool {
        if !self.kind.is_own() {
            return false;
        }
        let asked = Instant::now();
        let listed = timeout(BEGIN, self.api.list(&self.page())).await;
        let is_not_served =
            matches!(listed, Ok(Err(kube::Error::Api(status))) if status.code == 404);
        if is_not_served {
            self.progress.hear(asked);
        }
        is_not_served
    }
}

/// A second watch of a kind.
enum Second<'a> {
    /// There is nothing to watch.
    NotNeeded,
    Watch {
        first: &'a Watched,
        answered: Instant,
        events: BoxStream<'static, kube::Result<WatchEvent<Received>>>,
    },
}

impl Second<'_> {
    /// Returns whether it finds nothing that the first watch does not deliver as well. Otherwise the first watch is dropped.
    async fn finds_nothing(self, quiet: impl Future<Output = bool>) -> bool {
        let Self::Watch {
            first,
            answered,
            events,
        } = self
        else {
            return true;
        };
        let progress = &first.progress;
        let is_complete = match seen(events, quiet).await {
            Seen::Nothing => true,
            Seen::UpTo(version) => timeout(LATE, progress.reaches(version)).await.is_ok(),
            Seen::Expired => false,
            Seen::End => return false,
        };
        if is_complete {
            progress.hear(answered);
        } else {
            progress.fall_behind();
        }
        is_complete
    }
}

/// Returns whether second watches show that nothing was missed of these kinds.
pub(super) async fn prove(silent: &[Arc<Watched>]) -> bool {
    let started = Instant::now();
    let begun = join_all(silent.iter().map(|watched| watched.begin_second())).await;
    let begun: Option<Vec<Second<'_>>> = begun.into_iter().collect();
    let (Some(seconds), Some(any)) = (begun, silent.first()) else {
        return silent.is_empty();
    };
    let begun_ms = started.elapsed().as_millis();
    let quiet = quiet(any.api.clone().into_client()).shared();
    let seconds = seconds.into_iter();
    let found = join_all(seconds.map(|second| second.finds_nothing(quiet.clone()))).await;
    let is_proved = found.into_iter().all(|nothing| nothing);
    let took_ms = started.elapsed().as_millis();
    tracing::debug!(
        kinds = silent.len(),
        begun_ms,
        took_ms,
        is_proved,
        "asked whether watches missed anything"
    );
    is_proved
}

/// Waits until the events of second watches must have arrived: for a while, and until the same server has answered several
/// requests, one after the other. If the server, the connection or this process is slow with events, it is as slow with
/// these.
async fn quiet(client: Client) -> bool {
    let answered = async {
        for _ in 0..QUESTIONS {
            if !matches!(timeout(BEGIN, client.apiserver_version()).await, Ok(Ok(_))) {
                return false;
            }
        }
        true
    };
    let ((), answered) = tokio::join!(tokio::time::sleep(SILENCE), answered);
    answered
}

/// What a second watch shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// No event.
    Nothing,
    /// Events, the last of which has this resourceVersion.
    UpTo(u64),
    /// The server no longer keeps the changes since then.
    Expired,
    /// It ended, or the server did not answer, before it could show anything.
    End,
}

async fn seen(
    events: impl Stream<Item = kube::Result<WatchEvent<Received>>>,
    quiet: impl Future<Output = bool>,
) -> Seen {
    let quiet = async {
        let is_quiet = quiet.await;
        // Events that have arrived may still be on their way through this process.
        tokio::time::sleep(LAST_LOOK).await;
        is_quiet
    };
    let (mut events, mut quiet) = (std::pin::pin!(events), std::pin::pin!(quiet));
    let mut seen = Seen::Nothing;
    loop {
        let event = tokio::select! {
            biased;
            event = events.next() => event,
            is_quiet = &mut quiet => return if is_quiet { seen } else { Seen::End },
        };
        match event {
            Some(Ok(WatchEvent::Bookmark(_))) => return seen,
            Some(Ok(
                WatchEvent::Added(object)
                | WatchEvent::Modified(object)
                | WatchEvent::Deleted(object),
            )) => {
                let version = object.meta().resource_version.as_deref();
                seen = Seen::UpTo(version_number(version.unwrap_or_default()));
            }
            Some(Ok(WatchEvent::Error(_))) => return Seen::Expired,
            None | Some(Err(_)) => return Seen::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    #[tokio::test]
    async fn a_second_watch_says_how_far_the_first_one_has_to_come() {
        let event = |kind: &str, version: u64| {
            let metadata = format!(r#"{{"name":"a","resourceVersion":"{version}"}}"#);
            let object = format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{metadata}}}"#);
            format!(r#"{{"type":"{kind}","object":{object}}}"#)
        };
        let gone =
            r#"{"type":"ERROR","object":{"status":"Failure","code":410,"message":"","reason":""}}"#;
        for (events, ends, expected) in [
            (vec![], false, Seen::Nothing),
            (vec![event("BOOKMARK", 8)], false, Seen::Nothing),
            (vec![event("ADDED", 8)], false, Seen::UpTo(8)),
            (vec![event("DELETED", 8)], false, Seen::UpTo(8)),
            (
                vec![event("ADDED", 8), event("MODIFIED", 9)],
                false,
                Seen::UpTo(9),
            ),
            (
                vec![event("ADDED", 8), event("BOOKMARK", 9)],
                true,
                Seen::UpTo(8),
            ),
            (vec![event("MODIFIED", 8)], true, Seen::End),
            (vec![gone.to_owned()], true, Seen::Expired),
            (vec![], true, Seen::End),
        ] {
            let case = format!("{events:?}");
            let event = |event: String| Ok(serde_json::from_str(&event).unwrap());
            let events = stream::iter(events.into_iter().map(event));
            let quiet = async {
                tokio::time::sleep(SILENCE).await;
                true
            };
            let seen = if ends {
                seen(events, quiet).await
            } else {
                seen(events.chain(stream::pending()), quiet).await
            };
            assert_eq!(seen, expected, "{case}");
        }
        let unanswered = seen(stream::pending(), async { false });
        assert_eq!(unanswered.await, Seen::End);
    }
}
