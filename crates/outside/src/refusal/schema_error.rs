//! Rewrites the server's messages about objects that do not fit their schema: field, expected and actual type, never
//! the value.
//!
//! The originals come from structured-merge-diff (`typed/validate.go`) and print values with their Go types, even
//! multi-line ones.

/// The prefixes of messages about objects that could not be typed.
const BEGINNINGS: [&str; 2] = ["failed to create typed patch object (", "failed to create typed live object ("];

/// Part of messages about undecodable objects. Messages of other failed conversions, such as an unreachable webhook, do
/// not contain it.
const UNDECODABLE: &str = "error decoding from json: ";

pub(super) const UNDECLARED: &str = "field not declared in schema";

/// The message without details, used when details would quote values.
const UNKNOWN: &str = "does not fit its schema";

/// Rewrites a message about an object that does not fit its schema; returns `None` for any other.
pub(super) fn explain(message: &str) -> Option<String> {
    let untyped = BEGINNINGS.iter().any(|beginning| message.starts_with(beginning));
    let undecodable = message.starts_with("failed to convert ") && message.contains(UNDECODABLE);
    if !untyped && !undecodable {
        return None;
    }
    // A typed object's values may contain what undecodable ones are known by.
    let parse: fn(&str) -> Vec<String> = if untyped { faults } else { undecodable_cause };
    let faults = details(message).map(parse).unwrap_or_default();
    Some(if faults.is_empty() { UNKNOWN.to_owned() } else { format!("{UNKNOWN}: {}", faults.join("; ")) })
}

/// Returns the paths of fields in a rewritten message.
pub(super) fn fields(message: &str) -> Vec<&str> {
    let paths = rewritten(message).filter_map(|fault| Some(fault.split_once(": ")?.0));
    paths.filter(|path| is_path(path)).collect()
}

/// Returns the paths of undeclared fields in a rewritten message. The server looks no further into an undeclared field, so
/// one with a fault inside is not one: a value that the server quoted contained its line.
pub(super) fn undeclared(message: &str) -> Vec<&str> {
    let all = fields(message);
    let found = rewritten(message).filter_map(as_undeclared);
    found.filter(|field| !all.iter().any(|other| is_inside(other, field))).collect()
}

/// Returns the path of an undeclared field that a rewritten message begins with. Any later fault may be part of a value or
/// a key that the server quoted.
pub(super) fn first_undeclared(message: &str) -> Option<&str> {
    rewritten(message).next().and_then(as_undeclared)
}

/// Returns the faults in a rewritten message. Another message may quote one, but does not begin with it.
fn rewritten(message: &str) -> impl Iterator<Item = &str> {
    let faults = message.strip_prefix(UNKNOWN).and_then(|rest| rest.strip_prefix(": "));
    faults.into_iter().flat_map(|faults| faults.split("; "))
}

fn as_undeclared(fault: &str) -> Option<&str> {
    fault.strip_suffix(UNDECLARED)?.strip_suffix(": ")
}

/// Returns whether a path leads to something inside a field.
fn is_inside(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.starts_with(['.', '[']))
}

/// Returns the part after the object's identity, `(namespace/name; group/version, Kind=kind)`.
fn details(message: &str) -> Option<&str> {
    let (_, kind) = message.split_once(", Kind=")?;
    let (_, rest) = kind.split_once(')')?;
    Some(rest.split_once(": ")?.1)
}

fn undecodable_cause(details: &str) -> Vec<String> {
    details.split_once(UNDECODABLE).map(|(_, cause)| without_quoted(cause)).into_iter().collect()
}

fn faults(details: &str) -> Vec<String> {
    let mut lines = details.strip_prefix("errors:\n  ").unwrap_or(details).split("\n  ");
    let Some(first) = lines.next().and_then(fault) else { return Vec::new() };
    // A line that is not a fault continues the value of the previous one.
    std::iter::once(first).chain(lines.filter_map(fault)).collect()
}

/// Parses one fault: `path: message`.
fn fault(line: &str) -> Option<String> {
    let found = EXPLAINERS.iter().filter_map(|(marker, explainer)| Some((find(line, marker)?, marker, explainer)));
    let (at, marker, explainer) = found.min_by_key(|(at, _, _)| *at)?;
    let path = line[..at].trim_end_matches(": ");
    let what = explainer(&line[at + marker.len()..]);
    if path.is_empty() { Some(what) } else { is_path(path).then(|| format!("{}: {what}", without_set_values(path))) }
}

