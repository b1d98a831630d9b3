//! Detects another helm-operator process that works on the same releases at the same time, because it runs without
//! leader election or uses another lease.
//!
//! Every record names the last process that wrote it. A record in the first list was written by an earlier process,
//! which has ended or waits for the lease. A record that another process writes later proves that two are running. Then
//! the one that notices gives way: it leaves an unfinished action alone, and waits longer each time before it replaces
//! the other's revision, unless its own inputs change.

use controller::report::Outcome;
use controller::runtime::backoff::{self, Retry};
use tokio::time::Instant;

use crate::reconcile::decide::memory::LastFailure;
use crate::reconcile::decide::remembered::Met;
use crate::reconcile::decide::state::{Inputs, Recorded};
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{Ended, Learned, NextStep};
use crate::reconcile::report::other_operator::{REMEDY, contested};
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::view::primary::Primary;

/// The first wait is that after this many failures plus one: four seconds, so that a process that is ending does not
/// delay the next one.
const FIRST_WAIT: u32 = 3;

impl StepContext<'_> {
    /// Returns whether another process wrote the newest revision and this one has not yet waited for it.
    pub(crate) fn is_contested(&self) -> bool {
        let waited_for = self.shared.memory.of(self.key).competitor.as_ref().map_or(0, |met| met.waited_for);
        self.release().is_some_and(|release| release.winner().is_some_and(|(revision, _)| revision != waited_for))
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

    /// Waits before the next revision replaces another process's: longer each time, but not at all for other inputs.
    pub(crate) fn give_way(&self, primary: &Primary) -> Ended {
        let Some(release) = self.release() else { return NextStep::Again.into() };
        // In the meantime, the other process may have used the inputs that were rendered here.
        let ended = NextStep::Again.with([Learned::Outdated]);
        if self.knowing(&ended.learned).compared(Some(&release), primary) == Inputs::Same {
            return ended;
        }
        let Some((revision, competitor)) = release.winner() else { return ended };
        let fault = contested(primary, revision, competitor);
        let at = Instant::now() + backoff::wait(competitor.rounds.saturating_add(FIRST_WAIT));
        tracing::warn!(resource = %self.key, reason = fault.reason.as_str(), error = fault.message, "Waiting with the next revision");
        self.change_met(|met| met.waited_for = revision);
        let failure = LastFailure {
            failed: Failed::Blocked(fault.clone()),
            inputs: self.attempt(primary),
            retry: Retry { failures: 0, at },
            attempts: 0,
            is_own: false,
            exhausted: false,
        };
        self.shared.memory.change(self.key, |memory| memory.failure = Some(Box::new(failure)));
        self.shared.publish(primary, Outcome::warning(fault.reason.as_str(), "Reconcile", fault.message));
        ended
    }

    fn change_met(&self, change: impl FnOnce(&mut Met)) {
        self.shared.memory.change(self.key, |memory| change(memory.competitor.get_or_insert_default()));
    }
}
