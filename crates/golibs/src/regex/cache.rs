//! Compiled patterns by their text: templates use the same few again and again.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use crate::work::note_work;

use super::{Error, Regex};

/// How many patterns are kept. When there are more, all are dropped: charts have some dozen, so more means generated patterns.
pub const CACHE_CAPACITY: usize = 256;

/// How much memory the kept patterns may take, in bytes.
pub const MAX_CACHED_SIZE: usize = 32 << 20;

/// So many bytes of a compiled pattern count as a step of the render that compiles it.
const BYTES_PER_STEP: usize = 16;

#[derive(Default)]
struct Cache {
    patterns: HashMap<Box<[u8]>, Result<Arc<Regex>, Error>>,
    size: usize,
}

static CACHE: LazyLock<RwLock<Cache>> = LazyLock::new(RwLock::default);

/// The compiled pattern, from the cache if it was compiled before.
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
