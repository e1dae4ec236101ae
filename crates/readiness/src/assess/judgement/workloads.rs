//! Judges each workload: whether it is a Windows workload, which owner it represents, which volumes it uses.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::assess::judgement::memory::{Memory, NodeKind};
use crate::assess::judgement::ownership::Ownership;
use crate::assess::partial::{self, Lacking};
use crate::assess::report::Finding;
use crate::assess::volumes::{self, Lookup, Resolution, Resolved};
use crate::index::{
    Cluster, Name, NodeSelection, ObjectKey, Owner, Placement, Pod, System, WorkloadKey,
};
use crate::visible::some_of;

/// How many names a message lists before it counts the rest.
const NAMED: usize = 10;

/// A Windows workload with volumes that need a driver or are in-tree, or with findings.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// The Windows node that the workload is bound to.
    pub node: Option<Name>,
    /// The workload's volumes, sorted by volume and claim.
    pub rows: Vec<Resolved>,
    /// What is wrong with its other volumes.
    pub findings: Vec<Finding>,
}

/// Returns the Windows workloads of the cluster, and what files have nothing of that they use.
pub fn workloads(cluster: &Cluster, memory: &Memory) -> (BTreeMap<WorkloadKey, Used>, Lacking) {
    let has_windows = cluster.nodes.iter().any(|(_, node)| node.runs_windows());
    let csi_nodes = cluster.csi_nodes.iter();
    let registered: HashSet<&Name> = csi_nodes.flat_map(|(_, it)| it.drivers.iter()).collect();
    let mut bound = HashMap::new();
    for (name, volume) in cluster.volumes.iter() {
        if let Some(claim) = &volume.bound_to {
            bound.entry(claim).or_insert(name);
        }
    }
    let lookup = Lookup {
        cluster,
        default_class: default_class(cluster),
        registered: &registered,
        bound: &bound,
    };
    let mut ownership = Ownership::of(cluster);
    let (mut used, mut lacking) = (BTreeMap::new(), Lacking::new());
    for (key, pod) in cluster.pods.iter() {
        let kind = kind_of(cluster, memory, has_windows, key, pod);
        let is_of_windows = matches!(kind, NodeKind::Windows | NodeKind::Ignored);
        // A pod on another node, or one whose owner is judged in its place.
        if !is_of_windows && (pod.node_name.is_some() || ownership.has_owner(&key.namespace, pod)) {
            continue;
        }
        let workload = WorkloadKey::pod(key.clone());
        let found = || volumes::resolve(lookup, &workload, &pod.volumes, &[]);
        if !is_of_windows {
            let asked = memory.asked(cluster, &key.namespace, &pod.placement);
            if asked.is_none() {
                let found = unplaced(cluster, memory, &workload, &pod.placement, found);
                insert(&mut lacking, &mut used, workload, None, found);
            }
            continue;
        }
        let found = found();
        ownership.stand(&key.namespace, pod.controller.as_ref(), &found.rows);
        if kind == NodeKind::Windows {
            let node = pod.node_name.clone();
            insert(&mut lacking, &mut used, workload, node, found);
        }
    }
    ownership.climb();
    for (kind, key, owner) in cluster.owners.iter() {
        if owner.finished {
            continue;
        }
        let object = key.clone();
        let workload = WorkloadKey { object, kind };
        let judge = || judge_owner(lookup, &ownership, &workload, owner);
        let found = match memory.asked(cluster, &key.namespace, &owner.placement) {
            Some(System::Windows) => judge(),
            Some(System::Other) => continue,
            None => unplaced(cluster, memory, &workload, &owner.placement, judge),
        };
        insert(&mut lacking, &mut used, workload, None, found);
    }
    (used, lacking)
}

