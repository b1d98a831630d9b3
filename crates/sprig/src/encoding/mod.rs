//! Encodes and decodes YAML, JSON, TOML, base64 and base32.
//!
//! Counterpart: Helm's `pkg/engine/funcs.go` and Sprig's `defaults.go` and `strings.go`. As there, plain functions swallow errors, each in its own
//! way, and `must` functions fail.

pub(super) mod base;

use go_template::{FuncError, FuncMap, List, ListType, Map, MapType, Str, Value};
use golibs::work::note_work;

use super::limits::{Walk, exceeded};
use go_encoding::json::{self, EncodeError, EscapeHtml, Layout};
use go_encoding::yaml::EmitError;
use go_encoding::{toml, yaml};

pub(super) fn register(map: &mut FuncMap) {
    register_yaml(map);
    register_json(map);
    register_toml(map);
    map.add("b64enc", |text: Str| base::encode64(&text))
        .add("b64dec", |text: Str| base::decode64(&text).unwrap_or_else(|error| error.to_string().into_bytes()))
        .add("b32enc", |text: Str| base::encode32(&text))
        .add("b32dec", |text: Str| base::decode32(&text).unwrap_or_else(|error| error.to_string().into_bytes()));
}

fn register_yaml(map: &mut FuncMap) {
    map.add("toYaml", |value: Value| or_default(yaml::emit(&value).map(without_line_break), yaml_limit))
        .add("mustToYaml", |value: Value| yaml::emit(&value).map(without_line_break).map_err(message))
        .add("toYamlPretty", |value: Value| pretty_yaml(&value))
        .add("fromYaml", |text: Str| yaml::parse_map(&counted(text)).unwrap_or_else(error_map))
        .add("fromYamlArray", |text: Str| yaml::parse_list(&counted(text)).unwrap_or_else(error_list));
}

fn register_json(map: &mut FuncMap) {
    map.add("toJson", |value: Value| or_default(compact(&value), json_limit))
        .add("mustToJson", |value: Value| compact(&value).map_err(message))
        .add("toPrettyJson", |value: Value| or_default(pretty(&value), json_limit))
        .add("mustToPrettyJson", |value: Value| pretty(&value).map_err(message))
        .add("toRawJson", |value: Value| raw(&value).map_err(message))
        .add("mustToRawJson", |value: Value| raw(&value).map_err(message))
        .add("fromJson", |text: Str| from_json(&counted(text)).unwrap_or_else(error_map))
        .add("mustFromJson", |text: Str| json::decode(&counted(text)).map_err(message))
        .add("fromJsonArray", |text: Str| json::decode_list(&counted(text)).unwrap_or_else(error_list));
}

fn register_toml(map: &mut FuncMap) {
    map.add("toToml", |value: Value| toml_text(&value))
        .add("mustToToml", |value: Value| toml::encode(&value).map_err(message))
        .add("fromToml", |text: Str| toml::decode(&counted(text)).unwrap_or_else(error_map));
}

fn pretty_yaml(value: &Value) -> Result<Vec<u8>, FuncError> {
    match yaml::emit_pretty(value) {
        Err(error @ yaml::EmitError::CannotMarshal(_)) => Err(message(error)),
        written => or_default(written.map(without_line_break), yaml_limit),
    }
}

fn compact(value: &Value) -> Result<Vec<u8>, EncodeError> {
    json::encode(value, EscapeHtml::Yes, Layout::Compact)
}

fn pretty(value: &Value) -> Result<Vec<u8>, EncodeError> {
    json::encode(value, EscapeHtml::Yes, Layout::Indented)
}

fn raw(value: &Value) -> Result<Vec<u8>, EncodeError> {
    json::encode(value, EscapeHtml::No, Layout::Compact)
}

/// Decodes a map. A number that is too large does not affect the rest of the map.
fn from_json(text: &[u8]) -> Result<Map, json::DecodeError> {
    let (value, error) = json::decode_partly(text)?;
    let map = if matches!(value, Value::Nil) { Map::nil(MapType::Interface) } else { json::into_map(value)? };
    if let Some(error) = error {
        map.insert("Error", error.to_string());
    }
    Ok(map)
}

fn message(error: impl std::error::Error) -> FuncError {
    FuncError::new(error.to_string())
}

/// Ignores encoding errors, as Helm does, but fails if one of our own limits was exceeded.
fn or_default<E: std::fmt::Display>(
    encoded: Result<Vec<u8>, E>,
    limit: fn(&E) -> Option<&'static str>,
) -> Result<Vec<u8>, FuncError> {
    match encoded {
        Ok(text) => Ok(text),
        Err(error) => limit(&error).map_or(Ok(Vec::new()), |name| Err(exceeded(name, error.to_string()))),
    }
}

