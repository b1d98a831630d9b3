//! Another process of ours that works on the same releases at the same time, because it holds no lease, or another one.
//!
//! Every record names the process that wrote it last. A record from the first list was written by a process that came before: it has ended, or waits
//! for the lease. One that another process writes later proves that two are at work. Then the one that notices gives way: it leaves an
//! unfinished action alone, and waits longer each time before it replaces the other's revision, unless its own inputs change.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::reconcile::context::{Next, Work};
use crate::reconcile::decide::memory::LastFailure;
use crate::reconcile::decide::state::{Inputs, Recorded};
use crate::reconcile::failure::Failed;
use crate::report::Outcome;
use crate::runtime::backoff::{self, Retry};
use crate::status::{Fault, condition};
use crate::view::primary::Primary;
use crate::view::release::Release;

/// The reason of a second process on the same resource.
const OTHER_OPERATOR: &str = "OtherOperator";

/// How long another process's action is left alone after the last write to its record. Without leader election the process may have ended in the
/// middle of it.
const PATIENCE: Duration = Duration::from_secs(120);

/// After this time without a revision by another process, waits are short again. Longer than the longest wait.
const QUIET: Duration = Duration::from_secs(900);

/// The first wait is the one after this many failures and one more: four seconds, so that a process that ends does not hold up the next one.
const FIRST_WAIT: u32 = 3;

/// What to do about two operators.
const REMEDY: &str = "stop one of them, or run both with --leader-elect and the same --leader-election-id";

/// Another process that writes a release's records while this one runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rival {
    writer: Arc<str>,
    /// The newest revision that it wrote and this process has not written since.
    revision: Option<u32>,
    /// When its last write was seen.
    seen: Timestamp,
    /// How many revisions it wrote without a quiet while between them.
    rounds: u32,
}

/// What a resource's history knows of another process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// The process that was reported.
    reported: Option<Arc<str>>,
    /// The revision that this process has waited for.
    waited_for: u32,
}

impl Release {
    /// Notes a record that another process wrote while this one was watching.
    pub(crate) fn note_rival(&mut self, writer: &str, version: u32, now: Timestamp) {
        let known = self.rival.take().filter(|known| now < known.seen + QUIET);
        let last = known.as_ref().and_then(|known| known.revision);
        let is_new = last.is_none_or(|revision| revision < version);
        let rounds = known.map_or(0, |known| known.rounds).saturating_add(u32::from(is_new));
        self.rival =
            Some(Box::new(Rival { writer: writer.into(), revision: last.max(Some(version)), seen: now, rounds }));
    }

    /// Notes that this process has written a revision.
    pub(crate) fn note_own(&mut self, version: u32) {
        if let Some(rival) = &mut self.rival {
            rival.revision = rival.revision.filter(|revision| *revision != version);
        }
    }

    /// The other process, if it wrote the newest revision.
    fn winner(&self) -> Option<(u32, &Rival)> {
        let (newest, _) = self.newest()?;
        let rival = self.rival.as_deref().filter(|rival| rival.revision == Some(newest))?;
        Some((newest, rival))
    }

    /// Until when to leave the newest revision alone, if another process is working on it.
    pub(crate) fn left_to_rival(&self) -> Option<Timestamp> {
        self.winner()?.1.seen.checked_add(PATIENCE).ok()
    }

    /// The other process that wrote the newest revision.
    pub(crate) fn written_by_rival(&self) -> Option<&str> {
        self.winner().map(|(_, rival)| &*rival.writer)
    }
}

