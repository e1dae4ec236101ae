//! The versions from which plugins no longer serve their volumes.

use super::cluster::{Cluster, NODE, annotation, csi_node, field, name, text};
use super::workloads::{is_virtual, is_windows_node};
use serde_json::Value;

/// Plugin, and the minor versions of Kubernetes 1 in which Kubernetes first redirects it by default, OpenShift first
/// does, and the plugin is removed.
const PLUGINS: &str = "
kubernetes.io/aws-ebs 23 25 27
kubernetes.io/azure-disk 23 25 27
kubernetes.io/azure-file 24 26 30
kubernetes.io/gce-pd 23 25 28
kubernetes.io/cinder 18 18 26
kubernetes.io/vsphere-volume 25 26 30
kubernetes.io/portworx-volume 31 31 36
kubernetes.io/rbd 31 31 31
kubernetes.io/cephfs 31 31 31
kubernetes.io/glusterfs 26 26 26
kubernetes.io/flocker 25 25 25
kubernetes.io/quobyte 25 25 25
kubernetes.io/storageos 25 25 25
kubernetes.io/scaleio 22 22 22
";

/// Returns the versions that first redirect a plugin and that remove it.
fn row(plugin: &str, openshift: bool) -> (u64, u64) {
    let mut lines = PLUGINS.lines();
    let line = lines.find(|line| line.split(' ').next() == Some(plugin));
    let numbers: Vec<u64> = line
        .unwrap()
        .split(' ')
        .skip(1)
        .map(|word| word.parse().unwrap())
        .collect();
    (numbers[usize::from(openshift)], numbers[2])
}

pub fn is_openshift(cluster: Cluster<'_>) -> bool {
    cluster.of(NODE).any(|node| {
        let labels = ["metadata", "labels", "node.openshift.io/os_id"];
        field(node, &labels).is_some()
            || annotation(node, "windowsmachineconfig.openshift.io/version").is_some()
    })
}

/// Returns the minor version of a node's kubelet.
fn kubelet(node: &Value) -> Option<u64> {
    let version = text(node, &["status", "nodeInfo", "kubeletVersion"])?;
    let mut parts = version.strip_prefix("v1.")?.split('.');
    let minor = parts.next()?.parse().ok();
    parts.next().and(minor)
}

/// Returns the highest minor version of a machine.
fn today(cluster: Cluster<'_>) -> Option<u64> {
    let machines = cluster.of(NODE).filter(|node| !is_virtual(node));
    machines.filter_map(kubelet).max()
}

/// Returns whether a Windows node's kubelet redirects the plugin, if its annotation shows that.
fn says(cluster: Cluster<'_>, node: &Value, plugin: &str) -> Option<bool> {
    let csi_node = csi_node(cluster, name(node))?;
    let noted = annotation(csi_node, "storage.alpha.kubernetes.io/migrated-plugins")?;
    let names: Vec<&str> = noted.split(',').map(str::trim).collect();
    let knows = |line: &str| names.contains(&line.split(' ').next().unwrap());
    let is_sense = PLUGINS.trim().lines().any(knows);
    is_sense.then(|| names.contains(&plugin))
}

/// Combines the kubelets of all Windows nodes: one that redirects is enough; for no, all must report no and have today's
/// version.
fn kubelets_say(cluster: Cluster<'_>, plugin: &str) -> Option<bool> {
    let nodes = cluster.of(NODE).filter(|node| is_windows_node(node));
    let nodes: Vec<_> = nodes.collect();
    let say = |answer| move |node: &&Value| says(cluster, node, plugin) == Some(answer);
    let is_old = |node: &&Value| kubelet(node).is_none() || kubelet(node) != today(cluster);
    if nodes.iter().any(say(true)) {
        Some(true)
    } else if !nodes.is_empty() && nodes.iter().all(say(false)) && !nodes.iter().any(is_old) {
        Some(false)
    } else {
        None
    }
}

/// Returns the minor version of the Kubernetes 1 in a version, and whether the version is OpenShift's.
fn kubernetes_in(target: &str) -> (u64, bool) {
    let (major, minor) = target.split_once('.').unwrap();
    let minor: u64 = minor.parse().unwrap();
    match major {
        "1" => (minor, false),
        "4" if minor <= 23 => (minor + 13, true),
        // 4.23 and 5.0 are one release.
        "5" if minor == 0 => (36, true),
        _ => panic!("no version {target}"),
    }
}

/// Whether the plugin serves its own volumes at a version, such as `1.27`, `4.14` or `5.0`.
pub fn serves_at(cluster: Cluster<'_>, plugin: &str, target: &str) -> bool {
    let (minor, openshift) = kubernetes_in(target);
    let (redirected, gone) = row(plugin, openshift);
    let today = today(cluster);
    match kubelets_say(cluster, plugin) {
        Some(true) if today.is_none_or(|today| today <= minor) => false,
        Some(false) if today == Some(minor) => minor < gone,
        _ => minor < redirected,
    }
}

/// Returns the code of today's advice on the plugin.
pub fn advice(cluster: Cluster<'_>, plugin: &str) -> Option<&'static str> {
    let minor = today(cluster)?;
    let openshift = is_openshift(cluster);
    let (redirected, gone) = row(plugin, openshift);
    let said = kubelets_say(cluster, plugin);
    Some(if minor >= gone {
        "PluginRemoved"
    } else if said.is_none()
        && (openshift, minor, plugin) == (true, 26, "kubernetes.io/vsphere-volume")
    {
        "CSIOptIn"
    } else if said.unwrap_or(minor >= redirected) {
        "CSIRecommended"
    } else {
        "InTreeRecommended"
    })
}
