//! `values.schema.json`: recursive schemas, and patterns.

use std::fmt::Write as _;

use go_template::Map;

use super::{Cases, chart, file, is_error, render_chart};

/// Validates a table whose key `a` holds this text.
fn validate(schema: &str, text: &str) -> Result<(), String> {
    let files = vec![file("values.schema.json", schema), file("values.yaml", format!("a: '{text}'"))];
    render_chart(chart(files).unwrap(), &Map::default()).map(|_| ())
}

/// Returns a schema in which each definition refers to the next one twice.
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
        ("{\"$ref\":\"file:///etc/passwd\"}".to_owned(), "it is not a file of the chart"),
        (doubling(), "limit MAX_STEPS"),
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

/// Validates values that are given as YAML.
fn validate_all(schema: &str, values: &str) -> Result<(), String> {
    let files = vec![file("values.schema.json", schema), file("values.yaml", values)];
    render_chart(chart(files).unwrap(), &Map::default()).map(|_| ())
}

/// Returns nested maps with the key `a`.
fn deep(levels: usize) -> String {
    format!("a: {}1{}", "{a: ".repeat(levels), "}".repeat(levels))
}

/// Returns the definitions from `d0` on. The last one is `end`.
fn definitions(count: usize, body: impl Fn(usize) -> String, end: &str) -> String {
    let all: Vec<String> = (0..count).map(|i| format!("\"d{i}\":{}", body(i))).collect();
    format!("\"$defs\":{{{},\"d{count}\":{end}}}", all.join(","))
}

#[test]
fn schemas_that_recurse_with_values_are_bounded() {
    let mut cases = Cases::of(module_path!(), "schemas_that_recurse_with_values_are_bounded");
    let own = "{\"$ref\":\"#/$defs/a\"}";
    let branches = |keyword: &str, left: &str, right: &str| {
        let branch = |extra: &str| format!("{{\"properties\":{{\"a\":{own}}}{extra}}}");
        format!("{{\"$defs\":{{\"a\":{{\"{keyword}\":[{},{}]}}}},\"$ref\":\"#/$defs/a\"}}", branch(left), branch(right))
    };
    let next = |i: usize| format!("{{\"$ref\":\"#/$defs/d{}\"}}", i + 1);
    let twice = |url: &str| {
        let body = |i: usize| format!("{{\"allOf\":[{0},{0}]}}", format!("{{\"$ref\":\"{url}#/$defs/d{}\"}}", i + 1));
        format!("{{{},\"$ref\":\"#/$defs/d0\"}}", definitions(45, body, "{}"))
    };
    let chain = definitions(1500, next, "{\"additionalProperties\":{\"$ref\":\"#/$defs/d0\"}}");
    let errors = definitions(17, |i| format!("{{\"allOf\":[{0},{0}]}}", next(i)), "{\"type\":\"string\"}");
    let latest = "\"$schema\":\"https://json-schema.org/draft/2020-12/schema\"";
    for (name, schema, values) in [
        ("oneOf", branches("oneOf", "", ",\"required\":[\"z\"]"), deep(30)),
        ("anyOf", branches("anyOf", ",\"required\":[\"z\"]", ",\"required\":[\"q\"]"), deep(40)),
        ("references to the document by name", twice("values.schema.json"), "a: 1".to_owned()),
        ("references to the document by URL", twice("file:///values.schema.json"), "a: 1".to_owned()),
        (
            "chains below an $id",
            format!("{{\"allOf\":[{{\"$id\":\"http://e/s\",\"$ref\":\"#/$defs/d0\",{chain}}}]}}"),
            deep(450),
        ),
        ("chains", format!("{{\"$ref\":\"#/$defs/d0\",{chain}}}"), deep(450)),
        (
            "patterns that overlap",
            "{\"patternProperties\":{\"a\":{\"$ref\":\"#\"},\"^a\":{\"$ref\":\"#\"},\"a$\":{\"$ref\":\"#\"}}}"
                .to_owned(),
            deep(30),
        ),
        (
            "$dynamicRef",
            format!(
                "{{{latest},\"$dynamicAnchor\":\"x\",\"allOf\":[{0},{0},{0}]}}",
                "{\"additionalProperties\":{\"$dynamicRef\":\"#x\"}}"
            ),
            deep(40),
        ),
        (
            "$recursiveRef",
            format!(
                "{{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"$recursiveAnchor\":true,\"allOf\":[{0},{0},{0}]}}",
                "{\"additionalProperties\":{\"$recursiveRef\":\"#\"}}"
            ),
            deep(40),
        ),
        (
            "unevaluatedProperties",
            format!(
                "{{{latest},\"$defs\":{{\"a\":{{\"allOf\":[{0},{0}],\"unevaluatedProperties\":false}}}},\"$ref\":\"#/$defs/a\"}}",
                format!("{{\"properties\":{{\"a\":{own}}}}}")
            ),
            deep(40),
        ),
        (
            "errors that double",
            format!("{{{errors},\"properties\":{{\"l\":{{\"items\":{{\"$ref\":\"#/$defs/d0\"}}}}}}}}"),
            "l: [1,2,3,4,5,6,7,8]".to_owned(),
        ),
    ] {
        cases.add(name, move || is_error(validate_all(&schema, &values), "unable to validate schema: it"));
    }
    cases.run();
}

