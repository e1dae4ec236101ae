//! A check that all changes have to pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::process::since_boot;

/// Value in place of a time: closed forever.
const ENDED: u64 = u64::MAX;

/// Open while this process is the leader, by the clock. Clones share their state.
#[derive(Clone, Debug)]
pub struct Fence(Option<Arc<AtomicU64>>);

/// A change was rejected because this process is not the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not hold the lease, so it changes nothing")]
pub struct Closed;

impl Fence {
    /// Creates a fence that is always open, for use without an election.
    pub fn open() -> Self {
        Self(None)
    }

    /// Creates a fence that is closed until an election is won.
    pub fn closed() -> Self {
        Self(Some(Arc::default()))
    }

    /// Fails unless this process is the leader now.
    pub fn pass(&self) -> Result<(), Closed> {
        self.is_open_at(since_boot()).then_some(()).ok_or(Closed)
    }

    fn is_open_at(&self, now: Duration) -> bool {
        self.0.as_ref().is_none_or(|until| {
            let until = until.load(Ordering::SeqCst);
            until != ENDED && now < Duration::from_nanos(until)
        })
    }

    /// Opens it until that time, unless it was closed forever.
    pub(super) fn open_until(&self, until: Duration) {
        let Some(fence) = &self.0 else { return };
        let until = u64::try_from(until.as_nanos()).unwrap_or(ENDED - 1);
        let later = |before| (before != ENDED).then_some(until);
        // This fails if it was closed forever, and then there is nothing to do.
        let _ = fence.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
    }

    /// Closes it forever.
    pub fn close(&self) {
        if let Some(fence) = &self.0 {
            fence.store(ENDED, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    impl Fence {
        /// Opens it for a long time, as a won election does for a while.
        pub(crate) fn win(&self) {
            self.open_until(since_boot() + Duration::from_secs(24 * 60 * 60));
        }
    }

    #[test]
    fn without_an_election_it_is_open() {
        let fence = Fence::open();
        fence.close();
        fence.open_until(Duration::ZERO);
        assert_eq!(fence.pass(), Ok(()));
    }

    #[test]
    fn it_is_closed_before_after_and_for_good() {
        let fence = Fence::closed();
        assert_eq!(fence.pass(), Err(Closed));
        fence.open_until(SECOND * 10);
        assert!(fence.is_open_at(SECOND * 9));
        assert!(!fence.is_open_at(SECOND * 10));
        let same = fence.clone();
        fence.open_until(SECOND * 20);
        assert!(same.is_open_at(SECOND * 15));
        same.close();
        fence.open_until(SECOND * 30);
        assert!(
            !fence.is_open_at(SECOND * 25),
            "what was closed for good opens again"
        );
        assert!(!fence.is_open_at(Duration::from_nanos(u64::MAX)));
    }

    #[test]
    fn open_for_very_long_is_not_closed_for_good() {
        let fence = Fence::closed();
        fence.open_until(Duration::MAX);
        assert!(fence.is_open_at(SECOND));
        fence.open_until(SECOND * 2);
        assert!(!fence.is_open_at(SECOND * 2));
    }

    #[test]
    fn the_clock_goes_on() {
        let before = since_boot();
        assert!(before > Duration::ZERO);
        std::thread::sleep(Duration::from_millis(2));
        assert!(since_boot() > before);
        let fence = Fence::closed();
        fence.open_until(since_boot() + SECOND * 1_000);
        assert_eq!(fence.pass(), Ok(()));
        fence.open_until(since_boot());
        assert_eq!(fence.pass(), Err(Closed));
    }
}
