//! What an object is and what it uses, in sentences.

use std::collections::BTreeSet;

use crate::api::WindowsNodeStorageStatus;
use crate::assess::report::{Finding, NodeReadiness, VolumeUse};
use crate::index::{Claim, Cluster, Node, ObjectKey, Pod, PodVolume, PodVolumeSource};
use crate::report::nodes::csi_proxy_in_words;
use crate::report::sentences::{as_sentence, count, names};

/// The objects whose findings concern the one that is asked about, as findings name them.
#[derive(Clone, Debug, Default)]
pub struct Claims(BTreeSet<String>);

impl Claims {
    /// A claim alone.
    pub fn one(key: &ObjectKey) -> Self {
        Self(BTreeSet::from([claim(key)]))
    }

    /// Another object.
    pub fn add(&mut self, object: &str) {
        self.0.insert(object.to_owned());
    }

    /// Whether a finding is on one of them, or is one of them's, as that of a class is the claim's that asks for it.
    pub fn concern(&self, finding: &Finding) -> bool {
        let first = finding.message.split(' ').next().unwrap_or_default();
        self.0.contains(&finding.object) || self.0.contains(first)
    }
}

fn claim(key: &ObjectKey) -> String {
    format!("PersistentVolumeClaim/{key}")
}

/// The claims that a workload names.
pub fn claims_of(workload: &ObjectKey, volumes: &[PodVolume]) -> Claims {
    let namespace = &workload.namespace;
    let names = volumes.iter().filter_map(|volume| match &volume.source {
        PodVolumeSource::Claim(name) => Some(name.to_string()),
        PodVolumeSource::Ephemeral(_) => Some(format!("{}-{}", workload.name, volume.name)),
        PodVolumeSource::Inline(_) => None,
    });
    let keys = names.map(|name| ObjectKey::new(namespace.clone(), name));
    Claims(keys.map(|key| claim(&key)).collect())
}

/// Why nothing is said of a node.
pub fn not_judged(node: &Node) -> String {
    if !node.runs_windows() {
        let system = match node.operating_system.as_str() {
            "" => "an operating system that it does not tell",
            system => system,
        };
        format!("It runs {system}; only Windows nodes are looked after.")
    } else if node.ignored {
        "It is labelled windowsstorage.dev/ignore=true, so it is not looked after, and its pods do not count."
            .to_owned()
    } else {
        "It is being deleted, so it does not count any more.".to_owned()
    }
}

/// What a Windows node is, what it has, and what the operator last said of it.
pub fn of_node(
    node: &Node,
    readiness: &NodeReadiness,
    status: Option<&WindowsNodeStorageStatus>,
) -> Vec<String> {
    let mut facts = Vec::new();
    if !node.kubelet_version.is_empty() {
        facts.push(format!(
            "It runs Windows, with kubelet {}.",
            node.kubelet_version
        ));
    }
    facts.push(match (readiness.csi_node, readiness.drivers.as_slice()) {
        (false, _) => "It has no CSINode object, so no driver is registered on it.".to_owned(),
        (true, []) => "No CSI driver is registered on it.".to_owned(),
        (true, drivers) => format!("Registered on it: {}.", listed(drivers)),
    });
    if !readiness.missing_drivers.is_empty() {
        facts.push(format!(
            "Missing on it: {}.",
            listed(&readiness.missing_drivers)
        ));
    }
    let Some(status) = status else {
        return facts;
    };
    if let Some(csi_proxy) = &status.csi_proxy {
        let by = match status.management.as_str() {
            "External" => ", looked after by somebody else",
            _ => "",
        };
        facts.push(format!(
            "csi-proxy, as last seen: {}{by}.",
            csi_proxy_in_words(csi_proxy)
        ));
    }
    let said = status.conditions.iter();
    let mut troubles = said.filter(|it| it.type_ == "CSIProxyReady" && it.status != "True");
    if let Some(trouble) = troubles.next() {
        facts.push(format!(
            "The operator says of csi-proxy there ({}): {}",
            trouble.reason,
            as_sentence(&trouble.message)
        ));
    }
    facts
}

