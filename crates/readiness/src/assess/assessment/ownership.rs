//! Which objects make pods for which others, and for whom a live pod stands.

use std::collections::{BTreeSet, HashMap};

use crate::assess::assessment::counts::Counts;
use crate::assess::assessment::workloads::{Workloads, link, unlink};
use crate::index::{Name, Owner, WorkloadKey};

/// So many controllers may be above one another; Kubernetes itself has two. It bounds the work that a chain made to
/// trouble this operator can cause.
const LONGEST_CHAIN: usize = 64;

/// Owners by uid, their controllers, and how many live pods stand for each.
#[derive(Clone, Debug, Default)]
pub struct Ownership {
    links: HashMap<WorkloadKey, Link>,
    by_uid: HashMap<Name, Workloads>,
    controlled_by: HashMap<Name, Workloads>,
    standing: Counts<Name>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Link {
    uid: Option<Name>,
    controller: Option<Name>,
}

/// How an owner stands to its controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controlled {
    /// It has none that is known.
    No,
    /// A known one stands for it.
    Yes,
    /// Its controllers control each other in a circle, or their chain is longer than any of Kubernetes' own: nobody at
    /// its end can stand for the others.
    WithoutEnd,
}

impl Ownership {
    /// An owner was added, changed or removed. Returns the owners whose standing that may change.
    pub fn relink(&mut self, key: &WorkloadKey, owner: Option<&Owner>) -> BTreeSet<WorkloadKey> {
        let new = owner.map_or_else(Link::default, |owner| Link {
            uid: owner.uid.clone(),
            controller: owner.controller.clone(),
        });
        let old = self.links.get(key).cloned().unwrap_or_default();
        let mut touched = BTreeSet::from([key.clone()]);
        if old != new {
            self.family(key, &old, &mut touched);
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
            self.links.insert(key.clone(), new.clone());
            self.family(key, &new, &mut touched);
        }
        if owner.is_none() {
            self.links.remove(key);
        }
        touched
    }

    /// A pod stands for another controller than before. Returns the owners whose standing that may change.
    pub fn restand(&mut self, old: Option<&Name>, new: Option<&Name>) -> BTreeSet<WorkloadKey> {
        let mut touched = BTreeSet::new();
        if old == new {
            return touched;
        }
        if let Some(old) = old
            && self.standing.remove(old)
        {
            self.above(old, &mut touched);
        }
        if let Some(new) = new
            && self.standing.add(new)
        {
            self.above(new, &mut touched);
        }
        touched
    }

    /// Whether a live pod of that owner is there, its own or one of an owner that it controls.
    #[must_use]
    pub fn has_standing(&self, key: &WorkloadKey) -> bool {
        let mut level: BTreeSet<&Name> = self.uid_of(key).into_iter().collect();
        for _ in 0..=LONGEST_CHAIN {
            if level.iter().any(|uid| self.standing.contains(*uid)) {
                return true;
            }
            level = level
                .into_iter()
                .filter_map(|uid| self.controlled_by.get(uid))
                .flat_map(Workloads::iter)
                .filter_map(|key| self.uid_of(key))
                .collect();
        }
        false
    }

    /// Whether a controller that is known stands for that owner.
    #[must_use]
    pub fn controlled(&self, key: &WorkloadKey) -> Controlled {
        let mut level: BTreeSet<&WorkloadKey> = self.controllers(key).collect();
        if level.is_empty() {
            return Controlled::No;
        }
        for _ in 0..LONGEST_CHAIN {
            let above = level.into_iter().flat_map(|key| self.controllers(key));
            level = above.collect();
            if level.is_empty() {
                return Controlled::Yes;
            }
        }
        Controlled::WithoutEnd
    }

    fn uid_of(&self, key: &WorkloadKey) -> Option<&Name> {
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
            let controlled = |uid: &Name| self.controlled_by.get(uid);
            let below = self.reach(uid, controlled, |link| link.uid.as_ref());
            touched.extend(below);
        }
        if let Some(controller) = &link.controller {
            self.above(controller, touched);
        }
        touched.insert(key.clone());
    }

    /// The owners of that uid and all that control them.
    fn above(&self, uid: &Name, touched: &mut BTreeSet<WorkloadKey>) {
        let owners = |uid: &Name| self.by_uid.get(uid);
        touched.extend(self.reach(uid, owners, |link| link.controller.as_ref()));
    }

    /// All owners that can be come to from a uid, each once.
    fn reach<'a>(
        &'a self,
        uid: &'a Name,
        next: impl Fn(&Name) -> Option<&'a Workloads>,
        uid_of: impl Fn(&Link) -> Option<&Name>,
    ) -> BTreeSet<WorkloadKey> {
        let mut reached = BTreeSet::new();
        let mut level = vec![uid];
        // As far as a chain counts, and no further: what is beyond cannot matter.
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
