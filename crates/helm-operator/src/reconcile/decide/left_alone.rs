//! Decides how long a deleted resource keeps the finalizer if the author's filters reject it, and nothing proves that its
//! release is this operator's. Pure.
//!
//! Another operator may be uninstalling it, and has the same finalizer. What it waits for is in the status, which changes
//! while one of its hooks runs. If the status has stopped changing, there may be no other operator.

use std::time::Duration;

use helm_release::storage::PATIENCE;
use tokio::time::Instant;

use crate::status::Status;

/// What was seen of a resource that is left alone.
#[derive(Clone, Debug)]
pub(crate) struct LeftAlone {
    status: Status,
    is_paused: bool,
    /// Since when both are like that.
    since: Instant,
}

impl LeftAlone {
    /// Returns what is known now of a resource with this status. While it is paused, its operator keeps quiet as well.
    pub(crate) fn next(before: Option<&LeftAlone>, status: &Status, is_paused: bool, now: Instant) -> LeftAlone {
        let is_quiet = |before: &&LeftAlone| !is_paused && !before.is_paused && before.status == *status;
        let since = before.filter(is_quiet).map_or(now, |before| before.since);
        LeftAlone { status: status.clone(), is_paused, since }
    }

    /// Returns how much longer the status must stay as it is before the finalizer may go.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        PATIENCE.saturating_sub(now.saturating_duration_since(self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Facts;

    #[test]
    fn the_finalizer_stays_until_the_status_has_not_changed_for_long_enough() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let old = Status::default();
        let new = old.next(&Facts::default(), jiff::Timestamp::UNIX_EPOCH).unwrap();
        for (behaviour, was_paused, status, is_paused, remaining) in [
            ("quiet", false, &old, false, 400),
            ("at work", false, &new, false, 600),
            ("paused", false, &old, true, 600),
            ("no longer paused", true, &old, false, 600),
        ] {
            let before = LeftAlone::next(None, &old, was_paused, at(0));
            let now = LeftAlone::next(Some(&before), status, is_paused, at(200));
            assert_eq!(now.remaining(at(200)), Duration::from_secs(remaining), "{behaviour}");
            assert_eq!(now.remaining(at(1000)), Duration::ZERO, "{behaviour}");
        }
    }
}
