//! Finds which DaemonSet brings a driver whose plugin's folder has another name.

use std::collections::{BTreeMap, BTreeSet};

use crate::assess::causes::DaemonSet;
use crate::assess::judgement::Report;
use crate::assess::{drivers, plugins};
use crate::index::{Cluster, Name, System, WorkloadKind};

/// Returns the DaemonSets for Windows nodes of which only the plugin's folder is known, and not the driver, by that folder.
pub(super) fn open_folders<'a>(
    report: &Report,
    cluster: &'a Cluster,
) -> BTreeMap<&'a Name, Vec<DaemonSet<'a>>> {
    let is_driver = |name: &Name| {
        let mut csi_nodes = cluster.csi_nodes.iter();
        report.needs(name)
            || plugins::is_known_driver(name)
            || cluster.csi_drivers.get(name).is_some()
            || csi_nodes.any(|(_, csi_node)| csi_node.drivers.contains(name))
    };
    let mut folders = BTreeMap::<_, Vec<_>>::new();
    for (key, owner) in cluster.owners[WorkloadKind::DaemonSet].iter() {
        if let Some(node_side) = owner.node_side.as_deref()
            && let Some(folder) = &node_side.folder
            && report.asked(key) == Some(System::Windows)
            && !node_side.names.iter().any(is_driver)
        {
            let sets = folders.entry(folder).or_default();
            sets.push(DaemonSet {
                key,
                owner,
                node_side,
            });
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
    pub(super) fn of(report: &'a Report, cluster: &'a Cluster) -> Self {
        let nodes = report.windows.iter();
        let nodes = nodes.filter_map(|name| cluster.csi_nodes.get(name));
        let mut registered: BTreeSet<&Name> = nodes.flat_map(|node| node.drivers.iter()).collect();
        let mut needed: BTreeSet<&Name> = report.needed_drivers().collect();
        needed.retain(|driver| !registered.contains(driver));
        for (key, owner) in cluster.owners[WorkloadKind::DaemonSet].iter() {
            if let Some(node_side) = owner.node_side.as_deref()
                && report.asked(key) != Some(System::Other)
            {
                registered.retain(|driver| !node_side.names.contains(*driver));
                needed.retain(|driver| !node_side.names.contains(*driver));
            }
        }
        Self { registered, needed }
    }

    /// Whether one of the DaemonSets, which have so many folders, brings the driver: `None` if none can, since as many other
    /// drivers are registered.
    pub(super) fn may_have(
        &self,
        driver: &Name,
        folders: usize,
        sets: &[DaemonSet<'_>],
    ) -> Option<bool> {
        if self.registered.contains(driver) {
            return Some(folders == 1 && self.registered.len() == 1);
        }
        if folders <= self.registered.len() || !self.needed.contains(driver) {
            return None;
        }
        // A known driver has an image of its own.
        let has_image = sets.iter().any(|set| set.node_side.known.contains(driver));
        let may_be = drivers::by_name(driver).is_none() || has_image;
        Some(folders == 1 && self.needed.len() == 1 && may_be)
    }
}
