//! Carries a change of a typed object over to the object as its user sent it, which may have fields that the type does
//! not know.

use serde_json::Value;

/// The longest list whose items are matched one by one. Matching takes time that grows with the square of the length.
pub(super) const MATCHED: usize = 1000;

/// Applies the difference between `before` and `after`, two states as the type prints them, to the original of
/// `before`.
pub(super) fn carry_over(original: &mut Value, before: &Value, after: &Value) {
    match (&mut *original, before, after) {
        (_, before, after) if before == after => {}
        (Value::Object(original), Value::Object(before), Value::Object(after)) => {
            original.retain(|key, _| after.contains_key(key) || !before.contains_key(key));
            for (key, after) in after {
                match (original.get_mut(key), before.get(key)) {
                    (_, Some(before)) if before == after => {}
                    (Some(original), Some(before)) => carry_over(original, before, after),
                    _ => _ = original.insert(key.clone(), after.clone()),
                }
            }
        }
        (Value::Array(original), Value::Array(before), Value::Array(after))
            if original.len() == before.len() && before.len().max(after.len()) <= MATCHED =>
        {
            let items = after.iter().enumerate().map(|(at, item)| match origin(before, after, at) {
                None => item.clone(),
                Some(from) => {
                    let mut carried = original[from].clone();
                    carry_over(&mut carried, &before[from], item);
                    carried
                }
            });
            *original = items.collect();
        }
        (original, _, after) => *original = after.clone(),
    }
}

/// Returns the position before the change of an item of `after`: the position of an equal item, of the item with the
/// same name, or, in a list of the same length, the same position, unless the item there has another name.
pub(super) fn origin(before: &[Value], after: &[Value], at: usize) -> Option<usize> {
    let item = &after[at];
    if before.get(at) == Some(item) {
        return Some(at);
    }
    let same = |known: &Value| known == item;
    let named = |known: &Value| item["name"].is_string() && known["name"] == item["name"];
    let is_own = |own: &&Value| before.len() == after.len() && !(item["name"].is_string() && own["name"].is_string());
    let own = before.get(at).filter(is_own).map(|_| at);
    before.iter().position(same).or_else(|| before.iter().position(named)).or(own)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(original: Value, before: Value, after: Value, expected: Value) {
        let mut carried = original.clone();
        carry_over(&mut carried, &before, &after);
        assert_eq!(carried, expected);
        let patch = json_patch::diff(&original, &carried);
        let mut patched = original;
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(patched, expected, "as a patch");
    }

    #[test]
    fn unknown_fields_stay_and_changed_ones_change() {
        check(
            json!({"known": 1, "unknown": {"a": null}}),
            json!({"known": 1, "empty": null}),
            json!({"known": 2, "empty": null}),
            json!({"known": 2, "unknown": {"a": null}}),
        );
        check(json!({"a": {"b": 1, "x": 2}}), json!({"a": {"b": 1}}), json!({"a": {}}), json!({"a": {"x": 2}}));
        check(json!({}), json!({"list": []}), json!({"list": ["a"]}), json!({"list": ["a"]}));
        check(json!({"x~/y": 1}), json!({"x~/y": 1}), json!({}), json!({}));
    }

    #[test]
    fn what_the_type_prints_otherwise_stays_as_it_was_written() {
        check(
            json!({"cpu": "1000m"}),
            json!({"cpu": "1", "n": 1}),
            json!({"cpu": "1", "n": 2}),
            json!({"cpu": "1000m", "n": 2}),
        );
    }

    #[test]
    fn items_keep_their_unknown_fields_wherever_they_move() {
        let item = |name: &str, unknown: i32| json!({"name": name, "x": unknown});
        let known = |name: &str| json!({"name": name});
        check(
            json!([item("a", 1), item("b", 2), item("c", 3)]),
            json!([known("a"), known("b"), known("c")]),
            json!([known("new"), known("c"), {"name": "a", "changed": true}]),
            json!([known("new"), item("c", 3), {"name": "a", "x": 1, "changed": true}]),
        );
        check(json!([{"v": 1, "x": 1}]), json!([{"v": 1}]), json!([{"v": 2}]), json!([{"v": 2, "x": 1}]));
        check(json!([{"x": 1}]), json!([{}]), json!([{"name": "a"}]), json!([{"name": "a", "x": 1}]));
        check(
            json!([item("a", 1), item("b", 2)]),
            json!([known("a"), known("b")]),
            json!([known("c"), known("d")]),
            json!([known("c"), known("d")]),
        );
    }
}