/// Where a pod is.
pub fn of_pod(pod: &Pod, cluster: &Cluster) -> String {
    let Some(name) = &pod.node_name else {
        return if cluster.asks_for_windows(&pod.request) {
            "It is on no node yet, and asks for a Windows node.".to_owned()
        } else {
            "It is on no node yet, and asks for no Windows node.".to_owned()
        };
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

/// What a claim is bound to, and who uses it.
pub fn of_claim(claim: Option<&Claim>, rows: &[&VolumeUse]) -> Vec<String> {
    let mut facts = vec![match claim {
        None => "There is no such claim.".to_owned(),
        Some(Claim {
            volume_name: Some(volume),
            ..
        }) => format!("It is bound to PersistentVolume {volume}."),
        Some(Claim {
            storage_class: Some(class),
            ..
        }) if !class.is_empty() => format!("It is not bound yet; its StorageClass is {class}."),
        Some(_) => "It is not bound yet, and names no StorageClass.".to_owned(),
    }];
    if claim.is_some() || !rows.is_empty() {
        facts.push(use_of(rows));
    }
    facts
}

/// Which claim a volume is bound to, and who uses it.
pub fn of_volume(claim: Option<&ObjectKey>, rows: &[&VolumeUse]) -> Vec<String> {
    let bound = match claim {
        Some(claim) => format!("The claim {claim} is bound to it."),
        None => "No claim is bound to it.".to_owned(),
    };
    vec![bound, use_of(rows)]
}

fn use_of(rows: &[&VolumeUse]) -> String {
    match rows.first() {
        Some(row) => format!("{}.", served_by(row)),
        None => {
            "No Windows workload uses it, or it needs no CSI driver: it holds nothing.".to_owned()
        }
    }
}

/// What a workload's volumes are.
pub fn of_rows(rows: &[&VolumeUse]) -> Vec<String> {
    if rows.is_empty() {
        return vec!["None of its volumes needs a CSI driver.".to_owned()];
    }
    let mut facts = vec![format!(
        "It uses {} that {} a CSI driver or {} of an in-tree type:",
        count(rows.len(), "volume"),
        if rows.len() == 1 { "needs" } else { "need" },
        if rows.len() == 1 { "is" } else { "are" },
    )];
    for row in rows {
        let claim = row.persistent_volume_claim.as_ref();
        let volume = row.persistent_volume.as_ref();
        let class = row.storage_class.as_ref();
        let ways = [
            claim.map(|claim| format!("claim {claim}")),
            volume.map(|volume| format!("PersistentVolume {volume}")),
            class.map(|class| format!("StorageClass {class}")),
        ];
        let ways: Vec<String> = ways.into_iter().flatten().collect();
        let way = if ways.is_empty() {
            "inline".to_owned()
        } else {
            ways.join(", ")
        };
        facts.push(format!("  {}: {way}. {}.", row.volume, served_by(row)));
    }
    facts
}

/// What serves a volume, and where that is missing.
fn served_by(row: &VolumeUse) -> String {
    let plugin = row.plugin.as_deref();
    let of_type = plugin.map(|plugin| format!("The in-tree type is {plugin}: "));
    let of_type = of_type.unwrap_or_default();
    let needs = if plugin.is_some() {
        "it needs"
    } else {
        "It needs"
    };
    match (&row.csi_driver, row.missing_on.as_slice()) {
        (None, _) => format!("{of_type}no CSI driver takes over"),
        (Some(driver), []) => format!("{of_type}{needs} {driver}, which is where it is needed"),
        (Some(driver), missing) => {
            format!("{of_type}{needs} {driver}, missing on {}", listed(missing))
        }
    }
}

fn listed(texts: &[String]) -> String {
    names(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}
