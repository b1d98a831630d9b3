//! The sample of an API that a chart serves: a resource that sets the values that people set first. The chart's other
//! values are comments, so a resource made from the sample follows the chart when its defaults change.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::gvk::Gvk;
use crate::yaml;

/// Values that people set first, if a chart has them.
const USUAL: [&str; 3] = ["replicaCount", "replicas", "size"];

/// Returns the sample's text. `values` and `schema` are the texts of the chart's `values.yaml` and
/// `values.schema.json`.
pub(crate) fn of_chart(gvk: &Gvk, chart: &str, values: &str, schema: &str) -> String {
    let wanted = Wanted::of(values, schema);
    let mut text = format!(
        "# Served by the chart {chart}. What spec leaves out has the default of {chart}/values.yaml.\n\
         apiVersion: {}\nkind: {}\nmetadata:\n  name: {}-sample\n{}\n",
        gvk.api_version(),
        gvk.kind,
        gvk.lower(),
        if wanted.is_empty() { "spec: {}" } else { "spec:" }
    );
    text.extend(wanted.missing.iter().map(|(key, value)| format!("  {key}: {value} # required by the chart\n")));
    text.push_str(&wanted.comment(values));
    text
}

/// The top-level values that the sample sets.
#[derive(Debug, Default)]
struct Wanted {
    /// Keys with a default in one line of `values.yaml`.
    keys: Vec<String>,
    /// Keys that the schema requires without any default, with a value of their type.
    missing: BTreeMap<String, Json>,
}

impl Wanted {
    /// Chooses the values that the schema requires; otherwise those that people usually set; otherwise the first one.
    fn of(values: &str, schema: &str) -> Wanted {
        let defaults = yaml::parse(values).unwrap_or(Json::Null);
        let schema: Json = serde_json::from_str(schema).unwrap_or(Json::Null);
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
        let (known, unknown): (Vec<&str>, Vec<&str>) = required.partition(|key| !defaults[*key].is_null());
        let with_value = |key: &str| Some((key.to_owned(), example(&schema["properties"][key])?));
        let missing = unknown.into_iter().filter_map(with_value).collect();
        let is_set = |key: &&str| lines(values).any(|line| is_scalar_of(line, key, &defaults));
        let mut keys: Vec<&str> = known.into_iter().filter(is_set).collect();
        if keys.is_empty() {
            keys.extend(USUAL.into_iter().find(is_set));
        }
        if keys.is_empty() {
            let named = lines(values).filter_map(|line| line.split_once(':').map(|(key, _)| key));
            keys.extend(named.filter(|key| !key.ends_with("Override")).find(is_set));
        }
        Wanted { keys: keys.into_iter().map(str::to_owned).collect(), missing }
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.missing.is_empty()
    }

    /// Returns the chart's values: those that the sample sets unchanged, all others as comments.
    fn comment(&self, values: &str) -> String {
        let defaults = yaml::parse(values).unwrap_or(Json::Null);
        let is_set = |line: &str| self.keys.iter().any(|key| is_scalar_of(line, key, &defaults));
        let line = |line: &str| match line.trim() {
            "" => "\n".to_owned(),
            _ if line.starts_with('#') || is_set(line) => format!("  {line}\n"),
            _ => format!("  # {line}\n"),
        };
        lines(values).map(line).collect()
    }
}

fn lines(values: &str) -> impl Iterator<Item = &str> {
    values.trim_start_matches('\u{feff}').trim_end().lines().filter(|line| *line != "---")
}

/// Returns whether the line alone sets this top-level key to its default.
fn is_scalar_of(line: &str, key: &str, defaults: &Json) -> bool {
    let default = &defaults[key];
    let is_scalar = default.is_string() || default.is_number() || default.is_boolean();
    is_scalar && line.starts_with(key) && yaml::parse(line).is_ok_and(|parsed| parsed == json!({ key: default }))
}

/// Returns a value of the type that a schema requires.
fn example(schema: &Json) -> Option<Json> {
    if let Some(first) = schema["enum"].get(0).or(schema.get("default")) {
        return Some(first.clone()).filter(|first| !first.is_object() && !first.is_array());
    }
    match schema["type"].as_str()? {
        "string" => Some(json!("")),
        "integer" | "number" => Some(schema.get("minimum").cloned().unwrap_or_else(|| json!(0))),
        "boolean" => Some(json!(false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &str, schema: &str, spec: &str) {
        let gvk = Gvk::new("cache", "my.domain", "v1", "Memcached").unwrap();
        let sample = of_chart(&gvk, "helm-charts/memcached", values, schema);
        let (head, found) = sample.split_at(sample.find("spec:").unwrap());
        assert!(head.contains("apiVersion: cache.my.domain/v1\nkind: Memcached\n"), "{head}");
        assert_eq!(found, spec);
        let parsed = yaml::parse(&sample).unwrap();
        assert!(parsed["spec"].is_object(), "{sample}");
    }

    #[test]
    fn a_sample_sets_what_people_set_first_and_comments_the_rest() {
        check(
            "image: {tag: a}\n# Pods.\nsize: 3 # at least 1\n\nb:\n  # why\n  c: [x]\n",
            "",
            "spec:\n  # image: {tag: a}\n  # Pods.\n  size: 3 # at least 1\n\n  # b:\n  #   # why\n  #   c: [x]\n",
        );
        check("nameOverride: ''\nname: a\nother: b\n", "", "spec:\n  # nameOverride: ''\n  name: a\n  # other: b\n");
        check("text: |\n  a\n    b\n", "", "spec: {}\n  # text: |\n  #   a\n  #     b\n");
        check("---\nb: 1\na: [x]\n", "", "spec:\n  b: 1\n  # a: [x]\n");
        check("", "", "spec: {}\n");
        check("# nothing\n", "", "spec: {}\n  # nothing\n");
        check("%broken", "not json", "spec: {}\n  # %broken\n");
    }

    #[test]
    fn a_sample_sets_what_the_schema_requires() {
        let schema = r#"{"required": ["host", "mode", "port", "name", "more"], "properties": {
            "host": {"type": "string"}, "mode": {"enum": ["b", "c"]}, "more": {"type": "object"}, "port": {"type": "integer", "minimum": 1}}}"#;
        check(
            "size: 1\nname: a\nmore: {x: 1}\n",
            schema,
            "spec:\n  host: \"\" # required by the chart\n  mode: \"b\" # required by the chart\n  port: 1 # required by the chart\n  # size: 1\n  name: a\n  # more: {x: 1}\n",
        );
    }
}
