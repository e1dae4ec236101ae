//! The status of one Windows node, from the judgement, the plan and what was observed.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api::{CsiProxyStatus, FailedUpdate, WindowsNodeStorageStatus};
use crate::assess::report::NodeReadiness;
use crate::node::{NodePlan, Observation, Standing, describe_foreign};
use crate::status::conditions::{NewCondition, find, settle, whole_seconds};
use crate::status::csi_proxy::{csi_proxy_condition, csi_proxy_status, is_running};

const CSI_NODE_PRESENT: &str = "CSINodePresent";
const DRIVERS_REGISTERED: &str = "DriversRegistered";
/// More are no news, and a node must not fill the cluster's memory.
const MOST_FOREIGN: usize = 10;
const READY: &str = "Ready";
/// All that a node's status follows from.
pub struct NodeInputs<'a> {
    /// The judgement.
    pub readiness: &'a NodeReadiness,
    /// What is to be done there.
    pub plan: &'a NodePlan,
    /// What was seen there since this process started.
    pub observation: Option<&'a Observation>,
    /// What can be seen of who else looks after csi-proxy there; empty where nothing can.
    pub looked_after: &'a str,
    /// The csi-proxy that the operator brings: its hash and version.
    pub csi_proxy: (&'a str, &'a str),
}

/// The node's status. What was known before this process started stands until the node has been visited.
#[must_use]
pub fn node_status(
    previous: &WindowsNodeStorageStatus,
    inputs: &NodeInputs<'_>,
    now: Timestamp,
) -> WindowsNodeStorageStatus {
    let NodeInputs {
        readiness,
        plan,
        observation,
        looked_after,
        csi_proxy: wanted,
    } = inputs;
    let state = observation.and_then(|observation| observation.state.as_ref());
    let csi_proxy = match plan {
        NodePlan::External => None,
        _ => state
            .map(|state| csi_proxy_status(state, previous.csi_proxy.as_ref(), *wanted))
            .or_else(|| previous.csi_proxy.clone()),
    };
    let proxy = csi_proxy_condition(
        previous,
        (plan, looked_after),
        *observation,
        csi_proxy.as_ref(),
    );
    let csi_node = if readiness.csi_node {
        NewCondition::yes(
            CSI_NODE_PRESENT,
            "Present",
            "the node has its CSINode object",
        )
    } else {
        NewCondition::no(
            CSI_NODE_PRESENT,
            "CSINodeMissing",
            "the node has no CSINode object; its kubelet makes one at start: check that the kubelet runs and is registered",
        )
    };
    let drivers = if readiness.missing_drivers.is_empty() {
        NewCondition::yes(
            DRIVERS_REGISTERED,
            "DriversRegistered",
            "every CSI driver that workloads need here is registered",
        )
    } else {
        NewCondition::no(
            DRIVERS_REGISTERED,
            "DriversMissing",
            missing_drivers(readiness),
        )
    };
    let ready = ready_condition(
        readiness,
        plan,
        &proxy,
        csi_proxy.as_ref(),
        &csi_node,
        &drivers,
    );
    let conditions: Vec<Condition> = [proxy, csi_node, drivers, ready]
        .into_iter()
        .map(|said| settle(&previous.conditions, said, None, now))
        .collect();
    let mut status = WindowsNodeStorageStatus {
        management: if matches!(plan, NodePlan::External) {
            "External"
        } else {
            "Managed"
        }
        .to_owned(),
        csi_proxy,
        failed_update: failed_update(previous, plan, *observation),
        foreign_instances: match (plan, state) {
            (NodePlan::External, _) => Vec::new(),
            (_, Some(state)) => state
                .foreign
                .iter()
                .take(MOST_FOREIGN)
                .map(describe_foreign)
                .collect(),
            (_, None) => previous.foreign_instances.clone(),
        },
        csi_node: readiness.csi_node,
        drivers: readiness.drivers.clone(),
        missing_drivers: readiness.missing_drivers.clone(),
        last_contact_time: previous.last_contact_time.clone(),
        conditions,
    };
    // A contact alone is not worth a write: the time goes along with the next change.
    if status != *previous
        && let Some(contact) = observation.and_then(|observation| observation.last_contact)
    {
        status.last_contact_time = Some(Time(whole_seconds(contact)));
    }
    status
}

/// The update that was undone on the node and is not tried again by itself.
fn failed_update(
    previous: &WindowsNodeStorageStatus,
    plan: &NodePlan,
    observation: Option<&Observation>,
) -> Option<FailedUpdate> {
    let before = previous.failed_update.clone();
    let NodePlan::Visit(target) = plan else {
        return before;
    };
    let Ok(desired) = &target.desired else {
        return before;
    };
    // Another version is another matter.
    let before = before.filter(|failed| failed.revision == desired.revision);
    match observation.filter(|seen| seen.revision == desired.revision) {
        Some(Observation {
            standing: Standing::Failed,
            problem: Some(error),
            attempt,
            revision,
            ..
        }) => {
            let known = before.filter(|failed| failed.resume == *attempt);
            known.or_else(|| {
                Some(FailedUpdate {
                    revision: revision.clone(),
                    resume: attempt.clone(),
                    message: error.message.clone(),
                })
            })
        }
        Some(Observation {
            standing: Standing::Current,
            ..
        }) => None,
        Some(_) | None => before,
    }
}

/// Whether a node's status says that its storage is ready.
#[must_use]
pub fn is_ready(status: &WindowsNodeStorageStatus) -> bool {
    find(&status.conditions, READY).is_some_and(|condition| condition.status == "True")
}

/// What is missing, and as many of the causes as one can read.
fn missing_drivers(readiness: &NodeReadiness) -> String {
    const NAMED_CAUSES: usize = 5;
    let mut message = format!(
        "not registered on this node: {}",
        readiness.missing_drivers.join(", ")
    );
    let causes = readiness.findings.iter().map(|finding| &finding.message);
    for cause in causes.take(NAMED_CAUSES) {
        message.push_str("; ");
        message.push_str(cause);
    }
    crate::node::printable(&message)
}

fn ready_condition(
    readiness: &NodeReadiness,
    plan: &NodePlan,
    proxy: &NewCondition,
    csi_proxy: Option<&CsiProxyStatus>,
    csi_node: &NewCondition,
    drivers: &NewCondition,
) -> NewCondition {
    for said in [csi_node, drivers] {
        if said.status != "True" {
            return NewCondition::no(READY, &said.reason, &said.message);
        }
    }
    let external = matches!(plan, NodePlan::External);
    if readiness.needs_csi_proxy && !external && !is_running(csi_proxy) {
        let message = format!("a driver on this node needs csi-proxy: {}", proxy.message);
        return NewCondition::no(READY, &proxy.reason, message);
    }
    NewCondition::yes(
        READY,
        "StorageReady",
        "the node has what its workloads need for their storage",
    )
}

#[cfg(test)]
mod tests;
