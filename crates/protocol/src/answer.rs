//! The agent's answers: one line of JSON, the last line of standard output.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The agent's answer to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Answer {
    /// To `status`.
    Status(NodeState),
    /// To `apply`.
    ApplyResult(ApplyResult),
    /// To `install`.
    Installed {
        /// SHA-256 of the agent that is installed now.
        sha256: String,
        /// What the node looks like, as with `status` and csi-proxy's program; absent where the agent is older, or could
        /// not see.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<Box<NodeState>>,
    },
    /// To `uninstall`: the agent and what it has brought are gone.
    Uninstalled {},
    /// The command could not be carried out, and nothing was handed to the service.
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
    /// How long its parts took.
    #[serde(default)]
    pub durations: Durations,
    /// What the node looks like now.
    pub state: NodeState,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// Why it did not end well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<Failure>,
    /// Milliseconds between the old pipes closing and the new ones opening, where a running service was replaced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interruption_milliseconds: Option<u64>,
    /// Whether the node was changed and what was there before is not back.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub incomplete: bool,
}

impl End {
    /// A good end.
    #[must_use]
    pub fn good(outcome: Outcome, interruption_milliseconds: Option<u64>) -> Self {
        Self {
            outcome,
            failure: None,
            interruption_milliseconds,
            incomplete: false,
        }
    }

    /// An end that is no success.
    #[must_use]
    pub fn bad(outcome: Outcome, failure: Failure) -> Self {
        Self {
            outcome,
            failure: Some(failure),
            interruption_milliseconds: None,
            incomplete: false,
        }
    }
}

/// In which state a request has left its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The node was changed and is as requested.
    Applied,
    /// The node was as requested already.
    Unchanged,
    /// The new state did not work; what was there before is back and running.
    RolledBack,
    /// The request was refused or could not be completed.
    Failed,
    /// A value of a newer agent.
    #[serde(other)]
    Unknown,
}

/// What the agent sees on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    /// The agent's version.
    pub agent_version: String,
    /// SHA-256 of the installed agent; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent_sha256: Option<String>,
    /// The agent's service.
    pub agent_service: ServiceState,
    /// Why the agent's service does not answer although Windows calls it running: its process may be dead or stuck. Absent
    /// where it answers, and where nobody has asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent_problem: Option<String>,
    /// SHA-256 of the program that the agent's service runs, which another one may have replaced on disk meanwhile.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub running_agent_sha256: Option<String>,
    /// The request that the agent keeps the node to; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<String>,
    /// A request that is being carried out, or that was cut off and will be undone at the agent's next start.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unfinished_request_id: Option<String>,
    /// The services of the kept request.
    pub services: Vec<ServiceStatus>,
    /// The files of the kept request and those that were asked for.
    pub files: Vec<FileStatus>,
    /// The pipes of the kept request and those that were asked for.
    pub pipes: Vec<PipeStatus>,
    /// How the last request ended, also where nobody waited for its result any more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_result: Option<LastResult>,
    /// csi-proxy instances of other owners. They are reported and not changed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub foreign: Vec<ForeignInstance>,
}

/// A csi-proxy that the agent did not make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignInstance {
    /// What it is.
    pub kind: ForeignKind,
    /// The service's name, or the process's number.
    pub name: String,
    /// The service's command line, or the process's program.
    pub command: String,
    /// Whether it runs.
    pub running: bool,
}

/// What a foreign csi-proxy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForeignKind {
    /// A service of the Service Control Manager.
    Service,
    /// A process that is no service's, such as a container's.
    Process,
    /// A value of a newer agent.
    #[serde(other)]
    Unknown,
}

/// How the last request ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastResult {
    /// The request's identifier.
    pub id: String,
    /// How it ended.
    #[serde(flatten)]
    pub end: End,
    /// When it ended, in RFC 3339.
    pub finished: String,
    /// How often it has been undone in a row, this time included; 0 after a success.
    #[serde(default)]
    pub failures: u32,
}

impl LastResult {
    /// How often a request will have failed in a row when it ends like this after that.
    #[must_use]
    pub fn failures_after(last: Option<&Self>, id: &str, outcome: Outcome) -> u32 {
        match outcome {
            Outcome::Applied | Outcome::Unchanged => 0,
            Outcome::RolledBack | Outcome::Failed | Outcome::Unknown => {
                let before = last
                    .filter(|last| last.id == id)
                    .map_or(0, |last| last.failures);
                before.saturating_add((outcome == Outcome::RolledBack).into())
            }
        }
    }
}

/// One service as the Service Control Manager shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// The service's name.
    pub name: String,
    /// Its state.
    pub state: ServiceState,
    /// Its process, while it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub process_id: Option<u32>,
    /// Its command line as configured; absent where the service is missing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub command: Option<String>,
    /// How often the agent had to start it again since the agent's own start.
    #[serde(default)]
    pub restarts: u32,
    /// Present while the service does not stay up.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failing: Option<Failing>,
}

/// A service that does not stay up, and is started less and less often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failing {
    /// Starts without success since the service was last well.
    pub attempts: u32,
    /// The pause before the next one, in seconds.
    pub retry_seconds: u32,
    /// What happened the last time.
    pub message: String,
}

/// A service's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceState {
    /// There is no such service.
    #[default]
    Missing,
    /// Not running.
    Stopped,
    /// On its way up.
    StartPending,
    /// On its way down.
    StopPending,
    /// Running, as the Service Control Manager sees it; its pipes may still be missing.
    Running,
    /// Paused, or on the way there or back.
    Paused,
    /// A value of a newer agent.
    #[serde(other)]
    Unknown,
}

/// One file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStatus {
    /// Its path.
    pub path: String,
    /// Its content's SHA-256; absent where there is no such file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sha256: Option<String>,
}

/// One named pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeStatus {
    /// Its name without `\\.\pipe\`.
    pub name: String,
    /// Whether the name exists, whichever process serves it and whether or not it answers.
    pub open: bool,
    /// Why the service behind it cannot be used although the name is there: nothing answers, or another process does.
    /// An older agent does not ask and says nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
}

impl PipeStatus {
    /// Whether the service answers on it, as far as the agent has asked.
    #[must_use]
    pub fn answers(&self) -> bool {
        self.open && self.problem.is_none()
    }
}

/// How long the parts of a request took, in milliseconds, by their names in [`parts`]; absent where a part was not done.
pub type Durations = BTreeMap<String, u64>;

/// The parts of a request.
pub mod parts {
    /// Unpacking, without the wait for what was still arriving.
    pub const UNPACK: &str = "unpack";
    /// Looking at the node, checking what was uploaded, running scripts and writing the journal.
    pub const PREPARE: &str = "prepare";
    /// Stopping services, the ends of their processes included.
    pub const STOP: &str = "stop";
    /// Putting files in place and configuring services.
    pub const INSTALL: &str = "install";
    /// Starting services, until Windows calls them running.
    pub const START: &str = "start";
    /// From there until their pipes are open.
    pub const PIPES: &str = "pipes";
    /// Bookkeeping after that.
    pub const FINISH: &str = "finish";
    /// Those that the agent's service does, in their order.
    pub const OF_SERVICE: [&str; 6] = [PREPARE, STOP, INSTALL, START, PIPES, FINISH];
}

/// A duration as the protocol writes it.
#[must_use]
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
