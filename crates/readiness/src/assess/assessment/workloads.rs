//! Indexes workloads by a property that they share.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use crate::index::WorkloadKey;

/// One or more workloads. Most claims, volumes and uids have only one; a set for each would take most of the memory.
#[derive(Clone, Debug)]
pub enum Workloads {
    One(WorkloadKey),
    Many(BTreeSet<WorkloadKey>),
}

impl Workloads {
    pub fn iter(&self) -> impl Iterator<Item = &WorkloadKey> {
        let (one, many) = match self {
            Self::One(one) => (Some(one), None),
            Self::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn insert(&mut self, workload: &WorkloadKey) {
        match self {
            Self::One(one) if one == workload => {}
            Self::One(one) => {
                *self = Self::Many([one.clone(), workload.clone()].into());
            }
            Self::Many(many) => {
                many.insert(workload.clone());
            }
        }
    }

    /// Removes a workload. Returns whether none is left.
    fn remove(&mut self, workload: &WorkloadKey) -> bool {
        match self {
            Self::One(one) => one == workload,
            Self::Many(many) => {
                many.remove(workload);
                if many.len() == 1
                    && let Some(left) = many.pop_first()
                {
                    *self = Self::One(left);
                    return false;
                }
                many.is_empty()
            }
        }
    }
}

/// Adds a workload to a key.
pub fn link<K: Clone + Eq + Hash>(
    map: &mut HashMap<K, Workloads>,
    key: &K,
    workload: &WorkloadKey,
) {
    match map.entry(key.clone()) {
        Entry::Vacant(entry) => {
            entry.insert(Workloads::One(workload.clone()));
        }
        Entry::Occupied(mut entry) => entry.get_mut().insert(workload),
    }
}

/// Removes a workload from a key. Returns whether it was the last.
pub fn unlink<K: Eq + Hash>(
    map: &mut HashMap<K, Workloads>,
    key: &K,
    workload: &WorkloadKey,
) -> bool {
    let is_last = map
        .get_mut(key)
        .is_some_and(|workloads| workloads.remove(workload));
    if is_last {
        map.remove(key);
    }
    is_last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::ObjectKey;

    #[test]
    fn a_key_is_forgotten_with_the_last_of_its_workloads() {
        let workload = |name| WorkloadKey::pod(ObjectKey::new("shop", name));
        let [one, two, three] = ["one", "two", "three"].map(workload);
        let mut map = HashMap::new();
        let of = |map: &HashMap<u8, Workloads>| -> Vec<WorkloadKey> {
            let found = map.get(&1).into_iter();
            found.flat_map(Workloads::iter).cloned().collect()
        };
        link(&mut map, &1, &one);
        link(&mut map, &1, &one);
        assert!(matches!(map.get(&1), Some(Workloads::One(_))));
        link(&mut map, &1, &two);
        link(&mut map, &1, &three);
        assert_eq!(of(&map), [one.clone(), three.clone(), two.clone()]);
        unlink(&mut map, &1, &one);
        unlink(&mut map, &1, &two);
        assert!(matches!(map.get(&1), Some(Workloads::One(left)) if *left == three));
        unlink(&mut map, &1, &one);
        assert_eq!(
            of(&map),
            std::slice::from_ref(&three),
            "it was none of them any more"
        );
        unlink(&mut map, &1, &three);
        assert!(map.is_empty());
    }
}
