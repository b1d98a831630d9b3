//! Reports how far slow work is: a chart is rendered with up to some thousand combinations of values.

use std::fmt;
use std::sync::Arc;

/// How far the exploration of one chart is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// The chart's folder or archive.
    pub chart: &'a str,
    /// How many combinations of values were rendered.
    pub done: usize,
    /// How many are planned so far.
    pub planned: usize,
}

/// Takes each step.
type Report = Arc<dyn Fn(Step<'_>) + Send + Sync>;

/// Who hears of steps; by default, no one.
#[derive(Clone, Default)]
pub(crate) struct Progress(Option<Report>);

impl Progress {
    pub(crate) fn to(report: impl Fn(Step<'_>) + Send + Sync + 'static) -> Progress {
        Progress(Some(Arc::new(report)))
    }

    pub(crate) fn report(&self, step: Step<'_>) {
        if let Some(report) = &self.0 {
            report(step);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Progress(reported)" } else { "Progress(silent)" })
    }
}
