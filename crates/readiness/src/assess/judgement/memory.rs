//! Remembers what the objects alone do not say.

use std::collections::{HashMap, HashSet};

use crate::index::{
    Cluster, Labels, Name, NodeSelection, Placement, Pod, System, from_text, to_text,
};
use crate::objects::named_by_labels;

/// What is known of a Node that pods are, or were, bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The operating system, if the Node shows it. Pods may outlive a Windows node that is being deleted.
    pub system: Option<System>,
    /// Pods on the node are no Windows workloads. On a Windows node, they still represent their owners.
    pub is_left_out: bool,
}

/// What the objects alone do not say, from earlier states of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// A pod may outlive its Node by minutes: the existing nodes, and deleted ones that a pod or a template still names.
    nodes: HashMap<Name, Known>,
    /// "A pool at zero changes nothing": what the selectors in use match, or matched last.
    answers: HashMap<Name, Answer>,
    /// There may be very many selectors: only those are asked again that match a node that has changed. What the answers
    /// are based on.
    labels: Nodes,
}

#[derive(Clone, Debug, Default)]
struct Answer {
    selection: NodeSelection,
    matched: Matched,
}

/// Which nodes a selector matches, or matched last; none if it never matched one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Matched {
    /// Nodes that run Windows.
    windows: bool,
    /// Nodes that run another system.
    others: bool,
}

impl Memory {
    /// Takes in the cluster's current state, and forgets what no pod and no template refers to any longer.
    pub fn learn(&mut self, cluster: &Cluster) {
        self.learn_nodes(cluster);
        let labels: Nodes = cluster
            .nodes
            .iter()
            .filter_map(|(name, node)| Some((name.clone(), (node.system()?, node.labels.clone()))))
            .collect();
        let before = std::mem::replace(&mut self.labels, labels);
        let changed = changed(&before, &self.labels);
        let in_use = self.selectors(cluster);
        self.answers.retain(|selector, _| in_use.contains(selector));
        let has_changed = |selector: &Name| {
            self.answers.get(selector).is_none_or(|answer| {
                let mut changed = changed.iter();
                changed.any(|(name, labels)| answer.selection.matches(name, labels))
            })
        };
        let asked: Vec<Name> = in_use.into_iter().filter(has_changed).collect();
        for selector in asked {
            let answer = self.answers.entry(selector);
            let answer = answer.or_insert_with_key(|selector| Answer {
                selection: from_text(selector),
                matched: Matched::default(),
            });
            let matched = matched(&answer.selection, &self.labels);
            if matched != Matched::default() {
                answer.matched = matched;
            }
        }
    }

    fn learn_nodes(&mut self, cluster: &Cluster) {
        if self
            .nodes
            .keys()
            .any(|name| cluster.nodes.get(name).is_none())
        {
            let pods = cluster
                .pods
                .iter()
                .filter_map(|(_, pod)| pod.node_name.as_ref());
            let templates = templates(cluster).map(|(_, placement)| placement);
            let undecided = templates.filter(|placement| placement.names.is_none());
            let templates = undecided.filter_map(|placement| placement.node.as_ref());
            let named: HashSet<&Name> = pods.chain(templates).collect();
            self.nodes.retain(|name, _| named.contains(name));
        }
        for (name, node) in cluster.nodes.iter() {
            let known = Known {
                system: node.system(),
                is_left_out: node.left_out.is_some(),
            };
            self.nodes.insert(name.clone(), known);
        }
    }

    /// Returns the selectors that decide for which operating system a pod or a template asks.
    fn selectors(&self, cluster: &Cluster) -> HashSet<Name> {
        let unbound = cluster.pods.iter();
        let unbound = unbound.filter(|(_, pod)| self.node_of(pod).is_none());
        let placements = unbound.map(|(key, pod)| (&key.namespace, &pod.placement));
        let placements = placements.chain(templates(cluster));
        placements
            .filter_map(|(namespace, placement)| selector(cluster, namespace, placement))
            .collect()
    }

