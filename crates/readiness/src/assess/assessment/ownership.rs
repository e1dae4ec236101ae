//! Tracks which controllers own which objects, and which owner a live pod represents.

use std::collections::{BTreeSet, HashMap};

use crate::assess::assessment::counts::Counts;
use crate::assess::assessment::workloads::{Workloads, link, unlink};
use crate::assess::volumes::Resolved;
use crate::index::{Name, ObjectKey, Owner, Revision, WorkloadKey, intern};

/// How many levels of controllers are followed; Kubernetes itself has two. Bounds the work that a malicious chain can
/// cause.
const LONGEST_CHAIN: usize = 64;

/// Owners by uid, their controllers, and the template volumes that live pods represent.
///
/// A uid is always taken together with a namespace, as an [`ObjectKey`] with the uid as its name: owner references do not
/// cross namespaces, and whoever may create objects in one namespace can write any uid into them.
#[derive(Clone, Debug, Default)]
pub struct Ownership {
    links: HashMap<WorkloadKey, Link>,
    by_uid: HashMap<ObjectKey, Workloads>,
    controlled_by: HashMap<ObjectKey, Workloads>,
    /// The volumes that live pods represent, by controller.
    standing: HashMap<ObjectKey, Counts<Standing>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Link {
    uid: Option<ObjectKey>,
    controller: Option<ObjectKey>,
    revision: Option<Revision>,
}

/// A template volume that a live pod represents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// A volume and its claim.
    Claim(Name, Name),
    /// A volume without a claim in the template: its name, the driver or plugin, and the class.
    Type(Name, Name, Option<Name>),
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
        let served_by = row.plugin().map(|plugin| plugin.name);
        let served_by = served_by.or(row.driver()).unwrap_or_default();
        Self::Type(
            row.volume.clone(),
            intern(served_by),
            row.storage_class.clone(),
        )
    }

    /// Returns what a live pod's volumes represent.
    pub fn of<'a>(rows: impl Iterator<Item = &'a Resolved>) -> Vec<Self> {
        let standing = rows.flat_map(|row| {
            let claim = row.claim.is_some().then(|| Self::wanted(row));
            claim.into_iter().chain([Self::of_type(row)])
        });
        standing.collect()
    }
}

impl Ownership {
    /// Updates the links of an added, changed or removed owner. Returns the owners that may now be represented differently.
    pub fn relink(&mut self, key: &WorkloadKey, owner: Option<&Owner>) -> BTreeSet<WorkloadKey> {
        let here = |uid: &Name| ObjectKey::new(key.object.namespace.clone(), uid.clone());
        let new = owner.map_or_else(Link::default, |owner| Link {
            uid: owner.uid.as_ref().map(here),
            controller: owner.controller.as_ref().map(here),
            revision: owner.revision,
        });
        let old = self.links.get(key).cloned().unwrap_or_default();
        let mut touched = BTreeSet::from([key.clone()]);
        if old != new {
            self.family(key, &old, &mut touched);
            touched.extend(self.last_revisions([&old, &new]));
            for (map, old, new) in [
                (&mut self.by_uid, &old.uid, &new.uid),
                (&mut self.controlled_by, &old.controller, &new.controller),
            ] {
                if let Some(old) = old {
                    unlink(map, old, key);
                }
                if let Some(new) = new {
                    link(map, new, key);
                }
            }
            if owner.is_some() {
                self.links.insert(key.clone(), new.clone());
            } else {
                self.links.remove(key);
            }
            touched.extend(self.last_revisions([&old, &new]));
            self.family(key, &new, &mut touched);
        }
        touched
    }

    /// Records that a controller's live pod was added or removed. Returns the owners whose represented volumes changed.
    pub fn restand(
        &mut self,
        controller: &ObjectKey,
        standing: &[Standing],
        is_there: bool,
    ) -> BTreeSet<WorkloadKey> {
        let mut touched = BTreeSet::new();
        let counts = self.standing.entry(controller.clone()).or_default();
        let mut has_changed = false;
        for standing in standing {
            has_changed |= if is_there {
                counts.add(standing)
            } else {
                counts.remove(standing)
            };
        }
        if counts.total() == 0 {
            self.standing.remove(controller);
        }
        if has_changed {
            self.above(controller, &mut touched);
        }
        touched
    }

    /// Keeps the template volumes that no live pod represents: neither a pod of the owner nor one of an owner below it.
    pub fn retain_unattended(&self, key: &WorkloadKey, rows: &mut Vec<Resolved>) {
        let mut level: BTreeSet<&ObjectKey> = self.uid_of(key).into_iter().collect();
        for _ in 0..=LONGEST_CHAIN {
            for standing in level.iter().filter_map(|uid| self.standing.get(*uid)) {
                rows.retain(|row| !standing.contains(&Standing::wanted(row)));
            }
            if rows.is_empty() || level.is_empty() {
                return;
            }
            level = level
                .into_iter()
                .filter_map(|uid| self.controlled_by.get(uid))
                .flat_map(Workloads::iter)
                .filter_map(|key| self.uid_of(key))
                .collect();
        }
    }

    /// Whether this is an old revision of a controller that is not read: another revision has replicas, or a newer one
    /// exists.
    #[must_use]
    pub fn is_old_revision(&self, key: &WorkloadKey) -> bool {
        let link = self.links.get(key);
        let is_old = |link: &Link| {
            let own = link.revision.filter(|own| !own.has_replicas)?;
            Some(own < self.last_revision(link)?)
        };
        link.and_then(is_old).unwrap_or_default()
    }

