//! The next step on a node, from what it shall look like and what was seen there.

use protocol::document::Service;
use protocol::paths::CSI_PROXY_SERVICE;
use protocol::{
    Failing, FailureCategory, ForeignInstance, ForeignKind, LastResult, NodeState, Outcome,
    Request, ServiceState, ServiceStatus,
};

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
    /// The request did not work on this node and was undone, and nobody has asked for another attempt: what happened.
    pub refused: Option<String>,
    /// It did not work on this node, and the administrator has asked for another attempt.
    pub retry: bool,
}

/// What was seen on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// The agent's program is not there.
    NoAgent,
    /// It is there but gives no answer that makes sense.
    SilentAgent,
    /// It answered.
    State(Box<NodeState>),
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bring the agent and install it.
    BringAgent,
    /// Install the agent that is there: its service does not run, or runs another program than the one on disk.
    InstallAgent,
    /// Hand over the request, with the files that differ.
    Apply {
        /// Whether csi-proxy's binary must be sent.
        with_files: bool,
    },
    /// Something works there that this would interrupt: wait for the node's turn.
    AwaitTurn,
    /// The same request did not work there before and was undone: leave the node alone.
    LeaveUndone,
    /// A csi-proxy that somebody else made runs there: leave it alone.
    LeaveForeign,
    /// The node is kept to the request, and something does not work: the agent goes on starting it, less and less often.
    LeaveToAgent,
    /// The node is as it should be.
    Done,
}

/// How the agent on the node compares to the one that belongs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agent {
    Absent,
    Silent,
    Another,
    /// The right program, but its service does not run, or still runs another one.
    NotStarted,
    Right,
}

/// How the node compares to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    /// The request, and all of it works.
    Request,
    /// The request, but something does not work.
    RequestBroken,
    /// Another request or none; the one before works.
    AnotherWorking,
    /// Another request or none, and nothing works.
    NothingWorking,
    /// A change was cut off in the middle.
    CutOff,
    /// The request did not work there and was undone.
    Undone,
    /// A csi-proxy of somebody else runs there.
    Foreign,
}

/// The next step. `turn` says whether the node may be interrupted now.
#[must_use]
pub fn next_step(desired: &Desired, observed: &Observed, turn: bool) -> Step {
    let state = match observed {
        Observed::NoAgent => return for_agent(Agent::Absent, false, turn),
        Observed::SilentAgent => return for_agent(Agent::Silent, false, turn),
        Observed::State(state) => state,
    };
    match agent(desired, state) {
        Agent::Right => {}
        other => return for_agent(other, is_working(state), turn),
    }
    let with_files = !has_files(&desired.request, state);
    match (keeps(desired, state), turn) {
        (Keeps::Request, _) => Step::Done,
        (Keeps::AnotherWorking, false) => Step::AwaitTurn,
        (Keeps::AnotherWorking, true) | (Keeps::NothingWorking | Keeps::CutOff, _) => {
            Step::Apply { with_files }
        }
        (Keeps::RequestBroken, _) => Step::LeaveToAgent,
        (Keeps::Undone, _) => Step::LeaveUndone,
        (Keeps::Foreign, _) => Step::LeaveForeign,
    }
}

/// Another agent interrupts nothing, but one that does not work would leave csi-proxy without a keeper on every node
/// at once: it goes by turns as well.
fn for_agent(agent: Agent, works: bool, turn: bool) -> Step {
    match (agent, works && !turn) {
        (Agent::Absent | Agent::Silent, _) | (Agent::Another, false) => Step::BringAgent,
        (Agent::NotStarted, _) => Step::InstallAgent,
        (Agent::Another, true) => Step::AwaitTurn,
        (Agent::Right, _) => Step::Done,
    }
}

fn agent(desired: &Desired, state: &NodeState) -> Agent {
    let wanted = Some(desired.agent_sha256.as_str());
    if state.agent_sha256.as_deref() != wanted {
        return Agent::Another;
    }
    let runs_another = state
        .running_agent_sha256
        .as_deref()
        .is_some_and(|running| Some(running) != wanted);
    if state.agent_service != ServiceState::Running || runs_another {
        return Agent::NotStarted;
    }
    Agent::Right
}

