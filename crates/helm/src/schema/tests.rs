use std::fmt::Write as _;

use go_template::Map;
use serde_json::Value as Json;

use super::*;
use go_encoding::json;

/// Recorded from Helm v4.3.1, one object per line: schema, values as JSON, and the error or an empty text.
const CASES: &str = include_str!("cases.jsonl");

fn compile(schema: &str) -> Result<Schema, InvalidSchema> {
    Schema::compile(schema.as_bytes())
}

fn check(schema: &str, values: &Map) -> Result<(), String> {
    let schema = compile(schema).map_err(|error| error.to_string())?;
    schema.validate(values).map_err(|violations| violations.text)
}

fn values(text: &str) -> Map {
    json::into_map(json::decode(text.as_bytes()).unwrap()).unwrap()
}

#[test]
fn errors_match_helm() {
    let mut wrong = String::new();
    for case in CASES.lines() {
        let case: Json = serde_json::from_str(case).unwrap();
        let field = |name: &str| case.get(name).and_then(Json::as_str).unwrap();
        let got = check(field("schema"), &values(field("values"))).err().unwrap_or_default();
        if got != field("error") {
            writeln!(wrong, "{} {}\n  got    {got:?}\n  wanted {:?}", field("schema"), field("values"), field("error"))
                .unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_document_that_was_not_read_is_an_error_with_its_url() {
    for (reference, url) in [
        ("file:///etc/passwd", "file:///etc/passwd"),
        ("http://127.0.0.1:1/x.json#/a", "http://127.0.0.1:1/x.json"),
        ("https://localhost/x", "https://localhost/x"),
        ("other.json", "file:///other.json"),
    ] {
        let error = compile(&format!(r#"{{"properties":{{"a":{{"$ref":"{reference}"}}}}}}"#)).unwrap_err();
        assert_eq!(error, InvalidSchema::NotRead(url.to_owned()));
        assert_eq!(error.to_string(), format!("failing loading \"{url}\": it is not a file of the chart"));
    }
    assert!(check(r#"{"properties":{"a":{"$ref":"urn:x:y"}}}"#, &values(r#"{"a":1}"#)).is_ok());
}

/// Compiles a schema whose references lead to these documents.
fn with_documents(schema: &str, documents: &[(&str, &str)]) -> Result<Schema, InvalidSchema> {
    let read = &mut |url: &url::Url| {
        documents.iter().find(|(known, _)| *known == url.as_str()).map(|(_, text)| go_template::Str::from(*text))
    };
    Schema::compile_with(schema.as_bytes(), &Documents::collect(schema.as_bytes(), read))
}

/// The texts are those of Helm v4.3.1.
#[test]
fn values_are_validated_against_other_documents_too() {
    let schema = r#"{"properties":{"a":{"$ref":"file://./helm-charts/c/d.json#/definitions/port"}}}"#;
    let document = r##"{"definitions":{"port":{"allOf":[{"$ref":"#/definitions/number"}],"maximum":9},"number":{"type":"integer"},
        "name":{"pattern":"^\\d+$"}},"properties":{"a":{"$ref":"#/definitions/name"}}}"##;
    let documents = [("file://./helm-charts/c/d.json", document)];
    let check = |schema: &str, of: &str| {
        let schema = with_documents(schema, &documents).unwrap();
        schema.validate(&values(of)).map_err(|violations| violations.text).err().unwrap_or_default()
    };
    assert_eq!(check(schema, r#"{"a":9}"#), "");
    assert_eq!(check(schema, r#"{"a":10}"#), "- at '/a': maximum: got 10, want 9\n");
    let expected = "- at '/a': 'allOf' failed\n  - at '/a': got string, want integer\n";
    assert_eq!(check(schema, r#"{"a":"x"}"#), expected);
    let whole = r#"{"$ref":"file://./helm-charts/c/d.json"}"#;
    assert_eq!(check(whole, r#"{"a":"x"}"#), "- at '/a': 'x' does not match pattern '^\\\\d+$'\n");
}

#[test]
fn other_documents_must_be_schemas_and_count_towards_every_limit() {
    let schema = r#"{"properties":{"a":{"$ref":"d.json"}}}"#;
    let with = |text: &str| with_documents(schema, &[("file:///d.json", text)]);
    assert_eq!(with("{").unwrap_err().to_string(), "failing loading \"file:///d.json\": unexpected EOF");
    assert!(with(r#"{"type":1}"#).unwrap_err().to_string().contains("is not valid against metaschema"));
    assert!(
        with(r#"{"pattern":"((a{1000}){1000}){1000}"}"#).unwrap_err().to_string().contains("limit MAX_PATTERNS_SIZE")
    );
    let twice = |i| format!(r##"{{"allOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##, i + 1);
    let doubling =
        definitions(40, &twice).replace(r##""properties":{"a":{"$ref":"#/$defs/d0"}}"##, r##""$ref":"#/$defs/d0""##);
    let error = with(&doubling).unwrap().validate(&values(r#"{"a":1}"#)).unwrap_err();
    assert!(error.text.contains("limit MAX_STEPS"), "{}", error.text);
    let cut = with_documents(r#"{"$ref":"d.json"}"#, &[("file:///d.json", &" ".repeat(MAX_SCHEMA_BYTES))]);
    assert_eq!(cut.unwrap_err(), InvalidSchema::TooManyDocuments);
}

#[test]
fn recursive_schemas_terminate() {
    let tree = r##"{"properties":{"a":{"$ref":"#"}},"additionalProperties":false}"##;
    let deep = format!("{}{}", r#"{"a":"#.repeat(300), "{}") + &"}".repeat(300);
    assert!(check(tree, &values(&deep)).is_ok());
}

/// Returns definitions from `d0` on, and a property `a` that refers to the first.
fn definitions(count: usize, body: &dyn Fn(usize) -> String) -> String {
    let all: Vec<String> = (0..count).map(|i| format!(r#""d{i}":{}"#, body(i))).collect();
    format!(r##"{{"properties":{{"a":{{"$ref":"#/$defs/d0"}}}},"$defs":{{{},"d{count}":true}}}}"##, all.join(","))
}

#[test]
fn chains_and_branches_are_bounded() {
    let limit = |schema: &str, limit: &str| {
        let error = check(schema, &values(r#"{"a":1}"#)).unwrap_err();
        assert!(error.starts_with("unable to validate schema: ") && error.contains(limit), "{error}");
    };
    let chain = |count| definitions(count, &|i| format!(r##"{{"$ref":"#/$defs/d{}"}}"##, i + 1));
    assert!(check(&chain(400), &values(r#"{"a":1}"#)).is_ok());
    limit(&chain(100_000), "limit MAX_SUBSCHEMAS");
    limit(&chain(MAX_NESTING + 10), "limit MAX_NESTING");
    let twice = |i| format!(r##"{{"allOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##, i + 1);
    limit(&definitions(40, &twice), "limit MAX_STEPS");
    let ids = definitions(100_000, &|i| format!(r##"{{"$id":"u{i}","$ref":"u{}"}}"##, i + 1));
    assert!(check(&ids, &values(r#"{"a":1}"#)).is_err());
}

#[test]
fn references_by_name_count_whatever_their_form() {
    let forms: [(&str, &dyn Fn(usize) -> String); 6] = [
        ("", &|i| format!("#/$defs/d{i}")),
        ("", &|i| format!("values.schema.json#/$defs/d{i}")),
        ("", &|i| format!("./x/../values.schema.json#/%24defs/d{i}")),
        (r#""$id":"http://a.b/c/d?e","#, &|i| format!("?e#/$defs/d{i}")),
        (r#""$id":"http://a.b/c/d","#, &|i| format!("http://A.B/c/%64/../d#/$defs/d{i}")),
        (r#""$id":"urn:a:b","#, &|i| format!("urn:a:b#/$defs/d{i}")),
    ];
    for (id, form) in forms {
        let body = |i: usize| format!(r#"{{"allOf":[{{"$ref":"{0}"}},{{"$ref":"{0}"}}]}}"#, form(i + 1));
        let schema = definitions(40, &body).replacen('{', &format!("{{{id}"), 1);
        // Some forms lead nowhere for the validator, which is just as good.
        let error = check(&schema, &values(r#"{"a":1}"#)).unwrap_err();
        assert!(error.contains("limit MAX_STEPS") || error.contains("failing loading"), "{}: {error}", form(0));
    }
    let anchors = definitions(40, &|i| {
        format!(r##"{{"$anchor":"n{i}","allOf":[{{"$ref":"#n{0}"}},{{"$ref":"#n{0}"}}]}}"##, (i + 1).min(39))
    });
    assert!(check(&anchors, &values(r#"{"a":1}"#)).is_err());
}

#[test]
fn schemas_may_refer_to_metaschemas_but_not_extend_them() {
    let metaschema = "https://json-schema.org/draft/2020-12/schema";
    let refers = format!(r#"{{"properties":{{"a":{{"$ref":"{metaschema}"}}}}}}"#);
    assert!(check(&refers, &values(r#"{"a":{"type":"string"}}"#)).is_ok());
    assert!(check(&refers, &values(r#"{"a":{"type":1}}"#)).is_err());
    let many = serde_json::json!({"a": {"enum": (0..20_000).collect::<Vec<_>>()}}).to_string();
    assert!(check(&refers, &values(&many)).unwrap_err().contains("limit MAX_STEPS"));
    let extends = format!(r#"{{"$dynamicAnchor":"meta","$ref":"{metaschema}"}}"#);
    assert!(check(&extends, &values("{}")).unwrap_err().contains("extends a metaschema"));
}

#[test]
fn the_deepest_allowed_recursion_fits_the_stack() {
    let schema = |levels: usize| {
        let all: Vec<String> =
            (0..levels).map(|i| format!(r##""d{i}":{{"allOf":[{{"$ref":"#/$defs/d{}"}}]}}"##, i + 1)).collect();
        format!(
            r##"{{"$ref":"#/$defs/d0","$defs":{{{},"d{levels}":{{"properties":{{"a":{{"$ref":"#/$defs/d0"}}}},"required":["z"]}}}}}}"##,
            all.join(",")
        )
    };
    let deep = |levels: usize| values(&format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels)));
    let error = check(&schema(25), &deep(100)).unwrap_err();
    assert!(error.starts_with("- at '"), "{error:.1000}");
    let error = check(&schema(2), &deep(450)).unwrap_err();
    assert!(error.starts_with("- at '"), "{error:.1000}");
    assert!(check(&schema(100), &deep(450)).unwrap_err().contains("limit MAX_"));
}

#[test]
fn patterns_are_bounded() {
    let one = |pattern: &str| serde_json::json!({"properties": {"a": {"pattern": pattern}}});
    let many = |patterns: Vec<String>| {
        let patterns: serde_json::Map<String, Json> = patterns.into_iter().map(|p| (p, true.into())).collect();
        serde_json::json!({"patternProperties": patterns})
    };
    for (schema, limit) in [
        (one(&"a".repeat(MAX_PATTERN_BYTES)), ""),
        (one(&"a".repeat(MAX_PATTERN_BYTES + 1)), "MAX_PATTERN_BYTES: 4096 bytes"),
        (one("((a{1000}){1000}){1000}"), "MAX_PATTERNS_SIZE: 67108864 bytes"),
        (one("((\\d{100}){100}){10}"), "MAX_PATTERNS_SIZE: 67108864 bytes"),
        (many((0..100).map(|i| format!("\\pL{{100}}{i}")).collect()), "MAX_PATTERNS_SIZE: 67108864 bytes"),
        (many((0..30).map(|i| format!("{}{i}", "\\s".repeat(100))).collect()), ""),
        (many((0..2000).map(|i| format!("{}{i}", "\\s".repeat(100))).collect()), "MAX_PATTERNS_"),
        (many((0..2000).map(|i| format!("^[a-z]{i}$")).collect()), ""),
    ] {
        let error = check(&schema.to_string(), &values(r#"{"a":"a"}"#)).err().unwrap_or_default();
        let is_limit = error.starts_with("unable to validate schema: its patterns are too large, with '");
        assert_eq!(is_limit, !limit.is_empty(), "{error}");
        assert!(error.contains(limit), "{limit}: {error}");
    }
}

#[test]
fn malformed_patterns_are_errors_in_each_draft() {
    let drafts =
        ["draft-04/schema#", "draft-06/schema#", "draft-07/schema#", "draft/2019-09/schema", "draft/2020-12/schema"];
    let wrong = ["(", "(?=a)", "\\a", "a{9999999999}", "[[:alpha:]", "\\pD", "\\cA\\pD", "\\p{x}", "\\c1"];
    let right = ["[\\dx]", "(?x)[ \\s]", "\\w[\\s\\S]\\D", "\\p{Greek}"];
    for draft in drafts {
        let scheme = if draft.starts_with("draft-") { "http" } else { "https" };
        let head = format!(r#""$schema":"{scheme}://json-schema.org/{draft}""#);
        for pattern in wrong.iter().chain(&right) {
            let text = serde_json::to_string(pattern).unwrap();
            for keyword in [format!(r#""pattern":{text}"#), format!(r#""patternProperties":{{{text}:{{}}}}"#)] {
                let result = check(&format!("{{{head},{keyword}}}"), &values("{}"));
                assert_eq!(result.is_err(), wrong.contains(pattern), "{draft} {keyword}: {result:?}");
            }
        }
    }
}

#[test]
fn violations_without_values_keep_place_and_rule() {
    let check = |schema: &str, expected: &str| {
        let schema =
            format!(r#"{{"$schema":"http://json-schema.org/draft-07/schema#","properties":{{"p":{schema}}}}}"#);
        let schema = compile(&schema).unwrap();
        for (value, secret) in [(r#"{"p":"hunter2"}"#, "hunter2"), (r#"{"p":90210}"#, "90210")] {
            let Err(violations) = schema.validate(&values(value)) else { continue };
            assert!(!violations.without_values.contains(secret), "{}", violations.without_values);
            assert!(violations.without_values.starts_with("- at '/p': "), "{}", violations.without_values);
            assert!(violations.without_values.contains(expected), "{}", violations.without_values);
        }
    };
    check(r#"{"type":"boolean"}"#, "want boolean");
    check(r#"{"type":"string","pattern":"^[A-Z]+$"}"#, "");
    check(r#"{"pattern":"^[A-Z]+$"}"#, "value does not match pattern '^[A-Z]+$'");
    check(r#"{"format":"ipv4"}"#, "value is not valid ipv4");
    check(r#"{"enum":["a","b"]}"#, "value must be one of 'a', 'b'");
    check(r#"{"maximum":9}"#, "maximum: want 9");
    check(r#"{"minimum":99999}"#, "minimum: want 99,999");
    check(r#"{"multipleOf":7}"#, "multipleOf: want 7");
    check(r#"{"minLength":20}"#, "minLength: got 7, want 20");
    check(r#"{"anyOf":[{"pattern":"^x"},{"format":"uuid"}]}"#, "'anyOf' failed");
}
