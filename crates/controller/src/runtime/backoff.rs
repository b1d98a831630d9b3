//! Decides how long a failing resource waits for its next attempt. The wait doubles with each failure, separately for
//! each resource.
//!
//! kube's `Controller` has no such policy. Counterpart: client-go's `ItemExponentialFailureRateLimiter`, which starts
//! lower and ends higher: here an overloaded API server does not get 200 requests per second, and a repaired one is
//! noticed within minutes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use outside::sync;
use tokio::time::Instant;

/// The wait after the first failure.
pub const FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
pub const LONGEST: Duration = Duration::from_secs(300);

/// Returns the wait after this many consecutive failures: [`FIRST`], doubled each time up to [`LONGEST`]; zero after no
/// failure.
pub fn wait(failures: u32) -> Duration {
    wait_between(FIRST, LONGEST, failures)
}

fn wait_between(first: Duration, longest: Duration, failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    first.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(longest)
}

/// Returns how many consecutive failures a resource has had after failing for this long. The inverse of [`wait`], for a
/// process that takes over from another.
pub fn failures_within(failing: Duration) -> u32 {
    // After n failures a resource has waited 2^n - 1 times the first wait.
    let waits = failing.as_millis() / FIRST.as_millis() + 1;
    waits.ilog2()
}

/// A count of consecutive failures, and when to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The number of failures.
    pub failures: u32,
    /// When to retry.
    pub at: Instant,
}

impl Retry {
    /// Creates the retry after one more failure than `failures`.
    pub fn after(failures: u32, now: Instant) -> Retry {
        let failures = failures.saturating_add(1);
        Retry { failures, at: now + wait(failures) }
    }
}

/// Counts each resource's consecutive failures. Only failing resources use memory.
#[derive(Debug)]
pub struct Backoff<K> {
    first: Duration,
    longest: Duration,
    failures: Mutex<HashMap<K, u32>>,
}

/// Waits from 500 ms, doubled each time up to 5 minutes.
impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Backoff::between(FIRST, LONGEST)
    }
}

impl<K> Backoff<K> {
    /// Creates a backoff that waits for `first` after a failure, and twice as long after each further one, up to
    /// `longest`.
    pub fn between(first: Duration, longest: Duration) -> Backoff<K> {
        Backoff { first, longest, failures: Mutex::default() }
    }
}

impl<K: Hash + Eq> Backoff<K> {
    /// Counts a failure of `key`; returns how long to wait before the next attempt.
    pub fn failed(&self, key: K) -> Duration {
        let mut failures = self.lock();
        let count = failures.entry(key).or_default();
        *count = count.saturating_add(1);
        wait_between(self.first, self.longest, *count)
    }

    /// Forgets the failures of `key`, which succeeded or was deleted.
    pub fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<K, u32>> {
        // A panic cannot leave a count half changed.
        sync::lock(&self.failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_in_a_row_doubles_the_wait_up_to_the_longest() {
        let backoff = Backoff::default();
        let waits: Vec<u128> = (0..12).map(|_| backoff.failed("a").as_millis()).collect();
        let expected = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000];
        assert_eq!(waits, expected);
        for _ in 0..100 {
            assert!(backoff.failed("a") == LONGEST);
        }
    }

    #[test]
    fn a_controller_may_wait_in_its_own_way() {
        let backoff = Backoff::between(Duration::from_secs(2), Duration::from_secs(5));
        assert_eq!([(); 3].map(|()| backoff.failed("a").as_secs()), [2, 4, 5]);
    }

    #[test]
    fn no_failure_means_no_wait() {
        assert_eq!((wait(0), wait(1), wait(u32::MAX)), (Duration::ZERO, FIRST, LONGEST));
    }

    #[test]
    fn after_a_takeover_the_next_wait_is_about_as_long_as_the_failure_has_lasted() {
        for (seconds, failures) in [(0, 0), (1, 1), (2, 2), (10, 4), (45, 6), (600, 10), (86_400, 17)] {
            assert_eq!(failures_within(Duration::from_secs(seconds)), failures, "{seconds} s");
        }
        for failures in 1..10 {
            let failing: Duration = (1..=failures).map(wait).sum();
            assert_eq!(failures_within(failing), failures);
        }
    }

    #[test]
    fn success_resets_the_backoff_and_resources_do_not_share_it() {
        let backoff = Backoff::default();
        backoff.failed("a");
        assert_eq!(backoff.failed("b"), FIRST);
        backoff.forget(&"a");
        assert_eq!(backoff.failed("a"), FIRST);
    }
}
