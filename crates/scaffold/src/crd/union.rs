//! Completes a translated schema with what the chart's defaults reveal about the parts that it leaves open.

use serde_json::{Map, Value as Json};

use super::schema::{DECIDED, UNSAID};

/// Adds the fields of an inferred schema to a translated one. The translated one wins.
pub(super) fn union(said: Json, inferred: Json) -> Json {
    if said[UNSAID] == true {
        return with_description(inferred, &said);
    }
    match (said, inferred) {
        (Json::Object(said), Json::Object(inferred)) if is_table(&said) && inferred.contains_key("properties") => {
            Json::Object(tables(said, inferred))
        }
        (Json::Object(mut said), Json::Object(mut inferred)) if said.contains_key("items") => {
            if let (Some(own), Some(other)) = (said.remove("items"), inferred.remove("items")) {
                said.insert("items".into(), union(own.clone(), if own[UNSAID] == true { other } else { own }));
            }
            Json::Object(said)
        }
        (said, _) => said,
    }
}

/// Returns whether the schema is a map whose other fields are not described.
fn is_table(schema: &Map<String, Json>) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object") && !schema.contains_key("additionalProperties")
}

fn tables(mut said: Map<String, Json>, mut inferred: Map<String, Json>) -> Map<String, Json> {
    let decided = said.get(DECIDED).and_then(Json::as_array).cloned().unwrap_or_default();
    let mut fields = match said.remove("properties") {
        Some(Json::Object(fields)) => fields,
        _ => Map::new(),
    };
    if let Some(Json::Object(more)) = inferred.remove("properties") {
        for (key, field) in more {
            match fields.remove(&key) {
                Some(known) => _ = fields.insert(key, union(known, field)),
                None if decided.contains(&Json::from("*")) || decided.contains(&Json::from(key.as_str())) => {}
                None => _ = fields.insert(key, field),
            }
        }
    }
    if !fields.is_empty() {
        said.insert("properties".into(), Json::Object(fields));
    }
    said
}

/// Takes the description of the translated schema rather than a comment's.
fn with_description(mut inferred: Json, said: &Json) -> Json {
    if let Some(text) = said["description"].as_str() {
        let default =
            inferred["description"].as_str().and_then(|text| text.rfind("(default: ").map(|at| text[at..].to_owned()));
        let default = default.or_else(|| {
            let text = inferred["description"].as_str()?.strip_prefix("Default: ")?.strip_suffix('.')?;
            Some(format!("(default: {text})"))
        });
        inferred["description"] = default.map_or(text.to_owned(), |default| format!("{text} {default}")).into();
    }
    inferred
}

/// Removes the marks of the translation.
pub(super) fn without_marks(schema: &mut Json) {
    match schema {
        Json::Object(fields) => {
            fields.remove(UNSAID);
            fields.remove(DECIDED);
            fields.values_mut().for_each(without_marks);
        }
        Json::Array(items) => items.iter_mut().for_each(without_marks),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_schema_says_wins_and_the_rest_is_inferred() {
        let said = json!({"type": "object", "properties": {
            "a": {"type": "integer"},
            "b": {UNSAID: true, "description": "Own."},
            "c": {"type": "array", "items": {UNSAID: true}},
            "d": {"type": "object", "additionalProperties": {"type": "string"}},
        }, DECIDED: ["f"]});
        let inferred = json!({"type": "object", "properties": {
            "a": {"type": "string"},
            "b": {"type": "boolean", "description": "Default: true."},
            "c": {"type": "array", "items": {"type": "string"}},
            "d": {"type": "object", "properties": {"x": {"type": "boolean"}}},
            "e": {"type": "boolean"},
            "f": {"type": "boolean"},
        }});
        let mut found = union(said, inferred);
        without_marks(&mut found);
        let expected = json!({"type": "object", "properties": {
            "a": {"type": "integer"},
            "b": {"type": "boolean", "description": "Own. (default: true)"},
            "c": {"type": "array", "items": {"type": "string"}},
            "d": {"type": "object", "additionalProperties": {"type": "string"}},
            "e": {"type": "boolean"},
        }});
        assert_eq!(found, expected);
    }
}
