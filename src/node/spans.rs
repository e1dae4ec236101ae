//! The spans of work on a node: what is logged meanwhile says where it comes from.

use tracing::Span;

/// A visit.
pub fn visit(node: &str) -> Span {
    tracing::error_span!(parent: None, "visit", node = %node)
}

/// A part of a visit: its name stands with all that is logged meanwhile.
pub fn phase(phase: &'static str) -> Span {
    // Whatever is logged, where it comes from is told.
    tracing::error_span!("phase", phase)
}
