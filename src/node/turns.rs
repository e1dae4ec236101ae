//! The turns that were given, and who is at work in one: the one place where both are known at the same moment.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Turns by node name.
#[derive(Clone, Default)]
pub struct Turns(Arc<Mutex<State>>);

/// Whose turn it is, by node name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The nodes that have a turn.
    pub given: BTreeSet<String>,
    /// Those that are at work in one.
    pub at_work: BTreeSet<String>,
    /// Those whose turn ended without a known end: the connection was lost, the time was up, or something else was
    /// wanted in the middle. They may lack csi-proxy until they have been looked at again.
    pub unsure: BTreeSet<String>,
    /// Those whose last turn ended in that way, looked at since or not, until one of them ends as it should.
    pub cut_short: BTreeSet<String>,
}

/// A turn that was taken; it ends with this.
pub struct Turn {
    turns: Turns,
    node: String,
    settled: bool,
}

impl Turn {
    /// From here on csi-proxy may be interrupted: until the turn is settled nobody knows what has become of it.
    pub fn begin(&mut self) {
        self.settled = false;
    }

    /// How the work ended is known.
    pub fn settle(&mut self) {
        self.settled = true;
        self.turns.lock().cut_short.remove(&self.node);
    }
}

impl Turns {
    /// Decides anew who has a turn, from who has one and who is at work in one; nobody can take a turn meanwhile.
    pub fn decide<T>(&self, decide: impl FnOnce(&State) -> (BTreeSet<String>, T)) -> T {
        let mut state = self.lock();
        let (turns, rest) = decide(&state);
        state.given = turns;
        rest
    }

    /// The nodes on which csi-proxy is, or is about to be, interrupted, and those of which nobody knows yet what has
    /// become of it.
    #[must_use]
    pub fn in_progress(&self) -> BTreeSet<String> {
        let state = self.lock();
        let sets = [&state.given, &state.at_work, &state.unsure];
        sets.into_iter().flatten().cloned().collect()
    }

    /// Begins work in a turn, if the node still has one.
    #[must_use]
    pub fn take(&self, node: &str) -> Option<Turn> {
        let mut state = self.lock();
        if !state.given.contains(node) {
            return None;
        }
        state.at_work.insert(node.to_owned());
        Some(Turn {
            turns: self.clone(),
            node: node.to_owned(),
            settled: true,
        })
    }

    /// The node has been looked at, and nothing is in the middle there.
    pub fn is_settled(&self, node: &str) {
        self.lock().unsure.remove(node);
    }

    /// The node is gone.
    pub fn forget(&self, node: &str) {
        let mut state = self.lock();
        state.unsure.remove(node);
        state.cut_short.remove(node);
        state.given.remove(node);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Sets whose every change is one call: a panic elsewhere leaves them usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
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

    fn seen(turns: &Turns) -> State {
        turns.decide(|state| (state.given.clone(), state.clone()))
    }

    #[test]
    fn only_a_turn_that_still_stands_is_taken() {
        let turns = Turns::default();
        assert!(turns.take("a").is_none());
        turns.decide(|_| (names(&["a", "b"]), ()));
        let mut turn = turns.take("a").unwrap();
        assert_eq!(seen(&turns).at_work, names(&["a"]));
        turns.decide(|_| (names(&["a"]), ()));
        assert!(turns.take("b").is_none(), "it was taken away");
        turn.begin();
        turn.settle();
        drop(turn);
        let after = seen(&turns);
        assert!(after.at_work.is_empty() && after.unsure.is_empty());
    }

    #[test]
    fn a_turn_without_a_known_end_leaves_the_node_unsure_until_it_was_seen() {
        let turns = Turns::default();
        turns.decide(|_| (names(&["a", "b"]), ()));
        drop(turns.take("a"));
        assert!(seen(&turns).unsure.is_empty(), "nothing was interrupted");
        for node in ["a", "b"] {
            turns.take(node).unwrap().begin();
        }
        assert_eq!(seen(&turns).unsure, names(&["a", "b"]));
        turns.decide(|_| (names(&["c"]), ()));
        let _turn = turns.take("c");
        turns.decide(|_| (names(&["d"]), ()));
        assert_eq!(turns.in_progress(), names(&["a", "b", "c", "d"]));
        turns.decide(|_| (names(&["a"]), ()));
        assert_eq!(seen(&turns).cut_short, names(&["a", "b"]));
        turns.is_settled("a");
        turns.forget("b");
        assert_eq!(seen(&turns).cut_short, names(&["a"]));
        assert!(seen(&turns).unsure.is_empty());
        assert_eq!(seen(&turns).given, names(&["a"]));
        let mut turn = turns.take("a").unwrap();
        turn.begin();
        turn.settle();
        assert!(seen(&turns).cut_short.is_empty());
    }
}
