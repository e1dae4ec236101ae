//! The status of one Windows node, from the judgement, the plan and what was observed.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use windows_storage_agent::paths::{CSI_PROXY_EXE, CSI_PROXY_SERVICE};
use windows_storage_agent::protocol::{NodeState, ServiceState};

use crate::api::{CsiProxyStatus, WindowsNodeStorageStatus};
use crate::assess::report::NodeReadiness;
use crate::node::{NodeError, NodePlan, Observation, Reason};
use crate::status::conditions::{Said, find, settle, whole_seconds};

const CSI_PROXY_READY: &str = "CSIProxyReady";
const CSI_NODE_PRESENT: &str = "CSINodePresent";
const DRIVERS_REGISTERED: &str = "DriversRegistered";
const READY: &str = "Ready";
/// Reasons that a node has without being visited: they end when it can be, and do not stand for what was seen there.
const NOT_FROM_A_VISIT: [&str; 5] = [
    "External",
    "CredentialsMissing",
    "InvalidPrivateKey",
    "InvalidInstance",
    "NoAddress",
];

/// All that a node's status follows from.
pub struct NodeInputs<'a> {
    /// The judgement.
    pub readiness: &'a NodeReadiness,
    /// What is to be done there.
    pub plan: &'a NodePlan,
    /// What was seen there since this process started.
    pub observation: Option<&'a Observation>,
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
        csi_proxy: wanted,
    } = inputs;
    let state = observation.and_then(|observation| observation.state.as_ref());
    let csi_proxy = match plan {
        NodePlan::External => None,
        _ => state
            .map(|state| csi_proxy_status(state, *wanted))
            .or_else(|| previous.csi_proxy.clone()),
    };
    let proxy = csi_proxy_condition(previous, plan, *observation, csi_proxy.as_ref());
    let csi_node = if readiness.csi_node {
        Said::yes(
            CSI_NODE_PRESENT,
            "Present",
            "the node has its CSINode object",
        )
    } else {
        Said::no(
            CSI_NODE_PRESENT,
            "CSINodeMissing",
            "the node has no CSINode object; its kubelet makes one at start: check that the kubelet runs and is registered",
        )
    };
    let drivers = if readiness.missing_drivers.is_empty() {
        Said::yes(
            DRIVERS_REGISTERED,
            "DriversRegistered",
            "every CSI driver that workloads need here is registered",
        )
    } else {
        Said::no(
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

/// Whether a node's status says that its storage is ready.
#[must_use]
pub fn is_ready(status: &WindowsNodeStorageStatus) -> bool {
    find(&status.conditions, READY).is_some_and(|condition| condition.status == "True")
}

fn csi_proxy_status(state: &NodeState, (wanted_sha256, version): (&str, &str)) -> CsiProxyStatus {
    let service = state
        .services
        .iter()
        .find(|service| service.name == CSI_PROXY_SERVICE);
    let sha256 = state
        .files
        .iter()
        .find(|file| file.path.eq_ignore_ascii_case(CSI_PROXY_EXE))
        .and_then(|file| file.sha256.clone());
    let service_state = service.map_or(ServiceState::Missing, |service| service.state);
    let is_ours =
        |pipe: &&windows_storage_agent::protocol::PipeStatus| pipe.name.starts_with("csi-proxy-");
    CsiProxyStatus {
        version: (sha256.as_deref() == Some(wanted_sha256)).then(|| version.to_owned()),
        sha256,
        service_state: format!("{service_state:?}"),
        open_pipes: u32::try_from(
            state
                .pipes
                .iter()
                .filter(is_ours)
                .filter(|pipe| pipe.open)
                .count(),
        )
        .unwrap_or(u32::MAX),
        missing_pipes: state
            .pipes
            .iter()
            .filter(is_ours)
            .filter(|pipe| !pipe.open)
            .map(|pipe| pipe.name.clone())
            .collect(),
        restarts: service.map_or(0, |service| service.restarts),
    }
}

fn is_running(csi_proxy: Option<&CsiProxyStatus>) -> bool {
    csi_proxy.is_some_and(CsiProxyStatus::is_running)
}

fn csi_proxy_condition(
    previous: &WindowsNodeStorageStatus,
    plan: &NodePlan,
    observation: Option<&Observation>,
    csi_proxy: Option<&CsiProxyStatus>,
) -> Said {
    let running = || {
        let version = csi_proxy
            .and_then(|status| status.version.as_deref())
            .unwrap_or("of another version");
        format!(
            "csi-proxy {version} runs and its {} pipes are open",
            csi_proxy.map_or(0, |status| status.open_pipes)
        )
    };
    match plan {
        NodePlan::External => Said::unknown(
            CSI_PROXY_READY,
            "External",
            "somebody else looks after csi-proxy on this node; this operator does not touch it",
        ),
        NodePlan::Blocked(error) => {
            Said::unknown(CSI_PROXY_READY, error.reason.as_str(), &error.message)
        }
        NodePlan::Waiting | NodePlan::Visit(_) => match observation {
            Some(Observation {
                problem: Some(error),
                ..
            }) => {
                let is_wanted = csi_proxy.is_some_and(|status| status.version.is_some());
                failed(error, (is_running(csi_proxy), is_wanted), running)
            }
            Some(_) if is_running(csi_proxy) => Said::yes(CSI_PROXY_READY, "PipesOpen", running()),
            Some(_) => Said::no(
                CSI_PROXY_READY,
                "NotRunning",
                "csi-proxy does not run on the node, or not all of its pipes are open",
            ),
            None => find(&previous.conditions, CSI_PROXY_READY)
                .filter(|condition| !NOT_FROM_A_VISIT.contains(&condition.reason.as_str()))
                .map_or_else(
                    || {
                        Said::unknown(
                            CSI_PROXY_READY,
                            "Pending",
                            "the node has not been visited yet",
                        )
                    },
                    |condition| Said {
                        type_: CSI_PROXY_READY,
                        status: match condition.status.as_str() {
                            "True" => "True",
                            "False" => "False",
                            _ => "Unknown",
                        },
                        reason: condition.reason.clone(),
                        message: condition.message.clone(),
                    },
                ),
        },
    }
}

fn failed(
    error: &NodeError,
    (is_running, is_wanted): (bool, bool),
    running: impl Fn() -> String,
) -> Said {
    match error.reason {
        // The node could not be looked at, so nothing is known of csi-proxy there.
        Reason::CredentialsMissing
        | Reason::InvalidPrivateKey
        | Reason::InvalidInstance
        | Reason::NoAddress
        | Reason::Unreachable
        | Reason::HostKeyChanged
        | Reason::HostKeyNotStored
        | Reason::LoginRefused
        | Reason::TransferFailed
        | Reason::TimedOut => Said::unknown(CSI_PROXY_READY, error.reason.as_str(), &error.message),
        // The fault is another service's, or the document's: csi-proxy itself is the one that is wanted, and it runs.
        Reason::InvalidServices | Reason::RolledBack if is_running && is_wanted => Said::yes(
            CSI_PROXY_READY,
            "PipesOpen",
            format!("{}; but: {}", running(), error.message),
        ),
        Reason::InvalidServices
        | Reason::PayloadUnusable
        | Reason::DiskFull
        | Reason::AgentFailed
        | Reason::CSIProxyFailed
        | Reason::RolledBack => Said::no(CSI_PROXY_READY, error.reason.as_str(), &error.message),
    }
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
    proxy: &Said,
    csi_proxy: Option<&CsiProxyStatus>,
    csi_node: &Said,
    drivers: &Said,
) -> Said {
    for said in [csi_node, drivers] {
        if said.status != "True" {
            return Said::no(READY, &said.reason, &said.message);
        }
    }
    let external = matches!(plan, NodePlan::External);
    if readiness.needs_csi_proxy && !external && !is_running(csi_proxy) {
        let message = format!("a driver on this node needs csi-proxy: {}", proxy.message);
        return Said::no(READY, &proxy.reason, message);
    }
    Said::yes(
        READY,
        "StorageReady",
        "the node has what its workloads need for their storage",
    )
}

#[cfg(test)]
mod tests {
    use windows_storage_agent::protocol::{FileStatus, PipeStatus, ServiceStatus};

    use super::*;

    fn state(open: bool) -> NodeState {
        NodeState {
            services: vec![ServiceStatus {
                name: "csi-proxy".to_owned(),
                state: ServiceState::Running,
                process_id: None,
                command: None,
                restarts: 2,
                failing: None,
            }],
            files: vec![FileStatus {
                path: CSI_PROXY_EXE.to_owned(),
                sha256: Some("sum".to_owned()),
            }],
            pipes: vec![PipeStatus {
                name: "csi-proxy-disk-v1".to_owned(),
                open,
            }],
            ..NodeState::default()
        }
    }

    fn readiness() -> NodeReadiness {
        NodeReadiness {
            name: "win-1".to_owned(),
            csi_node: true,
            drivers: vec![],
            missing_drivers: vec![],
            ready: true,
            findings: Vec::new(),
            needs_csi_proxy: true,
        }
    }

    fn observed(state: Option<NodeState>, problem: Option<Reason>) -> Observation {
        Observation {
            state,
            last_contact: Some(Timestamp::from_second(7).unwrap()),
            problem: problem.map(|reason| NodeError::new(reason, "words")),
            visits: 1,
        }
    }

    fn status(
        previous: &WindowsNodeStorageStatus,
        plan: &NodePlan,
        observation: Option<&Observation>,
        second: i64,
    ) -> WindowsNodeStorageStatus {
        let readiness = readiness();
        let inputs = NodeInputs {
            readiness: &readiness,
            plan,
            observation,
            csi_proxy: ("sum", "v1"),
        };
        node_status(previous, &inputs, Timestamp::from_second(second).unwrap())
    }

    fn said<'a>(status: &'a WindowsNodeStorageStatus, type_: &str) -> (&'a str, &'a str) {
        let condition = find(&status.conditions, type_).unwrap();
        (&condition.status, &condition.reason)
    }

    #[test]
    fn a_node_with_open_pipes_is_ready_and_a_second_look_changes_nothing() {
        let seen = observed(Some(state(true)), None);
        let first = status(
            &WindowsNodeStorageStatus::default(),
            &NodePlan::Waiting,
            Some(&seen),
            10,
        );
        assert_eq!(said(&first, READY), ("True", "StorageReady"));
        assert_eq!(
            first.csi_proxy.as_ref().unwrap().version.as_deref(),
            Some("v1")
        );
        let later = Observation {
            last_contact: Some(Timestamp::from_second(99).unwrap()),
            ..seen
        };
        assert_eq!(status(&first, &NodePlan::Waiting, Some(&later), 100), first);
    }

    #[test]
    fn an_unreachable_node_loses_nothing_of_what_was_known() {
        let good = status(
            &WindowsNodeStorageStatus::default(),
            &NodePlan::Waiting,
            Some(&observed(Some(state(true)), None)),
            10,
        );
        let gone = observed(Some(state(true)), Some(Reason::Unreachable));
        let after = status(&good, &NodePlan::Waiting, Some(&gone), 20);
        assert_eq!(said(&after, CSI_PROXY_READY), ("Unknown", "Unreachable"));
        assert_eq!(after.csi_proxy, good.csi_proxy);
        let restarted = status(&good, &NodePlan::Waiting, None, 20);
        assert_eq!(
            restarted, good,
            "a new process says nothing new before it has visited the node"
        );
    }

    #[test]
    fn a_closed_pipe_makes_a_node_that_needs_csi_proxy_unready() {
        let seen = observed(Some(state(false)), None);
        let after = status(
            &WindowsNodeStorageStatus::default(),
            &NodePlan::Waiting,
            Some(&seen),
            10,
        );
        assert_eq!(said(&after, READY), ("False", "NotRunning"));
        assert_eq!(
            after.csi_proxy.unwrap().missing_pipes,
            ["csi-proxy-disk-v1"]
        );
    }

    #[test]
    fn a_broken_document_does_not_speak_ill_of_a_running_csi_proxy() {
        let seen = observed(Some(state(true)), Some(Reason::InvalidServices));
        let after = status(
            &WindowsNodeStorageStatus::default(),
            &NodePlan::Waiting,
            Some(&seen),
            10,
        );
        assert_eq!(said(&after, CSI_PROXY_READY), ("True", "PipesOpen"));
    }

    #[test]
    fn a_reason_that_is_mended_does_not_stay_until_the_first_visit() {
        let blocked = NodePlan::Blocked(NodeError::new(Reason::NoAddress, "words"));
        let before = status(&WindowsNodeStorageStatus::default(), &blocked, None, 10);
        assert_eq!(said(&before, CSI_PROXY_READY), ("Unknown", "NoAddress"));
        let after = status(&before, &NodePlan::Waiting, None, 20);
        assert_eq!(said(&after, CSI_PROXY_READY), ("Unknown", "Pending"));
    }

    #[test]
    fn another_services_fault_is_not_csi_proxys() {
        let undone = observed(Some(state(true)), Some(Reason::RolledBack));
        let after = status(
            &WindowsNodeStorageStatus::default(),
            &NodePlan::Waiting,
            Some(&undone),
            10,
        );
        assert_eq!(said(&after, CSI_PROXY_READY), ("True", "PipesOpen"));
        let mut other = state(true);
        other.files[0].sha256 = Some("previous".to_owned());
        let undone = observed(Some(other), Some(Reason::RolledBack));
        let after = status(
            &WindowsNodeStorageStatus::default(),
            &NodePlan::Waiting,
            Some(&undone),
            10,
        );
        assert_eq!(said(&after, CSI_PROXY_READY), ("False", "RolledBack"));
    }

    #[test]
    fn what_somebody_else_looks_after_is_not_held_against_the_node() {
        let after = status(
            &WindowsNodeStorageStatus::default(),
            &NodePlan::External,
            None,
            10,
        );
        assert_eq!(said(&after, CSI_PROXY_READY), ("Unknown", "External"));
        assert_eq!(said(&after, READY), ("True", "StorageReady"));
    }
}
