//! The gate: our `Upgradeable` condition in the `OperatorCondition` that OLM reads before it upgrades the operator. Without
//! OLM it decides as well: the status of `WindowsStorage` says what the gate says, and policies go by that.
//!
//! [`Gate`] reads, compares and writes. `decider` decides what the condition says, `condition` computes what to write, and
//! `report` tracks the state of the condition; all three are pure.

mod condition;
mod decider;
mod error;
mod object;
mod operations;
mod report;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Instant;

use tokio::sync::watch;

use crate::api::OperatorCondition;
use crate::http::Metrics;
use condition::allows;
pub use decider::{AFTER_LISTS, Decision, Judged, Turned, is_held};
use decider::{Decider, Judgement};
pub use error::GateError;
pub use object::GateObject;
pub use report::GateReport;
use report::Track;

/// Keeps the condition as the last verdict decides. OLM's role grants `get`, `update` and `patch` on the one object, but not
/// `watch`, so it is checked again and again.
pub struct Gate {
    /// `None` without OLM.
    object: Option<GateObject>,
    decider: Decider,
    /// "A process that finds False waits the minute": whether this one found that, once it has read the object. Until then,
    /// and without an object, the status of `WindowsStorage` stands in, for it says what the gate decides.
    found_held: Option<bool>,
    track: Track,
    report: watch::Sender<GateReport>,
    metrics: Metrics,
}

impl Gate {
    /// Creates the gate in `object`, for a process that has just started.
    pub fn new(object: Option<GateObject>, metrics: Metrics) -> Self {
        let now = Instant::now();
        let track = Track::new(object.as_ref().map(|object| object.name.clone()));
        Self {
            report: watch::Sender::new(track.report(now)),
            object,
            decider: Decider::default(),
            found_held: None,
            track,
            metrics,
        }
    }

    /// Returns the reports on the gate.
    pub fn reports(&self) -> watch::Receiver<GateReport> {
        self.report.subscribe()
    }

    /// Decides, and writes what differs. A `True` is written only while `opens` says that the verdict has been True ever
    /// since, and the nodes being changed are the same. Returns when to look again if nothing changes.
    pub async fn reconcile(&mut self, judged: &Judged, opens: impl Fn() -> bool) -> Instant {
        // Once more where another client has changed what allowed upgrades: that is held at once.
        while self.tell(judged, &opens).await {}
        if self.track.may_say_something_else() {
            self.decider.begin_operations_anew();
        }
        // Who found and wrote something decides anew.
        let now = Instant::now();
        let next = self.decide(judged, now);
        let is_done = !self.track.is_due(&next.decision, now);
        self.publish(GateReport {
            knows: if is_done && !self.track.may_say_something_else() {
                judged.in_progress.clone()
            } else {
                BTreeSet::new()
            },
            wants_lists: next.wants_lists,
            decided: is_done.then(|| (judged.verdict.clone(), next.decision)),
            ..self.track.report(now)
        });
        if !is_done {
            return now;
        }
        let checks = self.track.next_check;
        next.due.into_iter().chain(checks).min().unwrap_or(now)
    }

    /// Writes what differs from the decision. Returns whether another client has changed what allowed upgrades.
    async fn tell(&mut self, judged: &Judged, opens: &impl Fn() -> bool) -> bool {
        let now = Instant::now();
        let judgement = self.decide(judged, now);
        if !self.track.is_due(&judgement.decision, now) {
            return false;
        }
        if !judgement.decision.holds() {
            // Before `opens` is asked: work that begins on a node is seen here, or the node waits for this to be done.
            self.report
                .send_if_modified(|report| !std::mem::take(&mut report.knows).is_empty());
        }
        self.ensure(&judgement, opens).await
    }

    fn decide(&mut self, judged: &Judged, now: Instant) -> Judgement {
        let was_held = self.found_held.or(judged.was_held);
        self.decider
            .judge(judged, was_held, self.track.written(), now)
    }

