//! The metrics for Prometheus. Labels are bounded: they contain no object names. docs/monitoring.md has a row for each
//! metric.

mod families;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::assess::plugins::PLUGINS;
use crate::assess::report::{Reason as VerdictReason, Upgradeable, Verdict};
use crate::node::{NodeError, Reason, Reconciled, Rollout};
use crate::status::PROGRESS;
use families::{Families, Labels};

/// The label value for volumes that no driver takes over.
const NO_DRIVER: &str = "none";
const SUCCESS: &str = "Success";
const FAILURE: &str = "Failure";

/// The operator's metrics.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Families>);

/// Returns the drivers that the volumes of `blocking_volumes` can need.
fn drivers() -> impl Iterator<Item = &'static str> {
    let named = PLUGINS.iter().filter_map(|plugin| plugin.driver);
    named.chain([NO_DRIVER])
}

impl Metrics {
    /// Sets the versions of the operator and of its programs for nodes.
    pub fn show_build(&self, csi_proxy: &str, agent: &str) {
        let build = [
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("csi_proxy", csi_proxy.to_owned()),
            ("agent", agent.to_owned()),
        ];
        self.0.build_info.get_or_create(&build).set(1);
    }

    /// Sets whether this process leads.
    pub fn show_leader(&self, leads: bool) {
        self.0.leader.set(i64::from(leads));
    }

