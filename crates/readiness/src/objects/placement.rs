//! How the spec of a pod asks for Windows.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::index::WindowsRequest;
use crate::objects::pod::PodSpec;

/// The label that says a Node's operating system.
pub const OS_LABEL: &str = "kubernetes.io/os";
const BETA_OS_LABEL: &str = "beta.kubernetes.io/os";
/// Only Windows nodes have it.
const WINDOWS_BUILD_LABEL: &str = "node.kubernetes.io/windows-build";
const WINDOWS: &str = "windows";
const LINUX: &str = "linux";

/// `spec.os`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PodOs {
    name: Option<String>,
}

/// `spec.affinity`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeSelector {
    node_selector_terms: Option<Vec<Term>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    match_expressions: Option<Vec<Expression>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Expression {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
}

/// What of a pod's spec asks for Windows.
#[must_use]
pub fn windows_request(spec: &PodSpec) -> WindowsRequest {
    let os = spec.os.as_ref().and_then(|os| os.name.as_deref());
    WindowsRequest {
        by_itself: os == Some(WINDOWS)
            || spec.node_selector.as_ref().is_some_and(selects_windows)
            || spec.affinity.as_ref().is_some_and(requires_windows),
        runtime_class: spec.runtime_class_name.clone(),
    }
}

/// Whether a node selector lets only Windows nodes through.
#[must_use]
pub fn selects_windows(selector: &BTreeMap<String, String>) -> bool {
    selector.iter().any(|(key, value)| match key.as_str() {
        OS_LABEL | BETA_OS_LABEL => value == WINDOWS,
        WINDOWS_BUILD_LABEL => true,
        _ => false,
    })
}

/// One of the terms has to fit, so every one of them has to say Windows.
fn requires_windows(affinity: &Affinity) -> bool {
    let terms = affinity
        .node_affinity
        .as_ref()
        .and_then(|affinity| {
            affinity
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .and_then(|selector| selector.node_selector_terms.as_deref())
        .unwrap_or_default();
    !terms.is_empty()
        && terms.iter().all(|term| {
            term.match_expressions
                .iter()
                .flatten()
                .any(Expression::says_windows)
        })
}

impl Expression {
    fn says_windows(&self) -> bool {
        let values = self.values.as_deref().unwrap_or_default();
        let has = |wanted: &str| values.iter().any(|value| value == wanted);
        match (self.key.as_str(), self.operator.as_str()) {
            (OS_LABEL | BETA_OS_LABEL, "In") => {
                !values.is_empty() && values.iter().all(|value| value == WINDOWS)
            }
            (OS_LABEL | BETA_OS_LABEL, "NotIn") => has(LINUX) && !has(WINDOWS),
            (WINDOWS_BUILD_LABEL, operator) => {
                matches!(operator, "In" | "Exists" | "Gt" | "Lt")
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn asks(spec: Value) -> bool {
        windows_request(&serde_json::from_value(spec).unwrap()).by_itself
    }

    fn affinity(terms: &Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": terms
        }}}})
    }

    #[test]
    fn every_way_to_ask_for_windows_is_seen_and_near_misses_are_not() {
        let os = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "kubernetes.io/os", "operator": operator, "values": values}]});
        let build = |operator: &str| json!({"matchExpressions": [{"key": "node.kubernetes.io/windows-build", "operator": operator, "values": ["10.0.20348"]}]});
        for (expected, spec) in [
            (true, json!({"os": {"name": "windows"}})),
            (false, json!({"os": {"name": "linux"}})),
            (
                true,
                json!({"nodeSelector": {"kubernetes.io/os": "windows"}}),
            ),
            (
                true,
                json!({"nodeSelector": {"beta.kubernetes.io/os": "windows"}}),
            ),
            (
                false,
                json!({"nodeSelector": {"kubernetes.io/os": "linux"}}),
            ),
            (
                true,
                json!({"nodeSelector": {"node.kubernetes.io/windows-build": "any"}}),
            ),
            (true, affinity(&json!([os("In", &["windows"])]))),
            (false, affinity(&json!([os("In", &["windows", "linux"])]))),
            (false, affinity(&json!([os("In", &[])]))),
            (true, affinity(&json!([os("NotIn", &["linux"])]))),
            (
                false,
                affinity(&json!([os("NotIn", &["linux", "windows"])])),
            ),
            (false, affinity(&json!([os("NotIn", &["darwin"])]))),
            (false, affinity(&json!([os("Exists", &[])]))),
            (true, affinity(&json!([build("In")]))),
            (true, affinity(&json!([build("Exists")]))),
            (true, affinity(&json!([build("Gt")]))),
            (true, affinity(&json!([build("Lt")]))),
            (false, affinity(&json!([build("NotIn")]))),
            (false, affinity(&json!([build("DoesNotExist")]))),
            (
                true,
                affinity(&json!([os("In", &["windows"]), build("Exists")])),
            ),
            (false, affinity(&json!([os("In", &["windows"]), {}]))),
            (
                false,
                affinity(
                    &json!([os("In", &["windows"]), {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["win"]}]}]),
                ),
            ),
            (false, affinity(&json!([]))),
            (
                false,
                json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}),
            ),
            (false, json!({})),
        ] {
            assert_eq!(asks(spec.clone()), expected, "{spec}");
        }
    }
}
