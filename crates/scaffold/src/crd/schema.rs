//! A structural schema from a chart's `values.schema.json`.
//!
//! Kubernetes accepts a part of JSON Schema. What it does not know (references, alternatives, conditions, closed tables) is resolved where that is
//! possible, and left to Helm otherwise, which checks the whole schema at each render.

use golibs::regex::Regex;
use serde_json::{Map, Value as Json, json};

use super::infer::description;
use crate::watches::Watch;

/// How deep schemas may nest, references included. Deeper ones are open, and so are recursive ones.
const MAX_DEPTH: usize = 24;

/// Keywords that mean the same in both.
const KEPT: [&str; 9] = [
    "title",
    "format",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "multipleOf",
];

/// What is known about the values that a resource need not give.
pub(super) struct Defaults<'a> {
    values: &'a Json,
    /// Whether values also come from elsewhere, so that nothing can be required of the resource.
    others: bool,
}

impl<'a> Defaults<'a> {
    pub(super) fn of(values: &'a Json, watch: &Watch) -> Defaults<'a> {
        Defaults { values, others: watch.has_other_values }
    }
}

/// A schema's place.
#[derive(Clone, Copy)]
struct Place<'a> {
    root: &'a Json,
    /// The chart's own value here; `None` below a list, whose items have no defaults.
    default: Option<&'a Json>,
    others: bool,
    depth: usize,
}

/// Converts the schema of a chart's values.
pub(super) fn convert(schema: &Json, defaults: &Defaults<'_>) -> Json {
    let place = Place { root: schema, default: Some(defaults.values), others: defaults.others, depth: 0 };
    place.schema(schema)
}

impl<'a> Place<'a> {
    fn schema(self, schema: &'a Json) -> Json {
        let open = json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true});
        let Some(schema) = self.resolved(schema).filter(|_| self.depth <= MAX_DEPTH) else { return open };
        let types = types(schema);
        let types: Vec<&str> = types.iter().copied().filter(|kind| *kind != "null").collect();
        let mut converted = match types[..] {
            ["object"] => self.object(schema),
            ["array"] => json!({"type": "array", "items": self.item(schema)}),
            ["boolean"] => json!({"type": "boolean"}),
            ["string"] => json!({"type": "string"}),
            ["integer"] => json!({"type": "integer"}),
            ["number"] | ["integer", "number"] | ["number", "integer"] => json!({"type": "number"}),
            ["integer", "string"] | ["string", "integer"] => json!({"x-kubernetes-int-or-string": true}),
            _ => json!({"x-kubernetes-preserve-unknown-fields": true}),
        };
        if types.len() == 1 {
            bounds(schema, &mut converted);
        }
        if let Some(text) = self.description(schema) {
            converted["description"] = text.into();
        }
        choices(schema, &mut converted);
        converted["nullable"] = true.into();
        converted
    }

    /// Follows references inside the document; other references are unknown.
    fn resolved(self, schema: &'a Json) -> Option<&'a Json> {
        let mut schema = schema;
        for _ in 0..=MAX_DEPTH {
            match schema.get("$ref").and_then(Json::as_str) {
                None => return schema.is_object().then_some(schema),
                Some(reference) => schema = self.root.pointer(reference.strip_prefix('#')?)?,
            }
        }
        None
    }

    fn object(self, schema: &'a Json) -> Json {
        let mut converted = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let properties = schema["properties"].as_object();
        let entry = |(key, value): (&String, &'a Json)| {
            (key.clone(), self.below(self.default.map(|d| &d[key.as_str()])).schema(value))
        };
        let properties: Option<Map<String, Json>> = properties.map(|properties| properties.iter().map(entry).collect());
        if let Some(properties) = properties.filter(|properties| !properties.is_empty()) {
            converted["properties"] = Json::Object(properties);
        } else if schema["additionalProperties"].is_object() {
            // Kubernetes does not let a table have named fields and a schema for all others.
            converted = json!({"type": "object", "additionalProperties": self.below(None).schema(&schema["additionalProperties"])});
        }
        let required = self.required(schema);
        if !required.is_empty() {
            converted["required"] = required.into();
        }
        converted
    }

    /// The required fields that have no default.
    fn required(self, schema: &Json) -> Vec<Json> {
        let has_default = |key: &Json| self.default.is_some_and(|d| !d[key.as_str().unwrap_or_default()].is_null());
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        let open = self.others && self.default.is_some();
        required.iter().filter(|key| !open && key.is_string() && !has_default(key)).cloned().collect()
    }

    fn item(self, schema: &'a Json) -> Json {
        match schema.get("items") {
            Some(items) if items.is_object() => self.below(None).schema(items),
            _ => json!({"x-kubernetes-preserve-unknown-fields": true}),
        }
    }

    fn below(self, default: Option<&'a Json>) -> Place<'a> {
        Place { default, depth: self.depth + 1, ..self }
    }

    fn description(self, schema: &Json) -> Option<String> {
        let default = self.default.filter(|default| !default.is_null()).unwrap_or(&schema["default"]);
        description(default, schema["description"].as_str().map(str::to_owned).as_ref())
    }
}

/// The types that a schema allows; none if it does not say.
fn types(schema: &Json) -> Vec<&str> {
    match &schema["type"] {
        Json::String(one) => vec![one],
        Json::Array(several) => several.iter().filter_map(Json::as_str).collect(),
        _ if schema.get("properties").is_some() => vec!["object"],
        _ => implied(schema).into_iter().collect(),
    }
}

/// The type that all choices have.
fn implied(schema: &Json) -> Option<&'static str> {
    let choices = schema["enum"].as_array()?;
    let is_text = choices.iter().all(|choice| choice.is_string() || choice.is_null());
    (is_text && choices.iter().any(Json::is_string)).then_some("string")
}

/// Limits of a value's size.
fn bounds(schema: &Json, converted: &mut Json) {
    for key in KEPT {
        if let Some(value) = schema.get(key) {
            converted[key] = value.clone();
        }
    }
    for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let strict = schema[exclusive].as_f64().is_some().then(|| &schema[exclusive]);
        if let Some(value) = strict.or(schema.get(limit)).filter(|value| value.is_number()) {
            converted[limit] = value.clone();
            if strict.is_some() || schema[exclusive] == true {
                converted[exclusive] = true.into();
            }
        }
    }
    // The API server uses Go's regular expressions and refuses definitions with others.
    let pattern = schema["pattern"].as_str().filter(|pattern| Regex::new(pattern.as_bytes()).is_ok());
    if let Some(pattern) = pattern {
        converted["pattern"] = pattern.into();
    }
}

/// `enum` and `const` of texts. As a pattern, because the API server accepts a null, which removes a default, in no `enum`, even if it lists null.
fn choices(schema: &Json, converted: &mut Json) {
    let one = schema.get("const").map(|value| vec![value.clone()]);
    let Some(choices) = schema["enum"].as_array().cloned().or(one) else { return };
    let texts: Vec<&str> = choices.iter().filter_map(Json::as_str).collect();
    let is_text = choices.iter().all(|choice| choice.is_string() || choice.is_null()) && !texts.is_empty();
    if !is_text || converted["type"] != "string" || converted.get("pattern").is_some() {
        return;
    }
    let escaped: Vec<String> = texts.iter().map(|text| regex::escape(text)).collect();
    converted["pattern"] = format!("^(?:{})$", escaped.join("|")).into();
    let about = format!("One of: {}.", texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", "));
    let description =
        converted.get("description").and_then(Json::as_str).map_or(about.clone(), |d| format!("{d} {about}"));
    converted["description"] = description.into();
}
