//! A controller's view of a store: its objects by the resource to which they belong, and by the controller's own
//! indexes.

use std::any::type_name;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, RwLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use outside::sync::{self, lock};

use super::decoded::Invalid;
use super::kind::{Kind, is_of_another};
use super::store::{Store, StoreListener};
use crate::ResourceKey;
use crate::runtime::guarded::guarded;

/// The objects of one kind as last seen, by the resource to which they belong. Cheap to clone; reading sends no
/// request.
///
/// The cache lags behind the server, and behind the controller's own writes, until their events arrive. It omits
/// objects that the Rust type cannot decode. While the resource owns such an object, the reconciler is not called. About
/// any other, ask [`undecodable`](Self::undecodable) before something is created or deleted because an object is missing.
pub struct Cache<K> {
    store: Arc<Store<K>>,
    index: Arc<Index<ResourceKey, K>>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Cache<K> {
        Cache { store: self.store.clone(), index: self.index.clone() }
    }
}

impl<K: Kind> Cache<K> {
    pub(super) fn new(store: Arc<Store<K>>, index: Index<ResourceKey, K>) -> Cache<K> {
        let index = Arc::new(index);
        store.join(index.clone());
        Cache { store, index }
    }

    /// Creates a cache of these objects, for tests of a reconciler.
    pub fn with<I: IntoIterator<Item = ResourceKey>>(
        objects: impl IntoIterator<Item = K>,
        resources_of: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Cache<K> {
        Cache::new(Arc::new(Store::with(objects)), Index::new(resources_of, |_, _, _| ()))
    }

    /// Returns the objects of a resource, sorted by namespace and name. An object whose controller was a deleted
    /// resource of the same kind and name is not among them: until the garbage collector deletes it, the new resource
    /// could take a finished Job for its own.
    pub fn of(&self, resource: &impl Kind) -> Vec<Arc<K>> {
        let mut objects = self.index.get(&ResourceKey::of(resource));
        objects.retain(|object| !is_of_another(&**object, resource));
        objects
    }

    /// Returns the object with this key, regardless of the resource to which it belongs.
    pub fn get(&self, key: &ResourceKey) -> Option<Arc<K>> {
        self.store.get(key)
    }

    /// Returns every object, sorted by namespace and name.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.store.all()
    }

    /// Returns the keys of the objects that exist and are missing here because the Rust type cannot decode them, sorted.
    pub fn undecodable(&self) -> Vec<ResourceKey> {
        self.store.all_invalid()
    }

