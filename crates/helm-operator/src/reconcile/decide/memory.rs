//! Remembers a resource's recent history: what failed, which managers compete for its objects, and what the previous
//! process recorded of both.
//!
//! Callers pass the time, so every rule can be tested as a table. Holds expire; only a change of the resource's own
//! inputs ends one early.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use controller::runtime::backoff::{self, Retry};
use controller::runtime::key::ResourceKey;
use helm_release::action::Refusal;
use helm_release::kube::Owner;
use jiff::Timestamp;
use outside::sync::lock;
use tokio::time::Instant;

use super::drift::DriftMemory;
use super::health::Waiting;
use super::held::Lacking;
use super::last_failure::LastFailure;
use super::left_alone::LeftAlone;
use super::remembered::{
    Detections, FoundTokens, HandledTriggers, Met, Planned, Rejected, Unmoved, UnreadValues, Unserved, Unwritten,
};
use super::uninstall_notes::UninstallNotes;
use crate::reconcile::failure::{Failed, FailedAttempt, Obstacle};
use crate::status::reason::Reason;
use crate::status::{Condition, Fault, RETRIES_EXCEEDED, condition};
use crate::view::primary::Primary;
use crate::view::release::{Holder, ReleaseRecords};

/// After a restart, each failing resource is tried once within this time. The restart may have brought a better chart,
/// so it is soon; hundreds may be failing, so it is spread out.
const SPREAD: Duration = Duration::from_secs(30);
/// Shorter waits are not logged.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// The recent history of one controller's resources.
#[derive(Default)]
pub(crate) struct Memory(Mutex<HashMap<ResourceKey, Arc<ResourceMemory>>>);

impl Memory {
    /// Returns a resource's memory, which is blank if nothing is known.
    pub(crate) fn of(&self, key: &ResourceKey) -> Arc<ResourceMemory> {
        lock(&self.0).get(key).cloned().unwrap_or_default()
    }

    /// Changes a resource's memory. A blank one takes no space.
    pub(crate) fn change<T>(&self, key: &ResourceKey, change: impl FnOnce(&mut ResourceMemory) -> T) -> T {
        change_in(&mut lock(&self.0), key, change)
    }

    /// Changes a resource's memory if the resource is still known; returns `None` otherwise. Nothing can be forgotten
    /// between the check and the change.
    pub(crate) fn change_if<T>(
        &self,
        is_known: impl FnOnce() -> bool,
        key: &ResourceKey,
        change: impl FnOnce(&mut ResourceMemory) -> T,
    ) -> Option<T> {
        let mut memories = lock(&self.0);
        is_known().then(|| change_in(&mut memories, key, change))
    }

    pub(crate) fn forget(&self, key: &ResourceKey) {
        lock(&self.0).remove(key);
    }

    /// Returns how many resources are remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

fn change_in<T>(
    memories: &mut HashMap<ResourceKey, Arc<ResourceMemory>>,
    key: &ResourceKey,
    change: impl FnOnce(&mut ResourceMemory) -> T,
) -> T {
    let memory = memories.entry(key.clone()).or_default();
    let result = change(Arc::make_mut(memory));
    if memory.is_blank() {
        memories.remove(key);
    }
    result
}

/// The recent history of one resource. Rare fields are boxed, because every resource that was ever reconciled may have
/// one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceMemory {
    pub(crate) failure: Option<Box<LastFailure>>,
    /// Whether its last render took so long that others had to wait.
    pub(crate) is_slow: bool,
    /// The permanent rejection of an attempt, and the attempt's inputs.
    pub(crate) refused: Option<Box<(String, Refusal)>>,
    /// An install whose retries would fail in the same way.
    pub(crate) unserved: Option<Box<Unserved>>,
    /// When the previous process's failure may be retried, until the first attempt.
    pub(crate) restored: Option<Box<Restored>>,
    /// That failure, as the status names it, until the first attempt.
    pub(super) inherited: Option<Box<Fault>>,
    pub(crate) drift: DriftMemory,
    /// Drift that is only reported.
    pub(crate) detected: Option<Box<Detections>>,
    /// The history of status writes.
    pub(crate) status: StatusMemory,
    /// The facts about the release that its records do not contain.
    pub(crate) release: ReleaseMemory,
    /// What was done on demand or on schedule.
    pub(crate) triggers: Triggers,
    /// Others that write what this process writes.
    pub(crate) competitor: Option<Box<Met>>,
    /// What its next action waits for, if it could not begin.
    pub(crate) lacking: Option<Box<Lacking>>,
    /// The refusals of the server to let it go to another shard, or to let this one take it over.
    pub(crate) unmoved: Option<Box<Unmoved>>,
}

