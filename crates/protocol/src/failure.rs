//! The failures that the agent reports.

use serde::{Deserialize, Serialize};

/// A failure that the agent reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The category, from which the remedy follows, and whether it is tried again.
    pub category: FailureCategory,
    /// The message for people: what happened, and to what.
    pub message: String,
}

impl FailureCategory {
    /// Whether the host caused the failure, not the request: it shut down, or other programs are in the way.
    pub fn is_of_the_host(self) -> bool {
        matches!(self, Self::Interrupted | Self::Foreign)
    }

    /// Creates a failure of this category.
    pub fn failure(self, message: impl Into<String>) -> Failure {
        Failure {
            category: self,
            message: message.into(),
        }
    }
}

/// The failure categories: one for each remedy that the operator tells, and what it needs to know besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureCategory {
    /// The request is not valid.
    InvalidRequest,
    /// An upload is not there, or is not what was announced.
    BadUpload,
    /// No space is left on the node.
    DiskFull,
    /// Windows refused access.
    AccessDenied,
    /// Others may change what SYSTEM would run or write; the message says what to do.
    Untrusted,
    /// Application control or a virus scanner blocks a program.
    Blocked,
    /// A service or process of another owner is in the way.
    Foreign,
    /// The host got in between: it shut down, the agent ended, or a program with an open connection keeps the name of a pipe.
    Interrupted,
    /// Any other failure, such as a service that does not start, stop or answer.
    Other,
}
