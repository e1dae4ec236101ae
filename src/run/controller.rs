//! The main loop of the leader.

use std::time::{Duration, Instant};

use futures::future::OptionFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{Api, Client};
use tokio::time::sleep_until;

use crate::gate::{Gate, GateTask};
use crate::http::{Health, Shown};
use crate::node::payload::Payload;
use crate::node::{Context, Observations, Pins, RolloutSlots, SSH_SECRET, Workers};
use crate::process;
use crate::run::decide::Decisions;
use crate::run::logs::Levels;
use crate::run::retries::Retries;
use crate::run::version::follow;
use crate::run::{Options, RunError};
use crate::status::StatusWriter;
use crate::watch::{self, Lists, SharedCluster};

/// Events within this time are judged together.
const GATHER: Duration = Duration::from_millis(10);
/// The shortest pause after a judgement, as a multiple of its duration: judging takes at most a fifth of a core.
const PAUSE_TIMES: u32 = 4;
/// How often unused memory is returned to the system.
const GIVE_BACK: Duration = Duration::from_secs(30);
/// The longest time between two passes if nothing changes.
const IDLE: Duration = Duration::from_secs(60);
/// The shortest pause before a pass for blocked volumes or undecided nodes.
const LEAST_PAUSE: Duration = Duration::from_millis(500);
/// The longest time that an update continues after it lost its operator. It is bounded by the agent's own limits for a
/// stop and a start, once forward and once back.
const SETTLED: Duration = Duration::from_secs(180);

/// The controller, with everything that acts.
pub struct Controller {
    pub(super) shared: SharedCluster,
    pub(super) observations: Observations,
    pub(super) gate: Option<Gate>,
    pub(super) lists: Lists,
    /// When lists may be asked for again that are wanted.
    pub(super) lists_due: Option<Instant>,
    pub(super) config_maps: Api<ConfigMap>,
    pub(super) status: StatusWriter,
    pub(super) workers: Workers,
    pub(super) slots: RolloutSlots,
    pub(super) pins: Pins,
    pub(super) nodes: Api<Node>,
    pub(super) shown: Shown,
    pub(super) levels: Levels,
    pub(super) retries: Retries,
    pub(super) decisions: Decisions,
    /// Until when unseen nodes may be in the middle of work that an earlier process began.
    pub(super) settled_at: Instant,
    /// Why the last write of the services entry failed.
    pub(super) services_problem: Option<String>,
    /// The resourceVersion of the last write of the services entry.
    pub(super) services_written: u64,
    /// Duration of the last judgement.
    pub(super) judging: Duration,
    /// The Kubernetes version of the API server.
    pub(super) kubernetes_version: tokio::sync::watch::Receiver<String>,
}

/// Runs the leader's work, which ends only by an error.
pub async fn lead(client: Client, options: &Options, payload: Payload, shown: Shown) -> RunError {
    let shared = SharedCluster::of_namespace(&options.namespace);
    let observations = Observations::default();
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), &options.namespace);
    let slots = RolloutSlots::default();
    let pins = Pins::new(config_maps.clone(), options.namespace.clone());
    let nodes = Api::all(client.clone());
    let mut context = Context::new(payload.clone(), pins.clone(), slots.clone(), nodes.clone());
    context.fence = options.fence.clone();
    let metrics = shown.metrics.clone();
    let object = options.gate(&client);
    let gate = object.map(|object| Gate::new(object, metrics.clone()));
    let (gate, gate_task) = gate.unzip();
    let (mut watches, lists) = watch::start(
        &client,
        &shared,
        SSH_SECRET,
        &options.metrics,
        &options.revisions,
    );
    let version = tokio::sync::watch::Sender::new(options.kubernetes_version.clone());
    let mut controller = Controller {
        gate,
        lists,
        lists_due: None,
        config_maps,
        status: StatusWriter::new(&client, options.instance.clone()),
        workers: Workers::new(
            context,
            observations.clone(),
            metrics,
            options.probe_interval,
        ),
        slots,
        pins,
        nodes,
        shared,
        observations,
        shown,
        levels: options.levels.clone(),
        retries: Retries::default(),
        decisions: Decisions::new(payload),
        settled_at: Instant::now() + SETTLED,
        services_problem: None,
        services_written: 0,
        judging: Duration::ZERO,
        kubernetes_version: version.subscribe(),
    };
    tokio::select! {
        error = controller.drive() => error,
        Some(never) = OptionFuture::from(gate_task.map(GateTask::run)) => match never {},
        never = follow(&client, &version) => match never {},
        ended = watches.join_next() => match ended {
            Some(Ok(went_back)) => went_back.into(),
            _ => RunError::Watch,
        },
    }
}

