//! Field ownership per manager: `metadata.managedFields`.
//!
//! Counterpart: k8s.io/apimachinery `pkg/util/managedfields`, with one version per kind.

mod apply;
mod update;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub(crate) use apply::{Conflicts, apply};
pub(crate) use update::update;

use crate::fields::Set;
use crate::schema::Type;

/// A write, as managed fields record it.
#[derive(Clone, Debug)]
pub(crate) struct By<'a> {
    pub(crate) manager: &'a str,
    pub(crate) api_version: &'a str,
    pub(crate) subresource: &'a str,
    /// The time, as RFC 3339.
    pub(crate) now: &'a str,
    /// The fields that the endpoint does not write.
    pub(crate) reset: &'a Set,
}

/// The identity of an entry. Its order is that of `managedFields`, apart from the time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    operation: Operation,
    manager: String,
    /// Empty for applies: a manager has one entry for all versions that it applies in.
    api_version: String,
    subresource: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Apply,
    Update,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    api_version: String,
    /// Empty if the first apply changed nothing.
    time: String,
    fields: Set,
}

/// All entries of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Managers {
    entries: BTreeMap<Identity, Entry>,
}

/// Maximum number of update entries of an object.
const MAX_UPDATERS: usize = 10;

/// The manager that receives the fields of the oldest updates.
const OLDEST: &str = "ancient-changes";

impl Managers {
    /// Reads an object's `managedFields`.
    pub(crate) fn of(object: &Value) -> Managers {
        let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        Managers { entries: entries.map(read).collect() }
    }

    /// Writes an object's `managedFields`.
    pub(crate) fn write(&self, object: &mut Value) {
        if self.entries.is_empty() {
            take_managed(object);
            return;
        }
        let mut sorted: Vec<_> = self.entries.iter().collect();
        sorted.sort_by_key(|(identity, entry)| {
            (identity.operation, &entry.time, &identity.manager, &entry.api_version, &identity.subresource)
        });
        let entries: Vec<Value> = sorted.into_iter().map(|(identity, entry)| entry.to_json(identity)).collect();
        object["metadata"]["managedFields"] = entries.into();
    }

    /// Removes the fields of a set from every entry but one.
    fn subtract(&mut self, fields: &Set, except: Option<&Identity>) {
        for (_, entry) in self.entries.iter_mut().filter(|(identity, _)| Some(*identity) != except) {
            entry.fields.subtract(fields);
        }
        self.entries.retain(|identity, entry| Some(identity) == except || !entry.fields.is_empty());
    }

    /// Merges the oldest update entries if there are too many.
    fn cap(&mut self) {
        let updates = |(identity, _): &(&Identity, &Entry)| identity.operation == Operation::Update;
        let mut oldest: Vec<(String, Identity)> = self
            .entries
            .iter()
            .filter(updates)
            .map(|(identity, entry)| (entry.time.clone(), identity.clone()))
            .collect();
        oldest.sort();
        let mut left = oldest.len();
        let mut first: BTreeMap<String, Identity> = BTreeMap::new();
        for (time, identity) in oldest {
            if left <= MAX_UPDATERS {
                return;
            }
            let Some(bucket_of) = first.get(&identity.api_version).cloned() else {
                first.insert(identity.api_version.clone(), identity);
                continue;
            };
            let bucket = Identity { manager: OLDEST.into(), subresource: String::new(), ..identity.clone() };
            if !self.entries.contains_key(&bucket)
                && let Some(entry) = self.entries.remove(&bucket_of)
            {
                self.entries.insert(bucket.clone(), entry);
            }
            if let (Some(merged), Some(bucket)) = (self.entries.remove(&identity), self.entries.get_mut(&bucket)) {
                bucket.fields.add(&merged.fields);
                bucket.time = time;
                left -= 1;
            }
        }
    }
}

impl Entry {
    fn to_json(&self, identity: &Identity) -> Value {
        let operation = match identity.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let mut json = json!({
            "manager": identity.manager, "operation": operation, "apiVersion": self.api_version, "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_json(),
        });
        let optional = [("time", &self.time), ("subresource", &identity.subresource)];
        optional
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .for_each(|(key, text)| json[key] = text.as_str().into());
        json
    }
}

fn read(entry: &Value) -> (Identity, Entry) {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let operation = if entry["operation"] == "Apply" { Operation::Apply } else { Operation::Update };
    let api_version = text("apiVersion");
    let identity = Identity {
        operation,
        manager: text("manager"),
        api_version: if operation == Operation::Apply { String::new() } else { api_version.clone() },
        subresource: text("subresource"),
    };
    (identity, Entry { api_version, time: text("time"), fields: Set::from_json(&entry["fieldsV1"]) })
}

/// Removes the fields that managers never own. Counterpart: `stripmeta.go`.
fn strip(set: &mut Set) {
    let metadata =
        ["name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields"];
    let field = |name: &str| format!("f:{name}");
    let mut stripped = Set::default();
    ["apiVersion", "kind", "metadata"].iter().for_each(|name| stripped.insert(&[field(name)]));
    metadata.iter().chain(&["resourceVersion"]).for_each(|name| stripped.insert(&[field("metadata"), field(name)]));
    set.subtract(&stripped);
}

/// Returns a copy of the object without its managed fields, its largest part.
fn unmanaged(object: &Value) -> Value {
    let Some(fields) = object.as_object() else { return object.clone() };
    let without = |metadata: &Map<String, Value>| -> Value {
        let others = metadata.iter().filter(|(key, _)| *key != "managedFields");
        others.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>().into()
    };
    let copied = fields.iter().map(|(key, value)| match value.as_object().filter(|_| key == "metadata") {
        Some(metadata) => (key.clone(), without(metadata)),
        None => (key.clone(), value.clone()),
    });
    copied.collect::<Map<_, _>>().into()
}

/// Removes an object's managed fields.
fn take_managed(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Returns the fields in which an endpoint's write differs from the live object.
fn compared(of: &Type, live: &Value, new: &Value, by: &By) -> crate::fields::Comparison {
    let mut comparison = crate::fields::compare(of, live, new);
    comparison.ignore(by.reset);
    comparison
}
