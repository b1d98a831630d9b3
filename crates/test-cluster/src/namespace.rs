//! A namespace for one test on a shared cluster.

use std::sync::atomic::{AtomicU32, Ordering};
use std::{process, thread};

use crate::cluster::APPLY;
use crate::{Error, TestCluster};

/// A namespace for one test. Dropping it removes all finalizers in it and requests its deletion, without waiting.
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

    /// Returns the namespace's cluster.
    #[must_use]
    pub fn cluster(&self) -> &'a TestCluster {
        self.cluster
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
        self.cluster.kubectl_with_input(["--namespace", &self.name].into_iter().chain(APPLY), manifest)
    }
}

impl Namespace<'_> {
    /// Requests the deletion, and removes all finalizers: the operators that would do so have usually exited.
    ///
    /// The namespace controller tries each namespace that cannot go again and again. Sixty of them keep most of a core
    /// busy.
    fn delete(&self) -> Result<(), Error> {
        self.cluster.kubectl(["delete", "namespace", &self.name, "--wait=false", "--ignore-not-found"])?;
        // A try fails if another test deletes a definition between the two requests.
        let held = self.held().or_else(|_| self.held()).or_else(|_| self.held())?;
        for some in held.chunks(PATCHED) {
            let patch = ["--type=merge", "--patch", r#"{"metadata":{"finalizers":null}}"#];
            let objects = some.iter().map(String::as_str);
            // Some are already gone.
            let _ = self.cluster.kubectl(["--namespace", &self.name, "patch"].into_iter().chain(objects).chain(patch));
        }
        Ok(())
    }

    /// Returns the objects that have finalizers, as arguments of kubectl.
    fn held(&self) -> Result<Vec<String>, Error> {
        let kinds = self.cluster.kubectl(["get", "crd", "--output", NAMESPACED])?;
        let kinds = format!("{kinds}{BUILT_IN}");
        let listed = self.kubectl(["get", &kinds, "--output", HELD, "--ignore-not-found"])?;
        Ok(listed.lines().filter_map(argument).collect())
    }
}

/// Lists namespaced definitions, each followed by a comma.
const NAMESPACED: &str = r#"jsonpath={range .items[?(@.spec.scope=="Namespaced")]}{.metadata.name},{end}"#;
/// Other kinds to which tests add finalizers.
const BUILT_IN: &str = "configmaps,secrets,services,deployments.apps,jobs.batch,pods";

/// Prints each object that has a finalizer on a line of its own.
const HELD: &str =
    r#"jsonpath={range .items[?(@.metadata.finalizers)]}{.kind} {.apiVersion} {.metadata.name}{"\n"}{end}"#;

/// The most objects that one process of kubectl patches. It starts in a twentieth of a second or more.
const PATCHED: usize = 100;

/// Returns an object of [`HELD`] as an argument of kubectl, `KIND.VERSION.GROUP/NAME`.
fn argument(line: &str) -> Option<String> {
    let [kind, api_version, name] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Some(format!("{kind}.{version}.{group}/{name}"))
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        // A failed test keeps its namespace for inspection.
        if !thread::panicking() {
            let _ = self.delete();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_is_held_is_named_with_its_version_and_group() {
        assert_eq!(argument("Job batch/v1 web").as_deref(), Some("Job.v1.batch/web"));
        assert_eq!(argument("ConfigMap v1 web").as_deref(), Some("ConfigMap.v1./web"));
        assert_eq!(argument(""), None);
    }
}
