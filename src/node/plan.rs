//! Decides the next step on a node from its desired and its observed state.

use protocol::command::same_name;
use protocol::paths::CSI_PROXY_SERVICE;
use protocol::{
    ForeignInstance, ForeignKind, LastResult, NodeState, Outcome, PipeStatus, Request, ServiceState,
};

use crate::node::{Look, Reconciled};

/// The desired state of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Identifies the desired state, the same for all nodes: a hash of the programs and the flags.
    pub revision: String,
    /// SHA-256 of the agent that should be installed.
    pub agent_sha256: String,
    /// The request for the agent.
    pub request: Request,
}

/// The last step that was done in a reconcile, in the order in which they are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Done {
    /// None yet.
    #[default]
    Nothing,
    /// The agent was restarted.
    Restarted,
    /// The agent was installed.
    Installed,
    /// The agent carried out the request.
    Applied,
}

/// The next step on a node. `interrupts`: whether it may take csi-proxy, or the agent that keeps it, from those who use it,
/// so that it needs a rollout slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Leave csi-proxy to its other owner.
    Leave,
    /// Restart the agent: the right program is installed, but it does not run or answer, or runs another program.
    Restart,
    /// Install the agent: it is missing, another one, or gives no valid answer.
    Install {
        /// See [`Step`].
        interrupts: bool,
    },
    /// Send the request: the agent has another one or none, or cannot undo one.
    Apply {
        /// See [`Step`].
        interrupts: bool,
    },
    /// Nothing: the node is as desired.
    Finish,
    /// Nothing now.
    Stop(Why),
}

/// Why nothing more is done on a node that is not as desired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The agent is in the middle of a request: it ends that by itself.
    Busy,
    /// The agent has the request, but something does not work. The agent keeps retrying with backoff.
    Broken,
    /// An update was rolled back before, and what ran before works.
    Undone,
    /// Another owner's csi-proxy runs on the node.
    Foreign,
    /// The agent was installed, but gives no valid state, or carried out the request, but the node is not as desired.
    Stuck,
}

/// Decides the next step from what was seen.
pub fn decide(desired: &Desired, seen: &Reconciled) -> Step {
    if let Look::Owner(_) = seen.look {
        return Step::Leave;
    }
    let step = match &seen.state {
        None => Step::Install {
            interrupts: seen.is_of_another_version,
        },
        Some(state) => match agent_step(desired, state) {
            Some(step) => step,
            None => {
                return match compare(desired, state) {
                    Step::Apply { .. } if seen.done == Done::Applied => Step::Stop(Why::Stuck),
                    step => step,
                };
            }
        },
    };
    match step {
        Step::Restart if seen.done == Done::Restarted => Step::Install { interrupts: false },
        _ if seen.done >= Done::Installed => Step::Stop(Why::Stuck),
        step => step,
    }
}

/// Returns what to do with the agent, if anything.
fn agent_step(desired: &Desired, state: &NodeState) -> Option<Step> {
    let wanted = Some(desired.agent_sha256.as_str());
    if state.agent_sha256.as_deref() != wanted {
        return Some(Step::Install {
            interrupts: is_serving(state),
        });
    }
    let running = state.running_agent_sha256.as_deref();
    let is_wrong = state.agent_service != ServiceState::Running
        || state.agent_problem.is_some()
        || (running.is_some() && running != wanted);
    is_wrong.then_some(Step::Restart)
}

