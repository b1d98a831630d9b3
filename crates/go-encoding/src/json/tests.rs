use go_template::Value;

use super::*;

fn compact(value: &Value) -> String {
    String::from_utf8(encode(value, EscapeHtml::Yes, Layout::Compact).unwrap()).unwrap()
}

#[test]
fn invalid_json_fails_with_gos_words() {
    let cases = [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
        (r#"{"a" 1}"#, "invalid character '1' after object key"),
        (r#"{"a":1 "b"}"#, "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("1 2", "invalid character '2' after top-level value"),
        ("tru!", "invalid character '!' in literal true (expecting 'e')"),
        ("-", "invalid character ' ' in numeric literal"),
        ("tru", "invalid character ' ' in literal true (expecting 'e')"),
        ("1.", "invalid character ' ' after decimal point in numeric literal"),
        ("\"a", "unexpected end of JSON input"),
        ("\"\\", "invalid character ' ' in string escape code"),
        ("[1", "unexpected end of JSON input"),
        ("{\"a\":1", "unexpected end of JSON input"),
        ("-a", "invalid character 'a' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("01", "invalid character '1' after top-level value"),
        ("\"\n\"", r"invalid character '\n' in string literal"),
        (r#""\q""#, "invalid character 'q' in string escape code"),
        (r#""\u12G4""#, r"invalid character 'G' in \u hexadecimal character escape"),
        ("'a'", r"invalid character '\'' looking for beginning of value"),
        ("\u{e9}", "invalid character 'Ã' looking for beginning of value"),
        ("1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"),
    ];
    for (text, expected) in cases {
        assert_eq!(decode(text.as_bytes()).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn strings_are_escaped_as_in_go() {
    let cases = [
        ("a<b>&\u{2028}", r#""a\u003cb\u003e\u0026\u2028""#),
        ("\u{8}\u{c}\n\r\t\u{1}\u{7f}", "\"\\b\\f\\n\\r\\t\\u0001\u{7f}\""),
        ("\"\\/", r#""\"\\/""#),
    ];
    for (text, expected) in cases {
        assert_eq!(compact(&Value::from(text)), expected);
        assert_eq!(decode(expected.as_bytes()).unwrap().as_str().unwrap().to_text(), text);
    }
    assert_eq!(compact(&Value::String(vec![b'a', 0xFF, 0xFE].into())), r#""a\ufffd\ufffd""#);
    let raw = encode(&Value::from("<é>"), EscapeHtml::No, Layout::Compact).unwrap();
    assert_eq!(raw, "\"<é>\"".as_bytes());
}

#[test]
fn lone_surrogates_become_replacement_characters() {
    for (text, expected) in
        [(r#""\ud83d\ude00""#, "😀"), (r#""\ud83dx""#, "\u{FFFD}x"), (r#""\ud83d\u0041""#, "\u{FFFD}A")]
    {
        assert_eq!(decode(text.as_bytes()).unwrap().as_str().unwrap().to_text(), expected);
    }
}

#[test]
fn indented_output_has_one_line_per_item() {
    let value = decode(br#"{"b":[1,{}],"a":{"c":[]}}"#).unwrap();
    let pretty = encode(&value, EscapeHtml::Yes, Layout::Indented).unwrap();
    assert_eq!(
        String::from_utf8(pretty).unwrap(),
        "{\n  \"a\": {\n    \"c\": []\n  },\n  \"b\": [\n    1,\n    {}\n  ]\n}"
    );
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth| [vec![b'['; depth], vec![b']'; depth]].concat();
    let value = decode(&nested(MAX_DEPTH)).unwrap();
    assert_eq!(compact(&value).len(), 2 * MAX_DEPTH);
    assert_eq!(decode(&nested(MAX_DEPTH + 1)).unwrap_err(), DecodeError::TooDeep);
    let deeper = Value::list(vec![value]);
    assert_eq!(encode(&deeper, EscapeHtml::Yes, Layout::Compact), Err(EncodeError::TooDeep(MAX_DEPTH)));
    assert!(decode(&vec![b'['; 10_000_000]).is_err());
}

#[test]
fn a_map_inside_itself_is_a_cycle() {
    let map = Map::default();
    map.insert("self", map.clone());
    let error = encode(&Value::Map(map.clone()), EscapeHtml::Yes, Layout::Compact).unwrap_err();
    assert_eq!(error.to_string(), "json: unsupported value: encountered a cycle via map[string]interface {}");
    map.entries_mut().clear();
}

#[test]
fn a_map_that_doubles_at_each_level_is_too_long() {
    let mut value = Value::from("x");
    for _ in 0..60 {
        value = Value::list(vec![value.clone(), value]);
    }
    assert_eq!(encode(&value, EscapeHtml::Yes, Layout::Compact), Err(EncodeError::TooLong(MAX_OUTPUT)));
}

#[test]
fn a_tighter_limit_ends_the_output_sooner() {
    let within = |most| encode_within(&Value::list(vec!["abc".into()]), EscapeHtml::No, Layout::Compact, most);
    assert_eq!(within(7), Ok(br#"["abc"]"#.to_vec()));
    assert_eq!(within(6), Err(EncodeError::TooLong(6)));
}

#[test]
fn values_convert_to_serde_and_back() {
    let text = r#"{"a":[1,2.5,null,true,"x"],"b":{"c":-7}}"#;
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(to_serde(&from_serde(&json)), json);
    assert_eq!(to_serde(&Value::Float(f64::NAN)), serde_json::Value::Null);
}
