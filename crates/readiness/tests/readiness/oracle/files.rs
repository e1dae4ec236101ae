//! What files evidently lack.

use super::cluster::{
    CLAIM, CSI_NODE, Cluster, Kind, NODE, PERSISTENT_VOLUME, POD, RUNTIME_CLASS, STORAGE_CLASS,
    field, list, name, namespace, nonempty, text,
};
use super::volumes::{Finding, NO_CLASS, backing, unattended};
use super::workloads::{self, OWNERS, Workload};
use serde_json::Value;

/// Whether the files lack what the verdict rests on. Removes the findings that follow only from that.
pub fn lacks_some(cluster: Cluster<'_>, findings: &mut Vec<Finding>) -> bool {
    let before = findings.len();
    findings.retain(|finding| !is_of_the_files(cluster, finding));
    let windows = super::windows_nodes(cluster);
    let mut of_nowhere = Vec::new();
    for workload in workloads::nowhere(cluster) {
        unattended(cluster, &workload, &mut of_nowhere);
    }
    let has_in_tree = |workload: &Workload<'_>| {
        let volumes = unattended(cluster, workload, &mut Vec::new());
        volumes
            .iter()
            .any(|(_, found)| found.backing.plugin.is_some())
    };
    let has_none = |kind: Kind| cluster.of(kind).next().is_none();
    let is_placed_elsewhere = |workload: &Workload<'_>| {
        nonempty(workload.spec, &["runtimeClassName"]).is_some() && has_none(RUNTIME_CLASS)
    };
    let unplaced = workloads::unplaced(cluster);
    let mut unplaced = unplaced.iter().filter(|it| is_placed_elsewhere(it));
    let is_used = OWNERS.into_iter().chain([POD]).any(|kind| !has_none(kind));
    findings.len() < before
        || of_nowhere.iter().any(|it| is_of_the_files(cluster, it))
        || unplaced.any(has_in_tree)
        || cluster.of(CSI_NODE).any(|it| has_lost_node(cluster, it))
        || !is_used && cluster.of(PERSISTENT_VOLUME).any(is_in_use)
        || !windows.is_empty() && cluster.of(CSI_NODE).next().is_none()
        || cluster
            .of(PERSISTENT_VOLUME)
            .any(|volume| is_of_what_is_not_there(cluster, volume))
}

/// Whether a finding follows only from what files do not have.
fn is_of_the_files(cluster: Cluster<'_>, (code, object): &Finding) -> bool {
    match *code {
        "PersistentVolumeClaimNotFound" => {
            let its = object.split('/').nth(1);
            !cluster.of(CLAIM).any(|claim| Some(namespace(claim)) == its)
        }
        "PersistentVolumeNotFound" => cluster.of(PERSISTENT_VOLUME).next().is_none(),
        "StorageClassNotFound" | NO_CLASS => cluster.of(STORAGE_CLASS).next().is_none(),
        _ => false,
    }
}

fn has_lost_node(cluster: Cluster<'_>, csi_node: &Value) -> bool {
    let owners = list(csi_node, &["metadata", "ownerReferences"]);
    let mut owners = owners.iter().filter(|owner| owner["kind"] == "Node");
    owners.any(|owner| nonempty(owner, &["uid"]).is_some())
        && cluster.get(NODE, "", name(csi_node)).is_none()
}

/// Whether an in-tree volume is bound to a claim.
fn is_in_use(volume: &Value) -> bool {
    let backing = field(volume, &["spec"]).and_then(backing);
    backing.is_some_and(|it| it.plugin.is_some())
        && text(volume, &["status", "phase"]) == Some("Bound")
        && text(volume, &["spec", "claimRef", "namespace"]).is_some()
        && text(volume, &["spec", "claimRef", "name"]).is_some()
}

/// Whether a volume is bound into a namespace of which there is nothing, or is in-tree and bound to a claim that is not there.
fn is_of_what_is_not_there(cluster: Cluster<'_>, volume: &Value) -> bool {
    let claim = |part: &str| text(volume, &["spec", "claimRef", part]);
    let (Some(in_namespace), Some(name)) = (claim("namespace"), claim("name")) else {
        return false;
    };
    let Some(backing) = field(volume, &["spec"]).and_then(backing) else {
        return false;
    };
    let is_empty = !cluster.0.iter().any(|it| namespace(it) == in_namespace);
    let is_lost = cluster.get(CLAIM, in_namespace, name).is_none();
    text(volume, &["status", "phase"]) == Some("Bound")
        && (is_empty || backing.plugin.is_some() && is_lost)
}
