//! Deletes: preconditions, finalizers, propagation policies, grace periods. Counterpart: k8s.io/apiserver
//! `pkg/registry/generic/registry/store.go`.

use serde_json::{Value, json};

use super::{Write, strategy};
use crate::kinds::Kind;
use crate::request::Query;
use crate::status::Status;
use crate::store::Key;
use crate::{Fidelity, Server};

/// The finalizer that keeps an owner until its dependents are deleted.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer that keeps an owner until its dependents are orphaned.
pub(crate) const ORPHAN: &str = "orphan";

impl Server {
    /// Deletes an object, or marks it as being deleted.
    pub(super) fn delete(&mut self, write: &Write, options: &Value) -> Result<Value, Status> {
        let key = write.key(write.target.name);
        let about = write.kind.about(write.target.name);
        let old = self.store.get(&key).ok_or_else(|| about.not_found())?.object.clone();
        check_preconditions(write, options, &old)?;
        let is_dry_run = write.is_dry_run || options["dryRun"].as_array().is_some_and(|all| !all.is_empty());
        let mut new = (*old).clone();
        if write.kind.kind == "Namespace" && !write.kind.is_custom() && self.fidelity == Fidelity::Cluster {
            return Ok(self.delete_namespace(write, key, new, is_dry_run));
        }
        let grace = grace_period(&write.kind, options, &old);
        if is_pending(&old, options) {
            return Ok(new);
        }
        let finalizers = self.finalizers(&write.kind, options, &old);
        if finalizers.is_empty() && grace == 0 {
            if !is_dry_run {
                self.take(&key);
            }
            return Ok(self.deleted(write, &old));
        }
        mark(&mut new, &self.after(grace), grace);
        strategy::set(&mut new["metadata"], "finalizers", list(finalizers));
        if is_dry_run || new == *old {
            return Ok(new);
        }
        Ok((*self.store.write(key, write.kind.clone(), new)).clone())
    }

    /// Marks a namespace for deletion, or removes it once the namespace controller has emptied it.
    fn delete_namespace(&mut self, write: &Write, key: Key, mut new: Value, is_dry_run: bool) -> Value {
        let none = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
        let is_empty = none(&new["spec"]["finalizers"]) && none(&new["metadata"]["finalizers"]);
        if is_empty && !is_dry_run {
            self.take(&key);
            return new;
        }
        if new["metadata"]["deletionTimestamp"].is_string() || is_dry_run {
            return new;
        }
        let now: &str = &self.now;
        new["metadata"]["deletionTimestamp"] = now.into();
        new["status"]["phase"] = "Terminating".into();
        (*self.store.write(key, write.kind.clone(), new)).clone()
    }

    /// Deletes the selected objects of a collection; returns them as they were before.
    pub(super) fn delete_collection(&mut self, write: &Write, query: Query, options: &Value) -> Result<Value, Status> {
        let list = self.list(&write.kind, &write.target, query, "")?;
        let watched = self.watched(&write.kind, &write.target, query);
        let selected = |(key, stored): &(&Key, &crate::store::Stored)| {
            watched.covers(key) && watched.selector.selects(&stored.object)
        };
        let keys: Vec<Key> =
            self.store.of_resource(&watched.resource).filter(selected).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let target = crate::request::Target { namespace: &key.namespace, name: &key.name, ..write.target.clone() };
            let one = Write::new(self, write.kind.clone(), target, query);
            self.delete(&one, options)?;
        }
        Ok(list)
    }

    /// Removes an object, and with a definition the kinds that it defines.
    pub(crate) fn take(&mut self, key: &Key) -> Option<crate::store::Stored> {
        let removed = self.store.remove(key)?;
        self.after_removal(&removed);
        Some(removed)
    }

    /// Returns the finalizers that remain after a deletion. Counterpart: `deletionFinalizersForGarbageCollection`.
    fn finalizers(&self, kind: &Kind, options: &Value, old: &Value) -> Vec<Value> {
        let present = old["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        if !self.has_collector {
            return present;
        }
        let mut left: Vec<Value> =
            present.iter().filter(|name| *name != FOREGROUND && *name != ORPHAN).cloned().collect();
        if let Some(own) = propagation(kind, options, &present) {
            left.push(own.into());
        }
        left
    }

    /// Returns the response to a completed deletion.
    fn deleted(&self, write: &Write, old: &Value) -> Value {
        let kind = &write.kind;
        if self.fidelity == Fidelity::Sketch {
            let mut last = old.clone();
            last["metadata"]["resourceVersion"] = self.store.version.to_string().into();
            mark(&mut last, &write.now, 0);
            return last;
        }
        let returned = [
            "Pod",
            "Service",
            "ServiceAccount",
            "PersistentVolumeClaim",
            "PersistentVolume",
            "ResourceQuota",
            "StorageClass",
        ];
        if !kind.is_custom() && returned.contains(&kind.kind.as_str()) {
            return old.clone();
        }
        let mut details = json!({"name": old["metadata"]["name"], "kind": kind.plural, "uid": old["metadata"]["uid"]});
        if !kind.group().is_empty() {
            details["group"] = kind.group().into();
        }
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
    }
}

