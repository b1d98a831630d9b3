//! How long a cached entry may be believed: until the stream that covers it has listed without it.
//!
//! The rule for reading one's own writes: the answer to a write counts at once, and an event that is older than it does not undo it. A
//! list that began before the write may lack it; then its event follows. An own write that no event has confirmed for a while is
//! asked for, because somebody may have undone it before the stream began to look.

use std::time::Duration;

use tokio::time::Instant;

/// How long the event of an own write may take. Events take milliseconds; asking again costs one request.
pub(super) const CONFIRMATION: Duration = Duration::from_secs(10);

/// One list of a stream, and all events up to the next list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    /// Counts the lists of the stream, from 1.
    pub(super) number: u64,
    /// When the list began.
    pub(super) began: Instant,
}

/// When an entry was last known to be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The list, or the events after it, that had it; 0 if none did.
    epoch: u64,
    /// When we wrote it, until an event confirms it.
    wrote: Option<Instant>,
}

impl Stamp {
    /// An entry that a stream told.
    pub(super) fn seen(epoch: Epoch) -> Stamp {
        Stamp { epoch: epoch.number, wrote: None }
    }

    /// An entry from the answer to our own write. `known` is the stamp of what it replaces.
    pub(super) fn written(known: Option<Stamp>) -> Stamp {
        Stamp { epoch: known.map_or(0, |k| k.epoch), wrote: Some(Instant::now()) }
    }

    /// The stamp of an item that a stream brings (`epoch`) or that answers our own write (none), over the known entry with its stamp and, if
    /// it compares, its version. `None` if the entry is as new: then only its stamp changes.
    pub(super) fn of_newer(
        known: Option<(&mut Stamp, Option<u64>)>,
        version: u64,
        epoch: Option<Epoch>,
    ) -> Option<Stamp> {
        match (known, epoch) {
            (Some((stamp, Some(at))), epoch) if at >= version => {
                if let Some(epoch) = epoch {
                    *stamp = stamp.told(epoch, at == version);
                }
                None
            }
            (_, Some(epoch)) => Some(Stamp::seen(epoch)),
            (known, None) => Some(Stamp::written(known.map(|(stamp, _)| *stamp))),
        }
    }

    /// The same entry, told by the stream again. An older version of it, which our own write has overtaken, confirms nothing.
    pub(super) fn told(self, epoch: Epoch, is_current: bool) -> Stamp {
        Stamp { epoch: epoch.number, wrote: self.wrote.filter(|_| !is_current) }
    }

    /// The same entry, after the server was asked and has it.
    pub(super) fn confirmed(self) -> Stamp {
        Stamp { wrote: None, ..self }
    }

    /// Whether the entry is still believed at the end of a list that covers it.
    pub(super) fn survives(self, list: Epoch) -> bool {
        self.epoch == list.number || self.wrote.is_some_and(|wrote| wrote >= list.began)
    }

    /// When an own write that no event has confirmed is to be asked for.
    pub(super) fn ask_at(self) -> Option<Instant> {
        self.wrote.map(|wrote| wrote + CONFIRMATION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(number: u64) -> Epoch {
        Epoch { number, began: Instant::now() }
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_survives_a_list_that_had_it_or_that_began_before_we_wrote_it() {
        let early = Stamp::written(None);
        tokio::time::advance(Duration::from_secs(1)).await;
        let list = epoch(3);
        tokio::time::advance(Duration::from_secs(1)).await;
        let late = Stamp::written(None);
        for (what, stamp, survives) in [
            ("in the list", Stamp::seen(list), true),
            ("in the list before", Stamp::seen(epoch(2)), false),
            ("written before the list", early, false),
            ("written before and listed", early.told(list, false), true),
            ("written while it ran", late, true),
            ("seen before, written while it ran", Stamp::written(Some(Stamp::seen(epoch(2)))), true),
            ("seen in the list, written later", Stamp::written(Some(Stamp::seen(list))), true),
        ] {
            assert_eq!(stamp.survives(list), survives, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_own_write_without_its_event_is_asked_for() {
        assert_eq!(Stamp::seen(epoch(1)).ask_at(), None);
        let wrote = Stamp::written(Some(Stamp::seen(epoch(1))));
        assert_eq!(wrote.ask_at(), Some(Instant::now() + CONFIRMATION));
        assert_eq!(wrote.told(epoch(2), false).ask_at(), wrote.ask_at());
        assert_eq!(wrote.told(epoch(2), true).ask_at(), None);
    }
}
