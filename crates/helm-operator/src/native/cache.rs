//! A controller's view of a store: its objects by the resource that they belong to.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

use super::reconciler::{Namespaced, key_of};
use super::store::{Reader, Store};
use crate::ResourceKey;

/// The objects of one kind as last seen, by the resource that they belong to. Cheap to clone; reading costs no request.
///
/// It lags behind the server, behind own writes too, by the time of an event.
pub struct Cache<K> {
    store: Arc<Store<K>>,
    index: Arc<Index<K>>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Cache<K> {
        Cache { store: self.store.clone(), index: self.index.clone() }
    }
}

impl<K: Namespaced> Cache<K> {
    pub(super) fn new(store: Arc<Store<K>>, index: Index<K>) -> Cache<K> {
        let index = Arc::new(index);
        store.join(index.clone());
        Cache { store, index }
    }

    /// A cache of these objects, for tests of a reconciler.
    pub fn with(
        objects: impl IntoIterator<Item = K>,
        resource_of: impl Fn(&K) -> Option<ResourceKey> + Send + Sync + 'static,
    ) -> Cache<K> {
        Cache::new(Arc::new(Store::with(objects)), Index::new(resource_of, |_| ()))
    }

    /// The objects of a resource, sorted by name.
    pub fn of(&self, resource: &impl Namespaced) -> Vec<Arc<K>> {
        let objects = self.index.objects.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        objects.get(&key_of(resource)).into_iter().flat_map(|all| all.values().cloned()).collect()
    }

    /// The object with this key, whatever it belongs to.
    pub fn get(&self, key: &ResourceKey) -> Option<Arc<K>> {
        self.store.get(key)
    }
}

type Objects<K> = BTreeMap<ResourceKey, Arc<K>>;
type ResourceOf<K> = dyn Fn(&K) -> Option<ResourceKey> + Send + Sync;
type Wake<K> = dyn Fn(ResourceKey, Option<&K>, Option<&K>) + Send + Sync;

/// The objects of a store by resource; wakes the resources whose objects change.
pub(super) struct Index<K> {
    resource_of: Box<ResourceOf<K>>,
    wake: Box<Wake<K>>,
    objects: RwLock<HashMap<ResourceKey, Objects<K>>>,
}

impl<K> Index<K> {
    pub(super) fn new(
        resource_of: impl Fn(&K) -> Option<ResourceKey> + Send + Sync + 'static,
        wake: impl Fn(ResourceKey) + Send + Sync + 'static,
    ) -> Index<K> {
        Index::judging(resource_of, move |key, _, _| wake(key))
    }

    /// Leaves it to `wake` whether the change, from an object to another, matters.
    pub(super) fn judging(
        resource_of: impl Fn(&K) -> Option<ResourceKey> + Send + Sync + 'static,
        wake: impl Fn(ResourceKey, Option<&K>, Option<&K>) + Send + Sync + 'static,
    ) -> Index<K> {
        Index { resource_of: Box::new(resource_of), wake: Box::new(wake), objects: RwLock::default() }
    }
}

impl<K: Send + Sync> Reader<K> for Index<K> {
    fn changed(&self, key: &ResourceKey, before: Option<&Arc<K>>, now: Option<&Arc<K>>) {
        let resource_of = |object: Option<&Arc<K>>| object.and_then(|object| (self.resource_of)(object));
        let (left, joined) = (resource_of(before), resource_of(now));
        let mut objects = self.objects.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(of) = left.as_ref().filter(|left| joined.as_ref() != Some(*left)) {
            let mut rest = objects.remove(of).unwrap_or_default();
            rest.remove(key);
            if !rest.is_empty() {
                objects.insert(of.clone(), rest);
            }
        }
        if let (Some(of), Some(object)) = (&joined, now) {
            objects.entry(of.clone()).or_default().insert(key.clone(), object.clone());
        }
        drop(objects);
        let (before, now) = (before.map(|object| &**object), now.map(|object| &**object));
        let moved = left.filter(|left| joined.as_ref() != Some(left));
        moved.into_iter().chain(joined).for_each(|resource| (self.wake)(resource, before, now));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::runtime::sync::lock;

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
        let index = Index::new(of, move |key| lock(&noted).push(key.name.to_string()));
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
}
