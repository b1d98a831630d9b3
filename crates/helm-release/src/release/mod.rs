//! The release record: what was installed, from which chart, with which values, and how it went.
//!
//! Follows Helm's `pkg/release/v1`. Where records are kept is `storage`'s question; how one becomes bytes is `codec`'s.

mod chart;
mod codec;
mod hook;
mod sources;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use codec::{ChartDocument, Error, Packed};
pub use hook::{DeletePolicy, Hook, HookEvent, HookPhase, LastRun};
pub use sources::Difference;
pub use status::Status;

/// One revision of a release.
#[derive(Clone, Debug)]
pub struct Release {
    /// The release's name: at most 53 characters.
    pub name: String,
    /// The namespace of the release and of its record.
    pub namespace: String,
    /// The revision, from 1.
    pub version: u32,
    /// When and how it went.
    pub info: Info,
    /// The chart, as it was.
    pub chart: Arc<ChartDocument>,
    /// The values that the user gave, without the chart's defaults.
    pub config: serde_json::Value,
    /// Every object of the release as one YAML stream, hooks left out.
    pub manifest: String,
    /// The hooks, in the order in which they would run.
    pub hooks: Vec<Hook>,
    /// How objects were applied: `ssa`, `csa`, or empty (Helm 3) for `csa`.
    pub apply_method: String,
    /// Labels of the record besides Helm's own.
    pub labels: BTreeMap<String, String>,
}

/// When a release was made and how it went: Helm's `Info`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Info {
    /// When revision 1 was made.
    #[serde(default, with = "go_time", skip_serializing_if = "Option::is_none")]
    pub first_deployed: Option<Timestamp>,
    /// When this revision was made.
    #[serde(default, with = "go_time", skip_serializing_if = "Option::is_none")]
    pub last_deployed: Option<Timestamp>,
    /// When the release was uninstalled.
    #[serde(default, with = "go_time", skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
    /// One line for people: `Install complete`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where the revision is in its life.
    #[serde(default)]
    pub status: Status,
    /// The revision that was rolled back to; 0 if this is no rollback.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rollback_revision: u32,
    /// The rendered NOTES.txt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Release {
    /// The name of the record: `sh.helm.release.v1.<name>.v<revision>`.
    pub fn key(&self) -> String {
        key(&self.name, self.version)
    }

    /// Sets status and description, as Helm's `SetStatus`.
    pub fn set_status(&mut self, status: Status, description: impl Into<String>) {
        self.info.status = status;
        self.info.description = description.into();
    }
}

/// The name of the record of a revision.
pub fn key(name: &str, version: u32) -> String {
    format!("sh.helm.release.v1.{name}.v{version}")
}

/// Go's times in JSON: RFC 3339; Helm 3 wrote the zero time as an empty string.
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
