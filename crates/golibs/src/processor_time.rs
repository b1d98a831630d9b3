//! The processor time of a thread, for limits that must not depend on the load of the machine.

use std::time::Duration;

/// Returns the processor time that this thread has used since it started.
#[cfg(not(target_family = "wasm"))]
pub fn processor_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Returns the time since the first call, because WebAssembly has no clock per thread.
#[cfg(target_family = "wasm")]
pub fn processor_time() -> Duration {
    use std::sync::LazyLock;

    use crate::clock::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn other_threads_do_not_count() {
        let (began, before) = (Instant::now(), processor_time());
        std::thread::spawn(|| while processor_time() < Duration::from_millis(20) {}).join().unwrap();
        let waited = processor_time() - before;
        assert!(waited < began.elapsed() && waited < Duration::from_millis(10), "{waited:?}");
        while processor_time() - before < Duration::from_millis(20) {}
        assert!(began.elapsed() >= Duration::from_millis(35));
    }
}
