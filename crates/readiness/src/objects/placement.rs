//! How the spec of a pod asks for Windows.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use serde::Deserialize;

use crate::index::WindowsRequest;
use crate::objects::pod::PodSpec;

object_only!(Affinity, NodeAffinity);

/// The label that says a Node's operating system.
pub const OS_LABEL: &str = "kubernetes.io/os";
const BETA_OS_LABEL: &str = "beta.kubernetes.io/os";
/// Only Windows nodes have it.
const WINDOWS_BUILD_LABEL: &str = "node.kubernetes.io/windows-build";
const WINDOWS: &str = "windows";
const LINUX: &str = "linux";

/// `spec.affinity`.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase")]
pub struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<core::NodeSelector>,
}

/// What of a pod's spec asks for Windows.
#[must_use]
pub fn windows_request(spec: &PodSpec) -> WindowsRequest {
    let os = spec.os.as_ref();
    WindowsRequest {
        by_itself: os.is_some_and(|os| os.name == WINDOWS)
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
    let affinity = affinity.node_affinity.as_ref();
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_some_and(|selector| {
        let terms = &selector.node_selector_terms;
        let says_windows = |term: &core::NodeSelectorTerm| {
            let mut expressions = term.match_expressions.iter().flatten();
            expressions.any(says_windows)
        };
        !terms.is_empty() && terms.iter().all(says_windows)
    })
}

fn says_windows(expression: &core::NodeSelectorRequirement) -> bool {
    let values = expression.values.as_deref().unwrap_or_default();
    let has = |wanted: &str| values.iter().any(|value| value == wanted);
    match (expression.key.as_str(), expression.operator.as_str()) {
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
