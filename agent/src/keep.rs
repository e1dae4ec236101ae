//! When a service that should be running is started again.

use std::time::{Duration, Instant};

const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// How long a process may live on after its service has said that it stopped. From then on Windows itself may end it at
/// any time, and csi-proxy's, which goes on serving, would otherwise never go.
pub const LINGER: Duration = Duration::from_secs(1);
/// A service that has run this long is taken to be well.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// How a service looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It runs, or somebody has paused it.
    Up,
    /// It is on its way up.
    Starting,
    /// It is on its way down.
    Stopping,
    /// It is stopped, but its process is still there and holds its pipes.
    Lingering,
    /// It is stopped, and a process that is not its own holds its pipes.
    Held,
    /// It is stopped and its process is gone.
    Down,
    /// It was deleted.
    Missing,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look again later.
    Nothing,
    /// Start it.
    Start,
    /// Make it again, then start it.
    Create,
    /// End its process, which has had its time.
    EndProcess,
}

/// What is remembered about one service.
#[derive(Clone, Debug, Default)]
pub struct Keeper {
    attempts: u32,
    not_before: Option<Instant>,
    up_since: Option<Instant>,
    ending_since: Option<(Look, Instant)>,
}

impl Keeper {
    /// One look at the service: what to do about it now.
    pub fn look(&mut self, look: Look, now: Instant, stop_timeout: Duration) -> Action {
        if !matches!(look, Look::Stopping | Look::Lingering) {
            self.ending_since = None;
        }
        if look != Look::Up {
            self.up_since = None;
        }
        match look {
            Look::Up => {
                let since = *self.up_since.get_or_insert(now);
                if now.duration_since(since) >= HEALTHY_AFTER {
                    self.attempts = 0;
                    self.not_before = None;
                }
                Action::Nothing
            }
            Look::Starting | Look::Held => Action::Nothing,
            Look::Stopping => self.end_after(stop_timeout, look, now),
            Look::Lingering => self.end_after(LINGER, look, now),
            Look::Down => self.try_again(now, Action::Start),
            Look::Missing => self.try_again(now, Action::Create),
        }
    }

    fn end_after(&mut self, patience: Duration, look: Look, now: Instant) -> Action {
        let since = match self.ending_since {
            Some((before, since)) if before == look => since,
            _ => now,
        };
        self.ending_since = Some((look, since));
        if now.duration_since(since) >= patience {
            Action::EndProcess
        } else {
            Action::Nothing
        }
    }

    fn try_again(&mut self, now: Instant, action: Action) -> Action {
        if self.not_before.is_some_and(|time| now < time) {
            return Action::Nothing;
        }
        self.not_before = Some(now + delay(self.attempts));
        self.attempts = self.attempts.saturating_add(1);
        action
    }
}

/// The time between an attempt and the next, after so many before it.
fn delay(attempts: u32) -> Duration {
    FIRST_DELAY
        .saturating_mul(2_u32.saturating_pow(attempts))
        .min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOP: Duration = Duration::from_secs(10);

    #[test]
    fn starts_at_once_then_less_and_less_often() {
        let begin = Instant::now();
        let mut keeper = Keeper::default();
        let mut starts = vec![];
        for second in 0..200 {
            if keeper.look(Look::Down, begin + Duration::from_secs(second), STOP) == Action::Start {
                starts.push(second);
            }
        }
        assert_eq!(starts, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
    }

    #[test]
    fn a_healthy_minute_forgives() {
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        let mut keeper = Keeper::default();
        for second in 0..8 {
            keeper.look(Look::Down, at(second), STOP);
        }
        keeper.look(Look::Up, at(8), STOP);
        keeper.look(Look::Up, at(68), STOP);
        assert_eq!(keeper.look(Look::Down, at(69), STOP), Action::Start);
        assert_eq!(keeper.look(Look::Missing, at(70), STOP), Action::Create);
    }

    #[test]
    fn waits_for_the_old_process_but_not_for_ever() {
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        let mut keeper = Keeper::default();
        assert_eq!(keeper.look(Look::Stopping, at(0), STOP), Action::Nothing);
        assert_eq!(keeper.look(Look::Stopping, at(9), STOP), Action::Nothing);
        assert_eq!(
            keeper.look(Look::Stopping, at(10), STOP),
            Action::EndProcess
        );
        assert_eq!(keeper.look(Look::Lingering, at(10), STOP), Action::Nothing);
        assert_eq!(
            keeper.look(Look::Lingering, at(11), STOP),
            Action::EndProcess
        );
        assert_eq!(keeper.look(Look::Held, at(30), STOP), Action::Nothing);
        assert_eq!(keeper.look(Look::Down, at(31), STOP), Action::Start);
        assert_eq!(keeper.look(Look::Starting, at(32), STOP), Action::Nothing);
    }
}
