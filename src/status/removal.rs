//! Builds the status of `WindowsStorage` while csi-proxy and the agent are removed from all nodes.

use crate::api::Management;
use crate::node::{Halt, NodePlan, Rollout, printable};
use crate::run::plan::{Inputs, Plan};
use crate::services::ServicesPlan;
use crate::status::conditions::{NAMED, NewCondition, condition};
use crate::status::rollout::PAUSED;
use crate::visible::some_of;

/// The progress of the removal on managed nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalProgress {
    /// The number of nodes where nothing of this operator is left.
    pub removed: usize,
    /// The other nodes by name, with what they wait for or their error.
    pub left: Vec<(String, Option<String>)>,
    /// Whether the operator's data about them is still stored in the cluster.
    pub is_stored: bool,
}

impl RemovalProgress {
    /// Returns the progress, if the administrator wants everything removed.
    pub fn of(plan: &Plan, inputs: &Inputs<'_>) -> Option<Self> {
        if plan.spec.csi_proxy.management != Management::Removed {
            return None;
        }
        let is_written = matches!(plan.services, Ok(ServicesPlan::Unneeded) | Err(_));
        let mut progress = Self {
            is_stored: !plan.left_keys.is_empty() || !is_written,
            ..Self::default()
        };
        for (name, plan) in &plan.nodes {
            let problem = match plan {
                NodePlan::Absent(_) => {
                    progress.removed += 1;
                    continue;
                }
                NodePlan::External(_) | NodePlan::Undecided(_) => continue,
                NodePlan::RemovalWaits(hold) => Some(hold.to_string()),
                NodePlan::Release(_, Err(error)) | NodePlan::Remove(_, Err(error)) => {
                    Some(error.to_string())
                }
                _ => {
                    let seen = inputs.seen.observations.get(name);
                    seen.and_then(|seen| seen.problem.as_ref())
                        .map(ToString::to_string)
                }
            };
            progress.left.push((name.clone(), problem));
        }
        Some(progress)
    }
}

/// Builds the rollout condition during a removal.
pub fn removal_condition(progress: &RemovalProgress, rollout: &Rollout) -> NewCondition {
    let RemovalProgress {
        removed,
        left,
        is_stored,
    } = progress;
    let all = removed + left.len();
    let message = format!("nothing of this operator is left on {removed} of {all} node(s)");
    if left.is_empty() && *is_stored {
        let more =
            "; their host keys and the entry in ConfigMap windows-services are being deleted";
        return condition("True", "Removing", format!("{message}{more}"));
    }
    if left.is_empty() {
        return condition("False", "Removed", message);
    }
    // Nodes that need attention come first.
    let (waiting, going): (Vec<_>, Vec<_>) = left.iter().partition(|(_, why)| why.is_some());
    let describe = |(name, why): &(String, Option<String>)| match why {
        Some(why) => format!("{name} ({why})"),
        None => name.clone(),
    };
    let names = waiting.into_iter().chain(going).map(describe);
    let names = some_of(names, NAMED);
    let (status, reason, more) = match rollout.halt {
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
            let left = left(list);
            let progress = RemovalProgress {
                removed,
                left,
                is_stored: false,
            };
            let rollout = Rollout {
                halt,
                ..Rollout::default()
            };
            let said = removal_condition(&progress, &rollout);
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
