//! Limits how many upgrades of one watch run concurrently when something outside their resources changes: the chart,
//! override values or a value source.
//!
//! An upgrade keeps its slot until the release is ready with the new revision. An upgrade that fails keeps its slot,
//! and so does one that leaves a previously ready release stalled, so a broken chart stops after the first few
//! releases. A release that was not ready before gives its slot up once it is stalled, because the upgrade did not
//! break it. A release that only its own sources of values change also gives its slot up once the upgrade fails: its
//! owner caused that, and it must not stop all others. Both do so while the server refuses what their upgrade waits
//! for. A release also gives its slot up if it gets one while it has to wait for its turn in a rollout, for a
//! dependency, for memory or for its next attempt, or if it no longer needs one. A release that failed before also
//! waits for its turn without a slot. Waiting for a slot does not occupy a worker.
//!
//! Only a resource that is still known gets a place. No resource can be forgotten between that check and the change: a
//! resource that was forgotten earlier would keep its place forever.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

use controller::runtime::key::ResourceKey;
use helm_release::release::Status as Outcome;
use helm_release::storage::Before;
use jiff::{SignedDuration, Timestamp};
use outside::sync;

use super::inputs;
use crate::status::reason::Reason;
use crate::status::{Condition, Health, Status, condition};
use crate::view::release::{ReleaseRecords, Revision};

/// The longest time from the record of a new revision to the report that it is unready, unless the status cannot be
/// written.
const REPORTED: SignedDuration = SignedDuration::from_secs(60);

/// The upgrade slots of one controller.
pub(crate) struct Rollout {
    /// The number of slots; 0 means no limit.
    pub(crate) limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The releases that have a slot, with the upgrade that has begun in it.
    holders: HashMap<ResourceKey, Option<Begun>>,
    waiting: VecDeque<ResourceKey>,
    queued: HashSet<ResourceKey>,
}

/// An upgrade that has begun in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    /// The release's state before.
    pub(crate) before: Before,
    pub(crate) cause: Cause,
}

/// What causes an upgrade that needs a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Something that many releases share, such as the chart.
    Shared,
    /// Only the release's own sources of values.
    Sources,
}

/// The place of a release among the upgrades of its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is in line for a slot.
    Waiting,
    /// It has a slot, in which no upgrade has begun yet.
    Given,
    /// It has a slot, in which this upgrade has begun.
    Begun(Begun),
}

/// The upgrade that a release is due for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// None: its deployed revision has the current inputs.
    Nothing,
    /// One that needs no slot, because its owner changed the resource or a person requested it.
    Freely,
    /// One that needs a slot.
    InSlot,
}

/// How far the upgrade to the current inputs has come, if it is not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Nothing of it is recorded.
    None,
    /// Its revision is pending.
    Unfinished,
    /// The last attempt failed.
    Failed,
    /// Nothing of it is recorded. An upgrade to other inputs failed before, and was not undone.
    AfterFailure,
}

/// The facts that decide whether a release keeps its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'h> {
    /// Its upgrade is not wanted: the release is left alone, pinned, deleted or someone else's, or was rolled back from
    /// the current inputs.
    pub(crate) is_left: bool,
    pub(crate) due: Due,
    pub(crate) attempt: Attempt,
    /// The deployed revision is the newest, and an upgrade in a slot made it.
    pub(crate) is_made: bool,
    /// No upgrade can begin now: the chart does not render, or the server does not answer.
    pub(crate) is_blocked: bool,
    pub(crate) is_out_of_turn: bool,
    pub(crate) lacks_dependency: bool,
    /// There is no memory for the waits of the upgrade.
    pub(crate) lacks_memory: bool,
    /// The current inputs have failed, and may not be tried again yet, or at all.
    pub(crate) is_held: bool,
    /// Its pending upgrade goes on only once the server allows what it refuses.
    pub(crate) is_stuck: bool,
    /// No test of the deployed revision is due, and none failed in a way that rolls the revision back.
    pub(crate) is_tested: bool,
    /// The health of the objects, if it is known.
    pub(crate) health: Option<&'h Health>,
}

