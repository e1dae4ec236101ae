//! The DaemonSet that installs a driver on Windows nodes.

use super::cluster::{
    CSI_DRIVER, CSI_NODE, Cluster, DAEMON_SET, NODE, csi_node as of_node, csi_node_drivers, name,
    namespace,
};
use super::node_side::{can_register, has_image_of, is_known, names_driver, own_folder};
use super::placement::{asks, namespace_asks};
use super::volumes::known_drivers;
use super::workloads::{is_windows_node, template_spec};
use serde_json::Value;
use std::collections::BTreeSet;

/// Returns the first DaemonSet that brings the driver to Windows nodes. `needed` are all drivers that volumes need.
pub fn daemon_set<'a>(cluster: Cluster<'a>, driver: &str, needed: &[String]) -> Option<&'a Value> {
    let mut sets = for_windows(cluster, driver);
    if sets.is_empty() {
        sets = of_another_folder(cluster, driver, needed);
    }
    sets.sort_by_key(|set| (name(set), namespace(set)));
    sets.first().copied()
}

fn for_windows<'a>(cluster: Cluster<'a>, driver: &str) -> Vec<&'a Value> {
    let sets = cluster.of(DAEMON_SET).filter(|set| {
        template_spec(set).is_some_and(|spec| {
            asks(cluster, namespace(set), spec, true) == Some(true)
                && namespace_asks(cluster, namespace(set)) != Some(false)
                && names_driver(spec, driver)
        })
    });
    sets.collect()
}

/// Returns the DaemonSets of the one folder that is no driver's name, if the driver is the one whose name no DaemonSet shows:
/// of those on Windows nodes, or, if there is none, of those that are needed.
fn of_another_folder<'a>(cluster: Cluster<'a>, driver: &str, needed: &[String]) -> Vec<&'a Value> {
    let specs = |is_wanted: &dyn Fn(Option<bool>) -> bool| -> Vec<(&'a Value, &'a Value)> {
        let sets = cluster.of(DAEMON_SET);
        let specs = sets.filter_map(|set| Some((set, template_spec(set)?)));
        specs
            .filter(|(set, spec)| is_wanted(asks(cluster, namespace(set), spec, true)))
            .collect()
    };
    let is_shown = |driver: &str| {
        let may_run = specs(&|asks| asks != Some(false));
        may_run.iter().any(|(_, spec)| names_driver(spec, driver))
    };
    let windows = |csi_node: &Value| {
        let node = cluster.get(NODE, "", name(csi_node));
        node.is_some_and(is_windows_node) && of_node(cluster, name(csi_node)).is_some()
    };
    if !cluster.of(NODE).any(is_windows_node) {
        return Vec::new();
    }
    let csi_nodes = cluster.of(CSI_NODE).filter(|node| windows(node));
    let on_windows: BTreeSet<&str> = csi_nodes.flat_map(csi_node_drivers).collect();
    let registered: BTreeSet<&str> = on_windows
        .iter()
        .copied()
        .filter(|driver| !is_shown(driver))
        .collect();
    let may_be_named: Vec<String> = cluster
        .of(CSI_NODE)
        .flat_map(csi_node_drivers)
        .chain(cluster.of(CSI_DRIVER).map(name))
        .map(str::to_owned)
        .chain(needed.iter().cloned())
        .chain(known_drivers())
        .collect();
    let folders = specs(&|asks| asks == Some(true)).into_iter();
    let folders = folders.filter(|(_, spec)| {
        let mut drivers = may_be_named.iter();
        !drivers.any(|driver| names_driver(spec, driver))
    });
    let folders: Vec<_> = folders
        .filter_map(|(set, spec)| Some((own_folder(spec)?, set)))
        .collect();
    let names: BTreeSet<&String> = folders.iter().map(|(folder, _)| folder).collect();
    // A known driver has an image of its own.
    let may_be = |driver: &str| {
        let mut specs = folders.iter().filter_map(|(_, set)| template_spec(set));
        !is_known(driver) || specs.any(|spec| has_image_of(spec, driver))
    };
    let missing = needed
        .iter()
        .map(String::as_str)
        .filter(|driver| !on_windows.contains(driver) && !is_shown(driver) && may_be(driver));
    let missing: BTreeSet<&str> = missing.collect();
    let is_it = if registered.contains(driver) {
        registered.len() == 1
    } else {
        registered.is_empty() && missing.contains(driver) && missing.len() == 1
    };
    if names.len() == 1 && is_it {
        folders.into_iter().map(|(_, set)| set).collect()
    } else {
        Vec::new()
    }
}

/// Returns the DaemonSets for Windows whose pods can register the driver, as `namespace/name`.
pub fn stand_ins(cluster: Cluster<'_>, driver: &str) -> Vec<String> {
    let mut sets: Vec<_> = for_windows(cluster, driver)
        .into_iter()
        .filter(|set| set["metadata"]["deletionTimestamp"].is_null())
        .filter(|set| template_spec(set).is_some_and(|spec| can_register(spec, driver)))
        .map(|set| (name(set), namespace(set)))
        .collect();
    sets.sort_unstable();
    sets.into_iter()
        .map(|(name, namespace)| format!("{namespace}/{name}"))
        .collect()
}
