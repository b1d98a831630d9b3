//! Decides which releases keep their record in memory: the most recently changed ones, within a bound for the process.
//! Other records are read when an action needs them.

use controller::runtime::key::ResourceKey;
use lru::LruCache;

/// The bound, in compressed bytes: about two thousand releases of a small chart.
const MAX_BYTES: usize = 4 << 20;

/// The sizes of the records in memory.
pub(crate) struct RecentRecords {
    sizes: LruCache<ResourceKey, usize>,
    bytes: usize,
}

impl Default for RecentRecords {
    fn default() -> RecentRecords {
        RecentRecords { sizes: LruCache::unbounded(), bytes: 0 }
    }
}

impl RecentRecords {
    /// Records the size of the record that a release keeps from now on, if it keeps one. Returns the releases that must
    /// drop theirs. Never returns the one that has just changed, which writes its status from its record.
    pub(crate) fn note(&mut self, key: &ResourceKey, size: Option<usize>) -> Vec<ResourceKey> {
        let old = match size {
            Some(size) => self.sizes.put(key.clone(), size),
            None => self.sizes.pop(key),
        };
        self.bytes = self.bytes + size.unwrap_or_default() - old.unwrap_or_default();
        let mut dropped = Vec::new();
        while self.bytes > MAX_BYTES && self.sizes.len() > 1 {
            let Some((key, size)) = self.sizes.pop_lru() else { break };
            self.bytes -= size;
            dropped.push(key);
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ResourceKey {
        ResourceKey::new("ns", name)
    }

    #[test]
    fn the_records_that_changed_longest_ago_are_dropped_first() {
        let mut recent = RecentRecords::default();
        let mut note =
            |name, size| recent.note(&key(name), size).iter().map(|key| key.name.to_string()).collect::<Vec<_>>();
        let half = Some(MAX_BYTES / 2);
        assert!(note("a", half).is_empty() && note("b", half).is_empty());
        assert!(note("a", half).is_empty(), "a changed again and keeps its size");
        assert_eq!(note("c", Some(1)), ["b"]);
        assert!(note("a", None).is_empty() && note("a", None).is_empty());
        assert!(note("d", half).is_empty(), "there is room where a was");
        assert_eq!(note("e", Some(2 * MAX_BYTES)), ["c", "d"], "the one that just changed stays, however large it is");
        assert_eq!(note("f", Some(1)), ["e"]);
    }
}
