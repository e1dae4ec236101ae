//! When each write that failed may be tried again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::backoff;

const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// The writes that failed, by what they were to write. News that wake the controller do not make it try these sooner.
#[derive(Debug, Default)]
pub struct Attempts {
    failed: HashMap<String, Failed>,
    last_problem: Option<String>,
}

#[derive(Debug)]
struct Failed {
    times: u32,
    next: Instant,
}

impl Attempts {
    /// Whether a write may be tried now.
    pub fn may_try(&self, target: &str, now: Instant) -> bool {
        self.failed
            .get(target)
            .is_none_or(|failed| failed.next <= now)
    }

    /// Whether the last write to that target failed.
    pub fn is_failing(&self, target: &str) -> bool {
        self.failed.contains_key(target)
    }

    /// A write succeeded.
    pub fn succeeded(&mut self, target: &str) {
        self.failed.remove(target);
    }

    /// A write failed; the pauses between attempts at it grow up to `longest`.
    pub fn failed(&mut self, target: &str, problem: String, longest: Duration, now: Instant) {
        let failed = self.failed.entry(target.to_owned()).or_insert(Failed {
            times: 0,
            next: now,
        });
        failed.times += 1;
        failed.next = now + backoff::pause(failed.times, FIRST_PAUSE, longest);
        self.last_problem = Some(problem);
    }

    /// Forgets targets that are not to be written any more.
    pub fn keep(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.failed.retain(|target, _| is_wanted(target));
    }

    /// Whether nothing waits to be tried again.
    pub fn is_clean(&self) -> bool {
        self.failed.is_empty()
    }

    /// When the next write is to be tried again.
    pub fn next(&self) -> Option<Instant> {
        self.failed.values().map(|failed| failed.next).min()
    }

    /// The problem that was met last.
    pub fn last_problem(&self) -> Option<&str> {
        self.last_problem.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(60);

    #[test]
    fn a_failed_write_waits_while_others_go_on() {
        let now = Instant::now();
        let mut attempts = Attempts::default();
        attempts.failed("gate", "no".to_owned(), LONGEST, now);
        assert!(!attempts.may_try("gate", now) && attempts.may_try("node", now));
        let next = attempts.next().unwrap();
        assert!(next >= now + FIRST_PAUSE.mul_f64(0.8));
        assert!(attempts.may_try("gate", next));
        attempts.failed("gate", "no".to_owned(), LONGEST, next);
        assert!(attempts.next().unwrap() - next > next - now, "pauses grow");
        attempts.succeeded("gate");
        assert!(attempts.is_clean() && attempts.next().is_none());
        assert_eq!(attempts.last_problem(), Some("no"));
    }
}
