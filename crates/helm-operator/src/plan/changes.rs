//! Sorts the writes of a rehearsal by object.

use std::collections::{BTreeMap, BTreeSet};

use controller::client::rehearsal::{Checked, Refused, Write};
use helm::manifest::HOOK_ANNOTATION;
use helm_release::storage::SECRET_TYPE;
use outside::{Target, object_path};
use serde_json::Value;

use super::assigned::{self, Resource};
use super::facts::WriteFacts;
use super::managers::Managers;
use super::{Change, ChangeKind, Name, Notice, Plan, Request};
use crate::status::condition;

/// The metadata that the API server sets.
const SERVER_METADATA: [&str; 6] =
    ["managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"];

/// Returns the plan of a reconcile with these writes, after which the resource is as given.
pub(crate) fn plan(resource: Resource<'_>, writes: &[Write]) -> Plan {
    let Resource { object: now, path, .. } = resource;
    let mut objects: Vec<(&str, Vec<&Write>)> = Vec::new();
    for write in writes.iter().filter(|write| !is_record(write) && object_path(&write.path) != path) {
        let path = object_path(&write.path);
        match objects.iter_mut().find(|(known, _)| *known == path) {
            Some((_, writes)) => writes.push(write),
            None => objects.push((path, vec![write])),
        }
    }
    let notice = notice(now);
    let fails = notice.as_ref().is_some_and(|notice| notice.is_failure);
    let history = |(path, writes)| History { path, writes, resource, fails };
    Plan {
        resource: name(now, path),
        changes: objects.into_iter().filter_map(|object| history(object).change()).collect(),
        writes: writes
            .iter()
            .enumerate()
            .filter(|(at, write)| !is_lost(write, &writes[at + 1..]))
            .map(|(_, write)| request(write))
            .collect(),
        notice,
    }
}

/// Compares the objects that two charts render for a resource: what is created, changed and deleted, and hooks that
/// change, in the order of their names.
pub(crate) fn compare(resource: Name, before: &[Value], after: &[Value]) -> Plan {
    let named = |objects: &[Value]| -> BTreeMap<Name, Value> {
        objects.iter().map(|object| (name_of(object, &resource.namespace), object.clone())).collect()
    };
    let (before, after) = (named(before), named(after));
    let names: BTreeSet<&Name> = before.keys().chain(after.keys()).collect();
    let is_hook = |object: &Value| object["metadata"]["annotations"][HOOK_ANNOTATION].is_string();
    let change = |name: &Name| {
        let (old, new) = (before.get(name), after.get(name));
        let action = match (old, new) {
            (old, new) if old == new => return None,
            (old, new) if new.or(old).is_some_and(is_hook) => ChangeKind::Hook,
            (None, _) => ChangeKind::Create,
            (_, None) => ChangeKind::Delete,
            _ => ChangeKind::Update,
        };
        let (before, after) = (old.cloned(), new.cloned());
        let (object, refused, losers) = (name.clone(), None, Vec::new());
        Some(Change { object, action, before, after, refused, is_unchecked: false, losers, round: None })
    };
    let changes = names.into_iter().filter_map(change).collect();
    Plan { resource, changes, writes: Vec::new(), notice: None }
}

/// Returns a rendered object's name. An object of a namespaced kind that names no namespace is in the release's.
fn name_of(object: &Value, namespace: &str) -> Name {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let own = text(&object["metadata"]["namespace"]);
    Name {
        api_version: text(&object["apiVersion"]),
        kind: text(&object["kind"]),
        namespace: if own == namespace { String::new() } else { own },
        name: text(&object["metadata"]["name"]),
    }
}

/// Returns whether the object changed just before a write, which is therefore sent again: the cluster's controllers wrote
/// it during the rehearsal.
fn is_lost(write: &Write, later: &[Write]) -> bool {
    let is_conflict = write.after.as_ref().is_err_and(|refused| refused.reason == "Conflict");
    is_conflict && later.iter().any(|next| next.method == write.method && next.path == write.path)
}

fn request(write: &Write) -> Request {
    Request { method: write.method.clone(), path: write.path.clone() }
}

/// Returns whether a write concerns a release record.
fn is_record(write: &Write) -> bool {
    let written = write.after.as_ref().ok().and_then(Option::as_ref);
    [Some(&write.sent), write.before.as_ref(), written]
        .into_iter()
        .flatten()
        .any(|object| object["type"] == SECRET_TYPE)
}

fn name(object: &Value, path: &str) -> Name {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let target = Target::of(path);
    let of_path = |part: fn(&Target<'_>) -> String| target.as_ref().map(part).unwrap_or_default();
    let kind = text(&object["kind"]);
    Name {
        api_version: of_path(|target| target.api_version.to_owned()),
        kind: if kind.is_empty() { of_path(|target| target.plural.to_owned()) } else { kind },
        namespace: of_path(|target| target.namespace.to_owned()),
        name: of_path(|target| target.name.to_owned()),
    }
}

/// The writes to one object.
struct History<'w> {
    path: &'w str,
    writes: Vec<&'w Write>,
    /// The release's owner.
    resource: Resource<'w>,
    /// Whether the reconcile fails, so that later writes do not make up for a refused one.
    fails: bool,
}

