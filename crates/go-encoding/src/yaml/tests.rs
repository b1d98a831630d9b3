use go_template::Value;
use serde_json::Value as Json;

use super::*;
use crate::json::{self, EscapeHtml, Layout};

fn text<'a>(case: &'a Json, field: &str) -> Option<&'a str> {
    case.get(field).and_then(Json::as_str)
}

fn to_json(value: &Value) -> String {
    String::from_utf8(json::encode(value, EscapeHtml::Yes, Layout::Compact).unwrap()).unwrap()
}

/// Compares with sigs.k8s.io/yaml's recorded answer; describes the difference, if there is one.
fn difference(case: &Json, ours: Result<String, String>) -> String {
    let is_same = match &ours {
        Ok(out) => Some(out.as_str()) == text(case, "out"),
        Err(error) => Some(error.as_str()) == text(case, "error"),
    };
    if is_same { String::new() } else { format!("{ours:?}") }
}

fn check(yaml: &str, json: &str) {
    assert_eq!(to_json(&parse(yaml.as_bytes()).unwrap()), json, "{yaml}");
}

fn check_error(yaml: &str, error: &str) {
    assert_eq!(
        parse(yaml.as_bytes()).unwrap_err().to_string(),
        format!("error converting YAML to JSON: {error}"),
        "{yaml}"
    );
}

fn parse_difference(case: &Json) -> String {
    let parsed = parse(text(case, "yaml").unwrap().as_bytes());
    difference(case, parsed.map(|value| to_json(&value)).map_err(|error| error.to_string()))
}

fn emitted(value: &Value) -> String {
    String::from_utf8(emit(value).unwrap()).unwrap()
}

fn emit_difference(case: &Json) -> String {
    let value = json::decode(case["value"].to_string().as_bytes()).unwrap();
    let emitted = emit(&value).map(|out| String::from_utf8(out).unwrap());
    difference(case, emitted.map_err(|error| error.to_string()))
}

#[test]
fn committed_documents_parse_as_in_go() {
    shared_cases::each_committed(include_str!("parse-cases.jsonl"), parse_difference);
}

#[test]
fn shared_documents_parse_as_in_go() {
    shared_cases::each_line("vectors/yaml-parse.jsonl", parse_difference);
}

#[test]
fn committed_values_are_emitted_as_in_go() {
    shared_cases::each_committed(include_str!("emit-cases.jsonl"), emit_difference);
}

#[test]
fn shared_values_are_emitted_as_in_go() {
    shared_cases::each_line("vectors/yaml-emit.jsonl", emit_difference);
}

