//! Builds the csi-proxy part of a node's status.

use protocol::{NodeState, PipeStatus, ServiceState};

use crate::api::{CsiProxyStatus, WindowsNodeStorageStatus};
use crate::index::ObjectKey;
use crate::node::{
    Absence, Awaited, NodeError, NodePlan, Observation, Purpose, Reason, Standing,
    describe_foreign, printable,
};
use crate::services::CSI_PROXY_PIPES;
use crate::status::NodeInputs;
use crate::status::conditions::{NewCondition, find, no, unchanged, unknown, yes};

/// The definition has int32: with more, the API server would refuse the whole status.
const MOST_RESTARTS: u32 = i32::MAX.unsigned_abs();
/// Limits what an untrusted node can make the operator store. More instances are not useful anyway.
const MOST_FOREIGN: usize = 10;
/// The type of csi-proxy's condition.
pub const CSI_PROXY_READY: &str = "CSIProxyReady";
const UNDECIDED: &str = "another owner that manages other Windows nodes may still be setting up this node, or the node has a taint …/uninitialized; this operator starts to manage it after ten minutes Ready without that taint, or at once if the Node is annotated windowsstorage.dev/management=Managed";
const NOT_USED: &str = "csi-proxy is not installed here, because nothing on this node uses its pipes; the operator installs it when a driver's DaemonSet needs it";
const ALL_REMOVED: &str = "nothing of this operator is left on the node, as set in spec.csiProxy.management of WindowsStorage";
/// Reasons that do not come from reconciling the node. They end once it can be reconciled, and do not stand for
/// observations.
const NOT_FROM_RECONCILING: [&str; 10] = [
    "External",
    "Undecided",
    "Held",
    "Removing",
    "RemovalWaits",
    "Removed",
    "NotNeeded",
    "CredentialsMissing",
    "InvalidPrivateKey",
    "NoAddress",
];

/// Builds csi-proxy's status from the agent's report.
pub fn csi_proxy_status(
    state: &NodeState,
    (wanted_sha256, version): (&str, &str),
) -> CsiProxyStatus {
    let service = &state.csi_proxy;
    let is_sha256 =
        |sum: &String| sum.len() == 64 && sum.bytes().all(|digit| digit.is_ascii_hexdigit());
    let sha256 = service.sha256.clone().filter(is_sha256);
    // Look up our pipe names: an untrusted node may list a pipe a thousand times, and all would be written.
    let pipe = |name: &str| state.pipes.iter().find(|pipe| pipe.name == name);
    let mut missing = CSI_PROXY_PIPES.to_vec();
    if missing.iter().any(|name| pipe(name).is_some()) {
        // What is not listed was not asked for by the version of the operator that set up the node.
        let works = |pipe: &PipeStatus| pipe.open && pipe.answers();
        missing.retain(|name| pipe(name).is_some_and(|pipe| !works(pipe)));
    } else if service.state == ServiceState::Missing {
        missing.clear();
    }
    CsiProxyStatus {
        version: (sha256.as_deref() == Some(wanted_sha256)).then(|| version.to_owned()),
        sha256,
        service_state: format!("{:?}", service.state),
        missing_pipes: missing.into_iter().map(str::to_owned).collect(),
        restarts: service.restarts.min(MOST_RESTARTS),
    }
}

/// Builds the condition `CSIProxyReady`. `owner` names another manager of csi-proxy on the node, if any.
pub fn csi_proxy_condition(
    previous: &WindowsNodeStorageStatus,
    inputs: &NodeInputs<'_>,
    owner: Option<&str>,
    csi_proxy: Option<&CsiProxyStatus>,
) -> NewCondition {
    if let Some(owner) = owner {
        let tried = (inputs.observation).filter(|seen| seen.purpose == Purpose::Release);
        let does = match (inputs.plan, tried.map(|seen| seen.problem.as_ref())) {
            (NodePlan::Release(_, Err(error)), _) | (NodePlan::Release(..), Some(Some(error))) => {
                format!("this operator's agent could not be removed from it: {error}")
            }
            (NodePlan::Release(..), _)
                if !inputs.observation.is_some_and(Observation::is_released) =>
            {
                "this operator's agent is removed from it in a rollout slot".to_owned()
            }
            _ => "this operator does not touch it".to_owned(),
        };
        let message = format!("another owner manages csi-proxy on this node, {owner}; {does}");
        return unknown("External", printable(&message));
    }
    if let Some(said) = removal_condition(inputs) {
        return said;
    }
    let observation = match (inputs.plan, inputs.observation) {
        (NodePlan::Undecided(Awaited::Time(_)), _) => return unknown("Undecided", UNDECIDED),
        (NodePlan::Undecided(Awaited::DaemonSet(set)), _) => {
            return unknown("Held", printable(&held_by(set)));
        }
        (NodePlan::Reconcile(Err(error)), _) => {
            return unknown(error.reason.as_str(), &error.message);
        }
        (_, Some(observation)) => observation,
        (_, None) => {
            let known = find(&previous.conditions, CSI_PROXY_READY)
                .filter(|condition| !NOT_FROM_RECONCILING.contains(&condition.reason.as_str()));
            let pending = || unknown("Pending", "the node has not been reconciled yet");
            return known.map_or_else(pending, unchanged);
        }
    };
    let running = csi_proxy.filter(|status| status.is_running());
    let is_wanted = running.is_some_and(|status| status.version.is_some());
    let mut said = match (&observation.problem, running.map(describe)) {
        (Some(error), works) => failed(error, works, is_wanted),
        (None, None) => no(
            Reason::CSIProxyFailed.as_str(),
            "csi-proxy does not run on the node, or does not answer on all of its pipes",
        ),
        (None, Some(works)) if observation.standing == Standing::Waiting => yes(
            "UpdatePending",
            format!("{works}; it waits for a rollout slot to be updated"),
        ),
        (None, Some(works)) => yes("PipesOpen", works),
    };
    if said.reason != Reason::ForeignCSIProxy.as_str() {
        said.message.push_str(&beside(observation.state.as_ref()));
    }
    said
}

