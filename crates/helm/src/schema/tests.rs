use std::sync::Arc;

use super::*;
use crate::chart::{Chart, File, resolve};

fn complaint(schema: &str, values: &str) -> String {
    let chart_yaml = "apiVersion: v2\nname: c\nversion: 1.0.0\n";
    let files = [("Chart.yaml", chart_yaml), ("values.schema.json", schema)];
    let files = files.iter().map(|(name, data)| File { name: (*name).to_owned(), data: (*data).into() }).collect();
    let chart: Arc<Chart> = Chart::load_files(files).unwrap();
    let values = crate::values::read(values.as_bytes()).unwrap();
    let view = resolve(&chart, &values, &mut Vec::new()).unwrap();
    validate(&view, &values).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn complaints_have_the_go_librarys_words() {
    for (schema, values, wanted) in [
        (r#"{"properties": {"a": {"type": "string"}}}"#, "a: 1", "c:\n- at '/a': got number, want string\n"),
        (r#"{"required": ["a", "b"]}"#, "{}", "c:\n- at '': missing properties 'a', 'b'\n"),
        (r#"{"additionalProperties": false}"#, "x: 1", "c:\n- at '': additional properties 'x' not allowed\n"),
        (r#"{"properties": {"a": {"minimum": 1}}}"#, "a: 0", "c:\n- at '/a': minimum: got 0, want 1\n"),
        (r#"{"properties": {"a": {"enum": ["x", "y"]}}}"#, "a: z", "c:\n- at '/a': value must be one of 'x', 'y'\n"),
        (r#"{"properties": {"a": {"pattern": "^x$"}}}"#, "a: z", "c:\n- at '/a': 'z' does not match pattern '^x$'\n"),
        (
            r#"{"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}"#,
            "a: 1",
            "c:\n- at '/a': 'anyOf' failed\n  - at '/a': got number, want string\n  - at '/a': got number, want null\n",
        ),
        (
            r##"{"properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": "string"}}}"##,
            "a: 1",
            "c:\n- at '/a': got number, want string\n",
        ),
        (r#"{"type": "object"}"#, "a: 1", ""),
    ] {
        assert_eq!(complaint(schema, values), wanted, "{schema}");
    }
}

#[test]
fn files_and_addresses_are_never_read() {
    for url in ["file:///etc/passwd", "https://127.0.0.1:1/x.json", "other.json"] {
        let text = complaint(&format!(r#"{{"$ref": "{url}"}}"#), "a: 1");
        assert!(text.starts_with("c:\n") && text.contains("schemas are read from the chart alone"), "{url}: {text}");
    }
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let schema = r##"{"$ref": "#"}"##;
    assert!(!complaint(schema, "a: 1").is_empty());
}
