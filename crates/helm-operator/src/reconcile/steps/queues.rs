//! Waits that occupy no worker: for the slot of a rollout-limited upgrade, until it is known who has one, and for a
//! permit that only retries share, so that they do not delay others.

use controller::runtime::retries::RetryInputs;
use helm_release::release::Status as Outcome;
use helm_release::storage::Before;

use crate::dependencies::Waiting;
use crate::reconcile::decide::gate::Gate;
use crate::reconcile::decide::inputs;
use crate::reconcile::decide::rollout::{self, Attempt, Begun, Cause, Claim, Due};
use crate::reconcile::decide::state::{Awaits, Inputs, Planning, Recorded, UpgradeSlot};
use crate::reconcile::decide::turns::RolloutTurn;
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{Ended, Learned, NextStep};
use crate::reconcile::step_context::StepContext;
use crate::status::{Health, condition};
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;

/// The reason while it is unknown how far the upgrades of the other releases are.
const UNKNOWN: &str = "RolloutUnknown";

/// Names no namespace, because the resource's readers may not see it.
const WHY: &str = "waiting until the operator has listed all resources of this kind and their release records: those \
    that it may not list may have an upgrade permit, or hold the rollout back. Its log names them; allow it to list \
    and watch them, or remove their namespace from WATCH_NAMESPACE";