impl Place {
    /// Returns whether a release keeps its place.
    pub(crate) fn is_kept(self, claim: &Claim<'_>) -> bool {
        match self {
            _ if claim.is_left => false,
            // Even if it cannot begin now: nothing else would wake it.
            Place::Waiting => claim.due == Due::InSlot,
            // Its turn, its dependency, its look for memory, its next attempt or a change wakes it, and it queues again.
            Place::Given => claim.due == Due::InSlot && claim.may_begin(),
            Place::Begun(begun) => !claim.is_over(begun),
        }
    }
}

impl Claim<'_> {
    fn may_begin(&self) -> bool {
        let is_stopped = self.is_blocked || self.lacks_memory;
        !is_stopped && !self.is_out_of_turn && !self.lacks_dependency && !self.is_held
    }

    /// Returns whether an upgrade that has begun no longer needs its slot.
    fn is_over(&self, begun: Begun) -> bool {
        let is_stalled = matches!(self.health, Some(Health::TimedOut(_) | Health::Failed(_)));
        let is_excused = begun.before == Before::Unready || begun.cause == Cause::Sources;
        match (self.attempt, self.due) {
            (Attempt::Unfinished, _) => self.is_stuck && is_excused,
            _ if is_stalled && is_excused => true,
            // The releases that it waits for may need the slot. The gate of the rollout counts failures.
            _ if self.is_out_of_turn => true,
            (Attempt::None | Attempt::AfterFailure, _) if self.lacks_dependency => true,
            (Attempt::Failed | Attempt::AfterFailure, _) => begun.cause == Cause::Sources,
            (Attempt::None, Due::Nothing) => self.is_tested && self.health == Some(&Health::Ready),
            // A chart that does not render, for example, has changed nothing. What was made before may be broken.
            (Attempt::None, Due::Freely | Due::InSlot) => {
                let is_stopped = self.is_blocked || self.lacks_memory;
                is_stopped && (!self.is_made || self.health == Some(&Health::Ready))
            }
        }
    }
}

impl Rollout {
    pub(crate) fn new(limit: usize) -> Rollout {
        Rollout { limit, state: Mutex::default() }
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limit > 0
    }

    pub(crate) fn holds(&self, key: &ResourceKey) -> bool {
        self.state().holders.contains_key(key)
    }

    pub(crate) fn is_waiting(&self, key: &ResourceKey) -> bool {
        self.state().queued.contains(key)
    }

    pub(crate) fn place(&self, key: &ResourceKey) -> Option<Place> {
        let state = self.state();
        match state.holders.get(key) {
            Some(begun) => Some(begun.map_or(Place::Given, Place::Begun)),
            None => state.queued.contains(key).then_some(Place::Waiting),
        }
    }

    /// Takes a slot, or queues for one; returns whether a slot was taken.
    pub(crate) fn take(&self, is_known: impl FnOnce() -> bool, key: &ResourceKey) -> bool {
        let mut state = self.state();
        if !is_known() {
            return false;
        }
        let is_free = state.holders.contains_key(key) || state.holders.len() < self.limit;
        if is_free {
            state.leave_line(key);
            state.holders.entry(key.clone()).or_default();
        } else if state.queued.insert(key.clone()) {
            state.waiting.push_back(key.clone());
        }
        is_free
    }

    /// Records that an upgrade begins. Takes a slot even if none is free, because an earlier process may have begun it.
    pub(crate) fn begin(&self, is_known: impl FnOnce() -> bool, key: &ResourceKey, next: Begun) {
        if !self.is_limited() {
            return;
        }
        let mut state = self.state();
        if is_known() {
            state.leave_line(key);
            let begun = state.holders.entry(key.clone()).or_default();
            *begun = Some(begun.map_or(next, |known| known.followed_by(next)));
        }
    }

