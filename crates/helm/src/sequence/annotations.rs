//! Reads lists in annotations, which Kubernetes keeps as text.

use serde_json::Value;

/// Returns the names in a JSON list; `None` if the text is not a list of strings.
pub(super) fn names(text: &str) -> Option<Vec<String>> {
    let Ok(Value::Array(items)) = serde_json::from_str(text) else { return None };
    items.into_iter().map(|item| if let Value::String(name) = item { Some(name) } else { None }).collect()
}
