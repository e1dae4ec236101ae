//! Runs one task per Windows node. It reconciles the node when something changed, when the interval is over, or when
//! the pause after a failed reconcile is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::client::backoff;
use crate::http::Metrics;
use crate::node::reconcile::{Context, Reconciled, reconcile_node};
use crate::node::{NodeError, NodePlan, Observations, Reason, Target, restarts_since};

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
    /// Whether it has a rollout slot, which is taken during the reconcile.
    has_slot: bool,
}

struct Shared {
    context: Context,
    observations: Observations,
    metrics: Metrics,
    /// Between two reconciles of a node that is well.
    interval: Duration,
}

impl Shared {
    /// Counts and records a finished reconcile. Returns how many have failed since the node was last well, or something
    /// else became desired.
    fn record(
        &self,
        target: &Target,
        outcome: &Result<Reconciled, NodeError>,
        took: Duration,
    ) -> u32 {
        self.metrics.count_reconcile(outcome, took);
        if let Some(now) = outcome.as_ref().ok().and_then(|found| found.state.as_ref()) {
            let observations = self.observations.read();
            let before = observations.get(&target.node);
            let before = before.and_then(|observation| observation.state.as_ref());
            let restarts = restarts_since(before, now);
            self.metrics.count_csi_proxy_restarts(restarts);
        }
        self.observations.record(target, outcome)
    }
}

impl Workers {
    /// Creates it without tasks. `interval` lies between two reconciles of a node that is well.
    pub fn new(
        context: Context,
        observations: Observations,
        metrics: Metrics,
        interval: Duration,
    ) -> Self {
        Self {
            assignments: BTreeMap::new(),
            tasks: JoinSet::new(),
            shared: Arc::new(Shared {
                context,
                observations,
                metrics,
                interval,
            }),
        }
    }

    /// Gives every node its plan. Tasks of deleted nodes end. That cuts a reconcile in progress, which the agent on the
    /// node survives.
    pub fn assign(&mut self, plans: &BTreeMap<String, NodePlan>, slots: &BTreeSet<String>) {
        self.assignments.retain(|node, _| {
            let is_there = plans.contains_key(node);
            if !is_there {
                self.shared.observations.forget(node);
                self.shared.context.slots.forget(node);
            }
            is_there
        });
        for (node, plan) in plans {
            if matches!(plan, NodePlan::Waiting) {
                continue;
            }
            // Without one, keep the task, so that it continues with what it knew once the node can be reconciled again.
            let target = plan.target().and_then(Result::ok);
            let assignment = target.map(|target| Assignment {
                target: Arc::clone(target),
                has_slot: slots.contains(node),
            });
            if let Some(sender) = self.assignments.get(node) {
                sender.send_if_modified(|current| {
                    // A Node that was recreated under its old name is another host.
                    if let (Some(old), Some(new)) = (&current, &assignment)
                        && old.target.uid != new.target.uid
                    {
                        self.shared.observations.forget(node);
                    }
                    let old = std::mem::replace(current, assignment);
                    old != *current
                });
            } else if assignment.is_some() {
                let (sender, receiver) = watch::channel(assignment);
                // All log messages name the node.
                let span = tracing::error_span!("node", node = %node);
                self.tasks
                    .spawn(work(receiver, Arc::clone(&self.shared)).instrument(span));
                self.assignments.insert(node.clone(), sender);
            }
        }
    }

    /// Waits until the task of an assigned node ends, which none does by itself, and returns the node's name.
    pub async fn ended(&mut self) -> String {
        loop {
            // A task may have ended before this call.
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

async fn work(mut assignments: watch::Receiver<Option<Assignment>>, shared: Arc<Shared>) {
    // The last assignment can still be read after the sender, and so the node, is gone.
    while assignments.has_changed().is_ok() {
        let assigned = assignments.wait_for(Option::is_some).await;
        let Ok(Some(assignment)) = assigned.map(|assigned| assigned.clone()) else {
            return;
        };
        let target = assignment.target.as_ref();
        let begin = Instant::now();
        shared.observations.begin(target);
        // Not within the task's span, which lasts as long as the node exists.
        let span = tracing::error_span!(parent: None, "reconcile", node = %target.node);
        let outcome = tokio::select! {
            outcome = reconcile_node(target, &shared.context).instrument(span) => outcome,
            () = revoked(&mut assignments, target) => {
                tokio::time::sleep(LEAST_PAUSE).await;
                continue;
            }
        };
        if assignments.has_changed().is_err() {
            return;
        }
        let failures = shared.record(target, &outcome, begin.elapsed());
        let waits = outcome.as_ref().is_ok_and(Reconciled::is_waiting);
        let problem = outcome.map_or_else(Some, |reconciled| reconciled.problem);
        let pause = pause_after(problem.as_ref(), failures, shared.interval);
        if let Some(error) = &problem {
            let retry_seconds = pause.as_secs();
            let reason = error.reason.as_str();
            tracing::warn!(reason, retry_seconds, "{error}");
        }
        // However often something changes, a node is not connected to without a pause.
        tokio::time::sleep(LEAST_PAUSE).await;
        wait(&mut assignments, target, waits, pause).await;
    }
}

fn pause_after(problem: Option<&NodeError>, failures: u32, interval: Duration) -> Duration {
    // Only an administrator can fix these, and a change of the inputs wakes the task.
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

/// Waits for the next reconcile: the end of the pause, or other work. A pin or a record that the reconcile itself made is
/// none. A slot is news only to a node that `waits`, because it was refused one: granting slots cuts no pause after a
/// failure short.
async fn wait(
    assignments: &mut watch::Receiver<Option<Assignment>>,
    target: &Target,
    waits: bool,
    pause: Duration,
) {
    let has_work = |new: &Option<Assignment>| {
        !is_same(target, new.as_ref()) || waits && new.as_ref().is_some_and(|new| new.has_slot)
    };
    // It is time, or the node is gone.
    let _ = timeout(pause, assignments.wait_for(has_work)).await;
}

/// Waits until the reconcile in progress is outdated, or the node is gone.
async fn revoked(assignments: &mut watch::Receiver<Option<Assignment>>, target: &Target) {
    let is_other = |new: &Option<Assignment>| !is_same(target, new.as_ref());
    let _ = assignments.wait_for(is_other).await;
}

/// Returns whether an assignment asks for the same work. A first pin, and that the node is known as ours, follow from the work
/// itself.
fn is_same(target: &Target, new: Option<&Assignment>) -> bool {
    let Some(new) = new.map(|new| new.target.as_ref()) else {
        return false;
    };
    let (known, pin) = (&target.host_keys.pin, &new.host_keys.pin);
    let first_pin = known.is_none() && pin.is_some();
    let mut comparable = new.clone();
    comparable.host_keys.pin.clone_from(known);
    comparable.is_ours = target.is_ours;
    comparable == *target && (first_pin || known == pin)
}

#[cfg(test)]
mod tests;
