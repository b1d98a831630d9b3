//! The state of one kind: the queries of resources, and the objects with whether they satisfy them. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use controller::runtime::freshness::{Epoch, Stamp};
use controller::runtime::reflector::WatchScope;
use helm_release::kube::Resource;
use tokio::time::Instant;

use super::seen::{Judged, ObjectName, Portion, Seen};
use crate::dependencies::{Access, Gap, Missing, Node, Query, Standing};

/// A resource that waits: its controller's name, and itself.
pub(crate) type User = (Arc<str>, Node);

#[derive(Default)]
pub(super) struct Kind {
    pub(super) resource: Option<Arc<Resource>>,
    /// Whether discovery did not find it.
    pub(super) is_unserved: bool,
    pub(super) entries: HashMap<Arc<str>, Entry>,
    /// The ids of queries by the name of their object.
    named: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// The ids of queries by labels.
    selecting: BTreeSet<Arc<str>>,
}

/// A query, with the known objects.
pub(super) struct Entry {
    pub(super) query: Arc<Query>,
    /// The resources with this query, and whether their accounts may read its objects.
    pub(super) users: BTreeMap<User, Option<Checked>>,
    /// When the first user came, or when objects that were left out began to matter. A list that began earlier may have
    /// dropped these objects.
    since: Instant,
    /// Whether an object that is not here does not exist, or there are too many.
    pub(super) is_known: bool,
    /// At most one more than the query may mean.
    objects: BTreeMap<ObjectName, Found>,
    /// Whether objects may have been left out because there were too many.
    is_partial: bool,
    reads: Vec<Read>,
}

/// A read of a query's objects, from its start until its result is stored or dropped. Contains the stamp of what it
/// returns.
pub(crate) type Reading = Arc<Stamp>;

/// A running read, and objects deleted since it began, which it must not bring back.
struct Read {
    of: Weak<Stamp>,
    /// The objects that ceased to be meant since it began, and the versions that showed it.
    gone: HashMap<ObjectName, u64>,
}

/// The standing that an account was checked for, and whether it may read the objects.
pub(super) type Checked = (Standing, Access);

struct Found {
    version: u64,
    missing: Option<Missing>,
    stamp: Stamp,
}

/// Why an object does not satisfy queries, by their ids; `None` if it does.
pub(super) type Verdicts = HashMap<Arc<str>, Option<Missing>>;

impl Kind {
    pub(super) fn add(&mut self, query: &Arc<Query>, user: &User) {
        let id = &query.id;
        match query.name() {
            Some(name) => _ = self.named.entry(name.clone()).or_default().insert(id.clone()),
            None => _ = self.selecting.insert(id.clone()),
        }
        let new = || Entry {
            query: query.clone(),
            users: BTreeMap::new(),
            since: Instant::now(),
            is_known: false,
            objects: BTreeMap::new(),
            is_partial: false,
            reads: Vec::new(),
        };
        self.entries.entry(id.clone()).or_insert_with(new).users.entry(user.clone()).or_default();
    }

    pub(super) fn remove(&mut self, query: &Query, user: &User) {
        let Some(entry) = self.entries.get_mut(&query.id) else { return };
        entry.users.remove(user);
        if !entry.users.is_empty() {
            return;
        }
        self.entries.remove(&query.id);
        self.selecting.remove(&query.id);
        if let Some(name) = query.name()
            && let Some(ids) = self.named.get_mut(name)
        {
            ids.remove(&query.id);
            if ids.is_empty() {
                self.named.remove(name);
            }
        }
    }

    pub(super) fn standing(&self, query: &Query) -> Standing {
        let lacks = |missing| Standing::Lacks(Gap { object: None, missing });
        let is_namespaced = self.resource.as_ref().is_some_and(|resource| resource.namespaced);
        match self.entries.get(&query.id) {
            _ if self.is_unserved => lacks(Missing::Unserved),
            _ if is_namespaced && query.namespace.is_empty() => lacks(Missing::NoNamespace),
            Some(entry) => entry.standing(),
            None => Standing::Unknown,
        }
    }

    /// Returns the users of queries whose named object is this resource.
    pub(super) fn users_of(&self, node: &Node) -> impl Iterator<Item = (&Entry, &User)> {
        let ids = self.named.get(&node.name).into_iter().flatten();
        let entries = ids.filter_map(|id| self.entries.get(id)).filter(|entry| entry.query.reaches(&node.namespace));
        entries.flat_map(|entry| entry.users.keys().map(move |user| (entry, user)))
    }