/// Compares a node with the right agent to its desired state.
fn compare(desired: &Desired, state: &NodeState) -> Step {
    let request = &desired.request;
    let last = state.last_result.as_ref();
    // What cannot be undone for now may be helped by what follows, by the same rules as without it.
    let is_stuck = |id: &String| last.is_some_and(|last| last.id == *id && last.end.incomplete);
    let unfinished = state.unfinished_request_id.as_ref();
    if unfinished.is_some_and(|id| !is_stuck(id)) {
        return Step::Stop(Why::Busy);
    }
    let was_undone =
        last.is_some_and(|last| last.attempt == request.attempt && speaks_against(last));
    let is_kept = is_kept(request, state);
    let is_foreign = !is_working(state) && in_the_way(request, state).is_some();
    if is_kept && has_program(request, state) {
        return match (works_as(request, state), is_foreign) {
            // Has the agent forget the rollback of another request: the administrator has gone back. Where another program
            // has changed the service by now, that would interrupt it.
            (true, _)
                if was_undone
                    && last.is_some_and(|last| last.id != request.id)
                    && state.csi_proxy.command.as_deref() == Some(&request.command()) =>
            {
                Step::Apply { interrupts: false }
            }
            (true, _) => Step::Finish,
            (false, true) => Step::Stop(Why::Foreign),
            (false, false) => Step::Stop(Why::Broken),
        };
    }
    let interrupts = is_interruptible(request, state);
    // Whatever was rolled back, a stopped rollout waits for the administrator to resume it. If nothing works, it may be
    // retried: there is nothing to interrupt.
    if !is_kept && interrupts && was_undone {
        Step::Stop(Why::Undone)
    } else if is_foreign && !interrupts {
        Step::Stop(Why::Foreign)
    } else {
        Step::Apply { interrupts }
    }
}

/// Returns whether the agent currently enforces this request.
pub fn is_kept(request: &Request, state: &NodeState) -> bool {
    state.request_id.as_deref() == Some(request.id.as_str())
}

/// Returns whether a request would interrupt a working csi-proxy: the agent's own, or one that the request replaces.
pub fn is_interruptible(request: &Request, state: &NodeState) -> bool {
    let replaces = request.replace_foreign && in_the_way(request, state).is_none();
    let mut foreign = state.foreign.iter();
    is_serving(state)
        || (replaces && foreign.any(|foreign| foreign.running && may_replace(foreign)))
}

/// Returns whether `replaceForeign` of a request allows taking over this csi-proxy of another owner.
pub fn may_replace(foreign: &ForeignInstance) -> bool {
    foreign.kind == ForeignKind::Service && same_name(&foreign.name, CSI_PROXY_SERVICE)
}

/// Returns whether no update may follow this result before the administrator asks for one. Events on the host do not count
/// against a request, unless they recur.
fn speaks_against(last: &LastResult) -> bool {
    const MOST_INTERRUPTIONS: u32 = 1;
    let failure = last.end.failure.as_ref();
    let by_the_host = failure.is_some_and(|failure| failure.category.is_of_the_host());
    let is_bad = last.end.outcome == Outcome::RolledBack || last.end.incomplete;
    is_bad && (!by_the_host || last.failures > MOST_INTERRUPTIONS)
}

/// Returns a running csi-proxy of another owner that the request may not replace.
pub fn in_the_way<'a>(request: &Request, state: &'a NodeState) -> Option<&'a ForeignInstance> {
    state.foreign.iter().find(|foreign| {
        let replaceable = request.replace_foreign && may_replace(foreign);
        foreign.running && !replaceable
    })
}

/// Returns whether the agent's csi-proxy runs and answers on its pipes, whatever its version.
pub fn is_working(state: &NodeState) -> bool {
    !state.pipes.is_empty() && is_serving(state) && state.pipes.iter().all(PipeStatus::answers)
}

/// Returns whether it runs with its pipes open, so that a change would interrupt it, even if a pipe does not answer now. An
/// agent without a request, such as one that has just replaced another version, knows no pipes.
pub fn is_serving(state: &NodeState) -> bool {
    let is_ours = state.request_id.is_some() || !state.foreign.iter().any(may_replace);
    let runs = state.csi_proxy.state == ServiceState::Running;
    is_ours && runs && state.pipes.iter().all(|pipe| pipe.open)
}

/// Returns whether csi-proxy's program on the node is that of the request.
pub fn has_program(request: &Request, state: &NodeState) -> bool {
    state.csi_proxy.sha256.as_deref() == Some(request.sha256.as_str())
}

/// Returns whether csi-proxy runs and answers on all pipes of the request.
fn works_as(request: &Request, state: &NodeState) -> bool {
    let answers =
        |name: &String| (state.pipes.iter()).any(|pipe| pipe.name == *name && pipe.answers());
    state.csi_proxy.state == ServiceState::Running && request.pipes.iter().all(answers)
}

#[cfg(test)]
mod tests;
