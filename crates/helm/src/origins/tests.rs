use std::sync::Arc;

use go_encoding::json;
use go_template::{Map, Value};

use super::path::same;
use super::*;
use crate::chart::{Chart, File, ValuesText, from_files};
use crate::strvals;
use crate::values::{merge_maps, read};

const ROOT: &str = "apiVersion: v2\nname: shop\nversion: 1.0.0\n";
const CACHE: &str = "apiVersion: v2\nname: cache\nversion: 1.0.0\n";

fn chart(files: &[(&str, &str)]) -> Arc<Chart> {
    let files = files.iter().map(|(name, data)| File::from((*name, *data))).collect();
    from_files(files, &|_| None, ValuesText::Keep).unwrap()
}

/// Returns layers that are merged like several values files.
fn layers(texts: &[&str]) -> Vec<Layer> {
    let mut all: Vec<Layer> = Vec::new();
    for text in texts {
        let own = read(text.as_bytes()).unwrap();
        let below = all.last().and_then(|layer| layer.merged.clone()).unwrap_or_default();
        all.push(Layer { merged: Some(merge_maps(&below, &own)), own: Some(own) });
    }
    all
}

fn shown(value: &Value) -> String {
    String::from_utf8(json::encode(value, json::EscapeHtml::No, json::Layout::Compact).unwrap()).unwrap()
}

fn named(origin: &Origin) -> String {
    match origin {
        Origin::Given(layer) => format!("given {layer}"),
        Origin::Default(default) => {
            let line = default.line.map(|line| format!(":{line}")).unwrap_or_default();
            format!("{:?} {}{line}", default.role, default.file)
        }
        Origin::Helm => "Helm".to_owned(),
    }
}

/// Returns a line for each leaf: path, value, origin, and what it replaced.
fn lines(chart: &Arc<Chart>, layers: &[Layer]) -> Vec<String> {
    let traced = trace(chart, layers).unwrap();
    let line = |leaf: &Leaf| {
        let replaced = leaf.replaced.iter().map(|(origin, value)| format!(" < {} {}", named(origin), shown(value)));
        let removed = if leaf.is_removed { " removed" } else { "" };
        format!(
            "{} = {}{removed} {}{}",
            dotted(&leaf.path),
            shown(&leaf.value),
            named(&leaf.origin),
            replaced.collect::<String>()
        )
    };
    traced.leaves.iter().map(line).collect()
}

fn check(files: &[(&str, &str)], given: &[&str], expected: &[&str]) {
    assert_eq!(lines(&chart(files), &layers(given)), expected);
}

#[test]
fn the_highest_layer_wins_and_the_others_are_what_it_replaced() {
    let values = "# The shop\na: 1\nb:\n  c: 2\n  d: 3\nl: [p, q]\n";
    check(
        &[("Chart.yaml", ROOT), ("values.yaml", values)],
        &["b: {c: 20}\nnew: 1", "b: {c: 200}\nl: [z]"],
        &[
            "a = 1 Chart shop/values.yaml:2",
            "b.c = 200 given 1 < given 0 20 < Chart shop/values.yaml:4 2",
            "b.d = 3 Chart shop/values.yaml:5",
            "l = [\"z\"] given 1 < Chart shop/values.yaml:6 [\"p\",\"q\"]",
            "new = 1 given 0",
        ],
    );
}

#[test]
fn a_subchart_takes_its_parents_value_over_its_own() {
    check(
        &[
            ("Chart.yaml", ROOT),
            ("values.yaml", "cache:\n  size: 2\nglobal:\n  zone: a\n"),
            ("charts/cache/Chart.yaml", CACHE),
            ("charts/cache/values.yaml", "size: 1\nport: 80\nglobal: {zone: b, own: c}\n"),
        ],
        &["cache: {global: {zone: d}}"],
        &[
            "cache.global.own = \"c\" Subchart shop/charts/cache/values.yaml:3",
            "cache.global.zone = \"a\" Parent shop/values.yaml:4 < given 0 \"d\" < Subchart shop/charts/cache/values.yaml:3 \"b\"",
            "cache.port = 80 Subchart shop/charts/cache/values.yaml:2",
            "cache.size = 2 Parent shop/values.yaml:2 < Subchart shop/charts/cache/values.yaml:1 1",
            "global.zone = \"a\" Chart shop/values.yaml:4",
        ],
    );
}

