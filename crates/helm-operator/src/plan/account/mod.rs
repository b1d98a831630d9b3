//! What a revision did to each object when it was made: names and fields, no contents. Kept with the release record.
//!
//! `recorder` notes the requests of an action, `sorted` makes an account of them.

mod recorder;
mod sorted;
#[cfg(test)]
mod tests;

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use helm_release::storage::MAX_PLAN;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::text::line_with;
use super::{Change, ChangeKind, Name, summary};
use crate::mask::Mask;

pub(crate) use recorder::Recorder;

/// Maximum number of objects in an account.
const MAX_ENTRIES: usize = 2000;

/// Maximum size of an account's JSON. Anyone who can write Secrets could store much more in a small Secret.
const MAX_UNPACKED: u64 = 1 << 20;

/// What a revision did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Account {
    /// The objects, ordered by the first write to each.
    pub(crate) changes: Vec<AccountEntry>,
    /// The number of objects that were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) omitted: usize,
    /// Whether the revision continues an interrupted attempt, whose writes are unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_continued: bool,
}

/// What happened to one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccountEntry {
    pub(crate) object: Name,
    pub(crate) action: ChangeKind,
    /// The fields whose recorded values differ from the previous revision's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) more_fields: usize,
    /// The reason of the API server's refusal, and the rejected fields. Excludes the message, which may quote contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
    /// The managers that lost fields to the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) losers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) round: Option<u16>,
    /// A hook's outcome, such as `succeeded`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) phase: String,
    /// Whether the object existed before and did not belong to the release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_adopted: bool,
    /// Whether the object was written although its recorded content has not changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_repeated: bool,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Account {
    /// Returns the account as stored, in at most [`MAX_PLAN`] bytes. If it does not fit, leaves out objects from the
    /// end, refused ones last.
    pub(crate) fn pack(mut self) -> Option<Vec<u8>> {
        loop {
            let packed = self.packed()?;
            let count = self.changes.len();
            if packed.len() <= MAX_PLAN && count <= MAX_ENTRIES {
                return Some(packed);
            }
            if count == 0 {
                return None;
            }
            self.cut((count / 2).min(MAX_ENTRIES));
        }
    }

    /// Keeps at most `most` objects.
    fn cut(&mut self, most: usize) {
        let is_refused = |entry: &AccountEntry| entry.refused.is_some();
        let refused = self.changes.iter().filter(|entry| is_refused(entry)).count();
        let mut others = most.saturating_sub(refused);
        let mut left = most;
        let before = self.changes.len();
        self.changes.retain(|entry| {
            let room = if is_refused(entry) { &mut left } else { &mut others };
            let fits = *room > 0;
            *room = room.saturating_sub(1);
            fits
        });
        self.omitted += before - self.changes.len();
    }

    fn packed(&self) -> Option<Vec<u8>> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&serde_json::to_vec(self).ok()?).ok()?;
        gzip.finish().ok()
    }

    /// Reads a stored account; `None` if it is invalid.
    pub(crate) fn read(packed: &[u8]) -> Option<Account> {
        let mut json = Vec::new();
        GzDecoder::new(packed).take(MAX_UNPACKED).read_to_end(&mut json).ok()?;
        let account: Account = serde_json::from_slice(&json).ok()?;
        (account.changes.len() <= MAX_ENTRIES).then_some(account)
    }

    /// Returns the counts of changes, as those of a plan.
    pub(crate) fn summary(&self) -> String {
        match summary(self.changes.iter().map(|entry| entry.action)) {
            counts if self.omitted > 0 => format!("{counts}, {} more", self.omitted),
            counts => counts,
        }
    }

    /// Returns a line for each object, and one that names what is missing.
    pub(crate) fn lines(&self, mask: &Mask) -> Vec<String> {
        let mut lines: Vec<String> = self.changes.iter().map(|entry| mask.hide(entry.line())).collect();
        if self.omitted > 0 {
            lines.push(format!("and {} more", self.omitted));
        }
        if self.is_continued {
            lines.push("an interrupted attempt at this revision may have written more".to_owned());
        }
        lines
    }

    /// Returns it as JSON, with its summary.
    pub(crate) fn json(&self, mask: &Mask) -> Value {
        let mut json = json!(self);
        hide(&mut json, mask);
        json["summary"] = self.summary().into();
        json
    }
}

impl AccountEntry {
    /// Returns an entry without details.
    pub(crate) fn of(object: Name, action: ChangeKind) -> AccountEntry {
        let (refused, round, phase) = (None, None, String::new());
        let (fields, losers) = (Vec::new(), Vec::new());
        let (is_adopted, is_repeated) = (false, false);
        AccountEntry { object, action, fields, more_fields: 0, refused, losers, round, phase, is_adopted, is_repeated }
    }

    /// Returns its line, as in a plan, with the fields that changed.
    fn line(&self) -> String {
        let AccountEntry { action, refused, losers, round, .. } = self.clone();
        let change = Change { action, refused, losers, round, ..Change::kept(self.object.clone()) };
        let mut notes = Vec::new();
        if !self.phase.is_empty() {
            notes.push(self.phase.clone());
        }
        if self.is_adopted {
            notes.push("it existed and was taken over".to_owned());
        }
        if self.is_repeated {
            notes.push("recorded as before, applied again".to_owned());
        }
        let line = line_with(&change, notes);
        match (self.fields.is_empty(), self.more_fields) {
            (true, _) => line,
            (false, 0) => format!("{line}: {}", self.fields.join(", ")),
            (false, more) => format!("{line}: {} and {more} more fields", self.fields.join(", ")),
        }
    }
}

/// Redacts every text.
fn hide(value: &mut Value, mask: &Mask) {
    match value {
        Value::String(text) => *text = mask.hide(std::mem::take(text)),
        Value::Array(list) => list.iter_mut().for_each(|inner| hide(inner, mask)),
        Value::Object(map) => map.values_mut().for_each(|inner| hide(inner, mask)),
        _ => {}
    }
}
