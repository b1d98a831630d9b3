//! Compares the chart and values of a recorded revision with a given chart and values. If they are the same, rendering
//! again would change only generated values, such as passwords.
//!
//! The comparison uses the record's content alone, independent of its writer. Parts that a record omits, such as
//! subcharts in Helm's records, count as different.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

use super::Release;
use super::codec::{ChartDocument, Error};

/// The key of the subcharts' digest in our records; absent if there are no subcharts.
pub(super) const SUBCHARTS: &str = "subchartsDigest";
/// The key of the digest of files that our record had to omit.
pub(super) const FILES: &str = "filesDigest";

/// The largest integer up to which floats are exact.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The part that is not proven to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// `Chart.yaml`.
    Metadata,
    /// The chart's templates.
    Templates,
    /// The chart's default values.
    Defaults,
    /// The chart's other files.
    Files,
    /// The chart's `values.schema.json`.
    Schema,
    /// The charts in `charts/`.
    Subcharts,
    /// The user's values.
    Values,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Difference::Metadata => "the chart's metadata",
            Difference::Templates => "the chart's templates",
            Difference::Defaults => "the chart's default values",
            Difference::Files => "the chart's files",
            Difference::Schema => "the values' schema",
            Difference::Subcharts => "the chart's subcharts",
            Difference::Values => "the values",
        })
    }
}

/// The chart and values that a revision is rendered from.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// The chart's JSON in a record.
    chart: &'a Value,
    /// The user's values.
    config: &'a Value,
}

impl Release {
    /// Returns the first part that is not proven to be the same in this chart with these values; `None` if all are the
    /// same.
    ///
    /// # Errors
    /// One of the recorded charts cannot be unpacked.
    pub fn differs_from(&self, chart: &ChartDocument, config: &Value) -> Result<Option<Difference>, Error> {
        let (recorded, current) = (self.chart.to_json()?, chart.to_json()?);
        let recorded = Source { chart: &recorded, config: &self.config };
        let subcharts = recorded.chart[SUBCHARTS].is_null() && self.manifest.contains("/charts/");
        Ok(difference(recorded, Source { chart: &current, config }).or(subcharts.then_some(Difference::Subcharts)))
    }
}

fn difference(recorded: Source<'_>, current: Source<'_>) -> Option<Difference> {
    let (old, new) = (recorded.chart, current.chart);
    let same = [
        (Difference::Metadata, equivalent(&metadata(old, old), &metadata(new, old))),
        (Difference::Templates, sorted(&old["templates"]) == sorted(&new["templates"])),
        (Difference::Defaults, equivalent(&table(&old["values"]), &table(&new["values"]))),
        (Difference::Files, files(old) == files(new)),
        (Difference::Schema, old["schema"] == new["schema"]),
        (Difference::Subcharts, old[SUBCHARTS] == new[SUBCHARTS]),
        (Difference::Values, values_match(recorded.config, current)),
    ];
    same.into_iter().find_map(|(part, same)| (!same).then_some(part))
}

/// Returns whether recorded values match the resource's: either as they are, or merged over the chart's defaults, as
/// helm-operator-plugins records them. A null removes a default, so values with nulls never match the merged form.
fn values_match(recorded: &Value, current: Source<'_>) -> bool {
    let (recorded, own) = (table(recorded), table(current.config));
    equivalent(&recorded, &own)
        || (!has_null(&own) && equivalent(&recorded, &with_defaults(&own, &current.chart["values"])))
}

/// Merges values over defaults.
fn with_defaults(own: &Value, defaults: &Value) -> Value {
    let (Some(own), Some(defaults)) = (own.as_object(), defaults.as_object()) else { return own.clone() };
    let mut all = own.clone();
    for (key, default) in defaults {
        let value = all.get(key).map_or_else(|| default.clone(), |own| with_defaults(own, default));
        all.insert(key.clone(), value);
    }
    all.into()
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null),
        _ => false,
    }
}

/// Returns an empty map for null.
fn table(value: &Value) -> Cow<'_, Value> {
    if value.is_null() { Cow::Owned(Map::new().into()) } else { Cow::Borrowed(value) }
}

/// Returns a chart's metadata. Helm records dependencies as a render left them: marked as enabled, without those that
/// values disable. If the record also omits the subcharts, the dependencies prove nothing and are dropped.
fn metadata(chart: &Value, recorded: &Value) -> Value {
    let mut metadata = filled(&chart["metadata"]);
    if let Some(fields) = metadata.as_object_mut().filter(|_| recorded[SUBCHARTS].is_null()) {
        fields.remove("dependencies");
    }
    metadata
}

