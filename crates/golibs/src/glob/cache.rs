//! Caches compiled patterns: a chart uses the same few on every render.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::{Error, Glob};

/// Maximum number of cached patterns. Exceeding it empties the cache: charts use a handful, so this many are generated.
const CACHE_CAPACITY: usize = 128;

/// Maximum length of a cached pattern, in bytes. Together with the capacity, it bounds the cache's memory.
const MAX_CACHED_LENGTH: usize = 128;

static CACHE: LazyLock<RwLock<HashMap<Box<str>, Arc<Glob>>>> = LazyLock::new(RwLock::default);

/// Returns the compiled pattern, from the cache if it is there.
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
