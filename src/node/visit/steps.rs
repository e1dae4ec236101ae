//! The steps of a visit once it has logged in, until nothing is left to do.

use protocol::{ApplyResult, Failure, FailureCategory, NodeState, Outcome};

use crate::node::actions::Actions;
use crate::node::plan::{Observed, Step, interrupts, is_working, next_step};
use crate::node::rollout::Standing;
use crate::node::turns::{Turn, Turns};
use crate::node::visit::{Visited, left_alone};
use crate::node::{Desired, NodeError, Reason};

/// A visit brings the agent, hands over the request, and looks once more. More steps mean that they have no effect.
const MOST_STEPS: usize = 5;

impl Actions {
    pub(super) fn carry_out(
        &mut self,
        node: &str,
        desired: &Result<Desired, NodeError>,
        turns: &Turns,
    ) -> Visited {
        let mut visited = Visited {
            standing: Standing::OutOfReach,
            ..Visited::default()
        };
        if let Err(error) = self.steps(node, desired, turns, &mut visited) {
            visited.problem = Some(error);
        }
        self.clean_up();
        visited.phases = self.phases.clone();
        visited.sent = self.session.sent.get();
        visited
    }

    /// Whether a request has csi-proxy as it is in the payload.
    fn is_wanted(&self, desired: &Desired) -> bool {
        let mut files = desired.request.files.iter();
        files.any(|file| file.sha256 == self.payload.csi_proxy.sha256)
    }

    fn steps(
        &mut self,
        node: &str,
        desired: &Result<Desired, NodeError>,
        turns: &Turns,
        visited: &mut Visited,
    ) -> Result<(), NodeError> {
        let mut observed = self.observe()?;
        let mut turn: Option<Turn> = None;
        let mut brought = false;
        let mut changed = false;
        for _ in 0..MOST_STEPS {
            let kept = is_kept(&observed, desired.as_ref().ok());
            if let Observed::State(state) = &observed {
                visited.standing = standing(state, desired.as_ref().ok(), kept);
                visited.state = Some((**state).clone());
                if turn.is_none() && state.unfinished_request_id.is_none() {
                    turns.is_settled(node);
                }
            } else {
                visited.standing = Standing::Bare;
            }
            let desired = desired.as_ref().map_err(Clone::clone)?;
            let mut step = next_step(desired, &observed, turn.is_some());
            if step == Step::AwaitTurn {
                turn = turns.take(node);
                step = next_step(desired, &observed, turn.is_some());
            }
            changed |= matches!(
                step,
                Step::BringAgent | Step::InstallAgent | Step::Apply { .. }
            );
            observed = match step {
                Step::Done => {
                    visited.standing = Standing::Current;
                    if changed {
                        tracing::info!("the node is as desired after {}", self.phases);
                    } else {
                        tracing::debug!("the node is as desired, seen in {}", self.phases);
                    }
                    return Ok(());
                }
                Step::AwaitTurn => {
                    visited.standing = Standing::Waiting;
                    return Ok(());
                }
                Step::LeaveUndone => {
                    visited.standing = Standing::Failed;
                    return Err(left_alone::undone(desired, visited.state.as_ref()));
                }
                Step::LeaveForeign => {
                    return Err(left_alone::foreign(desired, visited.state.as_ref()));
                }
                Step::LeaveToAgent => {
                    return Err(left_alone::to_agent(
                        &desired.request,
                        visited.state.as_ref(),
                    ));
                }
                Step::BringAgent if brought => {
                    return Err(NodeError::new(
                        Reason::AgentFailed,
                        "the agent was brought and installed, and still gives no state that makes sense; see \
                         C:\\var\\log\\windows-storage-agent on the node",
                    ));
                }
                Step::BringAgent => {
                    brought = true;
                    let has_both_missing = observed == Observed::NoAgent && self.is_wanted(desired);
                    self.bring_agent(has_both_missing.then_some(&desired.request))?
                }
                Step::InstallAgent => self.install_again()?,
                Step::Apply { with_files } => {
                    if let Some(turn) = &mut turn {
                        turn.begin();
                    }
                    let applied = self.apply(&desired.request, with_files);
                    if let Some(turn) = &mut turn
                        && is_end_known(&applied)
                    {
                        turn.settle();
                    }
                    let result = applied?;
                    visited.state = Some(result.state.clone());
                    judge_result(&result, (kept, turn.is_some()), visited)?;
                    Observed::State(Box::new(result.state))
                }
            };
        }
        Err(NodeError::new(
            Reason::AgentFailed,
            "the agent reports success, but the node does not come to the state that was asked for; see \
             C:\\var\\log\\windows-storage-agent on the node",
        ))
    }
}

/// Whether the node was kept to the very request before.
fn is_kept(observed: &Observed, desired: Option<&Desired>) -> bool {
    let (Observed::State(state), Some(desired)) = (observed, desired) else {
        return false;
    };
    state.request_id.as_deref() == Some(desired.request.id.as_str())
}

