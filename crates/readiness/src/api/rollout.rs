//! `spec.rollout` and `status.rollout` of `WindowsStorage`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How another csi-proxy reaches nodes on which one works. Nodes without a working one get it at once.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutSpec {
    /// How many nodes may be without csi-proxy at one time for the sake of an update: a number, or a percentage of the
    /// managed nodes, rounded up.
    #[serde(deserialize_with = "max_unavailable_or_default")]
    #[schemars(schema_with = "max_unavailable_schema")]
    pub max_unavailable: IntOrString,
    /// After the update was undone on so many nodes no further node is updated.
    #[schemars(range(min = 1, max = 1000))]
    pub max_failures: u32,
    /// No node is updated while this is true.
    pub paused: bool,
    /// Any text. Another text than before lets an update that has stopped go on, and tries it once more on the nodes on which it was
    /// undone.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub resume: String,
    /// In which order nodes get it, and what has to hold before it goes on.
    pub strategy: RolloutStrategy,
    /// When an update of a node may begin. Without one: always. An update that has begun ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub windows: Vec<RolloutWindow>,
}

/// In which order nodes get another csi-proxy.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStrategy {
    /// One after the other. After the last one all nodes that are left are updated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub steps: Vec<RolloutStep>,
}

/// A part of the nodes, and how long they are watched before others follow. It names them by one of pool, nodeSelector and nodes.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.pool) ? 1 : 0) + (has(self.nodeSelector) ? 1 : 0) + (has(self.nodes) ? 1 : 0) == 1",
    "message": "a step names its nodes by one of pool, nodeSelector and nodes",
}]))]
pub struct RolloutStep {
    /// The nodes of the pool with this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub pool: Option<String>,
    /// The nodes with these labels, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minProperties" = 1, "maxProperties" = 16))]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Any nodes, until so many have it, those of earlier steps included: a number, or a percentage of the managed nodes, rounded up.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "number_or_percentage"
    )]
    #[schemars(schema_with = "number_or_percentage_schema")]
    pub nodes: Option<IntOrString>,
    /// Seconds during which csi-proxy must answer on the nodes of the step before the next step begins. It begins again when one of them
    /// fails, and ends with a look at each.
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

/// A time that comes again and again.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutWindow {
    /// When it opens, in cron's format: minute, hour, day of the month, month, day of the week.
    #[schemars(length(max = 128), regex(pattern = r"^[^ ]+( +[^ ]+){4}$"))]
    pub schedule: String,
    /// The time zone of the schedule, by its name in the IANA database, such as Europe/Berlin.
    #[serde(default = "utc")]
    #[schemars(length(max = 64), regex(pattern = r"^[A-Za-z0-9_+/-]+$"))]
    pub time_zone: String,
    /// For how many minutes it is open.
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

/// How far csi-proxy is on the nodes that this operator looks after.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStatus {
    /// The version of csi-proxy that nodes shall have.
    pub version: String,
    /// Nodes that this operator looks after.
    pub nodes: u32,
    /// Those that are as they shall be.
    pub updated_nodes: u32,
    /// Those on which csi-proxy works and waits for its update, or is being updated.
    pub waiting_nodes: u32,
    /// Those on which the update was undone.
    pub failed_nodes: u32,
    /// The same by pool, for those that `spec.nodePools` names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pools: Vec<PoolRolloutStatus>,
    /// The nodes that are being changed, by name, and those that were lost in the middle. An operator that starts reads
    /// them here: no other node is changed in their place before they have been looked at.
    pub in_progress: Vec<String>,
    /// How far `spec.rollout.strategy` is. An operator that starts goes on from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyStatus>,
    /// The last ten rollouts, the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<PastRollout>,
    /// When nodes may be updated again, while no window of `spec.rollout.windows` is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_opens: Option<Time>,
}

/// A rollout: from when something else was wanted until all managed nodes had it.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PastRollout {
    /// What was rolled out: a hash of all that nodes were to have.
    pub revision: String,
    /// The version of csi-proxy in it.
    pub version: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When all managed nodes had it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<Time>,
}

/// How far the steps of a rollout are.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyStatus {
    /// What is rolled out: a hash of all that nodes shall have, and of the nodes that the steps name.
    pub revision: String,
    /// Steps that are finished, their soak time included.
    pub completed_steps: u32,
    /// Since when all nodes of the next step have it, and csi-proxy answers on them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soaking_since: Option<Time>,
}

/// How far csi-proxy is on the nodes of a pool that this operator looks after.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct PoolRolloutStatus {
    /// The pool's name.
    pub name: String,
    /// Nodes that this operator looks after.
    pub nodes: u32,
    /// Those that are as they shall be.
    pub updated_nodes: u32,
    /// Those on which csi-proxy works and waits for its update, or is being updated.
    pub waiting_nodes: u32,
    /// Those on which the update was undone.
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
