//! A process's inputs besides the API server: the time of day, random numbers, threads. A simulation replaces all of
//! them on its own thread, so that one seed decides everything.
//!
//! Measured durations use `tokio::time::Instant`, which tokio can pause. Templates have their own clock and randomness.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::mpsc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::time::Instant;

thread_local! {
    static WORLD: Cell<Option<World>> = const { Cell::new(None) };
    /// The channel from work on a separate thread to the simulated thread, for futures that the latter must run.
    static ASKS: RefCell<Option<mpsc::Sender<BoxFuture<'static, ()>>>> = const { RefCell::new(None) };
}

/// The simulated inputs.
#[derive(Clone, Copy)]
struct World {
    start: (Timestamp, Instant),
    random: u64,
}

/// Replaces the clock, random numbers and separate work on this thread until dropped: the time of day begins at `start`
/// and advances with tokio's clock, random numbers follow from the seed, and nothing else runs while separate work
/// runs. Requires a runtime that stays on this thread.
#[must_use = "the simulation ends when this is dropped"]
pub struct Simulation(());

impl Simulation {
    /// Begins a simulation. Call it within the runtime, whose clock it reads.
    pub fn begin(start: Timestamp, seed: u64) -> Simulation {
        WORLD.set(Some(World { start: (start, Instant::now()), random: seed }));
        Simulation(())
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        WORLD.set(None);
    }
}

/// Returns the time of day.
pub fn now() -> Timestamp {
    let Some(World { start: (start, began), .. }) = WORLD.get() else { return Timestamp::now() };
    start.saturating_add(began.elapsed()).unwrap_or(Timestamp::MAX)
}

/// Returns a random number.
pub fn random() -> u64 {
    let Some(mut world) = WORLD.get() else {
        // The standard library's only source of randomness: each state has its own keys.
        return RandomState::new().build_hasher().finish();
    };
    // SplitMix64.
    world.random = world.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    WORLD.set(Some(world));
    let mixed = (world.random ^ (world.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Runs work that may compute for long, or [waits](wait), on a thread that may block; returns `None` if it panicked or
/// the process ends.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if WORLD.get().is_some() { in_turn(work).await } else { tokio::task::spawn_blocking(work).await.ok() }
}

/// Runs work on another thread, while this thread runs only the futures that the work waits for.
async fn in_turn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let ((ask, asked), world) = (mpsc::channel(), WORLD.get());
    let thread = std::thread::spawn(move || {
        WORLD.set(world);
        ASKS.set(Some(ask));
        work()
    });
    // The channel closes when the thread ends.
    while let Ok(question) = asked.recv() {
        question.await;
    }
    thread.join().ok()
}

/// Waits for a future within work that runs [apart]; returns `None` if no caller waits for that work any longer.
pub fn wait<T: Send + 'static>(runtime: &Handle, future: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let Some(ask) = ASKS.with_borrow(Clone::clone) else { return Some(runtime.block_on(future)) };
    let (answer, answered) = mpsc::channel();
    let question = async move { _ = answer.send(future.await) };
    ask.send(Box::pin(question)).ok()?;
    answered.recv().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn noon() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulation_decides_the_time_of_day_and_random_numbers() {
        let drawn = |seed| {
            let _simulation = Simulation::begin(noon(), seed);
            [random(), random()]
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let simulation = Simulation::begin(noon(), 1);
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(now().to_string(), "2026-01-01T12:01:30Z");
        drop(simulation);
        assert!(now() > noon() && random() != random());
    }

    /// Runs work that waits for another task.
    async fn worked() -> Option<Option<u32>> {
        let (runtime, (answer, answered)) = (Handle::current(), tokio::sync::oneshot::channel());
        tokio::spawn(async move { answer.send(7) });
        apart(move || wait(&runtime, async { answered.await.unwrap() })).await
    }

    #[tokio::test]
    async fn work_apart_may_wait_in_a_simulation_and_elsewhere() {
        assert_eq!(worked().await, Some(Some(7)));
        let _simulation = Simulation::begin(noon(), 1);
        assert_eq!(worked().await, Some(Some(7)));
        assert_eq!(apart(|| 5).await, Some(5));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_nobody_waits_for_any_more_ends() {
        let _simulation = Simulation::begin(noon(), 1);
        let (ended, has_ended) = mpsc::channel();
        let runtime = Handle::current();
        let work = apart(move || ended.send(wait(&runtime, std::future::pending::<()>())));
        assert!(tokio::time::timeout(Duration::from_secs(1), work).await.is_err());
        assert_eq!(has_ended.recv_timeout(Duration::from_secs(60)), Ok(None));
    }
}
