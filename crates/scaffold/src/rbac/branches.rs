//! Chooses the values to render a chart with, so that every template that can print objects prints some.
//!
//! Templates branch on values that are true, non-empty or equal to a string. Therefore each boolean is flipped, each
//! empty value filled, and each string that a template compares with is tried.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Value as Json, json};

/// A change of one value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    path: Vec<String>,
    value: Json,
}

impl Change {
    /// Returns the change as `ingress.enabled=true`, for comments.
    pub(super) fn text(&self) -> String {
        format!("{}={}", self.path.join("."), self.value.as_str().map_or_else(|| self.value.to_string(), str::to_owned))
    }

    /// Returns whether the value enables something.
    pub(super) fn switches_on(&self) -> bool {
        self.value == true
    }

    /// Returns whether the value selects a branch, rather than filling an empty value.
    pub(super) fn is_switch(&self) -> bool {
        self.value.is_boolean() || self.value.as_str().is_some_and(|text| text != FILLER)
    }

    /// Returns whether the value fills an empty string, or one that is null.
    pub(super) fn fills_text(&self) -> bool {
        self.value == FILLER
    }

    /// Sets the value in a copy of the map.
    pub(super) fn apply(&self, values: &Json) -> Json {
        let mut values = values.clone();
        let mut place = &mut values;
        for key in &self.path {
            if !place.is_object() {
                *place = json!({});
            }
            place = &mut place[key.as_str()];
        }
        *place = self.value.clone();
        values
    }
}

/// Maximum number of pairs of changes to try.
const MAX_PAIRS: usize = 300;

/// Returns pairs of changes of different values that these templates name, for objects that require two values
/// together. Switches come first.
pub(super) fn pairs<'c>(changes: &'c [Change], texts: &[&str]) -> Vec<(&'c Change, &'c Change)> {
    let words: BTreeSet<&str> = texts.iter().flat_map(|text| text.split(|c: char| !is_word(c))).collect();
    let is_named = |change: &&Change| change.path.last().is_some_and(|key| words.contains(key.as_str()));
    let (mut named, fillers): (Vec<&Change>, Vec<&Change>) =
        changes.iter().filter(is_named).partition(|change| change.is_switch());
    named.extend(fillers);
    let with_later = |(at, first): (usize, &&'c Change)| {
        let first = *first;
        named[at + 1..]
            .iter()
            .filter(|second| second.path != first.path)
            .map(|second| (first, *second))
            .collect::<Vec<_>>()
    };
    named.iter().enumerate().flat_map(with_later).take(MAX_PAIRS).collect()
}

/// Returns the kinds that a template names at the start of a line, as its objects do.
pub(super) fn named_kinds(text: &str) -> BTreeSet<&str> {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("kind:"));
    let kinds = kinds.map(|kind| kind.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']));
    kinds.filter(|kind| !kind.is_empty() && kind.chars().all(char::is_alphanumeric)).collect()
}

/// The string that fills empty values.
pub(super) const FILLER: &str = "x";

/// Maximum number of values to try; charts with more are covered only in part.
const MAX_CHANGES: usize = 1500;

/// Returns the changes to try on these complete values. `conditions` are paths that enable subcharts.
pub(super) fn changes(values: &Json, templates: &[&str], conditions: &[&str]) -> Vec<Change> {
    let compared = compared(templates);
    let mut found = Vec::new();
    leaves(values, &mut Vec::new(), &compared, &mut found);
    for condition in conditions {
        let path: Vec<String> = condition.split('.').map(str::to_owned).collect();
        for value in [true, false] {
            let change = Change { path: path.clone(), value: value.into() };
            if !found.contains(&change) {
                found.push(change);
            }
        }
    }
    let words: BTreeSet<&str> = templates.iter().flat_map(|text| text.split(|c: char| !is_word(c))).collect();
    found.retain(|change| {
        change.path.last().is_some_and(|key| !key.chars().all(is_word) || words.contains(key.as_str()))
    });
    found.truncate(MAX_CHANGES);
    found
}

/// Returns whether the character may be part of a word. Templates cannot branch on a key that they do not name.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Pairs of a value's key and a string that a template compares it with.
type Compared = BTreeSet<(String, String)>;

fn leaves(value: &Json, path: &mut Vec<String>, compared: &Compared, found: &mut Vec<Change>) {
    if let Json::Object(table) = value.clone() {
        for (key, inner) in &table {
            path.push(key.clone());
            leaves(inner, path, compared, found);
            path.pop();
        }
    }
    found.extend(
        alternatives(value, path.last(), compared).into_iter().map(|value| Change { path: path.clone(), value }),
    );
}

