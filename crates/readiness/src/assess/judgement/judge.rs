//! Assesses one workload: whether it is a Windows workload, which owner it represents, which drivers it needs.

use crate::assess::NodeSelection;
use crate::assess::assessment::needs::Uses;
use crate::assess::assessment::{Assessment, Dependency, Entry, NodeKind};
use crate::assess::volumes::{self, Lookup};
use crate::index::{Cluster, Name, Owner, Placement, Pod, System, WorkloadKey, intern};

impl Assessment {
    pub(super) fn judge_pod(&mut self, cluster: &Cluster, key: &WorkloadKey, pod: &Pod) -> Entry {
        let mut entry = Entry::default();
        if pod.driver.is_some() || !pod.csi_proxy_pipes.is_empty() {
            entry.concerns.clone_from(&pod.node_name);
        }
        let kind = self.kind_of(cluster, pod, &mut entry.dependencies);
        if kind != NodeKind::Windows && kind != NodeKind::Ignored {
            return entry;
        }
        let found = volumes::resolve(self.lookup(cluster), key, &pod.volumes, &[]);
        entry.dependencies.extend(found.dependencies);
        entry.controller.clone_from(&pod.controller);
        if kind == NodeKind::Ignored {
            entry.out_of_sight = found.rows;
            return entry;
        }
        entry.findings = found.findings;
        entry.uses = Uses {
            node: pod.node_name.clone(),
            rows: found.rows,
        };
        entry
    }

    /// Returns the kind of the node that a pod is bound to or would be scheduled on.
    fn kind_of(
        &mut self,
        cluster: &Cluster,
        pod: &Pod,
        dependencies: &mut Vec<Dependency>,
    ) -> NodeKind {
        if let Some(node) = &pod.node_name {
            dependencies.push(Dependency::Node(node.clone()));
            if let Some(kind) = self.nodes.get(node) {
                return *kind;
            }
        }
        let asked = self.ask(cluster, &pod.placement, dependencies);
        // The node was already deleted when the pod was read, so its operating system is unknown.
        if asked.is_none() && pod.node_name.is_some() {
            dependencies.push(Dependency::AnyWindows);
            if self.systems.has_windows() {
                return NodeKind::Windows;
            }
        }
        match asked {
            Some(System::Windows) => NodeKind::Windows,
            _ => NodeKind::Other,
        }
    }

    pub(super) fn judge_owner(
        &mut self,
        cluster: &Cluster,
        key: &WorkloadKey,
        owner: &Owner,
    ) -> Entry {
        let mut entry = Entry::default();
        let asked = self.ask(cluster, &owner.placement, &mut entry.dependencies);
        if asked != Some(System::Windows) || owner.finished {
            return entry;
        }
        if self.ownership.is_without_end(key) {
            entry.findings.push(finding!(
                OWNER_CIRCLE,
                key.to_string(),
                "the controllers of {key} control each other in a circle, or their chain is too long. Correct \
                 metadata.ownerReferences"
            ));
        }
        if self.ownership.has_maker(key) || self.ownership.is_old_revision(key) {
            return entry;
        }
        let mut found = volumes::resolve(
            self.lookup(cluster),
            key,
            &owner.volumes,
            &owner.claim_templates,
        );
        self.ownership.retain_unattended(key, &mut found.rows);
        entry.dependencies.extend(found.dependencies);
        entry.findings.extend(found.findings);
        entry.uses.rows = found.rows;
        entry
    }

    /// Returns the operating system that a placement asks for, and records the dependencies. See [`asked`](Self::asked).
    fn ask(
        &mut self,
        cluster: &Cluster,
        placement: &Placement,
        dependencies: &mut Vec<Dependency>,
    ) -> Option<System> {
        let selector = selector(cluster, placement);
        if let Some(selector) = &selector {
            self.systems.answer(selector);
        }
        dependencies.extend(depends_on(placement, selector));
        self.asked(cluster, placement)
    }

    /// Returns the operating system that an assessed object's placement asks for: the first constraint that determines one
    /// wins.
    #[must_use]
    pub fn asked(&self, cluster: &Cluster, placement: &Placement) -> Option<System> {
        let class = |name: &Name| cluster.runtime_classes.get(name)?.names;
        let node = |name: &Name| self.nodes.get(name)?.system();
        let selected = || self.systems.known_answer(&selector(cluster, placement)?);
        let names = placement.names;
        names
            .or_else(|| placement.runtime_class.as_ref().and_then(class))
            .or_else(|| placement.node.as_ref().and_then(node))
            .or_else(selected)
    }

    fn lookup<'a>(&'a self, cluster: &'a Cluster) -> Lookup<'a> {
        Lookup {
            cluster,
            default_class: self.default_class.as_ref(),
            registered: &self.registered,
        }
    }
}

/// Returns the dependencies of [`Assessment::asked`]. There are none if the placement itself names an operating system.
fn depends_on(placement: &Placement, selector: Option<Name>) -> impl Iterator<Item = Dependency> {
    let class = placement.runtime_class.clone();
    let class = class.map(Dependency::RuntimeClass);
    let node = placement.node.clone().map(Dependency::Node);
    let all = [class, node, selector.map(Dependency::Selector)];
    let names = placement.names;
    all.into_iter().flatten().filter(move |_| names.is_none())
}

/// Returns the pod's node selection merged with its RuntimeClass's. `None` if the placement names an operating system.
fn selector(cluster: &Cluster, placement: &Placement) -> Option<Name> {
    if placement.names.is_some() {
        return None;
    }
    let own = placement.selector.as_ref();
    let class = placement.runtime_class.as_ref();
    let class = class.and_then(|name| cluster.runtime_classes.get(name));
    let Some(class) = class.filter(|class| !class.selector.is_empty()) else {
        return own.cloned();
    };
    let own = own.map(|own| NodeSelection::from_text(own));
    let mut both = own.unwrap_or_default();
    both.labels.extend(class.selector.clone());
    Some(intern(&both.to_text()))
}
