//! Merges an applied object into the live one. Counterpart: `typed/merge.go`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::shape::{Shape, element, field, is_empty, items, named};
use crate::schema::{Identity, Type};

/// Two elements of an applied list have the same identity.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Duplicate {
    /// The path of the list: `.spec.containers`.
    pub(crate) list: String,
    /// The identity: `[name="a"]`.
    pub(crate) element: String,
}

/// Merges the applied object into the live one.
///
/// # Errors
/// Fails if an applied list has [`Duplicate`] elements.
pub(crate) fn merge(of: &Type, live: &Value, applied: &Value) -> Result<Value, Duplicate> {
    let merged = Walk { path: Vec::new() }.merge(of, Some(live), Some(applied))?;
    Ok(merged.unwrap_or(Value::Null))
}

struct Walk {
    path: Vec<String>,
}

impl Walk {
    fn merge(&mut self, of: &Type, live: Option<&Value>, applied: Option<&Value>) -> Result<Option<Value>, Duplicate> {
        // The applied value decides how both are walked; without one, the live value stays as it is.
        let Some(new) = applied else { return Ok(live.cloned()) };
        match Shape::of(of, new) {
            Shape::Map(of) if !(is_empty(live) && is_empty(applied)) => self.maps(of, live, new),
            Shape::List(of, identity) if !(is_empty(live) && is_empty(applied)) => self.lists(of, identity, live, new),
            _ => Ok(Some(new.clone())),
        }
    }

    fn maps(&mut self, of: &Type, live: Option<&Value>, applied: &Value) -> Result<Option<Value>, Duplicate> {
        let mut merged = live.and_then(Value::as_object).cloned().unwrap_or_default();
        for (key, new) in applied.as_object().into_iter().flatten() {
            self.path.push(named(key));
            let value = self.merge(field(of, key).0, merged.get(key), Some(new))?;
            self.path.pop();
            value.into_iter().for_each(|value| _ = merged.insert(key.clone(), value));
        }
        Ok((!merged.is_empty()).then(|| merged.into()))
    }

    fn lists(
        &mut self,
        of: &Type,
        identity: &Identity,
        live: Option<&Value>,
        applied: &Value,
    ) -> Result<Option<Value>, Duplicate> {
        let before = Elements::new(of, identity, items(live));
        let after = Elements::new(of, identity, items(Some(applied)));
        if let Some(twice) = after.first_duplicate() {
            let list = self.path.iter().map(|name| super::shape::shown(name)).collect();
            return Err(Duplicate { list, element: super::shape::shown(twice) });
        }
        let mut merged = Vec::new();
        for (name, at) in merged_order(&before, &after) {
            let new = after.by_name.get(name).map(|at| after.items[*at]);
            let Some(new) = new else {
                merged.push(before.items[at].clone());
                continue;
            };
            // A duplicate in the live list is replaced, not merged.
            let old = before.by_name.get(name).filter(|_| !before.is_duplicate(name)).map(|at| before.items[*at]);
            self.path.push(name.to_owned());
            merged.extend(self.merge(of, old, Some(new))?);
            self.path.pop();
        }
        Ok((!merged.is_empty()).then(|| merged.into()))
    }
}

/// The elements of a list and their identities.
struct Elements<'a> {
    names: Vec<String>,
    items: Vec<&'a Value>,
    by_name: HashMap<String, usize>,
    duplicates: HashSet<String>,
}

impl<'a> Elements<'a> {
    fn new(of: &Type, identity: &Identity, list: &'a [Value]) -> Elements<'a> {
        let named = list.iter().filter_map(|item| Some((element(of, identity, item)?, item)));
        let (names, items): (Vec<String>, Vec<&Value>) = named.unzip();
        let (mut by_name, mut duplicates) = (HashMap::new(), HashSet::new());
        for (at, name) in names.iter().enumerate() {
            if by_name.contains_key(name) {
                duplicates.insert(name.clone());
            } else {
                by_name.insert(name.clone(), at);
            }
        }
        Elements { names, items, by_name, duplicates }
    }

    fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    fn is_duplicate(&self, name: &str) -> bool {
        self.duplicates.contains(name)
    }

    fn first_duplicate(&self) -> Option<&str> {
        self.names.iter().map(String::as_str).find(|name| self.is_duplicate(name))
    }
}

/// Returns the merged list's identities, each with its position in the live list (meaningful for elements that are not
/// applied). Applied elements keep the order in which they are applied; the others stay as close to their neighbours as
/// that allows.
fn merged_order<'a>(live: &'a Elements, applied: &'a Elements) -> Vec<(&'a str, usize)> {
    let mut shared = applied.names.iter().filter(|name| live.has(name)).map(String::as_str);
    let mut next_shared = shared.next();
    let (mut order, mut done) = (Vec::new(), HashSet::new());
    let (mut l, mut a) = (0, 0);
    while l < live.names.len() || a < applied.names.len() {
        let (ours, theirs) = (live.names.get(l).map(String::as_str), applied.names.get(a).map(String::as_str));
        if let (Some(old), Some(new)) = (ours, theirs) {
            if old == new {
                order.push((old, l));
                done.insert(old);
                (l, a) = (l + 1, a + 1);
                next_shared = shared.next();
                continue;
            }
            if applied.has(old) && next_shared.is_some_and(|next| next != old) {
                l += 1;
                continue;
            }
        }
        if let Some(old) = ours {
            if !applied.has(old) {
                order.push((old, l));
                l += 1;
                continue;
            }
            if done.contains(old) {
                l += 1;
            }
        }
        if let Some(new) = theirs {
            order.push((new, l));
            done.insert(new);
            a += 1;
            if next_shared == Some(new) {
                next_shared = shared.next();
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finalizers(live: Value, applied: Value) -> Value {
        let of = Type::List { of: Box::new(Type::Scalar), identity: Identity::Value };
        merge(&of, &live, &applied).unwrap()
    }

    #[test]
    fn lists_keep_the_order_in_which_they_are_applied() {
        assert_eq!(finalizers(json!(["a", "b", "c"]), json!(["c", "a"])), json!(["b", "c", "a"]));
        assert_eq!(finalizers(json!(["x", "a"]), json!(["a", "n"])), json!(["x", "a", "n"]));
        assert_eq!(finalizers(json!(["a", "x", "b"]), json!(["a", "b", "c"])), json!(["a", "x", "b", "c"]));
        assert_eq!(finalizers(Value::Null, json!(["b", "a"])), json!(["b", "a"]));
    }

    #[test]
    fn keyed_elements_are_merged_and_duplicates_refused() {
        let of = Type::object("core.v1.PodSpec");
        let live = json!({"containers": [{"name": "a", "image": "x"}, {"name": "side", "image": "y"}]});
        let applied = json!({"containers": [{"name": "a", "tty": true}]});
        let merged = merge(&of, &live, &applied).unwrap();
        let expected = json!([{"name": "a", "image": "x", "tty": true}, {"name": "side", "image": "y"}]);
        assert_eq!(merged["containers"], expected);
        let twice = merge(&of, &live, &json!({"containers": [{"name": "a"}, {"name": "a"}]}));
        assert_eq!(twice, Err(Duplicate { list: ".containers".into(), element: "[name=\"a\"]".into() }));
    }
}
