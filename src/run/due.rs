//! What is due later: what failed and is to be tried again, and what is to be looked at though nothing is new.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::backoff;

const FIRST_RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// What has failed and is not tried when it is due has a reason to wait: no hot loop for it.
const LEAST_PAUSE: Duration = Duration::from_millis(500);

/// What may be due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A look at everything.
    Everything,
    /// The gate is to be decided again.
    Gate,
    /// The verdict's message may be changed.
    Message,
    /// Volumes that hold upgrades are to be told of.
    BlockedVolumes,
    /// No node is in the middle any more of what an earlier process began.
    Settled,
    /// The `windows-services` ConfigMap.
    Services,
    /// The status of `WindowsStorage`.
    Settings,
    /// The status of a node.
    NodeStatus(String),
    /// What a node has left behind.
    Removal(String),
}

impl What {
    /// What failed writes are counted by.
    pub fn target(&self) -> Option<&'static str> {
        match self {
            Self::Services => Some("ConfigMap"),
            Self::Settings => Some("WindowsStorage"),
            Self::NodeStatus(_) => Some("WindowsNodeStorage"),
            Self::Removal(_) => Some("DepartedNode"),
            _ => None,
        }
    }
}

/// What is due, each at its own time. News that wake the controller do not make it try sooner what has failed.
#[derive(Debug, Default)]
pub struct Due(BTreeMap<What, Entry>);

#[derive(Debug)]
struct Entry {
    at: Instant,
    failures: u32,
    problem: Option<String>,
}

impl Due {
    /// That is due then, or not any more.
    pub fn set(&mut self, what: What, at: Option<Instant>) {
        let entry = |at| Entry {
            at,
            failures: 0,
            problem: None,
        };
        match at {
            Some(at) => drop(self.0.insert(what, entry(at))),
            None => self.done(&what),
        }
    }

    /// It succeeded, or need not be done.
    pub fn done(&mut self, what: &What) {
        self.0.remove(what);
    }

    /// It failed; the pauses between attempts at it grow.
    pub fn failed(&mut self, what: What, problem: String, now: Instant) {
        let failures = self.0.get(&what).map_or(1, |entry| entry.failures + 1);
        let entry = Entry {
            at: now + backoff::pause(failures, FIRST_RETRY, LONGEST_RETRY),
            failures,
            problem: Some(problem),
        };
        self.0.insert(what, entry);
    }

    /// Whether it may be tried now.
    pub fn may_try(&self, what: &What, now: Instant) -> bool {
        self.0.get(what).is_none_or(|entry| entry.at <= now)
    }

    /// Forgets what is not to be done any more.
    pub fn retain(&mut self, is_wanted: impl Fn(&What) -> bool) {
        self.0.retain(|what, _| is_wanted(what));
    }

    /// What has failed and waits to be tried again, if only one thing.
    pub fn problem(&self) -> Option<&str> {
        let mut entries = self.0.values();
        entries.find_map(|entry| entry.problem.as_deref())
    }

    /// When the next is due.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let at = |entry: &Entry| match entry.problem {
            Some(_) => entry.at.max(now + LEAST_PAUSE),
            None => entry.at,
        };
        self.0.values().map(at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_waits_longer_each_time_while_all_else_goes_on() {
        let now = Instant::now();
        let mut due = Due::default();
        let node = What::NodeStatus("win-1".to_owned());
        due.failed(What::Services, "no".to_owned(), now);
        assert!(!due.may_try(&What::Services, now) && due.may_try(&node, now));
        let next = due.next(now).unwrap();
        assert!(next >= now + FIRST_RETRY.mul_f64(0.8));
        assert!(due.may_try(&What::Services, next));
        due.failed(What::Services, "still no".to_owned(), next);
        assert_eq!(due.problem(), Some("still no"));
        let later = due.next(next).unwrap();
        assert!(later - next > next - now, "pauses grow");
        let overdue = later + LONGEST_RETRY;
        assert_eq!(due.next(overdue), Some(overdue + LEAST_PAUSE));
        due.set(What::Gate, Some(now));
        assert_eq!(
            due.next(overdue),
            Some(now),
            "what has not failed is due at its time"
        );
        due.set(What::Gate, None);
        due.done(&What::Services);
        assert!(due.problem().is_none() && due.next(now).is_none());
    }
}
