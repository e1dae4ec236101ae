//! The rollout slots that were granted, and the nodes at work in one: the one place where both are known at the same
//! moment.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which nodes may be interrupted, by node name.
#[derive(Clone, Default)]
pub struct RolloutSlots(Arc<Mutex<State>>);

/// Who has a rollout slot, by node name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The nodes that have a slot.
    pub given: BTreeSet<String>,
    /// Those of them that may begin work in it.
    handed_out: BTreeSet<String>,
    /// Those that are at work in one.
    pub at_work: BTreeSet<String>,
    /// Those whose work ended without a known end: the connection was lost, the time was up, or something else was
    /// wanted in the middle. They may lack csi-proxy until they have been looked at again.
    pub unsure: BTreeSet<String>,
    /// Those whose last work in a slot ended in that way, looked at since or not, until one of them ends as it should.
    pub cut_short: BTreeSet<String>,
}

/// A slot that was taken; it is given back with this.
pub struct Slot {
    slots: RolloutSlots,
    node: String,
    settled: bool,
}

impl Slot {
    /// From here on csi-proxy may be interrupted: until this is settled nobody knows what has become of it.
    pub fn begin(&mut self) {
        self.settled = false;
    }

    /// How the work ended is known.
    pub fn settle(&mut self) {
        self.settled = true;
        self.slots.lock().cut_short.remove(&self.node);
    }
}

impl RolloutSlots {
    /// Decides again who has a slot, from who has one and who is at work in one; nobody can take one meanwhile.
    pub fn decide<T>(&self, decide: impl FnOnce(&State) -> (BTreeSet<String>, T)) -> T {
        let mut state = self.lock();
        let (given, rest) = decide(&state);
        state.handed_out.retain(|node| given.contains(node));
        state.given = given;
        rest
    }

    /// Lets work begin in the slots that were given: who they were given to has been written down.
    pub fn hand_out(&self) {
        let mut state = self.lock();
        let State {
            given, handed_out, ..
        } = &mut *state;
        handed_out.clone_from(given);
    }

    /// A process before this one had these in hand: nobody knows what has become of them.
    pub fn restore(&self, nodes: impl IntoIterator<Item = String>) {
        let mut state = self.lock();
        for node in nodes {
            state.unsure.insert(node.clone());
            state.cut_short.insert(node);
        }
    }

    /// The nodes on which csi-proxy is, or is about to be, interrupted, and those of which nobody knows yet what has
    /// become of it.
    #[must_use]
    pub fn in_progress(&self) -> BTreeSet<String> {
        let state = self.lock();
        let sets = [&state.given, &state.at_work, &state.unsure];
        sets.into_iter().flatten().cloned().collect()
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

    /// The node has been looked at, and nothing is in the middle there.
    pub fn mark_settled(&self, node: &str) {
        self.lock().unsure.remove(node);
    }

    /// The node is gone.
    pub fn forget(&self, node: &str) {
        let mut state = self.lock();
        state.unsure.remove(node);
        state.cut_short.remove(node);
        state.given.remove(node);
        state.handed_out.remove(node);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Sets whose every change is one call: a panic elsewhere leaves them usable.
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
        assert!(slots.take("a").is_none(), "nobody has written it down");
        slots.hand_out();
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
            slots.hand_out();
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
        assert_eq!(slots.in_progress(), names(&["a", "b", "c", "d"]));
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
