//! The controller: waits for changes, judges, and lets each actor do its part.

mod attempts;
mod decide;
mod options;
mod pass;
mod services;
mod serving;
mod term;

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{Api, Client};
use tokio::sync::watch::Receiver;

use crate::assess::report::Upgradeable;
use crate::gate::Gate;
use crate::logs::Levels;
use crate::memory;
use crate::node::{NodePlan, Observations, Pins, SSH_SECRET, Tools, Turns, Workers};
use crate::payload::Payload;
use crate::serve::{Health, Shown};
use crate::status::StatusWriter;
use crate::watch::{self, OwnNamespace, SharedCluster};
use attempts::Attempts;
use decide::Decisions;
use options::ONCE_LIMIT;
pub use options::{Options, RunError};
use services::ServicesWriter;
use term::Term;

/// Events that come together are judged together: within this, or within so many times the time that judging took the
/// last time, so that a cluster in which much happens has no more than a fifth of a core.
const GATHER: Duration = Duration::from_millis(10);
const GATHER_TIMES: u32 = 4;
const LONGEST_GATHER: Duration = Duration::from_millis(500);
/// Whatever is due: without news there is never less between two passes.
const LEAST_PAUSE: Duration = Duration::from_millis(500);
/// How often memory that is no longer used is given back.
const GIVE_BACK: Duration = Duration::from_secs(30);
/// Without news there is never more between two passes.
const IDLE: Duration = Duration::from_secs(60);
/// How long a single pass waits for nodes before it looks again.
const ONCE_PAUSE: Duration = Duration::from_secs(2);

/// An update that lost its operator goes on by itself for no longer than this: the agent's own limits for a stop and a
/// start, once forward and once back, bound it.
const SETTLED: Duration = Duration::from_secs(180);

/// Everything that acts.
struct Controller {
    shared: SharedCluster,
    observations: Observations,
    gate: Option<Gate>,
    services: ServicesWriter,
    status: StatusWriter,
    workers: Workers,
    turns: Turns,
    pins: Pins,
    nodes: Api<Node>,
    started: Instant,
    shown: Shown,
    levels: Levels,
    /// Why the services entry could not be written the last time.
    services_problem: Option<String>,
    attempts: Attempts,
    decisions: Decisions,
    /// Since when something that the verdict rests on cannot be read.
    stale_since: Option<Instant>,
    /// Something new was seen on nodes before the last pass.
    has_seen: bool,
    /// The last pass left statuses of nodes to the next one.
    unfinished: bool,
    /// How long the last pass took to judge.
    judging: Duration,
}

/// Runs until `stop` completes, or for one full pass: when this process leads, where there is an election. Returns the
/// last verdict of a full pass.
pub async fn run(
    client: Client,
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<Option<Upgradeable>, RunError> {
    let payload = Payload::load(&options.payload_dir)?;
    let metrics = &options.metrics;
    metrics.show_build(&payload.csi_proxy.version, &payload.agent.version);
    let shown = Shown {
        metrics: metrics.clone(),
        ..Shown::default()
    };
    let mut server = serving::start(&client, &options, shown.clone()).await?;
    tracing::info!(
        namespace = options.namespace,
        operator_condition = options
            .operator_condition
            .as_deref()
            .unwrap_or("none: the verdict is in WindowsStorage only"),
        csi_proxy = payload.csi_proxy.version,
        agent = payload.agent.version,
        "windows-storage-operator {} starts",
        env!("CARGO_PKG_VERSION")
    );
    let mut term = Term::new(&client, &options);
    let outcome = tokio::select! {
        outcome = term.serve(&options, &shown, lead(client, &options, payload, shown.clone())) => outcome,
        ended = &mut server => match ended {
            Ok(ended) => Err(RunError::ServerEnded(format!("{ended:?}"))),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        },
        never = shown.liveness.turn() => match never {},
        () = stop => {
            tracing::info!("asked to stop; nodes go on by themselves");
            if options.once { Err(RunError::Interrupted) } else { Ok(None) }
        }
    };
    // All work has been dropped by now.
    term.end().await;
    server.abort();
    outcome
}

/// What the leader does.
async fn lead(
    client: Client,
    options: &Options,
    payload: Payload,
    shown: Shown,
) -> Result<Option<Upgradeable>, RunError> {
    let shared = SharedCluster::of_namespace(&options.namespace);
    let observations = Observations::default();
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), &options.namespace);
    let instance = options.instance.clone();
    let turns = Turns::default();
    let pins = Pins::new(config_maps.clone(), options.namespace.clone());
    let nodes = Api::all(client.clone());
    let mut tools = Tools::new(payload.clone(), pins.clone(), turns.clone(), nodes.clone());
    tools.fence = options.fence.clone();
    let mut controller = Controller {
        gate: options.gate(&client),
        services: ServicesWriter::new(config_maps, shared.clone()),
        status: StatusWriter::new(&client, instance, shared.clone()),
        workers: Workers::new(tools, observations.clone(), shown.metrics.clone()),
        turns,
        pins,
        nodes,
        started: Instant::now(),
        shared: shared.clone(),
        observations,
        shown,
        levels: options.levels.clone(),
        services_problem: None,
        attempts: Attempts::default(),
        decisions: Decisions::new(payload),
        stale_since: None,
        has_seen: false,
        unfinished: false,
        judging: Duration::ZERO,
    };
    let own = OwnNamespace {
        namespace: options.namespace.clone(),
        secret: SSH_SECRET.to_owned(),
    };
    let mut watches = watch::start(&client, &shared, &own, &options.metrics);
    tokio::select! {
        outcome = controller.drive(options.once) => outcome,
        _ = watches.join_next() => Err(RunError::Watch),
    }
}

