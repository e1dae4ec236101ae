//! One kind of object as a keyed table that knows whether it has been read completely.

use std::collections::{BTreeMap, BTreeSet};

/// The objects of one kind.
///
/// A table is fed by a watch: `begin`, any number of `apply`, then `finish` for a list; single `apply` and `delete`
/// afterwards. What a new list does not name any more is removed when that list is finished, not before.
/// Whoever follows the rows takes the keys of those that have changed, so that work is in proportion to them.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    rows: BTreeMap<K, V>,
    changed: BTreeSet<K>,
    rejected: BTreeMap<K, String>,
    listing: Option<BTreeSet<K>>,
    complete: bool,
    problem: Option<String>,
    wanted_anew: bool,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            changed: BTreeSet::new(),
            rejected: BTreeMap::new(),
            listing: None,
            complete: false,
            problem: None,
            wanted_anew: false,
        }
    }
}

impl<K: Ord + Clone, V: PartialEq> Table<K, V> {
    /// A list starts.
    pub fn begin(&mut self) {
        self.listing = Some(BTreeSet::new());
    }

    /// An object was listed, added or changed. Says whether that changes anything.
    pub fn apply(&mut self, key: K, value: V) -> bool {
        if let Some(listing) = &mut self.listing {
            listing.insert(key.clone());
        }
        let was_rejected = self.rejected.remove(&key).is_some();
        match self.rows.get(&key) {
            Some(old) if *old == value => was_rejected,
            _ => {
                self.changed.insert(key.clone());
                self.rows.insert(key, value);
                true
            }
        }
    }

    /// An object is gone, or no longer of interest. Says whether that changes anything.
    pub fn delete(&mut self, key: &K) -> bool {
        let was_rejected = self.rejected.remove(key).is_some();
        let known = self.rows.remove(key).is_some();
        if known {
            self.changed.insert(key.clone());
        }
        known || was_rejected
    }

    /// An object is there but cannot be read. What was read of it before stays. Says whether that changes anything.
    pub fn reject(&mut self, key: K, problem: String) -> bool {
        if let Some(listing) = &mut self.listing {
            listing.insert(key.clone());
        }
        let changed = self.rejected.get(&key) != Some(&problem);
        self.rejected.insert(key, problem);
        changed
    }

    /// A list is complete. Says whether that changes anything.
    pub fn finish(&mut self) -> bool {
        let mut changed = !self.complete || self.problem.is_some();
        if let Some(listing) = self.listing.take() {
            let before = self.rows.len();
            let gone = &mut self.changed;
            self.rows.retain(|key, _| {
                let stays = listing.contains(key);
                if !stays {
                    gone.insert(key.clone());
                }
                stays
            });
            let unreadable = self.rejected.len();
            self.rejected.retain(|key, _| listing.contains(key));
            changed |= self.rows.len() != before || self.rejected.len() != unreadable;
        }
        // Rows that came one by one in their order leave the map's nodes half empty.
        self.rows = std::mem::take(&mut self.rows).into_iter().collect();
        self.complete = true;
        if !self.wanted_anew {
            self.problem = None;
        }
        changed
    }

    /// Reading fails. What was read before stays. Says whether that changes anything.
    pub fn fail(&mut self, problem: String) -> bool {
        let changed = self.problem.as_ref() != Some(&problem);
        self.problem = Some(problem);
        changed
    }

    /// Rows that were left out matter now, so a new list is needed. Until it is finished that is a problem.
    pub fn want_anew(&mut self, problem: String) {
        self.wanted_anew = true;
        self.problem = Some(problem);
    }

    /// Whether a new list is needed.
    #[must_use]
    pub fn is_wanted_anew(&self) -> bool {
        self.wanted_anew
    }

    /// Whether a new list is needed; it is asked for by whoever takes this.
    pub fn take_wanted_anew(&mut self) -> bool {
        std::mem::take(&mut self.wanted_anew)
    }

    /// The keys of the rows that were added, changed or removed since this was last asked.
    pub fn take_changed(&mut self) -> BTreeSet<K> {
        std::mem::take(&mut self.changed)
    }

