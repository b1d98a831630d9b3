//! The memory of the process's actions that may wait for long. Each reserves its part before it begins, until its
//! reconcile ends. Actions that lack room queue, and the room that the first in line needs is not given to others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outside::sync::lock;
use tokio::time::Instant;

/// The size of the room, in bytes, in a container with a limit of 128 MiB or less.
const LEAST: usize = 16 << 20;
/// The size of the room at most, and without a limit.
const MOST: usize = 256 << 20;
/// How long a resource keeps its place in line without looking for room: twice the interval at which it looks.
const PATIENCE: Duration = Duration::from_secs(60);

/// Room for actions that may wait for long, in bytes by namespace. One namespace has at most half of it.
#[derive(Clone, Debug)]
pub(crate) struct ActionRoom(Arc<MemoryPool>);

#[derive(Debug)]
struct MemoryPool {
    size: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: BTreeMap<Arc<str>, usize>,
    /// The actions that wait for room, oldest first.
    line: Vec<InLine>,
}

/// The place of a resource in line.
#[derive(Debug)]
struct InLine {
    uid: Arc<str>,
    namespace: Arc<str>,
    bytes: usize,
    looked: Instant,
}

/// A part of the room, which is free again once this is dropped.
#[derive(Debug)]
struct Reserved {
    room: ActionRoom,
    namespace: Arc<str>,
    bytes: usize,
}

/// The resource that an action is for, and when it looks for room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guest<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) now: Instant,
}

/// Whether an action has begun before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActionStart {
    /// It has written nothing, and can wait for room.
    New,
    /// It continues an action that began with room in an earlier reconcile. It continues even without room: a hook that
    /// it waited for may have failed, and may be deleted before anyone notices.
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
        ActionRoom(Arc::new(MemoryPool { size, state: Mutex::default() }))
    }

    /// Returns whether there is room for a resource's action. An action in line keeps its place.
    pub(crate) fn admits(&self, guest: Guest<'_>, bytes: usize) -> bool {
        let mut state = lock(&self.0.state);
        state.leave_if(|one| guest.now - one.looked > PATIENCE);
        state.line.iter_mut().filter(|one| *one.uid == *guest.uid).for_each(|one| one.looked = guest.now);
        state.fits(self.0.size, guest, self.capped(bytes))
    }

    /// Takes a part, or a place in line.
    fn take(&self, guest: Guest<'_>, bytes: usize, start: ActionStart) -> Option<Reserved> {
        let bytes = self.capped(bytes);
        let mut state = lock(&self.0.state);
        state.leave_if(|one| guest.now - one.looked > PATIENCE);
        if start == ActionStart::New && !state.fits(self.0.size, guest, bytes) {
            state.stand(guest, bytes);
            return None;
        }
        state.leave_if(|one| *one.uid == *guest.uid);
        let namespace: Arc<str> = guest.namespace.into();
        *state.used.entry(namespace.clone()).or_default() += bytes;
        Some(Reserved { room: self.clone(), namespace, bytes })
    }

    /// Gives up a resource's place in line.
    pub(crate) fn leave(&self, guest: Guest<'_>) {
        lock(&self.0.state).leave_if(|one| *one.uid == *guest.uid);
    }

    /// Returns the part of an action's memory that counts: an action larger than its namespace's share runs alone
    /// there.
    fn capped(&self, bytes: usize) -> usize {
        bytes.min(self.0.size / 2)
    }
}

