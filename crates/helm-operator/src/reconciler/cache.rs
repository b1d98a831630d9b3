//! What the controller knows without asking: resources, releases, dependents, and what happened to each lately.
//!
//! Fed by watches and by the answers to our own writes; of two sayings the one with the higher resource version counts.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helm::action::LiveView;
use helm::kube::{Applied, Live, Mark, ObjectKey, Owner, Readiness, Resource};
use helm::release::{Packed, Status};
use helm::storage::{Marks, RecordMeta};
use tokio::time::Instant;

use super::primary::{Primary, ResourceKey};
use crate::status::Fault;

/// The controller's knowledge.
#[derive(Default)]
pub(super) struct Cache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    primaries: HashMap<ResourceKey, Arc<Primary>>,
    releases: HashMap<ResourceKey, Release>,
    dependents: HashMap<ObjectKey, Dependent>,
    kinds: HashMap<(Arc<str>, Arc<str>), KindState>,
    histories: HashMap<ResourceKey, History>,
}

/// A release's revisions.
#[derive(Clone, Debug, Default)]
pub(super) struct Release {
    pub(super) revisions: BTreeMap<u32, Revision>,
    /// The deployed revision's record, if this process wrote or read it.
    pub(super) packed: Option<(u32, Packed)>,
}

/// One revision.
#[derive(Clone, Debug)]
pub(super) struct Revision {
    pub(super) status: Status,
    pub(super) resource_version: u64,
    /// The uids of the owners that the record names.
    pub(super) owners: Vec<Box<str>>,
    pub(super) marks: Option<Arc<Marks>>,
}

/// A live object of a release.
#[derive(Clone, Debug)]
pub(super) struct Dependent {
    pub(super) uid: Box<str>,
    pub(super) resource_version: u64,
    pub(super) mark: Option<Mark>,
    pub(super) readiness: Readiness,
    pub(super) deleting: bool,
    pub(super) owner: Option<ResourceKey>,
    /// Who else manages its fields.
    pub(super) other_manager: Option<Box<str>>,
}

/// Whether a kind is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KindState {
    Starting,
    Synced,
}

/// What happened to a resource lately.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Inputs that gave the deployed objects, though the record says others.
    pub(super) same_inputs: Option<String>,
    pub(super) failure: Option<Failed>,
    pub(super) drift: Drift,
    /// Notes to put into the status at the next write.
    pub(super) notes: Option<String>,
    /// The status that was written last, and what the server made of it.
    pub(super) written: Option<(crate::status::Status, crate::status::Status)>,
    /// When everything was last applied without being asked: for what marks can't tell.
    pub(super) resynced: Option<Instant>,
}

/// A failure that stands.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) fault: Fault,
    /// The inputs that failed.
    pub(super) inputs: String,
    pub(super) attempts: u32,
    pub(super) retry_at: Instant,
}

/// How often something drifted.
#[derive(Clone, Debug, Default)]
pub(super) struct Drift {
    pub(super) streak: u32,
    pub(super) repaired: Option<Instant>,
    pub(super) hold_until: Option<Instant>,
    pub(super) told: bool,
}

impl Drift {
    /// Whether the last repair, or the wait after it, is no longer ago than this.
    pub(super) fn is_recent(&self, span: std::time::Duration) -> bool {
        self.hold_until.or(self.repaired).is_some_and(|last| Instant::now().saturating_duration_since(last) < span)
    }
}

impl Cache {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn primary(&self, key: &ResourceKey) -> Option<Arc<Primary>> {
        self.state().primaries.get(key).cloned()
    }

    /// Takes a resource in; says whether a reconcile could have to act on it.
    pub(super) fn put_primary(&self, primary: Primary) -> bool {
        let mut state = self.state();
        let old = state.primaries.get(&primary.key());
        let newer = |old: &&Arc<Primary>| old.uid() == primary.uid() && version(old) > version(&primary);
        if old.is_some_and(|old| newer(&old)) {
            return false;
        }
        let differs = old.is_none_or(|old| primary.differs_from(old));
        state.primaries.insert(primary.key(), Arc::new(primary));
        differs
    }

    pub(super) fn remove_primary(&self, key: &ResourceKey) {
        self.state().primaries.remove(key);
    }

    pub(super) fn primaries(&self) -> Vec<ResourceKey> {
        self.state().primaries.keys().cloned().collect()
    }

