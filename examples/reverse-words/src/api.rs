//! `ReverseWordsApp` in `apps.linuxera.org/v1alpha1`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An instance of the reverse-words application.
#[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "apps.linuxera.org",
    version = "v1alpha1",
    kind = "ReverseWordsApp",
    namespaced,
    status = "ReverseWordsAppStatus",
    doc = "An instance of the reverse-words application.",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".spec.appVersion"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub(crate) struct ReverseWordsAppSpec {
    /// Number of pods; absent or 0 means 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub(crate) replicas: Option<i32>,
    /// Version of the application; absent or empty means `latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) app_version: Option<String>,
}

/// The last observed state.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReverseWordsAppStatus {
    /// Names of the pods that are pending or running, sorted.
    #[serde(default)]
    pub(crate) app_pods: Vec<String>,
    /// `Ready`: all pods are ready. `ReverseWordsDeploymentNotReady`: they are not.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub(crate) conditions: Vec<Condition>,
}
