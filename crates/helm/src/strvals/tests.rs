use std::fmt::Write as _;

use go_template::fmt::sprintf;

use super::*;

/// Recorded from Helm v4.3.1: mode, text, and the values as Go's `%#v` prints them, or the error.
const CASES: &str = include_str!("cases.tsv");

fn run(mode: &str, text: &str, into: &Map) -> Result {
    let read = |path: &str| match path {
        "bad" => Err("no file bad".into()),
        path => Ok(Value::from(format!("<{path}>"))),
    };
    match mode {
        "set" => parse_into(text, into),
        "string" => parse_into_string(text, into),
        "json" => parse_json(text, into),
        "literal" => parse_literal_into(text, into),
        _ => parse_into_file(text, into, &read),
    }
}

fn printed(mode: &str, text: &str) -> String {
    let values = Map::default();
    match run(mode, text, &values) {
        Ok(()) => String::from_utf8(sprintf(b"%#v", &[Value::Map(values)])).unwrap(),
        // Helm hides the reason for --set-json.
        Err(_) if mode == "json" => "error".to_owned(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn values_and_errors_match_helm() {
    let mut wrong = String::new();
    for case in CASES.lines() {
        let mut fields = case.splitn(3, '\t');
        let (mode, quoted) = (fields.next().unwrap(), fields.next().unwrap());
        let wanted = fields.next().unwrap();
        let text = match quoted {
            "\"DEEP\"" => "a.".repeat(31) + "b=1",
            "\"OK\"" => "a.".repeat(30) + "b=1",
            quoted => serde_json::from_str(quoted).unwrap(),
        };
        let got = printed(mode, &text);
        if got != wanted {
            writeln!(wrong, "{mode} {text:?}\n  got    {got}\n  wanted {wanted}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_indexes_of_a_name_are_those_that_the_parser_finds() {
    for (name, expected) in [
        ("a", 0),
        ("a[2].b[3]", 5),
        ("a[2][3]", 5),
        (r"a\[2]", 0),
        (r"a[1\2]", 12),
        ("a[x]", 0),
        ("a[-2]", 0),
        ("a[2", 2),
        ("a[9223372036854775807][18446744073709551615]", usize::MAX),
    ] {
        assert_eq!(sum_of_indexes(name), expected, "{name}");
    }
}

#[test]
fn values_are_added_to_existing_tables() {
    let values = Map::default();
    values.insert("a", [("x", "1"), ("y", "2")].into_iter().collect::<Map>());
    parse_into("a.y=3,b=4", &values).unwrap();
    let printed = sprintf(b"%v", &[Value::Map(values)]);
    assert_eq!(String::from_utf8(printed).unwrap(), "map[a:map[x:1 y:3] b:4]");
}

#[test]
fn integers_are_int64_and_json_numbers_float64() {
    let values = Map::default();
    parse_into("a=1", &values).unwrap();
    parse_json("b=1", &values).unwrap();
    assert_eq!(values.get("a").unwrap().type_name(), "int64");
    assert_eq!(values.get("b").unwrap().type_name(), "float64");
}

#[test]
fn nested_lists_are_bounded() {
    let nested = |levels: usize| format!("a{}=1", "[0]".repeat(levels));
    assert!(parse_into(&nested(MAX_NESTED_LISTS), &Map::default()).is_ok());
    let error = parse_into(&nested(100_000), &Map::default()).unwrap_err();
    assert_eq!(error.to_string(), "lists are nested deeper than the maximum supported level of 30");
    let tables = format!("a{}=1", "[0].b".repeat(100_000));
    assert_eq!(parse_into(&tables, &Map::default()).unwrap_err(), Error::ListsTooDeep);
}
