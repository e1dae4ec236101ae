//! Decides when csi-proxy and the agent are removed from a node.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{CsiProxyNeed, Install, Management, WindowsNodeStorageStatus, WindowsStorageSpec};
use crate::assess::{Assessment, CsiProxyUse};
use crate::node::{MANAGED, NodePlan, RELEASING, REMOVING};
use crate::services::Others;

/// Condition type in a node's status: whether anything on the node uses csi-proxy's pipes. Its transition time survives
/// restarts of the operator.
pub const CSI_PROXY_USED: &str = "CSIProxyUsed";
/// How long csi-proxy must be unused before it is removed. Objects that are deleted and recreated are gone only briefly.
const GRACE: Duration = Duration::from_secs(600);
/// How long before its own start this process may have missed a use of csi-proxy.
const GRACE_BEFORE_START: Duration = Duration::from_secs(540);

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
    Until(Timestamp),
    /// csi-proxy seems unused, but the watched data is not yet proven to be current.
    Unproved,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Used(user) => user.fmt(f),
            Self::Until(at) => {
                write!(
                    f,
                    "csi-proxy is removed at {at} if nothing uses it until then"
                )
            }
            Self::Unproved => f.write_str(
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
    /// Remove csi-proxy only: the agent runs other services.
    CsiProxy,
    /// Remove both now.
    Due(Absence),
    /// Do nothing: neither is installed, and neither is to be installed.
    Done(Absence),
}

/// Current facts about the cluster, for plans that are carried out.
#[derive(Clone, Copy)]
pub struct Present<'a> {
    /// Now.
    pub now: Timestamp,
    /// Whether all watched data is complete and proven to be current.
    pub is_fresh: bool,
    /// The assessment of the cluster.
    pub assessment: &'a Assessment,
    /// The previous plans, by node name.
    pub plans: &'a BTreeMap<String, NodePlan>,
    /// The last use of csi-proxy on nodes whose status does not record it yet.
    pub used_until: &'a BTreeMap<String, Timestamp>,
    /// The latest use of csi-proxy, on any node, that this process may have missed.
    pub unseen_until: Timestamp,
}

/// Inputs of the decision for one node.
pub struct Facts<'a> {
    /// The settings that apply to the node.
    pub spec: &'a WindowsStorageSpec,
    /// What uses csi-proxy on the node, if anything.
    pub used: Option<CsiProxyUse>,
    /// The node's status.
    pub status: Option<&'a WindowsNodeStorageStatus>,
    /// Whether the node has a pinned host key.
    pub is_pinned: bool,
    /// The other services in `windows-services`; `None` if the document cannot be read.
    pub others: Option<Others>,
    /// The latest possible use of csi-proxy, whatever the status says.
    pub used_until: Timestamp,
    /// Now.
    pub now: Timestamp,
    /// Whether the data is proven to be current, or the removal has already begun.
    pub is_fresh: bool,
}

/// Returns the latest use of csi-proxy that a process started at `started` may have missed. Nothing is removed in the
/// first minute after the start, because a deleted user of csi-proxy may be about to come back.
#[must_use]
pub fn unseen_until(started: Timestamp) -> Timestamp {
    let before = started.saturating_sub(GRACE_BEFORE_START);
    before.unwrap_or(Timestamp::MIN)
}

/// Decides what to do with csi-proxy and the agent on one node.
#[must_use]
pub fn removal(facts: &Facts<'_>) -> Removal {
    let csi_proxy = &facts.spec.csi_proxy;
    let is_removed = csi_proxy.management == Management::Removed;
    let is_wanted = csi_proxy.install == Install::Always
        || csi_proxy.needed == CsiProxyNeed::Always
        || facts.used.is_some();
    let lists_others = match facts.others {
        _ if is_removed => false,
        Some(Others::None) if !is_wanted => false,
        Some(Others::Independent) if !is_wanted => true,
        _ => return Removal::Stay(None),
    };
    let may_be_there = facts.status.map_or(facts.is_pinned, |status| {
        may_have_agent(status) && (facts.is_pinned || has_contact(status))
    });
    // A removal that has begun waits; it does not reinstall csi-proxy in the meantime.
    let has_begun = facts
        .status
        .is_some_and(|status| status.management == REMOVING);
    match (may_be_there, held(facts)) {
        (true, Some(hold)) if is_removed || has_begun => Removal::Waits(hold),
        (true, Some(hold)) => Removal::Stay(Some(hold)),
        _ if lists_others => Removal::CsiProxy,
        (true, None) if is_removed => Removal::Due(Absence::Removed),
        (true, None) => Removal::Due(Absence::NotNeeded),
        (false, _) if is_removed => Removal::Done(Absence::Removed),
        (false, _) => Removal::Done(Absence::NotNeeded),
    }
}

/// Returns whether a node with this status may have the agent.
#[must_use]
pub fn may_have_agent(status: &WindowsNodeStorageStatus) -> bool {
    [MANAGED, RELEASING, REMOVING].contains(&&*status.management) || status.csi_proxy.is_some()
}

/// Returns whether the operator has ever logged in to the node. If not, nothing of it is installed there.
fn has_contact(status: &WindowsNodeStorageStatus) -> bool {
    status.last_contact_time.is_some() || status.csi_proxy.is_some()
}

fn held(facts: &Facts<'_>) -> Option<Hold> {
    if let Some(used) = &facts.used {
        return Some(Hold::Used(used.clone()));
    }
    let conditions = facts.status.map_or(&[][..], |status| &status.conditions);
    let known = conditions.iter().find(|it| it.type_ == CSI_PROXY_USED);
    // Until the status records that csi-proxy is unused, the waiting time starts now.
    let unused_since = match known {
        Some(known) if known.status == "False" => known.last_transition_time.0,
        _ => facts.now,
    };
    // The recorded time is in the future if a clock was wrong.
    let unused_since = unused_since.max(facts.used_until).min(facts.now);
    let until = unused_since.saturating_add(GRACE).unwrap_or(Timestamp::MAX);
    if facts.now < until {
        Some(Hold::Until(until))
    } else if facts.is_fresh {
        None
    } else {
        Some(Hold::Unproved)
    }
}

#[cfg(test)]
mod tests;
