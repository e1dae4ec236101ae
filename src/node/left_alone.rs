//! Explains why the operator leaves a node as it is.

use protocol::{FailureCategory, ForeignInstance, NodeState, Request};

use crate::node::error::LOGS;
use crate::node::plan::{Why, in_the_way};
use crate::node::{NodeError, Reason, printable};

/// Explains why nothing more is done on a node in that state.
pub fn explain(why: Why, request: &Request, state: Option<&NodeState>) -> NodeError {
    match (why, state) {
        (Why::Busy, Some(state)) => busy(state),
        (Why::Broken, Some(state)) => broken(state),
        (Why::Undone, Some(state)) => undone(state),
        (Why::Foreign, Some(state)) => foreign(request, state),
        (_, None) | (Why::Stuck, _) => Reason::AgentFailed.error(
            r"the agent on the node reports no valid state, or not the one that was asked for; see C:\var\log\windows-storage-agent on the node",
        ),
    }
}

/// Explains why a node in the middle of a request gets no other one.
fn busy(state: &NodeState) -> NodeError {
    let last = state.last_result.as_ref();
    let last = last.filter(|last| state.unfinished_request_id.as_ref() == Some(&last.id));
    match last.and_then(|last| last.end.failure.as_ref()) {
        Some(failure) => NodeError::from_agent(failure, Reason::CSIProxyFailed),
        None => Reason::CSIProxyFailed.error(format!(
            "the agent on the node still carries out an earlier request, and the node is looked at again when it may have \
             ended; {LOGS}"
        )),
    }
}

/// Explains why an update that was rolled back is not retried.
fn undone(state: &NodeState) -> NodeError {
    let last = state.last_result.as_ref();
    match last.and_then(|last| last.end.failure.as_ref()) {
        Some(failure) => NodeError::from_agent(failure, Reason::RolledBack),
        None => Reason::RolledBack.error("the update failed and was rolled back"),
    }
}

/// Explains why nothing is installed next to another owner's csi-proxy.
fn foreign(request: &Request, state: &NodeState) -> NodeError {
    let who =
        in_the_way(request, state).map_or_else(|| "another csi-proxy".to_owned(), describe_foreign);
    let message = format!("a csi-proxy that is not this operator's runs on the node: {who}");
    let failure = FailureCategory::Foreign.failure(message);
    NodeError::from_agent(&failure, Reason::CSIProxyFailed)
}

/// Describes a foreign csi-proxy.
pub fn describe_foreign(instance: &ForeignInstance) -> String {
    let state = if instance.running {
        "running"
    } else {
        "stopped"
    };
    printable(&format!("{instance}, {state}"))
}

/// Explains what fails on a node whose agent already has the request and keeps retrying on its own.
fn broken(state: &NodeState) -> NodeError {
    match &state.csi_proxy.failing {
        // The agent waits for another program, so it has not tried to start the service.
        Some(failing) if failing.attempts == 0 => Reason::CSIProxyFailed.error(format!(
            "csi-proxy is not running correctly: {}; {LOGS}",
            failing.message
        )),
        Some(failing) => Reason::CrashLoop.error(format!(
            "csi-proxy does not stay up: {}; {} starts failed, and the next one is {} s after the last; {LOGS}",
            failing.message, failing.attempts, failing.retry_seconds
        )),
        None => {
            let pipes = state.pipes.iter();
            let problems = pipes.filter_map(|pipe| Some((&pipe.name, pipe.problem.as_ref()?)));
            let problem = problems.map(|(name, problem)| format!("; pipe {name}: {problem}"));
            Reason::CSIProxyFailed.error(format!(
                "csi-proxy is not running, or not answering on all pipes{}; the agent on the node starts it again; {LOGS}",
                problem.take(1).collect::<String>()
            ))
        }
    }
}
