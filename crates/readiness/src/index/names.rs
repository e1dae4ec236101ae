//! Interns names that many objects share.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use arcstr::ArcStr;

use crate::index::Name;

/// Below this number of bytes, unused names are not dropped.
const FEW: usize = 64 << 10;
/// What a name takes beside its text.
const BESIDE: usize = 32;

static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

/// Returns the shared copy of a name: of a namespace, node, class, driver or owner.
pub fn intern(text: &str) -> Name {
    // Every change is a single call, so a panic elsewhere leaves the set usable.
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.intern(text)
}

/// Drops interned names that nothing refers to.
pub fn drop_unused_names() {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.drop_unused();
}

#[derive(Default)]
struct Names {
    known: HashSet<Name>,
    /// What the known names take, in bytes: a selector can have a megabyte.
    size: usize,
    /// The size after the last cleanup.
    used: usize,
}

impl Names {
    fn intern(&mut self, text: &str) -> Name {
        if let Some(name) = self.known.get(text) {
            return name.clone();
        }
        if self.size > FEW.max(self.used * 2) {
            self.drop_unused();
        }
        let name = Name::from(text);
        self.size += size(&name);
        self.known.insert(name.clone());
        name
    }

    fn drop_unused(&mut self) {
        // A literal has no reference count and takes no memory.
        let is_used = |name: &Name| ArcStr::strong_count(name).is_none_or(|count| count > 1);
        self.known.retain(is_used);
        self.known.shrink_to_fit();
        self.size = self.known.iter().map(size).sum();
        self.used = self.size;
    }
}

fn size(name: &Name) -> usize {
    name.len() + BESIDE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_through_only_when_their_size_has_doubled() {
        let mut names = Names::default();
        let kept: Vec<Name> = (10_000..20_000)
            .map(|number| names.intern(&format!("k{number}")))
            .collect();
        names.drop_unused();
        assert_eq!(names.known.len(), kept.len());
        for number in 10_000..=20_000 {
            names.intern(&format!("p{number}"));
        }
        assert_eq!(names.known.len(), 2 * kept.len() + 1, "not yet");
        names.intern("one more");
        assert_eq!(names.known.len(), kept.len() + 1, "now");
    }

    #[test]
    fn a_few_long_names_that_nothing_uses_are_not_kept() {
        let mut names = Names::default();
        for number in 0..100 {
            names.intern(&format!("{number}{}", "x".repeat(1 << 20)));
            assert!(names.known.len() < 2);
        }
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
