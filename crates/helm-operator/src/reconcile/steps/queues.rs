//! Waits that occupy no worker: for the slot of a rollout-limited upgrade, and for a permit that only retries share, so
//! that they do not delay others.

use controller::runtime::retries::RetryInputs;

use crate::reconcile::decide::gate::Gate;
use crate::reconcile::decide::inputs;
use crate::reconcile::decide::state::{Awaits, UpgradeSlot};
use crate::reconcile::decide::turns::RolloutTurn;
use crate::reconcile::learned::{Ended, Learned, NextStep};
use crate::reconcile::step_context::StepContext;
use crate::status::{Health, condition};
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;

impl StepContext<'_> {
    /// Queues the resource for a retry permit.
    pub(crate) fn wait_for_retry(&self, primary: &Primary) -> NextStep {
        let has_changed = self.shared.memory.of(self.key).has_changed(&self.attempt(primary));
        let attempt = if has_changed { RetryInputs::Corrected } else { RetryInputs::Same };
        self.shared.queue.retry(self.key, attempt);
        NextStep::Done
    }

    /// Postpones a render that delayed others: although nothing failed, it is repeated with a retry permit.
    pub(crate) fn postpone(&self) -> Ended {
        self.shared.memory.change(self.key, |memory| memory.is_slow = true);
        NextStep::Again.with([Learned::Postponed])
    }

    /// Returns whether an upgrade needs a slot. An upgrade that a person requested needs none.
    pub(crate) fn upgrade_slot(&self, primary: &Primary, release: Option<&ReleaseRecords>) -> UpgradeSlot {
        let rollout = &self.shared.rollout;
        let is_free =
            !rollout.is_limited() || self.full_reconcile(primary).is_some() || !self.is_from_outside(primary, release);
        if !is_free && self.turn(primary) != RolloutTurn::Free {
            return UpgradeSlot::Waiting;
        }
        match is_free || rollout.holds(self.key) {
            true => UpgradeSlot::NotNeeded,
            false if self.found.is_queued => UpgradeSlot::Waiting,
            false => UpgradeSlot::Needed,
        }
    }

    /// Takes a slot, or queues for one. No worker waits for it: releasing a slot wakes the next resource.
    pub(crate) fn enqueue_upgrade(&self) -> Ended {
        let is_taken = self.shared.rollout.take(self.key);
        NextStep::Again.with((!is_taken).then_some(Learned::Queued))
    }

    /// Records that an upgrade starts. One that an earlier process started takes a slot even if none is free.
    pub(crate) fn begin_upgrade(&self, primary: &Primary, release: Option<&ReleaseRecords>) {
        if self.is_from_outside(primary, release) && self.full_reconcile(primary).is_none() {
            self.shared.rollout.claim(self.key);
            if self.is_by_sources(release) {
                self.shared.rollout.note_by_sources(self.key);
            }
            let is_resumed =
                release.and_then(ReleaseRecords::newest).is_some_and(|(_, newest)| newest.status.is_pending());
            let is_first = !is_resumed && self.shared.memory.of(self.key).fault().is_none();
            if is_first && primary.status.find(condition::READY).is_some_and(|ready| &*ready.status == "False") {
                self.shared.rollout.note_ailing(self.key);
            }
        }
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

    /// Releases the slot once the release is up to date, or no longer being worked on.
    pub(crate) fn leave_rollout(&self, primary: &Primary, health: Option<&Health>) {
        let rollout = &self.shared.rollout;
        if !rollout.is_limited() || !(rollout.holds(self.key) || rollout.is_waiting(self.key)) {
            return;
        }
        let is_pinned = self.pinned(primary).is_some();
        let idle = primary.deleting || primary.annotations.leaves_alone() || is_pinned;
        let memory = self.shared.memory.of(self.key);
        let fault = memory.fault();
        // A chart that does not render has changed nothing, unless an earlier attempt did. A release that waits in line
        // keeps its position: nothing else would wake it.
        let has_begun =
            self.release().as_deref().and_then(ReleaseRecords::newest).is_some_and(|(_, r)| r.status.is_pending());
        let is_blocked = fault.is_some_and(|fault| fault.condition == condition::IRRECONCILABLE);
        let never_began = !has_begun && is_blocked && rollout.holds(self.key);
        // It was handed the slot, but cannot start now. Its turn or its dependency wakes it, and it queues again.
        let cannot_begin = !has_begun && fault.is_none() && rollout.holds(self.key) && self.waits_for_others(primary);
        let is_tested = !self.is_test_due(primary);
        let settled =
            fault.is_none() && health == Some(&Health::Ready) && self.has_current_inputs(primary) && is_tested;
        let is_undone = self.gate(primary, self.release().as_deref()) == Gate::Closed;
        let is_stalled = matches!(health, Some(Health::TimedOut(_) | Health::Failed(_)));
        let is_by_sources = rollout.is_by_sources(self.key);
        let stalled = is_stalled && (is_by_sources || rollout.is_ailing(self.key));
        let failed = is_by_sources && !has_begun && fault.is_some();
        if idle || never_began || cannot_begin || settled || stalled || failed || is_undone {
            self.shared.leave_rollout(self.key);
        }
    }

    /// Returns whether an upgrade has to wait for the rollout or for a dependency.
    fn waits_for_others(&self, primary: &Primary) -> bool {
        let is_due = !self.has_current_inputs(primary);
        is_due && (self.turn(primary) != RolloutTurn::Free || self.awaits(primary) == Awaits::Missing)
    }

    fn has_current_inputs(&self, primary: &Primary) -> bool {
        let release = self.release();
        let marks = release.as_deref().and_then(ReleaseRecords::deployed_marks);
        marks.is_some_and(|marks| inputs::is_equal(&marks.inputs, &self.inputs_digest(primary)))
    }
}
