//! One pass: judge what is known, then let each actor write what differs.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::deadline::{self, CallError};
use crate::gate::{Gate, Judged};
use crate::node::NodePlan;
use crate::run::decide::{Left, News, Todo};
use crate::run::retries::What;
use crate::run::{Controller, services};
use crate::status::NodeStatus;

/// How long one pass goes from node to node to remove what is left of those that are gone.
const REMOVALS: Duration = Duration::from_secs(1);

impl Controller {
    /// Judges and acts. What could not be written is tried again later, each for itself.
    pub(super) async fn pass(&mut self) {
        // Before anything is decided, so that it rests on what was written.
        while let Some((node, outcome)) = self.status.nodes.try_next() {
            self.note(What::NodeStatus(node), outcome);
        }
        let mut todo = self.judge();
        self.show(&todo);
        if let Some(blocked) = todo.blocked.take() {
            let (status, now) = (&mut self.status, Instant::now());
            status.blocked.publish(&status.events, blocked, now);
        }
        if self.write_gate_first(&todo).await {
            return;
        }
        if todo.knows_configuration {
            self.write_services().await;
        }
        if todo.assign {
            self.assign();
        }
        self.forget_retries(&todo);
        self.write_nodes(todo.nodes);
        self.remove_left(&todo.left).await;
        if let Some((previous, status)) = &todo.settings
            && self.may_try(&What::Settings)
        {
            let written = self.status.write_settings(previous.as_ref(), status).await;
            self.note(What::Settings, written);
        }
    }

    fn judge(&mut self) -> Todo {
        let started = Instant::now();
        let before = self.decisions.verdict().cloned();
        let observed = self.observations.take_changed();
        let todo = self.decisions.update(
            &mut self.shared.read(),
            &News {
                observations: &self.observations.read(),
                observed,
                services_problem: self.services_problem.clone(),
                gate: self.gate.as_mut().map(Gate::take_report),
                slots: &self.slots,
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

    /// Has the gate written before all else. Says whether it opens so soon that all else is to be decided again after it.
    async fn write_gate_first(&mut self, todo: &Todo) -> bool {
        let Some(gate) = &mut self.gate else {
            return false;
        };
        let mut in_progress = self.slots.in_progress();
        in_progress.extend(self.decisions.maybe_in_progress.iter().cloned());
        gate.judge(&Judged {
            verdict: &todo.verdict,
            is_fresh: todo.is_fresh,
            departures: todo.departures,
            in_progress: &in_progress,
        });
        gate.written().await;
        gate.is_about_to_open()
    }

    fn show(&self, todo: &Todo) {
        let metrics = &self.shown.metrics;
        let assessment = &self.decisions.assessment;
        let nodes = (assessment.windows_nodes().len(), self.decisions.ready.len());
        metrics.show_verdict(&todo.verdict, &assessment.blocking_by_driver(), nodes);
        if !todo.has_news_of_nodes {
            return;
        }
        let observations = self.observations.read();
        let plans = self.decisions.plans.iter();
        let problems = plans.filter_map(|(node, plan)| match plan {
            NodePlan::External | NodePlan::Waiting => None,
            NodePlan::Blocked(error) => Some(error),
            NodePlan::Reconcile(_) => observations.get(node)?.problem.as_ref(),
        });
        metrics.show_failing_nodes(problems.map(|error| error.reason));
    }

    async fn write_services(&mut self) {
        match &self.decisions.services {
            Ok(step) if self.may_try(&What::Services) => {
                let written = services::write(&self.config_maps, &self.shared, step).await;
                // A conflict is no fault: the next pass plans again from what another has written.
                let fault = written.as_ref().err().filter(|error| !error.is_conflict());
                self.services_problem = fault.map(ToString::to_string);
                self.note(What::Services, written);
            }
            Ok(_) => {}
            Err(error) => {
                self.retries.done(&What::Services);
                tracing::debug!(%error, "ConfigMap windows-services cannot be used");
            }
        }
    }

    fn assign(&mut self) {
        let decisions = &mut self.decisions;
        let interval = Duration::from_secs(decisions.spec.probe_interval_seconds.into());
        self.workers
            .assign(&decisions.plans, &decisions.rollout.slots, interval);
        decisions.is_unassigned = false;
    }

    /// What need not be written any more, because another client has or things are as before, need not be tried again.
    fn forget_retries(&mut self, todo: &Todo) {
        let open = &self.decisions.open;
        self.retries.retain(|what| match what {
            What::NodeStatus(node) => open.contains(node),
            What::Removal(node) => todo.left.iter().any(|left| left.node == *node),
            What::Settings => todo.settings.is_some(),
            What::Services => true,
        });
    }

    /// Begins to write statuses, as many as there is room for. Each that ends brings another pass.
    fn write_nodes(&mut self, decided: Vec<NodeStatus>) {
        for node in decided {
            // During a write to the node a later pass decides: what is there is not what was decided from.
            if self.status.nodes.may_begin(&node.name)
                && self.may_try(&What::NodeStatus(node.name.clone()))
            {
                self.status.nodes.begin(node);
            }
        }
    }

    async fn remove_left(&mut self, left: &[Left]) {
        let started = Instant::now();
        for left in left {
            let what = What::Removal(left.node.clone());
            // The rest is left to the next pass, which comes when the index hears of what was removed.
            if started.elapsed() > REMOVALS || !self.may_try(&what) {
                continue;
            }
            match self.remove(left).await {
                Ok(()) => self.retries.done(&what),
                Err(problem) => self.note_failure(what, problem),
            }
        }
    }

    async fn remove(&self, Left { node, is_gone }: &Left) -> Result<(), String> {
        let describe = |error: CallError| error.to_string();
        if *is_gone {
            let read = deadline::call("read Node", self.nodes.get_metadata_opt(node)).await;
            if read.map_err(describe)?.is_some() {
                // It is back, or the watch is behind: the next pass knows more.
                return Ok(());
            }
            let unpinned = self.pins.remove(node).await;
            unpinned.map_err(|error| error.to_string())?;
        }
        self.status.nodes.remove(node).await.map_err(describe)?;
        if *is_gone {
            tracing::info!(
                node,
                "the node has left: its host key and its status are forgotten"
            );
        }
        Ok(())
    }

    fn may_try(&self, what: &What) -> bool {
        self.retries.may_try(what, Instant::now())
    }

    /// Remembers what failed, to try it again later. Of what was written the next pass sees whether it is what it decides.
    pub(super) fn note(&mut self, what: What, outcome: Result<(), CallError>) {
        let Err(error) = outcome else {
            self.retries.done(&what);
            return;
        };
        let hint = match (error.is_not_found(), &what) {
            (false, _) => "",
            (true, What::Services) => {
                "; is the operator's namespace there? kubectl apply -f manifests/namespace.yaml"
            }
            (true, _) => "; are the custom resource definitions installed? kubectl apply -k crds",
        };
        self.note_failure(what, format!("{error}{hint}"));
    }

    fn note_failure(&mut self, what: What, problem: String) {
        self.shown.metrics.count_failed_write(what.target());
        tracing::warn!("{problem}");
        self.retries.failed(what, problem, Instant::now());
    }
}
