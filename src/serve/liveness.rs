//! Whether the process gets on: the answer of `/healthz`. It does not ask whether all is well, which is for `/readyz`; it
//! fails where only a new start helps.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the controller says that it turns.
const TURN: Duration = Duration::from_secs(15);

/// How long each may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Between two turns of the controller's task. What else is in it gives way all the time, unless two wait for each
    /// other or one never ends.
    pub turn: Duration,
    /// One pass. The deadlines of all that it does add up to about four minutes, where the API server answers nothing.
    pub pass: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            turn: Duration::from_secs(90),
            pass: Duration::from_secs(600),
        }
    }
}

/// When the controller was last seen to get on.
#[derive(Clone, Debug)]
pub struct Liveness {
    bounds: Bounds,
    marks: Arc<Mutex<Marks>>,
}

#[derive(Debug)]
struct Marks {
    turned: Instant,
    /// When the pass began that has not ended.
    passing: Option<Instant>,
}

impl Default for Liveness {
    fn default() -> Self {
        Self::within(Bounds::default())
    }
}

impl Liveness {
    /// One that gives up after those times.
    #[must_use]
    pub fn within(bounds: Bounds) -> Self {
        let marks = Marks {
            turned: Instant::now(),
            passing: None,
        };
        Self {
            bounds,
            marks: Arc::new(Mutex::new(marks)),
        }
    }

    /// Says that the task in which this is polled turns, for ever.
    pub async fn turn(&self) -> Infallible {
        let pause = TURN.min(self.bounds.turn / 4);
        loop {
            self.marks().turned = Instant::now();
            tokio::time::sleep(pause).await;
        }
    }

    /// A pass begins.
    pub fn pass_begins(&self) {
        self.marks().passing = Some(Instant::now());
    }

    /// It has ended.
    pub fn pass_ends(&self) {
        self.marks().passing = None;
    }

    /// Why only a new start helps, where it does.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.problem_at(Instant::now())
    }

    fn problem_at(&self, now: Instant) -> Option<String> {
        let Marks { turned, passing } = *self.marks();
        let turned = now.saturating_duration_since(turned);
        if turned > self.bounds.turn {
            let seconds = turned.as_secs();
            return Some(format!("the controller has not moved for {seconds} s"));
        }
        let passing = now.saturating_duration_since(passing?);
        (passing > self.bounds.pass)
            .then(|| format!("a pass has taken {} s and has not ended", passing.as_secs()))
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        // Two times, each set by itself.
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_turn_or_does_not_end_a_pass_is_stuck_and_one_that_waits_is_not() {
        let bounds = Bounds::default();
        let liveness = Liveness::within(bounds);
        let now = Instant::now();
        assert_eq!(liveness.problem_at(now), None);
        assert_eq!(
            liveness.problem_at(now + bounds.turn.saturating_sub(Duration::from_secs(1))),
            None
        );
        let late = liveness.problem_at(now + bounds.turn + Duration::from_secs(2));
        assert!(late.is_some_and(|late| late.contains("has not moved for 9")));

        liveness.pass_begins();
        let mut later = now + bounds.pass + Duration::from_secs(2);
        liveness.marks().turned = later;
        let stuck = liveness.problem_at(later);
        assert!(stuck.is_some_and(|stuck| stuck.contains("a pass has taken 60")));
        liveness.pass_ends();
        later += Duration::from_secs(3600);
        liveness.marks().turned = later;
        assert_eq!(liveness.problem_at(later), None, "nothing has to be done");
    }
}