type Explainer = fn(&str) -> String;

const EXPLAINERS: [(&str, Explainer); 5] = [
    ("expected ", wrong_type),
    (UNDECLARED, |_| UNDECLARED.to_owned()),
    ("duplicate entries for key ", duplicate),
    ("element ", element),
    ("schema error: ", |_| "the schema has no such type".to_owned()),
];

/// Finds a marker at the start of the line or after the path.
fn find(line: &str, marker: &str) -> Option<usize> {
    if line.starts_with(marker) {
        return Some(0);
    }
    line.find(&format!(": {marker}")).map(|at| at + 2)
}

fn is_path(text: &str) -> bool {
    text.starts_with(['.', '[']) && !text.contains('\n')
}

/// Rewrites `string, got &value.valueUnstructured{Value:14}`.
fn wrong_type(text: &str) -> String {
    let (expected, got) = text.split_once(", got ").unwrap_or((text, ""));
    let expected = match expected {
        "string" => Type::String,
        "numeric (int or float)" => Type::Number,
        "boolean" => Type::Boolean,
        "list" => Type::List,
        "map" => Type::Map,
        "any scalar" => Type::Scalar,
        _ => return "has the wrong type".to_owned(),
    };
    let got = Type::of(got, expected);
    let hint = match (expected, got) {
        (Type::String, Type::Number | Type::Boolean) => "; quote it in the template",
        (Type::Number, Type::String) => "; give a number, without quotes",
        (Type::Boolean, Type::String) => "; give true or false, without quotes",
        _ => "",
    };
    format!("expected {}, got {}{hint}", expected.name(), got.name())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    String,
    Number,
    Boolean,
    List,
    Map,
    Null,
    Scalar,
}

impl Type {
    /// Parses the type of a value that Go printed: `%#v` with its Go type, `%v` as bare text, or `%T`.
    fn of(printed: &str, expected: Type) -> Type {
        if let Some(value) = printed.strip_prefix("&value.valueUnstructured{Value:") {
            return if value.starts_with('"') { Type::String } else { Type::of_text(value) };
        }
        let Some(value) = printed.strip_prefix("&{") else { return Type::of_text(printed) };
        // A value that looks like the expected type but was rejected must be a string.
        let found = Type::of_text(value.strip_suffix('}').unwrap_or(value));
        if found == expected { Type::String } else { found }
    }

    fn of_text(text: &str) -> Type {
        let bare = text.trim_end_matches('}');
        match bare {
            _ if text.starts_with("map[") => Type::Map,
            _ if text.starts_with('[') => Type::List,
            "true" | "false" | "bool" => Type::Boolean,
            "nil" | "<nil>" | "interface {" | "interface {}(nil)" => Type::Null,
            _ if bare.parse::<f64>().is_ok() => Type::Number,
            _ => Type::String,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::Number => "number",
            Type::Boolean => "boolean",
            Type::List => "list",
            Type::Map => "map",
            Type::Null => "null",
            Type::Scalar => "any scalar",
        }
    }
}

/// Rewrites a fault about duplicates. The key of a keyed list names the entry; the key of a set is a value, so it is
/// dropped.
fn duplicate(key: &str) -> String {
    match key.starts_with("[=") {
        true => "duplicate entries".to_owned(),
        false => format!("duplicate entries for key {}", key.lines().next().unwrap_or_default()),
    }
}

/// Rewrites `0: associative list with keys may not have a null element`; keeps only fixed texts.
fn element(text: &str) -> String {
    match text.split_once(": ") {
        Some((at, why)) if at.parse::<usize>().is_ok() && why.starts_with("associative list") => {
            format!("element {at}: {}", why.lines().next().unwrap_or_default())
        }
        _ => "an element is invalid".to_owned(),
    }
}

/// Drops set entries, which are values, from a path: `.a[="x"].b`.
fn without_set_values(path: &str) -> String {
    let mut safe = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once("[=") {
        safe = format!("{safe}{before}[]");
        rest = after.split_once("\"]").or_else(|| after.split_once(']')).map_or("", |(_, after)| after);
    }
    safe + rest
}

/// Hides quoted texts in a decoder's message.
fn without_quoted(text: &str) -> String {
    let parts = text.split('"').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { part } else { super::HIDDEN }).collect()
}
