//! The gate: our `Upgradeable` condition in the `OperatorCondition` that OLM reads before it upgrades the operator.
//!
//! [`Gate`] reads, compares and writes. `decider` decides what the condition says, `condition` computes what to write, and
//! `report` tracks the state of the condition; all three are pure.

mod condition;
mod decider;
mod error;
mod object;
mod operations;
mod report;

use std::time::Instant;

use tokio::sync::watch;

use crate::http::Metrics;
use decider::{Decider, Judgement};
pub use decider::{Decision, Judged, Turned};
pub use error::GateError;
pub use object::GateObject;
pub use report::GateReport;
use report::Track;

/// Keeps the condition as the last verdict decides. OLM's role grants `get`, `update` and `patch` on the one object, but not
/// `watch`, so it is checked again and again.
pub struct Gate {
    object: GateObject,
    decider: Decider,
    track: Track,
    report: watch::Sender<GateReport>,
    metrics: Metrics,
}

impl Gate {
    /// Creates the gate in `object`, for a process that has just started.
    #[must_use]
    pub fn new(object: GateObject, metrics: Metrics) -> Self {
        let now = Instant::now();
        let track = Track::new(object.name.clone());
        Self {
            report: watch::Sender::new(track.report(now)),
            object,
            decider: Decider::default(),
            track,
            metrics,
        }
    }

    /// Returns the reports on the gate.
    #[must_use]
    pub fn reports(&self) -> watch::Receiver<GateReport> {
        self.report.subscribe()
    }

    /// Decides, and writes what differs. A `True` is written only while `opens` says that the latest verdict is True.
    /// Returns when to look again if nothing changes.
    pub async fn reconcile(&mut self, judged: &Judged<'_>, opens: impl Fn() -> bool) -> Instant {
        let now = Instant::now();
        let decision = self.decide(judged, now).decision;
        if self.track.is_due(&decision, now) {
            self.ensure(&decision, opens).await;
        }
        // Who found and wrote something decides anew.
        let now = Instant::now();
        let next = self.decide(judged, now);
        let is_done = !self.track.is_due(&next.decision, now);
        self.publish(GateReport {
            acted_on: is_done.then(|| judged.verdict.clone()),
            wants_lists: next.wants_lists,
            ..self.track.report(now)
        });
        if !is_done {
            return now;
        }
        let checks = self.track.next_check;
        next.due.into_iter().chain(checks).min().unwrap_or(now)
    }

    fn decide(&mut self, judged: &Judged<'_>, now: Instant) -> Judgement {
        self.decider.judge(judged, self.track.written(), now)
    }

    async fn ensure(&mut self, decision: &Decision, opens: impl Fn() -> bool) {
        // A `True` must not be written once the verdict is another, however slow the server is.
        let is_wanted = || decision.holds() || opens();
        let ensured = match self.find().await {
            Ok(()) => self.object.ensure(decision, is_wanted).await,
            Err(error) => Err(error),
        };
        let (name, now) = (&self.object.name, Instant::now());
        match ensured {
            Ok(None) => {}
            Ok(Some(check)) => {
                if check.is_changed {
                    let verdict = &decision.verdict;
                    tracing::info!(
                        "the OperatorCondition now says Upgradeable {} ({})",
                        verdict.upgradeable.as_str(),
                        verdict.reason.as_str()
                    );
                }
                if self.track.saw(decision.clone(), check, now) {
                    tracing::warn!(
                        "another client had changed the condition Upgradeable of OperatorCondition {name}; it is written again"
                    );
                }
            }
            Err(error) => {
                tracing::warn!("{error}");
                self.metrics.count_failed_write("OperatorCondition");
                self.track.failed(decision, &error, now);
            }
        }
    }

    /// Records what the condition says before it is written for the first time.
    async fn find(&mut self) -> Result<(), GateError> {
        if !self.decider.has_found() {
            self.decider.find(self.object.found().await?);
        }
        Ok(())
    }

    fn publish(&self, report: GateReport) {
        if report.is_written() || !report.is_pending() {
            self.metrics.show_gate(report.is_written());
        }
        self.report.send_if_modified(|before| {
            let differs = *before != report;
            *before = report;
            differs
        });
    }
}
