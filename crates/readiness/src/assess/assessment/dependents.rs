//! Tracks which objects have to be assessed again when another one changes.

use std::collections::HashMap;

use crate::assess::assessment::workloads::{Workloads, link, unlink};
use crate::index::{Name, ObjectKey, WorkloadKey};

/// Something that the judgement on a workload was derived from, present or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dependency {
    /// The Node that a pod is bound to, or that a template names.
    Node(Name),
    /// Which system all nodes run that a selector matches.
    Selector(Name),
    /// Whether any node runs Windows.
    AnyWindows,
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

impl Dependents {
    /// Who depends on that.
    pub fn of(&self, dependency: &Dependency) -> impl Iterator<Item = &WorkloadKey> {
        let workloads = self.by_dependency.get(dependency);
        workloads.into_iter().flat_map(Workloads::iter)
    }

    /// Whether anybody depends on that.
    pub fn has(&self, dependency: &Dependency) -> bool {
        self.by_dependency.contains_key(dependency)
    }

    /// A workload depends on other things than before. Returns those that nobody depends on any more.
    pub fn replace<'a>(
        &mut self,
        workload: &WorkloadKey,
        old: &'a [Dependency],
        new: &[Dependency],
    ) -> Vec<&'a Dependency> {
        let mut unused = Vec::new();
        for dependency in old.iter().filter(|dependency| !new.contains(dependency)) {
            if unlink(&mut self.by_dependency, dependency, workload) {
                unused.push(dependency);
            }
        }
        for dependency in new.iter().filter(|dependency| !old.contains(dependency)) {
            link(&mut self.by_dependency, dependency, workload);
        }
        unused
    }
}
