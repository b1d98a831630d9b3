//! Runs the watches of objects that resources wait for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use controller::runtime::freshness::Epoch;
use controller::runtime::pages;
use controller::runtime::reflector::{self, EventHandler, Stream, WatchScope, mapped};
use futures::{StreamExt as _, stream};
use helm_release::kube::Resource;
use kube::Client;
use kube::core::ApiResource;
use kube::runtime::watcher;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::registry::Dependencies;
use super::seen::{Portion, Seen, SeenMetadata};
use crate::view::coverage::{KindKey, kind_key};
use crate::view::served;

/// Starts a watch, which ends with the registry. It shows metadata until `shows_whole` is cancelled, and then lists the
/// whole objects. That is another list in the same stream, so it shows what the watch has missed.
pub(super) fn start(
    registry: Weak<Dependencies>,
    client: &Client,
    kind: &Arc<Resource>,
    scope: &WatchScope,
    shows_whole: &CancellationToken,
) -> AbortOnDropHandle<()> {
    tracing::info!(kind = &*kind.kind, api_version = &*kind.api_version, "Watching objects of dependsOn");
    let mapper = registry.upgrade().map(|registry| registry.mapper.clone());
    let (client, wanted, served, until) = (client.clone(), scope.clone(), kind.clone(), shows_whole.clone());
    let is_whole = Arc::<AtomicBool>::default();
    let shown = is_whole.clone();
    let open = move || {
        let (client, wanted, until, is_whole) = (client.clone(), wanted.clone(), until.clone(), is_whole.clone());
        let open = move |kind: &Resource| {
            let kind = ApiResource::from(kind);
            let metadata = pages::watch(wanted.api::<SeenMetadata>(&client, &kind), watcher::Config::default());
            let metadata = mapped(metadata, |seen| Some(Seen::from(seen)));
            let (whole, is_whole) = (wanted.api::<Seen>(&client, &kind), is_whole.clone());
            let whole = stream::once(async move {
                is_whole.store(true, Ordering::Relaxed);
                pages::watch(whole, watcher::Config::default())
            });
            metadata.take_until(until.clone().cancelled_owned()).chain(whole.flatten()).boxed()
        };
        match &mapper {
            Some(mapper) => served::watch(mapper.clone(), served.clone(), open),
            None => stream::empty().boxed(),
        }
    };
    let handler = DependencyHandler { registry, kind: kind.clone(), key: kind_key(kind), is_whole: shown };
    let stream = Stream::new(scope.clone(), open);
    // A resource waits for what it reads, not for a list.
    AbortOnDropHandle::new(tokio::spawn(reflector::run(handler, stream, oneshot::channel().0)))
}

/// A handler that updates the registry.
struct DependencyHandler {
    registry: Weak<Dependencies>,
    kind: Arc<Resource>,
    key: KindKey,
    /// Whether the stream has begun to show whole objects.
    is_whole: Arc<AtomicBool>,
}

impl DependencyHandler {
    fn with_registry(&self, what: impl FnOnce(&Arc<Dependencies>)) {
        if let Some(registry) = self.registry.upgrade() {
            what(&registry);
        }
    }
}

impl EventHandler<Seen> for DependencyHandler {
    fn changed(&self, item: Seen, epoch: Epoch) {
        self.with_registry(|registry| registry.changed(&self.key, &item, epoch));
    }

    fn deleted(&self, item: Seen) {
        self.with_registry(|registry| registry.deleted(&self.key, &item));
    }

    fn sweep(&self, scope: &WatchScope, list: Epoch) {
        let portion = if self.is_whole.load(Ordering::Relaxed) { Portion::Whole } else { Portion::Metadata };
        self.with_registry(|registry| registry.sweep(&self.key, scope, list, portion));
    }

    fn lost(&self, scope: &WatchScope) {
        self.with_registry(|registry| registry.refused(&self.key, scope, "the server refuses to list or watch them"));
    }

    fn description(&self) -> String {
        format!("{} that resources wait for", self.kind.full_name())
    }
}
