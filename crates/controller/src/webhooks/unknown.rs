//! Keeps the fields that neither of two versions' types knows when an object is converted, as schemas with
//! `x-kubernetes-preserve-unknown-fields` allow.

use serde_json::Value;

use super::answer::decode;
use crate::reconciler::Kind;

/// The most fields that are tried one by one. More are tried together.
const TRIED: usize = 64;

/// A field's path and value.
type Field = (Vec<String>, Value);

/// Copies fields that the original's type does not know: those missing in `known`, the original as its type serializes
/// it. Skips names that type `B` declares, because there they mean something else.
pub(super) fn keep<B: Kind>(original: &Value, known: &Value, converted: &mut Value) {
    let mut fields = Vec::new();
    for part in ["spec", "status"] {
        collect(&original[part], &known[part], &mut vec![part.to_owned()], &mut fields);
    }
    if fields.is_empty() {
        return;
    }
    let size = if fields.len() > TRIED { fields.len() } else { 1 };
    for fields in fields.chunks(size) {
        let mut candidate = converted.clone();
        fields.iter().for_each(|(path, value)| insert(&mut candidate, path, value));
        if print::<B>(&candidate).is_some_and(|printed| Some(printed) == print::<B>(converted)) {
            *converted = candidate;
        }
    }
}

fn print<B: Kind>(object: &Value) -> Option<Value> {
    serde_json::to_value(decode::<B>(object).ok()?).ok()
}

/// Collects the fields that only the original has.
fn collect(original: &Value, known: &Value, path: &mut Vec<String>, fields: &mut Vec<Field>) {
    let (Value::Object(original), Value::Object(known)) = (original, known) else { return };
    for (key, value) in original {
        path.push(key.clone());
        match known.get(key) {
            Some(known) => collect(value, known, path, fields),
            None if !value.is_null() => fields.push((path.clone(), value.clone())),
            None => {}
        }
        path.pop();
    }
}

/// Inserts a field, unless it already exists, or its parent is missing or a list.
fn insert(object: &mut Value, path: &[String], value: &Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(object, |object, key| object.get_mut(key));
    if let Some(parent) = parent.and_then(Value::as_object_mut) {
        parent.entry(last).or_insert_with(|| value.clone());
    }
}
