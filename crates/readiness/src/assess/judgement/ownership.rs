//! Which controllers own which objects, and which of an owner's volumes live pods represent.

use std::collections::{HashMap, HashSet};

use crate::assess::volumes::Resolved;
use crate::index::{
    Cluster, Name, ObjectKey, Owner, Pod, Revision, VolumeType, WorkloadKey, WorkloadKind,
};

/// How many levels of controllers are followed; Kubernetes itself has two. Bounds the work and the memory that a malicious
/// chain can cause: each level has what stands below it.
const LONGEST_CHAIN: usize = 4;

/// Owners by uid, and the template volumes that live pods represent.
///
/// A uid is always taken together with a namespace, as an [`ObjectKey`] with the uid as its name: owner references do not
/// cross namespaces, and whoever may create objects in one namespace can write any uid into them.
#[derive(Debug, Default)]
pub struct Ownership<'a> {
    by_uid: HashMap<ObjectKey, (WorkloadKind, &'a Owner)>,
    /// The latest revision of each controller that is not read. Revisions of a known controller are judged with it.
    last_revisions: HashMap<ObjectKey, (Revision, &'a ObjectKey)>,
    /// The volumes that live pods represent, by the uid of a controller above them.
    standing: HashMap<ObjectKey, HashSet<Standing>>,
}

/// A template volume that a live pod represents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// A volume and its claim.
    Claim(Name, Name),
    /// A volume without a claim in the template: its name, the driver or plugin, and the class.
    Type(Name, VolumeType, Option<Name>),
}

impl Standing {
    /// Returns the [`Standing`] that represents a template's volume.
    fn wanted(row: &Resolved) -> Self {
        match &row.claim {
            Some(claim) => Self::Claim(row.volume.clone(), claim.clone()),
            None => Self::of_type(row),
        }
    }

    fn of_type(row: &Resolved) -> Self {
        Self::Type(
            row.volume.clone(),
            row.served_by.clone(),
            row.storage_class.clone(),
        )
    }
}

impl<'a> Ownership<'a> {
    /// Indexes the cluster's owners. No live pod represents any of them yet.
    pub fn of(cluster: &'a Cluster) -> Self {
        let mut ownership = Self::default();
        for (kind, key, owner) in cluster.owners.iter() {
            if let Some(uid) = here(&key.namespace, owner.uid.as_ref()) {
                ownership.by_uid.entry(uid).or_insert((kind, owner));
            }
        }
        for (_, key, owner) in cluster.owners.iter() {
            let controller = here(&key.namespace, owner.controller.as_ref());
            let unread = controller.filter(|uid| !ownership.by_uid.contains_key(uid));
            if let (Some(controller), Some(revision)) = (unread, owner.revision) {
                let own = (revision, key);
                let last = ownership.last_revisions.entry(controller);
                let last = last.or_insert(own);
                *last = own.max(*last);
            }
        }
        ownership
    }

    /// Records the volumes of a live pod, which represent those of its controller.
    pub fn stand(&mut self, namespace: &Name, controller: Option<&Name>, rows: &[Resolved]) {
        let controller = here(namespace, controller).filter(|_| !rows.is_empty());
        let Some(controller) = controller else {
            return;
        };
        let standing = self.standing.entry(controller).or_default();
        for row in rows {
            standing.insert(Standing::of_type(row));
            if row.claim.is_some() {
                standing.insert(Standing::wanted(row));
            }
        }
    }

    /// Lets live pods represent the controllers of their controllers as well. To be called when all pods are recorded.
    pub fn climb(&mut self) {
        for (mut uid, own) in self.standing.clone() {
            for _ in 0..LONGEST_CHAIN {
                let owner = self.by_uid.get(&uid);
                let controller = owner.and_then(|(_, owner)| owner.controller.as_ref());
                let Some(above) = here(&uid.namespace, controller) else {
                    break;
                };
                let of_above = self.standing.entry(above.clone()).or_default();
                of_above.extend(own.iter().cloned());
                uid = above;
            }
        }
    }

    /// Keeps the template volumes that no live pod represents: neither a pod of the owner nor one of an owner below it.
    pub fn retain_unattended(&self, key: &WorkloadKey, owner: &Owner, rows: &mut Vec<Resolved>) {
        let uid = here(&key.object.namespace, owner.uid.as_ref());
        if let Some(standing) = uid.and_then(|uid| self.standing.get(&uid)) {
            rows.retain(|row| !standing.contains(&Standing::wanted(row)));
        }
    }

    /// Whether this is an old revision of a controller that is not read: another revision has replicas, or a newer one
    /// exists, or one that is as new and the last by name.
    pub fn is_old_revision(&self, key: &WorkloadKey, owner: &Owner) -> bool {
        let controller = here(&key.object.namespace, owner.controller.as_ref());
        let last = controller.and_then(|uid| self.last_revisions.get(&uid));
        let own = owner.revision.filter(|own| !own.has_replicas);
        own.zip(last)
            .is_some_and(|(own, last)| (own, &key.object) < *last)
    }

    /// Whether the object that made a pod is read.
    pub fn has_owner(&self, namespace: &Name, pod: &Pod) -> bool {
        let controller = here(namespace, pod.controller.as_ref());
        controller.is_some_and(|uid| self.by_uid.contains_key(&uid))
    }

    /// Whether the object that created this owner exists and is judged in its place.
    pub fn has_maker(&self, key: &WorkloadKey, owner: &Owner) -> bool {
        let controller = here(&key.object.namespace, owner.controller.as_ref());
        let above = controller.and_then(|uid| self.by_uid.get(&uid));
        above.is_some_and(|(kind, _)| Some(*kind) == key.kind.maker())
    }
}

fn here(namespace: &Name, uid: Option<&Name>) -> Option<ObjectKey> {
    uid.map(|uid| ObjectKey::new(namespace.clone(), uid.clone()))
}
