//! The steps, and their expected results.

use protocol::NodeState;
use protocol::paths::{CSI_PROXY_EXE, CSI_PROXY_SERVICE};

use crate::node::payload::Program;
use crate::node::plan::is_working;
use crate::node::{NodeError, Reason};

use super::line::Line;
use super::programs::Programs;

/// One reconcile of the host, and its expected result.
pub struct Step<'a> {
    /// Name of the step.
    pub id: &'static str,
    pub agent: &'a Program,
    /// The csi-proxy that is to be installed.
    pub brings: &'a Program,
    /// The csi-proxy that should answer afterwards.
    pub leaves: &'a Program,
    /// How the reconcile should end, as [`end`] describes it.
    pub end: &'static str,
    /// Whether csi-proxy should have another process afterwards.
    pub restarts: bool,
    pub line: Line,
}

/// Returns all steps, in an order in which each finds what it needs.
pub fn steps(programs: &Programs, slow: u64) -> Vec<Step<'_>> {
    let Programs {
        payload,
        other,
        broken,
        agent,
        ..
    } = programs;
    let (own, own_agent) = (&payload.csi_proxy, &payload.agent);
    let cut = Line::Cut {
        after: programs.travels / 2,
    };
    let slow = Line::Slow {
        bytes_per_second: slow,
    };
    let plain = Line::Plain;
    let table = [
        ("fresh", own_agent, own, own, "done", true, plain),
        ("unchanged", own_agent, own, own, "done", false, plain),
        (
            "other-csi-proxy",
            own_agent,
            other,
            other,
            "done",
            true,
            plain,
        ),
        (
            "cut-line",
            own_agent,
            own,
            other,
            "connection lost",
            false,
            cut,
        ),
        ("after-the-cut", own_agent, own, own, "done", true, plain),
        (
            "broken-csi-proxy",
            own_agent,
            broken,
            own,
            "rolled back",
            true,
            plain,
        ),
        (
            "not-tried-again",
            own_agent,
            broken,
            own,
            "rolled back",
            false,
            plain,
        ),
        ("agent-upgrade", agent, own, own, "done", false, plain),
        ("slow-line", agent, other, other, "done", true, slow),
    ];
    let step = |(id, agent, brings, leaves, end, restarts, line)| Step {
        id,
        agent,
        brings,
        leaves,
        end,
        restarts,
        line,
    };
    table.map(step).into()
}

impl Step<'_> {
    /// Returns the expected result.
    pub fn expected(&self) -> String {
        words(self.end, true, self.restarts)
    }
}

/// Describes how a reconcile ended.
pub fn end(problem: Option<&NodeError>) -> &str {
    match problem.map(|error| error.reason) {
        None => "done",
        Some(Reason::RolledBack) => "rolled back",
        Some(Reason::TransferFailed | Reason::Unreachable) => "connection lost",
        Some(reason) => reason.as_str(),
    }
}

/// Describes the observed result.
pub fn observed(
    step: &Step<'_>,
    problem: Option<&NodeError>,
    before: Option<&NodeState>,
    after: Option<&NodeState>,
) -> String {
    let answers = after.is_some_and(|state| is_working(state) && has(state, step.leaves));
    words(end(problem), answers, process(before) != process(after))
}

fn words(end: &str, answers: bool, restarts: bool) -> String {
    let csi_proxy = if answers {
        "the right csi-proxy answers"
    } else {
        "the right csi-proxy does not answer"
    };
    let process = if restarts {
        "in another process"
    } else {
        "in the same process"
    };
    format!("{end}; {csi_proxy}, {process}")
}

fn has(state: &NodeState, program: &Program) -> bool {
    state.files.iter().any(|file| {
        file.path.eq_ignore_ascii_case(CSI_PROXY_EXE)
            && file.sha256.as_deref() == Some(&program.sha256)
    })
}

fn process(state: Option<&NodeState>) -> Option<u32> {
    let mut services = state.iter().flat_map(|state| &state.services);
    services
        .find(|service| service.name == CSI_PROXY_SERVICE)?
        .process_id
}
