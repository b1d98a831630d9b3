//! The watches and their way into the cache: resources, release records, and objects by kind, one stream a namespace.

use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::ready;
use helm_release::kube::{CHART_LABEL, Live, ObjectKey, Resource};
use helm_release::storage::{RecordMeta, SELECTOR};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::core::{ApiResource, PartialObjectMeta, Selector};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;

use super::feed::{Scope, Sink, Stream};
use super::primary::Primary;
use super::shared::Shared;
use super::stamp::Epoch;
use crate::context::Context;

/// The page size of lists: as many of the largest objects that etcd stores (1.5 MiB) as fit into the largest answer (64 MiB), so that large
/// resources cannot block the list of their kind.
const PAGE: u32 = 40;

/// Watches the custom resources.
pub(super) fn primaries(context: &Context, resource: &Resource, selector: &Selector) -> Vec<Stream<Primary>> {
    let config = paged().labels_from(selector);
    let stream = |(scope, api): (Scope, Api<Primary>)| Stream { scope, events: watched(api, &config).boxed() };
    apis(context, resource).into_iter().map(stream).collect()
}

/// Watches the metadata of release records.
pub(super) fn records(context: &Context) -> Vec<Stream<RecordMeta>> {
    let config = paged().labels(SELECTOR);
    let scopes = scopes(context, true);
    let api = |scope: &Option<String>| -> Api<PartialObjectMeta<Secret>> {
        match scope {
            Some(namespace) => Api::namespaced(context.client.clone(), namespace),
            None => Api::all(context.client.clone()),
        }
    };
    let read = |m: PartialObjectMeta<Secret>| RecordMeta::read(&m.metadata);
    let stream = |scope: Option<String>| Stream {
        events: watched(api(&scope), &config).filter_map(move |event| ready(reduce(event, read))).boxed(),
        scope: scope_of(scope.as_deref()),
    };
    scopes.into_iter().map(stream).collect()
}

/// Watches the chart's objects of one kind: in full if their status shows readiness, else their metadata.
pub(super) fn dependents(context: &Context, resource: &Resource, chart: &str) -> Vec<Stream<Live>> {
    let config = paged().labels(&format!("{CHART_LABEL}={}", helm_release::kube::label_value(chart)));
    if has_readiness(resource) {
        let stream = |(scope, api): (Scope, Api<Live>)| Stream { scope, events: watched(api, &config).boxed() };
        return apis(context, resource).into_iter().map(stream).collect();
    }
    let read = |m: PartialObjectMeta<Live>| Some(Live::from_metadata(m.metadata));
    let stream = |(scope, api): (Scope, Api<PartialObjectMeta<Live>>)| Stream {
        scope,
        events: watched(api, &config).filter_map(move |event| ready(reduce(event, read))).boxed(),
    };
    apis(context, resource).into_iter().map(stream).collect()
}

fn paged() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
}

/// The namespaces to watch one by one; `None` stands for all of them, and for cluster-scoped kinds.
fn scopes(context: &Context, namespaced: bool) -> Vec<Option<String>> {
    match &context.config.namespaces.0[..] {
        names if namespaced && !names.is_empty() => names.iter().cloned().map(Some).collect(),
        _ => vec![None],
    }
}

fn scope_of(namespace: Option<&str>) -> Scope {
    namespace.map_or(Scope::ALL, Scope::namespace)
}

fn apis<K>(context: &Context, resource: &Resource) -> Vec<(Scope, Api<K>)>
where
    K: kube::Resource<Scope = kube::core::DynamicResourceScope, DynamicType = ApiResource>,
{
    let kind = api_resource(resource);
    let api = |namespace: Option<String>| match namespace {
        Some(name) => (Scope::namespace(&name), Api::namespaced_with(context.client.clone(), &name, &kind)),
        None => (Scope::ALL, Api::all_with(context.client.clone(), &kind)),
    };
    scopes(context, resource.namespaced).into_iter().map(api).collect()
}

fn watched<K>(
    api: Api<K>,
    config: &watcher::Config,
) -> impl futures::Stream<Item = watcher::Result<Event<K>>> + Send + 'static + use<K>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher::watcher(api, config.clone()).default_backoff()
}