    /// Whether an object is there of which nothing could ever be read.
    #[must_use]
    pub fn is_unreadable(&self, key: &K) -> bool {
        self.rejected.contains_key(key) && !self.rows.contains_key(key)
    }

    /// Whether the table has been read completely at least once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Why reading fails at present, as a whole or for one of the objects.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        let unreadable = self.rejected.values().next();
        self.problem.as_ref().or(unreadable).map(String::as_str)
    }

    /// The object of that key.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.rows.get(key)
    }

    /// The objects whose keys are not below that one, in the order of their keys.
    pub fn from(&self, key: &K) -> impl Iterator<Item = (&K, &V)> {
        self.rows.range(key..)
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All objects in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_is_complete_and_an_unread_one_is_not() {
        let mut table = Table::<String, u8>::default();
        assert!(!table.is_complete());
        table.begin();
        assert!(!table.is_complete());
        assert!(table.finish());
        assert!(table.is_complete());
        table.begin();
        assert!(
            !table.finish(),
            "a second list without a difference changes nothing"
        );
    }

    #[test]
    fn a_new_list_removes_what_it_does_not_name_only_at_its_end() {
        let mut table = Table::default();
        table.begin();
        table.apply("a", 1);
        table.apply("b", 2);
        table.finish();
        assert_eq!(table.take_changed(), BTreeSet::from(["a", "b"]));
        table.begin();
        assert!(!table.apply("b", 2));
        assert_eq!(
            table.get(&"a"),
            Some(&1),
            "a list that is cut off removes nothing"
        );
        assert!(table.finish());
        assert_eq!(table.get(&"a"), None);
        assert_eq!(table.get(&"b"), Some(&2));
        assert_eq!(table.take_changed(), BTreeSet::from(["a"]));
    }

    #[test]
    fn a_list_that_is_wanted_anew_is_a_problem_until_it_is_finished() {
        let mut table = Table::<&str, u8>::default();
        table.begin();
        table.finish();
        table.want_anew("why".into());
        assert_eq!(table.problem(), Some("why"));
        // The list that was under way may have left out what matters now.
        table.finish();
        assert_eq!(table.problem(), Some("why"));
        assert!(table.take_wanted_anew() && !table.take_wanted_anew());
        table.begin();
        assert_eq!(table.problem(), Some("why"));
        table.finish();
        assert_eq!(table.problem(), None);
    }

    #[test]
    fn an_object_that_cannot_be_read_is_there_and_what_was_read_of_it_before_stays() {
        let mut table = Table::<&str, u8>::default();
        assert!(table.reject("a", "why".to_owned()));
        assert!(!table.reject("a", "why".to_owned()), "no news");
        assert!(table.reject("a", "other".to_owned()));
        assert!(table.is_unreadable(&"a") && !table.is_unreadable(&"b"));
        table.apply("b", 1);
        table.reject("b", "why".to_owned());
        assert!(!table.is_unreadable(&"b"), "it was read once");
        assert_eq!(table.get(&"b"), Some(&1));
        assert!(table.delete(&"a"), "the end of a problem is a change");
        assert!(!table.is_unreadable(&"a") && !table.delete(&"a"));
    }

    #[test]
    fn what_is_there_is_counted_and_its_end_is_news() {
        let mut table = Table::default();
        assert!(table.is_empty());
        table.apply("a", 1);
        table.apply("b", 2);
        assert_eq!((table.len(), table.is_empty()), (2, false));
        assert!(table.delete(&"a") && !table.delete(&"a"));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_failure_keeps_what_was_read() {
        let mut table = Table::default();
        table.begin();
        table.apply("a", 1);
        table.finish();
        assert!(table.fail("forbidden".into()));
        assert!(!table.fail("forbidden".into()));
        assert!(table.is_complete());
        assert_eq!(table.get(&"a"), Some(&1));
        table.begin();
        table.apply("a", 1);
        assert!(table.finish(), "the end of a problem is a change");
        assert_eq!(table.problem(), None);
    }
}
