//! The reasons why a chart cannot be read from disk.

use std::io;
use std::path::Path;

use super::folder::{MAX_FOLDER_DEPTH, MAX_IGNORE_BYTES, MAX_LINKS};
use super::ignore::RuleError;
use crate::chart::{ArchiveError, LoadError};

/// The reason why a chart cannot be read from disk. The texts are Helm's where Helm has a counterpart.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum ReadError {
    /// The files do not form a chart.
    #[error(transparent)]
    Chart(#[from] LoadError),
    #[error("stat {path}: {}", go_text(cause))]
    Stat { path: String, cause: io::Error },
    /// The folder has no readable `Chart.yaml`.
    #[error("unable to detect chart at {path}: open {path}: {}", go_text(cause))]
    NoChart {
        /// The absolute path at which `Chart.yaml` is expected.
        path: String,
        cause: io::Error,
    },
    #[error("file '{0}' seems to be a YAML file, but expected a gzipped archive")]
    YamlFile(String),
    #[error("file '{path}' does not appear to be a gzipped archive; got '{found}'")]
    NotAnArchive {
        path: String,
        /// The media type that its content suggests.
        found: &'static str,
    },
    #[error("file '{path}' does not appear to be a valid chart file (details: {cause})")]
    InvalidArchive { path: String, cause: ArchiveError },
    #[error("unable to load chart archive: {0}")]
    Archive(ArchiveError),
    #[error(transparent)]
    Ignore(#[from] RuleError),
    #[error(".helmignore is larger than {MAX_IGNORE_BYTES} bytes (limit MAX_IGNORE_BYTES)")]
    IgnoreTooLarge,
    /// Matching each file against `.helmignore` would take too long.
    #[error(".helmignore has too many patterns for so many files (limit MAX_IGNORE_WORK)")]
    IgnoreTooSlow,
    /// Folders nest too deeply. Holds the path in the chart.
    #[error("folders are nested more than {MAX_FOLDER_DEPTH} deep (limit MAX_FOLDER_DEPTH): {0}")]
    FoldersTooDeep(String),
    #[error("{what} has more than {limit} files (limit MAX_{}_FILES)", what.to_uppercase())]
    TooManyFiles {
        /// A word for the folder.
        what: &'static str,
        limit: usize,
    },
    #[error("{0} has more than {MAX_LINKS} symlinks (limit MAX_LINKS)")]
    TooManyLinks(&'static str),
    #[error("error evaluating symlink {path}: {}", go_text(cause))]
    BrokenLink { path: String, cause: io::Error },
    #[error("symlink {name} points outside of {allowed}, which is not allowed")]
    LinkOutside {
        /// The link's path in the chart.
        name: String,
        /// The folder that links must stay in.
        allowed: String,
    },
    /// A path is a device, socket or pipe.
    #[error("cannot load irregular file {0} as it has file mode type bits set")]
    IrregularFile(String),
    #[error("error reading {name}: {cause}")]
    File {
        /// Its path in the chart.
        name: String,
        cause: io::Error,
    },
    #[error("error reading {name}: {what} exceeds maximum decompressed size of {limit} bytes")]
    TooLarge {
        /// The file's path in the folder.
        name: String,
        /// A word for the folder.
        what: &'static str,
        limit: u64,
    },
}

impl ReadError {
    pub(super) fn stat(path: &Path, cause: io::Error) -> ReadError {
        ReadError::Stat { path: path.display().to_string(), cause }
    }
}

/// Returns the operating system's reason in Go's words.
fn go_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}
