//! Finds cluster-wide problems of a driver.

use std::collections::HashMap;

use semver::Version;
use serde_json::json;

use crate::assess::advisories::{self, Advisory, Form, Reader, Switch, minors};
use crate::assess::causes::{DaemonSet, DaemonSets};
use crate::assess::drivers;
use crate::assess::judgement::needs::Need;
use crate::assess::report::Finding;
use crate::assess::versions::{self, Distribution, Release};
use crate::index::{AnyTable, Cluster, ConfigMap, Image, ObjectKey, ReadFrom, to_text};

/// The name of the upstream vSphere driver's image.
const UPSTREAM: &str = "driver";
/// The values that the driver reads as on. All others mean off.
const ON: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];
/// The vSphere driver's namespaces in its own manifests and on OpenShift.
const VSPHERE_NAMESPACES: [&str; 2] = ["vmware-system-csi", "openshift-cluster-csi-drivers"];

/// Returns the cluster-wide problems of a driver that is needed, at a version of Kubernetes.
pub fn of_driver(
    cluster: &Cluster,
    driver: &str,
    sets: &DaemonSets<'_>,
    need: &Need,
    release: Option<Release>,
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
        let known = advisories::of(driver);
        for (advisory, switch) in known.filter_map(|it| Some((it, it.switch.as_ref()?))) {
            let matters = match switch.read_by {
                Reader::Node => {
                    !need.missing.is_empty() && runs_affected(sets, advisory) != Some(false)
                }
                Reader::Controller => !need.in_tree.is_empty(),
            };
            if matters {
                findings.extend(switched_off(cluster, sets, advisory, switch));
            }
        }
    }
    findings.extend(known(cluster, driver, sets, release));
    findings.extend(
        release
            .into_iter()
            .flat_map(|it| not_for_version(driver, sets, it)),
    );
    findings
}

/// Reports DaemonSets that bring the driver to a node to which another one brings it, too.
fn duplicates(cluster: &Cluster, driver: &str, sets: &DaemonSets<'_>) -> Vec<Finding> {
    let mut first_on = HashMap::new();
    let has_nodes = cluster.windows_nodes().next().is_some();
    let of_set = |(nth, set): (usize, &DaemonSet<'_>)| {
        let nodes = cluster.windows_nodes();
        let nodes = nodes.filter(|(name, node)| set.node_side.selects(name, node));
        // Without nodes, those with one selector certainly meet.
        let any = (!has_nodes).then(|| to_text(&set.node_side.selection));
        let places = nodes.map(|(name, _)| name.clone()).chain(any);
        let first = places.map(|place| *first_on.entry(place).or_insert(nth));
        let first = first.min().filter(|first| *first < nth)?;
        Some(finding!(
            DAEMON_SET_DUPLICATE,
            set.object(),
            "DaemonSet {} brings {driver} to Windows nodes, and so does {} to the same ones; keep one: where the platform \
             brings its own, as OpenShift may for Azure File and vSphere, remove the one that was made by hand",
            set.key,
            sets.windows[first].key
        ))
    };
    sets.windows.iter().enumerate().filter_map(of_set).collect()
}