/// The history of a resource's status writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusMemory {
    /// The notes for the next status write.
    pub(crate) notes: Option<String>,
    /// Hashes of the last written status, without its times, and of the server's response, if the server changed it.
    pub(crate) written: Option<Box<(u64, u64)>>,
    /// When to retry a failed status write.
    pub(crate) unwritten: Option<Unwritten>,
    /// The reason why a status field could not be computed.
    pub(crate) field_fault: Option<Box<str>>,
    /// The rejection of the computed fields, without which the status was written.
    pub(crate) rejected: Option<Box<Rejected>>,
    /// When objects became unready, and why.
    pub(crate) waiting: Option<Box<Waiting>>,
    /// Values that no template reads.
    pub(crate) unread: Option<Box<UnreadValues>>,
    /// The last revision that failed its tests, and why.
    pub(crate) test_failure: Option<Box<(u32, String)>>,
    /// The last plan that its annotation asked for.
    pub(crate) planned: Option<Box<Planned>>,
}

impl StatusMemory {
    /// Returns when to send a status again that could not be written, and one without the computed fields that the server
    /// has rejected.
    pub(crate) fn retries(&self) -> [Option<Instant>; 2] {
        let rejected = self.rejected.as_ref().map(|rejected| rejected.retry_at);
        [self.unwritten.map(|unwritten| unwritten.retry.at), rejected]
    }
}

/// The facts about a release that its records do not contain.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReleaseMemory {
    /// The release whose records disappeared although we did not uninstall it.
    pub(crate) lost: Option<Arc<ReleaseRecords>>,
    /// Whether this process took the release over from another resource in place, without a revision that would show
    /// it.
    pub(crate) took_over: bool,
    /// The uid of a resource that was uninstalled completely.
    pub(crate) cleared: Option<Box<str>>,
    /// What events have said about its uninstall.
    pub(crate) uninstall: UninstallNotes,
    /// The objects that the last event named as left.
    pub(crate) left: Option<Box<str>>,
    /// Whether this process has removed an install that failed, and that earlier records beside it may describe.
    pub(crate) removed: bool,
    /// What was seen since an event said that the deletion is left to others, because the filters reject the resource.
    pub(crate) left_alone: Option<Box<LeftAlone>>,
}

impl ReleaseMemory {
    /// Returns the lost release if its records named this owner.
    pub(crate) fn lost_own(&self, owner: &Owner) -> Option<&Arc<ReleaseRecords>> {
        self.lost.as_ref().filter(|lost| lost.holder(owner) == Holder::Resource)
    }

    /// Keeps a release whose records disappeared. That of another resource does not replace the owner's.
    pub(crate) fn lose(&mut self, release: &Arc<ReleaseRecords>, owner: &Owner) {
        if self.lost_own(owner).is_none() || release.holder(owner) == Holder::Resource {
            self.lost = Some(release.clone());
        }
    }
}

/// What was done on demand or on schedule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Triggers {
    /// What was done on demand or on schedule.
    pub(crate) handled: Option<Box<HandledTriggers>>,
    /// The tokens that an earlier process may have handled without a trace.
    pub(crate) found: Option<Box<FoundTokens>>,
    /// When all objects were last applied without a reason, which covers what marks cannot show.
    pub(crate) resynced: Option<Instant>,
    /// The inputs whose tests a person wants to run again.
    pub(crate) test_again: Option<Box<str>>,
}