    /// Returns the users of all queries that concern this resource, by name or by labels.
    pub(super) fn waiting_for(&self, node: &Node) -> Vec<User> {
        let selecting = self.selecting.iter().filter_map(|id| self.entries.get(id));
        let key = (node.namespace.clone(), node.name.clone());
        let selecting = selecting.filter(|entry| entry.objects.contains_key(&key));
        let selecting = selecting.flat_map(|entry| entry.users.keys());
        self.users_of(node).map(|(_, user)| user).chain(selecting).cloned().collect()
    }

    /// Returns the queries that an object has to be judged by.
    pub(super) fn judging(&self, seen: &Seen) -> Vec<Arc<Query>> {
        let queries = self.ids_for(seen).filter_map(|id| self.entries.get(id)).map(|entry| &entry.query);
        queries.filter(|query| seen.suffices_for(query) && seen.is_meant_by(query)).cloned().collect()
    }

    /// Handles an object from a list or an event, with the verdicts on it; returns the users for whom that matters.
    pub(super) fn changed(&mut self, seen: &Seen, epoch: Epoch, verdicts: &Verdicts) -> BTreeSet<User> {
        let ids: Vec<Arc<str>> = self.ids_for(seen).cloned().collect();
        let (name, mut woken) = (seen.object_name(), BTreeSet::new());
        for id in ids {
            if let Some(entry) = self.entries.get_mut(&id).filter(|entry| seen.suffices_for(&entry.query)) {
                woken.extend(entry.put(&name, seen, epoch, verdicts.get(&id)));
            }
        }
        woken
    }

    /// Returns the ids of the queries that may mean an object, or meant it before.
    fn ids_for(&self, seen: &Seen) -> impl Iterator<Item = &Arc<str>> {
        self.named.get(seen.name()).into_iter().flatten().chain(&self.selecting)
    }

    /// Handles an object's deletion.
    pub(super) fn deleted(&mut self, seen: &Seen) -> BTreeSet<User> {
        let name = seen.object_name();
        let entries = self.entries.values_mut().filter(|entry| entry.query.reaches(seen.namespace()));
        entries.flat_map(|entry| entry.remove(&name, seen.version(), |found| found <= seen.version())).collect()
    }

    /// Records that the server serves the kind. Returns the users of all queries if that is new: until now, the standing
    /// of each was that it does not.
    pub(super) fn serve(&mut self) -> BTreeSet<User> {
        match std::mem::replace(&mut self.is_unserved, false) {
            true => self.users(),
            false => BTreeSet::new(),
        }
    }

    /// Handles the end of a list: what it did not contain does not exist.
    pub(super) fn sweep(&mut self, scope: &WatchScope, list: Epoch, portion: Portion) -> BTreeSet<User> {
        // No search wakes them any longer, and the list may answer only some of the queries.
        let mut woken = self.serve();
        let covered = |entry: &&mut Entry| scope.covers(&entry.query.namespace) && portion.suffices_for(&entry.query);
        let sweep = |entry: &mut Entry| {
            // The list may be newer than a read that is still running.
            entry.reads.clear();
            entry.objects.retain(|_, found| found.stamp.survives(list));
            entry.is_known |= entry.since < list.began;
        };
        woken.extend(self.entries.values_mut().filter(covered).flat_map(|entry| entry.change(sweep)));
        woken
    }

    /// Handles a refused watch: forgets all objects.
    pub(super) fn lost(&mut self, scope: &WatchScope) -> BTreeSet<User> {
        let covered = self.entries.values_mut().filter(|entry| scope.covers(&entry.query.namespace));
        let lose = |entry: &mut Entry| {
            (entry.is_known, entry.objects, entry.reads) = (false, BTreeMap::new(), Vec::new());
        };
        covered.flat_map(|entry| entry.change(lose)).collect()
    }

    /// Returns everyone who has a query of the kind.
    pub(super) fn users(&self) -> BTreeSet<User> {
        self.entries.values().flat_map(|entry| entry.users.keys().cloned()).collect()
    }
}

impl Entry {
    fn standing(&self) -> Standing {
        let missing = |((_, name), found): (&ObjectName, &Found)| {
            let object = self.query.name().is_none().then(|| name.clone());
            Some(Gap { object, missing: found.missing.clone()? })
        };
        if self.is_full() {
            return Standing::Lacks(Gap { object: None, missing: Missing::TooMany });
        }
        match self.objects.iter().find_map(missing) {
            // One known missing object is enough, even if others are unknown.
            Some(gap) => Standing::Lacks(gap),
            None if !self.is_known && (self.objects.is_empty() || self.query.name().is_none()) => Standing::Unknown,
            None if !self.objects.is_empty() => Standing::Met,
            None if self.query.name().is_some() => Standing::Lacks(Gap { object: None, missing: Missing::Absent }),
            None => Standing::Lacks(Gap { object: None, missing: Missing::Unmatched }),
        }
    }

