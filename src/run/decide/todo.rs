//! The inputs of the decisions other than the cluster, and their results.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jiff::Timestamp;

use crate::api::{WindowsStorage, WindowsStorageStatus};
use crate::assess::report::Verdict;
use crate::assess::{Blocked, BlockedKey};
use crate::gate::GateReport;
use crate::node::{Observation, RolloutSlots};
use crate::run::retries::What;
use crate::status::NodeStatus;

/// What is new beside the cluster.
pub struct News<'a> {
    /// What was seen on nodes.
    pub observations: &'a BTreeMap<String, Observation>,
    /// On which of them that has changed.
    pub observed: BTreeSet<String>,
    /// Why the services entry could not be written the last time.
    pub services_problem: Option<String>,
    /// How the gate stands, where there is one.
    pub gate: Option<GateReport>,
    /// Which nodes have rollout slots.
    pub slots: &'a RolloutSlots,
    /// The Kubernetes version of the API server.
    pub kubernetes_version: &'a str,
    /// This process has started only just.
    pub settling: bool,
    /// What is known of the cluster is known to be the present.
    pub is_fresh: bool,
    /// Now, as objects have it.
    pub now: Timestamp,
    /// Now, as pauses have it.
    pub instant: Instant,
}

/// What a pass has to do.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Todo {
    /// The verdict, with the message that is announced; with it the gate comes first.
    pub verdict: Verdict,
    /// All that the verdict rests on can be read now.
    pub is_readable: bool,
    /// When something has gone from sight the last time that would hold upgrades if it came back.
    pub gone: Option<Instant>,
    /// The objects with volumes that hold upgrades, as many as get an event; absent while not all of the cluster is known,
    /// and where they were looked at just now.
    pub blocked: Option<BTreeMap<BlockedKey, Blocked>>,
    /// What work on nodes depends on has been read.
    pub knows_configuration: bool,
    /// What is done on nodes, or was seen there, is not what it was.
    pub has_news_of_nodes: bool,
    /// Who has a slot was decided again.
    pub has_news_of_rollout: bool,
    /// The plans are to be handed over: some node is to be worked on otherwise than before.
    pub assign: bool,
    /// Statuses to write.
    pub nodes: Vec<NodeStatus>,
    /// What nodes have left behind.
    pub left: Vec<Left>,
    /// The status of `WindowsStorage`, where it differs: the object as it is, and what it shall say.
    pub settings: Option<(Option<WindowsStorage>, WindowsStorageStatus)>,
}

impl Todo {
    /// Whether that is to be done now. What failed and is not need not be tried again.
    pub fn has(&self, what: &What) -> bool {
        match what {
            What::Services => self.knows_configuration,
            What::Settings => self.settings.is_some(),
            What::NodeStatus(node) => self.nodes.iter().any(|status| status.name == *node),
            What::Removal(node) => self.left.iter().any(|left| left.node == *node),
        }
    }
}

/// What is left of a node, and to be removed from the cluster.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    /// The node's name.
    pub node: String,
    /// What it is.
    pub what: LeftOver,
}

/// What is left of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOver {
    /// The status of one that is no Windows node any more.
    Status,
    /// The status and the host key of one that is gone.
    StatusAndKey,
    /// The host key of one from which all else is removed.
    Key,
}
