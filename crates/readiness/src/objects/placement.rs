//! Decodes the scheduling constraints of a pod's spec.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use serde::de::IgnoredAny;

use crate::index::{NodeSelection, Placement, System, intern, to_text};
use crate::objects::metadata::Object;
use crate::objects::pod_spec::PodSpec;

/// The label with a Node's operating system.
pub const OS_LABEL: &str = "kubernetes.io/os";
const BETA_OS_LABEL: &str = "beta.kubernetes.io/os";
/// Only Windows nodes have this label.
pub const WINDOWS_BUILD_LABEL: &str = "node.kubernetes.io/windows-build";
/// Set on OpenShift nodes at registration.
pub const OS_ID_LABEL: &str = "node.openshift.io/os_id";
pub const WINDOWS_OS_ID: &str = "Windows";
/// Set by AKS: `Windows2019`, `Windows2022`, or a Linux distribution.
const OS_SKU_LABEL: &str = "kubernetes.azure.com/os-sku";
const WINDOWS: &str = "windows";
const LINUX: &str = "linux";

fn required(spec: &PodSpec) -> Option<&core::NodeSelector> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    affinity.required.as_ref()
}

/// Returns the node selection of a pod's spec.
pub fn selection(spec: &PodSpec) -> NodeSelection {
    NodeSelection {
        labels: spec.node_selector.clone().unwrap_or_default(),
        terms: required(spec).map(|required| required.node_selector_terms.clone()),
    }
}

/// Returns the scheduling constraints of a pod's spec.
pub fn placement(spec: &PodSpec) -> Placement {
    let required = required(spec);
    let os = spec.os.as_ref().and_then(|os| named(&os.name));
    let labels = spec.node_selector.as_ref();
    let names = os.or_else(|| named_by_labels(labels?));
    let by_terms = required.and_then(|required| named_by_terms(&required.node_selector_terms));
    let selection = selection(spec);
    // Where the affinity names a system, a namespace's selector may still name one before it.
    let is_needed = by_terms.is_none() || !selection.labels.is_empty();
    let selects = names.is_none() && is_needed && !selection.is_empty();
    Placement {
        names,
        required: by_terms,
        runtime_class: spec.runtime_class_name.as_deref().map(intern),
        node: None,
        selector: selects.then(|| to_text(&selection)),
    }
}

fn named(os: &str) -> Option<System> {
    match os {
        WINDOWS => Some(System::Windows),
        LINUX => Some(System::Other),
        _ => None,
    }
}

/// The annotations by which a Namespace adds a node selector to its pods: OpenShift's, and that of Kubernetes' admission
/// plugin `PodNodeSelector`.
pub const SELECTOR_ANNOTATIONS: [&str; 2] = [
    "openshift.io/node-selector",
    "scheduler.alpha.kubernetes.io/node-selector",
];

/// Returns the node selector that a Namespace adds, if any: a list of `key=value`.
pub(super) fn namespace(Object { metadata, .. }: Object<IgnoredAny>) -> Option<NodeSelection> {
    let lists = SELECTOR_ANNOTATIONS.map(|key| metadata.annotation(key));
    let pairs = lists.into_iter().flatten().flat_map(|list| list.split(','));
    let pairs = pairs.filter_map(|pair| pair.split_once('='));
    let mut labels = BTreeMap::<String, String>::new();
    for (key, value) in pairs {
        let (key, value) = (key.trim(), value.trim_start_matches('=').trim());
        let before = labels.get(key);
        // Where they contradict each other, Windows counts, as in any selector.
        let asks = before.and_then(|before| named_by_label(key, before)) == Some(System::Windows);
        if !asks {
            labels.insert(key.to_owned(), value.to_owned());
        }
    }
    (!labels.is_empty()).then(|| NodeSelection::of(labels))
}

/// Returns the operating system that a node selector requires. A contradictory selector matches no node and counts as
/// Windows.
pub fn named_by_labels(selector: &BTreeMap<String, String>) -> Option<System> {
    let labels = selector.iter();
    first_windows(labels.map(|(key, value)| named_by_label(key, value)))
}

fn named_by_label(key: &str, value: &str) -> Option<System> {
    match key {
        OS_LABEL | BETA_OS_LABEL => named(value),
        WINDOWS_BUILD_LABEL => Some(System::Windows),
        OS_ID_LABEL => (value == WINDOWS_OS_ID).then_some(System::Windows),
        OS_SKU_LABEL => value.starts_with("Windows").then_some(System::Windows),
        _ => None,
    }
}

/// Terms are alternatives, so all must require the same operating system.
fn named_by_terms(terms: &[core::NodeSelectorTerm]) -> Option<System> {
    the_same(terms.iter().map(|term| {
        let expressions = term.match_expressions.iter().flatten();
        first_windows(expressions.map(named_by_expression))
    }))
}

fn named_by_expression(expression: &core::NodeSelectorRequirement) -> Option<System> {
    let key = expression.key.as_str();
    let values = expression.values.as_deref().unwrap_or_default();
    let has = |wanted: &str| values.iter().any(|value| value == wanted);
    match (key, expression.operator.as_str()) {
        (_, "In") => the_same(values.iter().map(|value| named_by_label(key, value))),
        (OS_LABEL | BETA_OS_LABEL, "NotIn") => match (has(LINUX), has(WINDOWS)) {
            (true, false) => Some(System::Windows),
            (false, true) => Some(System::Other),
            _ => None,
        },
        (WINDOWS_BUILD_LABEL, "Exists" | "Gt" | "Lt") => Some(System::Windows),
        _ => None,
    }
}

/// Returns the operating system if all items have the same one.
fn the_same(mut systems: impl Iterator<Item = Option<System>>) -> Option<System> {
    let first = systems.next()??;
    systems.all(|other| other == Some(first)).then_some(first)
}

/// Returns Windows if any item is Windows, otherwise any other one.
fn first_windows(systems: impl Iterator<Item = Option<System>>) -> Option<System> {
    systems
        .flatten()
        .min_by_key(|system| *system != System::Windows)
}
