//! Who has to be judged anew when something changes.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use crate::index::{Name, ObjectKey, WorkloadKey};

/// Something that the judgement on a workload was derived from, present or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dependency {
    /// The Node that a pod is bound to.
    Node(Name),
    /// A RuntimeClass.
    RuntimeClass(Name),
    /// A claim.
    Claim(ObjectKey),
    /// All claims of one template of a StatefulSet: namespace and the claims' name without the ordinal.
    ClaimsOf(ObjectKey),
    /// A `PersistentVolume`.
    Volume(Name),
    /// A StorageClass.
    Class(Name),
    /// Whichever class is the default.
    DefaultClass,
    /// Whether the cluster shows a CSI driver of that name.
    Driver(Name),
}

/// The workloads by what they depend on.
#[derive(Clone, Debug, Default)]
pub struct Dependents {
    by_dependency: HashMap<Dependency, Workloads>,
}

/// One or more workloads. Most claims and volumes have one, and a set of its own for each would be most of the memory.
#[derive(Clone, Debug)]
enum Workloads {
    One(WorkloadKey),
    Many(BTreeSet<WorkloadKey>),
}

impl Workloads {
    fn iter(&self) -> impl Iterator<Item = &WorkloadKey> {
        let (one, many) = match self {
            Self::One(one) => (Some(one), None),
            Self::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn insert(&mut self, workload: &WorkloadKey) {
        match self {
            Self::One(one) if one == workload => {}
            Self::One(one) => *self = Self::Many([one.clone(), workload.clone()].into()),
            Self::Many(many) => {
                many.insert(workload.clone());
            }
        }
    }

    /// Says whether nobody is left.
    fn remove(&mut self, workload: &WorkloadKey) -> bool {
        match self {
            Self::One(one) => one == workload,
            Self::Many(many) => {
                many.remove(workload);
                many.is_empty()
            }
        }
    }
}

impl Dependents {
    /// Who depends on that.
    pub fn of(&self, dependency: &Dependency) -> impl Iterator<Item = &WorkloadKey> {
        let workloads = self.by_dependency.get(dependency);
        workloads.into_iter().flat_map(Workloads::iter)
    }

    /// A workload depends on other things than before.
    pub fn replace(&mut self, workload: &WorkloadKey, old: &[Dependency], new: &[Dependency]) {
        for dependency in old.iter().filter(|dependency| !new.contains(dependency)) {
            if let Some(workloads) = self.by_dependency.get_mut(dependency)
                && workloads.remove(workload)
            {
                self.by_dependency.remove(dependency);
            }
        }
        for dependency in new.iter().filter(|dependency| !old.contains(dependency)) {
            match self.by_dependency.entry(dependency.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(Workloads::One(workload.clone()));
                }
                Entry::Occupied(mut entry) => entry.get_mut().insert(workload),
            }
        }
    }
}