fn toml_text(value: &Value) -> Result<Vec<u8>, FuncError> {
    // Go's encoder panics for nil, which a template reports as an error.
    if matches!(value, Value::Nil) {
        return Err("reflect: call of reflect.Value.Type on zero Value".into());
    }
    measure(value, &mut Walk::new())?;
    match toml::encode(value) {
        Err(error @ toml::EncodeError::TooDeep(_)) => Err(exceeded("MAX_DEPTH", error.to_string())),
        Err(error @ toml::EncodeError::TooLong(_)) => Err(exceeded("MAX_OUTPUT", error.to_string())),
        encoded => Ok(encoded.unwrap_or_else(|error| error.to_string().into_bytes())),
    }
}

/// Fails if a value is too large to walk, such as a list that many paths lead to: choosing the form of arrays walks all of it.
fn measure(value: &Value, walk: &mut Walk) -> Result<(), FuncError> {
    match value {
        Value::List(list) => walk.enter(list.len(), |walk| list.iter().try_for_each(|item| measure(item, walk))),
        Value::Map(map) => {
            walk.enter(map.len(), |walk| map.snapshot().iter().try_for_each(|(_, item)| measure(item, walk)))
        }
        _ => Ok(()),
    }
}

fn yaml_limit(error: &EmitError) -> Option<&'static str> {
    match error {
        EmitError::Json(error) => json_limit(error),
        EmitError::Yaml(_) | EmitError::CannotMarshal(_) => None,
        EmitError::TooLong(_) => Some("MAX_OUTPUT"),
    }
}

fn json_limit(error: &EncodeError) -> Option<&'static str> {
    match error {
        EncodeError::TooDeep(_) => Some("MAX_DEPTH"),
        EncodeError::TooLong(_) => Some("MAX_OUTPUT"),
        EncodeError::UnsupportedValue(_) | EncodeError::UnsupportedType(_) | EncodeError::Cycle(_) => None,
    }
}

/// Bytes per step: decoding may produce a value for each byte.
const BYTES_PER_STEP: u64 = 2;

/// Records the work of decoding the text.
fn counted(text: Str) -> Str {
    note_work(text.len() as u64 / BYTES_PER_STEP);
    text
}

/// Returns the result that replaces a map which could not be decoded.
fn error_map(error: impl std::error::Error) -> Map {
    Map::from_iter([("Error", error.to_string())])
}

fn error_list(error: impl std::error::Error) -> List {
    List::new(ListType::Interface, vec![Value::from(error.to_string())])
}

fn without_line_break(mut text: Vec<u8>) -> Vec<u8> {
    text.pop_if(|byte| *byte == b'\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_call::check;

    #[test]
    fn plain_functions_ignore_errors_and_must_functions_fail() {
        let nan = [Value::list(vec![Value::Float(f64::NAN)])];
        let json_error = "json: unsupported value: NaN";
        check("toYaml", &nan, Ok(""));
        check("mustToYaml", &nan, Err("error marshaling into JSON: json: unsupported value: NaN"));
        check("toYamlPretty", &nan, Ok("- .nan"));
        check("toJson", &nan, Ok(""));
        check("toPrettyJson", &nan, Ok(""));
        for name in ["mustToJson", "mustToPrettyJson", "toRawJson", "mustToRawJson"] {
            check(name, &nan, Err(json_error));
        }
        check("mustFromJson", &["{".into()], Err("unexpected end of JSON input"));
    }

    #[test]
    fn decoding_errors_replace_the_result() {
        check(
            "fromYaml",
            &["a: [".into()],
            Ok("map[Error:error converting YAML to JSON: yaml: line 1: did not find expected node content]"),
        );
        check(
            "fromYamlArray",
            &["{}".into()],
            Ok(
                "[error unmarshaling JSON: while decoding JSON: json: cannot unmarshal object into Go value of type []interface {}]",
            ),
        );
        check(
            "fromJson",
            &["[]".into()],
            Ok("map[Error:json: cannot unmarshal array into Go value of type map[string]interface {}]"),
        );
        check("fromJsonArray", &["x".into()], Ok("[invalid character 'x' looking for beginning of value]"));
        check("fromYaml", &["".into()], Ok("map[]"));
    }

    #[test]
    fn one_final_line_break_is_removed() {
        check("toYaml", &["a\n\n".into()], Ok("|+\n  a\n"));
        check("toYaml", &[Value::Map(Map::from_iter([("a", 1.0)]))], Ok("a: 1"));
    }

    #[test]
    fn all_but_raw_json_escapes_html() {
        check("toJson", &["<".into()], Ok(r#""\u003c""#));
        check("toRawJson", &["<".into()], Ok(r#""<""#));
    }

    #[test]
    fn invalid_base64_returns_the_error_text() {
        check("b64enc", &["hello".into()], Ok("aGVsbG8="));
        check("b64dec", &["aGVs\r\nbG8=".into()], Ok("hello"));
        check("b64dec", &["aGVsbG8".into()], Ok("illegal base64 data at input byte 4"));
        check("b32enc", &["hello".into()], Ok("NBSWY3DP"));
        check("b32dec", &["NBSWY3DP".into()], Ok("hello"));
        check("b32dec", &["nbswy3dp".into()], Ok("illegal base32 data at input byte 0"));
    }
}
