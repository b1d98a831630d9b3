//! Watches the objects of a controller's releases: each kind for every chart whose label they may have. A kind may be
//! requested at any time, and so may a chart.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::First;
use helm_release::kube::Resource;
use tokio::task::{AbortHandle, JoinSet};

use super::handlers::Dependents;
use crate::reconcile::controller_context::{ControllerContext, WatchRequest};
use crate::view::chart_names;
use crate::view::informers::{Informers, Subscriber};

/// How long a resource waits for the first list of a kind in its release.
pub(crate) const FIRST_LISTS: Duration = Duration::from_secs(30);

/// The watches of a controller's objects. The watches of the process feed them for as long as this exists.
pub(super) struct ObjectWatches<'s> {
    shared: &'s Arc<ControllerContext>,
    informers: Arc<Informers>,
    kinds: Vec<Watched>,
}

/// A kind whose objects the watches of the process feed.
struct Watched {
    kind: Arc<Resource>,
    /// The number of charts that it selects.
    charts: usize,
    /// Held so that the watch feeds it.
    _subscriber: Subscriber,
    /// The task that waits for its first lists.
    lists: AbortHandle,
}

impl<'s> ObjectWatches<'s> {
    /// Returns the watches before any kind is requested.
    pub(super) fn new(shared: &'s Arc<ControllerContext>, informers: Arc<Informers>) -> ObjectWatches<'s> {
        shared.charts.begin(charts(shared));
        ObjectWatches { shared, informers, kinds: Vec::new() }
    }

    /// Adds the requested kinds and charts to the watches.
    pub(super) fn cover(&mut self, request: WatchRequest, tasks: &mut JoinSet<()>) {
        match request {
            WatchRequest::Kind(kind) => self.watch(kind, tasks),
            WatchRequest::Chart => self.watch_again(tasks),
        }
    }

    /// Watches the objects of a kind, and wakes their resources once these are listed.
    fn watch(&mut self, kind: Arc<Resource>, tasks: &mut JoinSet<()>) {
        tracing::info!(kind = &*kind.kind, api_version = &*kind.api_version, "Watching dependent resource");
        let charts = self.shared.charts.names();
        self.shared.cache.watch_kind_in(&kind, self.informers.scopes(&kind), charts.len());
        let subscriber: Subscriber = Arc::new(Dependents(self.shared.clone(), kind.clone(), charts.len()));
        let listed = self.informers.subscribe(&kind, &charts, &subscriber);
        let (shared, of) = (self.shared.clone(), kind.clone());
        let lists = tasks.spawn(async move { await_lists(&shared, &of, listed).await });
        self.kinds.push(Watched { kind, charts: charts.len(), _subscriber: subscriber, lists });
    }

    /// Watches the objects of an added chart, too. The resource whose release has had it came after the first lists.
    fn watch_again(&mut self, tasks: &mut JoinSet<()>) {
        let charts = self.shared.charts.names().len();
        let narrow: Vec<Watched> = self.kinds.extract_if(.., |watched| watched.charts < charts).collect();
        // The earlier subscribers end first: the end of a list of fewer charts would remove the objects of the others.
        // The lists that follow show what happens in between, and resources wait for those.
        narrow.iter().for_each(|watched| watched.lists.abort());
        let kinds: Vec<_> = narrow.into_iter().map(|watched| watched.kind).collect();
        kinds.into_iter().for_each(|kind| self.watch(kind, tasks));
    }
}

/// Returns the charts whose label the objects of known releases may have. Until its upgrade, a release has that of the
/// chart that it was deployed with. The upgrade writes all objects, but an earlier version of this operator may have
/// left those that the chart renders as before.
fn charts(shared: &ControllerContext) -> BTreeSet<String> {
    let primaries = shared.cache.primaries();
    let charts = primaries.iter().map(|primary| primary.status.charts());
    chart_names::of_releases(shared.renderer.chart_name(), charts)
}

/// Wakes the resources with objects of a kind once its first lists are complete, and once before if that takes long.
pub(crate) async fn await_lists(shared: &ControllerContext, kind: &Resource, listed: impl Future<Output = First>) {
    let mut listed = pin!(listed);
    let first = tokio::time::timeout(FIRST_LISTS, &mut listed).await.ok();
    end_wait(shared, kind, first);
    if first.is_none() {
        end_wait(shared, kind, Some(listed.await));
    }
}

/// Ends the wait for the list of a kind. Wakes the resources that waited, even if their releases have no object of that
/// kind any longer, and those with objects of it: drift from before the first list is known only after it.
fn end_wait(shared: &ControllerContext, kind: &Resource, first: Option<First>) {
    let mut woken: BTreeSet<ResourceKey> = shared.cache.kind_listed(kind, first).into_iter().collect();
    // The store of a resource wakes it.
    woken.retain(|key| shared.cache.primary(key).is_some());
    woken.extend(shared.cache.resources_with(kind));
    woken.into_iter().for_each(|key| shared.wake(key));
}
