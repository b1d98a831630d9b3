//! What the process knows about value sources: digests of their content, and which resources depend on them, but never
//! the content.
//!
//! One metadata watch per kind, and per namespace if the operator is restricted to some, shows when to read an object
//! again, for all controllers. Objects that no resource names are dropped as they arrive.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use controller::runtime::freshness::{Epoch, Stamp};
use controller::runtime::key::ResourceKey;
use controller::runtime::namespaces::Namespaces;
use controller::runtime::reflector::WatchScope;
use outside::sync;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::watch::{self, Watcher};
use crate::values_from::{Content, SourceKey, SourceKind};

/// The maximum number of resources whose sources are read at the same time, each of which takes some MiB.
const MAX_LOADS: usize = 2;

/// A resource that depends on objects: its controller's name, and its own.
pub(crate) type User = (Arc<str>, ResourceKey);

/// A key of an object that a resource names.
pub(crate) type NamedKey = (SourceKey, Box<str>);

/// Wakes a resource of one controller.
type Wake = Box<dyn Fn(&ResourceKey) + Send + Sync>;

/// The process's registry of value sources.
pub(crate) struct Sources {
    namespaces: Namespaces,
    /// `None` in tests, which feed the registry themselves.
    client: Option<kube::Client>,
    state: Mutex<State>,
    loads: Semaphore,
}

#[derive(Default)]
struct State {
    objects: HashMap<SourceKey, Object>,
    users: HashMap<User, BTreeSet<NamedKey>>,
    controllers: HashMap<Arc<str>, Wake>,
    watches: HashMap<SourceKind, Vec<Watched>>,
}

#[derive(Default)]
struct Object {
    users: BTreeSet<User>,
    /// The result of the last read; `None` if the object must be read.
    read: Option<Read>,
    /// Counts the changes that watches reported, so that a read knows whether it was overtaken.
    changes: u64,
    /// When it was last read.
    read_at: Option<Instant>,
    /// Minimum resource version a read needs to be current. It only increases, so a late, older read cannot replace a
    /// newer one.
    needs: u64,
    stamp: Stamp,
}

/// The result of a read: the digests of the keys of an object that resources name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// The resource version; 0 if the object does not exist.
    version: u64,
    /// `None` if the object or the key does not exist.
    digests: BTreeMap<Box<str>, Option<Box<str>>>,
}

/// What is known about one key of an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It must be read, after so many changes of the object.
    Unread(u64),
    /// Its digest; `None` if the object or the key does not exist.
    Digest(Option<Box<str>>),
}

/// A watch, and the reason if the server refuses it.
struct Watched {
    scope: WatchScope,
    refusal: Option<String>,
    /// Stops the watch when dropped.
    _watcher: Option<Watcher>,
}

impl Read {
    /// Digests these keys, which are the keys that were read.
    pub(crate) fn of(content: &Content, keys: BTreeSet<Box<str>>) -> Read {
        let digest = |key: Box<str>| {
            let digest = content.digest(&key);
            (key, digest)
        };
        Read { version: content.version, digests: keys.into_iter().map(digest).collect() }
    }
}

impl Sources {
    /// Creates an empty registry. It watches nothing until a resource names an object.
    pub(crate) fn new(client: Option<kube::Client>, namespaces: Namespaces) -> Arc<Sources> {
        Arc::new(Sources { namespaces, client, state: Mutex::default(), loads: Semaphore::new(MAX_LOADS) })
    }

    /// Sets how to wake a controller's resources.
    pub(crate) fn connect(&self, controller: Arc<str>, wake: impl Fn(&ResourceKey) + Send + Sync + 'static) {
        self.state().controllers.insert(controller, Box::new(wake));
    }

