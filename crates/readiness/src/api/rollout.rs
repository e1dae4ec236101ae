//! `spec.rollout` and `status.rollout` of `WindowsStorage`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the operator updates csi-proxy on nodes where it works already.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutSpec {
    /// The maximum number of nodes that are updated at the same time: a number, or a percentage of the managed nodes, rounded up.
    #[serde(deserialize_with = "max_unavailable_or_default")]
    #[schemars(schema_with = "max_unavailable_schema")]
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
    /// The order in which nodes are updated.
    pub strategy: RolloutStrategy,
    /// The times at which the update of a node may start. If empty, it may start at any time. An update that has started is completed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub windows: Vec<RolloutWindow>,
}

/// The order in which nodes are updated.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStrategy {
    /// The steps, in order. All remaining nodes are updated after the last step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub steps: Vec<RolloutStep>,
}

/// Nodes to update, and how long to observe them before the next step. Set exactly one of pool, `nodeSelector` and nodes.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.pool) ? 1 : 0) + (has(self.nodeSelector) ? 1 : 0) + (has(self.nodes) ? 1 : 0) == 1",
    "message": "set exactly one of pool, nodeSelector and nodes",
}]))]
pub struct RolloutStep {
    /// The name of a pool: its nodes are updated in this step.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub pool: Option<String>,
    /// Labels: nodes that have all of them are updated in this step.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minProperties" = 1, "maxProperties" = 16))]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// How many nodes are updated at the end of this step, including those of earlier steps: a number, or a percentage of the managed
    /// nodes, rounded up.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "number_or_percentage"
    )]
    #[schemars(schema_with = "number_or_percentage_schema")]
    pub nodes: Option<IntOrString>,
    /// Seconds for which csi-proxy must answer on all nodes of the step before the next step starts. The time restarts if a node fails, and
    /// ends with a check of each node.
    #[schemars(range(min = 0, max = 2_592_000))]
    pub soak_seconds: u32,
}

impl RolloutStep {
    /// How many nodes out of so many have it at the end of the step, where it names a number.
    #[must_use]
    pub fn number_of(&self, nodes: usize) -> Option<usize> {
        let number = self.nodes.as_ref()?;
        Some(number_of(number, nodes))
    }
}

/// A recurring time.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutWindow {
    /// When the window opens, in cron format: minute, hour, day of the month, month, day of the week.
    #[schemars(
        length(max = 128),
        regex(pattern = r"^[^ ]+( +[^ ]+){4}$"),
        extend("x-kubernetes-validations" = [{
            "rule": "self.matches('^[^ ]+( +[^ ]+){4}$')",
            "message": "write five fields in cron format, such as 0 22 * * 2; @daily and the like are not supported",
        }])
    )]
    pub schedule: String,
    /// The time zone of the schedule: a name of the IANA time zone database, such as Europe/Berlin.
    #[serde(default = "utc")]
    #[schemars(
        length(max = 64),
        regex(pattern = r"^[A-Za-z0-9_+/-]+$"),
        extend("x-kubernetes-validations" = [{
            "rule": "self.matches('^[A-Za-z0-9_+/-]+$')",
            "message": "write a name of the IANA time zone database, such as Europe/Berlin",
        }])
    )]
    pub time_zone: String,
    /// Minutes for which the window is open.
    #[schemars(range(min = 1, max = 10_080))]
    pub duration_minutes: u32,
}

fn utc() -> String {
    "UTC".to_owned()
}

impl Default for RolloutSpec {
    fn default() -> Self {
        Self {
            max_unavailable: default_max_unavailable(),
            max_failures: 1,
            paused: false,
            resume: String::new(),
            strategy: RolloutStrategy::default(),
            windows: Vec::new(),
        }
    }
}

impl RolloutSpec {
    /// The number of nodes that `maxUnavailable` allows out of so many; at least one.
    #[must_use]
    pub fn max_unavailable_of(&self, nodes: usize) -> usize {
        number_of(&self.max_unavailable, nodes)
    }
}

