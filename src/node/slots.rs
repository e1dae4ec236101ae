//! Tracks the granted rollout slots, and the nodes at work in one, under a single lock.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The rollout slots: which nodes may be interrupted.
#[derive(Clone, Default)]
pub struct RolloutSlots(Arc<Mutex<State>>);

/// State of the rollout slots, by node name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Nodes that have a slot.
    pub given: BTreeSet<String>,
    /// Nodes that may begin work in their slot.
    handed_out: BTreeSet<String>,
    /// Nodes at work in their slot.
    pub at_work: BTreeSet<String>,
    /// Nodes whose work ended with an unknown outcome: the connection was lost, the time limit expired, or the desired
    /// state changed. They may be without csi-proxy until they are observed again.
    pub unsure: BTreeSet<String>,
    /// Nodes whose last work in a slot ended that way, even if observed since, until work in a slot ends normally.
    pub cut_short: BTreeSet<String>,
}

impl State {
    /// Returns the nodes whose csi-proxy is, or with these slots is about to be, interrupted, and those with an unknown
    /// outcome.
    #[must_use]
    pub fn in_progress(&self, given: &BTreeSet<String>) -> BTreeSet<String> {
        let sets = [given, &self.at_work, &self.unsure];
        sets.into_iter().flatten().cloned().collect()
    }
}

/// A slot in use; dropping it returns the slot.
pub struct Slot {
    slots: RolloutSlots,
    node: String,
    settled: bool,
}

impl Slot {
    /// Marks that csi-proxy may be interrupted from now on. Until [`Self::settle`], the outcome is unknown.
    pub fn begin(&mut self) {
        self.settled = false;
    }

    /// Marks that the outcome of the work is known.
    pub fn settle(&mut self) {
        self.settled = true;
        self.slots.lock().cut_short.remove(&self.node);
    }
}

impl RolloutSlots {
    /// Decides again which nodes have slots, based on the current state. No slot can be taken meanwhile.
    pub fn decide<T>(&self, decide: impl FnOnce(&State) -> (BTreeSet<String>, T)) -> T {
        let mut state = self.lock();
        let (given, rest) = decide(&state);
        state.handed_out.retain(|node| given.contains(node));
        state.given = given;
        rest
    }

    /// Lets work begin in the granted slots of the nodes that the status in the cluster names as being changed. Otherwise
    /// the next process would not know of it.
    pub fn hand_out(&self, stored: &BTreeSet<String>) {
        let mut state = self.lock();
        state.handed_out = state.given.intersection(stored).cloned().collect();
    }

    /// Restores the nodes that a previous process was working on. Their outcome is unknown.
    pub fn restore(&self, nodes: impl IntoIterator<Item = String>) {
        let mut state = self.lock();
        for node in nodes {
            state.unsure.insert(node.clone());
            state.cut_short.insert(node);
        }
    }

    /// Begins work in a slot, if the node still has one.
    #[must_use]
    pub fn take(&self, node: &str) -> Option<Slot> {
        let mut state = self.lock();
        if !state.handed_out.contains(node) {
            return None;
        }
        state.at_work.insert(node.to_owned());
        Some(Slot {
            slots: self.clone(),
            node: node.to_owned(),
            settled: true,
        })
    }

    /// Marks that the node was observed and no change is in progress there.
    pub fn mark_settled(&self, node: &str) {
        self.lock().unsure.remove(node);
    }

    /// Forgets a deleted node.
    pub fn forget(&self, node: &str) {
        let mut state = self.lock();
        state.unsure.remove(node);
        state.cut_short.remove(node);
        state.given.remove(node);
        state.handed_out.remove(node);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change of a set is a single call, so a panic elsewhere leaves the sets usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        state.at_work.remove(&self.node);
        if !self.settled {
            state.unsure.insert(self.node.clone());
            state.cut_short.insert(self.node.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    fn seen(slots: &RolloutSlots) -> State {
        slots.decide(|state| (state.given.clone(), state.clone()))
    }

    #[test]
    fn only_a_slot_that_still_stands_is_taken() {
        let slots = RolloutSlots::default();
        assert!(slots.take("a").is_none());
        slots.decide(|_| (names(&["a", "b"]), ()));
        slots.hand_out(&names(&["b", "c"]));
        assert!(slots.take("a").is_none(), "nobody has written it down");
        slots.hand_out(&names(&["a", "b"]));
        let mut slot = slots.take("a").unwrap();
        assert_eq!(seen(&slots).at_work, names(&["a"]));
        slots.decide(|_| (names(&["a"]), ()));
        assert!(slots.take("b").is_none(), "it was taken away");
        slot.begin();
        slot.settle();
        drop(slot);
        let after = seen(&slots);
        assert!(after.at_work.is_empty() && after.unsure.is_empty());
    }

    #[test]
    fn a_slot_without_a_known_end_leaves_the_node_unsure_until_it_was_seen() {
        let slots = RolloutSlots::default();
        let give = |list: &[&str]| {
            slots.decide(|_| (names(list), ()));
            slots.hand_out(&names(list));
        };
        give(&["a", "b"]);
        drop(slots.take("a"));
        assert!(seen(&slots).unsure.is_empty(), "nothing was interrupted");
        for node in ["a", "b"] {
            slots.take(node).unwrap().begin();
        }
        assert_eq!(seen(&slots).unsure, names(&["a", "b"]));
        give(&["c"]);
        let _slot = slots.take("c");
        give(&["d"]);
        let in_progress = seen(&slots).in_progress(&names(&["d"]));
        assert_eq!(in_progress, names(&["a", "b", "c", "d"]));
        give(&["a"]);
        assert_eq!(seen(&slots).cut_short, names(&["a", "b"]));
        slots.mark_settled("a");
        slots.forget("b");
        assert_eq!(seen(&slots).cut_short, names(&["a"]));
        assert!(seen(&slots).unsure.is_empty());
        assert_eq!(seen(&slots).given, names(&["a"]));
        let mut slot = slots.take("a").unwrap();
        slot.begin();
        slot.settle();
        assert!(seen(&slots).cut_short.is_empty());
        slots.restore(["c".to_owned()]);
        let after = seen(&slots);
        assert_eq!(
            (after.unsure, after.cut_short),
            (names(&["c"]), names(&["c"]))
        );
    }
}