impl Work<'_> {
    /// Whether another process made the newest revision, and this one has not waited for it yet.
    pub(crate) fn is_contested(&self) -> bool {
        let waited_for = self.shared.cache.history(self.key).rival.as_ref().map_or(0, |met| met.waited_for);
        self.release().is_some_and(|release| release.winner().is_some_and(|(revision, _)| revision != waited_for))
    }

    /// Reports another process that writes this release's records, once.
    pub(crate) fn report_rival(&self, primary: &Primary) {
        let Some(release) = self.release().filter(|release| release.rival.is_some()) else { return };
        let Some(writer) = release.rival.as_ref().map(|rival| rival.writer.clone()) else { return };
        let reported = self.shared.cache.history(self.key).rival.as_ref().and_then(|met| met.reported.clone());
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
        self.shared.publish(primary, Outcome::warning(OTHER_OPERATOR, "Reconcile", message));
    }

    /// Waits before the next revision replaces that of another process: longer each time, and not at all for other inputs.
    pub(crate) fn give_way(&mut self, primary: &Primary) -> Next {
        let Some(release) = self.release() else { return Next::Again };
        // It may be made from what was rendered here meanwhile.
        (self.judged, self.candidate) = (None, None);
        if self.compared(Some(&release), primary) == Inputs::Same {
            return Next::Again;
        }
        let Some((revision, rival)) = release.winner() else { return Next::Again };
        let fault = contested(primary, revision, rival);
        let at = Instant::now() + backoff::wait(rival.rounds.saturating_add(FIRST_WAIT));
        tracing::warn!(resource = %self.key, reason = fault.reason, error = fault.message, "Waiting with the next revision");
        self.change_met(|met| met.waited_for = revision);
        let failure = LastFailure {
            failed: Failed::Blocked(fault.clone()),
            inputs: self.attempt(primary),
            retry: Retry { failures: 0, at },
            attempts: 0,
            is_own: false,
            exhausted: false,
        };
        self.shared.cache.change_history(self.key, |history| history.failure = Some(Box::new(failure)));
        self.shared.publish(primary, Outcome::warning(fault.reason, "Reconcile", fault.message));
        Next::Again
    }

    fn change_met(&self, change: impl FnOnce(&mut Met)) {
        self.shared.cache.change_history(self.key, |history| change(history.rival.get_or_insert_default()));
    }
}

fn contested(primary: &Primary, revision: u32, rival: &Rival) -> Fault {
    let message = format!(
        "another operator also serves this resource: {} made revision {revision} of release {:?} with another chart, other values or an older \
         state of the resource; {REMEDY}. Until then this operator waits longer each time before it makes the next revision",
        rival.writer,
        primary.name()
    );
    Fault { condition: condition::IRRECONCILABLE, reason: OTHER_OPERATOR, message }
}

/// The action of another process that is left alone.
pub(crate) fn at_work(primary: &Primary, (version, status): (u32, &str), writer: &str, until: &str) -> Fault {
    let message = format!(
        "another operator also serves this resource: {writer} is working on revision {version} of release {:?} ({status}); {REMEDY}. This operator \
         waits until the other is done, or until {until}",
        primary.name()
    );
    Fault { condition: condition::IRRECONCILABLE, reason: OTHER_OPERATOR, message }
}

#[cfg(test)]
mod tests {
    use helm_release::release::Status;
    use helm_release::storage::Marks;

    use super::*;
    use crate::view::release::Trust;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A release whose newest revision is this one.
    fn release(newest: u32) -> Release {
        let mut release = Release::default();
        release.put(newest, (Status::Deployed, Trust::Written(None)), 1, Marks::default());
        release
    }

    fn rounds(release: &Release) -> u32 {
        release.rival.as_ref().map_or(0, |rival| rival.rounds)
    }

    #[test]
    fn rounds_count_the_other_processs_revisions_until_it_is_quiet() {
        let mut release = release(9);
        for (version, second, expected) in [(1, 0, 1), (1, 1, 1), (2, 2, 2), (4, 800, 3), (5, 1699, 4), (6, 2599, 1)] {
            release.note_rival("b", version, at(second));
            assert_eq!(rounds(&release), expected, "revision {version} at {second}");
        }
    }

    #[test]
    fn a_revision_is_the_other_processs_until_this_one_writes_it_or_a_newer_one() {
        let mut release = release(2);
        assert_eq!(release.written_by_rival(), None);
        release.note_rival("b", 1, at(0));
        assert_eq!(release.written_by_rival(), None);
        release.note_rival("b", 2, at(0));
        assert_eq!((release.written_by_rival(), release.left_to_rival()), (Some("b"), Some(at(120))));
        // It marks the one before as superseded.
        release.note_rival("b", 1, at(0));
        assert_eq!(release.written_by_rival(), Some("b"));
        release.put(2, (Status::Deployed, Trust::Written(None)), 2, Marks::default());
        assert_eq!(release.written_by_rival(), None);
        release.note_rival("b", 2, at(0));
        release.put(3, (Status::Deployed, Trust::Written(None)), 3, Marks::default());
        assert_eq!(release.left_to_rival(), None);
    }
}