    /// Returns the node that a pod is bound to, if it is known.
    pub(super) fn node_of(&self, pod: &Pod) -> Option<Known> {
        self.nodes.get(pod.node_name.as_ref()?).copied()
    }

    /// Returns the operating system that a placement asks for: the first constraint that determines one wins.
    pub(super) fn asked(
        &self,
        cluster: &Cluster,
        namespace: &Name,
        placement: &Placement,
    ) -> Option<System> {
        let class = |name: &Name| named_by_labels(&cluster.runtime_classes.get(name)?.labels);
        let node = |name: &Name| self.nodes.get(name)?.system;
        placement
            .names
            .or_else(|| named_by_labels(&in_namespace(cluster, namespace, placement)?.labels))
            .or(placement.required)
            .or_else(|| placement.runtime_class.as_ref().and_then(class))
            .or_else(|| placement.node.as_ref().and_then(node))
            .or_else(|| {
                let (_, matched) = self.matched(cluster, namespace, placement)?;
                match (matched.windows, matched.others) {
                    (true, false) => Some(System::Windows),
                    (false, true) => Some(System::Other),
                    _ => None,
                }
            })
    }

    /// Returns the selector by which a placement asks for no operating system, because it never matched a node.
    pub(super) fn matches_nothing(
        &self,
        cluster: &Cluster,
        namespace: &Name,
        placement: &Placement,
    ) -> Option<&NodeSelection> {
        let (selection, matched) = self.matched(cluster, namespace, placement)?;
        (matched == Matched::default()).then_some(selection)
    }

    fn matched(
        &self,
        cluster: &Cluster,
        namespace: &Name,
        placement: &Placement,
    ) -> Option<(&NodeSelection, Matched)> {
        let selector = selector(cluster, namespace, placement)?;
        let answer = self.answers.get(&selector)?;
        Some((&answer.selection, answer.matched))
    }
}

fn templates(cluster: &Cluster) -> impl Iterator<Item = (&Name, &Placement)> {
    let owners = cluster.owners.iter();
    owners.map(|(_, key, owner)| (&key.namespace, &owner.placement))
}

/// Returns a pod's node selection merged with its namespace's, where the pod's own labels win. `None` if the namespace
/// adds nothing, or nothing that matters: the pod names an operating system.
fn in_namespace(
    cluster: &Cluster,
    namespace: &Name,
    placement: &Placement,
) -> Option<NodeSelection> {
    let added = cluster.namespaces.get(namespace)?;
    if placement.names.is_some() {
        return None;
    }
    let own = placement
        .selector
        .as_deref()
        .map(from_text::<NodeSelection>);
    let own = own.unwrap_or_default();
    let mut labels = added.labels.clone();
    labels.extend(own.labels);
    Some(NodeSelection {
        labels,
        terms: own.terms,
    })
}

/// Returns a pod's node selection merged with those of its namespace and its RuntimeClass. `None` if the placement names an
/// operating system.
fn selector(cluster: &Cluster, namespace: &Name, placement: &Placement) -> Option<Name> {
    if placement.names.or(placement.required).is_some() {
        return None;
    }
    let in_namespace = in_namespace(cluster, namespace, placement);
    let class = placement.runtime_class.as_ref();
    let class = class.and_then(|name| cluster.runtime_classes.get(name));
    let class = class.filter(|class| !class.labels.is_empty());
    if in_namespace.is_none() && class.is_none() {
        return placement.selector.clone();
    }
    let own = placement
        .selector
        .as_deref()
        .map(from_text::<NodeSelection>);
    let mut all = in_namespace.or(own).unwrap_or_default();
    all.labels
        .extend(class.into_iter().flat_map(|class| class.labels.clone()));
    Some(to_text(&all))
}

type Nodes = HashMap<Name, (System, Labels)>;