fn keeps(desired: &Desired, state: &NodeState) -> Keeps {
    let request = &desired.request;
    if state.unfinished_request_id.is_some() {
        return Keeps::CutOff;
    }
    let undone = state
        .last_result
        .as_ref()
        .is_some_and(|last| last.id == request.id && speaks_against(last));
    let kept = state.request_id.as_deref() == Some(request.id.as_str());
    let works = interrupts(request, state);
    let foreign = !is_working(state) && in_the_way(request, state).is_some();
    if kept && has_files(request, state) {
        return match (has_all(request, state), foreign) {
            (true, _) => Keeps::Request,
            (false, true) => Keeps::Foreign,
            (false, false) => Keeps::RequestBroken,
        };
    }
    // Where nothing works, an update that was undone may as well be tried again: there is nothing to interrupt.
    if !kept && works && (desired.refused.is_some() || (undone && !desired.retry)) {
        Keeps::Undone
    } else if works {
        Keeps::AnotherWorking
    } else if foreign {
        Keeps::Foreign
    } else {
        Keeps::NothingWorking
    }
}

/// Whether handing over a request interrupts a csi-proxy that works: the agent's own, or one that the request replaces.
#[must_use]
pub fn interrupts(request: &Request, state: &NodeState) -> bool {
    let replaced = request.replace_foreign && in_the_way(request, state).is_none();
    is_working(state)
        || (replaced
            && state
                .foreign
                .iter()
                .any(|foreign| foreign.running && is_csi_proxy_service(foreign)))
}

fn is_csi_proxy_service(foreign: &ForeignInstance) -> bool {
    foreign.kind == ForeignKind::Service && foreign.name.eq_ignore_ascii_case(CSI_PROXY_SERVICE)
}

/// Whether a request is not to be tried again after this end. That the host lost its power in the middle says nothing of
/// the request, unless it happens time and again.
fn speaks_against(last: &LastResult) -> bool {
    const MOST_INTERRUPTIONS: u32 = 1;
    let interrupted = last
        .failure
        .as_ref()
        .is_some_and(|failure| failure.category == FailureCategory::Interrupted);
    last.outcome == Outcome::RolledBack && (!interrupted || last.failures > MOST_INTERRUPTIONS)
}

/// A service that does not stay up, csi-proxy before all others, and what the agent says of it.
#[must_use]
pub fn failing_service(state: &NodeState) -> Option<(&str, &Failing)> {
    let failing = |service: &ServiceStatus| service.failing.is_some();
    let is_csi_proxy =
        |service: &ServiceStatus| service.name.eq_ignore_ascii_case(CSI_PROXY_SERVICE);
    let service = state
        .services
        .iter()
        .filter(|service| failing(service))
        .max_by_key(|service| is_csi_proxy(service))?;
    Some((&service.name, service.failing.as_ref()?))
}

/// A csi-proxy of somebody else that runs, and that the request may not replace.
#[must_use]
pub fn in_the_way<'a>(request: &Request, state: &'a NodeState) -> Option<&'a ForeignInstance> {
    state.foreign.iter().find(|foreign| {
        let replaceable = request.replace_foreign && is_csi_proxy_service(foreign);
        foreign.running && !replaceable
    })
}

/// Whether the csi-proxy that the agent keeps runs and serves its pipes, whatever its version.
#[must_use]
pub fn is_working(state: &NodeState) -> bool {
    let mut pipes = state
        .pipes
        .iter()
        .filter(|pipe| pipe.name.starts_with("csi-proxy-"))
        .peekable();
    state.request_id.is_some()
        && state.services.iter().any(|service| {
            service.name.eq_ignore_ascii_case(CSI_PROXY_SERVICE)
                && service.state == ServiceState::Running
        })
        && pipes.peek().is_some()
        && pipes.all(|pipe| pipe.open)
}

fn has_files(request: &Request, state: &NodeState) -> bool {
    request.files.iter().all(|file| {
        state.files.iter().any(|found| {
            found.path.eq_ignore_ascii_case(&file.path)
                && found.sha256.as_deref() == Some(file.sha256.as_str())
        })
    })
}

/// Whether all services run and all pipes are open.
fn has_all(request: &Request, state: &NodeState) -> bool {
    request
        .services
        .iter()
        .all(|service| runs(state, &service.name))
        && request
            .pipes
            .iter()
            .flat_map(|service| &service.pipes)
            .all(|pipe| open(state, pipe))
}

/// Whether one service of a request runs, with all its pipes.
#[must_use]
pub fn has_service(request: &Request, state: &NodeState, service: &Service) -> bool {
    let mut pipes = request
        .pipes
        .iter()
        .filter(|pipes| pipes.service == service.name)
        .flat_map(|list| &list.pipes);
    runs(state, &service.name) && pipes.all(|pipe| open(state, pipe))
}

fn runs(state: &NodeState, name: &str) -> bool {
    state
        .services
        .iter()
        .any(|service| service.name == name && service.state == ServiceState::Running)
}

fn open(state: &NodeState, name: &str) -> bool {
    state
        .pipes
        .iter()
        .any(|pipe| pipe.name == name && pipe.open)
}

#[cfg(test)]
mod tests;
