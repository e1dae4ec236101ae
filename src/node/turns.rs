//! The turns that were given, and who is at work in one: the one place where both are known at the same moment.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Turns by node name.
#[derive(Clone, Default)]
pub struct Turns(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    given: BTreeSet<String>,
    at_work: BTreeSet<String>,
}

/// A turn that was taken; it ends with this.
pub struct Turn {
    turns: Turns,
    node: String,
}

impl Turns {
    /// Decides anew who has a turn, from who has one and who is at work in one; nobody can take a turn meanwhile.
    pub fn decide<T>(
        &self,
        decide: impl FnOnce(&BTreeSet<String>, &BTreeSet<String>) -> (BTreeSet<String>, T),
    ) -> T {
        let mut state = self.lock();
        let State { given, at_work } = &mut *state;
        let (turns, rest) = decide(given, at_work);
        *given = turns;
        rest
    }

    /// Whether a node has a turn.
    #[must_use]
    pub fn has(&self, node: &str) -> bool {
        self.lock().given.contains(node)
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
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Two sets whose every change is one call: a panic elsewhere leaves them usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().at_work.remove(&self.node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_turn_that_still_stands_is_taken_and_it_ends_by_itself() {
        let turns = Turns::default();
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
        assert!(turns.take("a").is_none());
        turns.decide(|_, _| (names(&["a", "b"]), ()));
        let turn = turns.take("a");
        assert!(turn.is_some());
        turns.decide(|given, at_work| {
            assert_eq!(
                (given.clone(), at_work.clone()),
                (names(&["a", "b"]), names(&["a"]))
            );
            (names(&["a"]), ())
        });
        assert!(turns.take("b").is_none(), "it was taken away");
        drop(turn);
        turns.decide(|_, at_work| {
            assert!(at_work.is_empty());
            (BTreeSet::new(), ())
        });
    }
}
