//! Merges contents and a `spec` into one `spec`. Chart defaults are merged below it, override values above.

use go_encoding::{json, yaml};
use go_template::{Map, Value};
use helm::strvals;
use helm::values::merge_maps;

use super::{Resolved, SourceKind};
use crate::mask::Mask;
use crate::values::{self, MAX_SPEC_BYTES, MAX_SPEC_VALUES, Spec, count_values};

/// The maximum size of all keys of one resource together, in bytes. A record contains the values, and must fit into a
/// Secret.
const MAX_BYTES: usize = 1 << 20;

/// The maximum size of the merged values, in bytes of JSON: that of the sources and that of a `spec`.
const MAX_MERGED_BYTES: usize = MAX_BYTES + MAX_SPEC_BYTES;

/// The description of a source that is not YAML.
const INVALID: &str = "is not valid YAML";

/// The description of a source with too many values. A short text can contain very many of them.
const TOO_MANY: &str = "has too many values, aliases counted each time (limit MAX_SPEC_VALUES of 100000 for the spec \
                        and all sources together): use fewer, or pass lists as text";

/// The description of a source whose aliases repeat too much.
const TOO_REPETITIVE: &str = "has aliases that repeat too much text (limit MAX_BYTES of 1 MiB for the text of all \
                              sources together): shorten what they repeat";

/// The content of one source.
pub(crate) struct FoundSource<'a> {
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
    #[error(
        "valuesFrom: merged with the spec, the sources have more than {MAX_MERGED_BYTES} bytes of JSON (limit \
         MAX_MERGED_BYTES): shorten them"
    )]
    MergedTooLarge,
    #[error(
        "valuesFrom: merged with the spec, the sources have more than {MAX_SPEC_VALUES} values (limit \
         MAX_SPEC_VALUES): use fewer, or pass lists as text"
    )]
    TooMany,
    #[error(transparent)]
    Spec(#[from] values::Error),
}

