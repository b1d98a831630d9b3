//! Remembers the repairs of a resource's drift: how often they follow each other, and why they failed.

use std::time::Duration;

use controller::runtime::backoff::{self, Retry};
use helm_release::kube::ObjectKey;
use tokio::time::Instant;

use crate::status::Fault;
use crate::status::reason::Reason;

/// Repairs within this time of each other form one streak. A drift loop ends after this time without drift.
const STREAK: Duration = Duration::from_secs(20);
/// A longer streak is a drift loop: another manager keeps changing the objects.
const PATIENCE: u32 = 5;
/// Separates a drift loop from the failure of another object's repair in a message.
pub(super) const ALSO_FAILS: &str = "; a repair also fails: ";

/// Repairs and their outcomes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DriftMemory {
    /// Consecutive repairs that put something back, each soon after the previous one.
    streak: u32,
    /// When the streak ends unless something drifts first.
    pub(super) quiet_at: Option<Instant>,
    /// When repairs may run again.
    pub(crate) hold_until: Option<Instant>,
    /// Consecutive failures to repair drift or to read it.
    failures: u32,
    /// Whether the repair whose outcome is not recorded yet put something back.
    has_put_back: bool,
    /// The objects that the last repair could not write.
    refused: Box<[ObjectKey]>,
    drift_loop: Option<Box<Fault>>,
    /// The failure of the last repair.
    failure: Option<Box<Fault>>,
}

impl DriftMemory {
    /// Returns the memory of a drift loop that the previous process reported in a condition.
    pub(super) fn restored(condition: &'static str, message: &str, now: Instant) -> DriftMemory {
        let message = message.split(ALSO_FAILS).next().unwrap_or_default().to_owned();
        let drift_loop = Some(Box::new(Fault { condition, reason: Reason::DriftLoop, message }));
        DriftMemory { streak: PATIENCE + 1, quiet_at: Some(now + STREAK), drift_loop, ..DriftMemory::default() }
    }

    /// Counts a repair that is about to start, and delays the next one if there were too many in a row. Returns whether
    /// a drift loop has just started: then this repair is skipped and reported.
    pub(crate) fn count(&mut self, now: Instant) -> bool {
        let goes_on = self.quiet_at.is_some_and(|quiet| now < quiet);
        self.streak = if goes_on { self.streak.saturating_add(1) } else { 1 };
        self.hold_until = self.streak.checked_sub(PATIENCE + 1).map(|over| now + backoff::wait(over.saturating_add(3)));
        self.hold_until.is_some() && !self.is_loop()
    }

    /// Records the drift loop that the counted repair has shown.
    pub(crate) fn begin_loop(&mut self, fault: Fault) {
        self.drift_loop = Some(Box::new(fault));
        self.quiet_at = self.hold_until.map(|until| until + STREAK);
    }

    /// Records that the counted repair put something back, and which objects it could not write.
    pub(crate) fn put_back(&mut self, refused: Box<[ObjectKey]>, now: Instant) {
        (self.has_put_back, self.refused) = (true, refused);
        self.quiet_at = self.hold_until.max(Some(now)).map(|last| last + STREAK);
    }

    /// Records that the counted repair put nothing back, so that it does not count towards a drift loop.
    pub(crate) fn discount(&mut self) {
        self.streak = self.streak.saturating_sub(1);
        self.has_put_back = false;
    }

    /// Records a failure, which delays the next repair. Returns whether the failure is new.
    pub(crate) fn fail(&mut self, fault: Fault, now: Instant) -> bool {
        let retry = Retry::after(self.failures, now);
        self.failures = retry.failures;
        self.hold_until = self.hold_until.max(Some(retry.at));
        // The objects that the repair restored may have drifted again by then.
        if std::mem::take(&mut self.has_put_back) {
            self.quiet_at = self.hold_until.map(|until| until + STREAK);
        }
        let news = self.failure.as_deref() != Some(&fault);
        self.failure = Some(Box::new(fault));
        news
    }

