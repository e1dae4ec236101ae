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
    /// It runs with all its pipes, or somebody has paused it.
    Up,
    /// It runs, but not all its pipes are open.
    Mute,
    /// It is there, but not configured as it was.
    Changed,
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
    /// It was deleted, but stays until it has stopped and everybody has closed it. Until then it can neither be changed
    /// nor made again; where it runs, it may go on.
    Marked,
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
    /// Configure it as it was.
    Mend,
    /// Stop it, then start it.
    Restart,
    /// End its process, which has had its time.
    EndProcess,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From being asked to stop to the end of the process.
    pub stop: Duration,
    /// From the start to the pipes.
    pub start: Duration,
}

/// Attempts that come less and less often.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    attempts: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    /// The first attempt has just failed.
    #[must_use]
    pub fn after_first(now: Instant) -> Self {
        let mut backoff = Self::default();
        backoff.try_now(now);
        backoff
    }

    /// Whether the next attempt is due; it is made then.
    pub fn try_now(&mut self, now: Instant) -> bool {
        let is_due = self.not_before.is_none_or(|time| now >= time);
        if is_due {
            self.not_before = Some(now + delay(self.attempts));
            self.attempts = self.attempts.saturating_add(1);
        }
        is_due
    }
}

/// The time between an attempt and the next, after so many before it.
fn delay(attempts: u32) -> Duration {
    FIRST_DELAY
        .saturating_mul(2_u32.saturating_pow(attempts))
        .min(LONGEST_DELAY)
}

/// What is remembered about one service.
#[derive(Clone, Debug, Default)]
pub struct Keeper {
    backoff: Backoff,
    /// Of the attempts, those that have failed.
    failed: u32,
    up_since: Option<Instant>,
    waiting_since: Option<(Look, Instant)>,
    last_look: Option<Look>,
}

impl Keeper {
    /// One look at the service: what to do about it now.
    pub fn look(&mut self, look: Look, now: Instant, limits: Limits) -> Action {
        self.last_look = Some(look);
        self.waiting_since = self.waiting_since.filter(|(before, _)| *before == look);
        if look == Look::Up {
            let since = *self.up_since.get_or_insert(now);
            if now.duration_since(since) >= HEALTHY_AFTER {
                self.backoff = Backoff::default();
                self.failed = 0;
            }
            return Action::Nothing;
        }
        self.up_since = None;
        match look {
            Look::Stopping if self.has_lasted(limits.stop, look, now) => Action::EndProcess,
            Look::Lingering if self.has_lasted(LINGER, look, now) => Action::EndProcess,
            Look::Dead if self.has_lasted(LINGER, look, now) => self.attempt(now, Action::Start),
            Look::Mute | Look::Starting if self.has_lasted(limits.start, look, now) => {
                let action = self.attempt(now, Action::Restart);
                if action != Action::Nothing {
                    self.waiting_since = None;
                }
                action
            }
            Look::Changed => self.attempt(now, Action::Mend),
            Look::Down => self.attempt(now, Action::Start),
            Look::Missing => self.attempt(now, Action::Create),
            Look::Up
            | Look::Starting
            | Look::Mute
            | Look::Stopping
            | Look::Lingering
            | Look::Dead
            | Look::Held
            | Look::Marked => Action::Nothing,
        }
    }

    /// The attempt that was just made has failed.
    pub fn attempt_failed(&mut self) {
        self.failed = self.backoff.attempts;
    }

    /// Windows after a crash, or anybody else, has started it again.
    pub fn restarted_by_others(&mut self) {
        self.attempt_failed();
        self.backoff.attempts = self.backoff.attempts.saturating_add(1);
    }

    /// While the service does not stay up: the starts that failed since it was last well, and the pause before the next.
    #[must_use]
    pub fn failing(&self) -> Option<(u32, Duration)> {
        let is_stuck = matches!(self.last_look, Some(Look::Held | Look::Marked));
        let pause = delay(self.backoff.attempts.saturating_sub(1));
        (is_stuck || self.failed > 0).then_some((self.failed, pause))
    }

    fn has_lasted(&mut self, patience: Duration, look: Look, now: Instant) -> bool {
        let (_, since) = *self.waiting_since.get_or_insert((look, now));
        now.duration_since(since) >= patience
    }

    fn attempt(&mut self, now: Instant, action: Action) -> Action {
        let before = self.backoff.attempts;
        if !self.backoff.try_now(now) {
            return Action::Nothing;
        }
        self.failed = before;
        action
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        stop: Duration::from_secs(10),
        start: Duration::from_secs(20),
    };

