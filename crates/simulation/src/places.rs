//! The invariants of releases whose records move: nothing happens to a release where its records are not.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::checks::{Checks, Objects};
use crate::names;
use crate::process::Setup;
use crate::quiet::{is_beside, records, status_of};
use crate::world::{Change, is_going};

/// The key of watches.yaml that names the namespace of all records.
const KEY: &str = "storageNamespace: ";

impl Setup {
    /// Returns the namespace in which the process keeps the records of all releases; `None` if each is beside its release.
    pub fn place(&self) -> Option<&str> {
        self.watch.lines().find_map(|line| line.strip_prefix(KEY))
    }

    /// Returns this configuration with another such namespace.
    #[must_use]
    pub fn at(&self, place: Option<&str>) -> Setup {
        let others: Vec<&str> = self.watch.lines().filter(|line| !line.starts_with(KEY)).collect();
        let mut setup = Setup { watch: others.join("\n"), ..self.clone() };
        if let Some(place) = place {
            setup.add(&format!("{KEY}{place}"));
        }
        setup
    }
}

/// The label of a record with the uid of its resource.
pub(crate) const OWNER: &str = "helm.sdk.operatorframework.io/owner";

/// Where each process keeps records.
#[derive(Clone, Default)]
pub struct Places {
    of: BTreeMap<String, Option<String>>,
    /// Twice the number of times that a process may have started with another place: it imports the release, and repeats
    /// an action that was not completed.
    pub moves: u32,
}

impl Places {
    /// Records that a process starts with this configuration.
    pub fn starts(&mut self, process: &str, setup: &Setup) {
        self.of.insert(process.to_owned(), setup.place().map(str::to_owned));
    }

    /// Returns where a process keeps records, if it has started.
    pub fn of(&self, process: &str) -> Option<Option<&str>> {
        self.of.get(process).map(Option::as_deref)
    }

    /// Returns whether any process keeps records elsewhere than beside their releases.
    pub fn is_on(&self) -> bool {
        self.of.values().any(Option::is_some)
    }

    /// Records that another process leads.
    pub(crate) fn leader_changes(&mut self) {
        let mut all = self.of.values();
        let first = all.next();
        if all.any(|place| Some(place) != first) {
            self.moves += 2;
        }
    }

    /// Checks (n) at a write of the operator. `exists` says whether the release has a resource that is not being deleted.
    fn written(&self, change: &Change, objects: &Objects, exists: bool) -> Option<String> {
        let own = self.of(&change.by)?;
        let (by, path) = (&change.by, &change.path);
        let at = |place: Option<&str>| place.map_or("beside the release".to_owned(), |place| format!("in {place}"));
        if let Some((name, _)) = names::record(path) {
            let was_imported = || records(name, objects).any(|(path, _)| names::place(path) == own);
            if names::place(path).is_none() && keeps_status(change) && !was_imported() {
                return None;
            }
            if names::place(path) != own {
                return Some(format!("(n) {by} wrote {path}, and keeps records {}", at(own)));
            }
            let there =
                records(name, objects).find_map(|(path, _)| names::place(path).filter(|place| Some(*place) != own));
            return there.map(|there| format!("(n) {by} wrote {path}, and the release is recorded in {there}"));
        }
        let name = names::owner(path)?;
        let mut recorded = records(name, objects).map(|(path, _)| names::place(path));
        let there = recorded.find(|place| *place == own || place.is_some());
        match there {
            Some(there) if there == own => None,
            Some(there) => Some(format!("(n) {by} wrote {path}, and the release is recorded {}", at(there))),
            None if exists && change.after.as_deref().is_some_and(|after| !is_going(after)) => {
                Some(format!("(n) {by} wrote {path} without a record {}", at(own)))
            }
            None => None,
        }
    }
}

impl Checks {
    /// Returns the namespace in which the leader keeps records: `Some(None)` if each is beside its release, and `None`
    /// if no process leads.
    pub(crate) fn leaders_place(&self) -> Option<Option<&str>> {
        self.places.of(self.holder.as_deref()?)
    }

    /// Returns whether the leader keeps records elsewhere, and has one of the release there that names its resource. What
    /// a person recorded beside the release meanwhile changes nothing for it.
    pub(crate) fn has_own_elsewhere(&self, name: &str, objects: &Objects) -> bool {
        let Some(place) = self.leaders_place().flatten() else { return false };
        let Some(resource) = objects.get(&*names::resource(name)) else { return false };
        let is_own = |record: &Value| record["metadata"]["labels"][OWNER] == resource["metadata"]["uid"];
        records(name, objects).any(|(path, record)| names::place(path) == Some(place) && is_own(record))
    }

    /// Notes that records move, or that nothing is left of those beside their release. The next upgrade repeats an action
    /// that was not completed before.
    pub(crate) fn note_move(&mut self, change: &Change, objects: &Objects) {
        let Some((name, _)) = names::record(&change.path) else { return };
        let Some(resource) = self.resources.get_mut(name) else { return };
        let is_beside = is_beside(name, objects);
        let is_first = || records(name, objects).count() == 1;
        let is_new = change.before.is_none() && names::place(&change.path).is_some();
        let status = status_of(change.after.as_deref());
        if is_beside && is_new && is_first() && status == Some("deployed") {
            resource.has_moved = true;
            let completed = beside(name, objects).is_some_and(|newest| status_of(Some(newest)) == Some("deployed"));
            resource.causes += u32::from(!completed);
        }
        resource.has_moved &= is_beside;
    }

    /// Checks (n) at a write that no ended process sent.
    pub(crate) fn place(&self, change: &Change, objects: &Objects) -> Option<String> {
        if !self.places.is_on() || self.is_on_the_way(change) {
            return None;
        }
        let name = names::owner(&change.path).or_else(|| names::record(&change.path).map(|(name, _)| name));
        let resource = name.and_then(|name| self.resources.get(name))?;
        if resource.is_claimed {
            return None;
        }
        let is_owned = resource.exists && !resource.is_foreign && !resource.is_helms;
        self.places.written(change, objects, is_owned)
    }
}

/// Returns whether a record stays with its status: the hooks of its revision end before it is imported.
fn keeps_status(change: &Change) -> bool {
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    before.is_some() && after.is_some() && status_of(before) == status_of(after)
}

/// Returns the newest of the records that are beside a release.
fn beside<'o>(name: &str, objects: &'o Objects) -> Option<&'o Value> {
    let own = objects.iter().filter(|(path, _)| names::place(path).is_none());
    let numbered = own.filter_map(|(path, record)| match names::record(path) {
        Some((release, revision)) if release == name => Some((revision.parse::<u32>().ok()?, record)),
        _ => None,
    });
    numbered.max_by_key(|(revision, _)| *revision).map(|(_, record)| &**record)
}
