//! Decides when to reconcile a resource again if nothing happens before. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// When the process started, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    pub(crate) at: Instant,
    pub(crate) today: Timestamp,
}

impl Started {
    /// Returns when the process started, or when a resource was created (in seconds since the epoch), whichever is
    /// later. The answer changes only if the time of day is set: a deadline that moved with the clock could be ahead
    /// when a step is decided and have passed when the timer is set, and would then be missed.
    ///
    /// `now` and `today` are the present, by both clocks.
    pub(crate) fn or_created(self, created: f64, now: Instant, today: Timestamp) -> Instant {
        let created = Timestamp::from_second(created as i64).unwrap_or_default();
        let began = self.today.saturating_add(self.set_by(now, today)).unwrap_or(self.today);
        let later = Duration::try_from(created.duration_since(began)).unwrap_or_default();
        self.at.checked_add(later).unwrap_or(self.at)
    }

    /// Returns by how much the time of day has been set since the start, for example on a node that booted with an old
    /// date. Whole minutes, because the two clocks are not read at exactly the same time.
    fn set_by(self, now: Instant, today: Timestamp) -> SignedDuration {
        let passed = i64::try_from(now.saturating_duration_since(self.at).as_secs()).unwrap_or_default();
        let ahead = today.duration_since(self.today).as_secs().saturating_sub(passed);
        SignedDuration::from_secs(ahead.saturating_add(30).div_euclid(60).saturating_mul(60))
    }
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing to do until something changes: suspended, gone or released.
    Idle,
    /// Everything that can be done now is done.
    Rest,
    /// Waiting for something that no watch reports, to be checked at this time.
    At(Instant),
    Failed,
}

/// The possible times of the next reconcile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// When the last step was decided.
    pub(crate) decided: Instant,
    pub(crate) ended: Instant,
    /// The reconcile period; zero means never.
    pub(crate) period: Duration,
    /// When holds end.
    pub(crate) holds: [Option<Instant>; 4],
    /// When to check a write of ours that no event has confirmed.
    pub(crate) asks: Option<Instant>,
    /// When to diagnose unready objects, and when they count as stalled.
    pub(crate) waits: [Option<Instant>; 2],
    /// When to apply everything again.
    pub(crate) resync: Option<Instant>,
    /// When the pause of a rollout ends, or to look for memory or judge tokens again.
    pub(crate) turn: Option<Instant>,
    /// When to send a status again that failed, or a part of it that was rejected.
    pub(crate) status: [Option<Instant>; 2],
}

/// Returns when to reconcile again; `None` if only a change may wake the resource. A deadline that had passed when the
/// last step was decided has had its effect and does not count.
pub(crate) fn next_requeue(end: End, times: &Times) -> Option<Instant> {
    let is_ahead = |at: &Instant| *at > times.decided;
    let status = times.status.into_iter().flatten().filter(is_ahead);
    if end == End::Idle {
        return status.min();
    }
    let period = (times.period > Duration::ZERO).then(|| times.ended + times.period);
    let waits = if let End::At(at) = end { Some(at) } else { None };
    let deadlines = times.holds.into_iter().chain([times.asks, times.resync, times.turn]).chain(times.waits).flatten();
    deadlines.filter(is_ahead).chain(period).chain(waits).chain(status).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_resource_counts_from_its_creation_if_the_process_was_running_then() {
        let at = Instant::now();
        let started = Started { at, today: "2026-01-01T12:00:00.7Z".parse().unwrap() };
        // Noon.
        for (created, millis) in [
            (0.0, 0),
            (1_767_268_795.0, 0),
            (1_767_268_800.0, 0),
            (1_767_268_801.0, 300),
            (1_767_272_400.0, 3_599_300),
            (f64::MAX, 0),
        ] {
            let today = started.today.checked_add(at.elapsed()).unwrap();
            let found = started.or_created(created, Instant::now(), today);
            assert_eq!(found, at + Duration::from_millis(millis), "{created}");
            tokio::time::advance(SECOND).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn creations_count_by_the_right_time_once_the_clock_shows_it() {
        let at = Instant::now();
        tokio::time::advance(300 * SECOND).await;
        // The process started at noon, by a clock that showed another time.
        let today: Timestamp = "2026-01-01T12:05:00.2Z".parse().unwrap();
        for shown in ["1970-01-01T00:00:00Z", "2026-01-01T11:00:00Z", "2026-01-01T12:00:00Z", "2026-01-02T12:00:00Z"] {
            let started = Started { at, today: shown.parse().unwrap() };
            for (created, seconds) in [(1_767_200_000.0, 0), (1_767_268_800.0, 0), (1_767_268_860.0, 60)] {
                let found = started.or_created(created, Instant::now(), today);
                assert_eq!(found, at + seconds * SECOND, "{created} after {shown}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_reconcile_is_at_the_first_future_deadline() {
        let start = Instant::now();
        let at = |second: u32| Some(start + second * SECOND);
        let none = [None; 4];
        let (decided, ended) = (start + 10 * SECOND, start + 12 * SECOND);
        let check = |behaviour: &str, end, period: u32, holds, status, expected: Option<Instant>| {
            let period = period * SECOND;
            let times = Times {
                decided,
                ended,
                period,
                holds,
                asks: None,
                waits: [None; 2],
                resync: None,
                turn: None,
                status: [status, None],
            };
            assert_eq!(next_requeue(end, &times), expected, "{behaviour}");
            let [asks, rest @ ..] = holds;
            let times = Times { holds: [None, rest[0], rest[1], rest[2]], asks, ..times };
            assert_eq!(next_requeue(end, &times), expected, "{behaviour}, asking");
            let times = Times { holds: [None; 4], asks, waits: [rest[0], rest[1].or(rest[2])], ..times };
            assert_eq!(next_requeue(end, &times), expected, "{behaviour}, waiting");
            let times = Times { asks: None, resync: asks, ..times };
            assert_eq!(next_requeue(end, &times), expected, "{behaviour}, applying again");
            let times = Times { resync: None, turn: asks, ..times };
            assert_eq!(next_requeue(end, &times), expected, "{behaviour}, in a pause of a rollout");
            let times = Times { status: [None, status], ..times };
            assert_eq!(next_requeue(end, &times), expected, "{behaviour}, without what was rejected");
        };
        check("after the period", End::Rest, 60, none, None, at(72));
        check("never without a period", End::Rest, 0, none, None, None);
        check("at the end of a hold", End::Rest, 60, [at(30), None, at(20), at(40)], None, at(20));
        check("not for holds that ended", End::Rest, 60, [at(9), at(10), None, None], None, at(72));
        check("nor without a period", End::Rest, 0, [at(9), at(10), None, None], None, None);
        check("holds that ended meanwhile count", End::Failed, 60, [at(11), None, None, None], None, at(11));
        check("a failure waits for its hold", End::Failed, 0, [at(30), None, None, None], None, at(30));
        check("what has to be asked for", End::At(start + 15 * SECOND), 60, none, None, at(15));
        check("a status to be written", End::Rest, 60, [at(30), None, None, None], at(13), at(13));
        check("idle", End::Idle, 60, [at(30), None, None, None], None, None);
        check("idle with a status to be written", End::Idle, 60, none, at(13), at(13));
        check("not for a status whose time has come", End::Idle, 60, none, at(10), None);
        check("nor at rest", End::Rest, 60, none, at(10), at(72));
    }
}
