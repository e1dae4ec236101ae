//! Tracks the progress of removing csi-proxy and the agent.

use std::time::Instant;

use crate::api::Management;
use crate::node::{Hold, NodePlan};
use crate::run::decide::{Decisions, News};
use crate::services::ServicesPlan;
use crate::status::RemovalProgress;

impl Decisions {
    /// Records when a removal from the node is due, if it waits only for that time, or for lists since.
    pub(super) fn note_removal(&mut self, name: &str, hold: Option<&Hold>) {
        if let Some(Hold::Until(at) | Hold::Unlisted(at)) = hold {
            self.removals.insert(name.to_owned(), *at);
        }
    }

    /// Returns since when lists are wanted, if a removal or a release of some node waits for them alone.
    pub fn wants_lists(&self, now: Instant) -> Option<Instant> {
        // What cannot be read now cannot be listed either.
        let is_readable = self.is_complete && self.stale_since.is_none();
        let due = self.removals.values().filter(|at| **at <= now).max();
        self.slots_want.max(due.copied()).filter(|_| is_readable)
    }

    /// Returns whether nothing of this operator is left on any node, as the administrator wants.
    pub(super) fn is_all_removed(&self) -> bool {
        self.is_complete
            && self.spec.csi_proxy.management == Management::Removed
            && self.plans.values().all(|plan| match plan {
                NodePlan::Absent(_) | NodePlan::External(_) | NodePlan::Undecided(_) => true,
                NodePlan::Release(..)
                | NodePlan::RemovalWaits(_)
                | NodePlan::Remove(..)
                | NodePlan::Waiting
                | NodePlan::Blocked(_)
                | NodePlan::Reconcile(_) => false,
            })
    }

    /// Returns the progress of the removal, if the administrator wants everything removed.
    pub(super) fn removal_progress(
        &self,
        news: &News<'_>,
        has_left_keys: bool,
    ) -> Option<RemovalProgress> {
        if self.spec.csi_proxy.management != Management::Removed {
            return None;
        }
        let is_written = matches!(self.services, Ok(ServicesPlan::Keep(_)) | Err(_));
        let mut progress = RemovalProgress {
            is_stored: has_left_keys || !is_written,
            ..RemovalProgress::default()
        };
        for (name, plan) in &self.plans {
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
                    let seen = news.observations.get(name);
                    seen.and_then(|seen| seen.problem.as_ref())
                        .map(ToString::to_string)
                }
            };
            progress.left.push((name.clone(), problem));
        }
        Some(progress)
    }
}
