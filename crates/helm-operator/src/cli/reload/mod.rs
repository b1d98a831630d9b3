//! `run --reload`: serves a chart again as soon as it is saved.
//!
//! ```text
//! a save ─▶ preview: render samples, or defaults ─┬─ fails ─▶ log the error with its place; the running chart stays
//!                                                 └─ renders ─▶ print what changes ─▶ stop as at a signal ─▶ exec the program again
//! ```
//!
//! The new process finds charts with another digest and upgrades their releases, as after any restart.

mod diff;
mod preview;

use std::io::{self, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio_util::sync::CancellationToken;

use crate::watches::{self, Watch};
use preview::Preview;

/// An editor writes several files, or one in several steps: this long without an event ends a save.
const QUIET: Duration = Duration::from_millis(200);

/// Why files cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch {}", path.display())]
pub(super) struct Error {
    path: PathBuf,
    source: notify::Error,
}

/// Watches charts until one is saved that can be served.
pub(super) struct Reload {
    wanted: Arc<AtomicBool>,
    /// Watches until it is dropped.
    _watcher: RecommendedWatcher,
}

impl Reload {
    /// Starts to watch the charts in this watches file. Cancels `stop` once the program should start again.
    ///
    /// # Errors
    /// The system refuses to watch a chart.
    pub(super) fn start(file: &Path, stop: CancellationToken) -> Result<Reload, Error> {
        let (events, saves) = channel();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error { path, source }
        };
        let mut watcher = notify::recommended_watcher(events).map_err(failed(file))?;
        let watches = watches::load(file).unwrap_or_default();
        for watch in &watches {
            watcher.watch(&watch.chart, RecursiveMode::Recursive).map_err(failed(&watch.chart))?;
        }
        let wanted = Arc::new(AtomicBool::new(false));
        let result = wanted.clone();
        std::thread::spawn(move || {
            if wait(&watches, &saves) {
                result.store(true, Ordering::Release);
                stop.cancel();
            }
        });
        Ok(Reload { wanted, _watcher: watcher })
    }

    /// Whether the program stopped to start again.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }
}

/// Replaces this process by a new one of the same program with the same arguments. Returns only the error.
pub(super) fn start_again() -> io::Error {
    match std::env::current_exe() {
        Ok(program) => Command::new(program).args(std::env::args_os().skip(1)).exec(),
        Err(error) => error,
    }
}

/// Waits for a save that can be served; returns false when watching ends.
fn wait(watches: &[Watch], saves: &Receiver<notify::Result<Event>>) -> bool {
    let mut served: Vec<Preview> = watches.iter().map(Preview::of).collect();
    while saves.recv().is_ok() {
        loop {
            match saves.recv_timeout(QUIET) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        let mut reloads = false;
        for (watch, served) in watches.iter().zip(&mut served) {
            let saved = Preview::of(watch);
            match served.next(&saved) {
                Next::Nothing => {}
                Next::Keep(error) => {
                    let chart = watch.chart.display();
                    tracing::error!(chart = %chart, error, "The saved chart is broken: the running one stays");
                }
                Next::Reload(change) => {
                    tracing::info!(chart = %watch.chart.display(), "The chart was saved: serving it");
                    super::print(&diff::coloured(&change, io::stdout().is_terminal()));
                    reloads = true;
                }
            }
            served.seen(saved);
        }
        if reloads {
            return true;
        }
    }
    false
}

/// What to do after a save.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The chart is the same, or was broken in the same way before.
    Nothing,
    /// The chart cannot be served, for this reason.
    Keep(String),
    /// Serve it; the text shows how its objects change.
    Reload(String),
}