/// A failure of the previous process and its start, as the status reports them.
#[derive(Clone, Debug)]
pub(crate) struct Restored {
    /// The resource that the status describes. A different one, or a different spec, has not failed yet.
    of: Arc<Primary>,
    attempts: u32,
    /// Whether the retries were used up.
    exhausted: bool,
    /// Whether the render hit a limit.
    is_costly: bool,
    retry_at: Instant,
}

impl StatusMemory {
    /// Returns whether the memory is empty.
    fn is_blank(&self) -> bool {
        let StatusMemory { notes, written, unwritten, field_fault, rejected, waiting, unread, test_failure, planned } =
            self;
        let is_unread = unread.is_none() && waiting.is_none() && test_failure.is_none() && planned.is_none();
        let is_written = written.is_none() && unwritten.is_none() && field_fault.is_none() && rejected.is_none();
        is_unread && is_written && notes.is_none()
    }
}

impl ResourceMemory {
    /// Returns the memory that the status implies, if it shows that the resource in its current form was failing.
    pub(crate) fn restore(primary: &Arc<Primary>, now: Instant, today: Timestamp) -> Option<ResourceMemory> {
        let stands = |kind| {
            let condition = primary.status.find(kind)?;
            (*condition.status == *"True" && condition.observed_generation == Some(primary.generation))
                .then_some((kind, condition))
        };
        let (kind, failing) = [condition::RELEASE_FAILED, condition::IRRECONCILABLE].into_iter().find_map(stands)?;
        // The records say it, and that the same inputs are not tried again.
        if *failing.reason == Reason::TestFailed {
            return None;
        }
        if *failing.reason == Reason::DriftLoop {
            let drift = DriftMemory::restored(kind, &failing.message, now);
            return Some(ResourceMemory { drift, ..ResourceMemory::default() });
        }
        let lasted = lasted(failing, today);
        let retry_at = now + lasted.min(SPREAD).mul_f64(share(primary.uid()));
        let exhausted = stands(condition::STALLED).is_some_and(|(_, stalled)| *stalled.reason == *RETRIES_EXCEEDED);
        let attempts = backoff::failures_within(lasted);
        let is_costly = *failing.reason == Reason::RenderLimit;
        let restored = Some(Box::new(Restored { of: primary.clone(), attempts, exhausted, is_costly, retry_at }));
        // A renderer's own reason cannot be restored, because `Reason::Own` needs a static name.
        let reason = failing.reason.parse().unwrap_or(Reason::ReconcileError);
        let inherited = Some(Box::new(Fault { condition: kind, reason, message: failing.message.to_string() }));
        Some(ResourceMemory { restored, inherited, ..ResourceMemory::default() })
    }

    /// Adds the restored memory. What this process has learned itself stays, such as that a release's records
    /// disappeared since the resource came.
    pub(crate) fn inherit(&mut self, restored: ResourceMemory) {
        let ResourceMemory { restored, inherited, drift, .. } = restored;
        (self.restored, self.inherited, self.drift) = (restored, inherited, drift);
    }

    /// Returns until when these inputs must not be retried; `None` if they may be tried now.
    pub(crate) fn held_until(&self, inputs: &str, now: Instant) -> Option<Instant> {
        self.failure.as_ref().filter(|f| f.inputs == inputs).map(|f| f.retry.at).filter(|until| *until > now)
    }

    /// Returns when the previous process's failure may be retried, if the resource has not changed since.
    pub(crate) fn restored(&self, primary: &Primary) -> Option<Instant> {
        self.restored.as_ref().filter(|restored| !primary.differs_from(&restored.of)).map(|restored| restored.retry_at)
    }

    /// Returns how much longer the previous process's failure waits; `None` if that is too short to log.
    pub(crate) fn restored_wait(&self, now: Instant) -> Option<Duration> {
        let wait = self.restored.as_ref()?.retry_at.saturating_duration_since(now);
        (wait >= NOTICEABLE).then_some(wait)
    }

