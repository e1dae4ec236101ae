//! The failures that the agent reports.

use serde::{Deserialize, Serialize};

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// For metrics and decisions.
    pub category: FailureCategory,
    /// For people: what happened and to what.
    pub message: String,
}

impl FailureCategory {
    /// Whether it says something of the host and nothing of what was to run there: it was shut down, or other programs are in
    /// the way.
    #[must_use]
    pub fn is_of_the_host(self) -> bool {
        matches!(self, Self::Interrupted | Self::Foreign | Self::PipesHeld)
    }

    /// A failure of this kind.
    #[must_use]
    pub fn failure(self, message: impl Into<String>) -> Failure {
        Failure {
            category: self,
            message: message.into(),
        }
    }
}

/// The kinds of failure, bounded for metrics and decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailureCategory {
    /// The request is not valid.
    InvalidRequest,
    /// The services document uses something that this agent does not carry out.
    Unsupported,
    /// An uploaded file is not there.
    UploadMissing,
    /// A file's content is not what was announced.
    HashMismatch,
    /// No space is left on the node.
    DiskFull,
    /// Windows refused access.
    AccessDenied,
    /// A file stays in use.
    FileInUse,
    /// A service could not be created, changed or started.
    ServiceStart,
    /// A service's process does not end.
    ServiceStop,
    /// A service or a process of another owner is in the way.
    Foreign,
    /// A script that a service's command needs did not work.
    PreScript,
    /// A service runs, but its pipes do not open or do not answer.
    PipesMissing,
    /// A program that still has a connection open keeps the name of a pipe, so that the service cannot make it again.
    PipesHeld,
    /// Application control does not let a program run.
    BlockedByPolicy,
    /// A virus scanner holds a program to be harmful.
    BlockedByScanner,
    /// The agent ended in the middle: a reboot, a loss of power, a crash.
    Interrupted,
    /// The agent's service cannot be reached.
    AgentUnavailable,
    /// Something else.
    Internal,
    /// A value of a newer agent.
    #[serde(other)]
    Unknown,
}
