//! One store for each kind and selector in the process, which all controllers read, and the watches that keep it
//! current.

use std::any::{Any, TypeId, type_name};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use kube::Client;
use kube::api::ApiResource;
use outside::sync::{self, lock};
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::decoded::{Decoded, Invalid};
use super::kind::{self, Kind};
use super::selector::Selector;
use super::status::{STATUS, has_whole_conditions};
use super::untyped::{self, Target};
use super::written::{Written, is_as_new};
use crate::ResourceKey;
use crate::client::{read_by, sharded};
use crate::context::Context;
use crate::runtime::freshness::{Epoch, Stamp};
use crate::runtime::guarded::guarded;
use crate::runtime::namespaces::Namespaces;
use crate::runtime::readiness::{self, LISTING, Readiness};
use crate::runtime::reflector::{self, EventHandler, Stream, WatchScope};

/// The annotation in which kubectl keeps a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The stores of a process. Dropping them stops their watches.
pub struct Stores {
    client: Client,
    namespaces: Namespaces,
    readiness: Readiness,
    all: Mutex<HashMap<(TypeId, Selector), Arc<dyn Any + Send + Sync>>>,
    watches: Mutex<JoinSet<()>>,
}

impl Stores {
    /// Returns the stores of this process, which all its controllers share.
    pub fn of(context: &Context) -> Arc<Stores> {
        let new = |context: &Context| {
            Stores::new(context.client.clone(), context.config.namespaces.clone(), context.readiness.clone())
        };
        context.part(new)
    }

    /// Creates an empty set of stores.
    pub fn new(client: Client, namespaces: Namespaces, readiness: Readiness) -> Stores {
        Stores { client, namespaces, readiness, all: Mutex::default(), watches: Mutex::default() }
    }

    /// Returns the store of a kind's selected objects; the first call starts its watch.
    pub(super) fn store<K: Kind>(&self, selector: &Selector) -> Arc<Store<K>> {
        let mut all = lock(&self.all);
        let key = (TypeId::of::<K>(), selector.clone());
        if let Some(store) = all.get(&key).and_then(|store| store.clone().downcast().ok()) {
            return store;
        }
        let store = self.start::<K>(selector);
        all.insert(key, store.clone());
        store
    }

    /// Calls `changed` with each object of a kind before and after each change.
    pub fn follow<K: Kind>(&self, selector: impl Into<Selector>, changed: impl Fn(&K) + Send + Sync + 'static) {
        self.store::<K>(&selector.into()).join(Arc::new(Follower(changed)));
    }

    fn start<K: Kind>(&self, selector: &Selector) -> Arc<Store<K>> {
        let scopes = self.scopes::<K>();
        let store = Arc::new(Store::new(scopes.clone()));
        let what = selector.of(readiness::kind(&K::kind(&()), &K::api_version(&())));
        // A chart's controller or another type may watch the same objects.
        let client = read_by(self.client.clone(), type_name::<K>());
        for scope in scopes {
            let (client, config) = (sharded(client.clone(), selector.range.as_ref()), selector.config());
            let range = selector.range.clone();
            let resource = ApiResource::erase::<K>(&());
            let target = Target { resource, scope: scope.clone(), is_metadata: K::metadata_api() };
            let requirement = self.readiness.require_to_reconcile(&scope.of(&what), LISTING);
            let open = move || {
                let events = untyped::watch(&client, &target, config.clone(), range.clone());
                reflector::mapped(events, |untyped| Some(Decoded::of(untyped)))
            };
            let stream = Stream::new(scope, open).required(requirement);
            lock(&self.watches).spawn(store.clone().keep_current(stream));
        }
        store
    }

    /// Returns the scopes that cover a kind. Cluster-scoped objects have no namespace, so one scope covers them.
    fn scopes<K: Kind>(&self) -> Vec<WatchScope> {
        if kind::is_namespaced::<K>() { self.namespaces.scopes() } else { vec![WatchScope::ALL] }
    }
}

