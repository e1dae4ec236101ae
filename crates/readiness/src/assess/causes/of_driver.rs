//! Finds cluster-wide problems of a driver.

use crate::assess::causes::{DaemonSet, DaemonSets};
use crate::assess::report::Finding;
use crate::assess::versions::{Distribution, Release};
use crate::assess::{NodeSelection, driver_versions, drivers};
use crate::index::{AnyTable, Cluster, ConfigMap, ObjectKey, ReadFrom};

/// The vSphere driver's feature switch for Windows, and the one for the volumes that are redirected to it.
const WINDOWS_SWITCH: &str = "csi-windows-support";
const MIGRATION_SWITCH: &str = "csi-migration";
/// The first version of the upstream driver in which both are always on, and not read.
///
/// Source: `releasedVanillaFSS` in kubernetes-sigs/vsphere-csi-driver, `k8sorchestrator.go`, v3.1.2 and v3.2.0.
const SWITCHES_ON_FROM: (u64, u64) = (3, 2);
/// The values that the driver reads as on. All others mean off.
const ON: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];
/// The vSphere driver's namespaces in its own manifests and on OpenShift.
const VSPHERE_NAMESPACES: [&str; 2] = ["vmware-system-csi", "openshift-cluster-csi-drivers"];

/// Returns the cluster-wide problems of a driver that is missing somewhere, or that in-tree volumes need.
#[must_use]
pub fn of_driver(
    cluster: &Cluster,
    driver: &str,
    sets: &DaemonSets<'_>,
    is_missing: bool,
    has_in_tree: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(duplicates(cluster, driver, sets));
    let windows = sets.windows.iter();
    findings.extend(windows.filter_map(|set| version_skew(set, &sets.others)));
    findings.extend(no_csi_driver(cluster, driver, sets));
    if cluster.windows_nodes().next().is_none() && sets.that_register(driver).next().is_none() {
        findings.extend(sets.windows.first().map(|set| cannot_register(driver, set)));
    }
    if driver == drivers::VSPHERE {
        let reads = is_missing && !ignores_switches(sets);
        let off = switches_off(cluster, sets, WINDOWS_SWITCH).filter(|_| reads);
        findings.extend(off.map(|key| windows_off(key, sets)));
        let off = switches_off(cluster, sets, MIGRATION_SWITCH).filter(|_| has_in_tree);
        findings.extend(off.map(migration_off));
    }
    findings
}

