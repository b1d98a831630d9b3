//! Metering of function calls. A function records the work it does on its thread; a caller that enforces limits collects it afterwards.
//!
//! A function that could run for a long time calls [`spend`] to ask whether the budget, which its caller set beforehand, still allows it.

use std::cell::Cell;
use std::time::Duration;

use crate::clock::Instant;

thread_local! {
    static NOTED: Cell<u64> = const { Cell::new(0) };
    static LEFT: Cell<Left> = const { Cell::new(Left { steps: u64::MAX, until: None }) };
    static TIME: Cell<SlowTime> = const { Cell::new(SlowTime { processor: Duration::ZERO, elapsed: Duration::ZERO }) };
}

/// Number of steps between two readings of the clock.
const STEPS_PER_CLOCK: u64 = 1 << 15;

/// The budget of a call: the steps it may take, and the time by which it must end.
#[derive(Clone, Copy)]
struct Left {
    steps: u64,
    until: Option<Instant>,
}

/// The call does more work than its caller allows. The caller reports which limit was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the render has no steps or no time left")]
pub struct Exhausted;

/// Records work of the current call, such as the number of values visited. The caller counts it as steps.
#[inline]
pub fn note_work(steps: u64) {
    NOTED.set(NOTED.get().saturating_add(steps));
}

/// Records work like [`note_work`], before doing it.
///
/// # Errors
/// The budget of the current call is used up. Never fails outside a metered call.
#[inline]
pub fn spend(steps: u64) -> Result<(), Exhausted> {
    let before = NOTED.get();
    let noted = before.saturating_add(steps);
    NOTED.set(noted);
    let left = LEFT.get();
    let is_late = || left.until.is_some_and(|until| Instant::now() >= until);
    if noted > left.steps || before / STEPS_PER_CLOCK != noted / STEPS_PER_CLOCK && is_late() {
        return Err(Exhausted);
    }
    Ok(())
}

/// A metered call. Calls may nest.
#[must_use]
pub struct Call {
    outer: (u64, Left),
}

/// Starts a call that may take this many steps, until this time.
#[inline]
pub fn begin(steps: u64, until: Option<Instant>) -> Call {
    Call { outer: (NOTED.replace(0), LEFT.replace(Left { steps, until })) }
}

/// The cost that a call recorded.
pub struct Noted {
    /// The recorded steps.
    pub steps: u64,
    /// The time spent in inherently slow functions.
    pub time: SlowTime,
}

impl Call {
    /// Ends the call.
    #[inline]
    pub fn end(self) -> Noted {
        Noted { steps: NOTED.get(), time: TIME.take() }
    }
}

/// Continues the outer call, even if the inner one panicked.
impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        NOTED.set(self.outer.0);
        LEFT.set(self.outer.1);
    }
}

/// The time spent in inherently slow calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowTime {
    /// Processor time, which counts against the run's limit.
    pub processor: Duration,
    /// Elapsed time, by which the run's deadline is extended: on a busy machine, it may be many times the processor time.
    pub elapsed: Duration,
}

/// Records time of the current call, for inherently slow work such as key generation, whose steps could only be guessed.
pub fn note_time(time: SlowTime) {
    let before = TIME.get();
    let processor = before.processor.saturating_add(time.processor);
    TIME.set(SlowTime { processor, elapsed: before.elapsed.saturating_add(time.elapsed) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_refused_beyond_what_the_call_may_take() {
        assert_eq!(spend(u64::MAX), Ok(()), "no call runs");
        let call = begin(10, None);
        assert_eq!((spend(10), spend(1)), (Ok(()), Err(Exhausted)));
        assert_eq!(call.end().steps, 11);
        assert_eq!(spend(1), Ok(()));
    }

    #[test]
    fn nested_calls_count_on_their_own() {
        let outer = begin(10, None);
        note_work(3);
        let inner = begin(5, None);
        assert_eq!((spend(5), inner.end().steps), (Ok(()), 5));
        assert_eq!((spend(7), spend(1)), (Ok(()), Err(Exhausted)));
        assert_eq!(outer.end().steps, 11);
    }

    #[test]
    fn long_calls_stop_at_the_deadline() {
        let _call = begin(u64::MAX, Some(Instant::now()));
        assert_eq!((spend(STEPS_PER_CLOCK - 1), spend(1)), (Ok(()), Err(Exhausted)));
    }
}
