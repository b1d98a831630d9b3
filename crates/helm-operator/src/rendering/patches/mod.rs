//! Applies the patches of watches.yaml to a rendered release, hooks included, as kustomize would as a post-renderer.
//! The record keeps the patched manifest. Documents that no patch means keep their text.
//!
//! `cases.yaml` has the inputs for kustomize (`tools/patches`), and `cases.jsonl` its outputs.

mod keys;
mod strategic;

use go_encoding::{json, yaml};
use helm::manifest::SortError;
use helm_release::action::Candidate;
use helm_release::kube::ObjectError;
use serde_json::Value;

use super::metadata::rewritten;
use super::renderer::release_objects;
use super::separate;
use crate::watches::{Change, Patch, Patches, group_version};

/// The reason why a release cannot be patched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Read(#[from] yaml::Error),
    #[error(transparent)]
    Write(#[from] yaml::EmitError),
    #[error("patch {number}: {count} objects are {what}; without a target, it needs to be one")]
    NoObject { number: usize, what: String, count: usize },
    #[error("patch {number} of {what}: {why}")]
    Patch { number: usize, what: String, why: String },
    #[error(transparent)]
    Stream(#[from] SortError),
    #[error(transparent)]
    Objects(#[from] ObjectError),
}

/// Applies the patches to the candidate's objects and hooks.
///
/// # Errors
/// A patch means no object, or cannot be applied, or its result cannot be read.
pub(crate) fn apply(mut candidate: Candidate, patches: &Patches, namespace: &str) -> Result<Candidate, Error> {
    let hooks = candidate.hooks.iter().map(|hook| (hook.path.as_str(), hook.manifest.as_str()));
    let stream = helm::manifest::join(&candidate.manifest, hooks);
    let patched = apply_to_text(&stream, patches, namespace)?;
    (candidate.manifest, candidate.hooks) = separate(&patched)?;
    (candidate.objects, candidate.duplicates) = release_objects(&candidate.manifest, namespace)?;
    Ok(candidate)
}

struct Document {
    text: String,
    object: Value,
    is_patched: bool,
}

/// Applies the patches to a stream of documents.
///
/// # Errors
/// As of [`apply`], except that the result need not be a release.
pub(crate) fn apply_to_text(stream: &str, patches: &Patches, namespace: &str) -> Result<String, Error> {
    let mut documents = Vec::new();
    for text in yaml::split(stream.as_bytes())? {
        let object = json::to_serde(&yaml::parse_preserving_ints(&text)?);
        documents.push(Document { text: String::from_utf8_lossy(&text).into_owned(), object, is_patched: false });
    }
    for (number, patch) in (1..).zip(patches.0.iter()) {
        apply_one(&mut documents, (number, patch), namespace)?;
    }
    let mut text = String::new();
    for document in &documents {
        text.push_str("---\n");
        let known = document.text.trim_start_matches("---\n");
        match document.is_patched {
            true => text += &rewritten(known, &json::from_serde(&document.object))?,
            false => text += known,
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

fn apply_one(documents: &mut Vec<Document>, (number, patch): (usize, &Patch), namespace: &str) -> Result<(), Error> {
    let failed = |object: &Value, why: String| Error::Patch { number, what: described(object), why };
    match (&patch.change, &patch.target) {
        (Change::Json(operations), target) => {
            let is_meant = |one: &&mut Document| target.as_ref().is_some_and(|t| t.matches(&one.object, namespace));
            for document in documents.iter_mut().filter(|one| is_object(&one.object)).filter(is_meant) {
                let mut object = document.object.clone();
                json_patch::patch(&mut object, &operations.0).map_err(|e| failed(&document.object, e.to_string()))?;
                (document.object, document.is_patched) = (object, true);
            }
            Ok(())
        }
        (Change::Strategic(all), target) => {
            for merge in all {
                let is_meant = |object: &Value| match target {
                    Some(target) => target.matches(object, namespace),
                    None => is_same(object, merge, namespace),
                };
                let meant: Vec<usize> = (0..documents.len())
                    .filter(|at| is_object(&documents[*at].object) && is_meant(&documents[*at].object))
                    .collect();
                if target.is_none() && meant.len() != 1 {
                    return Err(Error::NoObject { number, what: described(merge), count: meant.len() });
                }
                // From the end, because a patch may delete.
                for at in meant.into_iter().rev() {
                    let old = &documents[at].object;
                    match strategic::merge(old, merge).map_err(|e| failed(old, e.to_string()))? {
                        Some(merged) => {
                            let object = with_identity(merged, old);
                            (documents[at].object, documents[at].is_patched) = (object, true);
                        }
                        None => _ = documents.remove(at),
                    }
                }
            }
            Ok(())
        }
    }
}

/// Returns whether a document is an object rather than a comment.
fn is_object(value: &Value) -> bool {
    value["kind"].is_string()
}

/// Returns whether a patch without a target names this object.
fn is_same(object: &Value, patch: &Value, namespace: &str) -> bool {
    let of = |one: &Value| one["metadata"]["namespace"].as_str().unwrap_or(namespace).to_owned();
    let name = |one: &Value| one["metadata"]["name"].as_str().map(str::to_owned);
    let kind = |one: &Value| one["kind"].as_str().map(str::to_owned);
    group_version(object) == group_version(patch)
        && (kind(object), name(object), of(object)) == (kind(patch), name(patch), of(patch))
}

/// Gives a patched object the type, name and namespace that it had, whatever the patch says.
fn with_identity(mut merged: Value, old: &Value) -> Value {
    for key in ["apiVersion", "kind"] {
        merged[key] = old[key].clone();
    }
    for key in ["name", "namespace"] {
        match (old["metadata"].get(key), merged["metadata"].as_object_mut()) {
            (Some(known), Some(metadata)) => _ = metadata.insert(key.to_owned(), known.clone()),
            (None, Some(metadata)) => _ = metadata.remove(key),
            (_, None) => {}
        }
    }
    merged
}

fn described(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {:?}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::watches::patches_of;

    #[derive(Deserialize)]
    struct Case {
        name: String,
        objects: Vec<Value>,
        patches: Value,
        out: Option<Vec<Value>>,
    }

    /// Where kustomize loses a patch or goes beyond RFC 6902, and what we do.
    const DIFFERENCES: [(&str, &str); 6] = [
        ("replace a container", "its image is the patch's"),
        ("ports of a container merge by number and protocol", "in the patch's order, as with one key"),
        ("ports without a protocol", "the port of that number gets the name"),
        ("ports of a service that differ in protocol", "a port without a protocol is the one that the patch means"),
        ("json replace of what is not there", "an error"),
        ("json index from the end", "an error"),
    ];

    fn patched(case: &Case) -> Result<Vec<Value>, String> {
        let patches = patches_of(&case.patches)?;
        let stream: String = case.objects.iter().map(|object| format!("---\n# Source: c/a.yaml\n{object}\n")).collect();
        let text = apply_to_text(&stream, &patches, "default").map_err(|error| error.to_string())?;
        assert!(text.is_empty() || text.starts_with("---\n# Source: c/a.yaml\n"), "{text}");
        let parse = |text: Vec<u8>| json::to_serde(&yaml::parse_preserving_ints(&text).unwrap());
        let all = yaml::split(text.as_bytes()).unwrap().into_iter().map(|text| parse(text.to_vec()));
        Ok(all.filter(|object| !object.is_null()).collect())
    }

    #[test]
    fn patches_do_what_kustomize_does() {
        let cases: Vec<Case> =
            include_str!("cases.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(cases.len() >= 60);
        let mut wrong = Vec::new();
        for case in &cases {
            let ours = patched(case);
            let is_same = match (&ours, &case.out) {
                (Ok(ours), Some(theirs)) => ours == theirs,
                (Err(_), None) => true,
                _ => false,
            };
            let is_known = DIFFERENCES.iter().any(|(name, _)| *name == case.name);
            if is_same == is_known {
                wrong.push(format!("{}:\n{ours:?}\n{:?}", case.name, case.out));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn where_kustomize_loses_a_patch_it_is_applied() {
        let container =
            serde_json::json!({"name": "a", "image": "a:1", "ports": [{"containerPort": 80, "protocol": "TCP"}]});
        let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}});
        let merged = |container: Value| {
            let patch = serde_json::json!({"spec": {"containers": [container]}});
            strategic::merge(&pod, &patch).unwrap().unwrap()["spec"]["containers"][0].clone()
        };
        let replaced = merged(serde_json::json!({"name": "a", "$patch": "replace", "image": "a:2"}));
        assert_eq!(replaced, serde_json::json!({"name": "a", "image": "a:2"}));
        let named = merged(serde_json::json!({"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}));
        assert_eq!(named["ports"], serde_json::json!([{"containerPort": 80, "protocol": "TCP", "name": "http"}]));
    }

    #[test]
    fn what_no_patch_means_keeps_its_text_and_each_failure_names_the_patch_and_the_object() {
        let stream =
            "---\n# Source: c/a.yaml\nkind: A   # kept\nmetadata: {name: a}\n---\n# Source: c/b.yaml\n# nothing\n";
        let none =
            patches_of(&serde_json::json!([{"target": {"kind": "B"}, "patch": "- {op: remove, path: /x}"}])).unwrap();
        assert_eq!(apply_to_text(stream, &none, "ns").unwrap(), stream);
        let check = |patches: Value, expected: &str| {
            let error = patches_of(&patches)
                .and_then(|patches| apply_to_text(stream, &patches, "ns").map_err(|error| error.to_string()));
            assert!(error.as_ref().is_err_and(|error| error.contains(expected)), "{error:?}");
        };
        check(serde_json::json!([{"patch": "{kind: A, metadata: {name: b}}"}]), "patch 1: 0 objects are A \"b\"");
        let remove = serde_json::json!([{"target": {"kind": "A"}, "patch": "- {op: remove, path: /x}"}]);
        check(remove, "patch 1 of A \"a\": ");
        let twice = "{kind: A, metadata: {name: a, $patch: twice}}";
        check(serde_json::json!([{"patch": twice}]), "/metadata: unknown $patch directive \"twice\"");
    }
}
