//! Evaluates a pod's node selector and required node affinity.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::index::{Labels, Name, Node, Toleration, intern};
use crate::visible::some_of;

/// A node selector and the terms of a required node affinity. Both must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSelection {
    /// The node selector.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The affinity's terms, if any. At least one must match.
    pub terms: Option<Vec<NodeSelectorTerm>>,
}

/// How many labels a message names before it counts the rest.
const NAMED_LABELS: usize = 5;

/// The labels, as messages name them.
impl fmt::Display for NodeSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let labels: Vec<String> = labels.collect();
        f.write_str(&some_of(&labels, NAMED_LABELS))?;
        match (&self.terms, labels.is_empty()) {
            (None, _) => Ok(()),
            (Some(_), true) => f.write_str("its required node affinity"),
            (Some(_), false) => f.write_str(" and its required node affinity"),
        }
    }
}

impl NodeSelection {
    /// A node selector alone.
    pub fn of(labels: BTreeMap<String, String>) -> Self {
        Self {
            labels,
            terms: None,
        }
    }

    /// Whether there is no constraint.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.terms.is_none()
    }

    /// Whether the scheduler would accept a node with this name and labels. Terms that Kubernetes rejects match nothing.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        let mut wanted = self.labels.iter();
        wanted.all(|(key, value)| label(labels, key) == Some(value))
            && self.terms_match(name, labels)
    }

    fn terms_match(&self, name: &str, labels: &Labels) -> bool {
        self.terms.as_ref().is_none_or(|terms| {
            let mut terms = terms.iter();
            terms.any(|term| term_matches(term, name, labels))
        })
    }

    /// Returns in words what of it a node does not meet; nothing if it [matches](Self::matches).
    pub(crate) fn unmet(&self, name: &str, labels: &Labels) -> Vec<String> {
        let wanted = self.labels.iter();
        let wrong = wanted.filter(|(key, value)| label(labels, key) != Some(value.as_str()));
        let mut unmet: Vec<String> = wrong
            .map(|(key, value)| match label(labels, key) {
                Some(has) => format!("{key}={value} (the node has {has})"),
                None => format!("{key}={value} (the node has no such label)"),
            })
            .collect();
        if !self.terms_match(name, labels) {
            unmet.push("its required node affinity".to_owned());
        }
        unmet
    }
}

/// Returns a [`NodeSelection`] or a [`Moving`] as text, which many pods share: equal ones give equal text.
pub(crate) fn to_text(value: &impl Serialize) -> Name {
    // Maps with string keys always serialize.
    intern(&serde_json::to_string(value).unwrap_or_default())
}

/// Parses the result of [`to_text`].
pub(crate) fn from_text<T: DeserializeOwned + Default>(text: &str) -> T {
    serde_json::from_str(text).unwrap_or_default()
}

/// Whether a term matches. A term without requirements matches nothing.
fn term_matches(term: &NodeSelectorTerm, name: &str, labels: &Labels) -> bool {
    let mut expressions = term.match_expressions.iter().flatten().peekable();
    let mut fields = term.match_fields.iter().flatten().peekable();
    (expressions.peek().is_some() || fields.peek().is_some())
        && expressions.all(|wanted| is_met(wanted, label(labels, &wanted.key)))
        && fields.all(|wanted| {
            let is_one = wanted
                .values
                .as_ref()
                .is_some_and(|values| values.len() == 1);
            let is_known = matches!(wanted.operator.as_str(), "In" | "NotIn");
            wanted.key == "metadata.name" && is_one && is_known && is_met(wanted, Some(name))
        })
}

fn is_met(wanted: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let is_in = value.is_some_and(|value| values.iter().any(|wanted| wanted == value));
    let compared = || {
        let [limit] = values else { return None };
        let (value, limit) = (value?.parse::<i64>().ok()?, limit.parse().ok()?);
        Some(value.cmp(&limit))
    };
    match wanted.operator.as_str() {
        "In" => is_in,
        "NotIn" => !is_in && !values.is_empty(),
        "Exists" => value.is_some() && values.is_empty(),
        "DoesNotExist" => value.is_none() && values.is_empty(),
        "Gt" => compared().is_some_and(Ordering::is_gt),
        "Lt" => compared().is_some_and(Ordering::is_lt),
        _ => false,
    }
}

