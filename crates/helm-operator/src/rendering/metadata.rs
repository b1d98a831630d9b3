//! Adds the labels of watches.yaml to a rendered release, in the text that the record keeps: `helm get manifest` shows
//! them, and a change of them is a revision. Labels of pods in templates, and selectors, stay as they are.

use std::collections::BTreeMap;

use go_encoding::yaml;
use go_template::{Map, MapType, Str, Value};
use helm_release::action::Candidate;
use helm_release::kube::ObjectError;

use super::renderer::release_objects;

/// The reason why labels cannot be added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A document cannot be read.
    #[error(transparent)]
    Read(#[from] yaml::Error),
    /// A document cannot be written.
    #[error(transparent)]
    Write(#[from] yaml::EmitError),
    /// The result is not a release.
    #[error(transparent)]
    Objects(#[from] ObjectError),
}

/// Adds the labels to the candidate's objects and hooks.
///
/// # Errors
/// Its manifest cannot be read.
pub(crate) fn add(
    mut candidate: Candidate,
    labels: &BTreeMap<String, String>,
    namespace: &str,
) -> Result<Candidate, Error> {
    candidate.manifest = add_to_text(&candidate.manifest, labels)?;
    for hook in &mut candidate.hooks {
        hook.manifest = add_to_text(&hook.manifest, labels)?;
    }
    (candidate.objects, candidate.duplicates) = release_objects(&candidate.manifest, namespace)?;
    Ok(candidate)
}

/// Adds the labels to each document; keeps the comments before it, such as `# Source: chart/templates/a.yaml`.
///
/// # Errors
/// A document cannot be read.
pub(crate) fn add_to_text(manifest: &str, labels: &BTreeMap<String, String>) -> Result<String, Error> {
    let mut text = String::new();
    for document in yaml::split(manifest.as_bytes())? {
        let labelled = labelled(&yaml::parse_preserving_ints(&document)?, labels);
        let document = String::from_utf8_lossy(&document);
        let document = without_separator(&document);
        // Unlike manifests, hooks begin without a separator.
        if manifest.starts_with("---") || !text.is_empty() {
            text.push_str("---\n");
        }
        match labelled {
            Some(labelled) => text.push_str(&rewritten(document, &labelled)?),
            None => text.push_str(document),
        }
    }
    Ok(text)
}

/// Returns the text of a changed object, below the comments that its document begins with.
pub(super) fn rewritten(document: &str, object: &Value) -> Result<String, yaml::EmitError> {
    let mut text = String::new();
    document.lines().take_while(|line| line.starts_with('#')).for_each(|line| text += &format!("{line}\n"));
    text.push_str(&String::from_utf8_lossy(&yaml::emit(object)?));
    Ok(text)
}

/// Removes the separator of a stream's first document.
fn without_separator(document: &str) -> &str {
    match document.split_once('\n') {
        Some((first, rest)) if first.starts_with("---") => rest,
        _ => document,
    }
}

/// Returns an object with the labels, or a list whose items have them; `None` for anything else. Nothing is changed in
/// place: YAML aliases may share a map with a pod template.
fn labelled(value: &Value, labels: &BTreeMap<String, String>) -> Option<Value> {
    let Value::Map(object) = value else { return None };
    let list = match (object.get("kind"), object.get("items")) {
        (Some(Value::String(kind)), Some(Value::List(items))) if kind.ends_with(b"List") => Some(items),
        _ => None,
    };
    if let Some(items) = list {
        let items = items.iter().map(|item| labelled(item, labels).unwrap_or_else(|| item.clone())).collect();
        return Some(with(object, "items", Value::list(items)));
    }
    let metadata = child(object, "metadata");
    let mut all: BTreeMap<Str, Value> =
        labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
    all.extend(child(&metadata, "labels").copied_entries());
    let metadata = with(&metadata, "labels", Value::Map(Map::new(MapType::Interface, all)));
    Some(with(object, "metadata", metadata))
}

/// Returns a copy of the map with this entry.
fn with(map: &Map, key: &str, value: Value) -> Value {
    let mut entries = map.copied_entries();
    entries.insert(key.into(), value);
    Value::Map(Map::new(MapType::Interface, entries))
}

/// Returns the map under a key; an empty one if there is no map.
fn child(map: &Map, key: &str) -> Map {
    match map.get(key) {
        Some(Value::Map(known)) => known,
        _ => Map::nil(MapType::Interface),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(manifest: &str) -> String {
        let labels = [("team".to_owned(), "red".to_owned()), ("tier".to_owned(), "1".to_owned())].into();
        add_to_text(manifest, &labels).unwrap()
    }

    #[test]
    fn each_object_gets_the_labels_and_keeps_its_own() {
        let manifest = "---
# Source: c/templates/a.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: a
  labels: {team: blue, app: a}
spec:
  replicas: 3
  selector: {matchLabels: {app: a}}
  template: {metadata: {labels: {app: a}}}
---
# Source: c/templates/b.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: b}
data: {one: \"1\", \"yes\": \"true\"}
";
        let expected = "---
# Source: c/templates/a.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    app: a
    team: blue
    tier: \"1\"
  name: a
spec:
  replicas: 3
  selector:
    matchLabels:
      app: a
  template:
    metadata:
      labels:
        app: a
---
# Source: c/templates/b.yaml
apiVersion: v1
data:
  one: \"1\"
  \"yes\": \"true\"
kind: ConfigMap
metadata:
  labels:
    team: red
    tier: \"1\"
  name: b
";
        assert_eq!(added(manifest), expected);
        assert_eq!(added(expected), expected, "a second time changes nothing");
    }

    #[test]
    fn items_of_lists_get_them_and_what_is_no_object_stays() {
        let list = added("apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n");
        assert_eq!(list.matches("team: red").count(), 2, "{list}");
        assert_eq!(
            added("---\n# Source: c/templates/a.yaml\n# nothing\n"),
            "---\n# Source: c/templates/a.yaml\n# nothing\n"
        );
        assert_eq!(added(""), "");
    }

    #[test]
    fn a_map_that_an_alias_repeats_in_a_pod_template_stays_there() {
        let text =
            added("kind: A\nmetadata: &m {name: a, labels: &l {app: a}}\nspec: {template: {metadata: *m}, own: *l}\n");
        assert_eq!(text.matches("team: red").count(), 1, "{text}");
    }

    #[test]
    fn mistyped_metadata_is_replaced() {
        let text = added("{kind: A, apiVersion: v1, metadata: {name: a, labels: null}}");
        assert!(text.contains("    team: red"), "{text}");
    }
}
