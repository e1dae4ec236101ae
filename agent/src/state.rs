//! State that the agent stores on disk besides the request, and the messages between its command and its service.

use serde::{Deserialize, Serialize};

use protocol::{ApplyResult, Failing, Failure, LastResult};

/// What the agent remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// How often csi-proxy was restarted since the agent started.
    pub restarts: u32,
    /// The result of the last request.
    pub last_result: Option<LastResult>,
    /// Present while csi-proxy does not stay up.
    pub failing: Option<Failing>,
    /// Whether another program also configures csi-proxy's service, so that the agent leaves it to that program.
    pub contested: bool,
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
