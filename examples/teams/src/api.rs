//! `Team` and `Workspace` in `platform.example.com/v1`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The label of a namespace with the name of the team that it belongs to.
pub(crate) const TEAM: &str = "platform.example.com/team";

/// The name of every Workspace, and of what it owns: there is one in a namespace.
pub(crate) const NAME: &str = "team";

/// A team, which gets a Workspace in each namespace that is labelled with its name.
#[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "platform.example.com",
    version = "v1",
    kind = "Team",
    status = "TeamStatus",
    doc = "A team, which gets a Workspace in each namespace with the label platform.example.com/team.",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Namespaces", "type": "string", "jsonPath": ".status.namespaces"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub(crate) struct TeamSpec {
    /// Who is in the team.
    pub(crate) members: Vec<String>,
    /// What the team may use in each namespace, such as `requests.cpu: "4"`.
    #[serde(default)]
    pub(crate) quota: BTreeMap<String, String>,
}

/// The last observed state of a team.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct TeamStatus {
    /// The namespaces with a Workspace, sorted.
    #[serde(default)]
    pub(crate) namespaces: Vec<String>,
    /// `Ready` is true once every Workspace is.
    #[serde(default)]
    pub(crate) conditions: Vec<Condition>,
}

/// What a team has in one namespace: a quota, and a list of its members.
#[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "platform.example.com",
    version = "v1",
    kind = "Workspace",
    namespaced,
    status = "WorkspaceStatus",
    doc = "What a team has in one namespace. Its Team makes it.",
    printcolumn = r#"{"name": "Team", "type": "string", "jsonPath": ".spec.team"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#
)]
pub(crate) struct WorkspaceSpec {
    /// The name of the team.
    pub(crate) team: String,
}

/// The last observed state of a workspace.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WorkspaceStatus {
    /// `Ready` is true once the namespace has what the team asks for.
    #[serde(default)]
    pub(crate) conditions: Vec<Condition>,
}

/// Returns whether `Ready` is true.
pub(crate) fn is_ready(conditions: &[Condition]) -> bool {
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
