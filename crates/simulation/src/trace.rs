//! What happened: a hash of every step, which two runs of one seed must share, and the same as text if asked for.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

/// The steps of a run.
#[derive(Default)]
pub struct Trace {
    hasher: DefaultHasher,
    steps: u64,
    is_printed: bool,
    violation: Option<Violation>,
}

/// What must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When, in simulated time.
    pub at: Duration,
    /// Which invariant, and how.
    pub what: String,
}

impl Trace {
    /// A trace that prints each step.
    pub fn printed() -> Trace {
        Trace { is_printed: true, ..Trace::default() }
    }

    /// Notes a step.
    pub fn step(&mut self, at: Duration, by: &str, what: impl FnOnce() -> String) {
        let what = what();
        (at, by, &what).hash(&mut self.hasher);
        self.steps += 1;
        if self.is_printed {
            eprintln!("{:>10.3} {by:<10} {what}", at.as_secs_f64());
        }
    }

    /// Notes that somebody looked, and found nothing that is told here.
    pub fn poll(&mut self, at: Duration) {
        at.hash(&mut self.hasher);
        self.steps += 1;
    }

    /// Notes the first violation.
    pub fn violation(&mut self, at: Duration, what: String) {
        self.step(at, "VIOLATION", || what.clone());
        self.violation.get_or_insert(Violation { at, what });
    }

    /// The first violation.
    pub fn found(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// How many steps there were, and their hash.
    pub fn sum(&self) -> (u64, u64) {
        (self.steps, self.hasher.finish())
    }
}
