//! Decides which of the kinds that discovery finds count for charts that render again when they change. Pure.
//!
//! While a control plane is upgraded, its API servers serve different kinds, and each discovery shows those of one of
//! them. A revision for each change would run hooks, and delete objects that the next one creates anew.

use std::time::Duration;

use tokio::time::Instant;

/// How long discovery must find the same before it counts: at ten discoveries in a row, each of which may come from
/// another API server. An API server is replaced in less.
pub(super) const SETTLES: Duration = Duration::from_secs(300);

/// What counts, and what the last discoveries have found.
#[derive(Clone, Debug)]
pub(super) struct Settling<T> {
    counts: T,
    /// Whether discovery has ever found for long enough what counts. Until then, it is what the process found first.
    is_settled: bool,
    last: T,
    /// The discovery that found `last` first.
    since: Instant,
}

impl<T: Clone + PartialEq> Settling<T> {
    /// Begins with what the process finds first.
    pub(super) fn begin(found: T, at: Instant) -> Settling<T> {
        Settling { counts: found.clone(), is_settled: false, last: found, since: at }
    }

    /// Adds what the discovery at this time has found. Finding it again without another discovery changes nothing.
    pub(super) fn add(&mut self, found: T, at: Instant) {
        if found != self.last {
            (self.last, self.since) = (found, at);
        }
        if at.saturating_duration_since(self.since) >= SETTLES {
            (self.counts, self.is_settled) = (self.last.clone(), true);
        }
    }

    /// Returns what counts.
    pub(super) fn counts(&self) -> &T {
        &self.counts
    }

    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_found_for_minutes_counts() {
        let (start, period) = (Instant::now(), SETTLES / 10);
        let mut settling = Settling::begin("a", start);
        // What is found from each discovery on, with what counts after the last of so many.
        for (from, found, times, expected) in [
            (1, vec!["b", "a"], 20, ("a", false)),
            (21, vec!["b"], 10, ("a", false)),
            (31, vec!["b"], 1, ("b", true)),
            (32, vec!["b", "c", "a"], 60, ("b", true)),
            (92, vec!["c"], 10, ("b", true)),
            (102, vec!["c"], 1, ("c", true)),
        ] {
            for (at, one) in (from..from + times).zip(found.iter().cycle()) {
                settling.add(*one, start + period * at);
            }
            assert_eq!((*settling.counts(), settling.is_settled()), expected, "from {from}");
        }
        settling.add("a", start + period * 103);
        (0..100).for_each(|_| settling.add("a", start + period * 103));
        assert_eq!(*settling.counts(), "c", "nothing was discovered since");
    }
}
