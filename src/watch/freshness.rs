//! Tracks whether the data is current: which version each watch has reached, and when that was last known to be complete.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{ListParams, WatchParams};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::backoff;
use crate::index::version_number;
use crate::objects::{Kind, Received};
use crate::watch::proof::prove;

/// How long delivered or proved data counts as current.
pub(super) const FRESH: Duration = Duration::from_secs(5);
/// Objects per page of a list: a whole page is in memory, and a pod has about ten kilobytes.
const PAGE_SIZE: u32 = 100;
/// The backoff after a failed proof.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A kind, how it is requested, and the version that its watch has reached.
pub(super) struct Watched {
    pub kind: &'static Kind,
    pub api: Api<Received>,
    /// The field selector.
    pub fields: Option<String>,
    pub progress: Progress,
}

impl Watched {
    /// Returns the parameters of its lists.
    pub fn page(&self) -> ListParams {
        ListParams {
            field_selector: self.fields.clone(),
            limit: Some(PAGE_SIZE),
            ..ListParams::default()
        }
    }

    /// Returns the parameters of its watches.
    pub fn watch_parameters(&self) -> WatchParams {
        WatchParams {
            field_selector: self.fields.clone(),
            bookmarks: true,
            ..WatchParams::default()
        }
    }
}

/// The version that a watch has reached.
#[derive(Debug, Default)]
pub(super) struct Progress {
    state: Mutex<State>,
    moved: Notify,
    stale: Notify,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Where a watch is to start; absent if a list is needed.
    version: Option<String>,
    /// When it was last known that nothing was missed.
    heard: Option<Instant>,
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn version(&self) -> Option<String> {
        self.state().version.clone()
    }

    /// Records that everything up to that version is in the index, and, if known, when that was the latest state.
    pub fn come_to(&self, version: &str, heard: Option<Instant>) {
        let mut state = self.state();
        state.version = Some(version.to_owned());
        state.heard = state.heard.max(heard);
        drop(state);
        self.moved.notify_waiters();
    }

    /// Records that nothing was missed up to that time.
    pub fn hear(&self, heard: Instant) {
        let mut state = self.state();
        state.heard = state.heard.max(Some(heard));
    }

    /// Forgets the version: the server no longer keeps the changes since then.
    pub fn forget(&self) {
        self.state().version = None;
    }

    fn is_fresh(&self, now: Instant) -> bool {
        let heard = self.state().heard;
        heard.is_some_and(|heard| now < heard + FRESH)
    }

    /// Waits until everything up to that version is in the index.
    pub async fn reaches(&self, version: u64) {
        loop {
            let moved = self.moved.notified();
            if (self.version()).is_some_and(|now| version_number(&now) >= version) {
                return;
            }
            moved.await;
        }
    }

    /// Reports that a second watch shows more than this one.
    pub fn fall_behind(&self) {
        self.stale.notify_waiters();
    }

    /// Waits until a second watch shows more than this one.
    pub async fn is_stale(&self) {
        self.stale.notified().await;
    }
}

/// Whether all data that the verdict rests on is current, and the proof of that.
#[derive(Default)]
pub struct Freshness {
    deciding: Vec<Arc<Watched>>,
    /// The running proof, if any.
    proof: JoinSet<bool>,
    /// The number of consecutive failed proofs, and when the next one is due.
    failures: u32,
    due: Option<Instant>,
}

impl Freshness {
    pub(super) fn new(watched: &[Arc<Watched>]) -> Self {
        let deciding = watched.iter().filter(|watched| watched.kind.decides);
        Self {
            deciding: deciding.cloned().collect(),
            ..Self::default()
        }
    }

    /// Returns whether each watch has recently delivered something, or was proved alive.
    #[must_use]
    pub fn is_fresh(&self, now: Instant) -> bool {
        let mut deciding = self.deciding.iter();
        deciding.all(|watched| watched.progress.is_fresh(now))
    }

    /// Returns whether no proof has failed since a proof was first wanted.
    #[must_use]
    pub fn is_promising(&self) -> bool {
        self.failures == 0
    }