    async fn ensure(&mut self, judgement: &Judgement, opens: impl Fn() -> bool) -> bool {
        let decision = &judgement.decision;
        let is_lost = Cell::new(false);
        // A `True` must not be written once the verdict is another, however slow the server is.
        let is_wanted = || decision.holds() || opens();
        let Some(object) = &self.object else {
            if is_wanted() {
                let now = Instant::now();
                self.track.saw(decision.clone(), None, now);
            }
            return false;
        };
        let is_wanted_over = |found: &OperatorCondition| {
            // What stays open rests on lists from before.
            is_lost.set(!decision.holds() && !judgement.opens && !allows(found));
            is_wanted() && !is_lost.get()
        };
        let ensuring = async {
            if self.found_held.is_none() {
                self.found_held = Some(object.holds().await? == Some(true));
                return Ok(None);
            }
            object.ensure(decision, is_wanted_over).await
        };
        let ensured = ensuring.await;
        let (name, now) = (&object.name, Instant::now());
        match ensured {
            Ok(None) if is_lost.get() => {
                tracing::warn!(
                    "another client had changed the condition Upgradeable of OperatorCondition {name}; it says False until \
                     everything has been listed anew"
                );
                self.track.lost(now);
                self.decider.close(now);
            }
            Ok(None) => {}
            Ok(Some(found)) => {
                let (_, is_changed) = &found;
                if *is_changed {
                    let verdict = &decision.verdict;
                    tracing::info!(
                        "the OperatorCondition now says Upgradeable {} ({})",
                        verdict.upgradeable.as_str(),
                        verdict.reason.as_str()
                    );
                }
                if self.track.saw(decision.clone(), Some(&found), now) {
                    tracing::warn!(
                        "another client had changed the condition Upgradeable of OperatorCondition {name}; it is written again"
                    );
                }
            }
            Err(error) => {
                tracing::warn!("{error}");
                self.metrics.count_failed_write("OperatorCondition");
                self.track.failed(decision, error, now);
            }
        }
        is_lost.get()
    }

