//! Slows down low-priority work, such as events, diagnoses and retries. After each task there is a cooldown of a
//! multiple of its duration: the busier the server or the processor, the slower the task, and the smaller the share of
//! time that low-priority work uses.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep_until};

use outside::sync::lock;

/// The maximum duration of a task without a cooldown: it shows that the server is not busy.
const QUICK: Duration = Duration::from_millis(5);

/// How far in the future a turn may be.
const LAST_TURN: Duration = Duration::from_secs(60);

/// The length of the pause after a task.
#[derive(Clone, Copy, Debug)]
pub struct Cooldown {
    /// The multiple of the task's duration.
    pub factor: u32,
    /// The maximum length, regardless of the task's duration.
    pub longest: Duration,
}

/// Enforces a cooldown after each task. Several tasks may run at once.
#[derive(Debug)]
pub struct Pacer {
    cooldown: Cooldown,
    last: Mutex<Option<Ended>>,
}

/// The last task that ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    /// When its cooldown is over.
    ready_at: Instant,
    /// How long it took, with its cooldown.
    turn: Duration,
}

/// A running task, until this is dropped.
#[derive(Debug)]
pub struct Task<'a> {
    pacer: &'a Pacer,
    since: Instant,
}

impl Pacer {
    /// Creates a pacer without a current cooldown.
    pub const fn new(cooldown: Cooldown) -> Pacer {
        Pacer { cooldown, last: Mutex::new(None) }
    }

    /// Returns whether the last cooldown is over.
    pub fn is_ready(&self) -> bool {
        lock(&self.last).is_none_or(|last| last.ready_at <= Instant::now())
    }

    /// Waits until the last cooldown is over.
    pub async fn ready(&self) {
        let last = *lock(&self.last);
        if let Some(last) = last {
            sleep_until(last.ready_at).await;
        }
    }

    /// Starts a task without waiting.
    pub fn begin(&self) -> Task<'_> {
        Task { pacer: self, since: Instant::now() }
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.since);
        let Cooldown { factor, longest } = self.pacer.cooldown;
        let pause = if took <= QUICK { Duration::ZERO } else { took.saturating_mul(factor).min(longest) };
        *lock(&self.pacer.last) = Some(Ended { ready_at: now + pause, turn: took + pause });
    }
}

/// Runs one task at a time, with a cooldown after each.
#[derive(Debug)]
pub struct Throttle {
    pacer: Pacer,
    turns: tokio::sync::Mutex<()>,
    /// When the last [promised](Throttle::next_turn) turn ends.
    promised: Mutex<Option<Instant>>,
}

/// The only running task, until this is dropped.
#[derive(Debug)]
pub struct Only<'a> {
    // Fields are dropped in this order: the cooldown must start before the next task may.
    _task: Task<'a>,
    _turn: MutexGuard<'a, ()>,
}

impl Throttle {
    /// Creates a throttle without a running task.
    pub fn new(cooldown: Cooldown) -> Throttle {
        Throttle { pacer: Pacer::new(cooldown), turns: tokio::sync::Mutex::new(()), promised: Mutex::new(None) }
    }

    /// Returns when a task that could not begin should try again. Each caller gets a later turn, as far apart as the
    /// last task and its cooldown took, so that many tasks neither try in vain nor all at once. After a minute of turns,
    /// callers share one.
    pub fn next_turn(&self) -> Instant {
        let last = *lock(&self.pacer.last);
        let turn = last.map_or(QUICK, |last| last.turn.max(QUICK));
        let mut promised = lock(&self.promised);
        let now = Instant::now();
        let at = now.max(last.map_or(now, |last| last.ready_at)).max(promised.unwrap_or(now)).min(now + LAST_TURN);
        // Tasks do not take equally long.
        *promised = Some(at + turn + turn / 4);
        at
    }

    /// Starts a task if none is running and the cooldown is over.
    pub fn try_begin(&self) -> Option<Only<'_>> {
        let turn = self.turns.try_lock().ok()?;
        self.pacer.is_ready().then(|| Only { _task: self.pacer.begin(), _turn: turn })
    }

    /// Waits until no task is running and the cooldown is over, then starts one.
    pub async fn begin(&self) -> Only<'_> {
        let turn = self.turns.lock().await;
        self.pacer.ready().await;
        Only { _task: self.pacer.begin(), _turn: turn }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const COOLDOWN: Cooldown = Cooldown { factor: 9, longest: Duration::from_secs(60) };

    #[tokio::test(start_paused = true)]
    async fn one_task_runs_and_a_pause_follows_it() {
        let throttle = Throttle::new(COOLDOWN);
        let task = throttle.try_begin().unwrap();
        assert!(throttle.try_begin().is_none(), "one runs");
        advance(2 * SECOND).await;
        drop(task);
        advance(17 * SECOND).await;
        assert!(throttle.try_begin().is_none(), "pauses");
        assert!(throttle.try_begin().is_none(), "a vain attempt changes nothing");
        advance(SECOND).await;
        let quick = throttle.try_begin().unwrap();
        advance(QUICK).await;
        drop(quick);
        assert!(throttle.try_begin().is_some(), "the server has time");
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_cannot_begin_get_turns_one_after_another() {
        let throttle = Throttle::new(COOLDOWN);
        let began = Instant::now();
        let task = async || {
            let mut tries = 1;
            let task = loop {
                if let Some(task) = throttle.try_begin() {
                    break task;
                }
                sleep_until(throttle.next_turn()).await;
                tries += 1;
            };
            tokio::time::sleep(SECOND / 10).await;
            drop(task);
            tries
        };
        let tries = futures::future::join_all((0..30).map(|_| task())).await;
        assert!(tries.iter().all(|tries| *tries <= 5), "{tries:?}");
        assert!(began.elapsed() < 45 * SECOND, "{:?} for 30 s of work and pauses", began.elapsed());
        let far = (0..1000).map(|_| throttle.next_turn()).max();
        assert_eq!(far, Some(Instant::now() + LAST_TURN), "turns that are not taken hold up later ones for a minute");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_has_an_end() {
        let throttle = Throttle::new(COOLDOWN);
        let task = throttle.try_begin();
        advance(3600 * SECOND).await;
        drop(task);
        assert!(timeout(59 * SECOND, throttle.begin()).await.is_err());
        assert!(timeout(SECOND, throttle.begin()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_wait_take_turns() {
        let throttle = Throttle::new(COOLDOWN);
        let began = Instant::now();
        let one = async {
            let _task = throttle.begin().await;
            tokio::time::sleep(SECOND).await;
        };
        let other = async {
            let _task = throttle.begin().await;
            began.elapsed()
        };
        assert_eq!(tokio::join!(one, other).1, 10 * SECOND);
    }
}
