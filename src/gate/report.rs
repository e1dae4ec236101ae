//! The state of the condition: when to check it again, and what is reported. Pure: the current time is an argument.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::assess::report::Verdict;
use crate::client::backoff;
use crate::gate::condition::Check;
use crate::gate::{Decision, GateError};

/// How often the condition is checked if nothing changes: a client of an old API version can remove it without a trace.
const REASSERT: Duration = Duration::from_secs(15);
/// The first interval between two checks while OLM has not copied the condition, or another client has changed it.
const FIRST_CHECK: Duration = Duration::from_millis(500);
/// The backoff after a failure. OLM recreates a deleted `OperatorCondition`, and an empty one allows every upgrade.
const FIRST_RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_secs(12);
/// OLM copies a condition in less than a second. After this time the report says that it has not.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(15);
/// This many changes by others within [`CONTEST`] are no accident.
const CONTESTED: usize = 3;
const CONTEST: Duration = Duration::from_secs(600);
const PENDING: &str = "Pending";

/// The content of a condition that reports on the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateReport {
    /// Whether there is an `OperatorCondition` to report on.
    pub is_of_olm: bool,
    /// `True`, `False` or `Unknown`: whether the gate's decision has been written.
    pub status: &'static str,
    /// A machine-readable reason.
    pub reason: &'static str,
    /// A human-readable message.
    pub message: String,
    /// What the condition says; `None` if it could not be written.
    pub written: Option<Decision>,
    /// The verdict that the gate has acted on and is done with. The report says nothing about another one.
    pub acted_on: Option<Verdict>,
    /// The nodes being changed that the gate has acted on and is done with: work on others must not begin yet.
    pub knows: BTreeSet<String>,
    /// Since when lists are wanted to open the gate.
    pub wants_lists: Option<Instant>,
}

impl GateReport {
    /// Returns whether the state of the gate is not known yet.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.reason == PENDING
    }

    /// Returns whether the condition says what was decided last, or before that.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.written.is_some()
    }
}

/// Why a decision could not be written.
#[derive(Debug)]
struct Failure {
    /// How many failed in a row.
    count: u32,
    held: bool,
    reason: &'static str,
    message: String,
}

/// The state of the condition at the last check.
#[derive(Debug, Default)]
pub struct Track {
    /// The name of the object; `None` without OLM.
    name: Option<String>,
    written: Option<Decision>,
    overridden: Option<String>,
    /// When to check again if nothing changes.
    pub next_check: Option<Instant>,
    /// The number of consecutive checks without a problem.
    quiet: u32,
    /// Since when OLM has not copied what was written.
    unconfirmed_since: Option<Instant>,
    /// Whether OLM has copied the condition once, and has not been late since.
    is_trusted: bool,
    /// When others had changed it.
    changes: Vec<Instant>,
    /// Why the last write failed.
    failure: Option<Failure>,
}

impl Track {
    /// Creates a track for the object of that name, which has not been checked.
    pub fn new(name: Option<String>) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// Returns the last decision that was written.
    pub fn written(&self) -> Option<&Decision> {
        self.written.as_ref()
    }

    /// Returns whether it is time to write the decision. A failed write is retried at its own pace, except when a `False`
    /// replaces a `True`: the object may say `True`.
    pub fn is_due(&self, decision: &Decision, now: Instant) -> bool {
        let is_another = match &self.failure {
            None => self.written.as_ref() != Some(decision),
            Some(failure) => !failure.held && decision.holds(),
        };
        is_another || self.next_check.is_none_or(|next| next <= now)
    }

    /// Records that the object contains the decision; returns whether another client had changed it.
    pub fn saw(&mut self, decision: Decision, check: Check, now: Instant) -> bool {
        let is_same = self.written.as_ref() == Some(&decision);
        let is_disturbed = is_same && self.failure.is_none() && check.is_changed;
        if is_disturbed {
            self.changes.push(now);
        }
        self.changes
            .retain(|change| now.duration_since(*change) < CONTEST);
        self.quiet = if is_same && !check.is_changed {
            self.quiet.saturating_add(1)
        } else {
            0
        };
        let soon = backoff::pause(self.quiet + 1, FIRST_CHECK, REASSERT);
        let mut pause = if self.changes.is_empty() {
            REASSERT
        } else {
            soon.min(REASSERT)
        };
        if check.is_confirmed {
            self.unconfirmed_since = None;
            self.is_trusted = true;
        } else {
            let late = *self.unconfirmed_since.get_or_insert(now) + CONFIRMED_WITHIN;
            self.is_trusted &= now < late;
            pause = soon;
            if now < late {
                pause = pause.min(late - now);
            }
        }
        self.next_check = Some(now + pause);
        self.written = Some(decision);
        self.overridden = check.overridden;
        self.failure = None;
        is_disturbed
    }

