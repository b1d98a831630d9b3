//! Decides which discovered kinds count for charts that render again when the served kinds change. Pure.
//!
//! While a control plane is upgraded, its API servers serve different kinds, and each discovery shows those of one of
//! them. A revision for each change would run hooks, and delete objects that the next one creates anew. Each kind settles
//! by itself: an aggregated API server that comes and goes delays no other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// How long discovery must find a kind, or miss it, before that counts: usually at ten discoveries in a row, each of
/// which may come from another API server. An API server is replaced in less.
pub(super) const SETTLES: Duration = Duration::from_secs(300);

/// The longest time between two discoveries that counts. Some may fail while a control plane is upgraded, but the time
/// of an outage shows nothing about any kind.
const LONGEST_GAP: Duration = Duration::from_secs(90);

/// What discovery has found so far, and what of it counts.
#[derive(Clone, Debug)]
pub(super) struct Settling<K> {
    kinds: BTreeMap<K, Found>,
    /// The first discovery. The time of outages is left out: it is later by as much.
    began: Instant,
    /// The last discovery.
    last: Instant,
    /// Whether discovery has been read for long enough. Until then, what the last one found counts.
    is_settled: bool,
}

/// What the discoveries say about one kind.
#[derive(Clone, Debug)]
struct Found {
    is_served: bool,
    /// The discovery that found this first. The time of outages is left out, too.
    since: Instant,
    /// How often discovery has found another state than before.
    changes: usize,
    counts: bool,
}

impl<K: Ord> Settling<K> {
    pub(super) fn begin(at: Instant) -> Settling<K> {
        Settling { kinds: BTreeMap::new(), began: at, last: at, is_settled: false }
    }

    /// Adds what the discovery at this time has found. Finding it again without another discovery changes nothing. What
    /// discovery could not tell before counts at once: nothing has shown that it was not served.
    pub(super) fn add(&mut self, found: impl IntoIterator<Item = K>, at: Instant, was_unknown: impl Fn(&K) -> bool) {
        self.leave_out_outage(at);
        let mut found: BTreeSet<K> = found.into_iter().collect();
        for (kind, known) in &mut self.kinds {
            let is_served = found.remove(kind);
            if known.is_served != is_served {
                (known.is_served, known.since) = (is_served, at);
                known.changes += 1;
            }
        }
        let began = self.began;
        let new = |kind: &K| match was_unknown(kind) {
            true => Found { is_served: true, since: began, changes: 0, counts: false },
            // A kind that was not found before has changed, except at the first discovery.
            false => Found { is_served: true, since: at, changes: usize::from(at > began), counts: false },
        };
        self.kinds.extend(found.into_iter().map(|kind| {
            let state = new(&kind);
            (kind, state)
        }));
        let has_settled = at.saturating_duration_since(self.began) >= SETTLES;
        for known in self.kinds.values_mut() {
            known.counts = match () {
                () if at.saturating_duration_since(known.since) >= SETTLES => known.is_served,
                () if self.is_settled => known.counts,
                // What alternates counts in every process alike, not as the last discovery happened to find it.
                () if has_settled && known.changes > 1 => true,
                () => known.is_served,
            };
        }
        self.is_settled |= has_settled;
        let is_settled = self.is_settled;
        self.kinds.retain(|_, known| known.counts || known.is_served || !is_settled);
    }

    /// Leaves out the time since the last discovery beyond [`LONGEST_GAP`]. All that was found stays earlier than this
    /// discovery.
    fn leave_out_outage(&mut self, at: Instant) {
        let outage = at.saturating_duration_since(self.last).saturating_sub(LONGEST_GAP);
        self.began += outage;
        self.kinds.values_mut().for_each(|known| known.since += outage);
        self.last = at;
    }

