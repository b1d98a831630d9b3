//! Tracks why something that is retried keeps failing: each reason is news once, and again at intervals for as long as
//! it lasts.
//!
//! Callers pass the time, so every rule can be tested as a table.

use std::time::Duration;

use tokio::time::Instant;

/// After this time the same reason is news again. Each further pause is twice as long.
const FIRST: Duration = Duration::from_secs(30);

/// The maximum pause.
const LONGEST: Duration = Duration::from_secs(600);

/// How many reasons are news within one pause, so that a text that changes each time does not fill the log.
const REASONS: usize = 4;

/// The current reasons of failure, if any.
#[derive(Debug, Default)]
pub struct LastError(Option<Failing>);

#[derive(Debug)]
struct Failing {
    /// The reasons that were reported since the last reminder.
    said: Vec<String>,
    pause: Duration,
    remind_at: Instant,
}

/// The change that another attempt made.
#[derive(Debug, PartialEq, Eq)]
pub enum Transition {
    /// It works as before.
    Nothing,
    /// It fails for a new reason.
    Failed(String),
    /// It still fails, for a known reason.
    StillFailing(String),
    /// It still fails, for a known reason that should be reported again.
    Reminder(String),
    /// It works again.
    Recovered,
}

impl LastError {
    /// Records a failed attempt.
    pub fn fail(&mut self, reason: String, now: Instant) -> Transition {
        let failing = self.0.get_or_insert_with(|| Failing { said: Vec::new(), pause: FIRST, remind_at: now + FIRST });
        let is_known = failing.said.contains(&reason);
        if now >= failing.remind_at {
            failing.said.clear();
            failing.pause = (failing.pause * 2).min(LONGEST);
            failing.remind_at = now + failing.pause;
        }
        if failing.said.len() == REASONS || failing.said.contains(&reason) {
            return Transition::StillFailing(reason);
        }
        failing.said.push(reason.clone());
        if is_known { Transition::Reminder(reason) } else { Transition::Failed(reason) }
    }

    /// Records a successful attempt.
    pub fn recover(&mut self) -> Transition {
        self.0.take().map_or(Transition::Nothing, |_| Transition::Recovered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reason_is_news_until_it_changes_or_an_attempt_succeeds() {
        let (mut last, now) = (LastError::default(), Instant::now());
        assert_eq!(last.recover(), Transition::Nothing);
        assert_eq!(last.fail("a".into(), now), Transition::Failed("a".into()));
        assert_eq!(last.fail("a".into(), now), Transition::StillFailing("a".into()));
        assert_eq!(last.fail("b".into(), now), Transition::Failed("b".into()));
        assert_eq!(last.fail("a".into(), now), Transition::StillFailing("a".into()), "reasons take turns");
        assert_eq!((last.recover(), last.recover()), (Transition::Recovered, Transition::Nothing));
        assert_eq!(last.fail("b".into(), now), Transition::Failed("b".into()));
    }

    #[tokio::test]
    async fn a_reason_that_lasts_is_news_again_at_growing_bounded_intervals() {
        let (mut last, began) = (LastError::default(), Instant::now());
        let at = |second| began + Duration::from_secs(second);
        let is_news = |change: &Transition| matches!(change, Transition::Failed(_) | Transition::Reminder(_));
        let news: Vec<u64> = (0..2500).filter(|second| is_news(&last.fail("a".into(), at(*second)))).collect();
        assert_eq!(news, [0, 30, 90, 210, 450, 930, 1530, 2130]);
        assert_eq!(last.fail("a".into(), at(5000)), Transition::Reminder("a".into()));
    }

    #[tokio::test]
    async fn a_text_that_changes_with_each_attempt_does_not_fill_the_log() {
        let (mut last, now) = (LastError::default(), Instant::now());
        let news = (0..100).filter(|n| matches!(last.fail(n.to_string(), now), Transition::Failed(_))).count();
        assert_eq!(news, REASONS);
    }
}
