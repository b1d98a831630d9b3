//! Compiled patterns by their text: templates use the same few again and again.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::{Error, Regex};

/// How many patterns are kept. When there are more, all are dropped: charts have some dozen, so more means generated patterns.
pub const CACHE_CAPACITY: usize = 256;

type Cache = HashMap<Box<[u8]>, Result<Arc<Regex>, Error>>;

static CACHE: LazyLock<RwLock<Cache>> = LazyLock::new(RwLock::default);

/// The compiled pattern, from the cache if it was compiled before.
pub fn cached(pattern: &[u8]) -> Result<Arc<Regex>, Error> {
    if let Some(known) = CACHE.read().unwrap_or_else(PoisonError::into_inner).get(pattern) {
        return known.clone();
    }
    let compiled = Regex::new(pattern).map(Arc::new);
    let mut cache = CACHE.write().unwrap_or_else(PoisonError::into_inner);
    if cache.len() >= CACHE_CAPACITY {
        cache.clear();
    }
    cache.insert(pattern.into(), compiled.clone());
    compiled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_never_holds_more_than_its_capacity() {
        for i in 0..2 * CACHE_CAPACITY {
            cached(format!("a{i}").as_bytes()).unwrap();
            assert!(CACHE.read().unwrap().len() <= CACHE_CAPACITY);
        }
    }
}
