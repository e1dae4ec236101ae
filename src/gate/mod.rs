//! The gate: our `Upgradeable` condition in the `OperatorCondition` that OLM asks before it upgrades the operator.
//!
//! [`Gate`] takes each verdict, [`GateTask`] writes. `decider` says what the condition shall say, `condition` what is to be
//! written for that, `report` how it stands; all three are pure.

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
use decider::{BRIEF_MOMENT, Decider};
pub use decider::{Decision, Judged};
pub use error::GateError;
pub use object::GateObject;
pub use report::GateReport;
pub use task::GateTask;

/// How long all else waits for the gate to be written: it comes first, but must not stop the rest.
const PRECEDENCE: Duration = Duration::from_secs(5);

/// Takes verdicts to the task that writes the gate, and reports from there.
pub struct Gate {
    decider: watch::Sender<Decider>,
    report: watch::Receiver<GateReport>,
}

impl Gate {
    /// The gate in that object, of a process that makes a single pass or goes on, and what writes it.
    #[must_use]
    pub fn new(object: GateObject, is_once: bool, metrics: Metrics) -> (Self, GateTask) {
        let decider = watch::Sender::new(Decider::new(Instant::now(), is_once));
        let task = GateTask::new(object, decider.clone(), metrics);
        let report = task.report.subscribe();
        (Self { decider, report }, task)
    }

    /// Takes in a verdict. Each is to be given here, also while nothing can be written: the channel keeps only the last
    /// decision, but what went from sight and came back holds the gate.
    pub fn judge(&self, judged: &Judged<'_>) {
        self.decider
            .send_modify(|decider| decider.judge(judged, Instant::now()));
    }

    /// How the gate stands.
    #[must_use]
    pub fn report(&self) -> GateReport {
        self.report.borrow().clone()
    }

    /// The same, for one who acts on it.
    #[must_use]
    pub fn take_report(&mut self) -> GateReport {
        self.report.borrow_and_update().clone()
    }

    /// Waits for a report that was not taken yet.
    pub async fn reported(&mut self) {
        if self.report.changed().await.is_err() {
            // The task has ended, and the work with it.
            std::future::pending::<()>().await;
        }
    }

    /// When to judge again though nothing is new.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.decider.borrow().due(Instant::now())
    }

    /// Whether it waits for the proof that what is known is the present.
    #[must_use]
    pub fn wants_proof(&self) -> bool {
        self.decider.borrow().wants_proof
    }

    /// Whether there is a report that was not taken yet.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.report.has_changed().unwrap_or(false)
    }

    /// Whether it opens so soon, if the verdict stands, that all else may wait for it.
    #[must_use]
    pub fn is_about_to_open(&self) -> bool {
        let soon = Instant::now() + BRIEF_MOMENT;
        let opens_at = self.decider.borrow().opens_at;
        opens_at.is_some_and(|at| at <= soon) && self.report.borrow().is_written()
    }

    /// Whether the condition says what was decided, no verdict waits to open it, and the last report was taken.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let decider = self.decider.borrow();
        decider.opens_at.is_none()
            && self.report.borrow().says(decider.decision.as_ref())
            && !self.has_news()
    }

    /// Waits, but not for long, until the condition says what was decided, or could not be written.
    pub async fn written(&self) {
        let decision = self.decider.borrow().decision.clone();
        let mut reports = self.report.clone();
        let written =
            reports.wait_for(|report| report.says(decision.as_ref()) || report.has_failed());
        // Whichever way it ends: the report says more.
        let _ = tokio::time::timeout(PRECEDENCE, written).await;
    }
}