fn list(items: Vec<Value>) -> Value {
    if items.is_empty() { Value::Null } else { items.into() }
}

fn check_preconditions(write: &Write, options: &Value, old: &Value) -> Result<(), Status> {
    for (field, name) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (wanted, found) = (&options["preconditions"][field], &old["metadata"][field]);
        if wanted.is_string() && wanted != found {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let hint = match field {
                "uid" => "The object might have been deleted and then recreated",
                _ => "The object might have been modified",
            };
            let why = format!(
                "the {name} in the precondition ({}) does not match the {name} in record ({}). {hint}",
                text(wanted),
                text(found)
            );
            let about = crate::status::About { plural: &write.kind.kind, ..write.kind.about(write.target.name) };
            return Err(about.conflict(&why));
        }
    }
    Ok(())
}

/// Returns the garbage collector's finalizer that a deletion adds, if any.
fn propagation(kind: &Kind, options: &Value, present: &[Value]) -> Option<&'static str> {
    let is_event = kind.kind == "Event" && !kind.is_custom();
    if is_event {
        return None;
    }
    if let Some(orphan) = options["orphanDependents"].as_bool() {
        return orphan.then_some(ORPHAN);
    }
    match options["propagationPolicy"].as_str() {
        Some("Foreground") => return Some(FOREGROUND),
        Some("Orphan") => return Some(ORPHAN),
        Some(_) => return None,
        None => {}
    }
    if let Some(own) = [ORPHAN, FOREGROUND].into_iter().find(|own| present.iter().any(|name| name == own)) {
        return Some(own);
    }
    let orphans = ["Job", "ReplicationController"].contains(&kind.kind.as_str()) && !kind.is_custom();
    orphans.then_some(ORPHAN)
}

/// Returns the grace period in seconds; always 0 for kinds other than pods.
fn grace_period(kind: &Kind, options: &Value, old: &Value) -> i64 {
    if kind.kind != "Pod" || kind.is_custom() {
        return 0;
    }
    let is_done = ["Succeeded", "Failed"].iter().any(|phase| old["status"]["phase"] == *phase);
    if is_done || old["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        return 0;
    }
    let asked = options["gracePeriodSeconds"].as_i64();
    asked.or_else(|| old["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30).max(0)
}

/// Returns whether the object is already terminating and the request does not shorten its grace period.
fn is_pending(old: &Value, options: &Value) -> bool {
    let grace = old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let is_going = old["metadata"]["deletionTimestamp"].is_string();
    is_going && grace > 0 && options["gracePeriodSeconds"].as_i64().is_none_or(|asked| asked >= grace)
}

fn mark(object: &mut Value, at: &str, grace: i64) {
    let metadata = &mut object["metadata"];
    if metadata["deletionTimestamp"].is_null() {
        if let Some(generation) = metadata["generation"].as_i64().filter(|generation| *generation > 0) {
            metadata["generation"] = (generation + 1).into();
        }
        metadata["deletionTimestamp"] = at.into();
    }
    metadata["deletionGracePeriodSeconds"] = grace.into();
}
