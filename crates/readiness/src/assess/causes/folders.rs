//! Finds which DaemonSet brings a driver whose plugin's folder has another name.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::assess::causes::DaemonSet;
use crate::assess::judgement::judged::Report;
use crate::assess::{drivers, plugins};
use crate::index::{Cluster, Name, System};

/// Returns the DaemonSets for Windows nodes of which only the plugin's folder is known, and not the driver, by that folder.
pub(super) fn open_folders<'a>(
    report: &Report,
    cluster: &'a Cluster,
) -> BTreeMap<&'a Name, Vec<DaemonSet<'a>>> {
    let csi_nodes = cluster.csi_nodes.iter();
    let registered: HashSet<&Name> = csi_nodes.flat_map(|(_, it)| it.drivers.iter()).collect();
    let is_driver = |name: &Name| {
        report.needs.drivers.contains_key(name)
            || plugins::is_known_driver(name)
            || cluster.csi_drivers.get(name).is_some()
            || registered.contains(name)
    };
    let mut folders = BTreeMap::<_, Vec<_>>::new();
    for set in DaemonSet::all(cluster) {
        if let Some(folder) = &set.node_side.folder
            && report.asked.get(set.key) == Some(&System::Windows)
            && !set.node_side.names.iter().any(is_driver)
        {
            folders.entry(folder).or_default().push(set);
        }
    }
    for sets in folders.values_mut() {
        sets.sort_by_key(DaemonSet::order);
    }
    folders
}

/// The drivers that no DaemonSet shows by name which may run on Windows nodes.
pub(super) struct OpenDrivers<'a> {
    /// Those that are registered on Windows nodes.
    registered: BTreeSet<&'a Name>,
    /// Those that are needed, and registered on none.
    needed: BTreeSet<&'a Name>,
}

impl<'a> OpenDrivers<'a> {
    /// Finds them beside the DaemonSets of which only the folder is known.
    pub(super) fn of(report: &'a Report, cluster: &'a Cluster, sets: &[DaemonSet<'_>]) -> Self {
        let nodes = report.windows.iter();
        let nodes = nodes.filter_map(|name| cluster.csi_node(name));
        let mut registered: BTreeSet<&Name> = nodes.flat_map(|node| node.drivers.iter()).collect();
        // A known driver has an image of its own.
        let may_be = |driver: &&Name| {
            let mut sets = sets.iter();
            drivers::by_name(driver).is_none()
                || sets.any(|set| set.node_side.known.contains(*driver))
        };
        let mut needed: BTreeSet<&Name> = report.needs.drivers.keys().filter(may_be).collect();
        needed.retain(|driver| !registered.contains(driver));
        let sets = DaemonSet::all(cluster);
        for set in sets.filter(|set| report.asked.get(set.key) != Some(&System::Other)) {
            registered.retain(|driver| !set.node_side.names.contains(*driver));
            needed.retain(|driver| !set.node_side.names.contains(*driver));
        }
        Self { registered, needed }
    }

    /// Whether a DaemonSet with one of so many folders brings the driver: `None` if none can, since as many other drivers are
    /// registered, `Some(false)` if it is not known.
    pub(super) fn is_of(&self, driver: &Name, folders: usize) -> Option<bool> {
        if self.registered.contains(driver) {
            return Some(folders == 1 && self.registered.len() == 1);
        }
        let is_left = folders > self.registered.len() && self.needed.contains(driver);
        is_left.then_some(folders == 1 && self.needed.len() == 1)
    }
}
