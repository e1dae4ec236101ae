//! Judges each workload: whether it is a Windows workload, which owner it represents, which volumes it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::assess::judgement::memory::Memory;
use crate::assess::judgement::ownership::Ownership;
use crate::assess::partial::{self, Lacking};
use crate::assess::volumes::{Resolver, Used};
use crate::index::{Cluster, ObjectKey, Owner, Placement, Pod, System, WorkloadKey};
use crate::visible::some_of;

/// How many names a message lists before it counts the rest.
const NAMED: usize = 10;

/// Returns the Windows workloads of the cluster, and what files have nothing of that they use.
pub fn workloads(cluster: &Cluster, memory: &Memory) -> (BTreeMap<WorkloadKey, Used>, Lacking) {
    let mut workloads = Workloads {
        cluster,
        memory,
        has_windows: cluster.nodes.iter().any(|(_, node)| node.runs_windows()),
        resolver: Resolver::of(cluster),
        ownership: Ownership::of(cluster),
        used: BTreeMap::new(),
        lacking: Lacking::new(),
    };
    for (key, pod) in cluster.pods.iter() {
        workloads.add_pod(key, pod);
    }
    workloads.ownership.climb();
    for (kind, key, owner) in cluster.owners.iter() {
        let object = key.clone();
        workloads.add_owner(WorkloadKey { object, kind }, owner);
    }
    (workloads.used, workloads.lacking)
}

struct Workloads<'a> {
    cluster: &'a Cluster,
    memory: &'a Memory,
    /// Whether a node runs Windows.
    has_windows: bool,
    resolver: Resolver<'a>,
    ownership: Ownership<'a>,
    used: BTreeMap<WorkloadKey, Used>,
    lacking: Lacking,
}

impl Workloads<'_> {
    fn add_pod(&mut self, key: &ObjectKey, pod: &Pod) {
        let ObjectKey { namespace, .. } = key;
        let asked = || self.memory.asked(self.cluster, namespace, &pod.placement);
        let node = self.memory.node_of(pod);
        let system = match node {
            Some(known) => known.system,
            // The node was already deleted when the pod was read, so its operating system is unknown.
            None => asked().or_else(|| {
                let may_be = pod.node_name.is_some() && self.has_windows;
                may_be.then_some(System::Windows)
            }),
        };
        let workload = WorkloadKey::pod(key.clone());
        let found = || self.resolver.resolve(&workload, &pod.volumes, &[]);
        if system != Some(System::Windows) {
            // A pod on another node, or one whose owner is judged in its place, is not looked at.
            let is_free = pod.node_name.is_none() && !self.ownership.has_owner(namespace, pod);
            if is_free && asked().is_none() {
                let found = self.unplaced(&workload, &pod.placement, found);
                self.insert(workload, found);
            }
            return;
        }
        let mut found = found();
        let controller = pod.controller.as_ref();
        self.ownership.stand(namespace, controller, &found.rows);
        if node.is_none_or(|known| !known.is_left_out) {
            found.node.clone_from(&pod.node_name);
            self.insert(workload, found);
        }
    }

    fn add_owner(&mut self, workload: WorkloadKey, owner: &Owner) {
        let namespace = &workload.object.namespace;
        let asked = self.memory.asked(self.cluster, namespace, &owner.placement);
        let ownership = &self.ownership;
        if owner.finished
            || asked == Some(System::Other)
            || ownership.has_maker(&workload, owner)
            || ownership.is_old_revision(&workload, owner)
        {
            return;
        }
        let found = || {
            let (volumes, templates) = (&owner.volumes, &owner.claim_templates);
            let mut found = self.resolver.resolve(&workload, volumes, templates);
            ownership.retain_unattended(&workload, owner, &mut found.rows);
            found
        };
        let found = match asked {
            Some(_) => found(),
            None => self.unplaced(&workload, &owner.placement, found),
        };
        self.insert(workload, found);
    }

    /// Judges a workload of which neither a constraint nor a node says on which operating system it runs: reports its in-tree
    /// volumes if its selector matches no node, and what files lack that would say where it runs. Its volumes do not count.
    fn unplaced(
        &self,
        workload: &WorkloadKey,
        placement: &Placement,
        found: impl FnOnce() -> Used,
    ) -> Used {
        let namespace = &workload.object.namespace;
        let selection = self
            .memory
            .matches_nothing(self.cluster, namespace, placement);
        // A class that files do not have may send the pods to Windows nodes.
        let lacks_class = self.cluster.absent_kinds.contains(partial::RUNTIME_CLASSES);
        let class = placement.runtime_class.as_ref().filter(|_| lacks_class);
        let mut unplaced = Used::default();
        if selection.is_none() && class.is_none() {
            return unplaced;
        }
        let found = found();
        let in_tree = found.rows.iter().filter(|row| row.plugin().is_some());
        let volumes: BTreeSet<&str> = in_tree.map(|row| row.volume.as_str()).collect();
        if let Some(selection) = selection {
            if !volumes.is_empty() {
                unplaced.findings.push(finding!(
                    PLACEMENT_UNKNOWN,
                    workload.to_string(),
                    "{workload} uses in-tree volumes ({}) and selects nodes by {selection}, but there is no such node: whether they \
                     run Windows is unknown, and the volumes do not count. If they do, add kubernetes.io/os: windows to the node \
                     selector of the workload",
                    some_of(volumes, NAMED)
                ));
            }
            unplaced.lacking = found.lacking;
        } else if let Some(class) = class.filter(|_| !volumes.is_empty()) {
            let problem = format!(
                "{workload} uses in-tree volumes, and its RuntimeClass {class} may place it on Windows nodes; add the output of \
                 kubectl get runtimeclasses -o yaml"
            );
            unplaced.lacking.insert(partial::RUNTIME_CLASSES, problem);
        }
        unplaced
    }

    fn insert(&mut self, workload: WorkloadKey, mut found: Used) {
        for (kind, problem) in mem::take(&mut found.lacking) {
            self.lacking.entry(kind).or_insert(problem);
        }
        if !found.rows.is_empty() || !found.findings.is_empty() {
            found.rows.shrink_to_fit();
            found.findings.shrink_to_fit();
            self.used.insert(workload, found);
        }
    }
}
