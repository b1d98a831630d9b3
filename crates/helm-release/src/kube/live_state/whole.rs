//! Live objects with their JSON, for the few kinds that user-defined rules read. Managed fields are dropped while
//! parsing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::value::RawValue;

use crate::kube::live_state::live::Live;

/// Maximum size of the kept JSON, in bytes; a larger object counts as unread.
const MAX_TEXT: usize = 256 << 10;

/// The fields of the metadata that are kept.
const METADATA: [&str; 8] =
    ["name", "namespace", "uid", "labels", "annotations", "generation", "creationTimestamp", "deletionTimestamp"];

/// A live object, reduced, with its text.
#[derive(Clone, Debug)]
pub struct Whole {
    /// The object; [`Live::whole`] has its text.
    pub live: Live,
}

outside::dynamic_resource!([] Whole, false, live.metadata);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Whole, D::Error> {
        let text = Box::<RawValue>::deserialize(from)?;
        let mut live: Live = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        live.whole = text_of(text.get()).map(Arc::from);
        Ok(Whole { live })
    }
}

type Fields = BTreeMap<String, Box<RawValue>>;

fn text_of(object: &str) -> Option<String> {
    let mut object: Fields = serde_json::from_str(object).ok()?;
    let mut metadata: Fields = serde_json::from_str(object.get("metadata")?.get()).ok()?;
    metadata.retain(|field, _| METADATA.contains(&field.as_str()));
    object.insert("metadata".into(), serde_json::value::to_raw_value(&metadata).ok()?);
    serde_json::to_string(&object).ok().filter(|text| text.len() <= MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(object: &Value) -> Whole {
        serde_json::from_str(&object.to_string()).unwrap()
    }

    #[test]
    fn an_object_keeps_its_text_without_managed_fields_and_versions() {
        let whole = read(&json!({
            "metadata": {"name": "web", "resourceVersion": "7", "labels": {"a": "b"}, "managedFields": [{"manager": "x"}]},
            "spec": {"any": 1}, "status": {"phase": "Up"},
        }));
        let text: Value = serde_json::from_str(whole.live.whole.as_deref().unwrap()).unwrap();
        let metadata = json!({"name": "web", "labels": {"a": "b"}});
        assert_eq!(text, json!({"metadata": metadata, "spec": {"any": 1}, "status": {"phase": "Up"}}));
        assert_eq!(whole.live.metadata.resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn a_large_object_is_read_without_its_text() {
        let whole = read(&json!({"metadata": {"name": "web"}, "data": {"big": "x".repeat(MAX_TEXT)}}));
        assert_eq!((whole.live.metadata.name.as_deref(), whole.live.whole), (Some("web"), None));
    }
}
