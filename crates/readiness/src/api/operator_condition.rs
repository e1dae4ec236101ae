//! OLM's `OperatorCondition` (v2): the gate through which OLM asks whether the operator may be upgraded.
//!
//! Source: <https://olm.operatorframework.io/docs/advanced-tasks/communicating-operator-conditions-to-olm/>

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The condition type that holds upgrades.
pub const UPGRADEABLE: &str = "Upgradeable";

/// What operators write, and administrators. The conditions of others are kept as they are, so this holds plain JSON. OLM's
/// definition does not require it: a missing one is empty.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v2",
    kind = "OperatorCondition",
    namespaced,
    status = "OperatorConditionStatus",
    schema = "disabled"
)]
#[serde(from = "Option<Given>")]
pub struct OperatorConditionSpec {
    /// All operators' conditions; an atomic list for the API server.
    pub conditions: Vec<serde_json::Value>,
    /// Conditions that an administrator makes OLM take instead.
    pub overrides: Vec<serde_json::Value>,
}

/// The spec as it may be given.
#[derive(Default, Deserialize)]
struct Given {
    #[serde(default)]
    conditions: Vec<serde_json::Value>,
    #[serde(default)]
    overrides: Vec<serde_json::Value>,
}

impl From<Option<Given>> for OperatorConditionSpec {
    fn from(given: Option<Given>) -> Self {
        let Given {
            conditions,
            overrides,
        } = given.unwrap_or_default();
        Self {
            conditions,
            overrides,
        }
    }
}

/// What OLM has taken over of it, by which it judges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperatorConditionStatus {
    /// A copy of each condition, with the generation of the object from which it was taken.
    #[serde(default)]
    pub conditions: Vec<serde_json::Value>,
}

/// One condition as OLM requires it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The condition's type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True` or `False`; OLM takes `Unknown` as permission, so it is never written.
    pub status: String,
    /// A word for machines.
    pub reason: String,
    /// A sentence for people, at most 32,768 characters.
    pub message: String,
    /// When `status` changed last, RFC 3339.
    pub last_transition_time: String,
}
