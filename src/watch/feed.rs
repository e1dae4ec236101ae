//! Feeds the owner of the index with one kind from the API server, by kube's `watcher`: a list, then watches that resume.
//!
//! All that has to be known about `watcher` is in this file. It repeats a request at once after an error; it retries for ever
//! where the start of a watch is answered by 410 or 404; it gives no page a deadline; and it does not say that a watch works
//! again after an error.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{sleep, sleep_until, timeout};

use crate::client::{Revisions, backoff};
use crate::http::Metrics;
use crate::index::Listed;
use crate::objects::{Kind, Received, Scope};
use crate::watch::News;
use crate::watch::failure::Failure;
use crate::watch::news::What;

/// How long the API server keeps a watch open, in seconds. `watcher` gives up one that is silent for five seconds more.
const WATCH: u32 = 60;
/// Objects per page of a list: a whole page is in memory, and a pod has about ten kilobytes.
const PAGE_SIZE: u32 = 100;
/// The timeout for a page of a list, once the client may request it: the API server itself gives up after a minute.
const PAGE: Duration = Duration::from_secs(60);
/// The first pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// A recovering server may refuse the first watch because its caches are still empty: two such pauses are no long outage.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Without a failure for this long, the kind is read again. Longer than a pause and a request without an answer together.
const LAPSES: Duration = Duration::from_secs(60);
/// How many kinds are listed at the same time: each has pages in memory, and the API server has other clients.
pub(super) const LISTS: usize = 3;
/// How long a list waits for others that do not finish.
const QUEUE: Duration = Duration::from_secs(10);

type Events = Pin<Box<dyn Stream<Item = watcher::Result<Event<Received>>> + Send>>;

/// Feeds one kind.
pub(super) struct Feed {
    pub kind: &'static Kind,
    pub api: Api<Received>,
    pub news: mpsc::Sender<News>,
    /// Limits the lists that run at the same time.
    pub lists: Arc<Semaphore>,
    /// Changes when a list must begin from now on.
    pub wanted: watch::Receiver<()>,
    pub revisions: Revisions,
    pub metrics: Metrics,
    pub failures: Failures,
}

/// A list under way.
struct Listing {
    begun: Instant,
    /// Absent if others did not finish in time: then the list just runs in addition to them.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Feed {
    /// Feeds the owner.
    pub async fn run(mut self) -> Infallible {
        loop {
            self.list_and_watch().await;
        }
    }

    /// Lists the kind, then watches it, until it has to be listed anew.
    async fn list_and_watch(&mut self) {
        let mut config = watcher::Config::default()
            .timeout(WATCH)
            .page_size(PAGE_SIZE);
        if let Scope::Named(name) = self.kind.scope {
            config = config.fields(&format!("metadata.name={name}"));
        }
        let mut events: Events = Box::pin(watcher::watcher(self.api.clone(), config));
        let mut listing = None;
        loop {
            let next = tokio::select! {
                next = next(&mut events, listing.is_some()) => next,
                Ok(()) = self.wanted.changed(), if listing.is_none() && self.kind.decides => return,
                // A part of a list says nothing of the rest.
                () = self.failures.lapsed(), if listing.is_none() => {
                    self.tell(What::Resumed).await;
                    continue;
                }
            };
            match next {
                Ok(event) => self.take(event, &mut listing).await,
                Err(failure) => {
                    let begun = listing.take().map(|listing: Listing| listing.begun);
                    let pause = self.fail(&failure, begun).await;
                    sleep(pause).await;
                    if failure.needs_watcher() {
                        return;
                    }
                }
            }
        }
    }

    async fn take(&mut self, event: Event<Received>, listing: &mut Option<Listing>) {
        match event {
            // The request follows when the next event is asked for.
            Event::Init => {
                let queued = timeout(QUEUE, Arc::clone(&self.lists).acquire_owned()).await;
                self.wanted.mark_unchanged();
                *listing = Some(Listing {
                    begun: Instant::now(),
                    _permit: queued.ok().and_then(Result::ok),
                });
                self.tell(What::Begun).await;
            }
            Event::InitApply(object) => self.tell(What::Listed(object)).await,
            Event::InitDone => {
                if let Some(listing) = listing.take() {
                    let (listed, version) = self.end_list(listing.begun);
                    self.tell(What::Done(listed, version)).await;
                }
            }
            Event::Apply(object) => {
                let version = self.see(&object);
                self.tell(What::Applied(object, version)).await;
            }
            Event::Delete(object) => {
                let version = self.see(&object);
                self.tell(What::Deleted(object, version)).await;
            }
        }
    }

