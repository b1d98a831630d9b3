//! The model of a release that every view renders. Its JSON is `helm-operator status -o json`: fields are added, and
//! none is renamed.

use jiff::Timestamp;
use serde::Serialize;
use strum::IntoStaticStr;

use crate::status::history::HistoryEntry;
use crate::status::{Condition, DeployedRelease};

/// A release, with the resource that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReleaseReport {
    pub(crate) resource: Name,
    pub(crate) state: State,
    /// Why it is not ready; `None` if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) release: Option<DeployedRelease>,
    /// When a failed attempt is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_attempt: Option<Timestamp>,
    /// What has no effect yet, or needs attention although the release is ready.
    pub(crate) remarks: Vec<String>,
    pub(crate) conditions: Vec<Condition>,
    /// The objects of the release, each with what it owns.
    pub(crate) objects: Vec<Node>,
    /// How many objects are not shown.
    pub(crate) omitted: usize,
    pub(crate) hooks: Vec<Hook>,
    /// The last revisions, newest first.
    pub(crate) history: Vec<HistoryEntry>,
    /// The last events about the resource, newest first.
    pub(crate) events: Vec<Event>,
    /// What the caller may not read.
    pub(crate) hidden: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Name {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The state of a release, the one that needs people most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, IntoStaticStr)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase", const_into_str)]
pub(crate) enum State {
    /// It failed, or needs a change.
    Failed,
    /// No operator has seen the resource, or its newest change.
    Unserved,
    /// It is not ready yet.
    Progressing,
    /// The resource is being deleted.
    Uninstalling,
    /// An annotation keeps the operator from acting.
    Suspended,
    /// The release is deployed, and its objects are ready.
    Ready,
}

/// What a release fails on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cause {
    pub(crate) kind: CauseKind,
    /// One line.
    pub(crate) message: String,
    /// The container whose log may say more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<Container>,
    /// The last lines of that log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) log: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Container {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) container: String,
    /// Whether its log comes from the run before the current one.
    pub(crate) previous: bool,
}

/// The kind of a cause, the one that explains most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CauseKind {
    /// An image cannot be pulled.
    Image,
    /// A container cannot start, mostly because a Secret or ConfigMap is missing.
    Configuration,
    /// A container keeps crashing.
    Crash,
    /// A container exited, or its pod was evicted.
    Exit,
    /// A quota is used up.
    Quota,
    /// A webhook refuses, or does not answer.
    Webhook,
    /// A volume is not bound, attached or mounted.
    Volume,
    /// No node takes a pod.
    Unschedulable,
    /// A container runs and is not ready.
    Probe,
    /// An object of the release does not exist.
    Missing,
    /// An object cannot be changed in place.
    ImmutableField,
    /// A hook failed or runs.
    Hook,
    /// The values violate the chart's schema, or are not a map.
    InvalidValues,
    /// The chart does not render.
    Render,
    /// An object or release belongs to someone else, or someone else is working on it.
    Conflict,
    /// A permission is missing.
    Forbidden,
    /// No operator serves the resource.
    Unserved,
    /// Anything else, in the operator's words.
    Other,
}

/// An object, with what it owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    #[serde(flatten)]
    pub(crate) name: Name,
    pub(crate) health: Health,
    /// Why it is not ready; empty if it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) owns: Vec<Node>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Health {
    Ready,
    Progressing,
    Failed,
    /// It does not exist.
    Missing,
    /// The caller may not read it.
    Unknown,
}

/// A hook of the newest revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hook {
    /// Its object: `Job "shop-migrate"`.
    pub(crate) object: String,
    /// When it runs: `pre-upgrade`.
    pub(crate) events: Vec<String>,
    /// `Succeeded`, `Failed`, `Running` or `Unknown`.
    pub(crate) phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) completed: Option<Timestamp>,
}

/// An event about the resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time: Option<Timestamp>,
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) count: u64,
}
