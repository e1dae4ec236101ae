//! A table of the objects of one kind, which tracks whether the kind was read completely.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Instant;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::index::{Name, ObjectKey, intern};

/// A key of a table.
pub trait Key: Ord + Clone + Display + 'static {
    /// Returns the key of the object with this metadata.
    fn of(meta: &ObjectMeta) -> Self;
}

impl Key for String {
    fn of(meta: &ObjectMeta) -> Self {
        meta.name.clone().unwrap_or_default()
    }
}

impl Key for Name {
    fn of(meta: &ObjectMeta) -> Self {
        intern(meta.name.as_deref().unwrap_or_default())
    }
}

impl Key for ObjectKey {
    /// Uses the namespace `default` for a manifest without one, as kubectl does.
    fn of(meta: &ObjectMeta) -> Self {
        let namespace = meta.namespace.as_deref().filter(|name| !name.is_empty());
        let namespace = namespace.unwrap_or("default");
        ObjectKey::new(intern(namespace), Name::of(meta))
    }
}

/// The operations of lists and watches on a table of any row type. Each returns whether it changed the table.
pub trait AnyTable {
    /// Starts a list.
    fn begin(&mut self);
    /// Finishes a list.
    fn finish(&mut self);
    /// Records that reading fails. Keeps the rows.
    fn fail(&mut self, problem: String) -> bool;
    /// Records that reading continues without a gap after a failure.
    fn resume(&mut self) -> bool;
    /// Records the resourceVersion that was read up to.
    fn come_to(&mut self, version: u64);
    /// Records when the list that has just finished ran.
    fn note_listed(&mut self, listed: Listed);
    /// Returns when the last finished list ran.
    fn listed(&self) -> Option<Listed>;
    /// Removes an object.
    fn delete_object(&mut self, meta: &ObjectMeta) -> bool;
    /// Records that an object exists but cannot be decoded. Keeps its last row.
    fn reject(&mut self, meta: &ObjectMeta, problem: String) -> bool;
    /// Returns the object's key as text.
    fn key(&self, meta: &ObjectMeta) -> String;
    /// Whether the table has a row for the object.
    fn has(&self, meta: &ObjectMeta) -> bool;
    /// Whether the table has no rows.
    fn is_empty(&self) -> bool;
    /// Whether the table has been read completely at least once.
    fn is_complete(&self) -> bool;
    /// Why reading currently fails, for the kind or for one object.
    fn problem(&self) -> Option<&str>;
}

/// When a list ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its objects are at least as recent as this.
    pub begun: Instant,
    /// When its last object was stored.
    pub ended: Instant,
}

/// The objects of one kind.
///
/// A watch feeds the table: for a list, `begin`, any number of `apply`, then `finish`; afterwards single `apply` and
/// `delete`. `finish` removes the rows that the new list did not contain.
#[derive(Clone, Debug, Default)]
pub struct Table<K, V> {
    rows: BTreeMap<K, V>,
    rejected: BTreeMap<K, String>,
    listing: Option<BTreeSet<K>>,
    complete: bool,
    problem: Option<String>,
    version: u64,
    listed: Option<Listed>,
}

impl<K: Ord + Clone, V: PartialEq> Table<K, V> {
    /// Stores an object that was listed, added or changed. Returns whether the table changed.
    pub fn apply(&mut self, key: K, value: V) -> bool {
        if let Some(listing) = &mut self.listing {
            listing.insert(key.clone());
        }
        let was_rejected = self.rejected.remove(&key).is_some();
        match self.rows.get(&key) {
            Some(old) if *old == value => was_rejected,
            _ => {
                self.rows.insert(key, value);
                true
            }
        }
    }

    /// Removes an object that was deleted or is no longer relevant. Returns whether the table changed.
    pub fn delete(&mut self, key: &K) -> bool {
        let was_rejected = self.rejected.remove(key).is_some();
        let known = self.rows.remove(key).is_some();
        known || was_rejected
    }

    /// Whether an object exists but was never decoded.
    pub fn is_unreadable(&self, key: &K) -> bool {
        self.rejected.contains_key(key) && !self.rows.contains_key(key)
    }

    /// Returns the resourceVersion that was read up to.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the object with this key.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.rows.get(key)
    }

    /// Iterates over the objects from this key on, sorted by key.
    pub fn from(&self, key: &K) -> impl Iterator<Item = (&K, &V)> {
        self.rows.range(key..)
    }

    /// Iterates over all objects, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter()
    }
}

impl<V: PartialEq> Table<ObjectKey, V> {
    /// Whether there is an object of this namespace.
    pub(crate) fn has_any_of(&self, namespace: &Name) -> bool {
        let first = ObjectKey::new(namespace.clone(), "");
        let next = self.from(&first).next();
        next.is_some_and(|(key, _)| key.namespace == *namespace)
    }
}

