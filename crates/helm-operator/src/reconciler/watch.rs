//! Feeds the cache and the queue from watches: resources, release records, and dependents by kind.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::ready;
use futures::stream::BoxStream;
use helm::kube::{CHART_LABEL, Live, ObjectKey, Resource};
use helm::storage::{RecordMeta, SELECTOR};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::core::{ApiResource, PartialObjectMeta, Selector};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;

use super::Shared;
use super::primary::{Primary, ResourceKey};
use crate::context::Context;

/// Tells when a first list is in.
pub(super) type Synced = watch::Sender<usize>;

type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

/// Watches the custom resources.
pub(super) fn primaries(context: &Context, resource: &Resource, selector: &Selector) -> Vec<Events<Primary>> {
    let kind = api_resource(resource);
    let config = watcher::Config::default().labels_from(selector);
    let apis: Vec<Api<Primary>> = context.dynamic_apis(&kind, resource.namespaced);
    apis.into_iter().map(|api| watcher::watcher(api, config.clone()).default_backoff().boxed()).collect()
}

/// Takes in custom resources until the stream is dropped.
pub(super) async fn feed_primaries(shared: Arc<Shared>, mut events: Events<Primary>, synced: Synced) {
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(primary)) => {
                listed.push(primary.key());
                shared.see_primary(primary);
            }
            Ok(Event::InitDone) => synced.send_modify(|n| *n += 1),
            Ok(Event::Apply(primary)) => shared.see_primary(primary),
            Ok(Event::Delete(primary)) => shared.lose_primary(&primary.key()),
            Err(error) => tracing::warn!(%error, "cannot watch custom resources"),
        }
    }
}

/// Watches the release records, their metadata only.
pub(super) fn records(context: &Context) -> Vec<Events<RecordMeta>> {
    let config = watcher::Config::default().labels(SELECTOR);
    let apis: Vec<Api<PartialObjectMeta<Secret>>> = context.apis();
    let stream = |api| {
        let events = watcher::watcher(api, config.clone()).default_backoff();
        let read = |m: PartialObjectMeta<Secret>| RecordMeta::read(&m.metadata);
        events.filter_map(move |event| ready(reduce(event, read))).boxed()
    };
    apis.into_iter().map(stream).collect()
}

/// Takes in release records until the stream is dropped.
pub(super) async fn feed_records(shared: Arc<Shared>, mut events: Events<RecordMeta>, synced: Synced) {
    let (mut listed, mut newest) = (HashSet::new(), 0);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => (listed, newest) = (HashSet::new(), 0),
            Ok(Event::InitApply(meta)) => {
                newest = newest.max(meta.resource_version);
                listed.insert((ResourceKey::new(&meta.namespace, &meta.name), meta.version));
                shared.see_record(meta);
            }
            Ok(Event::InitDone) => {
                let gone = shared.cache.retain_records(&listed, newest);
                gone.into_iter().for_each(|key| shared.wake(key));
                listed = HashSet::new();
                synced.send_modify(|n| *n += 1);
            }
            Ok(Event::Apply(meta)) => shared.see_record(meta),
            Ok(Event::Delete(meta)) => shared.lose_record(&meta),
            Err(error) => tracing::warn!(%error, "cannot watch release records"),
        }
    }
}

/// Watches the chart's objects of one kind: in full where readiness is in the status, else their metadata.
pub(super) fn dependents(context: &Context, resource: &Resource, chart: &str) -> Vec<Events<Live>> {
    let kind = api_resource(resource);
    let config = watcher::Config::default().labels(&format!("{CHART_LABEL}={chart}"));
    if has_readiness(resource) {
        let apis: Vec<Api<Live>> = context.dynamic_apis(&kind, resource.namespaced);
        return apis.into_iter().map(|api| watcher::watcher(api, config.clone()).default_backoff().boxed()).collect();
    }
    let apis: Vec<Api<PartialObjectMeta<Live>>> = context.dynamic_apis(&kind, resource.namespaced);
    let stream = |api| {
        let events = watcher::watcher(api, config.clone()).default_backoff();
        let read = |m: PartialObjectMeta<Live>| Some(Live::from_metadata(m.metadata));
        events.filter_map(move |event| ready(reduce(event, read))).boxed()
    };
    apis.into_iter().map(stream).collect()
}

