//! Limits how many upgrades of one watch run at a time when something outside their resources changes: the chart, override values, a source of values.
//!
//! A place is kept until the release is ready with what it was upgraded to. An upgrade that fails keeps its place, and so does one that leaves a ready
//! release stalled: a broken chart stops after the first few. A release that was not ready before gives its place up once it is stalled, for the
//! upgrade did not break it. Nobody waits for a place with a worker.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use helm_release::storage::Before;

use super::compare;
use super::state::Place;
use crate::reconcile::context::{Next, Work};
use crate::status::{Condition, Health, Status, condition};
use crate::view::primary::{Primary, ResourceKey};
use crate::view::release::Release;

/// The reason of a failed upgrade in the status.
pub(crate) const FAILED: &str = "UpgradeError";

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
    fn note_ailing(&self, key: &ResourceKey) {
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

    fn is_ailing(&self, key: &ResourceKey) -> bool {
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

impl Work<'_> {
    /// The place that an upgrade needs. One that a person asked for needs none.
    pub(crate) fn place(&self, primary: &Primary, release: Option<&Release>) -> Place {
        let rollout = &self.shared.rollout;
        let is_free = !rollout.is_limited()
            || rollout.holds(self.key)
            || self.full_reconcile(primary).is_some()
            || !self.is_from_outside(primary, release);
        match is_free {
            true => Place::Free,
            false if self.in_line => Place::InLine,
            false => Place::Wanted,
        }
    }

    /// Takes a place, or gets in line for one. No worker waits for it: whoever leaves wakes the next.
    pub(crate) fn get_in_line(&mut self) -> Next {
        self.in_line = !self.shared.rollout.take(self.key);
        Next::Again
    }

    /// Notes that an upgrade begins. One that an earlier process began takes a place although none may be free.
    pub(crate) fn begin_upgrade(&self, primary: &Primary, release: Option<&Release>) {
        if self.is_from_outside(primary, release) && self.full_reconcile(primary).is_none() {
            self.shared.rollout.claim(self.key);
            let is_resumed = release.and_then(Release::newest).is_some_and(|(_, newest)| newest.status.is_pending());
            let is_first = !is_resumed && self.shared.cache.history(self.key).fault().is_none();
            if is_first && primary.status.find(condition::READY).is_some_and(|ready| &*ready.status == "False") {
                self.shared.rollout.note_ailing(self.key);
            }
        }
    }

    /// Whether the resource itself is as it was when its deployed revision was made, but something outside is not.
    fn is_from_outside(&self, primary: &Primary, release: Option<&Release>) -> bool {
        let marks = release.and_then(Release::deployed).and_then(|(_, revision)| revision.marks.as_ref());
        marks.is_some_and(|marks| compare::is_from_outside(&marks.inputs, &self.inputs_digest(primary)))
    }

    /// Gives the place back once the release is as it should be, or nobody works on it.
    pub(crate) fn leave_rollout(&self, primary: &Primary, health: Option<&Health>) {
        let rollout = &self.shared.rollout;
        if !rollout.is_limited() || !(rollout.holds(self.key) || rollout.is_waiting(self.key)) {
            return;
        }
        let idle = primary.deleting || primary.annotations.suspend() || primary.annotations.pause();
        let history = self.shared.cache.history(self.key);
        let fault = history.fault();
        // Nothing was changed by a chart that does not render, unless an earlier attempt did.
        let has_begun = self.release().as_deref().and_then(Release::newest).is_some_and(|(_, r)| r.status.is_pending());
        let never_began = !has_begun && fault.is_some_and(|fault| fault.condition == condition::IRRECONCILABLE);
        let settled = fault.is_none() && health == Some(&Health::Ready) && self.has_current_inputs(primary);
        let stalled = matches!(health, Some(Health::TimedOut(_) | Health::Failed(_))) && rollout.is_ailing(self.key);
        if idle || never_began || settled || stalled {
            self.shared.leave_rollout(self.key);
        }
    }

    fn has_current_inputs(&self, primary: &Primary) -> bool {
        let release = self.release();
        let marks = release.as_ref().and_then(|r| r.deployed()).and_then(|(_, revision)| revision.marks.as_ref());
        marks.is_some_and(|marks| compare::is_equal(&marks.inputs, &self.inputs_digest(primary)))
    }
}

/// How a release was before an upgrade that keeps its place over a restart, because it failed, is unfinished, or left the release unready; `None` if no
/// upgrade does. `own` is the digest of the resource's own part: if that changed since, the next upgrade needs no place.
pub(crate) fn unfinished(release: &Release, own: &str, status: &Status) -> Option<Before> {
    let deployed = release.deployed()?.1.marks.as_ref()?;
    let newest = release.newest()?.1;
    let before = newest.marks.as_ref().and_then(|marks| marks.before);
    let has_failed = |c: &Condition| *c.status == *"True" && *c.reason == *FAILED;
    let unfinished = if status.find(condition::RELEASE_FAILED).is_some_and(has_failed) {
        before.or(Some(Before::Ready))
    } else if newest.status.is_pending() || status.find(condition::READY).is_none_or(|ready| *ready.status != *"True") {
        before
    } else {
        None
    };
    unfinished.filter(|_| compare::has_own(&deployed.inputs, own))
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