    /// Whether the object that created this owner exists and is judged in its place.
    #[must_use]
    pub fn has_maker(&self, key: &WorkloadKey) -> bool {
        let makes = |above: &WorkloadKey| Some(above.kind) == key.kind.maker();
        self.controllers(key).any(makes)
    }

    /// Whether the owner's controllers form a cycle, or a longer chain than [`LONGEST_CHAIN`].
    #[must_use]
    pub fn is_without_end(&self, key: &WorkloadKey) -> bool {
        let mut level: BTreeSet<&WorkloadKey> = self.controllers(key).collect();
        for _ in 0..LONGEST_CHAIN {
            if level.is_empty() {
                return false;
            }
            let above = level.into_iter().flat_map(|key| self.controllers(key));
            level = above.collect();
        }
        !level.is_empty()
    }

    /// Returns the latest revision of a controller that is not read. Revisions of a known controller are judged with it.
    fn last_revision(&self, link: &Link) -> Option<Revision> {
        let revisions = self.revisions(link).map(|(revision, _)| revision);
        revisions.max()
    }

    /// Returns the revisions of a controller that is not read, with their owners.
    fn revisions(&self, link: &Link) -> impl Iterator<Item = (Revision, &WorkloadKey)> {
        let controller = link.controller.as_ref();
        let controller = controller.filter(|uid| !self.by_uid.contains_key(*uid));
        let revisions = controller.and_then(|uid| self.controlled_by.get(uid));
        let revisions = revisions.into_iter().flat_map(Workloads::iter);
        revisions.filter_map(|key| Some((self.links.get(key)?.revision?, key)))
    }

    /// Returns all latest revisions. There may be several: the order of revisions created within one second is unknown.
    fn last_revisions(&self, of: [&Link; 2]) -> Vec<WorkloadKey> {
        let mut last = Vec::new();
        for link in of {
            let newest = self.last_revision(link);
            let revisions = self.revisions(link);
            let revisions = revisions.filter(|(revision, _)| Some(*revision) == newest);
            last.extend(revisions.map(|(_, key)| key.clone()));
        }
        last
    }

    fn uid_of(&self, key: &WorkloadKey) -> Option<&ObjectKey> {
        self.links.get(key)?.uid.as_ref()
    }

    fn controllers(&self, key: &WorkloadKey) -> impl Iterator<Item = &WorkloadKey> {
        let link = self.links.get(key);
        let controller = link.and_then(|link| link.controller.as_ref());
        let owners = controller.and_then(|uid| self.by_uid.get(uid));
        owners.into_iter().flat_map(Workloads::iter)
    }

    fn family(&self, key: &WorkloadKey, link: &Link, touched: &mut BTreeSet<WorkloadKey>) {
        if let Some(uid) = &link.uid {
            let controlled = |uid: &ObjectKey| self.controlled_by.get(uid);
            let below = self.reach(uid, controlled, |link| link.uid.as_ref());
            touched.extend(below);
        }
        if let Some(controller) = &link.controller {
            self.above(controller, touched);
        }
        touched.insert(key.clone());
    }

    /// Adds the owners with this uid and all that control them.
    fn above(&self, uid: &ObjectKey, touched: &mut BTreeSet<WorkloadKey>) {
        let owners = |uid: &ObjectKey| self.by_uid.get(uid);
        touched.extend(self.reach(uid, owners, |link| link.controller.as_ref()));
    }

    /// Returns all owners reachable from a uid, each once.
    fn reach<'a>(
        &'a self,
        uid: &'a ObjectKey,
        next: impl Fn(&ObjectKey) -> Option<&'a Workloads>,
        uid_of: impl Fn(&Link) -> Option<&ObjectKey>,
    ) -> BTreeSet<WorkloadKey> {
        let mut reached = BTreeSet::new();
        let mut level = vec![uid];
        // Objects beyond the longest chain cannot matter.
        for _ in 0..=LONGEST_CHAIN {
            let mut further = Vec::new();
            let found = level.into_iter().filter_map(&next);
            for key in found.flat_map(Workloads::iter) {
                if reached.insert(key.clone())
                    && let Some(uid) = self.links.get(key).and_then(&uid_of)
                {
                    further.push(uid);
                }
            }
            level = further;
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::WorkloadKind;

    #[test]
    fn all_that_become_the_last_revision_or_are_it_no_more_are_touched() {
        let mut ownership = Ownership::default();
        let key = |name: &str| WorkloadKey {
            object: ObjectKey::new("shop", name),
            kind: WorkloadKind::ReplicaSet,
        };
        let revision = |has_replicas, created| Owner {
            controller: Some("rollout".into()),
            revision: Some(Revision {
                has_replicas,
                created,
            }),
            ..Owner::default()
        };
        let all = BTreeSet::from(["web-8", "web-9", "web-10"].map(key));
        let old = |ownership: &Ownership| -> Vec<bool> {
            let names = ["web-8", "web-9", "web-10"].iter();
            names
                .map(|name| ownership.is_old_revision(&key(name)))
                .collect()
        };
        ownership.relink(&key("web-8"), Some(&revision(false, 1)));
        ownership.relink(&key("web-9"), Some(&revision(false, 1)));
        assert_eq!(old(&ownership), [false, false, false], "equally old");
        for (last, expected) in [
            (Some(revision(false, 2)), [true, true, false]),
            (Some(revision(false, 1)), [false, false, false]),
            (Some(revision(false, 0)), [false, false, true]),
            (Some(revision(true, 0)), [true, true, false]),
            (None, [false, false, false]),
        ] {
            let touched = ownership.relink(&key("web-10"), last.as_ref());
            assert_eq!(touched, all, "{last:?}");
            assert_eq!(old(&ownership), expected, "{last:?}");
        }
    }
}