/// Returns the `spec` with the sources merged below it, in order, and a mask of what to redact.
///
/// # Errors
/// A source is not valid YAML, not a map, or does not fit the maps below its target path; or the sources together are
/// too large, or expand to too much.
pub(crate) fn merge(sources: &[FoundSource<'_>], spec: &Spec) -> Result<(Spec, Mask), Error> {
    check_size(sources.iter().filter_map(|found| found.bytes).map(<[u8]>::len).sum())?;
    let (mut values, mut mask, mut left) = (Map::default(), Mask::default(), most(spec)?);
    for FoundSource { source, bytes } in sources {
        let Some(bytes) = bytes else { continue };
        let value = match &source.target_path {
            Some(path) => at_path(source, path, bytes, &values)?,
            None => {
                let table = table(source, bytes, left)?;
                values = merge_maps(&values, &table);
                let table = Value::Map(table);
                subtract(&mut left, &table);
                table
            }
        };
        if source.key.kind == SourceKind::Secret {
            mask.add_secret(&value);
        }
    }
    let merged = Value::Map(merge_maps(&values, &spec.values()?));
    Ok((encoded(&merged)?, mask))
}

/// Returns the limits on what the sources expand to. The `spec` takes a part of the values.
fn most(spec: &Spec) -> Result<yaml::Most, Error> {
    let values = MAX_SPEC_VALUES.saturating_sub(count_values(spec.json()?.as_bytes()));
    Ok(yaml::Most { values, repeated: MAX_BYTES })
}

/// Subtracts a value from what is left of the limits. Its text counts even where no alias repeats it.
fn subtract(left: &mut yaml::Most, value: &Value) {
    left.values = left.values.saturating_sub(1);
    match value {
        Value::String(text) => left.repeated = left.repeated.saturating_sub(text.len()),
        Value::List(items) => items.iter().for_each(|item| subtract(left, item)),
        Value::Map(map) => {
            for (key, inner) in map.peek().iter() {
                left.values = left.values.saturating_sub(1);
                left.repeated = left.repeated.saturating_sub(key.len());
                subtract(left, inner);
            }
        }
        _ => {}
    }
}

/// Encodes merged values, if they are within the limits.
fn encoded(merged: &Value) -> Result<Spec, Error> {
    let text = json::encode_within(merged, json::EscapeHtml::No, json::Layout::Compact, MAX_MERGED_BYTES);
    let text = text.map_err(|error| match error {
        json::EncodeError::TooLong(_) => Error::MergedTooLarge,
        // Everything in it was decoded from JSON or YAML.
        _ => values::Error::Unreadable("it has a value that JSON cannot represent").into(),
    })?;
    match count_values(&text) {
        values if values > MAX_SPEC_VALUES => Err(Error::TooMany),
        _ => Ok(Spec::new(&String::from_utf8_lossy(&text))),
    }
}

/// Checks the size of sources together, in bytes.
///
/// # Errors
/// [`Error::TooLarge`].
pub(super) fn check_size(bytes: usize) -> Result<(), Error> {
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

/// Parses a YAML document into a map, within the limits. Integers are `int64`, as in a `spec`, so that moving a value
/// does not change what templates print.
fn table(source: &Resolved, bytes: &[u8], most: yaml::Most) -> Result<Map, Error> {
    match yaml::parse_preserving_ints_within(bytes, most) {
        Ok(Value::Map(table)) => Ok(table),
        Ok(Value::Nil) => Ok(Map::default()),
        Ok(_) => Err(error(source, 0, "is not a table of values")),
        Err(yaml::Error::Syntax { line, problem }) => Err(error(source, line, fault(&problem))),
        Err(_) => Err(error(source, 0, INVALID)),
    }
}

/// Describes a parser's problem, which may quote a value.
fn fault(problem: &str) -> &'static str {
    match problem {
        limit if limit.starts_with("exceeded limit MAX_VALUES") => TOO_MANY,
        limit if limit.starts_with("exceeded limit MAX_REPEATED") => TOO_REPETITIVE,
        _ => INVALID,
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
        let found: Vec<_> = resolved.iter().map(|(source, bytes)| FoundSource { source, bytes: Some(bytes) }).collect();
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
    fn what_all_sources_together_expand_to_is_limited() {
        let text = "x".repeat(400_000);
        let repeat = |times: usize| format!("a: &a {text}\nb: [{}]", "*a, ".repeat(times)).into_bytes();
        let list = |key: &str, length: usize| format!("{key}: [{}]", "1, ".repeat(length)).into_bytes();
        let (once, thrice) = (repeat(1), repeat(3));
        let (some, others, many) = (list("a", 60_000), list("b", 60_000), list("a", 100_000));
        let spec = format!("{{\"b\":[{}1]}}", "1,".repeat(60_000));
        assert!(merged(&[(None, &once)], "{}").is_ok());
        assert!(merged(&[(None, &some)], "{}").is_ok());
        let source = "Secret \"web-values\", key \"values.yaml\"";
        for (sources, spec, expected) in [
            (vec![&thrice], "{}", "has aliases that repeat too much text (limit MAX_BYTES of 1 MiB"),
            (vec![&once, &once], "{}", "has aliases that repeat too much text (limit MAX_BYTES of 1 MiB"),
            (vec![&many], "{}", "has too many values, aliases counted each time (limit MAX_SPEC_VALUES of 100000"),
            (vec![&some, &others], "{}", "has too many values"),
            (vec![&some], &*spec, "has too many values"),
        ] {
            let sources: Vec<(_, &[u8])> = sources.into_iter().map(|bytes| (None, &**bytes)).collect();
            let refused = merged(&sources, spec).unwrap_err();
            assert!(refused.starts_with(source) && refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn the_merged_values_are_limited() {
        let spec = format!("{{\"a\":[{}1]}}", "1,".repeat(99_900));
        let expected = "valuesFrom: merged with the spec, the sources have more than 100000 values";
        let refused = merged(&[(Some("b[200]"), b"x")], &spec).unwrap_err();
        assert!(refused.starts_with(expected), "{refused}");
        let escaped = "\u{1}".repeat(400_000);
        let expected = "valuesFrom: merged with the spec, the sources have more than 2097152 bytes of JSON";
        let refused = merged(&[(Some("a"), escaped.as_bytes())], "{}").unwrap_err();
        assert!(refused.starts_with(expected), "{refused}");
    }

    #[test]
    fn only_values_of_secrets_are_hidden() {
        let (secret, mut map) = (source(None), source(None));
        map.key.kind = SourceKind::ConfigMap;
        let found = |source, bytes: &'static [u8]| FoundSource { source, bytes: Some(bytes) };
        let (_, mask) = merge(&[found(&secret, b"a: hunter2"), found(&map, b"b: public")], &Spec::new("{}")).unwrap();
        assert_eq!(mask.hide("hunter2 is public".into()), "**** is public");
    }
}
