//! The cost of a call beyond the call itself. A function records it on its thread; a caller that enforces limits collects it afterwards.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static NOTED: Cell<u64> = const { Cell::new(0) };
    static TIME: Cell<SlowTime> = const { Cell::new(SlowTime { processor: Duration::ZERO, elapsed: Duration::ZERO }) };
}

/// Records work of the current call, such as the number of values visited, which the caller counts as steps.
pub fn note_work(steps: u64) {
    NOTED.set(NOTED.get().saturating_add(steps));
}

/// The time of inherently slow calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowTime {
    /// Processor time, which counts against the run's limit.
    pub processor: Duration,
    /// Elapsed time, by which the run's deadline is extended: a busy machine may take many times as long.
    pub elapsed: Duration,
}

/// Records time of the current call, for inherently slow work such as key generation, where a number of steps would be a guess.
pub fn note_time(time: SlowTime) {
    let before = TIME.get();
    let processor = before.processor.saturating_add(time.processor);
    TIME.set(SlowTime { processor, elapsed: before.elapsed.saturating_add(time.elapsed) });
}

/// Returns and clears what this thread has recorded.
pub fn take() -> (u64, SlowTime) {
    (NOTED.take(), TIME.take())
}
