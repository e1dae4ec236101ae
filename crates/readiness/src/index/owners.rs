//! The controllers that create pods from templates.

use std::fmt;

use crate::index::{Claim, Name, NodeSide, ObjectKey, Placement, PodVolume};

names! {
    /// The kinds of workloads, sorted by name.
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
    /// Returns the kind that creates objects of this kind and that is judged in their place.
    pub fn maker(self) -> Option<Self> {
        match self {
            Self::ReplicaSet => Some(Self::Deployment),
            Self::Job => Some(Self::CronJob),
            _ => None,
        }
    }
}

/// A workload's key. Reports sort by it: namespace, name, kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadKey {
    /// Namespace and name.
    pub object: ObjectKey,
    /// The kind.
    pub kind: WorkloadKind,
}

impl WorkloadKey {
    /// Creates a Pod's key.
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

/// An object that creates pods from a template, directly or through other objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owner {
    /// The uid that pods and other owners refer to.
    pub uid: Option<Name>,
    /// The uid of the owner's own controller.
    pub controller: Option<Name>,
    /// The template's scheduling constraints.
    pub placement: Placement,
    /// Set for a ReplicaSet or `ReplicationController`, which may be one of several revisions.
    pub revision: Option<Revision>,
    /// The template's volumes, without those that a claim template replaces.
    pub volumes: Box<[PodVolume]>,
    /// A StatefulSet's claim templates.
    pub claim_templates: Box<[ClaimTemplate]>,
    /// Whether a Job has finished.
    pub finished: bool,
    /// Present if a DaemonSet's template looks like the node side of a CSI driver.
    pub node_side: Option<Box<NodeSide>>,
}

/// One of the objects that a controller creates for its revisions. Only the latest are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision {
    /// Whether `spec.replicas` is above 0.
    pub has_replicas: bool,
    /// Creation time in seconds since 1970.
    pub created: i64,
}

/// A template for the claims of a StatefulSet's pods, named `<name>-<set>-<ordinal>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimTemplate {
    /// The template's name, which is also the volume's.
    pub name: Name,
    /// The claim that the template creates.
    pub claim: Claim,
}
