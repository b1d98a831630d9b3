//! The reasons why files do not form a chart.

use go_encoding::yaml;

use super::load::MAX_DEPTH;
use super::metadata::MAX_DEPENDENCIES;
use super::{ArchiveError, InvalidMetadata};
use crate::decode::WrongType;
use crate::values;

/// The reason why files do not form a chart. The texts are Helm's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum LoadError {
    #[error("Chart.yaml file is missing")]
    NoChartYaml,
    /// The `apiVersion` names a format that Helm loads but no action accepts.
    #[error("invalid chart apiVersion")]
    InvalidVersion,
    /// The `apiVersion` does not name a known format.
    #[error("unsupported chart version")]
    UnsupportedVersion,
    /// `Chart.yaml` is readable, but Helm rejects its content.
    #[error("validation: {0}")]
    Metadata(InvalidMetadata),
    #[error("cannot load {name}: {cause}")]
    File {
        /// The file's path in the chart.
        name: String,
        cause: FileError,
    },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("error unpacking subchart {name} in {parent}: {cause}")]
    Subchart {
        /// The subchart's folder or archive below `charts/`.
        name: String,
        parent: String,
        cause: Box<LoadError>,
    },
    /// A folder below `charts/` has a name like an archive.
    #[error("error unpacking subchart tar in {parent}: expected {expected}, got {found}")]
    SubchartName {
        parent: String,
        /// The path that an archive would have.
        expected: String,
        /// The first path below it.
        found: String,
    },
    /// There are too many subcharts. Helm has no such limit.
    #[error("chart has more than {MAX_DEPENDENCIES} subcharts (limit MAX_DEPENDENCIES)")]
    TooManySubcharts,
    /// Subcharts nest too deeply. Helm has no such limit.
    #[error("charts are nested more than {MAX_DEPTH} deep (limit MAX_DEPTH)")]
    TooDeep,
}

/// The reason why a file of a chart cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is not valid YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::Error),
    /// A field has the wrong type.
    #[error(transparent)]
    WrongType(#[from] WrongType),
    /// `values.yaml` is not a table.
    #[error(transparent)]
    Values(#[from] values::ReadError),
}

impl LoadError {
    pub(super) fn file(name: &str, cause: impl Into<FileError>) -> LoadError {
        LoadError::File { name: name.to_owned(), cause: cause.into() }
    }
}
