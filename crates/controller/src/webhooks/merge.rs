//! Carries a change of a typed object over to the object as its user sent it, which may have fields that the type does
//! not know.

use std::collections::HashMap;

use serde_json::Value;

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
        (Value::Array(original), Value::Array(before), Value::Array(after)) if original.len() == before.len() => {
            let origins = Origins::new(before, after);
            let items = after.iter().enumerate().map(|(at, item)| match origins.of(at) {
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

/// Where the items of a list were before its change. Finding all of them takes time in proportion to the list.
pub(super) struct Origins<'v> {
    before: &'v [Value],
    after: &'v [Value],
    /// The first position of each item.
    items: HashMap<&'v Value, usize>,
    /// The first position of each name.
    names: HashMap<&'v str, usize>,
}

impl<'v> Origins<'v> {
    pub(super) fn new(before: &'v [Value], after: &'v [Value]) -> Origins<'v> {
        let (mut items, mut names) = (HashMap::new(), HashMap::new());
        for (at, item) in before.iter().enumerate() {
            items.entry(item).or_insert(at);
            name(item).into_iter().for_each(|name| _ = names.entry(name).or_insert(at));
        }
        Origins { before, after, items, names }
    }

    /// Returns the position before the change of an item of `after`: the position of an equal item, of the item with
    /// the same name, or, in a list of the same length, the same position, unless the item there has another name.
    pub(super) fn of(&self, at: usize) -> Option<usize> {
        let (own, item) = (self.before.get(at), &self.after[at]);
        if own == Some(item) {
            return Some(at);
        }
        let same = self.items.get(item).copied();
        let named = || self.names.get(name(item)?).copied();
        let is_renamed = |own: &Value| name(item).is_some() && name(own).is_some();
        let is_own = self.before.len() == self.after.len() && own.is_some_and(|own| !is_renamed(own));
        same.or_else(named).or(is_own.then_some(at))
    }
}

fn name(item: &Value) -> Option<&str> {
    item["name"].as_str()
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

    #[test]
    fn items_of_a_long_list_keep_their_unknown_fields() {
        let list = |item: &dyn Fn(usize) -> Value| Value::Array((0..5000).map(item).collect());
        let known = |at: usize| json!({"name": at.to_string(), "v": at / 4999});
        check(
            list(&|at| json!({"name": at.to_string(), "v": 0, "x": at})),
            list(&|at| json!({"name": at.to_string(), "v": 0})),
            list(&|at| known(4999 - at)),
            list(&|at| json!({"name": (4999 - at).to_string(), "v": (4999 - at) / 4999, "x": 4999 - at})),
        );
    }
}
