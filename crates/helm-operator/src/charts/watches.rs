//! Creates the process's lists and watches: resources, release records, and objects by kind, with one stream per
//! namespace.

use std::collections::BTreeSet;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use controller::client::sharded;
use controller::context::Context;
use controller::report::chain;
use controller::runtime::namespaces::Namespaces;
use controller::runtime::pages;
use controller::runtime::readiness::{self, LISTING, Readiness};
use controller::runtime::reflector::{Stream, WatchScope, is_refused, mapped};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use helm_release::kube::{CHART_LABEL, Live, LiveMetadata, Mapper, Resource, Whole, label_value};
use helm_release::storage::{Keyring, RecordMeta, RecordSecret, SELECTOR};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::core::{ApiResource, Expression, Selector};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use outside::sync;

use super::cluster::Cluster;
use crate::dependencies::shows_readiness;
use crate::view::informers::Source;
use crate::view::primary::Received;
use crate::view::served;
use crate::watches::Expressions;

/// The age up to which discovery still shows whether a refused kind is served.
const DISCOVERED: Duration = Duration::from_secs(10);

/// Watches the custom resources; in a ring, those that are assigned to this shard; with a shard selector, its range.
pub(crate) fn primaries(context: &Context, resource: &Resource, selector: &Selector) -> Vec<Stream<Received>> {
    let ring = context.config.ring.as_ref();
    let own = ring.map(|ring| Expression::Equal(ring.shard_label().to_owned(), ring.shard().to_owned()));
    let selector: Selector = selector.clone().into_iter().chain(own).collect();
    let config = watcher::Config::default().labels_from(&selector);
    let range = &context.config.shard_selector;
    let client = sharded(context.client.clone(), range.as_ref());
    let what = readiness::kind(&resource.kind, &resource.api_version);
    let mapper = Cluster::of(context).applier.mapper.clone();
    let stream = |scope: WatchScope| {
        let api: Api<Received> = scope.api(&client, &resource.into());
        let requirement = context.readiness.require_to_reconcile(&scope.of(&what), LISTING);
        let (config, range, mapper) = (config.clone(), range.clone(), mapper.clone());
        let open = move || {
            let (events, mapper) = (pages::watch(api.clone(), config.clone()).within(range.clone()), mapper.clone());
            events.then(move |event| after_discovery(mapper.clone(), event)).boxed()
        };
        Stream::new(scope, open).required(requirement)
    };
    scopes(&context.config.namespaces, resource).into_iter().map(stream).collect()
}

/// Reads discovery before it passes a refusal on, to find out whether the kind is served at all.
async fn after_discovery<T>(mapper: Arc<Mapper>, event: watcher::Result<Event<T>>) -> watcher::Result<Event<T>> {
    if event.as_ref().is_err_and(is_refused)
        && let Err(error) = mapper.refresh_if_older(DISCOVERED).await
    {
        tracing::debug!(error = chain(&error), "Cannot find out which kinds are served");
    }
    event
}

/// Watches the metadata of release records. Lists them again when their keys are replaced, because other records may
/// be proven then.
pub(crate) fn records(
    client: &Client,
    namespaces: &Namespaces,
    readiness: &Readiness,
    keys: &Keyring,
) -> Vec<Stream<RecordMeta>> {
    let config = watcher::Config::default().labels(SELECTOR);
    let stream = |scope: WatchScope| {
        let api: Api<RecordSecret> = scope.api(client, &ApiResource::erase::<Secret>(&()));
        let (keys, config) = (keys.clone(), config.clone());
        let open = move || {
            let (api, keys, config) = (api.clone(), keys.clone(), config.clone());
            let list = move || {
                let (read_with, replaced) = (keys.clone(), keys.replaced().boxed());
                let read = move |secret: RecordSecret| secret.record(&read_with);
                mapped(pages::watch(api.clone(), config.clone()).take_until(replaced), read)
            };
            stream::repeat_with(list).flatten().boxed()
        };
        let requirement = readiness.require_to_reconcile(&scope.of("release records (Secrets)"), LISTING);
        Stream::new(scope, open).required(requirement)
    };
    namespaces.scopes().into_iter().map(stream).collect()
}

/// The source of charts' objects, by kind: with their status if it shows readiness, otherwise their metadata.
pub(crate) struct Objects {
    pub(crate) client: Client,
    pub(crate) mapper: Arc<Mapper>,
    pub(crate) namespaces: Namespaces,
    pub(crate) whole: Arc<WholeKinds>,
}

/// The kinds that expressions of watches.yaml name.
#[derive(Default)]
pub(crate) struct WholeKinds(RwLock<Vec<Expressions>>);

impl WholeKinds {
    pub(crate) fn add(&self, expressions: Expressions) {
        sync::write(&self.0).push(expressions);
    }

    fn has(&self, kind: &Resource) -> bool {
        let all = sync::read(&self.0);
        all.iter().any(|e| e.has_rule(kind.group(), &kind.kind) || e.reads(kind.group(), &kind.kind))
    }
}

impl Source for Objects {
    fn scopes(&self, kind: &Resource) -> Vec<WatchScope> {
        scopes(&self.namespaces, kind)
    }

