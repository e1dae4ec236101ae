//! Decides which nodes get rollout slots, from the plans and from what was observed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::api::{NodePool, WindowsNodeStorageStatus};
use crate::index::Listed;
use crate::node::{
    Candidate, NodePlan, Observation, PoolProgress, Reason, Rollout, RolloutLimits, SlotState,
    Standing, found_owner, grant,
};
use crate::run::plan::{Inputs, Plan, STAYS_FRESH};

impl Plan {
    /// Assigns slots again. No node gets one before the configuration and the history of the nodes are known. Nodes
    /// that an earlier process was working on count like nodes whose work this process lost.
    ///
    /// Programs are removed only on fresh data: a node that would begin with that waits for lists. Returns since when lists
    /// are wanted for that.
    pub(super) fn decide_slots(
        &mut self,
        inputs: &Inputs<'_>,
        slots: &SlotState,
        listed: Option<Listed>,
    ) -> Option<Instant> {
        if !self.knows_configuration {
            return None;
        }
        let cluster = inputs.cluster;
        // Nodes that wait for their removal are not connected to, so no work begins and no outcome is found there.
        let managed = self.nodes.iter().filter(|(_, plan)| is_connected_to(plan));
        let managed = managed.map(|(name, plan)| (name, plan, inputs.seen.observations.get(name)));
        // A check on the node may have found another owner.
        let managed = managed.filter(|(name, plan, seen)| {
            let status = cluster.node_statuses.get(name.as_str());
            matches!(plan, NodePlan::Release(..)) || found_owner(*seen, status).is_none()
        });
        let managed: Vec<_> = managed.collect();
        let pool_of = |name: &String| {
            let node = cluster.nodes.get(name.as_str())?;
            self.spec.pools_of(&node.labels).next()
        };
        // Since when lists must have begun that a release or removal begins with.
        let needed = |name: &String| {
            let is_leaving = self.nodes.get(name).is_some_and(NodePlan::takes_away);
            let since = inputs.history.leaving_since.get(name).copied();
            let since = is_leaving.then(|| since.unwrap_or(inputs.instant))?;
            let expired = listed.map(|listed| listed.ended + STAYS_FRESH);
            let expired = expired.filter(|expired| *expired <= inputs.instant);
            Some(expired.map_or(since, |expired| since.max(expired)))
        };
        let candidates = managed.iter().map(|&(name, plan, observation)| {
            let is_gone_to = !matches!(plan, NodePlan::Reconcile(Err(_)) | NodePlan::Waiting);
            let seen = observation.filter(|_| is_gone_to);
            // This also counts nodes that can no longer be reconciled.
            let is_down = !plan.takes_away() && observation.is_some_and(Observation::is_down);
            let pool = pool_of(name);
            let candidate = Candidate {
                standing: standing(plan, seen, cluster.node_statuses.get(name.as_str())),
                down: is_down || slots.is_unsure(name),
                failures: seen.map_or(0, |seen| seen.failures),
                has_slot: (inputs.before).is_some_and(|it| it.rollout.slots.contains(name)),
                at_work: slots.at_work.contains(name),
                cut_short: slots.cut_short.contains_key(name),
                paused: pool.is_some_and(|pool| pool.rollout.paused),
            };
            (name.clone(), pool, candidate)
        });
        let is_settling = inputs.settled_at > inputs.instant;
        let mut rollout = Rollout {
            revision: self.revision().map(str::to_owned),
            ..self.by_pool(candidates.collect(), is_settling)
        };
        let mut wanted = None;
        rollout.slots.retain(|name| {
            let since = needed(name).filter(|_| !slots.at_work.contains(name));
            let is_old = |since: &Instant| listed.is_none_or(|listed| listed.begun < *since);
            let missing = since.filter(is_old);
            wanted = wanted.max(missing);
            missing.is_none()
        });
        self.rollout = rollout;
        wanted
    }

    /// Returns those of these nodes that csi-proxy is being changed on.
    pub(super) fn of_these(&self, nodes: BTreeSet<String>) -> BTreeSet<String> {
        let is_ours = |node: &String| self.nodes.get(node).is_some_and(is_connected_to);
        nodes.into_iter().filter(is_ours).collect()
    }

