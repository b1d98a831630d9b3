//! Caches compiled patterns: templates use the same few again and again.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use crate::work::note_work;

use super::{Error, Regex};

/// Maximum number of cached patterns. Exceeding it empties the cache: charts use a few dozen, so this many are generated.
const CACHE_CAPACITY: usize = 256;

/// Maximum memory of the cached patterns, in bytes. Exceeding it empties the cache.
const MAX_CACHED_SIZE: usize = 32 << 20;

/// Compiling a pattern costs one step per this many bytes of the result.
const BYTES_PER_STEP: usize = 16;

#[derive(Default)]
struct Cache {
    patterns: HashMap<Box<[u8]>, Result<Arc<Regex>, Error>>,
    size: usize,
}

static CACHE: LazyLock<RwLock<Cache>> = LazyLock::new(RwLock::default);

/// Returns the compiled pattern, or the error of compiling it, from the cache if it is there.
pub fn cached(pattern: &[u8]) -> Result<Arc<Regex>, Error> {
    if let Some(known) = CACHE.read().unwrap_or_else(PoisonError::into_inner).patterns.get(pattern) {
        return known.clone();
    }
    let compiled = Regex::new(pattern).map(Arc::new);
    let size = compiled.as_ref().map_or(super::MAX_COMPILED_SIZE / 8, |regex| regex.size);
    note_work((size / BYTES_PER_STEP) as u64);
    let mut cache = CACHE.write().unwrap_or_else(PoisonError::into_inner);
    cache.size += size;
    if cache.patterns.len() >= CACHE_CAPACITY || cache.size > MAX_CACHED_SIZE {
        *cache = Cache { size, ..Cache::default() };
    }
    cache.patterns.insert(pattern.into(), compiled.clone());
    compiled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_never_holds_more_than_its_capacity() {
        for i in 0..2 * CACHE_CAPACITY {
            cached(format!("a{i}").as_bytes()).unwrap();
            assert!(CACHE.read().unwrap().patterns.len() <= CACHE_CAPACITY);
        }
    }
}
