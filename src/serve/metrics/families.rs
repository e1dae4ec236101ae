//! The metrics themselves: names, types, and what they start with.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use super::labels::{
    Build, Driver, Phase, Queue, Ready, ReasonOf, Request, ResultOf, Target, Watch,
};
use super::{NODE_STATUSES, NODE_VISITS, SUCCESS, drivers};
use crate::assess::report::Reason as VerdictReason;
use crate::node::Reason;
use crate::serve::process::ProcessCollector;

const PREFIX: &str = "windows_storage";
/// What the failed writes are counted by.
const TARGETS: [&str; 5] = [
    "OperatorCondition",
    "ConfigMap",
    "WindowsStorage",
    "WindowsNodeStorage",
    "DepartedNode",
];

/// From a question over a short line to a transfer over a slow one.
const OF_NODES: [f64; 12] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0,
];
/// From nothing to do to thousands of statuses to write.
const OF_PASSES: [f64; 10] = [
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0,
];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics.
pub struct Families {
    registry: Mutex<Registry>,
    pub build_info: Family<Build, Gauge>,
    pub leader: Gauge,
    pub upgradeable: Gauge,
    pub verdict: Family<ReasonOf, Gauge>,
    pub blocking_volumes: Family<Driver, Gauge>,
    gate_written: OnceLock<Gauge>,
    pub nodes: Family<Ready, Gauge>,
    pub failing_nodes: Family<ReasonOf, Gauge>,
    pub visits: Family<ResultOf, Counter>,
    pub visit_duration: Histograms<ResultOf>,
    pub phase_duration: Histograms<Phase>,
    pub transfers: Family<ResultOf, Counter>,
    pub transfer_bytes: Counter,
    pub csi_proxy_restarts: Counter,
    pub reconciles: Histogram,
    pub queue_depth: Family<Queue, Gauge>,
    pub queue_in_progress: Family<Queue, Gauge>,
    pub watch_restarts: Family<Watch, Counter>,
    pub api_requests: Family<Request, Counter>,
    pub failed_writes: Family<Target, Counter>,
}

fn of_nodes() -> Histogram {
    Histogram::new(OF_NODES)
}

impl Default for Families {
    fn default() -> Self {
        let families = Self {
            registry: Mutex::default(),
            build_info: Family::default(),
            leader: Gauge::default(),
            upgradeable: Gauge::default(),
            verdict: Family::default(),
            blocking_volumes: Family::default(),
            gate_written: OnceLock::new(),
            nodes: Family::default(),
            failing_nodes: Family::default(),
            visits: Family::default(),
            visit_duration: Family::new_with_constructor(of_nodes),
            phase_duration: Family::new_with_constructor(of_nodes),
            transfers: Family::default(),
            transfer_bytes: Counter::default(),
            csi_proxy_restarts: Counter::default(),
            reconciles: Histogram::new(OF_PASSES),
            queue_depth: Family::default(),
            queue_in_progress: Family::default(),
            watch_restarts: Family::default(),
            api_requests: Family::default(),
            failed_writes: Family::default(),
        };
        families.begin();
        families.register();
        families
    }
}

impl Families {
    /// A counter that only appears with its first event seems never to have increased, so those that alerts ask for are
    /// there from the start.
    fn begin(&self) {
        for reason in VerdictReason::ALL {
            let reason = reason.as_str();
            drop(self.verdict.get_or_create(&ReasonOf { reason }));
        }
        for driver in drivers() {
            drop(self.blocking_volumes.get_or_create(&Driver { driver }));
        }
        for ready in ["true", "false"] {
            drop(self.nodes.get_or_create(&Ready { ready }));
        }
        drop(self.visits.get_or_create(&ResultOf { result: SUCCESS }));
        for reason in Reason::ALL {
            let reason = reason.as_str();
            drop(self.failing_nodes.get_or_create(&ReasonOf { reason }));
            drop(self.visits.get_or_create(&ResultOf { result: reason }));
        }
        for result in ["success", "failure"] {
            drop(self.transfers.get_or_create(&ResultOf { result }));
        }
        for queue in [NODE_STATUSES, NODE_VISITS] {
            drop(self.queue_depth.get_or_create(&Queue { queue }));
            drop(self.queue_in_progress.get_or_create(&Queue { queue }));
        }
        for target in TARGETS {
            drop(self.failed_writes.get_or_create(&Target { target }));
        }
    }