    /// Forgets all but the releases of a resource that is gone.
    pub(super) fn forget(&self, key: &ResourceKey) {
        self.state().histories.remove(key);
    }

    pub(super) fn release(&self, key: &ResourceKey) -> Option<Release> {
        self.state().releases.get(key).cloned()
    }

    /// Takes a record's metadata in; says whether it was news.
    pub(super) fn put_record(&self, meta: RecordMeta) -> bool {
        let key = ResourceKey::new(&meta.namespace, &meta.name);
        let mut state = self.state();
        let release = state.releases.entry(key).or_default();
        if release.revisions.get(&meta.version).is_some_and(|known| known.resource_version >= meta.resource_version) {
            return false;
        }
        let revision = Revision {
            status: meta.status,
            resource_version: meta.resource_version,
            owners: meta.owners.into_iter().map(Into::into).collect(),
            marks: meta.marks.map(Arc::new),
        };
        release.revisions.insert(meta.version, revision);
        release.slim();
        true
    }

    /// Takes a record's deletion in; says whether it was news.
    pub(super) fn remove_record(&self, meta: &RecordMeta) -> bool {
        let key = ResourceKey::new(&meta.namespace, &meta.name);
        let mut state = self.state();
        let Some(release) = state.releases.get_mut(&key) else { return false };
        if release.revisions.get(&meta.version).is_none_or(|known| known.resource_version > meta.resource_version) {
            return false;
        }
        release.revisions.remove(&meta.version);
        if release.revisions.is_empty() {
            state.releases.remove(&key);
        }
        true
    }

    pub(super) fn change_release<T>(&self, key: &ResourceKey, change: impl FnOnce(&mut Release) -> T) -> T {
        let mut state = self.state();
        let release = state.releases.entry(key.clone()).or_default();
        let result = change(release);
        release.slim();
        if release.revisions.is_empty() {
            state.releases.remove(key);
        }
        result
    }

    /// Keeps only these records of a kind of list: what a new list does not have is gone. Returns the releases concerned.
    pub(super) fn retain_records(&self, listed: &HashSet<(ResourceKey, u32)>, newest: u64) -> Vec<ResourceKey> {
        let mut state = self.state();
        let mut gone = Vec::new();
        state.releases.retain(|key, release| {
            let before = release.revisions.len();
            release.revisions.retain(|v, r| r.resource_version > newest || listed.contains(&(key.clone(), *v)));
            if release.revisions.len() != before {
                gone.push(key.clone());
            }
            !release.revisions.is_empty()
        });
        gone
    }

    pub(super) fn history(&self, key: &ResourceKey) -> History {
        self.state().histories.get(key).cloned().unwrap_or_default()
    }

    pub(super) fn change_history<T>(&self, key: &ResourceKey, change: impl FnOnce(&mut History) -> T) -> T {
        change(self.state().histories.entry(key.clone()).or_default())
    }

    pub(super) fn dependent(&self, key: &ObjectKey) -> Option<Dependent> {
        self.state().dependents.get(key).cloned()
    }

    /// Takes a live object in; returns its owner if something changed that matters.
    pub(super) fn put_dependent(&self, key: ObjectKey, live: &Live, owner: Option<ResourceKey>) -> Option<ResourceKey> {
        let new = Dependent {
            uid: live.metadata.uid.as_deref().unwrap_or_default().into(),
            resource_version: live.resource_version(),
            mark: live.mark,
            readiness: live.readiness(&key.group, &key.kind),
            deleting: live.deleting,
            owner,
            other_manager: live.other_managers.last().map(|m| m.as_str().into()),
        };
        let mut state = self.state();
        let old = state.dependents.get(&key);
        if old.is_some_and(|old| old.resource_version >= new.resource_version) {
            return None;
        }
        let same = old.is_some_and(|old| {
            (&old.uid, old.mark, old.readiness, old.deleting) == (&new.uid, new.mark, new.readiness, new.deleting)
        });
        let owner = new.owner.clone().filter(|_| !same);
        state.dependents.insert(key, new);
        owner
    }

    pub(super) fn put_applied(&self, applied: &[Applied], owner: &ResourceKey) {
        for one in applied {
            self.put_dependent(one.key.clone(), &one.live, Some(owner.clone()));
        }
    }

