//! Whether the process gets on: the answer of `/healthz`. It does not ask whether all is well, which is for `/readyz`; it
//! fails where only a new start helps.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the controller's task records that it is running.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The longest time between two heartbeats. What else is in that task yields all the time, unless two wait for each other
/// or one never ends.
const LONGEST_SILENCE: Duration = Duration::from_secs(90);
/// The longest time for a pass. The deadlines of all that it does add up to about four minutes, where the API server
/// answers nothing.
const LONGEST_PASS: Duration = Duration::from_secs(600);

/// When the controller was last seen to get on.
#[derive(Clone, Debug)]
pub struct Liveness(Arc<Mutex<Marks>>);

#[derive(Debug)]
struct Marks {
    longest_silence: Duration,
    longest_pass: Duration,
    heartbeat: Instant,
    /// When the pass began that has not ended.
    pass_began: Option<Instant>,
}

impl Default for Liveness {
    fn default() -> Self {
        Self::with_limits(LONGEST_SILENCE, LONGEST_PASS)
    }
}

impl Liveness {
    /// One that gives up after those times without a heartbeat, and within a pass.
    #[must_use]
    pub fn with_limits(longest_silence: Duration, longest_pass: Duration) -> Self {
        Self(Arc::new(Mutex::new(Marks {
            longest_silence,
            longest_pass,
            heartbeat: Instant::now(),
            pass_began: None,
        })))
    }

    /// Records heartbeats of the task that polls this, for ever.
    pub async fn beat(&self) -> Infallible {
        let pause = HEARTBEAT.min(self.marks().longest_silence / 4);
        loop {
            self.marks().heartbeat = Instant::now();
            tokio::time::sleep(pause).await;
        }
    }

    /// A pass begins.
    pub fn pass_begins(&self) {
        self.marks().pass_began = Some(Instant::now());
    }

    /// It has ended.
    pub fn pass_ends(&self) {
        self.marks().pass_began = None;
    }

    /// Why only a new start helps, where it does.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.problem_at(Instant::now())
    }

    fn problem_at(&self, now: Instant) -> Option<String> {
        let marks = self.marks();
        let silence = now.saturating_duration_since(marks.heartbeat);
        if silence > marks.longest_silence {
            let seconds = silence.as_secs();
            return Some(format!("the controller has not moved for {seconds} s"));
        }
        let pass = now.saturating_duration_since(marks.pass_began?);
        (pass > marks.longest_pass)
            .then(|| format!("a pass has taken {} s and has not ended", pass.as_secs()))
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        // Each mark is set by itself.
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
        assert!(late.is_some_and(|late| late.contains("has not moved for 9")));

        liveness.pass_begins();
        let mut later = now + LONGEST_PASS + 2 * second;
        liveness.marks().heartbeat = later;
        let stuck = liveness.problem_at(later);
        assert!(stuck.is_some_and(|stuck| stuck.contains("a pass has taken 60")));
        liveness.pass_ends();
        later += Duration::from_secs(3600);
        liveness.marks().heartbeat = later;
        assert_eq!(liveness.problem_at(later), None, "nothing has to be done");
    }
}
