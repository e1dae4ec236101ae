//! The state of the condition: when to check it again, and what is reported. Pure: the current time is an argument.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::api::OperatorCondition;
use crate::assess::report::Verdict;
use crate::client::backoff::jittered;
use crate::gate::condition::{is_confirmed, overridden};
use crate::gate::{Decision, GateError};

/// How often the condition is checked if nothing changes: a client of an old API version can remove it without a trace.
const REASSERT: Duration = Duration::from_secs(15);
/// How soon it is checked while OLM should be copying it, or another client has just changed it.
const SOON: Duration = Duration::from_secs(1);
/// The pause after a failure. OLM recreates a deleted `OperatorCondition`, and an empty one allows every upgrade.
const RETRY: Duration = Duration::from_secs(5);
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
    /// Whether the condition says what was decided last, or before that.
    pub is_written: bool,
    /// The last verdict, and what the gate has decided on it, written or not; `None` until it is done with that.
    pub decided: Option<(Verdict, Decision)>,
    /// The nodes being changed that the gate has acted on and is done with: work on others must not begin yet.
    pub knows: BTreeSet<String>,
    /// Since when lists are wanted to open the gate.
    pub wants_lists: Option<Instant>,
}

impl GateReport {
    /// Returns whether the state of the gate is not known yet.
    pub fn is_pending(&self) -> bool {
        self.reason == PENDING
    }
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
    /// Since when OLM has not copied what was written.
    unconfirmed_since: Option<Instant>,
    /// When others had changed it.
    changes: Vec<Instant>,
    /// Why the last write failed, and whether it would have held upgrades.
    failure: Option<(GateError, bool)>,
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
            Some((_, held)) => !held && decision.holds(),
        };
        is_another || self.next_check.is_none_or(|next| next <= now)
    }

    /// Records that the object, if there is one, contains the decision, and whether it had to be written for that; returns
    /// whether another client had changed it.
    pub fn saw(
        &mut self,
        decision: Decision,
        found: Option<&(OperatorCondition, bool)>,
        now: Instant,
    ) -> bool {
        let is_same = self.written.as_ref() == Some(&decision);
        let is_changed = found.is_some_and(|(_, is_changed)| *is_changed);
        let is_disturbed = is_same && self.failure.is_none() && is_changed;
        if is_disturbed {
            self.changes.push(now);
        }
        self.changes
            .retain(|change| now.duration_since(*change) < CONTEST);
        let since = self.unconfirmed_since.unwrap_or(now);
        let is_confirmed = found.is_none_or(|(object, _)| is_confirmed(object));
        self.unconfirmed_since = (!is_confirmed).then_some(since);
        let is_awaited = !is_confirmed && now < since + CONFIRMED_WITHIN;
        let pause = if is_awaited || is_disturbed {
            SOON
        } else {
            REASSERT
        };
        self.next_check = Some(now + pause);
        self.written = Some(decision);
        self.overridden = found.and_then(|(object, _)| overridden(object));
        self.failure = None;
        is_disturbed
    }

    /// Records that the object does not say any more what was written, and another client has changed it.
    pub fn lost(&mut self, now: Instant) {
        self.written = None;
        // One that was deleted comes back empty: nobody's doing.
        if self.failure.take().is_none() {
            self.changes.push(now);
        }
    }

    /// Returns whether the object may say something else for a moment: a call has failed.
    pub fn may_say_something_else(&self) -> bool {
        matches!(self.failure, Some((GateError::Call(_), _)))
    }

    /// Records that the decision could not be written.
    pub fn failed(&mut self, decision: &Decision, error: GateError, now: Instant) {
        self.failure = Some((error, decision.holds()));
        self.next_check = Some(now + jittered(RETRY));
    }

    /// Returns the report.
    pub fn report(&self, now: Instant) -> GateReport {
        let (status, reason, message) = self.describe(now);
        GateReport {
            is_of_olm: self.name.is_some(),
            status,
            reason,
            message,
            is_written: self.written.is_some() && self.failure.is_none(),
            ..GateReport::default()
        }
    }

    fn describe(&self, now: Instant) -> (&'static str, &'static str, String) {
        let name = self.name.as_deref().unwrap_or_default();
        if let Some((error, _)) = &self.failure {
            return ("False", error.reason(), error.to_string());
        }
        if self.written.is_none() {
            let message = format!("OperatorCondition {name} has not been checked yet");
            return ("Unknown", PENDING, message);
        }
        let recent = |change: &&Instant| now.duration_since(**change) < CONTEST;
        if self.changes.iter().filter(recent).count() >= CONTESTED {
            let message = format!(
                "another client changes the condition Upgradeable of OperatorCondition {name} again and again; it is \
                 corrected each time. Only this operator may write it: is it running twice, or is there a client \
                 that writes the object whole, or in version v1?"
            );
            return ("False", "Contested", message);
        }
        if let Some(status) = &self.overridden {
            let does = if status == "True" { "allows" } else { "holds" };
            let message = format!(
                "OLM {does} upgrades whatever the verdict is, because spec.overrides of OperatorCondition {name} \
                 overrides Upgradeable; remove that to have the verdict count again"
            );
            return ("True", "Overridden", message);
        }
        let Some(since) = self.unconfirmed_since else {
            let message = format!(
                "OperatorCondition {name} says what the verdict is, and OLM has processed it"
            );
            return ("True", "Confirmed", message);
        };
        if now >= since + CONFIRMED_WITHIN {
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
    use serde_json::{Value, json};

    use super::*;
    use crate::assess::report::Upgradeable;
    use crate::gate::condition::tests;

    fn decision(message: &str) -> Decision {
        tests::decision(Upgradeable::False, message)
    }

    const WRITTEN: bool = true;
    const AS_IT_WAS: bool = false;

    /// Returns the object, of which OLM has copied this generation or the one before.
    fn found(is_confirmed: bool, overrides: &Value) -> OperatorCondition {
        let mut ours = json!({"type": "Upgradeable", "status": "False"});
        let spec = json!({"conditions": [ours], "overrides": overrides});
        ours["observedGeneration"] = json!(if is_confirmed { 3 } else { 2 });
        tests::object(&spec, &json!({"conditions": [ours]}))
    }

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
            let found = (found(is_confirmed, &json!([])), is_changed);
            self.track.saw(decision(message), Some(&found), self.now)
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
        assert!(report.is_written);
        assert_eq!(rig.reports(), ("Unknown", "Pending"));
        assert_eq!(rig.pause(), SOON);
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
        rig.saw("n", WRITTEN, false);
        assert_eq!(rig.reports(), ("Unknown", "Pending"));
        while rig.now < late {
            rig.now = rig.track.next_check.unwrap();
            rig.saw("n", AS_IT_WAS, false);
        }
        assert!(rig.now < late + SOON, "it is checked just then");
        assert_eq!(rig.reports(), ("False", "NotConfirmed"));
        assert_eq!(rig.pause(), REASSERT, "and then now and again");
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
        assert_eq!(rig.pause(), SOON);
        rig.saw("n", AS_IT_WAS, true);
        assert_eq!(rig.pause(), REASSERT);
        rig.now += CONTEST;
        assert_eq!(rig.reports(), ("True", "Confirmed"));
        rig.saw("o", WRITTEN, true);
        assert_eq!(rig.pause(), REASSERT, "what was long ago hurries nobody");
    }

    #[test]
    fn an_override_is_reported_and_a_failure_before_all() {
        let mut rig = Rig::new();
        for (status, words) in [("True", "allows"), ("False", "holds"), ("Unknown", "holds")] {
            let overrides = json!([{"type": "Upgradeable", "status": status}]);
            let found = (found(true, &overrides), AS_IT_WAS);
            rig.track.saw(decision("m"), Some(&found), rig.now);
            assert_eq!(rig.reports(), ("True", "Overridden"));
            let message = rig.track.report(rig.now).message;
            assert!(message.contains(words), "{message}");
        }
        rig.track
            .failed(&decision("n"), GateError::NotServed, rig.now);
        assert_eq!(rig.reports(), ("False", "NotServed"));
        assert!(!rig.track.report(rig.now).is_written);
        let first = rig.pause();
        assert!(first >= RETRY.mul_f64(0.9));
        let is_due = rig.is_due("n", Duration::ZERO);
        assert!(!is_due, "news do not make it try sooner");
        assert!(rig.is_due("n", first));
        let open = tests::decision(Upgradeable::True, "m");
        rig.track.failed(&open, GateError::NotServed, rig.now);
        assert!(!rig.track.is_due(&open, rig.now));
        let closes = rig.is_due("n", Duration::ZERO);
        assert!(closes, "the object may say True");
        let is_disturbed = rig.saw("m", WRITTEN, true);
        assert!(!is_disturbed, "recreated after it was gone: nobody's doing");
        assert_eq!(rig.reports(), ("True", "Confirmed"));
    }
}