/// The objects of one kind and selector, as last seen.
pub(super) struct Store<K> {
    state: RwLock<State<K>>,
    gaps: watch::Sender<Gaps>,
}

/// What a store may lack.
#[derive(Debug)]
struct Gaps {
    /// The namespaces whose objects are unknown: the first list is not complete, or the server has refused the watch
    /// since.
    open: Vec<Missing>,
    /// How many gaps lists have closed.
    closed: usize,
}

/// A namespace, or everything, whose objects a store may lack.
#[derive(Clone, Debug)]
struct Missing {
    scope: WatchScope,
    /// Whether the server refuses it, rather than that its first list is not complete.
    is_refused: bool,
}

struct State<K> {
    objects: HashMap<ResourceKey, Kept<K>>,
    /// The keys of those that cannot be decoded.
    invalid: BTreeSet<ResourceKey>,
    written: Written<K>,
    readers: Vec<Arc<dyn StoreListener<K>>>,
}

struct Kept<K> {
    object: Decoded<Arc<K>>,
    stamp: Stamp,
}

/// A reader that follows the changes of a store.
pub(super) trait StoreListener<K>: Send + Sync {
    /// Handles an object that was created, changed or deleted. The store is locked: the reader must not read it.
    fn changed(&self, key: &ResourceKey, before: Option<&Arc<K>>, now: Option<&Arc<K>>);

    /// Handles an object whose new state cannot be decoded. If the previous state could, [`changed`](Self::changed) is
    /// called first, as if the object had been deleted. `None` means that such an object was deleted.
    fn invalid(&self, key: &ResourceKey, invalid: Option<&Invalid>);
}

/// Calls a function with each object before and after each change.
struct Follower<F>(F);

impl<K, F: Fn(&K) + Send + Sync> StoreListener<K> for Follower<F> {
    fn changed(&self, key: &ResourceKey, before: Option<&Arc<K>>, now: Option<&Arc<K>>) {
        before.into_iter().chain(now).for_each(|object| _ = guarded(type_name::<K>(), key, || (self.0)(object)));
    }

    fn invalid(&self, _: &ResourceKey, _: Option<&Invalid>) {}
}

/// Which objects of a store the reconciles of a resource read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Any.
    Everywhere,
    /// The objects in the resource's namespace.
    OwnNamespace,
}

/// Whether a store is complete: every first list is, and no watch has been refused since.
#[derive(Clone)]
pub(super) struct Listed {
    gaps: watch::Receiver<Gaps>,
    /// How many gaps had been closed when this was last asked.
    closed: usize,
    kind: String,
    reach: Reach,
}

impl Listed {
    /// Waits until the store is complete. If resources read only their own namespace, refused namespaces may be missing.
    pub(super) async fn wait(&mut self) {
        let reach = self.reach;
        let is_theirs = |missing: &Missing| missing.is_refused && missing.scope.only().is_some();
        let is_enough =
            |gaps: &Gaps| gaps.open.is_empty() || reach == Reach::OwnNamespace && gaps.open.iter().all(is_theirs);
        // The sender lives as long as the store, which the caller's cache keeps.
        if let Ok(gaps) = self.gaps.wait_for(is_enough).await {
            self.closed = gaps.closed;
        }
    }

    /// Waits until a list has closed a gap since the last call, whether or not others have opened meanwhile.
    pub(super) async fn regained(&mut self) {
        let known = self.closed;
        if let Ok(gaps) = self.gaps.wait_for(|gaps| gaps.closed != known).await {
            self.closed = gaps.closed;
        }
    }

    /// Returns what the store lacks for a resource in this namespace: `ConfigMap (v1) in namespace demo`.
    pub(super) fn lacks(&self, namespace: &str) -> Option<String> {
        let gaps = self.gaps.borrow();
        let mut scopes = gaps.open.iter().map(|missing| &missing.scope);
        let is_read = |scope: &&WatchScope| self.reach == Reach::Everywhere || scope.covers(namespace);
        scopes.find(is_read).map(|scope| scope.of(&self.kind))
    }
}

