//! Counts how many of something exist concurrently, across all hosts of a fleet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The gauges of a fleet.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Connections that are open.
    pub connections: Gauge,
    /// Connections that have logged in.
    pub logins: Gauge,
    /// Hosts on which csi-proxy is stopped for a change.
    pub interrupted: Gauge,
    latest: Mutex<Option<&'static str>>,
}

impl Gauges {
    /// Returns the name of the latest request to any host.
    pub fn latest_request(&self) -> Option<&'static str> {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn came(&self, request: &'static str) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(request);
    }
}

/// The current number and the maximum so far.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    /// Returns the current number.
    pub fn now(&self) -> usize {
        self.0.now.load(Ordering::SeqCst)
    }

    /// Returns the maximum since the fleet was created or since [`Gauge::forget_most`].
    pub fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }

    /// Resets the maximum.
    pub fn forget_most(&self) {
        self.0.most.store(self.now(), Ordering::SeqCst);
    }
}

/// One counted item; dropping it decrements the gauge.
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
