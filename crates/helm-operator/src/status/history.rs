//! `status.history`: the last revisions of the release, for people and tools that read no release records.
//!
//! Only names, digests and times: the status is public. An entry outlives its record, so the list also carries what a
//! restart cannot know from the records' metadata, such as the charts of older revisions.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use strum::Display;

use super::entries::texts;
use super::interned;

/// The maximum number of revisions in the status, because each list of resources contains it.
pub(crate) const MAX_REVISIONS: usize = 5;

/// The maximum length of a cause, in bytes.
pub(crate) const MAX_CAUSE: usize = 200;

/// The maximum length of a text that is read back, in bytes. Longer ones were not written by this operator.
const MAX_TEXT: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(crate) enum RevisionAction {
    /// The first one of a release.
    Install,
    Upgrade,
    /// One that deploys an earlier revision again after a failure.
    Rollback,
}

/// A revision in the status.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryEntry {
    pub(crate) revision: u32,
    /// The chart and its version: `memcached-0.1.0`. Empty if unknown.
    #[serde(default, deserialize_with = "interned", skip_serializing_if = "str::is_empty")]
    pub(crate) chart: Arc<str>,
    /// A digest of the resource's `spec`, name and namespace, from which it was made; empty if unknown. Never one of
    /// all inputs: these contain Secrets, and a digest confirms a guess.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub(crate) digest: Box<str>,
    pub(crate) action: RevisionAction,
    /// Why it was made: `spec changed (generation 2)`. Empty for an install, a rollback, and what helm made.
    #[serde(default, deserialize_with = "interned", skip_serializing_if = "str::is_empty")]
    pub(crate) cause: Arc<str>,
    /// Its status, as in `helm history`: `deployed`, `superseded`, `failed`, …
    #[serde(deserialize_with = "interned")]
    pub(crate) outcome: Arc<str>,
    /// When its action began or ended, as far as the operator saw it. Being superseded later does not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) updated: Option<Timestamp>,
}

impl HistoryEntry {
    /// Returns why the revision was made, or else what made it.
    pub(crate) fn cause_or_action(&self) -> String {
        if self.cause.is_empty() { self.action.to_string() } else { self.cause.to_string() }
    }
}

/// Decodes a list that anyone who may write the status may have changed. Leaves out the entries that this version of the
/// operator cannot have written.
pub(super) fn bounded<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[HistoryEntry]>, D::Error> {
    let list = Box::<RawValue>::deserialize(from)?;
    let is_short = |entry: &HistoryEntry| {
        [&*entry.chart, &*entry.digest, &*entry.cause, &*entry.outcome].iter().all(|text| text.len() <= MAX_TEXT)
    };
    let entries = texts(&list).into_iter().filter_map(|text| serde_json::from_str::<HistoryEntry>(text.get()).ok());
    Ok(entries.filter(is_short).take(MAX_REVISIONS).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Status;
    use super::*;

    fn read(history: serde_json::Value) -> Box<[HistoryEntry]> {
        serde_json::from_value::<Status>(json!({"history": history})).unwrap().history
    }

    #[test]
    fn entries_are_read_as_they_are_written() {
        let full = json!([{
            "revision": 3, "chart": "shop-0.2.0", "digest": "00ff", "action": "upgrade", "cause": "spec changed",
            "outcome": "deployed", "updated": "2026-01-01T00:00:00Z",
        }]);
        assert_eq!(serde_json::to_value(read(full.clone())).unwrap(), full);
        let least = json!([{"revision": 1, "action": "install", "outcome": "failed"}]);
        assert_eq!(serde_json::to_value(read(least.clone())).unwrap(), least);
    }

    #[test]
    fn what_someone_else_or_a_later_version_wrote_is_neither_kept_nor_an_error() {
        let entry = |chart: &str| json!({"revision": 1, "chart": chart, "action": "install", "outcome": "failed"});
        for (history, kept) in [
            (json!("text"), 0),
            (json!([{"phase": "Done"}]), 0),
            (json!([{"revision": 2, "action": "restore", "outcome": "deployed"}, entry("a")]), 1),
            (json!([entry(&"x".repeat(MAX_TEXT + 1)), entry("a")]), 1),
            (json!(vec![entry("a"); 9]), MAX_REVISIONS),
        ] {
            assert_eq!(read(history.clone()).len(), kept, "{history}");
        }
    }
}
