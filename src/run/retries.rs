//! Tracks failures and when they are retried.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::backoff;

const FIRST_RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// What is not tried when it is due has a reason to wait: no hot loop for it.
const LEAST_PAUSE: Duration = Duration::from_millis(500);

/// What may fail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The `windows-services` ConfigMap.
    Services,
    /// The status of `WindowsStorage`.
    Settings,
    /// The status of a node.
    NodeStatus(String),
    /// The removal of what a node has left behind.
    Removal(String),
}

impl What {
    /// What failed writes are counted by.
    pub fn target(&self) -> &'static str {
        match self {
            Self::Services => "ConfigMap",
            Self::Settings => "WindowsStorage",
            Self::NodeStatus(_) => "WindowsNodeStorage",
            Self::Removal(_) => "DepartedNode",
        }
    }
}

/// What failed, each with its own time. News that wake the controller do not make it try sooner.
#[derive(Debug, Default)]
pub struct Retries(BTreeMap<What, Retry>);

#[derive(Debug)]
struct Retry {
    due: Instant,
    failures: u32,
    problem: String,
}

impl Retries {
    /// It failed; the pauses between attempts at it grow.
    pub fn failed(&mut self, what: What, problem: String, now: Instant) {
        let failures = self.0.get(&what).map_or(1, |retry| retry.failures + 1);
        let retry = Retry {
            due: now + backoff::pause(failures, FIRST_RETRY, LONGEST_RETRY),
            failures,
            problem,
        };
        self.0.insert(what, retry);
    }

    /// It succeeded, or need not be done.
    pub fn done(&mut self, what: &What) {
        self.0.remove(what);
    }

    /// Forgets what is not to be done any more.
    pub fn retain(&mut self, is_wanted: impl Fn(&What) -> bool) {
        self.0.retain(|what, _| is_wanted(what));
    }

    /// Whether it may be tried now.
    pub fn may_try(&self, what: &What, now: Instant) -> bool {
        self.0.get(what).is_none_or(|retry| retry.due <= now)
    }

    /// One of the problems, where there is any.
    pub fn problem(&self) -> Option<&str> {
        self.0.values().next().map(|retry| retry.problem.as_str())
    }

    /// When the next is due.
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
