//! OLM's `OperatorCondition` (v2): the gate through which OLM asks whether the operator may be upgraded.
//!
//! Source: <https://olm.operatorframework.io/docs/advanced-tasks/communicating-operator-conditions-to-olm/>

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The condition type that holds upgrades.
pub const UPGRADEABLE: &str = "Upgradeable";

/// What operators write, and administrators. OLM's definition does not require `spec`: without it, nobody has written. The conditions of others are kept as they are, so this holds plain JSON.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v2",
    kind = "OperatorCondition",
    namespaced,
    status = "OperatorConditionStatus",
    schema = "disabled",
    derive = "Default",
    attr = "serde(default)"
)]
pub struct OperatorConditionSpec {
    /// All operators' conditions; an atomic list for the API server.
    #[serde(default)]
    pub conditions: Vec<serde_json::Value>,
    /// Conditions that an administrator makes OLM take instead.
    #[serde(default)]
    pub overrides: Vec<serde_json::Value>,
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
