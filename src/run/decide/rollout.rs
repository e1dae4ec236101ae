//! Decides which nodes get rollout slots, from the plans and from what was observed.

use std::collections::BTreeMap;

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{NodePool, RolloutStep, SETTINGS_NAME, StrategyStatus, has_all};
use crate::index::Cluster;
use crate::node::{
    Candidate, Member, NodePlan, Observation, PoolProgress, Rollout, RolloutLimits, Standing,
    StepRecord, StepState, Steps, Windows, follow, found_owner, other_version, rollout, windows,
};
use crate::payload::sha256_hex;
use crate::run::decide::{Decisions, News};

impl Decisions {
    /// Assigns slots again. No node gets one before the configuration and the history of the nodes are known. Nodes
    /// that an earlier process was working on count like nodes whose work this process lost.
    ///
    /// Programs are removed only on fresh data: otherwise, a node that would begin with that waits for the proof.
    pub(super) fn decide_slots(&mut self, cluster: &Cluster, news: &News<'_>, is_fresh: bool) {
        if !cluster.knows_configuration() {
            return;
        }
        if !std::mem::replace(&mut self.is_restored, true) {
            let settings = cluster.settings.get(SETTINGS_NAME);
            let status = settings.and_then(|object| object.status.as_ref());
            let rollout = status.and_then(|status| status.rollout.as_ref());
            let nodes = rollout.into_iter().flat_map(|it| &it.in_progress);
            let there = nodes.filter(|node| self.takes_part(node));
            news.slots.restore(there.cloned());
            self.steps = rollout.and_then(|it| it.strategy.as_ref()).map(record);
        }
        // Nodes that wait for their removal are not connected to, so no work begins and no outcome is found there.
        let managed = self
            .plans
            .iter()
            .filter(|(_, plan)| plan.takes_part() && !matches!(plan, NodePlan::RemovalWaits(_)));
        let managed = managed.map(|(name, plan)| (name, plan, news.observations.get(name)));
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
        let rollout = news.slots.decide(|slots| {
            let candidates = managed.iter().map(|&(name, plan, observation)| {
                let is_gone_to = !matches!(plan, NodePlan::Blocked(_) | NodePlan::Waiting);
                let seen = observation.filter(|_| is_gone_to);
                // This also counts nodes that can no longer be reconciled.
                let is_down = !plan.takes_away() && observation.is_some_and(Observation::is_down);
                let pool = pool_of(name);
                let candidate = Candidate {
                    standing: standing(plan, seen),
                    down: is_down || slots.unsure.contains(name),
                    failures: seen.map_or(0, |seen| seen.failures),
                    has_slot: slots.given.contains(name),
                    at_work: slots.at_work.contains(name),
                    cut_short: slots.cut_short.contains(name),
                    paused: pool.is_some_and(|pool| pool.rollout.paused),
                    held: false,
                    removes: plan.takes_away(),
                };
                (name.clone(), pool, candidate)
            });
            let mut candidates: Vec<_> = candidates.collect();
            let (steps, free) = self.steps(cluster, news, &mut candidates).unzip();
            let free = free.flatten();
            let queue = free.map(|_| queue(&candidates)).unwrap_or_default();
            let windows = windows(&self.spec.rollout.windows, news.now);
            let mut rollout = Rollout {
                revision: self.revision().map(str::to_owned),
                steps,
                pinned: other_version(&self.payload, &self.spec).map(str::to_owned),
                ..self.by_pool(candidates, windows, news.settling)
            };
            // The current step may limit how many of them begin.
            if let Some(free) = free {
                let begin = queue.iter().filter(|name| rollout.slots.contains(*name));
                let too_many: Vec<_> = begin.skip(free).collect();
                rollout.slots.retain(|name| !too_many.contains(&name));
            }
            let before = rollout.slots.len();
            rollout.slots.retain(|name| {
                let removes = self.plans.get(name).is_some_and(NodePlan::takes_away);
                is_fresh || !removes || slots.at_work.contains(name)
            });
            let unproved = rollout.slots.len() < before;
            (rollout.slots.clone(), (rollout, unproved))
        });
        let (rollout, unproved) = rollout;
        self.are_slots_unproved = unproved;
        self.steps = rollout.steps.as_ref().map(|steps| steps.record.clone());
        self.rollout = rollout;
    }

    /// Computes the progress of the steps, and how many nodes may begin, if limited. Marks nodes that wait for another
    /// step as held.
    fn steps(
        &self,
        cluster: &Cluster,
        news: &News<'_>,
        candidates: &mut [InPool<'_>],
    ) -> Option<(Steps, Option<usize>)> {
        let steps = &self.spec.rollout.strategy.steps;
        if steps.is_empty() {
            return None;
        }
        let before = self.steps.clone().unwrap_or_default();
        let Some(revision) = self.revision() else {
            // Nothing is rolled out, so nothing waits.
            let (record, of) = (before, steps.len());
            let state = None;
            return Some((Steps { record, of, state }, None));
        };
        let member = |(name, pool, candidate): &InPool<'_>| {
            let node = cluster.nodes.get(name.as_str());
            let is_in = |step: &RolloutStep| match (&step.pool, &step.node_selector) {
                (Some(wanted), _) => pool.is_some_and(|pool| pool.name == *wanted),
                (None, Some(selector)) => node.is_some_and(|node| has_all(&node.labels, selector)),
                (None, None) => false,
            };
            let observation = news.observations.get(name);
            let member = Member {
                candidate: *candidate,
                has_it: observation.is_some_and(|seen| seen.reached == revision),
                seen: observation.and_then(|seen| seen.last_contact),
                steps: steps.iter().map(is_in).collect(),
            };
            (name.clone(), member)
        };
        let updated = candidates.iter().filter(|(.., it)| !it.removes);
        let members = updated.map(member).collect();
        let key = step_key(revision, steps);
        let (found, allowed) = follow(steps, &members, before, &key, news.now);
        for (name, _, candidate) in candidates {
            candidate.held = allowed.held.contains(name);
        }
        Some((found, allowed.free))
    }