    /// Takes a live object's deletion in; returns its owner.
    pub(super) fn remove_dependent(&self, key: &ObjectKey, resource_version: u64) -> Option<ResourceKey> {
        let mut state = self.state();
        if state.dependents.get(key).is_none_or(|known| known.resource_version > resource_version) {
            return None;
        }
        state.dependents.remove(key).and_then(|dependent| dependent.owner)
    }

    /// What a new list of a kind does not have is gone, unless it is newer than the list. Returns the owners concerned.
    pub(super) fn retain_dependents(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        listed: &HashSet<ObjectKey>,
        newest: u64,
    ) -> Vec<ResourceKey> {
        let mut gone = Vec::new();
        self.state().dependents.retain(|key, dependent| {
            let in_list = *key.kind == *resource.kind
                && *key.group == *resource.group()
                && namespace.is_none_or(|n| *key.namespace == *n);
            let stays = !in_list || listed.contains(key) || dependent.resource_version > newest;
            if !stays {
                gone.extend(dependent.owner.clone());
            }
            stays
        });
        gone
    }

    /// Notes that a kind is being watched; false if it is already.
    pub(super) fn start_kind(&self, resource: &Resource) -> bool {
        match self.state().kinds.entry((Arc::from(resource.group()), resource.kind.clone())) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(KindState::Starting);
                true
            }
        }
    }

    pub(super) fn kind_synced(&self, resource: &Resource) {
        let key = (Arc::from(resource.group()), resource.kind.clone());
        self.state().kinds.insert(key, KindState::Synced);
    }

    /// Whether absence from the cache means that the object is gone.
    pub(super) fn is_synced(&self, key: &ObjectKey) -> bool {
        self.state().kinds.get(&(key.group.clone(), key.kind.clone())) == Some(&KindState::Synced)
    }

    /// Every kind of every release's objects of these resources, as `(apiVersion, kind)`.
    pub(super) fn kinds_of_releases(&self) -> HashSet<(Arc<str>, Arc<str>)> {
        let state = self.state();
        let ours = state.releases.iter().filter(|(key, _)| state.primaries.contains_key(*key));
        let marks = ours.flat_map(|(_, release)| release.revisions.values().filter_map(|r| r.marks.as_ref()));
        marks.flat_map(|m| m.objects.iter().map(|o| (o.api_version.clone(), o.key.kind.clone()))).collect()
    }
}

impl LiveView for Cache {
    fn look(&self, key: &ObjectKey) -> Option<(String, Option<Mark>)> {
        let dependent = self.dependent(key)?;
        Some((dependent.uid.into(), dependent.mark.filter(|_| !dependent.deleting)))
    }
}

impl Release {
    pub(super) fn newest(&self) -> Option<(u32, &Revision)> {
        self.revisions.last_key_value().map(|(v, r)| (*v, r))
    }

    /// The newest revision that is deployed.
    pub(super) fn deployed(&self) -> Option<(u32, &Revision)> {
        self.revisions.iter().rev().find(|(_, r)| r.status == Status::Deployed).map(|(v, r)| (*v, r))
    }

    /// The deployed revision; if none is, the newest that once was.
    pub(super) fn last_good(&self) -> Option<u32> {
        let newest = |status| self.revisions.iter().rev().find(|(_, r)| r.status == status).map(|(v, _)| *v);
        newest(Status::Deployed).or_else(|| newest(Status::Superseded))
    }

    /// Whether one of the revisions says that it is the owner's.
    pub(super) fn is_owned_by(&self, owner: &Owner) -> bool {
        self.revisions.values().any(|r| {
            r.marks.as_ref().is_some_and(|m| m.owner == owner.uid) || r.owners.iter().any(|uid| **uid == *owner.uid)
        })
    }

    /// The objects are needed of the newest and the deployed revision only.
    fn slim(&mut self) {
        let keep = [self.newest().map(|(v, _)| v), self.deployed().map(|(v, _)| v)];
        for (version, revision) in &mut self.revisions {
            if !keep.contains(&Some(*version))
                && let Some(marks) = &revision.marks
                && !marks.objects.is_empty()
            {
                revision.marks = Some(Arc::new(Marks { owner: marks.owner.clone(), ..Marks::default() }));
            }
        }
    }
}

fn version(primary: &Primary) -> u64 {
    primary.resource_version().parse().unwrap_or(0)
}
