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
    /// It is said to run, but its process is gone; Windows notices that at once, Wine does not.
    Dead,
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
    waiting_since: Option<(Look, Instant)>,
}

impl Keeper {
    /// One look at the service: what to do about it now.
    pub fn look(&mut self, look: Look, now: Instant, stop_timeout: Duration) -> Action {
        if !matches!(look, Look::Stopping | Look::Lingering | Look::Dead) {
            self.waiting_since = None;
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
            Look::Stopping if self.has_lasted(stop_timeout, look, now) => Action::EndProcess,
            Look::Lingering if self.has_lasted(LINGER, look, now) => Action::EndProcess,
            Look::Dead if self.has_lasted(LINGER, look, now) => self.try_again(now, Action::Start),
            Look::Starting | Look::Stopping | Look::Lingering | Look::Dead | Look::Held => {
                Action::Nothing
            }
            Look::Down => self.try_again(now, Action::Start),
            Look::Missing => self.try_again(now, Action::Create),
        }
    }

    fn has_lasted(&mut self, patience: Duration, look: Look, now: Instant) -> bool {
        let since = match self.waiting_since {
            Some((before, since)) if before == look => since,
            _ => now,
        };
        self.waiting_since = Some((look, since));
        now.duration_since(since) >= patience
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
        assert_eq!(keeper.look(Look::Dead, at(30), STOP), Action::Nothing);
        assert_eq!(keeper.look(Look::Dead, at(31), STOP), Action::Start);
        assert_eq!(keeper.look(Look::Starting, at(32), STOP), Action::Nothing);
    }
}