impl State {
    /// Returns whether there is room in addition to what is used and what is kept for actions ahead in line. In a
    /// namespace, room is kept for its first action; in the whole process, for the first action whose namespace has
    /// room. Otherwise, small actions could keep a large one out forever, or the line of a full namespace could keep
    /// out all others.
    fn fits(&self, size: usize, guest: Guest<'_>, bytes: usize) -> bool {
        let used = |namespace: &str| self.used.get(namespace).copied().unwrap_or_default();
        let has_own_room = |one: &InLine| used(&one.namespace) + one.bytes <= size / 2;
        let kept = |is_first: &dyn Fn(&InLine) -> bool| {
            let mut ahead = self.line.iter().take_while(|one| *one.uid != *guest.uid);
            ahead.find(|one| is_first(one)).map_or(0, |one| one.bytes)
        };
        let own = used(guest.namespace) + kept(&|one| *one.namespace == *guest.namespace);
        let all = self.used.values().sum::<usize>() + kept(&has_own_room);
        own + bytes <= size / 2 && all + bytes <= size
    }

    /// Puts a resource in line, or lets it keep its place there.
    fn stand(&mut self, guest: Guest<'_>, bytes: usize) {
        match self.line.iter_mut().find(|one| *one.uid == *guest.uid) {
            Some(one) => (one.bytes, one.looked) = (bytes, guest.now),
            None => {
                let (uid, namespace) = (guest.uid.into(), guest.namespace.into());
                self.line.push(InLine { uid, namespace, bytes, looked: guest.now });
            }
        }
    }

    fn leave_if(&mut self, leaves: impl Fn(&InLine) -> bool) {
        self.line.retain(|one| !leaves(one));
    }
}

