//! What a node's status says of csi-proxy.

use protocol::paths::{CSI_PROXY_EXE, CSI_PROXY_SERVICE};
use protocol::{NodeState, ServiceState};

use crate::api::{CsiProxyStatus, WindowsNodeStorageStatus};
use crate::node::{NodeError, NodePlan, Observation, Reason, Standing, printable};
use crate::services::CSI_PROXY_PIPES;
use crate::status::conditions::{NewCondition, find};

const CSI_PROXY_READY: &str = "CSIProxyReady";
/// A day in milliseconds: what a node says is not written to the cluster as it is.
const LONGEST_PAUSE: u64 = 86_400_000;
const EXTERNAL: &str =
    "somebody else looks after csi-proxy on this node; this operator does not touch it";
/// Reasons that a node has without being visited: they end when it can be, and do not stand for what was seen there.
const NOT_FROM_A_VISIT: [&str; 5] = [
    "External",
    "CredentialsMissing",
    "InvalidPrivateKey",
    "InvalidInstance",
    "NoAddress",
];

/// What the agent said of csi-proxy.
pub fn csi_proxy_status(
    state: &NodeState,
    previous: Option<&CsiProxyStatus>,
    (wanted_sha256, version): (&str, &str),
) -> CsiProxyStatus {
    let service = state
        .services
        .iter()
        .find(|service| service.name == CSI_PROXY_SERVICE);
    let sha256 = state
        .files
        .iter()
        .find(|file| file.path.eq_ignore_ascii_case(CSI_PROXY_EXE))
        .and_then(|file| file.sha256.clone())
        .filter(|sum| sum.len() == 64 && sum.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let service_state = service.map_or(ServiceState::Missing, |service| service.state);
    // By our names: a node may list one a thousand times, and all of them would be written.
    let pipe = |name: &str| state.pipes.iter().find(|pipe| pipe.name == name);
    let pipes = || CSI_PROXY_PIPES.iter().filter_map(|name| pipe(name));
    CsiProxyStatus {
        version: (sha256.as_deref() == Some(wanted_sha256)).then(|| version.to_owned()),
        sha256,
        service_state: format!("{service_state:?}"),
        open_pipes: u32::try_from(pipes().filter(|pipe| pipe.open).count()).unwrap_or(u32::MAX),
        missing_pipes: pipes()
            .filter(|pipe| !pipe.open)
            .map(|pipe| pipe.name.clone())
            .collect(),
        restarts: service.map_or(0, |service| service.restarts),
        last_interruption_milliseconds: state
            .last_result
            .as_ref()
            .and_then(|last| last.interruption_milliseconds)
            .map(|pause| pause.min(LONGEST_PAUSE))
            .or_else(|| previous.and_then(|status| status.last_interruption_milliseconds)),
    }
}

/// Whether it runs and all of its pipes are open.
pub fn is_running(csi_proxy: Option<&CsiProxyStatus>) -> bool {
    csi_proxy.is_some_and(CsiProxyStatus::is_running)
}

/// The condition `CSIProxyReady`.
pub fn csi_proxy_condition(
    previous: &WindowsNodeStorageStatus,
    (plan, looked_after): (&NodePlan, &str),
    observation: Option<&Observation>,
    csi_proxy: Option<&CsiProxyStatus>,
) -> NewCondition {
    let running = || {
        let version = csi_proxy
            .and_then(|status| status.version.as_deref())
            .unwrap_or("of another version");
        let interruption = csi_proxy
            .and_then(|status| status.last_interruption_milliseconds)
            .map_or_else(String::new, |pause| {
                format!("; they were closed for {pause} ms when it was last replaced")
            });
        format!(
            "csi-proxy {version} runs and its {} pipes are open{interruption}",
            csi_proxy.map_or(0, |status| status.open_pipes)
        )
    };
    match plan {
        NodePlan::External => NewCondition::unknown(
            CSI_PROXY_READY,
            "External",
            match looked_after {
                "" => EXTERNAL.to_owned(),
                told => printable(&format!("{EXTERNAL}; {told}")),
            },
        ),
        NodePlan::Blocked(error) => {
            NewCondition::unknown(CSI_PROXY_READY, error.reason.as_str(), &error.message)
        }
        NodePlan::Waiting | NodePlan::Visit(_) => match observation {
            Some(Observation {
                problem: Some(error),
                ..
            }) => {
                let is_wanted = csi_proxy.is_some_and(|status| status.version.is_some());
                failed(error, (is_running(csi_proxy), is_wanted), running)
            }
            Some(Observation {
                standing: Standing::Waiting,
                ..
            }) if is_running(csi_proxy) => NewCondition::yes(
                CSI_PROXY_READY,
                "UpdatePending",
                format!("{}; it waits for its turn to be updated", running()),
            ),
            Some(_) if is_running(csi_proxy) => {
                NewCondition::yes(CSI_PROXY_READY, "PipesOpen", running())
            }
            Some(_) => NewCondition::no(
                CSI_PROXY_READY,
                "NotRunning",
                "csi-proxy does not run on the node, or not all of its pipes are open",
            ),
            None => find(&previous.conditions, CSI_PROXY_READY)
                .filter(|condition| !NOT_FROM_A_VISIT.contains(&condition.reason.as_str()))
                .map_or_else(
                    || {
                        NewCondition::unknown(
                            CSI_PROXY_READY,
                            "Pending",
                            "the node has not been visited yet",
                        )
                    },
                    |condition| NewCondition::unchanged(CSI_PROXY_READY, condition),
                ),
        },
    }
}

fn failed(
    error: &NodeError,
    (is_running, is_wanted): (bool, bool),
    running: impl Fn() -> String,
) -> NewCondition {
    match error.reason {
        // The node could not be looked at, so nothing is known of csi-proxy there.
        Reason::CredentialsMissing
        | Reason::InvalidPrivateKey
        | Reason::InvalidInstance
        | Reason::NoAddress
        | Reason::Unreachable
        | Reason::HostKeyChanged
        | Reason::HostKeyUnknown
        | Reason::HostKeyNotStored
        | Reason::LoginRefused
        | Reason::TransferFailed
        | Reason::TimedOut => {
            NewCondition::unknown(CSI_PROXY_READY, error.reason.as_str(), &error.message)
        }
        // The fault is another service's, or the document's: csi-proxy itself is the one that is wanted, and it runs.
        Reason::InvalidServices
        | Reason::UnresolvedCommand
        | Reason::CrashLoop
        | Reason::CSIProxyFailed
        | Reason::RolledBack
            if is_running && is_wanted =>
        {
            NewCondition::yes(
                CSI_PROXY_READY,
                "PipesOpen",
                format!("{}; but: {}", running(), error.message),
            )
        }
        // An old one that works is better than none, and it is not the node's fault.
        Reason::VulnerableVersion if is_running => NewCondition::yes(
            CSI_PROXY_READY,
            "PipesOpen",
            format!("{}; but: {}", running(), error.message),
        ),
        Reason::InvalidServices
        | Reason::UnresolvedCommand
        | Reason::VulnerableVersion
        | Reason::CrashLoop
        | Reason::ForeignCSIProxy
        | Reason::PayloadUnusable
        | Reason::DiskFull
        | Reason::AgentFailed
        | Reason::CSIProxyFailed
        | Reason::RolledBack => {
            NewCondition::no(CSI_PROXY_READY, error.reason.as_str(), &error.message)
        }
    }
}