impl<K: Kind> Store<K> {
    pub(super) fn new(lists: Vec<WatchScope>) -> Store<K> {
        let (objects, invalid) = (HashMap::new(), BTreeSet::new());
        let state = State { objects, invalid, written: Written::default(), readers: Vec::new() };
        let open = lists.into_iter().map(|scope| Missing { scope, is_refused: false }).collect();
        Store { state: RwLock::new(state), gaps: watch::Sender::new(Gaps { open, closed: 0 }) }
    }

    /// Creates a store of these objects, without a watch.
    pub(super) fn with(objects: impl IntoIterator<Item = K>) -> Store<K> {
        let store = Store::new(Vec::new());
        objects.into_iter().for_each(|object| store.put(Decoded::Valid(object), Stamp::default()));
        store
    }

    pub(super) fn listed(&self, reach: Reach) -> Listed {
        let kind = readiness::kind(&K::kind(&()), &K::api_version(&()));
        let gaps = self.gaps.subscribe();
        let closed = gaps.borrow().closed;
        Listed { gaps, closed, kind, reach }
    }

    /// Adds a reader: passes it each object in the store, then every change.
    pub(super) fn join(&self, reader: Arc<dyn StoreListener<K>>) {
        let mut state = self.write();
        for (key, kept) in &state.objects {
            match &kept.object {
                Decoded::Valid(object) => reader.changed(key, None, Some(object)),
                Decoded::Invalid(invalid) => reader.invalid(key, Some(invalid)),
            }
        }
        state.readers.push(reader);
    }

    pub(super) fn get(&self, key: &ResourceKey) -> Option<Arc<K>> {
        self.read().objects.get(key).and_then(Kept::valid).cloned()
    }

    /// Keeps the response to a write of this process until its event arrives.
    pub(super) fn wrote(&self, object: K) {
        let mut state = self.write();
        let is_outdated = match state.objects.get(&ResourceKey::of(&object)) {
            Some(kept) => is_as_new(kept.meta(), object.meta()),
            // The write completed the deletion, whose event arrived first.
            None => object.meta().deletion_timestamp.is_some(),
        };
        if !is_outdated {
            state.written.add(reduced(object));
        }
    }

    /// Returns the newest known state of the object: this one, the one that the watch delivered last, or the response
    /// to the last write.
    pub(super) fn newest(&self, known: &Arc<K>) -> Arc<K> {
        let state = self.read();
        let kept = state.objects.get(&ResourceKey::of(&**known)).and_then(Kept::valid);
        let seen = kept.filter(|kept| is_as_new(kept.meta(), known.meta())).unwrap_or(known);
        state.written.after(seen).unwrap_or(seen).clone()
    }

    /// Returns the invalid state of the object with this key, if its current state cannot be decoded.
    pub(super) fn invalid(&self, key: &ResourceKey) -> Option<Invalid> {
        match &self.read().objects.get(key)?.object {
            Decoded::Valid(_) => None,
            Decoded::Invalid(invalid) => Some((**invalid).clone()),
        }
    }

    /// Returns the keys of all objects whose current state cannot be decoded, sorted.
    pub(super) fn all_invalid(&self) -> Vec<ResourceKey> {
        self.read().invalid.iter().cloned().collect()
    }

    /// Returns the key and the state of the first object that cannot be decoded and that the owner with this uid has: in
    /// its namespace, or anywhere if it is cluster-scoped.
    pub(super) fn invalid_of(&self, uid: &str, owner: &ResourceKey) -> Option<(ResourceKey, Invalid)> {
        let reaches = |namespace: &str| owner.namespace.is_empty() || *owner.namespace == *namespace;
        let state = self.read();
        state.invalid.iter().find_map(|key| match &state.objects.get(key)?.object {
            Decoded::Invalid(invalid) if reaches(&key.namespace) && invalid.is_owned_by(uid) => {
                Some((key.clone(), (**invalid).clone()))
            }
            _ => None,
        })
    }

