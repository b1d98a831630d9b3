//! A cache of compiled patterns: a chart uses the same few on each render.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::{Error, Glob};

/// Maximum number of cached patterns. One more empties the cache: charts have a few, so more means generated patterns.
const CACHE_CAPACITY: usize = 128;

/// Maximum length of a cached pattern, in bytes. With the capacity, this bounds the cache's memory.
const MAX_CACHED_LENGTH: usize = 128;

static CACHE: LazyLock<RwLock<HashMap<Box<str>, Arc<Glob>>>> = LazyLock::new(RwLock::default);

/// Compiles a pattern, or returns it from the cache.
///
/// # Errors
/// See [`Glob::new`].
pub fn cached(pattern: &str) -> Result<Arc<Glob>, Error> {
    if let Some(known) = CACHE.read().unwrap_or_else(PoisonError::into_inner).get(pattern) {
        return Ok(Arc::clone(known));
    }
    let compiled = Arc::new(Glob::new(pattern)?);
    if pattern.len() > MAX_CACHED_LENGTH {
        return Ok(compiled);
    }
    let mut cache = CACHE.write().unwrap_or_else(PoisonError::into_inner);
    if cache.len() >= CACHE_CAPACITY {
        cache.clear();
    }
    cache.insert(pattern.into(), Arc::clone(&compiled));
    Ok(compiled)
}

#[cfg(test)]
mod tests {
    use super::super::Work;
    use super::*;

    #[test]
    fn the_cache_never_holds_more_than_its_capacity() {
        for i in 0..2 * CACHE_CAPACITY {
            assert_eq!(cached(&format!("a{i}")).unwrap().is_match(format!("a{i}"), &mut Work::default()), Ok(true));
            assert!(CACHE.read().unwrap().len() <= CACHE_CAPACITY);
        }
        assert!(cached("[").is_err());
    }
}
