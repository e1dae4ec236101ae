//! Which drivers are needed, and on which Windows nodes they are missing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::assess::volumes::Resolved;
use crate::index::{Cluster, Name, WorkloadKey, intern};

/// The need for one driver.
#[derive(Clone, Debug, Default)]
pub struct Need {
    /// The in-tree volumes that the driver takes over, counted by workload.
    pub in_tree: BTreeMap<WorkloadKey, usize>,
    /// The nodes whose pods use other volumes of the driver.
    csi: BTreeSet<Name>,
    /// The Windows nodes where the driver is needed but not registered.
    pub missing: BTreeSet<Name>,
    /// Whether there is no Windows node, and no DaemonSet would install the driver on a new one.
    pub is_unbrought: bool,
}

impl Need {
    /// Whether a volume holds upgrades because the driver is missing.
    pub fn holds(&self) -> bool {
        !self.in_tree.is_empty() && (self.is_unbrought || !self.missing.is_empty())
    }

    /// Returns the number of in-tree volumes that the driver takes over.
    pub fn volumes(&self) -> usize {
        self.in_tree.values().sum()
    }
}

/// The needed drivers, and the volumes that no CSI driver takes over.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Needs by driver, without drivers that no workload needs.
    pub drivers: BTreeMap<Name, Need>,
    /// The volumes that no CSI driver takes over, counted by workload.
    pub abandoned: BTreeMap<WorkloadKey, usize>,
    /// The missing drivers by node, sorted.
    missing_on: HashMap<Name, Vec<Name>>,
}

impl Needs {
    /// Adds what a workload on this node needs for a volume.
    pub fn add(&mut self, workload: &WorkloadKey, node: Option<&Name>, row: &Resolved) {
        let Some(driver) = row.driver() else {
            *self.abandoned.entry(workload.clone()).or_default() += 1;
            return;
        };
        let need = match self.drivers.get_mut(driver) {
            Some(need) => need,
            None => self.drivers.entry(intern(driver)).or_default(),
        };
        if row.plugin().is_some() {
            *need.in_tree.entry(workload.clone()).or_default() += 1;
        } else {
            need.csi.extend(node.cloned());
        }
    }

    /// Finds where drivers are missing. In-tree volumes need theirs on every Windows node, others only where pods use it.
    pub fn look(&mut self, cluster: &Cluster, windows: &BTreeSet<Name>) {
        for (driver, need) in &mut self.drivers {
            let lacks = |node: &&Name| !cluster.is_registered(node, driver);
            need.missing = if need.in_tree.is_empty() {
                let used = need.csi.iter().filter(|node| windows.contains(*node));
                used.filter(lacks).cloned().collect()
            } else {
                windows.iter().filter(lacks).cloned().collect()
            };
            for node in &need.missing {
                let missing = self.missing_on.entry(node.clone()).or_default();
                missing.push(driver.clone());
            }
        }
    }

    /// Iterates over the drivers that hold upgrades because they are missing.
    pub fn holding(&self) -> impl Iterator<Item = (&Name, &Need)> + Clone {
        self.drivers.iter().filter(|(_, need)| need.holds())
    }

    /// Returns the drivers that are missing on the node.
    pub fn missing_on(&self, node: &str) -> &[Name] {
        self.missing_on.get(node).map_or(&[], Vec::as_slice)
    }

    /// Returns the need for the driver of a volume; `None` if no driver takes over.
    pub fn of(&self, row: &Resolved) -> Option<&Need> {
        self.drivers.get(row.driver()?)
    }

    /// Whether an in-tree volume holds upgrades.
    pub fn is_blocking(&self, row: &Resolved) -> bool {
        row.plugin().is_some() && self.of(row).is_none_or(Need::holds)
    }
}
