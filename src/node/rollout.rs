//! Rollout slots: which nodes may replace a csi-proxy that works, and when none may any more.
//!
//! A node without a working csi-proxy needs no slot: there is nothing to interrupt, and every minute counts.

use std::collections::{BTreeMap, BTreeSet};

/// How far one managed node is on the way to what is desired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Not looked at since what is desired has changed, or since this process started.
    #[default]
    Unseen,
    /// It could not be looked at. It has no say: a dead node must not hold up the others.
    Unreachable,
    /// As desired.
    Current,
    /// csi-proxy works there, but not as desired.
    Waiting,
    /// Nothing works there that an update could interrupt.
    NotInstalled,
    /// What is desired did not work there and was undone.
    Failed,
}

/// One managed node, as far as its slot depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Candidate {
    /// How far it is.
    pub standing: Standing,
    /// csi-proxy was kept there and does not work now.
    pub down: bool,
    /// It has been given a slot and has not begun.
    pub has_slot: bool,
    /// It is being worked on in its slot.
    pub at_work: bool,
    /// The work in its last slot was cut short in the middle: whether that was the update's doing is to be known before another node
    /// is updated.
    pub cut_short: bool,
    /// Reconciles that failed in a row: nodes that have tried without success come after those that have not.
    pub failures: u32,
}

/// What the administrator allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutLimits {
    /// How many nodes may be without csi-proxy at one time for the sake of an update.
    pub max_unavailable: usize,
    /// After so many nodes on which the update was undone no node gets a slot any more.
    pub max_failures: usize,
    /// No node gets a slot.
    pub paused: bool,
    /// This process has started only just: a node that it has not seen yet, or does not reach, may be in the middle of an
    /// update that the process before it began.
    pub settling: bool,
}

/// Why no node gets a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The administrator said so.
    Paused,
    /// The update was undone on too many nodes.
    Failures,
}

/// Which nodes have slots, and how far the rollout is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The nodes that may replace a working csi-proxy now, those at work included.
    pub slots: BTreeSet<String>,
    /// Why no node gets a slot, where none does.
    pub halt: Option<Halt>,
    /// Managed nodes.
    pub nodes: usize,
    /// Those that are as desired.
    pub current: usize,
    /// Those that wait for a slot or have one.
    pub waiting: usize,
    /// Those on which the update was undone, by name.
    pub failed: Vec<String>,
    /// Those on which csi-proxy does not work, for all that is known, by name: they take others' places.
    pub down: Vec<String>,
    /// This process has started only just and has not looked at all of them: the numbers are no news.
    pub settling: bool,
}

/// Decides which nodes get slots.
#[must_use]
pub fn rollout(candidates: &BTreeMap<String, Candidate>, limits: &RolloutLimits) -> Rollout {
    let of = |standing| {
        let all = candidates.iter();
        all.filter(move |(_, candidate)| candidate.standing == standing)
    };
    let names = |is: fn(&Candidate) -> bool| {
        let all = candidates
            .iter()
            .filter(move |(_, candidate)| is(candidate));
        all.map(|(name, _)| name.clone())
    };
    let failed: Vec<String> = names(|candidate| candidate.standing == Standing::Failed).collect();
    let halt = if failed.len() >= limits.max_failures {
        Some(Halt::Failures)
    } else if limits.paused {
        Some(Halt::Paused)
    } else {
        None
    };
    let mut slots: BTreeSet<String> = names(|candidate| candidate.at_work).collect();
    if halt.is_none() {
        let unavailable = (candidates.values())
            .filter(|candidate| candidate.at_work || is_unavailable(**candidate, limits))
            .count();
        let free = limits.max_unavailable.saturating_sub(unavailable);
        let mut queue: Vec<_> = (of(Standing::Waiting))
            .filter(|(_, candidate)| !candidate.at_work)
            .collect();
        queue.sort_by_key(|&(name, it)| (!it.cut_short, it.failures, !it.has_slot, name));
        slots.extend(queue.into_iter().take(free).map(|(name, _)| name.clone()));
    }
    Rollout {
        slots,
        halt,
        nodes: candidates.len(),
        current: of(Standing::Current).count(),
        waiting: of(Standing::Waiting).count(),
        failed,
        down: names(|candidate| candidate.down && !candidate.at_work).collect(),
        settling: limits.settling && of(Standing::Unseen).count() > 0,
    }
}

/// Whether a node lacks csi-proxy now, or may lack it for all that is known.
fn is_unavailable(candidate: Candidate, limits: &RolloutLimits) -> bool {
    let unknown = matches!(candidate.standing, Standing::Unseen | Standing::Unreachable);
    candidate.down || (unknown && limits.settling)
}

#[cfg(test)]
mod tests {
    use Standing::{Current, Failed, NotInstalled, Unreachable, Unseen, Waiting};

    use super::*;

    const LIMITS: RolloutLimits = RolloutLimits {
        max_unavailable: 2,
        max_failures: 1,
        paused: false,
        settling: false,
    };
    const ONE: RolloutLimits = RolloutLimits {
        max_unavailable: 1,
        ..LIMITS
    };

