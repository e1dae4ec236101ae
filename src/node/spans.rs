//! The spans of work on a node: what is logged meanwhile says where it comes from.

use tracing::Span;

/// A reconcile of a node. Not within the task's span, which lasts for as long as the node is there.
pub fn reconcile(node: &str) -> Span {
    tracing::error_span!(parent: None, "reconcile", node = %node)
}

/// A part of a reconcile.
pub fn phase(phase: &'static str) -> Span {
    // Of whatever level: what is logged says where it comes from.
    tracing::error_span!("phase", phase)
}
