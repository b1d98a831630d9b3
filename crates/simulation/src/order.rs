//! The invariants of charts whose objects have an order: an object is created once everything in earlier groups has
//! been ready in this revision, and deleted with its release once everything in later groups is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::checks::Objects;
use crate::names::{self, JOBS, OBJECTS, SOME};
use crate::quiet::{newest, status_of};
use crate::world::{Change, is_going};

/// The order of every release, and what was ready when.
#[derive(Clone, Default)]
pub struct Order {
    /// Whether every process applies the chart's order.
    pub is_on: bool,
    /// Whether a process has waited for groups, so that what never becomes ready fails.
    pub may_fail: bool,
    /// The objects that have been ready since a release's newest revision began.
    ready: BTreeMap<String, BTreeSet<Arc<str>>>,
    /// The releases of which a person's helm made a revision, which has no order.
    unordered: BTreeSet<String>,
}

/// Whether the resource of a release is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It is not, or nothing is known of it.
    Stays,
    /// It is, or is gone.
    Leaves,
}

impl Order {
    /// Checks (l) at a write.
    pub fn written(&mut self, change: &Change, objects: &Objects, owner: Owner) -> Option<String> {
        if !self.is_on {
            return None;
        }
        self.note_revision(change, objects);
        let name = names::owner(&change.path)?;
        let rank = rank(&change.path, name)?;
        let is_operator = change.by.starts_with("op-");
        let found = match (&change.before, &change.after) {
            (None, Some(_)) if is_operator => self.early(name, rank, change, objects),
            (Some(before), after) if is_operator && owner == Owner::Leaves => {
                let begins = after.as_ref().is_none_or(|after| is_going(after)) && !is_going(before);
                if begins { self.out_of_turn(name, rank, change, objects) } else { None }
            }
            _ => None,
        };
        self.note_object(name, change, is_operator);
        found
    }

    /// Notes a new revision: what is ready counts from now on.
    fn note_revision(&mut self, change: &Change, objects: &Objects) {
        let Some((name, _)) = names::record(&change.path).filter(|_| change.before.is_none()) else { return };
        if &*change.by == "helm" {
            self.unordered.insert(name.to_owned());
        }
        let own = objects.iter().filter(|(path, object)| names::owner(path) == Some(name) && is_ready(path, object));
        let ready = own.map(|(path, _)| path.clone()).collect();
        self.ready.insert(name.to_owned(), ready);
    }

    /// Notes whether an object is ready. What others do to it afterwards does not count.
    fn note_object(&mut self, name: &str, change: &Change, is_operator: bool) {
        let ready = self.ready.entry(name.to_owned()).or_default();
        match &change.after {
            Some(after) if is_ready(&change.path, after) => _ = ready.insert(change.path.clone()),
            Some(_) if is_operator => _ = ready.remove(&change.path),
            _ => {}
        }
    }

    /// Returns what the creation of an object should have waited for. The repair of a deployed revision waits for
    /// nothing.
    fn early(&self, name: &str, own: usize, change: &Change, objects: &Objects) -> Option<String> {
        if self.unordered.contains(name) || !is_pending(name, objects) {
            return None;
        }
        let ready = self.ready.get(name);
        let is_missing = |path: &String| !ready.is_some_and(|ready| ready.contains(&**path));
        let earlier = OBJECTS.iter().map(|pattern| names::path(pattern, name));
        let missing = earlier.filter(|path| rank(path, name) < Some(own)).find(is_missing)?;
        Some(format!("(l) {} created {}, before {missing} was ready in this revision", change.by, change.path))
    }

    /// Returns what has to go before an object of a release that is being uninstalled.
    fn out_of_turn(&self, name: &str, own: usize, change: &Change, objects: &Objects) -> Option<String> {
        if self.unordered.contains(name) {
            return None;
        }
        let is_later = |path: &str| names::owner(path) == Some(name) && rank(path, name) > Some(own);
        let stays = |object: &Value| object["metadata"]["annotations"][crate::actors::KEEP] == "keep";
        let (later, _) = objects.iter().find(|(path, object)| is_later(path) && !stays(object))?;
        Some(format!("(l) {} deleted {} before {later} was gone", change.by, change.path))
    }
}

/// Returns the place of an object's group in the order; `None` for a hook.
fn rank(path: &str, name: &str) -> Option<usize> {
    let [config, random, guarded, data, kept, server] = OBJECTS;
    let groups = [&[random, guarded, data, kept][..], &[config, SOME[1]], &[server], &[SOME[0]], &[JOBS[0]]];
    groups.iter().position(|group| group.iter().any(|pattern| names::path(pattern, name) == path))
}

/// Returns whether an action on the release has begun and not ended.
pub(crate) fn is_pending(name: &str, objects: &Objects) -> bool {
    let status = newest(name, objects).and_then(|(_, record)| status_of(Some(record)));
    status.is_some_and(|status| status.starts_with("pending"))
}

fn is_ready(path: &str, object: &Value) -> bool {
    let status = &object["status"];
    if path.contains("/persistentvolumeclaims/") {
        return status["phase"] == "Bound";
    }
    let is_current = || status["observedGeneration"] == object["metadata"]["generation"];
    !path.contains("/deployments/") || is_current() && status["readyReplicas"] == object["spec"]["replicas"]
}
