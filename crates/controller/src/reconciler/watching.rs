//! The watches and settings that a reconciler declares.

use std::any::type_name;
use std::sync::Arc;
use std::time::Duration;

use super::cache::{Cache, CheckOwned, Index};
use super::decoded::Invalid;
use super::failing::Failing;
use super::kind::{Kind, is_namespaced, owner};
use super::selector::Selector;
use super::settings::Settings;
use super::store::{Listed, Reach, Stores};
use super::written::is_as_new;
use crate::ResourceKey;
use crate::runtime::guarded::guarded;
use crate::shards::{Ring, Shard};

/// A watched kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The group; empty for the core kinds.
    pub group: String,
    /// Group and version, as in `apiVersion`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The kind in paths: `deployments`.
    pub plural: String,
    /// Whether its objects are namespaced.
    pub is_namespaced: bool,
}

impl Watched {
    pub(crate) fn of<K: Kind>() -> Watched {
        Watched {
            group: K::group(&()).into_owned(),
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            is_namespaced: is_namespaced::<K>(),
        }
    }
}

/// The declaration of a reconciler's watches and settings.
pub struct Watching<R> {
    stores: Arc<Stores>,
    settings: Settings<R>,
    listed: Vec<Listed>,
    pub(super) kinds: Vec<Watched>,
    /// Which objects of a resource the caches lack.
    pub(super) checks: Vec<CheckOwned>,
}

impl<R: Kind> Watching<R> {
    pub(super) fn new(stores: Arc<Stores>, settings: Settings<R>) -> Watching<R> {
        Watching { stores, settings, listed: Vec::new(), kinds: Vec::new(), checks: Vec::new() }
    }

    /// Starts the declaration of a watch of a kind's selected objects. The watch starts with the call that returns its
    /// [`Cache`].
    ///
    /// Controllers that select the same objects share one watch and one store.
    pub fn objects<K: Kind>(&mut self, selector: impl Into<Selector>) -> Objects<'_, R, K> {
        let (selector, reach) = (selector.into(), Reach::Everywhere);
        Objects { watching: self, selector, reach, allows_undecodable: false, matters: Box::new(|_, _| true) }
    }

    /// Watches the objects that a resource owns by their controller reference: any change wakes the owner. If several
    /// namespaces are watched, reconciles must not rely on owned objects in others than the resource's, see
    /// [`Objects::in_own_namespace`].
    pub fn owned<K: Kind>(&mut self, selector: impl Into<Selector>) -> Cache<K> {
        self.objects(selector).owned()
    }

    /// Watches objects that belong to resources in another way: any change wakes the resources that `resources_of`
    /// returns for the object before and after the change. Objects that outlive their resource wake nothing.
    ///
    /// `resources_of` must not read a cache: it is called while one is locked.
    pub fn mapped<K: Kind, I: IntoIterator<Item = ResourceKey>>(
        &mut self,
        selector: impl Into<Selector>,
        resources_of: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Cache<K> {
        self.objects(selector).mapped(resources_of)
    }

    /// Serves only resources with these labels, such as `tier=gold`. Default: all.
    ///
    /// A resource that loses the labels leaves the watch, with its objects and with the reconciler's finalizers:
    /// nothing cleans up after it, and its deletion waits until it has the labels again or someone removes the
    /// finalizers. Use [`filter`](Self::filter) together with finalizers: it watches all resources and has no such gap.
    pub fn labels(&mut self, labels: &str) -> &mut Self {
        self.settings.selector = labels.into();
        self
    }

    /// Serves only the resources that `serves` accepts. A resource that it rejects after a change keeps its objects. If
    /// the resource is deleted while it has a finalizer of the reconciler, it is cleaned up nevertheless.
    pub fn filter(&mut self, serves: impl Fn(&R) -> bool + Send + Sync + 'static) -> &mut Self {
        self.settings.filters.push(Box::new(serves));
        self
    }

    /// Ignores writes to the resource that change only its status or managed fields. By default they also trigger a
    /// reconcile, so that another writer's change of the status is noticed; a failing resource notices it in its next
    /// attempt; after a terminal failure, such a change triggers one once the backoff's wait is over. Of a resource
    /// without a generation, such as a ConfigMap, no write is ignored. After the server was restored from a backup, no
    /// older state is ignored.
    pub fn ignore_status(&mut self) -> &mut Self {
        self.settings.ignore_status = true;
        self
    }

    /// Sets how many resources are reconciled at once; at least 1. Default: `--max-concurrent-reconciles`.
    pub fn concurrency(&mut self, workers: usize) -> &mut Self {
        self.settings.workers = workers.max(1);
        self
    }

    /// Sets the waits after failures of a resource: the first is doubled each time up to the longest. Default: 500 ms
    /// and 5 minutes. A wait is at least 100 ms.
    pub fn backoff(&mut self, first: Duration, longest: Duration) -> &mut Self {
        self.settings.failing = Arc::new(Failing::between(first, longest));
        self
    }

    /// Ends each reconcile that takes longer, as a failure with the reason `Timeout`. Default: no limit.
    pub fn timeout(&mut self, longest: Duration) -> &mut Self {
        self.settings.timeout = Some(longest);
        self
    }

    /// Returns the cache of the resources themselves. Called last, because the selector must be known.
    pub(super) fn resources(mut self) -> (Cache<R>, Settings<R>, Vec<Listed>) {
        let (wakes, on_invalid) = (self.settings.wakes(), self.settings.on_invalid());
        let shard = self.settings.shard.as_ref();
        let labels = shard.and_then(Shard::ring).map(Ring::selector).unwrap_or_default();
        let range = shard.and_then(Shard::range).cloned();
        let selector = self.settings.selector.and(&labels).within(range);
        let index = Index::new(|resource: &R| [ResourceKey::of(resource)], wakes).on_invalid(on_invalid);
        let resources = self.read(&selector, index, own_namespace::<R>());
        (resources, self.settings, self.listed)
    }

    /// Starts to read objects, of which those that a resource owns must decode, unless `allows_undecodable`.
    fn read_checked<K: Kind>(
        &mut self,
        selector: &Selector,
        index: Index<ResourceKey, K>,
        reach: Reach,
        allows_undecodable: bool,
    ) -> Cache<K> {
        let cache = self.read(selector, index, reach);
        if !allows_undecodable {
            self.checks.push(cache.check_owned());
        }
        cache
    }

    fn read<K: Kind>(&mut self, selector: &Selector, index: Index<ResourceKey, K>, reach: Reach) -> Cache<K> {
        self.kinds.push(Watched::of::<K>());
        let store = self.stores.store::<K>(selector);
        self.listed.push(store.listed(reach));
        Cache::new(store, index)
    }
}