    /// Returns all objects, sorted by namespace and name.
    pub(super) fn all(&self) -> Vec<Arc<K>> {
        let state = self.read();
        let mut all: Vec<_> = state.objects.iter().filter_map(|(key, kept)| Some((key, kept.valid()?))).collect();
        all.sort_by_key(|(key, _)| *key);
        all.into_iter().map(|(_, object)| object.clone()).collect()
    }

    async fn keep_current(self: Arc<Self>, stream: Stream<Decoded<K>>) {
        let (first, _) = oneshot::channel();
        reflector::run(Watched(self), stream, first).await;
    }

    fn put(&self, object: Decoded<K>, stamp: Stamp) {
        let key = object.key();
        let object = match object {
            Decoded::Valid(object) => Decoded::Valid(Arc::new(reduced(object))),
            Decoded::Invalid(invalid) => Decoded::Invalid(invalid),
        };
        let mut state = self.write();
        state.written.seen(&key, object_meta(&object));
        match object {
            Decoded::Valid(_) => _ = state.invalid.remove(&key),
            Decoded::Invalid(_) => _ = state.invalid.insert(key.clone()),
        }
        let before = state.objects.insert(key.clone(), Kept { object: object.clone(), stamp });
        state.report(&key, before.as_ref(), &object);
    }

    /// Removes the object, unless another has taken its name.
    pub(super) fn remove(&self, object: &Decoded<K>) {
        let key = object.key();
        let mut state = self.write();
        if state.objects.get(&key).is_some_and(|kept| kept.meta().uid == object.meta().uid) {
            state.remove(&key);
        }
    }

    /// Removes the objects that the completed list did not contain.
    fn sweep(&self, scope: &WatchScope, list: Epoch) {
        let mut state = self.write();
        let unlisted =
            state.objects.iter().filter(|(key, kept)| scope.covers(&key.namespace) && !kept.stamp.survives(list));
        let unlisted: Vec<ResourceKey> = unlisted.map(|(key, _)| key.clone()).collect();
        unlisted.iter().for_each(|key| state.remove(key));
        state.written.listed(scope, list);
        drop(state);
        self.gaps.send_if_modified(|gaps| {
            let before = gaps.open.len();
            gaps.open.retain(|other| other.scope != *scope);
            let closed = before - gaps.open.len();
            gaps.closed += closed;
            closed > 0
        });
    }

    /// Records that the server refuses the watch: until the next list, what is stored may be outdated.
    fn lost(&self, scope: &WatchScope) {
        self.gaps.send_if_modified(|gaps| match gaps.open.iter_mut().find(|known| known.scope == *scope) {
            Some(known) => !std::mem::replace(&mut known.is_refused, true),
            None => {
                gaps.open.push(Missing { scope: scope.clone(), is_refused: true });
                true
            }
        });
    }

    fn read(&self) -> RwLockReadGuard<'_, State<K>> {
        sync::read(&self.state)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<K>> {
        sync::write(&self.state)
    }
}

impl<K: Kind> Kept<K> {
    fn valid(&self) -> Option<&Arc<K>> {
        match &self.object {
            Decoded::Valid(object) => Some(object),
            Decoded::Invalid(_) => None,
        }
    }

    fn meta(&self) -> &ObjectMeta {
        object_meta(&self.object)
    }
}

fn object_meta<K: Kind>(object: &Decoded<Arc<K>>) -> &ObjectMeta {
    match object {
        Decoded::Valid(object) => object.meta(),
        Decoded::Invalid(invalid) => &invalid.metadata,
    }
}

impl<K: Kind> State<K> {
    fn remove(&mut self, key: &ResourceKey) {
        self.invalid.remove(key);
        if let Some(gone) = self.objects.remove(key) {
            self.written.gone(key, gone.meta().uid.as_ref());
            self.readers.iter().for_each(|reader| match gone.valid() {
                Some(gone) => reader.changed(key, Some(gone), None),
                None => reader.invalid(key, None),
            });
        }
    }

