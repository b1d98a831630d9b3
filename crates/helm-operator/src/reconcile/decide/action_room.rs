//! The memory of the process's actions that may wait for long. Each reserves its part before it begins, until its
//! reconcile ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use outside::sync::lock;

/// The size of the room, in bytes, in a container with a limit of 128 MiB or less.
const LEAST: usize = 16 << 20;
/// The size of the room at most, and without a limit.
const MOST: usize = 256 << 20;

/// Room for actions that may wait for long, in bytes by namespace. One namespace has at most half of it.
#[derive(Clone, Debug)]
pub(crate) struct ActionRoom(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    size: usize,
    used: Mutex<BTreeMap<Arc<str>, usize>>,
}

/// A part of the room, which is free again once this is dropped.
#[derive(Debug)]
struct Reserved {
    room: ActionRoom,
    namespace: Arc<str>,
    bytes: usize,
}

/// Whether an action has begun before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It has written nothing, and can wait for room.
    New,
    /// It continues one that an earlier reconcile began with room. It goes on even without: what it waited for may have
    /// failed, and may be deleted before anybody looks.
    Begun,
}

/// What one reconcile holds of the room.
#[derive(Debug, Default)]
pub(crate) struct Reservation(Mutex<Option<Reserved>>);

impl ActionRoom {
    /// Creates the room of a process whose container has this memory limit: an eighth of it.
    pub(crate) fn within(limit: Option<u64>) -> ActionRoom {
        let eighth = |limit: u64| usize::try_from(limit / 8).unwrap_or(MOST);
        ActionRoom::of(limit.map_or(MOST, eighth).clamp(LEAST, MOST))
    }

    fn of(size: usize) -> ActionRoom {
        ActionRoom(Arc::new(Shared { size, used: Mutex::default() }))
    }

    /// Returns whether there is room for an action of this namespace.
    pub(crate) fn admits(&self, namespace: &str, bytes: usize) -> bool {
        self.fits(&lock(&self.0.used), namespace, self.capped(bytes))
    }

    fn take(&self, namespace: &str, bytes: usize, entry: Entry) -> Option<Reserved> {
        let bytes = self.capped(bytes);
        let mut used = lock(&self.0.used);
        if entry == Entry::New && !self.fits(&used, namespace, bytes) {
            return None;
        }
        let namespace: Arc<str> = namespace.into();
        *used.entry(namespace.clone()).or_default() += bytes;
        Some(Reserved { room: self.clone(), namespace, bytes })
    }

    /// Returns what counts of an action: one that is larger than a namespace's part runs alone there.
    fn capped(&self, bytes: usize) -> usize {
        bytes.min(self.0.size / 2)
    }

    fn fits(&self, used: &BTreeMap<Arc<str>, usize>, namespace: &str, bytes: usize) -> bool {
        let own = used.get(namespace).copied().unwrap_or_default();
        own + bytes <= self.0.size / 2 && used.values().sum::<usize>() + bytes <= self.0.size
    }
}

impl Reservation {
    /// Gives back what is held, and reserves this many bytes instead; `None` needs no room. Returns whether there was
    /// room.
    pub(crate) fn replace(&self, room: &ActionRoom, namespace: &str, bytes: Option<usize>, entry: Entry) -> bool {
        let mut held = lock(&self.0);
        *held = None;
        *held = bytes.and_then(|bytes| room.take(namespace, bytes, entry));
        bytes.is_none() || held.is_some()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut used = lock(&self.room.0.used);
        if let Some(bytes) = used.get_mut(&self.namespace) {
            *bytes -= self.bytes;
        }
        used.retain(|_, bytes| *bytes > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn is_empty(room: &ActionRoom) -> bool {
        lock(&room.0.used).is_empty()
    }

    #[test]
    fn a_namespace_has_at_most_half_and_all_together_the_whole() {
        let room = ActionRoom::of(100);
        let mut held = vec![room.take("a", 30, Entry::New).unwrap(), room.take("a", 20, Entry::New).unwrap()];
        assert!(!room.admits("a", 1) && room.take("a", 1, Entry::New).is_none());
        held.push(room.take("b", 40, Entry::New).unwrap());
        assert!(room.admits("b", 10) && !room.admits("b", 11));
        assert!(room.admits("c", 10) && !room.admits("c", 11));
        held.remove(0);
        assert!(room.admits("a", 30) && !room.admits("a", 31));
        assert!(room.admits("c", 40) && !room.admits("c", 41));
        drop(held);
        assert!(is_empty(&room));
    }

    #[test]
    fn an_action_that_is_larger_than_a_namespaces_part_runs_alone_there() {
        let room = ActionRoom::of(100);
        let small = room.take("a", 1, Entry::New);
        assert!(!room.admits("a", 1000));
        drop(small);
        let large = room.take("a", 1000, Entry::New);
        assert!(large.is_some() && !room.admits("a", 1));
        let other = room.take("b", 1000, Entry::New);
        assert!(other.is_some() && !room.admits("c", 1));
    }

    #[test]
    fn an_action_that_has_begun_goes_on_without_room_and_others_wait_for_what_it_exceeds() {
        let room = ActionRoom::of(100);
        let held = room.take("a", 50, Entry::New);
        let begun = room.take("a", 20, Entry::Begun);
        assert!(held.is_some() && begun.is_some());
        assert!(room.admits("b", 30) && !room.admits("b", 31));
        drop(held);
        assert!(room.admits("a", 30) && !room.admits("a", 31));
        drop(begun);
        assert!(is_empty(&room));
    }

    #[test]
    fn a_reconcile_gives_back_what_it_held_before_it_reserves_again() {
        let (room, reservation) = (ActionRoom::of(100), Reservation::default());
        assert!(reservation.replace(&room, "a", Some(50), Entry::New));
        assert!(reservation.replace(&room, "a", Some(40), Entry::New));
        assert!(!Reservation::default().replace(&room, "a", Some(20), Entry::New));
        assert!(Reservation::default().replace(&room, "a", None, Entry::New), "which needs no room");
        assert!(reservation.replace(&room, "a", None, Entry::New) && is_empty(&room));
        assert!(reservation.replace(&room, "a", Some(10), Entry::New));
        drop(reservation);
        assert!(is_empty(&room));
    }

    #[test]
    fn the_room_grows_with_the_containers_memory() {
        let size = |mib: Option<u64>| ActionRoom::within(mib.map(|mib| mib * MIB)).0.size >> 20;
        assert_eq!(size(Some(64)), 16);
        assert_eq!(size(Some(128)), 16, "operator-sdk's scaffold");
        assert_eq!(size(Some(512)), 64);
        assert_eq!((size(Some(1 << 20)), size(None)), (256, 256));
    }
}
