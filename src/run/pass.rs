//! One pass: judge what is known, then let each actor write what differs.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{SETTINGS_NAME, WindowsNodeStorageStatus, WindowsStorage, WindowsStorageStatus};
use crate::assess::assess;
use crate::assess::report::{NodeReadiness, ReadinessReport};
use crate::deadline::CallError;
use crate::gate::Change;
use crate::index::Cluster;
use crate::node::{NodePlan, Observation, node_plans};
use crate::payload::Payload;
use crate::run::Controller;
use crate::services::{self, ServicesError, Step, csi_proxy_service};
use crate::status::{ClusterInputs, NodeInputs, cluster_status, node_status};

/// All that a pass has decided, from one look at the index.
struct Decided {
    report: ReadinessReport,
    plans: BTreeMap<String, NodePlan>,
    services: Result<Step, ServicesError>,
    nodes: Vec<NodeDecision>,
    strays: Vec<String>,
    settings: Option<(Option<WindowsStorage>, WindowsStorageStatus)>,
    interval: Duration,
    knows_configuration: bool,
}

struct NodeDecision {
    name: String,
    uid: String,
    previous: Option<WindowsNodeStorageStatus>,
    status: WindowsNodeStorageStatus,
}

impl Controller {
    /// Judges and acts. Says whether everything could be written.
    pub(super) async fn pass(&mut self) -> bool {
        let decided = {
            let cluster = self.shared.read();
            let observations = self.observations.read();
            decide(
                &cluster,
                &observations,
                &self.payload,
                self.services_problem.as_deref(),
                Timestamp::now(),
            )
        };
        self.log_verdict(&decided.report);
        let ready_nodes = decided
            .nodes
            .iter()
            .filter(|node| is_ready(&node.status))
            .count();
        self.shown.metrics.show_report(&decided.report, ready_nodes);

        // The gate comes first: nothing else may delay it.
        let mut clean = self.set_gate(&decided.report).await;
        if decided.knows_configuration {
            match &decided.services {
                Ok(step) => {
                    let written = self.services.write(step).await;
                    // A conflict is no fault: the next pass plans anew from what another has written.
                    let fault = written.as_ref().err().filter(|error| !error.is_conflict());
                    self.services_problem = fault.map(ToString::to_string);
                    clean &= self.note("ConfigMap", written);
                }
                Err(error) => tracing::debug!(%error, "ConfigMap windows-services cannot be used"),
            }
            self.workers.assign(&decided.plans, decided.interval);
        }
        for node in &decided.nodes {
            let written = self
                .status
                .write_node(&node.name, &node.uid, node.previous.as_ref(), &node.status)
                .await;
            clean &= self.note("WindowsNodeStorage", written);
        }
        for stray in &decided.strays {
            let removed = self.status.remove_node(stray).await;
            clean &= self.note("WindowsNodeStorage", removed);
        }
        if let Some((previous, status)) = &decided.settings {
            let written = self.status.write_settings(previous.as_ref(), status).await;
            clean &= self.note("WindowsStorage", written);
        }
        self.last = Some((decided.report, decided.plans));
        clean
    }

    fn log_verdict(&self, report: &ReadinessReport) {
        let verdict = &report.verdict;
        let known = self
            .last
            .as_ref()
            .is_some_and(|(last, _)| last.verdict == *verdict);
        if !known {
            tracing::info!(
                upgradeable = verdict.upgradeable.as_str(),
                reason = verdict.reason.as_str(),
                "verdict: {}",
                verdict.message
            );
        }
    }

    async fn set_gate(&mut self, report: &ReadinessReport) -> bool {
        let Some(gate) = &mut self.gate else {
            return true;
        };
        match gate.ensure(&report.verdict).await {
            Ok(Change::Unchanged) => true,
            Ok(Change::Updated | Change::Transitioned) => {
                tracing::info!(
                    upgradeable = report.verdict.upgradeable.as_str(),
                    "the OperatorCondition says so now"
                );
                true
            }
            Err(error) => {
                tracing::warn!("{error}");
                self.shown.metrics.count_failed_write("OperatorCondition");
                false
            }
        }
    }

    fn note(&self, target: &'static str, outcome: Result<(), CallError>) -> bool {
        let Err(error) = outcome else { return true };
        self.shown.metrics.count_failed_write(target);
        if error.is_not_found() && target != "ConfigMap" {
            tracing::warn!(
                "{error}; are the custom resource definitions installed? kubectl apply -f crds/"
            );
        } else if error.is_not_found() {
            tracing::warn!(
                "{error}; is the operator's namespace there? kubectl apply -f manifests/namespace.yaml"
            );
        } else {
            tracing::warn!("{error}");
        }
        false
    }
}

fn is_ready(status: &WindowsNodeStorageStatus) -> bool {
    status
        .conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn decide(
    cluster: &Cluster,
    observations: &BTreeMap<String, Observation>,
    payload: &Payload,
    services_problem: Option<&str>,
    now: Timestamp,
) -> Decided {
    let spec = cluster.wanted();
    let report = assess(cluster, spec.upgrade_gate);
    let entry = csi_proxy_service(&spec.csi_proxy.extra_args);
    let services = services::plan(cluster.config_maps.get(services::CONFIG_MAP), &entry);
    let plans = node_plans(cluster, &spec, payload, &services);
    let complete = cluster.unread().is_empty() && cluster.knows_configuration();
    let nodes: Vec<NodeDecision> = report
        .nodes
        .iter()
        .filter(|_| complete)
        .filter_map(|readiness| decide_node(cluster, observations, payload, &plans, readiness, now))
        .collect();
    let strays = cluster
        .node_statuses
        .iter()
        .map(|(name, _)| name)
        .filter(|name| {
            complete
                && cluster
                    .nodes
                    .get(name.as_str())
                    .is_some_and(|node| !node.is_windows() && !node.deleting)
        })
        .cloned()
        .collect();
    let settings = complete.then(|| {
        let previous = cluster.settings.get(SETTINGS_NAME).cloned();
        let before = previous
            .as_ref()
            .and_then(|object| object.status.clone())
            .unwrap_or_default();
        let generation = previous
            .as_ref()
            .and_then(|object| object.metadata.generation);
        let statuses = nodes
            .iter()
            .map(|node| (node.name.clone(), node.status.clone()))
            .collect();
        let status = cluster_status(
            &before,
            cluster,
            &ClusterInputs {
                report: &report,
                plans: &plans,
                services: &services,
                services_problem,
                nodes: &statuses,
            },
            (generation, now),
        );
        (previous, status)
    });
    Decided {
        report,
        plans,
        services,
        nodes,
        strays,
        settings,
        interval: Duration::from_secs(u64::from(spec.probe_interval_seconds)),
        knows_configuration: cluster.knows_configuration(),
    }
}

fn decide_node(
    cluster: &Cluster,
    observations: &BTreeMap<String, Observation>,
    payload: &Payload,
    plans: &BTreeMap<String, NodePlan>,
    readiness: &NodeReadiness,
    now: Timestamp,
) -> Option<NodeDecision> {
    let node = cluster.nodes.get(&readiness.name)?;
    let previous = cluster.node_statuses.get(&readiness.name).cloned();
    let inputs = NodeInputs {
        readiness,
        plan: plans.get(&readiness.name)?,
        observation: observations.get(&readiness.name),
        csi_proxy: (&payload.csi_proxy.sha256, &payload.csi_proxy.version),
    };
    let status = node_status(&previous.clone().unwrap_or_default(), &inputs, now);
    Some(NodeDecision {
        name: readiness.name.clone(),
        uid: node.uid.clone(),
        previous,
        status,
    })
}
