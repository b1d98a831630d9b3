//! Decodes the lists of a status entry by entry. Others write to them as well, and so do other versions of this operator:
//! an entry of an unknown shape must not hide the rest. Conditions of others are written as they were read.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Condition, ListType, Status, interned_or_empty, is_ours};

/// Returns the texts of a list's entries; none if the field is not a list.
pub(super) fn texts(list: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(list.get()).unwrap_or_default()
}

/// Decodes conditions. Those of others keep their text.
pub(super) fn conditions<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Condition>, D::Error> {
    let list = Box::<RawValue>::deserialize(from)?;
    Ok(texts(&list).into_iter().filter_map(|text| condition(text.get())).collect())
}

/// Decodes a condition; `None` if it has one of our types and cannot be ours.
fn condition(text: &str) -> Option<Condition> {
    let known = serde_json::from_str::<Condition>(text).ok();
    let condition = known.or_else(|| of_type(text))?;
    let whole = (!is_ours(&condition)).then(|| text.into());
    Some(Condition { whole, ..condition })
}

/// Returns a condition of which only the type can be decoded, if even that; `None` if the type is one of ours.
fn of_type(text: &str) -> Option<Condition> {
    #[derive(Default, Deserialize)]
    struct Typed {
        #[serde(default, rename = "type", deserialize_with = "interned_or_empty")]
        kind: Arc<str>,
    }
    let Typed { kind } = serde_json::from_str(text).unwrap_or_default();
    let condition = Condition { kind, ..Condition::default() };
    (!is_ours(&condition)).then_some(condition)
}

impl Condition {
    /// Returns what to write.
    pub(super) fn to_apply(&self) -> Value {
        let whole = self.whole.as_deref().and_then(|text| serde_json::from_str(text).ok());
        whole.unwrap_or_else(|| json!(self))
    }
}

impl Status {
    /// Drops the texts of conditions unless a write of the list needs them.
    pub(crate) fn shrink(&mut self, conditions: ListType) {
        if conditions == ListType::Map {
            self.conditions.iter_mut().for_each(|condition| condition.whole = None);
        }
        self.conditions.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(conditions: &Value) -> Status {
        serde_json::from_value(json!({"conditions": conditions})).unwrap()
    }

    fn ready() -> Value {
        json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn a_condition_of_an_unknown_shape_hides_no_other() {
        for (other, types) in [
            (json!({"type": "Quota", "phase": "Exceeded"}), vec!["Quota", "Ready"]),
            (json!({"type": "Quota", "status": true}), vec!["Quota", "Ready"]),
            (json!({"type": 1, "status": "True"}), vec!["", "Ready"]),
            (json!("full"), vec!["", "Ready"]),
            (json!({"type": "Stalled", "status": true}), vec!["Ready"]),
        ] {
            let status = read(&json!([other, ready()]));
            let found: Vec<&str> = status.conditions.iter().map(|condition| &*condition.kind).collect();
            assert_eq!(found, types, "{other}");
            let ready = status.find("Ready").unwrap();
            assert_eq!(ready.last_transition_time.as_deref(), Some("2026-01-01T00:00:00Z"));
        }
        for none in [json!(null), json!("odd"), json!({"type": "Ready"})] {
            assert_eq!(read(&none), Status::default(), "{none}");
        }
    }

    #[test]
    fn conditions_of_others_are_written_as_they_were_read() {
        let all = json!([
            {"type": "Backup", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z", "severity": "Info"},
            ready(),
            {"type": "Quota", "phase": "Exceeded", "status": null},
            "full",
        ]);
        let mut status = read(&all);
        let written = |status: &Status, list| status.to_apply(list, None)["conditions"].clone();
        assert_eq!(written(&status, ListType::Atomic), all);
        status.shrink(ListType::Atomic);
        assert_eq!(written(&status, ListType::Atomic), all);
        status.shrink(ListType::Map);
        assert_eq!(written(&status, ListType::Map), json!([ready()]));
    }
}
