//! Tracks failures and when they are retried.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::client::backoff;

const FIRST_RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The shortest pause for work that is due but not attempted, to avoid a busy loop.
const LEAST_PAUSE: Duration = Duration::from_millis(500);

/// Work that may fail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The `windows-services` ConfigMap.
    Services,
    /// The status of `WindowsStorage`.
    Settings,
    /// The status of a node.
    NodeStatus(String),
    /// The removal of what a node left behind.
    Removal(String),
}

impl What {
    /// Returns the metrics label for failed writes.
    pub fn target(&self) -> &'static str {
        match self {
            Self::Services => "ConfigMap",
            Self::Settings => "WindowsStorage",
            Self::NodeStatus(_) => "WindowsNodeStorage",
            Self::Removal(_) => "DepartedNode",
        }
    }
}

/// Failed work, each with its own backoff. Changes that wake the controller do not trigger a retry sooner.
#[derive(Debug, Default)]
pub struct Retries(BTreeMap<What, Retry>);

#[derive(Debug)]
struct Retry {
    due: Instant,
    failures: u32,
    problem: String,
}

impl Retries {
    /// Records a failure. The pauses between attempts grow.
    pub fn failed(&mut self, what: What, problem: String, now: Instant) {
        let failures = self.0.get(&what).map_or(1, |retry| retry.failures + 1);
        let retry = Retry {
            due: now + backoff::pause(failures, FIRST_RETRY, LONGEST_RETRY),
            failures,
            problem,
        };
        self.0.insert(what, retry);
    }

    /// Records that the work succeeded, or is no longer needed.
    pub fn done(&mut self, what: &What) {
        self.0.remove(what);
    }

    /// Forgets work that is no longer to be done.
    pub fn retain(&mut self, is_wanted: impl Fn(&What) -> bool) {
        self.0.retain(|what, _| is_wanted(what));
    }

    /// Returns whether the work may be attempted now.
    pub fn may_try(&self, what: &What, now: Instant) -> bool {
        self.0.get(what).is_none_or(|retry| retry.due <= now)
    }

    /// Returns one of the problems, if there are any.
    pub fn problem(&self) -> Option<&str> {
        self.0.values().next().map(|retry| retry.problem.as_str())
    }

    /// Returns when the next retry is due.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let next = self.0.values().map(|retry| retry.due).min()?;
        Some(next.max(now + LEAST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_waits_longer_each_time_while_all_else_goes_on() {
        let now = Instant::now();
        let mut retries = Retries::default();
        let node = What::NodeStatus("win-1".to_owned());
        retries.failed(What::Services, "no".to_owned(), now);
        assert!(!retries.may_try(&What::Services, now) && retries.may_try(&node, now));
        let next = retries.next(now).unwrap();
        assert!(next >= now + FIRST_RETRY.mul_f64(0.8));
        assert!(retries.may_try(&What::Services, next));
        retries.failed(What::Services, "still no".to_owned(), next);
        assert_eq!(retries.problem(), Some("still no"));
        let later = retries.next(next).unwrap();
        assert!(later - next > next - now, "pauses grow");
        let overdue = later + LONGEST_RETRY;
        assert_eq!(retries.next(overdue), Some(overdue + LEAST_PAUSE));
        retries.done(&What::Services);
        assert!(retries.problem().is_none() && retries.next(now).is_none());
    }
}
