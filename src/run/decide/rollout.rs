//! Which nodes get rollout slots, from the plans and from what was seen on nodes.

use crate::index::Cluster;
use crate::node::{Candidate, NodePlan, Observation, RolloutLimits, Standing, rollout};
use crate::run::decide::{Decisions, News};

impl Decisions {
    /// Grants slots again. Before the configuration is known, and what nodes have been through, nobody gets one.
    pub(super) fn decide_slots(&mut self, cluster: &Cluster, news: &News<'_>) {
        if !cluster.knows_configuration() {
            return;
        }
        let is_managed = |(_, plan): &(&String, &NodePlan)| !matches!(plan, NodePlan::External);
        let managed = self.plans.iter().filter(is_managed);
        let managed = managed.map(|(name, plan)| (name, plan, news.observations.get(name)));
        let spec = &self.spec.rollout;
        let limits = RolloutLimits {
            max_unavailable: spec.max_unavailable_of(managed.clone().count()),
            max_failures: usize::try_from(spec.max_failures).unwrap_or(usize::MAX),
            paused: spec.paused,
            settling: news.settling,
        };
        let rollout = news.slots.decide(|slots| {
            let candidates = managed.clone().map(|(name, plan, observation)| {
                let seen = observation.filter(|_| matches!(plan, NodePlan::Reconcile(_)));
                let is_down = seen.is_some_and(Observation::is_down);
                let candidate = Candidate {
                    standing: standing(plan, seen),
                    down: is_down || slots.unsure.contains(name),
                    failures: seen.map_or(0, |seen| seen.failures),
                    has_slot: slots.given.contains(name),
                    at_work: slots.at_work.contains(name),
                    cut_short: slots.cut_short.contains(name),
                };
                (name.clone(), candidate)
            });
            let rollout = rollout(&candidates.collect(), &limits);
            (rollout.slots.clone(), rollout)
        });
        let unseen = [Standing::Unseen, Standing::Unreachable];
        let maybe_in_progress = managed.filter(|(name, plan, observation)| {
            news.settling
                && unseen.contains(&standing(plan, *observation))
                && self.had_another_csi_proxy(cluster, name)
        });
        self.maybe_in_progress = maybe_in_progress.map(|(name, ..)| name.clone()).collect();
        self.is_unassigned |= rollout.slots != self.rollout.slots;
        self.rollout = rollout;
    }

    /// Whether csi-proxy ran on a node when it was last reported, and not the one that is desired.
    fn had_another_csi_proxy(&self, cluster: &Cluster, node: &str) -> bool {
        let status = cluster.node_statuses.get(node);
        let csi_proxy = status.and_then(|status| status.csi_proxy.as_ref());
        let sha256 = csi_proxy.and_then(|csi_proxy| csi_proxy.sha256.as_ref());
        sha256.is_some_and(|sha256| *sha256 != self.payload.csi_proxy.sha256)
    }
}

/// How far a node is, from what was seen there for the sake of what is desired now. An update that was undone stays a
/// failure until it has worked, also while the node is out of reach: it may be so because of the update.
fn standing(plan: &NodePlan, observation: Option<&Observation>) -> Standing {
    let NodePlan::Reconcile(target) = plan else {
        return Standing::Unreachable;
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
