//! Caches compiled patterns: templates use the same few again and again.

use std::sync::{Arc, LazyLock};

use super::{Error, Regex};
use crate::cache::Cache;
use crate::work::note_work;

/// Maximum number of cached patterns. Charts use a few dozen, so this many are generated.
const CACHE_CAPACITY: usize = 256;

/// Maximum memory of the cached patterns, in bytes.
const MAX_CACHED_SIZE: usize = 32 << 20;

/// Compiling a pattern costs one step per this many bytes of the result.
const BYTES_PER_STEP: usize = 16;

type Compiled = Result<Arc<Regex>, Error>;

static CACHE: LazyLock<Cache<Box<[u8]>, Compiled>> = LazyLock::new(|| Cache::new(CACHE_CAPACITY, MAX_CACHED_SIZE));

/// Returns the compiled pattern, or the error of compiling it, from the cache if it is there.
pub fn cached(pattern: &[u8]) -> Compiled {
    if let Some(known) = CACHE.get(pattern) {
        return known;
    }
    let compiled = Regex::new(pattern).map(Arc::new);
    let size = compiled.as_ref().map_or(super::MAX_COMPILED_SIZE / 8, |regex| regex.size);
    note_work((size / BYTES_PER_STEP) as u64);
    CACHE.put(pattern.into(), compiled.clone(), size);
    compiled
}
