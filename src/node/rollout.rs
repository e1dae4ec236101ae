//! Grants rollout slots: which nodes may replace a working csi-proxy, and when no further node may.
//!
//! A node without a working csi-proxy needs no slot: there is nothing to interrupt, and every minute counts.

use std::collections::{BTreeMap, BTreeSet};

/// State of one managed node in the rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Not observed since the desired state changed, or since this process started.
    #[default]
    Unseen,
    /// Could not be reached. It does not count: a dead node must not block the others.
    Unreachable,
    /// Up to date: in the desired state.
    Current,
    /// csi-proxy works, but is not up to date.
    Waiting,
    /// Nothing works that an update could interrupt.
    NotInstalled,
    /// The update did not work and was rolled back.
    Failed,
    /// The administrator wants another version there than this operator ships.
    Pinned,
}

/// The facts about one managed node that decide whether it gets a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Candidate {
    /// State in the rollout.
    pub standing: Standing,
    /// Whether an installed csi-proxy does not work, or may not work.
    pub down: bool,
    /// Whether it was given a slot.
    pub has_slot: bool,
    /// Whether work in its slot is in progress.
    pub at_work: bool,
    /// Whether the work in its last slot was interrupted. The update may be the cause, so its outcome must be known
    /// before another node is updated.
    pub cut_short: bool,
    /// Whether its pool is paused.
    pub paused: bool,
    /// Failed reconciles in a row. Nodes with failures come after nodes without.
    pub failures: u32,
}

impl Candidate {
    /// Returns the sort key; the lowest comes first. A node that is down comes first: its update interrupts nothing. Then
    /// an interrupted update, so that its outcome is known before other nodes follow; then nodes with fewer failures; then
    /// nodes with a slot: one that is connected to on its account must not lose it to each node that turns up.
    fn order<'a>(&self, name: &'a str) -> impl Ord + use<'a> {
        (
            !self.down,
            !self.cut_short,
            self.failures,
            !self.has_slot,
            name,
        )
    }
}

/// Limits on slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutLimits {
    /// How many nodes may be without csi-proxy at the same time.
    pub max_unavailable: usize,
    /// After rollbacks on this many nodes, no further node gets a slot.
    pub max_failures: usize,
    /// Whether the rollout is paused: no node gets a slot.
    pub paused: bool,
    /// Whether this process has just started: a node that it has not observed yet, or cannot reach, may be in the
    /// middle of an update that the previous process began.
    pub settling: bool,
}

/// Why no node gets a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The rollout is paused.
    Paused,
    /// The update was rolled back on too many nodes.
    Failures,
}

/// Rollout progress of nodes, such as those of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolProgress {
    /// Managed nodes.
    pub nodes: usize,
    /// Nodes that are up to date.
    pub current: usize,
    /// Nodes that wait for a slot or have one.
    pub waiting: usize,
    /// Nodes on which the update was rolled back.
    pub failed: usize,
}

impl PoolProgress {
    /// Counts these nodes.
    pub fn of<'a>(candidates: impl Iterator<Item = &'a Candidate> + Clone) -> Self {
        let count = |standing| {
            let all = candidates.clone();
            all.filter(|it| it.standing == standing).count()
        };
        let (current, waiting) = (count(Standing::Current), count(Standing::Waiting));
        let failed = count(Standing::Failed);
        Self {
            nodes: candidates.count(),
            current,
            waiting,
            failed,
        }
    }
}

/// The slots that one group of nodes gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Nodes that may replace a working csi-proxy now, including those at work.
    pub slots: BTreeSet<String>,
    /// Why no further node gets a slot, if none does.
    pub halt: Option<Halt>,
    /// Nodes on which the update was rolled back, by name.
    pub failed: Vec<String>,
    /// Whether a node needs nothing but a slot.
    pub is_ready: bool,
}

/// The granted slots, and the progress of the rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// Nodes that may replace a working csi-proxy now, including those at work.
    pub slots: BTreeSet<String>,
    /// Why no node gets a slot, if none does.
    pub halt: Option<Halt>,
    /// Groups that failures have stopped, each with its failed nodes. A group is a pool with limits of its own, or
    /// `None` for all other nodes.
    pub stopped: Vec<(Option<String>, Vec<String>)>,
    /// The revision that is rolled out, if known.
    pub revision: Option<String>,
    /// Progress of each pool.
    pub pools: BTreeMap<String, PoolProgress>,
    /// Progress of all nodes.
    pub all: PoolProgress,
    /// Nodes for which the administrator wants another version than this operator ships.
    pub pinned: usize,
    /// Nodes whose csi-proxy does not work, as far as known, by name. They count as unavailable.
    pub down: Vec<String>,
    /// Whether this process has just started and has not observed all nodes, so that the numbers are not final.
    pub settling: bool,
}

