//! Sets of fields as `managedFields` records them, and comparing, merging and pruning objects by them.
//!
//! Counterpart: sigs.k8s.io/structured-merge-diff `fieldpath` and `typed`.

mod compare;
mod merge;
mod of_object;
mod remove;
mod shape;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub(crate) use compare::{Comparison, compare};
pub(crate) use merge::{Duplicate, merge};
pub(crate) use of_object::fields_of;
pub(crate) use remove::remove;

use crate::schema::{Type, schema};

/// A set of fields. Elements are spelt as in `fieldsV1`: `f:name`, `k:{"name":"a"}`, `v:"a"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    nodes: BTreeMap<String, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    is_member: bool,
    children: Set,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.is_member && self.children.is_empty()
    }
}

impl Set {
    /// Reads `fieldsV1`.
    pub(crate) fn from_json(json: &Value) -> Set {
        let nodes = json.as_object().into_iter().flatten().filter(|(name, _)| *name != ".");
        let node = |inner: &Value| {
            let inner_fields = inner.as_object();
            let is_member = inner_fields.is_none_or(|fields| fields.is_empty() || fields.contains_key("."));
            Node { is_member, children: Set::from_json(inner) }
        };
        Set { nodes: nodes.map(|(name, inner)| (name.clone(), node(inner))).collect() }
    }

    /// Writes `fieldsV1`.
    pub(crate) fn to_json(&self) -> Value {
        let write = |node: &Node| {
            let mut json = node.children.to_json();
            if let (true, false, Some(fields)) = (node.is_member, node.children.is_empty(), json.as_object_mut()) {
                fields.insert(".".into(), Map::new().into());
            }
            json
        };
        self.nodes.iter().map(|(name, node)| (name.clone(), write(node))).collect::<Map<_, _>>().into()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds the field at a path.
    pub(crate) fn insert(&mut self, path: &[String]) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut set = self;
        for name in parents {
            set = &mut set.nodes.entry(name.clone()).or_default().children;
        }
        set.nodes.entry(last.clone()).or_default().is_member = true;
    }

    fn has(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|node| node.is_member)
    }

    /// Returns the members below an element, if any.
    fn below(&self, name: &str) -> Option<&Set> {
        self.nodes.get(name).map(|node| &node.children).filter(|set| !set.is_empty())
    }

    /// Adds the members of another set.
    pub(crate) fn add(&mut self, other: &Set) {
        for (name, node) in &other.nodes {
            let own = self.nodes.entry(name.clone()).or_default();
            own.is_member |= node.is_member;
            own.children.add(&node.children);
        }
    }

    /// Removes the members of another set.
    pub(crate) fn subtract(&mut self, other: &Set) {
        self.nodes.retain(|name, node| {
            if let Some(less) = other.nodes.get(name) {
                node.is_member &= !less.is_member;
                node.children.subtract(&less.children);
            }
            !node.is_empty()
        });
    }

    /// Removes the members of another set and everything below them.
    pub(crate) fn subtract_trees(&mut self, other: &Set) {
        self.nodes.retain(|name, node| {
            let Some(less) = other.nodes.get(name) else { return true };
            node.children.subtract_trees(&less.children);
            !less.is_member && !node.is_empty()
        });
    }

    /// Returns the members common to both sets.
    pub(crate) fn intersection(&self, other: &Set) -> Set {
        let common = self.nodes.iter().filter_map(|(name, node)| {
            let theirs = other.nodes.get(name)?;
            let is_member = node.is_member && theirs.is_member;
            let both = Node { is_member, children: node.children.intersection(&theirs.children) };
            (!both.is_empty()).then(|| (name.clone(), both))
        });
        Set { nodes: common.collect() }
    }

    /// Returns the paths of all members in the form that conflicts use: `.spec.containers[name="a"].image`.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, prefix: &str, paths: &mut Vec<String>) {
        let path = |name: &str| format!("{prefix}{}", shape::shown(name));
        paths.extend(self.nodes.iter().filter(|(_, node)| node.is_member).map(|(name, _)| path(name)));
        self.nodes.iter().for_each(|(name, node)| node.children.collect(&path(name), paths));
    }

    /// Adds the declared fields of structures as members; without this, only fields with an owner are members.
    pub(crate) fn with_named_fields(mut self, of: &Type) -> Set {
        let structure = match of {
            Type::Struct { name, .. } => Some(schema().structure(name)),
            _ => None,
        };
        for (name, node) in &mut self.nodes {
            let field = name.strip_prefix("f:").and_then(|field| structure?.fields.get(field));
            node.is_member |= field.is_some() && !node.children.is_empty();
            let inner = match of {
                Type::Map { of, .. } | Type::List { of, .. } => of,
                _ => field.map_or(&Type::Any, |field| &field.of),
            };
            node.children = std::mem::take(&mut node.children).with_named_fields(inner);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(json: Value) -> Set {
        Set::from_json(&json)
    }

    #[test]
    fn sets_are_read_and_written_as_fields_v1() {
        let json = json!({"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {"f:b": {}}}});
        assert_eq!(set(json.clone()).to_json(), json);
        assert_eq!(set(json).paths(), [".data", ".data.a", ".metadata.labels.b"]);
    }

    #[test]
    fn parents_outlive_the_removal_of_their_children_and_the_other_way_round() {
        let both = json!({"f:a": {".": {}, "f:b": {}}});
        let (parent, child) = (json!({"f:a": {}}), json!({"f:a": {"f:b": {}}}));
        for (less, left) in [(&parent, &child), (&child, &parent)] {
            let mut remaining = set(both.clone());
            remaining.subtract(&set(less.clone()));
            assert_eq!(remaining.to_json(), *left);
            assert_eq!(set(both.clone()).intersection(&set(less.clone())).to_json(), *less);
        }
        let mut remaining = set(both.clone());
        remaining.subtract_trees(&set(parent));
        assert!(remaining.is_empty());
        let mut sum = set(child);
        sum.add(&set(json!({"f:a": {}, "f:c": {}})));
        assert_eq!(sum.to_json(), json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
    }
}