impl<K: Key, V: PartialEq> AnyTable for Table<K, V> {
    fn begin(&mut self) {
        self.listing = Some(BTreeSet::new());
    }

    fn finish(&mut self) {
        if let Some(listing) = self.listing.take() {
            self.rows.retain(|key, _| listing.contains(key));
            self.rejected.retain(|key, _| listing.contains(key));
        }
        // Rebuild the map: inserting sorted rows one by one leaves its tree nodes half empty.
        self.rows = std::mem::take(&mut self.rows).into_iter().collect();
        self.complete = true;
        self.problem = None;
    }

    fn fail(&mut self, problem: String) -> bool {
        let changed = self.problem.as_ref() != Some(&problem);
        self.problem = Some(problem);
        changed
    }

    fn resume(&mut self) -> bool {
        self.problem.take().is_some()
    }

    fn come_to(&mut self, version: u64) {
        self.version = version;
    }

    fn note_listed(&mut self, listed: Listed) {
        self.listed = Some(listed);
    }

    fn listed(&self) -> Option<Listed> {
        self.listed
    }

    fn delete_object(&mut self, meta: &ObjectMeta) -> bool {
        self.delete(&K::of(meta))
    }

    fn reject(&mut self, meta: &ObjectMeta, problem: String) -> bool {
        let key = K::of(meta);
        if let Some(listing) = &mut self.listing {
            listing.insert(key.clone());
        }
        let changed = self.rejected.get(&key) != Some(&problem);
        self.rejected.insert(key, problem);
        changed
    }

    fn key(&self, meta: &ObjectMeta) -> String {
        K::of(meta).to_string()
    }

    fn has(&self, meta: &ObjectMeta) -> bool {
        self.rows.contains_key(&K::of(meta))
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn problem(&self) -> Option<&str> {
        let unreadable = self.rejected.values().next();
        self.problem.as_ref().or(unreadable).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        }
    }

    /// Returns a table after a list of these objects.
    fn listed(names: &[&str]) -> Table<String, u8> {
        let mut table = Table::default();
        relist(&mut table, names);
        table
    }

    fn relist(table: &mut Table<String, u8>, names: &[&str]) {
        table.begin();
        for name in names {
            table.apply((*name).to_owned(), 1);
        }
        table.finish();
    }

    #[test]
    fn an_empty_list_is_complete_and_an_unread_one_is_not() {
        let mut table = Table::<String, u8>::default();
        assert!(!table.is_complete());
        table.begin();
        assert!(!table.is_complete());
        table.finish();
        assert!(table.is_complete() && table.is_empty());
    }

    #[test]
    fn a_relist_removes_what_it_does_not_name_when_it_is_finished() {
        let mut table = listed(&["a", "b"]);
        table.begin();
        assert!(!table.apply("b".to_owned(), 1));
        assert_eq!(
            table.get("a"),
            Some(&1),
            "an unfinished list removes nothing"
        );
        table.finish();
        assert_eq!((table.get("a"), table.get("b")), (None, Some(&1)));
    }

    #[test]
    fn what_is_read_on_from_where_it_failed_is_well() {
        let mut table = listed(&["a"]);
        assert!(!table.resume(), "it had not failed");
        table.fail("why".to_owned());
        assert!(table.resume() && table.problem().is_none());
        assert_eq!(table.iter().count(), 1);
        table.come_to(17);
        assert_eq!(table.version(), 17);
    }

    #[test]
    fn an_object_that_cannot_be_read_is_there_and_what_was_read_of_it_before_stays() {
        let mut table = Table::<String, u8>::default();
        assert!(table.reject(&meta("a"), "why".to_owned()));
        assert!(!table.reject(&meta("a"), "why".to_owned()), "no news");
        assert!(table.reject(&meta("a"), "other".to_owned()));
        assert_eq!(table.problem(), Some("other"));
        assert!(table.is_unreadable(&"a".to_owned()) && !table.is_unreadable(&"b".to_owned()));
        table.apply("b".to_owned(), 1);
        table.reject(&meta("b"), "why".to_owned());
        assert!(!table.is_unreadable(&"b".to_owned()), "it was read once");
        assert_eq!(table.get("b"), Some(&1));
        assert!(
            table.delete_object(&meta("a")),
            "the end of a problem is a change"
        );
        assert!(!table.is_unreadable(&"a".to_owned()) && !table.delete_object(&meta("a")));
    }

    #[test]
    fn a_failure_keeps_what_was_read() {
        let mut table = listed(&["a"]);
        assert!(table.fail("forbidden".into()));
        assert!(!table.fail("forbidden".into()));
        assert!(table.is_complete());
        assert_eq!(table.get("a"), Some(&1));
        relist(&mut table, &["a"]);
        assert_eq!(table.problem(), None);
    }
}