    type Candidates = BTreeMap<String, Candidate>;

    fn candidates(list: &[(&str, Standing)]) -> Candidates {
        let candidate = |standing| Candidate {
            standing,
            ..Candidate::default()
        };
        let named = |(name, standing): &(&str, _)| ((*name).to_owned(), candidate(*standing));
        list.iter().map(named).collect()
    }

    fn of<'a>(candidates: &'a mut Candidates, name: &str) -> &'a mut Candidate {
        candidates.get_mut(name).unwrap()
    }

    fn slots(candidates: &Candidates, limits: &RolloutLimits) -> Vec<String> {
        rollout(candidates, limits).slots.into_iter().collect()
    }

    #[test]
    fn so_many_at_a_time_and_no_more() {
        let mut nodes = candidates(&[
            ("a", Waiting),
            ("b", Waiting),
            ("c", Waiting),
            ("dead", Unreachable),
            ("done", Current),
            ("fresh", NotInstalled),
        ]);
        assert_eq!(slots(&nodes, &LIMITS), ["a", "b"]);
        of(&mut nodes, "b").at_work = true;
        of(&mut nodes, "b").standing = Unseen;
        let words = "who is at work keeps the slot";
        assert_eq!(slots(&nodes, &LIMITS), ["a", "b"], "{words}");
        of(&mut nodes, "a").standing = Current;
        assert_eq!(slots(&nodes, &LIMITS), ["b", "c"]);
        let all = rollout(&nodes, &LIMITS);
        assert_eq!((all.nodes, all.current, all.waiting), (6, 2, 1));
    }

    #[test]
    fn a_node_that_is_down_takes_a_place_and_an_unseen_one_only_at_the_start() {
        let mut nodes = candidates(&[("a", Waiting), ("b", Waiting), ("down", NotInstalled)]);
        of(&mut nodes, "down").down = true;
        assert_eq!(slots(&nodes, &LIMITS), ["a"]);
        let nodes = candidates(&[("a", Waiting), ("new", Unseen), ("other", Unseen)]);
        assert_eq!(slots(&nodes, &LIMITS), ["a"]);
        let settling = RolloutLimits {
            settling: true,
            ..LIMITS
        };
        assert!(slots(&nodes, &settling).is_empty());
        // The numbers are no news until all were seen once.
        let seen = candidates(&[("a", Current)]);
        for (nodes, limits, expected) in [
            (&nodes, &settling, true),
            (&seen, &settling, false),
            (&nodes, &LIMITS, false),
        ] {
            assert_eq!(rollout(nodes, limits).settling, expected, "{nodes:?}");
        }
    }

    #[test]
    fn who_is_down_is_named_but_not_who_is_just_being_updated() {
        let mut nodes = candidates(&[
            ("down", NotInstalled),
            ("updated", Waiting),
            ("well", Current),
        ]);
        for (name, candidate) in &mut nodes {
            candidate.down = name != "well";
            candidate.at_work = name != "down";
        }
        assert_eq!(rollout(&nodes, &LIMITS).down, ["down"]);
    }

    #[test]
    fn a_failure_stops_all_who_have_not_begun() {
        let mut nodes = candidates(&[("a", Waiting), ("b", Waiting), ("bad", Failed)]);
        of(&mut nodes, "a").at_work = true;
        of(&mut nodes, "b").has_slot = true;
        let stopped = rollout(&nodes, &LIMITS);
        assert_eq!(stopped.halt, Some(Halt::Failures));
        assert_eq!(stopped.slots, BTreeSet::from(["a".to_owned()]));
        assert_eq!(stopped.failed, ["bad"]);
        let patient = RolloutLimits {
            max_failures: 2,
            ..LIMITS
        };
        assert_eq!(slots(&nodes, &patient), ["a", "b"]);
    }

    #[test]
    fn no_node_gets_a_slot_while_it_is_paused() {
        let nodes = candidates(&[("a", Waiting)]);
        let paused = RolloutLimits {
            paused: true,
            ..LIMITS
        };
        let rollout = rollout(&nodes, &paused);
        assert_eq!((rollout.halt, rollout.waiting), (Some(Halt::Paused), 1));
        assert!(rollout.slots.is_empty());
    }

    #[test]
    fn who_failed_on_the_way_there_lets_others_go_first() {
        let mut nodes = candidates(&[("a", Waiting), ("b", Waiting), ("c", Waiting)]);
        of(&mut nodes, "a").failures = 1;
        of(&mut nodes, "a").has_slot = true;
        of(&mut nodes, "c").has_slot = true;
        // A slot is kept, not passed on.
        for next in ["c", "b", "a"] {
            assert_eq!(slots(&nodes, &ONE), [next]);
            of(&mut nodes, next).standing = Current;
        }
    }

    #[test]
    fn whose_update_was_cut_short_comes_first_so_that_no_other_goes_the_same_way() {
        let mut nodes = candidates(&[("a", Waiting), ("b", Waiting)]);
        let cut = of(&mut nodes, "b");
        (cut.cut_short, cut.failures) = (true, 3);
        assert_eq!(slots(&nodes, &ONE), ["b"]);
    }
}
