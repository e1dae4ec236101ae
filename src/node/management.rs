//! Decides whether a node is managed or external: the first matching rule wins.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Management, SETTINGS_NAME, WindowsNodeStorageStatus};
use crate::assess::causes::csi_proxy::that_run_it;
use crate::index::{Cluster, Node, NodeSide, ObjectKey, Platform, PlatformSignal};
use crate::node::may_have_agent;
use crate::node::planner::is_pinned;

/// Value of [`WindowsNodeStorageStatus::managed_by`] for nodes that this operator manages.
pub const OPERATOR: &str = "windows-storage-operator";
/// Value of `status.management` for nodes that this operator manages.
pub const MANAGED: &str = "Managed";
/// Value of `status.management` for nodes that another owner manages.
pub use crate::api::EXTERNAL;
/// Value of `status.management` for such nodes while this operator's agent may still be there.
pub const RELEASING: &str = "Releasing";
/// Value of `status.management` for nodes from which csi-proxy and the agent are to be removed.
pub const REMOVING: &str = "Removing";
/// Value of `status.management` once both are removed because the administrator wants so.
pub const REMOVED: &str = "Removed";
/// Value of `status.management` where both were removed, or never installed, because nothing uses csi-proxy.
pub const NOT_NEEDED: &str = "NotNeeded";
const BY_SETTINGS: &str = "spec.csiProxy.management of WindowsStorage";
/// How long a new node must be Ready before it counts as managed, if others are external: its owner may still be setting it up.
const GRACE: Duration = Duration::from_secs(600);
/// Suffix of the keys of taints that stay on a node until it is set up.
const UNINITIALIZED: &str = "/uninitialized";

/// Who manages csi-proxy on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagedBy {
    /// This operator.
    Operator,
    /// Another owner, and the signal that shows it.
    External(String),
    /// Nobody yet.
    Undecided(Awaited),
}

/// What is waited for before this operator manages a node that has nothing of it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// This time, or, without one, that the node is Ready and untainted.
    Time(Option<Timestamp>),
    /// The end of this DaemonSet, which runs csi-proxy and covers the node. Anybody with a namespace can make one, so
    /// it only holds: it takes no node away, and is forgotten with its end.
    DaemonSet(ObjectKey),
}

/// Decides who manages csi-proxy on the nodes of a cluster.
#[derive(Clone, Debug)]
pub struct Managers<'a> {
    cluster: &'a Cluster,
    /// The DaemonSets that run csi-proxy.
    sets: Vec<(&'a ObjectKey, &'a NodeSide)>,
    /// Whether some Windows node belongs to a platform.
    has_others: bool,
    now: Timestamp,
}

impl<'a> Managers<'a> {
    /// Creates it for the state of the cluster at the time `now`.
    pub fn new(cluster: &'a Cluster, now: Timestamp) -> Self {
        let mut managers = Self {
            cluster,
            sets: that_run_it(cluster).collect(),
            has_others: false,
            now,
        };
        let mut nodes = cluster.windows_nodes();
        managers.has_others = nodes.any(|(name, node)| managers.shown(name, node).is_some());
        managers
    }

    /// Returns who manages csi-proxy on a node, given `spec.csiProxy.management` for that node.
    pub fn of(&self, name: &str, node: &Node, management: Management) -> ManagedBy {
        if management == Management::External {
            return ManagedBy::External(self.setting(node));
        }
        if node.given {
            return ManagedBy::Operator;
        }
        let is_ours = || (self.status(name)).is_some_and(|status| !is_of_others(status));
        let is_told = match management {
            Management::Managed => true,
            // The operator removes what it has installed itself.
            Management::Removed => is_ours(),
            Management::Auto | Management::External => false,
        };
        match self.shown(name, node) {
            Some(shown)
                if !is_told
                    || PlatformSignal::platform_in(&shown)
                        .is_some_and(Platform::depends_on_csi_proxy) =>
            {
                ManagedBy::External(shown)
            }
            None if !is_told => self.unless_awaited(name, node),
            _ => ManagedBy::Operator,
        }
    }

    /// Returns the owner that the node's signals show, or showed before: an owner stays even if its signals disappear.
    fn shown(&self, name: &str, node: &Node) -> Option<String> {
        let kept = || {
            let status = self.status(name).filter(|status| is_of_others(status))?;
            let shown = &status.managed_by;
            PlatformSignal::platform_in(shown)
                .is_some()
                .then(|| shown.clone())
        };
        let platform = node.platform.as_ref().map(ToString::to_string);
        platform.or_else(kept)
    }

    /// Returns what a node without another owner waits for, if it has nothing of this operator yet.
    fn unless_awaited(&self, name: &str, node: &Node) -> ManagedBy {
        let status = self.status(name);
        if status.is_some_and(|it| may_have_agent(it, is_pinned(self.cluster, name))) {
            return ManagedBy::Operator;
        }
        let mut sets = self.sets.iter();
        if let Some((key, _)) = sets.find(|(_, side)| side.covers(name, node)) {
            return ManagedBy::Undecided(Awaited::DaemonSet((*key).clone()));
        }
        // A platform may still be setting it up.
        let is_new = status.is_none_or(is_of_others);
        if is_new && (self.has_others || is_being_set_up(node)) {
            self.after_grace(node)
        } else {
            ManagedBy::Operator
        }
    }

    fn after_grace(&self, node: &Node) -> ManagedBy {
        let since = node.ready_since.filter(|_| !is_being_set_up(node));
        let until = since.and_then(|since| since.checked_add(GRACE).ok());
        if until.is_some_and(|until| until <= self.now) {
            ManagedBy::Operator
        } else {
            ManagedBy::Undecided(Awaited::Time(until))
        }
    }

    /// Returns the setting that says that a node is external.
    fn setting(&self, node: &Node) -> String {
        let settings = self.cluster.settings.get(SETTINGS_NAME);
        let pool = settings.and_then(|object| object.spec.pools_of(&node.labels).next());
        match pool.filter(|pool| pool.management.is_some()) {
            Some(pool) => format!("spec.nodePools of WindowsStorage, pool {}", pool.name),
            None => BY_SETTINGS.to_owned(),
        }
    }

    pub(super) fn status(&self, name: &str) -> Option<&'a WindowsNodeStorageStatus> {
        self.cluster.node_statuses.get(name)
    }
}

/// Returns whether the node was not managed by this operator when the status was written.
fn is_of_others(status: &WindowsNodeStorageStatus) -> bool {
    ![MANAGED, REMOVING, REMOVED, NOT_NEEDED].contains(&&*status.management)
}

fn is_being_set_up(node: &Node) -> bool {
    node.taints
        .iter()
        .any(|taint| taint.key.ends_with(UNINITIALIZED))
}

#[cfg(test)]
mod tests;
