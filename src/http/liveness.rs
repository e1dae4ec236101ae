//! Whether the process makes progress: the answer of `/healthz`. It does not check whether all is well, which is up to
//! `/readyz`; it fails only if a restart is the only remedy.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the controller's task records that it is running.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The longest time between two heartbeats. All other work in that task yields constantly, unless there is a deadlock or an
/// endless loop.
const LONGEST_SILENCE: Duration = Duration::from_secs(90);

/// When the controller was last seen to make progress.
#[derive(Clone, Debug)]
pub struct Liveness {
    longest_silence: Duration,
    heartbeat: Arc<Mutex<Instant>>,
}

impl Default for Liveness {
    fn default() -> Self {
        Self::with_limit(LONGEST_SILENCE)
    }
}

impl Liveness {
    /// Creates a liveness check with a limit for the time without a heartbeat.
    pub fn with_limit(longest_silence: Duration) -> Self {
        Self {
            longest_silence,
            heartbeat: Arc::new(Mutex::new(Instant::now())),
        }
    }

    /// Records heartbeats of the task that polls this, forever.
    pub async fn beat(&self) -> Infallible {
        let pause = HEARTBEAT.min(self.longest_silence / 4);
        loop {
            *self.heartbeat() = Instant::now();
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns why only a restart helps, if that is so.
    pub fn problem(&self) -> Option<String> {
        self.problem_at(Instant::now())
    }

    fn problem_at(&self, now: Instant) -> Option<String> {
        let silence = now.saturating_duration_since(*self.heartbeat());
        (silence > self.longest_silence).then(|| {
            let seconds = silence.as_secs();
            format!("the controller has made no progress for {seconds} s")
        })
    }

    fn heartbeat(&self) -> MutexGuard<'_, Instant> {
        self.heartbeat
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_without_heartbeat_is_stuck() {
        let liveness = Liveness::default();
        let now = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(liveness.problem_at(now), None);
        let before = now + LONGEST_SILENCE.saturating_sub(second);
        assert_eq!(liveness.problem_at(before), None);
        let late = liveness.problem_at(now + LONGEST_SILENCE + 2 * second);
        assert!(late.is_some_and(|late| late.contains("has made no progress for 9")));
    }
}