    fn report(&self, key: &ResourceKey, before: Option<&Kept<K>>, now: &Decoded<Arc<K>>) {
        let valid = before.and_then(Kept::valid);
        match now {
            Decoded::Valid(now) => self.readers.iter().for_each(|reader| reader.changed(key, valid, Some(now))),
            Decoded::Invalid(invalid) => {
                if valid.is_some() {
                    self.readers.iter().for_each(|reader| reader.changed(key, valid, None));
                }
                // A list repeats states that the readers know.
                if before.is_none_or(|kept| kept.meta().resource_version != invalid.metadata.resource_version) {
                    self.readers.iter().for_each(|reader| reader.invalid(key, Some(invalid)));
                }
            }
        }
    }
}

/// Drops what no controller reads: other managers' fields, and kubectl's copy of the object.
fn reduced<K: Kind>(mut object: K) -> K {
    let metadata = object.meta_mut();
    if let Some(entries) = &mut metadata.managed_fields {
        entries.retain_mut(|entry| is_applied(entry) || keeps_conditions(entry));
    }
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(LAST_APPLIED);
    }
    object
}

/// Returns whether a server-side apply of the whole object or its status wrote the entry, as [`super::Scope`] does.
fn is_applied(entry: &ManagedFieldsEntry) -> bool {
    let of = entry.subresource.as_deref().unwrap_or_default();
    entry.operation.as_deref() == Some("Apply") && ["", STATUS].contains(&of)
}

/// Reduces an entry to the fact that the conditions are one value, and returns whether they are.
fn keeps_conditions(entry: &mut ManagedFieldsEntry) -> bool {
    let keeps = entry.fields_v1.as_ref().is_some_and(|fields| has_whole_conditions(&fields.0));
    if keeps {
        entry.fields_v1 = Some(FieldsV1(json!({"f:status": {"f:conditions": {}}})));
    }
    keeps
}

struct Watched<K>(Arc<Store<K>>);

impl<K: Kind> EventHandler<Decoded<K>> for Watched<K> {
    fn changed(&self, object: Decoded<K>, epoch: Epoch) {
        self.0.put(object, Stamp::seen(epoch));
    }

    fn deleted(&self, object: Decoded<K>) {
        self.0.remove(&object);
    }

    fn sweep(&self, scope: &WatchScope, list: Epoch) {
        self.0.sweep(scope, list);
    }

    fn lost(&self, scope: &WatchScope) {
        self.0.lost(scope);
    }

    fn description(&self) -> String {
        format!("{} objects", K::kind(&()))
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _, stream};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::runtime::watcher::Event;

    use super::*;

