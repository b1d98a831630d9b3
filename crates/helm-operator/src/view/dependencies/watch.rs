//! Runs the watches of objects that resources wait for.

use std::sync::{Arc, Weak};

use controller::runtime::freshness::Epoch;
use controller::runtime::pages;
use controller::runtime::reflector::{self, Sink, Stream, WatchScope, reduce};
use futures::{StreamExt as _, future};
use helm_release::kube::Resource;
use kube::core::ApiResource;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::registry::Dependencies;
use super::seen::{Portion, Seen, SeenMetadata};
use crate::view::coverage::{KindKey, kind_key};
use crate::view::served;

/// Starts a watch, which ends with the registry.
pub(super) fn start(
    registry: Weak<Dependencies>,
    client: &Client,
    kind: &Arc<Resource>,
    scope: &WatchScope,
    portion: Portion,
) -> AbortOnDropHandle<()> {
    tracing::info!(kind = &*kind.kind, api_version = &*kind.api_version, "Watching objects of dependsOn");
    let mapper = registry.upgrade().map(|registry| registry.mapper.clone());
    let (client, wanted, served) = (client.clone(), scope.clone(), kind.clone());
    let open = move || {
        let (client, wanted) = (client.clone(), wanted.clone());
        let open = move |kind: &Resource| match portion {
            Portion::Metadata => {
                let events = pages::watch(api::<SeenMetadata>(&client, kind, &wanted), watcher::Config::default());
                let whole = |seen: SeenMetadata| Some(Seen::from(seen));
                events.filter_map(move |event| future::ready(reduce(event, whole))).boxed()
            }
            Portion::Whole => pages::watch(api::<Seen>(&client, kind, &wanted), watcher::Config::default()).boxed(),
        };
        match &mapper {
            Some(mapper) => served::watch(mapper.clone(), served.clone(), open),
            None => futures::stream::empty().boxed(),
        }
    };
    let sink = DependencySink { registry, kind: kind.clone(), key: kind_key(kind), portion };
    let stream = Stream::new(scope.clone(), open);
    // A resource waits for what it reads, not for a list.
    AbortOnDropHandle::new(tokio::spawn(reflector::feed(sink, stream, oneshot::channel().0)))
}

fn api<K>(client: &Client, kind: &Resource, scope: &WatchScope) -> Api<K>
where
    K: kube::Resource<Scope = kube::core::DynamicResourceScope, DynamicType = ApiResource>,
{
    let (group, version) = kind.api_version.split_once('/').unwrap_or(("", &kind.api_version));
    let kind = ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: kind.api_version.to_string(),
        kind: kind.kind.to_string(),
        plural: kind.plural.to_string(),
    };
    match scope.only() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    }
}

/// A sink that updates the registry.
struct DependencySink {
    registry: Weak<Dependencies>,
    kind: Arc<Resource>,
    key: KindKey,
    portion: Portion,
}

impl DependencySink {
    fn tell(&self, what: impl FnOnce(&Arc<Dependencies>)) {
        if let Some(registry) = self.registry.upgrade() {
            what(&registry);
        }
    }
}

impl Sink<Seen> for DependencySink {
    fn changed(&self, item: Seen, epoch: Epoch) {
        self.tell(|registry| registry.changed(&self.key, &item, epoch));
    }

    fn deleted(&self, item: Seen) {
        self.tell(|registry| registry.deleted(&self.key, &item));
    }

    fn sweep(&self, scope: &WatchScope, list: Epoch) {
        self.tell(|registry| registry.sweep(&self.key, scope, list, self.portion));
    }

    fn lost(&self, scope: &WatchScope) {
        self.tell(|registry| registry.refused(&self.key, scope, "the server refuses to list or watch them"));
    }

    fn description(&self) -> String {
        format!("{} that resources wait for", self.kind.full_name())
    }
}
