//! What can go wrong with a test cluster, said so that the reader knows what to do next.

use std::path::PathBuf;
use std::process::ExitStatus;

use crate::Component;

/// Why a cluster could not be started or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No folder with the binaries was found; the only error for which a test may be skipped.
    #[error(
        "no cluster to test on: set USE_KUBECONFIG to the kubeconfig of a running cluster, or KUBEBUILDER_ASSETS to a folder with \
         etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok, or run `make cluster` to build them \
         into {built} (looked in {looked_in}: missing {missing})"
    )]
    NoBinaries {
        /// The folder that was tried last.
        looked_in: PathBuf,
        /// The names that are not in it, with commas.
        missing: String,
        /// Where `make cluster` puts them.
        built: PathBuf,
    },
    /// A process of the control plane ended by itself.
    #[error("{component} ended early with {status}; the end of its log:\n{log}")]
    Ended {
        /// The process.
        component: Component,
        /// How it ended.
        status: ExitStatus,
        /// The last lines it wrote.
        log: String,
    },
    /// Something that should take a second or two did not happen.
    #[error("gave up after {seconds} s waiting until {what}; the end of the API server's log:\n{log}")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// For how long.
        seconds: u64,
        /// The last lines of the API server's log.
        log: String,
    },
    /// kubectl ended with an error.
    #[error("kubectl {arguments} failed: {stderr}")]
    Kubectl {
        /// What it was asked.
        arguments: String,
        /// What it said.
        stderr: String,
    },
    /// The cluster was given with `USE_KUBECONFIG`, so its processes are not ours to touch.
    #[error("cannot control {0}: the cluster is the one of USE_KUBECONFIG")]
    NotOurs(Component),
    /// A file or a process could not be handled.
    #[error("cannot {what}")]
    Io {
        /// What was attempted on what.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The shared cluster failed to start for an earlier test.
    #[error("the shared cluster did not start: {0}")]
    Shared(String),
}

impl Error {
    /// Whether the only trouble is that there is nothing to run.
    #[must_use]
    pub fn is_no_binaries(&self) -> bool {
        matches!(self, Error::NoBinaries { .. })
    }
}

/// Names the attempt that failed.
pub(crate) trait Attempt<T> {
    /// Wraps the error, if any, with what was attempted.
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<std::io::Error>> Attempt<T> for Result<T, E> {
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| Error::Io { what: what(), source: error.into() })
    }
}
