//! Judgement: pure functions from the index to the readiness report.

pub mod plugins;
pub mod report;
mod verdict;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use crate::api::UpgradeGate;
use crate::index::{Cluster, ObjectKey, Pod};
use report::{NodeReadiness, ReadinessReport, VolumeUse, Workload};
pub use verdict::only_fresh_data_opens;
use volumes::Resolved;

/// Judges the cluster. What has not been read completely makes the verdict `ReadinessUnknown`.
#[must_use]
pub fn assess(cluster: &Cluster, gate: UpgradeGate) -> ReadinessReport {
    let windows: BTreeSet<&str> = cluster
        .windows_nodes()
        .map(|(name, _)| name.as_str())
        .collect();
    let mut findings = Vec::new();
    let mut uses = Vec::new();
    let mut csi_proxy_users = BTreeSet::new();
    for (key, pod) in cluster.pods.iter() {
        if !is_windows_workload(pod, &windows) {
            continue;
        }
        if let (Some(node), false) = (&pod.node_name, pod.csi_proxy_pipes.is_empty()) {
            csi_proxy_users.insert(node.as_str());
        }
        let (resolved, found) = volumes::resolve_pod(cluster, key, pod);
        findings.extend(found);
        uses.extend(resolved.into_iter().map(|volume| (key, pod, volume)));
    }
    findings.sort();
    findings.dedup();

    let missing = missing_drivers(cluster, &windows, &uses);
    let nodes: Vec<NodeReadiness> = windows
        .iter()
        .map(|&name| {
            let csi_node = cluster.csi_nodes.get(name);
            NodeReadiness {
                name: name.to_owned(),
                csi_node: csi_node.is_some(),
                drivers: csi_node
                    .map(|csi_node| csi_node.drivers.iter().cloned().collect())
                    .unwrap_or_default(),
                missing_drivers: missing
                    .iter()
                    .filter(|(_, nodes)| nodes.contains(name))
                    .map(|(driver, _)| driver.clone())
                    .collect(),
                ready: csi_node.is_some() && !missing.values().any(|nodes| nodes.contains(name)),
                findings: Vec::new(),
                needs_csi_proxy: csi_proxy_users.contains(name),
            }
        })
        .collect();
    let mut volumes: Vec<VolumeUse> = uses
        .into_iter()
        .map(|(key, _, volume)| volume_use(key, volume, &missing))
        .collect();
    volumes.sort_by(|left, right| order(left).cmp(&order(right)));

    let unread = cluster.unread();
    let verdict = if unread.is_empty() {
        verdict::verdict(&nodes, &volumes, gate)
    } else {
        verdict::unknown(&unread)
    };
    ReadinessReport {
        api_version: report::API_VERSION.to_owned(),
        kind: report::KIND.to_owned(),
        cluster: report::ClusterFacts {
            kubernetes_version: None,
            windows_nodes: nodes.len(),
        },
        verdict,
        nodes,
        volumes,
        drivers: Vec::new(),
        findings,
    }
}

fn is_windows_workload(pod: &Pod, windows: &BTreeSet<&str>) -> bool {
    match &pod.node_name {
        Some(node) => windows.contains(node.as_str()),
        None => pod.asks_for_windows,
    }
}

/// For each needed driver the Windows nodes that lack it: all that lack it where an in-tree volume needs it, else
/// those whose pods use it.
fn missing_drivers(
    cluster: &Cluster,
    windows: &BTreeSet<&str>,
    uses: &[(&ObjectKey, &Pod, Resolved)],
) -> BTreeMap<String, BTreeSet<String>> {
    let lacks = |node: &str, driver: &str| {
        !cluster
            .csi_nodes
            .get(node)
            .is_some_and(|csi_node| csi_node.drivers.contains(driver))
    };
    let mut missing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, pod, volume) in uses {
        let Some(driver) = volume.driver() else {
            continue;
        };
        let nodes = missing.entry(driver.to_owned()).or_default();
        let concerned: Vec<&str> = if volume.plugin().is_some() {
            windows.iter().copied().collect()
        } else {
            pod.node_name.as_deref().into_iter().collect()
        };
        nodes.extend(
            concerned
                .into_iter()
                .filter(|node| lacks(node, driver))
                .map(str::to_owned),
        );
    }
    missing
}

fn volume_use(
    key: &ObjectKey,
    volume: Resolved,
    missing: &BTreeMap<String, BTreeSet<String>>,
) -> VolumeUse {
    let driver = volume.driver().map(str::to_owned);
    let plugin = volume.plugin();
    let missing_on: Vec<String> = driver
        .as_ref()
        .and_then(|driver| missing.get(driver))
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    VolumeUse {
        workload: Workload {
            kind: "Pod".to_owned(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        },
        volume: volume.volume,
        source: volume.source,
        persistent_volume_claim: volume.claim,
        persistent_volume: volume.persistent_volume,
        storage_class: volume.storage_class,
        plugin: plugin.map(|plugin| plugin.name.to_owned()),
        in_tree: plugin.is_some(),
        blocking: plugin.is_some() && (driver.is_none() || !missing_on.is_empty()),
        csi_driver: driver,
        missing_on,
    }
}

type VolumeOrder<'a> = (&'a str, &'a str, &'a str, &'a str, Option<&'a str>);

fn order(volume: &VolumeUse) -> VolumeOrder<'_> {
    let workload = &volume.workload;
    (
        &workload.namespace,
        &workload.name,
        &workload.kind,
        &volume.volume,
        volume.persistent_volume_claim.as_deref(),
    )
}

#[cfg(test)]
mod tests;
