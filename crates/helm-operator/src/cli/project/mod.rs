//! The commands that write projects: `init`, `create api`, `generate`. The crate `scaffold` decides what they write.

mod create;
mod generate;
mod init;
mod library;
mod lint;
mod plugins;
mod progress;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use controller::report::chain;
use scaffold::library::FOLDER as COPY;
use scaffold::{Change, Project, disk, fetched_place, rbac};

pub(crate) use create::Create;
pub(crate) use generate::Generate;
pub(crate) use init::Init;
pub(crate) use lint::Lint;

use crate::manager::Operator;
use crate::terminal::plain_lines;
use crate::watches::Watch;
use crate::{pull, watches};

/// The reason why a command fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Project(#[from] scaffold::Error),
    #[error("plugin {0:?} is unknown; known ones: helm, hybrid.helm, go")]
    Plugin(String),
    #[error("project version {0:?} is not supported; only 3 is")]
    ProjectVersion(String),
    #[error("CRD version {0:?} is not supported; only v1 is")]
    CrdVersion(String),
    #[error("--{0} cannot be used: charts are not downloaded; run 'helm pull' and pass the folder to --helm-chart")]
    Repository(&'static str),
    #[error("--{0} and --{1} contradict each other")]
    Both(&'static str, &'static str),
    #[error("no answer to {0:?}; pass --{1} or --{1}=false")]
    NoAnswer(&'static str, &'static str),
    #[error(
        "the sources of helm-operator {version} are no longer in {root}, where this program was built, and the library is not published yet: clone the repository there again, or pass --library-path with the folder of a clone"
    )]
    NoSources { version: &'static str, root: String },
    #[error(
        "this program was released without its sources, and the library is not published yet: clone the repository at the tag v{version}, and pass --library-path with the folder of the clone"
    )]
    Released { version: &'static str },
    #[error("the folder's name is no project name; pass --project-name")]
    NoName,
    #[error("{0}: run 'helm-operator generate {1}'")]
    Stale(String, &'static str),
    #[error("no manifests: run 'kubectl kustomize config/default | helm-operator generate bundle'")]
    NoManifests,
    #[error("cannot fetch the chart of {kind}")]
    Pull { kind: String, source: Box<pull::Error> },
    #[error(transparent)]
    Kinds(Box<crate::manager::Error>),
    #[error("cannot read the standard input")]
    Input(#[from] io::Error),
}

/// The directory that commands work in.
const FOLDER: &str = ".";

/// Reads the project, with the charts that its watches fetch.
fn read(folder: &Path) -> Result<Project, Error> {
    let mut project = disk::read(folder)?;
    // Each command reports itself what is wrong with the file.
    let parsed = watches::parse(project.text("watches.yaml").unwrap_or_default(), |name| std::env::var(name).ok());
    for watch in parsed.map(|parsed| parsed.watches).unwrap_or_default() {
        let fetched = pull::archive(&watch)
            .map_err(|source| Error::Pull { kind: watch.kind.clone(), source: Box::new(source) })?;
        if let Some(archive) = fetched {
            project.lend(place(&watch), archive);
        }
    }
    Ok(project)
}

/// Returns where the project has the fetched chart of a watch.
fn place(watch: &Watch) -> String {
    let wanted = watch.pull.as_ref().and_then(|pull| pull.source.wanted.as_ref()).map(ToString::to_string);
    fetched_place(&watch.chart.display().to_string(), wanted.as_deref())
}

/// Reads the project, edits it and writes what changed. Prints each file and note.
fn edit(work: impl FnOnce(&mut Project) -> Result<Vec<String>, Error>) -> Result<(), Error> {
    let folder = Path::new(FOLDER);
    let mut project = read(folder)?;
    let shown = progress::show(&mut project);
    let notes = work(&mut project)?;
    drop(shown);
    disk::write(folder, &project)?;
    let notes = notes.into_iter().map(|note| format!("note: {note}"));
    let lines: Vec<String> = changes(&project).into_iter().chain(notes).collect();
    super::print(&if lines.is_empty() { "nothing to do".to_owned() } else { plain_lines(&lines.join("\n")) });
    Ok(())
}

/// Returns one line per changed file, and one for the library's copy.
fn changes(project: &Project) -> Vec<String> {
    let is_copied = |path: &str| path.strip_prefix(COPY).is_some_and(|rest| rest.starts_with('/'));
    let (copied, own): (Vec<_>, Vec<_>) = project.changes().partition(|(path, _)| is_copied(path));
    let what = |change| match change {
        Change::Created => "created",
        Change::Changed => "changed",
        Change::Removed => "removed",
    };
    let mut lines: Vec<String> = own.iter().map(|(path, change)| format!("{} {path}", what(*change))).collect();
    if let Some((_, first)) = copied.first() {
        let is_new = copied.iter().all(|(_, change)| *change == Change::Created);
        let change = if is_new { *first } else { Change::Changed };
        let version = env!("CARGO_PKG_VERSION");
        lines.push(format!(
            "{} {}: the library's sources, version {version}, {} files",
            what(change),
            COPY,
            copied.len()
        ));
    }
    lines
}

pub(super) fn init(args: &Init) -> ExitCode {
    exit(init::run(args))
}

pub(super) fn create(args: &Create) -> ExitCode {
    exit(create::run(args))
}

/// Runs `generate`. `operator` describes the program's own kinds.
pub(super) fn generate(args: &Generate, operator: &Operator) -> ExitCode {
    exit(generate::run(args, operator))
}

/// Runs `lint`. `natives` are the program's own kinds.
pub(super) fn lint(args: &Lint, natives: &[rbac::Native]) -> ExitCode {
    lint::run(args, natives).unwrap_or_else(|error| exit(Err(error)))
}

/// Prints an error as upstream's commands do.
fn exit(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::fail(&chain(&error)),
    }
}
