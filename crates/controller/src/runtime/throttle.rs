//! A place for requests that can wait, such as events and looks: one at a time, and seldom while the server is slow.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until};

/// A task that takes no longer shows that the server has time: no rest follows.
const QUICK: Duration = Duration::from_millis(5);

/// A place for one task at a time. Whoever leaves it lets it rest for a multiple of the time spent in it: the busier the server, the slower its answers
/// and the smaller the share of its time that goes to what can wait.
#[derive(Debug)]
pub struct Place {
    rest: Rest,
    rests_until: Mutex<Instant>,
}

/// How long a place rests.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// As a multiple of the time that the task took.
    pub factor: u32,
    /// However long the task took.
    pub longest: Duration,
}

/// A place that is taken, until this is dropped.
#[derive(Debug)]
pub struct Taken<'a> {
    rest: Rest,
    rests_until: MutexGuard<'a, Instant>,
    since: Instant,
}

impl Place {
    /// A free place.
    pub fn resting(rest: Rest) -> Place {
        Place { rest, rests_until: Mutex::new(Instant::now()) }
    }

    /// Takes the place if it is free and has rested.
    pub fn try_take(&self) -> Option<Taken<'_>> {
        let rests_until = self.rests_until.try_lock().ok()?;
        let now = Instant::now();
        (*rests_until <= now).then(|| Taken { rest: self.rest, rests_until, since: now })
    }

    /// Waits until the place is free and has rested, and takes it.
    pub async fn take(&self) -> Taken<'_> {
        let rests_until = self.rests_until.lock().await;
        sleep_until(*rests_until).await;
        Taken { rest: self.rest, rests_until, since: Instant::now() }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.since);
        let Rest { factor, longest } = self.rest;
        let rest = if took <= QUICK { Duration::ZERO } else { took.saturating_mul(factor).min(longest) };
        *self.rests_until = now + rest;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const REST: Rest = Rest { factor: 9, longest: Duration::from_secs(60) };

    #[tokio::test(start_paused = true)]
    async fn a_place_holds_one_and_rests_after_it() {
        let place = Place::resting(REST);
        let taken = place.try_take().unwrap();
        assert!(place.try_take().is_none(), "taken");
        advance(2 * SECOND).await;
        drop(taken);
        advance(17 * SECOND).await;
        assert!(place.try_take().is_none(), "rests");
        assert!(place.try_take().is_none(), "a vain attempt changes nothing");
        advance(SECOND).await;
        let quick = place.try_take().unwrap();
        advance(QUICK).await;
        drop(quick);
        assert!(place.try_take().is_some(), "the server has time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_has_an_end() {
        let place = Place::resting(REST);
        let taken = place.try_take();
        advance(3600 * SECOND).await;
        drop(taken);
        assert!(timeout(59 * SECOND, place.take()).await.is_err());
        assert!(timeout(SECOND, place.take()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_take_turns() {
        let place = Place::resting(REST);
        let began = Instant::now();
        let one = async {
            let _taken = place.take().await;
            tokio::time::sleep(SECOND).await;
        };
        let other = async {
            let _taken = place.take().await;
            began.elapsed()
        };
        assert_eq!(tokio::join!(one, other).1, 10 * SECOND);
    }
}
