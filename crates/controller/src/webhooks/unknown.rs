//! Keeps the fields that neither of two versions' types knows when an object is converted, as schemas with
//! `x-kubernetes-preserve-unknown-fields` allow.

use std::fmt::{self, Display, Formatter};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::abandoned::Abandoned;
use super::answer::decode;
use super::conversion::MAX_WEIGHT;
use super::merge::Origins;
use super::weight::weigh;
use crate::reconciler::Kind;

/// How often fields of the heaviest object are tried: enough to find all that fit among 64. A lighter object costs less
/// to try, and gets as many more tries.
const TRIES: usize = 128;

/// Why fields cannot be kept. The conversion fails, because the next write of its result would remove them for good.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Lost {
    #[error(transparent)]
    Abandoned(#[from] Abandoned),
    #[error("it has {0}, which its type does not know, and cannot keep it: the converted object does not fit its type")]
    Unreadable(Path),
    #[error(
        "it has too many fields that its type does not know and that mean something else in the other version: \
         rename or remove them, such as {0}"
    )]
    TooMany(Path),
}

/// The place of a field: `spec.doors[3].wide`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Path(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Key(String),
    Item(usize),
}

impl Display for Path {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(at, part)| match part {
            Part::Key(key) if at == 0 => write!(formatter, "{key}"),
            Part::Key(key) => write!(formatter, ".{key}"),
            Part::Item(item) => write!(formatter, "[{item}]"),
        })
    }
}

/// A field's path in the converted object, and its value.
type Field = (Path, Value);

/// Copies fields that the original's type does not know: those missing in `known`, the original as its type serializes
/// it. Skips names that type `B` declares, because there they mean something else.
///
/// # Errors
/// The conversion is abandoned, or a field that may fit cannot be kept.
pub(super) fn keep<B: Kind>(
    original: &Value,
    known: &Value,
    converted: &mut Value,
    abandoned: &CancellationToken,
) -> Result<(), Lost> {
    let mut fields = Vec::new();
    for part in ["spec", "status"] {
        let mut path = Path(vec![Part::Key(part.to_owned())]);
        collect([&original[part], &known[part], &converted[part]], &mut path, &mut fields);
    }
    let Some((first, _)) = fields.first() else { return Ok(()) };
    let expected = print::<B>(converted).ok_or_else(|| Lost::Unreadable(first.clone()))?;
    add(converted, &fields, |candidate| print::<B>(candidate).as_ref() == Some(&expected), abandoned)
}

fn print<B: Kind>(object: &Value) -> Option<Value> {
    serde_json::to_value(decode::<B>(object).ok()?).ok()
}

/// Collects the fields that only the original has, where the converted object has their parent.
fn collect([original, known, converted]: [&Value; 3], path: &mut Path, fields: &mut Vec<Field>) {
    match (original, known, converted) {
        (Value::Object(original), Value::Object(known), Value::Object(converted)) => {
            for (key, value) in original {
                path.0.push(Part::Key(key.clone()));
                match (known.get(key), converted.get(key)) {
                    (Some(known), Some(converted)) => collect([value, known, converted], path, fields),
                    (None, None) if !value.is_null() => fields.push((path.clone(), value.clone())),
                    _ => {}
                }
                path.0.pop();
            }
        }
        (Value::Array(original), Value::Array(known), Value::Array(converted))
            if original.len() == known.len() && original != known =>
        {
            let origins = Origins::new(known, converted);
            for (at, item) in converted.iter().enumerate().filter(|(_, item)| item.is_object() || item.is_array()) {
                let Some(from) = origins.of(at) else { continue };
                path.0.push(Part::Item(at));
                collect([&original[from], &known[from], item], path, fields);
                path.0.pop();
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
) -> Result<(), Lost> {
    let (mut waiting, mut left) = (vec![fields], tries(object, fields));
    while let Some(tried) = waiting.pop() {
        Abandoned::check(abandoned)?;
        if left == 0 {
            return Err(Lost::TooMany(tried.first().map(|(path, _)| path.clone()).unwrap_or_default()));
        }
        left -= 1;
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

/// Returns how often fields of an object may be tried: as often as all tries cost those of the heaviest.
fn tries(object: &Value, fields: &[Field]) -> usize {
    let weight = |value: &Value| weigh(value.to_string().as_bytes());
    let heavy = weight(object) + fields.iter().map(|(_, value)| weight(value)).sum::<usize>();
    (TRIES * MAX_WEIGHT / heavy.max(1)).max(TRIES)
}

/// Inserts a field, unless it already exists.
fn insert(object: &mut Value, path: &Path, value: &Value) {
    let Some((Part::Key(last), parents)) = path.0.split_last() else { return };
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
    fn an_object_that_its_own_type_cannot_read_loses_no_field_silently() {
        let object = |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {}, "spec": spec});
        let (known, mut converted) = (object(json!({"size": 1})), object(json!({"size": "1"})));
        let mut kept = |original: &Value| keep::<Odd>(original, &known, &mut converted, &CancellationToken::new());
        let lost = kept(&object(json!({"size": 1, "theirs": 2}))).unwrap_err().to_string();
        let why = "it has spec.theirs, which its type does not know, and cannot keep it: the converted object does not fit its type";
        assert_eq!((&*lost, kept(&known)), (why, Ok(())));
    }

    fn kept(original: &Value, known: &Value, mut converted: Value, fits: impl Fn(&Value) -> bool) -> Value {
        let mut fields = Vec::new();
        collect([original, known, &converted], &mut Path::default(), &mut fields);
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
    fn many_fields_that_do_not_fit_take_no_other_with_them() {
        let original: Value = (0..1000).map(|at| (format!("{at:04}"), json!(at))).collect();
        let fits = |candidate: &Value| candidate.as_object().unwrap().keys().all(|key| &**key >= "0999");
        assert_eq!(kept(&original, &json!({}), json!({}), fits), json!({"0999": 999}));
    }

    #[test]
    fn a_search_that_takes_too_long_is_an_error_that_names_a_field() {
        let heavy = json!({"known": vec![json!({"": 0}); 20_000]});
        let fields: Vec<Field> = (0..1000).map(|at| (Path(vec![Part::Key(format!("{at:04}"))]), json!(at))).collect();
        let (mut object, tries) = (heavy.clone(), std::cell::Cell::new(0));
        let never = |_: &Value| {
            tries.set(tries.get() + 1);
            false
        };
        let lost = add(&mut object, &fields, never, &CancellationToken::new()).unwrap_err();
        assert_eq!((object == heavy, tries.get()), (true, TRIES));
        assert!(matches!(&lost, Lost::TooMany(_)) && lost.to_string().contains("such as 00"), "{lost}");
    }

    #[test]
    fn a_field_is_named_by_its_path() {
        let [spec, doors] = ["spec", "doors"].map(|key| Part::Key(key.into()));
        assert_eq!(Path(vec![spec, doors, Part::Item(3), Part::Key("wide".into())]).to_string(), "spec.doors[3].wide");
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
        let fields: Vec<Field> = (0..1000).map(|at| (Path(vec![Part::Key(at.to_string())]), json!(at))).collect();
        assert_eq!(add(&mut json!({}), &fields, never, &abandoned), Err(Lost::Abandoned(Abandoned)));
        assert_eq!(tries.get(), 3);
    }
}
