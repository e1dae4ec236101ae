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
/// The longest duration of a pass. The deadlines of all its calls add up to about four minutes if the API server answers
/// nothing.
const LONGEST_PASS: Duration = Duration::from_secs(600);

/// When the controller was last seen to make progress.
#[derive(Clone, Debug)]
pub struct Liveness(Arc<Mutex<Marks>>);

#[derive(Debug)]
struct Marks {
    longest_silence: Duration,
    longest_pass: Duration,
    heartbeat: Instant,
    /// When the current pass began, if one is running.
    pass_began: Option<Instant>,
}

impl Default for Liveness {
    fn default() -> Self {
        Self::with_limits(LONGEST_SILENCE, LONGEST_PASS)
    }
}

impl Liveness {
    /// Creates a liveness check with limits for the time without a heartbeat, and for a pass.
    #[must_use]
    pub fn with_limits(longest_silence: Duration, longest_pass: Duration) -> Self {
        Self(Arc::new(Mutex::new(Marks {
            longest_silence,
            longest_pass,
            heartbeat: Instant::now(),
            pass_began: None,
        })))
    }

    /// Records heartbeats of the task that polls this, forever.
    pub async fn beat(&self) -> Infallible {
        let pause = HEARTBEAT.min(self.marks().longest_silence / 4);
        loop {
            self.marks().heartbeat = Instant::now();
            tokio::time::sleep(pause).await;
        }
    }

    /// Records that a pass begins.
    pub fn pass_begins(&self) {
        self.marks().pass_began = Some(Instant::now());
    }

    /// Records that the pass has ended.
    pub fn pass_ends(&self) {
        self.marks().pass_began = None;
    }

    /// Returns why only a restart helps, if that is so.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.problem_at(Instant::now())
    }

    fn problem_at(&self, now: Instant) -> Option<String> {
        let marks = self.marks();
        let silence = now.saturating_duration_since(marks.heartbeat);
        if silence > marks.longest_silence {
            let seconds = silence.as_secs();
            return Some(format!(
                "the controller has made no progress for {seconds} s"
            ));
        }
        let pass = now.saturating_duration_since(marks.pass_began?);
        (pass > marks.longest_pass)
            .then(|| format!("a pass has been running for {} s", pass.as_secs()))
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        // Each mark is set on its own.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_without_heartbeat_or_in_an_endless_pass_is_stuck_and_one_that_waits_is_not() {
        let liveness = Liveness::default();
        let now = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(liveness.problem_at(now), None);
        assert_eq!(
            liveness.problem_at(now + LONGEST_SILENCE.saturating_sub(second)),
            None
        );
        let late = liveness.problem_at(now + LONGEST_SILENCE + 2 * second);
        assert!(late.is_some_and(|late| late.contains("has made no progress for 9")));

        liveness.pass_begins();
        let mut later = now + LONGEST_PASS + 2 * second;
        liveness.marks().heartbeat = later;
        let stuck = liveness.problem_at(later);
        assert!(stuck.is_some_and(|stuck| stuck.contains("a pass has been running for 60")));
        liveness.pass_ends();
        later += Duration::from_secs(3600);
        liveness.marks().heartbeat = later;
        assert_eq!(liveness.problem_at(later), None, "nothing has to be done");
    }
}
