//! One pass: judge what is known, then let each actor write what differs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::Instrument;

use crate::assess::report::Verdict;
use crate::deadline::{self, CallError};
use crate::gate::{Change, Gate, Judged};
use crate::node::NodePlan;
use crate::run::Controller;
use crate::run::decide::{News, NodeDecision, Todo};
use crate::serve::TARGETS;
use crate::status::{NodeStatus, Written};
use crate::traces::ONLY_TRACED;

/// How long one pass waits for statuses of nodes that are being written, before the next one looks at the gate again:
/// the gate must not wait for thousands of them.
const WRITES: Duration = Duration::from_millis(200);
/// How long one pass goes from node to node to remove what is left of those that are gone.
const REMOVALS: Duration = Duration::from_secs(1);
/// How long a verdict stands while something that it rests on cannot be read: a restart of the API server is over by then.
const STALE: Duration = Duration::from_secs(120);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_GATE_PAUSE: Duration = Duration::from_secs(12);
const GATE_TARGET: &str = "OperatorCondition";
const SERVICES_TARGET: &str = "ConfigMap/windows-services";
const SETTINGS_TARGET: &str = "WindowsStorage/cluster";

impl Controller {
    /// Judges and acts. What could not be written is tried again later, each for itself.
    pub(super) async fn pass(&mut self) {
        let span = tracing::error_span!(target: ONLY_TRACED, "pass");
        self.judge_and_act().instrument(span).await;
    }

    async fn judge_and_act(&mut self) {
        let known = self.decisions.told().cloned();
        self.unfinished = false;
        // Before anything is decided, so that it rests on what was written.
        while let Some(written) = self.status.nodes.ended_already() {
            self.note_node(written);
        }
        let todo = self.judge();
        self.levels.set(self.decisions.log_level());
        tracing::debug!(
            statuses = todo.nodes.len(),
            windows_nodes = todo.windows_nodes,
            ready_nodes = todo.ready_nodes,
            took_ms = self.judging.as_millis(),
            "judged"
        );
        let verdict = &todo.verdict;
        if known.as_ref() != Some(verdict) {
            log_verdict(verdict);
        }
        self.show(&todo);

        if let Some(blocked) = todo.blocked {
            self.status.blocked.tell(blocked, Instant::now());
        }

        // The gate comes first.
        let judged = Judged {
            verdict,
            is_fresh: todo.fresh,
            departures: todo.departures,
        };
        let gate = tracing::error_span!(target: ONLY_TRACED, "gate");
        self.set_gate(&judged).instrument(gate).await;
        if self.is_gate_about_to_open() {
            // Whatever else there is to do comes after it, decided anew.
            self.decisions.is_put_off();
            return;
        }
        if todo.knows_configuration {
            let services = tracing::error_span!(target: ONLY_TRACED, "services");
            self.write_services().instrument(services).await;
        }
        if todo.assign {
            let plans = self.decisions.plans();
            let turns = self.decisions.turns();
            self.workers.assign(plans, turns, self.decisions.interval());
            self.decisions.are_assigned();
        }
        let statuses = todo.nodes.len();
        let nodes = tracing::error_span!(target: ONLY_TRACED, "node statuses", statuses);
        self.write_nodes(todo.nodes).instrument(nodes).await;
        let started = Instant::now();
        for stray in &todo.strays {
            if started.elapsed() > REMOVALS {
                self.unfinished = true;
                break;
            }
            let target = node_target(stray);
            if self.may_try(&target) {
                let removed = self.status.nodes.remove(stray).await;
                if removed.is_ok() {
                    self.decisions.is_written(stray);
                }
                self.note(&target, removed);
            }
        }
        for gone in &todo.departed {
            if started.elapsed() > REMOVALS {
                self.unfinished = true;
                break;
            }
            self.forget(gone).await;
        }
        if let Some((previous, status)) = &todo.settings
            && self.may_try(SETTINGS_TARGET)
        {
            let written = self.status.write_settings(previous.as_ref(), status).await;
            self.note(SETTINGS_TARGET, written);
        }
        // What need not be written any more, because somebody has or things are as before, need not be tried again.
        let decisions = &self.decisions;
        self.attempts
            .keep(|target| match target.strip_prefix("WindowsNodeStorage/") {
                Some(node) => decisions.is_open(node),
                None => true,
            });
    }

