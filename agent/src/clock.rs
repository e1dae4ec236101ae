//! Measures how long the parts of a request take, and how long csi-proxy's pipes are closed.

use std::time::Instant;

use protocol::{Durations, milliseconds};

/// Adds up the durations of a request's parts.
///
/// The interruption lasts from the end of the first process that served pipes to the opening of the last pipe. Services
/// without pipes that stop and start as well do not count: no client waits for them at a pipe.
#[derive(Clone, Debug)]
pub struct Clock {
    last: Instant,
    /// The total of each part.
    pub durations: Durations,
    closed: Option<Instant>,
    opened: Option<Instant>,
}

impl Clock {
    /// Starts the first part.
    #[must_use]
    pub fn start(now: Instant) -> Self {
        Self {
            last: now,
            durations: Durations::default(),
            closed: None,
            opened: None,
        }
    }

    /// Adds the time since the last call, or since the start, to this one of the [`parts`](protocol::parts).
    pub fn ended(&mut self, part: &str, now: Instant) {
        let took = milliseconds(now.saturating_duration_since(self.last));
        *self.durations.entry(part.to_owned()).or_default() += took;
        self.last = now;
    }

    /// Records that a service's process ended and its pipes closed.
    pub fn pipes_closed(&mut self, pipes: &[String], at: Option<Instant>) {
        if !pipes.is_empty() {
            self.closed = self.closed.or(at);
        }
    }

    /// Records that all of a service's pipes are open.
    pub fn pipes_opened(&mut self, pipes: &[String], at: Instant) {
        if !pipes.is_empty() {
            self.opened = Some(at);
        }
    }

    /// Returns how long pipes were closed, in milliseconds; `None` unless some closed and opened.
    #[must_use]
    pub fn interruption(&self) -> Option<u64> {
        let (closed, opened) = self.closed.zip(self.opened)?;
        Some(milliseconds(opened.saturating_duration_since(closed)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn parts_that_come_again_are_added_up() {
        let begin = Instant::now();
        let mut clock = Clock::start(begin);
        for (part, milliseconds) in [("prepare", 5), ("start", 7), ("pipes", 17), ("start", 20)] {
            clock.ended(part, begin + Duration::from_millis(milliseconds));
        }
        let expected = [("pipes", 10), ("prepare", 5), ("start", 5)];
        let expected = expected.map(|(part, took)| (part.to_owned(), took));
        assert_eq!(clock.durations, expected.into());
    }

    #[test]
    fn an_interruption_goes_from_the_first_pipe_to_close_to_the_last_to_open() {
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        let (pipes, none) = (["p".to_owned()], []);
        let mut clock = Clock::start(begin);
        clock.pipes_opened(&pipes, at(0));
        assert_eq!(clock.interruption(), None, "nothing was closed");
        clock.pipes_closed(&none, Some(at(0)));
        for closed in [None, Some(at(10)), Some(at(11))] {
            clock.pipes_closed(&pipes, closed);
        }
        clock.pipes_opened(&pipes, at(12));
        clock.pipes_opened(&pipes, at(14));
        clock.pipes_opened(&none, at(30));
        assert_eq!(clock.interruption(), Some(4000));
    }
}
