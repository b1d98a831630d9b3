//! The reasons why the command fails.

use std::io;

use go_template::{FuncError, ParseError};

use super::ValuesError;
use crate::disk::ReadError;
use crate::engine::{self, InvalidKubeVersion, RenderError};
use crate::release_name::InvalidName;

/// The reason why the command fails. The texts are Helm's where Helm has a counterpart.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The flags or arguments are invalid.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The chart cannot be read.
    #[error(transparent)]
    Chart(#[from] ReadError),
    /// Dependencies in `Chart.yaml` are missing below `charts/`. Holds their names.
    #[error(
        "an error occurred while checking for chart dependencies. You may need to run 'helm dependency build' to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: {0}"
    )]
    MissingDependencies(String),
    /// The user's values are invalid.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// The chart does not render.
    #[error(transparent)]
    Render(#[from] engine::Error),
    /// A template fails, or renders something other than YAML.
    #[error("{0}\n\nUse --debug flag to render out invalid YAML")]
    InvalidYaml(engine::Error),
    /// `--show-only` names a template that rendered nothing.
    #[error("could not find template {0} in chart")]
    NoTemplate(String),
    /// A file below `--output-dir` cannot be written.
    #[error("cannot write {path}: {cause}")]
    Write {
        /// The file.
        path: String,
        /// The reason.
        cause: io::Error,
    },
    /// The caller's cluster cannot be reached or rejects an object. Holds the caller's message.
    #[error("{0}")]
    Cluster(String),
    /// What the caller adds to the values or to the result cannot be added. Holds the caller's message.
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
pub enum UsageError {
    /// There are neither one nor two arguments.
    #[error("expected a chart, or a release name and a chart")]
    Arguments,
    /// The value of `--dry-run` is unknown.
    #[error("invalid dry-run value ({given:?}). Must be {allowed}")]
    DryRun {
        /// The value.
        given: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// The value of `--kube-version` is not a version.
    #[error("invalid kube version '{given}': {cause}")]
    KubeVersion {
        /// The value.
        given: String,
        /// The cause.
        cause: InvalidKubeVersion,
    },
    /// A name is given together with `--generate-name`.
    #[error("cannot set --generate-name and also specify a name")]
    GenerateName,
    /// A name is given together with `--name-template`.
    #[error("cannot set --name-template and also specify a name")]
    NameTemplateAndName,
    /// `--name-template` cannot be parsed.
    #[error(transparent)]
    NameTemplateSyntax(#[from] ParseError),
    /// `--name-template` fails.
    #[error(transparent)]
    NameTemplate(#[from] FuncError),
    /// The release's name is invalid.
    #[error("release name check failed: {0}")]
    ReleaseName(InvalidName),
    /// The chart is a URL.
    #[error("cannot fetch chart {0:?}: only charts on disk are rendered; fetch it first with 'helm pull'")]
    RemoteChart(String),
    /// The chart is in a repository.
    #[error("repo {repository} not found: only charts on disk are rendered; fetch it first with 'helm pull {path}'")]
    RepositoryChart {
        /// The repository.
        repository: String,
        /// The repository and the chart.
        path: String,
    },
    /// The chart is neither a path nor a URL.
    #[error("non-absolute URLs should be in form of repo_name/path_to_chart, got: {0}")]
    NotAPath(String),
    /// The chart's path does not exist.
    #[error("path {0:?} not found")]
    NoChart(String),
    /// The chart cannot be installed by itself. Holds the reason.
    #[error("{0}")]
    NotInstallable(String),
}
