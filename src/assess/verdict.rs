//! The verdict: the first row of the table that fits.

use std::fmt::Write;

use crate::api::UpgradeGate;
use crate::assess::report::{NodeReadiness, Reason, Upgradeable, Verdict, VolumeUse};
use crate::index::Unread;

/// How many volumes a message names before it only counts.
const NAMED_VOLUMES: usize = 10;
/// How many nodes a message names for one volume before it only counts.
const NAMED_NODES: usize = 10;
/// What an `OperatorCondition` takes.
const MESSAGE_LIMIT: usize = 32_768;

/// Judges complete inputs.
#[must_use]
pub fn verdict(nodes: &[NodeReadiness], volumes: &[VolumeUse], gate: UpgradeGate) -> Verdict {
    let in_tree = volumes.iter().filter(|volume| volume.in_tree).count();
    if nodes.is_empty() {
        return go(
            Reason::NoWindowsNodes,
            "the cluster has no Windows nodes".to_owned(),
        );
    }
    if in_tree == 0 {
        return go(
            Reason::NoInTreeVolumes,
            "no Windows workload uses an in-tree volume".to_owned(),
        );
    }
    let without_csi_node: Vec<&str> = nodes
        .iter()
        .filter(|node| !node.csi_node)
        .map(|node| node.name.as_str())
        .collect();
    let blocking: Vec<&VolumeUse> = volumes.iter().filter(|volume| volume.blocking).collect();
    if blocking.iter().any(|volume| volume.csi_driver.is_none()) {
        return hold(Reason::NoCSIMigration, name_volumes(&blocking), gate);
    }
    if !without_csi_node.is_empty() {
        let message = format!(
            "no CSINode object for {}: is the kubelet there running and registered? {}",
            list(&without_csi_node, NAMED_NODES),
            name_volumes(&blocking)
        );
        return hold(Reason::CSINodeMissing, message, gate);
    }
    if !blocking.is_empty() {
        return hold(Reason::DriversMissing, name_volumes(&blocking), gate);
    }
    let message = format!(
        "the CSI drivers that take over the {in_tree} in-tree volume(s) of Windows workloads are registered on all {} \
         Windows node(s)",
        nodes.len()
    );
    go(Reason::DriversRegistered, message)
}

/// The verdict while an input is incomplete; nothing overrides it.
#[must_use]
pub fn unknown(unread: &[Unread<'_>]) -> Verdict {
    readiness_unknown("not all of the cluster has been read yet, missing", unread)
}

/// Lets a verdict become True only on data that is fresh. One that was True already stands while something cannot be
/// read for a moment, and False is believed at once.
#[must_use]
pub fn only_fresh_data_opens(
    last: Option<&Verdict>,
    new: Verdict,
    stale: &[Unread<'_>],
) -> Verdict {
    let was_open = last.is_some_and(|last| last.upgradeable == Upgradeable::True);
    if stale.is_empty() || was_open || new.upgradeable == Upgradeable::False {
        return new;
    }
    readiness_unknown(
        "not all of the cluster can be read at present, missing",
        stale,
    )
}

fn readiness_unknown(what: &str, unread: &[Unread<'_>]) -> Verdict {
    let kinds: Vec<String> = unread.iter().map(ToString::to_string).collect();
    Verdict {
        upgradeable: Upgradeable::False,
        reason: Reason::ReadinessUnknown,
        message: limited(format!("{what}: {}", kinds.join(", "))),
    }
}

fn go(reason: Reason, message: String) -> Verdict {
    Verdict {
        upgradeable: Upgradeable::True,
        reason,
        message: limited(message),
    }
}

fn hold(reason: Reason, message: String, gate: UpgradeGate) -> Verdict {
    match gate {
        UpgradeGate::Enforce => Verdict {
            upgradeable: Upgradeable::False,
            reason,
            message: limited(message),
        },
        UpgradeGate::Ignore => go(
            Reason::Override,
            format!(
                "the administrator accepts the risk (upgradeGate: Ignore), else {}: {message}",
                reason.as_str()
            ),
        ),
    }
}

fn name_volumes(blocking: &[&VolumeUse]) -> String {
    let mut message = String::new();
    for volume in blocking.iter().take(NAMED_VOLUMES) {
        if !message.is_empty() {
            message.push_str("; ");
        }
        message.push_str(&name_volume(volume));
    }
    let more = blocking.len().saturating_sub(NAMED_VOLUMES);
    if more > 0 {
        // Writing to a String does not fail.
        let _ = write!(message, "; and {more} more");
    }
    message
}

fn name_volume(volume: &VolumeUse) -> String {
    let workload = &volume.workload;
    let kind = workload.kind.to_lowercase();
    let plugin = volume.plugin.as_deref().unwrap_or("CSI");
    let what = match (&volume.persistent_volume, &volume.persistent_volume_claim) {
        (Some(name), _) => format!("PersistentVolume {name}"),
        (None, Some(claim)) => format!("PersistentVolumeClaim {claim}"),
        (None, None) => format!("volume {}", volume.volume),
    };
    let subject = format!("{kind} {}/{}", workload.namespace, workload.name);
    match &volume.csi_driver {
        Some(driver) => {
            let missing: Vec<&str> = volume.missing_on.iter().map(String::as_str).collect();
            format!(
                "{subject}: {what} ({plugin}) needs {driver}, missing on {}",
                list(&missing, NAMED_NODES)
            )
        }
        None => format!(
            "{subject}: volume {} ({plugin}) has no CSI driver that takes over",
            volume.volume
        ),
    }
}

fn list(names: &[&str], most: usize) -> String {
    let mut text = names
        .iter()
        .take(most)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > most {
        let _ = write!(text, " and {} more", names.len() - most);
    }
    text
}

fn limited(message: String) -> String {
    if message.chars().count() <= MESSAGE_LIMIT {
        return message;
    }
    message
        .chars()
        .take(MESSAGE_LIMIT - 1)
        .chain(['…'])
        .collect()
}
