//! How long the parts of a request took.

use std::time::{Duration, Instant};

use protocol::{Durations, milliseconds};

/// A part of a request's way through the agent's service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// [`Durations::prepare`].
    Prepare,
    /// [`Durations::stop`].
    Stop,
    /// [`Durations::install`].
    Install,
    /// [`Durations::start`].
    Start,
    /// [`Durations::pipes`].
    Pipes,
    /// [`Durations::finish`].
    Finish,
}

/// Adds up the parts while they go by.
#[derive(Clone, Debug)]
pub struct Clock {
    last: Instant,
    durations: Vec<(Part, Duration)>,
}

impl Clock {
    /// The first part begins now.
    #[must_use]
    pub fn start(now: Instant) -> Self {
        Self {
            last: now,
            durations: Vec::new(),
        }
    }

    /// What was done since the last call, or the start, belongs to this part.
    pub fn ended(&mut self, part: Part, now: Instant) {
        let took = now.saturating_duration_since(self.last);
        self.last = now;
        match self.durations.iter_mut().find(|(known, _)| *known == part) {
            Some((_, sum)) => *sum += took,
            None => self.durations.push((part, took)),
        }
    }

    /// The sums.
    #[must_use]
    pub fn durations(&self) -> Durations {
        let of = |part| {
            let found = self.durations.iter().find(|(known, _)| *known == part);
            found.map(|(_, sum)| milliseconds(*sum))
        };
        Durations {
            unpack: None,
            prepare: of(Part::Prepare),
            stop: of(Part::Stop),
            install: of(Part::Install),
            start: of(Part::Start),
            pipes: of(Part::Pipes),
            finish: of(Part::Finish),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_come_again_are_added_up() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut clock = Clock::start(begin);
        clock.ended(Part::Prepare, at(5));
        clock.ended(Part::Start, at(7));
        clock.ended(Part::Pipes, at(17));
        clock.ended(Part::Start, at(20));
        let durations = clock.durations();
        assert_eq!(durations.prepare, Some(5));
        assert_eq!(durations.start, Some(5));
        assert_eq!(durations.pipes, Some(10));
        assert_eq!(durations.stop, None);
    }
}