    /// Restores the slot that an upgrade of the previous process had.
    pub(crate) fn restore(&self, is_known: impl FnOnce() -> bool, key: &ResourceKey, before: Before) {
        self.begin(is_known, key, Begun { before, cause: Cause::Shared });
    }

    /// Returns the upgrade that has begun in a release's slot.
    pub(crate) fn begun(&self, key: &ResourceKey) -> Option<Begun> {
        self.state().holders.get(key).copied().flatten()
    }

    /// Releases the slot or queue position. Returns the resources that now hold a slot and must be requeued.
    pub(crate) fn leave(&self, key: &ResourceKey) -> Vec<ResourceKey> {
        let mut state = self.state();
        state.leave_line(key);
        state.holders.remove(key);
        let mut next = Vec::new();
        while state.holders.len() < self.limit
            && let Some(first) = state.waiting.pop_front()
        {
            state.queued.remove(&first);
            state.holders.insert(first.clone(), None);
            next.push(first);
        }
        next
    }

    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }
}

impl Begun {
    /// Returns what counts once another upgrade begins in the same slot. A change of a release's own sources excuses
    /// nothing that an upgrade before it broke.
    fn followed_by(self, next: Begun) -> Begun {
        match (self.cause, next.cause) {
            (Cause::Shared, Cause::Sources) => self,
            _ if self.before == Before::Unready => Begun { before: Before::Unready, ..next },
            _ => next,
        }
    }
}

impl State {
    fn leave_line(&mut self, key: &ResourceKey) {
        if self.queued.remove(key) {
            self.waiting.retain(|waiting| waiting != key);
        }
    }
}

/// Returns how far the upgrade to these inputs has come, as the records say.
pub(crate) fn attempt(release: &ReleaseRecords, inputs: &str) -> Attempt {
    match release.newest().map(|(_, newest)| newest.status) {
        Some(status) if status.is_pending() => Attempt::Unfinished,
        _ if has_failed(release, inputs) => Attempt::Failed,
        Some(Outcome::Failed) => Attempt::AfterFailure,
        _ => Attempt::None,
    }
}

/// Returns whether an upgrade to these inputs has failed since the deployed revision was made.
pub(crate) fn has_failed(release: &ReleaseRecords, inputs: &str) -> bool {
    let Some(base) = origin(release) else { return false };
    let is_to = |one: &Revision| one.marks.as_ref().is_some_and(|marks| inputs::is_equal(&marks.inputs, inputs));
    release.revisions.iter().any(|(version, one)| *version > base && is_failed(one) && is_to(one))
}

/// Returns whether an upgrade in a slot made the newest revision, which is deployed.
pub(crate) fn is_made_in_slot(release: &ReleaseRecords) -> bool {
    let newest = release.newest().filter(|(_, newest)| newest.status == Outcome::Deployed);
    newest.and_then(|(_, newest)| newest.marks.as_ref()).is_some_and(|marks| marks.before.is_some())
}

/// Returns the state that a release had before the upgrades that have not succeeded since the deployed revision was
/// made. Returns `None` if none of them had a slot for what releases share.
pub(crate) fn before_attempts(release: &ReleaseRecords) -> Option<Before> {
    let base = origin(release)?;
    let is_attempt = |one: &Revision| (one.status == Outcome::Failed || one.status.is_pending()) && one.is_sealed();
    let mut attempts = release.revisions.iter().rev().filter(|(version, one)| **version > base && is_attempt(one));
    attempts.find_map(|(_, one)| one.marks.as_ref()?.before)
}

/// Returns whether this operator recorded the revision and it failed.
fn is_failed(revision: &Revision) -> bool {
    revision.status == Outcome::Failed && revision.is_sealed()
}

/// Returns the revision that the upgrades since then would replace.
fn origin(release: &ReleaseRecords) -> Option<u32> {
    let (version, deployed) = release.deployed()?;
    // A rollback is newer than the failure that it undoes.
    Some(deployed.marks.as_ref().and_then(|marks| marks.rolled_back_to).unwrap_or(version))
}

