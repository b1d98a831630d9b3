//! What a call costs beyond being made. A function notes it on its thread; whoever runs functions under a limit collects it afterwards.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static NOTED: Cell<u64> = const { Cell::new(0) };
    static TIME: Cell<SlowTime> = const { Cell::new(SlowTime { processor: Duration::ZERO, elapsed: Duration::ZERO }) };
}

/// Notes work that the current call does, such as the number of values that it visits: the caller counts it as steps.
pub fn note_work(steps: u64) {
    NOTED.set(NOTED.get().saturating_add(steps));
}

/// The time of calls that are slow by nature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowTime {
    /// Processor time, which counts.
    pub processor: Duration,
    /// Time on the clock, which is not counted against the run's deadline: a busy machine may take many times as long.
    pub elapsed: Duration,
}

/// Notes time that the current call takes, for what is slow by nature, such as making a key, where a number of steps would be a guess.
pub fn note_time(time: SlowTime) {
    let before = TIME.get();
    let processor = before.processor.saturating_add(time.processor);
    TIME.set(SlowTime { processor, elapsed: before.elapsed.saturating_add(time.elapsed) });
}

/// Returns what this thread noted since the last call, and forgets it.
pub fn take() -> (u64, SlowTime) {
    (NOTED.take(), TIME.take())
}