    /// Records a failure. The same inputs are retried with backoff, at most `retries` times. Returns whether the
    /// failure is new.
    pub(crate) fn fail(&mut self, failed: &Failed, inputs: String, now: Instant, retries: Option<u32>) -> bool {
        let (known, obstructions) = (self.failure.as_ref(), self.obstructions(&inputs));
        let (failures, attempts) = match (known, &self.restored) {
            (Some(failure), _) if failure.inputs == inputs => (failure.retry.failures, failure.attempts),
            (Some(_), _) | (None, None) => (0, 0),
            // After a restart one more attempt is allowed, because the restart may have brought a better chart.
            (None, Some(restored)) if restored.exhausted => (restored.attempts, retries.unwrap_or_default()),
            (None, Some(restored)) => (restored.attempts, 0),
        };
        let counts = matches!(failed, Failed::Attempt(_));
        let attempts = attempts.saturating_add(u32::from(counts));
        let is_lasting = failed.uncleaned().is_some_and(|(_, obstacle)| *obstacle == Obstacle::Lasting);
        let obstructions = obstructions.saturating_add(u32::from(is_lasting));
        let refused_ends = self.refused_ends(&inputs).saturating_add(u32::from(failed.is_refused_end()));
        let refused_ends = if counts { 0 } else { refused_ends };
        let uncleaned = failed.uncleaned().map(|(attempt, _)| attempt.clone());
        let uncleaned = uncleaned.or_else(|| self.uncleaned(&inputs).filter(|_| !counts));
        let exhausted = counts && retries.is_some_and(|retries| attempts > retries);
        let is_own = failed.is_of_attempt() || known.is_some_and(|failure| failure.is_own);
        let hidden = known.filter(|failure| failure.inputs == inputs).and_then(|failure| failure.hidden);
        let hidden = failed.hides_objects().then(|| (hidden.map_or(now, |(first, _)| first), now));
        let news = known.is_none_or(|failure| failure.failed != *failed || failure.exhausted != exhausted);
        (self.restored, self.inherited) = (None, None);
        let retry = Retry::after(failures, now);
        let failed = failed.clone();
        self.failure = Some(Box::new(LastFailure {
            failed,
            inputs,
            retry,
            attempts,
            obstructions,
            refused_ends,
            uncleaned,
            is_own,
            exhausted,
            hidden,
        }));
        news
    }

    /// Returns whether the next attempt may delay others: the last one failed, other than by an outage, or was slow. A
    /// failure of the previous process counts only if its render hit a limit, because the restart may have brought a
    /// better chart.
    pub(crate) fn is_retry(&self) -> bool {
        let has_failed = self.failure.as_ref().is_some_and(|failure| failure.is_own);
        has_failed || self.is_slow || self.restored.as_ref().is_some_and(|restored| restored.is_costly)
    }

    /// Returns whether these inputs have not failed yet.
    pub(crate) fn has_changed(&self, inputs: &str) -> bool {
        self.restored.is_none() && self.failure.as_ref().is_none_or(|failure| failure.inputs != inputs)
    }