    /// Waits until the contents of a resource's sources may be read. Keep the permit as long as the contents.
    pub(crate) async fn loading(&self) -> Option<SemaphorePermit<'_>> {
        self.loads.acquire().await.ok()
    }

    /// Records the keys of objects that a resource depends on, and watches the objects.
    pub(crate) fn depend(self: &Arc<Self>, user: User, on: impl IntoIterator<Item = NamedKey>) {
        let keys: BTreeSet<NamedKey> = on.into_iter().collect();
        let mut state = self.state();
        let known = state.users.get(&user);
        if known == Some(&keys) || (known.is_none() && keys.is_empty()) {
            return;
        }
        state.set_user(user, keys.clone());
        for (key, _) in keys {
            let scope = self.scope(&key.namespace);
            let watches = state.watches.entry(key.kind).or_default();
            if !watches.iter().any(|watched| watched.scope == scope) {
                let watcher = self.client.as_ref().map(|c| watch::start(Arc::downgrade(self), c, key.kind, &scope));
                watches.push(Watched { scope, refusal: None, _watcher: watcher });
            }
        }
    }

    /// Drops the objects that only this resource depended on.
    pub(crate) fn forget(&self, controller: &Arc<str>, key: &ResourceKey) {
        let user = (controller.clone(), key.clone());
        let mut state = self.state();
        if state.users.contains_key(&user) {
            state.set_user(user, BTreeSet::new());
        }
    }

    /// Returns the resources of a controller that depend on objects.
    pub(crate) fn users_of(&self, controller: &Arc<str>) -> Vec<ResourceKey> {
        let state = self.state();
        let own = state.users.keys().filter(|(name, _)| name == controller);
        own.map(|(_, key)| key.clone()).collect()
    }

    /// Returns the scope of a watch. An unrestricted operator has one watch for all namespaces. Otherwise each
    /// namespace has its own, because the permissions may end there.
    fn scope(&self, namespace: &str) -> WatchScope {
        if self.namespaces.is_all() { WatchScope::ALL } else { WatchScope::namespace(namespace) }
    }

    /// Returns what the last read of the object found for a key, unless the object has changed since.
    pub(crate) fn known(&self, key: &SourceKey, values_key: &str) -> Known {
        let state = self.state();
        let Some(object) = state.objects.get(key) else { return Known::Unread(0) };
        let digest = object.read.as_ref().and_then(|read| read.digests.get(values_key));
        digest.map_or(Known::Unread(object.changes), |digest| Known::Digest(digest.clone()))
    }

    /// Returns the keys of an object that any resource uses, so that one read serves them all, and how often the object
    /// has changed.
    pub(crate) fn begin_read(&self, key: &SourceKey) -> (BTreeSet<Box<str>>, u64) {
        let state = self.state();
        let Some(object) = state.objects.get(key) else { return Default::default() };
        let named = object.users.iter().filter_map(|user| state.users.get(user)).flatten();
        let named = named.filter(|(of, _)| of == key).map(|(_, values_key)| values_key.clone());
        (named.collect(), object.changes)
    }

    /// Returns why changes of an object would go unnoticed.
    pub(crate) fn refusal(&self, key: &SourceKey) -> Option<String> {
        let state = self.state();
        let watches = state.watches.get(&key.kind)?;
        watches.iter().find(|watched| watched.scope.covers(&key.namespace))?.refusal.clone()
    }

    /// Stores the result of a read that started after this many changes. A read that was overtaken by a change is
    /// repeated, unless it saw that change. A read that is ahead of its event wakes the users, because the event will
    /// bring nothing new.
    pub(crate) fn store(&self, key: &SourceKey, read: Read, changes: u64) {
        let mut state = self.state();
        let Some(object) = state.objects.get_mut(key) else { return };
        if object.changes == changes || read.version >= object.needs {
            let is_ahead = object.read.as_ref().is_some_and(|known| known.version < read.version);
            (object.read, object.read_at) = (Some(read), Some(Instant::now()));
            if !is_ahead {
                return;
            }
        }
        state.wake(key);
    }

    /// Handles an object that was seen in a list or an event.
    pub(crate) fn changed(&self, key: &SourceKey, version: u64, epoch: Epoch) {
        let mut state = self.state();
        let Some(object) = state.objects.get_mut(key) else { return };
        object.stamp = Stamp::seen(epoch);
        // A list that started after the read takes precedence, even with a lower version: the server was restored from
        // a backup.
        let is_later = epoch.is_list && object.read_at.is_some_and(|at| at < epoch.began);
        if object.read.as_ref().is_none_or(|read| read.version < version || (is_later && read.version != version)) {
            state.invalidate(key, version);
        }
    }

    /// Handles an object's deletion. `version` is that of the deletion.
    pub(crate) fn deleted(&self, key: &SourceKey, version: u64) {
        let mut state = self.state();
        let Some(object) = state.objects.get(key) else { return };
        // A newer object with the same name may have been read.
        if object.read.as_ref().is_none_or(|read| read.version <= version) {
            state.invalidate(key, version + 1);
        }
    }

    /// Handles the end of a list. An object that it did not contain is read again if it was thought to exist, which
    /// settles whether the list or the read is older.
    pub(crate) fn sweep(&self, kind: SourceKind, scope: &WatchScope, list: Epoch) {
        let mut state = self.state();
        for watched in state.watches.get_mut(&kind).into_iter().flatten().filter(|watched| watched.scope == *scope) {
            watched.refusal = None;
        }
        let lacks = |key: &SourceKey, object: &Object| {
            let exists = object.read.as_ref().is_none_or(|read| read.version > 0);
            key.kind == kind && scope.covers(&key.namespace) && !object.stamp.survives(list) && exists
        };
        let gone = state.objects.iter().filter(|(key, object)| lacks(key, object));
        let gone: BTreeSet<SourceKey> = gone.map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| state.invalidate(key, u64::MAX));
    }

    /// Records that the server refuses a watch; dependents report it.
    pub(crate) fn refused(&self, kind: SourceKind, scope: &WatchScope, why: &str) {
        let mut state = self.state();
        let Some(watched) = state.watches.get_mut(&kind).into_iter().flatten().find(|w| w.scope == *scope) else {
            return;
        };
        if watched.refusal.replace(why.to_owned()).is_some() {
            return;
        }
        let covered = state.objects.keys().filter(|key| key.kind == kind && scope.covers(&key.namespace));
        let covered: BTreeSet<SourceKey> = covered.cloned().collect();
        covered.iter().for_each(|key| state.invalidate(key, u64::MAX));
    }

    /// Returns how many objects are known.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.state().objects.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }
}

