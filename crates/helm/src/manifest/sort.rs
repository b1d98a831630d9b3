//! Rendered files into hooks and manifests. Counterpart: Helm's `manifest_sorter.go`.

use go_template::Value;

use super::{
    HOOK_ANNOTATION, HOOK_DELETE_ANNOTATION, HOOK_OUTPUT_LOG_ANNOTATION, HOOK_WEIGHT_ANNOTATION, Head, Hook,
    INSTALL_ORDER, Manifest, sort_by_kind, split,
};
use crate::chart::{field, number_text};
use go_encoding::yaml;

/// The events at which hooks run.
const EVENTS: &[&str] = &[
    "pre-install",
    "post-install",
    "pre-delete",
    "post-delete",
    "pre-upgrade",
    "post-upgrade",
    "pre-rollback",
    "post-rollback",
    "test",
];

/// What a chart rendered to, apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sorted {
    /// The hooks, in install order.
    pub hooks: Vec<Hook>,
    /// The other documents, in install order.
    pub manifests: Vec<Manifest>,
}

/// A rendered file that is no YAML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("YAML parse error on {path}: {cause}")]
pub struct SortError {
    /// The template whose output it is.
    pub path: String,
    /// The parser's text.
    pub cause: String,
}

/// Splits the files (path and text) into documents, tells hooks from manifests, and sorts both in install order.
///
/// Partials and empty files are left out, and so are hooks of an unknown event.
///
/// # Errors
/// The first document that cannot be read.
pub fn sort_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Sorted, SortError> {
    let mut files: Vec<(&str, &str)> =
        files.into_iter().filter(|(path, text)| !is_partial(path) && !text.trim().is_empty()).collect();
    files.sort_unstable();
    let mut sorted = Sorted::default();
    for (path, text) in files {
        for document in split(text) {
            let head = head(document).map_err(|cause| SortError { path: path.to_owned(), cause })?;
            place(&mut sorted, path, document, head);
        }
    }
    sort_by_kind(&mut sorted.hooks, INSTALL_ORDER, |hook| &hook.kind);
    sort_by_kind(&mut sorted.manifests, INSTALL_ORDER, |manifest| &manifest.head.kind);
    Ok(sorted)
}

fn is_partial(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with('_'))
}

fn place(sorted: &mut Sorted, path: &str, document: &str, head: Head) {
    let Some(events) = head.annotation(HOOK_ANNOTATION) else {
        sorted.manifests.push(Manifest { path: path.to_owned(), content: document.to_owned(), head });
        return;
    };
    let Some(events) = words(events).map(|word| event(&word)).collect::<Option<Vec<_>>>() else { return };
    let policies = |key| head.annotation(key).map(|text| words(text).collect()).unwrap_or_default();
    let weight = head.annotation(HOOK_WEIGHT_ANNOTATION).and_then(|weight| weight.parse().ok()).unwrap_or(0);
    sorted.hooks.push(Hook {
        name: head.name.clone(),
        kind: head.kind.clone(),
        path: path.to_owned(),
        manifest: document.to_owned(),
        events,
        weight,
        delete_policies: policies(HOOK_DELETE_ANNOTATION),
        output_log_policies: policies(HOOK_OUTPUT_LOG_ANNOTATION),
    });
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(|word| word.trim().to_lowercase())
}

fn event(word: &str) -> Option<&'static str> {
    let word = if word == "test-success" { "test" } else { word };
    EVENTS.iter().copied().find(|event| *event == word)
}

/// What the document says of itself, read as Helm reads it into a struct: a field of another type is an error.
fn head(document: &str) -> Result<Head, String> {
    let value = yaml::parse(document.as_bytes()).map_err(|e| e.to_string())?;
    let map = match value {
        Value::Nil => return Ok(Head::default()),
        Value::Map(map) => map,
        other => return Err(wrong_type(&other, "value of type util.SimpleHead")),
    };
    let mut head = Head {
        api_version: text(field(&map, "apiVersion"), "SimpleHead.apiVersion")?,
        kind: text(field(&map, "kind"), "SimpleHead.kind")?,
        ..Head::default()
    };
    let metadata = match field(&map, "metadata") {
        None | Some(Value::Nil) => return Ok(head),
        Some(Value::Map(metadata)) => metadata,
        Some(other) => {
            return Err(wrong_type(
                &other,
                "struct field SimpleHead.metadata of type struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }",
            ));
        }
    };
    match field(&metadata, "annotations") {
        None | Some(Value::Nil) => {}
        Some(Value::Map(annotations)) => {
            for (key, value) in annotations.snapshot() {
                let value = text(Some(value), ".metadata.annotations")?;
                head.annotations.push((key.to_text().into_owned(), value));
            }
        }
        Some(other) => {
            return Err(wrong_type(&other, "struct field .metadata.annotations of type map[string]string"));
        }
    }
    head.name = text(field(&metadata, "name"), ".metadata.name")?;
    Ok(head)
}

/// A scalar as text: sigs.k8s.io/yaml turns numbers and booleans into strings where a string is wanted.
fn text(value: Option<Value>, field: &str) -> Result<String, String> {
    match value.unwrap_or_default() {
        Value::Nil => Ok(String::new()),
        Value::String(text) => Ok(text.to_text().into_owned()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Float(number) => Ok(number_text(number)),
        other => Err(wrong_type(&other, &format!("struct field {field} of type string"))),
    }
}

fn wrong_type(value: &Value, wanted: &str) -> String {
    let kind = go_encoding::json::kind(value);
    format!("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go {wanted}")
}
