//! What Prometheus sees. Labels are bounded: no names of objects.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::assess::report::{Upgradeable, Verdict};
use crate::serve::process::ProcessCollector;

/// The operator's metrics.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    upgradeable: Gauge,
    gate_written: Gauge,
    nodes: Family<ReadyLabel, Gauge>,
    blocking_volumes: Gauge,
    visits: Family<ResultLabel, Counter>,
    failed_writes: Family<TargetLabel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReadyLabel {
    ready: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetLabel {
    target: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut all = Registry::default();
        all.register_collector(Box::new(ProcessCollector));
        let registry = all.sub_registry_with_prefix("windows_storage");
        let metrics = Self {
            registry: Arc::default(),
            upgradeable: Gauge::default(),
            gate_written: Gauge::default(),
            nodes: Family::default(),
            blocking_volumes: Gauge::default(),
            visits: Family::default(),
            failed_writes: Family::default(),
        };
        registry.register(
            "upgradeable",
            "1 while upgrades may go on, 0 while they are held",
            metrics.upgradeable.clone(),
        );
        registry.register(
            "operator_condition_written",
            "1 while the OperatorCondition says what it shall, 0 while it does not or there is none to write",
            metrics.gate_written.clone(),
        );
        registry.register(
            "nodes",
            "Windows nodes by whether their storage is ready",
            metrics.nodes.clone(),
        );
        registry.register(
            "blocking_volumes",
            "Volumes that hold upgrades",
            metrics.blocking_volumes.clone(),
        );
        registry.register(
            "node_visits",
            "Visits to nodes over SSH by how they ended",
            metrics.visits.clone(),
        );
        registry.register(
            "failed_writes",
            "Writes to the API server that failed, by what was written",
            metrics.failed_writes.clone(),
        );
        *metrics
            .registry
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = all;
        metrics
    }
}

impl Metrics {
    /// The judgement as it stands.
    pub fn show_verdict(
        &self,
        verdict: &Verdict,
        blocking: usize,
        (nodes, ready_nodes): (usize, usize),
    ) {
        self.upgradeable
            .set(i64::from(verdict.upgradeable == Upgradeable::True));
        self.blocking_volumes.set(as_gauge(blocking));
        self.nodes
            .get_or_create(&ReadyLabel { ready: "true" })
            .set(as_gauge(ready_nodes));
        let unready = nodes.saturating_sub(ready_nodes);
        self.nodes
            .get_or_create(&ReadyLabel { ready: "false" })
            .set(as_gauge(unready));
    }

    /// Whether the `OperatorCondition` says what it shall.
    pub fn show_gate(&self, is_written: bool) {
        self.gate_written.set(i64::from(is_written));
    }

    /// A visit ended: `Success`, or the reason of its failure.
    pub fn count_visit(&self, result: &'static str) {
        self.visits.get_or_create(&ResultLabel { result }).inc();
    }

    /// A write to an object of that kind failed.
    pub fn count_failed_write(&self, target: &str) {
        self.failed_writes
            .get_or_create(&TargetLabel {
                target: target.to_owned(),
            })
            .inc();
    }

    /// All metrics in the text format of OpenMetrics.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a String does not fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

fn as_gauge(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_read_as_prometheus_expects() {
        let metrics = Metrics::default();
        metrics.count_visit("Success");
        let text = metrics.encode();
        assert!(
            text.contains("windows_storage_node_visits_total{result=\"Success\"} 1"),
            "{text}"
        );
        assert!(text.contains("windows_storage_upgradeable 0"), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
