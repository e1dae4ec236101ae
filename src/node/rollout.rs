//! Grants rollout slots: which nodes may replace a working csi-proxy, and when no further node may.
//!
//! A node without a working csi-proxy needs no slot: there is nothing to interrupt, and every minute counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::node::{Steps, Windows};

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
    /// The administrator has paused its pool.
    pub paused: bool,
    /// It waits for another step of the rollout.
    pub held: bool,
    /// csi-proxy is to be removed there.
    pub removes: bool,
    /// Reconciles that failed in a row: nodes that have tried without success come after those that have not.
    pub failures: u32,
}

impl Candidate {
    /// Who comes first: least. A node whose update was cut short, so that it is known what has become of it before others follow;
    /// one that has not failed yet; one that has a slot.
    #[must_use]
    pub fn order<'a>(&self, name: &'a str) -> (bool, u32, bool, &'a str) {
        (!self.cut_short, self.failures, !self.has_slot, name)
    }
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
    /// No node gets a slot for an update before a window opens.
    pub is_closed: bool,
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
    /// No window is open.
    Closed,
}

/// How many nodes of a pool are how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolProgress {
    /// Managed nodes.
    pub nodes: usize,
    /// Those that are as desired.
    pub current: usize,
    /// Those that wait for a slot or have one.
    pub waiting: usize,
    /// Those on which the update was undone.
    pub failed: usize,
}

impl PoolProgress {
    /// Of these nodes.
    pub fn of<'a>(candidates: impl Iterator<Item = &'a Candidate>) -> Self {
        let mut progress = Self::default();
        for candidate in candidates {
            progress.nodes += 1;
            match candidate.standing {
                Standing::Current => progress.current += 1,
                Standing::Waiting => progress.waiting += 1,
                Standing::Failed => progress.failed += 1,
                Standing::Unseen | Standing::Unreachable | Standing::NotInstalled => {}
            }
        }
        progress
    }
}

/// Which nodes have slots, and how far the rollout is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The nodes that may replace a working csi-proxy now, those at work included.
    pub slots: BTreeSet<String>,
    /// Why no node gets a slot, where none does.
    pub halt: Option<Halt>,
    /// The nodes that are counted together and were stopped by failures: the pool that they are, or those of none with a limit of
    /// its own, and on which of them.
    pub stopped: Vec<(Option<String>, Vec<String>)>,
    /// What is rolled out, where that is known.
    pub revision: Option<String>,
    /// How far the steps are, where there are steps.
    pub steps: Option<Steps>,
    /// Whether a window is open.
    pub windows: Windows,
    /// The version that the administrator wants, where this operator brings another one.
    pub pinned: Option<String>,
    /// How far each pool is.
    pub pools: BTreeMap<String, PoolProgress>,
    /// Managed nodes.
    pub nodes: usize,
    /// Those that are as desired.
    pub current: usize,
    /// Those that wait for a slot or have one.
    pub waiting: usize,
    /// Those of them that wait for nothing but a slot.
    pub ready: usize,
    /// Those on which the update was undone, by name.
    pub failed: Vec<String>,
    /// Those on which csi-proxy does not work, for all that is known, by name: they take others' places.
    pub down: Vec<String>,
    /// This process has started only just and has not looked at all of them: the numbers are no news.
    pub settling: bool,
}

impl Rollout {
    /// What has been decided of nodes that are counted apart, by the pool that they are, or of those of none.
    #[must_use]
    pub fn merge(parts: Vec<(Option<String>, Self)>) -> Self {
        let mut merged = Self::default();
        let goes_on = |it: &Self| it.halt.is_none() && (it.ready > 0 || !it.slots.is_empty());
        if !parts.iter().any(|(_, part)| goes_on(part)) {
            let halts = || parts.iter().filter_map(|(_, part)| part.halt);
            let failures = halts().find(|halt| *halt == Halt::Failures);
            merged.halt = failures.or_else(|| halts().next());
        }
        let stopped = parts.iter();
        let stopped = stopped.filter(|(_, part)| part.halt == Some(Halt::Failures));
        merged.stopped = stopped
            .map(|(pool, part)| (pool.clone(), part.failed.clone()))
            .collect();
        for (_, part) in parts {
            merged.slots.extend(part.slots);
            merged.nodes += part.nodes;
            merged.current += part.current;
            merged.waiting += part.waiting;
            merged.ready += part.ready;
            merged.failed.extend(part.failed);
            merged.down.extend(part.down);
            merged.settling |= part.settling;
        }
        merged.failed.sort();
        merged.down.sort();
        merged
    }
}

