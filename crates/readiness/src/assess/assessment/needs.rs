//! Which drivers are needed, by how much, and on which Windows nodes they are missing.

use std::collections::{BTreeMap, BTreeSet};

use crate::assess::volumes::Resolved;
use crate::index::{Cluster, Name, WorkloadKey};

/// What one workload needs.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    /// The Windows node that it is bound to.
    pub node: Option<Name>,
    /// Its volumes, by volume and claim.
    pub rows: Vec<Resolved>,
}

/// The need for one driver.
#[derive(Clone, Debug, Default)]
pub struct Need {
    /// The workloads with in-tree volumes that the driver takes over, and how many each has.
    pub in_tree: BTreeMap<WorkloadKey, usize>,
    /// How many such volumes there are.
    pub in_tree_volumes: usize,
    /// How many other volumes need the driver.
    pub csi_volumes: usize,
    /// How many of those are used on each Windows node.
    csi_on: BTreeMap<Name, usize>,
    /// The Windows nodes on which it is needed and not registered.
    pub missing: BTreeSet<Name>,
}

impl Need {
    /// Whether a volume holds upgrades for want of it.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.in_tree.is_empty() && !self.missing.is_empty()
    }
}

/// The needs for all drivers, and the volumes that no driver takes over.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// By driver. One that nobody needs is not there.
    pub drivers: BTreeMap<Name, Need>,
    /// The workloads with volumes that no driver takes over, and how many each has.
    pub abandoned: BTreeMap<WorkloadKey, usize>,
    /// How many such volumes there are.
    pub abandoned_volumes: usize,
    /// The Windows nodes.
    pub windows: BTreeSet<Name>,
}

impl Needs {
    /// A workload needs that as well. Adds the nodes on which other drivers are missing than before to `touched`.
    pub fn add(
        &mut self,
        cluster: &Cluster,
        workload: &WorkloadKey,
        uses: &Uses,
        touched: &mut BTreeSet<Name>,
    ) {
        for row in &uses.rows {
            let Some(driver) = row.driver() else {
                *self.abandoned.entry(workload.clone()).or_default() += 1;
                self.abandoned_volumes += 1;
                continue;
            };
            if !self.drivers.contains_key(driver) {
                self.drivers.insert(driver.into(), Need::default());
            }
            let Some(need) = self.drivers.get_mut(driver) else {
                continue;
            };
            if row.plugin().is_some() {
                let first = need.in_tree.is_empty();
                *need.in_tree.entry(workload.clone()).or_default() += 1;
                need.in_tree_volumes += 1;
                if first {
                    refresh_all(cluster, driver, need, &self.windows, touched);
                }
            } else {
                need.csi_volumes += 1;
                if let Some(node) = &uses.node {
                    *need.csi_on.entry(node.clone()).or_default() += 1;
                    refresh(cluster, driver, need, &self.windows, node, touched);
                }
            }
        }
    }

    /// A workload does not need that any more: what it needs now was added before. Says whether a volume that held
    /// upgrades is no longer among what it needs.
    pub fn remove(
        &mut self,
        cluster: &Cluster,
        workload: &WorkloadKey,
        uses: &Uses,
        touched: &mut BTreeSet<Name>,
    ) -> bool {
        let mut departed = false;
        for row in &uses.rows {
            let Some(driver) = row.driver() else {
                count_down(&mut self.abandoned, workload);
                self.abandoned_volumes -= 1;
                departed |= !self.abandoned.contains_key(workload);
                continue;
            };
            let Some(need) = self.drivers.get_mut(driver) else {
                continue;
            };
            if row.plugin().is_some() {
                let held = need.holds();
                count_down(&mut need.in_tree, workload);
                need.in_tree_volumes -= 1;
                departed |= held && !need.in_tree.contains_key(workload);
                if need.in_tree.is_empty() {
                    refresh_all(cluster, driver, need, &self.windows, touched);
                }
            } else {
                need.csi_volumes -= 1;
                if let Some(node) = &uses.node {
                    count_down(&mut need.csi_on, node);
                    refresh(cluster, driver, need, &self.windows, node, touched);
                }
            }
            if need.in_tree_volumes == 0 && need.csi_volumes == 0 {
                self.drivers.remove(driver);
            }
        }
        departed
    }

    /// Whether a driver that holds upgrades is missing on that node.
    pub fn is_held_by(&self, node: &str) -> bool {
        let mut drivers = self.drivers.values();
        drivers.any(|need| need.holds() && need.missing.contains(node))
    }

    /// A node became a Windows node or is one no longer, or its drivers are others.
    pub fn node_changed(
        &mut self,
        cluster: &Cluster,
        node: &Name,
        is_windows: bool,
        touched: &mut BTreeSet<Name>,
    ) {
        if is_windows {
            self.windows.insert(node.clone());
        } else {
            self.windows.remove(node);
        }
        for (driver, need) in &mut self.drivers {
            refresh(cluster, driver, need, &self.windows, node, touched);
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

fn count_down<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// A driver that in-tree volumes need is needed on every Windows node, any other where pods use it.
fn refresh(
    cluster: &Cluster,
    driver: &str,
    need: &mut Need,
    windows: &BTreeSet<Name>,
    node: &Name,
    touched: &mut BTreeSet<Name>,
) {
    let is_needed = !need.in_tree.is_empty() || need.csi_on.contains_key(node);
    let is_missing = is_needed
        && windows.contains(node)
        && !cluster
            .csi_nodes
            .get(node)
            .is_some_and(|csi_node| csi_node.drivers.contains(driver));
    let changed = if is_missing {
        need.missing.insert(node.clone())
    } else {
        need.missing.remove(node)
    };
    if changed {
        touched.insert(node.clone());
    }
}

fn refresh_all(
    cluster: &Cluster,
    driver: &str,
    need: &mut Need,
    windows: &BTreeSet<Name>,
    touched: &mut BTreeSet<Name>,
) {
    for node in windows {
        refresh(cluster, driver, need, windows, node, touched);
    }
}