    fn show(&self, todo: &Todo) {
        let metrics = &self.shown.metrics;
        let blocking = todo.blocking_by_driver.iter();
        let blocking = blocking.map(|(driver, volumes)| (driver.as_deref(), *volumes));
        let nodes = (todo.windows_nodes, todo.ready_nodes);
        metrics.show_verdict(&todo.verdict, &blocking, nodes);
        if !todo.assign && !self.has_seen {
            return;
        }
        let observations = self.observations.read();
        let plans = self.decisions.plans().iter();
        let failing = plans.filter_map(|(node, plan)| match plan {
            NodePlan::External | NodePlan::Waiting => None,
            NodePlan::Blocked(error) => Some(error.reason),
            NodePlan::Visit(_) => {
                let problem = observations.get(node)?.problem.as_ref();
                problem.map(|error| error.reason)
            }
        });
        metrics.show_failing_nodes(failing);
    }

    fn is_gate_about_to_open(&self) -> bool {
        // Where its write has failed it has a pause, in which all else goes on.
        self.gate.as_ref().is_some_and(Gate::is_about_to_open) && self.may_try(GATE_TARGET)
    }

    fn judge(&mut self) -> Todo {
        let _span = tracing::error_span!(target: ONLY_TRACED, "judge").entered();
        let started = Instant::now();
        let mut cluster = self.shared.read();
        let stale = !cluster.stale().is_empty();
        let since = self.stale_since.filter(|_| stale);
        self.stale_since = since.or_else(|| stale.then(Instant::now));
        let observed = self.observations.take_changed();
        self.has_seen = !observed.is_empty();
        let observations = self.observations.read();
        let news = News {
            observations: &observations,
            observed,
            services_problem: self.services_problem.as_deref(),
            gate: self.gate.as_ref().map(Gate::report),
            settings_unwritten: self.attempts.is_failing(SETTINGS_TARGET),
            turns: &self.turns,
            settling: self.settles_in() > Duration::ZERO,
            stale_for_long: self
                .stale_since
                .is_some_and(|since| since.elapsed() >= STALE),
            now: Timestamp::now(),
            instant: started,
        };
        let todo = self.decisions.update(&mut cluster, &news);
        self.judging = started.elapsed();
        todo
    }

    /// Writes statuses, some at a time. What is still on its way when the next pass is due goes on beside it.
    async fn write_nodes(&mut self, decided: Vec<NodeDecision>) {
        let nodes = &mut self.status.nodes;
        let decided = decided.into_iter().map(|decision| NodeStatus {
            name: decision.name,
            uid: decision.uid,
            previous: decision.previous,
            status: decision.status,
        });
        // Where something is on its way, the next pass decides: what is there is not what was decided from.
        let mut waiting: VecDeque<NodeStatus> =
            decided.filter(|node| !nodes.is_on_its_way(node)).collect();
        waiting.retain(|node| self.may_try(&node_target(&node.name)));
        let due = tokio::time::Instant::now() + WRITES;
        loop {
            while self.status.nodes.has_room()
                && let Some(node) = waiting.pop_front()
            {
                self.status.nodes.begin(node);
            }
            match tokio::time::timeout_at(due, self.status.nodes.next()).await {
                Ok(Some(written)) => self.note_node(written),
                Ok(None) => return,
                Err(_) => {
                    self.unfinished = true;
                    return;
                }
            }
        }
    }

    fn note_node(&mut self, written: Written) {
        let Written {
            node,
            outcome,
            outdated,
        } = written;
        if outcome.is_ok() && !outdated {
            self.decisions.is_written(&node);
        }
        self.note(&node_target(&node), outcome);
    }