/// How far a node whose agent has told its state is on the way to what is desired.
fn standing(state: &NodeState, desired: Option<&Desired>, kept: bool) -> Standing {
    let works = desired.map_or_else(
        || is_working(state),
        |desired| interrupts(&desired.request, state),
    );
    match (works, kept) {
        (true, true) => Standing::Current,
        (true, false) => Standing::Waiting,
        (false, _) => Standing::Bare,
    }
}

/// `kept` says that the node was kept to the very request before: then only a repair has failed, not an update.
/// `interrupting` says that something worked there before.
fn judge_result(
    result: &ApplyResult,
    (kept, interrupting): (bool, bool),
    visited: &mut Visited,
) -> Result<(), NodeError> {
    let failure = || {
        let unknown = || Failure {
            category: FailureCategory::Unknown,
            message: "the agent does not say why".to_owned(),
        };
        result.failure.clone().unwrap_or_else(unknown)
    };
    match result.outcome {
        Outcome::Applied => {
            tracing::info!(
                interruption_ms = result.interruption_milliseconds,
                "csi-proxy is in place and its pipes are open"
            );
            Ok(())
        }
        Outcome::Unchanged => Ok(()),
        Outcome::RolledBack if !kept => {
            visited.standing = Standing::Failed;
            Err(NodeError::from_agent(&failure(), true))
        }
        Outcome::Failed if !kept && interrupting && has_touched(&failure()) => {
            // Worse than undone: going back was not complete either.
            visited.standing = Standing::Failed;
            Err(NodeError::new(
                Reason::RolledBack,
                format!(
                    "{}; it is not tried again before spec.rollout.resume of WindowsStorage changes or there is another version",
                    NodeError::from_agent(&failure(), false)
                ),
            ))
        }
        Outcome::RolledBack | Outcome::Failed | Outcome::Unknown => {
            Err(NodeError::from_agent(&failure(), false))
        }
    }
}

/// Whether it is known what has become of csi-proxy. What ends before the agent has the request interrupts nothing.
fn is_end_known(applied: &Result<ApplyResult, NodeError>) -> bool {
    match applied {
        Ok(result) => result.state.unfinished_request_id.is_none(),
        Err(error) => matches!(error.reason, Reason::DiskFull | Reason::PayloadUnusable),
    }
}

/// Whether the agent had begun to change the node when it failed in that way.
fn has_touched(failure: &Failure) -> bool {
    match failure.category {
        FailureCategory::ServiceStart
        | FailureCategory::ServiceStop
        | FailureCategory::PipesMissing
        | FailureCategory::AccessDenied
        | FailureCategory::Unknown => true,
        FailureCategory::InvalidRequest
        | FailureCategory::Unsupported
        | FailureCategory::UploadMissing
        | FailureCategory::HashMismatch
        | FailureCategory::DiskFull
        | FailureCategory::FileInUse
        | FailureCategory::Foreign
        | FailureCategory::PreScript
        | FailureCategory::Interrupted
        | FailureCategory::AgentUnavailable
        | FailureCategory::Internal => false,
    }
}

#[cfg(test)]
mod tests {
    use protocol::Durations;

    use super::*;

    #[test]
    fn what_could_not_be_undone_is_a_failed_update_and_what_touched_nothing_is_none() {
        let judged = |category, interrupting| {
            let result = ApplyResult {
                id: "request".to_owned(),
                outcome: Outcome::Failed,
                failure: Some(Failure {
                    category,
                    message: "words".to_owned(),
                }),
                interruption_milliseconds: None,
                durations: Durations::default(),
                state: NodeState::default(),
            };
            let mut visited = Visited {
                standing: Standing::Waiting,
                ..Visited::default()
            };
            let error = judge_result(&result, (false, interrupting), &mut visited).unwrap_err();
            (visited.standing, error.reason)
        };
        assert_eq!(
            judged(FailureCategory::ServiceStart, true),
            (Standing::Failed, Reason::RolledBack)
        );
        assert_eq!(
            judged(FailureCategory::ServiceStart, false),
            (Standing::Waiting, Reason::CSIProxyFailed),
            "nothing worked there before"
        );
        assert_eq!(
            judged(FailureCategory::FileInUse, true),
            (Standing::Waiting, Reason::CSIProxyFailed)
        );
    }

    #[test]
    fn a_repair_that_fails_is_no_failed_update() {
        let result = ApplyResult {
            id: "request".to_owned(),
            outcome: Outcome::RolledBack,
            failure: None,
            interruption_milliseconds: None,
            durations: Durations::default(),
            state: NodeState::default(),
        };
        let judged = |kept| {
            let mut visited = Visited {
                standing: Standing::Current,
                ..Visited::default()
            };
            let error = judge_result(&result, (kept, true), &mut visited).unwrap_err();
            (visited.standing, error.reason)
        };
        assert_eq!(judged(false), (Standing::Failed, Reason::RolledBack));
        assert_eq!(judged(true), (Standing::Current, Reason::CSIProxyFailed));
    }
}