/// Returns the condition if csi-proxy is being removed or not needed; `None` if it should run.
fn removal_condition(inputs: &NodeInputs<'_>) -> Option<NewCondition> {
    let seen = inputs.observation;
    let tried = seen.filter(|seen| seen.purpose == Purpose::Remove);
    let absence = match inputs.plan {
        NodePlan::Absent(absence) => absence,
        NodePlan::Remove(absence, _) if seen.is_some_and(Observation::is_removed) => absence,
        NodePlan::Remove(_, target) => {
            let tried = tried.and_then(|seen| seen.problem.as_ref());
            return Some(match target.as_ref().err().or(tried) {
                Some(error) => {
                    let message = format!("csi-proxy and the agent could not be removed: {error}");
                    unknown(error.reason.as_str(), printable(&message))
                }
                None => unknown("Removing", "csi-proxy and the agent are being removed"),
            });
        }
        NodePlan::RemovalWaits(hold) => {
            let message = format!("the removal of csi-proxy and the agent waits: {hold}");
            return Some(unknown("RemovalWaits", printable(&message)));
        }
        _ => return None,
    };
    Some(match absence {
        Absence::Removed => unknown("Removed", ALL_REMOVED),
        Absence::NotNeeded => unknown("NotNeeded", NOT_USED),
    })
}

fn held_by(set: &ObjectKey) -> String {
    format!(
        "nothing is installed on this node, because DaemonSet {set} runs csi-proxy and covers it. To have this operator manage csi-proxy here, \
         delete it (kubectl delete daemonset -n {} {}), or annotate the Node windowsstorage.dev/management=Managed; to keep the DaemonSet, set \
         spec.csiProxy.management of WindowsStorage to External",
        set.namespace, set.name
    )
}

/// Describes a csi-proxy that runs.
fn describe(csi_proxy: &CsiProxyStatus) -> String {
    let version = csi_proxy.version.as_deref();
    let version = version.unwrap_or("of another version");
    let pipes = CSI_PROXY_PIPES.len();
    format!("csi-proxy {version} runs and answers on its {pipes} pipes")
}

/// Names other instances of csi-proxy on the node.
fn beside(state: Option<&NodeState>) -> String {
    let foreign = state.map_or(&[][..], |state| &state.foreign);
    if foreign.is_empty() {
        return String::new();
    }
    let named = foreign.iter().take(MOST_FOREIGN).map(describe_foreign);
    let named = named.collect::<Vec<_>>().join(", ");
    printable(&format!("; left alone beside it: {named}"))
}

/// Builds the condition for an error. `works` describes csi-proxy if it runs.
fn failed(error: &NodeError, works: Option<String>, is_wanted: bool) -> NewCondition {
    let reason = error.reason.as_str();
    let is_well = match error.reason {
        // The node could not be checked, so csi-proxy's state is unknown.
        Reason::CredentialsMissing
        | Reason::InvalidPrivateKey
        | Reason::NoAddress
        | Reason::Unreachable
        | Reason::HostKeyChanged
        | Reason::HostKeyUnknown
        | Reason::HostKeyNotStored
        | Reason::LoginRefused
        | Reason::TransferFailed => return unknown(reason, &error.message),
        // An old version that works is better than none, and the node is not at fault.
        Reason::VulnerableVersion | Reason::OtherVersion => true,
        // The wanted csi-proxy works, so the fault is in the settings, or over.
        Reason::InvalidServices
        | Reason::CrashLoop
        | Reason::CSIProxyFailed
        | Reason::RolledBack => is_wanted,
        Reason::ForeignCSIProxy
        | Reason::PayloadUnusable
        | Reason::DiskFull
        | Reason::ProgramBlocked
        | Reason::AgentFailed => false,
    };
    match works.filter(|_| is_well) {
        Some(works) => yes("PipesOpen", format!("{works}; but: {}", error.message)),
        None => no(reason, &error.message),
    }
}
