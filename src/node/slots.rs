//! Tracks which nodes may begin work in a rollout slot, and those at work in one, under a single lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The rollout slots: which nodes may be interrupted.
#[derive(Clone, Default)]
pub struct RolloutSlots(Arc<Mutex<State>>);

/// State of the rollout slots, by node name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Nodes that may begin work: they have a slot, and the status in the cluster says so. Otherwise the next process would
    /// not know of it.
    allowed: BTreeSet<String>,
    /// Nodes at work in their slot.
    pub at_work: BTreeSet<String>,
    /// Nodes whose last work in a slot ended with an unknown outcome: the connection was lost, the time limit expired, or
    /// the desired state changed. A node stays here until work in a slot ends normally.
    pub cut_short: BTreeMap<String, CutShort>,
}

/// What is known of a node whose work was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutShort {
    /// It may be without csi-proxy.
    Unknown,
    /// It was observed since, and no change is in progress there.
    Observed,
}

impl State {
    /// Returns whether a node may be without csi-proxy because its work was cut short.
    pub fn is_unsure(&self, node: &str) -> bool {
        self.cut_short.get(node) == Some(&CutShort::Unknown)
    }

    /// Returns the nodes whose csi-proxy is, or with these slots is about to be, interrupted, and those with an unknown
    /// outcome.
    pub fn in_progress(&self, given: &BTreeSet<String>) -> BTreeSet<String> {
        let unsure = self.cut_short.keys().filter(|node| self.is_unsure(node));
        let others = given.iter().chain(&self.at_work);
        others.chain(unsure).cloned().collect()
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
    /// Decides again which nodes may begin work, based on the current state. No slot can be taken meanwhile.
    pub fn decide<T>(&self, decide: impl FnOnce(&State) -> (BTreeSet<String>, T)) -> T {
        let mut state = self.lock();
        let (allowed, rest) = decide(&state);
        state.allowed = allowed;
        rest
    }

    /// Restores the nodes that a previous process was working on. Their outcome is unknown.
    pub fn restore(&self, nodes: impl IntoIterator<Item = String>) {
        let nodes = nodes.into_iter().map(|node| (node, CutShort::Unknown));
        self.lock().cut_short.extend(nodes);
    }

    /// Begins work in a slot, if the node still has one.
    pub fn take(&self, node: &str) -> Option<Slot> {
        let mut state = self.lock();
        if !state.allowed.contains(node) {
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
        if let Some(outcome) = self.lock().cut_short.get_mut(node) {
            *outcome = CutShort::Observed;
        }
    }

    /// Forgets a deleted node.
    pub fn forget(&self, node: &str) {
        let mut state = self.lock();
        state.cut_short.remove(node);
        state.allowed.remove(node);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is a single call, so a panic elsewhere leaves the state usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        state.at_work.remove(&self.node);
        if !self.settled {
            state.cut_short.insert(self.node.clone(), CutShort::Unknown);
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
        slots.decide(|state| (state.allowed.clone(), state.clone()))
    }

    fn allow(slots: &RolloutSlots, list: &[&str]) {
        slots.decide(|_| (names(list), ()));
    }

    #[test]
    fn only_a_slot_that_still_stands_is_taken() {
        let slots = RolloutSlots::default();
        assert!(slots.take("a").is_none());
        allow(&slots, &["a", "b"]);
        let mut slot = slots.take("a").unwrap();
        assert_eq!(seen(&slots).at_work, names(&["a"]));
        allow(&slots, &["a"]);
        assert!(slots.take("b").is_none(), "it was taken away");
        slot.begin();
        slot.settle();
        drop(slot);
        let after = seen(&slots);
        assert!(after.at_work.is_empty() && after.cut_short.is_empty());
    }

    #[test]
    fn a_slot_without_a_known_end_leaves_the_node_unsure_until_it_was_seen() {
        let slots = RolloutSlots::default();
        allow(&slots, &["a", "b", "c"]);
        drop(slots.take("a"));
        assert!(!seen(&slots).is_unsure("a"), "nothing was interrupted");
        for node in ["a", "b"] {
            slots.take(node).unwrap().begin();
        }
        let _slot = slots.take("c");
        let in_progress = seen(&slots).in_progress(&names(&["d"]));
        assert_eq!(in_progress, names(&["a", "b", "c", "d"]));
        slots.mark_settled("a");
        slots.forget("b");
        let observed = BTreeMap::from([("a".to_owned(), CutShort::Observed)]);
        assert_eq!(seen(&slots).cut_short, observed);
        assert!(!seen(&slots).is_unsure("a"));
        let mut slot = slots.take("a").unwrap();
        slot.begin();
        slot.settle();
        assert!(seen(&slots).cut_short.is_empty());
        slots.restore(["c".to_owned()]);
        assert!(seen(&slots).is_unsure("c"));
    }
}
