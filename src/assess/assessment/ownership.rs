//! Which objects make pods for which others, and for whom a live pod stands.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::index::{Name, Owner, WorkloadKey};

/// Owners by uid, their controllers, and how many live pods stand for each.
#[derive(Clone, Debug, Default)]
pub struct Ownership {
    links: HashMap<WorkloadKey, Link>,
    by_uid: HashMap<Name, BTreeSet<WorkloadKey>>,
    controlled_by: HashMap<Name, BTreeSet<WorkloadKey>>,
    standing: HashMap<Name, usize>,
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
    /// Its controllers control each other in a circle, so none of them can stand for the others.
    InCircle,
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
            unlink(&mut self.by_uid, old.uid.as_ref(), key);
            unlink(&mut self.controlled_by, old.controller.as_ref(), key);
            link(&mut self.by_uid, new.uid.as_ref(), key);
            link(&mut self.controlled_by, new.controller.as_ref(), key);
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
        if let Some(old) = old {
            let count = self.standing.entry(old.clone()).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.standing.remove(old);
                self.above(old, &mut touched);
            }
        }
        if let Some(new) = new {
            let count = self.standing.entry(new.clone()).or_default();
            *count += 1;
            if *count == 1 {
                self.above(new, &mut touched);
            }
        }
        touched
    }

    /// Whether a live pod of that owner is there, its own or one of an owner that it controls.
    #[must_use]
    pub fn has_standing(&self, key: &WorkloadKey) -> bool {
        let mut seen = HashSet::new();
        let mut open: Vec<&Name> = self.uid_of(key).into_iter().collect();
        while let Some(uid) = open.pop() {
            if !seen.insert(uid) {
                continue;
            }
            if self.standing.contains_key(uid) {
                return true;
            }
            let controlled = self.controlled_by.get(uid).into_iter().flatten();
            open.extend(controlled.filter_map(|key| self.uid_of(key)));
        }
        false
    }

    /// Whether a controller that is known stands for that owner.
    #[must_use]
    pub fn controlled(&self, key: &WorkloadKey) -> Controlled {
        let mut seen = HashSet::from([key]);
        let mut open: Vec<&WorkloadKey> = self.controllers(key).collect();
        if open.is_empty() {
            return Controlled::No;
        }
        while let Some(controller) = open.pop() {
            if !seen.insert(controller) {
                return Controlled::InCircle;
            }
            open.extend(self.controllers(controller));
        }
        Controlled::Yes
    }

    fn uid_of(&self, key: &WorkloadKey) -> Option<&Name> {
        self.links.get(key)?.uid.as_ref()
    }

    fn controllers(&self, key: &WorkloadKey) -> impl Iterator<Item = &WorkloadKey> {
        let controller = self
            .links
            .get(key)
            .and_then(|link| link.controller.as_ref());
        controller
            .and_then(|uid| self.by_uid.get(uid))
            .into_iter()
            .flatten()
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
        next: impl Fn(&Name) -> Option<&'a BTreeSet<WorkloadKey>>,
        uid_of: impl Fn(&Link) -> Option<&Name>,
    ) -> BTreeSet<WorkloadKey> {
        let mut reached = BTreeSet::new();
        let mut open = vec![uid];
        while let Some(uid) = open.pop() {
            for key in next(uid).into_iter().flatten() {
                if reached.insert(key.clone())
                    && let Some(uid) = self.links.get(key).and_then(&uid_of)
                {
                    open.push(uid);
                }
            }
        }
        reached
    }
}

fn link(map: &mut HashMap<Name, BTreeSet<WorkloadKey>>, uid: Option<&Name>, key: &WorkloadKey) {
    if let Some(uid) = uid {
        map.entry(uid.clone()).or_default().insert(key.clone());
    }
}

fn unlink(map: &mut HashMap<Name, BTreeSet<WorkloadKey>>, uid: Option<&Name>, key: &WorkloadKey) {
    let Some(uid) = uid else { return };
    if let Some(keys) = map.get_mut(uid) {
        keys.remove(key);
        if keys.is_empty() {
            map.remove(uid);
        }
    }
}
