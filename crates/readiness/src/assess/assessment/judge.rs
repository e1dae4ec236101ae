//! What one workload comes to: whether it is a Windows workload, whom it stands for, what it needs.

use crate::assess::assessment::needs::Uses;
use crate::assess::assessment::ownership::Controlled;
use crate::assess::assessment::{Assessment, Dependency, Entry, NodeKind};
use crate::assess::volumes::{self, Lookup, Resolution};
use crate::index::{Cluster, Name, Owner, Pod, WindowsRequest, WorkloadKey};

impl Assessment {
    pub(super) fn judge_pod(&self, cluster: &Cluster, key: &WorkloadKey, pod: &Pod) -> Entry {
        let mut entry = Entry::default();
        let kind = match &pod.node_name {
            Some(node) => {
                entry.dependencies.push(Dependency::Node(node.clone()));
                NodeKind::of(cluster.nodes.get(node))
            }
            None => unbound_kind(cluster, &pod.request, &mut entry.dependencies),
        };
        if pod.driver.is_some() || !pod.csi_proxy_pipes.is_empty() {
            entry.concerns.clone_from(&pod.node_name);
        }
        if kind != NodeKind::Other {
            entry.stands_for.clone_from(&pod.controller);
        }
        if kind == NodeKind::Windows {
            let found = volumes::resolve(self.lookup(cluster), key, &pod.volumes, &[]);
            entry.take(found, pod.node_name.clone());
        }
        entry
    }

    pub(super) fn judge_owner(&self, cluster: &Cluster, key: &WorkloadKey, owner: &Owner) -> Entry {
        let mut entry = Entry::default();
        let kind = unbound_kind(cluster, &owner.request, &mut entry.dependencies);
        if kind != NodeKind::Windows || owner.finished {
            return entry;
        }
        let controlled = self.ownership.controlled(key);
        if controlled == Controlled::WithoutEnd {
            entry.findings.push(finding!(
                OWNER_CIRCLE,
                key.to_string(),
                "the controllers of {key} control each other in a circle, or their chain is too long; it is judged on \
                 its own. Correct metadata.ownerReferences"
            ));
        }
        let stands_back = controlled == Controlled::Yes && key.kind.yields_to_its_controller();
        if stands_back || self.ownership.has_standing(key) {
            return entry;
        }
        let found = volumes::resolve(
            self.lookup(cluster),
            key,
            &owner.volumes,
            &owner.claim_templates,
        );
        entry.take(found, None);
        entry
    }

    fn lookup<'a>(&'a self, cluster: &'a Cluster) -> Lookup<'a> {
        Lookup {
            cluster,
            default_class: self.default_class.as_ref(),
            registered: &self.registered,
        }
    }
}

/// What an unbound pod, or one that a template would make, is: that depends on its RuntimeClass as well.
fn unbound_kind(
    cluster: &Cluster,
    request: &WindowsRequest,
    dependencies: &mut Vec<Dependency>,
) -> NodeKind {
    if let Some(class) = &request.runtime_class {
        dependencies.push(Dependency::RuntimeClass(class.clone()));
    }
    if cluster.asks_for_windows(request) {
        NodeKind::Windows
    } else {
        NodeKind::Other
    }
}

impl Entry {
    fn take(&mut self, found: Resolution, node: Option<Name>) {
        self.findings.extend(found.findings);
        self.dependencies.extend(found.dependencies);
        self.uses = Uses {
            node,
            rows: found.rows,
        };
    }
}
