//! Derives the operating system of workloads that only have a node selector.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::assess::NodeSelection;
use crate::assess::assessment::Dependency;
use crate::index::{Labels, Name, Node, System};

/// The existing nodes with their labels, and the operating system that each selector determines.
#[derive(Clone, Debug, Default)]
pub struct Systems {
    nodes: HashMap<Name, (System, Labels)>,
    selectors: HashMap<Name, Selector>,
    /// The number of Windows nodes, including ignored ones and those being deleted.
    windows: usize,
}

/// A selector that some workload uses.
#[derive(Clone, Debug, Default)]
struct Selector {
    selection: NodeSelection,
    /// The number of matching Windows nodes.
    windows: usize,
    /// The number of other matching nodes.
    others: usize,
    answer: Option<System>,
}

impl Selector {
    /// Returns the counter for an operating system.
    fn count(&mut self, system: System) -> &mut usize {
        match system {
            System::Windows => &mut self.windows,
            System::Other => &mut self.others,
        }
    }

    /// Updates the answer and returns whether it changed. A selector that no longer matches any node keeps its answer, so
    /// that scaling a node pool to zero changes nothing.
    fn settle(&mut self) -> bool {
        let answer = match (self.windows, self.others) {
            (0, 0) => self.answer,
            (_, 0) => Some(System::Windows),
            (0, _) => Some(System::Other),
            _ => None,
        };
        std::mem::replace(&mut self.answer, answer) != answer
    }
}

impl Systems {
    /// Whether any node runs Windows, including ignored ones and those being deleted.
    pub fn has_windows(&self) -> bool {
        self.windows > 0
    }

    /// Updates an added, changed or removed node. Returns the dependencies whose answer changed.
    pub fn node_changed(&mut self, name: &Name, node: Option<&Node>) -> Vec<Dependency> {
        let new = node.and_then(|node| Some((node.system()?, node.labels.clone())));
        let old = match new.clone() {
            Some(new) => self.nodes.insert(name.clone(), new),
            None => self.nodes.remove(name),
        };
        let mut changed = Vec::new();
        if old == new {
            return changed;
        }
        let had_windows = self.has_windows();
        let runs_windows = |node: &Option<(System, Labels)>| {
            let node = node.as_ref();
            usize::from(node.is_some_and(|(system, _)| *system == System::Windows))
        };
        self.windows = self.windows + runs_windows(&new) - runs_windows(&old);
        if self.has_windows() != had_windows {
            changed.push(Dependency::AnyWindows);
        }
        for (text, selector) in &mut self.selectors {
            let matched = |node: &Option<(System, Labels)>| {
                let (system, labels) = node.as_ref()?;
                selector.selection.matches(name, labels).then_some(*system)
            };
            let (was, is) = (matched(&old), matched(&new));
            if was == is {
                continue;
            }
            if let Some(system) = was {
                *selector.count(system) -= 1;
            }
            if let Some(system) = is {
                *selector.count(system) += 1;
            }
            if selector.settle() {
                changed.push(Dependency::Selector(text.clone()));
            }
        }
        changed
    }

    /// Returns the operating system of all nodes that the selector matches, and starts to track the selector.
    pub fn answer(&mut self, text: &Name) -> Option<System> {
        match self.selectors.entry(text.clone()) {
            Entry::Occupied(known) => known.get().answer,
            Entry::Vacant(entry) => {
                let mut selector = Selector {
                    selection: NodeSelection::from_text(text),
                    ..Selector::default()
                };
                for (name, (system, labels)) in &self.nodes {
                    if selector.selection.matches(name, labels) {
                        *selector.count(*system) += 1;
                    }
                }
                selector.settle();
                entry.insert(selector).answer
            }
        }
    }

    /// Returns the answer for a selector that is already tracked.
    pub fn known_answer(&self, text: &Name) -> Option<System> {
        self.selectors.get(text)?.answer
    }

    /// Stops tracking a selector that no workload uses.
    pub fn forget(&mut self, text: &Name) {
        self.selectors.remove(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a node with this operating system and these labels, in order.
    fn node(system: &str, labels: &[(&str, &str)]) -> Node {
        let labels = labels.iter();
        Node {
            operating_system: system.to_owned(),
            labels: labels
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
            ..Node::default()
        }
    }

    fn selector(label: &str, value: &str) -> Name {
        let selection = NodeSelection {
            labels: [(label.to_owned(), value.to_owned())].into(),
            terms: None,
        };
        selection.to_text().into()
    }

    #[test]
    fn each_of_very_many_selectors_has_its_own_answer() {
        let mut systems = Systems::default();
        let pools: Vec<Name> = (0..10_000)
            .map(|number| selector("pool", &number.to_string()))
            .collect();
        let windows = Name::from("win-1");
        systems.node_changed(&windows, Some(&node("windows", &[("pool", "7")])));
        systems.node_changed(&"linux-1".into(), Some(&node("linux", &[("pool", "9999")])));
        for (number, pool) in pools.iter().enumerate() {
            let answer = match number {
                7 => Some(System::Windows),
                9_999 => Some(System::Other),
                _ => None,
            };
            assert_eq!(systems.answer(pool), answer, "{pool}");
        }
        let changed = systems.node_changed(&windows, Some(&node("windows", &[("pool", "8")])));
        assert_eq!(changed, [Dependency::Selector(pools[8].clone())]);
        let changed = systems.node_changed(&windows, Some(&node("windows", &[("pool", "9999")])));
        assert_eq!(changed, [Dependency::Selector(pools[9_999].clone())]);
        for pool in &pools {
            systems.forget(pool);
        }
        assert!(systems.selectors.is_empty());
    }
}
