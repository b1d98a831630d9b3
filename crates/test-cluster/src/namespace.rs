//! A namespace for one test on a shared cluster.

use std::sync::atomic::{AtomicU32, Ordering};
use std::{process, thread};

use crate::{Error, TestCluster};

/// A namespace for one test. Dropping it requests its deletion without waiting.
#[derive(Debug)]
pub struct Namespace<'a> {
    cluster: &'a TestCluster,
    name: String,
}

impl<'a> Namespace<'a> {
    /// Creates `PREFIX-PID-NUMBER` and waits for its ServiceAccount, which pods need.
    pub(crate) fn create(cluster: &'a TestCluster, prefix: &str) -> Result<Namespace<'a>, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("{prefix}-{}-{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        cluster.kubectl(["create", "namespace", &name])?;
        let namespace = Namespace { cluster, name };
        namespace.kubectl(["wait", "--for=create", "--timeout=30s", "serviceaccount/default"])?;
        Ok(namespace)
    }

    /// Returns the namespace's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs kubectl in this namespace, as [`TestCluster::kubectl`] does.
    ///
    /// # Errors
    /// As [`TestCluster::kubectl`].
    pub fn kubectl<const N: usize>(&self, arguments: [&str; N]) -> Result<String, Error> {
        self.cluster.kubectl(["--namespace", &self.name].into_iter().chain(arguments))
    }

    /// Applies a manifest in this namespace.
    ///
    /// # Errors
    /// As [`TestCluster::kubectl`].
    pub fn apply(&self, manifest: &str) -> Result<String, Error> {
        self.cluster.kubectl_with_input(["--namespace", &self.name, "apply", "-f", "-"], manifest)
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        // A failed test keeps its namespace for inspection.
        if !thread::panicking() {
            let _ = self.cluster.kubectl(["delete", "namespace", &self.name, "--wait=false", "--ignore-not-found"]);
        }
    }
}
