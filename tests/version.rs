//! Which Kubernetes a test runs on: `make test-oldest` runs all tests here on the oldest that is supported, and some need a
//! newer one.

use serde_json::Value;
use test_cluster::TestCluster;

/// Returns the cluster that all tests share; `None` without binaries. Prints a message and returns `None` before this
/// minor version.
pub(crate) fn shared_since(minor: u32, why: &str) -> Option<&'static TestCluster> {
    let cluster = TestCluster::shared_or_skip()?;
    let version: Value = serde_json::from_str(&cluster.kubectl(["get", "--raw", "/version"]).unwrap()).unwrap();
    // Some providers report `36+`.
    let found: u32 = version["minor"].as_str().unwrap().trim_end_matches('+').parse().unwrap();
    if found < minor {
        eprintln!("skipped on Kubernetes 1.{found}: {why} 1.{minor}");
        return None;
    }
    Some(cluster)
}

/// Returns the minor version that `make cluster` builds, such as 36.
pub(crate) fn newest() -> u32 {
    test_cluster::kubernetes_version().split('.').nth(1).unwrap().parse().unwrap()
}
