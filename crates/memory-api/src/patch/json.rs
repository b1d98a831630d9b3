//! JSON patch (RFC 6902).

use serde_json::Value;

/// Applies the operations in order.
///
/// # Errors
/// The message of the operation that cannot be applied. The operations before it stay applied.
pub(crate) fn json_patch(object: &mut Value, patch: &Value) -> Result<(), String> {
    patch.as_array().into_iter().flatten().try_for_each(|step| operation(object, step))
}

fn operation(object: &mut Value, step: &Value) -> Result<(), String> {
    let text = |key: &str| step[key].as_str().unwrap_or_default();
    let (op, path, from) = (text("op"), text("path"), text("from"));
    match op {
        "test" => {
            let found = object.pointer(path).unwrap_or(&Value::Null);
            let failed = || format!("testing value {path} failed: test failed");
            if *found == step["value"] { Ok(()) } else { Err(failed()) }
        }
        "add" => add(object, path, step["value"].clone()),
        "remove" => take(object, path).map(|_| ()),
        "replace" => replace(object, path, step["value"].clone()),
        "move" => take(object, from).and_then(|value| add(object, path, value)),
        "copy" => {
            let missing = || format!("copy operation does not apply: doc is missing from path: {from}: missing value");
            let value = object.pointer(from).cloned().ok_or_else(missing)?;
            add(object, path, value)
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn split(path: &str) -> (&str, String) {
    let (parent, last) = path.rsplit_once('/').unwrap_or(("", path));
    (parent, last.replace("~1", "/").replace("~0", "~"))
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let missing = || format!("add operation does not apply: doc is missing path: \"{path}\": missing value");
    if path.is_empty() {
        *object = value;
        return Ok(());
    }
    let (parent, last) = split(path);
    match object.pointer_mut(parent) {
        Some(Value::Object(map)) => _ = map.insert(last, value),
        Some(Value::Array(items)) => {
            let at = if last == "-" { items.len() } else { last.parse().map_err(|_| missing())? };
            if at > items.len() {
                return Err(missing());
            }
            items.insert(at, value);
        }
        _ => return Err(missing()),
    }
    Ok(())
}

/// Replaces a value. Also sets a missing key of a map, as the server's library does.
fn replace(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let missing = || format!("replace operation does not apply: doc is missing path: {path}: missing value");
    if let Some(found) = object.pointer_mut(path) {
        *found = value;
        return Ok(());
    }
    let (parent, last) = split(path);
    let parent = object.pointer_mut(parent).and_then(Value::as_object_mut).ok_or_else(missing)?;
    parent.insert(last, value);
    Ok(())
}

fn take(object: &mut Value, path: &str) -> Result<Value, String> {
    let missing = || format!("remove operation does not apply: doc is missing path: \"{path}\": missing value");
    let (parent, last) = split(path);
    let taken = match object.pointer_mut(parent) {
        Some(Value::Object(map)) => map.remove(&last),
        Some(Value::Array(items)) => last.parse().ok().filter(|at| *at < items.len()).map(|at: usize| items.remove(at)),
        _ => None,
    };
    taken.ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_are_applied_in_order() {
        let mut object = json!({"a": {"b/c": 1}, "list": [1, 2]});
        let patch = json!([
            {"op": "test", "path": "/a/b~1c", "value": 1},
            {"op": "replace", "path": "/a/b~1c", "value": 2},
            {"op": "add", "path": "/list/-", "value": 3},
            {"op": "add", "path": "/list/0", "value": 0},
            {"op": "remove", "path": "/list/1"},
            {"op": "copy", "from": "/a", "path": "/copied"},
            {"op": "move", "from": "/copied/b~1c", "path": "/moved"},
        ]);
        json_patch(&mut object, &patch).unwrap();
        assert_eq!(object, json!({"a": {"b/c": 2}, "list": [0, 2, 3], "copied": {}, "moved": 2}));
    }

    #[test]
    fn operations_that_do_not_apply_are_refused() {
        for step in [
            json!({"op": "test", "path": "/a", "value": 2}),
            json!({"op": "remove", "path": "/b"}),
            json!({"op": "replace", "path": "/b/c", "value": 1}),
            json!({"op": "add", "path": "/b/c", "value": 1}),
            json!({"op": "add", "path": "/list/2", "value": 1}),
        ] {
            let mut object = json!({"a": 1, "list": [1]});
            assert!(json_patch(&mut object, &json!([step])).is_err(), "{step}");
        }
    }
}
