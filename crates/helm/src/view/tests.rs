use std::sync::Arc;

use go_template::{Map, Value};

use super::*;
use crate::chart::Chart;
use crate::values::read;
use go_encoding::json;

fn chart(files: &[(&str, &str)]) -> Arc<Chart> {
    Chart::from_files(files.iter().copied()).unwrap()
}

fn values(text: &str) -> Map {
    read(text.as_bytes()).unwrap()
}

/// Returns the coalesced values of the chart as JSON.
fn coalesced(chart: &Arc<Chart>, user: &str) -> String {
    let user = values(user);
    let mut warnings = Vec::new();
    let view = resolve(chart, &user, &mut warnings).unwrap();
    let merged = coalesce(&view, &user, Nulls::Remove, &mut warnings).unwrap();
    String::from_utf8(json::encode(&Value::Map(merged), json::EscapeHtml::No, json::Layout::Compact).unwrap()).unwrap()
}

const PARENT: &str = "apiVersion: v2\nname: parent\nversion: 1.0.0\n";
const SUB: &str = "apiVersion: v2\nname: sub\nversion: 1.0.0\n";

#[test]
fn defaults_fill_gaps_and_nulls_remove_keys() {
    let chart = chart(&[("Chart.yaml", PARENT), ("values.yaml", "a: {x: 1, y: 2, n: null}\nb: text\nc: null\n")]);
    assert_eq!(coalesced(&chart, "a: {y: null, z: 3}\nb: null\n"), r#"{"a":{"x":1,"z":3}}"#);
}

#[test]
fn globals_and_own_values_reach_a_subchart() {
    let chart = chart(&[
        ("Chart.yaml", PARENT),
        ("values.yaml", "global: {g: 1}\nsub: {a: parent}\n"),
        ("charts/sub/Chart.yaml", SUB),
        ("charts/sub/values.yaml", "a: own\nb: own\nglobal: {h: 2}\n"),
    ]);
    assert_eq!(
        coalesced(&chart, "sub: {b: user}"),
        r#"{"global":{"g":1},"sub":{"a":"parent","b":"user","global":{"g":1,"h":2}}}"#
    );
}

#[test]
fn conditions_and_tags_enable_subcharts_under_their_aliases() {
    let chart_yaml = format!(
        "{PARENT}dependencies:\n- {{name: sub, version: '>=1.0.0', alias: one, condition: one.enabled}}\n- {{name: sub, version: 1.x.x, alias: two, tags: [extra]}}\n"
    );
    let chart = chart(&[("Chart.yaml", &chart_yaml), ("charts/sub/Chart.yaml", SUB)]);
    let names = |user: &str| {
        let view = resolve(&chart, &values(user), &mut Vec::new()).unwrap();
        view.dependencies.iter().map(|d| d.path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["parent/charts/one", "parent/charts/two"]);
    assert_eq!(names("one: {enabled: false}"), ["parent/charts/two"]);
    assert_eq!(names("tags: {extra: false}"), ["parent/charts/one"]);
}

#[test]
fn parents_import_values_that_subcharts_export() {
    let chart_yaml = format!(
        "{PARENT}dependencies:\n- name: sub\n  version: 1.0.0\n  import-values: [data, {{child: inner, parent: outer.x}}]\n"
    );
    let chart = chart(&[
        ("Chart.yaml", &chart_yaml),
        ("values.yaml", "a: parent\n"),
        ("charts/sub/Chart.yaml", SUB),
        ("charts/sub/values.yaml", "exports: {data: {a: sub, b: sub}}\ninner: {k: v}\n"),
    ]);
    let merged = coalesced(&chart, "");
    assert!(merged.starts_with(r#"{"a":"parent","b":"sub","outer":{"x":{"k":"v"}},"sub":{"#), "{merged}");
}

#[test]
fn a_scalar_in_place_of_a_subcharts_table_is_an_error() {
    let chart = chart(&[("Chart.yaml", PARENT), ("charts/sub/Chart.yaml", SUB)]);
    let user = values("sub: text");
    let view = resolve(&chart, &Map::default(), &mut Vec::new()).unwrap();
    let error = coalesce(&view, &user, Nulls::Remove, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "type mismatch on sub: %!t(string=text)");
}

#[test]
fn each_chart_is_validated_against_its_own_schema() {
    let files = [
        ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        ("values.schema.json", r#"{"required":["a"]}"#),
        ("charts/s/Chart.yaml", "apiVersion: v2\nname: s\nversion: 1.0.0\n"),
        ("charts/s/values.schema.json", r#"{"properties":{"k":{"type":"string"}}}"#),
        ("charts/t/Chart.yaml", "apiVersion: v2\nname: t\nversion: 1.0.0\n"),
        ("charts/t/values.schema.json", "{"),
    ];
    let chart = Chart::from_files(files).unwrap();
    let view = resolve(&chart, &Map::default(), &mut Vec::new()).unwrap();
    let error = validate(&view, &values(r#"{"s":{"k":1},"t":{}}"#)).unwrap_err();
    let wanted = "c:\n- at '': missing property 'a'\ns:\n- at '/k': got number, want string\nt:\nunexpected EOF";
    assert_eq!(error.to_string(), wanted);
}

/// Recorded from Helm v4.3.1, one object per line: the chart's files, the user's values, and the enabled charts with their coalesced
/// values, or the error.
const CASES: &str = include_str!("cases.jsonl");

fn paths(view: &ChartView, into: &mut Vec<String>) {
    let names: Vec<&str> = view.metadata.dependencies.iter().map(|d| d.name.as_str()).collect();
    into.push(format!("{} [{}]", view.path, names.join(" ")));
    view.dependencies.iter().for_each(|dependency| paths(dependency, into));
}

fn answer(files: &[(&str, &str)], user: &str) -> Result<serde_json::Value, ResolveError> {
    let chart = chart(files);
    let user = values(user);
    let view = resolve(&chart, &user, &mut Vec::new())?;
    let merged = coalesce(&view, &user, Nulls::Remove, &mut Vec::new())?;
    let mut charts = Vec::new();
    paths(&view, &mut charts);
    charts.sort();
    Ok(serde_json::json!({"charts": charts, "values": json::to_serde(&Value::Map(merged))}))
}

#[test]
fn charts_and_values_match_helm() {
    let mut wrong = String::new();
    for case in CASES.lines() {
        let case: serde_json::Value = serde_json::from_str(case).unwrap();
        let files: Vec<(&str, &str)> = crate::chart::tests::files(&case).collect();
        let user = case["user"].as_str().unwrap();
        let got = answer(&files, user).unwrap_or_else(|error| serde_json::json!({"error": error.to_string()}));
        let mut wanted = case["result"].clone();
        // Helm orders subcharts that Chart.yaml does not list randomly.
        if let Some(charts) = wanted.get_mut("charts").and_then(serde_json::Value::as_array_mut) {
            charts.sort_by_key(ToString::to_string);
        }
        if got != wanted {
            wrong.push_str(&format!("{} {user:?}\n  got    {got}\n  wanted {wanted}\n", case["files"]["Chart.yaml"]));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