/// Stores custom resources.
pub(super) struct Primaries(pub(super) Arc<Shared>);

impl Sink<Primary> for Primaries {
    fn changed(&self, primary: Primary, epoch: Epoch) {
        self.0.primary_changed(primary, epoch);
    }

    fn deleted(&self, primary: Primary) {
        self.0.primary_deleted(&primary.key(), primary.uid());
    }

    fn sweep(&self, scope: &Scope, list: Epoch) {
        for gone in self.0.cache.unlisted_primaries(scope, list) {
            self.0.primary_deleted(&gone.key(), gone.uid());
        }
    }

    fn description(&self) -> String {
        format!("{} resources", self.0.resource.kind)
    }
}

/// Stores release records.
pub(super) struct Records(pub(super) Arc<Shared>);

impl Sink<RecordMeta> for Records {
    fn changed(&self, meta: RecordMeta, epoch: Epoch) {
        self.0.record_changed(meta, epoch);
    }

    fn deleted(&self, meta: RecordMeta) {
        self.0.record_deleted(&meta);
    }

    fn sweep(&self, scope: &Scope, list: Epoch) {
        self.0.cache.sweep_records(scope, list).into_iter().for_each(|key| self.0.wake(key));
    }

    fn description(&self) -> String {
        "release records".into()
    }
}

/// Stores objects of one kind.
pub(super) struct Dependents(pub(super) Arc<Shared>, pub(super) Arc<Resource>);

impl Sink<Live> for Dependents {
    fn changed(&self, live: Live, epoch: Epoch) {
        self.0.dependent_changed(&self.1, &live, epoch);
    }

    fn deleted(&self, live: Live) {
        self.0.dependent_deleted(&self.1, &live);
    }

    fn sweep(&self, scope: &Scope, list: Epoch) {
        let gone = self.0.cache.sweep_dependents(&self.1, scope, list);
        self.0.cache.kind_synced(&self.1, scope);
        gone.into_iter().for_each(|key| self.0.wake(key));
    }

    fn description(&self) -> String {
        format!("{} {}", self.1.api_version, self.1.kind)
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

/// Maps an event's object; drops the event if the object maps to nothing.
fn reduce<A, B>(
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

/// Whether the status of the kind's objects shows readiness: workloads and the like, and every custom resource.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(api_version: &str, kind: &str) -> Resource {
        Resource { api_version: api_version.into(), kind: kind.into(), plural: "x".into(), namespaced: true }
    }

    #[test]
    fn kinds_without_readiness_are_watched_by_metadata_only() {
        for (api_version, kind, in_full) in [
            ("v1", "Pod", true),
            ("v1", "PersistentVolumeClaim", true),
            ("v1", "ConfigMap", false),
            ("v1", "Secret", false),
            ("apps/v1", "Deployment", true),
            ("batch/v1", "Job", true),
            ("autoscaling/v2", "HorizontalPodAutoscaler", false),
            ("networking.k8s.io/v1", "Ingress", false),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", true),
            ("example.com/v1", "Anything", true),
        ] {
            assert_eq!(has_readiness(&of(api_version, kind)), in_full, "{api_version} {kind}");
        }
    }

    #[test]
    fn events_are_mapped_except_those_of_objects_that_map_to_nothing() {
        let even = |n: u32| n.is_multiple_of(2).then(|| n.to_string());
        let mapped = |event| reduce(event, even).map(|event| format!("{event:?}"));
        for (event, expected) in [
            (Event::Init, Some("Ok(Init)")),
            (Event::InitDone, Some("Ok(InitDone)")),
            (Event::InitApply(2), Some("Ok(InitApply(\"2\"))")),
            (Event::Apply(4), Some("Ok(Apply(\"4\"))")),
            (Event::Delete(6), Some("Ok(Delete(\"6\"))")),
            (Event::InitApply(1), None),
            (Event::Apply(1), None),
            (Event::Delete(1), None),
        ] {
            assert_eq!(mapped(Ok(event)).as_deref(), expected);
        }
        assert_eq!(mapped(Err(watcher::Error::NoResourceVersion)).as_deref(), Some("Err(NoResourceVersion)"));
    }
}
