//! For how long pipes were closed.

use std::time::{Duration, Instant};

/// From the end of the first process that served pipes to the last pipe that opened.
///
/// Services without pipes, which stop and start alongside, do not count: nobody waits for them at a pipe.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interruption {
    closed: Option<Instant>,
    opened: Option<Instant>,
}

impl Interruption {
    /// A service's process has ended; its pipes closed with it.
    pub fn ended(&mut self, pipes: &[String], at: Option<Instant>) {
        if !pipes.is_empty() {
            self.closed = self.closed.or(at);
        }
    }

    /// All of a service's pipes are open.
    pub fn opened(&mut self, pipes: &[String], at: Instant) {
        if !pipes.is_empty() {
            self.opened = Some(at);
        }
    }

    /// How long it was, where pipes closed and opened.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        let (closed, opened) = self.closed.zip(self.opened)?;
        Some(opened.saturating_duration_since(closed))
    }

    /// The same in milliseconds.
    #[must_use]
    pub fn milliseconds(&self) -> Option<u64> {
        u64::try_from(self.duration()?.as_millis()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_without_pipes_do_not_count() {
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        let (pipes, none) = (["p".to_owned()], []);
        let mut interruption = Interruption::default();
        interruption.ended(&none, Some(at(0)));
        interruption.ended(&pipes, Some(at(10)));
        interruption.opened(&pipes, at(12));
        interruption.opened(&none, at(30));
        assert_eq!(interruption.milliseconds(), Some(2000));
    }

    #[test]
    fn from_the_first_to_close_to_the_last_to_open() {
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        let pipes = ["p".to_owned()];
        let mut interruption = Interruption::default();
        interruption.ended(&pipes, None);
        interruption.ended(&pipes, Some(at(1)));
        interruption.ended(&pipes, Some(at(3)));
        interruption.opened(&pipes, at(4));
        interruption.opened(&pipes, at(6));
        assert_eq!(interruption.duration(), Some(Duration::from_secs(5)));
    }

    #[test]
    fn what_was_not_open_was_not_interrupted() {
        let mut interruption = Interruption::default();
        interruption.opened(&["p".to_owned()], Instant::now());
        assert_eq!(interruption.duration(), None);
    }
}
