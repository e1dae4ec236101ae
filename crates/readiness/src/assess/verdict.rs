//! Computes the verdict: the first matching row of the table.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{BlockingVolume, UpgradeGate};
use crate::assess::judgement::judged::{BlockingVolumes, Report};
use crate::assess::partial;
use crate::assess::redirection::Loss;
use crate::assess::report::{Reason, Upgradeable, Verdict};
use crate::assess::volumes::Resolved;
use crate::index::{Cluster, Name, Unread, WorkloadKey, list, list_unread};

/// How many volumes a message names before it counts the rest.
pub const NAMED_VOLUMES: usize = 10;
/// The maximum message length of an `OperatorCondition`.
const MESSAGE_LIMIT: usize = 32_768;

/// The volumes that are lost at each time: how many, and those of them that a message names.
pub(super) type Lost = BTreeMap<Option<Loss>, (usize, Vec<String>)>;

impl Report {
    /// Sets the verdict, and the volumes that hold upgrades. `stand_ins` are the DaemonSets that, without Windows nodes, stand in for
    /// registrations.
    pub(super) fn judge(&mut self, cluster: &Cluster, stand_ins: &[String]) {
        let in_tree = self.rows().filter(|(_, row)| row.plugin().is_some());
        let (served, left): (Vec<_>, Vec<_>) = in_tree.partition(|(_, row)| self.is_served(row));
        let (served, in_tree) = (served.len(), left.len());
        let mut blocking = left;
        blocking.retain(|(_, row)| self.needs.is_blocking(row));
        // Volumes that no CSI driver takes over determine the reason. If not all can be named, they come first.
        if blocking.len() > NAMED_VOLUMES {
            blocking.sort_by_key(|(_, row)| row.driver().is_some());
        }
        let first = blocking.iter().take(NAMED_VOLUMES);
        let first = first.map(|(key, row)| BlockingVolume {
            namespace: key.object.namespace.to_string(),
            workload: format!("{}/{}", key.kind.as_str(), key.object.name),
            volume: row.named_as("/"),
            driver: row.driver().map(ToString::to_string),
            redirected: self.is_redirected(row),
        });
        let found = BlockingVolumes {
            count: blocking.len(),
            first: first.collect(),
        };
        let mut unread = cluster.unread();
        unread.extend(partial::find(cluster, &self.windows, &self.lacking));
        self.verdict = if !unread.is_empty() {
            unknown(&unread)
        } else if blocking.is_empty() {
            self.nothing_holds(in_tree, served, stand_ins)
        } else {
            self.held_by(&blocking, cluster.wanted().upgrade_gate)
        };
        self.blocking = found;
    }

    /// Returns the verdict where no volume holds upgrades: by the in-tree volumes that Windows workloads use, and those of others
    /// that the plugins still serve at the target version.
    fn nothing_holds(&self, in_tree: usize, served: usize, stand_ins: &[String]) -> Verdict {
        if self.windows.is_empty() {
            let mut message = "the cluster has no Windows nodes".to_owned();
            if !stand_ins.is_empty() {
                message = format!("{message}; new ones are to get {}", stand_ins.join("; "));
            }
            return go(Reason::NoWindowsNodes, message);
        }
        if in_tree > 0 {
            let message = format!(
                "the CSI drivers that take over the {in_tree} in-tree volume(s) of Windows workloads are registered on all {} \
                 Windows node(s)",
                self.windows.len()
            );
            return go(Reason::DriversRegistered, message);
        }
        if served > 0 {
            let message = format!(
                "the in-tree plugins still serve the {served} in-tree volume(s) of Windows workloads at that version"
            );
            return go(Reason::InTreeServed, message);
        }
        let message = "no Windows workload uses an in-tree volume";
        go(Reason::NoInTreeVolumes, message)
    }

    fn held_by(&self, blocking: &[(&WorkloadKey, &Resolved)], gate: UpgradeGate) -> Verdict {
        let mut lost = Lost::new();
        for (nth, (key, row)) in blocking.iter().enumerate() {
            let (count, named) = lost.entry(self.loss(row)).or_default();
            *count += 1;
            if nth < NAMED_VOLUMES {
                let missing = self.needs.of(row).map(|need| &need.missing);
                named.push(name_volume(key, row, missing));
            }
        }
        let volumes = name_volumes(lost, !self.windows.is_empty());
        if blocking.iter().any(|(_, row)| row.driver().is_none()) {
            hold(Reason::NoCSIMigration, volumes, gate)
        } else if self.without_csi_node.is_empty() {
            hold(Reason::DriversMissing, volumes, gate)
        } else {
            let message = format!(
                "no CSINode object, or one of an earlier node, for {}: is the kubelet there running and registered? {volumes}",
                list(&self.without_csi_node)
            );
            hold(Reason::CSINodeMissing, message, gate)
        }
    }
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

pub(super) fn hold(reason: Reason, message: String, gate: UpgradeGate) -> Verdict {
    match gate {
        UpgradeGate::Enforce => Verdict::new(Upgradeable::False, reason, message),
        UpgradeGate::Ignore => {
            let reason = reason.as_str();
            let risk = "the administrator accepts the risk (upgradeGate: Ignore)";
            let message = format!("{risk}, else {reason}: {message}");
            go(Reason::Override, message)
        }
    }
}

pub(super) fn name_volumes(lost: Lost, has_nodes: bool) -> String {
    let groups = lost.into_iter().map(|(loss, (count, mut named))| {
        let unnamed = count - named.len();
        if unnamed > 0 && !named.is_empty() {
            named.push(format!("and {unnamed} more"));
        }
        let named = named.join("; ");
        match loss.map(|loss| when_lost(count, loss, has_nodes)) {
            None => named,
            Some(when) if named.is_empty() => when,
            Some(when) => format!("{when}: {named}"),
        }
    });
    groups.collect::<Vec<_>>().join(". ")
}

/// Says that volumes that hold upgrades are broken today, or break at an upgrade.
pub fn when_lost(volumes: usize, loss: Loss, has_nodes: bool) -> String {
    let (what, verb, nodes) = match volumes {
        1 => ("volume", "breaks", "its node"),
        _ => ("volumes", "break", "their nodes"),
    };
    match loss {
        Loss::At(release) => {
            let version = release.number();
            format!("{volumes} {what} {verb} at the upgrade to {version}")
        }
        Loss::Today if has_nodes => format!(
            "{volumes} {what} cannot be mounted already today; draining {nodes} will show it"
        ),
        Loss::Today => format!("{volumes} {what} cannot be mounted already today"),
    }
}

/// Names a volume that holds upgrades, and the nodes where its driver is missing (none if there are no Windows nodes).
fn name_volume(
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
