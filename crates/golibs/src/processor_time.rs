//! How much processor time a thread took: for limits that must not depend on what else the machine does.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Of this thread, since it began.
pub fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn only_what_this_thread_does_counts() {
        let (began, before) = (Instant::now(), processor_time());
        std::thread::spawn(|| while processor_time() < Duration::from_millis(20) {}).join().unwrap();
        let waited = processor_time() - before;
        assert!(waited < began.elapsed() && waited < Duration::from_millis(10), "{waited:?}");
        while processor_time() - before < Duration::from_millis(20) {}
        assert!(began.elapsed() >= Duration::from_millis(35));
    }
}
