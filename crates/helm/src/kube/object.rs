//! One object of a manifest: what it is called and what it says.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Which object: its version is left out, so that a chart may move an object to another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind, self.name)
    }
}

/// One object of a manifest.
#[derive(Clone, Debug)]
pub struct Object {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `metadata.name`; empty if it is generated.
    pub name: String,
    /// `metadata.namespace`; absent in most charts.
    pub namespace: Option<String>,
    /// The whole object.
    pub body: Value,
}

/// Why a document is no object.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The document is not YAML.
    #[error("cannot parse manifest: {0}")]
    Yaml(String),
    /// A field that every object needs is missing.
    #[error("manifest has an object without {0}")]
    Missing(&'static str),
}

impl Object {
    /// Reads one object.
    pub fn new(body: Value) -> Result<Object, ObjectError> {
        let text =
            |pointer: &str| body.pointer(pointer).and_then(Value::as_str).filter(|s| !s.is_empty()).map(str::to_owned);
        let api_version = text("/apiVersion").ok_or(ObjectError::Missing("apiVersion"))?;
        let kind = text("/kind").ok_or(ObjectError::Missing("kind"))?;
        let name = text("/metadata/name").unwrap_or_default();
        let namespace = text("/metadata/namespace");
        Ok(Object { api_version, kind, name, namespace, body })
    }

    /// The API group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// A label, annotation or other text under `metadata`.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.body.get("metadata")?.get("annotations")?.get(key)?.as_str()
    }

    /// A digest of what the chart says, whoever rendered it: what we and the upstreams add later is left out.
    pub fn digest(&self, release_namespace: &str) -> String {
        let mut body = self.body.clone();
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("ownerReferences");
            metadata.remove("creationTimestamp");
            if metadata.get("namespace").and_then(Value::as_str) == Some(release_namespace) {
                metadata.remove("namespace");
            }
        }
        digest_json(&body)
    }
}

/// Every object of a manifest, lists taken apart, empty documents left out.
pub fn objects_of(manifest: &str) -> Result<Vec<Object>, ObjectError> {
    let mut objects = Vec::new();
    for document in documents(manifest) {
        let value = crate::yaml::parse(document.as_bytes()).map_err(|e| ObjectError::Yaml(e.to_string()))?;
        add_objects(crate::json::to_serde(&value), &mut objects)?;
    }
    Ok(objects)
}

fn add_objects(mut value: Value, objects: &mut Vec<Object>) -> Result<(), ObjectError> {
    if value.is_null() {
        return Ok(());
    }
    let is_list = value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items.into_iter().try_for_each(|item| add_objects(item, objects)),
        Some(items) => {
            value["items"] = items;
            objects.push(Object::new(value)?);
            Ok(())
        }
        None => {
            objects.push(Object::new(value)?);
            Ok(())
        }
    }
}

/// The documents of a stream: a line that starts with `---` ends one.
fn documents(manifest: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(manifest);
    std::iter::from_fn(move || {
        let text = rest?;
        let cut = if text.starts_with("---") { Some(0) } else { text.find("\n---").map(|at| at + 1) };
        let (document, after) = match cut {
            Some(at) => (&text[..at], Some(&text[at + 3..])),
            None => (text, None),
        };
        rest = after;
        Some(document)
    })
    .filter(|document| document.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')))
}

/// The first 64 bits of the SHA-256 of a value, in hexadecimal; keys in any order give the same.
pub fn digest_json(value: &Value) -> String {
    let mut hash = Sha256::new();
    feed(value, &mut hash);
    hash.finalize()[..8].iter().map(|b| format!("{b:02x}")).collect()
}

fn feed(value: &Value, hash: &mut Sha256) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            hash.update(b"{");
            for key in keys {
                feed_text(key, hash);
                feed(&map[key], hash);
            }
            hash.update(b"}");
        }
        Value::Array(items) => {
            hash.update(b"[");
            items.iter().for_each(|item| feed(item, hash));
            hash.update(b"]");
        }
        Value::String(text) => feed_text(text, hash),
        other => hash.update(other.to_string()),
    }
    hash.update(b",");
}

fn feed_text(text: &str, hash: &mut Sha256) {
    hash.update(b"\"");
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text);
}
