//! Feeds one kind from the API server into its table: a list, then a watch that resumes where it ended.
//!
//! kube's `watcher` does not show which version a watch has reached, or whether a bookmark has shown that it is alive. The
//! proof that data is fresh rests on both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use kube::Resource;
use kube::api::WatchParams;
use kube::core::WatchEvent;
use tokio::sync::{Semaphore, watch};

use crate::http::Metrics;
use crate::index::{self, AnyTable};
use crate::objects::Received;
use crate::watch::SharedCluster;
use crate::watch::freshness::{FRESH, Watched};
use crate::watch::interruption::Interruption;
use crate::{backoff, process};

/// How long the API server keeps a watch open, in seconds; the watch is then resumed.
const WATCH: u32 = 60;
/// A watch that is silent for this much longer than [`WATCH`] is dead, and is dropped.
const SILENT: Duration = Duration::from_secs(5);
/// The timeout for a page of a list, once the client may request it: the API server itself gives up after a minute.
pub(super) const PAGE: Duration = Duration::from_secs(60);
/// The first delay after a watch was interrupted.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// A recovering server may refuse the first watch because its caches are still empty: two such delays are no long outage.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// A watch that has lived this long shows that the server can serve it, so the backoff is reset.
const LIVED: Duration = Duration::from_secs(30);
/// How long a list waits for the nodes, which make it smaller.
const NODES_FIRST: Duration = Duration::from_secs(10);
/// How many kinds are listed at the same time: each has pages in memory, and the API server has other clients.
pub(super) const LISTS: usize = 3;
/// How long a list waits for others that do not finish.
const QUEUE: Duration = Duration::from_secs(10);

/// Fills one table.
pub(super) struct Feed {
    pub watched: Arc<Watched>,
    pub shared: SharedCluster,
    pub lists: Arc<Semaphore>,
    pub metrics: Metrics,
    /// The number of consecutive interruptions.
    pub failures: u32,
}

impl Feed {
    pub(super) async fn run(mut self) {
        if self.watched.kind.follows_nodes() {
            // Without the nodes, the list only takes more memory.
            let _ = tokio::time::timeout(NODES_FIRST, nodes_are_known(&self.shared)).await;
        }
        loop {
            let interruption = self.follow().await;
            self.failures += 1;
            let pause = backoff::pause(self.failures, FIRST_PAUSE, LONGEST_PAUSE);
            self.interrupted(&interruption, pause);
            tokio::time::sleep(pause).await;
        }
    }

    /// Counts and reports an interruption, and decides where to resume.
    fn interrupted(&self, interruption: &Interruption, pause: Duration) {
        let Watched { kind, progress, .. } = &*self.watched;
        self.metrics
            .count_watch_restart(kind.name(), interruption.cause());
        let problem = if kind.is_secret() {
            interruption.explain_without_words()
        } else {
            interruption.explain()
        };
        let (name, retry_seconds) = (kind.name(), pause.as_secs_f32());
        tracing::warn!(kind = %name, retry_seconds, "watch interrupted: {problem}");
        if interruption.needs_list() {
            progress.forget();
        }
        self.shared.update(|cluster| {
            // A custom resource whose definition was never installed has no objects, so the defaults apply. If it existed
            // before, the data stays: nothing follows from its absence.
            let table = kind.table_mut(cluster);
            if kind.is_own() && interruption.is_not_found() && table.is_empty() {
                progress.hear(Instant::now());
                return table.finish();
            }
            table.fail(problem)
        });
    }

    /// Feeds the table until it is interrupted, or until a list is needed.
    async fn follow(&mut self) -> Interruption {
        let mut listings = self.shared.listings.subscribe();
        let shared = self.shared.clone();
        let kind = self.watched.kind;
        let is_wanted = || kind.table_mut(&mut shared.read()).take_relist();
        if is_wanted() {
            self.watched.progress.forget();
        }
        tokio::select! {
            interruption = self.list_and_watch() => interruption,
            () = wanted(&mut listings, is_wanted) => Interruption::Wanted,
        }
    }

    async fn list_and_watch(&mut self) -> Interruption {
        loop {
            let resumed = self.watched.progress.version();
            let is_resumed = resumed.is_some();
            let version = match resumed {
                Some(version) => version,
                None => match self.list().await {
                    Ok(version) => version,
                    Err(interruption) => return interruption,
                },
            };
            match self.watch(&version).await {
                Ok(()) => {}
                // The backoff came before this watch, so the list that replaces it need not wait again.
                Err(gone) if is_resumed && gone.is_expired() => {
                    self.interrupted(&gone, Duration::ZERO);
                }
                Err(interruption) => return interruption,
            }
        }
    }

    /// Lists the kind page by page; returns the resourceVersion from which to watch it.
    async fn list(&self) -> Result<String, Interruption> {
        // The semaphore is never closed. Without a permit, the list just runs in addition to the others.
        let queued = tokio::time::timeout(QUEUE, self.lists.acquire()).await;
        let _permit = queued.ok().and_then(Result::ok);
        let Watched { kind, progress, .. } = &*self.watched;
        // The pages are at least as recent as this.
        let begun = Instant::now();
        let mut page = self.watched.page();
        let mut is_begun = false;
        loop {
            let listing = tokio::time::timeout(PAGE, self.watched.api.list(&page)).await;
            let list = listing.map_err(|_| Interruption::SlowList)??;
            if !is_begun {
                kind.table_mut(&mut self.shared.read()).begin();
                is_begun = true;
            }
            for object in list.items {
                self.shared.update(|cluster| kind.absorb(cluster, &object));
            }
            if let Some(token) = list.metadata.continue_.filter(|token| !token.is_empty()) {
                page = page.continue_token(&token);
                continue;
            }
            let version = list.metadata.resource_version;
            let version = version.filter(|version| !version.is_empty());
            let version = version.ok_or(Interruption::NoVersion)?;
            self.shared.update(|cluster| {
                let table = kind.table_mut(cluster);
                table.come_to(&version);
                table.finish()
            });
            progress.come_to(&version, Some(begun));
            // Names of objects that were read but left out.
            index::drop_unused_names();
            process::give_back_memory();
            return Ok(version);
        }
    }

