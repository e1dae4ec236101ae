//! Tracks the progress of removing csi-proxy and the agent.

use std::time::Instant;

use crate::api::Management;
use crate::node::{Hold, NodePlan};
use crate::run::plan::{Inputs, Plan};
use crate::services::ServicesPlan;
use crate::status::RemovalProgress;

/// Returns when a removal is due, if it waits only for that time, or for lists since.
pub(super) fn due(hold: Option<&Hold>) -> Option<Instant> {
    match hold {
        Some(Hold::Until(at) | Hold::Unlisted(at)) => Some(*at),
        Some(Hold::Used(_)) | None => None,
    }
}

impl Plan {
    /// Returns whether nothing of this operator is left on any node, as the administrator wants.
    pub(super) fn is_all_removed(&self) -> bool {
        self.is_complete
            && self.spec.csi_proxy.management == Management::Removed
            && !self.nodes.values().any(NodePlan::takes_part)
    }

    /// Returns the progress of the removal, if the administrator wants everything removed.
    pub(super) fn removal_progress(
        &self,
        inputs: &Inputs<'_>,
        has_left_keys: bool,
    ) -> Option<RemovalProgress> {
        if self.spec.csi_proxy.management != Management::Removed {
            return None;
        }
        let is_written = matches!(self.services, Ok(ServicesPlan::Unneeded) | Err(_));
        let mut progress = RemovalProgress {
            is_stored: has_left_keys || !is_written,
            ..RemovalProgress::default()
        };
        for (name, plan) in &self.nodes {
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
