//! The garbage collector: deletes dependents after their owner, deletes them before it in foreground deletion, or
//! orphans them.
//!
//! Counterpart: k8s.io/kubernetes `pkg/controller/garbagecollector`.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Controller, has_finalizer, is_going, only, path_of, pick, without_finalizer};
use crate::Server;
use crate::store::Key;
use crate::write::{FOREGROUND, ORPHAN};

/// The garbage collector.
#[derive(Debug, Default)]
pub struct Collector;

/// What the collector does to one object.
enum Action {
    /// Deletes it, with this propagation policy.
    Delete(&'static str),
    /// Removes the collector's finalizer.
    Free(&'static str),
    /// Removes the references to these owners.
    Disown(Vec<String>),
}

impl Controller for Collector {
    fn step(&mut self, server: &mut Server, choice: u64) -> bool {
        let Some((key, action)) = pick(pending(server), choice) else { return false };
        let Some(stored) = server.store.get(&key).cloned() else { return false };
        let (path, object) = (path_of(&key, &stored.kind), stored.object);
        match action {
            Action::Delete(how) => {
                server.erase(&path, json!({"propagationPolicy": how, "preconditions": only(&object)}))
            }
            Action::Free(name) => server.merge(&path, "kube-controller-manager", without_finalizer(&object, name)),
            Action::Disown(owners) => {
                let kept: Vec<&Value> = references(&object)
                    .filter(|reference| !owners.iter().any(|uid| reference["uid"] == *uid))
                    .collect();
                let metadata = json!({"ownerReferences": kept, "uid": object["metadata"]["uid"]});
                server.merge(&path, "kube-controller-manager", json!({"metadata": metadata}))
            }
        }
    }
}

fn references(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn pending(server: &Server) -> Vec<(Key, Action)> {
    let stored = server.store.iter().map(|(_, stored)| &*stored.object);
    let living = stored.filter_map(|object| Some((object["metadata"]["uid"].as_str()?, object))).collect();
    let state = State { server, living };
    let objects = server.store.iter();
    objects.filter_map(|(key, stored)| Some((key.clone(), state.action(&stored.object)?))).collect()
}

struct State<'a> {
    server: &'a Server,
    /// The objects by uid.
    living: HashMap<&'a str, &'a Value>,
}

impl State<'_> {
    fn action(&self, object: &Value) -> Option<Action> {
        if is_going(object) {
            return self.finish(object);
        }
        let owners: Vec<&Value> = references(object).collect();
        if owners.is_empty() {
            return None;
        }
        let orphaning: Vec<String> = owners
            .iter()
            .filter(|owner| self.is_going_with(&owner["uid"], ORPHAN))
            .map(|owner| text(&owner["uid"]))
            .collect();
        if !orphaning.is_empty() {
            return Some(Action::Disown(orphaning));
        }
        let lives = |owner: &&Value| owner["uid"].as_str().is_some_and(|uid| self.living.contains_key(uid));
        let (alive, gone): (Vec<&Value>, Vec<&Value>) = owners.into_iter().partition(lives);
        let waits = |owner: &&Value| self.is_going_with(&owner["uid"], FOREGROUND);
        let (waiting, solid): (Vec<&Value>, Vec<&Value>) = alive.into_iter().partition(waits);
        match (solid.is_empty(), gone.is_empty(), waiting.is_empty()) {
            (false, true, true) => None,
            // Another owner keeps it alive.
            (false, ..) => Some(Action::Disown(gone.iter().chain(&waiting).map(|owner| text(&owner["uid"])).collect())),
            // The owner waits for all of its dependents, so this object's own dependents must be deleted first.
            (true, _, false) if self.dependents(object).next().is_some() => Some(Action::Delete("Foreground")),
            (true, ..) => Some(Action::Delete("Background")),
        }
    }

    /// Returns the next action for an object that is being deleted.
    fn finish(&self, object: &Value) -> Option<Action> {
        if has_finalizer(object, FOREGROUND) {
            let is_blocked = self.dependents(object).any(|(_, reference)| reference["blockOwnerDeletion"] == true);
            return (!is_blocked).then_some(Action::Free(FOREGROUND));
        }
        if has_finalizer(object, ORPHAN) && self.dependents(object).next().is_none() {
            return Some(Action::Free(ORPHAN));
        }
        None
    }

    /// Returns whether an owner is being deleted with this finalizer.
    fn is_going_with(&self, uid: &Value, finalizer: &str) -> bool {
        let found = uid.as_str().and_then(|uid| self.living.get(uid));
        found.is_some_and(|object| is_going(object) && has_finalizer(object, finalizer))
    }

    fn dependents<'a>(&'a self, owner: &'a Value) -> impl Iterator<Item = (&'a Value, &'a Value)> {
        let uid = &owner["metadata"]["uid"];
        let of = move |object: &'a Value| references(object).find(|one| one["uid"] == *uid).map(|one| (object, one));
        self.server.store.iter().filter_map(move |(_, stored)| of(&stored.object))
    }
}
