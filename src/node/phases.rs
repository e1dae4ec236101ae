//! How long the parts of a visit take.

use std::fmt;
use std::time::{Duration, Instant};

/// How long the parts of a visit took, in the order in which they came first.
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

    /// What was done since then belongs to a part.
    pub fn ended(&mut self, name: &'static str, begin: Instant) {
        self.add(name, begin.elapsed());
    }

    /// Each part with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        self.0.iter().copied()
    }

    /// All parts together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.0.iter().map(|(_, took)| *took).sum()
    }
}

impl fmt::Display for Phases {
    /// `1203 ms: connect 12 ms, login 40 ms, …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.total().as_millis())?;
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
        phases.add("connect", Duration::from_millis(12));
        phases.add("status", Duration::from_millis(100));
        phases.add("login", Duration::from_millis(40));
        phases.add("status", Duration::from_millis(7));
        assert_eq!(
            phases.to_string(),
            "159 ms: connect 12 ms, status 107 ms, login 40 ms"
        );
    }
}
