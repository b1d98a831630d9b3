//! Three-way merges: returns a patch that turns a live object into the new manifest, and drops what only the last
//! manifest contains.
//!
//! With a schema it is a strategic merge patch, otherwise a JSON merge patch. Counterparts: apimachinery's
//! `CreateThreeWayMergePatch` and `CreateThreeWayJSONMergePatch`, with one difference: a keyed list with a duplicate
//! key is replaced, whereas theirs loses entries.

use serde_json::{Map, Value, json};

use super::schema::{Field, Schema};

type Object = Map<String, Value>;

/// Returns the patch; empty if nothing changes.
pub(super) fn three_way(last: Option<&Value>, new: &Value, live: &Value, schema: Option<Schema<'_>>) -> Object {
    match (new, live) {
        (Value::Object(new), Value::Object(live)) => {
            maps(Maps { last: last.and_then(Value::as_object), new, live }, schema)
        }
        _ => Object::new(),
    }
}

/// The three versions of a map.
#[derive(Clone, Copy)]
struct Maps<'a> {
    last: Option<&'a Object>,
    new: &'a Object,
    live: &'a Object,
}

fn maps(versions: Maps<'_>, schema: Option<Schema<'_>>) -> Object {
    let Maps { last, new, live } = versions;
    let mut patch = Object::new();
    for key in new.keys() {
        set(&mut patch, key, versions, schema.and_then(|schema| schema.field(key)));
    }
    let dropped = last.iter().flat_map(|last| last.keys()).filter(|key| !new.contains_key(*key));
    for key in dropped.filter(|key| live.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch
}

/// Merges the maps in a field, and clears other fields if the field's rules say so.
fn maps_of(field: Option<Field<'_>>, versions: Maps<'_>) -> Object {
    let Maps { new, live, .. } = versions;
    let mut patch = maps(versions, field.map(|field| field.schema));
    let surplus = |(key, value): (&String, &Value)| !value.is_null() && !new.contains_key(key);
    if field.is_some_and(Field::retains_keys) && (!patch.is_empty() || live.iter().any(surplus)) {
        let kept: Vec<&String> = new.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key).collect();
        patch.insert("$retainKeys".into(), json!(kept));
    }
    patch
}

/// Adds the change of one key of the new map to the patch.
fn set(patch: &mut Object, key: &str, maps: Maps<'_>, field: Option<Field<'_>>) {
    let (last, new, live) = (maps.last.and_then(|last| last.get(key)), &maps.new[key], maps.live.get(key));
    match (new, live) {
        (Value::Null, None) => {}
        (new, Some(live)) if new == live => {}
        (Value::Object(new), Some(Value::Object(live))) if !field.is_some_and(Field::replaces) => {
            let inner = maps_of(field, Maps { last: last.and_then(Value::as_object), new, live });
            if !inner.is_empty() {
                patch.insert(key.to_owned(), inner.into());
            }
        }
        (Value::Array(new), Some(Value::Array(live))) if field.is_some_and(Field::merges) => {
            let last = last.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            match field.and_then(|field| Some((field, field.merge_key()?))) {
                Some((field, merge_key)) => keyed(patch, key, Lists { last, new, live }, field, merge_key),
                None => single(patch, key, Lists { last, new, live }),
            }
        }
        _ => _ = patch.insert(key.to_owned(), new.clone()),
    }
}

/// The three versions of a list.
#[derive(Clone, Copy)]
struct Lists<'a> {
    last: &'a [Value],
    new: &'a [Value],
    live: &'a [Value],
}

/// Merges a list of structures by their merge key.
fn keyed(patch: &mut Object, key: &str, lists: Lists<'_>, field: Field<'_>, merge_key: &str) {
    let (Some(wanted), Some(there)) = (keys(lists.new, merge_key), keys(lists.live, merge_key)) else {
        let all = lists.new.iter().cloned().chain([json!({"$patch": "replace"})]);
        patch.insert(key.to_owned(), all.collect());
        return;
    };
    let mut changes: Vec<Value> = Vec::new();
    for (item, id) in lists.new.iter().zip(&wanted) {
        changes.extend(match find(lists.live, merge_key, id) {
            Some(live) => change_of(find(lists.last, merge_key, id), item, live, field, merge_key),
            None => Some(item.clone()),
        });
    }
    let dropped = lists.last.iter().filter_map(|item| item.get(merge_key)).filter(|id| !wanted.contains(id));
    let dropped = dropped.filter(|id| there.contains(id));
    changes.extend(dropped.map(|id| json!({"$patch": "delete", merge_key: id})));
    let in_order = there.iter().filter(|id| wanted.contains(id)).eq(wanted.iter().filter(|id| there.contains(id)));
    if changes.is_empty() && in_order {
        return;
    }
    let order: Vec<Value> = wanted.iter().map(|id| json!({merge_key: id})).collect();
    patch.insert(format!("$setElementOrder/{key}"), order.into());
    if !changes.is_empty() {
        patch.insert(key.to_owned(), changes.into());
    }
}

/// Returns the changes of one element with its key; `None` if there are none.
fn change_of(last: Option<&Value>, new: &Value, live: &Value, field: Field<'_>, merge_key: &str) -> Option<Value> {
    let (new, live) = (new.as_object()?, live.as_object()?);
    let last = last.and_then(Value::as_object);
    let mut change = maps_of(Some(field), Maps { last, new, live });
    if change.is_empty() {
        return None;
    }
    change.insert(merge_key.to_owned(), new[merge_key].clone());
    Some(change.into())
}

/// Returns the elements' keys in order; `None` if one is missing or duplicate, so that elements cannot be matched.
fn keys<'a>(list: &'a [Value], merge_key: &str) -> Option<Vec<&'a Value>> {
    let keys: Vec<&Value> = list.iter().map(|item| item.get(merge_key)).collect::<Option<_>>()?;
    let unique = keys.iter().enumerate().all(|(at, key)| !key.is_null() && !keys[..at].contains(key));
    unique.then_some(keys)
}

fn find<'a>(list: &'a [Value], merge_key: &str, id: &Value) -> Option<&'a Value> {
    list.iter().find(|item| item.get(merge_key) == Some(id))
}

/// Merges a list of scalars as a set.
fn single(patch: &mut Object, key: &str, Lists { last, new, live }: Lists<'_>) {
    let added: Vec<&Value> = new.iter().filter(|value| !live.contains(value)).collect();
    let dropped: Vec<&Value> = last.iter().filter(|value| !new.contains(value) && live.contains(value)).collect();
    if added.is_empty() && dropped.is_empty() {
        return;
    }
    patch.insert(format!("$setElementOrder/{key}"), json!(new));
    if !dropped.is_empty() {
        patch.insert(format!("$deleteFromPrimitiveList/{key}"), json!(dropped));
    }
    if !added.is_empty() {
        patch.insert(key.to_owned(), json!(added));
    }
}