    /// Returns whether the retries of these inputs are used up.
    pub(crate) fn is_exhausted(&self, inputs: &str) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.exhausted && failure.inputs == inputs)
    }

    /// Returns how often the clean-up after an attempt with these inputs met an obstacle that may last forever.
    pub(crate) fn obstructions(&self, inputs: &str) -> u32 {
        self.failure_of(inputs).map_or(0, |failure| failure.obstructions)
    }

    /// Returns how often the server has answered the end of an interrupted action's hook with errors, while these inputs
    /// waited for that.
    pub(crate) fn refused_ends(&self, inputs: &str) -> u32 {
        self.failure_of(inputs).map_or(0, |failure| failure.refused_ends)
    }

    /// Returns the last attempt with these inputs, if it failed and its clean-up is not complete.
    pub(crate) fn uncleaned(&self, inputs: &str) -> Option<FailedAttempt> {
        self.failure_of(inputs)?.uncleaned.clone()
    }

    /// Forgets the attempt whose clean-up was not complete, because another one follows.
    pub(crate) fn forget_uncleaned(&mut self) {
        if let Some(failure) = &mut self.failure {
            failure.uncleaned = None;
        }
    }

    fn failure_of(&self, inputs: &str) -> Option<&LastFailure> {
        self.failure.as_deref().filter(|failure| failure.inputs == inputs)
    }

    /// Clears the failure, because something succeeded or nothing is left to do.
    pub(crate) fn succeed(&mut self) {
        self.failure = None;
        self.restored = None;
        self.unserved = None;
        self.inherited = None;
        self.is_slow = false;
        self.lacking = None;
    }

    /// Clears the report that others are at work on the release, because they no longer are.
    pub(crate) fn end_work_of_others(&mut self) {
        if self.failure.as_ref().is_some_and(|failure| failure.inputs.is_empty()) {
            self.failure = None;
        }
        if self.inherited.as_ref().is_some_and(|fault| fault.reason == Reason::ReleaseInFlight) {
            (self.restored, self.inherited) = (None, None);
        }
    }

    /// Allows an immediate retry, because someone else changed the release.
    pub(crate) fn retry_now(&mut self, now: Instant) {
        if let Some(failure) = &mut self.failure {
            failure.retry.at = now;
            (failure.attempts, failure.obstructions, failure.exhausted) = (0, 0, false);
            failure.refused_ends = 0;
        }
        self.restored = None;
    }

    /// Returns whether the memory equals a new one.
    pub(crate) fn is_blank(&self) -> bool {
        let ResourceMemory {
            failure: None,
            is_slow: false,
            refused: None,
            unserved: None,
            restored: None,
            inherited: None,
            drift,
            detected: None,
            status,
            release:
                ReleaseMemory {
                    lost: None,
                    took_over: false,
                    cleared: None,
                    uninstall,
                    left: None,
                    removed: false,
                    left_alone: None,
                },
            triggers: Triggers { handled: None, found: None, resynced: None, test_again: None },
            competitor: None,
            lacking: None,
            unmoved: None,
        } = self
        else {
            return false;
        };
        *drift == DriftMemory::default() && status.is_blank() && *uninstall == UninstallNotes::default()
    }

    /// Returns the current failure: this process's, or else the one that it found.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.own_fault().or_else(|| self.inherited.as_deref().cloned())
    }

    /// Returns the current failure of this process.
    pub(crate) fn own_fault(&self) -> Option<Fault> {
        self.failure.as_ref().map(|f| f.failed.fault().clone()).or_else(|| self.drift.fault())
    }

    /// Returns all deadlines, including past ones.
    pub(crate) fn deadlines(&self) -> [Option<Instant>; 4] {
        [
            self.failure.as_ref().filter(|f| !f.exhausted).map(|f| f.retry.at),
            self.restored.as_ref().map(|r| r.retry_at),
            self.drift.hold_until,
            self.drift.quiet_at.filter(|_| self.drift.is_loop()),
        ]
    }
}

fn lasted(failing: &Condition, today: Timestamp) -> Duration {
    let since = failing.last_transition_time.as_ref().and_then(|time| time.parse::<Timestamp>().ok());
    since.and_then(|since| today.duration_since(since).try_into().ok()).unwrap_or_default()
}

