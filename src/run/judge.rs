//! The owner of the cluster: takes in what the feeds bring, judges the whole, and publishes what is to be done.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

use crate::assess::{Memory, Report, assess};
use crate::gate::{AFTER_LISTS, GateReport};
use crate::http::Shown;
use crate::index::{self, AnyTable, Cluster, list_unread};
use crate::node::payload::Payload;
use crate::node::{Observations, RolloutSlots};
use crate::process::{self, processor_time};
use crate::run::History;
use crate::run::keep::Board;
use crate::run::plan::{Inputs, Plan, Seen, plan, stored_in_progress};
use crate::run::show::show;
use crate::watch::{Lists, News, Wish};

/// News within this time are judged together.
const GATHER: Duration = Duration::from_millis(10);
/// How much news is taken in right before a judgement, at most: it must come to one.
const MOST_AT_ONCE: usize = 1000;
/// Judging takes at most one of so many parts of a core, over time.
const PARTS: u32 = 5;
/// How far judgements may be ahead of that part, so that the first ones after a quiet time follow their news at once.
const AHEAD: Duration = Duration::from_secs(5);
/// How often unused memory is returned to the system.
const GIVE_BACK: Duration = Duration::from_secs(30);
/// The longest time between two judgements if nothing changes.
const IDLE: Duration = Duration::from_secs(60);
/// The longest time that an update continues after it lost its operator. It is bounded by the agent's own limits for a
/// stop and a start, once forward and once back.
const SETTLED: Duration = Duration::from_secs(180);

/// The owner of the cluster.
pub struct Judge {
    /// What has been read.
    pub cluster: Cluster,
    /// What the objects will not say later.
    pub memory: Memory,
    /// The last judgement.
    pub report: Report,
    /// What the last snapshot cannot say.
    pub history: History,
    /// What the feeds bring.
    pub news: mpsc::Receiver<News>,
    /// Asks for new lists.
    pub lists: Lists,
    /// The names of the Secrets that the settings name, for their feed.
    pub secrets: watch::Sender<BTreeSet<String>>,
    /// Observations of nodes.
    pub observations: Observations,
    /// The report on the gate.
    pub gate: watch::Receiver<GateReport>,
    /// What the actors failed at.
    pub board: Board,
    /// The Kubernetes version of the API server.
    pub kubernetes_version: watch::Receiver<String>,
    /// The rollout slots.
    pub slots: RolloutSlots,
    /// The programs for nodes.
    pub payload: Payload,
    /// What is planned.
    pub plans: watch::Sender<Option<Arc<Plan>>>,
    /// What is served.
    pub shown: Shown,
    /// Whether the work in progress of the previous process was restored.
    pub is_restored: bool,
}

impl Judge {
    /// Judges, and judges again, for as long as this is polled.
    pub async fn run(mut self) -> Infallible {
        let mut observed = self.observations.changes();
        let mut problems = self.board.problems();
        let mut given_back = Instant::now();
        let mut pace = Pace(given_back);
        loop {
            observed.mark_unchanged();
            problems.mark_unchanged();
            // What has come by now is judged too: the gate may open on it.
            for _ in 0..MOST_AT_ONCE {
                let Ok(news) = self.news.try_recv() else {
                    break;
                };
                self.absorb(news);
            }
            let (began, used) = (Instant::now(), processor_time());
            // It may take long in a large cluster: other tasks go on meanwhile.
            let plan = tokio::task::block_in_place(|| self.judge(began));
            let used = processor_time().saturating_sub(used);
            let judged = Instant::now();
            self.shown.metrics.show_judgement(judged - began);
            if plan.is_complete && judged >= given_back + GIVE_BACK {
                process::give_back_memory();
                given_back = judged;
            }
            let mut next = (judged + IDLE).min(plan.due.unwrap_or(judged + IDLE));
            // The gate opens on a judgement of what came until then.
            let listed = self.cluster.listed();
            let listed = listed.map(|lists| lists.ended + AFTER_LISTS);
            next = next.min(listed.filter(|at| *at > began).unwrap_or(next));
            let by_plan = plan.wants_lists;
            drop(plan);
            let rested = pace.rested(began, used);
            loop {
                // At once, not only with the next judgement: the gate opens only after them.
                let by_gate = self.gate.borrow().wants_lists;
                for (wish, since) in [(Wish::Gate, by_gate), (Wish::Nodes, by_plan)] {
                    let early = since.and_then(|it| self.lists.want(wish, it, Instant::now()));
                    next = next.min(early.unwrap_or(next));
                }
                let is_new = tokio::select! {
                    () = sleep_until(next.into()) => break,
                    Some(news) = self.news.recv() => self.absorb(news),
                    Ok(()) = observed.changed() => true,
                    Ok(()) = problems.changed() => true,
                    Ok(()) = self.gate.changed() => true,
                    Ok(()) = self.kubernetes_version.changed() => true,
                };
                if is_new {
                    next = next.min(rested.max(Instant::now() + GATHER));
                }
            }
        }
    }

