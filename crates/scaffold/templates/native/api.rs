//! The kind `__Kind__`: its spec and status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keeps a number of pods running.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "__group__",
    version = "__version__",
    kind = "__Kind__",
    namespaced,
    status = "__Kind__Status",
    doc = "Keeps a number of pods running.",
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message"}"#,
    printcolumn = r#"{"name": "Image", "type": "string", "jsonPath": ".spec.image", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub struct __Kind__Spec {
    /// Number of pods.
    #[schemars(range(min = 0))]
    pub size: i32,
    /// The pods' image.
    #[serde(default = "image")]
    pub image: String,
}

fn image() -> String {
    "memcached:1.6.39-alpine".to_owned()
}

/// The last observed state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct __Kind__Status {
    /// Names of the pods, sorted.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// `Ready`: all pods are up to date and ready.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
