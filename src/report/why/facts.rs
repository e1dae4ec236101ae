//! Describes objects in sentences.

use crate::api::{CsiProxyStatus, WindowsNodeStorageStatus};
use crate::assess::report::{NodeReadiness, VolumeUse};
use crate::index::{Claim, Cluster, LeftOut, Node, ObjectKey, Pod, PodVolume, PodVolumeSource};
use crate::report::sentences::{as_sentence, count, names, verb};

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
        (false, _) => "It has no CSINode object, so no driver is registered on it.".to_owned(),
        (true, []) => "No CSI driver is registered on it.".to_owned(),
        (true, drivers) => format!("Registered on it: {}.", names(drivers)),
    });
    if !readiness.missing_drivers.is_empty() {
        let missing = names(&readiness.missing_drivers);
        facts.push(format!("Missing on it: {missing}."));
    }
    let Some(status) = status else {
        return facts;
    };
    if let Some(csi_proxy) = &status.csi_proxy {
        let by = match status.management.as_str() {
            "External" | "Releasing" => ", managed by another owner",
            _ => "",
        };
        let words = csi_proxy_in_words(csi_proxy);
        facts.push(format!("csi-proxy, as last seen: {words}{by}."));
    }
    let mut conditions = status.conditions.iter();
    let fault = conditions.find(|it| it.type_ == "CSIProxyReady" && it.status != "True");
    facts.extend(fault.map(|fault| {
        let (reason, message) = (&fault.reason, as_sentence(&fault.message));
        format!("The operator says of csi-proxy there ({reason}): {message}")
    }));
    facts
}

/// Returns csi-proxy's version, and its state unless it runs well.
fn csi_proxy_in_words(csi_proxy: &CsiProxyStatus) -> String {
    let version = csi_proxy.version.as_deref().unwrap_or("another build");
    if csi_proxy.is_running() {
        version.to_owned()
    } else if csi_proxy.service_state == "Running" {
        format!("{version}, does not answer on all pipes")
    } else {
        format!("{version}, {}", csi_proxy.service_state)
    }
}

/// Describes where a pod is.
pub fn of_pod(pod: &Pod, cluster: &Cluster, is_reported: bool) -> String {
    let Some(name) = &pod.node_name else {
        let asks = match (is_reported, pod.placement.never_asks()) {
            (true, _) => ", and asks for a Windows node",
            (false, true) => ", and asks for no Windows node",
            (false, false) => "",
        };
        return format!("It is on no node yet{asks}.");
    };
    match cluster.nodes.get(name) {
        Some(node) if node.is_windows() => format!("It is on the Windows node {name}."),
        Some(node) => format!(
            "It is on the node {name}, so its volumes do not count. {}",
            not_judged(node).replace("It ", "The node ")
        ),
        None if is_reported => format!(
            "It is on the node {name}, which is gone and may have run Windows, so it counts."
        ),
        None => format!("It is on the node {name}, which is not known."),
    }
}

/// Describes what a claim is bound to and who uses it.
pub fn of_claim(claim: Option<&Claim>, rows: &[VolumeUse]) -> Vec<String> {
    const ABSENT: &str = "There is no such claim.";
    let bound = match claim.map(|claim| (&claim.volume_name, &claim.storage_class)) {
        None if rows.is_empty() => return vec![ABSENT.to_owned()],
        None => ABSENT.to_owned(),
        Some((Some(volume), _)) => format!("It is bound to PersistentVolume {volume}."),
        Some((None, Some(class))) if !class.is_empty() => {
            format!("It is not bound yet; its StorageClass is {class}.")
        }
        Some((None, _)) => "It is not bound yet, and names no StorageClass.".to_owned(),
    };
    vec![bound, use_of(rows)]
}

/// Describes which claim a volume is bound to and who uses it.
pub fn of_persistent_volume(claim: Option<&ObjectKey>, rows: &[VolumeUse]) -> Vec<String> {
    let bound = match claim {
        Some(claim) => format!("The claim {claim} is bound to it."),
        None => "No claim is bound to it.".to_owned(),
    };
    vec![bound, use_of(rows)]
}

fn use_of(rows: &[VolumeUse]) -> String {
    const NOT_USED: &str =
        "No Windows workload uses it, or it needs no CSI driver: it holds nothing.";
    match rows.first() {
        Some(row) => served_by(row),
        None => NOT_USED.to_owned(),
    }
}

/// Describes a workload's volumes.
pub fn of_volumes(rows: &[VolumeUse]) -> Vec<String> {
    if rows.is_empty() {
        return vec!["None of its volumes needs a CSI driver.".to_owned()];
    }
    let (volumes, need) = (
        count(rows.len(), "volume"),
        verb(rows.len(), "needs", "need"),
    );
    let are = verb(rows.len(), "is", "are");
    let first = format!("It uses {volumes} that {need} a CSI driver or {are} of an in-tree type:");
    let facts = rows.iter().map(|row| {
        let ways = [
            ("claim", &row.persistent_volume_claim),
            ("PersistentVolume", &row.persistent_volume),
            ("StorageClass", &row.storage_class),
        ];
        let ways = ways.into_iter();
        let ways = ways.filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?)));
        let ways = ways.collect::<Vec<_>>().join(", ");
        let way = if ways.is_empty() { "inline" } else { &ways };
        format!("  {}: {way}. {}", row.volume, served_by(row))
    });
    std::iter::once(first).chain(facts).collect()
}

/// Describes what serves a volume, where that is missing, and when that hurts.
fn served_by(row: &VolumeUse) -> String {
    let (of_type, needs) = match &row.plugin {
        Some(plugin) => (format!("The in-tree type is {plugin}: "), "it needs"),
        None => (String::new(), "It needs"),
    };
    let served_by = match (&row.csi_driver, row.missing_on.as_slice()) {
        (None, _) => format!("{of_type}no CSI driver takes over"),
        (Some(driver), []) if row.blocking => {
            format!("{of_type}{needs} {driver}, which no DaemonSet for Windows nodes brings")
        }
        (Some(driver), []) => {
            format!("{of_type}{needs} {driver}, which is registered on all nodes that need it")
        }
        (Some(driver), missing) => {
            format!("{of_type}{needs} {driver}, missing on {}", names(missing))
        }
    };
    let there = if row.csi_driver.is_some() {
        " there"
    } else {
        ""
    };
    let fate = match (row.redirected, &row.breaks_at) {
        (Some(true), _) if row.blocking => format!(" It cannot be mounted{there} already today."),
        (Some(false), Some(version)) if row.blocking => {
            format!(" It breaks at the upgrade to {version}.")
        }
        _ => String::new(),
    };
    format!("{served_by}.{fate}")
}