/// Drops fields that Go's `omitempty` omits.
fn filled(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let filled = map.iter().map(|(key, value)| (key.clone(), filled(value)));
            filled.filter(|(_, value)| !is_empty(value)).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(filled).collect(),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn text<'a>(file: &'a Value, key: &str) -> &'a str {
    file.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the names and contents of a record's files, sorted.
fn sorted(list: &Value) -> Vec<(&str, &str)> {
    let mut files: Vec<_> = list.as_array().into_iter().flatten().map(|f| (text(f, "name"), text(f, "data"))).collect();
    files.sort_unstable();
    files
}

/// Returns the digest of a recorded chart's files, whether or not the record holds them.
fn files(chart: &Value) -> String {
    chart[FILES].as_str().map_or_else(|| files_digest(&chart["files"]), str::to_owned)
}

/// Returns the digest of files as a record lists them.
pub(super) fn files_digest(list: &Value) -> String {
    let mut hash = Sha256::new();
    for (name, data) in sorted(list) {
        // The lengths separate names from contents.
        hash.update(format!("{}:{name}{}:{data}", name.len(), data.len()));
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether values are equal, with whole numbers compared by value: YAML's are floats in Go, those of a
/// resource's JSON integers.
fn equivalent(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || whole(a).is_some_and(|whole_a| whole(b) == Some(whole_a)),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equivalent(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equivalent(a, b)))
        }
        _ => a == b,
    }
}

