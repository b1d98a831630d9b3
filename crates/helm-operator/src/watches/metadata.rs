//! Decodes `commonLabels` and `commonAnnotations`: labels and annotations for each object of a release.

use std::collections::BTreeMap;
use std::sync::Arc;

use helm::dns::is_subdomain;
use scaffold::annotations::PREFIX;

use super::node::{Entry, Node};

/// Labels that each object of a release gets, unless its chart sets the key. Default: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommonLabels(pub Arc<BTreeMap<String, String>>);

/// Annotations that each object of a release gets, unless its chart sets the key. Default: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommonAnnotations(pub Arc<BTreeMap<String, String>>);

/// Labels that the operator sets on each object itself.
const OWN: [&str; 2] = ["app.kubernetes.io/managed-by", "helm.sdk.operatorframework.io/chart"];

/// The prefixes of annotations that Helm, kubectl or the operator sets or reads. Such an annotation on every object
/// would turn each object into a hook, keep it, give it another owner, or mislead a three-way merge.
const RESERVED: [&str; 5] =
    ["helm.sh/", "meta.helm.sh/", PREFIX, "operator-sdk/", "kubectl.kubernetes.io/last-applied-configuration"];

/// The maximum length of an object's annotations together, names included, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The maximum length of a label's name and of its value.
const MAX_NAME: usize = 63;

/// Decodes `commonLabels: {team: red}`. Checks what the API server would refuse, so that no release fails later.
pub(super) fn common_labels(value: &Node) -> Result<CommonLabels, String> {
    Ok(CommonLabels(Arc::new(entries(value, label)?)))
}

/// Decodes `commonAnnotations: {example.com/owner: Team Red}`. Checks what the API server would refuse, so that no
/// release fails later, and what Helm or the operator would act on.
pub(super) fn common_annotations(value: &Node) -> Result<CommonAnnotations, String> {
    let all = entries(value, annotation)?;
    let size: usize = all.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > MAX_ANNOTATIONS {
        return Err(format!("{size} bytes are too many: an object has at most {MAX_ANNOTATIONS} bytes of annotations"));
    }
    Ok(CommonAnnotations(Arc::new(all)))
}

/// Decodes a mapping of strings, each of which `check` accepts.
fn entries(value: &Node, check: fn(&str, &str) -> Result<(), String>) -> Result<BTreeMap<String, String>, String> {
    let checked = |Entry { key, value, .. }: &Entry| {
        let value = value.string().map_err(|error| format!("{key}: {error}; write it in quotes"))?;
        check(key, value).map(|()| (key.clone(), value.to_owned()))
    };
    value.map()?.iter().map(checked).collect()
}

/// Rejects an annotation that an object cannot have, or that is not the user's. As in the API server, its prefix may
/// have capitals, and its value is any text.
fn annotation(key: &str, _: &str) -> Result<(), String> {
    if RESERVED.iter().any(|reserved| key.starts_with(reserved)) {
        return Err(format!("{key}: Helm, kubectl or the operator uses this annotation itself"));
    }
    if !is_key(&key.to_ascii_lowercase()) {
        return Err(format!(
            "{key:?} is no annotation: expected a name, or a prefix and a name, such as example.com/owner"
        ));
    }
    Ok(())
}

/// Rejects a label that an object cannot have, or that the operator sets.
fn label(key: &str, value: &str) -> Result<(), String> {
    if OWN.contains(&key) {
        return Err(format!("{key}: the operator sets this label itself"));
    }
    if !is_key(key) {
        return Err(format!("{key:?} is no label: expected a name, or a prefix and a name, such as example.com/team"));
    }
    if !(value.is_empty() || is_name(value)) {
        return Err(format!("{key}: {value:?} is no value of a label: {RULE}"));
    }
    Ok(())
}

const RULE: &str =
    "at most 63 letters, digits, '-', '_' and '.', the first and the last of which are letters or digits";

fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    name.len() <= MAX_NAME && bytes.iter().all(|byte| is_inner(*byte)) && is_end(bytes.first()) && is_end(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_those_that_the_server_accepts() {
        for key in ["team", "example.com/team", "a.b-c/D_e.f-1", &"x".repeat(63)] {
            assert!(is_key(key), "{key}");
        }
        for key in ["", "/team", "team/", "a/b/c", "Example.com/team", "-a/b", "team ", "-team", "té", &"x".repeat(64)]
        {
            assert!(!is_key(key), "{key}");
        }
        assert!(is_name("a_b.C-1") && !is_name("_a") && !is_name("a\n"));
    }
}
