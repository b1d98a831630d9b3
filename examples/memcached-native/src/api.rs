//! `Memcached` in `cache.example.com/v1alpha1`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A memcached cluster of a size.
#[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    namespaced,
    status = "MemcachedStatus",
    doc = "A memcached cluster of a size.",
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "string", "jsonPath": ".status.nodes"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub(crate) struct MemcachedSpec {
    /// Number of memcached pods.
    #[schemars(range(min = 0))]
    pub(crate) size: i32,
}

/// The last observed state.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct MemcachedStatus {
    /// Names of the memcached pods, sorted.
    #[serde(default)]
    pub(crate) nodes: Vec<String>,
}
