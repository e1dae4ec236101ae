//! Counts occurrences by key.

use std::collections::BTreeMap;

/// Counts by key. Keys with count 0 are removed.
#[derive(Clone, Debug)]
pub struct Counts<K> {
    by_key: BTreeMap<K, usize>,
    total: usize,
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        let (by_key, total) = (BTreeMap::new(), 0);
        Self { by_key, total }
    }
}

impl<K: Ord + Clone> Counts<K> {
    /// Increments a count. Returns whether it was 0 before.
    pub fn add(&mut self, key: &K) -> bool {
        self.total += 1;
        let count = self.by_key.entry(key.clone()).or_default();
        *count += 1;
        *count == 1
    }

    /// Decrements a count. Returns whether it reached 0; false if the key is unknown.
    pub fn remove(&mut self, key: &K) -> bool {
        let Some(count) = self.by_key.get_mut(key) else {
            return false;
        };
        self.total -= 1;
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.by_key.remove(key);
        }
        is_last
    }

    /// Returns the sum of all counts.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Iterates over the keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.by_key.keys()
    }

    /// Whether the key's count is above 0.
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.by_key.contains_key(key)
    }
}
