//! The table of metrics: names, types, help, and the series that exist from the start.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{SUCCESS, drivers};
use crate::assess::report::Reason as VerdictReason;
use crate::node::Reason;
use crate::status::PROGRESS;

/// The label values of failed writes.
const TARGETS: [&str; 5] = [
    "OperatorCondition",
    "ConfigMap",
    "WindowsStorage",
    "WindowsNodeStorage",
    "DepartedNode",
];

/// Buckets from a request over a fast connection to a transfer over a slow one.
const OF_NODES: [f64; 12] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0,
];
/// Buckets from a small cluster to one of thousands of nodes.
const OF_JUDGEMENTS: [f64; 10] = [
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0,
];

/// Labels with their values. Each has few values, which docs/monitoring.md lists.
pub type Labels<const N: usize = 1, V = &'static str> = [(&'static str, V); N];

/// Declares and registers each metric: its field, type, first value, name without prefix, and help.
macro_rules! metrics {
    ($($field:ident: $type:ty = $new:expr, $name:literal, $help:literal;)*) => {
        /// All metrics.
        #[derive(Debug)]
        pub struct Families {
            registry: Registry,
            $(pub $field: $type,)*
        }

        impl Default for Families {
            fn default() -> Self {
                let mut registry = Registry::default();
                $(
                    let $field: $type = $new;
                    registry.register(concat!("winstorage_", $name), $help, $field.clone());
                )*
                let families = Self { registry, $($field,)* };
                families.create_series();
                families
            }
        }
    };
}

metrics! {
    build_info: Family<Labels<3, String>, Gauge> = Family::default(), "build_info",
        "1, with the versions of the operator, csi-proxy and the agent";
    leader: Gauge = Gauge::default(), "leader",
        "1 while this process leads, 0 while it stands by";
    upgradeable: Gauge = Gauge::default(), "upgradeable",
        "1 while upgrades are allowed, 0 while they are held";
    upgraded_while_held: Gauge = Gauge::default(), "upgraded_while_held",
        "1 while upgrades are held and the cluster was upgraded nevertheless, 0 otherwise";
    verdict: Family<Labels, Gauge> = Family::default(), "verdict",
        "1 for the reason of the verdict, 0 for all others";
    // A family without labels, which has no series before its first value: without OLM there is none.
    gate: Family<Labels<0>, Gauge> = Family::default(), "operator_condition_written",
        "1 while the OperatorCondition has the verdict, else 0; absent without OLM";
    blocking_volumes: Family<Labels, Gauge> = Family::default(), "blocking_volumes",
        "Volumes that hold upgrades by their CSI driver";
    nodes: Family<Labels, Gauge> = Family::default(), "nodes",
        "Windows nodes by whether their storage is ready";
    failing_nodes: Family<Labels, Gauge> = Family::default(), "failing_nodes",
        "Windows nodes that the operator fails to reconcile, by reason";
    rollout: Family<Labels, Gauge> = Family::default(), "rollout",
        "1 for the current state of the rollout, 0 for all others";
    rollout_nodes: Family<Labels<2, String>, Gauge> = Family::default(), "rollout_nodes",
        "Managed nodes by pool (empty for none) and rollout state";
    node_reconciles: Family<Labels, Counter> = Family::default(), "node_reconciles",
        "Reconciles of nodes over SSH by result";
    node_reconcile_duration: Family<Labels, Histogram> = Family::new_with_constructor(of_nodes), "node_reconcile_duration_seconds",
        "Duration of reconciles of nodes, with the time in the queue";
    csi_proxy_restarts: Counter = Counter::default(), "csi_proxy_restarts",
        "Unexpected restarts of csi-proxy on nodes";
    reconciles: Histogram = Histogram::new(OF_JUDGEMENTS), "judgement_duration_seconds",
        "Duration of one judgement of the cluster, with its plan";
    watch_restarts: Family<Labels<2, String>, Counter> = Family::default(), "watch_restarts",
        "Interrupted watches and lists by kind and cause";
    api_requests: Family<Labels<2, String>, Counter> = Family::default(), "api_requests",
        "Requests to the API server by verb and status class; none: no answer";
    failed_writes: Family<Labels, Counter> = Family::default(), "failed_writes",
        "Failed writes to the API server by target";
}

fn of_nodes() -> Histogram {
    Histogram::new(OF_NODES)
}

fn create<M>(family: &Family<Labels, M>, label: &'static str, values: &[&'static str]) {
    for value in values {
        drop(family.get_or_create(&[(label, value)]));
    }
}

impl Families {
    /// Creates the series that alerts use. A counter that only appears with its first event seems never to have increased.
    fn create_series(&self) {
        let reasons = Reason::ALL.map(Reason::as_str);
        let verdicts = VerdictReason::JUDGED.iter().map(|reason| reason.as_str());
        let verdicts: Vec<&str> = verdicts.collect();
        create(&self.verdict, "reason", &verdicts);
        let drivers: Vec<&str> = drivers().collect();
        create(&self.blocking_volumes, "driver", &drivers);
        create(&self.nodes, "ready", &["true", "false"]);
        create(&self.node_reconciles, "result", &[SUCCESS]);
        create(&self.node_reconciles, "result", &reasons);
        create(&self.failing_nodes, "reason", &reasons);
        create(&self.rollout, "reason", &PROGRESS);
        create(&self.failed_writes, "target", &TARGETS);
    }

    /// Returns all metrics as OpenMetrics.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
