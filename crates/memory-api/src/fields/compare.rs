//! Finds the fields in which two objects differ. Counterpart: `typed/compare.go`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Set;
use super::shape::{Shape, element, field, is_empty, items, named};
use crate::schema::{Identity, Type};

/// The fields in which two objects differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) added: Set,
    pub(crate) modified: Set,
    pub(crate) removed: Set,
}

impl Comparison {
    /// Removes these fields and everything below them.
    pub(crate) fn ignore(&mut self, fields: &Set) {
        [&mut self.added, &mut self.modified, &mut self.removed].into_iter().for_each(|set| set.subtract_trees(fields));
    }

    /// Returns the fields with a new value.
    pub(crate) fn written(&self) -> Set {
        let mut written = self.modified.clone();
        written.add(&self.added);
        written
    }
}

/// Compares two objects of a type.
pub(crate) fn compare(of: &Type, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk { path: Vec::new(), found: Comparison::default() };
    walk.compare(of, Some(old), Some(new));
    walk.found
}

struct Walk {
    path: Vec<String>,
    found: Comparison,
}

impl Walk {
    fn compare(&mut self, of: &Type, old: Option<&Value>, new: Option<&Value>) {
        // Most parts of two objects are equal.
        if old == new {
            return;
        }
        let shape = |value: Option<&Value>| value.map(|value| Shape::of(of, value));
        let is_leaf = match (shape(old), shape(new)) {
            (Some(before), Some(after)) if before != after => {
                self.parts(before, old, new);
                self.parts(after, old, new)
            }
            (_, Some(shape)) | (Some(shape), None) => self.parts(shape, old, new),
            (None, None) => return,
        };
        match (old, new) {
            _ if is_leaf => {}
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            _ => {}
        }
    }

    /// Compares the parts; returns whether the value is a leaf.
    fn parts(&mut self, shape: Shape, old: Option<&Value>, new: Option<&Value>) -> bool {
        match shape {
            Shape::Map(of) if !(is_empty(old) && is_empty(new)) => self.maps(of, old, new),
            Shape::List(of, identity) if !(is_empty(old) && is_empty(new)) => self.lists(of, identity, old, new),
            _ => {
                self.leaf(old, new);
                return true;
            }
        }
        false
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if old != new => self.found.modified.insert(&self.path),
            _ => {}
        }
    }

    fn below(&mut self, name: String, of: &Type, old: Option<&Value>, new: Option<&Value>) {
        self.path.push(name);
        self.compare(of, old, new);
        self.path.pop();
    }

    fn maps(&mut self, of: &Type, old: Option<&Value>, new: Option<&Value>) {
        let (before, after) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
        for (key, value) in before.into_iter().flatten() {
            self.below(named(key), field(of, key).0, Some(value), after.and_then(|after| after.get(key)));
        }
        for (key, value) in
            after.into_iter().flatten().filter(|(key, _)| before.is_none_or(|old| !old.contains_key(*key)))
        {
            self.below(named(key), field(of, key).0, None, Some(value));
        }
    }

    fn lists(&mut self, of: &Type, identity: &Identity, old: Option<&Value>, new: Option<&Value>) {
        let mut elements: BTreeMap<String, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in items(old) {
            element(of, identity, item).into_iter().for_each(|name| elements.entry(name).or_default().0.push(item));
        }
        for item in items(new) {
            element(of, identity, item).into_iter().for_each(|name| elements.entry(name).or_default().1.push(item));
        }
        for (name, (before, after)) in elements {
            self.element(name, of, &before, &after);
        }
    }

    /// Compares elements of the same identity. Duplicates count as one leaf.
    fn element(&mut self, name: String, of: &Type, before: &[&Value], after: &[&Value]) {
        match (before.len(), after.len()) {
            (0 | 1, 0 | 1) => return self.below(name, of, before.first().copied(), after.first().copied()),
            (2.., 1) => self.below(name.clone(), of, None, after.first().copied()),
            (1, 2..) => self.below(name.clone(), of, before.first().copied(), None),
            _ => {}
        }
        self.path.push(name);
        match (before.len(), after.len()) {
            (2.., 2..) if before != after => self.found.modified.insert(&self.path),
            (2.., 2..) => {}
            (2.., _) => self.found.removed.insert(&self.path),
            _ => self.found.added.insert(&self.path),
        }
        self.path.pop();
    }
}
