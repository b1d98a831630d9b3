//! Formats the messages of the validator's errors. Counterpart: `kind/kind.go` of santhosh-tekuri/jsonschema v6.

use boon::{ErrorKind, ValidationError};
use golibs::strconv::quote;
use serde_json::{Number, Value as Json};

use super::number;
use golibs::regex::Regex;

/// Returns the first line of an error.
pub(super) fn root(error: &ValidationError<'_, '_>) -> String {
    match &error.kind {
        ErrorKind::Schema { url } => format!("jsonschema validation failed with {}", quoted(url)),
        kind => message(kind),
    }
}

/// Returns the message without the value, which may be secret.
pub(super) fn without_value(kind: &ErrorKind<'_, '_>) -> String {
    let bound =
        |name: &str, want: &Number| format!("{name}: want {}", number::float(want.as_f64().unwrap_or_default()));
    match kind {
        ErrorKind::Format { want, .. } => format!("value is not valid {want}"),
        ErrorKind::Pattern { want, .. } => format!("value does not match pattern {}", quoted(want)),
        ErrorKind::ContentEncoding { want, .. } => format!("value is not {} encoded", quoted(want)),
        ErrorKind::ContentMediaType { want, .. } => format!("value is not of mediatype {}", quoted(want)),
        ErrorKind::Minimum { want, .. } => bound("minimum", want),
        ErrorKind::Maximum { want, .. } => bound("maximum", want),
        ErrorKind::ExclusiveMinimum { want, .. } => bound("exclusiveMinimum", want),
        ErrorKind::ExclusiveMaximum { want, .. } => bound("exclusiveMaximum", want),
        ErrorKind::MultipleOf { want, .. } => bound("multipleOf", want),
        kind => message(kind),
    }
}

pub(super) fn message(kind: &ErrorKind<'_, '_>) -> String {
    let count = |name: &str, got: usize, want: usize| {
        format!("{name}: got {}, want {}", number::whole(got), number::whole(want))
    };
    match kind {
        ErrorKind::Group | ErrorKind::Schema { .. } | ErrorKind::Reference { .. } => "validation failed".to_owned(),
        ErrorKind::ContentSchema => "'contentSchema' failed".to_owned(),
        ErrorKind::PropertyName { prop } => format!("invalid propertyName {}", quoted(prop)),
        ErrorKind::RefCycle { url, kw_loc1, kw_loc2 } => {
            format!("both {kw_loc1} and {kw_loc2} resolve to {} causing reference cycle", quote(url))
        }
        ErrorKind::FalseSchema => "false schema".to_owned(),
        ErrorKind::Type { got, want } => {
            let want: Vec<String> = want.iter().map(|t| t.to_string()).collect();
            format!("got {got}, want {}", want.join(" or "))
        }
        ErrorKind::Enum { want } => one_of(want),
        ErrorKind::Const { want } if is_scalar(want) => format!("value must be {}", display(want)),
        ErrorKind::Const { .. } => "'const' failed".to_owned(),
        ErrorKind::Format { got, want, err } => {
            format!("{} is not valid {want}: {}", display(got), format_reason(want, got, &err.to_string()))
        }
        ErrorKind::MinProperties { got, want } => count("minProperties", *got, *want),
        ErrorKind::MaxProperties { got, want } => count("maxProperties", *got, *want),
        ErrorKind::AdditionalProperties { got } => format!("additional properties {} not allowed", list(got)),
        ErrorKind::Required { want } if want.len() == 1 => format!("missing property {}", list(want)),
        ErrorKind::Required { want } => format!("missing properties {}", list(want)),
        ErrorKind::Dependency { prop, missing } | ErrorKind::DependentRequired { prop, missing } => {
            format!("properties {} required, if {} exists", list(missing), quoted(prop))
        }
        ErrorKind::MinItems { got, want } => count("minItems", *got, *want),
        ErrorKind::MaxItems { got, want } => count("maxItems", *got, *want),
        ErrorKind::Contains => "no items match contains schema".to_owned(),
        ErrorKind::MinContains { got, want } if got.is_empty() => {
            format!("min {} items required to match contains schema, but none matched", number::whole(*want))
        }
        ErrorKind::MinContains { got, want } => contains("min", got, *want),
        ErrorKind::MaxContains { got, want } => contains("max", got, *want),
        ErrorKind::UniqueItems { got: [i, j] } => {
            format!("items at {} and {} are equal", number::whole(*i), number::whole(*j))
        }
        ErrorKind::AdditionalItems { got } => format!("last {} additionalItem(s) not allowed", number::whole(*got)),
        ErrorKind::MinLength { got, want } => count("minLength", *got, *want),
        ErrorKind::MaxLength { got, want } => count("maxLength", *got, *want),
        ErrorKind::Pattern { got, want } => pattern(got, want),
        ErrorKind::ContentEncoding { want, err } => format!("value is not {} encoded: {err}", quoted(want)),
        ErrorKind::ContentMediaType { want, err, .. } => format!("value is not of mediatype {}: {err}", quoted(want)),
        ErrorKind::Minimum { got, want } => compared("minimum", got, want),
        ErrorKind::Maximum { got, want } => compared("maximum", got, want),
        ErrorKind::ExclusiveMinimum { got, want } => compared("exclusiveMinimum", got, want),
        ErrorKind::ExclusiveMaximum { got, want } => compared("exclusiveMaximum", got, want),
        ErrorKind::MultipleOf { got, want } => compared("multipleOf", got, want),
        ErrorKind::Not => "'not' failed".to_owned(),
        ErrorKind::AllOf => "'allOf' failed".to_owned(),
        ErrorKind::AnyOf => "'anyOf' failed".to_owned(),
        ErrorKind::OneOf(None) => "'oneOf' failed, none matched".to_owned(),
        ErrorKind::OneOf(Some((i, j))) => {
            format!("'oneOf' failed, subschemas {}, {} matched", number::whole(*i), number::whole(*j))
        }
    }
}

