//! One pass: judge what is known, then let each actor write what differs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::api::{SETTINGS_NAME, WindowsNodeStorageStatus, WindowsStorage, WindowsStorageStatus};
use crate::assess::report::{NodeReadiness, ReadinessReport, Verdict};
use crate::assess::{Assessment, only_fresh_data_opens};
use crate::deadline::CallError;
use crate::gate::Change;
use crate::index::Cluster;
use crate::node::{NodePlan, Observation, node_plans};
use crate::payload::Payload;
use crate::run::Controller;
use crate::services::{self, ServicesError, Step, csi_proxy_service};
use crate::status::{ClusterInputs, NodeInputs, cluster_status, node_status, with_verdict};

const GATE_TARGET: &str = "OperatorCondition";
const SERVICES_TARGET: &str = "ConfigMap/windows-services";
const SETTINGS_TARGET: &str = "WindowsStorage/cluster";

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
    /// Judges and acts. What could not be written is tried again later, each for itself.
    pub(super) async fn pass(&mut self) {
        let decided = {
            let mut cluster = self.shared.read();
            let observations = self.observations.read();
            decide(
                &mut self.assessment,
                &mut cluster,
                &observations,
                &self.payload,
                self.services_problem.as_deref(),
                self.last.as_ref().map(|(report, _)| &report.verdict),
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
        self.set_gate(&decided.report).await;
        if decided.knows_configuration {
            self.write_services(&decided.services).await;
            self.workers.assign(&decided.plans, decided.interval);
        }
        for node in &decided.nodes {
            let target = format!("WindowsNodeStorage/{}", node.name);
            if self.may_try(&target) {
                let written = self
                    .status
                    .write_node(&node.name, &node.uid, node.previous.as_ref(), &node.status)
                    .await;
                self.note(&target, written);
            }
        }
        for stray in &decided.strays {
            let target = format!("WindowsNodeStorage/{stray}");
            if self.may_try(&target) {
                let removed = self.status.remove_node(stray).await;
                self.note(&target, removed);
            }
        }
        if let Some((previous, status)) = &decided.settings
            && self.may_try(SETTINGS_TARGET)
        {
            let written = self.status.write_settings(previous.as_ref(), status).await;
            self.note(SETTINGS_TARGET, written);
        }
        self.attempts
            .keep(|target| match target.strip_prefix("WindowsNodeStorage/") {
                Some(node) => {
                    decided.plans.contains_key(node)
                        || decided.strays.iter().any(|stray| stray == node)
                }
                None => true,
            });
        self.last = Some((decided.report, decided.plans));
    }

    async fn write_services(&mut self, services: &Result<Step, ServicesError>) {
        match services {
            Ok(step) => {
                if self.may_try(SERVICES_TARGET) {
                    let written = self.services.write(step).await;
                    // A conflict is no fault: the next pass plans anew from what another has written.
                    let fault = written.as_ref().err().filter(|error| !error.is_conflict());
                    self.services_problem = fault.map(ToString::to_string);
                    self.note(SERVICES_TARGET, written);
                }
            }
            Err(error) => {
                self.attempts.succeeded(SERVICES_TARGET);
                tracing::debug!(%error, "ConfigMap windows-services cannot be used");
            }
        }
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

    async fn set_gate(&mut self, report: &ReadinessReport) {
        if !self.may_try(GATE_TARGET) {
            return;
        }
        let Some(gate) = &mut self.gate else {
            return;
        };
        match gate.ensure(&report.verdict).await {
            Ok(change) => {
                self.attempts.succeeded(GATE_TARGET);
                if change != Change::Unchanged {
                    tracing::info!(
                        upgradeable = report.verdict.upgradeable.as_str(),
                        "the OperatorCondition says so now"
                    );
                }
            }
            Err(error) => self.note_failure(GATE_TARGET, error.to_string()),
        }
    }

    fn may_try(&self, target: &str) -> bool {
        self.attempts.may_try(target, Instant::now())
    }

    fn note(&mut self, target: &str, outcome: Result<(), CallError>) {
        let Err(error) = outcome else {
            self.attempts.succeeded(target);
            return;
        };
        let hint = match (error.is_not_found(), target == SERVICES_TARGET) {
            (false, _) => "",
            (true, true) => {
                "; is the operator's namespace there? kubectl apply -f manifests/namespace.yaml"
            }
            (true, false) => {
                "; are the custom resource definitions installed? kubectl apply -k crds"
            }
        };
        self.note_failure(target, format!("{error}{hint}"));
    }

    fn note_failure(&mut self, target: &str, problem: String) {
        let kind = target.split('/').next().unwrap_or_default();
        self.shown.metrics.count_failed_write(kind);
        tracing::warn!("{problem}");
        self.attempts.failed(target, problem, Instant::now());
    }
}

fn is_ready(status: &WindowsNodeStorageStatus) -> bool {
    status
        .conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn decide(
    assessment: &mut Assessment,
    cluster: &mut Cluster,
    observations: &BTreeMap<String, Observation>,
    payload: &Payload,
    services_problem: Option<&str>,
    last_verdict: Option<&Verdict>,
    now: Timestamp,
) -> Decided {
    let spec = cluster.wanted();
    assessment.update(cluster);
    let cluster = &*cluster;
    let mut report = assessment.report(cluster);
    report.verdict = only_fresh_data_opens(last_verdict, report.verdict, &cluster.stale());
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
    let previous = cluster.settings.get(SETTINGS_NAME).cloned();
    let before = previous
        .as_ref()
        .and_then(|object| object.status.clone())
        .unwrap_or_default();
    let when = (
        previous
            .as_ref()
            .and_then(|object| object.metadata.generation),
        now,
    );
    let settings = if complete {
        let statuses = nodes
            .iter()
            .map(|node| (node.name.clone(), node.status.clone()))
            .collect();
        let inputs = ClusterInputs {
            report: &report,
            plans: &plans,
            services: &services,
            services_problem,
            nodes: &statuses,
        };
        Some((previous, cluster_status(&before, cluster, &inputs, when)))
    } else if cluster.settings.is_complete()
        && cluster
            .unread()
            .iter()
            .any(|unread| unread.problem.is_some())
    {
        // Something cannot be read, which may last: the verdict says so, and all else stays as it was last known.
        Some((previous, with_verdict(&before, &report.verdict, when)))
    } else {
        None
    };
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
    let node = cluster.nodes.get(readiness.name.as_str())?;
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
