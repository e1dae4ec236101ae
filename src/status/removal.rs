//! Builds the status of `WindowsStorage` while csi-proxy and the agent are removed from all nodes.

use crate::node::{Halt, NodePlan, printable};
use crate::run::plan::{Inputs, Plan};
use crate::services::ServicesPlan;
use crate::status::conditions::{NAMED, NewCondition, condition};
use crate::status::rollout::PAUSED;
use crate::visible::some_of;

/// A node where something is left, and what it waits for, or its error.
type LeftNode = (String, Option<String>);

/// Builds the rollout condition while everything is removed.
pub fn removal_condition(plan: &Plan, inputs: &Inputs<'_>) -> NewCondition {
    let is_written = matches!(plan.services, Ok(ServicesPlan::Unneeded) | Err(_));
    let mut removed = 0;
    let mut left = Vec::new();
    for (name, plan) in &plan.nodes {
        let problem = match plan {
            NodePlan::Absent(_) => {
                removed += 1;
                continue;
            }
            NodePlan::External(_) | NodePlan::Undecided(_) => continue,
            NodePlan::RemovalWaits(hold) => Some(hold.to_string()),
            NodePlan::Release(_, Err(error)) | NodePlan::Remove(_, Err(error)) => {
                Some(error.to_string())
            }
            _ => {
                let seen = inputs.seen.observations.get(name);
                let problem = seen.and_then(|seen| seen.problem.as_ref());
                problem.map(ToString::to_string)
            }
        };
        left.push((name.clone(), problem));
    }
    let is_stored = !plan.left_keys.is_empty() || !is_written;
    progress(removed, &left, is_stored, plan.rollout.halt)
}

/// `is_stored`: whether the operator's data about nodes is still stored in the cluster.
fn progress(
    removed: usize,
    left: &[LeftNode],
    is_stored: bool,
    halt: Option<Halt>,
) -> NewCondition {
    let all = removed + left.len();
    let message = format!("nothing of this operator is left on {removed} of {all} node(s)");
    if left.is_empty() && is_stored {
        let more =
            "; their host keys and the entry in ConfigMap windows-services are being deleted";
        return condition("True", "Removing", format!("{message}{more}"));
    }
    if left.is_empty() {
        return condition("False", "Removed", message);
    }
    // Nodes that need attention come first.
    let (waiting, going): (Vec<_>, Vec<_>) = left.iter().partition(|(_, why)| why.is_some());
    let describe = |(name, why): &LeftNode| match why {
        Some(why) => format!("{name} ({why})"),
        None => name.clone(),
    };
    let names = waiting.into_iter().chain(going).map(describe);
    let names = some_of(names, NAMED);
    let (status, reason, more) = match halt {
        Some(Halt::Paused) => ("False", "Paused", PAUSED),
        _ => ("True", "Removing", ""),
    };
    let message = format!("{message}; to be removed: {names}{more}");
    condition(status, reason, printable(&message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_that_are_left_are_named_with_what_they_wait_for() {
        let left = |list: &[(&str, &str)]| {
            let list = list.iter();
            let list = list.map(|(name, why)| {
                let why = (!why.is_empty()).then(|| (*why).to_owned());
                ((*name).to_owned(), why)
            });
            list.collect::<Vec<_>>()
        };
        let of = |removed, list: &[(&str, &str)], halt| {
            let said = progress(removed, &left(list), false, halt);
            (said.status, said.reason, said.message)
        };
        let (status, reason, message) = of(1, &[("a", ""), ("b", "out of reach")], None);
        assert_eq!((&*status, &*reason), ("True", "Removing"));
        let expected = "nothing of this operator is left on 1 of 3 node(s); to be removed: b (out of reach), a";
        assert_eq!(message, expected);
        let (status, reason, _) = of(1, &[("a", "")], Some(Halt::Paused));
        assert_eq!((&*status, &*reason), ("False", "Paused"));
        let (status, reason, _) = of(1, &[("a", "")], Some(Halt::Failures));
        assert_eq!((&*status, &*reason), ("True", "Removing"));
        let (status, reason, message) = of(3, &[], Some(Halt::Paused));
        assert_eq!((&*status, &*reason), ("False", "Removed"));
        assert!(message.ends_with("on 3 of 3 node(s)"), "{message}");
    }
}
