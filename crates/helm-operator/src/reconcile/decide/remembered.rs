//! Remembers the results of individual steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller::runtime::backoff::{self, Retry};
use helm_release::kube::{Mark, ObjectKey};
use tokio::time::Instant;

use super::additions::Additions;
use crate::status::{Handled, PlanReport};
use crate::view::primary::Primary;

/// A status write that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unwritten {
    pub(crate) retry: Retry,
    /// Whether the server refused it, so that it will refuse any other status until the cause is fixed.
    refused: bool,
}

impl Unwritten {
    /// Records one more attempt after `before` that the server did not answer.
    pub(crate) fn unanswered(before: Option<Unwritten>, now: Instant) -> Unwritten {
        let failures = before.map_or(0, |unwritten| unwritten.retry.failures);
        Unwritten { retry: Retry::after(failures, now), refused: false }
    }

    /// Records one more attempt after `before` that the server refused.
    pub(crate) fn refused(before: Option<Unwritten>, now: Instant) -> Unwritten {
        Unwritten { refused: true, ..Unwritten::unanswered(before, now) }
    }

    /// Returns whether a write must wait. After an unanswered one it need not, because the server may be available
    /// again.
    pub(crate) fn holds(&self, now: Instant) -> bool {
        self.refused && now < self.retry.at
    }
}

/// A rejection of the computed fields of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub(crate) fault: String,
    /// When they are sent again: the definition, or whatever else rejects them, may have changed.
    pub(crate) retry_at: Instant,
}

/// A plan that was made instead of acting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    /// What it depends on; empty if it could not be made.
    pub(crate) inputs: String,
    pub(crate) report: PlanReport,
}

/// The requested and scheduled actions that this process has done. Rare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HandledTriggers {
    pub(crate) tokens: Handled,
    /// The last `reconcile-now` token whose work is complete.
    pub(crate) done: Option<Box<str>>,
    /// When everything was last applied again.
    pub(crate) resynced: Option<Instant>,
}

/// The tokens that a resource had when this process first saw it, and that its status did not report. Rare.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundTokens {
    pub(crate) tokens: Handled,
    /// Whether they count as handled, because the status cannot report tokens. They wait until that is known.
    pub(crate) are_handled: bool,
    /// When to ask the server again whether it can, because it did not answer.
    pub(crate) retry: Option<Retry>,
}

impl FoundTokens {
    /// Returns the tokens of a resource that its status does not report; `None` if there are none.
    pub(crate) fn unreported(primary: &Primary) -> Option<FoundTokens> {
        let reported = primary.status.last_handled();
        let new = |token: Option<&str>, reported: Option<Box<str>>| -> Option<Box<str>> {
            token.filter(|token| reported.as_deref() != Some(*token)).map(Box::from)
        };
        let tokens = Handled {
            reconcile_now: new(primary.annotations.reconcile_now(), reported.reconcile_now),
            retry_now: new(primary.annotations.retry_now(), reported.retry_now),
        };
        (tokens != Handled::default()).then_some(FoundTokens { tokens, are_handled: false, retry: None })
    }

    /// Returns whether to ask the server whether the status can report them.
    pub(crate) fn are_due(&self, now: Instant) -> bool {
        !self.are_handled && self.retry.is_none_or(|retry| retry.at <= now)
    }

    /// Records that the server did not answer; returns how often in a row.
    pub(crate) fn ask_later(&mut self, now: Instant) -> u32 {
        let failures = self.retry.map_or(0, |retry| retry.failures);
        self.retry.insert(Retry::after(failures, now)).failures
    }
}

/// How long a failed attempt predicts its retries. Its output may also depend on its lookups.
const VALID: Duration = Duration::from_secs(900);

/// An install that failed before its first write.
#[derive(Clone, Debug)]
pub(crate) struct Unserved {
    pub(crate) attempt: String,
    /// The generation of discovery when it started.
    pub(crate) generation: usize,
    pub(crate) at: Instant,
}

impl Unserved {
    /// Returns whether a retry of this attempt would fail in the same way.
    pub(crate) fn holds(&self, attempt: &str, generation: usize, now: Instant) -> bool {
        self.attempt == attempt && self.generation == generation && now < self.at + VALID
    }
}

/// The longest wait before another attempt to give a resource up or to take it over. It is short, because no shard
/// serves the resource meanwhile.
const LONGEST_MOVE: Duration = Duration::from_secs(30);

/// How often in a row the server refused what moves a resource to another shard, or to this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unmoved {
    refusals: u32,
    /// The last reason.
    why: String,
}

impl Unmoved {
    /// Counts a refusal. Returns whether its reason is new.
    pub(crate) fn refuse(&mut self, why: &str) -> bool {
        self.refusals = self.refusals.saturating_add(1);
        let is_new = self.why != why;
        why.clone_into(&mut self.why);
        is_new
    }

