//! A chart's hook as the record keeps it: Helm's `pkg/release/v1/hook.go`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A hook of a release.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Hook {
    /// `metadata.name` of its object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The kind of its object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The template that it came from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Its YAML.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// When it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<HookEvent>,
    /// How its last run went.
    #[serde(default)]
    pub last_run: LastRun,
    /// Lower weights run first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// When its object is deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete_policies: Vec<DeletePolicy>,
    /// When its log is shown; kept for Helm, which alone shows logs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_log_policies: Vec<String>,
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // The names are Helm's.
pub enum HookEvent {
    PreInstall,
    PostInstall,
    PreDelete,
    PostDelete,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    #[serde(alias = "test-success")]
    Test,
    /// An event that we don't know; such a hook never runs.
    #[serde(other)]
    Other,
}

impl HookEvent {
    /// Reads one word of the annotation `helm.sh/hook`.
    pub fn parse(word: &str) -> HookEvent {
        match word {
            "pre-install" => HookEvent::PreInstall,
            "post-install" => HookEvent::PostInstall,
            "pre-delete" => HookEvent::PreDelete,
            "post-delete" => HookEvent::PostDelete,
            "pre-upgrade" => HookEvent::PreUpgrade,
            "post-upgrade" => HookEvent::PostUpgrade,
            "pre-rollback" => HookEvent::PreRollback,
            "post-rollback" => HookEvent::PostRollback,
            "test" | "test-success" => HookEvent::Test,
            _ => HookEvent::Other,
        }
    }
}

/// When a hook's object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeletePolicy {
    /// After the hook succeeded.
    HookSucceeded,
    /// After the hook failed.
    HookFailed,
    /// Before the hook runs again: the default.
    BeforeHookCreation,
    /// A policy that we don't know; it deletes nothing.
    #[serde(other)]
    Other,
}

/// How a hook's last run went.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LastRun {
    /// When its object was created.
    #[serde(default, with = "super::go_time", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, with = "super::go_time", skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// How it ended.
    #[serde(default)]
    pub phase: HookPhase,
}

/// How a hook's run went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookPhase {
    /// It never ran.
    #[default]
    #[serde(rename = "")]
    NotRun,
    /// It is running.
    Running,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// Not known.
    #[serde(other)]
    Unknown,
}