    /// Starts a proof that is due, or resets the backoff if none is wanted.
    pub fn want(&mut self, is_wanted: bool, now: Instant) {
        if !is_wanted {
            self.failures = 0;
            self.due = None;
            // A running proof does no harm.
            return;
        }
        if !self.proof.is_empty() || self.due.is_some_and(|due| now < due) {
            return;
        }
        // A watch that is only just fresh will not be when all others are proved.
        let silent: Vec<Arc<Watched>> = (self.deciding.iter())
            .filter(|watched| !watched.progress.is_fresh(now + FRESH / 2))
            .cloned()
            .collect();
        self.due = None;
        self.proof.spawn(async move { prove(&silent).await });
    }

    /// Waits for the end of the running proof; forever if there is none.
    pub async fn proved(&mut self) {
        match self.proof.join_next().await {
            None => std::future::pending().await,
            // A proof that took long is only useful while the rest is still fresh.
            Some(Ok(true)) if self.is_fresh(Instant::now()) => {
                self.failures = 0;
                self.due = None;
            }
            Some(_) => {
                self.failures += 1;
                let pause = backoff::pause(self.failures, FIRST_PAUSE, LONGEST_PAUSE);
                self.due = Some(Instant::now() + pause);
                let silent = self.deciding.iter();
                let silent = silent.filter(|watched| !watched.progress.is_fresh(Instant::now()));
                let kinds: Vec<&str> = silent.map(|watched| watched.kind.name()).collect();
                tracing::info!(
                    "upgrades stay held and csi-proxy is not removed: could not verify that the watches of {} are current",
                    kinds.join(", ")
                );
            }
        }
    }

    /// Returns when the next proof is due.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::kind;

    /// Returns the freshness of pods of a server that does not answer, last heard of at `heard`.
    fn freshness(heard: Instant) -> Freshness {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let kind = kind("v1", "Pod").unwrap();
        let watched = Watched {
            kind,
            api: Api::all_with(kube::Client::try_from(config).unwrap(), &kind.resource),
            fields: None,
            progress: Progress::default(),
        };
        watched.progress.come_to("7", Some(heard));
        Freshness::new(&[Arc::new(watched)])
    }

    #[tokio::test]
    async fn a_proof_that_comes_too_late_for_the_rest_has_failed() {
        for (age, is_promising) in [(Duration::ZERO, true), (FRESH, false)] {
            let mut freshness = freshness(Instant::now().checked_sub(age).unwrap());
            freshness.proof.spawn(async { true });
            freshness.proved().await;
            assert_eq!(freshness.is_promising(), is_promising);
            assert_eq!(freshness.due().is_none(), is_promising);
        }
    }

    #[tokio::test]
    async fn while_a_proof_is_under_way_none_is_due() {
        let now = Instant::now();
        let mut freshness = freshness(now.checked_sub(FRESH).unwrap());
        freshness.want(true, now);
        freshness.proved().await;
        let due = freshness.due().unwrap();
        freshness.want(true, now);
        assert_eq!(freshness.due(), Some(due), "not before it is due");
        freshness.want(true, due);
        assert!(!freshness.proof.is_empty() && freshness.due().is_none());
    }

    #[tokio::test]
    async fn what_was_heard_is_fresh_for_some_seconds_and_waited_for_until_it_comes() {
        let progress = Progress::default();
        let start = Instant::now();
        assert!(!progress.is_fresh(start) && progress.version().is_none());
        progress.come_to("7", Some(start));
        assert!(progress.is_fresh(start + FRESH / 2) && !progress.is_fresh(start + FRESH));
        progress.hear(start + FRESH);
        progress.come_to("8", Some(start));
        progress.come_to("9", None);
        assert!(
            progress.is_fresh(start + FRESH),
            "an older one takes nothing away"
        );
        progress.reaches(8).await;
        progress.reaches(9).await;
        let brief = Duration::from_millis(30);
        let waited = tokio::time::timeout(brief, progress.reaches(10)).await;
        assert!(waited.is_err());
        let (progress, delivered) = (&progress, async {
            tokio::task::yield_now().await;
            progress.come_to("10", None);
        });
        tokio::join!(progress.reaches(10), delivered);
        progress.forget();
        assert!(progress.version().is_none());
    }
}
