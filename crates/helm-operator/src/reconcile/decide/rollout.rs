//! Limits how many upgrades of one watch run at a time when something outside their resources changes: the chart, override values, a source of values.
//!
//! A place is kept until the release is ready with what it was upgraded to. An upgrade that fails keeps its place, and so does one that leaves a ready
//! release stalled: a broken chart stops after the first few. A release that was not ready before gives its place up once it is stalled, for the
//! upgrade did not break it. Nobody waits for a place with a worker.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use controller::runtime::key::ResourceKey;
use helm_release::storage::Before;

use super::inputs;
use crate::status::reason::Reason;
use crate::status::{Condition, Status, condition};
use crate::view::release::Release;

/// The places of one controller.
pub(crate) struct Rollout {
    /// How many there are; 0 for no limit.
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holders: HashSet<ResourceKey>,
    /// Those of the holders whose release was not ready before.
    ailing: HashSet<ResourceKey>,
    waiting: VecDeque<ResourceKey>,
    queued: HashSet<ResourceKey>,
}

impl Rollout {
    pub(crate) fn new(limit: usize) -> Rollout {
        Rollout { limit, state: Mutex::default() }
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limit > 0
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn holds(&self, key: &ResourceKey) -> bool {
        self.state().holders.contains(key)
    }

    pub(crate) fn is_waiting(&self, key: &ResourceKey) -> bool {
        self.state().queued.contains(key)
    }

    /// Takes a place, or waits in line for one; returns whether it was taken.
    pub(crate) fn take(&self, key: &ResourceKey) -> bool {
        let mut state = self.state();
        let is_free = state.holders.contains(key) || state.holders.len() < self.limit;
        if is_free {
            state.leave_line(key);
            state.holders.insert(key.clone());
        } else if state.queued.insert(key.clone()) {
            state.waiting.push_back(key.clone());
        }
        is_free
    }

    /// Takes a place even if none is free: the upgrade has begun already.
    pub(crate) fn claim(&self, key: &ResourceKey) {
        if self.is_limited() {
            let mut state = self.state();
            state.leave_line(key);
            state.holders.insert(key.clone());
        }
    }

    /// Takes the place that an upgrade of the previous process had.
    pub(crate) fn recall(&self, key: &ResourceKey, before: Before) {
        self.claim(key);
        if before == Before::Unready {
            self.note_ailing(key);
        }
    }

    /// Notes that a holder's release was not ready before its upgrade.
    pub(crate) fn note_ailing(&self, key: &ResourceKey) {
        let mut state = self.state();
        if state.holders.contains(key) {
            state.ailing.insert(key.clone());
        }
    }

    /// How a holder's release was before its upgrade.
    pub(crate) fn before(&self, key: &ResourceKey) -> Option<Before> {
        let state = self.state();
        let before = if state.ailing.contains(key) { Before::Unready } else { Before::Ready };
        state.holders.contains(key).then_some(before)
    }

    pub(crate) fn is_ailing(&self, key: &ResourceKey) -> bool {
        self.state().ailing.contains(key)
    }

    /// Leaves place and line. Returns the resources that got a place and have to be woken.
    pub(crate) fn leave(&self, key: &ResourceKey) -> Vec<ResourceKey> {
        let mut state = self.state();
        state.leave_line(key);
        state.holders.remove(key);
        state.ailing.remove(key);
        let mut next = Vec::new();
        while state.holders.len() < self.limit
            && let Some(first) = state.waiting.pop_front()
        {
            state.queued.remove(&first);
            state.holders.insert(first.clone());
            next.push(first);
        }
        next
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn leave_line(&mut self, key: &ResourceKey) {
        if self.queued.remove(key) {
            self.waiting.retain(|waiting| waiting != key);
        }
    }
}

/// How a release was before an upgrade that keeps its place over a restart, because it failed, is unfinished, or left the release unready; `None` if no
/// upgrade does. `own` is the digest of the resource's own part: if that changed since, the next upgrade needs no place.
pub(crate) fn unfinished(release: &Release, own: &str, status: &Status) -> Option<Before> {
    let deployed = release.deployed()?.1.marks.as_ref()?;
    let newest = release.newest()?.1;
    let before = newest.marks.as_ref().and_then(|marks| marks.before);
    let has_failed = |c: &Condition| *c.status == *"True" && *c.reason == Reason::UpgradeError;
    let unfinished = if status.find(condition::RELEASE_FAILED).is_some_and(has_failed) {
        before.or(Some(Before::Ready))
    } else if newest.status.is_pending() || status.find(condition::READY).is_none_or(|ready| *ready.status != *"True") {
        before
    } else {
        None
    };
    unfinished.filter(|_| inputs::has_own(&deployed.inputs, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ResourceKey {
        ResourceKey::new("ns", name)
    }

    #[test]
    fn places_are_given_in_order_and_a_resource_waits_once() {
        let rollout = Rollout::new(1);
        assert!(rollout.take(&key("a")) && rollout.take(&key("a")));
        for name in ["b", "c", "b"] {
            assert!(!rollout.take(&key(name)) && rollout.is_waiting(&key(name)));
        }
        assert_eq!(rollout.leave(&key("a")), [key("b")]);
        assert!(rollout.holds(&key("b")) && !rollout.is_waiting(&key("b")));
        assert_eq!(rollout.leave(&key("c")), [], "the line is shorter, but no place is free");
        assert_eq!(rollout.leave(&key("b")), []);
        assert!(rollout.take(&key("d")));
    }

    #[test]
    fn an_upgrade_that_has_begun_takes_a_place_beyond_the_limit() {
        let rollout = Rollout::new(1);
        assert!(rollout.take(&key("a")));
        assert!(!rollout.take(&key("b")) && !rollout.take(&key("c")));
        rollout.claim(&key("b"));
        assert_eq!(rollout.leave(&key("a")), [], "b has the only place");
        assert_eq!(rollout.leave(&key("b")), [key("c")]);
        Rollout::new(0).claim(&key("a"));
    }
}
