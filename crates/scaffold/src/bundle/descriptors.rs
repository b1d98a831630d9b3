//! Descriptors: how consoles show the fields of a kind, derived from its schema.

use heck::ToTitleCase as _;
use serde_json::{Value as Json, json};

/// Maximum depth of described fields: `image` and `image.tag`. Charts have hundreds of fields, and forms should stay
/// readable.
const MAX_DEPTH: usize = 2;

/// Returns the descriptors of a `spec`: every top-level field, and the scalars of its maps.
pub(super) fn of_spec(schema: &Json) -> Vec<Json> {
    let mut found = Vec::new();
    fields(schema, "", 1, &mut found);
    found
}

fn fields(schema: &Json, prefix: &str, depth: usize, found: &mut Vec<Json>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        // Descriptors cannot name keys with dots.
        if name.contains('.') {
            continue;
        }
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let is_resources = ["limits", "requests"].iter().all(|key| field["properties"][key].is_object());
        let is_table = field["properties"].is_object() && !is_resources;
        if depth == 1 || !is_table {
            found.push(descriptor(&path, prefix, name, field, is_resources));
        }
        if is_table && depth < MAX_DEPTH {
            fields(field, &path, depth + 1, found);
        }
    }
}

fn descriptor(path: &str, group: &str, name: &str, field: &Json, is_resources: bool) -> Json {
    let mut descriptor = json!({"path": path, "displayName": name.to_title_case()});
    if let Some(description) = field["description"].as_str() {
        descriptor["description"] = description.into();
    }
    let mut hints: Vec<String> = Vec::new();
    if !group.is_empty() {
        hints.push(format!("urn:alm:descriptor:com.tectonic.ui:fieldGroup:{group}"));
    }
    let widget = if is_resources { Some("resourceRequirements") } else { widget(name, field) };
    hints.extend(widget.map(|widget| format!("urn:alm:descriptor:com.tectonic.ui:{widget}")));
    if !hints.is_empty() {
        descriptor["x-descriptors"] = hints.into();
    }
    descriptor
}

/// Returns the console's input widget for a scalar; `None` for lists and maps, which are edited as YAML.
fn widget(name: &str, field: &Json) -> Option<&'static str> {
    let lower = name.to_lowercase();
    let is_secret = ["password", "passphrase", "token"].iter().any(|word| lower.ends_with(word));
    let is_either = field["x-kubernetes-int-or-string"] == true;
    let is_count = ["replicas", "replicacount", "size"].contains(&lower.as_str());
    match field["type"].as_str() {
        Some("integer" | "number") if is_count => Some("podCount"),
        None if is_count && is_either => Some("podCount"),
        Some("boolean") => Some("booleanSwitch"),
        Some("integer" | "number") => Some("number"),
        Some("string") | None if is_secret => Some("password"),
        Some("string") if lower.ends_with("pullpolicy") => Some("imagePullPolicy"),
        Some("string") => Some("text"),
        None if is_either => Some("text"),
        _ => None,
    }
}

/// Returns the descriptors of the `status` of a kind that is served by a chart.
pub(super) fn of_chart_status() -> Vec<Json> {
    vec![conditions(), json!({"path": "deployedRelease.revision", "displayName": "Release Revision"})]
}

/// Returns the descriptors of any other `status`: every top-level field.
pub(super) fn of_status(schema: &Json) -> Vec<Json> {
    let names = schema["properties"].as_object().into_iter().flat_map(|fields| fields.iter());
    let described = names.map(|(name, field)| match name.as_str() {
        "conditions" => conditions(),
        _ => {
            let mut descriptor = json!({"path": name, "displayName": name.to_title_case()});
            if let Some(description) = field["description"].as_str() {
                descriptor["description"] = description.into();
            }
            descriptor
        }
    });
    described.collect()
}

fn conditions() -> Json {
    json!({"path": "conditions", "displayName": "Conditions",
        "x-descriptors": ["urn:alm:descriptor:io.kubernetes.conditions"]})
}
