//! The inputs of the decisions other than the cluster, and their results.

use std::collections::BTreeMap;
use std::time::Instant;

use jiff::Timestamp;

use crate::api::{WindowsStorage, WindowsStorageStatus};
use crate::assess::report::Verdict;
use crate::assess::{Blocked, BlockedKey};
use crate::gate::GateReport;
use crate::index::Listed;
use crate::node::{Observation, RolloutSlots};
use crate::run::retries::What;
use crate::status::NodeStatus;

/// Inputs of a pass other than the cluster.
pub struct News<'a> {
    /// Observations of nodes.
    pub observations: &'a BTreeMap<String, Observation>,
    /// Why the last write of the services entry failed.
    pub services_problem: Option<String>,
    /// State of the gate, if there is one.
    pub gate: Option<GateReport>,
    /// The rollout slots.
    pub slots: &'a RolloutSlots,
    /// The Kubernetes version of the API server.
    pub kubernetes_version: &'a str,
    /// Whether this process has just started.
    pub settling: bool,
    /// Current wall clock time, for timestamps in objects.
    pub now: Timestamp,
    /// Current monotonic time, for pauses.
    pub instant: Instant,
}

/// The work of a pass.
pub struct Todo {
    /// The verdict, with the announced message. The gate is written first.
    pub verdict: Verdict,
    /// Whether everything that the verdict depends on can be read now.
    pub is_readable: bool,
    /// When each kind that the verdict depends on was last listed.
    pub lists: Vec<(&'static str, Option<Listed>)>,
    /// When something last disappeared that would hold upgrades if it came back.
    pub gone: Option<Instant>,
    /// Objects with volumes that hold upgrades, as many as get an event. Absent while the cluster is not completely
    /// known, and shortly after the last check.
    pub blocked: Option<BTreeMap<BlockedKey, Blocked>>,
    /// Whether everything that work on nodes depends on has been read.
    pub knows_configuration: bool,
    /// Statuses to write.
    pub nodes: Vec<NodeStatus>,
    /// Leftovers of nodes.
    pub left: Vec<Left>,
    /// The status of `WindowsStorage`, if it differs: the current object, and the new status.
    pub settings: Option<(Option<WindowsStorage>, WindowsStorageStatus)>,
}

impl Todo {
    /// Returns whether this work is still to be done. Otherwise, a failed attempt need not be retried.
    pub fn has(&self, what: &What) -> bool {
        match what {
            What::Services => self.knows_configuration,
            What::Settings => self.settings.is_some(),
            What::NodeStatus(node) => self.nodes.iter().any(|status| status.name == *node),
            What::Removal(node) => self.left.iter().any(|left| left.node == *node),
        }
    }
}

/// A leftover of a node, to be removed from the cluster.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    /// The node's name.
    pub node: String,
    /// The kind of leftover.
    pub what: LeftOver,
}

/// What is left of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOver {
    /// The status of a node that is no longer a Windows node.
    Status,
    /// The status and the host key of a deleted node.
    StatusAndKey,
    /// The host key of a node from which everything else was removed.
    Key,
}