    /// Returns how long to wait before the next attempt.
    pub(crate) fn wait(&self) -> Duration {
        backoff::wait(self.refusals).min(LONGEST_MOVE)
    }
}

/// The values that no template read in the last render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnreadValues {
    pub(crate) generation: i64,
    pub(crate) message: String,
}

/// A revision's record: its number and its resource version.
pub(crate) type RecordVersion = (u32, u64);

/// Replacements within this time of each other form one streak. Longer than the longest wait.
const STREAK: Duration = Duration::from_secs(900);
/// A longer streak is a dispute: whoever made the replaced revisions keeps making them.
const PATIENCE: u32 = 5;

/// What is known about other writers of the resource and its release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// The process that was reported last.
    pub(crate) reported: Option<Arc<str>>,
    pub(crate) waited_for_revision: u32,
    pub(crate) waited_for_record: Option<RecordVersion>,
    /// How often this process has added our finalizer again.
    pub(crate) additions: Additions,
    /// The last record of others that this process replaced, or began to.
    replaced: Option<(RecordVersion, Instant)>,
    /// How many it replaced, each soon after the previous one.
    streak: u32,
}

impl Met {
    /// Counts that this process replaces a record of others. A retry does not count.
    pub(crate) fn replace(&mut self, record: RecordVersion, now: Instant) {
        if self.replaced.is_some_and(|(last, _)| last == record) {
            return;
        }
        self.streak = if self.goes_on(now) { self.streak.saturating_add(1) } else { 1 };
        self.replaced = Some((record, now));
    }

    /// Returns how many replacements, with the next one, exceed the patience.
    pub(crate) fn excess(&self, now: Instant) -> u32 {
        if self.goes_on(now) { self.streak.saturating_add(1).saturating_sub(PATIENCE) } else { 0 }
    }

    fn goes_on(&self, now: Instant) -> bool {
        self.replaced.is_some_and(|(_, last)| now < last + STREAK)
    }
}

/// The drift that one resource reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detections {
    pub(crate) objects: BTreeMap<ObjectKey, Detection>,
    /// When objects without a watch were last read.
    pub(crate) looked: Option<Instant>,
}

/// The finding about one drifted object.
#[derive(Clone, Debug)]
pub(crate) struct Detection {
    /// The mark of the cached object that caused the check; `None` inside if the object did not exist.
    pub(crate) seen: Option<Option<Mark>>,
    /// Who changed what; empty if the kind is no longer served.
    pub(crate) text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn whether_tokens_can_be_reported_is_asked_ever_more_rarely_until_it_is_known() {
        let now = Instant::now();
        let mut found = FoundTokens::default();
        assert!(found.are_due(now));
        for (times, wait) in [(1, SECOND / 2), (2, SECOND), (3, 2 * SECOND)] {
            assert_eq!(found.ask_later(now), times);
            assert!(!found.are_due(now) && found.are_due(now + wait));
        }
        found.are_handled = true;
        assert!(!found.are_due(now + 60 * SECOND));
    }

    #[test]
    fn a_refused_move_waits_ever_longer_up_to_half_a_minute_and_is_new_with_each_other_reason() {
        let mut unmoved = Unmoved::default();
        for (why, is_new, seconds) in [("a", true, 0), ("a", false, 1), ("b", true, 2), ("b", false, 4)] {
            assert_eq!((unmoved.refuse(why), unmoved.wait().as_secs()), (is_new, seconds), "{why}");
        }
        (0..100).for_each(|_| _ = unmoved.refuse("b"));
        assert_eq!(unmoved.wait(), LONGEST_MOVE);
    }

    #[tokio::test(start_paused = true)]
    async fn the_sixth_replacement_in_a_row_is_a_dispute_which_grows_until_it_is_quiet() {
        let mut now = Instant::now();
        let mut met = Met::default();
        for (round, excess) in (1..).zip([0, 0, 0, 0, 1, 2, 3]) {
            met.replace((round, 7), now);
            assert_eq!(met.excess(now), excess, "{round}");
            now += STREAK - SECOND;
        }
        assert_eq!(met.excess(now), 3);
        assert_eq!(met.excess(now + SECOND), 0);
        met.replace((8, 7), now + SECOND);
        assert_eq!(met.streak, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replacement_that_is_tried_again_counts_once_and_a_record_that_is_sealed_again_twice() {
        let now = Instant::now();
        let mut met = Met::default();
        for (record, streak) in [((1, 7), 1), ((1, 7), 1), ((1, 8), 2), ((2, 9), 3)] {
            met.replace(record, now);
            assert_eq!(met.streak, streak, "{record:?}");
        }
    }
}
