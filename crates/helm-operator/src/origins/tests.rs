use std::collections::BTreeMap;

use go_encoding::json;
use go_template::{Map, Value};
use helm::origins::dotted;

use super::*;
use crate::values_from::SourceKey;

fn chart() -> Arc<Chart> {
    Chart::from_files([
        ("Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n"),
        ("values.yaml", "image: {tag: '1', name: web}\nreplicas: 1\nlist: [a]\n"),
        ("templates/a.yaml", "a: {{ .Values.image }}\nb: {{ .Values.replicas }}\nc: {{ .Values.list }}\n"),
    ])
    .unwrap()
}

fn source(kind: SourceKind, name: &str, target_path: Option<&str>) -> Resolved {
    let key = SourceKey { kind, namespace: "ns".into(), name: name.into() };
    Resolved { key, values_key: "values.yaml".into(), target_path: target_path.map(str::to_owned), optional: false }
}

fn overrides(texts: &[(&str, &str)], kind: OverrideValuesType) -> Overrides {
    let texts: BTreeMap<String, String> = texts.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect();
    Overrides::parse(texts, kind).unwrap()
}

fn shown(value: &Value) -> String {
    json::to_serde(value).to_string()
}

/// Returns a line for each value: path, value, origin, and what it replaced.
fn lines(sources: &[(Resolved, &str)], spec: &str, over: &Overrides) -> Vec<String> {
    let sources: Vec<FoundSource<'_>> =
        sources.iter().map(|(source, text)| FoundSource { source, bytes: Some(text.as_bytes()) }).collect();
    let spec = Spec::new(spec);
    let kind = over.kind().unwrap_or_default();
    let inputs = Inputs { sources: &sources, spec: &spec, overrides: over, overrides_type: kind };
    let values = values(&chart(), &inputs).unwrap();
    let merged = values_from::merge(&sources, &spec).unwrap().0.values().unwrap();
    let expected = over.over_as(kind, merged).unwrap();
    let view = helm::view::resolve(&chart(), &expected, &mut Vec::new()).unwrap();
    let expected = helm::view::coalesce(&view, &expected, helm::view::Nulls::Remove, &mut Vec::new()).unwrap();
    assert_eq!(format!("{:?}", Value::Map(values.traced.values.clone())), format!("{:?}", Value::Map(expected)));
    let line = |leaf: &helm::origins::Leaf| {
        let replaced: String = leaf
            .replaced
            .iter()
            .map(|(origin, value)| format!(" < {} ({})", shown(value), values.describe(origin)))
            .collect();
        format!("{} = {} ({}){replaced}", dotted(&leaf.path), shown(&leaf.value), values.describe(&leaf.origin))
    };
    values.traced.leaves.iter().map(line).collect()
}

#[test]
fn every_way_to_set_a_value_is_named_in_its_order() {
    let sources = [
        (source(SourceKind::ConfigMap, "shared", None), "image: {tag: '2'}\nreplicas: 2\n"),
        (source(SourceKind::Secret, "own", Some("image.tag")), "3"),
    ];
    let over = overrides(&[("replicas", "5")], OverrideValuesType::Typed);
    let expected = [
        "image.name = \"web\" (shop/values.yaml)",
        "image.tag = \"4\" (spec) < \"3\" (Secret own, key values.yaml) < \"2\" (ConfigMap shared, key values.yaml) < \"1\" (shop/values.yaml)",
        "list = [\"a\"] (shop/values.yaml)",
        "replicas = 5 (overrideValues replicas) < 2 (ConfigMap shared, key values.yaml) < 1 (shop/values.yaml)",
    ];
    assert_eq!(lines(&sources, r#"{"image":{"tag":"4"}}"#, &over), expected);
}

#[test]
fn only_the_last_layer_holds_the_values_of_all_sources() {
    let text = "image: {tag: '2'}\n".as_bytes();
    let named = [source(SourceKind::ConfigMap, "shared", None), source(SourceKind::Secret, "own", None)];
    let sources: Vec<FoundSource<'_>> = named.iter().map(|source| FoundSource { source, bytes: Some(text) }).collect();
    let (spec, overrides) = (Spec::new(r#"{"replicas":3}"#), Overrides::default());
    let overrides_type = OverrideValuesType::default();
    let inputs = Inputs { sources: &sources, spec: &spec, overrides: &overrides, overrides_type };
    let (_, layers) = layers::of(&inputs).unwrap();
    let sizes: Vec<Option<usize>> = layers.iter().map(|layer| layer.merged.as_ref().map(Map::len)).collect();
    assert_eq!(sizes, [None, None, Some(2)], "copies would multiply with the number of sources");
}

#[test]
fn a_source_of_an_item_leaves_the_others_to_the_source_below() {
    let sources = [
        (source(SourceKind::ConfigMap, "shared", None), "list: [x, w]\n"),
        (source(SourceKind::Secret, "own", Some("list[1]")), "z"),
    ];
    let expected = [
        "list[0] = \"x\" (ConfigMap shared, key values.yaml)",
        "list[1] = \"z\" (Secret own, key values.yaml) < \"w\" (ConfigMap shared, key values.yaml)",
    ];
    assert_eq!(lines(&sources, "{}", &Overrides::default())[2..4], expected);
}

#[test]
fn an_override_of_an_item_leaves_the_others_to_the_spec() {
    let over = overrides(&[("list[1]", "z")], OverrideValuesType::Typed);
    let lines = lines(&[], r#"{"list":["x","y"]}"#, &over);
    let expected = ["list[0] = \"x\" (spec)", "list[1] = \"z\" (overrideValues list[1]) < \"y\" (spec)"];
    assert_eq!(lines[2..4], expected);
}

#[test]
fn an_override_that_stays_a_string_replaces_a_whole_list() {
    let over = overrides(&[("list[1]", "z")], OverrideValuesType::String);
    let lines = lines(&[], r#"{"list":["x","y"]}"#, &over);
    let expected = "list = [null,\"z\"] (overrideValues list[1]) < [\"x\",\"y\"] (spec) < [\"a\"] (shop/values.yaml)";
    assert_eq!(lines[2], expected);
}

#[test]
fn numbers_of_a_spec_are_its_own_with_and_without_sources() {
    let spec = r#"{"replicas":1.0,"image":{"tag":1e3}}"#;
    let over = Overrides::default();
    let empty = [(source(SourceKind::ConfigMap, "shared", None), "")];
    for sources in [&[][..], &empty] {
        let lines = lines(sources, spec, &over);
        assert!(lines.iter().any(|line| line.starts_with("replicas = 1") && line.contains("(spec) < ")), "{lines:?}");
    }
}

#[test]
fn what_a_secret_or_the_environment_gives_is_hidden() {
    let source = |kind| Given::Source(source(kind, "a", None));
    let over = |from_environment| Given::Override { key: "a".into(), from_environment };
    assert!(source(SourceKind::Secret).is_hidden() && over(true).is_hidden());
    assert!(!source(SourceKind::ConfigMap).is_hidden() && !over(false).is_hidden() && !Given::Spec.is_hidden());
}

#[test]
fn an_error_names_no_value() {
    let over = overrides(&[("image.tag.deeper", "x")], OverrideValuesType::Typed);
    let spec = Spec::new(r#"{"image":{"tag":"s3cret"}}"#);
    let inputs = Inputs { sources: &[], spec: &spec, overrides: &over, overrides_type: OverrideValuesType::Typed };
    let error = values(&chart(), &inputs).map(drop).unwrap_err().to_string();
    assert!(error.contains("image.tag.deeper") && !error.contains("s3cret"), "{error}");
}
