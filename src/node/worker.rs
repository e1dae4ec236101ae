//! One task for each Windows node: reconciles it when something changed, when the interval is over, or when the last
//! reconcile failed and its pause is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use crate::backoff;
use crate::http::Metrics;
use crate::node::reconcile::{Context, Reconciled, reconcile_node};
use crate::node::{
    Desired, NodeError, NodePlan, Observations, Reason, Standing, Target, restarts_since,
};

const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LEAST_PAUSE: Duration = Duration::from_millis(200);

/// The tasks of all nodes.
pub struct Workers {
    assignments: BTreeMap<String, watch::Sender<Option<Assignment>>>,
    tasks: JoinSet<()>,
    shared: Arc<Shared>,
}

#[derive(Clone, PartialEq)]
struct Assignment {
    target: Arc<Target>,
    interval: Duration,
    /// It has a rollout slot. That this changed is what matters here; the slot itself is taken during the reconcile.
    has_slot: bool,
}

struct Shared {
    context: Context,
    observations: Observations,
    metrics: Metrics,
}

impl Shared {
    /// Counts a reconcile that has ended, and records it.
    fn record(&self, target: &Target, outcome: &Result<Reconciled, NodeError>, took: Duration) {
        self.metrics.count_reconcile(outcome, took);
        if let Some(now) = outcome.as_ref().ok().and_then(|found| found.state.as_ref()) {
            let observations = self.observations.read();
            let before = observations.get(&target.node);
            let before = before.and_then(|observation| observation.state.as_ref());
            let restarts = restarts_since(before, now);
            self.metrics.count_csi_proxy_restarts(restarts);
        }
        self.observations.record(target, outcome);
    }
}

impl Workers {
    /// No tasks yet.
    #[must_use]
    pub fn new(mut context: Context, observations: Observations, metrics: Metrics) -> Self {
        context.gauges = metrics.reconcile_gauges();
        Self {
            assignments: BTreeMap::new(),
            tasks: JoinSet::new(),
            shared: Arc::new(Shared {
                context,
                observations,
                metrics,
            }),
        }
    }

    /// Gives every node its plan. Tasks of nodes that are gone end; a reconcile in
    /// progress is cut then, which the agent on the node survives.
    pub fn assign(
        &mut self,
        plans: &BTreeMap<String, NodePlan>,
        slots: &BTreeSet<String>,
        interval: Duration,
    ) {
        self.assignments.retain(|node, _| {
            let is_there = plans.contains_key(node);
            if !is_there {
                self.shared.observations.forget(node);
                self.shared.context.slots.forget(node);
            }
            is_there
        });
        for (node, plan) in plans {
            let assignment = match plan {
                NodePlan::Reconcile(target)
                | NodePlan::Release(_, Ok(target))
                | NodePlan::Remove(_, Ok(target)) => Some(Assignment {
                    target: Arc::clone(target),
                    interval,
                    has_slot: slots.contains(node),
                }),
                // The task stays, so that a node that can be reached again continues with what it knew.
                NodePlan::Blocked(_)
                | NodePlan::Release(_, Err(_))
                | NodePlan::Remove(_, Err(_))
                | NodePlan::RemovalWaits(_)
                | NodePlan::Absent(_)
                | NodePlan::External(_)
                | NodePlan::Undecided(_) => None,
                NodePlan::Waiting => continue,
            };
            if let Some(sender) = self.assignments.get(node) {
                sender.send_if_modified(|current| {
                    if is_another(current.as_ref(), assignment.as_ref()) {
                        self.shared.observations.forget(node);
                    }
                    let old = std::mem::replace(current, assignment);
                    old != *current
                });
            } else if assignment.is_some() {
                let (sender, receiver) = watch::channel(assignment);
                // Whatever is logged names the node.
                let span = tracing::error_span!("node", node = %node);
                self.tasks
                    .spawn(work(receiver, Arc::clone(&self.shared)).instrument(span));
                self.assignments.insert(node.clone(), sender);
            }
        }
    }

