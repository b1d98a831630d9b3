//! The values that a custom resource's chart is rendered with: its `spec`, with the override values of watches.yaml on top.
//!
//! Counterparts: operator-sdk's `internal/helm/release/manager_factory.go` and helm-operator-plugins' `pkg/values`.

use std::collections::BTreeMap;

use go_encoding::json;
use go_template::{Map, Value};
use helm::{strvals, values};

use crate::watches::OverrideValuesType;

/// Why there are no values. The texts quote none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `spec` is a list or a scalar.
    #[error("spec must be a map of values, got {0}")]
    NoMap(&'static str),
    /// `spec` is past a limit.
    #[error("cannot read spec: {0}")]
    Unreadable(&'static str),
    /// An override value that `--set` would not take.
    #[error("cannot parse override value {key:?}: {cause}")]
    Override {
        /// Its path.
        key: String,
        /// The parser's words; never the value, which may be secret.
        cause: String,
    },
}

/// The values for a `spec`, given as the server's JSON: integers are `int64`, as operator-sdk has them, whose decoder is the API's. Nothing
/// is `null` or absent there: no values.
///
/// # Errors
/// See [`Error`].
pub fn of_spec(spec: &str, overrides: &BTreeMap<String, String>, kind: OverrideValuesType) -> Result<Map, Error> {
    let own = match json::decode_preserving_ints(spec.as_bytes()).map_err(|e| unreadable(&e))? {
        Value::Map(map) => map,
        Value::Nil => Map::default(),
        other => return Err(Error::NoMap(json::kind(&other))),
    };
    let over = Map::default();
    for (key, value) in overrides {
        let text = format!("{key}={value}");
        let parsed = match kind {
            // Straight into the values: an index changes one item of a list.
            OverrideValuesType::Typed => strvals::parse_into(&text, &own),
            OverrideValuesType::String => strvals::parse_into_string(&text, &over),
        };
        parsed.map_err(|cause| Error::Override { key: key.clone(), cause: cause.to_string() })?;
    }
    Ok(values::merge_maps(&own, &over))
}

/// The decoder's own words would quote a number or a character.
fn unreadable(error: &json::DecodeError) -> Error {
    Error::Unreadable(match error {
        json::DecodeError::TooDeep => "it nests too deep (limit MAX_DEPTH of 500)",
        json::DecodeError::TooMany => "it has too many values (limit MAX_VALUES of 1000000)",
        json::DecodeError::Number(_) => "a number is too large",
        _ => "it is not JSON",
    })
}

#[cfg(test)]
mod tests {
    use helm::chart::Chart;
    use helm::engine::{Capabilities, Engine, ReleaseOptions, Request};
    use serde_json::json as value;

    use super::*;

    fn check(spec: serde_json::Value, over: &[(&str, &str)], kind: OverrideValuesType, expected: serde_json::Value) {
        let over = over.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let values = of_spec(&spec.to_string(), &over, kind).unwrap();
        assert_eq!(json::to_serde(&Value::Map(values)), expected);
    }

    #[test]
    fn override_values_win_with_their_type_or_as_strings() {
        let spec = value!({"image": {"tag": "1", "name": "x"}, "count": 1});
        let over = [("count", "3"), ("image.tag", "true")];
        let typed = value!({"image": {"tag": true, "name": "x"}, "count": 3});
        check(spec.clone(), &over, OverrideValuesType::Typed, typed);
        let text = value!({"image": {"tag": "true", "name": "x"}, "count": "3"});
        check(spec, &over, OverrideValuesType::String, text);
        check(serde_json::Value::Null, &[], OverrideValuesType::Typed, value!({}));
    }

    #[test]
    fn a_spec_that_is_no_map_and_a_broken_override_are_errors_without_values() {
        let of_spec =
            |spec: &str| of_spec(spec, &BTreeMap::new(), OverrideValuesType::Typed).map_err(|e| e.to_string());
        for (spec, expected) in [
            ("[\"s3cret\"]", "spec must be a map of values, got array"),
            ("\"s3cret\"", "spec must be a map of values, got string"),
            ("4711", "spec must be a map of values, got number"),
            ("true", "spec must be a map of values, got bool"),
            ("{\"a\": 1e999}", "cannot read spec: a number is too large"),
            ("{\"a\": s3cret}", "cannot read spec: it is not JSON"),
        ] {
            assert_eq!(of_spec(spec).unwrap_err(), expected);
        }
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(json::MAX_DEPTH), "]".repeat(json::MAX_DEPTH));
        assert_eq!(of_spec(&deep).unwrap_err(), "cannot read spec: it nests too deep (limit MAX_DEPTH of 500)");
        let many = format!("{{\"a\": [{}1]}}", "1,".repeat(json::MAX_VALUES));
        assert_eq!(
            of_spec(&many).unwrap_err(),
            "cannot read spec: it has too many values (limit MAX_VALUES of 1000000)"
        );
    }

    #[test]
    fn a_broken_override_is_named_by_its_key() {
        let broken = BTreeMap::from([("r[x]".to_owned(), "s3cret".to_owned())]);
        let error = of_spec("{}", &broken, OverrideValuesType::Typed).unwrap_err().to_string();
        assert!(error.starts_with("cannot parse override value \"r[x]\": ") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn integers_are_int64_and_other_numbers_float64() {
        let spec = r#"{"a":80,"b":9007199254740993,"c":-0,"d":1.0,"e":1e3,"f":18446744073709551615,"g":[1,{"h":-9223372036854775808}]}"#;
        let over = BTreeMap::from([("o".to_owned(), "7".to_owned())]);
        let values = of_spec(spec, &over, OverrideValuesType::Typed).unwrap();
        let get = |key: &str| values.get(key).unwrap();
        for (key, expected) in [
            ("a", Value::int64(80)),
            ("b", Value::int64(9_007_199_254_740_993)),
            ("c", Value::int64(0)),
            ("d", Value::Float(1.0)),
            ("e", Value::Float(1000.0)),
            ("f", Value::Float(18_446_744_073_709_552_000.0)),
            ("o", Value::int64(7)),
        ] {
            assert_eq!(format!("{:?}", get(key)), format!("{expected:?}"), "{key}");
        }
        assert_eq!(json::to_serde(&get("g")), value!([1, {"h": i64::MIN}]));
        assert_eq!(json::to_serde(&get("b")), value!(9_007_199_254_740_993_i64));
    }
    /// What the template prints with the values of a spec, over the chart's `values.yaml`.
    fn printed(template: &str, spec: &str) -> String {
        let files = [
            ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
            ("values.yaml", "port: 8080\nnested: {size: 5, other: 1}\n"),
            ("values.schema.json", r#"{"properties":{"port":{"type":"integer","maximum":65535}}}"#),
            ("templates/t.yaml", template),
        ];
        let files = files.map(|(name, data)| helm::chart::File { name: name.to_owned(), data: data.into() });
        let engine = Engine::new(Chart::load_files(files.into()).unwrap());
        let values = of_spec(spec, &BTreeMap::new(), OverrideValuesType::Typed).unwrap();
        let release = ReleaseOptions { name: "r".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
        let capabilities = Capabilities::default();
        let request = Request {
            values: &values,
            release: &release,
            capabilities: &capabilities,
            lookup: None,
            skip_schema: false,
        };
        match engine.render(&request) {
            Ok(rendered) => rendered.manifests[0].content.clone(),
            Err(error) => error.without_values(),
        }
    }

    #[test]
    fn templates_see_a_specs_integers_and_the_charts_floats() {
        let check = |template: &str, spec: &str, expected: &str| assert_eq!(printed(template, spec), expected);
        check("a: {{ .Values.big }}", r#"{"big":1000000}"#, "a: 1000000");
        check("a: {{ .Values.big }}", r#"{"big":9007199254740993}"#, "a: 9007199254740993");
        check(r#"a: {{ printf "%d" .Values.port }}"#, r#"{"port":80}"#, "a: 80");
        check(r#"a: {{ printf "%d" .Values.port | quote }}"#, "{}", r#"a: "%!d(float64=8080)""#);
        check("a: {{ eq .Values.port 80 }}", r#"{"port":80}"#, "a: true");
        check(
            "a: {{ typeOf .Values.port }} {{ typeOf .Values.nested.size }} {{ typeOf .Values.nested.other }}",
            r#"{"port":80,"nested":{"size":7}}"#,
            "a: int64 int64 float64",
        );
        check("a: {{ add .Values.port .Values.nested.size }}", r#"{"port":80}"#, "a: 85");
        check("{{ toYaml .Values.nested }}", r#"{"nested":{"size":1000000}}"#, "other: 1\nsize: 1000000");
        check("a: {{ toJson .Values.l | quote }}", r#"{"l":[1,2.0,2.5,1e21]}"#, r#"a: "[1,2,2.5,1e+21]""#);
        check("a: {{ index .Values.l .Values.port }}", r#"{"port":1,"l":["x","y"]}"#, "a: y");
        check(
            "a: {{ max .Values.port 7 }} {{ .Values.port | int }} {{ .Values.port | quote }}",
            r#"{"port":80}"#,
            "a: 80 80 \"80\"",
        );
        assert!(printed("a: {{ eq .Values.port 8080 }}", "{}").contains("incompatible types for comparison"));
    }

    #[test]
    fn a_schemas_integer_takes_both_and_its_bounds_hold() {
        assert_eq!(printed("a: {{ .Values.port }}", r#"{"port":1}"#), "a: 1");
        assert_eq!(printed("a: {{ .Values.port }}", r#"{"port":2.0}"#), "a: 2");
        let refused = printed("a: 1", r#"{"port":65536}"#);
        assert!(refused.contains("maximum: want 65,535") && !refused.contains("65536"), "{refused}");
        assert!(printed("a: 1", r#"{"port":1.5}"#).contains("got number, want integer"));
    }
}