    /// Notes how far the kind has come, and returns that. Where that went back, the process ends.
    fn see(&self, object: &Received) -> u64 {
        let path = self.api.resource_url();
        let version = object.meta().resource_version.as_deref();
        let seen = self.revisions.see(path, version.unwrap_or_default());
        seen.unwrap_or_else(|_| self.revisions.highest(path))
    }

    /// Returns when the list ran that ends now, and how far it has read.
    fn end_list(&self, begun: Instant) -> (Listed, u64) {
        let version = self.revisions.highest(self.api.resource_url());
        let ended = Instant::now();
        (Listed { begun, ended }, version)
    }

    async fn tell(&self, what: What) {
        let kind = self.kind;
        if self.news.send(News::Object(kind, what)).await.is_err() {
            // The owner is gone, and this will be dropped.
            std::future::pending::<()>().await;
        }
    }

    /// Counts and reports a failure; returns how long to wait.
    async fn fail(&mut self, failure: &Failure, listing: Option<Instant>) -> Duration {
        let kind = self.kind;
        self.metrics
            .count_watch_restart(kind.name(), failure.cause());
        let (problem, details) = (failure.problem(), failure.explain());
        let pause = self.failures.add();
        let (name, retry_seconds) = (kind.name(), pause.as_secs_f32());
        tracing::warn!(kind = %name, retry_seconds, "watch interrupted: {details}");
        let what = match listing {
            Some(begun) if kind.is_own() && failure.is_not_found() => {
                let (listed, version) = self.end_list(begun);
                What::NotInstalled(problem, listed, version)
            }
            _ => What::Failed(problem),
        };
        self.tell(what).await;
        pause
    }
}

/// Returns the next event. While a list is under way, each is at most a page away.
async fn next(events: &mut Events, is_listing: bool) -> Result<Event<Received>, Failure> {
    let next = if is_listing {
        let next = timeout(PAGE, events.next()).await;
        next.map_err(|_| Failure::SlowList(PAGE))?
    } else {
        events.next().await
    };
    // `watcher` never ends.
    next.unwrap_or(Err(watcher::Error::NoResourceVersion))
        .map_err(Failure::from)
}

/// Failures that follow each other: how many, and when the pause after the last one ends. What succeeds between them does not
/// count: otherwise an overloaded server would get one list after another.
#[derive(Debug, Default)]
pub(super) struct Failures(Option<(u32, Instant)>);

impl Failures {
    /// Adds a failure; returns the pause that it requires.
    fn add(&mut self) -> Duration {
        let count = self.0.map_or(1, |(count, _)| count + 1);
        let pause = backoff::pause(count, FIRST_PAUSE, LONGEST_PAUSE);
        self.0 = Some((count, Instant::now() + pause));
        pause
    }

    /// Waits until nothing has failed for a while since the last failure; for ever if nothing has failed.
    async fn lapsed(&mut self) {
        match self.0 {
            Some((_, last)) => sleep_until((last + LAPSES).into()).await,
            None => std::future::pending().await,
        }
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn failures_that_follow_each_other_pause_longer_and_are_over_after_a_minute() {
        let mut failures = Failures::default();
        let first = failures.add();
        let second = failures.add();
        assert!(
            first < FIRST_PAUSE * 2 && second > first,
            "{first:?} {second:?}"
        );
        assert!((0..10).all(|_| failures.add() < LONGEST_PAUSE.mul_f64(1.3)));
        assert!(failures.add() > FIRST_PAUSE * 2);
        let (count, last) = failures.0.unwrap();
        failures.0 = Some((count, last.checked_sub(LAPSES * 2).unwrap()));
        failures.lapsed().await;
        let waits = timeout(Duration::from_millis(10), failures.lapsed()).await;
        assert!(waits.is_err(), "nothing is there to lapse");
        assert!(failures.add() < FIRST_PAUSE * 2);
    }
}