/// Reports DaemonSets that bring the driver to a node to which another one brings it, too.
fn duplicates(cluster: &Cluster, driver: &str, sets: &DaemonSets<'_>) -> Vec<Finding> {
    let selections = sets.windows.iter().map(|set| set.node_side.selection());
    let selections: Vec<_> = selections.map(Option::unwrap_or_default).collect();
    let meet = |one: &NodeSelection, other: &NodeSelection| {
        let mut nodes = cluster.windows_nodes().peekable();
        if nodes.peek().is_none() {
            return one == other;
        }
        nodes.any(|(name, node)| {
            one.matches(name, &node.labels) && other.matches(name, &node.labels)
        })
    };
    let sets: Vec<_> = sets.windows.iter().zip(&selections).collect();
    let of_set = |(nth, (set, selection)): (usize, &(&DaemonSet<'_>, &NodeSelection))| {
        let (first, _) = sets[..nth]
            .iter()
            .find(|(_, other)| meet(selection, other))?;
        Some(finding!(
            DAEMON_SET_DUPLICATE,
            set.object(),
            "DaemonSet {} brings {driver} to Windows nodes, and so does {} to the same ones; keep one: where the platform \
             brings its own, as OpenShift may for Azure File and vSphere, remove the one that was made by hand",
            set.key,
            first.key
        ))
    };
    sets.iter().enumerate().filter_map(of_set).collect()
}

/// Reports a DaemonSet that names the driver, while no other can register it on a new Windows node.
fn cannot_register(driver: &str, set: &DaemonSet<'_>) -> Finding {
    let why = match set.node_side.wrong_paths.first() {
        Some(path) => path.to_string(),
        None => format!(
            "that takes a container with csi-node-driver-registrar or the driver's own image, and hostPath volumes of the \
             kubelet's plugins_registry and of plugins\\{driver}, or HostProcess containers"
        ),
    };
    finding!(
        DAEMON_SET_MISSING,
        set.object(),
        "DaemonSet {} names {driver}, but could not register it on a Windows node: {why}",
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

/// Returns the `ConfigMaps` in which the switch is off.
fn switches_off<'a>(
    cluster: &'a Cluster,
    sets: &DaemonSets<'_>,
    switch: &str,
) -> impl Iterator<Item = &'a ObjectKey> {
    let is_old = runs_before(sets, SWITCHES_ON_FROM);
    let is_off = move |switches: &ConfigMap| match switches.data.get(switch) {
        Some(value) => !ON.contains(&value.as_str()),
        None => is_old,
    };
    let switches = switches(cluster, sets).into_iter();
    switches
        .filter(move |(_, switches)| is_off(switches))
        .map(|(key, _)| key)
}

/// Adds the command that turns a switch on.
fn turn_on(finding: Finding, ObjectKey { namespace, name }: &ObjectKey, switch: &str) -> Finding {
    let on = format!("{{\"data\":{{\"{switch}\":\"true\"}}}}");
    finding.run(&[
        "kubectl",
        "patch",
        "configmap",
        "-n",
        namespace,
        name,
        "--type",
        "merge",
        "-p",
        &on,
    ])
}

/// The vSphere driver ends on Windows nodes while this switch is off.
fn windows_off(key: &ObjectKey, sets: &DaemonSets<'_>) -> Finding {
    let finding = finding!(
        FEATURE_SWITCH_OFF,
        format!("ConfigMap/{key}"),
        "the vSphere driver ends on Windows nodes while {WINDOWS_SWITCH} is not \"true\" in ConfigMap {key}; turn it on and \
         restart the driver's pods on Windows nodes"
    );
    let finding = turn_on(finding, key, WINDOWS_SWITCH);
    match sets.windows.first() {
        Some(DaemonSet { key, .. }) => finding.run(&[
            "kubectl",
            "rollout",
            "restart",
            "daemonset",
            "-n",
            &key.namespace,
            &key.name,
        ]),
        None => finding,
    }
}

/// The vSphere driver's controller refuses redirected volumes while this switch is off. Its version is not known here: that
/// of a DaemonSet proves nothing. From 3.2 on, the switch is not read.
fn migration_off(key: &ObjectKey) -> Finding {
    let finding = finding!(
        FEATURE_SWITCH_OFF,
        format!("ConfigMap/{key}"),
        "{MIGRATION_SWITCH} is not \"true\" in ConfigMap {key}, and a controller of the vSphere driver before v3.2 then refuses \
         every in-tree volume. What sets it may set it back: in Rancher's chart it is csiMigration.enabled, and OpenShift \
         turns it off where there are several vCenters. Turn it on, and restart the controller"
    );
    turn_on(finding, key, MIGRATION_SWITCH)
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

/// Whether the upstream driver runs on Windows nodes, in no version that reads the switches.
fn ignores_switches(sets: &DaemonSets<'_>) -> bool {
    let mut images = sets.windows.iter().flat_map(|set| &set.node_side.images);
    images.any(|image| image.name == "driver" && image.version >= SWITCHES_ON_FROM)
        && !runs_before(sets, SWITCHES_ON_FROM)
}

/// Whether a DaemonSet for Windows runs a vSphere driver known to be older than `version`.
fn runs_before(sets: &DaemonSets<'_>, version: (u64, u64)) -> bool {
    let images = sets.windows.iter().flat_map(|set| &set.node_side.images);
    images
        .filter(|image| image.name == "driver" || image.name.contains("vsphere"))
        .any(|image| image.version < version)
}
