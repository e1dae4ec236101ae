//! The spans of work on a node: what is logged meanwhile says where it comes from.

use tracing::Span;

/// A visit to a node. Not within the task's span, which lasts for as long as the node is there.
pub fn visit(node: &str) -> Span {
    tracing::error_span!(parent: None, "visit", node = %node)
}

/// A part of a visit.
pub fn phase(phase: &'static str) -> Span {
    // Of whatever level: what is logged says where it comes from.
    tracing::error_span!("phase", phase)
}
