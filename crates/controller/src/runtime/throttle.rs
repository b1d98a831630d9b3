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
    ready_at: Mutex<Option<Instant>>,
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
        Pacer { cooldown, ready_at: Mutex::new(None) }
    }

    /// Returns whether the last cooldown is over.
    pub fn is_ready(&self) -> bool {
        lock(&self.ready_at).is_none_or(|at| at <= Instant::now())
    }

    /// Waits until the last cooldown is over.
    pub async fn ready(&self) {
        let ready_at = *lock(&self.ready_at);
        if let Some(at) = ready_at {
            sleep_until(at).await;
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
        *lock(&self.pacer.ready_at) = Some(now + pause);
    }
}

/// Runs one task at a time, with a cooldown after each.
#[derive(Debug)]
pub struct Throttle {
    pacer: Pacer,
    turns: tokio::sync::Mutex<()>,
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
        Throttle { pacer: Pacer::new(cooldown), turns: tokio::sync::Mutex::new(()) }
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