    /// Removes what is left of a node, once the API server itself says that it is not there.
    async fn forget(&mut self, node: &str) {
        let target = format!("DepartedNode/{node}");
        if !self.may_try(&target) {
            return;
        }
        match deadline::call("read Node", self.nodes.get_metadata_opt(node)).await {
            // It is back, or the watch is behind: the next pass knows more.
            Ok(Some(_)) => self.attempts.succeeded(&target),
            Ok(None) => {
                let unpinned = self.pins.remove(node).await;
                let removed = self.status.nodes.remove(node).await;
                let problem = unpinned.err().map(|error| error.to_string());
                match problem.or(removed.err().map(|error| error.to_string())) {
                    None => {
                        tracing::info!(
                            node,
                            "the node has left: its host key and its status are forgotten"
                        );
                        self.attempts.succeeded(&target);
                    }
                    Some(problem) => self.note_failure(&target, problem),
                }
            }
            Err(error) => self.note_failure(&target, error.to_string()),
        }
    }

    async fn write_services(&mut self) {
        match self.decisions.services() {
            Ok(step) => {
                if self.may_try(SERVICES_TARGET) {
                    let written = self.services.write(step).await;
                    // A conflict is no fault: the next pass plans anew from what another has written.
                    let fault = written.as_ref().err().filter(|error| !error.is_conflict());
                    self.services_problem = fault.map(ToString::to_string);
                    self.note(SERVICES_TARGET, written);
                }
            }
            Err(error) => {
                self.attempts.succeeded(SERVICES_TARGET);
                tracing::debug!(%error, "ConfigMap windows-services cannot be used");
            }
        }
    }

    async fn set_gate(&mut self, judged: &Judged<'_>) {
        let may_try = self.may_try(GATE_TARGET);
        let Some(gate) = &mut self.gate else {
            return;
        };
        let mut in_progress = self.turns.in_progress();
        in_progress.extend(self.decisions.maybe_in_progress().iter().cloned());
        gate.decide(judged, &in_progress);
        if !may_try {
            return;
        }
        let before = gate.report();
        let ensured = gate.ensure().await;
        // What is told of the gate is told by the next pass.
        self.unfinished |= gate.report() != before;
        match ensured {
            Ok(change) => {
                self.attempts.succeeded(GATE_TARGET);
                if change != Change::Unchanged {
                    tracing::info!("the OperatorCondition {} now", gate.told());
                }
            }
            Err(error) => self.note_failure(GATE_TARGET, error.to_string()),
        }
    }

    fn may_try(&self, target: &str) -> bool {
        self.attempts.may_try(target, Instant::now())
    }

    fn note(&mut self, target: &str, outcome: Result<(), CallError>) {
        let Err(error) = outcome else {
            self.attempts.succeeded(target);
            return;
        };
        let hint = match (error.is_not_found(), target == SERVICES_TARGET) {
            (false, _) => "",
            (true, true) => {
                "; is the operator's namespace there? kubectl apply -f manifests/namespace.yaml"
            }
            (true, false) => {
                "; are the custom resource definitions installed? kubectl apply -k crds"
            }
        };
        self.note_failure(target, format!("{error}{hint}"));
    }

    fn note_failure(&mut self, target: &str, problem: String) {
        let kind = target.split('/').next().unwrap_or_default();
        if let Some(kind) = TARGETS.into_iter().find(|known| *known == kind) {
            self.shown.metrics.count_failed_write(kind);
        }
        tracing::warn!("{problem}");
        // OLM makes a deleted OperatorCondition again, and an empty one lets every upgrade go.
        let longest = if target == GATE_TARGET {
            LONGEST_GATE_PAUSE
        } else {
            LONGEST_PAUSE
        };
        self.attempts
            .failed(target, problem, longest, Instant::now());
    }
}

fn node_target(node: &str) -> String {
    format!("WindowsNodeStorage/{node}")
}

fn log_verdict(verdict: &Verdict) {
    tracing::info!(
        upgradeable = verdict.upgradeable.as_str(),
        reason = verdict.reason.as_str(),
        "verdict: {}",
        verdict.message
    );
}