#[test]
fn long_lists_in_schemas_are_bounded() {
    let mut cases = Cases::of(module_path!(), "long_lists_in_schemas_are_bounded");
    let list = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let keys = |count: usize| (0..count).map(|i| format!("k{i}: 1\n")).collect::<String>();
    let texts = list(1000, &|i| format!("\"{i}{}\"", "x".repeat(100)));
    let required = list(5000, &|i| format!("\"k{i}\":[{}]", list(100, &|j| format!("\"r{j}\""))));
    let lists = list(1000, &|i| format!("[{}]", list(500, &|_| i.to_string())));
    for (name, schema, values, expected) in [
        (
            "300,000 properties",
            format!("{{\"properties\":{{{}}}}}", list(300_000, &|i| format!("\"p{i}\":true"))),
            String::new(),
            "limit MAX_SUBSCHEMAS",
        ),
        (
            "1,000,000 schemas",
            format!("{{\"allOf\":[{}]}}", list(1_000_000, &|_| "{}".into())),
            String::new(),
            "limit MAX_S",
        ),
        (
            "600,000 numbers",
            format!("{{\"enum\":[{}]}}", list(600_000, &|i| i.to_string())),
            String::new(),
            "limit MAX_SCHEMA_NODES",
        ),
        (
            "1,000 texts for 90,000 values",
            format!("{{\"additionalProperties\":{{\"enum\":[{texts}]}}}}"),
            keys(90_000),
            "limit MAX_STEPS",
        ),
        (
            "100 names for 5,000 properties",
            format!("{{\"dependentRequired\":{{{required}}}}}"),
            keys(5000),
            "limit MAX_S",
        ),
        (
            "1,000 lists for 1,000 lists",
            format!("{{\"properties\":{{\"l\":{{\"items\":{{\"enum\":[{lists}]}}}}}}}}"),
            format!("l: [{}]", list(1000, &|_| format!("[{}]", list(500, &|_| "1".into())))),
            "limit MAX_S",
        ),
        (
            "2,000 patterns for 20,000 properties",
            format!("{{\"patternProperties\":{{{}}}}}", list(2000, &|i| format!("\"{i}.*b\":{{}}"))),
            keys(20_000),
            "limit MAX_STEPS",
        ),
    ] {
        cases.add(name, move || is_error(validate_all(&schema, &values), expected));
    }
    cases.run();
}

#[test]
fn errors_of_schemas_keep_both_ends() {
    let mut cases = Cases::of(module_path!(), "errors_of_schemas_keep_both_ends");
    let keys = || (0..50_000).map(|i| format!("k{i}: 1\n")).collect::<String>();
    let texts: Vec<String> = (0..1000).map(|i| format!("\"{i}{}\"", "x".repeat(100))).collect();
    for (name, schema, values, end) in [
        ("names", "{\"additionalProperties\":false}".to_owned(), keys(), "not allowed"),
        ("lines", "{\"additionalProperties\":{\"type\":\"string\"}}".to_owned(), keys(), "- and more"),
        (
            "choices",
            format!("{{\"additionalProperties\":{{\"enum\":[{}]}}}}", texts.join(",")),
            "a: 1\nb: 2".to_owned(),
            "- and more",
        ),
        (
            "a text",
            "{\"properties\":{\"a\":{\"pattern\":\"^b\"}}}".to_owned(),
            format!("a: {}", "a".repeat(200_000)),
            "does not match pattern '^b'",
        ),
        (
            "a schema's own errors",
            format!(
                "{{\"properties\":{{{}}}}}",
                (0..20_000).map(|i| format!("\"k{i}\":1")).collect::<Vec<_>>().join(",")
            ),
            String::new(),
            "- and more",
        ),
    ] {
        cases.add(name, move || {
            let error = validate_all(&schema, &values).unwrap_err();
            assert!(error.contains("c:\n") && error.trim_end().ends_with(end), "{error}");
            is_error(Err::<(), _>(error), "bytes left out");
        });
    }
    cases.run();
}

#[test]
fn honest_schemas_stay_within_their_limits() {
    let mut cases = Cases::of(module_path!(), "honest_schemas_stay_within_their_limits");
    let list = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let definitions = list(600, &|i| {
        let properties = list(10, &|j| format!("\"x{j}\":{{\"$ref\":\"#/$defs/D{}\"}}", (i * 7 + j * 13) % 600));
        format!("\"D{i}\":{{\"type\":\"object\",\"properties\":{{{properties}}}}}")
    });
    let properties = list(600, &|i| format!("\"p{i}\":{{\"$ref\":\"#/$defs/D{i}\"}}"));
    let kubernetes = format!("{{\"$defs\":{{{definitions}}},\"properties\":{{{properties}}}}}");
    cases.add("600 definitions of Kubernetes", move || {
        assert_eq!(validate_all(&kubernetes, "p1: {x1: {x2: {x3: {}}}}"), Ok(()));
    });
    // Several applications bundle the schemas of their parts, and a part may contain itself.
    let bundle = "{\"$defs\":{\"node\":{\"$id\":\"node.json\",\"type\":\"object\",\"properties\":{\"next\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#\"}]}}}},                  \"additionalProperties\":{\"$ref\":\"node.json\"}}";
    cases.add("a bundled schema that contains itself, 100 deep", move || {
        let chain = format!("a: {}{{}}{}", "{next: ".repeat(100), "}".repeat(100));
        assert_eq!(validate_all(bundle, &chain), Ok(()));
        is_error(validate_all(bundle, "a: {next: {next: 1}}"), "got number, want object");
    });
    cases.add("20,000 keys with three rules each", || {
        let schema = "{\"additionalProperties\":{\"type\":\"string\",\"minLength\":1,\"pattern\":\"^v\"}}";
        let values: String = (0..20_000).map(|i| format!("k{i}: v{i}\n")).collect();
        assert_eq!(validate_all(schema, &values), Ok(()));
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
