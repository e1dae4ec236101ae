//! Counts which drivers are needed, and on which Windows nodes they are missing.

use std::collections::{BTreeMap, BTreeSet};

use crate::assess::assessment::counts::Counts;
use crate::assess::volumes::Resolved;
use crate::index::{Cluster, Name, Node, WorkloadKey, intern};

/// What one workload needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// The Windows node that it is bound to.
    pub node: Option<Name>,
    /// Its volumes, by volume and claim.
    pub rows: Vec<Resolved>,
}

/// The need for one driver.
#[derive(Clone, Debug, Default)]
pub struct Need {
    /// The in-tree volumes that the driver takes over, by workload.
    pub in_tree: Counts<WorkloadKey>,
    /// The other volumes that need it, by the Windows node that they are used on.
    csi: Counts<Option<Name>>,
    /// The Windows nodes on which it is needed and not registered.
    pub missing: BTreeSet<Name>,
    /// There is no Windows node, and no DaemonSet brings the driver to one that comes.
    is_unbrought: bool,
}

impl Need {
    /// Whether a volume holds upgrades for want of it.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.in_tree.total() > 0 && (self.is_unbrought || !self.missing.is_empty())
    }
}

/// Something that held upgrades and has gone from sight, rather than got what it lacked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Departed {
    /// A volume that needs that driver.
    Volume(Name),
    /// A volume that no driver takes over.
    Abandoned,
    /// A Windows node.
    Node,
}

/// The needs for all drivers, and the volumes that no driver takes over.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// By driver. One that nobody needs is not there.
    pub drivers: BTreeMap<Name, Need>,
    /// The volumes that no driver takes over, by workload.
    pub abandoned: Counts<WorkloadKey>,
    /// The Windows nodes.
    pub windows: BTreeSet<Name>,
    /// The nodes on which other drivers are missing than before.
    pub touched: BTreeSet<Name>,
    /// How often something has departed.
    pub departures: BTreeMap<Departed, u64>,
}

impl Needs {
    /// A workload needs that as well.
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

    /// A workload does not need that any more: what it needs now was added before.
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

    /// Whether a driver that holds upgrades is missing on that node.
    pub fn is_held_by(&self, node: &str) -> bool {
        let mut drivers = self.drivers.values();
        drivers.any(|need| need.holds() && need.missing.contains(node))
    }

    /// A node became a Windows node or is one no longer, or its drivers are others.
    pub fn node_changed(&mut self, cluster: &Cluster, node: &Name) {
        set(&mut self.windows, node, is_windows(cluster, node));
        for (driver, need) in &mut self.drivers {
            refresh(cluster, driver, need, [node], &mut self.touched);
        }
    }

    /// Says whether a driver is on Windows nodes, or would be on one that comes.
    pub fn set_brought(&mut self, driver: &Name, is_brought: bool) {
        if let Some(need) = self.drivers.get_mut(driver) {
            need.is_unbrought = !is_brought;
        }
    }

    /// The drivers that are missing on that node.
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

/// Puts a name into a set, or takes it out. Says whether that changes anything.
pub fn set(names: &mut BTreeSet<Name>, name: &Name, is_in: bool) -> bool {
    if is_in {
        names.insert(name.clone())
    } else {
        names.remove(name)
    }
}

/// A driver that in-tree volumes need is needed on every Windows node, any other where pods use it.
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