/// Returns non-default values that may change which objects are rendered.
fn alternatives(value: &Json, key: Option<&String>, compared: &Compared) -> Vec<Json> {
    let Some(key) = key else { return Vec::new() };
    let texts = compared.iter().filter(|(name, text)| name == key && Some(text.as_str()) != value.as_str());
    let texts = texts.map(|(_, text)| Json::from(text.as_str()));
    match value {
        Json::Bool(yes) => vec![Json::Bool(!yes)],
        Json::Array(items) if items.is_empty() => {
            vec![
                json!([FILLER]),
                json!([{"name": "x", "key": "x", "host": "x.example.com", "path": "/", "paths": ["/"]}]),
            ]
        }
        Json::Object(table) if table.is_empty() => vec![json!({"x": FILLER})],
        Json::String(text) if text.is_empty() => texts.chain([json!(FILLER)]).collect(),
        Json::String(_) => texts.collect(),
        Json::Number(number) if number.as_f64() == Some(0.0) => vec![json!(1)],
        Json::Number(_) => vec![json!(0)],
        Json::Null => vec![json!(FILLER), json!(true), json!(1), json!({"x": FILLER})],
        Json::Object(_) | Json::Array(_) => Vec::new(),
    }
}

/// Finds comparisons such as `eq .Values.kind "DaemonSet"`, in either order, by the last key of the value.
fn compared(templates: &[&str]) -> Compared {
    let Ok(comparison) =
        Regex::new(r#"\b(?:eq|ne)\s+\(?\s*(?:\$?[\w.$]*\.(\w+)\)?\s+"([^"]*)"|"([^"]*)"\s+\(?\$?[\w.$]*\.(\w+))"#)
    else {
        return Compared::new();
    };
    let pair = |found: regex::Captures<'_>| {
        let group = |index: usize| found.get(index).map(|text| text.as_str().to_owned());
        Some((group(1).or_else(|| group(4))?, group(2).or_else(|| group(3))?))
    };
    templates.iter().flat_map(|text| comparison.captures_iter(text)).filter_map(pair).collect()
}

/// Returns the API versions and kinds whose presence templates query.
pub(super) fn asked_apis(templates: &[&str]) -> BTreeSet<String> {
    let Ok(question) = Regex::new(r#"APIVersions\.Has\s+\(?"([^"]+)""#) else { return BTreeSet::new() };
    templates.iter().flat_map(|text| question.captures_iter(text)).map(|found| found[1].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "{{ .a.on .b .c .d .e .kind .enabled }}";

    fn texts(values: &Json, templates: &[&str]) -> Vec<String> {
        changes(values, &[templates, &[NAMES]].concat(), &["sub.enabled"]).iter().map(Change::text).collect()
    }

    #[test]
    fn booleans_flip_and_empty_values_fill() {
        let found = texts(&json!({"a": {"on": true}, "b": "", "c": {}, "d": "text", "e": 0, "unused": ""}), &[]);
        let expected = ["a.on=false", "b=x", r#"c={"x":"x"}"#, "e=1", "sub.enabled=true", "sub.enabled=false"];
        assert_eq!(found, expected);
    }

    #[test]
    fn texts_that_templates_compare_with_are_tried() {
        let templates =
            [r#"{{ if eq .Values.kind "DaemonSet" }}{{ else if (eq "Job" $.Values.a.kind) }}{{ eq .kind "X" | not }}"#];
        let found = texts(&json!({"kind": "X", "other": "X"}), &templates);
        assert_eq!(found, ["kind=DaemonSet", "kind=Job", "sub.enabled=true", "sub.enabled=false"]);
    }

    #[test]
    fn pairs_join_values_that_the_template_names() {
        let all =
            changes(&json!({"a": false, "b": "", "c": false, "kind": "X"}), &["{{ .a .b .c }} eq .kind \"Job\""], &[]);
        let texts: Vec<String> =
            pairs(&all, &["{{ .a .b .kind }}"]).iter().map(|(a, b)| format!("{} {}", a.text(), b.text())).collect();
        assert_eq!(texts, ["a=true kind=Job", "a=true b=x", "kind=Job b=x"]);
        let many: serde_json::Map<String, Json> = (0..100).map(|n| (format!("v{n}"), json!(false))).collect();
        let names: String = (0..100).map(|n| format!(".v{n} ")).collect();
        let many = changes(&many.into(), &[&names], &[]);
        assert_eq!(pairs(&many, &[&names]).len(), MAX_PAIRS);
    }

    #[test]
    fn the_kinds_of_a_template_start_a_line() {
        let text = "kind: Secret\nroleRef:\n  kind: Role\nkind: \"Pod\" # or\nkind: {{ .Values.kind }}\nkind:\n";
        assert_eq!(named_kinds(text).into_iter().collect::<Vec<_>>(), ["Pod", "Secret"]);
    }

    #[test]
    fn a_change_makes_missing_tables() {
        let change = Change { path: vec!["a".into(), "b".into()], value: json!(true) };
        assert_eq!(change.apply(&json!({"a": null, "c": 1})), json!({"a": {"b": true}, "c": 1}));
    }

    #[test]
    fn apis_that_templates_ask_for_are_found() {
        let template = r#"{{ if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}"#;
        assert_eq!(asked_apis(&[template]).into_iter().collect::<Vec<_>>(), ["monitoring.coreos.com/v1"]);
    }
}
