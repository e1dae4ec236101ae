//! Decides when csi-proxy and the agent are removed from a node.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::api::{Management, WindowsNodeStorageStatus, WindowsStorageSpec};
use crate::assess::{CsiProxyUse, Report};
use crate::node::{MANAGED, NodePlan, RELEASING, REMOVING};

/// How long this process must have seen csi-proxy unused before it is removed. Objects that are deleted and recreated are
/// gone only briefly, and clocks of other processes may be wrong.
pub const UNUSED_FOR: Duration = Duration::from_secs(600);

/// The condition type that says with which SSH key the operator logged in last. Only nodes with a login have it.
pub const SSH_KEY_ACCEPTED: &str = "SSHKeyAccepted";

/// Why a managed node has neither csi-proxy nor the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// `spec.csiProxy.management` is `Removed`.
    Removed,
    /// Nothing on the node uses csi-proxy.
    NotNeeded,
}

/// What a removal waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Something uses csi-proxy, or may use it.
    Used(CsiProxyUse),
    /// csi-proxy is unused, but not for long enough. The removal is due at this time.
    Until(Instant),
    /// csi-proxy has been unused for long enough at this time, but not everything was listed since.
    Unlisted(Instant),
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Used(user) => user.fmt(f),
            Self::Until(_) => f.write_str(
                "nothing uses csi-proxy on this node; it is removed once the operator has seen that for ten minutes",
            ),
            Self::Unlisted(_) => f.write_str(
                "csi-proxy seems unused on this node; waiting for confirmation from the API server",
            ),
        }
    }
}

/// What to do with csi-proxy and the agent on a managed node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Keep both. If set, only this hold prevents their removal.
    Stay(Option<Hold>),
    /// Remove both, but wait for this first.
    Waits(Hold),
    /// Remove both now.
    Due(Absence),
    /// Do nothing: neither is installed, and neither is to be installed.
    Done(Absence),
}

/// Current facts about the cluster, for plans that are carried out.
#[derive(Clone, Copy)]
pub struct Present<'a> {
    /// Now, by the clock that the API server's times go by.
    pub now: Timestamp,
    /// Now, by the clock of this process.
    pub instant: Instant,
    /// When the lists began that everything was last read by; nothing if something cannot be read now.
    pub listed: Option<Instant>,
    /// What is judged of the cluster.
    pub report: &'a Report,
    /// The previous plans, by node name.
    pub plans: &'a BTreeMap<String, NodePlan>,
    /// Since when this process has seen csi-proxy unused, by node name.
    pub unused_since: &'a BTreeMap<String, Instant>,
}

impl Present<'_> {
    /// Returns what the removal of csi-proxy from a node waits for, if anything.
    pub(super) fn hold(&self, name: &str) -> Option<Hold> {
        if let Some(used) = self.report.csi_proxy_use(name) {
            return Some(Hold::Used(used.clone()));
        }
        let unused_since = self.unused_since.get(name).copied();
        let until = unused_since.unwrap_or(self.instant) + UNUSED_FOR;
        let before = self.plans.get(name);
        let has_begun = before.is_some_and(NodePlan::removes_csi_proxy);
        if self.instant < until {
            Some(Hold::Until(until))
        } else if has_begun || self.listed.is_some_and(|listed| listed >= until) {
            None
        } else {
            Some(Hold::Unlisted(until))
        }
    }
}

/// Decides what to do with csi-proxy and the agent on one node, unless `install: Always` wants them there.
pub fn removal(
    spec: &WindowsStorageSpec,
    status: Option<&WindowsNodeStorageStatus>,
    is_pinned: bool,
    hold: Option<Hold>,
) -> Removal {
    let is_removed = spec.csi_proxy.management == Management::Removed;
    let absence = match is_removed {
        true => Absence::Removed,
        false if matches!(hold, Some(Hold::Used(_))) => return Removal::Stay(None),
        false => Absence::NotNeeded,
    };
    if !status.map_or(is_pinned, |status| may_have_agent(status, is_pinned)) {
        return Removal::Done(absence);
    }
    // A removal that has begun waits; it does not reinstall csi-proxy in the meantime.
    let has_begun = status.is_some_and(|status| status.management == REMOVING);
    match hold {
        Some(hold) if is_removed || has_begun => Removal::Waits(hold),
        Some(hold) => Removal::Stay(Some(hold)),
        None => Removal::Due(absence),
    }
}

/// Returns whether a node with this status may have the agent: it was managed, and the operator has logged in to it, or may
/// have, because its host key is pinned.
pub fn may_have_agent(status: &WindowsNodeStorageStatus, is_pinned: bool) -> bool {
    let mut conditions = status.conditions.iter();
    let mut was_accepted = || conditions.any(|it| it.type_ == SSH_KEY_ACCEPTED);
    let was_ours = [MANAGED, RELEASING, REMOVING].contains(&&*status.management);
    status.csi_proxy.is_some() || was_ours && (is_pinned || was_accepted())
}

#[cfg(test)]
mod tests;