fn whole(number: &Number) -> Option<i128> {
    let exact = |float: &f64| float.fract() == 0.0 && float.abs() < MAX_EXACT;
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    integer.or_else(|| number.as_f64().filter(exact).map(|float| float as i128))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a chart's JSON in a record.
    fn chart() -> Value {
        json!({
            "metadata": {"name": "web", "version": "1.0.0", "apiVersion": "v2", "keywords": ["a"]},
            "lock": null,
            "templates": [{"name": "templates/a.yaml", "data": "YQ=="}, {"name": "templates/b.yaml", "data": "Yg=="}],
            "values": {"port": 80, "image": {"tag": "1", "size": 1.5}, "none": null},
            "schema": null,
            "files": [{"name": "README.md", "data": "Yw=="}],
        })
    }

    fn config() -> Value {
        json!({"port": 81, "image": {"tag": "2"}})
    }

    /// Changes a chart and values.
    type Change = fn(&mut Value, &mut Value);

    /// Returns the difference between a record with this change and the original.
    fn changed(change: Change) -> Option<Difference> {
        let (mut chart_then, mut config_then) = (chart(), config());
        change(&mut chart_then, &mut config_then);
        let (chart, config) = (chart(), config());
        difference(Source { chart: &chart_then, config: &config_then }, Source { chart: &chart, config: &config })
    }

    #[test]
    fn notation_is_no_difference() {
        assert_eq!(changed(|_, _| {}), None);
        let equivalent: [(&str, Change); 8] = [
            ("a lock", |chart, _| chart["lock"] = json!({"digest": "x"})),
            ("times of files", |chart, _| chart["modtime"] = "2026-01-01T00:00:00Z".into()),
            ("times of templates", |chart, _| chart["templates"][0]["modtime"] = "2026-01-01T00:00:00Z".into()),
            ("another order", |chart, _| chart["templates"].as_array_mut().unwrap().reverse()),
            ("empty metadata", |chart, _| {
                chart["metadata"]["icon"] = "".into();
                chart["metadata"]["deprecated"] = false.into();
                chart["metadata"]["annotations"] = json!({});
                chart["metadata"]["sources"] = json!([]);
                chart["metadata"]["dependencies"] = Value::Null;
            }),
            ("whole floats", |chart, config| {
                chart["values"]["port"] = json!(80.0);
                config["port"] = json!(81.0);
            }),
            ("files that were left out", |chart, _| {
                chart[FILES] = files_digest(&chart["files"]).into();
                chart["files"] = json!([]);
            }),
            ("defaults beneath", |chart, config| *config = with_defaults(config, &chart["values"])),
        ];
        for (what, change) in equivalent {
            assert_eq!(changed(change), None, "{what}");
        }
    }

    #[test]
    fn whatever_may_render_differently_is_a_difference() {
        use Difference::{Defaults, Files, Metadata, Schema, Subcharts, Templates, Values};
        let cases: [(&str, Change, Difference); 19] = [
            ("version", |chart, _| chart["metadata"]["version"] = "1.0.1".into(), Metadata),
            ("keywords", |chart, _| chart["metadata"]["keywords"][0] = "b".into(), Metadata),
            ("no metadata", |chart, _| chart["metadata"] = Value::Null, Metadata),
            ("deprecated", |chart, _| chart["metadata"]["deprecated"] = true.into(), Metadata),
            ("a template", |chart, _| chart["templates"][1]["data"] = "YQ==".into(), Templates),
            ("a template's name", |chart, _| chart["templates"][1]["name"] = "templates/c.yaml".into(), Templates),
            ("a template less", |chart, _| _ = chart["templates"].as_array_mut().unwrap().pop(), Templates),
            ("no templates", |chart, _| chart["templates"] = Value::Null, Templates),
            ("a default", |chart, _| chart["values"]["port"] = 82.into(), Defaults),
            ("a default as text", |chart, _| chart["values"]["port"] = "80".into(), Defaults),
            ("a default less", |chart, _| _ = chart["values"].as_object_mut().unwrap().remove("none"), Defaults),
            ("a file", |chart, _| chart["files"][0]["data"] = "".into(), Files),
            ("files left out without a trace", |chart, _| chart["files"] = json!([]), Files),
            ("files that were left out", |chart, _| chart[FILES] = "x".into(), Files),
            ("a schema", |chart, _| chart["schema"] = "e30=".into(), Schema),
            ("subcharts", |chart, _| chart[SUBCHARTS] = "x".into(), Subcharts),
            ("a value", |_, config| config["image"]["tag"] = "1".into(), Values),
            ("a value more", |_, config| config["more"] = 1.into(), Values),
            ("no values", |_, config| *config = Value::Null, Values),
        ];
        for (what, change, expected) in cases {
            assert_eq!(changed(change), Some(expected), "{what}");
        }
        assert_eq!(Templates.to_string(), "the chart's templates");
    }

    #[test]
    fn dependencies_as_helm_records_them_are_no_other_metadata() {
        let config = config();
        let with = |dependency: Value, digest: Value| {
            let mut chart = chart();
            chart["metadata"]["dependencies"] = json!([dependency]);
            chart[SUBCHARTS] = digest;
            chart
        };
        let dependency =
            |enabled: Value| json!({"name": "common", "version": "1.x.x", "repository": "", "enabled": enabled});
        let current = with(dependency(Value::Null), "x".into());
        let difference_from = |recorded: Value| {
            difference(Source { chart: &recorded, config: &config }, Source { chart: &current, config: &config })
        };
        let helms = with(dependency(true.into()), Value::Null);
        assert_eq!(difference_from(helms), Some(Difference::Subcharts));
        assert_eq!(difference_from(with(dependency(Value::Null), "x".into())), None);
        assert_eq!(difference_from(with(json!({"name": "other"}), "x".into())), Some(Difference::Metadata));
    }

    #[test]
    fn no_values_are_an_empty_table() {
        let (chart, config, none) = (chart(), json!({}), Value::Null);
        let made = |config| Source { chart: &chart, config };
        assert_eq!(difference(made(&none), made(&config)), None);
        assert_eq!(difference(made(&config), made(&none)), None);
    }

    #[test]
    fn values_with_nulls_do_not_match_values_merged_over_defaults() {
        let (chart, config) = (chart(), json!({"list": [{"port": null}]}));
        let recorded = with_defaults(&config, &chart["values"]);
        let made = |config| Source { chart: &chart, config };
        assert_eq!(difference(made(&recorded), made(&config)), Some(Difference::Values));
        assert_eq!(difference(made(&config), made(&config)), None);
    }

    #[test]
    fn numbers_are_compared_by_value() {
        let check = |a: Value, b: Value, expected: bool| assert_eq!(equivalent(&a, &b), expected, "{a} {b}");
        check(json!(1), json!(1.0), true);
        check(json!(-1.0), json!(-1), true);
        check(json!(1), json!(1.5), false);
        check(json!(1.5), json!(1.5), true);
        check(json!(1.5), json!(1.25), false);
        check(json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0), false);
        check(json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_992.0), false);
        check(json!(u64::MAX), json!(u64::MAX), true);
        check(json!([1, {"a": 2}]), json!([1.0, {"a": 2.0}]), true);
        check(json!([1, 2]), json!([1]), false);
        check(json!({"a": 1}), json!({"b": 1}), false);
        check(json!({"a": 1}), json!({"a": 1, "b": 1}), false);
        check(json!(1), json!("1"), false);
        check(json!(true), json!(true), true);
    }

    #[test]
    fn file_digests_separate_names_from_contents() {
        let digest = |files: &[(&str, &str)]| {
            files_digest(&files.iter().map(|(name, data)| json!({"name": name, "data": data})).collect())
        };
        assert_eq!(digest(&[("a", "b"), ("c", "d")]), digest(&[("c", "d"), ("a", "b")]));
        for other in [digest(&[]), digest(&[("a", "bc")]), digest(&[("ab", "c")]), digest(&[("a", "b"), ("c", "")])] {
            assert_ne!(digest(&[("a", "b")]), other);
        }
    }
}
