//! What has changed in a cluster since the last time.

use std::collections::BTreeSet;

use crate::index::{Cluster, Name, ObjectKey, WorkloadKey, WorkloadKind};

/// The keys of what has changed, by kind.
pub(super) struct Changed {
    pub nodes: BTreeSet<Name>,
    pub csi_nodes: BTreeSet<Name>,
    pub csi_drivers: BTreeSet<Name>,
    pub pods: BTreeSet<ObjectKey>,
    pub claims: BTreeSet<ObjectKey>,
    pub volumes: BTreeSet<Name>,
    pub classes: BTreeSet<Name>,
    pub runtime_classes: BTreeSet<Name>,
    pub owners: Vec<WorkloadKey>,
    /// DaemonSets or switches of drivers are others: why a driver is missing may be told otherwise.
    pub drivers_are_brought_otherwise: bool,
}

impl Changed {
    pub fn take(cluster: &mut Cluster) -> Self {
        let switches = cluster.feature_switches.take_changed();
        let owners = cluster.owners.tables_mut().into_iter();
        let owners: Vec<WorkloadKey> = owners
            .flat_map(|(kind, table)| {
                let changed = table.take_changed().into_iter();
                changed.map(move |object| WorkloadKey { object, kind })
            })
            .collect();
        Self {
            nodes: cluster.nodes.take_changed(),
            csi_nodes: cluster.csi_nodes.take_changed(),
            csi_drivers: cluster.csi_drivers.take_changed(),
            pods: cluster.pods.take_changed(),
            claims: cluster.claims.take_changed(),
            volumes: cluster.volumes.take_changed(),
            classes: cluster.classes.take_changed(),
            runtime_classes: cluster.runtime_classes.take_changed(),
            drivers_are_brought_otherwise: !switches.is_empty()
                || owners.iter().any(|key| key.kind == WorkloadKind::DaemonSet),
            owners,
        }
    }
}
