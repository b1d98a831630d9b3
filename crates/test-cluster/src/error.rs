//! Errors of a test cluster, each worded so that readers know what to do next.

use std::path::PathBuf;
use std::process::ExitStatus;

use crate::Component;

/// Why a cluster could not be started or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The messages say it.
pub enum Error {
    /// No directory has the binaries. A test may be skipped for this error and for [`Error::NoGo`], and for no other.
    #[error(
        "no cluster to test on: set USE_KUBECONFIG to the kubeconfig of a running cluster, or KUBEBUILDER_ASSETS to a directory with \
         etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok, or build them into {built} \
         (`make cluster` or `make test-cluster`; in code, test_cluster::build) (looked in {looked_in}: missing {missing})"
    )]
    NoBinaries {
        looked_in: PathBuf,
        /// The missing names, separated by commas.
        missing: String,
        built: PathBuf,
    },
    /// The binaries are missing, and so is what builds them.
    #[error(
        "cannot build a cluster to test on: {program} is missing. Install Go 1.26 or later (https://go.dev/dl), bash and git; or set \
         KUBEBUILDER_ASSETS to a directory with the binaries, or USE_KUBECONFIG to the kubeconfig of a running cluster"
    )]
    NoGo { program: &'static str },
    /// The binaries could not be built; the cause is on standard error.
    #[error("cannot build the test cluster in {folder}: {status}; the cause is above, and in {folder}/bin/.log")]
    Build { folder: PathBuf, status: ExitStatus },
    #[error("{component} exited unexpectedly with {status}; the end of its log:\n{log}")]
    Ended {
        component: Component,
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },
    #[error("timed out after {seconds} s waiting until {what}; the end of the API server's log:\n{log}")]
    TimedOut {
        what: String,
        /// The limit in seconds.
        seconds: u64,
        log: String,
    },
    #[error("kubectl {arguments} failed: {stderr}")]
    Kubectl { arguments: String, stderr: String },
    #[error("{command} failed: {stderr}")]
    Program {
        /// Its name and arguments.
        command: String,
        stderr: String,
    },
    /// The cluster comes from `USE_KUBECONFIG`, so we must not touch its processes.
    #[error("cannot control {0}: the cluster comes from USE_KUBECONFIG")]
    NotOurs(Component),
    #[error("kubectl {arguments} did not print JSON")]
    Json { arguments: String, source: serde_json::Error },
    #[error("cannot {what}")]
    Io { what: String, source: std::io::Error },
    /// The shared cluster failed to start for an earlier test.
    #[error("the shared cluster did not start: {0}")]
    Shared(String),
}

impl Error {
    /// Returns whether the binaries are missing, or what builds them, and nothing else is wrong.
    #[must_use]
    pub fn is_no_binaries(&self) -> bool {
        matches!(self, Error::NoBinaries { .. } | Error::NoGo { .. })
    }
}

/// Adds the failed operation to an error.
pub(crate) trait Attempt<T> {
    /// Wraps the error, if any, with what was attempted.
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<std::io::Error>> Attempt<T> for Result<T, E> {
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| Error::Io { what: what(), source: error.into() })
    }
}
