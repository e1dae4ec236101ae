//! Whose turn it is, from the plans and from what was seen on nodes.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::Cluster;
use crate::node::{Candidate, Desired, Limits, NodePlan, Observation, Standing, rollout};
use crate::run::decide::{Decisions, News};

impl Decisions {
    /// Decides anew whose turn it is. Before the configuration is known, and what nodes have been through, it is nobody's.
    pub(super) fn give_turns(&mut self, cluster: &Cluster, news: &News<'_>) {
        if !cluster.knows_configuration() {
            return;
        }
        let spec = cluster.wanted();
        let managed = |plan: &NodePlan| !matches!(plan, NodePlan::External);
        let nodes = self.plans.values().filter(|plan| managed(plan)).count();
        let limits = Limits {
            max_unavailable: spec.rollout.max_unavailable_of(nodes),
            max_failures: usize::try_from(spec.rollout.max_failures).unwrap_or(usize::MAX),
            paused: spec.rollout.paused,
            settling: news.settling,
        };
        let plans = &self.plans;
        let mut unseen = BTreeSet::new();
        let rollout = news.turns.decide(|turns| {
            let candidates: BTreeMap<String, Candidate> = plans
                .iter()
                .filter(|(_, plan)| managed(plan))
                .map(|(name, plan)| {
                    let candidate = Candidate {
                        has_turn: turns.given.contains(name),
                        at_work: turns.at_work.contains(name),
                        cut_short: turns.cut_short.contains(name),
                        ..candidate(
                            plan,
                            news.observations.get(name),
                            turns.unsure.contains(name),
                        )
                    };
                    (name.clone(), candidate)
                })
                .collect();
            let is_unseen = |(_, candidate): &(&String, &Candidate)| {
                matches!(candidate.standing, Standing::Unseen | Standing::OutOfReach)
            };
            let names = candidates.iter().filter(is_unseen).map(|(name, _)| name);
            unseen.extend(names.cloned());
            let rollout = rollout(&candidates, &limits);
            (rollout.turns.clone(), rollout)
        });
        unseen.retain(|name| news.settling && self.had_another_csi_proxy(cluster, name));
        self.maybe_in_progress = unseen;
        self.unassigned |= rollout.turns != self.rollout.turns;
        self.rollout = rollout;
    }

    /// Whether csi-proxy ran on a node when it was last told of, and not the one that is desired.
    fn had_another_csi_proxy(&self, cluster: &Cluster, node: &str) -> bool {
        let status = cluster.node_statuses.get(node);
        let csi_proxy = status.and_then(|status| status.csi_proxy.as_ref());
        csi_proxy
            .and_then(|csi_proxy| csi_proxy.sha256.as_ref())
            .is_some_and(|sha256| *sha256 != self.payload.csi_proxy.sha256)
    }
}

/// How far a node is, from what was seen there for the sake of what is desired now. An update that was undone stays a
/// failure until it has worked, also while the node is out of reach: it may be so because of the update.
fn candidate(plan: &NodePlan, observation: Option<&Observation>, unsure: bool) -> Candidate {
    let NodePlan::Visit(target) = plan else {
        return Candidate {
            standing: Standing::OutOfReach,
            down: unsure,
            ..Candidate::default()
        };
    };
    let standing = |desired: &Desired| {
        let observation = observation.filter(|seen| {
            seen.visits > 0 && seen.revision == desired.revision && seen.attempt == desired.attempt
        });
        match observation.map(|seen| seen.standing) {
            Some(Standing::Current) => Standing::Current,
            Some(Standing::Failed) => Standing::Failed,
            _ if desired.refused.is_some() => Standing::Failed,
            Some(other) => other,
            None => Standing::Unseen,
        }
    };
    Candidate {
        standing: target
            .desired
            .as_ref()
            .map_or(Standing::OutOfReach, standing),
        down: unsure || observation.is_some_and(Observation::is_down),
        failures: observation.map_or(0, |seen| seen.failures),
        ..Candidate::default()
    }
}
