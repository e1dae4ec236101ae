//! Drives one actor: it acts on the last plan, and again when there is another one, or when it says so.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::client::backoff;
use crate::http::Metrics;
use crate::run::plan::Plan;

/// The pauses after a failure. A verdict that turns False waits for them too, before its status is written.
const FIRST_RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_secs(15);

/// The last plan; nothing before the first judgement.
pub type Plans = watch::Receiver<Option<Arc<Plan>>>;

/// What the actors last failed at, by what they write.
#[derive(Clone, Default)]
pub struct Board(watch::Sender<BTreeMap<&'static str, String>>);

impl Board {
    /// Returns the problems.
    pub fn problems(&self) -> watch::Receiver<BTreeMap<&'static str, String>> {
        self.0.subscribe()
    }

    /// Sets or clears the problem of an actor.
    pub fn set(&self, actor: &'static str, problem: Option<String>) {
        self.0.send_if_modified(|problems| match problem {
            Some(problem) => problems.insert(actor, problem.clone()).as_ref() != Some(&problem),
            None => problems.remove(actor).is_some(),
        });
    }
}

/// Keeps `actor` acting: on each plan, and again at the time that it returns. After a failure it pauses, longer each time,
/// whatever the plan is then.
pub async fn keep<E: Display>(
    actor: &'static str,
    mut plans: Plans,
    (board, metrics): (&Board, &Metrics),
    mut act: impl AsyncFnMut(&Plan) -> Result<Option<Instant>, E>,
) -> Infallible {
    let mut failures = 0;
    loop {
        let plan = plans.borrow_and_update().clone();
        let next = match plan {
            Some(plan) => act(&plan).await,
            None => Ok(None),
        };
        let pause = match next {
            Ok(next) => {
                failures = 0;
                board.set(actor, None);
                next.map(|at| at.saturating_duration_since(Instant::now()))
            }
            Err(error) => {
                failures += 1;
                metrics.count_failed_write(actor);
                let problem = error.to_string();
                tracing::warn!("{problem}");
                board.set(actor, Some(problem));
                Some(backoff::pause(failures, FIRST_RETRY, LONGEST_RETRY))
            }
        };
        let paused = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Ok(()) = plans.changed(), if failures == 0 => {}
            () = paused => {}
            // Nobody plans any more.
            else => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_actor_acts_on_each_plan_and_after_a_failure_only_when_its_pause_is_over() {
        let plans = watch::Sender::new(None);
        let (board, metrics) = (Board::default(), Metrics::default());
        let problems = board.problems();
        let begun = tokio::time::Instant::now();
        let mut acts = Vec::new();
        let act = async |_: &Plan| {
            acts.push(begun.elapsed());
            match acts.len() {
                1 => Ok(None),
                2 | 3 => Err("no"),
                _ => Ok(Some(Instant::now() + Duration::from_secs(5))),
            }
        };
        let publish = async {
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                plans.send_replace(Some(Arc::new(Plan::of_test())));
            }
            assert!(problems.borrow().is_empty(), "{:?}", problems.borrow());
        };
        tokio::select! {
            never = keep("ConfigMap", plans.subscribe(), (&board, &metrics), act) => match never {},
            () = publish => {}
        }
        let pauses: Vec<Duration> = acts
            .windows(2)
            .map(|pair| pair[1].abs_diff(pair[0]))
            .collect();
        assert!(pauses[0] <= Duration::from_millis(101), "{pauses:?}");
        assert!(pauses[1] >= FIRST_RETRY.mul_f64(0.8), "{pauses:?}");
        assert!(pauses[2] > pauses[1], "{pauses:?}");
        assert!(pauses[3] <= Duration::from_millis(101), "{pauses:?}");
    }
}