    /// Records that everything was repaired, which does not end a drift loop.
    pub(crate) fn succeed(&mut self) {
        (self.failures, self.failure, self.has_put_back) = (0, None, false);
        self.refused = Box::default();
    }

    /// Clears a failed repair when nothing has drifted, and ends a drift loop once it has been quiet long enough.
    pub(crate) fn clear(&mut self, now: Instant) {
        self.clear_ended_loop(now);
        self.succeed();
    }

    /// Ends a drift loop once it has been quiet long enough.
    pub(crate) fn clear_ended_loop(&mut self, now: Instant) {
        if self.quiet_at.is_none_or(|quiet| quiet <= now) {
            self.drift_loop = None;
        }
    }

    /// Returns the objects that others keep changing, except those that the last repair could not write.
    pub(crate) fn changed_again(&self, drifted: &[ObjectKey]) -> Vec<ObjectKey> {
        let again: Vec<ObjectKey> = drifted.iter().filter(|key| !self.refused.contains(key)).cloned().collect();
        if again.is_empty() { drifted.to_vec() } else { again }
    }

    /// Returns the drift loop, the failure of the last repair, or both as one.
    pub(super) fn fault(&self) -> Option<Fault> {
        match (self.drift_loop.as_deref(), self.failure.as_deref()) {
            (Some(drift_loop), Some(failure)) => {
                let message = format!("{}{ALSO_FAILS}{}", drift_loop.message, failure.message);
                Some(Fault { message, ..drift_loop.clone() })
            }
            (one, other) => one.or(other).cloned(),
        }
    }

