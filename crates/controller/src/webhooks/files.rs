//! A user's certificate files as they change: which pair to serve, and which authorities to trust.
//!
//! A new authority is trusted before its certificate is served, and the one before it stays trusted until the next
//! change: replicas see a change of a mounted Secret up to a minute apart, and only the leader publishes the bundle.

use std::time::Duration;

use tokio::time::Instant;

/// How long the pair of a new authority waits until it is served: the slowest mount, and the configurations after it.
pub(super) const SETTLE: Duration = Duration::from_secs(120);

/// A chain and its key, as PEM.
pub(super) type Pair = [Vec<u8>; 2];

/// What has been read so far.
#[derive(Default)]
pub(super) struct Files {
    /// The authority of the newest files; empty if others provide the bundle.
    authority: String,
    /// The authority before it; empty if there was none.
    previous: String,
    /// The newest pair, and when it is served.
    waiting: Option<(Pair, Instant)>,
}

impl Files {
    /// Takes over the chain, the key and the authority of changed files. Returns the pair to serve at once.
    pub(super) fn change(&mut self, [chain, key, authority]: [Vec<u8>; 3], now: Instant) -> Option<Pair> {
        let (pair, authority) = ([chain, key], String::from_utf8_lossy(&authority).into_owned());
        if authority == self.authority {
            return match &mut self.waiting {
                Some((waiting, _)) => {
                    *waiting = pair;
                    None
                }
                None => Some(pair),
            };
        }
        let before = std::mem::replace(&mut self.authority, authority);
        if before.is_empty() || self.authority.is_empty() {
            self.waiting = None;
            return Some(pair);
        }
        self.previous = before;
        // A pair that is still waiting now has the previous authority; the authority of the pair that it should have
        // replaced is no longer trusted.
        self.waiting.replace((pair, now + SETTLE)).map(|(overdue, _)| overdue)
    }

    /// Returns the pair whose time to be served has come, once.
    pub(super) fn due(&mut self, now: Instant) -> Option<Pair> {
        self.waiting.take_if(|(_, at)| *at <= now).map(|(pair, _)| pair)
    }

    /// Returns the authorities to trust, the newest first; nothing if others provide them.
    pub(super) fn bundle(&self) -> String {
        if self.authority.is_empty() || self.previous.is_empty() {
            return self.authority.clone();
        }
        format!("{}\n{}", self.authority.trim_end(), self.previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pair: &str, authority: &str) -> [Vec<u8>; 3] {
        [pair, pair, authority].map(|text| text.as_bytes().to_vec())
    }

    fn name(pair: Option<Pair>) -> String {
        pair.map(|[chain, _]| String::from_utf8(chain).unwrap()).unwrap_or_default()
    }

    #[test]
    fn a_new_authority_is_trusted_beside_the_one_before_it_and_then_served() {
        let (mut files, start) = (Files::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        for (second, pair, authority, served, bundle) in [
            (0, "one", "A\n", "one", "A\n"),
            (10, "two", "A\n", "two", "A\n"),
            (20, "three", "B", "", "B\nA\n"),
            (30, "four", "B", "", "B\nA\n"),
        ] {
            assert_eq!(name(files.change(read(pair, authority), at(second))), served, "{second}");
            assert_eq!(files.bundle(), bundle, "{second}");
        }
        assert_eq!([139, 140, 141].map(|second| name(files.due(at(second)))), ["", "four", ""]);
        assert_eq!(name(files.change(read("five", "B"), at(150))), "five");
        assert_eq!(name(files.change(read("six", "C"), at(160))), "");
        assert_eq!(name(files.change(read("seven", "D"), at(170))), "six", "its authority is the previous one now");
        assert_eq!((files.bundle().as_str(), name(files.due(at(290)))), ("D\nC", "seven".into()));
    }

    #[test]
    fn without_an_authority_others_provide_the_bundle_and_nothing_waits() {
        let (mut files, now) = (Files::default(), Instant::now());
        for (pair, authority) in [("one", ""), ("two", ""), ("three", "A"), ("four", "")] {
            assert_eq!(name(files.change(read(pair, authority), now)), pair);
            assert_eq!(files.bundle(), authority);
        }
        assert!(files.due(now + SETTLE).is_none());
    }
}
