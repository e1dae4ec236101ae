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
