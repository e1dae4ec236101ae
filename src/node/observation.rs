//! Stores what was observed on nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::NodeState;
use tokio::sync::watch;

use crate::api::WindowsNodeStorageStatus;
use crate::node::plan::is_working;
use crate::node::reconcile::Reconciled;
use crate::node::{Look, NodeError, Purpose, Standing, Target, UNKNOWN_OWNER};

/// What is known about a node since this process started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// The last state from the agent.
    pub state: Option<NodeState>,
    /// What is known about other owners of csi-proxy on the node.
    pub look: Look,
    /// Purpose of the last reconcile.
    pub purpose: Purpose,
    /// ID of the key that the host accepted last; empty without a login.
    pub ssh_key: String,
    /// What went wrong in the last reconcile.
    pub problem: Option<NodeError>,
    /// Failed reconciles since the node was last up to date, or since the desired state changed. A reconcile that only
    /// finds that it must wait for a slot does not reset the count.
    pub failures: u32,
    /// State of the node in the rollout of `revision`.
    pub standing: Standing,
    /// The desired revision in the last reconcile.
    pub revision: String,
    /// The attempt in the last reconcile.
    pub attempt: String,
}

/// Returns another owner whose csi-proxy was found on the node. A finding stands until the next check, by this process
/// or another.
pub fn found_owner<'a>(
    observation: Option<&'a Observation>,
    status: Option<&'a WindowsNodeStorageStatus>,
) -> Option<&'a str> {
    match observation.map(|seen| &seen.look) {
        Some(Look::Owner(who)) => Some(who),
        Some(Look::Nobody) => None,
        Some(Look::NotTaken) | None => {
            let known = status.map(|status| status.managed_by.as_str());
            known.filter(|by| by.starts_with(UNKNOWN_OWNER))
        }
    }
}

impl Observation {
    /// Returns whether the agent was removed and nothing has been done since.
    pub fn is_released(&self) -> bool {
        self.is_done(Purpose::Release)
    }

    /// Returns whether csi-proxy and the agent were removed and nothing has been done since.
    pub fn is_removed(&self) -> bool {
        self.is_done(Purpose::Remove)
    }

    fn is_done(&self, purpose: Purpose) -> bool {
        self.purpose == purpose && self.problem.is_none() && self.standing == Standing::Current
    }

    /// Returns whether an installed csi-proxy does not work now, or is in the middle of a change.
    pub fn is_down(&self) -> bool {
        self.state.as_ref().is_some_and(|state| {
            state.unfinished_request_id.is_some()
                || (state.request_id.is_some() && !is_working(state))
        })
    }
}

/// Returns how often csi-proxy restarted unexpectedly between two states of a node. The agent counts from its own
/// start: a lower count began again at zero.
pub fn restarts_since(before: Option<&NodeState>, now: &NodeState) -> u64 {
    let count = |state: &NodeState| u64::from(state.csi_proxy.restarts);
    // At the first observation, it is unknown when the restarts happened.
    before.map_or(0, |before| {
        let (before, now) = (count(before), count(now));
        now.checked_sub(before).unwrap_or(now).min(MOST_RESTARTS)
    })
}

/// More restarts than a crashing program reaches between two reconciles. The count comes from the node and is added to
/// that of all other nodes, so it is capped.
const MOST_RESTARTS: u64 = 100;

/// The observations of all nodes, with notification of changes.
#[derive(Clone, Default)]
pub struct Observations {
    by_node: Arc<Mutex<BTreeMap<String, Observation>>>,
    /// Counts the changes.
    changed: watch::Sender<u64>,
}