impl Rollout {
    /// Puts together what groups of these nodes get that are counted separately: pools, and `None` for all other nodes.
    /// `settling`: this process has just started.
    pub fn of(
        candidates: &BTreeMap<String, Candidate>,
        grants: Vec<(Option<String>, Grant)>,
        settling: bool,
    ) -> Self {
        let stand = |standing| {
            candidates
                .values()
                .filter(move |it| it.standing == standing)
        };
        let down = candidates.iter().filter(|(_, it)| it.down && !it.at_work);
        let mut rollout = Self {
            all: PoolProgress::of(candidates.values()),
            pinned: stand(Standing::Pinned).count(),
            down: down.map(|(name, _)| name.clone()).collect(),
            settling: settling && stand(Standing::Unseen).next().is_some(),
            ..Self::default()
        };
        let goes_on = |it: &Grant| it.halt.is_none() && (it.is_ready || !it.slots.is_empty());
        if !grants.iter().any(|(_, grant)| goes_on(grant)) {
            let halts = || grants.iter().filter_map(|(_, grant)| grant.halt);
            let failures = halts().find(|halt| *halt == Halt::Failures);
            rollout.halt = failures.or_else(|| halts().next());
        }
        for (pool, grant) in grants {
            rollout.slots.extend(grant.slots);
            if grant.halt == Some(Halt::Failures) {
                rollout.stopped.push((pool, grant.failed));
            }
        }
        rollout
    }
}

/// Decides which nodes of a group get slots.
pub fn grant(candidates: &BTreeMap<String, Candidate>, limits: &RolloutLimits) -> Grant {
    let of = |standing| {
        let all = candidates.iter();
        all.filter(move |(_, candidate)| candidate.standing == standing)
    };
    let failed: Vec<String> = of(Standing::Failed).map(|(name, _)| name.clone()).collect();
    let halt = if failed.len() >= limits.max_failures {
        Some(Halt::Failures)
    } else if limits.paused || are_all_paused(of(Standing::Waiting)) {
        Some(Halt::Paused)
    } else {
        None
    };
    let at_work = candidates.iter().filter(|(_, candidate)| candidate.at_work);
    let mut slots: BTreeSet<String> = at_work.map(|(name, _)| name.clone()).collect();
    let mut ready: Vec<_> = of(Standing::Waiting)
        .filter(|(_, it)| is_ready(it))
        .collect();
    let has_ready = !ready.is_empty();
    if halt.is_none() {
        // One that is down already, and only waits for a slot, does not wait for itself: it goes first.
        let is_next = |it: &Candidate| it.down && it.standing == Standing::Waiting && is_ready(it);
        let is_away = |it: &&Candidate| it.at_work || is_unavailable(**it, limits) && !is_next(it);
        let unavailable = candidates.values().filter(is_away).count();
        let free = limits.max_unavailable.saturating_sub(unavailable);
        ready.sort_by_key(|&(name, it)| it.order(name));
        slots.extend(ready.into_iter().take(free).map(|(name, _)| name.clone()));
    }
    Grant {
        slots,
        halt,
        failed,
        is_ready: has_ready,
    }
}

/// Returns whether a waiting node needs nothing but a slot.
fn is_ready(candidate: &Candidate) -> bool {
    !candidate.at_work && !candidate.paused
}

fn are_all_paused<'a>(waiting: impl Iterator<Item = (&'a String, &'a Candidate)>) -> bool {
    let mut waiting = waiting.peekable();
    waiting.peek().is_some() && waiting.all(|(_, candidate)| candidate.paused)
}