impl History<'_> {
    /// Returns what the writes do to the object; `None` if they do nothing.
    fn change(&self) -> Option<Change> {
        let (before, after) = (self.before(), self.after());
        let refusal = self.refusal();
        let action = self.facts(before, after, refusal).action()?;
        let shown = after.or(before).or(self.writes.first().map(|write| &write.sent));
        Some(Change {
            object: name(shown.unwrap_or(&Value::Null), self.path),
            action,
            refused: refusal.map(|refused| refused.message.clone()),
            is_unchecked: self.writes.iter().any(|write| write.checked == Checked::Nobody && write.method != "DELETE"),
            losers: before.zip(after).map(|(old, new)| owners(old).losers(&owners(new))).unwrap_or_default(),
            before: before.map(desired),
            after: after.map(|object| self.foreseen(object)),
            round: None,
        })
    }

    /// Returns the object afterwards, without what only the write itself brings.
    fn foreseen(&self, after: &Value) -> Value {
        let mut object = after.clone();
        let sent = self.writes.iter().rev().map(|write| &write.sent).find(|sent| sent["kind"].is_string());
        assigned::hide(&mut object, self.before(), sent.unwrap_or(&Value::Null), self.resource);
        desired(&object)
    }

    fn before(&self) -> Option<&Value> {
        self.writes.first()?.before.as_ref()
    }

    /// Returns the object after the last write that was accepted.
    fn after(&self) -> Option<&Value> {
        match self.writes.iter().rev().find_map(|write| write.after.as_ref().ok()) {
            Some(after) => after.as_ref(),
            None => self.before(),
        }
    }

    fn refusal(&self) -> Option<&Refused> {
        let refusals = || self.writes.iter().rev().filter_map(|write| write.after.as_ref().err());
        match self.fails {
            true => refusals().next(),
            false => self.writes.last()?.after.as_ref().err(),
        }
    }

    fn facts(&self, before: Option<&Value>, after: Option<&Value>, refusal: Option<&Refused>) -> WriteFacts {
        let both = before.zip(after);
        let uid = self.resource.uid();
        WriteFacts {
            refused: refusal.map(|refused| refused.code),
            is_hook: self.states().any(|object| object["metadata"]["annotations"][HOOK_ANNOTATION].is_string()),
            existed: before.is_some(),
            exists: after.is_some(),
            was_deleted: self.writes.iter().any(|write| write.method == "DELETE"),
            is_left: both.is_some_and(|(old, new)| has_owner(old, uid) && !has_owner(new, uid)),
            differs: both.is_some_and(|(old, new)| desired(old) != desired(new)),
            differed: before.is_some_and(|old| self.written().any(|object| desired(object) != desired(old))),
            changes_managers: both.is_some_and(|(old, new)| managers(old) != managers(new)),
        }
    }

    /// Returns the object as each write left it.
    fn written(&self) -> impl Iterator<Item = &Value> {
        self.writes.iter().filter_map(|write| write.after.as_ref().ok()?.as_ref())
    }

    /// Returns every known form of the object.
    fn states(&self) -> impl Iterator<Item = &Value> {
        let sent = self.writes.iter().flat_map(|write| write.before.iter().chain([&write.sent]));
        sent.chain(self.written())
    }
}

fn owners(object: &Value) -> Managers {
    Managers::of(&object["metadata"]["managedFields"])
}

/// Returns the managers of an object's fields, without the times of their writes.
fn managers(object: &Value) -> Vec<Value> {
    let mut entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries.iter_mut().filter_map(Value::as_object_mut).for_each(|entry| _ = entry.remove("time"));
    entries
}

fn has_owner(object: &Value, uid: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    !uid.is_empty() && owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == uid))
}

/// Returns an object without what the API server and controllers set.
fn desired(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        SERVER_METADATA.iter().for_each(|field| _ = metadata.remove(*field));
    }
    object
}

/// Returns why the resource fails or waits, by its conditions.
fn notice(resource: &Value) -> Option<Notice> {
    let conditions = resource["status"]["conditions"].as_array()?;
    let is_true = |kind: &str| conditions.iter().find(|one| one["type"] == kind && one["status"] == "True");
    let failures = [condition::RELEASE_FAILED, condition::IRRECONCILABLE, condition::STALLED];
    let waits = [condition::PAUSED, condition::SUSPENDED, condition::DRIFTED];
    let found = |kinds: &[&str]| kinds.iter().find_map(|kind| is_true(kind));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (is_failure, found) = match found(&failures) {
        Some(failure) => (true, failure),
        None => (false, found(&waits)?),
    };
    Some(Notice { is_failure, reason: text(&found["reason"]), message: text(&found["message"]) })
}