/// Returns the message for a value that does not match a pattern.
pub(super) fn pattern(got: &str, want: &str) -> String {
    format!("{} does not match pattern {}", quoted(got), quoted(want))
}

fn contains(bound: &str, got: &[usize], want: usize) -> String {
    let places: Vec<String> = got.iter().map(ToString::to_string).collect();
    let (want, count) = (number::whole(want), number::whole(got.len()));
    format!("{bound} {want} items required to match contains schema, but matched {count} items at {}", places.join(" "))
}

fn compared(name: &str, got: &Number, want: &Number) -> String {
    let float = |number: &Number| number::float(number.as_f64().unwrap_or_default());
    format!("{name}: got {}, want {}", float(got), float(want))
}

fn one_of(want: &[Json]) -> String {
    let texts: Vec<String> = want.iter().map(display).collect();
    match texts.as_slice() {
        _ if !want.iter().all(is_scalar) => "'enum' failed".to_owned(),
        [only] => format!("value must be {only}"),
        texts => format!("value must be one of {}", texts.join(", ")),
    }
}

fn is_scalar(value: &Json) -> bool {
    !value.is_array() && !value.is_object()
}

fn display(value: &Json) -> String {
    match value {
        Json::String(text) => quoted(text),
        Json::Array(_) | Json::Object(_) => "value".to_owned(),
        Json::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

/// Translates boon's reason into Go's, for the most common formats.
fn format_reason(format: &str, got: &Json, reason: &str) -> String {
    let text = got.as_str().unwrap_or_default();
    match format {
        "ipv4" if text.split('.').count() != 4 => "expected four decimals".to_owned(),
        "ipv4" if text.split('.').any(|part| part.len() > 1 && part.starts_with('0')) => "leading zeros".to_owned(),
        "ipv4" => "decimal must be between 0 and 255".to_owned(),
        "ipv6" if !text.contains(':') => "missing colon".to_owned(),
        "json-pointer" => reason.replace("with slash", "with /"),
        "uuid" if text.split('-').count() != 5 => "must have 5 elements".to_owned(),
        "regex" => Regex::new(text.as_bytes()).err().map_or_else(|| reason.to_owned(), |error| error.to_string()),
        "uri-reference" | "iri-reference" if text.contains('\\') => r"contains \".to_owned(),
        _ => reason.to_owned(),
    }
}

fn list<S: AsRef<str>>(names: &[S]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| quoted(name.as_ref())).collect();
    quoted.join(", ")
}

/// Encloses the text in single quotes, with Go's escapes.
pub(super) fn quoted(text: &str) -> String {
    let inner = quote(text).replace("\\\"", "\"").replace('\'', "\\'");
    format!("'{}'", inner.get(1..inner.len() - 1).unwrap_or_default())
}
