//! What files evidently lack.

use super::cluster::{
    CLAIM, CSI_NODE, Cluster, PERSISTENT_VOLUME, STORAGE_CLASS, field, namespace, text,
};
use super::volumes::{Finding, NO_CLASS, backing};
use serde_json::Value;

/// Whether the files lack what the verdict rests on. Removes the findings that follow only from that.
pub fn lacks_some(cluster: Cluster<'_>, findings: &mut Vec<Finding>) -> bool {
    let before = findings.len();
    findings.retain(|(code, object)| match *code {
        "PersistentVolumeClaimNotFound" => {
            let its = object.split('/').nth(1);
            cluster.of(CLAIM).any(|claim| Some(namespace(claim)) == its)
        }
        "PersistentVolumeNotFound" => cluster.of(PERSISTENT_VOLUME).next().is_some(),
        "StorageClassNotFound" | NO_CLASS => cluster.of(STORAGE_CLASS).next().is_some(),
        _ => true,
    });
    let windows = super::windows_nodes(cluster);
    findings.len() < before
        || !windows.is_empty() && cluster.of(CSI_NODE).next().is_none()
        || cluster
            .of(PERSISTENT_VOLUME)
            .any(|volume| is_of_what_is_not_there(cluster, volume))
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
