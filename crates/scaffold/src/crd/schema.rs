//! Converts a chart's `values.schema.json` to a structural schema.
//!
//! Kubernetes accepts a subset of JSON Schema. Unsupported features (references, alternatives, conditions, closed
//! maps) are resolved where possible, and otherwise left to Helm, which checks the whole schema at each render.

use golibs::regex::Regex;
use serde_json::{Map, Value as Json, json};

use super::infer::description;

/// Maximum depth of schemas, references included. Deeper and recursive ones are left open.
const MAX_DEPTH: usize = 24;

/// Keywords with the same meaning in both.
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

/// The values that a resource need not set.
pub(super) struct Defaults<'a> {
    pub(super) values: &'a Json,
    /// Whether values also come from other sources, so that nothing can be required of the resource.
    pub(super) others: bool,
}

/// The position of a schema in the document and in the values.
#[derive(Clone, Copy)]
struct Position<'a> {
    root: &'a Json,
    /// The chart's default value here; `None` below a list, whose items have no defaults.
    default: Option<&'a Json>,
    others: bool,
    depth: usize,
    /// Whether there may be many such values: in a list, or under arbitrary keys.
    is_repeated: bool,
}

/// Converts the schema of a chart's values. Marks schemas that it leaves open with [`UNSAID`], and fields that
/// alternatives and conditions decide with [`DECIDED`].
pub(super) fn convert(schema: &Json, defaults: &Defaults<'_>) -> Json {
    let (default, others) = (Some(defaults.values), defaults.others);
    Position { root: schema, default, others, depth: 0, is_repeated: false }.schema(schema)
}

impl<'a> Position<'a> {
    fn schema(self, schema: &'a Json) -> Json {
        let open = json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true});
        let Some(schema) = self.resolved(schema).filter(|_| self.depth <= MAX_DEPTH) else { return open };
        if says_nothing(schema) {
            return self.unsaid(schema);
        }
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
        self.choices(schema, &mut converted);
        let decided = decided(schema);
        if !decided.is_empty() {
            converted[DECIDED] = decided.into();
        }
        converted["nullable"] = true.into();
        converted
    }

    /// Returns an open schema for a value that is described at most by prose.
    fn unsaid(self, schema: &Json) -> Json {
        let mut open = json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true, UNSAID: true});
        if let Some(text) = schema["description"].as_str() {
            open["description"] = text.into();
        }
        open
    }

    /// Follows references inside the document; returns `None` for other references.
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
            // Kubernetes does not allow both named fields and a schema for all other fields.
            let any = self.repeated().schema(&schema["additionalProperties"]);
            converted = json!({"type": "object", "additionalProperties": any});
        }
        let required = self.required(schema);
        if !required.is_empty() {
            converted["required"] = required.into();
        }
        converted
    }

    /// Returns the required fields without default.
    fn required(self, schema: &Json) -> Vec<Json> {
        let has_default = |key: &Json| self.default.is_some_and(|d| !d[key.as_str().unwrap_or_default()].is_null());
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        let open = self.others && self.default.is_some();
        required.iter().filter(|key| !open && key.is_string() && !has_default(key)).cloned().collect()
    }

    fn item(self, schema: &'a Json) -> Json {
        match schema.get("items") {
            Some(items) if items.is_object() => self.repeated().schema(items),
            Some(_) => json!({"x-kubernetes-preserve-unknown-fields": true}),
            None => json!({"x-kubernetes-preserve-unknown-fields": true, UNSAID: true}),
        }
    }

    fn repeated(self) -> Position<'a> {
        Position { is_repeated: true, ..self.below(None) }
    }

    fn below(self, default: Option<&'a Json>) -> Position<'a> {
        Position { default, depth: self.depth + 1, ..self }
    }

    fn description(self, schema: &Json) -> Option<String> {
        let default = self.default.filter(|default| !default.is_null()).unwrap_or(&schema["default"]);
        description(default, schema["description"].as_str().map(str::to_owned).as_ref())
    }
}

/// Returns the types that a schema allows; empty if it does not restrict them.
fn types(schema: &Json) -> Vec<&str> {
    match &schema["type"] {
        Json::String(one) => vec![one],
        Json::Array(several) => several.iter().filter_map(Json::as_str).collect(),
        _ if schema.get("properties").is_some() => vec!["object"],
        _ => implied(schema).into_iter().collect(),
    }
}

