//! Limits how many upgrades of one watch run concurrently when something outside their resources changes: the chart,
//! override values or a value source.
//!
//! An upgrade keeps its slot until the release is ready with the new revision. An upgrade that fails keeps its slot,
//! and so does one that leaves a previously ready release stalled, so a broken chart stops after the first few
//! releases. A release that was not ready before gives its slot up once it is stalled, because the upgrade did not
//! break it. One that only its own sources of values change also gives its slot up once the upgrade fails: that is its
//! owner's doing, and must not stop all others. So does one that gets a slot while it has to wait for its turn in a
//! rollout or for a dependency. Waiting for a slot does not occupy a worker.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

use controller::runtime::key::ResourceKey;
use helm_release::release::Status as Outcome;
use helm_release::storage::Before;
use outside::sync;

use super::inputs;
use crate::status::reason::Reason;
use crate::status::{Condition, Status, condition};
use crate::view::release::{ReleaseRecords, Revision};

/// The upgrade slots of one controller.
pub(crate) struct Rollout {
    /// The number of slots; 0 means no limit.
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holders: HashSet<ResourceKey>,
    /// Holders whose release was already unready before the upgrade.
    ailing: HashSet<ResourceKey>,
    /// Holders whose upgrade only their own sources of values cause.
    by_sources: HashSet<ResourceKey>,
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

    /// Takes a slot, or queues for one; returns whether a slot was taken.
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

    /// Takes a slot even if none is free, because the upgrade has already started.
    pub(crate) fn claim(&self, key: &ResourceKey) {
        if self.is_limited() {
            let mut state = self.state();
            state.leave_line(key);
            state.by_sources.remove(key);
            state.holders.insert(key.clone());
        }
    }

    /// Restores the slot that an upgrade of the previous process had.
    pub(crate) fn restore(&self, key: &ResourceKey, before: Before) {
        self.claim(key);
        if before == Before::Unready {
            self.note_ailing(key);
        }
    }

    /// Records that a holder's release was already unready before its upgrade.
    pub(crate) fn note_ailing(&self, key: &ResourceKey) {
        let mut state = self.state();
        if state.holders.contains(key) {
            state.ailing.insert(key.clone());
        }
    }

    /// Records that only its own sources of values cause a holder's upgrade.
    pub(crate) fn note_by_sources(&self, key: &ResourceKey) {
        let mut state = self.state();
        if state.holders.contains(key) {
            state.by_sources.insert(key.clone());
        }
    }

    pub(crate) fn is_by_sources(&self, key: &ResourceKey) -> bool {
        self.state().by_sources.contains(key)
    }

    /// Returns whether a holder's release was ready before its upgrade.
    pub(crate) fn before(&self, key: &ResourceKey) -> Option<Before> {
        let state = self.state();
        let before = if state.ailing.contains(key) { Before::Unready } else { Before::Ready };
        state.holders.contains(key).then_some(before)
    }

    pub(crate) fn is_ailing(&self, key: &ResourceKey) -> bool {
        self.state().ailing.contains(key)
    }

    /// Releases the slot or queue position. Returns the resources that now hold a slot and must be requeued.
    pub(crate) fn leave(&self, key: &ResourceKey) -> Vec<ResourceKey> {
        let mut state = self.state();
        state.leave_line(key);
        state.holders.remove(key);
        state.ailing.remove(key);
        state.by_sources.remove(key);
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
        sync::lock(&self.state)
    }
}

impl State {
    fn leave_line(&mut self, key: &ResourceKey) {
        if self.queued.remove(key) {
            self.waiting.retain(|waiting| waiting != key);
        }
    }
}

/// Returns the state that a release had before an upgrade that keeps its slot across a restart, because it failed, is
/// unfinished, or left the release unready. Returns `None` if there is no such upgrade. `own` is the digest of the
/// resource's own part: if that has changed since, the next upgrade needs no slot.
pub(crate) fn unfinished(release: &ReleaseRecords, own: &str, status: &Status) -> Option<Before> {
    let deployed = release.deployed_marks()?;
    let (version, newest) = release.newest()?;
    let before = newest.marks.as_ref().and_then(|marks| marks.before);
    let has_failed = |c: &Condition| *c.status == *"True" && *c.reason == Reason::UpgradeError;
    let unfinished = if status.find(condition::RELEASE_FAILED).is_some_and(has_failed) {
        before.or_else(|| (!has_failed_by_sources(release, &deployed.inputs)).then_some(Before::Ready))
    } else if newest.status.is_pending() || !is_ready(status, version) {
        before
    } else {
        None
    };
    unfinished.filter(|_| inputs::has_own(&deployed.inputs, own))
}

/// Returns whether the last upgrade that failed differs from the deployed revision only in sources of values.
fn has_failed_by_sources(records: &ReleaseRecords, deployed: &str) -> bool {
    let is_failed = |one: &Revision| one.status == Outcome::Failed && one.is_sealed();
    let failed = records.revisions.iter().rev().find(|(_, one)| is_failed(one));
    let marks = failed.and_then(|(_, one)| one.marks.as_ref());
    marks.is_some_and(|marks| inputs::is_by_sources(deployed, &marks.inputs))
}

/// Returns whether the status says that this revision is ready. The status may still describe the previous revision.
fn is_ready(status: &Status, version: u32) -> bool {
    status.deployed_release.as_ref().is_some_and(|deployed| deployed.revision == version)
        && status.find(condition::READY).is_some_and(|ready| *ready.status == *"True")
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
