//! The invariants of releases whose records move: nothing happens to a release where its records are not.

use std::collections::BTreeMap;

use crate::checks::Objects;
use crate::names;
use crate::process::Setup;
use crate::quiet::records;
use crate::world::Change;

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
    pub(crate) fn written(&self, change: &Change, objects: &Objects, exists: bool) -> Option<String> {
        let own = self.of(&change.by)?;
        let (by, path) = (&change.by, &change.path);
        let at = |place: Option<&str>| place.map_or("beside the release".to_owned(), |place| format!("in {place}"));
        if let Some((name, _)) = names::record(path) {
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
            None if exists && change.after.is_some() => {
                Some(format!("(n) {by} wrote {path} without a record {}", at(own)))
            }
            None => None,
        }
    }
}
