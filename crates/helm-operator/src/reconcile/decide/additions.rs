//! Decides when our finalizer is added again if someone keeps removing it, and when that is reported. Pure.

use std::time::Duration;

use controller::runtime::backoff;
use tokio::time::Instant;

/// Additions within this time of each other, or of the end of the wait between them, form one streak.
const STREAK: Duration = Duration::from_secs(20);
/// After a streak of this length, another addition waits: whoever removed the finalizer keeps removing it.
const PATIENCE: u32 = 5;
/// Additions within this time of each other form one series, even if they are too rare for a wait.
const SERIES: Duration = Duration::from_secs(3600);
/// Each time that a series is this much longer, it is reported.
const REPORTED: u32 = 10;

/// The additions of our finalizer to a resource that was served before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Additions {
    /// How many there were, each soon after the previous one.
    streak: u32,
    /// The length of the streak at its last wait.
    waited: u32,
    /// When the streak ends unless another addition follows.
    quiet_at: Option<Instant>,
    /// Until when the next one waits, and for which generation of the resource.
    wait: Option<(Instant, i64)>,
    /// How long the series is, and when its last addition was.
    series: Option<(u32, Instant)>,
}

/// A wait before the next addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) until: Instant,
    /// Whether it has only begun.
    pub(crate) is_new: bool,
}

impl Additions {
    /// Counts an addition. Returns whether to report that something keeps removing the finalizer. A streak with a wait is
    /// reported by that.
    pub(crate) fn count(&mut self, now: Instant) -> bool {
        let series = self.series.filter(|(_, last)| now < *last + SERIES).map_or(0, |(length, _)| length);
        let series = series.saturating_add(1);
        if !self.goes_on(now) {
            *self = Additions::default();
        }
        self.streak = self.streak.saturating_add(1);
        (self.quiet_at, self.wait, self.series) = (Some(now + STREAK), None, Some((series, now)));
        self.waited == 0 && series.is_multiple_of(REPORTED)
    }

    /// Returns how long the next addition to the resource of this generation must wait, longer each time; `None` if it may
    /// follow now. A wait is over early if the resource's `spec` changes; whoever removes the finalizer may change
    /// annotations as well.
    pub(crate) fn wait(&mut self, now: Instant, generation: i64) -> Option<Wait> {
        if let Some((until, _)) = self.wait.filter(|(until, of)| now < *until && *of == generation) {
            return Some(Wait { until, is_new: false });
        }
        let is_due = self.goes_on(now) && self.waited != self.streak;
        let over = self.streak.checked_sub(PATIENCE).filter(|_| is_due)?;
        // At first four seconds.
        let until = now + backoff::wait(over.saturating_add(4));
        (self.waited, self.quiet_at, self.wait) = (self.streak, Some(until + STREAK), Some((until, generation)));
        Some(Wait { until, is_new: true })
    }

    /// Ends the wait early, for a requested retry.
    pub(crate) fn end_wait(&mut self) {
        self.wait = None;
    }

    fn goes_on(&self, now: Instant) -> bool {
        self.quiet_at.is_some_and(|quiet| now < quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns until when an addition waits, if the wait begins now.
    fn begun(additions: &mut Additions, now: Instant) -> Option<Instant> {
        additions.wait(now, 1).filter(|wait| wait.is_new).map(|wait| wait.until)
    }

    #[tokio::test(start_paused = true)]
    async fn additions_in_a_row_wait_ever_longer_until_it_is_quiet() {
        let mut now = Instant::now();
        let mut additions = Additions::default();
        for number in 0..5 {
            assert_eq!(additions.wait(now, 1), None, "{number}");
            additions.count(now);
            now += STREAK - SECOND;
        }
        for seconds in [4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let until = now + seconds * SECOND;
            assert_eq!(begun(&mut additions, now), Some(until));
            now = until;
            assert_eq!(additions.wait(now, 1), None, "it has waited");
            additions.count(now);
        }
        now += STREAK;
        assert_eq!(additions.wait(now, 1), None, "it was quiet");
        for number in 0..5 {
            assert_eq!(additions.wait(now, 1), None, "{number} after that");
            additions.count(now);
        }
        assert_eq!(begun(&mut additions, now), Some(now + 4 * SECOND));
    }

    /// Returns which of thirty additions are reported that follow each other, or the end of a wait, after this time.
    fn reported(after: Duration) -> Vec<u32> {
        let (mut now, mut additions) = (Instant::now(), Additions::default());
        let is_reported = |_: &u32| {
            now = additions.wait(now, 1).map_or(now, |wait| wait.until);
            let is_reported = additions.count(now);
            now += after;
            is_reported
        };
        (1..=30).filter(is_reported).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn every_tenth_addition_of_a_series_without_a_wait_is_reported() {
        assert_eq!(reported(SECOND), [] as [u32; 0], "the wait is reported");
        assert_eq!(reported(STREAK), [10, 20, 30]);
        assert_eq!(reported(SERIES - SECOND), [10, 20, 30]);
        assert_eq!(reported(SERIES), [] as [u32; 0], "an hour was quiet");
    }

    #[tokio::test(start_paused = true)]
    async fn only_another_spec_or_a_requested_retry_ends_a_wait_early() {
        let now = Instant::now();
        let mut waiting = Additions::default();
        for _ in 0..5 {
            waiting.count(now);
        }
        let until = begun(&mut waiting, now).unwrap();
        assert_eq!(waiting.wait(now + SECOND, 1), Some(Wait { until, is_new: false }));
        assert_eq!(waiting.clone().wait(now + SECOND, 2), None, "another spec");
        waiting.end_wait();
        assert_eq!(waiting.wait(now + SECOND, 1), None, "a retry is requested");
        waiting.count(now + SECOND);
        assert_eq!(begun(&mut waiting, now + SECOND), Some(now + 9 * SECOND), "the streak goes on");
    }
}
