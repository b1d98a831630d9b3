//! Reports the progress of slow work: a chart is rendered with up to several thousand combinations of values.

use std::fmt;
use std::sync::Arc;

/// The progress of exploring one chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// The chart's folder or archive.
    pub chart: &'a str,
    /// The number of rendered combinations of values.
    pub done: usize,
    /// The number of combinations planned so far.
    pub planned: usize,
}

type Report = Arc<dyn Fn(Step<'_>) + Send + Sync>;

/// The receiver of steps; none by default.
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
