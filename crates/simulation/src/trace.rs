//! The steps of a run: a hash, equal for two runs of one seed, and on request the steps as text, printed or kept.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

/// The steps of a run.
#[derive(Default)]
pub struct Trace {
    hasher: DefaultHasher,
    steps: u64,
    is_printed: bool,
    /// The steps as text, if they are kept.
    kept: Option<Vec<String>>,
    violation: Option<Violation>,
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The simulated time.
    pub at: Duration,
    /// The invariant, and how it was violated.
    pub what: String,
}

impl Trace {
    /// Creates a trace that prints each step.
    pub fn printed() -> Trace {
        Trace { is_printed: true, ..Trace::default() }
    }

    /// Creates a trace that keeps each step.
    pub fn kept() -> Trace {
        Trace { kept: Some(Vec::new()), ..Trace::default() }
    }

    /// Records a step.
    pub fn step(&mut self, at: Duration, by: &str, what: impl FnOnce() -> String) {
        let what = what();
        (at, by, &what).hash(&mut self.hasher);
        self.steps += 1;
        let line = || format!("{:>10.6} {by:<10} {what}", at.as_secs_f64());
        if self.is_printed {
            eprintln!("{}", line());
        }
        if let Some(kept) = &mut self.kept {
            kept.push(line());
        }
    }

    /// Records a poll, without text.
    pub fn poll(&mut self, at: Duration) {
        at.hash(&mut self.hasher);
        self.steps += 1;
    }

    /// Records a violation; only the first one is kept.
    pub fn violation(&mut self, at: Duration, what: String) {
        self.step(at, "VIOLATION", || what.clone());
        self.violation.get_or_insert(Violation { at, what });
    }

    /// Returns the first violation.
    pub fn found(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Returns the kept steps.
    pub fn take_kept(&mut self) -> Vec<String> {
        self.kept.take().unwrap_or_default()
    }

    /// Returns the number of steps and their hash.
    pub fn sum(&self) -> (u64, u64) {
        (self.steps, self.hasher.finish())
    }
}
