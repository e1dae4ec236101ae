//! The objects that get an event because a volume holds upgrades: claims, and pods whose volume has no claim.

use std::collections::{BTreeMap, BTreeSet};

use crate::assess::judgement::Report;
use crate::assess::redirection::Loss;
use crate::assess::report::Reason;
use crate::assess::volumes::Resolved;
use crate::index::{Cluster, Name, ObjectKey, WorkloadKey, WorkloadKind, list};

/// A kind of object that gets an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockedKind {
    /// A `PersistentVolumeClaim`.
    Claim,
    /// A pod whose volume has no claim.
    Pod,
}

/// An object, and the driver that its volume lacks; `None` if no CSI driver takes over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockedKey {
    /// The object's kind.
    pub kind: BlockedKind,
    /// The object's key.
    pub object: ObjectKey,
    /// The driver.
    pub driver: Option<Name>,
}

/// The content of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// `DriversMissing` or `NoCSIMigration`.
    pub reason: Reason,
    /// The volume, the driver and the nodes.
    pub note: String,
}

/// How many workloads to scan per driver. Templates without pods and claims get no event, and there may be thousands.
const LOOKED_AT: usize = 1_000;

impl Report {
    /// Returns the first objects with volumes that hold upgrades, up to `most`.
    pub fn blocked_objects(&self, cluster: &Cluster, most: usize) -> BTreeMap<BlockedKey, Blocked> {
        let mut blocked = BTreeMap::new();
        let groups = self
            .needs
            .holding()
            .map(|(driver, need)| (Some((driver, &need.missing)), &need.in_tree))
            .chain([(None, &self.needs.abandoned)]);
        for (missing, workloads) in groups {
            for workload in workloads.keys().take(LOOKED_AT) {
                self.add_blocked(cluster, workload, missing, &mut blocked);
                if blocked.len() >= most {
                    return blocked;
                }
            }
        }
        blocked
    }

    fn add_blocked(
        &self,
        cluster: &Cluster,
        workload: &WorkloadKey,
        missing: Option<(&Name, &BTreeSet<Name>)>,
        blocked: &mut BTreeMap<BlockedKey, Blocked>,
    ) {
        let used = self.workloads.get(workload);
        let rows = used.map_or(&[][..], |used| &used.rows);
        let driver = missing.map(|(driver, _)| driver);
        for row in rows.iter().filter(|row| row.plugin().is_some()) {
            if row.driver() != driver.map(Name::as_str) {
                continue;
            }
            let Some((kind, object)) = object_of(cluster, workload, row) else {
                continue;
            };
            let key = BlockedKey {
                kind,
                object,
                driver: driver.cloned(),
            };
            blocked
                .entry(key)
                .or_insert_with(|| describe(workload, row, missing, self.loss(row)));
        }
    }
}

/// Returns the claim if it exists, otherwise the pod. A template without pods gets no event; only the verdict names it.
fn object_of(
    cluster: &Cluster,
    workload: &WorkloadKey,
    row: &Resolved,
) -> Option<(BlockedKind, ObjectKey)> {
    let namespace = &workload.object.namespace;
    let claim = row.claim.as_ref();
    let claim = claim.map(|claim| ObjectKey::new(namespace.clone(), claim.clone()));
    match claim.filter(|claim| cluster.claims.get(claim).is_some()) {
        Some(claim) => Some((BlockedKind::Claim, claim)),
        None if workload.kind == WorkloadKind::Pod => {
            Some((BlockedKind::Pod, workload.object.clone()))
        }
        None => None,
    }
}

fn describe(
    workload: &WorkloadKey,
    row: &Resolved,
    missing: Option<(&Name, &BTreeSet<Name>)>,
    loss: Option<Loss>,
) -> Blocked {
    let plugin = row.plugin().map_or("in-tree", |plugin| plugin.name);
    let kind = workload.kind.as_str();
    let name = &workload.object.name;
    let volume = format!("Volume {} of {kind} {name} ({plugin})", row.volume);
    let (reason, fault) = if let Some((driver, missing)) = missing {
        let lack = if missing.is_empty() {
            "no DaemonSet brings to Windows nodes".to_owned()
        } else {
            format!("is not registered on {}", list(missing))
        };
        let fault = format!("needs the CSI driver {driver}, which {lack}");
        (Reason::DriversMissing, fault)
    } else {
        let fault = "has no CSI driver that takes over: move its data to another volume";
        (Reason::NoCSIMigration, fault.to_owned())
    };
    let fate = match loss {
        None => "upgrades are not safe until then".to_owned(),
        Some(Loss::Today) => "it cannot be mounted there already today".to_owned(),
        Some(Loss::At(release)) => format!("it breaks at the upgrade to {}", release.number()),
    };
    let note = format!("{volume} {fault}; {fate}.");
    Blocked { reason, note }
}
