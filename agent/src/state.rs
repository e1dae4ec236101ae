//! What the agent keeps on disk beside the request, and what its command and its service say to each other.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use protocol::seen::DESCRIPTION_MARK;
use protocol::{ApplyResult, Failing, Failure, LastResult};

/// What the agent remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Services that the agent made, or replaced with leave: the only ones that it may change or delete.
    pub ours: Vec<String>,
    /// How often each service had to be started again since the agent's own start.
    pub restarts: BTreeMap<String, u32>,
    /// How the last request ended.
    pub last_result: Option<LastResult>,
    /// Services that do not stay up.
    pub failing: BTreeMap<String, Failing>,
    /// Services that another program configures as well: they are left to it.
    pub contested: BTreeSet<String>,
    /// Services of others that were stopped for the sake of a service, by that service, in start order. They are started again once
    /// it is up.
    pub stopped: BTreeMap<String, Vec<String>>,
    /// Commands of the kept request in which values of scripts are filled in, by service.
    pub commands: BTreeMap<String, String>,
    /// SHA-256 of the program that the agent's service runs.
    pub running_agent_sha256: Option<String>,
}

/// What the command says to the service, one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "camelCase")]
pub enum Call {
    /// Are you there?
    Ping,
    /// Finish the request in hand, then end, to be started again from the program that is in place by then.
    Retire,
    /// Carry out the request in this file.
    Apply {
        /// The file.
        request: String,
    },
}

/// What the service says to the command, one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "camelCase")]
pub enum Reply {
    /// To a ping.
    Pong {
        /// The service's version.
        version: String,
        /// SHA-256 of the program that it runs, where it knows.
        #[serde(default)]
        sha256: Option<String>,
    },
    /// To a retire: the service ends as soon as it can.
    Retiring,
    /// To an apply that got as far as a request.
    Result {
        /// How it ended.
        result: Box<ApplyResult>,
    },
    /// To what cannot be understood.
    Refused {
        /// Why.
        failure: Failure,
    },
}

/// The description of a service of ours.
#[must_use]
pub fn description(service: &str) -> String {
    format!("{DESCRIPTION_MARK}{service}")
}
