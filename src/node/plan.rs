//! Plans the work on a node from its desired and its observed state.

use protocol::document::Service;
use protocol::order::same_name;
use protocol::paths::CSI_PROXY_SERVICE;
use protocol::{
    Failing, ForeignInstance, ForeignKind, LastResult, NodeState, Outcome, PipeStatus, Request,
    ServicePipes, ServiceState,
};

/// What the names of csi-proxy's pipes begin with.
const PIPES: &str = "csi-proxy-";

/// What a node shall look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Names what is desired, of whichever node: a hash over the programs and the services.
    pub revision: String,
    /// The hash of the agent that belongs there.
    pub agent_sha256: String,
    /// What the agent shall keep the node to. What comes from the Node object is not filled in yet.
    pub request: Request,
    /// `spec.rollout.resume`: another text asks for another attempt where one was undone.
    pub attempt: String,
    /// An update did not work on this node and was undone, and nobody has asked for another attempt: what happened.
    pub refused: Option<String>,
    /// It did not work on this node, and the administrator has asked for another attempt.
    pub retry: bool,
}

/// What the agent on a node needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentStep {
    /// Nothing: it is the one that belongs there, and runs.
    Keep,
    /// The right program is there, but its service does not run or answer, or runs another program than the one on disk.
    Restart,
    /// It is not there, is another one, or gives no answer that makes sense.
    Install {
        /// A csi-proxy that works there would lose its keeper if the new agent did not work.
        interrupts: bool,
    },
}

/// How a node compares to what is desired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It is as desired.
    Same,
    /// It is kept to the request, and something does not work: the agent goes on starting it, less and less often.
    Broken,
    /// It is kept to another request or none, or a change was cut off in the middle.
    Differs {
        /// Something works there that a change would interrupt.
        interrupts: bool,
    },
    /// The same request did not work there before and was undone, and what ran before works.
    Undone,
    /// A csi-proxy that is not this operator's runs there.
    Foreign,
}

/// What the agent needs on a node in that state; none where nothing there says what it sees.
#[must_use]
pub fn agent_step(desired: &Desired, state: Option<&NodeState>) -> AgentStep {
    let Some(state) = state else {
        return AgentStep::Install { interrupts: false };
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

/// How a node with the right agent compares to what is desired.
#[must_use]
pub fn compare(desired: &Desired, state: &NodeState) -> Comparison {
    let request = &desired.request;
    if state.unfinished_request_id.is_some() {
        return Comparison::Differs { interrupts: false };
    }
    let is_kept = is_kept(request, state);
    let is_foreign = !is_working(state) && in_the_way(request, state).is_some();
    if is_kept && has_files(request, state) {
        return match (has_all(request, state), is_foreign) {
            (true, _) => Comparison::Same,
            (false, true) => Comparison::Foreign,
            (false, false) => Comparison::Broken,
        };
    }
    let interrupts = is_interruptible(request, state);
    let last = state.last_result.as_ref();
    let was_undone = last.is_some_and(|last| last.id == request.id && speaks_against(last));
    // Where nothing works, an update that was undone may as well be tried again: there is nothing to interrupt.
    if !is_kept && interrupts && (desired.refused.is_some() || (was_undone && !desired.retry)) {
        Comparison::Undone
    } else if is_foreign && !interrupts {
        Comparison::Foreign
    } else {
        Comparison::Differs { interrupts }
    }
}

/// Whether the agent keeps the node to that very request.
#[must_use]
pub fn is_kept(request: &Request, state: &NodeState) -> bool {
    state.request_id.as_deref() == Some(request.id.as_str())
}

/// Whether a csi-proxy works there that a request would interrupt: the agent's own, or one that the request replaces.
#[must_use]
pub fn is_interruptible(request: &Request, state: &NodeState) -> bool {
    let replaces = request.replace_foreign && in_the_way(request, state).is_none();
    let mut foreign = state.foreign.iter();
    is_serving(state)
        || (replaces && foreign.any(|foreign| foreign.running && may_replace(foreign)))
}

/// Whether a csi-proxy of another owner is one that `replaceForeign` of a request allows to take over.
#[must_use]
pub fn may_replace(foreign: &ForeignInstance) -> bool {
    foreign.kind == ForeignKind::Service && same_name(&foreign.name, CSI_PROXY_SERVICE)
}

/// Whether a request is not to be tried again after this end. What happened to the host meanwhile says nothing of the
/// request, unless it happens time and again.
fn speaks_against(last: &LastResult) -> bool {
    const MOST_INTERRUPTIONS: u32 = 1;
    let failure = last.end.failure.as_ref();
    let by_the_host = failure.is_some_and(|failure| failure.category.is_of_the_host());
    last.end.outcome == Outcome::RolledBack && (!by_the_host || last.failures > MOST_INTERRUPTIONS)
}

/// A service that does not stay up, csi-proxy before all others, and what the agent says of it.
#[must_use]
pub fn failing_service(state: &NodeState) -> Option<(&str, &Failing)> {
    let services = state.services.iter();
    let failing = services.filter_map(|service| Some((&*service.name, service.failing.as_ref()?)));
    failing.max_by_key(|(name, _)| same_name(name, CSI_PROXY_SERVICE))
}

/// A csi-proxy of another owner that runs, and that the request may not replace.
#[must_use]
pub fn in_the_way<'a>(request: &Request, state: &'a NodeState) -> Option<&'a ForeignInstance> {
    state.foreign.iter().find(|foreign| {
        let replaceable = request.replace_foreign && may_replace(foreign);
        foreign.running && !replaceable
    })
}

