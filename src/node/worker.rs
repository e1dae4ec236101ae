//! One task for each Windows node: goes there when something changed, when the interval is over, or when the last
//! visit failed and its pause is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::Instrument;
use windows_storage_agent::protocol::NodeState;

use crate::backoff;
use crate::node::visit::{Refused, Visited, visit};
use crate::node::{NodeError, NodePlan, Pins, Reason, Target};
use crate::payload::Payload;
use crate::serve::Metrics;

/// Visits at one time.
const CONCURRENT_VISITS: usize = 10;
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// What is known of a node since this process started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// What the agent last said.
    pub state: Option<NodeState>,
    /// When the operator was last logged in there.
    pub last_contact: Option<Timestamp>,
    /// What went wrong the last time.
    pub problem: Option<NodeError>,
    /// Visits that ended, well or not.
    pub visits: u64,
}

/// The observations of all nodes, and a wake-up when one changes.
#[derive(Clone)]
pub struct Observations {
    by_node: Arc<Mutex<BTreeMap<String, Observation>>>,
    changed: Arc<Mutex<BTreeSet<String>>>,
    revision: watch::Sender<u64>,
}

impl Default for Observations {
    fn default() -> Self {
        Self {
            by_node: Arc::default(),
            changed: Arc::default(),
            revision: watch::Sender::new(0),
        }
    }
}

impl Observations {
    /// The observations, for a moment: never hold this over an await.
    pub fn read(&self) -> MutexGuard<'_, BTreeMap<String, Observation>> {
        self.by_node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whenever an observation has changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// The nodes whose observations have changed since this was last asked.
    #[must_use]
    pub fn take_changed(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.changed())
    }

    fn changed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, node: &str, result: &Result<Visited, NodeError>) {
        {
            let mut all = self.read();
            let observation = all.entry(node.to_owned()).or_default();
            observation.visits += 1;
            match result {
                Ok(visited) => {
                    observation.last_contact = Some(Timestamp::now());
                    observation.state = visited.state.clone().or_else(|| observation.state.take());
                    observation.problem.clone_from(&visited.problem);
                }
                Err(error) => observation.problem = Some(error.clone()),
            }
        }
        self.changed().insert(node.to_owned());
        self.revision.send_modify(|revision| *revision += 1);
    }

    fn forget(&self, node: &str) {
        self.read().remove(node);
    }
}

/// The tasks of all nodes.
pub struct Workers {
    assignments: BTreeMap<String, watch::Sender<Option<Assignment>>>,
    tasks: JoinSet<()>,
    shared: Arc<Shared>,
}

#[derive(Clone, PartialEq)]
struct Assignment {
    target: Target,
    interval: Duration,
}

struct Shared {
    payload: Payload,
    pins: Pins,
    observations: Observations,
    permits: Semaphore,
    metrics: Metrics,
}

impl Workers {
    /// No tasks yet.
    #[must_use]
    pub fn new(payload: Payload, pins: Pins, observations: Observations, metrics: Metrics) -> Self {
        let permits = Semaphore::new(CONCURRENT_VISITS);
        Self {
            assignments: BTreeMap::new(),
            tasks: JoinSet::new(),
            shared: Arc::new(Shared {
                payload,
                pins,
                observations,
                permits,
                metrics,
            }),
        }
    }

    /// Gives every node its plan. Tasks of nodes that are gone, or that somebody else looks after, end; a visit in
    /// progress is cut then, which the agent on the node survives.
    pub fn assign(&mut self, plans: &BTreeMap<String, NodePlan>, interval: Duration) {
        self.assignments.retain(|node, sender| {
            let keep = plans.contains_key(node);
            if !keep {
                self.shared.observations.forget(node);
            }
            keep && !sender.is_closed()
        });
        for (node, plan) in plans {
            let assignment = match plan {
                NodePlan::Visit(target) => Some(Assignment {
                    target: (**target).clone(),
                    interval,
                }),
                // The task stays, so that a node that can be gone to again continues with what it knew.
                NodePlan::Blocked(_) | NodePlan::External => None,
                NodePlan::Waiting => continue,
            };
            if let Some(sender) = self.assignments.get(node) {
                if is_another(sender.borrow().as_ref(), assignment.as_ref()) {
                    self.shared.observations.forget(node);
                }
                sender.send_if_modified(|current| {
                    let differs = *current != assignment;
                    if differs {
                        *current = assignment;
                    }
                    differs
                });
            } else if assignment.is_some() {
                let (sender, receiver) = watch::channel(assignment);
                let span = tracing::info_span!("node", node = %node);
                self.tasks
                    .spawn(work(receiver, Arc::clone(&self.shared)).instrument(span));
                self.assignments.insert(node.clone(), sender);
            }
        }
    }

