//! The proof that watches have missed nothing: a second watch for each.
//!
//! A watch of which nothing changes is silent for minutes, and so is one whose connection is dead and still open. So each is
//! begun a second time, from where it has come. The API server sends what has happened since before all else, right behind
//! its first bytes: where these come, and nothing follows while it answers other questions, nothing was missed. That
//! holds for all versions of Kubernetes. A list would not do: its resourceVersion is that of the whole store, which each Lease moves
//! on. Nor would a bookmark, which comes a second later at the earliest.

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

/// How long a second watch may take to begin, or a question to be answered.
const BEGIN: Duration = Duration::from_secs(3);
/// How long nothing has to follow its first bytes: at least this, and until the server has answered so many questions.
const SILENCE: Duration = Duration::from_millis(30);
const QUESTIONS: usize = 3;
const LAST_LOOK: Duration = Duration::from_millis(5);
/// For how long the server keeps it up, in seconds, where it does not notice its end: longer than a proof takes.
const SECOND_WATCH: u32 = 15;
/// How long the first watch may take to deliver what the second one shows.
const LATE: Duration = Duration::from_secs(1);

impl Watched {
    /// Begins a second watch where the first one is, on a connection of its own as each watch has.
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
                // The first one stands, but could not be begun any more.
                self.progress.fall_behind();
                None
            }
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// A custom resource whose definition is not installed has no objects, and nothing to watch.
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
    /// Whether it finds nothing that the first one does not deliver as well. A first one that does not is given up.
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

/// Whether second watches show that nothing was missed of these kinds.
pub(super) async fn prove(silent: &[Arc<Watched>]) -> bool {
    let begun = join_all(silent.iter().map(|watched| watched.begin_second())).await;
    let begun: Option<Vec<Second<'_>>> = begun.into_iter().collect();
    let (Some(seconds), Some(any)) = (begun, silent.first()) else {
        return silent.is_empty();
    };
    let quiet = quiet(any.api.clone().into_client()).shared();
    let seconds = seconds.into_iter();
    let found = join_all(seconds.map(|second| second.finds_nothing(quiet.clone()))).await;
    found.into_iter().all(|nothing| nothing)
}

/// Waits until what second watches have to say has come: for a while, and until the same server has answered some questions, one
/// after the other. Where it, the way to it, or this process is slow with events, it is so with these.
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
    /// What happened since is no longer kept.
    Expired,
    /// It has ended, or the server did not answer, before it could show anything.
    End,
}

async fn seen(
    events: impl Stream<Item = kube::Result<WatchEvent<Received>>>,
    quiet: impl Future<Output = bool>,
) -> Seen {
    let quiet = async {
        let is_quiet = quiet.await;
        // What has come by then may be on its way through this process.
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
