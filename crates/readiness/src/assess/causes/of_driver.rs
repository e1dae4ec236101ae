//! Finds cluster-wide problems of a driver.

use crate::assess::causes::{DaemonSet, DaemonSets};
use crate::assess::report::Finding;
use crate::assess::versions::{Distribution, Release};
use crate::assess::{driver_versions, drivers};
use crate::index::{AnyTable, Cluster, ConfigMap, ObjectKey, ReadFrom};

/// The vSphere driver's feature switch, and the first driver version in which it is on by default.
const WINDOWS_SWITCH: &str = "csi-windows-support";
const SWITCH_ON_FROM: (u64, u64) = (3, 2);
/// The values that the driver reads as on. All others mean off.
const ON: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];
/// The vSphere driver's namespaces in its own manifests and on OpenShift.
const VSPHERE_NAMESPACES: [&str; 2] = ["vmware-system-csi", "openshift-cluster-csi-drivers"];

/// Returns the cluster-wide problems of a driver.
#[must_use]
pub fn of_driver(
    cluster: &Cluster,
    driver: &str,
    sets: &DaemonSets<'_>,
    is_missing: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(duplicates(driver, sets));
    let windows = sets.windows.iter();
    findings.extend(windows.filter_map(|set| version_skew(set, &sets.others)));
    findings.extend(no_csi_driver(cluster, driver, sets));
    if cluster.windows_nodes().next().is_none() && sets.that_register(driver).next().is_none() {
        findings.extend(sets.windows.first().map(|set| cannot_register(driver, set)));
    }
    if is_missing && driver == drivers::VSPHERE {
        findings.extend(switch_off(cluster, sets));
    }
    findings
}

fn duplicates(driver: &str, sets: &DaemonSets<'_>) -> Vec<Finding> {
    let Some((first, more)) = sets.windows.split_first() else {
        return Vec::new();
    };
    more.iter()
        .map(|set| {
            finding!(
                DAEMON_SET_DUPLICATE,
                set.object(),
                "DaemonSet {} brings {driver} to Windows nodes, and so does {}; unless their node selectors keep \
                 them apart, keep one: where the platform brings its own, as OpenShift may for Azure File and \
                 vSphere, remove the one that was made by hand",
                set.key, first.key
            )
        })
        .collect()
}

/// Reports a DaemonSet that names the driver, while no other can register it on a new Windows node.
fn cannot_register(driver: &str, set: &DaemonSet<'_>) -> Finding {
    finding!(
        DAEMON_SET_MISSING,
        set.object(),
        "DaemonSet {} names {driver}, but could not register it on a Windows node; that takes a container with \
         csi-node-driver-registrar or the driver's own image, and hostPath volumes of the kubelet's plugins_registry and \
         of plugins\\{driver}, or HostProcess containers",
        set.key
    )
}

/// Compares major and minor versions of images with the same name. Patch versions may differ.
fn version_skew(windows: &DaemonSet<'_>, others: &[DaemonSet<'_>]) -> Option<Finding> {
    windows.node_side.images.iter().find_map(|image| {
        let (set, other) = others.iter().find_map(|set| {
            let other = set
                .node_side
                .images
                .iter()
                .find(|other| other.name == image.name && other.version != image.version)?;
            Some((set, other))
        })?;
        Some(finding!(
            VERSION_SKEW,
            windows.object(),
            "DaemonSet {} runs {} {}, but DaemonSet {} for other nodes runs {}; bring both to one minor version",
            windows.key, image.name, image.tag, set.key, other.tag
        ))
    })
}