fn label<'a>(labels: &'a Labels, key: &str) -> Option<&'a str> {
    let place = labels.binary_search_by(|(known, _)| known.as_str().cmp(key));
    place.ok().map(|place| Name::as_str(&labels[place].1))
}

/// What decides which nodes can take a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moving {
    /// The node selector and required node affinity.
    pub selection: NodeSelection,
    /// The tolerations.
    pub tolerations: Vec<Toleration>,
}

impl Moving {
    /// Whether the node could take the pod.
    pub(crate) fn takes(&self, name: &str, node: &Node) -> bool {
        let mut taints = node.taints.iter();
        self.selection.matches(name, &node.labels)
            && taints.all(|taint| self.tolerations.iter().any(|it| it.covers(taint)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selection_matches_as_the_scheduler_does() {
        let labels: Labels = [("build", "20348"), ("pool", "win"), ("zone", "a")]
            .map(|(key, value)| (key.into(), value.into()))
            .into();
        let term = |key: &str, operator: &str, values: &[&str]| json!({"terms": [{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]});
        let field = |key: &str, operator: &str, values: &[&str]| json!({"terms": [{"matchFields": [{"key": key, "operator": operator, "values": values}]}]});
        for (matches, selection) in [
            (true, json!({"labels": {"pool": "win", "zone": "a"}})),
            (false, json!({"labels": {"pool": "win", "zone": "b"}})),
            (false, json!({"labels": {"other": ""}})),
            (true, term("pool", "In", &["linux", "win"])),
            (false, term("pool", "In", &[])),
            (false, term("other", "In", &["win"])),
            (true, term("pool", "NotIn", &["linux"])),
            (true, term("other", "NotIn", &["win"])),
            (false, term("pool", "NotIn", &["win"])),
            (false, term("pool", "NotIn", &[])),
            (true, term("pool", "Exists", &[])),
            (false, term("other", "Exists", &[])),
            (true, term("other", "DoesNotExist", &[])),
            (false, term("pool", "DoesNotExist", &[])),
            (true, term("build", "Gt", &["17763"])),
            (false, term("build", "Gt", &["20348"])),
            (true, term("build", "Lt", &["20349"])),
            (false, term("build", "Lt", &["many"])),
            (false, term("pool", "Gt", &["1"])),
            (false, term("build", "Gt", &["1", "2"])),
            (false, term("pool", "Like", &["win"])),
            (true, field("metadata.name", "In", &["win-1"])),
            (false, field("metadata.name", "In", &["win-2"])),
            (true, field("metadata.name", "NotIn", &["win-2"])),
            (false, field("metadata.name", "In", &["win-1", "win-2"])),
            (false, field("metadata.name", "Exists", &[])),
            (false, field("spec.unschedulable", "In", &["win-1"])),
            (false, json!({"terms": []})),
            (false, json!({"terms": [{}]})),
            (
                true,
                json!({"terms": [{}, {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]}),
            ),
            (
                false,
                json!({"terms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}, {"key": "pool", "operator": "DoesNotExist"}]}]}),
            ),
            (
                false,
                json!({"labels": {"pool": "linux"}, "terms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]}),
            ),
        ] {
            let text = selection.to_string();
            let selection = from_text::<NodeSelection>(&text);
            assert_eq!(selection.matches("win-1", &labels), matches, "{text}");
            let unmet = selection.unmet("win-1", &labels);
            assert_eq!(unmet.is_empty(), matches, "{text}: {unmet:?}");
            assert_eq!(from_text::<NodeSelection>(&to_text(&selection)), selection);
        }
    }
}
