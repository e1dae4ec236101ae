//! What the decisions are made from beside the cluster, and what comes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jiff::Timestamp;

use crate::api::{WindowsNodeStorageStatus, WindowsStorage, WindowsStorageStatus};
use crate::assess::report::Verdict;
use crate::assess::{Blocked, BlockedKey};
use crate::gate::GateReport;
use crate::node::{Observation, Turns};

/// What a pass has to do.
pub struct Todo {
    /// The verdict in the words in which it is told; with it the gate comes first.
    pub verdict: Verdict,
    /// All that the verdict rests on can be read now.
    pub fresh: bool,
    /// How often something that held upgrades has gone from sight.
    pub departures: u64,
    /// Volumes that hold upgrades, by the driver that they need.
    pub blocking_by_driver: Vec<(Option<String>, usize)>,
    /// The objects with volumes that hold upgrades, as many as are told; absent while not all of the cluster is known,
    /// and where they were looked at just now.
    pub blocked: Option<BTreeMap<BlockedKey, Blocked>>,
    /// Windows nodes.
    pub windows_nodes: usize,
    /// Windows nodes that are ready.
    pub ready_nodes: usize,
    /// What work on nodes depends on has been read.
    pub knows_configuration: bool,
    /// The plans are to be handed over: some node is to be worked on otherwise than before.
    pub assign: bool,
    /// Statuses to write.
    pub nodes: Vec<NodeDecision>,
    /// Nodes whose status object has to go.
    pub strays: Vec<String>,
    /// Nodes that have left, and of which something is still there: the host key or the status.
    pub departed: Vec<String>,
    /// The status of `WindowsStorage`, where it may differ: the object as it is, and what it shall say.
    pub settings: Option<(Option<WindowsStorage>, WindowsStorageStatus)>,
}

/// The status that a node shall have.
pub struct NodeDecision {
    /// The node's name.
    pub name: String,
    /// The Node's uid.
    pub uid: String,
    /// The status as it is.
    pub previous: Option<WindowsNodeStorageStatus>,
    /// The status as it shall be.
    pub status: WindowsNodeStorageStatus,
}

/// What is new beside the cluster.
pub struct News<'a> {
    /// What was seen on nodes.
    pub observations: &'a BTreeMap<String, Observation>,
    /// On which of them that has changed.
    pub observed: BTreeSet<String>,
    /// Why the services entry could not be written the last time.
    pub services_problem: Option<&'a str>,
    /// How the gate stood after the last pass, where there is one.
    pub gate: Option<GateReport>,
    /// The status of `WindowsStorage` could not be written the last time.
    pub settings_unwritten: bool,
    /// Whose turn it is on which node.
    pub turns: &'a Turns,
    /// This process has started only just.
    pub settling: bool,
    /// Something that the verdict rests on cannot be read for so long that no verdict stands without it.
    pub stale_for_long: bool,
    /// Now, as objects have it.
    pub now: Timestamp,
    /// Now, as pauses have it.
    pub instant: Instant,
}
