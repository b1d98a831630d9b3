//! What a controller in Rust implements, and how it says what wakes it.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cache::{Cache, Index};
use super::rights::Rights;
use super::scope::Scope;
use super::serve::Settings;
use super::store::{Listed, Stores};
use crate::ResourceKey;
use crate::report::Reason;

/// A namespaced kind with a Rust type, such as `Deployment` or a custom resource. `PartialObjectMeta<K>` is one whose objects are only metadata,
/// which saves memory and traffic.
pub trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// Serves one kind of custom resource.
///
/// # What the library does
/// A resource is reconciled when it changes, when an object that [`watch`](Self::watch) names changes, and when [`Next::After`] asks for it; never by
/// two workers at a time. Namespaces take turns, and all controllers share the process's limit of concurrent reconciles. A failed reconcile is
/// logged, counted and told in an event under the error's [`reason`](Reason::reason), and repeated after half a second, doubled each time up to five
/// minutes. A panic delays only its own resource.
///
/// # What the reconciler does
/// Each call looks at the whole state and does what is missing; why it was called does not matter. Any `.await` may be the last: make each write
/// idempotent, as [`Scope::apply`] and [`Scope::status`] are. The caches may lag behind own writes by an event.
pub trait Reconciler: Send + Sync + Sized + 'static {
    /// The custom resource's type.
    type Resource: Namespaced;
    /// Why a reconcile fails. [`WriteError`](super::WriteError) suits reconcilers that only apply objects and report a status.
    type Error: Reason + Send + Sync + 'static;
    /// What it reads: [`Cache`]s, or a struct of them.
    type Caches: Send + Sync + 'static;

    /// The name in logs, metrics and events, and the field manager of its writes. Default: `<kind in lower case>-controller`.
    fn name(&self) -> String {
        format!("{}-controller", Self::Resource::kind(&()).to_lowercase())
    }

    /// Says what wakes it besides its own resources, and returns what it reads. Called once, at start.
    fn watch(&self, watching: &mut Watching<Self::Resource>) -> Self::Caches;

    /// Says what it does in the cluster, beside reading its own resources. `generate rbac` writes its role from it, and the start names what the role
    /// lacks.
    fn rights(&self) -> Rights;

    /// Makes the cluster look as the resource asks. Called once every cache has listed; never for a resource that is being deleted.
    fn reconcile(
        &self,
        scope: &Scope<'_, Self::Resource>,
        caches: &Self::Caches,
    ) -> impl Future<Output = Result<Next, Self::Error>> + Send;

    /// The finalizer that each resource gets before its first [`reconcile`](Self::reconcile), and loses after [`cleanup`](Self::cleanup). Default:
    /// none, which is enough where the garbage collector deletes what the resource owns.
    fn finalizer(&self) -> Option<&str> {
        None
    }

    /// Undoes what the garbage collector cannot. Called while a deleted resource has the [`finalizer`](Self::finalizer), which stays until it returns
    /// [`Next::Wait`].
    fn cleanup(
        &self,
        _scope: &Scope<'_, Self::Resource>,
        _caches: &Self::Caches,
    ) -> impl Future<Output = Result<Next, Self::Error>> + Send {
        std::future::ready(Ok(Next::Wait))
    }
}

/// When to reconcile a resource again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Wait,
    /// When something changes, and at the latest after this time.
    After(Duration),
}

/// What wakes a reconciler, and how it runs.
pub struct Watching<R> {
    stores: Arc<Stores>,
    settings: Settings<R>,
    listed: Vec<Listed>,
    /// The watched kinds, by group and plural.
    pub(super) kinds: Vec<(String, String)>,
}

impl<R: Namespaced> Watching<R> {
    pub(super) fn new(stores: Arc<Stores>, settings: Settings<R>) -> Watching<R> {
        Watching { stores, settings, listed: Vec::new(), kinds: Vec::new() }
    }

    /// Watches the objects that a resource owns, by their controller reference: any change wakes the owner. `labels` narrows the watch, such as
    /// `app=memcached`; empty: every object of the kind.
    ///
    /// Controllers that ask for the same kind and labels share one watch and one store.
    pub fn owned<K: Namespaced>(&mut self, labels: &str) -> Cache<K> {
        self.mapped(labels, owner::<R, K>)
    }

    /// Watches objects that belong to a resource for another reason: any change wakes the resources that `resource_of` names, before and after the
    /// change. Objects that outlive their resource wake nothing.
    pub fn mapped<K: Namespaced>(
        &mut self,
        labels: &str,
        resource_of: impl Fn(&K) -> Option<ResourceKey> + Send + Sync + 'static,
    ) -> Cache<K> {
        let (queue, known) = (self.settings.queue.clone(), self.settings.known.clone());
        let wake = move |key| {
            if known.contains(&key) {
                queue.push(key);
            }
        };
        self.read(labels, Index::new(resource_of, wake))
    }

    /// The resources themselves; called last, when the selector is known.
    pub(super) fn resources(mut self) -> (Cache<R>, Settings<R>, Vec<Listed>) {
        let (labels, wakes) = (self.settings.labels.clone(), self.settings.wakes());
        let resources = self.read(&labels, Index::judging(|resource: &R| Some(key_of(resource)), wakes));
        (resources, self.settings, self.listed)
    }

    fn read<K: Namespaced>(&mut self, labels: &str, index: Index<K>) -> Cache<K> {
        self.kinds.push((K::group(&()).into_owned(), K::plural(&()).into_owned()));
        let store = self.stores.store::<K>(labels);
        self.listed.push(store.listed());
        Cache::new(store, index)
    }

    /// Serves only resources with these labels, such as `tier=gold`. Default: all.
    pub fn labels(&mut self, labels: &str) -> &mut Self {
        self.settings.labels = labels.to_owned();
        self
    }

    /// Serves only the resources that `serves` accepts. One that it rejects after a change keeps its objects.
    pub fn filter(&mut self, serves: impl Fn(&R) -> bool + Send + Sync + 'static) -> &mut Self {
        self.settings.filters.push(Box::new(serves));
        self
    }

    /// Ignores writes to the resource that change only its status or managed fields. Default: they wake it, too, so that a foreign write to the
    /// status is noticed.
    pub fn ignore_status(&mut self) -> &mut Self {
        self.settings.ignore_status = true;
        self
    }

    /// How many resources are reconciled at once; at least 1. Default: `--max-concurrent-reconciles`.
    pub fn concurrency(&mut self, workers: usize) -> &mut Self {
        self.settings.workers = workers.max(1);
        self
    }
}

/// The key of a namespaced object.
pub(super) fn key_of<K: Namespaced>(object: &K) -> ResourceKey {
    ResourceKey::new(object.meta().namespace.as_deref().unwrap_or_default(), &object.name_any())
}

/// The resource that the object's controller reference names.
fn owner<R: Namespaced, K: Namespaced>(object: &K) -> Option<ResourceKey> {
    let controller = object.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    let group = controller.api_version.split_once('/').map_or("", |(group, _)| group);
    let ours = controller.kind == R::kind(&()) && group == R::group(&());
    ours.then(|| ResourceKey::new(object.meta().namespace.as_deref().unwrap_or_default(), &controller.name))
}
