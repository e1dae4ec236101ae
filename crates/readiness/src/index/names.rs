//! Interns names that many objects share.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use arcstr::ArcStr;

use crate::index::Name;

/// Below this number nobody looks for names that are no longer used.
const FEW: usize = 1_024;

static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

/// The one copy of that text: namespaces, nodes, classes, drivers, and what one object says of another.
#[must_use]
pub fn intern(text: &str) -> Name {
    // Every change is one call, so a panic elsewhere leaves the set usable.
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.intern(text)
}

/// Forgets names that nobody uses any more.
pub fn drop_unused_names() {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.drop_unused();
}

#[derive(Default)]
struct Names {
    known: HashSet<Name>,
    /// How many there were after those that nobody used had been dropped.
    used: usize,
}

impl Names {
    fn intern(&mut self, text: &str) -> Name {
        if let Some(name) = self.known.get(text) {
            return name.clone();
        }
        if self.known.len() > FEW.max(self.used * 2) {
            self.drop_unused();
        }
        let name = Name::from(text);
        self.known.insert(name.clone());
        name
    }

    fn drop_unused(&mut self) {
        // A literal has no count, and takes no memory.
        let is_used = |name: &Name| ArcStr::strong_count(name).is_none_or(|count| count > 1);
        self.known.retain(is_used);
        self.known.shrink_to_fit();
        self.used = self.known.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_there_once() {
        let mut names = Names::default();
        let (one, other) = (names.intern("shop"), names.intern("shop"));
        assert!(ArcStr::ptr_eq(&one, &other));
        assert_eq!(names.known.len(), 1);
    }

    #[test]
    fn names_are_looked_through_only_when_they_have_doubled() {
        let mut names = Names::default();
        let kept: Vec<Name> = (0..FEW + 100)
            .map(|number| names.intern(&format!("k{number}")))
            .collect();
        names.drop_unused();
        assert_eq!(names.used, kept.len());
        for number in 0..=kept.len() {
            names.intern(&format!("pv-{number}"));
        }
        assert_eq!(names.known.len(), 2 * kept.len() + 1, "not yet");
        names.intern("one more");
        assert_eq!(names.known.len(), kept.len() + 1, "now");
    }

    #[test]
    fn what_is_dropped_is_interned_again() {
        let text = "a name of this test alone";
        drop(intern(text));
        drop_unused_names();
        assert!(!NAMES.lock().unwrap().known.contains(text));
        let kept = intern(text);
        drop_unused_names();
        assert!(ArcStr::ptr_eq(&kept, &intern(text)));
    }
}