/// Returns the reach of reconciles that read only their resource's own namespace: everything if the resource is
/// cluster-scoped.
fn own_namespace<R: Kind>() -> Reach {
    if is_namespaced::<R>() { Reach::OwnNamespace } else { Reach::Everywhere }
}

type Matters<K> = Box<dyn Fn(Option<&K>, Option<&K>) -> bool + Send + Sync>;

/// A watch that is being declared, see [`Watching::objects`].
#[must_use = "the watch begins with the call that returns its cache"]
pub struct Objects<'w, R, K> {
    watching: &'w mut Watching<R>,
    selector: Selector,
    reach: Reach,
    allows_undecodable: bool,
    matters: Matters<K>,
}

impl<R: Kind, K: Kind> Objects<'_, R, K> {
    /// Ignores changes that `matters` rejects; it gets the object before and after a change, or `None` where it did not
    /// exist or did not belong to the resource. If it panics, the change counts. The cache contains ignored changes
    /// nevertheless. [`generation_changed`] is the usual choice.
    ///
    /// `matters` must not read a cache: it is called while one is locked.
    pub fn when(self, matters: impl Fn(Option<&K>, Option<&K>) -> bool + Send + Sync + 'static) -> Self {
        let matters = move |before: Option<&K>, now: Option<&K>| match before.or(now) {
            Some(object) => {
                guarded(type_name::<K>(), &ResourceKey::of(object), || matters(before, now)).unwrap_or(true)
            }
            // A resource waits for any change of a foreign object.
            None => true,
        };
        Objects { matters: Box::new(matters), ..self }
    }

    /// Declares that reconciling a resource reads only the objects in its own namespace. While the server refuses to
    /// watch one of several namespaces, the resources of the others are then reconciled nevertheless. Without this,
    /// nothing is reconciled until it may be watched again. Objects are mapped to resources in their own namespace
    /// only. A cluster-scoped resource reads all objects.
    pub fn in_own_namespace(self) -> Self {
        Objects { reach: own_namespace::<R>(), ..self }
    }

    /// Calls the reconciler for a resource even if it owns one of these objects that does not decode. Without this, such
    /// a resource is not reconciled, because the object would look as if it did not exist. With it, the reconciler must
    /// ask [`Cache::undecodable`] before it creates or deletes something because an object is missing.
    pub fn allow_undecodable(self) -> Self {
        Objects { allows_undecodable: true, ..self }
    }

    /// Watches the objects that a resource owns by their controller reference: a change wakes the owner. They are in its
    /// [own namespace](Self::in_own_namespace).
    pub fn owned(self) -> Cache<K> {
        self.in_own_namespace().mapped(owner::<R, K>)
    }

    /// Watches objects that belong to resources in another way: a change wakes the resources that `resources_of`
    /// returns for the object before and after the change. Objects that outlive their resource wake nothing.
    ///
    /// `resources_of` must not read a cache: it is called while one is locked.
    pub fn mapped<I: IntoIterator<Item = ResourceKey>>(
        self,
        resources_of: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Cache<K> {
        let (queue, known) = (self.watching.settings.queue.clone(), self.watching.settings.known.clone());
        let Objects { watching, selector, reach, allows_undecodable, matters } = self;
        let resources_of = move |object: &K| {
            let namespace = object.meta().namespace.as_deref().unwrap_or_default();
            let is_reached = |key: &ResourceKey| reach == Reach::Everywhere || *key.namespace == *namespace;
            resources_of(object).into_iter().filter(is_reached).collect::<Vec<_>>()
        };
        let wake = move |key: ResourceKey, before: Option<&K>, now: Option<&K>| {
            if matters(before, now) && known.contains(&key) {
                queue.push(key);
            }
        };
        let index = Index::new(resources_of, wake).on_invalid(log_invalid::<K>);
        watching.read_checked(&selector, index, reach, allows_undecodable)
    }

    /// Watches objects on which all resources depend, such as a shared ConfigMap: a change wakes every resource.
    pub fn shared(self) -> Cache<K> {
        let (queue, known) = (self.watching.settings.queue.clone(), self.watching.settings.known.clone());
        let Objects { watching, selector, reach, allows_undecodable, matters } = self;
        let wake = move |_: ResourceKey, before: Option<&K>, now: Option<&K>| {
            if matters(before, now) {
                known.all().into_iter().for_each(|key| queue.push(key));
            }
        };
        let index = Index::new(|object: &K| [ResourceKey::of(object)], wake).on_invalid(log_invalid::<K>);
        watching.read_checked(&selector, index, reach, allows_undecodable)
    }

    /// Watches objects that are only read: no change wakes anything.
    pub fn cached(self) -> Cache<K> {
        let nobody = |_: &K| None::<ResourceKey>;
        let index = Index::new(nobody, |_, _, _| ()).on_invalid(log_invalid::<K>);
        self.watching.read_checked(&self.selector, index, self.reach, self.allows_undecodable)
    }
}

