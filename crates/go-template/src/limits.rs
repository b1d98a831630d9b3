//! The limits of a run, what it has used of them, and the errors of exceeding them.
//!
//! No counterpart in Go, which has no limits.

use std::fmt;
use std::time::Duration;

use crate::changed::ChangedMaps;
use crate::error::LimitError;
use crate::held::Held;
use crate::stack;
use crate::value::{Map, Str, Value};
use golibs::clock::Instant;
use golibs::work::SlowTime;

/// The limits of a run.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Executed nodes and commands, plus the work of functions on large values. Limits time independently of the machine.
    pub steps: u64,
    /// Bytes of output at any time: output of finished templates that the host keeps, plus what the running templates have written. Output that a
    /// function such as Helm's `include` has returned as a value no longer counts as output.
    pub output: usize,
    /// Bytes held at any time: the output, and results of functions while something refers to them.
    pub memory: usize,
    /// Processor time of slow functions, which report it with `golibs::work::note_time`.
    pub function_time: Duration,
    /// Maximum nesting of executions, through functions such as Helm's `include`.
    pub executions: usize,
    /// The time at which the run stops. Time spent in slow functions extends it. `None` by default.
    pub deadline: Option<Instant>,
}

impl Limits {
    /// The default: about a second on a slow core. The heaviest public charts need a tenth of it.
    pub const STEPS: u64 = 10_000_000;
    /// The default: far more than fits in a Helm release, which is limited to 1 MiB, compressed.
    pub const OUTPUT: usize = 128 << 20;
    /// The default: twice the default output.
    pub const MEMORY: usize = 256 << 20;
    /// The default: about 200 RSA keys or 300 password hashes. Some charts generate all certificates again each time they compute a checksum of them.
    pub const FUNCTION_TIME: Duration = Duration::from_secs(20);
    /// The default: more than Helm's own limit for `include`, which applies per template name.
    pub const EXECUTIONS: usize = 5_000;
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            steps: Self::STEPS,
            output: Self::OUTPUT,
            memory: Self::MEMORY,
            function_time: Self::FUNCTION_TIME,
            executions: Self::EXECUTIONS,
            deadline: None,
        }
    }
}

/// Number of steps between two readings of the clock.
const STEPS_PER_CLOCK: u64 = 1024;

/// Maximum length of a string that a function may return, in bytes. Printing stops at this size, so a longer string may be incomplete.
const MAX_TEXT: usize = crate::fmt::MAX_OUTPUT;

/// A function's string arguments and results cost one step per this many bytes.
const BYTES_PER_STEP: usize = 128;

/// A function's list arguments and results cost one step per this many items.
const ITEMS_PER_STEP: usize = 8;

/// Checking which values are still held costs one step per this many values.
const VALUES_CHECKED_PER_STEP: usize = 16;

/// The amount that a run has used. A host that splits one render into several runs passes it from one run to the next.
#[derive(Debug, Default)]
pub struct Spent {
    steps: u64,
    /// The share of `steps` that large strings and lists cost.
    data: u64,
    /// The share of `steps` that functions recorded as work.
    work: u64,
    /// Bytes of output that the host keeps.
    kept: usize,
    held: Held,
    times: Times,
    changed: ChangedMaps,
}

impl Spent {
    /// Records that a function put the value into the map.
    pub(crate) fn changed(&mut self, map: &Map, value: &Value) {
        self.changed.add(map, value);
    }

    /// Empties every map that functions changed, and the maps in it: a map that contains itself would otherwise never be freed.
    ///
    /// Call this at the end of a run whose values are not used afterwards.
    pub fn empty_changed_maps(self) {
        self.changed.empty();
    }

    /// Counts steps of the templates themselves.
    #[inline]
    pub(crate) fn step(&mut self, steps: u64, limits: &Limits) -> Result<(), LimitError> {
        let before = self.steps;
        self.steps = before.saturating_add(steps);
        if self.steps > limits.steps {
            return Err(self.too_many_steps(limits));
        }
        if before / STEPS_PER_CLOCK != self.steps / STEPS_PER_CLOCK {
            return self.check_deadline(limits);
        }
        Ok(())
    }

    /// Charges an argument by its size, because most functions read all of it.
    pub(crate) fn charge_argument(&mut self, arg: &Value, limits: &Limits) -> Result<(), LimitError> {
        match arg {
            Value::String(s) | Value::Bytes(s) => self.charge_data(s.len() / BYTES_PER_STEP, limits),
            Value::List(list) => self.charge_data(list.len() / ITEMS_PER_STEP, limits),
            _ => Ok(()),
        }
    }

    /// Charges the result of a function, unless something else holds it. `running` is the output of running templates, in bytes.
    pub(crate) fn charge_result(&mut self, value: &Value, running: usize, limits: &Limits) -> Result<(), LimitError> {
        let steps = match value {
            Value::String(s) | Value::Bytes(s) if s.len() > MAX_TEXT => return Err(long_text()),
            Value::String(s) | Value::Bytes(s) => s.len() / BYTES_PER_STEP,
            Value::List(list) => list.len() / ITEMS_PER_STEP,
            Value::Map(_) | Value::Object(_) => 0,
            _ => return Ok(()),
        };
        if value.is_shared() {
            return Ok(());
        }
        self.charge_data(steps, limits)?;
        self.held.add(value, limits.memory);
        if self.held.is_check_due() {
            self.check_held(limits)?;
        }
        self.check_memory(running, limits)
    }

