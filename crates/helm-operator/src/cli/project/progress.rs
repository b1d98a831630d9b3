//! Shows the progress of a slow command on a terminal, in one line of stderr that is cleared when the command ends.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outside::sync;
use scaffold::{Project, Step};

/// How long a command may take before it shows its progress.
const PATIENCE: Duration = Duration::from_secs(2);
/// The minimum time between two lines.
const PAUSE: Duration = Duration::from_millis(200);
/// Clears the current line.
const CLEAR: &str = "\r\x1b[2K";

/// Reports the steps of work on the project to stderr, if that is a terminal, until the returned value is dropped.
pub(super) fn show(project: &mut Project) -> Shown {
    let shown = Shown(Arc::new(Mutex::new(Ticker::new(Instant::now()))));
    if io::stderr().is_terminal() {
        let ticker = Arc::clone(&shown.0);
        project.report_to(move |step| {
            let line = sync::lock(&ticker).line(Instant::now(), step);
            line.into_iter().for_each(|line| print(&format!("{CLEAR}{line}")));
        });
    }
    shown
}

/// A guard that clears the line when it is dropped.
pub(super) struct Shown(Arc<Mutex<Ticker>>);

impl Drop for Shown {
    fn drop(&mut self) {
        if sync::lock(&self.0).last.is_some() {
            print(CLEAR);
        }
    }
}

/// The decision when to print which line.
struct Ticker {
    started: Instant,
    last: Option<Instant>,
}

impl Ticker {
    fn new(started: Instant) -> Ticker {
        Ticker { started, last: None }
    }

    /// Returns the line to print now; `None` if it is too early.
    fn line(&mut self, now: Instant, step: Step<'_>) -> Option<String> {
        let is_due = self.last.is_none_or(|last| now.duration_since(last) >= PAUSE);
        if now.duration_since(self.started) < PATIENCE || !is_due {
            return None;
        }
        self.last = Some(now);
        Some(format!("{}: {} of {} combinations of values rendered", step.chart, step.done, step.planned))
    }
}

/// Prints to stderr. A closed terminal must not end the command.
fn print(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slow_work_is_shown_and_not_each_of_its_steps() {
        let start = Instant::now();
        let mut ticker = Ticker::new(start);
        let mut at = |milliseconds: u64, done: usize| {
            let step = Step { chart: "helm-charts/web", done, planned: 90 };
            ticker.line(start + Duration::from_millis(milliseconds), step)
        };
        assert_eq!(at(1999, 1), None);
        assert_eq!(at(2000, 2).as_deref(), Some("helm-charts/web: 2 of 90 combinations of values rendered"));
        assert_eq!(at(2100, 3), None);
        assert_eq!(at(2200, 4).as_deref(), Some("helm-charts/web: 4 of 90 combinations of values rendered"));
        assert!(ticker.last.is_some());
    }
}
