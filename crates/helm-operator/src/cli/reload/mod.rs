//! `run --reload`: serves a chart again as soon as it is saved, and the program once its saved sources are built.
//!
//! ```text
//! a save ─▶ settled: wait until all files are complete
//!        ─▶ preview: render samples, or defaults ─┬─ fails ─▶ log the error with its place; the running chart stays
//!                                                 └─ renders ─▶ print what changes in the cluster ─▶ stop as at a signal ─▶ exec the program again
//! ```
//!
//! A saved watches file is parsed instead of previewed. A saved source of the program is built with `cargo build`
//! instead.
//!
//! The new process finds charts with another digest and upgrades their releases, as after any restart.

mod diff;
mod entries;
mod preview;
mod releases;
mod settled;
mod sources;

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio_util::sync::CancellationToken;

use crate::charts::previews::Previews;
use crate::plan::diff::{Colour, coloured};
use crate::terminal::plain_lines;
use crate::watches::{self, Watch};
use entries::Entries;
use preview::Preview;
use settled::{Look, settled};
use sources::Sources;

/// How long no event must arrive for a save to be complete. An editor writes several files, or one in several steps.
const QUIET: Duration = Duration::from_millis(200);

/// The reason why files cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch {}", path.display())]
pub(super) struct Error {
    path: PathBuf,
    source: notify::Error,
}

/// A watch on charts and sources that ends once one is saved that can be served.
pub(super) struct Reload {
    wanted: Arc<AtomicBool>,
    /// This program's path. Once the program is rebuilt, the system no longer knows it.
    program: io::Result<PathBuf>,
    /// Watches until it is dropped.
    _watcher: RecommendedWatcher,
}

impl Reload {
    /// Starts to watch this watches file, its charts, and the program's sources if `cargo run` started it. Cancels
    /// `stop` when the program should restart.
    ///
    /// # Errors
    /// The system refuses to watch a chart.
    pub(super) fn start(file: &Path, stop: CancellationToken, previews: Arc<Previews>) -> Result<Reload, Error> {
        let (events, saves) = channel();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error { path, source }
        };
        let send = move |event: notify::Result<Event>| {
            if is_save(&event) {
                // Without a receiver, watching has ended.
                _ = events.send(());
            }
        };
        let mut watcher = notify::recommended_watcher(send).map_err(failed(file))?;
        let mut entries = Entries::of(file);
        watcher.watch(entries.folder(), RecursiveMode::NonRecursive).map_err(failed(entries.folder()))?;
        let watches = watches::load(file).unwrap_or_default();
        for watch in watches.iter().filter(|watch| watch.pull.is_none()) {
            watcher.watch(&watch.chart, RecursiveMode::Recursive).map_err(failed(&watch.chart))?;
        }
        let program = std::env::current_exe();
        let mut sources = program.as_deref().ok().and_then(Sources::of);
        for (folder, mode) in sources.iter().flat_map(Sources::folders) {
            watcher.watch(&folder, mode).map_err(failed(&folder))?;
        }
        let wanted = Arc::new(AtomicBool::new(false));
        let result = wanted.clone();
        std::thread::spawn(move || {
            if wait(&watches, (&mut entries, &mut sources), &saves, &previews) {
                result.store(true, Ordering::Release);
                stop.cancel();
            }
        });
        Ok(Reload { wanted, program, _watcher: watcher })
    }

    /// Returns whether the program stopped in order to restart.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Replaces this process by a new one of the same program with the same arguments. Returns only on error.
    pub(super) fn start_again(self) -> io::Error {
        match self.program {
            Ok(program) => Command::new(program).args(std::env::args_os().skip(1)).exec(),
            Err(error) => error,
        }
    }
}

/// Waits until no git command is changing the watches file or its charts. Called before they are loaded: a checkout may
/// have begun while the program restarted.
pub(super) fn wait_for_git(file: &Path) {
    let look = || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let parsed = watches::parse(&text, |name| std::env::var(name).ok());
        Look::at(&paths(file, &parsed.map(|parsed| parsed.watches).unwrap_or_default()))
    };
    if look().is_locked() {
        let pause = || {
            std::thread::sleep(QUIET);
            true
        };
        _ = settled(look, pause, || ());
    }
}

/// Returns the watches file and the charts that are on disk.
fn paths(file: &Path, watches: &[Watch]) -> Vec<PathBuf> {
    let charts = watches.iter().filter(|watch| watch.pull.is_none()).map(|watch| watch.chart.clone());
    charts.chain([file.to_owned()]).collect()
}

/// Returns whether the event may belong to a save. Reading a chart opens its files, which must not look like one.
fn is_save(event: &notify::Result<Event>) -> bool {
    let Ok(event) = event else { return true };
    match event.kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

/// Waits until nothing is saved for a while; returns false when watching ends.
fn quiet(saves: &Receiver<()>) -> bool {
    loop {
        match saves.recv_timeout(QUIET) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// Waits for a save that can be served; returns false when watching ends.
fn wait(
    watches: &[Watch],
    (entries, sources): (&mut Entries, &mut Option<Sources>),
    saves: &Receiver<()>,
    previews: &Previews,
) -> bool {
    let read = || -> Vec<Preview> { watches.iter().map(Preview::of).collect() };
    let mut served = read();
    let mut paths = paths(entries.path(), watches);
    paths.extend(sources.iter().flat_map(Sources::paths));
    while saves.recv().is_ok() {
        let Some(saved) = settled(|| Look::at(&paths), || quiet(saves), read) else { return false };
        let mut reloads = sources.as_mut().is_some_and(Sources::build);
        match entries.next() {
            AfterSave::Nothing => {}
            AfterSave::Keep(error) => {
                tracing::error!(error, "The saved watches file cannot be served: the running one stays")
            }
            AfterSave::Reload(_) => {
                tracing::info!("The watches file was saved: serving it");
                reloads = true;
            }
        }
        for ((watch, served), saved) in watches.iter().zip(&mut served).zip(saved) {
            match served.next(&saved) {
                AfterSave::Nothing => {}
                AfterSave::Keep(error) => {
                    let chart = watch.chart.display();
                    tracing::error!(chart = %chart, error, "The saved chart is broken: the running one stays");
                }
                AfterSave::Reload(change) => {
                    tracing::info!(chart = %watch.chart.display(), "The chart was saved: serving it");
                    let hidden = || served.mask(&saved, watch).hide(change);
                    let change = releases::changes(watch, previews).unwrap_or_else(hidden);
                    super::print(&coloured(&plain_lines(&change), Colour::of(&io::stdout())));
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
enum AfterSave {
    /// Nothing: the chart is unchanged, or was broken in the same way before.
    Nothing,
    /// Keep the running chart: the saved one cannot be served, for this reason.
    Keep(String),
    /// Serve the saved chart. The text shows how its objects change.
    Reload(String),
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, ModifyKind, RemoveKind};

    use super::*;

    #[test]
    fn reading_a_file_is_no_save() {
        for (kind, expected) in [
            (EventKind::Access(AccessKind::Open(AccessMode::Any)), false),
            (EventKind::Access(AccessKind::Close(AccessMode::Read)), false),
            (EventKind::Access(AccessKind::Close(AccessMode::Write)), true),
            (EventKind::Create(CreateKind::File), true),
            (EventKind::Modify(ModifyKind::Any), true),
            (EventKind::Remove(RemoveKind::Folder), true),
            // The system has lost events.
            (EventKind::Other, true),
        ] {
            assert_eq!(is_save(&Ok(Event::new(kind))), expected, "{kind:?}");
        }
        assert!(is_save(&Err(notify::Error::generic("lost"))));
    }
}