    /// Waits until a task ends that has work, which none does by itself, and says of which node it was.
    pub async fn ended(&mut self) -> String {
        loop {
            // One may have ended before it was waited for here.
            let mut assignments = self.assignments.iter();
            if let Some((node, _)) = assignments.find(|(_, sender)| sender.is_closed()) {
                return node.clone();
            }
            if self.tasks.join_next().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Whether a Node was recreated under its old name: what was seen there is of another host.
fn is_another(old: Option<&Assignment>, new: Option<&Assignment>) -> bool {
    matches!((old, new), (Some(old), Some(new)) if old.target.uid != new.target.uid)
}

async fn work(mut assignments: watch::Receiver<Option<Assignment>>, shared: Arc<Shared>) {
    let mut failures = 0;
    // What was undone on the node, until the node's status says so: nobody else may know yet.
    let mut undone: Option<Desired> = None;
    loop {
        // The last assignment can still be read when nobody gives any more: the node is gone.
        if assignments.has_changed().is_err() {
            return;
        }
        let Some(mut assignment) = assignments.borrow_and_update().clone() else {
            if assignments.changed().await.is_err() {
                return;
            }
            continue;
        };
        remind(&mut assignment.target, undone.as_ref());
        let target = assignment.target.as_ref();
        let begin = Instant::now();
        shared.observations.begin(target);
        // Not within the task's span, which lasts for as long as the node is there.
        let span = tracing::error_span!(parent: None, "reconcile", node = %target.node);
        let outcome = tokio::select! {
            outcome = reconcile_node(target, &shared.context).instrument(span) => outcome,
            () = revoked(&mut assignments, target) => continue,
        };
        if assignments.has_changed().is_err() {
            return;
        }
        if let (Ok(reconciled), Ok(desired)) = (&outcome, &target.desired)
            && let (Standing::Failed, Some(error)) = (reconciled.standing, &reconciled.problem)
        {
            let refused = Some(error.message.clone());
            undone = Some(Desired {
                refused,
                ..desired.clone()
            });
        }
        shared.record(target, &outcome, begin.elapsed());
        let waits = outcome.as_ref().is_ok_and(Reconciled::is_waiting);
        let problem = outcome.map_or_else(Some, |reconciled| reconciled.problem);
        failures = match &problem {
            Some(_) => failures + 1,
            // It has tried without success and waits for its next slot.
            None if waits => failures,
            None => 0,
        };
        let has_failed = problem.is_some();
        let pause = pause_after(problem.as_ref(), failures, assignment.interval);
        if let Some(error) = &problem {
            let retry_seconds = pause.as_secs();
            let (reason, phase) = (error.reason.as_str(), error.phase);
            tracing::warn!(reason, phase, retry_seconds, "{error}");
        }
        // Whatever changes how often: a node is not connected to without a pause.
        tokio::time::sleep(LEAST_PAUSE).await;
        if !wait(&mut assignments, assignment, has_failed, pause).await {
            return;
        }
    }
}

/// Makes sure that what was undone here is not tried again, also where the node's status does not say so yet.
fn remind(target: &mut Arc<Target>, undone: Option<&Desired>) {
    // A copy of its own: nothing is undone on most nodes, and these share theirs with the plan.
    if let Some(undone) = undone
        && let Ok(desired) = &mut Arc::make_mut(target).desired
        && (&desired.revision, &desired.attempt) == (&undone.revision, &undone.attempt)
    {
        desired.refused = desired.refused.take().or_else(|| undone.refused.clone());
        desired.retry = false;
    }
}

fn pause_after(problem: Option<&NodeError>, failures: u32, interval: Duration) -> Duration {
    // Only an administrator can mend these, and a change of what the work rests on wakes the task.
    const FOR_PEOPLE: [Reason; 6] = [
        Reason::HostKeyChanged,
        Reason::HostKeyUnknown,
        Reason::RolledBack,
        Reason::ForeignCSIProxy,
        Reason::VulnerableVersion,
        Reason::OtherVersion,
    ];
    match problem {
        Some(error) if !FOR_PEOPLE.contains(&error.reason) => {
            backoff::pause(failures, FIRST_PAUSE, interval)
        }
        _ => backoff::jittered(interval),
    }
}

/// Waits for the next reconcile: the end of the pause, or news that call for one. False where nobody gives work any more.
async fn wait(
    assignments: &mut watch::Receiver<Option<Assignment>>,
    mut known: Assignment,
    has_failed: bool,
    pause: Duration,
) -> bool {
    let end = Instant::now() + pause;
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(end) => return true,
            changed = assignments.changed() => if changed.is_err() { return false },
        }
        match assignments.borrow_and_update().clone() {
            Some(new) if !calls_for_reconcile(&known, &new, has_failed) => known = new,
            _ => break,
        }
    }
    assignments.mark_changed();
    true
}

/// Whether a node is to be reconciled at once because of what is new. Not for a pin or a record of its own making, and
/// after a failure not for a slot alone: the pause must not be cut short each time that slots are granted.
fn calls_for_reconcile(known: &Assignment, new: &Assignment, has_failed: bool) -> bool {
    let slot = new.has_slot && !known.has_slot && !has_failed;
    slot || known.interval != new.interval || !is_same_work(&known.target, &new.target)
}

fn is_same_work(known: &Target, new: &Target) -> bool {
    let first_pin = known.host_keys.pin.is_none() && new.host_keys.pin.is_some();
    let same_pin = new.host_keys.pin == known.host_keys.pin;
    let mut comparable = new.clone();
    comparable.host_keys.pin.clone_from(&known.host_keys.pin);
    // These follow from the reconcile itself; another attempt shows in its own field.
    comparable.agent_seen = known.agent_seen;
    if let (Ok(known), Ok(new)) = (&known.desired, &mut comparable.desired) {
        new.refused.clone_from(&known.refused);
        new.retry = known.retry;
    }
    comparable == *known && (first_pin || same_pin)
}

/// Waits until the node is no longer to be reconciled in this way.
async fn revoked(assignments: &mut watch::Receiver<Option<Assignment>>, target: &Target) {
    let is_other = |new: &Option<Assignment>| {
        !(new.as_ref()).is_some_and(|new| is_same_work(target, &new.target))
    };
    while assignments.changed().await.is_ok() {
        if is_other(&assignments.borrow()) {
            // Leave the news unseen for the caller, who starts over with it.
            assignments.mark_changed();
            return;
        }
    }
}

#[cfg(test)]
mod tests;
