//! The failures that the agent reports.

use serde::{Deserialize, Serialize};

/// A failure that the agent reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The category, for metrics and retry decisions.
    pub category: FailureCategory,
    /// The message for people: what happened, and to what.
    pub message: String,
}

impl FailureCategory {
    /// Whether the host caused the failure, not the request: it shut down, or other programs are in the way.
    #[must_use]
    pub fn is_of_the_host(self) -> bool {
        matches!(self, Self::Interrupted | Self::Foreign | Self::PipesHeld)
    }

    /// Creates a failure of this category.
    #[must_use]
    pub fn failure(self, message: impl Into<String>) -> Failure {
        Failure {
            category: self,
            message: message.into(),
        }
    }
}

/// The failure categories. They are a fixed set so that they can be metric labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailureCategory {
    /// The request is not valid.
    InvalidRequest,
    /// An uploaded file does not exist.
    UploadMissing,
    /// A file's hash differs from the expected one.
    HashMismatch,
    /// No space is left on the node.
    DiskFull,
    /// Windows refused access.
    AccessDenied,
    /// A file is still in use.
    FileInUse,
    /// A service could not be created, changed or started.
    ServiceStart,
    /// A service's process does not exit.
    ServiceStop,
    /// A service or process of another owner is in the way.
    Foreign,
    /// A service runs, but its pipes do not open or do not answer.
    PipesMissing,
    /// A program with an open connection still holds the name of a pipe, so the service cannot create the pipe.
    PipesHeld,
    /// Application control blocks a program.
    BlockedByPolicy,
    /// A virus scanner blocks a program.
    BlockedByScanner,
    /// The agent was interrupted by a reboot, a power loss or a crash.
    Interrupted,
    /// The agent's service cannot be reached.
    AgentUnavailable,
    /// Any other failure.
    Internal,
}
