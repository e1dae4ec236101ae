//! Builds the rollout part of the status of `WindowsStorage`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{PoolRolloutStatus, RolloutStatus, StrategyStatus, WindowsStorageStatus};
use crate::node::{Halt, Rollout, StepState, printable};
use crate::status::ClusterInputs;
use crate::status::conditions::{NewCondition, condition, find, no, unchanged, whole_seconds};
use crate::status::rollout_history::history;
use crate::visible::some_of;

/// How many nodes a message names before it counts the rest.
const NAMED: usize = 5;
/// The reasons of the rollout condition, except during a removal from all nodes.
pub const PROGRESS: [&str; 11] = [
    "NotManaged",
    "Pinned",
    "Stopped",
    "Paused",
    "WindowClosed",
    "WindowInvalid",
    "StepBlocked",
    "Soaking",
    "Blocked",
    "Updating",
    "Complete",
];
/// The type of the rollout condition.
pub const ROLLOUT_PROGRESSING: &str = "RolloutProgressing";

/// Builds the rollout status. The previous process's numbers stay until all nodes have been checked.
pub fn rollout_status(
    previous: &WindowsStorageStatus,
    inputs: &ClusterInputs,
    now: Timestamp,
) -> Option<RolloutStatus> {
    if !inputs.managed {
        // A node pool scaled to zero may come back, so keep its history.
        let known = previous.rollout.as_ref();
        let known = known.filter(|known| !known.history.is_empty())?;
        return Some(RolloutStatus {
            history: known.history.clone(),
            strategy: known.strategy.clone(),
            ..RolloutStatus::default()
        });
    }
    let rollout = &inputs.rollout;
    let in_progress = inputs.in_progress.iter().cloned().collect();
    if let (true, Some(known)) = (rollout.settling, &previous.rollout) {
        return Some(RolloutStatus {
            in_progress,
            ..known.clone()
        });
    }
    let known = previous.rollout.as_ref();
    let known = known.map_or(&[][..], |known| known.history.as_slice());
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Some(RolloutStatus {
        version: inputs.version.clone(),
        nodes: count(rollout.nodes),
        updated_nodes: count(rollout.current),
        waiting_nodes: count(rollout.waiting),
        failed_nodes: count(rollout.failed.len()),
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
        strategy: rollout.steps.as_ref().map(|steps| StrategyStatus {
            revision: steps.record.revision.clone(),
            completed_steps: count(steps.record.completed),
            soak_start_time: steps.record.soak_start_time.map(whole_seconds).map(Time),
        }),
        next_window_time: opens(rollout).map(Time),
        history: history(known, rollout, &inputs.version, now),
    })
}

/// Returns when the next window opens, if none is open.
fn opens(rollout: &Rollout) -> Option<Timestamp> {
    let windows = &rollout.windows;
    windows.until.filter(|_| !windows.is_open)
}

/// Returns why the administrator's settings hold nodes back: the reason, and a text for the message.
fn held(rollout: &Rollout) -> Option<(&'static str, String)> {
    match (rollout.halt?, opens(rollout)) {
        (Halt::Failures, _) => None,
        (Halt::Paused, _) => Some(("Paused", PAUSED.to_owned())),
        (Halt::Closed, Some(opens)) => {
            let opens = printed(opens);
            let text = format!(
                "; updates wait for a window of spec.rollout.windows, and the next one opens at {opens}"
            );
            Some(("WindowClosed", text))
        }
        (Halt::Closed, None) => Some(("WindowInvalid", NO_WINDOW.to_owned())),
    }
}

/// The text for nodes that wait because the administrator paused the rollout.
pub const PAUSED: &str =
    "; updates are paused by spec.rollout.paused, or by rollout.paused of the nodes' pool";
const NO_WINDOW: &str = "; updates wait for a window of spec.rollout.windows, but none will open";

