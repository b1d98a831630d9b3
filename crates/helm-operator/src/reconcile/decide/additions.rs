//! Decides when our finalizer is added again if someone keeps removing it. Pure.

use std::time::Duration;

use controller::runtime::backoff;
use tokio::time::Instant;

/// Additions within this time of each other, or of the end of the wait between them, form one streak.
const STREAK: Duration = Duration::from_secs(20);
/// After a streak of this length, another addition waits: whoever removed the finalizer keeps removing it.
const PATIENCE: u32 = 5;

/// The additions of our finalizer to a resource that was served before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Additions {
    /// How many there were, each soon after the previous one.
    streak: u32,
    /// The length of the streak at its last wait.
    waited: u32,
    /// When the streak ends unless another addition follows.
    quiet_at: Option<Instant>,
}

impl Additions {
    /// Counts an addition.
    pub(crate) fn count(&mut self, now: Instant) {
        if !self.goes_on(now) {
            *self = Additions::default();
        }
        self.streak = self.streak.saturating_add(1);
        self.quiet_at = Some(now + STREAK);
    }

    /// Returns until when the next addition must wait, longer each time; `None` if it may follow now. The wait counts
    /// as done from then on.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Instant> {
        let is_due = self.goes_on(now) && self.waited != self.streak;
        let over = self.streak.checked_sub(PATIENCE).filter(|_| is_due)?;
        // At first four seconds.
        let until = now + backoff::wait(over.saturating_add(4));
        (self.waited, self.quiet_at) = (self.streak, Some(until + STREAK));
        Some(until)
    }

    fn goes_on(&self, now: Instant) -> bool {
        self.quiet_at.is_some_and(|quiet| now < quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn additions_in_a_row_wait_ever_longer_until_it_is_quiet() {
        let mut now = Instant::now();
        let mut additions = Additions::default();
        for number in 0..5 {
            assert_eq!(additions.wait(now), None, "{number}");
            additions.count(now);
            now += STREAK - SECOND;
        }
        for seconds in [4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let until = now + seconds * SECOND;
            assert_eq!(additions.wait(now), Some(until));
            now = until;
            assert_eq!(additions.wait(now), None, "it has waited");
            additions.count(now);
        }
        now += STREAK;
        assert_eq!(additions.wait(now), None, "it was quiet");
        for number in 0..5 {
            assert_eq!(additions.wait(now), None, "{number} after that");
            additions.count(now);
        }
        assert_eq!(additions.wait(now), Some(now + 4 * SECOND));
    }
}
