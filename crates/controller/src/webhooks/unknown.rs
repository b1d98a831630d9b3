//! Keeps the fields that neither of two versions' types knows when an object is converted, as schemas with
//! `x-kubernetes-preserve-unknown-fields` allow.

use std::collections::VecDeque;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::abandoned::Abandoned;
use super::answer::decode;
use super::merge::Origins;
use crate::reconciler::Kind;

/// How often fields of an object are tried: enough to find all that fit among 64. An object must not take so long, or
/// fail, because that would fail its whole list.
const TRIES: usize = 128;

/// The fields that every conversion sets by itself.
const HEAD: [&str; 3] = ["apiVersion", "kind", "metadata"];

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Key(String),
    Item(usize),
}

/// A field's path in the converted object, and its value.
type Field = (Vec<Part>, Value);

/// Copies fields that the original's type does not know: those missing in `known`, the original as its type serializes
/// it. Skips names that type `B` declares, because there they mean something else.
///
/// # Errors
/// The conversion is abandoned.
pub(super) fn keep<B: Kind>(
    original: &Value,
    known: &Value,
    converted: &mut Value,
    abandoned: &CancellationToken,
) -> Result<(), Abandoned> {
    let mut fields = Vec::new();
    collect([original, known, &*converted], &mut Vec::new(), &mut fields);
    fields.retain(|(path, _)| !is_of_head(path));
    if fields.is_empty() {
        return Ok(());
    }
    let Some(expected) = print::<B>(converted) else {
        // The type cannot read this object at all, so it does not show which fields it declares: all stay.
        fields.iter().for_each(|(path, value)| insert(converted, path, value));
        return Ok(());
    };
    add(converted, fields, |candidate| print::<B>(candidate).as_ref() == Some(&expected), abandoned)
}

fn is_of_head(path: &[Part]) -> bool {
    matches!(path.first(), Some(Part::Key(key)) if HEAD.contains(&key.as_str()))
}

fn print<B: Kind>(object: &Value) -> Option<Value> {
    serde_json::to_value(decode::<B>(object).ok()?).ok()
}

