//! The resources whose last attempt failed: how long each waits, and which of their changes can wait as long.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use outside::sync::lock;
use tokio::time::Instant;

use crate::ResourceKey;
use crate::runtime::backoff::Backoff;

/// The shortest wait that a reconciler may ask for. `Next::After` with zero, or a backoff of zero, would keep a
/// worker busy for ever.
pub(super) const SHORTEST: Duration = Duration::from_millis(100);

/// The failing resources of one reconciler.
#[derive(Debug, Default)]
pub(super) struct Failing {
    /// The failures in a row after which another attempt is scheduled.
    retried: Backoff<ResourceKey>,
    /// The terminal failures since the last success.
    terminal: Backoff<ResourceKey>,
    /// What each failing resource waits for. Locked around each decision about one.
    waiting: Mutex<HashMap<ResourceKey, Until>>,
}

/// What a failing resource waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// The attempt that is scheduled or running.
    Attempt,
    /// The same; the status has changed since the failure.
    AttemptAfterChange,
    /// A change. A change of only the status waits until this time.
    Change(Instant),
}

impl Failing {
    /// Creates the failing resources of a reconciler with its own waits.
    pub(super) fn between(first: Duration, longest: Duration) -> Failing {
        let backoff = || Backoff::between(first.max(SHORTEST), longest.max(SHORTEST));
        Failing { retried: backoff(), terminal: backoff(), waiting: Mutex::default() }
    }

    /// Begins an attempt. Until it ends, changes of the status alone wait for its outcome.
    pub(super) fn begin(&self, key: &ResourceKey) {
        let mut waiting = lock(&self.waiting);
        if let Some(until) = waiting.get_mut(key).filter(|until| matches!(until, Until::Change(_))) {
            *until = Until::Attempt;
        }
    }

    /// Counts a failure of a resource; returns how long to wait before the next attempt.
    pub(super) fn failed(&self, key: &ResourceKey) -> Duration {
        lock(&self.waiting).entry(key.clone()).or_insert(Until::Attempt);
        self.retried.failed(key.clone())
    }

    /// Counts a terminal failure, after which only a change leads to an attempt. If the status has changed already,
    /// returns how long to wait before that attempt.
    pub(super) fn failed_terminally(&self, key: &ResourceKey) -> Option<Duration> {
        let mut waiting = lock(&self.waiting);
        self.retried.forget(key);
        let pause = self.terminal.failed(key.clone());
        let is_changed = waiting.get(key) == Some(&Until::AttemptAfterChange);
        let until = if is_changed { Until::Attempt } else { Until::Change(Instant::now() + pause) };
        waiting.insert(key.clone(), until);
        is_changed.then_some(pause)
    }

    /// Returns how long a resource waits for its next attempt after a change of only its status; `None` if an attempt
    /// is scheduled or running. The change is often the report of the failure: a report that differs each time would
    /// otherwise wake the resource forever.
    pub(super) fn status_changed(&self, key: &ResourceKey) -> Option<Duration> {
        let mut waiting = lock(&self.waiting);
        let Some(until) = waiting.get_mut(key) else { return Some(Duration::ZERO) };
        match *until {
            Until::Attempt | Until::AttemptAfterChange => {
                *until = Until::AttemptAfterChange;
                None
            }
            Until::Change(at) => {
                *until = Until::Attempt;
                Some(at.saturating_duration_since(Instant::now()))
            }
        }
    }

    /// Forgets the failures of a resource. Returns whether its status changed, which the last attempt may have missed.
    pub(super) fn end(&self, key: &ResourceKey) -> bool {
        let mut waiting = lock(&self.waiting);
        self.retried.forget(key);
        self.terminal.forget(key);
        waiting.remove(key) == Some(Until::AttemptAfterChange)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    fn failing() -> Failing {
        Failing::between(Duration::from_secs(1), Duration::from_secs(60))
    }

    #[test]
    fn a_change_of_the_status_waits_while_the_resource_fails_and_is_not_forgotten() {
        let (failing, [a, b]) = (failing(), ["a", "b"].map(|name| ResourceKey::new("ns", name)));
        assert_eq!(failing.status_changed(&a), AT_ONCE);
        failing.failed(&a);
        assert_eq!((failing.status_changed(&a), failing.status_changed(&b)), (None, AT_ONCE));
        assert_eq!([failing.end(&a), failing.end(&a), failing.end(&b)], [true, false, false]);
        assert_eq!(failing.status_changed(&a), AT_ONCE, "it does not fail any more");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_terminal_failure_a_change_of_the_status_waits_ever_longer_and_an_hour_later_it_does_not() {
        let (failing, a) = (failing(), ResourceKey::new("ns", "a"));
        for pause in [1, 2, 4] {
            failing.begin(&a);
            assert_eq!((failing.failed_terminally(&a), failing.status_changed(&a)), (None, seconds(pause)));
        }
        failing.begin(&a);
        assert_eq!(failing.status_changed(&a), None, "the attempt is running");
        assert_eq!(failing.failed_terminally(&a), seconds(8), "it may not have seen the change");
        failing.begin(&a);
        assert_eq!(failing.failed_terminally(&a), None);
        advance(Duration::from_secs(3600)).await;
        assert_eq!((failing.status_changed(&a), failing.end(&a)), (AT_ONCE, false));
        assert_eq!((failing.failed(&a), failing.failed_terminally(&a)), (Duration::from_secs(1), None));
        assert_eq!(failing.status_changed(&a), seconds(1), "a success resets the pause");
    }
}