    fn absorb(&mut self, news: News) -> bool {
        let ends_list = news.ends_list();
        let is_new = news.absorb(&mut self.cluster);
        if ends_list {
            // Names of objects that were read but left out.
            index::drop_unused_names();
            process::give_back_memory();
        }
        is_new
    }

    /// Assesses the cluster, and plans everything.
    fn judge(&mut self, instant: Instant) -> Arc<Plan> {
        let version = self.kubernetes_version.borrow_and_update().clone();
        self.cluster.api_server_version = Some(version);
        let cluster = &self.cluster;
        self.memory.learn(cluster);
        let report = assess(cluster, &self.memory, None);
        self.history
            .note_report(cluster, &self.report, &report, instant);
        self.report = report;
        if cluster.knows_configuration() && !std::mem::replace(&mut self.is_restored, true) {
            self.slots.restore(stored_in_progress(cluster));
        }
        let before = self.plans.borrow().clone();
        let problems = self.board.problems();
        let observations = self.observations.read();
        let inputs = Inputs {
            cluster,
            report: &self.report,
            history: &self.history,
            before: before.as_deref(),
            seen: Seen {
                observations: &observations,
                services_problem: problems.borrow().get(SERVICES).cloned(),
                gate: Some(self.gate.borrow_and_update().clone()),
            },
            payload: &self.payload,
            settled_at: self.history.turned.started + SETTLED,
            now: Timestamp::now(),
            instant,
        };
        let plan = self.slots.decide(|slots| {
            let plan = plan(&inputs, slots);
            (plan.allowed.clone(), plan)
        });
        show(&plan, &inputs, &self.shown.metrics);
        drop(observations);
        self.history.note_plan(&plan, instant);
        if cluster.settings.is_complete() {
            let names = plan.spec.secrets().into_iter().map(str::to_owned);
            let mut names: BTreeSet<String> = names.collect();
            self.secrets.send_if_modified(|known| {
                std::mem::swap(known, &mut names);
                *known != names
            });
        }
        self.publish_health(&plan);
        let plan = Arc::new(plan);
        self.plans.send_replace(Some(Arc::clone(&plan)));
        plan
    }

    fn publish_health(&self, plan: &Plan) {
        let unread = (!plan.is_complete).then(|| format!("missing {}", self.unread()));
        let stale = list_unread(&self.cluster.stale());
        let problems = self.board.problems();
        let problem = problems.borrow().values().next().cloned();
        let gate = self.gate.borrow();
        let readiness = &self.shown.readiness;
        readiness.publish(unread, &stale, &gate, problem);
    }

    fn unread(&self) -> String {
        let unread = list_unread(&self.cluster.unread());
        match (self.cluster.knows_configuration(), unread.as_str()) {
            (true, _) => unread,
            (false, "") => "the operator's namespace".to_owned(),
            (false, _) => format!("{unread}, the operator's namespace"),
        }
    }
}

/// Until when the judgements so far have used their part of a core.
struct Pace(Instant);

impl Pace {
    /// Returns when the next judgement may begin, after one that began then and used so much of a core.
    fn rested(&mut self, began: Instant, used: Duration) -> Instant {
        self.0 = self.0.max(began) + used * PARTS;
        self.0.checked_sub(AHEAD).unwrap_or(began)
    }
}

/// The actor of the services entry, on the board.
pub const SERVICES: &str = "ConfigMap";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judgements_follow_one_another_at_once_after_a_quiet_time_and_take_their_part_of_a_core_in_a_busy_one()
     {
        let start = Instant::now() + Duration::from_secs(1000);
        let one = Duration::from_millis(500);
        let mut pace = Pace(start);
        let mut now = start;
        let mut next = |now: &mut Instant| {
            let judged = *now + one;
            let waits = pace.rested(*now, one).saturating_duration_since(judged);
            *now = judged + waits;
            waits
        };
        let waits: Vec<u128> = (0..4).map(|_| next(&mut now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 1000, 2000]);
        now += AHEAD;
        assert_eq!(next(&mut now), Duration::ZERO, "after a quiet time");
    }
}
