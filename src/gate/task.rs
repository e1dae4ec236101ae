//! Keeps the condition as decided: writes it, retries failures, and checks it periodically. OLM's role grants `get`,
//! `update` and `patch` on the one object, but not `watch`.

use std::convert::Infallible;
use std::time::Instant;

use tokio::sync::watch;

use crate::gate::decider::Decider;
use crate::gate::report::{REASSERT, Track};
use crate::gate::{Decision, GateError, GateObject, GateReport};
use crate::http::Metrics;

/// The task that writes the gate.
pub struct GateTask {
    object: GateObject,
    decider: watch::Sender<Decider>,
    track: Track,
    pub(super) report: watch::Sender<GateReport>,
    metrics: Metrics,
}

impl GateTask {
    pub(super) fn new(
        object: GateObject,
        decider: watch::Sender<Decider>,
        metrics: Metrics,
    ) -> Self {
        let track = Track::new(object.name.clone());
        Self {
            report: watch::Sender::new(track.report(Instant::now())),
            object,
            decider,
            track,
            metrics,
        }
    }

    /// Writes the decisions for as long as this is polled.
    pub async fn run(mut self) -> Infallible {
        let mut decider = self.decider.subscribe();
        loop {
            let decision = decider.borrow_and_update().decision.clone();
            let now = Instant::now();
            if let Some(decision) = decision.filter(|decision| self.track.is_due(decision, now)) {
                self.ensure(decision).await;
                continue;
            }
            let next_check = self.track.next_check.unwrap_or(now + REASSERT);
            tokio::select! {
                // Never closed: `self` has the sender.
                _ = decider.changed() => {}
                () = tokio::time::sleep_until(next_check.into()) => {}
            }
        }
    }

    async fn ensure(&mut self, decision: Decision) {
        // A `True` must not be written once a `False` was decided, however slow the server is.
        let decider = &self.decider;
        let is_wanted = || {
            let now = decider.borrow();
            decision.holds() || now.decision.as_ref().is_some_and(|now| !now.holds())
        };
        let ensured = match self.find().await {
            Ok(()) => self.object.ensure(&decision, is_wanted).await,
            Err(error) => Err(error),
        };
        let (name, now) = (&self.object.name, Instant::now());
        match ensured {
            Ok(None) => return,
            Ok(Some(check)) => {
                if check.is_changed {
                    let verdict = &decision.verdict;
                    tracing::info!(
                        "the OperatorCondition now says Upgradeable {} ({})",
                        verdict.upgradeable.as_str(),
                        verdict.reason.as_str()
                    );
                }
                self.decider.send_if_modified(|decider| {
                    decider.wrote(decision.clone());
                    false
                });
                if self.track.saw(decision, check, now) {
                    tracing::warn!(
                        "another client had changed the condition Upgradeable of OperatorCondition {name}; it is written again"
                    );
                }
            }
            Err(error) => {
                tracing::warn!("{error}");
                self.metrics.count_failed_write("OperatorCondition");
                self.track.failed(&decision, &error, now);
            }
        }
        let report = self.track.report(now);
        self.metrics.show_gate(report.is_written());
        self.report.send_if_modified(|before| {
            let differs = *before != report;
            *before = report;
            differs
        });
    }

    /// Records what the condition says before it is written for the first time.
    async fn find(&self) -> Result<(), GateError> {
        if !self.decider.borrow().has_found() {
            let found = self.object.found().await?;
            self.decider.send_if_modified(|decider| {
                decider.find(found);
                false
            });
        }
        Ok(())
    }
}
