//! The agent's answers: one line of JSON, the last line of standard output.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The agent's answer to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Answer {
    /// The answer to `status`.
    Status(NodeState),
    /// The answer to `apply`.
    ApplyResult(ApplyResult),
    /// The answer to `install`.
    Installed {
        /// SHA-256 of the installed agent.
        sha256: String,
        /// The node's state, as from `status`. Absent if the agent could not read it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<Box<NodeState>>,
    },
    /// The answer to `uninstall`: the agent and all that it installed are removed.
    Uninstalled {},
    /// The command failed before it handed a request to the service.
    Error(Failure),
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplyResult {
    /// The request's identifier.
    pub id: String,
    /// How it ended.
    #[serde(flatten)]
    pub end: End,
    /// The node's state after the request.
    pub state: NodeState,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// The outcome.
    pub outcome: Outcome,
    /// The cause, unless the request succeeded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<Failure>,
    /// Milliseconds from the old pipes closing to the new ones opening, if a running service was replaced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interruption_milliseconds: Option<u64>,
    /// Whether the node was changed and not restored.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub incomplete: bool,
}

impl End {
    /// Returns a successful end.
    pub fn good(outcome: Outcome, interruption_milliseconds: Option<u64>) -> Self {
        Self {
            outcome,
            failure: None,
            interruption_milliseconds,
            incomplete: false,
        }
    }

    /// Returns an unsuccessful end.
    pub fn bad(outcome: Outcome, failure: Failure) -> Self {
        Self {
            outcome,
            failure: Some(failure),
            interruption_milliseconds: None,
            incomplete: false,
        }
    }
}

/// The state in which a request left its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The node was changed and now matches the request.
    Applied,
    /// The node already matched the request.
    Unchanged,
    /// The new state failed; the previous one is restored and running.
    RolledBack,
    /// The request was rejected or could not be completed.
    Failed,
}

/// The node's state as the agent sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    /// The agent's version.
    pub agent_version: String,
    /// SHA-256 of the installed agent; absent if none is installed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent_sha256: Option<String>,
    /// The state of the agent's service.
    pub agent_service: ServiceState,
    /// Why the agent's service does no work although Windows shows it as running: its process is dead or stuck.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent_problem: Option<String>,
    /// SHA-256 of the program that the agent's service runs. The file on disk may be newer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub running_agent_sha256: Option<String>,
    /// The request that the agent enforces; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<String>,
    /// The request in progress, or one that was interrupted and that the agent rolls back at its next start.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unfinished_request_id: Option<String>,
    /// csi-proxy's service and program.
    pub csi_proxy: CsiProxyStatus,
    /// The pipes of the current request, and any others that the caller asked for.
    pub pipes: Vec<PipeStatus>,
    /// How the last request ended, even if its caller had stopped waiting.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_result: Option<LastResult>,
    /// csi-proxy instances of other owners. The agent reports them and does not change them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub foreign: Vec<ForeignInstance>,
}

/// A csi-proxy instance that the agent did not create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignInstance {
    /// Whether it is a service or a process.
    pub kind: ForeignKind,
    /// The service's name, or the process ID.
    pub name: String,
    /// The service's command line, or the process's program.
    pub command: String,
    /// Whether the instance is running.
    pub running: bool,
}

impl fmt::Display for ForeignInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ForeignKind::Service => "service",
            ForeignKind::Process => "process",
        };
        write!(f, "{kind} {} ({})", self.name, self.command)
    }
}

/// The kind of a foreign csi-proxy instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForeignKind {
    /// A service of the Service Control Manager.
    Service,
    /// A process that belongs to no service, such as a container's.
    Process,
}

/// How the last request ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastResult {
    /// The request's identifier.
    pub id: String,
    /// The request's attempt.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub attempt: String,
    /// How it ended.
    #[serde(flatten)]
    pub end: End,
    /// When it ended, in RFC 3339.
    pub finished: String,
    /// How many times in a row the request was rolled back, including this time; 0 after a success.
    #[serde(default)]
    pub failures: u32,
}

impl LastResult {
    /// Returns how many times in a row a request has been rolled back if it now ends with `outcome`.
    pub fn failures_after(last: Option<&Self>, id: &str, outcome: Outcome) -> u32 {
        match outcome {
            Outcome::Applied | Outcome::Unchanged => 0,
            Outcome::RolledBack | Outcome::Failed => {
                let before = last
                    .filter(|last| last.id == id)
                    .map_or(0, |last| last.failures);
                before.saturating_add((outcome == Outcome::RolledBack).into())
            }
        }
    }
}

/// csi-proxy's service as the Service Control Manager shows it, and its program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CsiProxyStatus {
    /// The service's state.
    pub state: ServiceState,
    /// The process ID, while the service has a process.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub process_id: Option<u32>,
    /// The configured command line; absent if the service is missing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub command: Option<String>,
    /// SHA-256 of the program in its place; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sha256: Option<String>,
    /// How many times the agent restarted the service since the agent's own start.
    #[serde(default)]
    pub restarts: u32,
    /// Present while the service keeps failing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failing: Option<Failing>,
}

/// The backoff of a service that keeps failing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failing {
    /// Failed starts since the service was last healthy.
    pub attempts: u32,
    /// The pause before the next start, in seconds.
    pub retry_seconds: u32,
    /// The last error.
    pub message: String,
}

/// A service's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceState {
    /// The service does not exist.
    #[default]
    Missing,
    /// Not running.
    Stopped,
    /// Starting.
    StartPending,
    /// Stopping.
    StopPending,
    /// Running according to the Service Control Manager; the service's pipes may still be missing.
    Running,
    /// Paused, pausing or resuming.
    Paused,
    /// A state that Windows does not document.
    Unknown,
}

/// A named pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeStatus {
    /// The pipe's name without `\\.\pipe\`.
    pub name: String,
    /// Whether the pipe exists, whichever process serves it and whether or not it answers.
    pub open: bool,
    /// Why the service cannot be used although the pipe exists: nothing answers, or another process does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
}

impl PipeStatus {
    /// Whether the pipe exists and no problem with it is known.
    pub fn answers(&self) -> bool {
        self.open && self.problem.is_none()
    }
}

/// Converts a duration to the protocol's milliseconds.
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_for_one_request_and_in_a_row() {
        let after = |failures, id, outcome| {
            let last = LastResult {
                id: "a".into(),
                attempt: String::new(),
                end: End::good(Outcome::Applied, None),
                finished: String::new(),
                failures,
            };
            LastResult::failures_after(Some(&last), id, outcome)
        };
        assert_eq!(after(1, "a", Outcome::RolledBack), 2);
        assert_eq!(after(3, "b", Outcome::RolledBack), 1);
        assert_eq!(after(3, "b", Outcome::Failed), 0);
        assert_eq!(after(1, "a", Outcome::Failed), 1);
        assert_eq!(after(3, "a", Outcome::Applied), 0);
        assert_eq!(
            LastResult::failures_after(None, "a", Outcome::RolledBack),
            1
        );
    }
}
