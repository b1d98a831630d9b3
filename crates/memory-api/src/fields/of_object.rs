//! The fields that an applied object sets. Counterpart: `typed/tofieldset.go`.

use std::collections::HashSet;

use serde_json::Value;

use super::Set;
use super::shape::{Shape, element, field, items, named};
use crate::schema::{Identity, Type};

pub(crate) fn fields_of(of: &Type, object: &Value) -> Set {
    let mut walk = Walk { path: Vec::new(), set: Set::default() };
    walk.visit(of, object);
    walk.set
}

struct Walk {
    path: Vec<String>,
    set: Set,
}

impl Walk {
    fn visit(&mut self, of: &Type, value: &Value) {
        match Shape::of(of, value) {
            Shape::Leaf => self.set.insert(&self.path),
            Shape::Map(of) => self.map(of, value),
            Shape::List(of, identity) => self.list(of, identity, value),
        }
    }

    fn map(&mut self, of: &Type, value: &Value) {
        for (key, inner) in value.as_object().into_iter().flatten() {
            let (inner_type, is_named) = field(of, key);
            self.path.push(named(key));
            self.visit(inner_type, inner);
            let is_empty = inner.is_null() || inner.as_object().is_some_and(serde_json::Map::is_empty);
            if is_empty || !is_named {
                self.set.insert(&self.path);
            }
            self.path.pop();
        }
    }

    fn list(&mut self, of: &Type, identity: &Identity, value: &Value) {
        let (mut seen, mut duplicates) = (HashSet::new(), HashSet::new());
        for name in items(Some(value)).iter().filter_map(|item| element(of, identity, item)) {
            if !seen.insert(name.clone()) {
                duplicates.insert(name);
            }
        }
        for item in items(Some(value)) {
            let Some(name) = element(of, identity, item) else { continue };
            let is_duplicate = duplicates.contains(&name);
            self.path.push(name);
            if !is_duplicate {
                self.visit(of, item);
            }
            self.set.insert(&self.path);
            self.path.pop();
        }
    }
}