impl Controller {
    async fn drive(&mut self, once: bool) -> Result<Option<Upgradeable>, RunError> {
        let mut cluster = self.shared.changes();
        let mut observed = self.observations.changes();
        let started = tokio::time::Instant::now();
        let (mut given_back, mut was_complete) = (Instant::now(), false);
        loop {
            cluster.mark_unchanged();
            observed.mark_unchanged();
            let begin = Instant::now();
            self.shown.liveness.pass_begins();
            self.pass().await;
            self.shown.liveness.pass_ends();
            let (open, writing) = (self.decisions.open_nodes(), self.status.nodes.writing());
            let metrics = &self.shown.metrics;
            metrics.show_pass(begin.elapsed(), open.saturating_sub(writing), writing);
            let is_complete = self.decisions.is_complete();
            if is_complete && !was_complete || given_back.elapsed() >= GIVE_BACK {
                memory::give_back();
                memory::unmap_programs();
                given_back = Instant::now();
            }
            was_complete = is_complete;
            let clean = self.attempts.is_clean();
            self.shown.readiness.tell(self.health());
            if let Some(gate) = &self.gate {
                self.shown.metrics.show_gate(gate.is_set());
            }
            if once {
                // What came in after the pass has not been judged yet.
                let seen = !observed.has_changed().unwrap_or(false);
                let decided = self.gate.as_ref().is_none_or(|gate| !gate.is_waiting());
                let told = self.decisions.rewords_at().is_none();
                if clean && seen && decided && told && !self.unfinished && self.is_settled() {
                    let verdict = self.decisions.verdict();
                    self.status.told().await;
                    return Ok(verdict.map(|verdict| verdict.upgradeable));
                }
                self.give_up_after(started.elapsed())?;
            }
            let retry = self
                .attempts
                .next()
                .map(|next| next.saturating_duration_since(Instant::now()));
            let look = self.gate.as_ref().map_or(IDLE, Gate::due_in);
            let usual = if once { ONCE_PAUSE } else { IDLE };
            let mut pause = retry.unwrap_or(usual).min(look);
            if self.settles_in() > Duration::ZERO {
                pause = pause.min(self.settles_in());
            }
            let mut pause = pause.max(LEAST_PAUSE);
            if let Some(opens) = self.gate.as_ref().and_then(Gate::opens_in) {
                pause = pause.min(opens);
            }
            if let Some(due) = self.status.blocked.due_in(Instant::now()) {
                pause = pause.min(due.max(LEAST_PAUSE));
            }
            if let Some(reworded) = self.decisions.rewords_at() {
                pause = pause.min(reworded.saturating_duration_since(Instant::now()));
            }
            if self.unfinished {
                continue;
            }
            let gather = (self.judging * GATHER_TIMES).clamp(GATHER, LONGEST_GATHER);
            tokio::select! {
                () = gathered(&mut cluster, &mut observed, gather) => {}
                () = tokio::time::sleep(pause) => {}
                node = self.workers.ended() => return Err(RunError::Worker(node)),
            }
        }
    }

    /// How long nodes that have not been seen may still be in the middle of what a process before this one began.
    fn settles_in(&self) -> Duration {
        SETTLED.saturating_sub(self.started.elapsed())
    }

    /// A single pass ends also where something cannot be read or written, with what that is.
    fn give_up_after(&self, elapsed: Duration) -> Result<(), RunError> {
        if elapsed < ONCE_LIMIT {
            return Ok(());
        }
        let what = self.unread();
        if !what.is_empty() {
            return Err(RunError::Unread { what });
        }
        match self.attempts.last_problem() {
            Some(what) if !self.attempts.is_clean() => Err(RunError::Unwritten {
                what: what.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Whether a single pass has done all that there is to do: every node to visit has been visited.
    fn is_settled(&self) -> bool {
        let plans = self.decisions.plans();
        let observations = self.observations.read();
        self.decisions.is_complete()
            && plans.iter().all(|(node, plan)| match plan {
                NodePlan::External | NodePlan::Blocked(_) => true,
                NodePlan::Waiting => false,
                NodePlan::Visit(_) => observations
                    .get(node)
                    .is_some_and(|observation| observation.visits > 0),
            })
    }

    fn health(&self) -> Health {
        let unread = || match self.unread() {
            // It has been read since.
            unread if unread.is_empty() => "not all of it has been judged yet".to_owned(),
            unread => format!("missing {unread}"),
        };
        let cluster = self.shared.read();
        let stale: Vec<String> = cluster.stale().iter().map(ToString::to_string).collect();
        drop(cluster);
        let unwritten = self.attempts.last_problem().map(str::to_owned);
        Health {
            stale: (!stale.is_empty()).then(|| stale.join(", ")),
            unread: (!self.decisions.is_complete()).then(unread),
            gate: self
                .gate
                .as_ref()
                .map(|gate| (gate.report(), gate.is_set())),
            unwritten: unwritten.filter(|_| !self.attempts.is_clean()),
        }
    }

    fn unread(&self) -> String {
        let cluster = self.shared.read();
        let mut unread: Vec<String> = cluster.unread().iter().map(ToString::to_string).collect();
        if !cluster.knows_configuration() {
            unread.push("the operator's namespace".to_owned());
        }
        unread.join(", ")
    }
}

/// Waits for a change, then a while longer for those that come with it.
async fn gathered(cluster: &mut Receiver<u64>, observed: &mut Receiver<u64>, gather: Duration) {
    // The senders live as long as the controller, so waiting does not fail.
    tokio::select! {
        _ = cluster.changed() => {}
        _ = observed.changed() => {}
    }
    tokio::time::sleep(gather).await;
}
