//! Decides how long a deleted resource keeps the finalizer if the author's filters reject it, and nothing proves that its
//! release is this operator's. Pure.
//!
//! Another operator may be uninstalling it, and uses the same finalizer. While its hooks run, it updates the status. If the
//! status stops changing, there may be no other operator, unless the last attempt failed: an operator that fails again in
//! the same way writes nothing.

use std::time::Duration;

use helm_release::storage::PATIENCE;
use tokio::time::Instant;

use crate::status::{ListType, Status};

/// What was seen of a resource that is left alone.
#[derive(Clone, Debug)]
pub(crate) struct LeftAlone {
    status: Status,
    /// Whether a pause or a failure explains why the status does not change.
    is_held: bool,
    /// When this was first seen.
    since: Instant,
}

impl LeftAlone {
    /// Returns what is known now of a resource with this status. A pause or a failure also keeps its operator from changing
    /// the status.
    pub(crate) fn next(before: Option<&LeftAlone>, status: &Status, is_paused: bool, now: Instant) -> LeftAlone {
        let is_held = is_paused || status.fault().is_some();
        let mut status = status.clone();
        // Conditions of others may contain the time of their last check.
        status.shrink(ListType::Map);
        let is_quiet = |before: &&LeftAlone| !is_held && !before.is_held && before.status == status;
        let since = before.filter(is_quiet).map_or(now, |before| before.since);
        LeftAlone { status, is_held, since }
    }

    /// Returns how much longer the status must stay as it is before the finalizer may go.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        let quiet = if self.is_held { Duration::ZERO } else { now.saturating_duration_since(self.since) };
        PATIENCE.saturating_sub(quiet)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::status::reason::Reason;
    use crate::status::{Facts, Fault, condition};

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
        let checked = |time: &str| -> Status {
            let others = json!([{"type": "Backup", "status": "True", "lastHeartbeatTime": time}]);
            serde_json::from_value(json!({"conditions": others})).unwrap()
        };
        let (first, second) = (checked("2026-01-01T00:00:00Z"), checked("2026-01-01T00:01:00Z"));
        for (behaviour, was_paused, before, status, is_paused, remaining) in [
            ("quiet", false, &old, &old, false, [400, 0]),
            ("quiet, and checked by others", false, &first, &second, false, [400, 0]),
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
