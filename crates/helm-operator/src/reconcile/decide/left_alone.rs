//! Decides how long a deleted resource keeps the finalizer if the author's filters reject it, and nothing proves that its
//! release is this operator's. Pure.
//!
//! Another operator may be uninstalling it, and has the same finalizer. What it waits for is in the status, which changes
//! while one of its hooks runs. If the status has stopped changing, there may be no other operator, unless the last attempt
//! failed: an operator that tries again, and fails in the same way, writes nothing.

use std::time::Duration;

use helm_release::storage::PATIENCE;
use tokio::time::Instant;

use crate::status::{Status, condition};

/// What was seen of a resource that is left alone.
#[derive(Clone, Debug)]
pub(crate) struct LeftAlone {
    status: Status,
    is_held: bool,
    /// Since when both are like that.
    since: Instant,
}

impl LeftAlone {
    /// Returns what is known now of a resource with this status. While it is paused, or after a failure, its operator keeps
    /// quiet as well.
    pub(crate) fn next(before: Option<&LeftAlone>, status: &Status, is_paused: bool, now: Instant) -> LeftAlone {
        let is_held = is_paused || has_failed(status);
        let is_quiet = |before: &&LeftAlone| !is_held && !before.is_held && before.status == *status;
        let since = before.filter(is_quiet).map_or(now, |before| before.since);
        LeftAlone { status: status.clone(), is_held, since }
    }

    /// Returns how much longer the status must stay as it is before the finalizer may go.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        let quiet = if self.is_held { Duration::ZERO } else { now.saturating_duration_since(self.since) };
        PATIENCE.saturating_sub(quiet)
    }
}

/// Returns whether the status reports a failed attempt.
fn has_failed(status: &Status) -> bool {
    let is_true = |kind| status.find(kind).is_some_and(|condition| *condition.status == *"True");
    is_true(condition::RELEASE_FAILED) || is_true(condition::IRRECONCILABLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::reason::Reason;
    use crate::status::{Facts, Fault};

    #[test]
    fn the_finalizer_stays_until_the_status_has_not_changed_for_long_enough() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let old = Status::default();
        let after = |facts: &Facts| old.next(facts, jiff::Timestamp::UNIX_EPOCH).unwrap();
        let new = after(&Facts::default());
        let fault = |condition| Fault { condition, reason: Reason::named("HookError"), message: "refused".into() };
        let failed = |condition| after(&Facts { fault: Some(fault(condition)), ..Facts::default() });
        let (failed, blocked) = (failed(condition::RELEASE_FAILED), failed(condition::IRRECONCILABLE));
        for (behaviour, was_paused, before, status, is_paused, remaining) in [
            ("quiet", false, &old, &old, false, [400, 0]),
            ("at work", false, &old, &new, false, [600, 0]),
            ("paused", false, &old, &old, true, [600, 600]),
            ("no longer paused", true, &old, &old, false, [600, 0]),
            ("failed", false, &failed, &failed, false, [600, 600]),
            ("cannot be decided", false, &blocked, &blocked, false, [600, 600]),
            ("no longer failed", false, &failed, &new, false, [600, 0]),
        ] {
            let before = LeftAlone::next(None, before, was_paused, at(0));
            let now = LeftAlone::next(Some(&before), status, is_paused, at(200));
            let found = [at(200), at(1000)].map(|at| now.remaining(at));
            assert_eq!(found, remaining.map(Duration::from_secs), "{behaviour}");
        }
    }
}
