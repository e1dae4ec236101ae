//! The parts of the work on a node: how long they take, and the spans that what is logged meanwhile stands in.

use std::fmt;
use std::time::{Duration, Instant};

use tracing::{Instrument, Span};

use crate::node::NodeError;

/// The span of a part, of whatever level: what is logged says where it comes from.
pub fn span(phase: &'static str) -> Span {
    tracing::error_span!("phase", phase)
}

/// How long the parts took, in the order in which they came first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases(Vec<(&'static str, Duration)>);

impl Phases {
    /// Adds to a part.
    pub fn add(&mut self, name: &'static str, took: Duration) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += took,
            None => self.0.push((name, took)),
        }
    }

    /// Does a part, and names it in what is logged meanwhile and in its error.
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

    /// Each part with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        self.0.iter().copied()
    }
}

impl fmt::Display for Phases {
    /// `1203 ms: connect 12 ms, login 40 ms, …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: Duration = self.0.iter().map(|(_, took)| *took).sum();
        write!(f, "{} ms", total.as_millis())?;
        for (index, (name, took)) in self.iter().enumerate() {
            let sign = if index == 0 { ":" } else { "," };
            write!(f, "{sign} {name} {} ms", took.as_millis())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_order_and_add_up() {
        let mut phases = Phases::default();
        for (name, took) in [
            ("connect", 12),
            ("status", 100),
            ("login", 40),
            ("status", 7),
        ] {
            phases.add(name, Duration::from_millis(took));
        }
        assert_eq!(
            phases.to_string(),
            "159 ms: connect 12 ms, status 107 ms, login 40 ms"
        );
    }
}
