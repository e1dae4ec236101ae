//! Decides whether a node is managed or external: the first rule that fits.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Management, WindowsNodeStorageStatus};
use crate::assess::causes::csi_proxy::that_run_it;
use crate::index::{Cluster, Node, NodeSide, ObjectKey, Platform};

/// What [`WindowsNodeStorageStatus::managed_by`] says of nodes that this operator looks after.
pub const OPERATOR: &str = "windows-storage-operator";
/// What `status.management` says of nodes that this operator looks after.
pub const MANAGED: &str = "Managed";
/// What it says of nodes that another owner looks after.
pub const EXTERNAL: &str = "External";
/// What it says of them while this operator's agent may be there.
pub const RELEASING: &str = "Releasing";
/// What it says of nodes from which csi-proxy and the agent are to be removed.
pub const REMOVING: &str = "Removing";
/// What it says once they are, because the administrator wants so.
pub const REMOVED: &str = "Removed";
/// What it says once they are, or where they never were, because nothing uses csi-proxy there.
pub const NOT_NEEDED: &str = "NotNeeded";
const BY_SETTINGS: &str = "spec.csiProxy.management of WindowsStorage";
const DAEMON_SET: &str = "DaemonSet";
/// How long a node has to be Ready before it counts as nobody else's, where others are: its owner may still be setting it up.
const GRACE: Duration = Duration::from_secs(600);
/// The end of the keys of taints that stay until a node is set up.
const UNINITIALIZED: &str = "/uninitialized";

/// Who looks after csi-proxy on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagedBy {
    /// This operator.
    Operator,
    /// Another owner, with what shows it.
    External(String),
    /// Nobody knows before that moment, or before the node is Ready and untainted.
    Undecided(Option<Timestamp>),
}

/// Decides it for all nodes of a cluster.
#[derive(Clone, Debug)]
pub struct Managers<'a> {
    cluster: &'a Cluster,
    /// The DaemonSets that run csi-proxy.
    sets: Vec<(&'a ObjectKey, &'a NodeSide)>,
    /// Some Windows node belongs to a platform or to a DaemonSet.
    has_others: bool,
    now: Timestamp,
}

impl<'a> Managers<'a> {
    /// By what is known of the cluster at that moment.
    #[must_use]
    pub fn new(cluster: &'a Cluster, now: Timestamp) -> Self {
        let mut managers = Self {
            cluster,
            sets: that_run_it(cluster)
                .map(|(key, _, side)| (key, side))
                .collect(),
            has_others: false,
            now,
        };
        let mut nodes = cluster.windows_nodes();
        managers.has_others = nodes.any(|(name, node)| managers.shown(name, node).is_some());
        managers
    }

    /// Whether nodes that show nothing may be somebody else's all the same.
    #[must_use]
    pub fn has_others(&self) -> bool {
        self.has_others
    }

    /// Who looks after csi-proxy on that node, of which the administrator wants that.
    #[must_use]
    pub fn of(&self, name: &str, node: &Node, management: Management) -> ManagedBy {
        if management == Management::External {
            return ManagedBy::External(BY_SETTINGS.to_owned());
        }
        if node.given {
            return ManagedBy::Operator;
        }
        let is_ours = || (self.status(name)).is_some_and(|status| !is_of_others(status));
        let is_told = match management {
            Management::Managed => true,
            // What it has installed it removes.
            Management::Removed => is_ours(),
            Management::Auto | Management::External => false,
        };
        match self.shown(name, node) {
            Some(shown)
                if !is_told || platform_in(&shown).is_some_and(Platform::depends_on_csi_proxy) =>
            {
                ManagedBy::External(shown)
            }
            None if !is_told && self.may_be_taken(name, node) => self.after_grace(node),
            _ => ManagedBy::Operator,
        }
    }

    /// The owner that the node shows or once has shown: what has made it keeps it, also while it takes its marks away.
    fn shown(&self, name: &str, node: &Node) -> Option<String> {
        let platform = node.platform.as_ref().map(ToString::to_string);
        let (wmco, other) = match &node.platform {
            Some(signal) if signal.platform == Platform::Wmco => (platform, None),
            _ => (None, platform),
        };
        let set = || {
            let mut sets = self.sets.iter();
            let (key, _) = sets.find(|(_, side)| side.covers(name, node))?;
            Some(format!("{DAEMON_SET} {key}"))
        };
        let kept = || {
            let status = self.status(name).filter(|status| is_of_others(status))?;
            let shown = &status.managed_by;
            let is_kept = platform_in(shown).is_some() || shown.starts_with(DAEMON_SET);
            is_kept.then(|| shown.clone())
        };
        wmco.or_else(set).or(other).or_else(kept)
    }

    /// Whether it may turn out to be another owner's: it is new here, and others are about, or it is still being set up.
    fn may_be_taken(&self, name: &str, node: &Node) -> bool {
        let is_new = self
            .status(name)
            .is_none_or(|status| is_of_others(status) && status.csi_proxy.is_none());
        is_new && (self.has_others || is_being_set_up(node))
    }

    fn after_grace(&self, node: &Node) -> ManagedBy {
        let since = node.ready_since.filter(|_| !is_being_set_up(node));
        let until = since.and_then(|since| since.checked_add(GRACE).ok());
        if until.is_some_and(|until| until <= self.now) {
            ManagedBy::Operator
        } else {
            ManagedBy::Undecided(until)
        }
    }

    fn status(&self, name: &str) -> Option<&'a WindowsNodeStorageStatus> {
        self.cluster.node_statuses.get(name)
    }
}

/// Whether it was not this operator's when that was written.
fn is_of_others(status: &WindowsNodeStorageStatus) -> bool {
    ![MANAGED, REMOVING, REMOVED, NOT_NEEDED].contains(&&*status.management)
}

fn is_being_set_up(node: &Node) -> bool {
    node.taints
        .iter()
        .any(|taint| taint.key.ends_with(UNINITIALIZED))
}

/// The platform that a text such as `WMCO by label …` names.
fn platform_in(shown: &str) -> Option<Platform> {
    Platform::by_name(shown.split_once(" by ")?.0)
}

#[cfg(test)]
mod tests;
