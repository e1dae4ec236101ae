//! The spans of work on a node: what is logged meanwhile says where it comes from, and traces are made of them.

use tracing::Span;
use tracing::field::{Empty, display};

use crate::node::NodeError;

/// A visit. Not within the task's span, which lasts for as long as the node is there. What it can have of a fault is for
/// traces; the log has a line for that.
pub fn visit(node: &str) -> Span {
    tracing::error_span!(
        parent: None,
        "visit",
        node = %node,
        reason = Empty,
        phase = Empty,
        otel.status_code = Empty,
        otel.status_description = Empty,
    )
}

/// A part of a visit: its name stands with all that is logged meanwhile.
pub fn phase(phase: &'static str) -> Span {
    // Whatever is logged, where it comes from is told.
    tracing::error_span!("phase", phase)
}

/// The visit has failed.
pub fn failed(visit: &Span, error: &NodeError) {
    visit.record("reason", error.reason.as_str());
    visit.record("phase", error.phase);
    visit.record("otel.status_code", "ERROR");
    visit.record("otel.status_description", display(error));
}
