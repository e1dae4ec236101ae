//! What files evidently lack, as a must-gather without the workloads' namespaces does, or lists of which a kind was forgotten.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::{
    AnyTable, Cluster, CsiNode, Name, ObjectKey, PersistentVolume, ReadFrom, Unread, VolumeType,
    WorkloadKind, list,
};

/// The kinds that volumes of Windows workloads refer to and of which files have nothing, each with the first such volume and
/// what to add.
pub type Lacking = BTreeMap<&'static str, String>;

pub const CLAIMS: &str = "PersistentVolumeClaim";
pub const VOLUMES: &str = "PersistentVolume";
pub const CLASSES: &str = "StorageClass";
pub const NODES: &str = "Node";
pub const RUNTIME_CLASSES: &str = "RuntimeClass";

/// Returns what files evidently lack. What was read of an API server, or has a must-gather's record, is known to be complete.
pub fn find(cluster: &Cluster, windows: &BTreeSet<Name>, lacking: &Lacking) -> Vec<Unread> {
    if cluster.read_from == ReadFrom::Api {
        return Vec::new();
    }
    let lacks_csi_nodes = !windows.is_empty() && lacks_csi_nodes(cluster);
    let csi_nodes = lacks_csi_nodes.then(|| {
        "the files have no CSINode; add the output of kubectl get csinodes -o yaml".to_owned()
    });
    let unseen = [
        ("CSINode", csi_nodes),
        (CLAIMS, unseen_claim(cluster)),
        (NODES, unseen_node(cluster)),
        ("Pod", unseen_workloads(cluster)),
    ];
    let lacking = lacking
        .iter()
        .map(|(kind, problem)| (*kind, Some(problem.clone())));
    let all = lacking.chain(unseen);
    all.filter_map(|(kind, problem)| Some(Unread::new(kind, problem?)))
        .collect()
}

/// Whether the input is files without any CSINode, so that a missing one proves nothing.
pub fn lacks_csi_nodes(cluster: &Cluster) -> bool {
    cluster.read_from == ReadFrom::Files && cluster.csi_nodes.is_empty()
}

/// Returns a Node that files lack, as its CSINode shows.
fn unseen_node(cluster: &Cluster) -> Option<String> {
    let mut csi_nodes = cluster.csi_nodes.iter();
    let is_lost = |(name, csi_node): &(&Name, &CsiNode)| {
        cluster.nodes.get(*name).is_none() && csi_node.node_uid.is_some()
    };
    let (name, _) = csi_nodes.find(is_lost)?;
    Some(format!(
        "CSINode {name} is of a Node that the files do not have; add the output of kubectl get nodes -o yaml"
    ))
}

/// Returns the volumes that are bound to a claim.
fn bound(cluster: &Cluster) -> impl Iterator<Item = (&Name, &PersistentVolume, &ObjectKey)> {
    let volumes = cluster.volumes.iter();
    volumes.filter_map(|(name, volume)| Some((name, volume, volume.bound_to.as_ref()?)))
}

fn is_in_tree(volume: &PersistentVolume) -> bool {
    let source = volume.source.as_ref();
    source.and_then(VolumeType::plugin).is_some()
}

/// Returns an in-tree volume that is in use, where files have nothing that could use it.
fn unseen_workloads(cluster: &Cluster) -> Option<String> {
    let absent = &cluster.absent_kinds;
    if !WorkloadKind::ALL
        .iter()
        .all(|kind| absent.contains(kind.as_str()))
    {
        return None;
    }
    let (name, _, claim) = bound(cluster).find(|(_, volume, _)| is_in_tree(volume))?;
    Some(format!(
        "PersistentVolume {name} is bound to the claim {claim}, and the files have no workload at all; add the output of kubectl \
         get -A -o yaml pods,deploy,rs,sts,ds,rc,jobs,cronjobs"
    ))
}

/// Returns the claim that a volume is bound to and that shows what files lack: all of its namespace or, for an in-tree volume,
/// itself. The workloads that use it may be missing as well.
fn unseen_claim(cluster: &Cluster) -> Option<String> {
    let absent = &cluster.absent_namespaces;
    let in_absent = bound(cluster).find(|(_, _, claim)| absent.contains(&claim.namespace));
    if let Some((name, _, claim)) = in_absent {
        return Some(format!(
            "PersistentVolume {name} is bound to the claim {claim}, and the files have no object of namespace {}; add the \
             output of kubectl get -A -o yaml pvc,pods,deploy,rs,sts,ds,rc,jobs,cronjobs",
            list(absent)
        ));
    }
    let is_lost = |claim: &ObjectKey| cluster.claims.get(claim).is_none();
    let mut bound = bound(cluster);
    let (name, _, claim) = bound.find(|(_, volume, claim)| is_in_tree(volume) && is_lost(claim))?;
    Some(format!(
        "PersistentVolume {name} is bound to the claim {claim}, which the files do not have; add the output of kubectl get \
         pvc -A -o yaml"
    ))
}