    /// Returns the objects that the query means, by namespace and name.
    pub(super) fn objects(&self) -> impl Iterator<Item = &ObjectName> {
        self.objects.keys()
    }

    /// Changes the entry; returns its users if that changes the standing.
    fn change(&mut self, change: impl FnOnce(&mut Entry)) -> Vec<User> {
        let before = self.standing();
        change(self);
        self.forget_if_partial();
        if self.standing() == before { Vec::new() } else { self.users.keys().cloned().collect() }
    }

    /// Returns whether there are more objects than the query may select.
    fn is_full(&self) -> bool {
        self.objects.len() > self.query.max_objects
    }

    fn insert(&mut self, name: ObjectName, found: Found) {
        if self.is_full() && !self.objects.contains_key(&name) {
            self.is_partial = true;
        } else {
            self.objects.insert(name, found);
        }
    }

    /// Requires a new read of all objects once there is room for those that were left out.
    fn forget_if_partial(&mut self) {
        if self.is_partial && !self.is_full() {
            (self.is_partial, self.is_known) = (false, false);
            self.since = Instant::now();
            // They may be older than what was left out.
            self.reads.clear();
        }
    }

    /// Handles an object from a list or an event; returns the users if that changes the standing.
    fn put(&mut self, name: &ObjectName, seen: &Seen, epoch: Epoch, verdict: Option<&Option<Missing>>) -> Vec<User> {
        if !self.query.reaches(seen.namespace()) {
            return Vec::new();
        }
        if !seen.is_meant_by(&self.query) {
            // Its labels may have changed.
            return self.remove(name, seen.version(), |_| true);
        }
        // A query that came while the object was judged reads it.
        let Some(missing) = verdict else { return Vec::new() };
        let version = seen.version();
        self.change(|entry| {
            let known = entry.objects.get_mut(name);
            match known.filter(|found| found.version > version && !epoch.is_list) {
                Some(newer) => newer.stamp = Stamp::seen(epoch),
                None => {
                    let found = Found { version, missing: missing.clone(), stamp: Stamp::seen(epoch) };
                    entry.insert(name.clone(), found);
                }
            }
        })
    }

    /// Removes an object that the query no longer selects as of this version, if the known version `is_older`; returns
    /// the users if that changes the standing.
    fn remove(&mut self, name: &ObjectName, version: u64, is_older: impl Fn(u64) -> bool) -> Vec<User> {
        self.note_gone(name, version);
        match self.objects.get(name).is_some_and(|found| is_older(found.version)) {
            true => self.change(|entry| _ = entry.objects.remove(name)),
            false => Vec::new(),
        }
    }

    /// Begins a read of all objects.
    pub(super) fn begin_read(&mut self) -> Reading {
        self.reads.retain(|read| read.of.strong_count() > 0);
        let reading = Arc::new(Stamp::written(None));
        self.reads.push(Read { of: Arc::downgrade(&reading), gone: HashMap::new() });
        reading
    }

    /// Stores the result of a read that covers at least the query's objects; returns the users whose standing changed.
    /// A read is void if a list ended while it ran: then either the list has the answer, or the objects are read again.
    pub(super) fn store(&mut self, objects: Vec<Judged>, reading: &Reading) -> Vec<User> {
        let is_it = |read: &Read| std::ptr::eq(read.of.as_ptr(), Arc::as_ptr(reading));
        let Some(at) = self.reads.iter().position(is_it) else { return Vec::new() };
        let Read { gone, .. } = self.reads.swap_remove(at);
        self.change(|entry| {
            entry.is_partial |= objects.len() > entry.query.max_objects;
            for Judged { name, version, missing } in objects {
                let known = entry.objects.get(&name).map(|found| found.version);
                if known.max(gone.get(&name).copied()).is_none_or(|known| known < version) {
                    entry.insert(name, Found { version, missing, stamp: **reading });
                }
            }
            entry.is_known = true;
        })
    }

    /// Notes for the running reads that the query no longer selects an object as of this version.
    fn note_gone(&mut self, name: &ObjectName, version: u64) {
        for read in self.reads.iter_mut().filter(|read| read.of.strong_count() > 0) {
            let known = read.gone.entry(name.clone()).or_default();
            *known = (*known).max(version);
        }
    }
}
