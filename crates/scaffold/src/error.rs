//! Errors of commands, which leave the project unchanged.

use std::io;

use helm::disk::ReadError;

use crate::gvk::InvalidName;
use crate::yaml::EditError;

/// Why a command fails. Nothing has been written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A group, version, kind, domain or project name that Kubernetes rejects.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The folder has no `PROJECT` file.
    #[error("no PROJECT file here; run 'init' first")]
    NoProject,
    /// The folder has a project with different settings.
    #[error(
        "this folder is a project already, with {field} {found:?} and not {wanted:?}: leave the flag out to work on it, or make the other project in an empty folder"
    )]
    OtherProject {
        /// The field of `PROJECT`.
        field: &'static str,
        /// Its content.
        found: String,
        /// The requested value.
        wanted: String,
    },
    /// The folder has a project of another tool.
    #[error(
        "this folder is a project of another tool, with the layout {0}: make one in an empty folder; 'create api' adds its kinds there, served by charts or by Rust"
    )]
    OtherLayout(String),
    /// The folder to take over is not a project of operator-sdk's Helm plugin.
    #[error("{folder} is not a Helm project of operator-sdk: {reason}")]
    NotHelmProject {
        /// The folder as given.
        folder: String,
        /// The missing part.
        reason: String,
    },
    /// A native kind in a project without code.
    #[error("this project serves charts only; 'init --hybrid' adds Rust to it")]
    NotHybrid,
    /// Neither a kind nor a chart is given.
    #[error("either --kind or --helm-chart need to be provided")]
    NoKind,
    /// A required flag is missing.
    #[error("--{0} is required")]
    Missing(&'static str),
    /// The kind exists in another group, and files are named by kind alone.
    #[error(
        "kind {kind:?} exists already in group {group:?}; files are named by kind, so each kind needs a name of its own"
    )]
    KindTaken {
        /// The kind.
        kind: String,
        /// The group that has it.
        group: String,
    },
    /// The kind already has a chart or code.
    #[error("{0} is already served by {1}")]
    ServedBy(String, &'static str),
    /// A file of the project cannot be edited.
    #[error("cannot edit {path}")]
    Edit {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: EditError,
    },
    /// A marker comment of the scaffold is missing.
    #[error("cannot edit {path}: the line {marker:?} is missing; add {line:?} by hand")]
    NoMarker {
        /// The file.
        path: String,
        /// The comment.
        marker: &'static str,
        /// The line that should have been added.
        line: String,
    },
    /// A file of the project does not have the content that its name implies.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        reason: String,
    },
    /// The chart cannot be used.
    #[error("cannot use chart {chart:?}: {reason}")]
    Chart {
        /// The path as given.
        chart: String,
        /// The cause.
        reason: String,
    },
    /// The folder is not a checkout of the library.
    #[error("{0} has no sources of the library: it needs crates/helm-operator, or must be that folder itself")]
    NoLibrary(String),
    /// The chart is in a repository.
    #[error(
        "cannot download charts; run 'helm pull {0} --untar' and pass the folder; watches.yaml can name the URL afterwards"
    )]
    Remote(String),
    /// A symbolic link leaves its folder.
    #[error(
        "the link {link} leaves {folder}: remove it, or put what it links to in its place; of a chart whose files you trust, 'helm package' makes an archive that holds them"
    )]
    Leaves {
        /// The link's path in the folder.
        link: String,
        /// The folder.
        folder: String,
    },
    /// A folder cannot be read completely.
    #[error("cannot read {folder}")]
    Folder {
        /// The folder.
        folder: String,
        /// The cause.
        #[source]
        cause: ReadError,
    },
    /// A file cannot be read or written.
    #[error("cannot {what} {path}")]
    Disk {
        /// `read` or `write`.
        what: &'static str,
        /// The path.
        path: String,
        /// The cause.
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
