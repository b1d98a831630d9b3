//! Keeps the fields that neither of two versions' types knows when an object is converted, as schemas with
//! `x-kubernetes-preserve-unknown-fields` allow.

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::abandoned::Abandoned;
use super::answer::decode;
use super::merge::{MATCHED, origin};
use crate::reconciler::Kind;

/// How often fields are tried: enough to find all that fit among 64.
const TRIES: usize = 128;

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
    for part in ["spec", "status"] {
        let mut path = vec![Part::Key(part.to_owned())];
        collect([&original[part], &known[part], &converted[part]], &mut path, &mut fields);
    }
    if fields.is_empty() {
        return Ok(());
    }
    let Some(expected) = print::<B>(converted) else { return Ok(()) };
    add(converted, &fields, |candidate| print::<B>(candidate).as_ref() == Some(&expected), abandoned)
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
            if original.len() == known.len() && known.len().max(converted.len()) <= MATCHED && original != known =>
        {
            for (at, item) in converted.iter().enumerate().filter(|(_, item)| item.is_object() || item.is_array()) {
                let Some(from) = origin(known, converted, at) else { continue };
                path.push(Part::Item(at));
                collect([&original[from], &known[from], item], path, fields);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Adds the fields with which the object still fits: all at once, or else each half by itself, and so on.
fn add(
    object: &mut Value,
    fields: &[Field],
    fits: impl Fn(&Value) -> bool,
    abandoned: &CancellationToken,
) -> Result<(), Abandoned> {
    let mut waiting = vec![fields];
    for _ in 0..TRIES {
        let Some(tried) = waiting.pop() else { break };
        Abandoned::check(abandoned)?;
        let mut candidate = object.clone();
        tried.iter().for_each(|(path, value)| insert(&mut candidate, path, value));
        if fits(&candidate) {
            *object = candidate;
        } else if tried.len() > 1 {
            let (first, second) = tried.split_at(tried.len() / 2);
            waiting.extend([second, first]);
        }
    }
    Ok(())
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
    use serde_json::json;

    use super::*;

    fn kept(original: &Value, known: &Value, mut converted: Value, fits: impl Fn(&Value) -> bool) -> Value {
        let mut fields = Vec::new();
        collect([original, known, &converted], &mut Vec::new(), &mut fields);
        add(&mut converted, &fields, fits, &CancellationToken::new()).unwrap();
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
        assert_eq!(add(&mut json!({}), &fields, never, &abandoned), Err(Abandoned));
        assert_eq!(tries.get(), 3);
    }
}