    pub(crate) fn charge_work(&mut self, steps: u64, limits: &Limits) -> Result<(), LimitError> {
        self.work = self.work.saturating_add(steps);
        self.step(steps, limits)
    }

    pub(crate) fn charge_time(&mut self, name: &Str, time: SlowTime, limits: &Limits) -> Result<(), LimitError> {
        self.times.add(name, time);
        if self.times.total.processor > limits.function_time {
            return Err(self.times.exceeded(limits));
        }
        self.check_deadline(limits)
    }

    /// Adds bytes of output that the host keeps. `running` is the output of running templates, in bytes.
    pub(crate) fn keep_output(&mut self, bytes: usize, running: usize, limits: &Limits) -> Result<(), LimitError> {
        self.kept = self.kept.saturating_add(bytes);
        self.check_output(running, limits)
    }

    /// Checks the amount of output. `running` is the output of running templates, in bytes.
    #[inline]
    pub(crate) fn check_output(&mut self, running: usize, limits: &Limits) -> Result<(), LimitError> {
        if self.kept.saturating_add(running) > limits.output {
            return Err(long_output(limits));
        }
        self.check_memory(running, limits)
    }

    #[inline]
    fn check_memory(&mut self, running: usize, limits: &Limits) -> Result<(), LimitError> {
        let output = self.kept.saturating_add(running);
        if output.saturating_add(self.held.bytes) <= limits.memory {
            return Ok(());
        }
        self.check_held(limits)?;
        match output.saturating_add(self.held.bytes) <= limits.memory {
            true => Ok(()),
            false => Err(self.held.exceeded(output, limits)),
        }
    }

    #[cold]
    fn check_held(&mut self, limits: &Limits) -> Result<(), LimitError> {
        let checked = self.held.check(limits.memory);
        self.charge_work((checked / VALUES_CHECKED_PER_STEP) as u64, limits)
    }

    fn charge_data(&mut self, steps: usize, limits: &Limits) -> Result<(), LimitError> {
        self.data = self.data.saturating_add(steps as u64);
        self.step(steps as u64, limits)
    }

    fn check_deadline(&self, limits: &Limits) -> Result<(), LimitError> {
        match self.deadline(limits) {
            Some(deadline) if Instant::now() >= deadline => {
                let message = "out of time; run loops and includes less often".to_owned();
                Err(LimitError { name: "deadline", message })
            }
            _ => Ok(()),
        }
    }

    /// Returns the time at which the run stops.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        limits.deadline.map(|deadline| deadline + self.times.total.elapsed)
    }

    /// Returns the number of steps that the run may still take.
    pub(crate) fn steps_left(&self, limits: &Limits) -> u64 {
        limits.steps.saturating_sub(self.steps)
    }

    /// Checks that this many bytes may be allocated. `running` is the output of running templates, in bytes.
    pub(crate) fn reserve(&mut self, bytes: usize, running: usize, limits: &Limits) -> Result<(), LimitError> {
        self.check_memory(running.saturating_add(bytes), limits)
    }

    #[cold]
    fn too_many_steps(&self, limits: &Limits) -> LimitError {
        let nodes = self.steps.saturating_sub(self.data).saturating_sub(self.work);
        let most = if nodes >= self.data.max(self.work) {
            "loops and includes; run them less often"
        } else if self.data >= self.work {
            "large strings and lists in function calls; use fewer or smaller ones"
        } else {
            "merging, copying, parsing and searching in functions; do less of it"
        };
        LimitError { name: "steps", message: format!("{} template steps, most of them for {most}", limits.steps) }
    }
}

/// The time spent in slow functions, in total and by name.
#[derive(Debug, Default)]
struct Times {
    total: SlowTime,
    by_name: Vec<(Str, Duration)>,
}

impl Times {
    fn add(&mut self, name: &Str, SlowTime { processor: time, elapsed }: SlowTime) {
        self.total.processor += time;
        self.total.elapsed += elapsed;
        match self.by_name.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += time,
            None => self.by_name.push((name.clone(), time)),
        }
    }

    fn exceeded(&self, limits: &Limits) -> LimitError {
        let slowest = self.by_name.iter().max_by_key(|(_, time)| time);
        let slowest = slowest.map(|(name, _)| name.to_string()).unwrap_or_default();
        let message = format!(
            "{:?} of processor time in slow functions, most of it in {slowest}; call it less often: every include of a template that calls \
             it calls it again",
            limits.function_time,
        );
        LimitError { name: "function time", message }
    }
}

/// A number of bytes, displayed for people.
pub(crate) struct Size(pub(crate) usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 >> 20 {
            0 => write!(f, "{} bytes", self.0),
            mib => write!(f, "{mib} MiB"),
        }
    }
}

#[cold]
fn long_output(limits: &Limits) -> LimitError {
    let message = format!("{} in the files rendered so far; write less, or split the chart", Size(limits.output));
    LimitError { name: "output", message }
}

#[cold]
pub(crate) fn full_stack() -> LimitError {
    let message = format!("{} MiB; templates, blocks or parentheses nest too deep", stack::MAX_MIB);
    LimitError { name: "stack", message }
}

#[cold]
pub(crate) fn long_text() -> LimitError {
    LimitError { name: "text", message: format!("{} in one string; print it in parts", Size(MAX_TEXT)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_in_bytes_or_mebibytes() {
        for (bytes, shown) in
            [(0, "0 bytes"), ((1 << 20) - 1, "1048575 bytes"), (1 << 20, "1 MiB"), (256 << 20, "256 MiB")]
        {
            assert_eq!(Size(bytes).to_string(), shown);
        }
    }
}