/// Returns the state that a release had before an upgrade that keeps its slot across a restart, because it failed, is
/// unfinished, or left the release unready. Returns `None` if there is no such upgrade. `own` is the digest of the
/// resource's own part: if that has changed since, the next upgrade needs no slot.
pub(crate) fn unfinished(release: &ReleaseRecords, own: &str, status: &Status) -> Option<Before> {
    let ((_, deployed), (version, newest)) = (release.deployed()?, release.newest()?);
    // The record of helm or an upstream operator is not read yet. A record of ours after it belongs to an upgrade that
    // took the release over.
    if deployed.marks.is_none() && !newest.is_sealed() {
        return None;
    }
    let replaced = deployed.marks.as_ref().map_or("", |marks| marks.inputs.as_str());
    let before = newest.marks.as_ref().and_then(|marks| marks.before);
    let is_described = status.deployed_release.as_ref().is_some_and(|deployed| deployed.revision == version);
    let has_failed = |failed: &Condition| *failed.reason == Reason::UpgradeError;
    let unfinished = if status.find_true(condition::RELEASE_FAILED).is_some_and(has_failed) {
        before.or_else(|| (!has_failed_by_sources(release, replaced)).then_some(Before::Ready))
    } else if newest.status.is_pending() || !is_described {
        // The status may still describe the previous revision.
        before
    } else if status.is_blind() {
        // Only the records still show what failed.
        before_attempts(release)
    } else if became_unready_later(status, newest) {
        // It was ready and left its slot, unless only the status was written late.
        before.map(|_| Before::Unready)
    } else {
        before.filter(|_| status.find_true(condition::READY).is_none())
    };
    unfinished.filter(|_| inputs::has_own(replaced, own))
}

/// Returns whether a release was ready with its newest revision before it became unready.
fn became_unready_later(status: &Status, newest: &Revision) -> bool {
    let unready = status.find(condition::READY).filter(|ready| *ready.status != *"True");
    let since = unready.and_then(|ready| ready.last_transition_time.as_deref()?.parse::<Timestamp>().ok());
    since.zip(newest.written).is_some_and(|(since, written)| since.duration_since(written) > REPORTED)
}

/// Returns whether the last upgrade that failed differs from the deployed revision only in sources of values.
fn has_failed_by_sources(records: &ReleaseRecords, deployed: &str) -> bool {
    let failed = records.revisions.iter().rev().find(|(_, one)| is_failed(one));
    let marks = failed.and_then(|(_, one)| one.marks.as_ref());
    marks.is_some_and(|marks| inputs::is_by_sources(deployed, &marks.inputs))
}

#[cfg(test)]
mod tests {
    use helm_release::storage::Marks;
    use serde_json::{Value, json};

    use super::*;
    use crate::view::release::Trust;

    fn key(name: &str) -> ResourceKey {
        ResourceKey::new("ns", name)
    }

    fn known() -> bool {
        true
    }

    fn gone() -> bool {
        false
    }

    #[test]
    fn places_are_given_in_order_and_a_resource_waits_once() {
        let rollout = Rollout::new(1);
        assert!(rollout.take(known, &key("a")) && rollout.take(known, &key("a")));
        for name in ["b", "c", "b"] {
            assert!(!rollout.take(known, &key(name)) && rollout.is_waiting(&key(name)));
        }
        assert_eq!(rollout.leave(&key("a")), [key("b")]);
        assert!(rollout.holds(&key("b")) && !rollout.is_waiting(&key("b")));
        assert_eq!(rollout.leave(&key("c")), [], "the line is shorter, but no place is free");
        assert_eq!(rollout.leave(&key("b")), []);
        assert!(rollout.take(known, &key("d")));
    }

    #[test]
    fn a_resource_that_is_gone_gets_no_place() {
        let rollout = Rollout::new(1);
        assert!(!rollout.take(gone, &key("a")));
        rollout.begin(gone, &key("a"), BEGUN);
        rollout.restore(gone, &key("a"), Before::Ready);
        assert_eq!(rollout.place(&key("a")), None);
        assert!(rollout.take(known, &key("b")) && !rollout.take(gone, &key("a")));
        assert_eq!(rollout.place(&key("a")), None, "nor does it wait for one");
    }

