//! A bounded cache that is cleared when it is full, which is simple and sufficient for texts that recur in every render.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of entries in a cache.
const MAX_ENTRIES: usize = 4096;

/// Maximum total weight of the entries in a cache, in bytes.
const MAX_WEIGHT: usize = 32 << 20;

/// Shared values by key.
#[derive(Debug)]
pub(super) struct Cache<K, V>(Mutex<Held<K, V>>);

#[derive(Debug)]
struct Held<K, V> {
    entries: HashMap<K, Arc<V>>,
    weight: usize,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Cache(Mutex::new(Held { entries: HashMap::new(), weight: 0 }))
    }
}

impl<K: Hash + Eq, V> Cache<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entries.get(key).cloned()
    }

    /// Caches the value, unless it alone exceeds the limit.
    pub(super) fn put(&self, key: K, value: Arc<V>, weight: usize) {
        if weight > MAX_WEIGHT {
            return;
        }
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.entries.len() >= MAX_ENTRIES || held.weight + weight > MAX_WEIGHT {
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
        let cache = Cache::default();
        for key in 0..=MAX_ENTRIES {
            cache.put(key, Arc::new(key), 1);
        }
        assert_eq!(cache.get(&0), None);
        assert_eq!(cache.get(&MAX_ENTRIES).as_deref(), Some(&MAX_ENTRIES));
        cache.put(1, Arc::new(1), MAX_WEIGHT + 1);
        assert_eq!(cache.get(&1), None);
    }
}
