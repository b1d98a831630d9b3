//! Runs the metadata watches of Secrets and ConfigMaps.
//!
//! The server leaves out release records, which are by far the most and the largest Secrets.

use std::sync::{Arc, Weak};

use controller::runtime::freshness::Epoch;
use controller::runtime::pages;
use controller::runtime::reflector::{self, EventHandler, Stream, WatchScope, reduce};
use futures::{StreamExt as _, future};
use helm_release::storage::SECRET_TYPE;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{NamespaceResourceScope, PartialObjectMeta};
use kube::runtime::watcher;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::registry::Sources;
use crate::values_from::{SourceKey, SourceKind};

/// A running watch.
pub(crate) type Watcher = AbortOnDropHandle<()>;

/// An object's name and resource version.
pub(crate) struct SourceMeta {
    pub(crate) key: SourceKey,
    pub(crate) version: u64,
}

/// Starts a watch, which ends with the registry.
pub(crate) fn start(sources: Weak<Sources>, client: &Client, kind: SourceKind, scope: &WatchScope) -> Watcher {
    tracing::info!(kind = kind.as_str(), "Watching sources of values");
    let stream = match kind {
        SourceKind::Secret => stream::<Secret>(client, kind, scope),
        SourceKind::ConfigMap => stream::<ConfigMap>(client, kind, scope),
    };
    let handler = SourceHandler { sources, kind };
    // A resource waits for what it reads, not for a list.
    AbortOnDropHandle::new(tokio::spawn(reflector::run(handler, stream, oneshot::channel().0)))
}

fn stream<K>(client: &Client, kind: SourceKind, scope: &WatchScope) -> Stream<SourceMeta>
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let api: Api<PartialObjectMeta<K>> = match scope.only() {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let config = watcher::Config::default();
    let config = match kind {
        SourceKind::Secret => config.fields(&format!("type!={SECRET_TYPE}")),
        SourceKind::ConfigMap => config,
    };
    let read = move |object: PartialObjectMeta<K>| SourceMeta::read(kind, object.metadata);
    let open = move || {
        let events = pages::watch(api.clone(), config.clone());
        events.filter_map(move |event| future::ready(reduce(event, read))).boxed()
    };
    Stream::new(scope.clone(), open)
}

impl SourceMeta {
    pub(crate) fn read(kind: SourceKind, metadata: ObjectMeta) -> Option<SourceMeta> {
        let key = SourceKey { kind, namespace: metadata.namespace?.into(), name: metadata.name?.into() };
        Some(SourceMeta { key, version: metadata.resource_version?.parse().ok()? })
    }
}

/// A handler that updates the registry.
pub(crate) struct SourceHandler {
    pub(crate) sources: Weak<Sources>,
    pub(crate) kind: SourceKind,
}

impl SourceHandler {
    fn with_sources(&self, what: impl FnOnce(&Arc<Sources>)) {
        if let Some(sources) = self.sources.upgrade() {
            what(&sources);
        }
    }
}

impl EventHandler<SourceMeta> for SourceHandler {
    fn changed(&self, item: SourceMeta, epoch: Epoch) {
        self.with_sources(|sources| sources.changed(&item.key, item.version, epoch));
    }

    fn deleted(&self, item: SourceMeta) {
        self.with_sources(|sources| sources.deleted(&item.key, item.version));
    }

    fn sweep(&self, scope: &WatchScope, list: Epoch) {
        self.with_sources(|sources| sources.sweep(self.kind, scope, list));
    }

    fn lost(&self, scope: &WatchScope) {
        self.with_sources(|sources| sources.refused(self.kind, scope, "the server refuses to list or watch them"));
    }

    fn description(&self) -> String {
        format!("{}s that hold values", self.kind.as_str())
    }
}
