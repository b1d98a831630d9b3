//! Merges the metadata lists that several controllers share as sets, so that other controllers' items stay. A JSON
//! merge patch would replace a whole list, and any patch would remove a list that the new manifest no longer contains.

use serde_json::Value;

/// The shared lists, and the field that identifies their items; `None` if an item is its own key.
const SHARED: [(&str, Option<&str>); 2] = [("ownerReferences", Some("uid")), ("finalizers", None)];

/// Adds other controllers' items to the new object: those in the live object that the last manifest does not have.
pub(super) fn keep_others(last: Option<&Value>, new: &mut Value, live: &Value) {
    for (name, key) in SHARED {
        let last = last.map_or(&[][..], |last| items(last, name));
        let all = union(last, items(new, name), items(live, name), key);
        let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        match metadata.get(name) {
            // Invalid; the server will reject it.
            Some(found) if !found.is_array() && !found.is_null() => {}
            _ if all.is_empty() => _ = metadata.remove(name),
            _ => _ = metadata.insert(name.to_owned(), all.into()),
        }
    }
}

/// Returns whether a patch sets or removes one of the lists, which makes it valid only for the version of the object
/// that was read.
pub(super) fn is_changed_by(patch: &Value) -> bool {
    SHARED.iter().any(|(name, _)| patch["metadata"].get(*name).is_some())
}

/// Returns the live items, minus those that the new manifest drops, plus those that it adds.
fn union(last: &[Value], new: &[Value], live: &[Value], key: Option<&str>) -> Vec<Value> {
    let is_controller = |item: &Value| item["controller"] == true;
    // An object has only one controller: an earlier resource with the owner's name gives way.
    let gives_way = |item: &Value| is_controller(item) && new.iter().any(is_controller);
    let is_left = |item: &&Value| find(last, item, key).is_none() && !gives_way(item);
    let left = live.iter().filter_map(|item| find(new, item, key).or_else(|| Some(item).filter(is_left)));
    let added = new.iter().filter(|item| find(live, item, key).is_none());
    left.chain(added).cloned().collect()
}

fn items<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object["metadata"][name].as_array().map_or(&[][..], Vec::as_slice)
}

fn find<'a>(list: &'a [Value], item: &Value, key: Option<&str>) -> Option<&'a Value> {
    list.iter().find(|other| id(other, key) == id(item, key))
}

fn id<'a>(item: &'a Value, key: Option<&str>) -> &'a Value {
    key.map_or(item, |key| &item[key])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Merges the three versions of a list.
    fn check(name: &str, [last, new, live]: [Value; 3], expected: &Value) {
        let of = |list: &Value| json!({"metadata": {"name": "x", name: list}});
        let mut merged = of(&new);
        keep_others(Some(&of(&last)), &mut merged, &of(&live));
        assert_eq!(merged["metadata"].get(name).unwrap_or(&Value::Null), expected, "{last} {new} {live}");
    }

    #[test]
    fn only_the_items_of_the_last_manifest_are_dropped() {
        let check = |versions: [Value; 3], expected: Value| check("finalizers", versions, &expected);
        check([json!(["a"]), json!(["a"]), json!(["x", "a"])], json!(["x", "a"]));
        check([json!(["a"]), json!(["b"]), json!(["a", "x"])], json!(["x", "b"]));
        check([json!(["a"]), json!([]), json!(["a", "x"])], json!(["x"]));
        check([json!(["a"]), Value::Null, json!(["a", "x"])], json!(["x"]));
        check([json!(["a"]), Value::Null, json!(["a"])], Value::Null);
        check([Value::Null, json!(["x"]), json!(["x"])], json!(["x"]));
        check([Value::Null, json!([]), Value::Null], Value::Null);
        check([json!(["a"]), json!("a"), json!(["a", "x"])], json!("a"));
    }

    #[test]
    fn owner_references_are_those_of_one_uid_and_have_one_controller() {
        let owner = |uid: &str, controller: bool| json!({"uid": uid, "controller": controller, "name": "web"});
        let check = |versions: [Value; 3], expected: Value| check("ownerReferences", versions, &expected);
        let (ours, theirs) = (owner("u", true), owner("x", false));
        let was = json!({"uid": "u", "controller": false, "name": "web"});
        check([json!([was]), json!([ours]), json!([theirs, was])], json!([theirs, ours]));
        check([json!([ours]), Value::Null, json!([ours, theirs])], json!([theirs]));
        check([json!([ours]), Value::Null, json!([ours])], Value::Null);
        check([Value::Null, json!([ours]), json!([owner("earlier", true), theirs])], json!([theirs, ours]));
        check([Value::Null, Value::Null, json!([owner("other", true)])], json!([owner("other", true)]));
    }

    #[test]
    fn an_object_without_a_last_manifest_keeps_everything() {
        let mut new = json!({"metadata": {"finalizers": ["a"]}});
        keep_others(None, &mut new, &json!({"metadata": {"finalizers": ["x"], "ownerReferences": [{"uid": "y"}]}}));
        assert_eq!(new, json!({"metadata": {"finalizers": ["x", "a"], "ownerReferences": [{"uid": "y"}]}}));
    }
}
