//! State that the agent stores on disk besides the request.

use serde::{Deserialize, Serialize};

use protocol::{Failing, LastResult};

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
}