    fn publish(&self, report: GateReport) {
        if report.is_of_olm && (report.is_written || !report.is_pending()) {
            self.metrics.show_gate(report.is_written);
        }
        self.report.send_if_modified(|before| {
            let differs = *before != report;
            *before = report;
            differs
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::assess::report::{Reason, Upgradeable, Verdict};
    use crate::client::Revisions;
    use crate::client::answering::{answering, failure};
    use crate::index::Listed;

    fn ago(seconds: u64) -> Instant {
        let now = Instant::now();
        now.checked_sub(Duration::from_secs(seconds)).unwrap()
    }

    /// What is judged by a process that started then, and has found True ever since.
    fn open_since(start: Instant) -> Judged {
        let verdict = Verdict {
            upgradeable: Upgradeable::True,
            reason: Reason::DriversRegistered,
            message: String::new(),
        };
        let mut turned = Turned::new(start);
        turned.note(&verdict, true, start);
        Judged {
            verdict,
            turned,
            at: Instant::now(),
            lists: Vec::new(),
            gone: None,
            in_progress: BTreeSet::new(),
            was_held: Some(false),
        }
    }

    fn object(status: &str) -> Value {
        let ours = json!({"type": "Upgradeable", "status": status, "reason": "DriversMissing",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        json!({"apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
            "metadata": {"name": "gate", "resourceVersion": "1"},
            "spec": {"conditions": [ours]}})
    }

    /// Returns the gate in an object of a server that answers this.
    fn gate_of(answer: impl Fn() -> (u16, Value) + Send + Sync + 'static) -> Gate {
        let client = answering(move |_, _, _| answer());
        let revisions = Revisions::default();
        let object = GateObject::new(client, "default", "gate".to_owned(), revisions);
        Gate::new(Some(object), Metrics::default())
    }

    #[tokio::test]
    async fn without_olm_it_decides_as_with_it_and_reports_on_no_object() {
        let open = open_since(ago(9));
        let mut gate = Gate::new(None, Metrics::default());
        let reports = gate.reports();
        for (begun, was_held, holds) in [
            (8, None, true),
            (10, Some(false), true),
            (8, Some(true), true),
            (8, Some(false), false),
            (10, Some(false), false),
        ] {
            let (begun, ended) = (ago(begun), ago(2));
            let judged = Judged {
                lists: vec![("Pod", Some(Listed { begun, ended }))],
                was_held,
                ..open.clone()
            };
            gate.reconcile(&judged, || true).await;
            let report = reports.borrow().clone();
            assert!(!report.is_of_olm);
            assert_eq!(report.decided.unwrap().1.holds(), holds, "{was_held:?}");
            assert_eq!(report.wants_lists.is_some(), holds && begun < ago(9));
        }
    }

    #[tokio::test]
    async fn what_it_knows_to_be_changed_is_held_and_it_knows_nothing_while_it_opens() {
        let open = open_since(Instant::now());
        let mut gate = Gate::new(None, Metrics::default());
        let reports = gate.reports();
        let nobody = BTreeSet::new();
        let node = BTreeSet::from(["win-1".to_owned()]);
        for (in_progress, opens) in [(&node, true), (&nobody, false), (&nobody, true)] {
            let judged = Judged {
                at: Instant::now() + AFTER_LISTS,
                in_progress: in_progress.clone(),
                ..open.clone()
            };
            let may_open = || {
                assert!(reports.borrow().knows.is_empty(), "work may begin");
                opens
            };
            gate.reconcile(&judged, may_open).await;
            let report = reports.borrow().clone();
            assert_eq!(report.knows, *in_progress);
            let is_open = report.decided.is_some_and(|(_, decided)| !decided.holds());
            assert_eq!(is_open, in_progress.is_empty() && opens);
        }
    }

    /// Policies go by the status of `WindowsStorage`, which says what is decided: a failed write opens nothing.
    #[tokio::test]
    async fn what_is_decided_stands_while_it_cannot_be_written_and_no_node_is_worked_on() {
        let answer = Arc::new(Mutex::new(failure(500)));
        let answered = Arc::clone(&answer);
        let mut gate = gate_of(move || answered.lock().unwrap().clone());
        let reports = gate.reports();
        let node = BTreeSet::from(["win-1".to_owned()]);
        let mut judged = Judged {
            gone: Some(ago(8)),
            ..open_since(ago(100))
        };
        let mut decided = async |judged: &Judged, answered: (u16, Value)| {
            *answer.lock().unwrap() = answered;
            gate.track.next_check = None;
            let mut report = GateReport::default();
            for _ in 0..3 {
                gate.reconcile(judged, || true).await;
                report = reports.borrow().clone();
            }
            (
                report.is_written,
                report.decided.map(|(_, it)| it.holds()),
                report.knows,
            )
        };
        let nobody = BTreeSet::new();
        let odd = json!({"metadata": {"name": "gate"}, "spec": {"conditions": "none"}});
        decided(&judged, (200, odd)).await;
        let told = reports.borrow().message.clone();
        assert!(told.contains("field spec.conditions"), "{told}");
        let failed = decided(&judged, failure(500)).await;
        assert_eq!(failed, (false, Some(true), nobody.clone()), "it is gone");
        judged.gone = None;
        let absent = decided(&judged, failure(404)).await;
        assert_eq!(absent, (false, Some(false), nobody.clone()));
        // What it says counts once it can be read, also where something else stood in.
        let read = decided(&judged, (200, object("False"))).await;
        let open = (true, Some(false), nobody.clone());
        assert_eq!(read, open, "the minute is over");
        judged.in_progress = node.clone();
        let unsaid = decided(&judged, failure(500)).await;
        assert_eq!(unsaid, (false, Some(true), nobody), "it still says True");
        let nowhere = decided(&judged, failure(404)).await;
        let held = (false, Some(true), node);
        assert_eq!(nowhere, held, "there is nothing to say it");
    }

    #[tokio::test]
    async fn a_process_that_finds_false_waits_the_minute_whatever_stood_in() {
        for (says, holds) in [("False", true), ("True", false)] {
            let mut gate = gate_of(move || (200, object(says)));
            let judged = Judged {
                was_held: Some(!holds),
                ..open_since(ago(9))
            };
            for _ in 0..3 {
                gate.reconcile(&judged, || true).await;
            }
            let decided = gate.reports().borrow().decided.clone();
            assert_eq!(decided.unwrap().1.holds(), holds, "{says}");
        }
    }
}
