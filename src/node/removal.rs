//! Decides when csi-proxy and the agent are removed from a node.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{CsiProxyNeed, Install, Management, WindowsNodeStorageStatus, WindowsStorageSpec};
use crate::assess::{Assessment, CsiProxyUse};
use crate::node::{MANAGED, NodePlan, RELEASING, REMOVING};
use crate::services::Others;

/// The condition of a node's status that says whether something uses csi-proxy's pipes there. Its transition time outlives
/// this process.
pub const CSI_PROXY_USED: &str = "CSIProxyUsed";
/// For how long nothing may have used csi-proxy before it is removed: what is deleted and recreated is away for a moment.
const GRACE: Duration = Duration::from_secs(600);
/// The same for what this process may have missed before it began.
const GRACE_BEFORE_START: Duration = Duration::from_secs(540);

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
            Self::Until(at) => {
                write!(f, "csi-proxy is removed at {at} if nothing uses it until then")
            }
            Self::Unproved => f.write_str(
                "nothing seems to use csi-proxy there, and the operator confirms that with the API server first",
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
    /// Until when csi-proxy was used on nodes whose status does not say so yet.
    pub used_until: &'a BTreeMap<String, Timestamp>,
    /// Until when it may have been used anywhere without this process having seen it.
    pub unseen_until: Timestamp,
}

/// What the decision on one node follows from.
pub struct Facts<'a> {
    /// What the administrator wants.
    pub spec: &'a WindowsStorageSpec,
    /// What uses csi-proxy there.
    pub used: Option<CsiProxyUse>,
    /// The node's status.
    pub status: Option<&'a WindowsNodeStorageStatus>,
    /// It has a host key of its own in the ConfigMap.
    pub is_pinned: bool,
    /// The other services of the document; absent where it cannot be read.
    pub others: Option<Others>,
    /// csi-proxy may have been used there until then, whatever the status says.
    pub used_until: Timestamp,
    /// Now.
    pub now: Timestamp,
    /// What is known is the present, or the removal has begun.
    pub is_fresh: bool,
}

/// Until when csi-proxy may have been used without this process having seen it, if it began then: nothing is removed within
/// a minute after that, as what was deleted may be on its way back.
#[must_use]
pub fn unseen_until(started: Timestamp) -> Timestamp {
    let before = started.saturating_sub(GRACE_BEFORE_START);
    before.unwrap_or(Timestamp::MIN)
}

/// Decides it.
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
    // What was being removed is not installed again for a moment.
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

/// Whether this operator's agent may be on a node with that status.
#[must_use]
pub fn may_have_agent(status: &WindowsNodeStorageStatus) -> bool {
    [MANAGED, RELEASING, REMOVING].contains(&&*status.management) || status.csi_proxy.is_some()
}

/// Whether the operator has been on the node: without that nothing of it is there.
fn has_contact(status: &WindowsNodeStorageStatus) -> bool {
    status.last_contact_time.is_some() || status.csi_proxy.is_some()
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
    // A clock may have been wrong.
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
