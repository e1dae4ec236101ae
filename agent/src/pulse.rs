//! Heartbeat of the one thread that does all work. A stuck Windows call blocks only that thread; the rest of the process can
//! still answer.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time of the thread's last heartbeat.
#[derive(Debug)]
pub struct Pulse(Mutex<Instant>);

impl Pulse {
    /// Creates a pulse with a first heartbeat.
    pub fn start(now: Instant) -> Self {
        Self(Mutex::new(now))
    }

    /// Records a heartbeat.
    pub fn beat(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Returns the time since the last heartbeat if it exceeds the limit.
    pub fn stuck_for(&self, now: Instant, limit: Duration) -> Option<Duration> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let still = now.saturating_duration_since(last);
        (still > limit).then_some(still)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_comes_round_is_not_stuck() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let pulse = Pulse::start(begin);
        let limit = Duration::from_secs(300);
        assert_eq!(pulse.stuck_for(at(300), limit), None);
        assert_eq!(
            pulse.stuck_for(at(301), limit),
            Some(Duration::from_secs(301))
        );
        pulse.beat(at(301));
        assert_eq!(pulse.stuck_for(at(600), limit), None);
    }
}