impl State {
    fn set_user(&mut self, user: User, keys: BTreeSet<NamedKey>) {
        let mut gone = Vec::new();
        for (key, _) in self.users.remove(&user).unwrap_or_default() {
            let Some(object) = self.objects.get_mut(&key) else { continue };
            object.users.remove(&user);
            if object.users.is_empty() && !keys.iter().any(|(kept, _)| *kept == key) {
                self.objects.remove(&key);
                gone.push(key);
            }
        }
        for (key, _) in &keys {
            self.objects.entry(key.clone()).or_default().users.insert(user.clone());
        }
        gone.iter().for_each(|key| self.stop_watch(key));
        if !keys.is_empty() {
            self.users.insert(user, keys);
        }
    }

    /// Stops the watch that covers an object which no resource names any longer, unless it covers another one.
    fn stop_watch(&mut self, gone: &SourceKey) {
        let Some(watches) = self.watches.get_mut(&gone.kind) else { return };
        watches.retain(|watched| {
            let covers = |key: &SourceKey| key.kind == gone.kind && watched.scope.covers(&key.namespace);
            !covers(gone) || self.objects.keys().any(covers)
        });
    }

    fn invalidate(&mut self, key: &SourceKey, needs: u64) {
        if let Some(object) = self.objects.get_mut(key) {
            object.read = None;
            object.changes += 1;
            object.needs = object.needs.max(needs);
            self.wake(key);
        }
    }

