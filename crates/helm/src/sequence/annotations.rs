//! Reads lists in annotations, which Kubernetes keeps as text.

use serde_json::Value;

/// Returns the names in a list in JSON; `None` if the text is no such list.
pub(super) fn names(text: &str) -> Option<Vec<String>> {
    let Ok(Value::Array(items)) = serde_json::from_str(text) else { return None };
    items.into_iter().map(|item| if let Value::String(name) = item { Some(name) } else { None }).collect()
}
