//! Who has to be judged anew when something changes.

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
    by_dependency: HashMap<Dependency, BTreeSet<WorkloadKey>>,
}

impl Dependents {
    /// Who depends on that.
    pub fn of(&self, dependency: &Dependency) -> impl Iterator<Item = &WorkloadKey> {
        self.by_dependency.get(dependency).into_iter().flatten()
    }

    /// A workload depends on other things than before.
    pub fn replace(&mut self, workload: &WorkloadKey, old: &[Dependency], new: &[Dependency]) {
        for dependency in old.iter().filter(|dependency| !new.contains(dependency)) {
            if let Some(workloads) = self.by_dependency.get_mut(dependency) {
                workloads.remove(workload);
                if workloads.is_empty() {
                    self.by_dependency.remove(dependency);
                }
            }
        }
        for dependency in new.iter().filter(|dependency| !old.contains(dependency)) {
            self.by_dependency
                .entry(dependency.clone())
                .or_default()
                .insert(workload.clone());
        }
    }
}
