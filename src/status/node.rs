//! Builds the status of one Windows node from the assessment, the plan and the observation.

use jiff::Timestamp;

use crate::api::{CsiProxyStatus, FailedUpdate, WindowsNodeStorageStatus};
use crate::assess::CsiProxyUse;
use crate::assess::report::NodeReadiness;
use crate::node::{
    Absence, EXTERNAL, MANAGED, NOT_NEEDED, NodePlan, OPERATOR, Observation, RELEASING, REMOVED,
    REMOVING, SSH_KEY_ACCEPTED, Standing, found_owner, printable,
};
use crate::status::conditions::{NAMED, NewCondition, find, no, settle, unchanged, yes};
use crate::status::csi_proxy::{CSI_PROXY_READY, csi_proxy_condition, csi_proxy_status};
use crate::visible::some_of;

/// The condition type that says whether anything on the node uses csi-proxy's pipes.
const CSI_PROXY_USED: &str = "CSIProxyUsed";
const READY: &str = "Ready";
/// How many missing drivers a status lists. Anyone can make up names of drivers, and etcd refuses a status of 1.5 MB.
const MOST_MISSING: usize = 100;

/// The inputs of a node's status.
pub struct NodeInputs<'a> {
    /// The node's readiness.
    pub readiness: &'a NodeReadiness,
    /// What uses, or may use, csi-proxy on the node.
    pub csi_proxy_use: Option<&'a CsiProxyUse>,
    /// The plan for the node.
    pub plan: &'a NodePlan,
    /// What this process has observed on the node.
    pub observation: Option<&'a Observation>,
    /// The node's pool of `spec.nodePools`.
    pub pool: Option<&'a str>,
    /// The hash and version of the operator's csi-proxy.
    pub csi_proxy: (&'a str, &'a str),
}

/// Builds the node's status. The previous process's observations stay until the node has been reconciled.
pub fn node_status(
    previous: &WindowsNodeStorageStatus,
    inputs: &NodeInputs<'_>,
    now: Timestamp,
) -> WindowsNodeStorageStatus {
    let (readiness, plan, observation) = (inputs.readiness, inputs.plan, inputs.observation);
    let state = observation.and_then(|observation| observation.state.as_ref());
    let owner = owner(previous, plan, observation);
    let is_external = owner.is_some() || !plan.is_managed();
    let csi_proxy = state.map(|state| csi_proxy_status(state, inputs.csi_proxy));
    let csi_proxy = csi_proxy.or_else(|| previous.csi_proxy.clone());
    let is_removed = observation.is_some_and(Observation::is_removed);
    let management = match plan {
        NodePlan::Remove(..) if !is_removed => REMOVING,
        NodePlan::RemovalWaits(_) => REMOVING,
        NodePlan::Absent(absence) | NodePlan::Remove(absence, _) => match absence {
            Absence::Removed => REMOVED,
            Absence::NotNeeded => NOT_NEEDED,
        },
        NodePlan::Release(..) if !observation.is_some_and(Observation::is_released) => RELEASING,
        _ if !is_external => MANAGED,
        _ => EXTERNAL,
    };
    let is_away = [EXTERNAL, REMOVED, NOT_NEEDED].contains(&management);
    let csi_proxy = csi_proxy.filter(|_| !is_away);
    let proxy = csi_proxy_condition(previous, inputs, owner, csi_proxy.as_ref());
    let csi_node = if readiness.csi_node {
        yes("Present", "the node has its CSINode object")
    } else {
        let message = "the node has no CSINode object; its kubelet makes one at start: check that the kubelet runs and is registered";
        no("CSINodeMissing", message)
    };
    let drivers = if readiness.missing_drivers.is_empty() {
        let message = "every CSI driver that workloads need here is registered";
        yes("DriversRegistered", message)
    } else {
        no("DriversMissing", missing_drivers(readiness))
    };
    let runs = csi_proxy.as_ref().is_some_and(CsiProxyStatus::is_running);
    let is_of_others = [EXTERNAL, RELEASING].contains(&management);
    let lacks_csi_proxy = readiness.needs_csi_proxy && !is_of_others && !runs;
    let ready = ready_condition(&csi_node, &drivers, lacks_csi_proxy.then_some(&proxy));
    // While the agent is still to be removed, it stays known that there is one.
    let key = (management != EXTERNAL).then(|| key_condition(previous, observation));
    let new = [
        (CSI_PROXY_READY, proxy),
        (CSI_PROXY_USED, used_condition(inputs.csi_proxy_use)),
        ("CSINodePresent", csi_node),
        ("DriversRegistered", drivers),
        (READY, ready),
    ];
    let key = key.flatten().map(|key| (SSH_KEY_ACCEPTED, key));
    let new = new.into_iter().chain(key);
    WindowsNodeStorageStatus {
        management: management.to_owned(),
        managed_by: match plan {
            NodePlan::Undecided(_) => String::new(),
            _ => owner.map_or_else(|| OPERATOR.to_owned(), printable),
        },
        node_pool: inputs.pool.unwrap_or_default().to_owned(),
        csi_proxy,
        failed_update: failed_update(previous, plan, observation),
        drivers: readiness.drivers.clone(),
        missing_drivers: (readiness.missing_drivers.iter())
            .take(MOST_MISSING)
            .cloned()
            .collect(),
        conditions: settle(&previous.conditions, new, (None, now)),
    }
}

