//! The owner of the cluster: takes in what the feeds bring, judges the whole, and publishes what is to be done.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

use crate::assess::{Memory, Report, assess};
use crate::gate::GateReport;
use crate::http::{Health, Shown};
use crate::index::{self, AnyTable, Cluster, list_unread};
use crate::node::payload::Payload;
use crate::node::{Observations, RolloutSlots};
use crate::process;
use crate::run::History;
use crate::run::keep::Board;
use crate::run::logs::Levels;
use crate::run::plan::{Inputs, Plan, Seen, plan, stored_in_progress};
use crate::run::show::show;
use crate::watch::{Lists, News};

/// News within this time are judged together.
const GATHER: Duration = Duration::from_millis(10);
/// The shortest pause after a judgement, as a multiple of its duration: judging takes at most a fifth of a core.
const PAUSE_TIMES: u32 = 4;
/// How often unused memory is returned to the system.
const GIVE_BACK: Duration = Duration::from_secs(30);
/// The longest time between two judgements if nothing changes.
const IDLE: Duration = Duration::from_secs(60);
/// The longest time that an update continues after it lost its operator. It is bounded by the agent's own limits for a
/// stop and a start, once forward and once back.
const SETTLED: Duration = Duration::from_secs(180);

/// What the actors have seen, each behind a channel.
pub struct Eyes {
    /// Observations of nodes.
    pub observations: Observations,
    /// The report on the gate.
    pub gate: watch::Receiver<GateReport>,
    /// What the actors failed at.
    pub board: Board,
    /// The Kubernetes version of the API server.
    pub kubernetes_version: watch::Receiver<String>,
}

/// The owner of the cluster.
pub struct Judge {
    cluster: Cluster,
    memory: Memory,
    report: Report,
    history: History,
    news: mpsc::Receiver<News>,
    lists: Lists,
    /// The names of the Secrets that the settings name, for their feed.
    secrets: watch::Sender<BTreeSet<String>>,
    eyes: Eyes,
    slots: RolloutSlots,
    payload: Payload,
    plans: watch::Sender<Option<Arc<Plan>>>,
    shown: Shown,
    levels: Levels,
    /// Until when unseen nodes may be in the middle of work that an earlier process began.
    settled_at: Instant,
    /// Whether the work in progress of the previous process was restored.
    is_restored: bool,
}

impl Judge {
    /// Creates it with an empty cluster of an operator in that namespace, for a process that `started` before its first list.
    #[must_use]
    pub fn new(
        namespace: &str,
        (news, lists, secrets): (mpsc::Receiver<News>, Lists, watch::Sender<BTreeSet<String>>),
        eyes: Eyes,
        slots: RolloutSlots,
        payload: Payload,
        (shown, levels): (Shown, Levels),
        started: Instant,
    ) -> Self {
        let cluster = Cluster {
            namespace: namespace.to_owned(),
            ..Cluster::default()
        };
        let memory = Memory::default();
        Self {
            report: assess(&cluster, &memory, None),
            cluster,
            memory,
            history: History::new(started),
            news,
            lists,
            secrets,
            eyes,
            slots,
            payload,
            plans: watch::Sender::new(None),
            shown,
            levels,
            settled_at: started + SETTLED,
            is_restored: false,
        }
    }

    /// Returns what is planned.
    #[must_use]
    pub fn plans(&self) -> watch::Receiver<Option<Arc<Plan>>> {
        self.plans.subscribe()
    }

    /// Judges, and judges again, for as long as this is polled.
    pub async fn run(mut self) -> Infallible {
        let mut observed = self.eyes.observations.changes();
        let mut problems = self.eyes.board.problems();
        let mut given_back = Instant::now();
        loop {
            observed.mark_unchanged();
            problems.mark_unchanged();
            let began = Instant::now();
            // It may take long in a large cluster: other tasks go on meanwhile.
            let plan = tokio::task::block_in_place(|| self.judge(began));
            let judged = Instant::now();
            self.shown.metrics.show_judgement(judged - began);
            if plan.is_complete && judged >= given_back + GIVE_BACK {
                process::give_back_memory();
                given_back = judged;
            }
            let lists = (self.wanted_lists(&plan)).and_then(|since| self.lists.want(since, judged));
            let due = [Some(judged + IDLE), plan.due, lists];
            let mut next = due.into_iter().flatten().min().unwrap_or(judged);
            drop(plan);
            let rested = judged + (judged - began) * PAUSE_TIMES;
            loop {
                let is_new = tokio::select! {
                    () = sleep_until(next.into()) => break,
                    Some(news) = self.news.recv() => self.absorb(news),
                    Ok(()) = observed.changed() => true,
                    Ok(()) = problems.changed() => true,
                    Ok(()) = self.eyes.gate.changed() => true,
                    Ok(()) = self.eyes.kubernetes_version.changed() => true,
                };
                if is_new {
                    next = next.min(rested.max(Instant::now() + GATHER));
                }
            }
        }
    }

    /// Returns since when lists are wanted by the gate, a removal or a release.
    fn wanted_lists(&self, plan: &Plan) -> Option<Instant> {
        let by_gate = self.eyes.gate.borrow().wants_lists;
        by_gate.max(plan.wants_lists)
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
        let version = self.eyes.kubernetes_version.borrow_and_update().clone();
        self.cluster.api_server_version = Some(version.clone());
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
        let problems = self.eyes.board.problems();
        let observations = self.eyes.observations.read();
        let inputs = Inputs {
            cluster,
            report: &self.report,
            history: &self.history,
            before: before.as_deref(),
            seen: Seen {
                observations: &observations,
                services_problem: problems.borrow().get(SERVICES).cloned(),
                gate: Some(self.eyes.gate.borrow_and_update().clone()),
                kubernetes_version: version,
            },
            payload: &self.payload,
            settled_at: self.settled_at,
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
        self.levels.set(plan.spec.log_level);
        if cluster.settings.is_complete() {
            let names = plan.spec.secrets().into_iter().map(str::to_owned);
            let mut names: BTreeSet<String> = names.collect();
            self.secrets.send_if_modified(|known| {
                std::mem::swap(known, &mut names);
                *known != names
            });
        }
        self.shown.readiness.publish(self.health(&plan));
        let plan = Arc::new(plan);
        self.plans.send_replace(Some(Arc::clone(&plan)));
        plan
    }

    fn health(&self, plan: &Plan) -> Health {
        let stale = list_unread(&self.cluster.stale());
        let gate = Some(self.eyes.gate.borrow().clone()).filter(|gate| gate.is_of_olm);
        let problems = self.eyes.board.problems();
        let problem = problems.borrow().values().next().cloned();
        Health {
            stale: (!stale.is_empty()).then_some(stale),
            unread: (!plan.is_complete).then(|| format!("missing {}", self.unread())),
            gate: gate.map(|report| (report.clone(), report.is_written())),
            unwritten: problem,
        }
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

/// The actor of the services entry, on the board.
pub const SERVICES: &str = "ConfigMap";
