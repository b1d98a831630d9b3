//! The release record: what was installed, from which chart and values, and with which result.
//!
//! Counterpart: Helm's `pkg/release/v1`. [`crate::storage`] stores records; `codec` encodes them.

mod chart;
mod codec;
mod hook;
mod sources;
mod status;
#[cfg(test)]
mod tests;
mod weight;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

pub(crate) use chart::CrdsFolder;
pub use codec::{ChartDocument, Error, Packed};
pub use hook::{DeletePolicy, Hook, HookEvent, HookPhase, LastRun};
pub use sources::Difference;
pub use status::Status;

/// One revision of a release. As JSON, it is the record without the chart and the labels: `codec` adds both.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Release {
    /// The release's name: at most 53 characters.
    #[serde(default)]
    pub name: String,
    /// Times, status and notes.
    #[serde(default)]
    pub info: Info,
    /// The chart at that time.
    #[serde(default, skip_serializing, deserialize_with = "no_chart")]
    pub chart: Arc<ChartDocument>,
    /// The user's values, without the chart's defaults.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub config: serde_json::Value,
    /// All objects of the release as one YAML stream, without hooks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// The hooks, in Helm's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_empty")]
    pub hooks: Vec<Hook>,
    /// The revision, starting at 1.
    #[serde(default)]
    pub version: u32,
    /// The namespace of the release and of its record.
    #[serde(default)]
    pub namespace: String,
    /// Helm's apply method: `ssa`, `csa`, or empty (Helm 3), which means `csa`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub apply_method: String,
    /// The record's labels, except those that Helm sets.
    #[serde(skip)]
    pub labels: BTreeMap<String, String>,
    /// The uid of the Secret that holds the revision, if it is known: a rewrite of the record changes no other Secret.
    #[serde(skip)]
    pub record_uid: Option<Arc<str>>,
    /// Fields that only another version of Helm knows. A rewrite keeps them, here and in every part of the record.
    #[serde(flatten)]
    pub more: Fields,
}

/// Skips the chart, which has a separate reader: unnamed, it would count as an unknown field.
fn no_chart<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<ChartDocument>, D::Error> {
    IgnoredAny::deserialize(from)?;
    Ok(Arc::default())
}

fn null_as_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Hook>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Fields of a record by name.
pub type Fields = serde_json::Map<String, serde_json::Value>;

/// Times, status and notes of a revision: Helm's `Info`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Info {
    /// When revision 1 was deployed.
    #[serde(default, with = "go_time", skip_serializing_if = "Option::is_none")]
    pub first_deployed: Option<Timestamp>,
    /// When this revision was deployed.
    #[serde(default, with = "go_time", skip_serializing_if = "Option::is_none")]
    pub last_deployed: Option<Timestamp>,
    /// When the release was uninstalled.
    #[serde(default, with = "go_time", skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
    /// One line for `helm history`, such as `Install complete`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The revision's status.
    #[serde(default)]
    pub status: Status,
    /// The revision that was rolled back to; 0 for other actions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rollback_revision: u32,
    /// The rendered NOTES.txt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Fields that only another version of Helm knows.
    #[serde(flatten)]
    pub more: Fields,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Info {
    /// Returns the revision that this one repeats, if it is a rollback. Helm 3 records that only in the description.
    pub fn rolled_back_to(&self) -> Option<u32> {
        match self.rollback_revision {
            0 => self.description.strip_prefix("Rollback to ")?.parse().ok(),
            revision => Some(revision),
        }
    }
}

impl Release {
    /// Returns the record's name: `sh.helm.release.v1.<name>.v<revision>`.
    pub fn key(&self) -> String {
        key(&self.name, self.version)
    }

    /// Returns whether a hook has started and no end of it is recorded.
    pub(crate) fn has_unfinished_hooks(&self) -> bool {
        self.hooks.iter().any(|hook| hook.last_run.is_unfinished())
    }

    /// Sets status and description, as Helm's `SetStatus` does.
    pub fn set_status(&mut self, status: Status, description: impl Into<String>) {
        self.info.status = status;
        self.info.description = description.into();
    }
}

/// Returns the name of a revision's record.
pub fn key(name: &str, version: u32) -> String {
    format!("sh.helm.release.v1.{name}.v{version}")
}

/// Go's times in JSON: RFC 3339. Helm 3 wrote the zero time as an empty string.
mod go_time {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        time.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        Ok(text.and_then(|text| text.parse().ok()))
    }
}