/// Returns the labels, before and after, of the nodes that have changed.
fn changed<'a>(before: &'a Nodes, after: &'a Nodes) -> Vec<(&'a Name, &'a Labels)> {
    let differing = |nodes: &'a Nodes, others: &'a Nodes| {
        let nodes = nodes
            .iter()
            .filter(|(name, node)| others.get(*name) != Some(*node));
        nodes.map(|(name, (_, labels))| (name, labels))
    };
    differing(before, after)
        .chain(differing(after, before))
        .collect()
}

fn matched(selection: &NodeSelection, nodes: &Nodes) -> Matched {
    let mut found = Matched::default();
    for (name, (system, labels)) in nodes {
        match system {
            System::Windows => found.windows |= selection.matches(name, labels),
            System::Other => found.others |= selection.matches(name, labels),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Node, ObjectKey, Owner, WorkloadKind};

    fn node(system: &str, pool: &str) -> Node {
        Node {
            operating_system: system.to_owned(),
            labels: [("pool".into(), pool.into())].into(),
            ..Node::default()
        }
    }

    fn owner(pool: &str) -> Owner {
        let selection = NodeSelection {
            labels: [("pool".to_owned(), pool.to_owned())].into(),
            terms: None,
        };
        let selector = Some(to_text(&selection));
        let placement = Placement {
            selector,
            ..Placement::default()
        };
        Owner {
            placement,
            ..Owner::default()
        }
    }

    #[test]
    fn each_of_very_many_selectors_keeps_its_own_answer_while_it_is_in_use() {
        let mut cluster = Cluster::default();
        let key = |pool: usize| ObjectKey::new("shop", pool.to_string());
        for pool in 0..10_000 {
            let owners = &mut cluster.owners[WorkloadKind::Deployment];
            owners.apply(key(pool), owner(&pool.to_string()));
        }
        let mut memory = Memory::default();
        let asked = |memory: &mut Memory, cluster: &Cluster, pool: usize| {
            memory.learn(cluster);
            memory.asked(cluster, &"shop".into(), &owner(&pool.to_string()).placement)
        };
        cluster.nodes.apply("win-1".into(), node("windows", "7"));
        cluster.nodes.apply("linux-1".into(), node("linux", "9999"));
        assert_eq!(asked(&mut memory, &cluster, 7), Some(System::Windows));
        assert_eq!(asked(&mut memory, &cluster, 9_999), Some(System::Other));
        assert_eq!(asked(&mut memory, &cluster, 8), None);
        cluster.nodes.apply("win-1".into(), node("windows", "8"));
        assert_eq!(
            asked(&mut memory, &cluster, 7),
            Some(System::Windows),
            "kept"
        );
        assert_eq!(asked(&mut memory, &cluster, 8), Some(System::Windows));
        cluster.nodes.apply("win-1".into(), node("windows", "9999"));
        assert_eq!(asked(&mut memory, &cluster, 9_999), None, "of both systems");
        cluster.owners[WorkloadKind::Deployment].delete(&key(7));
        assert_eq!(asked(&mut memory, &cluster, 7), None, "no longer in use");
        assert_eq!(memory.answers.len(), 9_999);
    }

    #[test]
    fn a_node_that_is_gone_is_known_while_a_pod_names_it() {
        let mut cluster = Cluster::default();
        let mut memory = Memory::default();
        let pod = Pod {
            node_name: Some("win-1".into()),
            ..Pod::default()
        };
        let key = ObjectKey::new("shop", "web-0");
        cluster.nodes.apply("win-1".into(), node("windows", "1"));
        cluster.pods.apply(key.clone(), pod.clone());
        memory.learn(&cluster);
        cluster.nodes.delete(&"win-1".into());
        memory.learn(&cluster);
        let system = Some(System::Windows);
        let is_left_out = false;
        let known = Known {
            system,
            is_left_out,
        };
        assert_eq!(memory.node_of(&pod), Some(known));
        cluster.pods.delete(&key);
        memory.learn(&cluster);
        assert_eq!(memory.node_of(&pod), None);
    }
}