/// Whether the csi-proxy that the agent keeps runs and answers on its pipes, whatever its version.
#[must_use]
pub fn is_working(state: &NodeState) -> bool {
    let mut pipes = state.pipes.iter();
    let is_answered = |pipe: &PipeStatus| !pipe.name.starts_with(PIPES) || pipe.answers();
    is_serving(state) && pipes.all(is_answered)
}

/// Whether it runs with its pipes, which a change would interrupt, also where one of them does not answer at the moment.
#[must_use]
pub fn is_serving(state: &NodeState) -> bool {
    let mut pipes = (state.pipes.iter())
        .filter(|pipe| pipe.name.starts_with(PIPES))
        .peekable();
    let runs = state.services.iter().any(|service| {
        service.state == ServiceState::Running && same_name(&service.name, CSI_PROXY_SERVICE)
    });
    state.request_id.is_some() && runs && pipes.peek().is_some() && pipes.all(|pipe| pipe.open)
}

/// Whether the files are those of the request.
#[must_use]
pub fn has_files(request: &Request, state: &NodeState) -> bool {
    request.files.iter().all(|file| {
        state.files.iter().any(|found| {
            found.path.eq_ignore_ascii_case(&file.path)
                && found.sha256.as_deref() == Some(file.sha256.as_str())
        })
    })
}

/// Whether all services run and answer on all their pipes.
fn has_all(request: &Request, state: &NodeState) -> bool {
    let (mut services, mut pipes) = (request.services.iter(), request.pipes.iter());
    services.all(|service| runs(state, service)) && pipes.all(|pipes| all_answer(state, pipes))
}

/// Whether one service of a request runs and answers on all its pipes.
#[must_use]
pub fn has_service(request: &Request, state: &NodeState, service: &Service) -> bool {
    let pipes = request.pipes.iter();
    let mut pipes = pipes.filter(|pipes| same_name(&pipes.service, &service.name));
    runs(state, service) && pipes.all(|pipes| all_answer(state, pipes))
}

fn runs(state: &NodeState, service: &Service) -> bool {
    (state.services.iter())
        .any(|found| same_name(&found.name, &service.name) && found.state == ServiceState::Running)
}

fn all_answer(state: &NodeState, wanted: &ServicePipes) -> bool {
    let answers =
        |name: &String| (state.pipes.iter()).any(|pipe| pipe.name == *name && pipe.answers());
    wanted.pipes.iter().all(answers)
}

#[cfg(test)]
mod tests;
