//! Describes objects in sentences.

use crate::api::WindowsNodeStorageStatus;
use crate::assess::report::NodeReadiness;
use crate::index::{Cluster, LeftOut, Node, ObjectKey, Pod, PodVolume, PodVolumeSource};
use crate::report::sentences::{as_sentence, names};
use crate::status::{CSI_PROXY_READY, find};

/// Returns a claim's name as in findings.
pub fn finding_object(claim: &ObjectKey) -> String {
    format!("PersistentVolumeClaim/{claim}")
}

/// Returns the names of a workload's claims as in findings.
pub fn claims_of(workload: &ObjectKey, volumes: &[PodVolume]) -> Vec<String> {
    let names = volumes.iter().filter_map(|volume| match &volume.source {
        PodVolumeSource::Claim(name) => Some(name.to_string()),
        PodVolumeSource::Ephemeral(_) => Some(format!("{}-{}", workload.name, volume.name)),
        PodVolumeSource::Inline(_) => None,
    });
    let keys = names.map(|name| ObjectKey::new(workload.namespace.clone(), name));
    keys.map(|key| finding_object(&key)).collect()
}

/// Returns why a node is not judged.
pub fn not_judged(node: &Node) -> String {
    if !node.runs_windows() {
        let system = match node.operating_system.as_str() {
            "" => "an operating system that it does not report",
            system => system,
        };
        format!("It runs {system}; only Windows nodes are watched.")
    } else if node.left_out == Some(LeftOut::Virtual) {
        "It is virtual: no kubelet runs there and no CSI driver registers, so it is left out, and its pods do not count."
            .to_owned()
    } else if node.left_out.is_some() {
        "It is labelled windowsstorage.dev/ignore=true, so the operator ignores it, and its pods do not count."
            .to_owned()
    } else {
        "It is being deleted, so it does not count any more.".to_owned()
    }
}

/// Describes a Windows node: its properties, its drivers, and its last reported status.
pub fn of_node(
    node: &Node,
    readiness: &NodeReadiness,
    status: Option<&WindowsNodeStorageStatus>,
) -> Vec<String> {
    let mut facts = Vec::new();
    let kubelet = &node.kubelet_version;
    if !kubelet.is_empty() {
        facts.push(format!("It runs Windows, with kubelet {kubelet}."));
    }
    facts.push(match (readiness.csi_node, readiness.drivers.as_slice()) {
        (false, _) => {
            "No CSINode object of it is known, so no driver counts as registered on it.".to_owned()
        }
        (true, []) => "No CSI driver is registered on it.".to_owned(),
        (true, drivers) => format!("Registered on it: {}.", names(drivers)),
    });
    let said = status.and_then(|status| find(&status.conditions, CSI_PROXY_READY));
    facts.extend(said.map(|said| {
        let (reason, message) = (&said.reason, as_sentence(&said.message));
        format!("The operator says of csi-proxy there ({reason}): {message}")
    }));
    facts
}

/// Describes where a pod is.
pub fn of_pod(pod: &Pod, cluster: &Cluster) -> String {
    let Some(name) = &pod.node_name else {
        return "It is on no node yet.".to_owned();
    };
    match cluster.nodes.get(name) {
        Some(node) if node.is_windows() => format!("It is on the Windows node {name}."),
        Some(node) => format!(
            "It is on the node {name}, so its volumes do not count. {}",
            not_judged(node).replace("It ", "The node ")
        ),
        None => format!("It is on the node {name}, which is not known."),
    }
}