/// Formats a time to the second, as Kubernetes does.
fn printed(time: Timestamp) -> String {
    format!("{time:.0}")
}

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
    if let Some(pin) = &rollout.pinned {
        let message = format!(
            "{} managed node(s) are not updated: spec.csiProxy.version pins {pin}, but this operator ships csi-proxy {version}",
            rollout.nodes
        );
        return no("Pinned", printable(&message));
    }
    let known = find(&previous.conditions, ROLLOUT_PROGRESSING);
    // These depend on the settings alone, which have changed.
    let known = known.filter(|known| !["NotManaged", "Pinned"].contains(&known.reason.as_str()));
    if let (true, None, Some(known)) = (rollout.settling, rollout.halt, known) {
        return unchanged(known);
    }
    let (nodes, current, waiting) = (rollout.nodes, rollout.current, rollout.waiting);
    let is_blocked = rollout.slots.is_empty() && !rollout.down.is_empty();
    let step = step(rollout).filter(|_| waiting > 0 && rollout.slots.is_empty());
    let (status, reason, more) = match rollout.halt {
        Some(Halt::Failures) => ("False", "Stopped", String::new()),
        Some(Halt::Paused | Halt::Closed) => {
            let (reason, more) = held(rollout).unwrap_or_default();
            ("False", reason, more)
        }
        None if step.is_some() => step.unwrap_or_default(),
        None if waiting > 0 && is_blocked => (
            "False",
            "Blocked",
            format!(
                "; {waiting} wait(s), because csi-proxy does not work on {}, or the node was lost in the middle of an update: it takes a place \
                 of spec.rollout.maxUnavailable, and the step that it is in waits for it; see kubectl get windowsnodestorages",
                some_of(&rollout.down, NAMED)
            ),
        ),
        None if waiting > 0 => {
            let of_step = place(rollout)
                .map_or_else(String::new, |place| format!("; {place} is in progress"));
            let more =
                format!("{of_step}; {waiting} wait(s) for a rollout slot or are being updated");
            ("True", "Updating", more)
        }
        None if current < nodes => {
            let more =
                "; the others are new, out of reach, or without a working csi-proxy".to_owned();
            if was_complete(previous, rollout) {
                ("False", "Complete", more)
            } else {
                ("True", "Updating", more)
            }
        }
        None if rollout.windows.never_open() => ("False", "WindowInvalid", NO_WINDOW.to_owned()),
        None => ("False", "Complete", String::new()),
    };
    let stopped = stopped(rollout);
    let problems = rollout.windows.problems.iter();
    let said = [format!(
        "csi-proxy {version} is on {current} of {nodes} managed node(s){more}{stopped}"
    )];
    let said: Vec<_> = said.iter().chain(problems).map(String::as_str).collect();
    condition(status, reason, printable(&said.join("; ")))
}

/// Returns whether all nodes were up to date since the last change: a node that is lost later makes no new rollout.
fn was_complete(previous: &WindowsStorageStatus, rollout: &Rollout) -> bool {
    let known = previous.rollout.as_ref();
    let last = known.and_then(|known| known.history.last());
    last.is_some_and(|last| {
        last.completion_time.is_some() && Some(&last.revision) == rollout.revision.as_ref()
    })
}

/// Describes the next step to be completed.
fn place(rollout: &Rollout) -> Option<String> {
    let steps = rollout
        .steps
        .as_ref()
        .filter(|steps| steps.state.is_some())?;
    let number = steps.record.completed + 1;
    Some(format!(
        "step {number} of {} of spec.rollout.strategy",
        steps.of
    ))
}

/// Returns what the nodes after the current step wait for, if nothing is to be updated before.
fn step(rollout: &Rollout) -> Option<(&'static str, &'static str, String)> {
    let (place, waiting) = (place(rollout)?, rollout.waiting);
    Some(match rollout.steps.as_ref()?.state? {
        StepState::Updating | StepState::Unseen => return None,
        StepState::Soaking(until) => (
            "True",
            "Soaking",
            format!(
                "; {waiting} wait(s): soaking until {}, then each node of {place} must pass one more check",
                printed(until)
            ),
        ),
        StepState::Failed => (
            "False",
            "Stopped",
            format!(
                "; {waiting} wait(s), because {place} has a node on which it failed and was rolled back: {}. Fix the cause, then run: kubectl windows-storage rollout resume",
                some_of(&rollout.failed, NAMED)
            ),
        ),
        StepState::NoNodes => (
            "False",
            "StepBlocked",
            format!(
                "; {waiting} wait(s), because {place} has no updated node that this operator manages and can reach, so it cannot tell whether the new version works; bring such nodes back, or change the step"
            ),
        ),
    })
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

    #[test]
    fn the_condition_says_what_holds_the_rollout() {
        let names = |count: usize| (0..count).map(|number| format!("win-{number}")).collect();
        let of = |change: &dyn Fn(&mut Rollout)| {
            let mut rollout = Rollout {
                nodes: 9,
                current: 1,
                waiting: 2,
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
            (of(&|rollout| rollout.waiting = 0), "Updating", "the others"),
            (
                of(&|rollout| (rollout.waiting, rollout.current) = (0, 9)),
                "Complete",
                "9 of 9",
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
            (rollout.waiting, rollout.revision) = (0, Some("a".to_owned()));
        });
        for (revision, reason) in [("a", "Complete"), ("b", "Updating")] {
            let past = serde_json::json!({"revision": revision, "version": "v1.3.0", "completionTime": "2026-01-01T00:00:00Z"});
            let previous = serde_json::json!({"rollout": {"history": [past]}});
            let previous = serde_json::from_value(previous).unwrap();
            let said = rollout_condition(&previous, &lost, "v1.3.0", true);
            assert_eq!(said.reason, reason);
            assert!(said.message.contains("the others"), "{}", said.message);
        }
        // What was said of a pin that is gone is not kept while nodes are looked at.
        let unseen = of(&|rollout| (rollout.waiting, rollout.settling) = (0, true));
        for (known, reason) in [("Pinned", "Updating"), ("Stopped", "Stopped")] {
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
}