impl Reservation {
    /// Releases the present reservation, and reserves this many bytes instead; `None` needs no room. Returns whether
    /// there was room; if not, the resource queues.
    pub(crate) fn replace(
        &self,
        room: &ActionRoom,
        guest: Guest<'_>,
        bytes: Option<usize>,
        start: ActionStart,
    ) -> bool {
        let mut held = lock(&self.0);
        *held = None;
        let Some(bytes) = bytes else {
            room.leave(guest);
            return true;
        };
        *held = room.take(guest, bytes, start);
        held.is_some()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut state = lock(&self.room.0.state);
        if let Some(bytes) = state.used.get_mut(&self.namespace) {
            *bytes -= self.bytes;
        }
        state.used.retain(|_, bytes| *bytes > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn is_empty(room: &ActionRoom) -> bool {
        lock(&room.0.state).used.is_empty()
    }

    /// Returns the resource with this name, in the namespace that its first letter names.
    fn of(name: &str) -> Guest<'_> {
        Guest { namespace: &name[..1], uid: name, now: Instant::now() }
    }

    #[test]
    fn a_namespace_has_at_most_half_and_all_together_the_whole() {
        let room = ActionRoom::of(100);
        let mut held =
            vec![room.take(of("a"), 30, ActionStart::New).unwrap(), room.take(of("a"), 20, ActionStart::New).unwrap()];
        assert!(!room.admits(of("a"), 1));
        held.push(room.take(of("b"), 40, ActionStart::New).unwrap());
        assert!(room.admits(of("b"), 10) && !room.admits(of("b"), 11));
        assert!(room.admits(of("c"), 10) && !room.admits(of("c"), 11));
        held.remove(0);
        assert!(room.admits(of("a"), 30) && !room.admits(of("a"), 31));
        assert!(room.admits(of("c"), 40) && !room.admits(of("c"), 41));
        drop(held);
        assert!(is_empty(&room));
    }

    #[test]
    fn an_action_that_is_larger_than_a_namespaces_part_runs_alone_there() {
        let room = ActionRoom::of(100);
        let small = room.take(of("a"), 1, ActionStart::New);
        assert!(!room.admits(of("a"), 1000));
        drop(small);
        let large = room.take(of("a"), 1000, ActionStart::New);
        assert!(large.is_some() && !room.admits(of("a"), 1));
        let other = room.take(of("b"), 1000, ActionStart::New);
        assert!(other.is_some() && !room.admits(of("c"), 1));
    }

    #[test]
    fn an_action_that_has_begun_goes_on_without_room_and_others_wait_for_what_it_exceeds() {
        let room = ActionRoom::of(100);
        let held = room.take(of("a"), 50, ActionStart::New);
        let begun = room.take(of("a"), 20, ActionStart::Begun);
        assert!(held.is_some() && begun.is_some());
        assert!(room.admits(of("b"), 30) && !room.admits(of("b"), 31));
        drop(held);
        assert!(room.admits(of("a"), 30) && !room.admits(of("a"), 31));
        drop(begun);
        assert!(is_empty(&room));
    }

    #[test]
    fn a_reconcile_gives_back_what_it_held_before_it_reserves_again() {
        let (room, reservation) = (ActionRoom::of(100), Reservation::default());
        assert!(reservation.replace(&room, of("a"), Some(50), ActionStart::New));
        assert!(reservation.replace(&room, of("a"), Some(40), ActionStart::New));
        assert!(!Reservation::default().replace(&room, of("a"), Some(20), ActionStart::New));
        assert!(Reservation::default().replace(&room, of("a"), None, ActionStart::New), "which needs no room");
        assert!(reservation.replace(&room, of("a"), None, ActionStart::New) && is_empty(&room));
        assert!(reservation.replace(&room, of("a"), Some(10), ActionStart::New));
        drop(reservation);
        assert!(is_empty(&room));
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_first_in_line_needs_is_kept_free_for_it() {
        let room = ActionRoom::of(100);
        let small = [room.take(of("a1"), 20, ActionStart::New), room.take(of("a2"), 20, ActionStart::New)];
        assert!(room.take(of("a-large"), 30, ActionStart::New).is_none());
        assert!(room.take(of("a3"), 10, ActionStart::New).is_none(), "although there are ten");
        assert!(room.take(of("b1"), 40, ActionStart::New).is_some(), "whose namespace is another");
        let [first, second] = small;
        drop(first);
        assert!(!room.admits(of("a3"), 10) && room.admits(of("a-large"), 30));
        let large = room.take(of("a-large"), 30, ActionStart::New);
        assert!(large.is_some() && !room.admits(of("a3"), 1));
        drop((second, large));
        assert!(room.admits(of("a4"), 40) && !room.admits(of("a4"), 41), "the next in line is kept ten");
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_keeps_others_out_of_the_whole_only_if_its_namespace_has_room() {
        let room = ActionRoom::of(100);
        let full = room.take(of("a1"), 50, ActionStart::New);
        assert!(full.is_some() && room.take(of("a2"), 50, ActionStart::New).is_none());
        assert!(room.admits(of("b"), 50), "which the second of the other could not get");
        let other = room.take(of("b1"), 30, ActionStart::New);
        assert!(other.is_some() && room.take(of("c1"), 30, ActionStart::New).is_none());
        assert!(!room.admits(of("d"), 10) && room.admits(of("c1"), 20), "it is kept for the first");
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_in_line_is_lost_by_who_looks_no_more_or_needs_none() {
        let room = ActionRoom::of(100);
        let held = room.take(of("a1"), 40, ActionStart::New);
        assert!(held.is_some() && room.take(of("a2"), 20, ActionStart::New).is_none());
        for _ in 0..4 {
            tokio::time::advance(PATIENCE / 2).await;
            assert!(!room.admits(of("a2"), 20) && !room.admits(of("a3"), 10));
        }
        tokio::time::advance(PATIENCE + Duration::from_secs(1)).await;
        assert!(room.admits(of("a3"), 10));
        assert!(room.take(of("a2"), 20, ActionStart::New).is_none() && !room.admits(of("a3"), 10));
        assert!(Reservation::default().replace(&room, of("a2"), None, ActionStart::New) && room.admits(of("a3"), 10));
        assert!(room.take(of("a2"), 20, ActionStart::New).is_none() && !room.admits(of("a3"), 10));
        drop(room.take(of("a2"), 20, ActionStart::Begun));
        assert!(room.admits(of("a3"), 10));
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