fn default_max_unavailable() -> IntOrString {
    IntOrString::Int(1)
}

/// The API server takes a null, which means the same as nothing.
fn max_unavailable_or_default<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<IntOrString, D::Error> {
    let value = number_or_percentage(deserializer)?;
    Ok(value.unwrap_or_else(default_max_unavailable))
}

/// What was stored before the definition said what is usable is refused here.
pub(super) fn number_or_percentage<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<IntOrString>, D::Error> {
    let value = Option::<IntOrString>::deserialize(deserializer)?;
    let is_usable = match &value {
        None => true,
        Some(IntOrString::Int(number)) => (1..=100_000).contains(number),
        Some(IntOrString::String(text)) => percentage(text).is_some(),
    };
    if is_usable {
        return Ok(value);
    }
    Err(serde::de::Error::custom(
        "a number of nodes must be from 1 to 100000, or a percentage from 1% to 100%",
    ))
}

/// The number of nodes that this is out of so many, rounded up; at least one.
fn number_of(value: &IntOrString, nodes: usize) -> usize {
    let number = match value {
        IntOrString::Int(number) => usize::try_from(*number).unwrap_or(0),
        IntOrString::String(text) => {
            percentage(text).map_or(0, |percent| nodes.saturating_mul(percent).div_ceil(100))
        }
    };
    number.max(1)
}

fn percentage(text: &str) -> Option<usize> {
    let digits = text.strip_suffix('%')?;
    let number = digits.parse().ok()?;
    let is_plain = digits.starts_with(|digit: char| ('1'..='9').contains(&digit));
    (is_plain && number <= 100).then_some(number)
}

/// Whole numbers from 1 and percentages from 1% to 100%. Not in CEL: for a number in each item of a list that would cost too much.
pub(super) fn number_or_percentage_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true,
        "nullable": true,
        "minimum": 1,
        "maximum": 100_000,
        "pattern": "^([1-9][0-9]?|100)%$"
    })
}

fn max_unavailable_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = number_or_percentage_schema(generator);
    schema.remove("nullable");
    schema.insert("default".to_owned(), 1.into());
    schema
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
    /// The progress in the steps of `spec.rollout.strategy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyStatus>,
    /// The last ten rollouts, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<PastRollout>,
    /// When the next window of `spec.rollout.windows` opens, if none is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_window_time: Option<Time>,
}

/// A rollout.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PastRollout {
    /// A hash of the desired state of the nodes.
    pub revision: String,
    /// The version of csi-proxy.
    pub version: String,
    /// When the rollout started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When all managed nodes were up to date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
}

/// The progress in the steps of a rollout.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyStatus {
    /// A hash of the desired state of the nodes and of the steps.
    pub revision: String,
    /// The number of completed steps, including their soak time.
    pub completed_steps: u32,
    /// When the soak time of the current step started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak_start_time: Option<Time>,
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
        assert_eq!(of(percent("nonsense"), 100), 1);
    }

    #[test]
    fn what_the_schema_refuses_is_refused_where_it_is_not_checked() {
        for (value, is_usable) in [
            ("1", true),
            ("100000", true),
            (r#""1%""#, true),
            (r#""100%""#, true),
            ("0", false),
            ("-1", false),
            ("100001", false),
            (r#""0%""#, false),
            (r#""01%""#, false),
            (r#""+1%""#, false),
            (r#""101%""#, false),
            (r#""10""#, false),
            (r#""most""#, false),
        ] {
            let spec = format!(r#"{{"maxUnavailable":{value}}}"#);
            let read = serde_json::from_str::<RolloutSpec>(&spec);
            assert_eq!(read.is_ok(), is_usable, "{value}: {read:?}");
        }
    }

    #[test]
    fn a_null_means_the_default() {
        let spec: RolloutSpec = serde_json::from_str(r#"{"maxUnavailable":null}"#).unwrap();
        assert_eq!(spec, RolloutSpec::default());
    }
}
