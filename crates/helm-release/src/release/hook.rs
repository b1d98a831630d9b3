//! Hooks in release records: Helm's `pkg/release/v1/hook.go`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use super::Fields;

/// A hook of a release.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Hook {
    /// `metadata.name` of its object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The kind of its object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The template that rendered it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Its manifest, in YAML.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// The events at which it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<HookEvent>,
    /// Its last run.
    #[serde(default)]
    pub last_run: LastRun,
    /// The weight; lower ones run first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// When to delete its objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete_policies: Vec<DeletePolicy>,
    /// When to show its log. Kept for Helm; this operator does not show logs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_log_policies: Vec<String>,
    /// Fields that only another version of Helm knows.
    #[serde(flatten)]
    pub more: Fields,
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

/// An event at which a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
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
    #[strum(to_string = "test", serialize = "test-success")]
    Test,
    /// An unknown event; such a hook never runs.
    #[serde(other)]
    Other,
}

impl HookEvent {
    /// Parses one word of the annotation `helm.sh/hook`; `Other` if it is unknown.
    pub fn parse(word: &str) -> HookEvent {
        word.parse().unwrap_or(HookEvent::Other)
    }

    /// Returns the event's word in the annotation.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// When to delete a hook's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, EnumString)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum DeletePolicy {
    /// After the hook succeeded.
    HookSucceeded,
    /// After the hook failed.
    HookFailed,
    /// Before the hook runs again: the default.
    BeforeHookCreation,
    /// An unknown policy, which deletes nothing.
    #[serde(other)]
    Other,
}

/// A hook's last run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LastRun {
    /// When it started.
    #[serde(default, with = "super::go_time", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, with = "super::go_time", skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Its phase.
    #[serde(default)]
    pub phase: HookPhase,
    /// Whether one of its Jobs has a TTL that the server added. Helm does not know the field, and drops it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ttl_added: bool,
    /// Fields that only another version of Helm knows.
    #[serde(flatten)]
    pub more: Fields,
}

impl LastRun {
    /// Returns whether it has started and no end is recorded.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.started_at.is_some() && matches!(self.phase, HookPhase::Running | HookPhase::Unknown)
    }
}

/// The phase of a hook's run.
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
    /// The run was recorded, but its objects may not exist yet. Also any unknown phase.
    #[serde(other)]
    Unknown,
}