    /// Sets the verdict, the number of volumes that hold upgrades by driver, and the numbers of nodes and of ready nodes.
    pub fn show_verdict<'a>(
        &self,
        verdict: &Verdict,
        blocking: &(impl Iterator<Item = (Option<&'a str>, usize)> + Clone),
        (nodes, ready_nodes): (usize, usize),
    ) {
        let is_open = verdict.upgradeable == Upgradeable::True;
        self.0.upgradeable.set(i64::from(is_open));
        for reason in VerdictReason::JUDGED {
            let is_it = usize::from(*reason == verdict.reason);
            set(&self.0.verdict, "reason", reason.as_str(), is_it);
        }
        for driver in drivers() {
            let wanted = (driver != NO_DRIVER).then_some(driver);
            let of_driver = blocking.clone().filter(|(needed, _)| *needed == wanted);
            let volumes = of_driver.map(|(_, volumes)| volumes).sum();
            set(&self.0.blocking_volumes, "driver", driver, volumes);
        }
        let unready = nodes.saturating_sub(ready_nodes);
        set(&self.0.nodes, "ready", "true", ready_nodes);
        set(&self.0.nodes, "ready", "false", unready);
    }

    /// Sets whether the cluster was upgraded although upgrades were, and still are, held.
    pub fn show_upgraded_while_held(&self, is_upgraded: bool) {
        self.0.upgraded_while_held.set(i64::from(is_upgraded));
    }

    /// Sets the number of failing nodes by reason: what keeps a node from being reconciled, or its last failure.
    pub fn show_failing_nodes(&self, reasons: impl Iterator<Item = Reason>) {
        let reasons: Vec<Reason> = reasons.collect();
        for reason in Reason::ALL {
            let number = reasons.iter().filter(|of_node| **of_node == reason).count();
            set(&self.0.failing_nodes, "reason", reason.as_str(), number);
        }
    }

    /// Sets the state of the rollout, as the condition `RolloutProgressing` reports it, and the number of nodes in each
    /// state by pool.
    pub fn show_rollout(&self, reason: &str, rollout: &Rollout) {
        for known in PROGRESS {
            let is_it = usize::from(known == reason);
            set(&self.0.rollout, "reason", known, is_it);
        }
        let mut others = rollout.all;
        for pool in rollout.pools.values() {
            others.nodes = others.nodes.saturating_sub(pool.nodes);
            others.current = others.current.saturating_sub(pool.current);
            others.waiting = others.waiting.saturating_sub(pool.waiting);
            others.failed = others.failed.saturating_sub(pool.failed);
        }
        // Removes pools that no longer exist.
        self.0.rollout_nodes.clear();
        let pools = rollout.pools.iter().map(|(name, of)| (name.as_str(), of));
        for (pool, of) in pools.chain([("", &others)]) {
            let known = of.current + of.waiting + of.failed;
            for (state, number) in [
                ("updated", of.current),
                ("waiting", of.waiting),
                ("failed", of.failed),
                ("other", of.nodes.saturating_sub(known)),
            ] {
                let labels = [("pool", pool.to_owned()), ("state", state.to_owned())];
                let gauge = self.0.rollout_nodes.get_or_create(&labels);
                gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
            }
        }
    }

    /// Sets whether the `OperatorCondition` says what was decided. Only called if there is one to write.
    pub fn show_gate(&self, is_written: bool) {
        self.0.gate.get_or_create(&[]).set(i64::from(is_written));
    }

    /// Records the duration of a judgement with its plan.
    pub fn show_judgement(&self, took: Duration) {
        self.0.reconciles.observe(took.as_secs_f64());
    }

    /// Counts a finished reconcile of a node.
    pub fn count_reconcile(&self, outcome: &Result<Reconciled, NodeError>, took: Duration) {
        let problem = match outcome {
            Ok(reconciled) => reconciled.problem.as_ref(),
            Err(error) => Some(error),
        };
        let (ended, result) = match problem {
            None => (SUCCESS, SUCCESS),
            Some(error) => (FAILURE, error.reason.as_str()),
        };
        let labels = [("result", result)];
        self.0.node_reconciles.get_or_create(&labels).inc();
        let duration = &self.0.node_reconcile_duration;
        let duration = duration.get_or_create(&[("result", ended)]);
        duration.observe(took.as_secs_f64());
    }

    /// Counts the restarts of csi-proxy on a node, by its agent or by Windows, since the node was last reconciled.
    pub fn count_csi_proxy_restarts(&self, restarts: u64) {
        self.0.csi_proxy_restarts.inc_by(restarts);
    }

    /// Counts a failed write to an object of that kind.
    pub fn count_failed_write(&self, target: &'static str) {
        let labels = [("target", target)];
        self.0.failed_writes.get_or_create(&labels).inc();
    }

    /// Counts an interrupted watch or list of a kind.
    pub fn count_watch_restart(&self, kind: &str, cause: &'static str) {
        let labels = [("kind", kind.to_owned()), ("cause", cause.to_owned())];
        self.0.watch_restarts.get_or_create(&labels).inc();
    }

    /// Counts a request to the API server. The code is absent if there was no answer.
    pub fn count_request(&self, verb: String, code: Option<u16>) {
        let class = code.map(|code| format!("{}xx", code / 100));
        let class = class.unwrap_or_else(|| "none".to_owned());
        let labels = [("verb", verb), ("code", class)];
        self.0.api_requests.get_or_create(&labels).inc();
    }

    /// Returns all metrics as OpenMetrics.
    pub fn encode(&self) -> String {
        self.0.encode()
    }
}

fn set(family: &Family<Labels, Gauge>, label: &'static str, value: &'static str, number: usize) {
    let gauge = family.get_or_create(&[(label, value)]);
    gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::PoolProgress;

    fn lines(metrics: &Metrics, start: &str) -> Vec<String> {
        let text = metrics.encode();
        let lines = text.lines().filter(|line| line.starts_with(start));
        lines.map(str::to_owned).collect()
    }

    /// Returns the value of a series, whose name is given without its prefix.
    fn value(metrics: &Metrics, series: &str) -> String {
        let found = lines(metrics, &format!("winstorage_{series}"));
        assert_eq!(found.len(), 1, "{series}: {found:?}");
        found[0].rsplit(' ').next().unwrap().to_owned()
    }

    fn assert_values(metrics: &Metrics, expected: &[(&str, &str)]) {
        for (series, expected) in expected {
            assert_eq!(value(metrics, series), *expected, "{series}");
        }
    }

    #[test]
    fn a_reconcile_is_counted_by_its_result() {
        let metrics = Metrics::default();
        metrics.count_reconcile(&Ok(Reconciled::default()), Duration::from_secs(1));
        let unreachable = Reason::Unreachable.error("no");
        metrics.count_reconcile(&Err(unreachable), Duration::from_secs(3));
        let expected = [
            ("node_reconciles_total{result=\"Success\"}", "1"),
            ("node_reconciles_total{result=\"Unreachable\"}", "1"),
            ("node_reconciles_total{result=\"DiskFull\"}", "0"),
            (
                "node_reconcile_duration_seconds_sum{result=\"Failure\"}",
                "3.0",
            ),
        ];
        assert_values(&metrics, &expected);
    }

    #[test]
    fn the_judgement_is_one_reason_out_of_all_and_volumes_are_counted_by_driver() {
        let metrics = Metrics::default();
        let verdict = Verdict {
            upgradeable: Upgradeable::False,
            reason: VerdictReason::DriversMissing,
            message: String::new(),
        };
        let blocking = [(Some("disk.csi.azure.com"), 3), (None, 1)];
        metrics.show_verdict(&verdict, &blocking.into_iter(), (5, 2));
        let expected = [
            ("upgradeable ", "0"),
            ("verdict{reason=\"DriversMissing\"}", "1"),
            ("verdict{reason=\"Override\"}", "0"),
            ("blocking_volumes{driver=\"disk.csi.azure.com\"}", "3"),
            ("blocking_volumes{driver=\"none\"}", "1"),
            ("blocking_volumes{driver=\"ebs.csi.aws.com\"}", "0"),
            ("nodes{ready=\"true\"}", "2"),
            ("nodes{ready=\"false\"}", "3"),
        ];
        assert_values(&metrics, &expected);
        // Values that no longer apply are reset.
        let open = Verdict {
            upgradeable: Upgradeable::True,
            reason: VerdictReason::DriversRegistered,
            message: String::new(),
        };
        metrics.show_verdict(&open, &std::iter::empty(), (5, 5));
        let reset = [
            ("upgradeable ", "1"),
            ("verdict{reason=\"DriversMissing\"}", "0"),
            ("blocking_volumes{driver=\"none\"}", "0"),
        ];
        assert_values(&metrics, &reset);
    }

    #[test]
    fn nodes_are_counted_by_pool_and_a_pool_that_is_gone_is_not() {
        let metrics = Metrics::default();
        let blue = PoolProgress {
            nodes: 3,
            current: 1,
            waiting: 1,
            failed: 0,
        };
        let mut rollout = Rollout {
            all: PoolProgress {
                nodes: 5,
                current: 2,
                waiting: 1,
                failed: 1,
            },
            pools: [("blue".to_owned(), blue)].into(),
            ..Rollout::default()
        };
        metrics.show_rollout("Stopped", &rollout);
        let of = |pool: &str, state: &str| {
            let series = format!("rollout_nodes{{pool=\"{pool}\",state=\"{state}\"}}");
            value(&metrics, &series)
        };
        let states = ["updated", "waiting", "failed", "other"];
        assert_eq!(states.map(|state| of("blue", state)), ["1", "1", "0", "1"]);
        assert_eq!(states.map(|state| of("", state)), ["1", "0", "1", "0"]);
        assert_eq!(value(&metrics, "rollout{reason=\"Stopped\"}"), "1");
        assert_eq!(value(&metrics, "rollout{reason=\"Complete\"}"), "0");
        rollout.pools.clear();
        metrics.show_rollout("Complete", &rollout);
        assert!(lines(&metrics, "winstorage_rollout_nodes{pool=\"blue\"").is_empty());
        assert_eq!(of("", "updated"), "2");
        assert_eq!(value(&metrics, "rollout{reason=\"Stopped\"}"), "0");
    }

    #[test]
    fn failing_nodes_requests_and_watches_have_bounded_labels() {
        let metrics = Metrics::default();
        metrics.show_failing_nodes([Reason::HostKeyChanged, Reason::HostKeyChanged].into_iter());
        let changed = "failing_nodes{reason=\"HostKeyChanged\"}";
        assert_eq!(value(&metrics, changed), "2");
        metrics.show_failing_nodes(std::iter::empty());
        assert_eq!(value(&metrics, changed), "0");
        metrics.count_request("GET".to_owned(), Some(599));
        let series = "api_requests_total{verb=\"GET\",code=\"5xx\"}";
        assert_eq!(value(&metrics, series), "1");
        metrics.count_watch_restart("Pod", "Expired");
        let series = "watch_restarts_total{kind=\"Pod\",cause=\"Expired\"}";
        assert_eq!(value(&metrics, series), "1");
    }

    #[test]
    fn the_gate_is_shown_only_where_there_is_one() {
        let metrics = Metrics::default();
        let gate = "operator_condition_written{} ";
        assert!(lines(&metrics, "winstorage_operator_condition").is_empty());
        metrics.show_gate(false);
        assert_eq!(value(&metrics, gate), "0");
        metrics.clone().show_gate(true);
        assert_eq!(value(&metrics, gate), "1");
    }
}