    /// Returns whether some node takes part in the rollout.
    pub fn has_rollout(&self) -> bool {
        self.nodes.values().any(NodePlan::takes_part)
    }

    /// Returns the desired revision, which is the same for all nodes with csi-proxy.
    fn revision(&self) -> Option<&str> {
        self.nodes.values().find_map(|plan| match plan {
            NodePlan::Reconcile(Ok(target)) => {
                let desired = target.desired.as_ref().ok()?;
                Some(desired.revision.as_str())
            }
            _ => None,
        })
    }
}

/// A node with its pool.
type InPool<'a> = (String, Option<&'a NodePool>, Candidate);
/// Nodes that are counted together: those of one pool, or of all pools without limits of their own.
type Group<'a> = (Option<&'a NodePool>, BTreeMap<String, Candidate>);

impl Plan {
    /// Counts the nodes of each pool with limits of its own separately, and all others together.
    fn by_pool(&self, candidates: Vec<InPool<'_>>, settling: bool) -> Rollout {
        let progress = |pool: &NodePool| {
            let of_pool = candidates.iter().filter(|(_, of, _)| *of == Some(pool));
            let progress = PoolProgress::of(of_pool.map(|(_, _, candidate)| candidate));
            (pool.name.clone(), progress)
        };
        let pools = self.spec.node_pools.iter().map(progress).collect();
        let mut groups: BTreeMap<Option<&str>, Group<'_>> =
            [(None, (None, BTreeMap::new()))].into();
        let mut all = BTreeMap::new();
        for (name, pool, candidate) in candidates {
            all.insert(name.clone(), candidate);
            let apart = pool.filter(|pool| pool.rollout.is_apart());
            let key = apart.map(|pool| pool.name.as_str());
            let (_, group) = groups.entry(key).or_insert((apart, BTreeMap::new()));
            group.insert(name, candidate);
        }
        let grants = groups.into_iter().map(|(name, (pool, group))| {
            let spec = &self.spec.for_pool(pool).rollout;
            let limits = RolloutLimits {
                max_unavailable: spec.max_unavailable_of(group.len()),
                max_failures: usize::try_from(spec.max_failures).unwrap_or(usize::MAX),
                paused: spec.paused,
                settling,
            };
            (name.map(str::to_owned), grant(&group, &limits))
        });
        Rollout {
            pools,
            ..Rollout::of(&all, grants.collect(), settling)
        }
    }
}

fn is_connected_to(plan: &NodePlan) -> bool {
    plan.takes_part() && !matches!(plan, NodePlan::RemovalWaits(_))
}

/// Returns a node's state in the rollout, from observations of its current desired state. A rolled-back update counts
/// as failed until it has worked, even while the node is unreachable, because the update may be the cause.
fn standing(
    plan: &NodePlan,
    observation: Option<&Observation>,
    status: Option<&WindowsNodeStorageStatus>,
) -> Standing {
    let target = match plan {
        NodePlan::Reconcile(Ok(target)) => target,
        NodePlan::Remove(_, Ok(target)) | NodePlan::Release(_, Ok(target)) => {
            let tried = observation.filter(|seen| seen.purpose == target.purpose);
            return tried.map_or(Standing::Unseen, |seen| seen.standing);
        }
        _ => return Standing::Unreachable,
    };
    let desired = match &target.desired {
        Ok(desired) => desired,
        Err(error) if error.reason == Reason::OtherVersion => return Standing::Pinned,
        Err(_) => return Standing::Unreachable,
    };
    let attempt = &desired.request.attempt;
    let is_of_now =
        |seen: &&Observation| seen.revision == desired.revision && seen.attempt == *attempt;
    // A rollback of any revision: another version of the operator may want another one.
    let failed = status.and_then(|status| status.failed_update.as_ref());
    match observation.filter(is_of_now).map(|seen| seen.standing) {
        Some(Standing::Current) => Standing::Current,
        _ if failed.is_some_and(|failed| failed.resume == *attempt) => Standing::Failed,
        Some(standing) => standing,
        None => Standing::Unseen,
    }
}
