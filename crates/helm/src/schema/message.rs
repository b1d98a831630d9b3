//! A validation error in the words of the Go library. Counterparts: its `output.go` and `kind/kind.go`.

use boon::{ErrorKind, ValidationError};
use serde_json::{Number, Value as Json};

/// The complaints below the schema itself, one a line, indented by cause.
pub(super) fn text(error: &ValidationError<'_, '_>) -> String {
    let mut lines = Vec::new();
    collect(error, 0, &mut lines);
    // The first line only says that the schema failed; Helm leaves it out.
    lines.drain(..usize::from(!lines.is_empty()));
    lines.join("\n")
}

fn collect(error: &ValidationError<'_, '_>, indent: usize, lines: &mut Vec<String>) {
    let is_only_a_reference = error.causes.len() == 1 && matches!(error.kind, ErrorKind::Reference { .. });
    let inner = if is_only_a_reference {
        indent
    } else {
        let dash = if indent == 0 { String::new() } else { format!("{}- ", "  ".repeat(indent - 1)) };
        let place = quoted(&error.instance_location.to_string());
        lines.push(format!("{dash}at {place}: {}", kind(&error.kind)));
        indent + 1
    };
    for cause in &error.causes {
        collect(cause, inner, lines);
    }
}

fn kind(kind: &ErrorKind<'_, '_>) -> String {
    match kind {
        ErrorKind::Group | ErrorKind::Reference { .. } => "validation failed".to_owned(),
        ErrorKind::Schema { url } => format!("jsonschema validation failed with {}", quoted(url)),
        ErrorKind::ContentSchema => "'contentSchema' failed".to_owned(),
        ErrorKind::PropertyName { prop } => format!("invalid propertyName {}", quoted(prop)),
        ErrorKind::RefCycle { url, kw_loc1, kw_loc2 } => {
            format!("both {kw_loc1} and {kw_loc2} resolve to {url:?} causing reference cycle")
        }
        ErrorKind::FalseSchema => "false schema".to_owned(),
        ErrorKind::Type { got, want } => {
            let wanted: Vec<String> = want.iter().map(|one| one.to_string()).collect();
            format!("got {got}, want {}", wanted.join(" or "))
        }
        ErrorKind::Enum { want } => one_of(want),
        ErrorKind::Const { want: Json::Array(_) | Json::Object(_) } => "'const' failed".to_owned(),
        ErrorKind::Const { want } => format!("value must be {}", shown(want)),
        ErrorKind::Format { got, want, err } => format!("{} is not valid {want}: {err}", shown(got)),
        ErrorKind::Required { want } if want.len() == 1 => format!("missing property {}", quoted(want[0])),
        ErrorKind::Required { want } => format!("missing properties {}", all_quoted(want)),
        ErrorKind::AdditionalProperties { got } => format!("additional properties {} not allowed", all_quoted(got)),
        ErrorKind::Dependency { prop, missing } | ErrorKind::DependentRequired { prop, missing } => {
            format!("properties {} required, if {} exists", all_quoted(missing), quoted(prop))
        }
        ErrorKind::Pattern { got, want } => format!("{} does not match pattern {}", quoted(got), quoted(want)),
        ErrorKind::ContentEncoding { want, err } => format!("value is not {} encoded: {err}", quoted(want)),
        ErrorKind::ContentMediaType { want, err, .. } => format!("value is not of mediatype {}: {err}", quoted(want)),
        ErrorKind::Not => "'not' failed".to_owned(),
        ErrorKind::AllOf => "'allOf' failed".to_owned(),
        ErrorKind::AnyOf => "'anyOf' failed".to_owned(),
        ErrorKind::OneOf(None) => "'oneOf' failed, none matched".to_owned(),
        ErrorKind::OneOf(Some((i, j))) => format!("'oneOf' failed, subschemas {i}, {j} matched"),
        _ => amount(kind),
    }
}

/// Complaints about how many or how much.
fn amount(kind: &ErrorKind<'_, '_>) -> String {
    let count = |keyword: &str, got: &usize, want: &usize| format!("{keyword}: got {got}, want {want}");
    let bound =
        |keyword: &str, got: &Number, want: &Number| format!("{keyword}: got {}, want {}", number(got), number(want));
    match kind {
        ErrorKind::MinProperties { got, want } => count("minProperties", got, want),
        ErrorKind::MaxProperties { got, want } => count("maxProperties", got, want),
        ErrorKind::MinItems { got, want } => count("minItems", got, want),
        ErrorKind::MaxItems { got, want } => count("maxItems", got, want),
        ErrorKind::MinLength { got, want } => count("minLength", got, want),
        ErrorKind::MaxLength { got, want } => count("maxLength", got, want),
        ErrorKind::Minimum { got, want } => bound("minimum", got, want),
        ErrorKind::Maximum { got, want } => bound("maximum", got, want),
        ErrorKind::ExclusiveMinimum { got, want } => bound("exclusiveMinimum", got, want),
        ErrorKind::ExclusiveMaximum { got, want } => bound("exclusiveMaximum", got, want),
        ErrorKind::MultipleOf { got, want } => bound("multipleOf", got, want),
        ErrorKind::AdditionalItems { got } => format!("last {got} additionalItem(s) not allowed"),
        ErrorKind::UniqueItems { got: [i, j] } => format!("items at {i} and {j} are equal"),
        ErrorKind::Contains => "no items match contains schema".to_owned(),
        ErrorKind::MinContains { got, want } if got.is_empty() => {
            format!("min {want} items required to match contains schema, but none matched")
        }
        ErrorKind::MinContains { got, want } => contains("min", got, *want),
        ErrorKind::MaxContains { got, want } => contains("max", got, *want),
        _ => "validation failed".to_owned(),
    }
}

fn contains(bound: &str, got: &[usize], want: usize) -> String {
    let places: Vec<String> = got.iter().map(usize::to_string).collect();
    let places = places.join(" ");
    format!("{bound} {want} items required to match contains schema, but matched {} items at {places}", got.len())
}

fn one_of(want: &[Json]) -> String {
    if want.iter().any(|one| one.is_array() || one.is_object()) {
        return "'enum' failed".to_owned();
    }
    let all: Vec<String> = want.iter().map(shown).collect();
    match all.as_slice() {
        [one] => format!("value must be {one}"),
        all => format!("value must be one of {}", all.join(", ")),
    }
}

fn shown(value: &Json) -> String {
    match value {
        Json::String(text) => quoted(text),
        Json::Array(_) | Json::Object(_) => "value".to_owned(),
        Json::Null => "<nil>".to_owned(),
        Json::Bool(flag) => flag.to_string(),
        Json::Number(n) => number(n),
    }
}

/// Whole numbers as digits, as the Go library has them.
fn number(number: &Number) -> String {
    match number.as_f64() {
        Some(value) => go_template::fmt::format_float(value, b'f', None),
        None => number.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let quoted = go_template::fmt::sprintf(b"%q", &[text.into()]);
    let quoted = String::from_utf8_lossy(&quoted).replace("\\\"", "\"").replace('\'', "\\'");
    format!("'{}'", &quoted[1..quoted.len() - 1])
}

fn all_quoted(all: &[impl AsRef<str>]) -> String {
    let all: Vec<String> = all.iter().map(|one| quoted(one.as_ref())).collect();
    all.join(", ")
}