impl StepContext<'_> {
    /// Queues the resource for a retry permit.
    pub(crate) fn wait_for_retry(&self, primary: &Primary) -> Ended {
        let is_plan = self.planning(primary) == Planning::Due;
        let memory = self.shared.memory.of(self.key);
        let has_changed = memory.has_changed(&self.attempt(primary));
        // Corrections come before other retries, so a plan must not count as one.
        let attempt = if has_changed && !is_plan { RetryInputs::Corrected } else { RetryInputs::Same };
        self.shared.queue.retry(self.key, attempt);
        // Until then, the status names the last plan, or the failure of the previous process.
        let is_kept = is_plan || memory.restored(primary).is_some();
        NextStep::Done.with(is_kept.then_some(Learned::StatusKept))
    }

    /// Postpones a render that delayed others: although nothing failed, it is repeated with a retry permit.
    pub(crate) fn postpone(&self) -> Ended {
        self.shared.memory.change(self.key, |memory| memory.is_slow = true);
        NextStep::Again.with([Learned::Postponed])
    }

    /// Returns whether an upgrade needs a slot. An upgrade that a person requested needs none.
    pub(crate) fn upgrade_slot(&self, primary: &Primary, release: Option<&ReleaseRecords>) -> UpgradeSlot {
        let rollout = &self.shared.rollout;
        let is_free = !rollout.is_limited() || !self.needs_slot(primary, release);
        if !is_free && self.is_out_of_turn(primary, release) {
            return UpgradeSlot::Waiting;
        }
        match is_free || rollout.holds(self.key) {
            true => UpgradeSlot::NotNeeded,
            false if self.found.is_queued => UpgradeSlot::Waiting,
            false => UpgradeSlot::Needed,
        }
    }

    /// Returns what the release waits for, if its next upgrade gets no slot before all releases are known.
    pub(crate) fn waits_for_sight(&self, primary: &Primary) -> Option<Waiting> {
        if primary.deleting || !self.shared.unseen.is_any() || self.shared.rollout.holds(self.key) {
            return None;
        }
        let release = self.release();
        let release = release.as_deref();
        // An upgrade only seems to be due before its sources are read, or a record of another scheme is compared.
        let is_stopped = self.upgrade_slot(primary, release) == UpgradeSlot::Waiting;
        let is_wanted = !matches!(self.gate(primary, release), Gate::Closed | Gate::Pin | Gate::Pinned);
        let waits = is_stopped && is_wanted && self.due(primary, release) == Due::InSlot;
        waits.then(|| Waiting { reason: UNKNOWN, message: WHY.to_owned(), is_final: false })
    }

    /// Takes a slot, or queues for one. No worker waits for it: releasing a slot wakes the next resource. Does neither
    /// before all releases are known: unknown ones may have all slots, or fail the gate of the rollout.
    pub(crate) fn enqueue_upgrade(&self, primary: &Primary) -> Ended {
        let take = || self.shared.rollout.take(|| self.is_known(primary), self.key);
        let is_taken = !self.shared.unseen.is_any() && take();
        NextStep::Again.with((!is_taken).then_some(Learned::Queued))
    }

    /// Records that an upgrade starts. An upgrade that an earlier process started takes a slot even if none is free.
    pub(crate) fn begin_upgrade(&self, primary: &Primary, release: Option<&ReleaseRecords>) {
        if self.needs_slot(primary, release) {
            let cause = if self.is_by_sources(release) { Cause::Sources } else { Cause::Shared };
            let next = Begun { before: self.readiness_before(primary, release), cause };
            self.shared.rollout.begin(|| self.is_known(primary), self.key, next);
        }
    }

    /// Returns whether the resource is still there.
    fn is_known(&self, primary: &Primary) -> bool {
        self.shared.cache.has_primary(self.key, primary.uid())
    }

    /// Returns the release's state before an upgrade; after failed or interrupted attempts, its state before the first.
    fn readiness_before(&self, primary: &Primary, release: Option<&ReleaseRecords>) -> Before {
        let inputs = self.inputs_digest(primary);
        let is_repeated = release.is_some_and(|release| {
            let is_resumed = release.newest().is_some_and(|(_, newest)| newest.status.is_pending());
            is_resumed || rollout::has_failed(release, &inputs)
        });
        if is_repeated || self.shared.memory.of(self.key).own_fault().is_some() {
            return release.and_then(rollout::before_attempts).unwrap_or(Before::Ready);
        }
        let is_unready = primary.status.find(condition::READY).is_some_and(|ready| &*ready.status == "False");
        if is_unready && !primary.status.is_blind() { Before::Unready } else { Before::Ready }
    }

    /// Returns whether the next upgrade needs a slot. An upgrade that a person requested does not.
    fn needs_slot(&self, primary: &Primary, release: Option<&ReleaseRecords>) -> bool {
        self.full_reconcile(primary).is_none() && self.is_from_outside(primary, release)
    }

    /// Returns whether only the resource's own sources of values cause the upgrade.
    fn is_by_sources(&self, release: Option<&ReleaseRecords>) -> bool {
        let deployed = release.and_then(ReleaseRecords::deployed_marks);
        let candidate = self.found.candidate.as_ref();
        deployed.zip(candidate).is_some_and(|(marks, next)| inputs::is_by_sources(&marks.inputs, &next.inputs))
    }

    /// Returns whether the resource itself has not changed since its deployed revision was created, but something
    /// outside has.
    pub(crate) fn is_from_outside(&self, primary: &Primary, release: Option<&ReleaseRecords>) -> bool {
        let marks = release.and_then(ReleaseRecords::deployed_marks);
        marks.is_some_and(|marks| inputs::is_from_outside(&marks.inputs, &self.inputs_digest(primary)))
    }

    /// Gives up the slot, or the position in line, once the release no longer needs it.
    pub(crate) fn leave_rollout(&self, primary: &Primary, health: Option<&Health>) {
        let Some(place) = self.shared.rollout.place(self.key) else { return };
        if !place.is_kept(&self.claim(primary, health)) {
            self.shared.leave_rollout(self.key);
        }
    }

    /// Returns what decides whether the release keeps its place.
    fn claim<'h>(&self, primary: &Primary, health: Option<&'h Health>) -> Claim<'h> {
        let release = self.release();
        let release = release.as_deref();
        let newest = release.and_then(ReleaseRecords::newest);
        let gate = self.gate(primary, release);
        let due = self.due(primary, release);
        let is_unwanted = matches!(gate, Gate::Closed | Gate::Pin | Gate::Pinned);
        let is_idle = primary.deleting || primary.annotations.leaves_alone();
        Claim {
            is_left: is_idle || is_unwanted || self.recorded(primary) == Recorded::Foreign,
            due,
            attempt: self.last_attempt(primary, release),
            is_made: release.is_some_and(rollout::is_made_in_slot),
            is_blocked: self.is_irreconcilable(),
            is_out_of_turn: due != Due::Nothing && self.is_out_of_turn(primary, release),
            lacks_dependency: due != Due::Nothing && self.awaits(primary) == Awaits::Missing,
            lacks_memory: due != Due::Nothing && self.is_crowded(primary),
            is_held: self.is_held(primary, release),
            is_stuck: newest.is_some_and(|(_, newest)| self.is_stuck(primary, newest)),
            is_tested: gate != Gate::RollBack && !self.is_test_due(primary),
            health,
        }
    }

    fn due(&self, primary: &Primary, release: Option<&ReleaseRecords>) -> Due {
        let is_same = matches!(self.found.judged, Some(Inputs::Same | Inputs::RenderedSame));
        match is_same || self.has_current_inputs(primary, release) {
            true => Due::Nothing,
            false if self.needs_slot(primary, release) => Due::InSlot,
            false => Due::Freely,
        }
    }

    /// Returns how far the upgrade to the current inputs has come. A failure may have left no record.
    fn last_attempt(&self, primary: &Primary, release: Option<&ReleaseRecords>) -> Attempt {
        let is_action = |failed: &Failed| {
            matches!(failed, Failed::Attempt(_)) && failed.fault().condition == condition::RELEASE_FAILED
        };
        let memory = self.shared.memory.of(self.key);
        let has_failed = memory.failure.as_ref().is_some_and(|failure| is_action(&failure.failed));
        let recorded = release.map_or(Attempt::None, |release| rollout::attempt(release, &self.inputs_digest(primary)));
        if has_failed && recorded == Attempt::None { Attempt::Failed } else { recorded }
    }

    /// Returns whether the last failure lets nothing be tried. A failed repair does not.
    fn is_irreconcilable(&self) -> bool {
        let memory = self.shared.memory.of(self.key);
        memory.failure.as_ref().is_some_and(|failure| failure.failed.fault().condition == condition::IRRECONCILABLE)
    }

    /// Returns whether the rollout holds the next upgrade back. A failed upgrade is repeated even while the rollout is
    /// taken back, because only a deployed revision can be taken back.
    fn is_out_of_turn(&self, primary: &Primary, release: Option<&ReleaseRecords>) -> bool {
        let newest = release.and_then(ReleaseRecords::newest);
        match self.turn(primary) {
            RolloutTurn::Free => false,
            RolloutTurn::Held(_) => true,
            RolloutTurn::TakenBack => newest.is_none_or(|(_, newest)| newest.status != Outcome::Failed),
        }
    }

    fn has_current_inputs(&self, primary: &Primary, release: Option<&ReleaseRecords>) -> bool {
        let marks = release.and_then(ReleaseRecords::deployed_marks);
        marks.is_some_and(|marks| {
            inputs::is_equal(&marks.inputs, &self.inputs_digest(primary))
                || self.differs_by_chance(&marks.inputs, primary)
        })
    }
}
