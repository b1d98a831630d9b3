//! Checks a sample against its definition, as the API server and `kubectl apply` do.

use helm::reads::near;
use helm::schema::Schema;
use serde_json::{Map, Value as Json, json};

use super::Finding;
use crate::definitions::Definitions;
use crate::documents::Document;
use crate::yaml;

/// Checks a sample. Rules in CEL are left to the API server.
pub(super) fn check(sample: &Document, definitions: &Definitions) -> Vec<Finding> {
    let (api_version, kind) = (sample.text("/apiVersion"), sample.text("/kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if is_kubernetes_own(group) {
        return Vec::new();
    }
    let Some(crd) = definitions.find(group, kind).map(|crd| &crd.document) else {
        let message = format!("the project has no definition of {kind} in group {group:?}");
        return vec![Finding::warning(&sample.path, sample.line(&["kind"]), message)];
    };
    let versions = crd.content["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(served) = versions.iter().find(|one| one["name"] == version && one["served"] == true) else {
        let message = format!("{} does not serve version {version}", crd.path);
        return vec![Finding::error(&sample.path, sample.line(&["apiVersion"]), message)];
    };
    let mut schema = convert(&served["schema"]["openAPIV3Schema"]);
    for field in ["apiVersion", "kind", "metadata"] {
        schema["properties"][field] = json!({});
    }
    let schema = match Schema::compile(schema.to_string().as_bytes()) {
        Ok(schema) => schema,
        // The API server may accept patterns that JSON Schema does not, so this is not an error in the definition.
        Err(error) => {
            let message = format!("not checked against {}: {}", crd.path, error.to_string().replace('\n', " "));
            return vec![Finding::warning(&sample.path, None, message)];
        }
    };
    match schema.validate(&yaml::to_map(&sample.content)) {
        Ok(()) => Vec::new(),
        Err(violations) => {
            let found = complaints(&violations.without_values);
            let schema = &served["schema"]["openAPIV3Schema"];
            found
                .flat_map(|text| foreign(sample, text, schema, &crd.path).unwrap_or_else(|| vec![at(sample, "", text)]))
                .collect()
        }
    }
}

/// Reports whether the group is Kubernetes' own, such as `apps`: those of custom resources have a dot, and `k8s.io` is reserved.
fn is_kubernetes_own(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// Returns the findings for `at '/spec': additional properties 'a', 'b' not allowed`, one for each field.
fn foreign(sample: &Document, complaint: &str, schema: &Json, crd: &str) -> Option<Vec<Finding>> {
    let (pointer, rest) = complaint.strip_prefix("at '")?.split_once("': additional properties '")?;
    let names = rest.strip_suffix("' not allowed")?;
    let above: Vec<&str> = pointer.split('/').filter(|key| !key.is_empty()).collect();
    let table = above.iter().fold(schema, |schema, key| match &schema["properties"][*key] {
        Json::Null => &schema["items"],
        inner => inner,
    });
    let known: Vec<&str> = table["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    let finding = |name: &str| {
        let path: Vec<&str> = above.iter().copied().chain([name]).collect();
        let hint = match near(name, known.iter().copied()) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => "'generate crds' writes it again if the chart has the value now".to_owned(),
        };
        let what = format!("{crd} has no such field, so the API server refuses or drops it");
        Finding::error(&sample.path, sample.line(&path), format!("{}: {what}; {hint}", path.join(".")))
    };
    Some(names.split("', '").map(finding).collect())
}

/// Returns the lines of a validator's message.
pub(super) fn complaints(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.trim().trim_start_matches("- ")).filter(|line| line.starts_with("at '"))
}

/// Returns the finding for `at '/image/tag': got number, want string`, whose path is below `prefix`.
pub(super) fn at(sample: &Document, prefix: &str, complaint: &str) -> Finding {
    let rest = complaint.trim_start_matches("at '");
    let (pointer, what) = rest.split_once("': ").unwrap_or(("", rest));
    let path: Vec<&str> = [prefix].into_iter().chain(pointer.split('/')).filter(|key| !key.is_empty()).collect();
    Finding::error(&sample.path, sample.line(&path), format!("{}: {what}", path.join(".")))
}

/// Converts a definition's schema to JSON Schema. Fields that the server would drop are an error, as for `kubectl
/// apply`.
fn convert(schema: &Json) -> Json {
    let Some(table) = schema.as_object() else { return schema.clone() };
    let mut out = Map::new();
    for (key, value) in table {
        match key.as_str() {
            "properties" => {
                let fields = value.as_object().into_iter().flatten();
                out.insert(key.clone(), fields.map(|(name, field)| (name.clone(), convert(field))).collect());
            }
            "items" | "additionalProperties" | "not" => _ = out.insert(key.clone(), convert(value)),
            "allOf" | "anyOf" | "oneOf" => {
                let all = value.as_array().map(Vec::as_slice).unwrap_or_default();
                out.insert(key.clone(), all.iter().map(convert_part).collect());
            }
            // In Kubernetes these are booleans next to the limit, as in the drafts up to 4.
            "exclusiveMinimum" | "exclusiveMaximum" | "format" | "default" | "example" => {}
            // For the server, null means an absent field.
            _ if value.is_null() => {}
            _ if key.starts_with("x-kubernetes-") || key == "nullable" => {}
            _ => _ = out.insert(key.clone(), value.clone()),
        }
    }
    let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true || !schema["properties"].is_object();
    if !is_open && !table.contains_key("additionalProperties") {
        out.insert("additionalProperties".into(), false.into());
    }
    if schema["x-kubernetes-int-or-string"] == true {
        out.insert("type".into(), json!(["integer", "string"]));
        out.remove("anyOf");
    }
    if schema["nullable"] == true {
        allow_null(&mut out);
    }
    Json::Object(out)
}

/// Allows null. Kubernetes declares it in a key next to the type, JSON Schema in the type itself.
fn allow_null(schema: &mut Map<String, Json>) {
    if let Some(types) = schema.get_mut("type") {
        let mut all = types.as_array().cloned().unwrap_or_else(|| vec![types.clone()]);
        all.push("null".into());
        *types = all.into();
    }
    if let Some(choices) = schema.get_mut("enum").and_then(Json::as_array_mut) {
        choices.push(Json::Null);
    }
}

/// Converts a part of `anyOf` and similar keywords: it only adds conditions, and does not close maps.
fn convert_part(schema: &Json) -> Json {
    let mut open = schema.clone();
    if let Some(table) = open.as_object_mut() {
        table.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
    }
    convert(&open)
}
