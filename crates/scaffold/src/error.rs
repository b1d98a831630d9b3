//! Errors of commands, which leave the project unchanged.

use std::io;

use helm::disk::ReadError;

use crate::gvk::InvalidName;
use crate::yaml::EditError;

/// Why a command fails. Nothing has been written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Error {
    /// A group, version, kind, domain or project name that Kubernetes rejects.
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error("no PROJECT file here; run 'init' first")]
    NoProject,
    #[error(
        "this folder is a project already, with {field} {found:?} and not {wanted:?}: leave the flag out to work on it, or make the other project in an empty folder"
    )]
    OtherProject { field: &'static str, found: String, wanted: String },
    #[error(
        "this folder is a project of another tool, with the layout {0}: make one in an empty folder; 'create api' adds its kinds there, served by charts or by Rust"
    )]
    OtherLayout(String),
    /// The folder to take over is not a project of operator-sdk's Helm plugin.
    #[error("{folder} is not a Helm project of operator-sdk: {reason}")]
    NotHelmProject {
        /// The folder as given.
        folder: String,
        reason: String,
    },
    /// A native kind in a project without code.
    #[error("this project serves charts only; 'init --hybrid' adds Rust to it")]
    NotHybrid,
    #[error("either --kind or --helm-chart need to be provided")]
    NoKind,
    #[error("--{0} is required")]
    Missing(&'static str),
    /// The kind exists in another group, and files are named by kind alone.
    #[error(
        "kind {kind:?} exists already in group {group:?}; files are named by kind, so each kind needs a name of its own"
    )]
    KindTaken { kind: String, group: String },
    #[error("{0} is already served by {1}")]
    ServedBy(String, &'static str),
    #[error("cannot edit {path}")]
    Edit {
        path: String,
        #[source]
        source: EditError,
    },
    #[error("cannot edit {path}: the line {marker:?} is missing; add {line:?} by hand")]
    NoMarker { path: String, marker: &'static str, line: String },
    #[error("cannot read {path}: {reason}")]
    Read { path: String, reason: String },
    #[error("cannot use chart {chart:?}: {reason}")]
    Chart {
        /// The path as given.
        chart: String,
        reason: String,
    },
    /// The folder is not a checkout of the library.
    #[error("{0} has no sources of the library: it needs crates/helm-operator, or must be that folder itself")]
    NoLibrary(String),
    /// The folder of the copy holds something else.
    #[error(
        "{0} is not the copy of the library that 'init --hybrid' writes there; nothing is written: move it away, or pass --library-path"
    )]
    NoCopy(&'static str),
    #[error(
        "cannot download charts; run 'helm pull {0} --untar' and pass the folder; watches.yaml can name the URL afterwards"
    )]
    Remote(String),
    #[error(
        "the link {link} leaves {folder}: remove it, or put what it links to in its place; of a chart whose files you trust, 'helm package' makes an archive that holds them"
    )]
    Leaves { link: String, folder: String },
    /// A chart has the name of another tool's folder.
    #[error("{0} is of git or of another tool; nothing is written: give the chart another name")]
    Foreign(String),
    /// A file has another content than when the project was read, or is new.
    #[error(
        "{0} changed while the command ran, or is too large to be read; nothing is written: run the command again, or move the file away"
    )]
    NotAsRead(String),
    #[error("cannot read {folder}")]
    Folder {
        folder: String,
        #[source]
        cause: ReadError,
    },
    #[error("cannot {what} {path}")]
    Disk {
        /// `read` or `write`.
        what: &'static str,
        path: String,
        #[source]
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn read(path: &str, reason: impl ToString) -> Error {
        Error::Read { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn chart(chart: &str, reason: impl ToString) -> Error {
        Error::Chart { chart: chart.to_owned(), reason: reason.to_string() }
    }
}
