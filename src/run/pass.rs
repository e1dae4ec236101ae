//! One reconcile pass: assesses the cluster, then lets each actor write what differs.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::api::SETTINGS_NAME;
use crate::client::deadline::{self, CallError};
use crate::gate::{Gate, Judged};
use crate::node::{NodePlan, Reason};
use crate::run::decide::{Left, LeftOver, News, Todo};
use crate::run::retries::What;
use crate::run::{Controller, services};
use crate::status::{NodeStatus, Outcome, rollout_condition};

/// How long one pass removes leftovers of deleted nodes.
const REMOVALS: Duration = Duration::from_secs(1);

impl Controller {
    /// Judges and acts. Each failed write is retried on its own.
    pub(super) async fn pass(&mut self) {
        // Process finished writes before any decision, so that decisions are based on what was written.
        while let Some((node, outcome)) = self.status.nodes.try_next() {
            self.note_node(node, outcome);
        }
        // It may take long in a large cluster: other tasks go on meanwhile.
        let mut todo = tokio::task::block_in_place(|| self.judge());
        self.show(&todo);
        if let Some(blocked) = todo.blocked.take() {
            let (status, now) = (&mut self.status, Instant::now());
            status.blocked.publish(&status.events, blocked, now);
        }
        self.write_gate_first(&todo).await;
        self.want_lists();
        if todo.knows_configuration {
            self.write_services().await;
        }
        // The status includes the state of the gate. If that is new, the next pass follows at once.
        let has_news = self.gate.as_ref().is_some_and(Gate::has_news);
        if !has_news {
            self.store_settings(&todo).await;
            let stored = self.decisions.stored_in_progress(&self.shared.read());
            self.slots.hand_out(&stored);
            if todo.knows_configuration {
                self.assign();
            }
        }
        self.retries.retain(|what| todo.has(what));
        let may_try = |node: &NodeStatus| self.may_try(&What::NodeStatus(node.name.clone()));
        let nodes: Vec<NodeStatus> = todo.nodes.into_iter().filter(may_try).collect();
        self.status.nodes.write(nodes.into_iter());
        self.remove_left(&todo.left).await;
    }

    /// Writes the status of `WindowsStorage` if it differs.
    async fn store_settings(&mut self, todo: &Todo) {
        let Some((previous, status)) = &todo.settings else {
            return;
        };
        if !self.may_try(&What::Settings) {
            return;
        }
        let written = self.status.write_settings(previous.as_ref(), status).await;
        let noted = written.map(|written| {
            let unseen = &mut self.decisions.unseen.settings;
            *unseen = written.or(unseen.take());
        });
        self.note(What::Settings, noted);
    }

    fn judge(&mut self) -> Todo {
        let started = Instant::now();
        let before = self.decisions.verdict().cloned();
        let todo = self.decisions.update(
            &self.shared.read(),
            &News {
                observations: &self.observations.read(),
                services_problem: self.services_problem.clone(),
                gate: self.gate.as_mut().map(Gate::take_report),
                slots: &self.slots,
                kubernetes_version: &self.kubernetes_version.borrow_and_update(),
                settling: self.settled_at > started,
                now: Timestamp::now(),
                instant: started,
            },
        );
        self.judging = started.elapsed();
        self.levels.set(self.decisions.spec.log_level);
        let (statuses, took_ms) = (todo.nodes.len(), self.judging.as_millis());
        tracing::debug!(statuses, took_ms, "judged");
        let verdict = &todo.verdict;
        if before.as_ref() != Some(verdict) {
            let (upgradeable, reason) = (verdict.upgradeable.as_str(), verdict.reason.as_str());
            let message = &verdict.message;
            tracing::info!(upgradeable, reason, "verdict: {message}");
        }
        todo
    }

    /// Writes the gate before anything else.
    async fn write_gate_first(&mut self, todo: &Todo) {
        let Some(gate) = &mut self.gate else {
            return;
        };
        let in_progress = self.decisions.in_progress(&self.slots);
        gate.judge(&Judged {
            verdict: &todo.verdict,
            is_readable: todo.is_readable,
            lists: &todo.lists,
            gone: todo.gone,
            in_progress: &in_progress,
        });
        gate.written().await;
    }

    /// Asks for lists that the gate, a removal or a release waits for.
    fn want_lists(&mut self) {
        let now = Instant::now();
        let by_gate = self.gate.as_ref().and_then(Gate::wants_lists);
        let wanted = by_gate.max(self.decisions.wants_lists(now));
        self.lists_due = wanted.and_then(|since| self.lists.want(since, now));
    }

