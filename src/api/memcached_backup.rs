//! `MemcachedBackup`: backup pods of a cache, kept at a size.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keeps a number of backup pods for a cache.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cache.my.domain",
    version = "v1",
    kind = "MemcachedBackup",
    namespaced,
    status = "MemcachedBackupStatus",
    doc = "Keeps a number of backup pods for a cache.",
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "integer", "jsonPath": ".status.nodeCount"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub(crate) struct MemcachedBackupSpec {
    /// Number of backup pods.
    #[schemars(range(min = 0))]
    pub(crate) size: i32,
}

/// The last observed state of the backup pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemcachedBackupStatus {
    /// Names of the backup pods, sorted.
    #[serde(default)]
    pub(crate) nodes: Vec<String>,
    /// Number of backup pod names.
    #[serde(default)]
    pub(crate) node_count: i32,
    /// The resource generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// `Ready`: exactly the wanted number of backup pods exist, and all are ready.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub(crate) conditions: Vec<Condition>,
}