    fn map(namespace: &str, name: &str, uid: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name, "uid": uid}})).unwrap()
    }

    /// A reader that records every change.
    #[derive(Default)]
    struct Changes(Mutex<Vec<String>>);

    impl StoreListener<ConfigMap> for Changes {
        fn changed(&self, key: &ResourceKey, before: Option<&Arc<ConfigMap>>, now: Option<&Arc<ConfigMap>>) {
            let uid = |object: Option<&Arc<ConfigMap>>| object.and_then(|o| o.metadata.uid.clone()).unwrap_or_default();
            lock(&self.0).push(format!("{key} {}>{}", uid(before), uid(now)));
        }

        fn invalid(&self, key: &ResourceKey, invalid: Option<&Invalid>) {
            lock(&self.0).push(format!("{key} {}", invalid.map_or("is gone", |invalid| &invalid.cause)));
        }
    }

    impl Changes {
        fn taken(&self) -> Vec<String> {
            let mut taken = std::mem::take(&mut *lock(&self.0));
            taken.sort();
            taken
        }
    }

    async fn feed(store: &Arc<Store<ConfigMap>>, scope: WatchScope, events: Vec<Event<Decoded<ConfigMap>>>) {
        let mut events = Some(events);
        let open = move || stream::iter(events.take().into_iter().flatten().map(Ok)).boxed();
        store.clone().keep_current(Stream::new(scope, open)).await;
    }

    fn list(objects: &[ConfigMap]) -> Vec<Event<Decoded<ConfigMap>>> {
        let objects = objects.iter().cloned().map(|object| Event::InitApply(Decoded::Valid(object)));
        std::iter::once(Event::Init).chain(objects).chain([Event::InitDone]).collect()
    }

    #[tokio::test]
    async fn a_list_replaces_its_own_namespace_only() {
        let (store, changes) = (Arc::new(Store::new(vec![])), Arc::new(Changes::default()));
        store.join(changes.clone());
        feed(&store, WatchScope::namespace("a"), list(&[map("a", "x", "1"), map("a", "y", "2")])).await;
        feed(&store, WatchScope::namespace("b"), list(&[map("b", "x", "3")])).await;
        assert_eq!(changes.taken(), ["a/x >1", "a/y >2", "b/x >3"]);
        let mut again = list(&[map("a", "x", "1")]);
        again.extend(list(&[]));
        feed(&store, WatchScope::namespace("a"), again).await;
        assert_eq!(changes.taken(), ["a/x 1>", "a/x 1>1", "a/y 2>"]);
        assert!(store.get(&ResourceKey::new("b", "x")).is_some());
    }

    #[tokio::test]
    async fn a_deletion_that_comes_late_leaves_the_new_object_of_that_name() {
        let store = Arc::new(Store::new(vec![]));
        let mut events = list(&[map("a", "x", "1")]);
        events.extend([
            Event::Apply(Decoded::Valid(map("a", "x", "2"))),
            Event::Delete(Decoded::Valid(map("a", "x", "1"))),
        ]);
        feed(&store, WatchScope::ALL, events).await;
        let kept = store.get(&ResourceKey::new("a", "x")).unwrap();
        assert_eq!(kept.metadata.uid.as_deref(), Some("2"));
    }

    #[tokio::test]
    async fn a_response_that_comes_after_the_deletion_is_not_kept() {
        let going = |version: &str| -> ConfigMap {
            let metadata = json!({"namespace": "a", "name": "x", "uid": "1", "resourceVersion": version,
                "deletionTimestamp": "2026-01-01T00:00:00Z"});
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        let (store, seen) = (Arc::new(Store::new(vec![])), Arc::new(going("1")));
        let newest = || store.newest(&seen).metadata.resource_version.clone();
        feed(&store, WatchScope::ALL, list(&[going("1")])).await;
        store.wrote(going("2"));
        assert_eq!(newest().as_deref(), Some("2"));
        feed(&store, WatchScope::ALL, vec![Event::Delete(Decoded::Valid(going("3")))]).await;
        store.wrote(going("3"));
        assert_eq!(newest().as_deref(), Some("1"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_is_listed_only_after_every_namespace() {
        let store = Arc::new(Store::<ConfigMap>::new(vec![WatchScope::namespace("a"), WatchScope::namespace("b")]));
        let is_listed = async || {
            let mut listed = store.listed(Reach::OwnNamespace);
            tokio::time::timeout(std::time::Duration::from_secs(1), listed.wait()).await.is_ok()
        };
        feed(&store, WatchScope::namespace("a"), list(&[])).await;
        feed(&store, WatchScope::namespace("a"), list(&[])).await;
        feed(&store, WatchScope::namespace("b"), vec![Event::Init]).await;
        assert!(!is_listed().await);
        feed(&store, WatchScope::namespace("b"), list(&[])).await;
        assert!(is_listed().await);
    }

    /// A resource that met the refusal waits for nothing but the list.
    #[tokio::test]
    async fn a_list_that_ends_a_refusal_is_noticed_once_whatever_is_refused_meanwhile() {
        let store = Arc::new(Store::<ConfigMap>::new(vec![]));
        let [a, b, c] = ["a", "b", "c"].map(WatchScope::namespace);
        let mut listed = store.listed(Reach::OwnNamespace);
        let mut is_regained = || listed.regained().now_or_never().is_some();
        store.lost(&a);
        assert!(!is_regained());
        feed(&store, a.clone(), list(&[])).await;
        store.lost(&b);
        store.lost(&c);
        assert_eq!([is_regained(), is_regained()], [true, false], "less was lacking before");
        feed(&store, b.clone(), list(&[])).await;
        store.lost(&b);
        assert_eq!([is_regained(), is_regained()], [true, false], "the same was lacking before");
        feed(&store, a, list(&[])).await;
        assert!(!is_regained(), "it lacked nothing of this namespace");
    }

    #[tokio::test]
    async fn a_reader_that_joins_late_learns_what_is_known() {
        let (store, changes) = (Arc::new(Store::new(vec![])), Arc::new(Changes::default()));
        feed(&store, WatchScope::ALL, list(&[map("a", "x", "1")])).await;
        store.join(changes.clone());
        assert_eq!(changes.taken(), ["a/x >1"]);
    }

    /// Returns an object of this version that a ConfigMap cannot decode.
    fn invalid(name: &str, version: &str) -> Decoded<ConfigMap> {
        let metadata = json!({"namespace": "a", "name": name, "uid": "1", "resourceVersion": version});
        Decoded::of(serde_json::from_value(json!({"metadata": metadata, "data": 7})).unwrap())
    }

    #[tokio::test]
    async fn an_object_that_does_not_decode_is_reported_once_and_hides_no_other() {
        let (store, changes) = (Arc::new(Store::new(vec![])), Arc::new(Changes::default()));
        store.join(changes.clone());
        let mut events = list(&[map("a", "good", "1"), map("a", "bad", "1")]);
        events.extend([Event::Apply(invalid("bad", "2"))]);
        feed(&store, WatchScope::ALL, events).await;
        let cause = "a/bad data: invalid type: integer, expected a map";
        assert_eq!(changes.taken(), ["a/bad 1>", "a/bad >1", cause, "a/good >1"]);
        let key = ResourceKey::new("a", "bad");
        assert!(store.get(&key).is_none() && store.invalid(&key).is_some());
        let mut again = list(&[map("a", "good", "1")]);
        again.insert(1, Event::InitApply(invalid("bad", "2")));
        feed(&store, WatchScope::ALL, again).await;
        assert_eq!(changes.taken(), ["a/good 1>1"], "a list repeats it");
        feed(&store, WatchScope::ALL, vec![Event::Apply(Decoded::Valid(map("a", "bad", "1")))]).await;
        assert_eq!(changes.taken(), ["a/bad >1"]);
        assert!(store.get(&key).is_some() && store.invalid(&key).is_none());
        feed(&store, WatchScope::ALL, vec![Event::Apply(invalid("bad", "4")), Event::Delete(invalid("bad", "5"))])
            .await;
        assert_eq!(changes.taken(), ["a/bad 1>", cause, "a/bad is gone"]);
        assert!(store.invalid(&key).is_none());
    }

    #[test]
    fn an_object_is_kept_without_foreign_fields() {
        let entry = |manager: &str, operation: &str, subresource: &str| json!({"manager": manager, "operation": operation, "subresource": subresource, "fieldsType": "FieldsV1"});
        let entries = [entry("a", "Apply", ""), entry("b", "Update", ""), entry("a", "Apply", "status")];
        let object = json!({"metadata": {"managedFields": entries, "annotations": {LAST_APPLIED: "{}", "mine": "1"}}});
        let kept = reduced(serde_json::from_value::<ConfigMap>(object).unwrap()).metadata;
        let kept_of = |entry: &ManagedFieldsEntry| entry.subresource.clone().unwrap_or_default();
        assert_eq!(kept.managed_fields.unwrap().iter().map(kept_of).collect::<Vec<_>>(), ["", "status"]);
        assert_eq!(kept.annotations.unwrap().keys().collect::<Vec<_>>(), ["mine"]);
    }
}
