//! A bounded cache that is cleared when it is full: simple, and sufficient for texts that recur in every render.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

/// Values by key, which are cheap to clone.
#[derive(Debug)]
pub struct Cache<K, V> {
    most: usize,
    most_weight: usize,
    held: RwLock<Held<K, V>>,
}

#[derive(Debug)]
struct Held<K, V> {
    entries: HashMap<K, V>,
    weight: usize,
}

impl<K, V> Default for Cache<K, V> {
    /// Creates a cache of 4,096 values and 32 MiB.
    fn default() -> Self {
        Cache::new(4096, 32 << 20)
    }
}

impl<K, V> Cache<K, V> {
    /// Creates a cache that holds at most this many values, of this weight in total.
    pub fn new(most: usize, most_weight: usize) -> Cache<K, V> {
        Cache { most, most_weight, held: RwLock::new(Held { entries: HashMap::new(), weight: 0 }) }
    }
}

impl<K: Hash + Eq, V: Clone> Cache<K, V> {
    /// Returns a value.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.held.read().unwrap_or_else(PoisonError::into_inner).entries.get(key).cloned()
    }

    /// Caches a value, unless it alone exceeds the limit.
    pub fn put(&self, key: K, value: V, weight: usize) {
        if weight > self.most_weight {
            return;
        }
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if held.entries.len() >= self.most || held.weight + weight > self.most_weight {
            held.entries.clear();
            held.weight = 0;
        }
        held.weight += weight;
        held.entries.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_is_cleared() {
        let cache = Cache::new(10, 100);
        for key in 0..=10 {
            cache.put(key, key, 1);
        }
        assert_eq!((cache.get(&0), cache.get(&10)), (None, Some(10)));
        cache.put(1, 1, 101);
        assert_eq!(cache.get(&1), None);
        cache.put(2, 2, 100);
        assert_eq!((cache.get(&10), cache.get(&2)), (None, Some(2)));
    }
}