/// Decides which nodes get slots.
#[must_use]
pub fn rollout(candidates: &BTreeMap<String, Candidate>, limits: &RolloutLimits) -> Rollout {
    let of = |standing| {
        let all = candidates.iter();
        all.filter(move |(_, candidate)| candidate.standing == standing)
    };
    let names = |is: fn(&Candidate) -> bool| {
        let all = candidates.iter().filter(move |(_, it)| is(it));
        all.map(|(name, _)| name.clone())
    };
    let failed: Vec<String> = names(|candidate| candidate.standing == Standing::Failed).collect();
    let halt = if failed.len() >= limits.max_failures {
        Some(Halt::Failures)
    } else if limits.paused || are_all_paused(of(Standing::Waiting)) {
        Some(Halt::Paused)
    } else if limits.is_closed && of(Standing::Waiting).any(|(_, it)| is_ready(it) && !it.removes) {
        Some(Halt::Closed)
    } else {
        None
    };
    let mut slots: BTreeSet<String> = names(|candidate| candidate.at_work).collect();
    let may_begin = |it: &Candidate| is_ready(it) && (it.removes || !limits.is_closed);
    if matches!(halt, None | Some(Halt::Closed)) {
        let is_away = |it: &&Candidate| it.at_work || is_unavailable(**it, limits);
        let unavailable = candidates.values().filter(is_away).count();
        let free = limits.max_unavailable.saturating_sub(unavailable);
        let waiting = of(Standing::Waiting);
        let mut queue: Vec<_> = waiting.filter(|(_, it)| may_begin(it)).collect();
        queue.sort_by_key(|&(name, it)| it.order(name));
        slots.extend(queue.into_iter().take(free).map(|(name, _)| name.clone()));
    }
    Rollout {
        slots,
        halt,
        stopped: Vec::new(),
        revision: None,
        steps: None,
        windows: Windows::default(),
        pinned: None,
        pools: BTreeMap::new(),
        nodes: candidates.len(),
        current: of(Standing::Current).count(),
        waiting: of(Standing::Waiting).count(),
        ready: of(Standing::Waiting).filter(|(_, it)| is_ready(it)).count(),
        failed,
        down: names(|candidate| candidate.down && !candidate.at_work).collect(),
        settling: limits.settling && of(Standing::Unseen).count() > 0,
    }
}

/// Whether nothing that waits waits for anything but a slot.
fn is_ready(candidate: &Candidate) -> bool {
    !candidate.at_work && !candidate.paused && !candidate.held
}

fn are_all_paused<'a>(waiting: impl Iterator<Item = (&'a String, &'a Candidate)>) -> bool {
    let mut waiting = waiting.filter(|(_, it)| !it.held).peekable();
    waiting.peek().is_some() && waiting.all(|(_, candidate)| candidate.paused)
}

