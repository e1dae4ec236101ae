//! `spec.rollout` and `status.rollout` of `WindowsStorage`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the operator updates csi-proxy on nodes where it works already.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutSpec {
    /// The maximum number of nodes that are updated at the same time: a number, or a percentage of the managed nodes, rounded up.
    #[schemars(schema_with = "number_or_percentage_schema")]
    pub max_unavailable: IntOrString,
    /// The rollout stops after the update has failed and was rolled back on this many nodes.
    #[schemars(range(min = 1, max = 1000))]
    pub max_failures: u32,
    /// Pauses the rollout.
    pub paused: bool,
    /// Any text. A change resumes a rollout that has stopped, and retries the update on the nodes where it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub resume: String,
}

impl Default for RolloutSpec {
    fn default() -> Self {
        Self {
            max_unavailable: IntOrString::Int(1),
            max_failures: 1,
            paused: false,
            resume: String::new(),
        }
    }
}

impl RolloutSpec {
    /// The number of nodes that `maxUnavailable` allows out of so many, rounded up; at least one. The schema refuses all but numbers
    /// from 1 and percentages up to 100%.
    pub fn max_unavailable_of(&self, nodes: usize) -> usize {
        let number = match &self.max_unavailable {
            IntOrString::Int(number) => usize::try_from(*number).unwrap_or(0),
            IntOrString::String(text) => {
                let percent = text
                    .strip_suffix('%')
                    .and_then(|digits| digits.parse().ok());
                nodes
                    .saturating_mul(percent.unwrap_or(0).min(100))
                    .div_ceil(100)
            }
        };
        number.max(1)
    }
}

/// Whole numbers from 1 and percentages from 1% to 100%. Not in CEL: for a number in each pool that would cost too much.
pub(super) fn number_or_percentage_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true,
        "minimum": 1,
        "maximum": 100_000,
        "pattern": "^([1-9][0-9]?|100)%$"
    })
}

/// The progress of a version of csi-proxy on managed nodes.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStatus {
    /// The desired version of csi-proxy.
    pub version: String,
    /// The number of managed nodes.
    pub nodes: u32,
    /// The number of managed nodes that are up to date.
    pub updated_nodes: u32,
    /// The number of managed nodes that wait for their update or are being updated.
    pub waiting_nodes: u32,
    /// The number of managed nodes on which the update failed and was rolled back.
    pub failed_nodes: u32,
    /// The progress in each pool of `spec.nodePools`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pools: Vec<PoolRolloutStatus>,
    /// The names of the nodes that are being changed, or became unreachable during a change. They keep their place under `maxUnavailable`
    /// when the operator restarts.
    pub in_progress: Vec<String>,
    /// A hash of the desired state, once all managed nodes were up to date. A node that is lost or added later starts no new rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_revision: Option<String>,
}

/// The progress on the managed nodes of a pool.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct PoolRolloutStatus {
    /// The pool's name.
    pub name: String,
    /// The number of managed nodes.
    pub nodes: u32,
    /// The number of managed nodes that are up to date.
    pub updated_nodes: u32,
    /// The number of managed nodes that wait for their update or are being updated.
    pub waiting_nodes: u32,
    /// The number of managed nodes on which the update failed and was rolled back.
    pub failed_nodes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_of_all_nodes_and_never_none() {
        let of = |max_unavailable, nodes| {
            let spec = RolloutSpec {
                max_unavailable,
                ..RolloutSpec::default()
            };
            spec.max_unavailable_of(nodes)
        };
        let percent = |text: &str| IntOrString::String(text.to_owned());
        assert_eq!(of(IntOrString::Int(3), 2), 3);
        assert_eq!(of(IntOrString::Int(0), 2), 1);
        assert_eq!(of(percent("10%"), 41), 5);
        assert_eq!(of(percent("10%"), 0), 1);
        assert_eq!(of(percent("1000%"), 10), 10);
        assert_eq!(of(percent("nonsense"), 100), 1);
    }
}