    pub(super) fn is_loop(&self) -> bool {
        self.drift_loop.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::decide::memory::ResourceMemory;
    use crate::status::condition;

    const SECOND: Duration = Duration::from_secs(1);

    fn fault(reason: Reason) -> Fault {
        Fault { condition: condition::IRRECONCILABLE, reason, message: "no".into() }
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey { group: "".into(), kind: "ConfigMap".into(), namespace: "ns".into(), name: name.into() }
    }

    /// Counts a repair that puts everything back. Returns whether a drift loop has started instead.
    fn repair(drift: &mut DriftMemory, now: Instant) -> bool {
        let has_begun = drift.count(now);
        match has_begun {
            true => drift.begin_loop(fault(Reason::DriftLoop)),
            false => drift.put_back(Box::default(), now),
        }
        has_begun
    }

    #[tokio::test(start_paused = true)]
    async fn the_sixth_repair_in_a_row_is_a_fight_and_each_further_one_waits_twice_as_long() {
        let mut now = Instant::now();
        let mut drift = DriftMemory::default();
        for _ in 0..PATIENCE {
            assert!(!repair(&mut drift, now));
            assert_eq!(drift.hold_until, None);
            now += STREAK - SECOND;
        }
        assert!(repair(&mut drift, now));
        assert_eq!(drift.hold_until, Some(now + 2 * SECOND));
        for seconds in [4, 8, 16, 32, 64, 128, 256, 300, 300] {
            now = drift.hold_until.unwrap() + STREAK - SECOND;
            assert!(!repair(&mut drift, now), "reported once");
            assert_eq!(drift.hold_until, Some(now + seconds * SECOND));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_repair_that_changes_nothing_does_not_count_as_a_fight() {
        let now = Instant::now();
        let mut drift = DriftMemory::default();
        for _ in 0..PATIENCE + 2 {
            assert!(!drift.count(now));
            drift.discount();
        }
        assert_eq!(drift.streak, 0);
        repair(&mut drift, now);
        drift.succeed();
        assert_eq!(drift.streak, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fight_ends_after_a_quiet_while_which_has_a_deadline() {
        let now = Instant::now();
        let mut drift = DriftMemory::default();
        (0..PATIENCE).for_each(|_| _ = repair(&mut drift, now));
        assert!(drift.count(now));
        assert_eq!(
            ResourceMemory { drift: drift.clone(), ..ResourceMemory::default() }.deadlines(),
            [None, None, drift.hold_until, None]
        );
        drift.begin_loop(fault(Reason::DriftLoop));
        let over = now + 2 * SECOND + STREAK;
        let memory = ResourceMemory { drift: drift.clone(), ..ResourceMemory::default() };
        assert_eq!(memory.deadlines(), [None, None, Some(now + 2 * SECOND), Some(over)]);
        drift.clear(over - SECOND);
        drift.succeed();
        assert!(drift.fault().is_some());
        assert!(!repair(&mut drift, over - SECOND), "it goes on");
        drift.clear(over + 4 * SECOND + STREAK);
        assert_eq!(drift.fault(), None);
        assert!(!repair(&mut drift, over + 5 * SECOND + STREAK));
        assert_eq!((drift.streak, drift.hold_until), (1, None));
    }

    #[tokio::test(start_paused = true)]
    async fn failing_repairs_back_off_and_are_not_a_fight() {
        let mut now = Instant::now();
        let mut drift = DriftMemory::default();
        for (attempt, wait) in (1..=10).map(|n| (n, backoff::wait(n))) {
            assert!(!drift.count(now));
            drift.discount();
            assert_eq!(drift.fail(fault(Reason::ReconcileError), now), attempt == 1);
            assert_eq!(drift.hold_until, Some(now + wait));
            now += wait;
        }
        assert_eq!(drift.fault(), Some(fault(Reason::ReconcileError)));
        drift.succeed();
        assert_eq!((drift.failures, drift.fault()), (0, None));
        drift.fail(fault(Reason::ReconcileError), now);
        drift.clear(now + 100 * SECOND);
        assert_eq!((drift.failures, drift.fault()), (0, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_fight_beside_a_repair_that_fails_each_time_is_named_with_it_until_the_fight_ends() {
        let mut now = Instant::now();
        let mut drift = DriftMemory::default();
        for _ in 0..PATIENCE {
            assert!(!drift.count(now));
            drift.put_back([key("failing")].into(), now);
            drift.fail(fault(Reason::ReconcileError), now);
            assert_eq!(drift.fault(), Some(fault(Reason::ReconcileError)));
            now = drift.hold_until.unwrap();
        }
        assert!(drift.count(now), "however long the failure has delayed the repairs");
        let both = [key("failing"), key("fought")];
        assert_eq!(drift.changed_again(&both), [key("fought")]);
        assert_eq!(drift.changed_again(&both[..1]), [key("failing")], "it is all that has changed");
        drift.begin_loop(fault(Reason::DriftLoop));
        let named = Fault { message: format!("no{ALSO_FAILS}no"), ..fault(Reason::DriftLoop) };
        assert_eq!(drift.fault(), Some(named.clone()));

        now = drift.hold_until.unwrap();
        assert!(!drift.count(now), "reported once");
        drift.put_back([key("failing")].into(), now);
        drift.fail(fault(Reason::ReconcileError), now);
        assert_eq!(drift.hold_until, Some(now + backoff::wait(PATIENCE + 1)), "the longer wait counts");
        let quiet = drift.hold_until.unwrap() + STREAK;
        now = drift.hold_until.unwrap();
        assert!(!drift.count(now));
        drift.discount();
        drift.fail(fault(Reason::ReconcileError), now);
        drift.clear_ended_loop(quiet - SECOND);
        assert_eq!(drift.fault(), Some(named));
        drift.clear_ended_loop(quiet);
        assert_eq!(drift.fault(), Some(fault(Reason::ReconcileError)), "what fails goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn a_fight_is_noticed_although_other_drift_cannot_be_read_after_each_repair() {
        let mut now = Instant::now();
        let mut drift = DriftMemory::default();
        for _ in 0..PATIENCE {
            assert!(!repair(&mut drift, now));
            drift.succeed();
            drift.fail(fault(Reason::ReconcileError), now);
            now = drift.hold_until.unwrap();
        }
        assert!(drift.count(now));
    }
}
