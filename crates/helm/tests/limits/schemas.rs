//! `values.schema.json`: recursive schemas, and patterns.

use std::fmt::Write as _;

use go_template::Map;

use super::{Cases, chart, file, is_error, render_chart};

/// Validates a table whose `a` is this text.
fn validate(schema: &str, text: &str) -> Result<(), String> {
    let files = vec![file("values.schema.json", schema), file("values.yaml", format!("a: '{text}'"))];
    render_chart(chart(files).unwrap(), &Map::default()).map(|_| ())
}

/// Each definition refers to the next one twice.
fn doubling() -> String {
    let mut schema = String::from("{\"$defs\":{");
    for i in 1..=60 {
        let next = format!("{{\"$ref\":\"#/$defs/d{i}\"}}");
        write!(schema, "\"d{}\":{{\"allOf\":[{next},{next}]}},", i - 1).unwrap();
    }
    schema + "\"d60\":{}},\"$ref\":\"#/$defs/d0\"}"
}

#[test]
fn recursive_schemas_terminate() {
    let mut cases = Cases::of(module_path!(), "recursive_schemas_terminate");
    let deep = format!("{}{}", "{\"properties\":{\"a\":".repeat(10_000), "}}".repeat(10_000));
    let refused = [
        ("{\"$ref\":\"#\"}".to_owned(), "causing reference cycle"),
        ("{\"allOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}".to_owned(), "causing reference cycle"),
        ("{\"$ref\":\"file:///etc/passwd\"}".to_owned(), "schemas outside of values.schema.json are not read"),
        (doubling(), "references are nested too deep"),
        (deep, "exceeded max depth"),
        (" ".repeat(6 << 20), "limit MAX_SCHEMA_BYTES"),
    ];
    for (schema, expected) in refused {
        cases.add(schema.clone(), move || is_error(validate(&schema, "x"), expected));
    }
    cases.add("a schema for its own properties", || {
        assert_eq!(validate("{\"properties\":{\"a\":{\"$ref\":\"#\"}}}", "x"), Ok(()));
    });
    cases.run();
}

#[test]
fn patterns_of_schemas_are_bounded() {
    let mut cases = Cases::of(module_path!(), "patterns_of_schemas_are_bounded");
    let pattern = |pattern: &str| format!("{{\"properties\":{{\"a\":{{\"pattern\":\"{pattern}\"}}}}}}");
    cases.add("a pattern that backtracks", move || {
        assert_eq!(validate(&pattern("(a+)+$"), &"a".repeat(10_000)), Ok(()))
    });
    let many = |count: usize, part: &str| {
        let patterns: Vec<String> = (0..count).map(|i| format!("\"{part}{i}\":{{}}")).collect();
        format!("{{\"patternProperties\":{{{}}}}}", patterns.join(","))
    };
    for (name, schema, expected) in [
        ("a pattern that repeats", pattern("((a{1000}){1000}){1000}"), "limit MAX_PATTERNS_SIZE"),
        ("a long pattern", pattern(&"a".repeat(100_000)), "limit MAX_PATTERN_BYTES"),
        ("many patterns with escapes", many(10_000, &"\\\\s".repeat(100)), "limit MAX_PATTERNS_READ"),
        ("many large patterns", many(10_000, "\\\\pL{400}"), "limit MAX_PATTERNS_SIZE"),
        ("many patterns", many(20_000, "^[a-z]"), "limit MAX_PATTERNS_SIZE"),
    ] {
        cases.add(name, move || is_error(validate(&schema, "x"), expected));
    }
    cases.add("fewer patterns", move || assert_eq!(validate(&many(4_000, "^[a-z]"), "x"), Ok(())));
    cases.add("a value that must be a pattern", || {
        let schema =
            "{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"properties\":{\"a\":{\"format\":\"regex\"}}}";
        is_error(validate(schema, &"\\s".repeat(100_000)), "limit MAX_PATTERNS_READ");
        assert_eq!(validate(schema, &"[a-z]+".repeat(100_000)), Ok(()));
    });
    cases.run();
}
