//! Counts which drivers are needed, and on which Windows nodes they are missing.

use std::collections::{BTreeMap, BTreeSet};

use crate::assess::assessment::counts::Counts;
use crate::assess::volumes::Resolved;
use crate::index::{Cluster, Name, Node, WorkloadKey, intern};

/// The drivers that one workload needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// The Windows node that the workload is bound to.
    pub node: Option<Name>,
    /// The workload's volumes, sorted by volume and claim.
    pub rows: Vec<Resolved>,
}

/// The need for one driver.
#[derive(Clone, Debug, Default)]
pub struct Need {
    /// The in-tree volumes that the driver takes over, by workload.
    pub in_tree: Counts<WorkloadKey>,
    /// The other volumes that need the driver, by the Windows node that uses them.
    csi: Counts<Option<Name>>,
    /// The Windows nodes where the driver is needed but not registered.
    pub missing: BTreeSet<Name>,
    /// Whether there is no Windows node, and no DaemonSet would install the driver on a new one.
    is_unbrought: bool,
}

impl Need {
    /// Whether a volume holds upgrades because the driver is missing.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.in_tree.total() > 0 && (self.is_unbrought || !self.missing.is_empty())
    }
}

/// Something that held upgrades and disappeared, instead of getting the missing driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Departed {
    /// A volume that needs this driver.
    Volume(Name),
    /// A volume that no CSI driver takes over.
    Abandoned,
    /// A Windows node.
    Node,
}

/// The needed drivers, and the volumes that no CSI driver takes over.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Needs by driver, without drivers that no workload needs.
    pub drivers: BTreeMap<Name, Need>,
    /// The volumes that no CSI driver takes over, by workload.
    pub abandoned: Counts<WorkloadKey>,
    /// The Windows nodes.
    pub windows: BTreeSet<Name>,
    /// The nodes whose missing drivers changed.
    pub touched: BTreeSet<Name>,
    /// The number of departures.
    pub departures: BTreeMap<Departed, u64>,
}

impl Needs {
    /// Adds a workload's needs.
    pub fn add(&mut self, cluster: &Cluster, workload: &WorkloadKey, uses: &Uses) {
        for row in &uses.rows {
            let Some(driver) = row.driver() else {
                self.abandoned.add(workload);
                continue;
            };
            let need = self.drivers.entry(intern(driver)).or_default();
            if row.plugin().is_none() {
                need.csi.add(&uses.node);
                refresh(cluster, driver, need, &uses.node, &mut self.touched);
            } else {
                need.in_tree.add(workload);
                if need.in_tree.total() == 1 {
                    refresh(cluster, driver, need, &self.windows, &mut self.touched);
                }
            }
        }
    }

    /// Removes a workload's old needs. The caller adds the new ones first.
    pub fn remove(&mut self, cluster: &Cluster, workload: &WorkloadKey, uses: &Uses) {
        for row in &uses.rows {
            let Some(driver) = row.driver() else {
                if self.abandoned.remove(workload) {
                    self.depart(Departed::Abandoned);
                }
                continue;
            };
            let Some(need) = self.drivers.get_mut(driver) else {
                continue;
            };
            if row.plugin().is_none() {
                need.csi.remove(&uses.node);
                refresh(cluster, driver, need, &uses.node, &mut self.touched);
            } else {
                let held = need.holds();
                let departed = need.in_tree.remove(workload) && held;
                if need.in_tree.total() == 0 {
                    refresh(cluster, driver, need, &self.windows, &mut self.touched);
                }
                if departed {
                    let driver = Departed::Volume(intern(driver));
                    *self.departures.entry(driver).or_default() += 1;
                }
            }
            if need.in_tree.total() == 0 && need.csi.total() == 0 {
                self.drivers.remove(driver);
            }
        }
    }

    /// Counts a departure.
    pub fn depart(&mut self, departed: Departed) {
        *self.departures.entry(departed).or_default() += 1;
    }

    /// Whether a driver that holds upgrades is missing on the node.
    pub fn is_held_by(&self, node: &str) -> bool {
        let mut drivers = self.drivers.values();
        drivers.any(|need| need.holds() && need.missing.contains(node))
    }

    /// Updates the needs after a node became or stopped being a Windows node, or after its drivers changed.
    pub fn node_changed(&mut self, cluster: &Cluster, node: &Name) {
        set(&mut self.windows, node, is_windows(cluster, node));
        for (driver, need) in &mut self.drivers {
            refresh(cluster, driver, need, [node], &mut self.touched);
        }
    }

    /// Records whether a driver is on Windows nodes or would be installed on a new one.
    pub fn set_brought(&mut self, driver: &Name, is_brought: bool) {
        if let Some(need) = self.drivers.get_mut(driver) {
            need.is_unbrought = !is_brought;
        }
    }

    /// Returns the drivers that are missing on the node.
    pub fn missing_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Name> {
        self.drivers
            .iter()
            .filter(move |(_, need)| need.missing.contains(node))
            .map(|(driver, _)| driver)
    }
}

fn is_windows(cluster: &Cluster, node: &Name) -> bool {
    cluster.nodes.get(node).is_some_and(Node::is_windows)
}

/// Adds or removes a name. Returns whether the set changed.
pub fn set(names: &mut BTreeSet<Name>, name: &Name, is_in: bool) -> bool {
    if is_in {
        names.insert(name.clone())
    } else {
        names.remove(name)
    }
}

/// Updates where a driver is missing. In-tree volumes need it on every Windows node, others only where pods use it.
fn refresh<'a>(
    cluster: &Cluster,
    driver: &str,
    need: &mut Need,
    nodes: impl IntoIterator<Item = &'a Name>,
    touched: &mut BTreeSet<Name>,
) {
    for node in nodes {
        let is_needed = need.in_tree.total() > 0 || need.csi.contains(&Some(node.clone()));
        let is_missing = is_needed
            && is_windows(cluster, node)
            && !cluster
                .csi_nodes
                .get(node)
                .is_some_and(|csi_node| csi_node.drivers.contains(driver));
        if set(&mut need.missing, node, is_missing) {
            touched.insert(node.clone());
        }
    }
}