impl Observations {
    /// Locks the observations. Never hold the guard across an await.
    pub fn read(&self) -> MutexGuard<'_, BTreeMap<String, Observation>> {
        self.by_node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver that wakes whenever an observation changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Records the result of a reconcile. Returns the failures since the node was last up to date, or something else
    /// became desired.
    pub fn record(&self, target: &Target, result: &Result<Reconciled, NodeError>) -> u32 {
        let mut all = self.read();
        let observation = all.entry(target.node.clone()).or_default();
        if let Ok(desired) = &target.desired {
            let attempt = &desired.request.attempt;
            if (&desired.revision, attempt) != (&observation.revision, &observation.attempt) {
                observation.failures = 0;
            }
            observation.revision.clone_from(&desired.revision);
            observation.attempt.clone_from(attempt);
        } else {
            observation.revision.clear();
        }
        observation.purpose = target.purpose;
        let waits = result.as_ref().is_ok_and(Reconciled::is_waiting);
        match result {
            Ok(reconciled) => {
                observation.ssh_key.clone_from(&reconciled.ssh_key);
                if reconciled.look != Look::NotTaken {
                    observation.look.clone_from(&reconciled.look);
                }
                // A successful removal leaves no agent that could report a state.
                let is_gone = target.purpose != Purpose::Reconcile && reconciled.problem.is_none();
                if is_gone || reconciled.state.is_some() {
                    observation.state.clone_from(&reconciled.state);
                }
                // Keep reporting what went wrong in the last slot.
                let failed_in_slot = observation.standing == Standing::Waiting;
                if !(waits && failed_in_slot && observation.failures > 0) {
                    observation.problem.clone_from(&reconciled.problem);
                }
                observation.standing = reconciled.standing;
            }
            Err(error) => {
                observation.problem = Some(error.clone());
                observation.standing = Standing::Unreachable;
            }
        }
        if !waits {
            observation.failures = match observation.problem {
                Some(_) => observation.failures.saturating_add(1),
                None => 0,
            };
        }
        let failures = observation.failures;
        drop(all);
        self.changed.send_modify(|changed| *changed += 1);
        failures
    }

    /// Notes that a reconcile begins that may install an agent, so that an earlier removal no longer counts.
    pub fn begin(&self, target: &Target) {
        if target.purpose == Purpose::Reconcile
            && let Some(observation) = self.read().get_mut(&target.node)
        {
            observation.purpose = Purpose::Reconcile;
        }
    }

    /// Forgets a node whose observations are of another host.
    pub fn forget(&self, node: &str) {
        self.read().remove(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Desired, Reason};
    use protocol::CsiProxyStatus;

    #[test]
    fn what_failed_in_its_slot_counts_until_it_has_worked_or_something_else_is_desired() {
        let observations = Observations::default();
        let mut target = Target::of_test_host(22);
        target.desired = Ok(Desired::of_test("1", "").into());
        let see = |target: &Target, standing, reason: Option<Reason>| {
            let reconciled = Reconciled {
                standing,
                problem: reason.map(|reason| reason.error("no")),
                ..Reconciled::default()
            };
            observations.record(target, &Ok(reconciled));
            let seen = observations.read()["win-1"].clone();
            (seen.failures, seen.problem.map(|problem| problem.reason))
        };
        assert_eq!(see(&target, Standing::Waiting, None), (0, None));
        for failures in 1..4 {
            let failed = see(&target, Standing::Waiting, Some(Reason::DiskFull));
            assert_eq!(failed, (failures, Some(Reason::DiskFull)));
            let waits = see(&target, Standing::Waiting, None);
            assert_eq!(waits, (failures, Some(Reason::DiskFull)));
        }
        target.desired = Ok(Desired::of_test("2", "").into());
        assert_eq!(see(&target, Standing::Waiting, None), (0, None));
        see(&target, Standing::Waiting, Some(Reason::DiskFull));
        assert_eq!(see(&target, Standing::Current, None), (0, None));
        // An unreachable node is reported only as long as it is unreachable.
        observations.record(&target, &Err(Reason::Unreachable.error("no")));
        assert_eq!(see(&target, Standing::Waiting, None).1, None);
    }

    #[test]
    fn restarts_count_from_the_first_observation_and_from_zero_where_the_count_began_again() {
        let state = |restarts| NodeState {
            csi_proxy: CsiProxyStatus {
                restarts,
                ..CsiProxyStatus::default()
            },
            ..NodeState::default()
        };
        assert_eq!(restarts_since(None, &state(7)), 0);
        for (before, now, expected) in [
            (7, 7, 0),
            (7, 9, 2),
            (7, 1, 1),
            (0, u32::MAX, MOST_RESTARTS),
        ] {
            let restarts = restarts_since(Some(&state(before)), &state(now));
            assert_eq!(restarts, expected, "{before:?} {now:?}");
        }
    }

    #[test]
    fn a_failed_reconcile_keeps_what_was_known() {
        let observations = Observations::default();
        let target = Target::of_test_host(22);
        let seen = Reconciled {
            state: Some(NodeState::default()),
            ..Reconciled::default()
        };
        observations.record(&target, &Ok(seen));
        let gone = Reason::Unreachable.error("gone");
        observations.record(&target, &Err(gone.clone()));
        let seen = &observations.read()["win-1"];
        assert_eq!(seen.state, Some(NodeState::default()));
        assert_eq!(seen.problem, Some(gone));
    }
}
