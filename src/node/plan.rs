//! Plans the work on a node from its desired and its observed state.

use protocol::names::same_name;
use protocol::paths::CSI_PROXY_SERVICE;
use protocol::{
    ForeignInstance, ForeignKind, LastResult, NodeState, Outcome, PipeStatus, Request, ServiceState,
};

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

/// What to do with the agent on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentStep {
    /// Nothing: the right agent is installed and running.
    Keep,
    /// The right program is installed, but its service does not run or answer, or runs another program than the one on disk.
    Restart,
    /// The agent is missing, is another one, or gives no valid answer.
    Install {
        /// Whether csi-proxy works, and would lose its agent if the new one failed.
        interrupts: bool,
    },
}

/// How a node compares to its desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The node is in its desired state.
    Same,
    /// The agent has the request, but something does not work. The agent keeps retrying with backoff.
    Broken,
    /// The agent has another request or none, or a change was interrupted.
    Differs {
        /// Whether a change would interrupt something that works.
        interrupts: bool,
    },
    /// An update was rolled back before, and what ran before works.
    Undone,
    /// Another owner's csi-proxy runs on the node.
    Foreign,
}

/// Returns what to do with the agent on a node in that state; without a state, no agent has given one. If one
/// `is_installed` even so, such as one of another version, csi-proxy may work there.
#[must_use]
pub fn agent_step(desired: &Desired, state: Option<&NodeState>, is_installed: bool) -> AgentStep {
    let Some(state) = state else {
        return AgentStep::Install {
            interrupts: is_installed,
        };
    };
    let wanted = Some(desired.agent_sha256.as_str());
    if state.agent_sha256.as_deref() != wanted {
        return AgentStep::Install {
            interrupts: is_serving(state),
        };
    }
    let running = state.running_agent_sha256.as_deref();
    if state.agent_service != ServiceState::Running
        || state.agent_problem.is_some()
        || (running.is_some() && running != wanted)
    {
        return AgentStep::Restart;
    }
    AgentStep::Keep
}

/// Compares a node with the right agent to its desired state.
#[must_use]
pub fn compare(desired: &Desired, state: &NodeState) -> Comparison {
    let request = &desired.request;
    if state.unfinished_request_id.is_some() {
        return Comparison::Differs { interrupts: false };
    }
    let is_kept = is_kept(request, state);
    let is_foreign = !is_working(state) && in_the_way(request, state).is_some();
    if is_kept && has_program(request, state) {
        return match (works_as(request, state), is_foreign) {
            (true, _) => Comparison::Same,
            (false, true) => Comparison::Foreign,
            (false, false) => Comparison::Broken,
        };
    }
    let interrupts = is_interruptible(request, state);
    // Whatever was rolled back, a stopped rollout waits for the administrator to resume it. If nothing works, it may be
    // retried: there is nothing to interrupt.
    let last = state.last_result.as_ref();
    let was_undone =
        last.is_some_and(|last| last.attempt == request.attempt && speaks_against(last));
    if !is_kept && interrupts && was_undone {
        Comparison::Undone
    } else if is_foreign && !interrupts {
        Comparison::Foreign
    } else {
        Comparison::Differs { interrupts }
    }
}

/// Returns whether the agent currently enforces this request.
#[must_use]
pub fn is_kept(request: &Request, state: &NodeState) -> bool {
    state.request_id.as_deref() == Some(request.id.as_str())
}

/// Returns whether a request would interrupt a working csi-proxy: the agent's own, or one that the request replaces.
#[must_use]
pub fn is_interruptible(request: &Request, state: &NodeState) -> bool {
    let replaces = request.replace_foreign && in_the_way(request, state).is_none();
    let mut foreign = state.foreign.iter();
    is_serving(state)
        || (replaces && foreign.any(|foreign| foreign.running && may_replace(foreign)))
}

/// Returns whether `replaceForeign` of a request allows taking over this csi-proxy of another owner.
#[must_use]
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
#[must_use]
pub fn in_the_way<'a>(request: &Request, state: &'a NodeState) -> Option<&'a ForeignInstance> {
    state.foreign.iter().find(|foreign| {
        let replaceable = request.replace_foreign && may_replace(foreign);
        foreign.running && !replaceable
    })
}

/// Returns whether the agent's csi-proxy runs and answers on its pipes, whatever its version.
#[must_use]
pub fn is_working(state: &NodeState) -> bool {
    !state.pipes.is_empty() && is_serving(state) && state.pipes.iter().all(PipeStatus::answers)
}

/// Returns whether it runs with its pipes open, so that a change would interrupt it, even if a pipe does not answer now. An
/// agent without a request, such as one that has just replaced another version, knows no pipes.
#[must_use]
pub fn is_serving(state: &NodeState) -> bool {
    let is_ours = state.request_id.is_some() || !state.foreign.iter().any(may_replace);
    let runs = state.csi_proxy.state == ServiceState::Running;
    is_ours && runs && state.pipes.iter().all(|pipe| pipe.open)
}

/// Returns whether csi-proxy's program on the node is that of the request.
#[must_use]
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