    /// Records that the decision could not be written.
    pub fn failed(&mut self, decision: &Decision, error: &GateError, now: Instant) {
        self.quiet = 0;
        let count = 1 + self.failure.as_ref().map_or(0, |failure| failure.count);
        self.failure = Some(Failure {
            count,
            held: decision.holds(),
            reason: error.reason(),
            message: error.to_string(),
        });
        self.next_check = Some(now + backoff::pause(count, FIRST_RETRY, LONGEST_RETRY));
    }

    /// Returns the report.
    pub fn report(&self, now: Instant) -> GateReport {
        let (status, reason, message) = self.describe(now);
        GateReport {
            is_of_olm: self.name.is_some(),
            status,
            reason,
            message,
            written: self.written.clone().filter(|_| self.failure.is_none()),
            ..GateReport::default()
        }
    }

    fn describe(&self, now: Instant) -> (&'static str, &'static str, String) {
        let name = self.name.as_deref().unwrap_or_default();
        if let Some(Failure {
            reason, message, ..
        }) = &self.failure
        {
            return ("False", reason, message.clone());
        }
        if self.written.is_none() {
            let message = format!("OperatorCondition {name} has not been checked yet");
            return ("Unknown", PENDING, message);
        }
        let recent = |change: &&Instant| now.duration_since(**change) < CONTEST;
        if self.changes.iter().filter(recent).count() >= CONTESTED {
            let message = format!(
                "another client changes the condition Upgradeable of OperatorCondition {name} again and again; it is \
                 written again each time. Only this operator may write it: is it running twice, or is there a client \
                 that writes the object whole, or in version v1?"
            );
            return ("False", "Contested", message);
        }
        if let Some(status) = &self.overridden {
            let message = match status.as_str() {
                "True" => format!(
                    "OLM allows upgrades whatever the verdict is, because spec.overrides of OperatorCondition {name} \
                     says Upgradeable True; remove that to have the verdict count again"
                ),
                _ => format!(
                    "OLM holds upgrades whatever the verdict is, because spec.overrides of OperatorCondition {name} \
                     overrides Upgradeable; remove that to have the verdict count again"
                ),
            };
            return ("True", "Overridden", message);
        }
        if self.is_trusted {
            let message = format!(
                "OperatorCondition {name} says what the verdict is, and OLM has processed it"
            );
            return ("True", "Confirmed", message);
        }
        let late = |since| now >= since + CONFIRMED_WITHIN;
        if self.unconfirmed_since.is_some_and(late) {
            let message = format!(
                "the verdict is written to OperatorCondition {name}, and OLM has not processed it: is its olm-operator \
                 running? Until then, OLM holds upgrades that depend on it"
            );
            return ("False", "NotConfirmed", message);
        }
        let message = format!(
            "the verdict is written to OperatorCondition {name}; OLM has not processed it yet"
        );
        ("Unknown", PENDING, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::report::Upgradeable;
    use crate::gate::condition::tests;

    fn decision(message: &str) -> Decision {
        tests::decision(Upgradeable::False, message)
    }

    const WRITTEN: bool = true;
    const AS_IT_WAS: bool = false;

    struct Rig {
        track: Track,
        now: Instant,
    }

    impl Rig {
        fn new() -> Self {
            let track = Track::new(Some("x".to_owned()));
            let now = Instant::now();
            Self { track, now }
        }

        fn saw(&mut self, message: &str, is_changed: bool, is_confirmed: bool) -> bool {
            let check = Check {
                is_changed,
                is_confirmed,
                overridden: None,
            };
            self.track.saw(decision(message), check, self.now)
        }

        fn reports(&self) -> (&'static str, &'static str) {
            let report = self.track.report(self.now);
            assert_eq!(report.is_pending(), report.reason == "Pending");
            (report.status, report.reason)
        }

        fn is_due(&self, message: &str, after: Duration) -> bool {
            self.track.is_due(&decision(message), self.now + after)
        }

        fn pause(&self) -> Duration {
            self.track.next_check.unwrap() - self.now
        }
    }

    #[test]
    fn a_condition_is_checked_until_olm_has_taken_it_over_and_then_now_and_again() {
        let mut rig = Rig::new();
        assert_eq!(rig.reports(), ("Unknown", "Pending"));
        assert!(rig.is_due("m", Duration::ZERO));
        rig.saw("m", WRITTEN, false);
        assert!(!rig.is_due("m", Duration::ZERO) && rig.is_due("n", Duration::ZERO));
        let report = rig.track.report(rig.now);
        assert_eq!(report.written, Some(decision("m")));
        assert_eq!(rig.reports(), ("Unknown", "Pending"));
        assert!(rig.pause() < FIRST_CHECK.mul_f64(1.3));
        rig.saw("m", AS_IT_WAS, false);
        assert!(
            rig.pause() > FIRST_CHECK.mul_f64(1.5),
            "less and less often"
        );
        rig.saw("m", AS_IT_WAS, true);
        assert_eq!(rig.reports(), ("True", "Confirmed"));
        assert_eq!(rig.pause(), REASSERT);
        assert!(rig.is_due("m", REASSERT));
    }

    #[test]
    fn an_olm_that_does_not_answer_is_called_so_once_it_is_late() {
        let mut rig = Rig::new();
        let late = rig.now + CONFIRMED_WITHIN;
        rig.saw("m", WRITTEN, true);
        // OLM was trusted before; a new verdict says nothing new about OLM.
        rig.saw("n", WRITTEN, false);
        assert_eq!(rig.reports(), ("True", "Confirmed"));
        while rig.now < late {
            rig.now = rig.track.next_check.unwrap();
            rig.saw("n", AS_IT_WAS, false);
        }
        assert_eq!(rig.now, late, "it is checked just then");
        assert_eq!(rig.reports(), ("False", "NotConfirmed"));
        rig.saw("o", WRITTEN, false);
        let reported = rig.reports();
        assert_eq!(reported.1, "NotConfirmed", "a further write is no excuse");
        rig.saw("o", AS_IT_WAS, true);
        assert_eq!(rig.reports(), ("True", "Confirmed"));
    }

    #[test]
    fn another_writer_is_named_and_not_fought_in_a_hot_loop() {
        let mut rig = Rig::new();
        assert!(!rig.saw("m", WRITTEN, true));
        assert!(!rig.saw("n", WRITTEN, true), "our own news");
        for _ in 0..CONTESTED {
            assert_eq!(rig.reports(), ("True", "Confirmed"));
            assert!(rig.saw("n", WRITTEN, true));
        }
        assert_eq!(rig.reports(), ("False", "Contested"));
        assert!(rig.pause() > FIRST_CHECK / 2 && rig.pause() < FIRST_CHECK * 2);
        for _ in 0..20 {
            rig.saw("n", AS_IT_WAS, true);
        }
        assert!(rig.pause() > REASSERT / 2, "less and less often");
        rig.now += CONTEST;
        assert_eq!(rig.reports(), ("True", "Confirmed"));
        rig.saw("o", WRITTEN, true);
        assert_eq!(rig.pause(), REASSERT, "what was long ago hurries nobody");
    }

    #[test]
    fn an_override_is_reported_and_a_failure_before_all() {
        let mut rig = Rig::new();
        for (status, words) in [("True", "allows"), ("False", "holds"), ("Unknown", "holds")] {
            let check = Check {
                is_changed: false,
                is_confirmed: true,
                overridden: Some(status.to_owned()),
            };
            rig.track.saw(decision("m"), check, rig.now);
            assert_eq!(rig.reports(), ("True", "Overridden"));
            let message = rig.track.report(rig.now).message;
            assert!(message.contains(words), "{message}");
        }
        rig.track
            .failed(&decision("n"), &GateError::NotServed, rig.now);
        assert_eq!(rig.reports(), ("False", "NotServed"));
        assert!(!rig.track.report(rig.now).is_written());
        let first = rig.pause();
        assert!(first >= FIRST_RETRY.mul_f64(0.8));
        let is_due = rig.is_due("n", Duration::ZERO);
        assert!(!is_due, "news do not make it try sooner");
        assert!(rig.is_due("n", first));
        rig.track
            .failed(&decision("n"), &GateError::NotServed, rig.now);
        assert!(rig.pause() > first, "pauses grow");
        let open = tests::decision(Upgradeable::True, "m");
        rig.track.failed(&open, &GateError::NotServed, rig.now);
        assert!(!rig.track.is_due(&open, rig.now));
        let closes = rig.is_due("n", Duration::ZERO);
        assert!(closes, "the object may say True");
        let is_disturbed = rig.saw("m", WRITTEN, true);
        assert!(!is_disturbed, "recreated after it was gone: nobody's doing");
        assert_eq!(rig.reports(), ("True", "Confirmed"));
    }
}
