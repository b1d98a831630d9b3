//! Decides when a cached entry is stale: once a complete list of its scope does not contain it.
//!
//! Our own writes are readable at once: the response to a write counts immediately, and an older event does not undo
//! it. A list that started before the write may not contain the object; then its event follows. A write that stays
//! unconfirmed for a while is read back, because someone may have undone it before the watch started.

use std::time::Duration;

use tokio::time::Instant;

/// How long the event of our own write may take. Events take milliseconds; reading the object costs one request.
pub const CONFIRMATION: Duration = Duration::from_secs(10);

/// A list of a stream, with all events until the next list.
#[derive(Clone, Copy, Debug)]
pub struct Epoch {
    /// Counts the stream's lists, starting at 1.
    pub number: u64,
    /// When the list started.
    pub began: Instant,
    /// Whether the list is still running. Its objects are current, unless a newer version of them is known.
    pub is_list: bool,
}

/// When an entry was last confirmed. By default, no list contained it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The last epoch that contained it; 0 if none did.
    epoch: u64,
    /// When we wrote it, until an event confirms it.
    wrote: Option<Instant>,
}

impl Stamp {
    /// Creates the stamp of an entry from a watch.
    pub fn seen(epoch: Epoch) -> Stamp {
        Stamp { epoch: epoch.number, wrote: None }
    }

    /// Creates the stamp of an entry from the response to our own write. `known` is the stamp of the entry that it
    /// replaces.
    pub fn written(known: Option<Stamp>) -> Stamp {
        Stamp { epoch: known.map_or(0, |k| k.epoch), wrote: Some(Instant::now()) }
    }

    /// Returns the stamp for an item from a watch (`epoch`) or from the response to our own write (no epoch). `known`
    /// is the stamp of the existing entry and, if it is the same object, its version. Returns `None` if the existing
    /// entry is at least as new; then only its stamp changes. A list that started later wins even with a lower version,
    /// because the server was restored from a backup.
    pub fn of_newer(known: Option<(&mut Stamp, Option<u64>)>, version: u64, epoch: Option<Epoch>) -> Option<Stamp> {
        match (known, epoch) {
            (Some((stamp, Some(at))), Some(list)) if at > version && stamp.is_older_than(list) => {
                Some(Stamp::seen(list))
            }
            (Some((stamp, Some(at))), epoch) if at >= version => {
                if let Some(epoch) = epoch {
                    *stamp = if at == version { Stamp::seen(epoch) } else { stamp.overtaken(epoch) };
                }
                None
            }
            (_, Some(epoch)) => Some(Stamp::seen(epoch)),
            (known, None) => Some(Stamp::written(known.map(|(stamp, _)| *stamp))),
        }
    }

    /// Returns the stamp after the watch has seen an older version, which our own write has overtaken. It confirms
    /// nothing.
    fn overtaken(self, epoch: Epoch) -> Stamp {
        Stamp { epoch: epoch.number, ..self }
    }

    /// Returns the stamp after the server has confirmed the entry.
    pub fn confirmed(self) -> Stamp {
        Stamp { wrote: None, ..self }
    }

    /// Returns whether the entry was known before the start of a list that is still running.
    pub fn is_older_than(self, list: Epoch) -> bool {
        list.is_list && self.epoch != list.number && self.wrote.is_none_or(|wrote| wrote < list.began)
    }

    /// Returns whether the entry remains at the end of a list that covers it.
    pub fn survives(self, list: Epoch) -> bool {
        self.epoch == list.number || self.wrote.is_some_and(|wrote| wrote >= list.began)
    }

    /// Returns when to check a write of ours that no event has confirmed.
    pub fn ask_at(self) -> Option<Instant> {
        self.wrote.map(|wrote| wrote + CONFIRMATION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(number: u64) -> Epoch {
        Epoch { number, began: Instant::now(), is_list: true }
    }

    #[tokio::test(start_paused = true)]
    async fn a_smaller_version_counts_only_in_a_list_that_began_later() {
        let mut seen = Stamp::seen(epoch(1));
        let early = Stamp::written(Some(seen));
        tokio::time::advance(Duration::from_secs(1)).await;
        let list = epoch(2);
        tokio::time::advance(Duration::from_secs(1)).await;
        let event = Epoch { is_list: false, ..list };
        for (what, mut known, at, version, epoch, wins) in [
            ("listed, seen before", seen, 9, 5, list, true),
            ("listed, written before", early, 9, 5, list, true),
            ("listed, written while the list ran", Stamp::written(Some(seen)), 9, 5, list, false),
            ("an event", seen, 9, 5, event, false),
            ("the same version", seen, 5, 5, list, false),
            ("a newer version", seen, 5, 9, list, true),
            ("seen in this list", Stamp::seen(list), 9, 5, list, false),
        ] {
            let newer = Stamp::of_newer(Some((&mut known, Some(at))), version, Some(epoch));
            assert_eq!(newer.is_some(), wins, "{what}");
        }
        assert!(Stamp::of_newer(Some((&mut seen, Some(9))), 5, None).is_none(), "an answer to an older write");
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_survives_a_list_that_has_it_or_began_before_our_write() {
        let early = Stamp::written(None);
        tokio::time::advance(Duration::from_secs(1)).await;
        let list = epoch(3);
        tokio::time::advance(Duration::from_secs(1)).await;
        let late = Stamp::written(None);
        for (what, stamp, survives) in [
            ("in the list", Stamp::seen(list), true),
            ("in the list before", Stamp::seen(epoch(2)), false),
            ("written before the list", early, false),
            ("written before and listed", early.overtaken(list), true),
            ("written while it ran", late, true),
            ("seen before, written while it ran", Stamp::written(Some(Stamp::seen(epoch(2)))), true),
            ("seen in the list, written later", Stamp::written(Some(Stamp::seen(list))), true),
        ] {
            assert_eq!(stamp.survives(list), survives, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_our_own_write_without_an_event_is_read_back() {
        assert_eq!(Stamp::seen(epoch(1)).ask_at(), None);
        let wrote = Stamp::written(Some(Stamp::seen(epoch(1))));
        assert_eq!(wrote.ask_at(), Some(Instant::now() + CONFIRMATION));
        assert_eq!(wrote.overtaken(epoch(2)).ask_at(), wrote.ask_at());
    }
}
