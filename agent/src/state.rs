//! State that the agent stores on disk besides the request, and the messages between its command and its service.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use protocol::seen::DESCRIPTION_MARK;
use protocol::{ApplyResult, Failing, Failure, LastResult};

/// What the agent remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Services that the agent created, or was allowed to replace: the only ones that it may change or delete.
    pub ours: Vec<String>,
    /// How often each service was restarted since the agent started.
    pub restarts: BTreeMap<String, u32>,
    /// The result of the last request.
    pub last_result: Option<LastResult>,
    /// Services that do not stay up.
    pub failing: BTreeMap<String, Failing>,
    /// Services that another program also configures, and that the agent leaves to that program.
    pub contested: BTreeSet<String>,
    /// Foreign services that were stopped because of a service, by that service, in start order. They are started again once
    /// the service is up.
    pub stopped: BTreeMap<String, Vec<String>>,
    /// Commands of the stored request with the values of scripts filled in, by service.
    pub commands: BTreeMap<String, String>,
    /// SHA-256 of the program that the agent's service runs.
    pub running_agent_sha256: Option<String>,
}

/// A message from the command to the service, as one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "camelCase")]
pub enum Call {
    /// Ask whether the service is up.
    Ping,
    /// Finish the current request, then end, so that Windows starts the program that is in place by then.
    Retire,
    /// Carry out the request in a file.
    Apply {
        /// The path of the file.
        request: String,
    },
}

/// A message from the service to the command, as one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "camelCase")]
pub enum Reply {
    /// Reply to [`Call::Ping`].
    Pong {
        /// The service's version.
        version: String,
        /// SHA-256 of the program that it runs, if known.
        #[serde(default)]
        sha256: Option<String>,
    },
    /// Reply to [`Call::Retire`]: the service ends as soon as it can.
    Retiring,
    /// Reply to a [`Call::Apply`] whose request could be read.
    Result {
        /// The result.
        result: Box<ApplyResult>,
    },
    /// Reply to a call that cannot be understood or carried out.
    Refused {
        /// The reason.
        failure: Failure,
    },
}

/// Returns the description of a service that the agent creates.
#[must_use]
pub fn description(service: &str) -> String {
    format!("{DESCRIPTION_MARK}{service}")
}