    /// Adds an index, which finds objects by what `keys` returns for each, such as the names of the Secrets that a pod
    /// mounts. Call it in [`Reconciler::watch`](super::Reconciler::watch), and return the result among the caches.
    ///
    /// `keys` must not read a cache: it is called while one is locked.
    pub fn indexed<I, Keys>(&self, keys: impl Fn(&K) -> Keys + Send + Sync + 'static) -> Indexed<I, K>
    where
        I: Clone + Eq + Hash + Send + Sync + 'static,
        Keys: IntoIterator<Item = I>,
    {
        let index = Arc::new(Index::new(keys, |_, _, _| ()));
        self.store.join(index.clone());
        Indexed(index)
    }

    /// Returns the object with this key as last seen or written: the reconciler's own write counts before its event
    /// arrives.
    pub(super) fn newest(&self, key: &ResourceKey) -> Option<Arc<K>> {
        self.get(key).map(|seen| self.store.newest(&seen))
    }

    /// Keeps the response to a write until its event arrives.
    pub(super) fn wrote(&self, object: K) {
        self.store.wrote(object);
    }

    pub(super) fn store(&self) -> &Arc<Store<K>> {
        &self.store
    }

    /// Returns the object with this key if its current state does not decode.
    pub(super) fn invalid(&self, key: &ResourceKey) -> Option<Invalid> {
        self.store.invalid(key)
    }

    /// Returns a check whether a resource owns an object that is missing here because it does not decode.
    pub(super) fn check_owned(&self) -> CheckOwned {
        let Cache { store, index } = self.clone();
        Box::new(move |uid, resource| {
            let (key, invalid) = store.invalid_of(uid, resource)?;
            index.wait_for(&key, resource);
            Some(format!("{} {key}: {}", K::kind(&()), invalid.cause))
        })
    }

    /// Returns the metadata of the object with this key as last seen or written, even if the object does not decode.
    pub(super) fn metadata(&self, key: &ResourceKey) -> Option<ObjectMeta> {
        let known = self.newest(key).map(|object| object.meta().clone());
        known.or_else(|| Some(self.invalid(key)?.metadata))
    }

    /// Wakes a resource once, when the object next changes or is deleted, regardless of the resource to which it
    /// belongs.
    pub(super) fn wake_on_change(&self, object: &K, resource: ResourceKey) {
        let key = ResourceKey::of(object);
        self.index.wait_for(&key, &resource);
        // The object may have changed since it was read. This process's own write, if that was read, is no change.
        if self.newest(&key).is_none_or(|now| now.meta().resource_version != object.meta().resource_version) {
            self.index.wake_waiting(&key);
        }
    }
}

/// The objects of a [`Cache`] by an index of the controller, see [`Cache::indexed`]. Cheap to clone.
pub struct Indexed<I, K>(Arc<Index<I, K>>);

impl<I, K> Clone for Indexed<I, K> {
    fn clone(&self) -> Indexed<I, K> {
        Indexed(self.0.clone())
    }
}

impl<I: Clone + Eq + Hash, K> Indexed<I, K> {
    /// Returns the objects with this key, sorted by namespace and name.
    pub fn get(&self, key: &I) -> Vec<Arc<K>> {
        self.0.get(key)
    }
}

type Objects<K> = BTreeMap<ResourceKey, Arc<K>>;
type KeysOf<I, K> = dyn Fn(&K) -> Vec<I> + Send + Sync;
type Wake<I, K> = dyn Fn(I, Option<&K>, Option<&K>) + Send + Sync;
/// Returns which owned object of the resource with this uid and key does not decode, and why: `Pod ns/a: spec: …`. The
/// resource is woken when that object changes or is deleted.
pub(super) type CheckOwned = Box<dyn Fn(&str, &ResourceKey) -> Option<String> + Send + Sync>;
type OnInvalid = dyn Fn(&ResourceKey, Option<&Invalid>) + Send + Sync;

/// The objects of a store by a key, such as their resource. Wakes the keys whose objects change.
pub(super) struct Index<I, K> {
    keys_of: Box<KeysOf<I, K>>,
    wake: Box<Wake<I, K>>,
    on_invalid: Box<OnInvalid>,
    objects: RwLock<HashMap<I, Objects<K>>>,
    /// The keys under which each object is filed. `keys_of` may have returned others for it than it would now.
    filed: Mutex<HashMap<ResourceKey, Vec<I>>>,
    /// The keys that wait for the next change of an object.
    waiting: Mutex<HashMap<ResourceKey, HashSet<I>>>,
}

impl<I: Clone + Eq + Hash, K> Index<I, K> {
    /// Creates an index. `wake` gets each key of a changed object, with the object before and after the change, or
    /// `None` where the object did not have the key.
    pub(super) fn new<Keys: IntoIterator<Item = I>>(
        keys: impl Fn(&K) -> Keys + Send + Sync + 'static,
        wake: impl Fn(I, Option<&K>, Option<&K>) + Send + Sync + 'static,
    ) -> Index<I, K> {
        Index {
            keys_of: Box::new(move |object| keys(object).into_iter().collect()),
            wake: Box::new(wake),
            on_invalid: Box::new(|_, _| ()),
            objects: RwLock::default(),
            filed: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    /// Calls `handle` for each object whose new state cannot be decoded, and with `None` when it is deleted.
    pub(super) fn on_invalid(
        self,
        handle: impl Fn(&ResourceKey, Option<&Invalid>) + Send + Sync + 'static,
    ) -> Index<I, K> {
        Index { on_invalid: Box::new(handle), ..self }
    }

    fn get(&self, key: &I) -> Vec<Arc<K>> {
        let objects = sync::read(&self.objects);
        objects.get(key).into_iter().flat_map(|all| all.values().cloned()).collect()
    }

    /// Records the keys that the object has now. Returns those under which it was filed.
    fn refile(&self, key: &ResourceKey, has: &[I]) -> Vec<I> {
        let mut filed = lock(&self.filed);
        let had = match has {
            [] => filed.remove(key),
            _ => filed.insert(key.clone(), has.to_vec()),
        };
        had.unwrap_or_default()
    }

    /// Moves the object to the keys that it has now.
    fn file(&self, key: &ResourceKey, left: &[I], joined: &[I], now: Option<&Arc<K>>) {
        let mut objects = sync::write(&self.objects);
        for of in left {
            let mut rest = objects.remove(of).unwrap_or_default();
            rest.remove(key);
            if !rest.is_empty() {
                objects.insert(of.clone(), rest);
            }
        }
        for of in joined {
            let objects = objects.entry(of.clone()).or_default();
            now.into_iter().for_each(|object| _ = objects.insert(key.clone(), object.clone()));
        }
    }

    /// Wakes a key once, when this object next changes or is deleted.
    fn wait_for(&self, object: &ResourceKey, waiting: &I) {
        lock(&self.waiting).entry(object.clone()).or_default().insert(waiting.clone());
    }

    fn wake_waiting(&self, key: &ResourceKey) {
        let waiting = lock(&self.waiting).remove(key);
        waiting.into_iter().flatten().for_each(|waiting| (self.wake)(waiting, None, None));
    }
}

impl<I: Clone + Eq + Hash + Send + Sync, K: Send + Sync> StoreListener<K> for Index<I, K> {
    fn changed(&self, key: &ResourceKey, before: Option<&Arc<K>>, now: Option<&Arc<K>>) {
        let has = now.and_then(|object| guarded(type_name::<K>(), key, || (self.keys_of)(object)));
        let has = has.unwrap_or_default();
        let had = self.refile(key, &has);
        let left: Vec<I> = had.iter().filter(|of| !has.contains(of)).cloned().collect();
        self.file(key, &left, &has, now);
        let (before, now) = (before.map(|object| &**object), now.map(|object| &**object));
        left.into_iter().for_each(|of| (self.wake)(of, before, None));
        for of in has {
            let before = before.filter(|_| had.contains(&of));
            (self.wake)(of, before, now);
        }
        self.wake_waiting(key);
    }

    fn invalid(&self, key: &ResourceKey, invalid: Option<&Invalid>) {
        (self.on_invalid)(key, invalid);
        self.wake_waiting(key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt as _;
    use serde_json::json;

    use super::*;
    use crate::reconciler::generation_changed;

    fn map(name: &str, of: &str) -> Arc<ConfigMap> {
        let labels = json!({"of": of});
        let map = json!({"metadata": {"namespace": "ns", "name": name, "labels": labels}});
        Arc::new(serde_json::from_value(map).unwrap())
    }

    #[test]
    fn a_change_wakes_the_resource_before_and_the_one_after() {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let noted = woken.clone();
        let of = |map: &ConfigMap| {
            let of = map.metadata.labels.as_ref()?.get("of").filter(|of| !of.is_empty())?;
            Some(ResourceKey::new("ns", of))
        };
        let index = Index::new(of, move |key: ResourceKey, _, _| lock(&noted).push(key.name.to_string()));
        let taken = || std::mem::take(&mut *lock(&woken));
        let change = |name: &str, before: Option<&str>, now: Option<&str>| {
            let (before, now) = (before.map(|of| map(name, of)), now.map(|of| map(name, of)));
            index.changed(&ResourceKey::new("ns", name), before.as_ref(), now.as_ref());
        };
        let known = |of: &str| {
            let objects = index.objects.read().unwrap();
            objects
                .get(&ResourceKey::new("ns", of))
                .map(|all| all.keys().map(|k| k.name.to_string()).collect::<Vec<_>>())
        };
        change("x", None, Some("a"));
        change("y", None, Some("a"));
        change("z", None, Some(""));
        assert_eq!((taken(), known("a")), (vec!["a".into(), "a".into()], Some(vec!["x".into(), "y".into()])));
        change("x", Some("a"), Some("b"));
        assert_eq!((taken(), known("a")), (vec!["a".into(), "b".into()], Some(vec!["y".into()])));
        change("y", Some("a"), Some("a"));
        change("y", Some("a"), None);
        assert_eq!((taken(), known("a"), known("b")), (vec!["a".into(), "a".into()], None, Some(vec!["x".into()])));
    }

    /// A new label, like a new owner reference, leaves the generation as it is.
    #[test]
    fn to_a_resource_an_object_that_leaves_is_gone_and_one_that_joins_is_new() {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let noted = woken.clone();
        let of = |map: &ConfigMap| {
            let of = map.metadata.labels.as_ref().map_or("", |labels| labels["of"].as_str());
            of.split('.').map(str::to_owned).collect::<Vec<_>>()
        };
        let index = Index::new(of, move |key: String, before: Option<&ConfigMap>, now: Option<&ConfigMap>| {
            let matters = generation_changed(before, now);
            lock(&noted).push((key, before.is_some(), now.is_some(), matters));
        });
        let object = |of: &str| {
            let mut object = (*map("x", of)).clone();
            (object.metadata.uid, object.metadata.generation) = (Some("1".into()), Some(1));
            Arc::new(object)
        };
        let (key, before) = (ResourceKey::new("ns", "x"), object("a.b"));
        index.changed(&key, None, Some(&before));
        lock(&woken).clear();
        index.changed(&key, Some(&before), Some(&object("b.c")));
        let all = lock(&woken);
        let woken: Vec<_> = all.iter().map(|(key, before, now, matters)| (&**key, *before, *now, *matters)).collect();
        assert_eq!(woken, [("a", true, false, true), ("b", true, true, false), ("c", false, true, true)]);
    }

    #[test]
    fn an_object_leaves_the_key_under_which_it_is_filed_whatever_the_mapping_returns_now() {
        let (is_other, woken) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (now, noted) = (is_other.clone(), woken.clone());
        let of = move |_: &ConfigMap| [if now.load(Ordering::SeqCst) { "b" } else { "a" }];
        let index = Index::new(of, move |key: &'static str, before: Option<&ConfigMap>, now: Option<&ConfigMap>| {
            lock(&noted).push((key, before.is_some(), now.is_some()));
        });
        let (key, object) = (ResourceKey::new("ns", "x"), map("x", ""));
        let filed = || ["a", "b"].map(|of| index.get(&of).len());
        index.changed(&key, None, Some(&object));
        assert_eq!(filed(), [1, 0]);
        is_other.store(true, Ordering::SeqCst);
        index.changed(&key, Some(&object), Some(&object));
        assert_eq!(filed(), [0, 1]);
        is_other.store(false, Ordering::SeqCst);
        index.changed(&key, Some(&object), None);
        assert_eq!((filed(), lock(&index.filed).len()), ([0, 0], 0));
        let expected = [("a", false, true), ("a", true, false), ("b", false, true), ("b", true, false)];
        assert_eq!(*lock(&woken), expected);
    }

    #[test]
    fn an_object_may_belong_to_several_resources_and_have_several_indexes() {
        let of = |map: &ConfigMap| {
            let of = map.metadata.labels.as_ref().map_or("", |labels| labels["of"].as_str());
            of.split('.').filter(|of| !of.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        let maps = [map("x", "a.b"), map("y", "b"), map("z", "")].map(|map| (*map).clone());
        let resources =
            move |map: &ConfigMap| of(map).into_iter().map(|name| ResourceKey::new("ns", &name)).collect::<Vec<_>>();
        let cache = Cache::with(maps, resources);
        let names = |maps: Vec<Arc<ConfigMap>>| maps.iter().map(|map| map.name_any()).collect::<Vec<_>>();
        let mut b = ConfigMap::default();
        (b.metadata.namespace, b.metadata.name) = (Some("ns".into()), Some("b".into()));
        assert_eq!(
            (names(cache.of(&b)), names(cache.all())),
            (vec!["x".into(), "y".into()], vec!["x".into(), "y".into(), "z".into()])
        );
        let by_length = cache.indexed(move |map| [of(map).len()]);
        assert_eq!((names(by_length.get(&0)), names(by_length.get(&2))), (vec!["z".to_owned()], vec!["x".to_owned()]));
    }

    #[test]
    fn who_waits_for_an_object_of_another_is_woken_once() {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let noted = woken.clone();
        let index = Index::new(|_: &ConfigMap| None, move |key: ResourceKey, _, _| lock(&noted).push(key.to_string()));
        let (cache, object) = (Cache::new(Arc::new(Store::with([(*map("x", "")).clone()])), index), map("x", ""));
        cache.wake_on_change(&object, ResourceKey::new("ns", "a"));
        assert!(lock(&woken).is_empty());
        let changed = || cache.index.changed(&ResourceKey::new("ns", "x"), Some(&object), None);
        changed();
        changed();
        assert_eq!(std::mem::take(&mut *lock(&woken)), ["ns/a"]);
        let mut older = (*object).clone();
        older.metadata.resource_version = Some("0".into());
        cache.wake_on_change(&older, ResourceKey::new("ns", "a"));
        assert_eq!(*lock(&woken), ["ns/a"], "it changed before anything waited");
    }

    #[test]
    fn who_waits_for_an_object_that_this_process_has_just_written_is_woken_by_its_event() {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let noted = woken.clone();
        let index = Index::new(|_: &ConfigMap| None, move |key: ResourceKey, _, _| lock(&noted).push(key.to_string()));
        let [first, second] = ["1", "2"].map(|version| {
            let mut map = (*map("x", "")).clone();
            map.metadata.resource_version = Some(version.into());
            Arc::new(map)
        });
        let cache = Cache::new(Arc::new(Store::with([(*first).clone()])), index);
        cache.wrote((*second).clone());
        cache.wake_on_change(&second, ResourceKey::new("ns", "a"));
        assert!(lock(&woken).is_empty(), "it would be reconciled over and over until the event arrives");
        let delivered = || cache.index.changed(&ResourceKey::new("ns", "x"), Some(&first), Some(&second));
        delivered();
        delivered();
        assert_eq!(*lock(&woken), ["ns/a"]);
    }
}
