//! Counts how many of something exist at a time, over all hosts of a fleet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is counted over a fleet.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Connections that were taken and have not ended.
    pub connections: Gauge,
    /// Those of them that have logged in.
    pub logins: Gauge,
    /// Hosts on which csi-proxy is stopped for the sake of a change.
    pub interrupted: Gauge,
    latest: Mutex<Option<&'static str>>,
}

impl Gauges {
    /// The request that came last to any host, by its name.
    #[must_use]
    pub fn latest_request(&self) -> Option<&'static str> {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn came(&self, request: &'static str) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(request);
    }
}

/// How many there are and were.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    /// At this moment.
    #[must_use]
    pub fn now(&self) -> usize {
        self.0.now.load(Ordering::SeqCst)
    }

    /// The most at one time, since the fleet is there or since [`Gauge::forget_most`].
    #[must_use]
    pub fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }

    /// Resets the maximum.
    pub fn forget_most(&self) {
        self.0.most.store(self.now(), Ordering::SeqCst);
    }
}

/// One of those that are counted, until it is dropped.
#[derive(Debug)]
pub struct Entered(Arc<Numbers>);

impl Entered {
    pub fn new(gauge: &Gauge) -> Self {
        let numbers = Arc::clone(&gauge.0);
        let now = numbers.now.fetch_add(1, Ordering::SeqCst) + 1;
        numbers.most.fetch_max(now, Ordering::SeqCst);
        Self(numbers)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}
