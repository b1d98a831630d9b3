//! `MemcachedBackup`: backup pods of a cache, kept at a size.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Backup pods of a cache, kept at a size.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cache.my.domain",
    version = "v1",
    kind = "MemcachedBackup",
    namespaced,
    status = "MemcachedBackupStatus",
    doc = "Backup pods of a cache, kept at a size.",
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "integer", "jsonPath": ".status.nodeCount"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub struct MemcachedBackupSpec {
    /// How many backup pods to run.
    #[schemars(range(min = 0))]
    pub size: i32,
}

/// What was last seen of the backup pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedBackupStatus {
    /// The names of the backup pods, sorted.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// How many names there are.
    #[serde(default)]
    pub node_count: i32,
    /// The generation of the resource that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`: all backup pods of the wanted size are ready, and no others are left.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