/// Returns the common type of all choices.
fn implied(schema: &Json) -> Option<&'static str> {
    let choices = schema["enum"].as_array()?;
    let is_text = choices.iter().all(|choice| choice.is_string() || choice.is_null());
    (is_text && choices.iter().any(Json::is_string)).then_some("string")
}

/// Copies the limits of a value's size.
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
    // The API server uses Go's regular expressions, and rejects definitions with patterns that Go cannot compile.
    let pattern = schema["pattern"].as_str().filter(|pattern| Regex::new(pattern.as_bytes()).is_ok());
    if let Some(pattern) = pattern {
        converted["pattern"] = pattern.into();
    }
}

impl Position<'_> {
    /// Translates `enum` and `const` of strings and integers to a CEL rule: the API server rejects null, which removes
    /// a default, in every `enum`, even if it lists null. Where values repeat, the server's estimate of the rule's cost
    /// would exceed its limit, so a pattern replaces the rule.
    fn choices(self, schema: &Json, converted: &mut Json) {
        let one = schema.get("const").map(|value| vec![value.clone()]);
        let Some(choices) = schema["enum"].as_array().cloned().or(one) else { return };
        let choices: Vec<&Json> = choices.iter().filter(|choice| !choice.is_null()).collect();
        let is_type = |choice: &&Json| match converted["type"].as_str() {
            Some("string") => choice.is_string(),
            Some("integer") => choice.is_i64(),
            _ => false,
        };
        if choices.is_empty() || !choices.iter().all(is_type) {
            return;
        }
        let plain = |choice: &&Json| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned);
        let names: Vec<String> = choices.iter().map(plain).collect();
        if !self.is_repeated {
            let message = format!("must be one of {}", names.join(", "));
            let literals: Vec<String> = choices.iter().map(|choice| literal(choice)).collect();
            let rule = format!("self in [{}]", literals.join(", "));
            converted["x-kubernetes-validations"] = json!([{"rule": rule, "message": message}]);
        } else if converted["type"] == "string" && converted.get("pattern").is_none() {
            let escaped: Vec<String> = names.iter().map(|text| regex::escape(text)).collect();
            converted["pattern"] = format!("^(?:{})$", escaped.join("|")).into();
        } else {
            return;
        }
        let about = choices.iter().map(|choice| choice.to_string()).collect::<Vec<_>>().join(", ");
        let about = format!("One of: {about}.");
        let description =
            converted.get("description").and_then(Json::as_str).map_or(about.clone(), |d| format!("{d} {about}"));
        converted["description"] = description.into();
    }
}

/// Returns a string or number as a CEL literal.
fn literal(value: &Json) -> String {
    match value.as_str() {
        Some(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n")),
        None => value.to_string(),
    }
}

/// Marks a schema that `values.schema.json` does not describe.
pub(super) const UNSAID: &str = "x-unsaid";

/// Lists the fields that `values.schema.json` restricts by alternatives and conditions, which are left to Helm.
pub(super) const DECIDED: &str = "x-decided";

/// Keywords that hold schemas of the same value.
const PARTS: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];

/// Returns whether the schema accepts any value.
fn says_nothing(schema: &Json) -> bool {
    let about = ["$comment", "$id", "$schema", "default", "deprecated", "description", "examples", "title"];
    schema.as_object().is_some_and(|fields| fields.keys().all(|key| about.contains(&key.as_str())))
}

/// Returns the fields that alternatives and conditions mention; `*` if they may mention any.
fn decided(schema: &Json) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<&Json> = parts(schema);
    if schema.get("patternProperties").is_some() {
        found.push("*".to_owned());
    }
    while let Some(part) = open.pop() {
        let is_unclear = ["$ref", "patternProperties", "dependentSchemas"].iter().any(|key| part.get(key).is_some());
        if is_unclear {
            found.push("*".to_owned());
        }
        found.extend(part["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()));
        open.extend(parts(part));
    }
    found
}

fn parts(schema: &Json) -> Vec<&Json> {
    let one = |key: &&str| match &schema[*key] {
        Json::Array(several) => several.iter().collect(),
        Json::Object(_) => vec![&schema[*key]],
        _ => Vec::new(),
    };
    PARTS.iter().flat_map(one).collect()
}