    /// Returns what counts.
    pub(super) fn counts(&self) -> impl Iterator<Item = &K> {
        self.kinds.iter().filter(|(_, known)| known.counts).map(|(kind, _)| kind)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(30);

    /// Adds discoveries from this one on, each of which finds the next of these texts, a kind for each letter. Returns
    /// what counts after the last of so many, and whether that has settled.
    fn add(settling: &mut Settling<char>, start: Instant, from: u32, found: &[&str], times: u32) -> (String, bool) {
        for (at, one) in (from..from + times).zip(found.iter().cycle()) {
            settling.add(one.chars(), start + PERIOD * at, |_| false);
        }
        (settling.counts().collect(), settling.is_settled())
    }

    #[test]
    fn a_kind_counts_once_it_is_found_for_minutes_whatever_others_do() {
        let start = Instant::now();
        let mut settling = Settling::begin(start);
        for (from, found, times, expected) in [
            // Until then, the last discovery counts.
            (0, vec!["ab"], 1, ("ab", false)),
            (1, vec!["a", "ab"], 3, ("a", false)),
            (4, vec!["ab", "a"], 7, ("ab", true)),
            // A kind appears while another comes and goes.
            (11, vec!["ac", "abc"], 10, ("ab", true)),
            (21, vec!["ac", "abc"], 1, ("abc", true)),
            (22, vec!["abc", "ac"], 60, ("abc", true)),
            // It goes.
            (82, vec!["ab", "a"], 10, ("abc", true)),
            (92, vec!["ab"], 1, ("ab", true)),
            (93, vec!["a"], 10, ("ab", true)),
            (103, vec!["a"], 1, ("a", true)),
            (104, vec!["ad", "a"], 60, ("a", true)),
        ] {
            let (counts, is_settled) = add(&mut settling, start, from, &found, times);
            assert_eq!((counts.as_str(), is_settled), expected, "from {from}");
        }
        (0..100).for_each(|_| settling.add("b".chars(), start + PERIOD * 164, |_| false));
        assert_eq!(settling.counts().collect::<String>(), "a", "nothing was discovered since");
    }

    #[test]
    fn what_discovery_could_not_tell_before_counts_at_once() {
        let start = Instant::now();
        for (was_unknown, expected) in [(false, "a"), (true, "ab")] {
            let mut settling = Settling::begin(start);
            add(&mut settling, start, 0, &["a"], 20);
            settling.add("ab".chars(), start + PERIOD * 20, |_| was_unknown);
            assert_eq!(settling.counts().collect::<String>(), expected);
            assert_eq!(add(&mut settling, start, 21, &["a", "ab"], 8).0, expected, "it comes and goes");
        }
    }

    #[test]
    fn the_time_of_an_outage_settles_nothing() {
        let start = Instant::now();
        let mut settling = Settling::begin(start);
        assert_eq!(add(&mut settling, start, 0, &["ab"], 1), ("ab".to_owned(), false));
        assert_eq!(add(&mut settling, start, 11, &["a"], 1), ("a".to_owned(), false));

        let mut settling = Settling::begin(start);
        for (from, times, expected) in [
            (0, 11, "ab"),
            // Of each outage, as much counts as of a gap without one.
            (20, 1, "ab"),
            (40, 1, "ab"),
            (60, 1, "ab"),
            (80, 1, "ab"),
            (81, 1, "a"),
        ] {
            let found = if from == 0 { "ab" } else { "a" };
            assert_eq!(add(&mut settling, start, from, &[found], times), (expected.to_owned(), true), "from {from}");
        }
    }

    #[test]
    fn what_alternates_from_the_start_counts_whatever_the_last_discovery_finds() {
        for found in [["ab", "a"], ["a", "ab"]] {
            let start = Instant::now();
            let mut settling = Settling::begin(start);
            assert_eq!(add(&mut settling, start, 0, &found, 11), ("ab".to_owned(), true), "{found:?}");
        }
        for (last, expected) in [("ab", "ab"), ("a", "a")] {
            let start = Instant::now();
            let mut settling = Settling::begin(start);
            let first = if last == "a" { "ab" } else { "a" };
            add(&mut settling, start, 0, &[first], 5);
            let changed = add(&mut settling, start, 5, &[last], 6);
            assert_eq!(changed, (expected.to_owned(), true), "it changed once");
        }
    }
}