    /// Waits until a task ends by a panic, and hands it on: no task may die unseen.
    pub async fn watch_for_panics(&mut self) {
        loop {
            match self.tasks.join_next().await {
                Some(Err(error)) if error.is_panic() => {
                    std::panic::resume_unwind(error.into_panic())
                }
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// Whether a Node was made anew under its old name: what was seen there is of another host.
fn is_another(old: Option<&Assignment>, new: Option<&Assignment>) -> bool {
    matches!((old, new), (Some(old), Some(new)) if old.target.uid != new.target.uid)
}

async fn work(mut assignments: watch::Receiver<Option<Assignment>>, shared: Arc<Shared>) {
    let mut failures = 0;
    let mut undone: Option<(String, NodeError)> = None;
    loop {
        // The last assignment can still be read when nobody gives any more: the node is gone.
        if assignments.has_changed().is_err() {
            return;
        }
        let Some(Assignment { target, interval }) = assignments.borrow_and_update().clone() else {
            if assignments.changed().await.is_err() {
                return;
            }
            continue;
        };
        let refused = undone
            .as_ref()
            .map(|(request_id, error)| Refused { request_id, error });
        let outcome = tokio::select! {
            outcome = visit_in_turn(&target, &shared, refused) => outcome,
            () = revoked(&mut assignments, &target) => continue,
        };
        if assignments.has_changed().is_err() {
            return;
        }
        shared.observations.record(&target.node, &outcome);
        let problem = match outcome {
            Ok(Visited {
                problem,
                rolled_back,
                ..
            }) => {
                if let (Some(request), Some(error)) = (rolled_back, &problem) {
                    undone = Some((request, error.clone()));
                }
                problem
            }
            Err(error) => Some(error),
        };
        shared.metrics.count_visit(
            problem
                .as_ref()
                .map_or("Success", |error| error.reason.as_str()),
        );
        failures = if problem.is_some() { failures + 1 } else { 0 };
        let pause = match &problem {
            None => interval,
            // Only an administrator can mend these, and a change of what the work rests on wakes this task.
            Some(error) if matches!(error.reason, Reason::HostKeyChanged | Reason::RolledBack) => {
                interval
            }
            Some(_) => backoff::pause(failures, FIRST_PAUSE, interval),
        };
        if let Some(error) = &problem {
            let retry_seconds = pause.as_secs();
            tracing::warn!(reason = error.reason.as_str(), retry_seconds, "{error}");
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            changed = assignments.changed() => if changed.is_err() { return },
        }
    }
}

/// Waits until the node is no longer to be visited in this way. A pin that the visit itself has made does not count.
async fn revoked(assignments: &mut watch::Receiver<Option<Assignment>>, target: &Target) {
    loop {
        if assignments.changed().await.is_err() {
            return;
        }
        let same = assignments.borrow().as_ref().is_some_and(|new| {
            let first_pin = target.pin.is_none() && new.target.pin.is_some();
            let comparable = Target {
                pin: target.pin.clone(),
                ..new.target.clone()
            };
            comparable == *target && (first_pin || new.target.pin == target.pin)
        });
        if !same {
            // Leave the news unseen for the caller, who starts over with it.
            assignments.mark_changed();
            return;
        }
    }
}

async fn visit_in_turn(
    target: &Target,
    shared: &Shared,
    refused: Option<Refused<'_>>,
) -> Result<Visited, NodeError> {
    // The semaphore is never closed; without a permit the visit only is not bounded.
    let _permit = shared.permits.acquire().await.ok();
    visit(target, &shared.payload, &shared.pins, refused).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_visit_keeps_what_was_known() {
        let observations = Observations::default();
        let state = NodeState {
            agent_version: "1".to_owned(),
            ..NodeState::default()
        };
        observations.record(
            "win-1",
            &Ok(Visited {
                state: Some(state.clone()),
                ..Visited::default()
            }),
        );
        observations.record("win-1", &Err(NodeError::new(Reason::Unreachable, "gone")));
        let all = observations.read();
        assert_eq!(all["win-1"].state, Some(state));
        assert!(all["win-1"].last_contact.is_some());
        assert_eq!(
            all["win-1"].problem.as_ref().unwrap().reason,
            Reason::Unreachable
        );
    }

    #[tokio::test]
    async fn a_node_that_goes_while_it_is_visited_ends_its_task() {
        // A host that takes connections and never says a word.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::of_test_host(listener.local_addr().unwrap().port());
        let interval = Duration::from_secs(300);
        let payload = tempfile::tempdir().unwrap();
        let sum = crate::payload::sha256_hex(b"x");
        std::fs::write(payload.path().join("x"), b"x").unwrap();
        let program = format!(r#"{{"file":"x","version":"v","sha256":"{sum}"}}"#);
        let manifest = format!(r#"{{"csiProxy":{program},"agent":{program}}}"#);
        std::fs::write(payload.path().join("payload.json"), manifest).unwrap();
        let config = kube::Config::new("http://127.0.0.1:9".parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        let observations = Observations::default();
        let mut workers = Workers::new(
            Payload::load(payload.path()).unwrap(),
            Pins::new(kube::Api::namespaced(client, "ns"), "ns".to_owned()),
            observations.clone(),
            Metrics::default(),
        );
        let plan = NodePlan::Visit(Box::new(target));
        workers.assign(&BTreeMap::from([("win-1".to_owned(), plan)]), interval);
        // The host goes on taking connections: a task that goes on would find it as silent as before.
        let held = tokio::task::spawn_blocking(move || (listener.accept().unwrap(), listener))
            .await
            .unwrap();
        workers.assign(&BTreeMap::new(), interval);
        let ended = tokio::time::timeout(Duration::from_secs(10), workers.tasks.join_next()).await;
        assert!(
            ended.unwrap().unwrap().is_ok(),
            "the task goes on for a node that is gone"
        );
        assert!(observations.read().is_empty());
        drop(held);
    }
}
