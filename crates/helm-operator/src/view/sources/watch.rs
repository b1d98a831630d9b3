//! Runs the metadata watches of Secrets and ConfigMaps.
//!
//! The server leaves out release records, which are by far the most and the largest Secrets.

use std::sync::{Arc, Weak};

use controller::runtime::freshness::Epoch;
use controller::runtime::pages;
use controller::runtime::reflector::{self, EventHandler, Stream, WatchScope, mapped};
use helm_release::storage::SECRET_TYPE;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use kube::runtime::watcher;
use kube::{Api, Client};
use outside::{Head, Headed};
use serde::Deserialize;
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
    let stream = stream(client, kind, scope);
    let handler = SourceHandler { sources, kind };
    // A resource waits for what it reads, not for a list.
    AbortOnDropHandle::new(tokio::spawn(reflector::run(handler, stream, oneshot::channel().0)))
}

fn stream(client: &Client, kind: SourceKind, scope: &WatchScope) -> Stream<SourceMeta> {
    let resource = match kind {
        SourceKind::Secret => ApiResource::erase::<Secret>(&()),
        SourceKind::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
    };
    let api: Api<Source> = scope.api(client, &resource);
    let config = watcher::Config::default();
    let config = match kind {
        SourceKind::Secret => config.fields(&format!("type!={SECRET_TYPE}")),
        SourceKind::ConfigMap => config,
    };
    let read = move |source: Source| SourceMeta::read(kind, source.metadata);
    Stream::new(scope.clone(), move || mapped(pages::watch(api.clone(), config.clone()), read))
}

/// The metadata of a Secret or ConfigMap, as far as it is needed. It skips the managed fields: whoever may write the
/// object may nest them so deeply that they cannot be read, and one such object would end the list.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Headed")]
struct Source {
    metadata: ObjectMeta,
}

outside::dynamic_resource!(Source, metadata only);

impl From<Headed> for Source {
    fn from(Headed { metadata }: Headed) -> Source {
        let Head { name, namespace, resource_version, .. } = metadata;
        Source { metadata: ObjectMeta { name, namespace, resource_version, ..ObjectMeta::default() } }
    }
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

#[cfg(test)]
mod tests {
    use kube::api::ObjectList;

    use super::*;

    #[test]
    fn a_source_with_deeply_nested_managed_fields_hides_no_other() {
        let deep = format!("{}{{}}{}", "{\"f:a\":".repeat(600), "}".repeat(600));
        let source = |name: &str, managed: &str| {
            let version = format!(r#""name":"{name}","namespace":"ns","resourceVersion":"7""#);
            format!(r#"{{"metadata":{{{version},"managedFields":[{{"fieldsV1":{managed}}}]}}}}"#)
        };
        let items = [source("a", &deep), source("b", "{}")].join(",");
        let list: ObjectList<Source> =
            serde_json::from_str(&format!(r#"{{"metadata":{{}},"items":[{items}]}}"#)).unwrap();
        let read = |source: Source| SourceMeta::read(SourceKind::Secret, source.metadata).unwrap();
        let read: Vec<SourceMeta> = list.items.into_iter().map(read).collect();
        let names: Vec<&str> = read.iter().map(|source| &*source.key.name).collect();
        assert_eq!((names, read.iter().all(|source| source.version == 7)), (vec!["a", "b"], true));
    }
}
