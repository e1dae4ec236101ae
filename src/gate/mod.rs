//! The gate: our `Upgradeable` condition in the `OperatorCondition` that OLM reads before it upgrades the operator.
//!
//! [`Gate`] takes each verdict, [`GateTask`] writes. `decider` decides what the condition says, `condition` computes what to
//! write, and `report` tracks the state of the condition; all three are pure.

mod condition;
mod decider;
mod error;
mod object;
mod operations;
mod report;
mod task;

use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::http::Metrics;
use decider::Decider;
pub use decider::{Decision, Judged};
pub use error::GateError;
pub use object::GateObject;
pub use report::GateReport;
pub use task::GateTask;

/// How long all other work waits for the gate to be written: the gate comes first, but must not block the rest.
const PRECEDENCE: Duration = Duration::from_secs(5);

/// Passes verdicts to the task that writes the gate, and returns that task's reports.
pub struct Gate {
    decider: watch::Sender<Decider>,
    report: watch::Receiver<GateReport>,
}

impl Gate {
    /// Creates the gate in `object`, and the task that writes it.
    #[must_use]
    pub fn new(object: GateObject, metrics: Metrics) -> (Self, GateTask) {
        let decider = watch::Sender::new(Decider::new(Instant::now()));
        let task = GateTask::new(object, decider.clone(), metrics);
        let report = task.report.subscribe();
        (Self { decider, report }, task)
    }

    /// Processes a verdict. Every verdict must be passed, even while nothing can be written: the channel keeps only the last
    /// decision, but something that disappeared and came back holds the gate.
    pub fn judge(&self, judged: &Judged<'_>) {
        self.decider
            .send_modify(|decider| decider.judge(judged, Instant::now()));
    }

    /// Returns the last report.
    #[must_use]
    pub fn report(&self) -> GateReport {
        self.report.borrow().clone()
    }

    /// Returns the last report and marks it as taken.
    #[must_use]
    pub fn take_report(&mut self) -> GateReport {
        self.report.borrow_and_update().clone()
    }

    /// Waits for a report that was not taken yet.
    pub async fn reported(&mut self) {
        if self.report.changed().await.is_err() {
            // The task has ended, so no report will follow.
            std::future::pending::<()>().await;
        }
    }

    /// Returns when to judge again if nothing changes.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.decider.borrow().due(Instant::now())
    }

    /// Returns since when lists are wanted to open the gate, if it waits for them.
    #[must_use]
    pub fn wants_lists(&self) -> Option<Instant> {
        self.decider.borrow().wants_lists(Instant::now())
    }

    /// Returns whether there is a report that was not taken yet.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.report.has_changed().unwrap_or(false)
    }

    /// Waits briefly until the condition says what was decided, or could not be written.
    pub async fn written(&self) {
        let decision = self.decider.borrow().decision.clone();
        let mut reports = self.report.clone();
        let written =
            reports.wait_for(|report| report.says(decision.as_ref()) || report.has_failed());
        // The result does not matter: the report says more.
        let _ = tokio::time::timeout(PRECEDENCE, written).await;
    }
}
