//! A namespace for one test on a shared cluster.

use std::sync::atomic::{AtomicU32, Ordering};
use std::{process, thread};

use serde_json::Value;

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

impl Namespace<'_> {
    /// Requests the deletion, and removes all finalizers: the operators that would do so have usually exited.
    ///
    /// The namespace controller tries each namespace that cannot go again and again. Sixty of them keep most of a core
    /// busy.
    fn delete(&self) -> Result<(), Error> {
        self.cluster.kubectl(["delete", "namespace", &self.name, "--wait=false", "--ignore-not-found"])?;
        let kinds = self.cluster.kubectl(["get", "crd", "--output", NAMESPACED])?;
        let kinds = format!("{kinds}{BUILT_IN}");
        let listed = self.kubectl(["get", &kinds, "--output", "json", "--ignore-not-found"])?;
        let listed: Value = serde_json::from_str(&listed).unwrap_or_default();
        for object in listed["items"].as_array().into_iter().flatten().filter_map(held) {
            // Some are already gone.
            let _ = self.kubectl(["patch", &object, "--type=merge", "--patch", r#"{"metadata":{"finalizers":null}}"#]);
        }
        Ok(())
    }
}

/// Lists namespaced definitions, each followed by a comma.
const NAMESPACED: &str = r#"jsonpath={range .items[?(@.spec.scope=="Namespaced")]}{.metadata.name},{end}"#;
/// Other kinds to which tests add finalizers.
const BUILT_IN: &str = "configmaps,secrets,services,deployments.apps,jobs.batch,pods";

/// Returns an object as an argument of kubectl, `KIND.VERSION.GROUP/NAME`; `None` if no finalizer holds it.
fn held(object: &Value) -> Option<String> {
    let metadata = &object["metadata"];
    metadata["finalizers"].as_array()?;
    let (group, version) = match object["apiVersion"].as_str()?.split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", object["apiVersion"].as_str()?),
    };
    Some(format!("{}.{version}.{group}/{}", object["kind"].as_str()?, metadata["name"].as_str()?))
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
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_is_held_is_named_with_its_version_and_group() {
        let object = |api_version: &str, finalizers: Value| json!({"apiVersion": api_version, "kind": "Job", "metadata": {"name": "web", "finalizers": finalizers}});
        assert_eq!(held(&object("batch/v1", json!(["x.y/z"]))).as_deref(), Some("Job.v1.batch/web"));
        assert_eq!(held(&object("v1", json!(["x.y/z"]))).as_deref(), Some("Job.v1./web"));
        assert_eq!(held(&object("v1", Value::Null)), None);
    }
}
