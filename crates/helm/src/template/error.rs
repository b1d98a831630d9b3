//! The reasons why the command fails.

use std::io;

use go_template::{FuncError, ParseError};

use super::ValuesError;
use crate::disk::ReadError;
use crate::engine::{self, InvalidKubeVersion, RenderError};
use crate::release_name::InvalidName;

/// The reason why the command fails. The texts are Helm's where Helm has a counterpart.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Error {
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error(transparent)]
    Chart(#[from] ReadError),
    #[error(
        "an error occurred while checking for chart dependencies. You may need to run 'helm dependency build' to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: {0}"
    )]
    MissingDependencies(String),
    #[error(transparent)]
    Values(#[from] ValuesError),
    #[error(transparent)]
    Render(#[from] engine::Error),
    #[error("{0}\n\nUse --debug flag to render out invalid YAML")]
    InvalidYaml(engine::Error),
    #[error("could not find template {0} in chart")]
    NoTemplate(String),
    #[error("cannot write {path}: {cause}")]
    Write { path: String, cause: io::Error },
    /// The caller's cluster cannot be reached or rejects an object. Holds the caller's message.
    #[error("{0}")]
    Cluster(String),
    /// The caller's additions to the values or to the result failed. Holds the caller's message.
    #[error("{0}")]
    Caller(String),
}

impl Error {
    /// Returns the template error, with its locations, if a template failed.
    pub fn in_template(&self) -> Option<&RenderError> {
        match self {
            Error::Render(engine::Error::Template(error)) | Error::InvalidYaml(engine::Error::Template(error)) => {
                Some(error)
            }
            _ => None,
        }
    }
}

/// The reason why flags or arguments are invalid.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum UsageError {
    /// There are neither one nor two arguments.
    #[error("expected a chart, or a release name and a chart")]
    Arguments,
    #[error("invalid dry-run value ({given:?}). Must be {allowed}")]
    DryRun { given: String, allowed: &'static str },
    #[error("invalid kube version '{given}': {cause}")]
    KubeVersion { given: String, cause: InvalidKubeVersion },
    #[error("cannot set --generate-name and also specify a name")]
    GenerateName,
    #[error("cannot set --name-template and also specify a name")]
    NameTemplateAndName,
    #[error(transparent)]
    NameTemplateSyntax(#[from] ParseError),
    #[error(transparent)]
    NameTemplate(#[from] FuncError),
    #[error("release name check failed: {0}")]
    ReleaseName(InvalidName),
    /// The chart is a URL.
    #[error("cannot fetch chart {0:?}: only charts on disk are rendered; fetch it first with 'helm pull'")]
    RemoteChart(String),
    /// The chart is in a repository.
    #[error("repo {repository} not found: only charts on disk are rendered; fetch it first with 'helm pull {path}'")]
    RepositoryChart {
        repository: String,
        /// The repository and the chart.
        path: String,
    },
    /// The chart is neither a path nor a URL.
    #[error("non-absolute URLs should be in form of repo_name/path_to_chart, got: {0}")]
    NotAPath(String),
    #[error("path {0:?} not found")]
    NoChart(String),
    /// The chart cannot be installed by itself. Holds the reason.
    #[error("{0}")]
    NotInstallable(String),
}
