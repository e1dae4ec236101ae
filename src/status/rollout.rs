//! What the status of `WindowsStorage` says of the rollout.

use crate::api::{RolloutStatus, WindowsStorageStatus};
use crate::node::{Halt, Rollout, printable};
use crate::status::conditions::{NewCondition, find};

const TYPE: &str = "RolloutProgressing";

/// The numbers. What the process before this one wrote stands until all nodes have been looked at.
pub fn rollout_status(
    previous: &WindowsStorageStatus,
    rollout: &Rollout,
    version: &str,
    managed: bool,
) -> Option<RolloutStatus> {
    if !managed {
        return None;
    }
    if let (true, Some(known)) = (rollout.settling, &previous.rollout) {
        return Some(known.clone());
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Some(RolloutStatus {
        version: version.to_owned(),
        nodes: count(rollout.nodes),
        updated_nodes: count(rollout.current),
        waiting_nodes: count(rollout.waiting),
        failed_nodes: count(rollout.failed.len()),
    })
}

/// The condition `RolloutProgressing`.
pub fn rollout_condition(
    previous: &WindowsStorageStatus,
    rollout: &Rollout,
    version: &str,
    managed: bool,
) -> NewCondition {
    if !managed {
        return NewCondition::yes(
            TYPE,
            "NotManaged",
            "this operator looks after csi-proxy on no node",
        );
    }
    if let (true, None, Some(known)) = (
        rollout.settling,
        rollout.halt,
        find(&previous.conditions, TYPE),
    ) {
        return NewCondition::unchanged(TYPE, known);
    }
    let done = format!(
        "csi-proxy {version} is on {} of {} managed node(s)",
        rollout.current, rollout.nodes
    );
    let waiting = rollout.waiting;
    match rollout.halt {
        Some(Halt::Failures) => NewCondition::no(
            TYPE,
            "Stopped",
            printable(&format!(
                "{done}; it did not work on {} and was undone there, so no further node is updated. See kubectl describe windowsnodestorage {}. When \
                 the cause is removed, let it go on: kubectl patch windowsstorage cluster --type=merge -p \
                 '{{\"spec\":{{\"rollout\":{{\"resume\":\"any other text than before\"}}}}}}'",
                named(&rollout.failed),
                rollout.failed.first().map_or("", String::as_str)
            )),
        ),
        Some(Halt::Paused) => NewCondition::no(
            TYPE,
            "Paused",
            format!("{done}; updates wait while spec.rollout.paused is true"),
        ),
        None if waiting > 0 && rollout.turns.is_empty() && !rollout.down.is_empty() => {
            NewCondition::no(
                TYPE,
                "Blocked",
                printable(&format!(
                    "{done}; {waiting} wait(s), because csi-proxy does not work on {}, or the node was lost in the middle of an update, and \
                 spec.rollout.maxUnavailable allows no more; see kubectl get windowsnodestorages",
                    named(&rollout.down)
                )),
            )
        }
        None if waiting > 0 => NewCondition::yes(
            TYPE,
            "Updating",
            format!("{done}; {waiting} wait(s) for its turn or is being updated"),
        ),
        None if rollout.current < rollout.nodes => NewCondition::yes(
            TYPE,
            "Updating",
            format!("{done}; the others are new, out of reach, or without a working csi-proxy"),
        ),
        None => NewCondition::yes(TYPE, "Complete", done),
    }
}

fn named(nodes: &[String]) -> String {
    const MOST: usize = 5;
    let names = nodes.iter().take(MOST).cloned().collect::<Vec<_>>();
    match nodes.len().saturating_sub(MOST) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(change: impl FnOnce(&mut Rollout)) -> (String, String, String) {
        let mut rollout = Rollout {
            nodes: 9,
            current: 1,
            waiting: 2,
            ..Rollout::default()
        };
        change(&mut rollout);
        let said = rollout_condition(&WindowsStorageStatus::default(), &rollout, "v1.3.0", true);
        (said.status.to_owned(), said.reason, said.message)
    }

    #[test]
    fn the_condition_says_what_holds_the_rollout() {
        let names = |count: usize| (0..count).map(|number| format!("win-{number}")).collect();
        let (status, reason, message) = said(|rollout| {
            rollout.halt = Some(Halt::Failures);
            rollout.failed = names(7);
        });
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Stopped"));
        assert!(message.contains("win-4 and 2 more"), "{message}");
        let (status, reason, message) = said(|rollout| rollout.down = names(1));
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Blocked"));
        assert!(message.contains("win-0"), "{message}");
        assert_eq!(said(|_| ()).1, "Updating");
        assert_eq!(said(|rollout| rollout.waiting = 0).1, "Updating");
        let complete = said(|rollout| (rollout.waiting, rollout.current) = (0, 9));
        assert_eq!(complete.1, "Complete");
        assert_eq!(
            said(|rollout| rollout.halt = Some(Halt::Paused)).1,
            "Paused"
        );
    }
}