/// Reports a DaemonSet that names the driver, while no other can register it on a new Windows node.
fn cannot_register(driver: &str, set: &DaemonSet<'_>) -> Finding {
    let why = match set.node_side.wrong_paths.first() {
        Some(wrong) => wrong.clone(),
        None => format!(
            "that takes a container with --kubelet-registration-path, csi-node-driver-registrar or the driver's own image, \
             and hostPath volumes of the kubelet's plugins_registry and of plugins\\{driver}, or HostProcess containers"
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
fn not_for_version(driver: &str, sets: &DaemonSets<'_>, release: Release) -> Vec<Finding> {
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
            let supported = advisories::supported(driver, image.version)?;
            if supported.contains(&Version::new(1, release.minor, 0)) {
                return None;
            }
            let others = advisories::made_for(driver, release.minor);
            let others: Vec<String> = others.map(|version| format!("v{version}")).collect();
            let advice = match &others[..] {
                [] => format!("see {}", known.home),
                others => format!("such as {}", others.join(", ")),
            };
            Some(finding!(
                DRIVER_NOT_FOR_VERSION,
                set.object(),
                "DaemonSet {} runs {} {}, which is for Kubernetes {} and not for {}; take one that is, {advice}, \
                 and bring the driver's controller and its Linux nodes to the same minor version",
                set.key, image.name, image.tag, minors(supported), release.number()
            ))
        })
        .collect()
}

/// Reports what is known of the versions of the driver and its sidecars that DaemonSets bring to Windows nodes.
fn known(
    cluster: &Cluster,
    driver: &str,
    sets: &DaemonSets<'_>,
    release: Option<Release>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for set in &sets.windows {
        let side = set.node_side;
        let is_own =
            |image: &&Image| drivers::by_name(driver).is_some_and(|it| it.is_image(&image.name));
        let own = side.images.iter().filter(is_own);
        let own = own.map(|image| (driver, image));
        let sidecars = side.sidecars.iter();
        let sidecars = sidecars.map(|image| (image.name.as_str(), image));
        let matters = |advisory: &&Advisory| {
            let is_everywhere = advisory.windows.is_none() && advisory.platform.is_none();
            let mut nodes = cluster.windows_nodes();
            advisory.switch.is_none()
                && (advisory.form)
                    .is_none_or(|form| (form == Form::HostProcess) == side.is_host_process)
                && advisory.matters_at(release)
                && (is_everywhere
                    || nodes
                        .any(|(name, node)| side.selects(name, node) && advisory.matters_on(node)))
        };
        for (product, image) in own.chain(sidecars) {
            let Some(version) = versions::parse(&image.tag) else {
                continue;
            };
            let what = format!("DaemonSet {} runs {} {}", set.key, image.name, image.tag);
            let known = advisories::on(product, &version).filter(matters);
            findings.extend(known.map(|it| it.finding(set.object(), &what)));
        }
    }
    findings
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

/// Returns a finding for each `ConfigMap` in which the switch is off.
fn switched_off(
    cluster: &Cluster,
    sets: &DaemonSets<'_>,
    advisory: &Advisory,
    switch: &Switch,
) -> Vec<Finding> {
    let is_off = |switches: &ConfigMap| match switches.data.get(&switch.name) {
        Some(value) => !ON.contains(&value.as_str()),
        None => runs_affected(sets, advisory) == Some(true),
    };
    let switches = switches(cluster, sets).into_iter();
    let off = switches.filter(|(_, switches)| is_off(switches));
    let off = off.map(|(key, _)| {
        let what = format!("ConfigMap {key}: ");
        let on = json!({"data": {&switch.name: "true"}}).to_string();
        let finding = advisory.finding(format!("ConfigMap/{key}"), &what);
        let words = [&key.words()[..], &["--type", "merge", "-p", &on]].concat();
        let finding = finding.run("kubectl patch configmap", &words);
        match (switch.read_by, sets.windows.first()) {
            (Reader::Node, Some(DaemonSet { key, .. })) => {
                finding.run("kubectl rollout restart daemonset", &key.words())
            }
            _ => finding,
        }
    });
    off.collect()
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

/// Whether a DaemonSet for Windows runs a version that reads the switch; `None` if it is not known. The versions are those of
/// the upstream driver, but OpenShift's are all newer, too.
fn runs_affected(sets: &DaemonSets<'_>, advisory: &Advisory) -> Option<bool> {
    let images = sets.windows.iter().flat_map(|set| &set.node_side.images);
    let affected = images.filter_map(|image| {
        let version = Version::new(image.version.0, image.version.1, 0);
        let is_affected = advisory.affects(&version);
        match image.name.as_str() {
            UPSTREAM => Some(is_affected),
            // Of other builds, only an old number says something.
            name => (is_affected && name.contains("vsphere")).then_some(true),
        }
    });
    affected.max()
}