#[test]
fn an_alias_is_the_name_and_imported_values_are_named_where_they_are_written() {
    let root = format!(
        "{ROOT}dependencies:\n- {{name: cache, version: 1.0.0, alias: fast, import-values: [{{child: net, parent: web}}, ports]}}\n"
    );
    check(
        &[
            ("Chart.yaml", &root),
            ("values.yaml", "web: {host: h}\n"),
            ("charts/cache/Chart.yaml", CACHE),
            ("charts/cache/values.yaml", "net: {host: c, ttl: 5}\nexports:\n  ports:\n    http: 80\n"),
        ],
        &[""],
        &[
            "fast.exports.ports.http = 80 Subchart shop/charts/fast/values.yaml:4",
            "fast.global = {} Helm",
            "fast.net.host = \"c\" Subchart shop/charts/fast/values.yaml:1",
            "fast.net.ttl = 5 Subchart shop/charts/fast/values.yaml:1",
            "http = 80 Import shop/charts/fast/values.yaml:4",
            "web.host = \"h\" Chart shop/values.yaml:1 < Import shop/charts/fast/values.yaml:1 \"c\"",
            "web.ttl = 5 Import shop/charts/fast/values.yaml:1",
        ],
    );
}

#[test]
fn a_null_removes_a_default_and_says_so() {
    check(
        &[("Chart.yaml", ROOT), ("values.yaml", "a: {b: 1, c: 2}\n")],
        &["a: {b: null}\nd: null"],
        &[
            "a.b = null removed given 0 < Chart shop/values.yaml:1 1",
            "a.c = 2 Chart shop/values.yaml:1",
            "d = null given 0",
        ],
    );
}

#[test]
fn items_of_a_list_have_their_own_origins_if_several_layers_set_them() {
    let spec = read(b"l: [a, {k: 1, m: 2}, c]").unwrap();
    let (own, merged) = (Map::default(), spec.deep_copy());
    for into in [&own, &merged] {
        strvals::parse_into("l[1].k=7", into).unwrap();
    }
    let layers =
        [Layer { own: Some(spec.clone()), merged: Some(spec) }, Layer { own: Some(own), merged: Some(merged) }];
    let chart = chart(&[("Chart.yaml", ROOT), ("values.yaml", "l: []\n")]);
    let expected =
        ["l[0] = \"a\" given 0", "l[1].k = 7 given 1 < given 0 1", "l[1].m = 2 given 0", "l[2] = \"c\" given 0"];
    assert_eq!(lines(&chart, &layers), expected);
}

#[test]
fn of_code_that_maps_values_only_the_changes_are_its_own() {
    let spec = read(b"a: 1\nb: 2").unwrap();
    let mapped = read(b"a: 1\nb: 3\nc: 4").unwrap();
    let layers = [Layer { own: Some(spec.clone()), merged: Some(spec) }, Layer { own: None, merged: Some(mapped) }];
    let chart = chart(&[("Chart.yaml", ROOT)]);
    assert_eq!(lines(&chart, &layers), ["a = 1 given 0", "b = 3 given 1 < given 0 2", "c = 4 given 1"]);
}

#[test]
fn values_that_no_template_reads_are_named() {
    let chart = chart(&[
        ("Chart.yaml", ROOT),
        ("values.yaml", "image: {tag: a}\n"),
        ("templates/a.yaml", "a: {{ .Values.image.tag }}\n"),
    ]);
    let unread = trace(&chart, &layers(&["image: {tga: b}"])).unwrap().unread;
    assert_eq!(unread[0].to_string(), "image.tga; did you mean \"image.tag\"?");
}

#[test]
fn values_that_do_not_fit_a_subchart_are_an_error_without_the_value() {
    let chart = chart(&[("Chart.yaml", ROOT), ("charts/cache/Chart.yaml", CACHE)]);
    let error = trace(&chart, &layers(&["cache: s3cret"])).unwrap_err();
    assert_eq!(error.without_values(), "type mismatch on cache: expected a table");
}

#[test]
fn a_chart_of_a_render_has_no_lines() {
    let chart = Chart::from_files([("Chart.yaml", ROOT), ("values.yaml", "a: 1\n")]).unwrap();
    assert_eq!(lines(&chart, &[]), ["a = 1 Chart shop/values.yaml"]);
}

#[test]
fn numbers_of_different_types_are_not_the_same() {
    assert!(!same(&Value::Float(1.0), &Value::int64(1)) && same(&Value::Float(f64::NAN), &Value::Float(f64::NAN)));
}
