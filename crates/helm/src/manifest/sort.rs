//! Sorts rendered files into hooks and manifests. Counterpart: Helm's `manifest_sorter.go`.

use go_template::Value;

use super::{
    HOOK_ANNOTATION, HOOK_DELETE_ANNOTATION, HOOK_OUTPUT_LOG_ANNOTATION, HOOK_WEIGHT_ANNOTATION, Head, Hook,
    INSTALL_ORDER, Manifest, sort_by_kind, split,
};
use crate::decode::{self, Fields, WrongType};
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

/// The documents of a chart, separated into hooks and manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sorted {
    /// The hooks, in install order.
    pub(crate) hooks: Vec<Hook>,
    /// The other documents, in install order.
    pub(crate) manifests: Vec<Manifest>,
}

/// A rendered document that is not a valid manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("YAML parse error on {path}: {cause}")]
pub struct SortError {
    /// The template that rendered it.
    pub path: String,
    /// The cause.
    pub cause: HeadError,
}

/// The reason why a document is not a valid manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The document is not valid YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::Error),
    /// `apiVersion`, `kind`, `metadata`, its name or its annotations have the wrong type.
    #[error(transparent)]
    WrongType(#[from] WrongType),
}

/// Splits the files (path and text) into documents, separates hooks from manifests, and sorts both in install order.
///
/// Skips partials, empty files, and hooks with an unknown event.
///
/// # Errors
/// Fails for the first document that is not a valid manifest.
pub(crate) fn sort_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Sorted, SortError> {
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

/// Returns the words of a hook's annotation, which commas separate, in lower case.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(|word| word.trim().to_lowercase())
}

fn event(word: &str) -> Option<&'static str> {
    let word = if word == "test-success" { "test" } else { word };
    EVENTS.iter().copied().find(|event| *event == word)
}

/// Decodes the document's head like Helm: a field of the wrong type is an error.
fn head(document: &str) -> Result<Head, HeadError> {
    let value = yaml::parse(document.as_bytes())?;
    let mut head = Head::default();
    let Some(map) = decode::object(&value, "util.SimpleHead")? else { return Ok(head) };
    let fields = Fields { map, owner: "SimpleHead" };
    fields.text("apiVersion", &mut head.api_version)?;
    fields.text("kind", &mut head.kind)?;
    match fields.get("metadata") {
        None => {}
        Some(Value::Map(metadata)) => {
            let fields = Fields { map: &metadata, owner: ".metadata" };
            fields.text_map("annotations", &mut head.annotations)?;
            fields.text("name", &mut head.name)?;
        }
        Some(other) => return Err(WrongType::field("SimpleHead", "metadata", &other, METADATA_TYPE).into()),
    }
    Ok(head)
}

/// The type of Helm's `SimpleHead.Metadata`, as Go prints it.
const METADATA_TYPE: &str =
    r#"struct { Name string "json:\"name\""; Annotations map[string]string "json:\"annotations\"" }"#;