    fn watch(&self, kind: &Arc<Resource>, scope: &WatchScope, charts: &BTreeSet<String>) -> Stream<Live> {
        let config = watcher::Config::default().labels_from(&of_charts(charts));
        let (client, shape, wanted) = (self.client.clone(), self.shape(kind), scope.clone());
        let (mapper, kind) = (self.mapper.clone(), kind.clone());
        let open = move || {
            let (client, wanted, config) = (client.clone(), wanted.clone(), config.clone());
            let open = move |kind: &Resource| shape.watch(&client, kind, &wanted, config.clone());
            served::watch(mapper.clone(), kind.clone(), open)
        };
        Stream::new(scope.clone(), open)
    }

    fn list(
        &self,
        kind: &Arc<Resource>,
        scope: &WatchScope,
        charts: &BTreeSet<String>,
    ) -> BoxStream<'static, Result<Vec<Live>, kube::Error>> {
        let kind = &self.mapper.known(&kind.api_version, &kind.kind).unwrap_or_else(|| kind.clone());
        self.shape(kind).list(&self.client, kind, scope, ListParams::default().labels_from(&of_charts(charts)))
    }
}

impl Objects {
    fn shape(&self, kind: &Resource) -> Shape {
        match has_readiness(kind) {
            _ if self.whole.has(kind) => Shape::Whole,
            true => Shape::Status,
            false => Shape::Metadata,
        }
    }
}

/// How much of a kind's objects is read.
#[derive(Clone, Copy)]
enum Shape {
    /// Everything, for expressions.
    Whole,
    /// Metadata, and the fields that show readiness.
    Status,
    Metadata,
}

impl Shape {
    fn watch(
        self,
        client: &Client,
        kind: &Resource,
        scope: &WatchScope,
        config: watcher::Config,
    ) -> BoxStream<'static, watcher::Result<Event<Live>>> {
        let kind = &ApiResource::from(kind);
        match self {
            Shape::Whole => mapped(pages::watch(scope.api::<Whole>(client, kind), config), |whole| Some(whole.live)),
            Shape::Status => pages::watch(scope.api::<Live>(client, kind), config).boxed(),
            Shape::Metadata => {
                mapped(pages::watch(scope.api::<LiveMetadata>(client, kind), config), |metadata| Some(metadata.into()))
            }
        }
    }

    fn list(
        self,
        client: &Client,
        kind: &Resource,
        scope: &WatchScope,
        wanted: ListParams,
    ) -> BoxStream<'static, Result<Vec<Live>, kube::Error>> {
        let kind = &ApiResource::from(kind);
        match self {
            Shape::Whole => pages::in_pages(scope.api::<Whole>(client, kind), wanted, |whole| Some(whole.live)).boxed(),
            Shape::Status => pages::in_pages(scope.api::<Live>(client, kind), wanted, Some).boxed(),
            Shape::Metadata => {
                let api = scope.api::<LiveMetadata>(client, kind);
                pages::in_pages(api, wanted, |metadata| Some(Live::from(metadata))).boxed()
            }
        }
    }
}

fn of_charts(charts: &BTreeSet<String>) -> Selector {
    let labels: BTreeSet<String> = charts.iter().map(|chart| label_value(chart).to_owned()).collect();
    Selector::from(match labels.len() {
        1 => Expression::Equal(CHART_LABEL.into(), labels.into_iter().collect()),
        _ => Expression::In(CHART_LABEL.into(), labels),
    })
}

fn scopes(namespaces: &Namespaces, kind: &Resource) -> Vec<WatchScope> {
    if kind.namespaced { namespaces.scopes() } else { vec![WatchScope::ALL] }
}

fn has_readiness(resource: &Resource) -> bool {
    shows_readiness(resource.group(), &resource.kind)
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
    fn watches_of_metadata_ask_for_nothing_else_and_keep_what_full_ones_would() {
        assert!(<LiveMetadata as kube::Resource>::metadata_api() && <RecordSecret as kube::Resource>::metadata_api());
        assert!(!<Live as kube::Resource>::metadata_api());
        let object = serde_json::json!({"metadata": {
            "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "web"},
            "managedFields": [{"manager": "helm-operator", "operation": "Apply", "fieldsV1": {"f:data": {}}}],
        }});
        let only: LiveMetadata = serde_json::from_value(object.clone()).unwrap();
        let full: Live = serde_json::from_value(object).unwrap();
        let only = Live::from(only);
        assert!(only.mark.is_some() && only.unready("example.com", "Anything").is_none());
        assert_eq!((only.mark, only.metadata), (full.mark, full.metadata));
        assert_eq!((only.managed_by.as_deref(), only.release_name.as_deref()), (Some("Helm"), Some("web")));
    }

    fn keys() -> Keyring {
        super::super::tests::keys()
    }

    #[test]
    fn a_record_is_read_from_its_metadata_without_managed_fields() {
        let labels = serde_json::json!({"owner": "helm", "name": "web", "version": "2", "status": "deployed"});
        let name = "sh.helm.release.v1.web.v2";
        let metadata = serde_json::json!({
            "name": name, "namespace": "ns", "resourceVersion": "7", "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "x"}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "web", "uid": "u"}],
        });
        let secret: RecordSecret = serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap();
        let whole = RecordMeta::read(&serde_json::from_value(metadata).unwrap(), &keys()).unwrap();
        assert_eq!(format!("{:?}", secret.record(&keys()).unwrap()), format!("{whole:?}"));
        assert_eq!((whole.version, &*whole.owners), (2, &["u".to_owned()][..]));
    }
}