    fn show(&self, todo: &Todo) {
        let metrics = &self.shown.metrics;
        let report = &self.decisions.report;
        let nodes = (report.windows.len(), self.decisions.ready);
        metrics.show_verdict(&todo.verdict, &report.blocking_by_driver(), nodes);
        metrics.show_upgraded_while_held(self.decisions.is_upgraded_while_held);
        let rollout = &self.decisions.rollout;
        let managed = self.decisions.has_rollout();
        let cluster = self.shared.read();
        let settings = cluster.settings.get(SETTINGS_NAME);
        let status = settings.and_then(|object| object.status.clone());
        drop(cluster);
        let said = rollout_condition(&status.unwrap_or_default(), rollout, "", managed);
        metrics.show_rollout(&said.reason, rollout);
        let observations = self.observations.read();
        let plans = self.decisions.plans.iter();
        let problems = plans.filter_map(|(node, plan)| match plan {
            NodePlan::External(_)
            | NodePlan::Undecided(_)
            | NodePlan::RemovalWaits(_)
            | NodePlan::Absent(_)
            | NodePlan::Waiting => None,
            NodePlan::Blocked(error)
            | NodePlan::Release(_, Err(error))
            | NodePlan::Remove(_, Err(error)) => Some(error),
            NodePlan::Reconcile(_) | NodePlan::Release(_, Ok(_)) | NodePlan::Remove(_, Ok(_)) => {
                observations.get(node)?.problem.as_ref()
            }
        });
        // Nodes that stay as they are because the administrator wants so do not count as failing.
        let reasons = problems.map(|error| error.reason);
        let failing = reasons.filter(|reason| *reason != Reason::OtherVersion);
        metrics.show_failing_nodes(failing);
    }

    async fn write_services(&mut self) {
        match &self.decisions.services {
            // Wait for the watch to deliver the last write; otherwise the plan would write it again.
            Ok(_) if self.shared.read().config_maps.version() < self.services_written => {}
            Ok(step) if self.may_try(&What::Services) => {
                let written = services::write(&self.config_maps, step).await;
                // A conflict is not a fault: the next pass plans again from what the other client wrote.
                let fault = written.as_ref().err().filter(|error| !error.is_conflict());
                self.services_problem = fault.map(ToString::to_string);
                let noted = written.map(|version| {
                    self.services_written = version.unwrap_or(self.services_written);
                });
                self.note(What::Services, noted);
            }
            Ok(_) => {}
            Err(error) => {
                self.retries.done(&What::Services);
                tracing::debug!(%error, "ConfigMap windows-services cannot be used");
            }
        }
    }

    fn assign(&mut self) {
        let decisions = &self.decisions;
        self.workers
            .assign(&decisions.plans, &decisions.rollout.slots);
    }

    async fn remove_left(&mut self, left: &[Left]) {
        let started = Instant::now();
        for left in left {
            let what = What::Removal(left.node.clone());
            // The next pass handles the rest. It comes when the index learns of the removals.
            if started.elapsed() > REMOVALS || !self.may_try(&what) {
                continue;
            }
            match self.remove(left).await {
                Ok(()) => self.retries.done(&what),
                Err(problem) => self.note_failure(what, problem),
            }
        }
    }

    async fn remove(&self, Left { node, what }: &Left) -> Result<(), String> {
        let describe = |error: CallError| error.to_string();
        if *what == LeftOver::Key {
            let unpinned = self.pins.remove(node).await;
            return unpinned.map_err(|error| error.to_string());
        }
        if *what == LeftOver::StatusAndKey {
            let read = deadline::call("read Node", self.nodes.get_metadata_opt(node)).await;
            if read.map_err(describe)?.is_some() {
                // It is back, or the watch lags behind: the next pass knows more.
                return Ok(());
            }
            let unpinned = self.pins.remove(node).await;
            unpinned.map_err(|error| error.to_string())?;
        }
        self.status.nodes.remove(node).await.map_err(describe)?;
        if *what == LeftOver::StatusAndKey {
            tracing::info!(
                node,
                "the node was deleted: its host key and its status are deleted"
            );
        }
        Ok(())
    }

    fn may_try(&self, what: &What) -> bool {
        self.retries.may_try(what, Instant::now())
    }

    /// Records the result of writing a node's status, to retry a failure later.
    pub(super) fn note_node(&mut self, node: String, outcome: Outcome) {
        let noted = outcome.map(|written| {
            let written = written.map(|written| (node.clone(), written));
            self.decisions.unseen.nodes.extend(written);
        });
        self.note(What::NodeStatus(node), noted);
    }

    /// Records the result of a write, to retry a failure later. The next pass checks whether what was written is what
    /// it decides.
    pub(super) fn note(&mut self, what: What, outcome: Result<(), CallError>) {
        let Err(error) = outcome else {
            self.retries.done(&what);
            return;
        };
        let hint = match (error.status(), &what) {
            (Some(404), What::Services) => {
                "; is the operator's namespace there? kubectl apply -f manifests/namespace.yaml"
            }
            (Some(404), _) => {
                "; are the custom resource definitions installed? kubectl apply -k crds"
            }
            // How an API server answers for unknown fields or values.
            (Some(422 | 500), What::Settings | What::NodeStatus(_)) => {
                "; are the custom resource definitions those of this operator? kubectl apply -k crds"
            }
            _ => "",
        };
        self.note_failure(what, format!("{error}{hint}"));
    }

    fn note_failure(&mut self, what: What, problem: String) {
        self.shown.metrics.count_failed_write(what.target());
        tracing::warn!("{problem}");
        self.retries.failed(what, problem, Instant::now());
    }
}