/// Builds the condition on the SSH key with which the operator logged in last; `None` if it never did.
fn key_condition(
    previous: &WindowsNodeStorageStatus,
    observation: Option<&Observation>,
) -> Option<NewCondition> {
    match observation.filter(|seen| !seen.ssh_key.is_empty()) {
        Some(seen) => Some(yes("Accepted", accepted(&seen.ssh_key))),
        None => find(&previous.conditions, SSH_KEY_ACCEPTED).map(unchanged),
    }
}

fn accepted(key: &str) -> String {
    format!("The node accepted the SSH key with the id {key}")
}

/// Whether the operator logged in to the node last with the key with this id.
pub fn has_accepted(status: &WindowsNodeStorageStatus, key: &str) -> bool {
    find(&status.conditions, SSH_KEY_ACCEPTED).is_some_and(|said| said.message == accepted(key))
}

/// Builds the condition on whether csi-proxy is, or may be, used. Its transition time shows since when it is unused.
fn used_condition(used: Option<&CsiProxyUse>) -> NewCondition {
    match used {
        Some(used) if used.mounts => yes("PipesMounted", used.to_string()),
        Some(used) => yes("HostProcess", used.to_string()),
        None => no("NotUsed", "nothing on this node uses pipes of csi-proxy"),
    }
}

fn owner<'a>(
    previous: &'a WindowsNodeStorageStatus,
    plan: &'a NodePlan,
    observation: Option<&'a Observation>,
) -> Option<&'a str> {
    match plan {
        NodePlan::External(who) | NodePlan::Release(who, _) => Some(who),
        NodePlan::Undecided(_) | NodePlan::Absent(_) => None,
        _ => found_owner(observation, Some(previous)),
    }
}

/// Returns the update that was rolled back on the node and is not retried automatically.
fn failed_update(
    previous: &WindowsNodeStorageStatus,
    plan: &NodePlan,
    observation: Option<&Observation>,
) -> Option<FailedUpdate> {
    if let NodePlan::Absent(_) = plan {
        return None;
    }
    let before = previous.failed_update.clone();
    let desired = match plan {
        NodePlan::Reconcile(Ok(target)) => target.desired.as_ref().ok(),
        _ => None,
    };
    let Some(desired) = desired else {
        return before;
    };
    let Some(seen) = observation.filter(|seen| seen.revision == desired.revision) else {
        return before;
    };
    match (seen.standing, &seen.problem) {
        (Standing::Failed, Some(error)) => {
            let known = before.filter(|failed| failed.resume == seen.attempt);
            known.or_else(|| {
                Some(FailedUpdate {
                    revision: seen.revision.clone(),
                    resume: seen.attempt.clone(),
                    message: error.message.clone(),
                })
            })
        }
        (Standing::Current, _) => None,
        _ => before,
    }
}

/// Whether a node's status shows its storage as ready.
pub fn is_ready(status: &WindowsNodeStorageStatus) -> bool {
    find(&status.conditions, READY).is_some_and(|condition| condition.status == "True")
}

/// Returns the missing drivers and the first causes.
fn missing_drivers(readiness: &NodeReadiness) -> String {
    const NAMED_CAUSES: usize = 5;
    let mut message = format!(
        "not registered on this node: {}",
        some_of(&readiness.missing_drivers, NAMED)
    );
    let causes = readiness.findings.iter().map(|finding| &finding.message);
    for cause in causes.take(NAMED_CAUSES) {
        message.push_str("; ");
        message.push_str(cause);
    }
    printable(&message)
}

/// Builds the condition `Ready`. `csi_proxy` is csi-proxy's condition if the node needs it and it does not run.
fn ready_condition(
    csi_node: &NewCondition,
    drivers: &NewCondition,
    csi_proxy: Option<&NewCondition>,
) -> NewCondition {
    let mut others = [csi_node, drivers].into_iter();
    if let Some(said) = others.find(|said| said.status != "True") {
        return no(&said.reason, &said.message);
    }
    if let Some(said) = csi_proxy {
        let message = format!("a driver on this node needs csi-proxy: {}", said.message);
        return no(&said.reason, message);
    }
    let message = "the node has what its workloads need for their storage";
    yes("StorageReady", message)
}

#[cfg(test)]
mod tests;
