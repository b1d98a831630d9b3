//! Determines whether a recorded manifest is the output of a chart that renders random values. Pure.
//!
//! Two renders show what is random: where they differ, the record may have any value.

use helm_release::kube::Object;
use serde_json::Value;

/// Returns whether the recorded objects equal both renders, except where these differ from each other.
pub(crate) fn is_alike(recorded: &[Object], renders: [&[Object]; 2]) -> bool {
    let [first, second] = renders;
    let steady: Vec<(&Object, &Object)> =
        first.iter().filter_map(|object| Some((object, of_name(second, object)?))).collect();
    // Objects with random names cannot be compared, only counted.
    recorded.len() == first.len()
        && steady.into_iter().all(|(first, second)| {
            of_name(recorded, first).is_some_and(|recorded| agrees(&recorded.body, &first.body, &second.body))
        })
}

fn of_name<'o>(objects: &'o [Object], like: &Object) -> Option<&'o Object> {
    let identity = |object: &'o Object| (&object.api_version, &object.kind, &object.namespace, &object.name);
    objects.iter().find(|object| {
        let like = (&like.api_version, &like.kind, &like.namespace, &like.name);
        identity(object) == like
    })
}

fn agrees(recorded: &Value, first: &Value, second: &Value) -> bool {
    match (recorded, first, second) {
        _ if recorded == first || recorded == second => true,
        (Value::Object(recorded), Value::Object(first), Value::Object(second)) => {
            let known = |key: &String| first.contains_key(key) || second.contains_key(key);
            let mut both = first.iter().filter_map(|(key, value)| Some((key, value, second.get(key)?)));
            recorded.keys().all(known)
                && both.all(|(key, first, second)| recorded.get(key).is_some_and(|it| agrees(it, first, second)))
        }
        (Value::Array(recorded), Value::Array(first), Value::Array(second)) if first.len() == second.len() => {
            recorded.len() == first.len()
                && recorded.iter().zip(first.iter().zip(second)).all(|(it, (first, second))| agrees(it, first, second))
        }
        _ => first != second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn objects(bodies: &[(&str, Value)]) -> Vec<Object> {
        let object = |(name, data): &(&str, Value)| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data});
        bodies.iter().map(|body| Object::new(object(body)).unwrap()).collect()
    }

    #[test]
    fn only_what_no_render_repeats_may_differ() {
        let render = |password: &str, name: &str| {
            objects(&[("a", json!({"password": password, "fixed": ["x", {"y": 1}]})), (name, json!({"z": 1}))])
        };
        let (first, second) = (render("one", "b"), render("two", "b"));
        let check = |why: &str, recorded: &[Object], expected: bool| {
            assert_eq!(is_alike(recorded, [&first, &second]), expected, "{why}");
        };
        check("another password", &render("three", "b"), true);
        check("as rendered", &first, true);
        let with = |data: Value| objects(&[("a", data), ("b", json!({"z": 1}))]);
        check("another field", &with(json!({"password": "3", "fixed": ["x", {"y": 2}]})), false);
        check("one more field", &with(json!({"password": "3", "fixed": ["x", {"y": 1}], "more": 1})), false);
        check("one field less", &with(json!({"password": "3"})), false);
        check("a longer list", &with(json!({"password": "3", "fixed": ["x", {"y": 1}, 2]})), false);
        check("an object less", &first[..1], false);
        check("another object", &render("three", "c"), false);
        let (first, second) = (render("one", "b-1"), render("one", "b-2"));
        assert!(is_alike(&render("one", "b-3"), [&first, &second]), "a random name");
        assert!(!is_alike(&render("two", "b-3"), [&first, &second]), "and a fixed value");
    }
}