    /// Returns the desired revision, which is the same for all nodes with csi-proxy.
    fn revision(&self) -> Option<&str> {
        self.plans.values().find_map(|plan| match plan {
            NodePlan::Reconcile(target) => {
                let desired = target.desired.as_ref().ok();
                let desired = desired.filter(|desired| desired.has_csi_proxy())?;
                Some(desired.revision.as_str())
            }
            _ => None,
        })
    }

    /// Returns how long until a time that the rollout waits for.
    pub fn rollout_due_in(&self, now: Timestamp) -> Option<Duration> {
        let first = self.rollout_changes().filter(|at| *at > now).min()?;
        Some(Duration::try_from(now.until(first).ok()?).unwrap_or_default())
    }

    fn rollout_changes(&self) -> impl Iterator<Item = Timestamp> {
        let soak = match self.rollout.steps.as_ref().and_then(|steps| steps.state) {
            Some(StepState::Soaking(until)) => Some(until),
            _ => None,
        };
        self.rollout.windows.until.into_iter().chain(soak)
    }
}

/// Identifies what is rolled out and which nodes each step selects. The soak time is left out: changing it does not
/// restart the steps.
fn step_key(revision: &str, steps: &[RolloutStep]) -> String {
    let nodes = steps.iter().map(|step| RolloutStep {
        soak_seconds: 0,
        ..step.clone()
    });
    // Plain data always serializes.
    let nodes = serde_json::to_string(&nodes.collect::<Vec<_>>()).unwrap_or_default();
    sha256_hex(format!("{revision} {nodes}").as_bytes())
}

/// Returns the nodes that wait for an update, in order.
fn queue(candidates: &[InPool<'_>]) -> Vec<String> {
    let waits = |it: &Candidate| it.standing == Standing::Waiting && !it.at_work && !it.removes;
    let waiting = candidates.iter().filter(|(.., it)| waits(it));
    let mut waiting: Vec<_> = waiting.collect();
    waiting.sort_by_key(|(name, _, it)| it.order(name));
    waiting.into_iter().map(|(name, ..)| name.clone()).collect()
}

fn record(status: &StrategyStatus) -> StepRecord {
    StepRecord {
        revision: status.revision.clone(),
        completed: usize::try_from(status.completed_steps).unwrap_or(0),
        soak_start_time: status.soak_start_time.as_ref().map(|time| time.0),
    }
}

/// A node with its pool.
type InPool<'a> = (String, Option<&'a NodePool>, Candidate);
/// Nodes that are counted together: those of one pool, or of all pools without limits of their own.
type Group<'a> = (Option<&'a NodePool>, BTreeMap<String, Candidate>);

impl Decisions {
    /// Counts the nodes of each pool with limits of its own separately, and all others together.
    fn by_pool(&self, candidates: Vec<InPool<'_>>, windows: Windows, settling: bool) -> Rollout {
        let progress = |pool: &NodePool| {
            let of_pool = candidates.iter().filter(|(_, of, _)| *of == Some(pool));
            let progress = PoolProgress::of(of_pool.map(|(_, _, candidate)| candidate));
            (pool.name.clone(), progress)
        };
        let pools = self.spec.node_pools.iter().map(progress).collect();
        let mut groups: BTreeMap<Option<&str>, Group<'_>> =
            [(None, (None, BTreeMap::new()))].into();
        for (name, pool, candidate) in candidates {
            let apart = pool.filter(|pool| pool.rollout.is_apart());
            let key = apart.map(|pool| pool.name.as_str());
            let (_, group) = groups.entry(key).or_insert((apart, BTreeMap::new()));
            group.insert(name, candidate);
        }
        let decided = groups.into_iter().map(|(name, (pool, group))| {
            let spec = &self.spec.for_pool(pool).rollout;
            let limits = RolloutLimits {
                max_unavailable: spec.max_unavailable_of(group.len()),
                max_failures: usize::try_from(spec.max_failures).unwrap_or(usize::MAX),
                paused: spec.paused,
                is_closed: !windows.is_open,
                settling,
            };
            (name.map(str::to_owned), rollout(&group, &limits))
        });
        let decided = decided.collect();
        Rollout {
            windows,
            pools,
            ..Rollout::merge(decided)
        }
    }
}

/// Returns a node's state in the rollout, from observations of its current desired state. A rolled-back update counts
/// as failed until it has worked, even while the node is unreachable, because the update may be the cause.
fn standing(plan: &NodePlan, observation: Option<&Observation>) -> Standing {
    let target = match plan {
        NodePlan::Reconcile(target) => target,
        NodePlan::Remove(_, Ok(target)) | NodePlan::Release(_, Ok(target)) => {
            let tried = observation.filter(|seen| seen.purpose == target.purpose);
            return tried.map_or(Standing::Unseen, |seen| seen.standing);
        }
        _ => return Standing::Unreachable,
    };
    let Ok(desired) = &target.desired else {
        return Standing::Unreachable;
    };
    let is_of_now = |seen: &&Observation| {
        seen.reconciles > 0 && seen.revision == desired.revision && seen.attempt == desired.attempt
    };
    match observation.filter(is_of_now).map(|seen| seen.standing) {
        Some(Standing::Current) => Standing::Current,
        _ if desired.refused.is_some() => Standing::Failed,
        Some(standing) => standing,
        None => Standing::Unseen,
    }
}