/// Returns whether a node is, or may be, without csi-proxy.
fn is_unavailable(candidate: Candidate, limits: &RolloutLimits) -> bool {
    let unknown = matches!(candidate.standing, Standing::Unseen | Standing::Unreachable);
    candidate.down || (unknown && limits.settling)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RolloutLimits = RolloutLimits {
        max_unavailable: 2,
        max_failures: 1,
        paused: false,
        settling: false,
    };
    type Candidates = BTreeMap<String, Candidate>;

    /// Parses nodes, each with its name, state and flags.
    fn candidates(text: &str) -> Candidates {
        let candidate = |node: &str| {
            let words: Vec<&str> = node.split(' ').collect();
            let standing = match words[1] {
                "unreachable" => Standing::Unreachable,
                "current" => Standing::Current,
                "waiting" => Standing::Waiting,
                "not-installed" => Standing::NotInstalled,
                "failed" => Standing::Failed,
                _ => Standing::Unseen,
            };
            let candidate = Candidate {
                standing,
                down: words.contains(&"down"),
                has_slot: words.contains(&"slot"),
                at_work: words.contains(&"at-work"),
                cut_short: words.contains(&"cut-short"),
                paused: words.contains(&"paused"),
                failures: u32::from(words.contains(&"tried")),
            };
            (words[0].to_owned(), candidate)
        };
        text.split(", ").map(candidate).collect()
    }

    fn slots(candidates: &Candidates, limits: &RolloutLimits) -> String {
        let slots = grant(candidates, limits).slots;
        slots.into_iter().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn slots_go_to_so_many_nodes_that_wait_in_the_order_of_what_they_went_through() {
        let one = RolloutLimits {
            max_unavailable: 1,
            ..LIMITS
        };
        let settling = RolloutLimits {
            settling: true,
            ..LIMITS
        };
        for (limits, nodes, expected) in [
            (LIMITS, "a waiting, b waiting, c waiting", "a b"),
            // A node that is down does not wait for itself.
            (one, "a waiting, b waiting down", "b"),
            (one, "a waiting down, b waiting down", "a"),
            (one, "a waiting, b current down", ""),
            // Only waiting nodes get a slot.
            (LIMITS, "a unreachable, b current, c not-installed", ""),
            // A node at work keeps its slot.
            (LIMITS, "a waiting, b unseen at-work, c waiting", "a b"),
            (LIMITS, "a current, b unseen at-work, c waiting", "b c"),
            // A node that is down counts as unavailable; an unseen node does so only after a start.
            (LIMITS, "a waiting, b waiting, c not-installed down", "a"),
            (LIMITS, "a waiting, b unseen, c unseen", "a"),
            (settling, "a waiting, b unseen, c unseen", ""),
            // A node keeps its slot, and nodes with failures come last.
            (one, "a waiting tried slot, b waiting, c waiting slot", "c"),
            (one, "a waiting tried, b waiting, c current", "b"),
            (one, "a waiting tried, b current, c current", "a"),
            // An interrupted update comes first, so that no other node is interrupted in the same way.
            (one, "a waiting, b waiting cut-short tried", "b"),
            // Its pool is paused.
            (one, "a waiting paused, b waiting", "b"),
            (one, "a waiting paused at-work, b waiting", "a"),
            (one, "a waiting paused, b current", ""),
        ] {
            assert_eq!(slots(&candidates(nodes), &limits), expected, "{nodes}");
        }
    }

    #[test]
    fn nodes_are_counted_and_named_but_not_who_is_just_being_updated() {
        let nodes = "gone not-installed down, new unseen, updated waiting down at-work, well current, bad failed";
        let nodes = candidates(nodes);
        let of = |nodes, settling| Rollout::of(nodes, Vec::new(), settling);
        let all = of(&nodes, false).all;
        let counts = (all.nodes, all.current, all.waiting, all.failed);
        assert_eq!(counts, (5, 1, 1, 1));
        assert_eq!(of(&nodes, false).down, ["gone"]);
        // The numbers are not final until all nodes were observed once.
        let seen = candidates("a current");
        assert!(of(&nodes, true).settling);
        assert!(!of(&seen, true).settling && !of(&nodes, false).settling);
    }

    #[test]
    fn a_failure_stops_all_that_have_not_begun_and_a_pause_as_well() {
        let nodes = candidates("a waiting at-work, b waiting, bad failed");
        let stopped = grant(&nodes, &LIMITS);
        assert_eq!(stopped.halt, Some(Halt::Failures));
        assert_eq!(stopped.slots, BTreeSet::from(["a".to_owned()]));
        assert_eq!(stopped.failed, ["bad"]);
        let mut limits = RolloutLimits {
            max_failures: 2,
            ..LIMITS
        };
        assert_eq!(slots(&nodes, &limits), "a b");
        limits.paused = true;
        assert_eq!(grant(&nodes, &limits).halt, Some(Halt::Paused));
        assert_eq!(slots(&nodes, &limits), "a");
    }

    #[test]
    fn pools_that_are_counted_apart_hold_each_other_up_only_in_what_is_said() {
        let of = |pool: Option<&str>, nodes: &str| {
            let grant = grant(&candidates(nodes), &LIMITS);
            (pool.map(str::to_owned), grant)
        };
        // Nodes of pool blue, and others; then slots, what halts all, and the pools that have stopped.
        for (blue, others, expected) in [
            ("a waiting, b waiting", "c waiting", "a b c; None; "),
            // The failure stops its own group only.
            ("a failed, b waiting", "c waiting", "c; None; blue"),
            ("a waiting", "c failed, d waiting", "a; None; -"),
            ("a failed", "c current", "; Some(Failures); blue"),
            ("a failed", "c failed", "; Some(Failures); - blue"),
            // A pause is reported only if nothing else makes progress.
            ("a waiting paused", "c waiting", "c; None; "),
            ("a waiting paused", "c current", "; Some(Paused); "),
            ("a waiting paused", "c failed", "; Some(Failures); -"),
        ] {
            let grants = vec![of(None, others), of(Some("blue"), blue)];
            let merged = Rollout::of(&BTreeMap::new(), grants, false);
            let slots: Vec<_> = merged.slots.into_iter().collect();
            let stopped = merged.stopped.iter();
            let stopped = stopped.map(|(pool, _)| pool.as_deref().unwrap_or("-"));
            let stopped: Vec<_> = stopped.collect();
            let found = format!(
                "{}; {:?}; {}",
                slots.join(" "),
                merged.halt,
                stopped.join(" ")
            );
            assert_eq!(found, expected, "{blue} | {others}");
        }
    }
}
