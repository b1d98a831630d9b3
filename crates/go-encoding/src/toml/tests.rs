use go_template::{Map, Value};

use super::*;
use crate::json::{self, EscapeHtml, Layout};

fn check(text: &str, expected: &str) {
    let read = match decode(text.as_bytes()) {
        Ok(map) => String::from_utf8(json::encode(&Value::Map(map), EscapeHtml::No, Layout::Compact).unwrap()).unwrap(),
        Err(error) => error.to_string(),
    };
    assert_eq!(read, expected, "{text}");
}

fn check_error(text: &str, expected: &str) {
    check(text, &format!("toml: line {expected}"));
}

fn written(value: &Value) -> String {
    String::from_utf8(encode(value).unwrap()).unwrap()
}

#[test]
fn values_have_their_go_types() {
    check(
        "a = 1_000\nb = 0xff\nc = 3.0\nd = true\ne = [1, 'x', {f = 1}]",
        r#"{"a":1000,"b":255,"c":3,"d":true,"e":[1,"x",{"f":1}]}"#,
    );
    check(
        "a.b.c = 1\n\"a b\" = 2\n[[t]]\nx = 1\n[[t]]\n[t.u]\n",
        r#"{"a":{"b":{"c":1}},"a b":2,"t":[{"x":1},{"u":{}}]}"#,
    );
    let map = decode(b"a = 1\nb = 1.5\n[[c]]").unwrap();
    let types: Vec<String> = map.entries().values().map(|value| value.type_name().to_owned()).collect();
    assert_eq!(types, ["int64", "float64", "[]map[string]interface {}"]);
}

#[test]
fn strings_have_escapes_and_several_lines() {
    check(r#"a = "\u00e9\x41\t\\""#, r#"{"a":"éA\t\\"}"#);
    check("a = \"\"\"\nx \\\n   y\"\"\"\"", r#"{"a":"x y\""}"#);
    check("a = '''\nx\\'''", r#"{"a":"x\\"}"#);
}

#[test]
fn dates_become_times_and_are_written_as_they_were() {
    check("a = 1979-05-27T07:32:00.5+01:00", r#"{"a":"1979-05-27T07:32:00.5+01:00"}"#);
    for text in ["d = 1979-05-27T07:32:00Z\n", "d = 1979-05-27\n", "d = 1979-05-27T07:32:00.25\n", "d = 07:32:00\n"] {
        let map = decode(text.as_bytes()).unwrap();
        assert_eq!(map.get("d").unwrap().type_name(), "time.Time");
        assert_eq!(written(&Value::Map(map)), text);
    }
}

#[test]
fn invalid_toml_fails_with_upstreams_words() {
    check_error("a = 1\na = 2", "2 (last key \"a\"): Key 'a' has already been defined.");
    check_error("[t]\n[t]", "2: Key 't' has already been defined.");
    check_error("a = tru", "1 (last key \"a\"): expected value but found \"tru\" instead");
    // U+0345 is alphabetic, but not a letter.
    check_error("a = tru\u{345}", "1 (last key \"a\"): expected value but found \"tru\" instead");
    check_error("a = 01", "1 (last key \"a\"): Invalid integer \"01\": cannot have leading zeroes");
    check_error("a = 1.", "1 (last key \"a\"): Invalid float \"1.\": '.' must be followed by one or more digits");
    check_error("a = 'x\n'", "1 (last key \"a\"): strings cannot contain newlines");
    check_error("bad", "1: unexpected EOF; expected key separator '='");
    check_error("a = 2020-1-1", "1 (last key \"a\"): invalid datetime: \"2020-1-1\"");
    check_error("a = [1 2]", "1 (last key \"a\"): expected a comma (',') or array terminator (']'), but got '2'");
    check_error("a = 9223372036854775808", "1 (last key \"a\"): 9223372036854775808 is out of range for int64");
    check_error("a=\"\u{1}\"", "1 (last key \"a\"): TOML files cannot contain control characters: '0x01'");
}

#[test]
fn plain_keys_are_written_before_tables() {
    let text = "z = 1\n\n[[l]]\n  a = 1\n  [l.m]\n    x = 1\n\n[t]\n  \"a b\" = [1.0, {x = 1}]\n";
    assert_eq!(written(&Value::Map(decode(text.as_bytes()).unwrap())), text);
    assert_eq!(written(&Value::from("it's\u{7f}")), "\"it's\\u007f\"");
    assert_eq!(written(&Value::Float(1e21)), "1e+21");
}

#[test]
fn values_that_toml_cannot_represent_are_refused() {
    let nil_inside = Value::Map(Map::from_iter([("l", Value::list(vec![Value::Nil]))]));
    let cases = [
        (nil_inside, "toml: cannot encode array with nil element"),
        (Value::list(vec![Value::Map(Map::default())]), "toml: top-level values must be Go maps or structs"),
        (Value::Nil, "reflect: call of reflect.Value.Type on zero Value"),
    ];
    for (value, expected) in cases {
        assert_eq!(encode(&value).unwrap_err().to_string(), expected);
    }
    assert_eq!(written(&Value::Map(Map::from_iter([("n", Value::Nil)]))), "");
}

#[test]
fn nesting_is_bounded_in_both_directions() {
    let deep = format!("a = {}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(decode(deep.as_bytes()).unwrap_err().to_string().ends_with("exceeded max depth of 200"));
    let keys = vec!["a"; 10_000].join(".") + " = 1";
    assert!(decode(keys.as_bytes()).unwrap_err().to_string().ends_with("exceeded max depth of 200"));
    let map = Map::default();
    map.insert("self", map.clone());
    assert_eq!(encode(&Value::Map(map.clone())), Err(EncodeError::TooDeep(MAX_DEPTH)));
    map.entries_mut().clear();
}