/// Returns whether a change affects more than status and metadata, for [`Objects::when`]. An object that joins or
/// leaves a resource counts, whatever changed. So does each change of an object without a generation, such as a
/// ConfigMap, and each return to a lower version, after the server was restored from a backup.
pub fn generation_changed<K: Kind>(before: Option<&K>, now: Option<&K>) -> bool {
    let (Some(before), Some(now)) = (before, now) else { return true };
    let (before, now) = (before.meta(), now.meta());
    now.generation.is_none()
        || !is_as_new(now, before)
        || (&before.uid, before.generation, &before.deletion_timestamp)
            != (&now.uid, now.generation, &now.deletion_timestamp)
}

fn log_invalid<K: Kind>(key: &ResourceKey, invalid: Option<&Invalid>) {
    let Some(invalid) = invalid else { return };
    let kind = &*K::kind(&());
    tracing::warn!(kind, object = %key, error = invalid.cause, "An object does not fit its Rust type: the cache lacks it");
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn a_change_of_the_status_alone_is_no_change_of_the_generation() {
        let map = |uid: &str, generation: Option<i64>, version: &str| {
            let mut map = ConfigMap::default();
            map.metadata.uid = Some(uid.into());
            (map.metadata.generation, map.metadata.resource_version) = (generation, Some(version.into()));
            map
        };
        let changed = |a: &ConfigMap, b: &ConfigMap| generation_changed(Some(a), Some(b));
        assert!(!changed(&map("a", Some(1), "1"), &map("a", Some(1), "2")));
        assert!(changed(&map("a", Some(1), "1"), &map("a", Some(2), "2")));
        assert!(changed(&map("a", Some(1), "1"), &map("b", Some(1), "2")), "made anew");
        assert!(changed(&map("a", None, "1"), &map("a", None, "2")), "has no generation");
        assert!(changed(&map("a", Some(1), "10"), &map("a", Some(1), "9")), "the server was restored");
        assert!(!changed(&map("a", Some(1), "9"), &map("a", Some(1), "10")));
        assert!(generation_changed(None, Some(&map("a", Some(1), "1"))));
    }
}