/// Collects the fields that only the original has, where the converted object has their parent.
fn collect([original, known, converted]: [&Value; 3], path: &mut Vec<Part>, fields: &mut Vec<Field>) {
    match (original, known, converted) {
        (Value::Object(original), Value::Object(known), Value::Object(converted)) => {
            for (key, value) in original {
                path.push(Part::Key(key.clone()));
                match (known.get(key), converted.get(key)) {
                    (Some(known), Some(converted)) => collect([value, known, converted], path, fields),
                    (None, None) if !value.is_null() => fields.push((path.clone(), value.clone())),
                    _ => {}
                }
                path.pop();
            }
        }
        (Value::Array(original), Value::Array(known), Value::Array(converted))
            if original.len() == known.len() && original != known =>
        {
            let origins = Origins::new(known, converted);
            for (at, item) in converted.iter().enumerate().filter(|(_, item)| item.is_object() || item.is_array()) {
                let Some(from) = origins.of(at) else { continue };
                path.push(Part::Item(at));
                collect([&original[from], &known[from], item], path, fields);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Adds the fields with which the object still fits: all at once, or else each part by itself, and so on. Large parts
/// come first: if the tries end before, what is left is among many fields that do not fit.
fn add(
    object: &mut Value,
    mut fields: Vec<Field>,
    fits: impl Fn(&Value) -> bool,
    abandoned: &CancellationToken,
) -> Result<(), Abandoned> {
    fields.sort_by(|(a, _), (b, _)| shape(a).cmp(shape(b)));
    let mut waiting = VecDeque::from([&fields[..]]);
    for _ in 0..TRIES {
        let Some(tried) = waiting.pop_front() else { break };
        Abandoned::check(abandoned)?;
        let mut candidate = object.clone();
        tried.iter().for_each(|(path, value)| insert(&mut candidate, path, value));
        if fits(&candidate) {
            *object = candidate;
        } else if tried.len() > 1 {
            let (first, second) = tried.split_at(middle(tried));
            waiting.extend([first, second]);
        }
    }
    Ok(())
}

/// Returns the names on a path. `None` stands for any item of a list: mostly, all items have the same type.
fn shape(path: &[Part]) -> impl Iterator<Item = Option<&str>> {
    path.iter().map(|part| match part {
        Part::Key(key) => Some(key.as_str()),
        Part::Item(_) => None,
    })
}

/// Returns where to divide several fields, sorted by shape: where their paths part first, or in the middle if they are
/// one field of several items.
fn middle(fields: &[Field]) -> usize {
    let shared = |at: usize| shape(&fields[at - 1].0).zip(shape(&fields[at].0)).take_while(|(a, b)| a == b).count();
    (1..fields.len()).min_by_key(|at| (shared(*at), at.abs_diff(fields.len() / 2))).unwrap_or_default()
}

/// Inserts a field, unless it already exists.
fn insert(object: &mut Value, path: &[Part], value: &Value) {
    let Some((Part::Key(last), parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(object, |object, part| match part {
        Part::Key(key) => object.get_mut(key),
        Part::Item(at) => object.get_mut(*at),
    });
    if let Some(parent) = parent.and_then(Value::as_object_mut) {
        parent.entry(last).or_insert_with(|| value.clone());
    }
}

#[cfg(test)]
mod tests {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize, Serializer};
    use serde_json::json;

    use super::*;

    /// A type that cannot read what it prints.
    #[derive(Clone, Debug, CustomResource, Serialize, Deserialize)]
    #[kube(group = "example.com", version = "v1", kind = "Odd", namespaced, schema = "disabled")]
    struct OddSpec {
        #[serde(serialize_with = "as_text")]
        size: u8,
    }

    fn as_text<S: Serializer>(size: &u8, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(size)
    }

    #[test]
    fn an_object_that_its_own_type_cannot_read_keeps_every_field() {
        let object = |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {}, "spec": spec});
        let (known, mut converted) = (object(json!({"size": 1})), object(json!({"size": "1"})));
        let original = object(json!({"size": 1, "theirs": 2}));
        assert_eq!(keep::<Odd>(&original, &known, &mut converted, &CancellationToken::new()), Ok(()));
        assert_eq!(converted["spec"], json!({"size": "1", "theirs": 2}));
    }

    fn kept(original: &Value, known: &Value, mut converted: Value, fits: impl Fn(&Value) -> bool) -> Value {
        let mut fields = Vec::new();
        collect([original, known, &converted], &mut Vec::new(), &mut fields);
        add(&mut converted, fields, fits, &CancellationToken::new()).unwrap();
        converted
    }

    fn check(original: Value, known: Value, converted: Value, expected: Value) {
        assert_eq!(kept(&original, &known, converted, |_| true), expected);
    }

    #[test]
    fn items_keep_their_own_fields_wherever_they_move() {
        let with = |name: &str, theirs: i32| json!({"name": name, "old": 1, "theirs": theirs});
        let known = |name: &str| json!({"name": name, "old": 1});
        let new = |name: &str| json!({"name": name, "new": 1});
        check(
            json!({"list": [with("a", 1), with("b", 2), with("c", 3)]}),
            json!({"list": [known("a"), known("b"), known("c")]}),
            json!({"list": [new("c"), new("d"), new("a")]}),
            json!({"list": [{"name": "c", "new": 1, "theirs": 3}, new("d"), {"name": "a", "new": 1, "theirs": 1}]}),
        );
        check(
            json!([{"user": "a", "theirs": {"deep": [1]}}, {"user": "b", "list": [{"v": 1, "theirs": 2}]}]),
            json!([{"user": "a"}, {"user": "b", "list": [{"v": 1}]}]),
            json!([{"name": "a"}, {"name": "b", "list": [{"w": 1}]}]),
            json!([{"name": "a", "theirs": {"deep": [1]}}, {"name": "b", "list": [{"w": 1, "theirs": 2}]}]),
        );
        check(
            json!([{"v": 1, "theirs": 2}]),
            json!([{"v": 1}]),
            json!([{"w": 1}, {"w": 2}]),
            json!([{"w": 1}, {"w": 2}]),
        );
        check(json!([{"v": 1, "theirs": 2}]), json!([]), json!([{"w": 1}]), json!([{"w": 1}]));
    }

    #[test]
    fn a_field_that_does_not_fit_takes_no_other_with_it() {
        let items = |item: &dyn Fn(usize) -> Value| Value::Array((0..500).map(item).collect());
        let original = items(&|at| json!({"v": at, "theirs": at, "mine": at}));
        let known = items(&|at| json!({"v": at, "mine": at}));
        let converted = items(&|at| json!({"w": at}));
        let fits = |candidate: &Value| candidate[77].get("theirs").is_none() && candidate[300].get("theirs").is_none();
        let expected = items(&|at| match at {
            77 | 300 => json!({"w": at}),
            _ => json!({"w": at, "theirs": at}),
        });
        assert_eq!(kept(&original, &known, converted, fits), expected);
    }

    #[test]
    fn items_of_a_long_list_keep_their_own_fields() {
        let items = |item: &dyn Fn(usize) -> Value| Value::Array((0..5000).map(item).collect());
        check(
            items(&|at| json!({"name": at.to_string(), "v": 1, "theirs": at})),
            items(&|at| json!({"name": at.to_string(), "v": 1})),
            items(&|at| json!({"name": (4999 - at).to_string(), "w": 1})),
            items(&|at| json!({"name": (4999 - at).to_string(), "w": 1, "theirs": 4999 - at})),
        );
    }

    #[test]
    fn many_fields_that_do_not_fit_take_none_elsewhere_with_them() {
        let numbers = || (0..1000).map(|at| (at.to_string(), json!(at))).collect::<Value>();
        let object = |map: Value, item: Value| json!({"map": map, "items": vec![item; 1000]});
        let mut original = object(numbers(), json!({"a": 1, "b": 1, "c": 1}));
        original["theirs"] = 1.into();
        let fits = |candidate: &Value| {
            let has_none = |item: &Value| item.get("b").is_none();
            candidate["map"] == json!({}) && candidate["items"].as_array().unwrap().iter().all(has_none)
        };
        let mut expected = object(json!({}), json!({"a": 1, "c": 1}));
        expected["theirs"] = 1.into();
        let known = object(json!({}), json!({}));
        assert_eq!(kept(&original, &known, known.clone(), fits), expected);
    }

    #[test]
    fn fields_that_do_not_fit_end_the_search() {
        let original: Value = (0..1000).map(|at| (at.to_string(), json!(at))).collect();
        let tries = std::cell::Cell::new(0);
        let never = |_: &Value| {
            tries.set(tries.get() + 1);
            false
        };
        assert_eq!(kept(&original, &json!({}), json!({}), never), json!({}));
        assert_eq!(tries.get(), TRIES);
    }

    #[test]
    fn an_abandoned_search_ends_with_its_current_try() {
        let (tries, abandoned) = (std::cell::Cell::new(0), CancellationToken::new());
        let never = |_: &Value| {
            tries.set(tries.get() + 1);
            if tries.get() == 3 {
                abandoned.cancel();
            }
            false
        };
        let fields: Vec<Field> = (0..1000).map(|at| (vec![Part::Key(at.to_string())], json!(at))).collect();
        assert_eq!(add(&mut json!({}), fields, never, &abandoned), Err(Abandoned));
        assert_eq!(tries.get(), 3);
    }
}
