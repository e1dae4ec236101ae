//! The failure actions of a service: what Windows does when the service crashes.

use serde::{Deserialize, Serialize};

/// The part of a service's failure actions that the agent changes. Messages and commands that belong to an action stay as
/// they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureActions {
    /// The time without a crash, in seconds, after which Windows starts over with the first action; absent means never.
    pub reset_seconds: Option<u64>,
    /// One action for each consecutive crash; the last one applies to all further crashes.
    pub actions: Vec<FailureAction>,
    /// Whether a service that stops with an error counts as crashed; absent if Windows does not report it.
    pub on_errors: Option<bool>,
}

/// What Windows does after one crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureAction {
    /// `SC_ACTION_TYPE`: 0 nothing, 1 restart the service, 2 reboot, 3 run a command.
    pub kind: i32,
    /// The delay before the action, in milliseconds.
    pub delay_milliseconds: u64,
}
