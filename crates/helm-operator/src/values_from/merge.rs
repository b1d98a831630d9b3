//! Merges contents and a `spec` into one `spec`. Chart defaults are merged below it, override values above.

use go_encoding::{json, yaml};
use go_template::{Map, Value};
use helm::strvals;
use helm::values::merge_maps;

use super::{Resolved, SourceKind};
use crate::mask::Mask;
use crate::values::{self, Spec};

/// The maximum size of all keys of one resource together, in bytes. A record contains the values, and must fit into a
/// Secret.
const MAX_BYTES: usize = 1 << 20;

/// The content of one source.
pub(crate) struct Found<'a> {
    pub(crate) source: &'a Resolved,
    /// The key's bytes; `None` if an optional object or key is missing.
    pub(crate) bytes: Option<&'a [u8]>,
}

/// The reason why sources cannot become values. Names the source and the line, but never a value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("{source_name}{line}: {what}")]
    Source { source_name: String, line: String, what: &'static str },
    #[error("valuesFrom: the sources have more than {MAX_BYTES} bytes")]
    TooLarge,
    #[error(transparent)]
    Spec(#[from] values::Error),
}

/// Returns the `spec` with the sources merged below it, in order, and a mask of what to redact.
///
/// # Errors
/// A source is too large, not valid YAML, not a map, or does not fit the maps below its target path.
pub(crate) fn merge(sources: &[Found<'_>], spec: &Spec) -> Result<(Spec, Mask), Error> {
    check_size(sources.iter().filter_map(|found| found.bytes).map(<[u8]>::len).sum())?;
    let (mut values, mut mask) = (Map::default(), Mask::default());
    for Found { source, bytes } in sources {
        let Some(bytes) = bytes else { continue };
        let value = match &source.target_path {
            Some(path) => at_path(source, path, bytes, &values)?,
            None => {
                let table = table(source, bytes)?;
                values = merge_maps(&values, &table);
                Value::Map(table)
            }
        };
        if source.key.kind == SourceKind::Secret {
            mask.add_secret(&value);
        }
    }
    let merged = Value::Map(merge_maps(&values, &spec.values()?));
    let text = json::encode(&merged, json::EscapeHtml::No, json::Layout::Compact);
    // Everything in it was decoded from JSON or YAML.
    let text = text.map_err(|_| values::Error::Unreadable("it has a value that JSON cannot represent"))?;
    Ok((Spec::new(&String::from_utf8_lossy(&text)), mask))
}

/// Checks the size of sources together, in bytes.
///
/// # Errors
/// [`Error::TooLarge`].
pub(crate) fn check_size(bytes: usize) -> Result<(), Error> {
    if bytes > MAX_BYTES { Err(Error::TooLarge) } else { Ok(()) }
}

/// Sets the text at the path, and returns it.
fn at_path(source: &Resolved, path: &str, bytes: &[u8], into: &Map) -> Result<Value, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| error(source, 0, "is not UTF-8 text"))?;
    let escaped: String = text.chars().flat_map(escape).collect();
    strvals::parse_into_string(&format!("{path}={escaped}"), into)
        .map_err(|_| error(source, 0, "its targetPath leads through a value that is not a table or a list"))?;
    Ok(text.into())
}

/// Puts a backslash before a character that has a meaning in `--set-string`.
fn escape(c: char) -> impl Iterator<Item = char> {
    matches!(c, '\\' | ',' | '{' | '}').then_some('\\').into_iter().chain([c])
}

/// Parses a YAML document into a map. Integers are `int64`, as in a `spec`, so that moving a value does not change what
/// templates print.
fn table(source: &Resolved, bytes: &[u8]) -> Result<Map, Error> {
    match yaml::parse_preserving_ints(bytes) {
        Ok(Value::Map(table)) => Ok(table),
        Ok(Value::Nil) => Ok(Map::default()),
        Ok(_) => Err(error(source, 0, "is not a table of values")),
        Err(yaml::Error::Syntax { line, .. }) => Err(error(source, line, "is not valid YAML")),
        Err(_) => Err(error(source, 0, "is not valid YAML")),
    }
}

fn error(source: &Resolved, line: usize, what: &'static str) -> Error {
    let line = if line == 0 { String::new() } else { format!(", line {line}") };
    Error::Source { source_name: source.to_string(), line, what }
}

#[cfg(test)]
mod tests {
    use super::super::{SourceKey, SourceKind};
    use super::*;

