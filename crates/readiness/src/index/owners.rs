//! The controllers that create pods from templates.

use std::fmt;

use crate::index::{Claim, Name, NodeSide, ObjectKey, Placement, PodVolume};

names! {
    /// The kinds of workloads, in the order of their names.
    #[derive(Default, PartialOrd, Ord, Hash)]
    pub enum WorkloadKind {
        /// `batch` CronJob.
        CronJob,
        /// `apps` DaemonSet.
        DaemonSet,
        /// `apps` Deployment.
        Deployment,
        /// `batch` Job.
        Job,
        /// A Pod.
        #[default]
        Pod,
        /// `apps` ReplicaSet.
        ReplicaSet,
        /// `ReplicationController`.
        ReplicationController,
        /// `apps` StatefulSet.
        StatefulSet,
    }
}

impl WorkloadKind {
    /// The kind that makes such objects, and is judged in their stead.
    #[must_use]
    pub fn maker(self) -> Option<Self> {
        match self {
            Self::ReplicaSet => Some(Self::Deployment),
            Self::Job => Some(Self::CronJob),
            _ => None,
        }
    }
}

/// A workload, in the order in which reports list them: by namespace, name and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadKey {
    /// Namespace and name.
    pub object: ObjectKey,
    /// The kind.
    pub kind: WorkloadKind,
}

impl WorkloadKey {
    /// A Pod's key.
    #[must_use]
    pub fn pod(object: ObjectKey) -> Self {
        let kind = WorkloadKind::Pod;
        Self { object, kind }
    }
}

/// `Kind/namespace/name`.
impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str(), self.object)
    }
}

/// An object that makes pods from a template, or makes objects that do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Its uid, which pods and other owners refer to.
    pub uid: Option<Name>,
    /// The uid of its own controller.
    pub controller: Option<Name>,
    /// Where its template's pods may run.
    pub placement: Placement,
    /// A ReplicaSet or a `ReplicationController` as one of the revisions of what controls it.
    pub revision: Option<Revision>,
    /// The template's volumes, but those that a claim template replaces.
    pub volumes: Box<[PodVolume]>,
    /// A StatefulSet's claim templates.
    pub claim_templates: Box<[ClaimTemplate]>,
    /// A Job that has come to its end.
    pub finished: bool,
    /// A DaemonSet's template as the node side of a CSI driver, if it looks like one.
    pub node_side: Option<Box<NodeSide>>,
}

/// One of the objects that a controller has made one after another, of which the last are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision {
    /// Whether it shall have pods.
    pub has_replicas: bool,
    /// Creation time in seconds since 1970.
    pub created: i64,
}

/// A claim that a StatefulSet makes for each of its pods, named `<name>-<set>-<ordinal>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimTemplate {
    /// Its name, which is the volume's as well.
    pub name: Name,
    /// The claim as it will be made.
    pub claim: Claim,
}