    #[test]
    fn starts_at_once_then_less_and_less_often() {
        let begin = Instant::now();
        let mut keeper = Keeper::default();
        let mut starts = vec![];
        for second in 0..200 {
            if keeper.look(Look::Down, begin + Duration::from_secs(second), LIMITS) == Action::Start
            {
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
            keeper.look(Look::Down, at(second), LIMITS);
        }
        keeper.look(Look::Up, at(8), LIMITS);
        keeper.look(Look::Up, at(68), LIMITS);
        assert_eq!(keeper.look(Look::Down, at(69), LIMITS), Action::Start);
        assert_eq!(keeper.look(Look::Missing, at(70), LIMITS), Action::Create);
    }

    #[test]
    fn waits_for_the_old_process_but_not_for_ever() {
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        let mut keeper = Keeper::default();
        assert_eq!(keeper.look(Look::Stopping, at(0), LIMITS), Action::Nothing);
        assert_eq!(keeper.look(Look::Stopping, at(9), LIMITS), Action::Nothing);
        assert_eq!(
            keeper.look(Look::Stopping, at(10), LIMITS),
            Action::EndProcess
        );
        assert_eq!(
            keeper.look(Look::Lingering, at(10), LIMITS),
            Action::Nothing
        );
        assert_eq!(
            keeper.look(Look::Lingering, at(11), LIMITS),
            Action::EndProcess
        );
        assert_eq!(keeper.look(Look::Held, at(30), LIMITS), Action::Nothing);
        assert_eq!(keeper.look(Look::Dead, at(30), LIMITS), Action::Nothing);
        assert_eq!(keeper.look(Look::Dead, at(31), LIMITS), Action::Start);
        assert_eq!(keeper.look(Look::Starting, at(32), LIMITS), Action::Nothing);
    }

    #[test]
    fn a_service_that_stays_mute_is_started_again_less_and_less_often() {
        let begin = Instant::now();
        for look in [Look::Mute, Look::Starting] {
            let mut keeper = Keeper::default();
            let restarts: Vec<u64> = (0..160)
                .filter(|second| {
                    let now = begin + Duration::from_secs(*second);
                    keeper.look(look, now, LIMITS) == Action::Restart
                })
                .collect();
            // Each start has its whole time, and the pauses between them grow beyond it.
            assert_eq!(restarts, [20, 41, 62, 83, 104, 125, 157], "{look:?}");
        }
    }

    #[test]
    fn says_that_a_service_does_not_stay_up() {
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        let mut keeper = Keeper::default();
        keeper.look(Look::Down, at(0), LIMITS);
        assert_eq!(keeper.failing(), None);
        keeper.look(Look::Up, at(1), LIMITS);
        keeper.look(Look::Down, at(2), LIMITS);
        assert_eq!(keeper.failing(), Some((1, Duration::from_secs(2))));
        keeper.look(Look::Down, at(4), LIMITS);
        keeper.attempt_failed();
        assert_eq!(keeper.failing(), Some((3, Duration::from_secs(4))));
        keeper.look(Look::Up, at(5), LIMITS);
        keeper.look(Look::Up, at(64), LIMITS);
        assert!(keeper.failing().is_some());
        keeper.look(Look::Up, at(65), LIMITS);
        assert_eq!(keeper.failing(), None);

        for look in [Look::Held, Look::Marked] {
            assert_eq!(keeper.look(look, at(70), LIMITS), Action::Nothing);
            assert_eq!(
                keeper.failing(),
                Some((0, Duration::from_secs(1))),
                "{look:?}"
            );
        }
        keeper.look(Look::Missing, at(71), LIMITS);
        assert_eq!(keeper.failing(), None);
    }

    #[test]
    fn counts_what_others_start() {
        let mut keeper = Keeper::default();
        keeper.restarted_by_others();
        assert_eq!(keeper.failing(), None);
        keeper.restarted_by_others();
        assert_eq!(keeper.failing(), Some((1, Duration::from_secs(2))));
    }

    #[test]
    fn a_changed_service_is_mended_with_backoff() {
        let begin = Instant::now();
        let mut keeper = Keeper::default();
        let mended: Vec<u64> = (0..9)
            .filter(|second| {
                let now = begin + Duration::from_secs(*second);
                keeper.look(Look::Changed, now, LIMITS) == Action::Mend
            })
            .collect();
        assert_eq!(mended, [0, 1, 3, 7]);
    }
}
