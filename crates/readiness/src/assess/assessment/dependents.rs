//! Tracks which workloads must be reassessed when an object changes.

use std::collections::HashMap;

use crate::assess::assessment::workloads::{Workloads, link, unlink};
use crate::index::{Name, ObjectKey, WorkloadKey};

/// An input of a workload's assessment, whether it exists or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dependency {
    /// The Node that a pod is bound to or that a template names.
    Node(Name),
    /// The operating system of all nodes that a selector matches.
    Selector(Name),
    /// Whether any node runs Windows.
    AnyWindows,
    /// A RuntimeClass.
    RuntimeClass(Name),
    /// A claim.
    Claim(ObjectKey),
    /// All claims of one StatefulSet template: namespace, and the claims' name without the ordinal.
    ClaimsOf(ObjectKey),
    /// A `PersistentVolume`.
    Volume(Name),
    /// A StorageClass.
    Class(Name),
    /// The default class.
    DefaultClass,
    /// Whether a CSI driver with this name is registered.
    Driver(Name),
}

/// The workloads, by their dependencies.
#[derive(Clone, Debug, Default)]
pub struct Dependents {
    by_dependency: HashMap<Dependency, Workloads>,
}

impl Dependents {
    /// Returns the workloads that depend on `dependency`.
    pub fn of(&self, dependency: &Dependency) -> impl Iterator<Item = &WorkloadKey> {
        let workloads = self.by_dependency.get(dependency);
        workloads.into_iter().flat_map(Workloads::iter)
    }

    /// Whether any workload depends on `dependency`.
    pub fn has(&self, dependency: &Dependency) -> bool {
        self.by_dependency.contains_key(dependency)
    }

    /// Replaces a workload's dependencies. Returns those that no workload has any longer.
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