/// Whether a node lacks csi-proxy now, or may lack it for all that is known.
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
        is_closed: false,
        settling: false,
    };
    type Candidates = BTreeMap<String, Candidate>;

    /// Nodes, each with its name, how far it is, and what else is true of it.
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
                held: words.contains(&"held"),
                removes: words.contains(&"removes"),
                failures: u32::from(words.contains(&"tried")),
            };
            (words[0].to_owned(), candidate)
        };
        text.split(", ").map(candidate).collect()
    }

    fn slots(candidates: &Candidates, limits: &RolloutLimits) -> String {
        let slots = rollout(candidates, limits).slots;
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
        let closed = RolloutLimits {
            is_closed: true,
            ..LIMITS
        };
        for (limits, nodes, expected) in [
            (LIMITS, "a waiting, b waiting, c waiting", "a b"),
            // Only those that wait get one.
            (LIMITS, "a unreachable, b current, c not-installed", ""),
            // Who is at work keeps the slot.
            (LIMITS, "a waiting, b unseen at-work, c waiting", "a b"),
            (LIMITS, "a current, b unseen at-work, c waiting", "b c"),
            // A node that is down takes a place, and one that was not seen only at the start.
            (LIMITS, "a waiting, b waiting, c not-installed down", "a"),
            (LIMITS, "a waiting, b unseen, c unseen", "a"),
            (settling, "a waiting, b unseen, c unseen", ""),
            // A slot is kept, not passed on, and who has tried without success lets others go first.
            (one, "a waiting tried slot, b waiting, c waiting slot", "c"),
            (one, "a waiting tried slot, b waiting, c current", "b"),
            (one, "a waiting tried slot, b current, c current", "a"),
            // Whose update was cut short comes first, so that no other goes the same way.
            (one, "a waiting, b waiting cut-short tried", "b"),
            // Its pool is paused.
            (one, "a waiting paused, b waiting", "b"),
            (one, "a waiting paused at-work, b waiting", "a"),
            (one, "a waiting paused, b current", ""),
            // It waits for another step.
            (one, "a waiting held, b waiting", "b"),
            // No window is open: what has begun ends, and a removal waits for none.
            (closed, "a waiting at-work, b waiting", "a"),
            (closed, "a waiting, b waiting removes", "b"),
        ] {
            assert_eq!(slots(&candidates(nodes), &limits), expected, "{nodes}");
        }
    }

    #[test]
    fn nodes_are_counted_and_named_but_not_who_is_just_being_updated() {
        let nodes =
            "gone not-installed down, new unseen, updated waiting down at-work, well current";
        let nodes = candidates(nodes);
        let all = rollout(&nodes, &LIMITS);
        assert_eq!((all.nodes, all.current, all.waiting), (4, 1, 1));
        assert_eq!(all.down, ["gone"]);
        // The numbers are no news until all were seen once.
        let settling = RolloutLimits {
            settling: true,
            ..LIMITS
        };
        let seen = candidates("a current");
        let settles = |nodes, limits| rollout(nodes, limits).settling;
        assert!(settles(&nodes, &settling));
        assert!(!settles(&seen, &settling) && !settles(&nodes, &LIMITS));
    }

    #[test]
    fn a_window_is_waited_for_only_by_who_would_begin_in_it() {
        let closed = RolloutLimits {
            is_closed: true,
            ..LIMITS
        };
        let halt = |nodes| rollout(&candidates(nodes), &closed).halt;
        assert_eq!(halt("a waiting, b current"), Some(Halt::Closed));
        for nodes in [
            "a current",
            "a waiting held",
            "a waiting at-work",
            "a waiting removes",
        ] {
            assert_eq!(halt(nodes), None, "{nodes}");
        }
    }

    #[test]
    fn a_failure_stops_all_that_have_not_begun_and_a_pause_as_well() {
        let nodes = candidates("a waiting at-work, b waiting slot, bad failed");
        let stopped = rollout(&nodes, &LIMITS);
        assert_eq!(stopped.halt, Some(Halt::Failures));
        assert_eq!(stopped.slots, BTreeSet::from(["a".to_owned()]));
        assert_eq!(stopped.failed, ["bad"]);
        let mut limits = RolloutLimits {
            max_failures: 2,
            ..LIMITS
        };
        assert_eq!(slots(&nodes, &limits), "a b");
        limits.paused = true;
        let paused = rollout(&nodes, &limits);
        assert_eq!((paused.halt, paused.waiting), (Some(Halt::Paused), 2));
        assert_eq!(slots(&nodes, &limits), "a");
    }

    #[test]
    fn pools_that_are_counted_apart_hold_each_other_up_only_in_what_is_said() {
        let of = |pool: Option<&str>, nodes: &str| {
            let part = rollout(&candidates(nodes), &LIMITS);
            (pool.map(str::to_owned), part)
        };
        for (blue, others, slots, halt, stopped) in [
            ("a waiting, b waiting", "c waiting", "a b c", None, &[][..]),
            // The failure stops its pool, and the others go on.
            (
                "a failed, b waiting",
                "c waiting",
                "c",
                None,
                &[Some("blue")],
            ),
            ("a waiting", "c failed, d waiting", "a", None, &[None]),
            (
                "a failed",
                "c current",
                "",
                Some(Halt::Failures),
                &[Some("blue")],
            ),
            (
                "a failed",
                "c failed",
                "",
                Some(Halt::Failures),
                &[None, Some("blue")],
            ),
            // Who waits for another step does not go on.
            (
                "a waiting paused",
                "c waiting held",
                "",
                Some(Halt::Paused),
                &[],
            ),
            // A pause is told where nothing else goes on.
            ("a waiting paused", "c waiting", "c", None, &[]),
            ("a waiting paused", "c current", "", Some(Halt::Paused), &[]),
            (
                "a waiting paused",
                "c failed",
                "",
                Some(Halt::Failures),
                &[None],
            ),
        ] {
            let merged = Rollout::merge(vec![of(None, others), of(Some("blue"), blue)]);
            let names: Vec<_> = merged.slots.iter().map(String::as_str).collect();
            assert_eq!(names.join(" "), slots, "{blue} | {others}");
            assert_eq!(merged.halt, halt, "{blue} | {others}");
            let pools: Vec<_> = merged
                .stopped
                .iter()
                .map(|(pool, _)| pool.as_deref())
                .collect();
            assert_eq!(pools, stopped, "{blue} | {others}");
        }
        let all = candidates("a waiting, b current, c failed, d unseen");
        let progress = PoolProgress::of(all.values());
        let PoolProgress {
            nodes,
            current,
            waiting,
            failed,
        } = progress;
        assert_eq!((nodes, current, waiting, failed), (4, 1, 1, 1));
    }
}