    /// Watches from that resourceVersion on. If the server ends the watch normally, as it does after a while, the watch is
    /// resumed; if it ends the watch at once, there is no tight loop.
    async fn watch(&mut self, version: &str) -> Result<(), Interruption> {
        let parameters = WatchParams {
            timeout: Some(WATCH),
            ..self.watched.watch_parameters()
        };
        let events = self.watched.api.watch(&parameters, version).await?;
        let started = Instant::now();
        let kind = self.watched.kind;
        self.shared
            .update(|cluster| kind.table_mut(cluster).resume());
        let ended = self.take_events(events, started).await;
        self.note_end(ended, started.elapsed())
    }

    /// Interprets the end of a watch after its lifetime. Neither a list nor one event counts as success: otherwise an
    /// overloaded server would get one list request after another.
    fn note_end(
        &mut self,
        ended: Result<(), Interruption>,
        lived: Duration,
    ) -> Result<(), Interruption> {
        if lived < LIVED {
            return ended.and(Err(Interruption::Ended(lived)));
        }
        self.failures = 0;
        ended
    }

    async fn take_events(
        &self,
        events: impl Stream<Item = kube::Result<WatchEvent<Received>>>,
        started: Instant,
    ) -> Result<(), Interruption> {
        let mut events = std::pin::pin!(events);
        let limit = Duration::from_secs(WATCH.into()) + SILENT;
        loop {
            let next = tokio::select! {
                next = tokio::time::timeout(limit, events.next()) => next,
                () = self.watched.progress.is_stale() => return Err(Interruption::Stale),
            };
            match next {
                Ok(Some(event)) => self.take(&event?, started.elapsed())?,
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }

    /// Processes an event of a watch of this age, and records the version it has reached. An event of a young watch may be
    /// old, with more to follow.
    fn take(&self, event: &WatchEvent<Received>, age: Duration) -> Result<(), Interruption> {
        let Watched { kind, progress, .. } = &*self.watched;
        let version = match event {
            WatchEvent::Added(object)
            | WatchEvent::Modified(object)
            | WatchEvent::Deleted(object) => object.meta().resource_version.clone(),
            WatchEvent::Bookmark(bookmark) => Some(bookmark.metadata.resource_version.clone()),
            WatchEvent::Error(status) => {
                return Err(kube::Error::Api(status.clone()).into());
            }
        };
        let version = version.filter(|version| !version.is_empty());
        let version = version.ok_or(Interruption::NoVersion)?;
        self.shared.update(|cluster| {
            let changed = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    kind.absorb(cluster, object)
                }
                WatchEvent::Deleted(object) => kind.table_mut(cluster).delete_object(object.meta()),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => false,
            };
            kind.table_mut(cluster).come_to(&version);
            changed
        });
        let is_present = age >= FRESH || matches!(event, WatchEvent::Bookmark(_));
        // Only after the event is in the index.
        progress.come_to(&version, is_present.then(Instant::now));
        Ok(())
    }
}

/// Waits until a list is needed.
async fn wanted(listings: &mut watch::Receiver<u64>, is_wanted: impl Fn() -> bool) {
    // Never closed: `SharedCluster` has the sender.
    while listings.changed().await.is_ok() {
        if is_wanted() {
            return;
        }
    }
}

async fn nodes_are_known(shared: &SharedCluster) {
    let mut changes = shared.changes();
    while !shared.read().nodes.is_complete() {
        // Never closed: `SharedCluster` has the sender.
        let _ = changes.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use kube::Api;

    use super::*;
    use crate::objects::kind;
    use crate::watch::freshness::Progress;

    #[tokio::test]
    async fn pauses_begin_again_only_after_a_watch_has_lived_for_half_a_minute() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        let kind = kind("v1", "Pod").unwrap();
        let mut feed = Feed {
            watched: Arc::new(Watched {
                kind,
                api: Api::all_with(client, &kind.resource),
                fields: None,
                progress: Progress::default(),
            }),
            shared: SharedCluster::default(),
            lists: Arc::new(Semaphore::new(1)),
            metrics: Metrics::default(),
            failures: 4,
        };
        for (seconds, failures) in [(0, 4), (29, 4), (30, 0)] {
            let ended = feed.note_end(Ok(()), Duration::from_secs(seconds));
            assert_eq!(ended.is_err(), failures > 0, "after {seconds} s");
            assert_eq!(feed.failures, failures, "after {seconds} s");
        }
        let event = r#"{"type":"ADDED","object":{"metadata":{"namespace":"shop","name":"web-0","resourceVersion":"7"},"spec":{}}}"#;
        feed.take(&serde_json::from_str(event).unwrap(), Duration::ZERO)
            .unwrap_or_else(|interruption| panic!("{}", interruption.explain()));
        assert_eq!(feed.watched.progress.version().unwrap(), "7");
        assert_eq!(feed.shared.read().pods.version(), 7);
        // The kind is listed again only if the server requires that.
        let failed = |code| {
            let mut status = kube::core::Status::failure("no", "No");
            status.code = code;
            Interruption::Failed(kube::Error::Api(Box::new(status)))
        };
        feed.interrupted(&failed(500), Duration::ZERO);
        assert!(feed.watched.progress.version().is_some());
        feed.interrupted(&failed(410), Duration::ZERO);
        assert!(feed.watched.progress.version().is_none());
    }
}
