//! Computes the verdict: the first matching row of the table.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{BlockingVolume, UpgradeGate};
use crate::assess::redirection::Loss;
use crate::assess::report::{Reason, Upgradeable, Verdict};
use crate::assess::volumes::Resolved;
use crate::index::{Name, Unread, WorkloadKey, list, list_unread};

/// How many volumes a message names before it counts the rest.
pub const NAMED_VOLUMES: usize = 10;
/// The maximum message length of an `OperatorCondition`.
const MESSAGE_LIMIT: usize = 32_768;

/// The volumes that hold upgrades.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockingVolumes {
    /// The number of such volumes.
    pub count: usize,
    /// The same volumes by when they are lost, sorted.
    pub groups: BTreeMap<Option<Loss>, BlockingGroup>,
    /// The first volumes, as the status names them.
    pub first: Vec<BlockingVolume>,
}

/// The volumes that hold upgrades and are lost at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockingGroup {
    /// The number of such volumes.
    pub count: usize,
    /// Those of them that are among the first, as the verdict's message names them.
    pub named: Vec<String>,
}

/// The inputs of the verdict when everything has been read.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The number of Windows nodes.
    pub windows_nodes: usize,
    /// The number of in-tree volumes that Windows workloads use.
    pub in_tree: usize,
    /// How many of them no CSI driver takes over.
    pub abandoned: usize,
    /// How many other in-tree volumes the plugins still serve at the target version.
    pub served: usize,
    /// Without Windows nodes: the needed drivers, each with the DaemonSets that would register it on new ones.
    pub stand_ins: Vec<String>,
    /// The Windows nodes without a CSINode object.
    pub without_csi_node: &'a BTreeSet<Name>,
    /// The volumes that hold upgrades; the first [`NAMED_VOLUMES`] as [`name_volume`] names them.
    pub blocking: &'a BlockingVolumes,
}

/// Returns the verdict on complete inputs.
pub fn verdict(facts: &Facts<'_>, gate: UpgradeGate) -> Verdict {
    if facts.windows_nodes == 0 && facts.blocking.count == 0 {
        let mut message = "the cluster has no Windows nodes".to_owned();
        if !facts.stand_ins.is_empty() {
            let stand_ins = facts.stand_ins.join("; ");
            message = format!("{message}; new ones are to get {stand_ins}");
        }
        return go(Reason::NoWindowsNodes, message);
    }
    if facts.in_tree == 0 && facts.served > 0 {
        let message = format!(
            "the in-tree plugins still serve the {} in-tree volume(s) of Windows workloads at that version",
            facts.served
        );
        return go(Reason::InTreeServed, message);
    }
    if facts.in_tree == 0 {
        let message = "no Windows workload uses an in-tree volume";
        return go(Reason::NoInTreeVolumes, message);
    }
    if facts.abandoned > 0 {
        return hold(Reason::NoCSIMigration, name_volumes(facts), gate);
    }
    if !facts.without_csi_node.is_empty() {
        let message = format!(
            "no CSINode object, or one of an earlier node, for {}: is the kubelet there running and registered? {}",
            list(facts.without_csi_node),
            name_volumes(facts)
        );
        return hold(Reason::CSINodeMissing, message, gate);
    }
    if facts.blocking.count > 0 {
        return hold(Reason::DriversMissing, name_volumes(facts), gate);
    }
    let message = format!(
        "the CSI drivers that take over the {} in-tree volume(s) of Windows workloads are registered on all {} \
         Windows node(s)",
        facts.in_tree, facts.windows_nodes
    );
    go(Reason::DriversRegistered, message)
}

/// Returns the verdict on incomplete inputs. No setting overrides it.
pub fn unknown(unread: &[Unread]) -> Verdict {
    readiness_unknown("the cluster has not been read completely; missing", unread)
}

