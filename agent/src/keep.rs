//! Decides when a service that should be running is restarted.

use std::time::{Duration, Instant};

const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// How long a process may outlive its service's report that it stopped. After that Windows itself may end the process at any
/// time. Without this limit, csi-proxy's process would keep serving and never end.
pub const LINGER: Duration = Duration::from_secs(1);
/// A service that has been up this long counts as healthy.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// The state of csi-proxy, as one check finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It runs and answers on all its pipes, or it is paused.
    Up,
    /// It runs, but its configuration was changed.
    Changed,
    /// It is starting, or runs without all its pipes, or without an answer on them.
    Starting,
    /// It is stopping, or its process is left over, or is gone without Windows having noticed.
    Ending,
    /// It is stopped and its process is gone, or it was deleted.
    Down,
    /// Another process holds its pipes, so starting it would not help.
    Held,
    /// Another program configures it too, and its configuration is left to that program.
    Contested,
    /// It was deleted, but exists until it has stopped and every handle to it is closed. Until then it can be neither
    /// changed nor recreated; if it runs, it may go on.
    Marked,
}

/// Backoff between attempts.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    attempts: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    /// Returns a backoff whose first attempt has just failed.
    pub fn after_first(now: Instant) -> Self {
        let mut backoff = Self::default();
        backoff.try_now(now);
        backoff
    }

    /// Returns whether the next attempt is due, and counts it if so.
    pub fn try_now(&mut self, now: Instant) -> bool {
        let is_due = self.not_before.is_none_or(|time| now >= time);
        if is_due {
            self.not_before = Some(now + delay(self.attempts));
            self.attempts = self.attempts.saturating_add(1);
        }
        is_due
    }
}

/// Returns the delay after an attempt, given the number of attempts before it.
fn delay(attempts: u32) -> Duration {
    let delay = FIRST_DELAY.saturating_mul(2_u32.saturating_pow(attempts));
    delay.min(LONGEST_DELAY)
}

/// Decides when csi-proxy is brought back.
#[derive(Clone, Debug, Default)]
pub struct Keeper {
    backoff: Backoff,
    /// How many of the attempts failed.
    failed: u32,
    up_since: Option<Instant>,
    waiting_since: Option<(Health, Instant)>,
    last: Option<Health>,
}

impl Keeper {
    /// Processes one check; returns whether csi-proxy is to be brought back now. `start` is how long a start may take.
    pub fn check(&mut self, health: Health, now: Instant, start: Duration) -> bool {
        self.last = Some(health);
        self.waiting_since = self.waiting_since.filter(|(before, _)| *before == health);
        if health == Health::Up {
            let since = *self.up_since.get_or_insert(now);
            if now.duration_since(since) >= HEALTHY_AFTER {
                self.backoff = Backoff::default();
                self.failed = 0;
            }
            return false;
        }
        self.up_since = None;
        let patience = match health {
            Health::Up | Health::Held | Health::Contested | Health::Marked => return false,
            Health::Starting => start,
            Health::Changed | Health::Ending | Health::Down => Duration::ZERO,
        };
        let (_, since) = *self.waiting_since.get_or_insert((health, now));
        let before = self.backoff.attempts;
        if now.duration_since(since) < patience || !self.backoff.try_now(now) {
            return false;
        }
        self.failed = before;
        // What is started again gets its whole time limit again.
        self.waiting_since = None;
        true
    }

    /// Records that the latest attempt failed.
    pub fn attempt_failed(&mut self) {
        self.failed = self.backoff.attempts;
    }

    /// Records that Windows, after a crash, or another program has started the service.
    pub fn restarted_by_others(&mut self) {
        self.attempt_failed();
        self.backoff.attempts = self.backoff.attempts.saturating_add(1);
    }

    /// Returns the number of failed starts since the service was last healthy, and the delay before the next; `None` while
    /// it stays up.
    pub fn failing(&self) -> Option<(u32, Duration)> {
        let is_stuck = matches!(
            self.last,
            Some(Health::Held | Health::Contested | Health::Marked)
        );
        let pause = delay(self.backoff.attempts.saturating_sub(1));
        (is_stuck || self.failed > 0).then_some((self.failed, pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(20);

    /// A service that is checked at given seconds.
    struct Rig {
        keeper: Keeper,
        begin: Instant,
    }

    impl Rig {
        fn new() -> Self {
            Self {
                keeper: Keeper::default(),
                begin: Instant::now(),
            }
        }

        fn check(&mut self, second: u64, health: Health) -> bool {
            let now = self.begin + Duration::from_secs(second);
            self.keeper.check(health, now, START)
        }

        /// Returns the number of failed starts, and the delay before the next in seconds.
        fn failing(&self) -> Option<(u32, u64)> {
            let failing = self.keeper.failing();
            failing.map(|(failed, pause)| (failed, pause.as_secs()))
        }
    }

    #[test]
    fn what_does_not_help_is_done_less_and_less_often() {
        let at_once = &[0, 1, 3, 7, 15, 31, 61, 91, 121, 151, 181][..];
        // Each start gets its whole time limit, and the delays between starts grow beyond it.
        let patiently = &[20, 41, 62, 83, 104, 125, 155, 185][..];
        for (health, expected) in [
            (Health::Down, at_once),
            (Health::Ending, at_once),
            (Health::Changed, at_once),
            (Health::Starting, patiently),
            (Health::Held, &[]),
            (Health::Contested, &[]),
            (Health::Marked, &[]),
        ] {
            let mut rig = Rig::new();
            let seconds = (0..200).filter(|second| rig.check(*second, health));
            assert_eq!(seconds.collect::<Vec<u64>>(), expected, "{health:?}");
        }
    }

    #[test]
    fn a_healthy_minute_forgives() {
        let mut rig = Rig::new();
        for second in 0..8 {
            rig.check(second, Health::Down);
        }
        rig.check(8, Health::Up);
        rig.check(68, Health::Up);
        assert!(rig.check(69, Health::Down));
        assert!(rig.check(70, Health::Down));
    }

    #[test]
    fn a_service_that_does_not_stay_up_is_failing() {
        let mut rig = Rig::new();
        for (second, health, failing) in [
            (0, Health::Down, None),
            (1, Health::Up, None),
            (2, Health::Down, Some((1, 2))),
            (4, Health::Down, Some((2, 4))),
            (5, Health::Up, Some((2, 4))),
            (64, Health::Up, Some((2, 4))),
            (65, Health::Up, None),
            (70, Health::Held, Some((0, 1))),
            (70, Health::Marked, Some((0, 1))),
            (71, Health::Down, None),
        ] {
            rig.check(second, health);
            assert_eq!(rig.failing(), failing, "{second} {health:?}");
        }
        rig.keeper.attempt_failed();
        assert_eq!(rig.failing(), Some((1, 1)));
    }

    #[test]
    fn starts_by_others_count() {
        let mut rig = Rig::new();
        rig.keeper.restarted_by_others();
        assert_eq!(rig.failing(), None);
        rig.keeper.restarted_by_others();
        assert_eq!(rig.failing(), Some((1, 2)));
    }
}
