//! Merges a strategic patch into an object, as kustomize does: maps are merged, null removes, lists of built-in kinds that
//! have merge keys are merged by these with the patch's elements first, and all other lists are replaced. The directive
//! `$patch` replaces or deletes.
//!
//! Counterpart: kyaml's `yaml/merge2` and `yaml/walk`. Recursion is bounded by the reader of the patch and of the manifest.

use serde_json::{Map, Value};

use super::keys::{Keys, Structure, structure_of};

/// The reason why a patch cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("{path}: the object has {object}, the patch {patch}")]
    Type { path: String, object: &'static str, patch: &'static str },
    #[error("{path}: unknown $patch directive {directive}: expected \"replace\", \"delete\" or \"merge\"")]
    Directive { path: String, directive: String },
}

/// What `$patch` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

/// Returns the object with the patch; `None` if the patch deletes it.
///
/// # Errors
/// A value has another type, or a directive is unknown.
pub(crate) fn merge(object: &Value, patch: &Value) -> Result<Option<Value>, Error> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    walk(Some(object), Some(patch), structure_of(text("apiVersion"), text("kind")), "")
}

fn walk(
    object: Option<&Value>,
    patch: Option<&Value>,
    structure: Option<&'static Structure>,
    path: &str,
) -> Result<Option<Value>, Error> {
    let Some(patch) = patch else { return Ok(object.cloned()) };
    let known = object.filter(|object| !object.is_null());
    match (known, patch) {
        (_, Value::Null) => Ok(None),
        (Some(object), patch) if type_of(object) != type_of(patch) => {
            Err(Error::Type { path: path.to_owned(), object: type_of(object), patch: type_of(patch) })
        }
        (object, Value::Object(patch)) => map(object.and_then(Value::as_object), patch, structure, path),
        (_, patch) => Ok(Some(patch.clone())),
    }
}

fn map(
    object: Option<&Map<String, Value>>,
    patch: &Map<String, Value>,
    structure: Option<&'static Structure>,
    path: &str,
) -> Result<Option<Value>, Error> {
    let base = match directive(patch, path)? {
        Directive::Delete => return Ok(None),
        Directive::Replace => None,
        Directive::Merge => object,
    };
    let mut merged = base.cloned().unwrap_or_default();
    for (key, value) in patch.iter().filter(|(key, _)| *key != "$patch") {
        let path = format!("{path}/{key}");
        let field = structure.and_then(|structure| structure.field(key));
        let old = base.and_then(|base| base.get(key));
        let new = match (value, field.and_then(|field| field.keys.as_ref())) {
            (Value::Array(elements), Some(keys)) => {
                list(old, elements, keys, field.and_then(|field| field.structure()), &path)?
            }
            _ => walk(old, Some(value), field.and_then(|field| field.structure()), &path)?,
        };
        match new {
            Some(new) => _ = merged.insert(key.clone(), new),
            None => _ = merged.remove(key),
        }
    }
    Ok(Some(Value::Object(merged)))
}

/// Merges lists by keys: first the patch's elements, then the others.
fn list(
    old: Option<&Value>,
    patch: &[Value],
    keys: &Keys,
    structure: Option<&'static Structure>,
    path: &str,
) -> Result<Option<Value>, Error> {
    let old = match old {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(old)) => old,
        Some(other) => return Err(Error::Type { path: path.to_owned(), object: type_of(other), patch: "a list" }),
    };
    let (mut is_replaced, mut elements) = (false, Vec::new());
    for element in patch {
        match element.as_object() {
            Some(only) if only.len() == 1 && only.contains_key("$patch") => match directive(only, path)? {
                Directive::Delete => return Ok(None),
                Directive::Replace => is_replaced = true,
                Directive::Merge => {}
            },
            _ => elements.push(element),
        }
    }
    let mut left: Vec<&Value> = if is_replaced { Vec::new() } else { old.iter().collect() };
    let mut merged = Vec::new();
    for element in elements {
        let found = left.iter().position(|one| keys.is_same(one, element));
        let one = found.map(|at| left.remove(at));
        merged.extend(walk(one, Some(element), structure, path)?.filter(|new| *new != Value::Object(Map::new())));
    }
    merged.extend(left.into_iter().cloned());
    Ok(Some(Value::Array(merged)))
}

fn directive(patch: &Map<String, Value>, path: &str) -> Result<Directive, Error> {
    match patch.get("$patch") {
        None => Ok(Directive::Merge),
        Some(Value::String(word)) if word == "merge" => Ok(Directive::Merge),
        Some(Value::String(word)) if word == "replace" => Ok(Directive::Replace),
        Some(Value::String(word)) if word == "delete" => Ok(Directive::Delete),
        Some(other) => Err(Error::Directive { path: path.to_owned(), directive: other.to_string() }),
    }
}

/// Returns the type as far as kustomize distinguishes it.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "a map",
        Value::Array(_) => "a list",
        _ => "a scalar",
    }
}
