//! What is remembered of deleted nodes from one change to the next.

use std::collections::BTreeMap;

use super::cluster::{Cluster, NODE, POD, field, list, name, namespace, nonempty, text};
use super::placement::{asks, names, os, selected, selection};
use super::{volumes, workloads};
use serde_json::Value;

#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Deleted nodes that a workload still depends on.
    pub nodes: BTreeMap<String, Gone>,
    /// Whether the nodes that a selection last matched ran Windows; `None` if some did.
    pub selections: BTreeMap<String, Option<bool>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Gone {
    pub system: Option<bool>,
    pub is_ignored: bool,
}

impl Memory {
    /// Returns the memory after the objects change from `before` to `now`.
    pub fn after(&self, before: &[Value], now: &[Value]) -> Self {
        let mut nodes = self.nodes.clone();
        for node in Cluster(before, self).of(NODE) {
            let gone = Gone {
                system: os(node).map(|os| os == "windows"),
                is_ignored: workloads::is_ignored(node),
            };
            nodes.insert(name(node).to_owned(), gone);
        }
        let cluster = Cluster(now, self);
        let pods: Vec<&Value> = cluster
            .of(POD)
            .filter(|pod| workloads::is_live(pod) && matters(pod))
            .collect();
        let templates: Vec<(&str, &Value)> = workloads::OWNERS
            .into_iter()
            .flat_map(|kind| cluster.of(kind))
            .filter_map(|owner| Some((namespace(owner), workloads::template_spec(owner)?)))
            .filter(|(_, spec)| names(spec).is_none())
            .collect();
        nodes.retain(|node, _| {
            let on = |spec: &Value| nonempty(spec, &["nodeName"]) == Some(node);
            let is_wanted = pods.iter().any(|pod| on(&pod["spec"]))
                || templates.iter().any(|(_, spec)| on(spec));
            is_wanted && cluster.get(NODE, "", node).is_none()
        });
        let is_unknown = |pod: &&&Value| {
            nonempty(pod, &["spec", "nodeName"]).is_none_or(|node| {
                cluster.get(NODE, "", node).is_none() && !nodes.contains_key(node)
            })
        };
        let pods = pods.iter().filter(is_unknown);
        let specs = pods.map(|pod| (namespace(pod), &pod["spec"]));
        let selections = specs
            .filter(|(_, spec)| names(spec).is_none())
            .chain(templates.iter().copied())
            .filter_map(|(of, spec)| selection(cluster, of, spec))
            .filter_map(|selection| Some((selection.to_string(), selected(cluster, &selection)?)))
            .collect();
        Self { nodes, selections }
    }
}

/// Whether a pod has a relevant volume, or is bound and has a controller.
fn matters(pod: &Value) -> bool {
    let is_bound = nonempty(pod, &["spec", "nodeName"]).is_some();
    is_bound && workloads::controller(pod).is_some() || has_storage(pod)
}

fn has_storage(pod: &Value) -> bool {
    list(pod, &["spec", "volumes"]).iter().any(|volume| {
        field(volume, &["persistentVolumeClaim"]).is_some()
            || field(volume, &["ephemeral"]).is_some()
            || text(volume, &["csi", "driver"]).is_some()
            || volumes::backing(volume).is_some()
    })
}

/// Whether a pod on an unknown node counts as Windows.
pub fn on_unknown_node(cluster: Cluster<'_>, pod: &Value) -> bool {
    asks(cluster, namespace(pod), &pod["spec"], false)
        .unwrap_or_else(|| super::placement::any_windows(cluster))
}