    fn wake(&self, key: &SourceKey) {
        for (controller, resource) in self.objects.get(key).into_iter().flat_map(|object| &object.users) {
            if let Some(wake) = self.controllers.get(controller) {
                wake(resource);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn read(version: u64) -> Read {
        Read { version, digests: BTreeMap::from([("a".into(), None)]) }
    }

    fn user(name: &str) -> User {
        ("c".into(), ResourceKey::new("ns", name))
    }

    fn sources() -> (Arc<Sources>, SourceKey) {
        let (sources, key) = (
            Sources::new(None, Namespaces::default()),
            SourceKey { kind: SourceKind::Secret, namespace: "ns".into(), name: "a".into() },
        );
        sources.depend(user("web"), [(key.clone(), "a".into())]);
        (sources, key)
    }

    fn list() -> Epoch {
        Epoch { number: 1, began: tokio::time::Instant::now(), is_list: false }
    }

    fn version(sources: &Sources, key: &SourceKey) -> Option<u64> {
        sources.state().objects.get(key)?.read.as_ref().map(|read| read.version)
    }

    #[test]
    fn only_keys_that_resources_name_are_read_and_one_named_later_causes_a_read() {
        let (sources, key) = sources();
        sources.depend(user("db"), [(key.clone(), "a".into()), (key.clone(), "gone".into())]);
        let others: String = (0..70_000).map(|n| format!(r#","k{n}":"eA==""#)).collect();
        let json = format!(r#"{{"metadata":{{"resourceVersion":"7"}},"data":{{"a":"eA==","b":"eA=="{others}}}}}"#);
        let read = || {
            let (keys, changes) = sources.begin_read(&key);
            let content = Content::read(SourceKind::Secret, json.as_bytes(), &|key| keys.contains(key)).unwrap();
            let read = Read::of(&content, keys);
            let digests = read.digests.len();
            sources.store(&key, read, changes);
            digests
        };
        assert_eq!(sources.known(&key, "a"), Known::Unread(0));
        assert_eq!(read(), 2);
        assert!(matches!(sources.known(&key, "a"), Known::Digest(Some(_))));
        assert_eq!(sources.known(&key, "gone"), Known::Digest(None));
        sources.depend(user("db"), [(key.clone(), "b".into())]);
        assert_eq!(sources.known(&key, "b"), Known::Unread(0));
        assert_eq!(read(), 2, "that of each resource");
        assert!(matches!(sources.known(&key, "b"), Known::Digest(Some(_))));
        assert_eq!(sources.known(&key, "gone"), Known::Unread(0));
        sources.forget(&"c".into(), &ResourceKey::new("ns", "web"));
        assert_eq!((read(), sources.len()), (1, 1));
    }

    #[test]
    fn a_watch_ends_with_the_last_object_that_it_covers_and_not_while_its_resource_is_edited() {
        let sources = Sources::new(None, Namespaces::parse("a,b"));
        let key = |namespace: &str, name: &str| SourceKey {
            kind: SourceKind::Secret,
            namespace: namespace.into(),
            name: name.into(),
        };
        let depend = |of: &str, keys: &[SourceKey]| {
            sources.depend(user(of), keys.iter().map(|key| (key.clone(), "a".into())));
        };
        let watched = || {
            let state = sources.state();
            let scopes = state.watches.values().flatten().map(|watched| watched.scope.clone());
            scopes.collect::<Vec<_>>()
        };
        let [a, b] = ["a", "b"].map(WatchScope::namespace);
        depend("web", &[key("a", "x")]);
        depend("db", &[key("b", "x"), key("b", "y")]);
        assert_eq!(watched(), [a.clone(), b.clone()]);
        sources.refused(SourceKind::Secret, &a, "no");
        depend("web", &[key("a", "y")]);
        assert_eq!(sources.refusal(&key("a", "y")).as_deref(), Some("no"), "it is the same watch");
        depend("db", &[key("b", "x")]);
        assert_eq!(watched(), [a.clone(), b]);
        sources.forget(&"c".into(), &ResourceKey::new("ns", "db"));
        assert_eq!(watched(), [a]);
        sources.forget(&"c".into(), &ResourceKey::new("ns", "web"));
        assert_eq!(watched(), []);
        depend("web", &[key("a", "x")]);
        assert_eq!((watched().len(), sources.refusal(&key("a", "x"))), (1, None), "another one");
    }

    #[tokio::test]
    async fn only_so_many_resources_have_their_sources_read_at_the_same_time() {
        let (sources, _) = sources();
        let held = [sources.loading().await, sources.loading().await];
        assert!(sources.loading().now_or_never().is_none());
        drop(held);
        assert!(sources.loading().now_or_never().is_some());
    }

    #[test]
    fn a_read_that_saw_the_change_which_overtook_it_counts() {
        let (sources, key) = sources();
        sources.changed(&key, 5, list());
        sources.store(&key, read(5), 0);
        assert_eq!(version(&sources, &key), Some(5));
    }

    #[test]
    fn a_read_that_is_ahead_of_its_event_wakes_all_users() {
        let (sources, key) = sources();
        sources.depend(user("db"), [(key.clone(), "a".into())]);
        let woken = Arc::new(Mutex::new(Vec::new()));
        let seen = woken.clone();
        sources.connect("c".into(), move |resource| sync::lock(&seen).push(resource.name.to_string()));
        sources.store(&key, read(5), 0);
        assert!(sync::lock(&woken).is_empty(), "the first read");
        sources.store(&key, read(6), 0);
        sources.changed(&key, 6, list());
        assert_eq!(*sync::lock(&woken), ["db", "web"]);
    }

    #[test]
    fn an_older_read_that_ends_late_replaces_no_newer_one() {
        let (sources, key) = sources();
        sources.changed(&key, 5, list());
        sources.store(&key, read(5), 1);
        sources.store(&key, read(4), 0);
        assert_eq!(version(&sources, &key), Some(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_with_an_older_version_than_was_read_is_believed_if_it_began_later() {
        let (sources, key) = sources();
        let before = Epoch { is_list: true, ..list() };
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        sources.store(&key, read(9), 0);
        sources.changed(&key, 5, before);
        sources.changed(&key, 5, list());
        assert_eq!(version(&sources, &key), Some(9));
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        sources.changed(&key, 5, Epoch { number: 2, is_list: true, ..list() });
        assert_eq!(version(&sources, &key), None, "the server was restored from a backup");
        sources.store(&key, read(5), 1);
        assert_eq!(version(&sources, &key), Some(5));
    }

    #[test]
    fn what_was_read_before_a_deletion_does_not_come_back() {
        let (sources, key) = sources();
        sources.deleted(&key, 6);
        sources.store(&key, read(0), 1);
        sources.store(&key, read(4), 0);
        assert_eq!(version(&sources, &key), Some(0));
    }
}
