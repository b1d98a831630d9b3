//! Detects another helm-operator process that works on the same releases at the same time, because it runs without
//! leader election or uses another lease.
//!
//! Every record names the last process that wrote it. A record in the first list was written by an earlier process,
//! which has ended or waits for the lease. A record that another process writes later proves that two are running. Then
//! the one that notices gives way: it leaves an unfinished action alone, and waits longer each time before it replaces
//! the other's revision, unless its own inputs change.
//!
//! Helm and upstream operators leave no name, and a shard of a ring expects other names. Whoever it is: if revisions of
//! others were replaced several times in a row, they are made again each time, and this process waits as well.

use controller::report::Outcome;
use controller::runtime::backoff;
use tokio::time::Instant;

use crate::reconcile::decide::last_failure::LastFailure;
use crate::reconcile::decide::remembered::{Met, RecordVersion};
use crate::reconcile::decide::state::{Inputs, Recorded};
use crate::reconcile::learned::{Ended, Learned, NextStep};
use crate::reconcile::report::other_operator::{REMEDY, contested, disputed};
use crate::reconcile::step_context::StepContext;
use crate::status::Fault;
use crate::status::reason::Reason;
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;

/// The first wait is that after this many failures plus one: four seconds, so that a process that is ending does not
/// delay the next one.
const FIRST_WAIT: u32 = 3;

impl StepContext<'_> {
    /// Returns whether another process wrote the newest revision and this one has not yet waited for it.
    pub(crate) fn is_contested(&self) -> bool {
        let waited_for = self.shared.memory.of(self.key).competitor.as_ref().map_or(0, |met| met.waited_for_revision);
        self.release().is_some_and(|release| release.winner().is_some_and(|(revision, _)| revision != waited_for))
    }

    /// Returns whether someone else keeps recording this release, this process has replaced that too often, and has not
    /// yet waited before it replaces the newest record.
    pub(crate) fn is_disputed(&self) -> bool {
        let memory = self.shared.memory.of(self.key);
        let Some(met) = memory.competitor.as_deref().filter(|met| met.excess(self.decided) > 0) else { return false };
        self.release().as_deref().and_then(others_newest).is_some_and(|newest| met.waited_for_record != Some(newest))
    }

    /// Counts an action that replaces what others recorded last.
    pub(crate) fn note_replacement(&self) {
        if let Some(newest) = self.release().as_deref().and_then(others_newest) {
            self.change_met(|met| met.replace(newest, self.decided));
        }
    }

    /// Reports, once, another process that writes this release's records.
    pub(crate) fn report_competitor(&self, primary: &Primary) {
        let Some(release) = self.release().filter(|release| release.competitor.is_some()) else { return };
        let Some(writer) = release.competitor.as_ref().map(|competitor| competitor.writer.clone()) else { return };
        let reported = self.shared.memory.of(self.key).competitor.as_ref().and_then(|met| met.reported.clone());
        if self.recorded(primary) == Recorded::Foreign || reported.as_ref() == Some(&writer) {
            return;
        }
        self.change_met(|met| met.reported = Some(writer.clone()));
        let message = format!(
            "another operator also serves this resource: {writer} wrote its release while this one was running; {REMEDY}"
        );
        match self.shared.cache.meets(&writer) {
            true => {
                tracing::warn!(resource = %self.key, other = &*writer, "Another operator serves the same resources: {REMEDY}")
            }
            false => {
                tracing::debug!(resource = %self.key, other = &*writer, "Another operator serves the same resource")
            }
        }
        self.shared.publish(primary, Outcome::warning(Reason::OtherOperator.as_str(), "Reconcile", message));
    }

    /// Waits before the next revision replaces one of others: longer each time, but not at all for other inputs.
    pub(crate) fn give_way(&self, primary: &Primary) -> Ended {
        let Some(release) = self.release() else { return NextStep::Again.into() };
        // In the meantime, the other process may have used the inputs that were rendered here.
        let ended = NextStep::Again.with([Learned::Outdated]);
        let is_disputed = self.is_disputed();
        // After a failure, the comparison is with what was deployed before, which is not the other's revision.
        let is_deployed = self.recorded(primary) == Recorded::Deployed;
        let is_same = || self.knowing(&ended.learned).compared(Some(&release), primary) == Inputs::Same;
        if !is_disputed && is_deployed && is_same() {
            return ended;
        }
        let (fault, rounds) = match (release.winner(), release.newest()) {
            (Some((revision, competitor)), _) => (contested(primary, revision, competitor), competitor.rounds),
            (None, Some((revision, _))) if is_disputed => (disputed(primary, revision), 0),
            (None, _) => return ended,
        };
        let excess = self.shared.memory.of(self.key).competitor.as_deref().map_or(0, |met| met.excess(self.decided));
        let at = Instant::now() + backoff::wait(rounds.max(excess).saturating_add(FIRST_WAIT));
        self.change_met(|met| {
            met.waited_for_revision = release.newest().map_or(0, |(revision, _)| revision);
            met.waited_for_record = others_newest(&release);
        });
        self.wait_for_others(primary, LastFailure::waiting(fault, self.attempt(primary), at));
        ended
    }

    /// Waits because others write what this process writes, and reports that, unless the resource is gone.
    pub(crate) fn wait_for_others(&self, primary: &Primary, waiting: LastFailure) {
        let Fault { reason, message, .. } = waiting.failed.fault().clone();
        let reason = reason.as_str();
        if self.hold_for_others(primary, waiting).is_none() {
            return;
        }
        tracing::warn!(resource = %self.key, reason, error = message, "Waiting because of another writer");
        self.shared.publish(primary, Outcome::warning(reason, "Reconcile", message));
    }

    /// Waits, and reports nothing. Returns `None` if the resource is gone: its wait must not count for a new resource of
    /// that name.
    pub(super) fn hold_for_others(&self, primary: &Primary, waiting: LastFailure) -> Option<()> {
        self.change_memory_of(primary, |memory| memory.failure = Some(Box::new(waiting)))
    }

    fn change_met(&self, change: impl FnOnce(&mut Met)) {
        self.shared.memory.change(self.key, |memory| change(memory.competitor.get_or_insert_default()));
    }
}

/// Returns the newest revision if this process did not write its record last.
fn others_newest(release: &ReleaseRecords) -> Option<RecordVersion> {
    let (revision, newest) = release.newest()?;
    (!newest.is_own()).then_some((revision, newest.resource_version))
}