/// Takes in dependents of one kind until the stream is dropped. `namespace` is the one that is watched, if one is.
pub(super) async fn feed_dependents(
    shared: Arc<Shared>,
    resource: Arc<Resource>,
    mut events: Events<Live>,
    synced: Synced,
) {
    let (mut listed, mut newest, mut namespaces) = (HashSet::new(), 0, HashSet::new());
    let several = shared.watches_one_namespace();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => (listed, newest) = (HashSet::new(), 0),
            Ok(Event::InitApply(live)) => {
                newest = newest.max(live.resource_version());
                namespaces.extend(live.metadata.namespace.clone());
                listed.insert(key_of(&resource, &live));
                shared.see_dependent(&resource, &live);
            }
            Ok(Event::InitDone) => {
                // A stream of one namespace must not judge the objects of another.
                let only: Vec<Option<&str>> =
                    if several { namespaces.iter().map(|n| Some(n.as_str())).collect() } else { vec![None] };
                for namespace in only {
                    shared
                        .cache
                        .retain_dependents(&resource, namespace, &listed, newest)
                        .into_iter()
                        .for_each(|key| shared.wake(key));
                }
                listed = HashSet::new();
                synced.send_modify(|n| *n += 1);
            }
            Ok(Event::Apply(live)) => {
                namespaces.extend(live.metadata.namespace.clone().filter(|n| several && !namespaces.contains(n)));
                shared.see_dependent(&resource, &live);
            }
            Ok(Event::Delete(live)) => shared.lose_dependent(&resource, &live),
            Err(error) => tracing::warn!(%error, kind = &*resource.kind, "cannot watch dependents"),
        }
    }
}

pub(super) fn key_of(resource: &Resource, live: &Live) -> ObjectKey {
    ObjectKey {
        group: resource.group().into(),
        kind: resource.kind.clone(),
        namespace: live.metadata.namespace.as_deref().unwrap_or_default().into(),
        name: live.metadata.name.as_deref().unwrap_or_default().into(),
    }
}

/// Passes an event on with its object reduced; an object that reduces to nothing is left out.
fn reduce<A, B: Debug>(
    event: watcher::Result<Event<A>>,
    reduce: impl Fn(A) -> Option<B>,
) -> Option<watcher::Result<Event<B>>> {
    match event {
        Ok(Event::Init) => Some(Ok(Event::Init)),
        Ok(Event::InitDone) => Some(Ok(Event::InitDone)),
        Ok(Event::InitApply(object)) => reduce(object).map(|o| Ok(Event::InitApply(o))),
        Ok(Event::Apply(object)) => reduce(object).map(|o| Ok(Event::Apply(o))),
        Ok(Event::Delete(object)) => reduce(object).map(|o| Ok(Event::Delete(o))),
        Err(error) => Some(Err(error)),
    }
}

/// Whether objects of the kind say in their status how they are doing: workloads and the like, and every custom resource.
fn has_readiness(resource: &Resource) -> bool {
    match resource.group() {
        "" => ["Pod", "PersistentVolumeClaim", "Service", "ReplicationController"].contains(&&*resource.kind),
        "apps" | "batch" | "policy" | "apiextensions.k8s.io" => true,
        "autoscaling" | "extensions" => false,
        group => !group.ends_with(".k8s.io"),
    }
}

fn api_resource(resource: &Resource) -> ApiResource {
    let (group, version) = resource.api_version.split_once('/').unwrap_or(("", &resource.api_version));
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: resource.api_version.to_string(),
        kind: resource.kind.to_string(),
        plural: resource.plural.to_string(),
    }
}
