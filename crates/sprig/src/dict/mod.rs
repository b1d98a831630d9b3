//! Map functions. Counterpart: Sprig's `dict.go`. Maps are shared: `set`, `unset` and the merges change their argument.
//!
//! Go iterates over maps in random order; here, `keys` and `values` are sorted by key.

mod merge;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use go_template::{FuncError, FuncMap, Function, List, Map, MapType, Param, Rest, Scope, Str, Value};
use golibs::work::note_work;

use super::cast::to_text;
use super::limits::Walk;

pub(super) fn register(map: &mut FuncMap) {
    map.add("dict", dict)
        .add("get", |m: Map, key: Str| m.get(&*key).unwrap_or_else(|| "".into()))
        .insert("set", Function::new(vec![Param::Map, Param::String, Param::Any], None, set))
        .add("unset", unset)
        .add("hasKey", |m: Map, key: Str| m.get(&*key).is_some())
        .add("pluck", pluck)
        .add("keys", keys)
        .add("values", |m: Map| Value::list(m.entries().values().cloned().collect()))
        .add("pick", pick)
        .add("omit", omit)
        .add("dig", dig)
        .add("deepCopy", deep_copy)
        .add("mustDeepCopy", deep_copy);
    merge::register(map);
}

fn dict(Rest(items): Rest<Value>) -> Map {
    let entry = |pair: &[Value]| (to_text(&pair[0]), pair.get(1).cloned().unwrap_or_else(|| "".into()));
    items.chunks(2).map(entry).collect()
}

fn set(scope: &mut Scope<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let [Value::Map(map), Value::String(key), value] = args else {
        return Err(nil_map());
    };
    if map.is_nil() {
        return Err(nil_map());
    }
    scope.note_change(map, value);
    map.insert(key.clone(), value.clone());
    Ok(Value::Map(map.with_type(MapType::Interface)))
}

fn nil_map() -> FuncError {
    FuncError::new("assignment to entry in nil map")
}

fn unset(map: Map, key: Str) -> Map {
    map.entries_mut().remove(&key);
    map
}

fn pluck(key: Str, Rest(maps): Rest<Map>) -> Value {
    Value::list(maps.iter().filter_map(|m| m.get(&*key)).collect())
}

fn keys(Rest(maps): Rest<Map>) -> List {
    let keys: Vec<Str> = maps.iter().flat_map(|m| m.entries().keys().cloned().collect::<Vec<_>>()).collect();
    List::strings(keys)
}

fn pick(map: Map, Rest(keys): Rest<Str>) -> Map {
    keys.into_iter().filter_map(|key| map.get(&*key).map(|value| (key, value))).collect()
}

fn omit(map: Map, Rest(keys): Rest<Str>) -> Map {
    note_work(map.len() as u64);
    let keys: HashSet<Str> = keys.into_iter().collect();
    map.snapshot().into_iter().filter(|(key, _)| !keys.contains(key)).collect()
}

/// Evaluates `dig KEY… DEFAULT MAP`: returns the value at the path of keys, or the default.
fn dig(Rest(args): Rest<Value>) -> Result<Value, FuncError> {
    let [keys @ .., default, last] = args.as_slice() else {
        return Err(FuncError::new("dig needs at least three arguments"));
    };
    if keys.is_empty() {
        return Err(FuncError::new("dig needs at least three arguments"));
    }
    let mut map = plain_map(last)?;
    let keys = keys.iter().map(|k| k.as_str().ok_or_else(|| conversion(k, "string"))).collect::<Result<Vec<_>, _>>()?;
    for (i, key) in keys.iter().enumerate() {
        match map.get(&**key) {
            None => return Ok(default.clone()),
            Some(value) if i + 1 == keys.len() => return Ok(value),
            Some(value) => map = plain_map(&value)?,
        }
    }
    Ok(default.clone())
}

/// Converts a value like Go's type assertion. `.Values` itself has a named type and so is not a plain map.
fn plain_map(value: &Value) -> Result<Map, FuncError> {
    let map = value.as_map().filter(|m| m.ty() == MapType::Interface);
    map.cloned().ok_or_else(|| conversion(value, "map[string]interface {}"))
}

fn conversion(value: &Value, wanted: &str) -> FuncError {
    let found = if matches!(value, Value::Nil) { "nil" } else { value.type_name() };
    FuncError::new(format!("interface conversion: interface {{}} is {found}, not {wanted}"))
}

fn deep_copy(value: Value) -> Result<Value, FuncError> {
    if matches!(value, Value::Nil) {
        return Err(FuncError::new("reflect: call of reflect.Value.Type on zero Value"));
    }
    copied(&value, &mut Walk::new())
}

fn copied(value: &Value, walk: &mut Walk) -> Result<Value, FuncError> {
    match value {
        Value::List(list) if !list.is_nil() => walk.enter(list.len(), |walk| {
            let items = list.iter().map(|item| copied(item, walk)).collect::<Result<_, _>>()?;
            Ok(Value::List(List::new(list.ty(), items)))
        }),
        Value::Map(map) if !map.is_nil() => walk.enter(map.len(), |walk| {
            let entries = map.snapshot().into_iter().map(|(k, v)| Ok((k, copied(&v, walk)?)));
            Ok(Value::Map(Map::new(map.ty(), entries.collect::<Result<_, FuncError>>()?)))
        }),
        Value::Object(object) => Ok(object.copied().unwrap_or_else(|| value.clone())),
        other => Ok(other.clone()),
    }
}
