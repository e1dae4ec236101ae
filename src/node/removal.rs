//! When csi-proxy and the agent are removed from a node.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{CsiProxyNeed, Install, Management, WindowsNodeStorageStatus, WindowsStorageSpec};
use crate::assess::{Assessment, CsiProxyUse};
use crate::node::{MANAGED, NodePlan, RELEASING, REMOVING};

/// The condition of a node's status that says whether something uses csi-proxy's pipes there. Its transition time outlives
/// this process.
pub const CSI_PROXY_USED: &str = "CSIProxyUsed";
/// For how long nothing may have used csi-proxy before it is removed: what is deleted and recreated is away for a moment.
const GRACE: Duration = Duration::from_secs(600);

/// Why nothing of this operator is on a node that it looks after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The administrator wants it removed.
    Removed,
    /// Nothing uses csi-proxy there.
    NotNeeded,
}

/// What a removal waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Something uses csi-proxy, or may.
    Used(CsiProxyUse),
    /// Nothing does, for too short a time.
    Until(Timestamp),
    /// It is to be proved first that what is known of the cluster is the present.
    Unproved,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Used(user) => user.fmt(f),
            Self::Until(at) => write!(
                f,
                "nothing uses csi-proxy there any more, and it is removed at {at} if that stays so"
            ),
            Self::Unproved => f.write_str(
                "nothing uses csi-proxy there for all that is known, which is proved first",
            ),
        }
    }
}

/// What is to become of this operator's programs on a node that it looks after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Nothing: they stay. They would be removed but for that.
    Stay(Option<Hold>),
    /// They are to be removed, and wait for that.
    Waits(Hold),
    /// csi-proxy is not to run there. The agent is: it keeps other services.
    CsiProxy,
    /// They are to be removed now.
    Due(Absence),
    /// None of them is there, and none is to be installed.
    Done(Absence),
}

/// What is known at this moment, for decisions that are acted on.
#[derive(Clone, Copy)]
pub struct Present<'a> {
    /// Now.
    pub now: Timestamp,
    /// All that the verdict rests on is known, and is the present.
    pub is_fresh: bool,
    /// The cluster as it is judged.
    pub assessment: &'a Assessment,
    /// What was planned before.
    pub plans: &'a BTreeMap<String, NodePlan>,
}

/// What the decision on one node follows from.
pub struct Facts<'a> {
    /// What the administrator wants.
    pub spec: &'a WindowsStorageSpec,
    /// What uses csi-proxy there.
    pub used: Option<CsiProxyUse>,
    /// The node's status.
    pub status: Option<&'a WindowsNodeStorageStatus>,
    /// A host key was pinned at a contact with it.
    pub is_pinned: bool,
    /// The services document lists other services; absent where it cannot be read.
    pub lists_others: Option<bool>,
    /// Now.
    pub now: Timestamp,
    /// What is known is the present, or the removal has begun.
    pub is_fresh: bool,
}

/// Decides it.
#[must_use]
pub fn removal(facts: &Facts<'_>) -> Removal {
    let csi_proxy = &facts.spec.csi_proxy;
    let is_removed = csi_proxy.management == Management::Removed;
    let is_wanted = csi_proxy.install == Install::Always
        || csi_proxy.needed == CsiProxyNeed::Always
        || facts.used.is_some();
    let lists_others = match facts.lists_others {
        _ if is_removed => false,
        Some(lists_others) if !is_wanted => lists_others,
        _ => return Removal::Stay(None),
    };
    let may_be_there = facts.status.map_or(facts.is_pinned, may_have_agent);
    match (may_be_there, held(facts)) {
        (true, Some(hold)) if is_removed => Removal::Waits(hold),
        (true, Some(hold)) => Removal::Stay(Some(hold)),
        _ if lists_others => Removal::CsiProxy,
        (true, None) if is_removed => Removal::Due(Absence::Removed),
        (true, None) => Removal::Due(Absence::NotNeeded),
        (false, _) if is_removed => Removal::Done(Absence::Removed),
        (false, _) => Removal::Done(Absence::NotNeeded),
    }
}

/// Whether this operator's agent may be on a node with that status.
#[must_use]
pub fn may_have_agent(status: &WindowsNodeStorageStatus) -> bool {
    [MANAGED, RELEASING, REMOVING].contains(&&*status.management) || status.csi_proxy.is_some()
}

fn held(facts: &Facts<'_>) -> Option<Hold> {
    if let Some(used) = &facts.used {
        return Some(Hold::Used(used.clone()));
    }
    let conditions = facts.status.map_or(&[][..], |status| &status.conditions);
    let known = conditions.iter().find(|it| it.type_ == CSI_PROXY_USED);
    // Before the status says so, it is unused only from now on.
    let unused_since = match known {
        Some(known) if known.status == "False" => known.last_transition_time.0,
        _ => facts.now,
    };
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
