//! What held upgrades and went from sight, instead of getting what it lacked.

use std::collections::BTreeSet;

use crate::assess::causes::DaemonSets;
use crate::assess::judgement::judged::Report;
use crate::index::{Cluster, Name};

/// Something that held upgrades and disappeared, instead of getting the missing driver. An object that is deleted and
/// recreated, or created piece by piece, is missing only for a moment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Departed {
    /// A volume that needs this driver.
    Volume(Name),
    /// A volume that no CSI driver takes over.
    Abandoned,
    /// A Windows node.
    Node,
}

impl Report {
    /// Returns what held upgrades in an earlier report and is not there any more.
    pub fn departed(&self, before: &Self) -> BTreeSet<Departed> {
        let mut departed = BTreeSet::new();
        for (driver, need) in before.needs.holding() {
            let now = self.needs.drivers.get(driver);
            let mut workloads = need.in_tree.keys();
            if workloads.any(|key| now.is_none_or(|now| !now.in_tree.contains_key(key))) {
                departed.insert(Departed::Volume(driver.clone()));
            }
            if !need.missing.is_subset(&self.windows) {
                departed.insert(Departed::Node);
            }
        }
        let mut abandoned = before.needs.abandoned.keys();
        if abandoned.any(|key| !self.needs.abandoned.contains_key(key)) {
            departed.insert(Departed::Abandoned);
        }
        if !before.without_csi_node.is_subset(&self.windows) {
            departed.insert(Departed::Node);
        }
        departed
    }

    /// Whether a departed object would hold upgrades again if it came back.
    pub fn would_hold(&self, cluster: &Cluster, departed: &Departed) -> bool {
        let Departed::Volume(driver) = departed else {
            return true;
        };
        let has = |node: &Name| cluster.is_registered(node, driver);
        let sets = || DaemonSets::of_driver(self, cluster, driver);
        !self.windows.iter().all(has)
            || self.windows.is_empty() && sets().that_register(driver).next().is_none()
    }
}