/// Judges a workload of which neither a constraint nor a node says on which operating system it runs: reports its in-tree
/// volumes if its selector matches no node, and what files lack that would say where it runs. Its volumes do not count.
fn unplaced(
    cluster: &Cluster,
    memory: &Memory,
    workload: &WorkloadKey,
    placement: &Placement,
    found: impl FnOnce() -> Resolution,
) -> Resolution {
    let mut unplaced = Resolution::default();
    if let Some(nowhere) = memory.matches_nothing(cluster, &workload.object.namespace, placement) {
        let found = found();
        let unknown = placement_unknown(workload, nowhere, &found.rows);
        unplaced.findings.extend(unknown);
        unplaced.lacking = found.lacking;
    } else if let Some(class) = &placement.runtime_class
        // A class that files do not have may send the pods to Windows nodes.
        && cluster.absent_kinds.contains(partial::RUNTIME_CLASSES)
        && found().rows.iter().any(|row| row.plugin().is_some())
    {
        let problem = format!(
            "{workload} uses in-tree volumes, and its RuntimeClass {class} may place it on Windows nodes; add the output of \
             kubectl get runtimeclasses -o yaml"
        );
        unplaced.lacking.insert(partial::RUNTIME_CLASSES, problem);
    }
    unplaced
}

fn insert(
    lacking: &mut Lacking,
    used: &mut BTreeMap<WorkloadKey, Used>,
    workload: WorkloadKey,
    node: Option<Name>,
    mut found: Resolution,
) {
    for (kind, problem) in found.lacking {
        lacking.entry(kind).or_insert(problem);
    }
    if found.rows.is_empty() && found.findings.is_empty() {
        return;
    }
    found.rows.shrink_to_fit();
    found.findings.shrink_to_fit();
    let of_it = Used {
        node,
        rows: found.rows,
        findings: found.findings,
    };
    used.insert(workload, of_it);
}

/// Returns the kind of the node that a pod is bound to or would be scheduled on.
fn kind_of(
    cluster: &Cluster,
    memory: &Memory,
    has_windows: bool,
    key: &ObjectKey,
    pod: &Pod,
) -> NodeKind {
    if let Some(kind) = memory.node_of(pod) {
        return kind;
    }
    match memory.asked(cluster, &key.namespace, &pod.placement) {
        Some(System::Windows) => NodeKind::Windows,
        // The node was already deleted when the pod was read, so its operating system is unknown.
        None if pod.node_name.is_some() && has_windows => NodeKind::Windows,
        _ => NodeKind::Other,
    }
}

/// Reports the in-tree volumes of a workload whose selector matches no node.
fn placement_unknown(
    workload: &WorkloadKey,
    selection: &NodeSelection,
    rows: &[Resolved],
) -> Option<Finding> {
    let in_tree = rows.iter().filter(|row| row.plugin().is_some());
    let volumes: BTreeSet<&str> = in_tree.map(|row| row.volume.as_str()).collect();
    if volumes.is_empty() {
        return None;
    }
    let volumes = some_of(volumes, NAMED);
    Some(finding!(
        PLACEMENT_UNKNOWN,
        workload.to_string(),
        "{workload} uses in-tree volumes ({volumes}) and selects nodes by {selection}, but there is no such node: whether \
         they run Windows is unknown, and the volumes do not count. If they do, add kubernetes.io/os: windows to the node \
         selector of the workload"
    ))
}

fn judge_owner(
    lookup: Lookup<'_>,
    ownership: &Ownership<'_>,
    key: &WorkloadKey,
    owner: &Owner,
) -> Resolution {
    let mut found = Resolution::default();
    if !(ownership.has_maker(key, owner) || ownership.is_old_revision(key, owner)) {
        found = volumes::resolve(lookup, key, &owner.volumes, &owner.claim_templates);
        ownership.retain_unattended(key, owner, &mut found.rows);
    }
    found
}

/// Returns the default class. Of several, Kubernetes takes the newest, then the first by name.
fn default_class(cluster: &Cluster) -> Option<&Name> {
    let classes = cluster.classes.iter();
    classes
        .filter(|(_, class)| class.is_default)
        .min_by_key(|(name, class)| (Reverse(class.created), *name))
        .map(|(name, _)| name)
}
