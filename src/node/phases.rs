//! Measures the phases of the work on a node, and provides the tracing spans for them.

use std::time::{Duration, Instant};

use tracing::{Instrument, Span};

use crate::node::NodeError;

/// Creates the span of a phase. It has the level error, so that log messages of every level name their phase.
pub fn span(phase: &'static str) -> Span {
    tracing::error_span!("phase", phase)
}

/// Durations of the phases, in the order in which they first occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases(Vec<(&'static str, Duration)>);

impl Phases {
    /// Adds to the duration of a phase.
    pub fn add(&mut self, name: &'static str, took: Duration) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += took,
            None => self.0.push((name, took)),
        }
    }

    /// Runs and measures a phase. Log messages and its error name the phase.
    pub async fn time<T>(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, NodeError> {
        let begin = Instant::now();
        let done = work.instrument(span(name)).await;
        self.add(name, begin.elapsed());
        done.map_err(|error| error.in_phase(name))
    }

    /// Returns each phase with its duration.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        self.0.iter().copied()
    }
}
