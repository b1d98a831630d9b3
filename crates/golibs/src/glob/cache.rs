//! Caches compiled patterns: a chart uses the same few on every render.

use std::sync::{Arc, LazyLock};

use super::{Error, Glob};
use crate::cache::Cache;

/// Maximum number of cached patterns. Charts use a handful, so this many are generated.
const CACHE_CAPACITY: usize = 128;

/// Maximum length of a cached pattern, in bytes. Together with the capacity, it bounds the cache's memory.
const MAX_CACHED_LENGTH: usize = 128;

static CACHE: LazyLock<Cache<Box<str>, Arc<Glob>>> = LazyLock::new(|| Cache::new(CACHE_CAPACITY, usize::MAX));

/// Returns the compiled pattern, from the cache if it is there.
///
/// # Errors
/// See [`Glob::new`].
pub fn cached(pattern: &str) -> Result<Arc<Glob>, Error> {
    if let Some(known) = CACHE.get(pattern) {
        return Ok(known);
    }
    let compiled = Arc::new(Glob::new(pattern)?);
    if pattern.len() <= MAX_CACHED_LENGTH {
        CACHE.put(pattern.into(), Arc::clone(&compiled), 0);
    }
    Ok(compiled)
}