    #[test]
    fn an_upgrade_that_has_begun_takes_a_place_beyond_the_limit() {
        let rollout = Rollout::new(1);
        assert!(rollout.take(known, &key("a")));
        assert!(!rollout.take(known, &key("b")) && !rollout.take(known, &key("c")));
        rollout.begin(known, &key("b"), BEGUN);
        assert_eq!(rollout.leave(&key("a")), [], "b has the only place");
        assert_eq!(rollout.leave(&key("b")), [key("c")]);
        Rollout::new(0).begin(known, &key("a"), BEGUN);
    }

    #[test]
    fn a_place_is_given_before_its_upgrade_begins() {
        let rollout = Rollout::new(1);
        let places = || ["a", "b"].map(|name| rollout.place(&key(name)));
        assert!(rollout.take(known, &key("a")) && !rollout.take(known, &key("b")));
        assert_eq!(places(), [Some(Place::Given), Some(Place::Waiting)]);
        rollout.begin(known, &key("a"), BEGUN);
        assert!(rollout.take(known, &key("a")));
        assert_eq!(places(), [Some(Place::Begun(BEGUN)), Some(Place::Waiting)]);
        rollout.leave(&key("a"));
        assert_eq!(places(), [None, Some(Place::Given)]);
        assert_eq!(rollout.begun(&key("b")), None);
    }

    #[test]
    fn a_later_upgrade_in_the_same_place_excuses_nothing_by_its_sources() {
        let by_sources = Begun { cause: Cause::Sources, ..BEGUN };
        let ailing = Begun { before: Before::Unready, ..BEGUN };
        for (first, next, expected) in [
            (BEGUN, BEGUN, BEGUN),
            (BEGUN, ailing, ailing),
            (ailing, BEGUN, ailing),
            (BEGUN, by_sources, BEGUN),
            (BEGUN, Begun { before: Before::Unready, ..by_sources }, BEGUN),
            (by_sources, BEGUN, BEGUN),
            (by_sources, by_sources, by_sources),
        ] {
            assert_eq!(first.followed_by(next), expected, "{first:?}, {next:?}");
        }
    }

    const BEGUN: Begun = Begun { before: Before::Ready, cause: Cause::Shared };