impl Controller {
    async fn drive(&mut self) -> RunError {
        let mut cluster = self.shared.changes();
        let mut observed = self.observations.changes();
        let mut give_back_at = Instant::now();
        loop {
            cluster.mark_unchanged();
            observed.mark_unchanged();
            self.timed_pass().await;
            let judged = Instant::now();
            if self.decisions.is_complete && Instant::now() >= give_back_at {
                process::give_back_memory();
                give_back_at = Instant::now() + GIVE_BACK;
            }
            self.shown.readiness.publish(self.health());
            let rested = judged + self.judging * PAUSE_TIMES;
            let mut next = self.next_due();
            loop {
                let gather = tokio::select! {
                    () = sleep_until(next.into()) => break,
                    // Their senders live as long as the controller.
                    _ = cluster.changed() => GATHER,
                    _ = observed.changed() => GATHER,
                    Some(()) = OptionFuture::from(self.gate.as_mut().map(Gate::reported)) => GATHER,
                    (node, outcome) = self.status.nodes.next() => {
                        self.note_node(node, outcome);
                        GATHER
                    }
                    _ = self.kubernetes_version.changed() => GATHER,
                    node = self.workers.ended() => return RunError::Worker(node),
                };
                next = next.min(rested.max(Instant::now() + gather));
            }
        }
    }

    async fn timed_pass(&mut self) {
        let begin = Instant::now();
        self.shown.liveness.pass_begins();
        self.pass().await;
        self.shown.liveness.pass_ends();
        let (unwritten, writing) = (self.status.nodes.waiting(), self.status.nodes.writing());
        let metrics = &self.shown.metrics;
        metrics.show_pass(begin.elapsed(), unwritten, writing);
    }

    /// Returns when the next pass is due if nothing changes.
    fn next_due(&self) -> Instant {
        let now = Instant::now();
        let blocked = self.status.blocked.due_in(now);
        let decided = self.decisions.decided_in(Timestamp::now(), now);
        let due = [
            self.gate.as_ref().and_then(Gate::due),
            self.lists_due,
            self.decisions.throttle.due,
            self.retries.next(now),
            blocked.map(|pause| now + pause.max(LEAST_PAUSE)),
            decided.map(|pause| now + pause.max(LEAST_PAUSE)),
            Some(self.settled_at).filter(|at| *at > now),
        ];
        let first = due.into_iter().flatten().min();
        first.map_or(now + IDLE, |first| first.min(now + IDLE))
    }

    fn health(&self) -> Health {
        let unread = || match self.unread() {
            // It has been read since the pass.
            unread if unread.is_empty() => "not everything has been evaluated yet".to_owned(),
            unread => format!("missing {unread}"),
        };
        let stale = listed(&self.shared.read().stale());
        let gate = self.gate.as_ref().map(Gate::report);
        Health {
            stale: (!stale.is_empty()).then_some(stale),
            unread: (!self.decisions.is_complete).then(unread),
            gate: gate.map(|report| (report.clone(), report.is_written())),
            unwritten: self.retries.problem().map(str::to_owned),
        }
    }

    fn unread(&self) -> String {
        let cluster = self.shared.read();
        let unread = listed(&cluster.unread());
        match (cluster.knows_configuration(), unread.as_str()) {
            (true, _) => unread,
            (false, "") => "the operator's namespace".to_owned(),
            (false, _) => format!("{unread}, the operator's namespace"),
        }
    }
}

fn listed(items: &[impl ToString]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}
