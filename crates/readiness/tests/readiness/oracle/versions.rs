//! The versions from which plugins no longer serve their volumes.

use super::cluster::{Cluster, NODE, annotation, csi_node, field, name, text};
use super::workloads::{is_virtual, is_windows_node};
use serde_json::Value;

/// Plugin, and the minor versions of Kubernetes 1 in which Kubernetes first redirects it by default, OpenShift first
/// does, nobody can turn that off any more, and the plugin is removed.
const PLUGINS: &str = "
kubernetes.io/aws-ebs 23 25 25 27
kubernetes.io/azure-disk 23 25 25 27
kubernetes.io/azure-file 24 26 27 30
kubernetes.io/gce-pd 23 25 25 28
kubernetes.io/cinder 18 18 24 26
kubernetes.io/vsphere-volume 25 26 27 30
kubernetes.io/portworx-volume 31 31 33 36
kubernetes.io/rbd 31 31 31 31
kubernetes.io/cephfs 31 31 31 31
kubernetes.io/glusterfs 26 26 26 26
kubernetes.io/flocker 25 25 25 25
kubernetes.io/quobyte 25 25 25 25
kubernetes.io/storageos 25 25 25 25
kubernetes.io/scaleio 22 22 22 22
";

/// The versions of a plugin.
struct Versions {
    redirected: u64,
    locked: u64,
    gone: u64,
}

fn row(plugin: &str, openshift: bool) -> Versions {
    let mut lines = PLUGINS.lines();
    let line = lines.find(|line| line.split(' ').next() == Some(plugin));
    let numbers: Vec<u64> = line
        .unwrap()
        .split(' ')
        .skip(1)
        .map(|word| word.parse().unwrap())
        .collect();
    Versions {
        redirected: numbers[usize::from(openshift)],
        locked: numbers[2],
        gone: numbers[3],
    }
}

pub fn is_openshift(cluster: Cluster<'_>) -> bool {
    cluster.of(NODE).any(|node| {
        let labels = ["metadata", "labels", "node.openshift.io/os_id"];
        field(node, &labels).is_some()
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

/// Whether a plugin is redirected or gone at a version that is not in doubt, as far as kubelets say something on it.
fn is_lost(minor: u64, of: &Versions, said: Option<bool>) -> bool {
    minor >= of.gone || minor >= of.locked || said.unwrap_or(minor >= of.redirected)
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
    let of = row(plugin, openshift);
    let today = today(cluster);
    // What the kubelets say of a version where they have no say any more.
    let is_moot = today.is_some_and(|today| today >= of.locked);
    let said = kubelets_say(cluster, plugin).filter(|is_redirected| {
        if *is_redirected {
            !is_moot && today.is_none_or(|today| today <= minor)
        } else {
            today == Some(minor)
        }
    });
    !is_lost(minor, &of, said)
}

/// Whether the plugin's volumes are redirected or their plugin is gone today.
pub fn is_redirected(cluster: Cluster<'_>, plugin: &str) -> Option<bool> {
    let of = row(plugin, is_openshift(cluster));
    let said = kubelets_say(cluster, plugin);
    today(cluster).map(|today| is_lost(today, &of, said))
}

/// Returns the version to which an upgrade breaks the plugin's volumes, which work today.
pub fn breaks_at(cluster: Cluster<'_>, plugin: &str, target: Option<&str>) -> String {
    if let Some(target) = target {
        return target.to_owned();
    }
    let openshift = is_openshift(cluster);
    let of = row(plugin, openshift);
    let today = today(cluster).unwrap();
    // Off today although it is on by default: an administrator can keep it so until it is locked.
    let minor = if today >= of.redirected {
        of.locked
    } else {
        of.redirected
    };
    if openshift {
        format!("4.{}", minor - 13)
    } else {
        format!("1.{minor}")
    }
}

/// Returns the code of today's advice on the plugin.
pub fn advice(cluster: Cluster<'_>, plugin: &str) -> Option<&'static str> {
    let minor = today(cluster)?;
    let openshift = is_openshift(cluster);
    let of = row(plugin, openshift);
    let said = kubelets_say(cluster, plugin);
    Some(if minor >= of.gone {
        "PluginRemoved"
    } else if said.is_none()
        && (openshift, minor, plugin) == (true, 26, "kubernetes.io/vsphere-volume")
    {
        "CSIOptIn"
    } else if is_lost(minor, &of, said) {
        "CSIRecommended"
    } else {
        "InTreeRecommended"
    })
}