/// Lets a verdict become True only on fresh data. A verdict that was already True stays True while data is temporarily
/// stale; False applies immediately.
pub fn only_fresh_data_opens(last: Option<&Verdict>, new: Verdict, stale: &[Unread]) -> Verdict {
    let was_open = last.is_some_and(|last| last.upgradeable == Upgradeable::True);
    if stale.is_empty() || was_open || new.upgradeable == Upgradeable::False {
        return new;
    }
    readiness_unknown("parts of the cluster cannot be read now; missing", stale)
}

fn readiness_unknown(what: &str, unread: &[Unread]) -> Verdict {
    let message = format!("{what}: {}", list_unread(unread));
    Verdict::new(Upgradeable::False, Reason::ReadinessUnknown, message)
}

fn go(reason: Reason, message: impl Into<String>) -> Verdict {
    Verdict::new(Upgradeable::True, reason, message.into())
}

fn hold(reason: Reason, message: String, gate: UpgradeGate) -> Verdict {
    match gate {
        UpgradeGate::Enforce => Verdict::new(Upgradeable::False, reason, message),
        UpgradeGate::Ignore => {
            let reason = reason.as_str();
            let risk = "the administrator accepts the risk (upgradeGate: Ignore)";
            go(
                Reason::Override,
                format!("{risk}, else {reason}: {message}"),
            )
        }
    }
}

fn name_volumes(facts: &Facts<'_>) -> String {
    let groups = facts.blocking.groups.iter();
    let groups = groups.map(|(loss, group)| {
        let BlockingGroup { count, named } = group;
        let mut parts = named.clone();
        let unnamed = count.saturating_sub(named.len());
        if unnamed > 0 && !parts.is_empty() {
            parts.push(format!("and {unnamed} more"));
        }
        let named = parts.join("; ");
        let version = match loss {
            None => return named,
            Some(Loss::Today) => None,
            Some(Loss::At(release)) => Some(release.number()),
        };
        let when = when_lost(*count, version.as_deref(), facts.windows_nodes > 0);
        if named.is_empty() {
            when
        } else {
            format!("{when}: {named}")
        }
    });
    groups.collect::<Vec<_>>().join(". ")
}

/// Says that volumes that hold upgrades break at the upgrade to a version, or without one, are broken today.
pub fn when_lost(volumes: usize, version: Option<&str>, has_nodes: bool) -> String {
    let (what, verb, nodes) = match volumes {
        1 => ("volume", "breaks", "its node"),
        _ => ("volumes", "break", "their nodes"),
    };
    match version {
        Some(version) => format!("{volumes} {what} {verb} at the upgrade to {version}"),
        None if has_nodes => format!(
            "{volumes} {what} cannot be mounted already today; draining {nodes} will show it"
        ),
        None => format!("{volumes} {what} cannot be mounted already today"),
    }
}

/// Names a volume that holds upgrades, and the nodes where its driver is missing (none if there are no Windows nodes).
pub fn name_volume(
    workload: &WorkloadKey,
    volume: &Resolved,
    missing: Option<&BTreeSet<Name>>,
) -> String {
    let kind = workload.kind.as_str().to_lowercase();
    let plugin = volume.plugin().map_or("CSI", |plugin| plugin.name);
    let what = volume.named_as(" ");
    let fault = match (volume.driver(), missing) {
        (Some(driver), Some(missing)) if missing.is_empty() => {
            format!("needs {driver}, and no DaemonSet for Windows nodes brings it")
        }
        (Some(driver), Some(missing)) => format!("needs {driver}, missing on {}", list(missing)),
        _ => "has no CSI driver that takes over".to_owned(),
    };
    format!("{kind} {}: {what} ({plugin}) {fault}", workload.object)
}

impl Verdict {
    fn new(upgradeable: Upgradeable, reason: Reason, mut message: String) -> Self {
        if let Some((end, _)) = message.char_indices().nth(MESSAGE_LIMIT - 1)
            && message[end..].chars().nth(1).is_some()
        {
            message.truncate(end);
            message.push('…');
        }
        Self {
            upgradeable,
            reason,
            message,
        }
    }
}