    fn source(path: Option<&str>) -> Resolved {
        let key = SourceKey { kind: SourceKind::Secret, namespace: "ns".into(), name: "web-values".into() };
        Resolved { key, values_key: "values.yaml".into(), target_path: path.map(str::to_owned), optional: false }
    }

    fn merged(sources: &[(Option<&str>, &[u8])], spec: &str) -> Result<String, String> {
        let resolved: Vec<_> = sources.iter().map(|(path, bytes)| (source(*path), bytes)).collect();
        let found: Vec<_> = resolved.iter().map(|(source, bytes)| Found { source, bytes: Some(bytes) }).collect();
        let (spec, _) = merge(&found, &Spec::new(spec)).map_err(|e| e.to_string())?;
        Ok(spec.json().unwrap().to_owned())
    }

    #[test]
    fn later_sources_win_over_earlier_ones_and_the_spec_over_all() {
        let sources: [(_, &[u8]); 2] = [(None, b"a: {i: 1, j: 1, k: 1}\nl: [1]"), (None, b"a: {j: 2, k: 2}\nm: null")];
        let expected = r#"{"a":{"i":1,"j":2,"k":3},"l":[1],"m":null}"#;
        assert_eq!(merged(&sources, r#"{"a":{"k":3}}"#).unwrap(), expected);
        assert_eq!(merged(&[], "null").unwrap(), "{}");
        assert_eq!(merged(&[(None, b"# nothing\n")], r#"{"a":1}"#).unwrap(), r#"{"a":1}"#);
    }

    #[test]
    fn a_target_path_takes_the_text_as_it_is() {
        for text in ["true", "1,b=2", "{a,b}", r"C:\x", "a: [\n", "", "line\nline\n", "\\", "ü=,"] {
            let expected = serde_json::json!({"a": {"b": text}});
            let merged = merged(&[(Some("a.b"), text.as_bytes())], "{}").unwrap();
            assert_eq!(serde_json::from_str::<serde_json::Value>(&merged).unwrap(), expected, "{text:?}");
        }
        let sources: [(_, &[u8]); 2] = [(None, b"a: {c: 1}"), (Some("a.b"), b"x")];
        assert_eq!(merged(&sources, r#"{"d":1.5}"#).unwrap(), r#"{"a":{"b":"x","c":1},"d":1.5}"#);
    }

    #[test]
    fn an_error_names_source_key_and_line_and_never_a_value() {
        let text = "Secret \"web-values\", key \"values.yaml\"";
        for (path, bytes, expected) in [
            (None, &b"a: 1\nb: [s3cret\nc: 2"[..], format!("{text}, line 2: is not valid YAML")),
            (None, b"- s3cret", format!("{text}: is not a table of values")),
            (None, b"s3cret", format!("{text}: is not a table of values")),
            (Some("a"), b"s3cret\xff", format!("{text}: is not UTF-8 text")),
        ] {
            assert_eq!(merged(&[(path, bytes)], "{}").unwrap_err(), expected);
        }
        let through: [(_, &[u8]); 2] = [(None, b"a: s3cret"), (Some("a.b"), b"s3cret")];
        let expected = format!("{text}: its targetPath leads through a value that is not a table or a list");
        assert_eq!(merged(&through, "{}").unwrap_err(), expected);
        assert_eq!(merged(&[(None, b"a: 1")], "[1]").unwrap_err(), "spec must be a map of values, got array");
    }

    #[test]
    fn the_size_of_all_sources_together_is_limited() {
        let half = format!("a: {}", "x".repeat(MAX_BYTES / 2)).into_bytes();
        assert!(merged(&[(None, &half)], "{}").is_ok());
        let expected = "valuesFrom: the sources have more than 1048576 bytes";
        assert_eq!(merged(&[(None, &half), (None, &half)], "{}").unwrap_err(), expected);
    }

    #[test]
    fn only_values_of_secrets_are_hidden() {
        let (secret, mut map) = (source(None), source(None));
        map.key.kind = SourceKind::ConfigMap;
        let found = |source, bytes: &'static [u8]| Found { source, bytes: Some(bytes) };
        let (_, mask) = merge(&[found(&secret, b"a: hunter2"), found(&map, b"b: public")], &Spec::new("{}")).unwrap();
        assert_eq!(mask.hide("hunter2 is public".into()), "**** is public");
    }
}