    fn register(&self) {
        self.registry()
            .register_collector(Box::new(ProcessCollector));
        self.add(
            "build_info",
            "1, with the version of the operator, and of the csi-proxy and the agent that it brings to nodes",
            self.build_info.clone(),
        );
        self.add(
            "leader",
            "1 while this process leads, 0 while it stands by",
            self.leader.clone(),
        );
        self.add(
            "upgradeable",
            "1 while upgrades may go on, 0 while they are held",
            self.upgradeable.clone(),
        );
        self.add(
            "verdict",
            "1 for the reason of the verdict, 0 for all others",
            self.verdict.clone(),
        );
        self.add(
            "blocking_volumes",
            "Volumes that hold upgrades, by the CSI driver that they need",
            self.blocking_volumes.clone(),
        );
        self.add(
            "nodes",
            "Windows nodes by whether their storage is ready",
            self.nodes.clone(),
        );
        self.add(
            "failing_nodes",
            "Windows nodes that cannot be worked on, or on which the last visit failed, by why",
            self.failing_nodes.clone(),
        );
        self.add(
            "node_visits",
            "Visits to nodes over SSH by how they ended",
            self.visits.clone(),
        );
        self.add(
            "node_visit_duration_seconds",
            "How long visits to nodes took, waiting for a place included",
            self.visit_duration.clone(),
        );
        self.add(
            "ssh_phase_duration_seconds",
            "How long the parts of visits took",
            self.phase_duration.clone(),
        );
        self.add(
            "transfers",
            "Files sent to nodes, requests included",
            self.transfers.clone(),
        );
        self.add(
            "transfer_bytes",
            "Bytes sent to nodes in files, as they travel: compressed",
            self.transfer_bytes.clone(),
        );
        self.add(
            "csi_proxy_restarts",
            "Restarts of csi-proxy on nodes that nobody asked for",
            self.csi_proxy_restarts.clone(),
        );
        self.add(
            "reconcile_duration_seconds",
            "How long it took to judge what is known and to write what differs",
            self.reconciles.clone(),
        );
        self.add(
            "queue_depth",
            "What waits: statuses of nodes to be written, visits for a place to work at",
            self.queue_depth.clone(),
        );
        self.add(
            "queue_in_progress",
            "What is being done: statuses of nodes on their way, visits that are worked on",
            self.queue_in_progress.clone(),
        );
        self.add(
            "watch_restarts",
            "Watches that ended, so that their kind was listed anew, by kind and why",
            self.watch_restarts.clone(),
        );
        self.add(
            "api_requests",
            "Requests to the API server by verb and class of the answer's code; none: no answer came",
            self.api_requests.clone(),
        );
        self.add(
            "failed_writes",
            "Writes to the API server that failed, by what was written",
            self.failed_writes.clone(),
        );
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, name: &str, help: &str, metric: impl Metric) {
        self.registry()
            .register(format!("{PREFIX}_{name}"), help, metric);
    }

    /// Whether the gate is written; there only where there is a gate.
    pub fn gate(&self) -> &Gauge {
        self.gate_written.get_or_init(|| {
            let gauge = Gauge::default();
            self.add(
                "operator_condition_written",
                "1 while the OperatorCondition says what it shall, 0 while it does not; absent where there is none to write",
                gauge.clone(),
            );
            gauge
        })
    }

    /// All of it as OpenMetrics.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry());
        text
    }
}