/// Reports the DaemonSets whose driver version is known not to support this Kubernetes version.
#[must_use]
pub fn not_for_version(driver: &str, sets: &DaemonSets<'_>, release: Release) -> Vec<Finding> {
    let Some(known) = drivers::by_name(driver) else {
        return Vec::new();
    };
    if release.distribution == Distribution::OpenShift {
        return Vec::new();
    }
    let sets = sets.windows.iter();
    sets.flat_map(|set| set.node_side.images.iter().map(move |image| (set, image)))
        .filter(|(_, image)| known.is_image(&image.name))
        .filter_map(|(set, image)| {
            let supported = driver_versions::of(driver, image.version)?;
            if supported.allows(release.minor) {
                return None;
            }
            let others = driver_versions::made_for(driver, release.minor);
            let others: Vec<String> = others
                .map(|(major, minor)| format!("v{major}.{minor}"))
                .collect();
            let advice = match &others[..] {
                [] => format!("see {}", known.home),
                others => format!("such as {}", others.join(", ")),
            };
            Some(finding!(
                DRIVER_NOT_FOR_VERSION,
                set.object(),
                "DaemonSet {} runs {} {}, which is for Kubernetes {supported} and not for {}; take one that is, {advice}, \
                 and bring the driver's controller and its Linux nodes to the same minor version",
                set.key, image.name, image.tag, release.number()
            ))
        })
        .collect()
}

/// Reports a missing CSIDriver object. The driver registers without it, but Kubernetes does not use it correctly.
fn no_csi_driver(cluster: &Cluster, driver: &str, sets: &DaemonSets<'_>) -> Option<Finding> {
    let set = sets.windows.first()?;
    let table = &cluster.csi_drivers;
    // Files without any CSIDriver may just not include this kind.
    let is_known = table.is_complete() && (cluster.read_from == ReadFrom::Api || !table.is_empty());
    (is_known && table.get(driver).is_none()).then(|| {
        finding!(
            CSI_DRIVER_MISSING,
            format!("CSIDriver/{driver}"),
            "DaemonSet {} brings {driver}, but there is no CSIDriver object of that name, so that Kubernetes does \
             not know whether its volumes are to be attached; apply the one in the driver's manifests",
            set.key
        )
    })
}

/// Reports feature switches that are off. The vSphere driver then exits on Windows.
fn switch_off(cluster: &Cluster, sets: &DaemonSets<'_>) -> Vec<Finding> {
    let is_old = runs_before(sets, SWITCH_ON_FROM);
    let is_off = |switches: &ConfigMap| match switches.data.get(WINDOWS_SWITCH) {
        Some(value) => !ON.contains(&value.as_str()),
        None => is_old,
    };
    switches(cluster, sets)
        .into_iter()
        .filter(|(_, switches)| is_off(switches))
        .map(|(key, _)| {
            let on = format!("{{\"data\":{{\"{WINDOWS_SWITCH}\":\"true\"}}}}");
            let ObjectKey { namespace, name } = key;
            let finding = finding!(
                FEATURE_SWITCH_OFF,
                format!("ConfigMap/{key}"),
                "the vSphere driver ends on Windows nodes while {WINDOWS_SWITCH} is not \"true\" in ConfigMap {key}; turn \
                 it on and restart the driver's pods on Windows nodes"
            );
            let patch = ["kubectl", "patch", "configmap", "-n", namespace, name, "--type", "merge", "-p", &on];
            let finding = finding.run(&patch);
            match sets.windows.first() {
                Some(DaemonSet { key, .. }) => finding.run(&[
                    "kubectl", "rollout", "restart", "daemonset", "-n", &key.namespace, &key.name,
                ]),
                None => finding,
            }
        })
        .collect()
}

/// Returns the driver's feature switches: those in its DaemonSet's namespace, else those in the usual namespaces.
fn switches<'a>(
    cluster: &'a Cluster,
    sets: &DaemonSets<'_>,
) -> Vec<(&'a ObjectKey, &'a ConfigMap)> {
    let beside_a_set = |key: &ObjectKey| {
        let mut sets = sets.windows.iter();
        sets.any(|set| set.key.namespace == key.namespace)
    };
    let all = || cluster.feature_switches.iter();
    let beside: Vec<_> = all().filter(|(key, _)| beside_a_set(key)).collect();
    if !beside.is_empty() {
        return beside;
    }
    all()
        .filter(|(key, _)| VSPHERE_NAMESPACES.contains(&&*key.namespace))
        .collect()
}

/// Whether a DaemonSet for Windows runs a vSphere driver known to be older than `version`.
fn runs_before(sets: &DaemonSets<'_>, version: (u64, u64)) -> bool {
    let images = sets.windows.iter().flat_map(|set| &set.node_side.images);
    images
        .filter(|image| image.name == "driver" || image.name.contains("vsphere"))
        .any(|image| image.version < version)
}
