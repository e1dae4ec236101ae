//! Builds the rollout part of the status of `WindowsStorage`.

use crate::api::{PoolRolloutStatus, RolloutStatus, WindowsStorageStatus};
use crate::node::{Halt, Rollout, printable};
use crate::run::plan::Plan;
use crate::status::conditions::{NAMED, NewCondition, condition, find, no, unchanged};
use crate::visible::some_of;

/// The reasons of the rollout condition.
pub const PROGRESS: [&str; 9] = [
    "NotManaged",
    "Pinned",
    "Stopped",
    "Paused",
    "Blocked",
    "Updating",
    "Complete",
    "Removing",
    "Removed",
];
/// The type of the rollout condition.
pub const ROLLOUT_PROGRESSING: &str = "RolloutProgressing";

/// Builds the rollout status. The previous process's numbers stay until all nodes have been checked.
pub fn rollout_status(
    previous: &WindowsStorageStatus,
    plan: &Plan,
    version: &str,
) -> Option<RolloutStatus> {
    if !plan.has_rollout() {
        return None;
    }
    let rollout = &plan.rollout;
    let in_progress = plan.judged.in_progress.iter().cloned().collect();
    if let (true, Some(known)) = (rollout.settling, &previous.rollout) {
        return Some(RolloutStatus {
            in_progress,
            ..known.clone()
        });
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Some(RolloutStatus {
        version: version.to_owned(),
        nodes: count(rollout.all.nodes),
        updated_nodes: count(rollout.all.current),
        waiting_nodes: count(rollout.all.waiting),
        failed_nodes: count(rollout.all.failed),
        pools: rollout
            .pools
            .iter()
            .map(|(name, pool)| PoolRolloutStatus {
                name: name.clone(),
                nodes: count(pool.nodes),
                updated_nodes: count(pool.current),
                waiting_nodes: count(pool.waiting),
                failed_nodes: count(pool.failed),
            })
            .collect(),
        in_progress,
        completed_revision: completed_revision(previous, rollout),
    })
}

/// The text for nodes that wait because the administrator paused the rollout.
pub const PAUSED: &str =
    "; updates are paused by spec.rollout.paused, or by rollout.paused of the nodes' pool";

/// Builds the condition `RolloutProgressing`. It is also False if there is nothing to do.
pub fn rollout_condition(
    previous: &WindowsStorageStatus,
    rollout: &Rollout,
    version: &str,
    managed: bool,
) -> NewCondition {
    if !managed {
        let message = "this operator manages csi-proxy on no node";
        return no("NotManaged", message);
    }
    let pinned = rollout.pinned;
    if pinned > 0 && pinned == rollout.all.nodes {
        let message = format!(
            "{pinned} managed node(s) are not updated: spec.csiProxy.version or the version of their pool pins another version than csi-proxy {version}, which this operator ships"
        );
        return no("Pinned", message);
    }
    let known = find(&previous.conditions, ROLLOUT_PROGRESSING);
    // These depend on the settings alone, which have changed.
    let known = known.filter(|known| match known.reason.as_str() {
        "NotManaged" => false,
        "Pinned" => pinned > 0,
        _ => true,
    });
    if let (true, None, Some(known)) = (rollout.settling, rollout.halt, known) {
        return unchanged(known);
    }
    let (nodes, current, waiting) = (rollout.all.nodes, rollout.all.current, rollout.all.waiting);
    let over = if pinned > 0 { "Pinned" } else { "Complete" };
    let is_blocked = rollout.slots.is_empty() && !rollout.down.is_empty();
    let (status, reason, more) = match rollout.halt {
        Some(Halt::Failures) => ("False", "Stopped", String::new()),
        Some(Halt::Paused) => ("False", "Paused", PAUSED.to_owned()),
        None if waiting > 0 && is_blocked => (
            "False",
            "Blocked",
            format!(
                "; {waiting} wait(s), because csi-proxy does not work on {}, or the node was lost in the middle of an update: it takes a place \
                 of spec.rollout.maxUnavailable; see kubectl get windowsnodestorages",
                some_of(&rollout.down, NAMED)
            ),
        ),
        None if waiting > 0 => {
            let more = format!("; {waiting} wait(s) for a rollout slot or are being updated");
            let down = match rollout.down.as_slice() {
                [] => String::new(),
                down => format!("; csi-proxy does not work on {}", some_of(down, NAMED)),
            };
            ("True", "Updating", more + &down)
        }
        None if current + pinned < nodes => {
            let more =
                "; the others are new, out of reach, or without a working csi-proxy".to_owned();
            let completed = completed_revision(previous, rollout);
            if completed.is_some() && completed == rollout.revision {
                ("False", over, more)
            } else {
                ("True", "Updating", more)
            }
        }
        None => ("False", over, String::new()),
    };
    let stopped = stopped(rollout);
    let kept = match pinned {
        0 => String::new(),
        _ => format!("; {pinned} keep(s) another version, which is pinned"),
    };
    let said = format!(
        "csi-proxy {version} is on {current} of {nodes} managed node(s){kept}{more}{stopped}"
    );
    condition(status, reason, printable(&said))
}

/// Returns the revision that all nodes have, or have had since the last change: a node that is lost later makes no new
/// rollout.
fn completed_revision(previous: &WindowsStorageStatus, rollout: &Rollout) -> Option<String> {
    let known = previous.rollout.as_ref();
    let known = known.and_then(|known| known.completed_revision.as_ref());
    let Some(revision) = &rollout.revision else {
        // Nothing is rolled out at the moment.
        return known.cloned();
    };
    // Nodes that are pinned to another version have yet to get it.
    let (nodes, current) = (rollout.all.nodes, rollout.all.current);
    let is_complete = nodes > 0 && current == nodes && rollout.pinned == 0;
    (is_complete || known == Some(revision)).then(|| revision.clone())
}

/// Describes which failures stopped the rollout and what to do.
fn stopped(rollout: &Rollout) -> String {
    let Some((_, first)) = rollout.stopped.first() else {
        return String::new();
    };
    let is_all = rollout.pools.is_empty();
    let why = |(pool, failed): &(Option<String>, Vec<String>)| {
        let further = match pool {
            Some(pool) => format!("no further node of pool {pool}"),
            None if is_all => "no further node".to_owned(),
            None => "no further node outside pools with their own limit".to_owned(),
        };
        let failed = some_of(failed, NAMED);
        format!("; it failed on {failed} and was rolled back there, so {further} is updated")
    };
    let why: String = rollout.stopped.iter().map(why).collect();
    format!(
        "{why}. See kubectl describe windowsnodestorage {}. Fix the cause, then resume: kubectl patch windowsstorage \
         cluster --type=merge -p '{{\"spec\":{{\"rollout\":{{\"resume\":\"any other text than before\"}}}}}}'",
        first.first().map_or("", String::as_str)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::PoolProgress;

    #[test]
    fn the_condition_says_what_holds_the_rollout() {
        let names = |count: usize| (0..count).map(|number| format!("win-{number}")).collect();
        let of = |change: &dyn Fn(&mut Rollout)| {
            let mut rollout = Rollout {
                all: PoolProgress {
                    nodes: 9,
                    current: 1,
                    waiting: 2,
                    failed: 0,
                },
                ..Rollout::default()
            };
            change(&mut rollout);
            rollout
        };
        for (rollout, reason, words) in [
            (
                of(&|rollout| {
                    rollout.halt = Some(Halt::Failures);
                    rollout.stopped = vec![(None, names(7))];
                }),
                "Stopped",
                "win-4 and 2 more",
            ),
            (
                of(&|rollout| rollout.halt = Some(Halt::Paused)),
                "Paused",
                "paused",
            ),
            (of(&|rollout| rollout.down = names(1)), "Blocked", "win-0"),
            (of(&|_| ()), "Updating", "for a rollout slot"),
            (
                of(&|rollout| rollout.stopped = vec![(Some("blue".to_owned()), names(1))]),
                "Updating",
                "no further node of pool blue is updated",
            ),
            (
                of(&|rollout| rollout.all.waiting = 0),
                "Updating",
                "the others",
            ),
            (
                of(&|rollout| (rollout.all.waiting, rollout.all.current) = (0, 9)),
                "Complete",
                "9 of 9",
            ),
            (of(&|rollout| rollout.pinned = 9), "Pinned", "9 managed"),
            (
                of(&|rollout| (rollout.all.waiting, rollout.pinned) = (0, 8)),
                "Pinned",
                "1 of 9 managed node(s); 8 keep(s) another version",
            ),
        ] {
            let previous = WindowsStorageStatus::default();
            let said = rollout_condition(&previous, &rollout, "v1.3.0", true);
            assert_eq!(said.reason, reason);
            let goes_on = reason == "Updating";
            assert_eq!(said.status, if goes_on { "True" } else { "False" });
            assert!(said.message.contains(words), "{}", said.message);
        }
        // A node that is lost after the end of a rollout is no rollout.
        let lost = of(&|rollout| {
            (rollout.all.waiting, rollout.revision) = (0, Some("a".to_owned()));
        });
        for (revision, reason) in [("a", "Complete"), ("b", "Updating")] {
            let previous = serde_json::json!({"rollout": {"completedRevision": revision}});
            let previous = serde_json::from_value(previous).unwrap();
            let said = rollout_condition(&previous, &lost, "v1.3.0", true);
            assert_eq!(said.reason, reason);
            assert!(said.message.contains("the others"), "{}", said.message);
        }
        // What was said of a pin is kept while nodes are looked at, unless it is gone.
        let mut unseen = of(&|rollout| (rollout.all.waiting, rollout.settling) = (0, true));
        for (known, pinned, reason) in [
            ("Pinned", 0, "Updating"),
            ("Pinned", 1, "Pinned"),
            ("Stopped", 0, "Stopped"),
        ] {
            unseen.pinned = pinned;
            let known = serde_json::json!({
                "type": ROLLOUT_PROGRESSING, "status": "False", "reason": known, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            let previous = serde_json::json!({"conditions": [known]});
            let previous = serde_json::from_value(previous).unwrap();
            let said = rollout_condition(&previous, &unseen, "v1.3.0", true);
            assert_eq!(said.reason, reason);
        }
    }

    #[test]
    fn a_revision_is_complete_when_every_node_has_it_and_there_is_one() {
        for (nodes, current, pinned, is_complete) in [
            (9, 9, 0, true),
            (9, 1, 8, false),
            (9, 8, 0, false),
            (0, 0, 0, false),
        ] {
            let rollout = Rollout {
                revision: Some("a".to_owned()),
                all: PoolProgress {
                    nodes,
                    current,
                    ..PoolProgress::default()
                },
                pinned,
                ..Rollout::default()
            };
            let completed = completed_revision(&WindowsStorageStatus::default(), &rollout);
            assert_eq!(
                completed.is_some(),
                is_complete,
                "{current} of {nodes}, {pinned} pinned"
            );
        }
    }
}
