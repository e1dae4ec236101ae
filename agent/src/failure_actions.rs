//! The failure actions of a service: what Windows does when it crashes.

use serde::{Deserialize, Serialize};

/// What Windows does when a service crashes, as far as the agent changes it: texts and commands that go with an action
/// stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureActions {
    /// The time without a crash, in seconds, after which Windows begins with the first action again; absent: never.
    pub reset_seconds: Option<u64>,
    /// One for each crash in turn; the last holds for all further ones.
    pub actions: Vec<FailureAction>,
    /// Whether a service that ends with an error counts as crashed; absent where Windows does not say.
    pub on_errors: Option<bool>,
}

/// What Windows does at one crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureAction {
    /// `SC_ACTION_TYPE`: 0 nothing, 1 start it again, 2 reboot, 3 run a command.
    pub kind: i32,
    /// The time until then, in milliseconds.
    pub delay_milliseconds: u64,
}
