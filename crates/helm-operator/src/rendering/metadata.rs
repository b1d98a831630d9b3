//! Adds the labels and annotations in watches.yaml to a rendered release, in the text that the record keeps:
//! `helm get manifest` shows them, and changing them creates a revision. Selectors and the metadata of pod templates
//! stay unchanged.

use std::collections::BTreeMap;

use go_encoding::yaml;
use go_template::{Map, MapType, Str, Value};
use helm_release::action::Candidate;
use helm_release::kube::ObjectError;

use super::renderer::release_objects;
use crate::watches::{CommonAnnotations, CommonLabels};

/// The labels and annotations to add.
#[derive(Clone, Copy)]
pub(crate) struct Added<'a> {
    pub(crate) labels: &'a CommonLabels,
    pub(crate) annotations: &'a CommonAnnotations,
}

impl<'a> Added<'a> {
    /// Returns whether there is nothing to add.
    pub(crate) fn is_empty(self) -> bool {
        self.fields().next().is_none()
    }

    /// Returns the fields of `metadata` to add to, with their entries.
    fn fields(self) -> impl Iterator<Item = (&'static str, &'a BTreeMap<String, String>)> {
        let all = [("labels", &*self.labels.0), ("annotations", &*self.annotations.0)];
        all.into_iter().filter(|(_, entries)| !entries.is_empty())
    }
}

/// The reason why labels or annotations cannot be added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Read(#[from] yaml::Error),
    #[error(transparent)]
    Write(#[from] yaml::EmitError),
    #[error(transparent)]
    Objects(#[from] ObjectError),
}

/// Adds labels and annotations to the candidate's objects and hooks.
pub(crate) fn add(mut candidate: Candidate, added: Added<'_>, namespace: &str) -> Result<Candidate, Error> {
    candidate.manifest = add_to_text(&candidate.manifest, added)?;
    for hook in &mut candidate.hooks {
        hook.manifest = add_to_text(&hook.manifest, added)?;
    }
    (candidate.objects, candidate.duplicates) = release_objects(&candidate.manifest, namespace)?;
    Ok(candidate)
}

/// Adds labels and annotations to each document; keeps the comments before it, such as `# Source: …`.
pub(crate) fn add_to_text(manifest: &str, added: Added<'_>) -> Result<String, Error> {
    let mut text = String::new();
    for document in yaml::split(manifest.as_bytes())? {
        let extended = extended(&yaml::parse_preserving_ints(&document)?, added);
        let document = String::from_utf8_lossy(&document);
        let document = without_separator(&document);
        // Unlike manifests, hooks begin without a separator.
        if manifest.starts_with("---") || !text.is_empty() {
            text.push_str("---\n");
        }
        match extended {
            Some(extended) => text.push_str(&rewritten(document, &extended)?),
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

/// Returns an object with what is added, or a list whose items have it; `None` for anything else. Nothing is changed in
/// place: YAML aliases may share a map with a pod template.
fn extended(value: &Value, added: Added<'_>) -> Option<Value> {
    let Value::Map(object) = value else { return None };
    let list = match (object.get("kind"), object.get("items")) {
        (Some(Value::String(kind)), Some(Value::List(items))) if kind.ends_with(b"List") => Some(items),
        _ => None,
    };
    if let Some(items) = list {
        let items = items.iter().map(|item| extended(item, added).unwrap_or_else(|| item.clone())).collect();
        return Some(Value::Map(with(object, "items", Value::list(items))));
    }
    let metadata = added.fields().fold(child(object, "metadata"), |metadata, (field, entries)| {
        let mut all: BTreeMap<Str, Value> =
            entries.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
        all.extend(child(&metadata, field).copied_entries());
        with(&metadata, field, Value::Map(Map::new(MapType::Interface, all)))
    });
    Some(Value::Map(with(object, "metadata", Value::Map(metadata))))
}

/// Returns a copy of the map with this entry.
fn with(map: &Map, key: &str, value: Value) -> Map {
    let mut entries = map.copied_entries();
    entries.insert(key.into(), value);
    Map::new(MapType::Interface, entries)
}

fn child(map: &Map, key: &str) -> Map {
    match map.get(key) {
        Some(Value::Map(known)) => known,
        _ => Map::nil(MapType::Interface),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn added(manifest: &str) -> String {
        let labels = [("team".to_owned(), "red".to_owned()), ("tier".to_owned(), "1".to_owned())].into();
        let labels = CommonLabels(Arc::new(labels));
        add_to_text(manifest, Added { labels: &labels, annotations: &CommonAnnotations::default() }).unwrap()
    }

    fn annotated(manifest: &str) -> String {
        let annotations = [("example.com/owner".to_owned(), "Team Red, #red".to_owned())].into();
        let annotations = CommonAnnotations(Arc::new(annotations));
        add_to_text(manifest, Added { labels: &CommonLabels::default(), annotations: &annotations }).unwrap()
    }

    #[test]
    fn annotations_are_added_without_labels_and_below_the_objects_own() {
        let pod = "spec: {template: {metadata: {annotations: {a: b}}}}";
        let text = annotated(&format!("kind: A\nmetadata: {{name: a, annotations: {{helm.sh/hook: test}}}}\n{pod}\n"));
        let expected = "kind: A
metadata:
  annotations:
    example.com/owner: 'Team Red, #red'
    helm.sh/hook: test
  name: a
spec:
  template:
    metadata:
      annotations:
        a: b
";
        assert_eq!(text, expected);
        let own = "kind: A\nmetadata:\n  annotations:\n    example.com/owner: blue\n";
        assert_eq!(annotated(own), own);
        let list = annotated("kind: List\nitems:\n- metadata: {name: a}\n- metadata: {annotations: null}\n");
        assert_eq!(list.matches("Team Red").count(), 2, "{list}");
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