/// Returns a fraction from 0 to 1, fixed for each resource.
pub(crate) fn share(uid: &str) -> f64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    f64::from(u16::try_from(hasher.finish() >> 48).unwrap_or(u16::MAX)) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::drift::ALSO_FAILS;
    use super::*;
    use crate::reconcile::failure::Unanswered;
    use crate::view::primary::Received;

    const SECOND: Duration = Duration::from_secs(1);

    fn fault(reason: Reason) -> Fault {
        Fault { condition: condition::IRRECONCILABLE, reason, message: "no".into() }
    }

    fn failing(reason: &str, generation: i64, uid: &str) -> Arc<Primary> {
        Arc::new(resource(reason, generation, uid, "{}"))
    }

    fn resource(reason: &str, generation: i64, uid: &str, annotations: &str) -> Primary {
        let annotations: serde_json::Value = serde_json::from_str(annotations).unwrap();
        let resource: Received = serde_json::from_value(json!({
            "metadata": {"name": "web", "uid": uid, "generation": 2, "annotations": annotations},
            "status": {"conditions": [{"type": "ReleaseFailed", "status": "True", "reason": reason, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation}]},
        }))
        .unwrap();
        resource.primary
    }

    /// Returns the time half an hour after those conditions.
    fn today() -> Timestamp {
        "2026-01-01T00:30:00Z".parse().unwrap()
    }

    fn blocked(reason: Reason) -> Failed {
        Failed::Blocked(fault(reason))
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_is_restored_late_replaces_nothing_that_this_process_has_learned() {
        let failing = failing("UpgradeError", 2, "uid");
        let release = ReleaseMemory { lost: Some(Arc::default()), ..ReleaseMemory::default() };
        let mut known = ResourceMemory { release, ..ResourceMemory::default() };
        known.inherit(ResourceMemory::restore(&failing, Instant::now(), today()).unwrap());
        assert!(known.restored(&failing).is_some() && known.fault().is_some());
        assert!(known.release.lost.is_some());
    }

    /// Returns a failed attempt, or an unanswered request.
    fn failed(attempted: bool) -> Failed {
        match attempted {
            true => FailedAttempt::rendering(Reason::Own("X"), "m".into()).into(),
            false => Unanswered::with_reason(Reason::Own("X"), "m".into()).into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_inputs_back_off_and_other_inputs_are_tried_at_once() {
        let now = Instant::now();
        let mut memory = ResourceMemory::default();
        assert_eq!(memory.held_until("a", now), None);
        for (attempt, wait) in [(1, 500), (2, 1_000), (3, 2_000)] {
            assert_eq!(memory.fail(&blocked(Reason::Own("X")), "a".into(), now, None), attempt == 1);
            let until = now + Duration::from_millis(wait);
            assert_eq!(memory.held_until("a", now), Some(until));
            assert_eq!(memory.held_until("a", until), None);
            assert_eq!(memory.held_until("b", now), None);
        }
        assert!(memory.fail(&blocked(Reason::Own("Y")), "b".into(), now, None), "another fault is news");
        assert_eq!(memory.failure.as_ref().unwrap().retry.failures, 1);
        assert_eq!(memory.fault(), Some(fault(Reason::Own("Y"))));
        memory.retry_now(now);
        assert_eq!((memory.held_until("b", now), memory.failure.as_ref().unwrap().retry.failures), (None, 1));
        memory.succeed();
        assert_eq!(memory.fault(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_inputs_are_given_up_after_their_retries_but_not_for_outages() {
        let now = Instant::now();
        let mut memory = ResourceMemory::default();
        let mut fail = |inputs: &str, attempted| {
            memory.fail(&failed(attempted), inputs.into(), now, Some(2));
            (memory.is_exhausted(inputs), memory.deadlines()[0].is_some())
        };
        for attempted in [true, false, false, true] {
            assert_eq!(fail("a", attempted), (false, true));
        }
        assert_eq!(fail("a", true), (true, false), "the second retry");
        assert_eq!(fail("b", true), (false, true), "other inputs start over");
        assert!(!memory.is_exhausted("a"));
        memory.fail(&failed(true), "c".into(), now, Some(0));
        assert!(memory.is_exhausted("c"), "no retry at all");
        memory.retry_now(now);
        assert!(!memory.is_exhausted("c"), "someone else changed the release");
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_retries_from_a_failure_of_the_resources_own_until_a_success() {
        let now = Instant::now();
        let mut memory = ResourceMemory::default();
        let fail = |memory: &mut ResourceMemory, inputs: &str, attempted| {
            memory.fail(&failed(attempted), inputs.into(), now, None);
            memory.is_retry()
        };
        assert!(!fail(&mut memory, "a", false), "an outage");
        assert!(fail(&mut memory, "a", true));
        assert!(fail(&mut memory, "b", false), "an outage changes nothing");
        memory.retry_now(now);
        assert!(memory.is_retry() && !memory.has_changed("b") && memory.has_changed("c"));
        memory.succeed();
        assert!(!memory.is_retry() && memory.is_blank());
        memory.is_slow = true;
        assert!(memory.is_retry() && memory.has_changed("a") && !memory.is_blank());
        memory.succeed();
        assert!(!memory.is_retry());
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_whose_clean_up_is_not_complete_uses_up_no_retries_but_is_retried_apart() {
        let mut memory = ResourceMemory::default();
        let attempt = FailedAttempt::rendering(Reason::Own("X"), "m".into());
        let outage = Unanswered::with_reason(Reason::Unanswered, "away".into());
        for (obstacle, lasting) in [(Obstacle::Lasting, 1), (Obstacle::Outage, 1), (Obstacle::Lasting, 2)] {
            let failed: Failed = attempt.clone().uncleaned(obstacle, "m; and more".into()).into();
            memory.fail(&failed, "a".into(), Instant::now(), Some(0));
            assert_eq!((memory.is_exhausted("a"), memory.is_retry()), (false, true));
            assert_eq!((memory.obstructions("a"), memory.obstructions("b")), (lasting, 0));
            assert_eq!((memory.uncleaned("a").as_ref(), memory.uncleaned("b")), (Some(&attempt), None));
            memory.fail(&outage.clone().into(), "a".into(), Instant::now(), Some(0));
            assert_eq!(memory.uncleaned("a").as_ref(), Some(&attempt), "an outage completes nothing");
        }
        memory.fail(&attempt.into(), "a".into(), Instant::now(), Some(0));
        assert_eq!((memory.is_exhausted("a"), memory.uncleaned("a")), (true, None));
        memory.fail(&outage.into(), "b".into(), Instant::now(), Some(0));
        assert_eq!(memory.uncleaned("b"), None, "nothing was tried with other inputs");
    }

    #[tokio::test(start_paused = true)]
    async fn refused_ends_of_hooks_count_per_inputs_until_an_attempt_has_failed() {
        let mut memory = ResourceMemory::default();
        let attempt = FailedAttempt::rendering(Reason::Own("X"), "m".into());
        let mut fail = |failed: Failed, inputs: &str| {
            memory.fail(&failed, inputs.into(), Instant::now(), None);
            (memory.refused_ends("a"), memory.obstructions("a"))
        };
        let refused = || -> Failed { attempt.clone().uncleaned(Obstacle::Unended, "m; and more".into()).into() };
        let outage = || -> Failed { Unanswered::with_reason(Reason::Unanswered, "away".into()).into() };
        assert_eq!([fail(refused(), "a"), fail(outage(), "a"), fail(refused(), "a")], [(1, 0), (1, 0), (2, 0)]);
        assert_eq!(fail(attempt.clone().into(), "a"), (0, 0), "the next attempt has its own");
        assert_eq!([fail(refused(), "a"), fail(refused(), "b"), fail(refused(), "a")], [(1, 0), (0, 0), (1, 0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_previous_process_only_renders_that_a_limit_ended_are_retries() {
        for (reason, is_retry) in
            [(Reason::RenderLimit, true), (Reason::RenderError, false), (Reason::UpgradeError, false)]
        {
            let memory = ResourceMemory::restore(&failing(reason.as_str(), 2, "u"), Instant::now(), today()).unwrap();
            assert_eq!((memory.is_retry(), memory.has_changed("a")), (is_retry, false), "{reason}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_restart_given_up_inputs_are_tried_once() {
        let now = Instant::now();
        let mut given_up = resource("UpgradeError", 2, "u", "{}");
        let mut stalled = given_up.status.conditions[0].clone();
        (stalled.kind, stalled.reason) = ("Stalled".into(), RETRIES_EXCEEDED.into());
        given_up.status.conditions.push(stalled);
        for (primary, exhausted) in [(Arc::new(given_up), true), (failing("UpgradeError", 2, "u"), false)] {
            let mut memory = ResourceMemory::restore(&primary, now, today()).unwrap();
            assert!(memory.restored(&primary).is_some(), "it is tried");
            memory.fail(&failed(true), "a".into(), now, Some(3));
            assert_eq!(memory.is_exhausted("a"), exhausted);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_restart_a_failure_is_retried_once_soon_and_then_backs_off_as_before() {
        let now = Instant::now();
        let primary = failing("InstallError", 2, "u");
        let mut memory = ResourceMemory::restore(&primary, now, today()).unwrap();
        let retry_at = memory.restored(&primary).unwrap();
        assert_eq!(memory.restored_wait(now), Some(retry_at - now));
        assert_eq!(memory.restored_wait(retry_at), None, "not worth a line");
        assert!(retry_at <= now + SPREAD);
        assert_eq!(memory.deadlines()[1], Some(retry_at));
        assert!(memory.fail(&blocked(Reason::InstallError), "any".into(), now, None));
        assert_eq!(memory.held_until("any", now), Some(now + backoff::LONGEST));
        assert_eq!((memory.restored(&primary), memory.fault()), (None, Some(fault(Reason::InstallError))));
        let mut memory = ResourceMemory::restore(&primary, now, today()).unwrap();
        let annotated = "{\"helm.sdk.operatorframework.io/adopt\": \"true\"}";
        assert_eq!(memory.restored(&resource("InstallError", 2, "u", annotated)), None, "a change of its own");
        memory.retry_now(now);
        assert_eq!(memory.restored(&primary), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_failure_of_the_previous_process_is_named_until_the_first_attempt() {
        let now = Instant::now();
        for (reason, expected) in [("UpgradeError", Reason::UpgradeError), ("OfTheAuthor", Reason::ReconcileError)] {
            let restored = ResourceMemory::restore(&failing(reason, 2, "u"), now, today()).unwrap();
            let found = Fault { condition: condition::RELEASE_FAILED, reason: expected, message: "m".into() };
            let mut memory = restored.clone();
            memory.retry_now(now);
            assert_eq!((memory.fault(), memory.own_fault()), (Some(found), None), "{reason}");
            memory.fail(&blocked(Reason::Own("X")), "any".into(), now, None);
            assert_eq!(memory.fault(), Some(fault(Reason::Own("X"))));
            let mut memory = restored;
            memory.succeed();
            assert!(memory.fault().is_none() && memory.is_blank());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn first_tries_after_a_restart_are_spread_but_no_longer_than_the_failing_has_lasted() {
        let now = Instant::now();
        let retry = |uid: usize, today| {
            let primary = failing("InstallError", 2, &uid.to_string());
            ResourceMemory::restore(&primary, now, today).unwrap().restored(&primary).unwrap() - now
        };
        let first = (0..100).filter(|uid| retry(*uid, today()) < SPREAD / 2).count();
        assert!((35..65).contains(&first), "{first} of 100 in the first half");
        let just_now = "2026-01-01T00:00:01Z".parse().unwrap();
        assert!((0..100).all(|uid| retry(uid, just_now) <= SECOND));
        let before = "2025-12-31T00:00:00Z".parse().unwrap();
        assert_eq!(retry(1, before), Duration::ZERO, "a clock that went back");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_restored_for_other_inputs_or_a_healthy_resource() {
        let now = Instant::now();
        assert!(ResourceMemory::restore(&failing("InstallError", 1, "u"), now, today()).is_none());
        let mut healthy = resource("InstallError", 2, "u", "{}");
        healthy.status.conditions[0].status = "False".into();
        assert!(ResourceMemory::restore(&Arc::new(healthy.clone()), now, today()).is_none());
        healthy.status.conditions.clear();
        assert!(ResourceMemory::restore(&Arc::new(healthy), now, today()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_fight_is_restored_with_its_message() {
        let now = Instant::now();
        let mut memory = ResourceMemory::restore(&failing(Reason::DriftLoop.as_str(), 2, "u"), now, today()).unwrap();
        assert!(memory.restored.is_none());
        assert_eq!(memory.fault().unwrap().message, "m");
        assert!(!memory.drift.count(now + SECOND), "it was reported already");
        assert!(memory.drift.hold_until.is_some(), "and goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn a_restored_fight_forgets_what_failed_beside_it() {
        let message = format!("m{ALSO_FAILS}n");
        let mut primary = resource(Reason::DriftLoop.as_str(), 2, "u", "{}");
        primary.status.conditions[0].message = message.as_str().into();
        let memory = ResourceMemory::restore(&Arc::new(primary), Instant::now(), today()).unwrap();
        assert_eq!(memory.fault().unwrap().message, "m");
    }
}