    /// A release that an upgrade in its slot is due for.
    const CLAIM: Claim<'_> = Claim {
        is_left: false,
        due: Due::InSlot,
        attempt: Attempt::None,
        is_made: false,
        is_blocked: false,
        is_out_of_turn: false,
        lacks_dependency: false,
        lacks_memory: false,
        is_held: false,
        is_stuck: false,
        is_tested: true,
        health: Some(&Health::Ready),
    };

    #[test]
    fn a_place_is_kept_only_while_an_upgrade_needs_it() {
        let by_sources = Place::Begun(Begun { cause: Cause::Sources, ..BEGUN });
        let ailing = Place::Begun(Begun { before: Before::Unready, ..BEGUN });
        let all = [Place::Waiting, Place::Given, Place::Begun(BEGUN), by_sources, ailing];
        let (progressing, stalled) = (Health::Progressing("x".into()), Health::TimedOut("x".into()));
        let (progressing, stalled) = (Some(&progressing), Some(&stalled));
        let blocked = Claim { is_blocked: true, ..CLAIM };
        let failed = Claim { attempt: Attempt::Failed, ..CLAIM };
        let others_failed = Claim { attempt: Attempt::AfterFailure, ..CLAIM };
        let unfinished = Claim { attempt: Attempt::Unfinished, ..CLAIM };
        let made = Claim { due: Due::Nothing, ..CLAIM };
        let own = Claim { due: Due::Freely, ..CLAIM };
        for (behaviour, claim, kept) in [
            ("it is due", CLAIM, [true, true, true, true, true]),
            ("due, and unready", Claim { health: progressing, ..CLAIM }, [true, true, true, true, true]),
            ("due, and stalled", Claim { health: stalled, ..CLAIM }, [true, true, true, false, false]),
            ("left alone", Claim { is_left: true, ..unfinished }, [false; 5]),
            ("it cannot begin", blocked, [true, false, false, false, false]),
            ("not its turn", Claim { is_out_of_turn: true, ..CLAIM }, [true, false, false, false, false]),
            ("it lacks a dependency", Claim { lacks_dependency: true, ..CLAIM }, [true, false, false, false, false]),
            ("it lacks memory", Claim { lacks_memory: true, ..CLAIM }, [true, false, false, false, false]),
            (
                "made, not ready, another lacks memory",
                Claim { is_made: true, lacks_memory: true, health: progressing, ..CLAIM },
                [true, false, true, true, true],
            ),
            ("made, another is due, no answer", Claim { is_made: true, ..blocked }, [true, false, false, false, false]),
            (
                "made, not ready, another is due, no answer",
                Claim { is_made: true, health: progressing, ..blocked },
                [true, false, true, true, true],
            ),
            (
                "made, stalled, another is due, no answer",
                Claim { is_made: true, health: stalled, ..blocked },
                [true, false, true, false, false],
            ),
            (
                "made, not ready, another lacks a dependency",
                Claim { is_made: true, lacks_dependency: true, health: progressing, ..CLAIM },
                [true, false, false, false, false],
            ),
            ("it may not be tried again", Claim { is_held: true, ..failed }, [true, false, true, false, true]),
            ("it failed", failed, [true, true, true, false, true]),
            ("failed, and stalled", Claim { health: stalled, ..failed }, [true, true, true, false, false]),
            ("failed, not its turn", Claim { is_out_of_turn: true, ..failed }, [true, false, false, false, false]),
            (
                "failed without a dependency",
                Claim { lacks_dependency: true, ..failed },
                [true, false, true, false, true],
            ),
            ("others failed", others_failed, [true, true, true, false, true]),
            (
                "others failed, it lacks a dependency",
                Claim { lacks_dependency: true, ..others_failed },
                [true, false, false, false, false],
            ),
            ("others failed, no answer", Claim { is_blocked: true, ..others_failed }, [true, false, true, false, true]),
            ("failed, then no answer", Claim { is_blocked: true, ..failed }, [true, false, true, false, true]),
            ("pending", unfinished, [true, true, true, true, true]),
            ("pending, and stuck", Claim { is_stuck: true, ..unfinished }, [true, true, true, false, false]),
            ("pending, not its turn", Claim { is_out_of_turn: true, ..unfinished }, [true, false, true, true, true]),
            ("pending, no answer", Claim { is_blocked: true, ..unfinished }, [true, false, true, true, true]),
            ("pending, the old one stalled", Claim { health: stalled, ..unfinished }, [true, true, true, true, true]),
            ("made, and ready", made, [false; 5]),
            ("made, with an unknown health", Claim { health: None, ..made }, [false, false, true, true, true]),
            ("made, to be tested", Claim { is_tested: false, ..made }, [false, false, true, true, true]),
            ("made, not ready", Claim { health: progressing, ..made }, [false, false, true, true, true]),
            ("made, stalled", Claim { health: stalled, ..made }, [false, false, true, false, false]),
            (
                "made, not ready, no answer",
                Claim { health: progressing, is_blocked: true, ..made },
                [false, false, true, true, true],
            ),
            ("undone, not cleaned up", Claim { attempt: Attempt::Failed, ..made }, [false, false, true, false, true]),
            ("a change of its own is due", own, [false, false, true, true, true]),
            ("an own change failed", Claim { attempt: Attempt::Failed, ..own }, [false, false, true, false, true]),
            (
                "an own change is pending",
                Claim { attempt: Attempt::Unfinished, ..own },
                [false, false, true, true, true],
            ),
        ] {
            assert_eq!(all.map(|place| place.is_kept(&claim)), kept, "{behaviour}");
        }
    }

    fn records(revisions: &[(Outcome, Marks)], written: Option<Timestamp>) -> ReleaseRecords {
        let mut records = ReleaseRecords::written_by_us(revisions);
        records.revisions.iter_mut().for_each(|(_, revision)| revision.written = written);
        records
    }

    #[test]
    fn an_upgrade_has_failed_if_the_records_since_the_deployed_revision_say_so() {
        use Outcome::{Deployed, Failed, PendingUpgrade, Superseded};
        let of = |inputs: &str| Marks { inputs: inputs.into(), ..Marks::default() };
        let (old, new) = (of("2:old.own.chart=1"), of("2:new.own.chart=2"));
        let back = Marks { rolled_back_to: Some(1), ..old.clone() };
        for (behaviour, revisions, expected) in [
            ("not begun", vec![(Deployed, old.clone())], Attempt::None),
            ("pending", vec![(Deployed, old.clone()), (PendingUpgrade, new.clone())], Attempt::Unfinished),
            ("failed", vec![(Deployed, old.clone()), (Failed, new.clone())], Attempt::Failed),
            ("failed with others", vec![(Deployed, old.clone()), (Failed, old.clone())], Attempt::AfterFailure),
            (
                "rolled back",
                vec![(Superseded, old.clone()), (Failed, new.clone()), (Deployed, back.clone())],
                Attempt::Failed,
            ),
            (
                "rolled back from others",
                vec![(Superseded, old.clone()), (Failed, of("2:other.own.chart=3")), (Deployed, back)],
                Attempt::None,
            ),
            (
                "succeeded later",
                vec![(Superseded, old.clone()), (Failed, new.clone()), (Deployed, new.clone())],
                Attempt::None,
            ),
        ] {
            assert_eq!(attempt(&records(&revisions, None), "2:new.own"), expected, "{behaviour}");
        }
        assert_eq!(attempt(&ReleaseRecords::default(), "2:new.own"), Attempt::None);
    }

    #[test]
    fn a_repeated_upgrade_has_the_state_from_before_the_first_attempt() {
        use Outcome::{Deployed, Failed, PendingUpgrade, Superseded};
        let of = |before| Marks { inputs: "2:new.own".into(), before, ..Marks::default() };
        let (well, ailing, own) = (of(Some(Before::Ready)), of(Some(Before::Unready)), of(None));
        let back = Marks { rolled_back_to: Some(1), ..own.clone() };
        for (behaviour, revisions, expected) in [
            ("no attempt", vec![(Deployed, ailing.clone())], None),
            ("failed", vec![(Deployed, well.clone()), (Failed, ailing.clone())], Some(Before::Unready)),
            ("pending", vec![(Deployed, ailing.clone()), (PendingUpgrade, well.clone())], Some(Before::Ready)),
            (
                "then failed by its own sources",
                vec![(Deployed, well.clone()), (Failed, ailing.clone()), (Failed, own.clone())],
                Some(Before::Unready),
            ),
            (
                "rolled back",
                vec![(Superseded, well.clone()), (Failed, ailing.clone()), (Deployed, back)],
                Some(Before::Unready),
            ),
            ("succeeded later", vec![(Superseded, own), (Failed, ailing), (Deployed, well)], None),
        ] {
            assert_eq!(before_attempts(&records(&revisions, None)), expected, "{behaviour}");
        }
    }

    #[test]
    fn after_a_restart_an_upgrade_keeps_its_place_unless_its_release_was_ready_since() {
        let written: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let status = |ready: &str, since: Value, revision: u32| {
            let ready = json!({"type": "Ready", "status": ready, "lastTransitionTime": since});
            let status = json!({"conditions": [ready], "deployedRelease": {"name": "a", "revision": revision}});
            serde_json::from_value::<Status>(status).unwrap()
        };
        let unfinished = |before, status: &Status| {
            let marks = Marks { inputs: "2:new.own".into(), before, ..Marks::default() };
            super::unfinished(&records(&[(Outcome::Deployed, marks)], Some(written)), "own", status)
        };
        let (was_ready, was_not) = (Some(Before::Ready), Some(Before::Unready));
        for (ready, since, revision, expected) in [
            ("True", json!("2026-01-01T00:00:05Z"), 1, None),
            ("False", json!("2026-01-01T00:00:05Z"), 1, was_ready),
            ("False", json!("2025-12-01T00:00:00Z"), 1, was_ready),
            ("False", Value::Null, 1, was_ready),
            ("False", json!("no time"), 1, was_ready),
            ("False", json!("2026-01-05T00:00:00Z"), 1, was_not),
            ("Unknown", json!("2026-01-05T00:00:00Z"), 1, was_not),
            ("False", json!("2026-01-05T00:00:00Z"), 0, was_ready),
            ("True", json!("2025-12-01T00:00:00Z"), 0, was_ready),
        ] {
            let status = status(ready, since, revision);
            assert_eq!(unfinished(was_ready, &status), expected, "{status:?}");
            assert_eq!(unfinished(None, &status), None, "it took no place: {status:?}");
        }
    }

    #[test]
    fn after_a_restart_an_upgrade_that_took_over_a_release_keeps_its_place() {
        let failed = json!({"type": "ReleaseFailed", "status": "True", "reason": "UpgradeError"});
        let status: Status = serde_json::from_value(json!({"conditions": [failed]})).unwrap();
        for (behaviour, next, expected) in [
            ("it failed", Some((Outcome::Failed, Before::Ready)), Some(Before::Ready)),
            ("it is unfinished", Some((Outcome::PendingUpgrade, Before::Unready)), Some(Before::Unready)),
            ("none has begun, and the failure is of operator-sdk's last one", None, None),
        ] {
            let marks = |before| Marks { inputs: "2:new.own".into(), before: Some(before), ..Marks::default() };
            let helms = (Outcome::Deployed, Marks::default());
            let next = next.map(|(outcome, before)| (outcome, marks(before)));
            let all: Vec<_> = std::iter::once(helms).chain(next).collect();
            let mut release = records(&all, None);
            let unread = release.revisions.get_mut(&1).unwrap();
            (unread.marks, unread.trust) = (None, Trust::Foreign);
            assert_eq!(super::unfinished(&release, "own", &status), expected, "{behaviour}");
        }
    }

    #[test]
    fn after_a_restart_only_the_records_count_if_the_status_says_just_that_they_were_unknown() {
        use Outcome::{Deployed, Failed, PendingUpgrade, Superseded};
        let of = |before| Marks { inputs: "2:new.own".into(), before, ..Marks::default() };
        let (well, own) = (of(Some(Before::Ready)), of(None));
        let back = Marks { rolled_back_to: Some(1), ..own.clone() };
        for (behaviour, revisions, described, expected) in [
            ("upgraded", vec![(Superseded, own.clone()), (Deployed, well.clone())], 2, None),
            (
                "rolled back",
                vec![(Superseded, own.clone()), (Failed, well.clone()), (Deployed, back)],
                3,
                Some(Before::Ready),
            ),
            ("failed, and kept", vec![(Deployed, own.clone()), (Failed, well.clone())], 1, Some(Before::Ready)),
            ("pending", vec![(Deployed, own.clone()), (PendingUpgrade, well)], 1, Some(Before::Ready)),
            ("failed by its own sources", vec![(Deployed, own.clone()), (Failed, own)], 1, None),
        ] {
            let ready = json!({
                "type": "Ready", "status": "False", "reason": "RecordsForbidden",
                "lastTransitionTime": "2026-01-05T00:00:00Z",
            });
            let status = json!({"conditions": [ready], "deployedRelease": {"name": "a", "revision": described}});
            let status: Status = serde_json::from_value(status).unwrap();
            let records = records(&revisions, "2026-01-01T00:00:00Z".parse().ok());
            assert_eq!(unfinished(&records, "own", &status), expected, "{behaviour}");
        }
    }
}