#[test]
fn scalars_resolve_by_yaml_1_1() {
    check(
        "[yes, Off, y, ~, '', null, 0777, 0o17, 08, 0b11, 0b-1, 1_000, .5_0, 1e3]",
        r#"[true,false,true,null,"",null,511,15,8,3,-1,1000,0.5,1000]"#,
    );
    check(
        "[12:30:45, 2024-01-02, 1e400, +1, -0, 18446744073709551615, 18446744073709551616, 0x1F]",
        r#"["12:30:45","2024-01-02","1e400",1,0,18446744073709552000,18446744073709552000,31]"#,
    );
    check("[!!str 1, !!float 1, !!int '0x10', !custom 1, ! 1, !!binary aGk=]", r#"["1",1,16,"1","1","hi"]"#);
}

#[test]
fn keys_become_strings() {
    check("{n: 1, 1.50: 2, 0x10: 3, 2024-01-01: 4, 'y': 5}", r#"{"1.5":2,"16":3,"2024-01-01":4,"false":1,"y":5}"#);
    check("a: 1\na: 2", r#"{"a":2}"#);
}

#[test]
fn merge_keys_apply_at_their_position() {
    check(
        "a: &a {x: 1, z: 2}\nb: {<<: *a, x: 3}\nc: {x: 3, <<: *a}",
        r#"{"a":{"x":1,"z":2},"b":{"x":3,"z":2},"c":{"x":1,"z":2}}"#,
    );
    check(
        "a: &a {x: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b]}\nd: {'<<': 1}",
        r#"{"a":{"x":1},"b":{"x":2,"z":2},"c":{"x":1,"z":2},"d":{"\u003c\u003c":1}}"#,
    );
    check_error("<<: 1", "yaml: map merge requires map or sequence of maps as the value");
}

#[test]
fn a_literal_at_the_end_of_the_text_keeps_its_last_line() {
    check("k: |\n  x", r#"{"k":"x"}"#);
    check("k: |\n  x\n", r#"{"k":"x\n"}"#);
    check("k: >\n  a\n  b\n\n   c\n  d\n", r#"{"k":"a b\n\n c\nd\n"}"#);
}

#[test]
fn tighter_limits_end_a_document_sooner() {
    let within = |text: &str, values, repeated| {
        parse_preserving_ints_within(text.as_bytes(), Most { values, repeated }).map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(within("[1, 2, 3]", 4, 0), Ok(()));
    assert!(within("[1, 2, 3]", 3, 0).unwrap_err().ends_with("exceeded limit MAX_VALUES of 3"));
    assert!(within("{a: &a [1, 1], b: *a}", 8, 0).unwrap_err().ends_with("exceeded limit MAX_VALUES of 8"));
    assert_eq!(within("{a: &a text, b: *a}", 9, 4), Ok(()));
    assert!(within("{a: &a text, b: *a}", 9, 3).unwrap_err().contains("exceeded limit MAX_REPEATED of 3 bytes"));
}

#[test]
fn only_the_first_document_is_read() {
    check("a: 1\n---\nb: [", r#"{"a":1}"#);
    check("# nothing\n", "null");
    check("--- |\n a\n...\n", r#""a\n""#);
}

#[test]
fn documents_that_json_cannot_represent_are_refused() {
    check_error("a: .inf", "json: unsupported value: +Inf");
    check_error("~: 1", "unsupported map key of type: %!s(<nil>), key: <nil>, value: 1");
    check_error("{{ x }}", r#"yaml: invalid map key: map[interface {}]interface {}{"x":interface {}(nil)}"#);
    check_error("!!int a", "yaml: cannot decode !!str `a` as a !!int");
}

#[test]
fn an_alias_in_a_key_is_resolved_once() {
    check_error("&s\n? &t\n  *s : 1\n: 2", "yaml: anchor 's' value contains itself");
    check("a: &a b\n*a : c", r#"{"a":"b","b":"c"}"#);
}

#[test]
fn errors_count_lines_as_yaml_v2_does() {
    check_error("a: b: c", "yaml: mapping values are not allowed in this context");
    check_error("a: 1\nb: c: d", "yaml: line 2: mapping values are not allowed in this context");
    check_error("- ? a\n  : b\n -c", "yaml: line 2: did not find expected '-' indicator");
    check_error("x: [1,\n\n", "yaml: line 2: did not find expected node content");
    check_error("a: |\n\tx", "yaml: line 2: found a tab character where an indentation space is expected");
    check_error("a: {\n  b: 1\n", "yaml: line 2: did not find expected ',' or '}'");
    check_error("a: \"x\n", "yaml: line 2: found unexpected end of stream");
    check_error("a: *x", "yaml: unknown anchor 'x' referenced");
    check_error("a: \u{1}", "yaml: control characters are not allowed");
    check_error("%YAML 1.2\n---\n", "yaml: found incompatible YAML document");
}

#[test]
fn an_invalid_character_fails_only_when_reached() {
    let far = format!("a: b: c\n{}\u{7f}", "x".repeat(2000));
    check_error(&far, "yaml: mapping values are not allowed in this context");
    check_error("a: b: c\n\u{7f}", "yaml: control characters are not allowed");
    assert!(parse(&[b"a: 1\n---\n".as_slice(), &[b' '; 2000], &[0xFF]].concat()).is_ok());
}

#[test]
fn errors_name_invalid_utf_8_bytes() {
    for (bytes, problem) in [
        (&[0xFF_u8][..], "control"),
        (&[b'a', 0x80], "invalid leading UTF-8 octet"),
        (&[b'a', 0xC3], "incomplete UTF-8 octet sequence"),
        (&[b'a', 0xC3, b'a'], "invalid trailing UTF-8 octet"),
        (&[b'a', 0xC0, 0x80], "invalid length of a UTF-8 sequence"),
        (&[b'a', 0xED, 0xA0, 0x80], "invalid Unicode character"),
    ] {
        let text = parse(bytes).unwrap_err().to_string();
        assert!(text.ends_with(problem) || problem == "control" && text.contains("UTF-8"), "{text}");
    }
    assert_eq!(to_json(&parse(&[0xFF, 0xFE, b'a', 0, b':', 0, b' ', 0, b'1', 0]).unwrap()), r#"{"a":1}"#);
}

#[test]
fn documents_are_split_at_lines_of_dashes() {
    let maps = parse_documents(b"# first\n---\na: 1\n---\n# no values\n--- # more\nb: 2").unwrap();
    let texts: Vec<String> = maps.into_iter().map(|map| to_json(&Value::Map(map))).collect();
    assert_eq!(texts, ["{}", r#"{"a":1}"#, "{}", r#"{"b":2}"#]);
    let error = parse_documents(b"a: 1\n--- b\n").unwrap_err();
    assert_eq!(error.to_string(), "invalid Yaml document separator: b");
    let error = parse_documents(b"- a\n").unwrap_err().to_string();
    assert!(error.ends_with("cannot unmarshal array into Go value of type map[string]interface {}"), "{error}");
}

#[test]
fn nesting_is_bounded_in_both_directions() {
    let flow = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
    let value = parse(&flow(MAX_DEPTH)).unwrap();
    assert_eq!(emitted(&value).len(), 2 * MAX_DEPTH + 1);
    let error = parse(&flow(MAX_DEPTH + 1)).unwrap_err().to_string();
    assert!(error.ends_with("exceeded max depth of 500"), "{error}");
    let deeper = Value::list(vec![Value::list(vec![value])]);
    assert!(emit(&deeper).is_err());
    assert!(parse("- ".repeat(100_000).as_bytes()).is_err());
    assert!(parse("? ".repeat(100_000).as_bytes()).is_err());
    assert!(parse(&vec![b'{'; 1_000_000]).is_err());
}

#[test]
fn aliases_cannot_inflate_a_document() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let line = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{line}]\n");
    }
    check_error(&bomb, "yaml: document contains excessive aliasing");
    check_error("a: &a [*a]", "yaml: anchor 'a' value contains itself");
    check_error("a: &a {<<: *a}", "yaml: anchor 'a' value contains itself");
}

#[test]
fn aliases_cannot_nest_deeper_than_the_limit() {
    let mut chain = "a0: &a0 x\n".to_owned();
    for level in 1..2 * MAX_DEPTH {
        chain += &format!("a{level}: &a{level} [*a{}]\n", level - 1);
    }
    assert!(parse(chain.as_bytes()).is_err());
}

#[test]
fn a_map_inside_itself_is_refused_and_doubling_is_bounded() {
    let map = Map::default();
    map.insert("self", Value::list(vec![Value::Map(map.clone())]));
    let error = emit(&Value::Map(map.clone())).unwrap_err().to_string();
    assert!(error.contains("encountered a cycle via map[string]interface {}"), "{error}");
    map.entries_mut().clear();
    let mut value = Value::from("x");
    for _ in 0..60 {
        value = Value::list(vec![value.clone(), value]);
    }
    assert_eq!(emit(&value), Err(EmitError::TooLong(MAX_OUTPUT)));
}

#[test]
fn long_and_multiline_keys_get_a_question_mark_or_are_refused() {
    let one = |key: &str| Value::Map(Map::from_iter([(key, 1.0)]));
    assert_eq!(emitted(&one(&"k".repeat(129))), format!("? {}\n: 1\n", "k".repeat(129)));
    assert_eq!(emitted(&one("a\nb")), "? |-\n  a\n  b\n: 1\n");
    let error = emit(&one(&"k".repeat(1023))).unwrap_err().to_string();
    assert_eq!(error, "yaml: did not find expected ',' or '}'");
    let error = emit(&one("\u{7f}")).unwrap_err().to_string();
    assert_eq!(error, "yaml: control characters are not allowed");
}

#[test]
fn a_next_line_character_folds() {
    assert_eq!(emitted(&Value::from("a\u{85}b")), "a b\n");
    assert_eq!(emitted(&Value::from("a\u{85}\u{85}b")), "|-\n  a\n  b\n");
}

#[test]
fn pretty_output_indents_lists_and_never_folds() {
    let pretty = |yaml: &str| String::from_utf8(emit_pretty(&parse(yaml.as_bytes()).unwrap()).unwrap()).unwrap();
    assert_eq!(pretty("{l: [1.5, [a], {b: null}], m: {}}"), "l:\n  - 1.5\n  - - a\n  - b: null\nm: {}\n");
    assert_eq!(pretty("[1000000, 'no', \"x\\ty\\n\", .5_0x]"), "- 1e+06\n- \"no\"\n- |\n  x\ty\n- .5_0x\n");
    assert_eq!(pretty(&"w ".repeat(60)), "w ".repeat(60).trim().to_owned() + "\n");
    let bytes = Value::list(vec![Value::Bytes(b"hi".as_slice().into()), Value::String(vec![0xFF].into())]);
    assert_eq!(emit_pretty(&bytes).unwrap(), b"- - 104\n  - 105\n- !!binary /w==\n");
}

#[test]
fn a_duplicate_key_replaces_a_value_that_json_cannot_represent() {
    check("a: .inf\na: 1", r#"{"a":1}"#);
}

#[test]
fn an_empty_collection_as_a_key_is_lost_as_in_yaml_v2() {
    check("[]: 1\n", "[]");
    check_error("k: v\n[]\n", "yaml: line 1: did not find expected key");
}
