//! Watches a kind as the server serves it: a definition may drop a version, or disappear and come back, perhaps in
//! another scope, while the process runs.

use std::sync::Arc;

use controller::runtime::reflector::is_refused;
use controller::runtime::refusals::Refusals;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use helm_release::kube::{Mapper, Resource};
use kube::runtime::watcher::{self, Event};
use tokio::time::{Instant, sleep};

type Events<T> = BoxStream<'static, watcher::Result<Event<T>>>;

/// Lists and watches a kind with `open`. After a refusal it pauses, determines how the kind is served now, and lists
/// again, because only a list shows what the watch missed.
pub(crate) fn watch<T: Send + 'static>(
    mapper: Arc<Mapper>,
    kind: Arc<Resource>,
    open: impl Fn(&Resource) -> Events<T> + Send + 'static,
) -> Events<T> {
    let watch = KindWatch { mapper, kind, open, running: None, refusals: Refusals::default(), refused: Instant::now() };
    stream::unfold(watch, async |mut watch| Some((watch.next().await?, watch))).boxed()
}

struct KindWatch<F, T> {
    mapper: Arc<Mapper>,
    kind: Arc<Resource>,
    open: F,
    running: Option<Running<T>>,
    refusals: Refusals,
    /// The time of the last refusal.
    refused: Instant,
}

struct Running<T> {
    events: Events<T>,
    since: Instant,
}

impl<F: Fn(&Resource) -> Events<T>, T> KindWatch<F, T> {
    async fn next(&mut self) -> Option<watcher::Result<Event<T>>> {
        if self.running.is_none() {
            sleep(self.refusals.pause()).await;
            if !self.refusals.is_none() {
                self.find_served().await;
            }
        }
        let open = || Running { events: (self.open)(&self.kind), since: Instant::now() };
        let running = self.running.get_or_insert_with(open);
        let event = running.events.next().await?;
        if event.as_ref().is_err_and(is_refused) {
            self.refusals.add(running.since.elapsed());
            (self.running, self.refused) = (None, Instant::now());
        }
        Some(event)
    }

    /// Switches to another version, scope or plural name if the kind is no longer served as it was. Without a response, keeps
    /// this one.
    async fn find_served(&mut self) {
        // Discovery right after the refusal may be older than the change.
        if let Err(error) = self.mapper.refresh_if_older(self.refused.elapsed() / 2).await {
            tracing::debug!(error = controller::report::chain(&error), "Cannot find out which versions are served");
        }
        if let Some(found) = self.mapper.known(&self.kind.api_version, &self.kind.kind)
            && found != self.kind
        {
            let (kind, gone) = (&*found.kind, &*self.kind.api_version);
            let Resource { api_version, plural, namespaced, .. } = &*found;
            tracing::info!(kind, gone, %api_version, %plural, namespaced, "Watching a kind as it is served now");
            self.kind = found;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use helm_release::kube::{Live, MemoryApi};

    use super::*;

    fn refused(code: u16) -> watcher::Result<Event<Live>> {
        let status = kube::core::Status::failure("no", "no").with_code(code);
        Err(watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status))))
    }

    /// The events of one run of a watch, and the time until they arrive.
    type Run = (Duration, Vec<watcher::Result<Event<Live>>>);

    /// Returns a watch of Gear in v1 with these runs, and the versions in which it was opened.
    fn gears(server: &Arc<MemoryApi>, runs: Vec<Run>) -> (Events<Live>, Arc<Mutex<Vec<String>>>) {
        let opened = Arc::<Mutex<Vec<String>>>::default();
        let (log, runs) = (opened.clone(), Mutex::new(runs.into_iter()));
        let open = move |kind: &Resource| {
            let scope = if kind.namespaced { "" } else { " in the cluster" };
            log.lock().unwrap().push(format!("{}{scope}", kind.api_version));
            let (after, events) = runs.lock().unwrap().next().unwrap_or_default();
            let late = stream::once(sleep(after)).flat_map(move |()| stream::iter(Vec::new()));
            late.chain(stream::iter(events)).chain(stream::pending()).boxed()
        };
        let kind =
            Resource { api_version: "x.y/v1".into(), kind: "Gear".into(), plural: "gears".into(), namespaced: true };
        (watch(Arc::new(Mapper::new(server.clone())), Arc::new(kind), open), opened)
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_refusal_the_kind_is_listed_in_the_version_that_is_served() {
        let server = Arc::new(MemoryApi::new());
        server.serve("x.y/v1", "Gear", "gears");
        server.serve("x.y/v2", "Gear", "gears");
        let list = || vec![Ok(Event::Init), Ok(Event::InitDone)];
        let lost = |code| list().into_iter().chain([refused(code)]).collect();
        let runs = [lost(403), lost(404), list()].map(|events| (Duration::ZERO, events));
        let (mut events, opened) = gears(&server, runs.into());
        for _ in 0..3 {
            _ = events.next().await;
        }
        assert_eq!(*opened.lock().unwrap(), ["x.y/v1"]);
        assert!(matches!(events.next().await, Some(Ok(Event::Init))));
        assert_eq!(*opened.lock().unwrap(), ["x.y/v1"; 2], "it is served");
        server.unserve("x.y/v1", "Gear");
        let rest: Vec<_> = (&mut events).take(4).collect().await;
        assert!(matches!(&rest[..], [Ok(Event::InitDone), Err(_), Ok(Event::Init), Ok(Event::InitDone)]), "{rest:?}");
        assert_eq!(*opened.lock().unwrap(), ["x.y/v1", "x.y/v1", "x.y/v2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_refusal_the_kind_is_listed_in_the_scope_that_is_served() {
        let server = Arc::new(MemoryApi::new());
        server.serve("x.y/v1", "Gear", "gears");
        let runs = [vec![refused(404)], vec![Ok(Event::Init), Ok(Event::InitDone)]];
        let (mut events, opened) = gears(&server, runs.map(|events| (Duration::ZERO, events)).into());
        assert!(events.next().await.unwrap().is_err());
        server.serve_cluster_scoped("x.y/v1", "Gear", "gears");
        assert!(matches!(events.next().await, Some(Ok(Event::Init))));
        assert_eq!(*opened.lock().unwrap(), ["x.y/v1", "x.y/v1 in the cluster"]);
    }

    /// Returns when each of this many refusals arrives, in seconds.
    async fn seconds(events: &mut Events<Live>, refusals: usize) -> Vec<u64> {
        let (began, mut seconds) = (Instant::now(), Vec::new());
        for _ in 0..refusals {
            assert!(events.next().await.unwrap().is_err());
            seconds.push(began.elapsed().as_secs());
        }
        seconds
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_retried_at_growing_intervals() {
        let server = Arc::new(MemoryApi::new());
        let runs = (0..10).map(|_| (Duration::ZERO, vec![refused(404)])).collect();
        let (mut events, _) = gears(&server, runs);
        assert_eq!(seconds(&mut events, 10).await, [0, 0, 1, 3, 7, 15, 31, 61, 91, 121]);
        assert!(server.log().len() <= 2 * 10, "one discovery each: {:?}", server.log());
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_held_ends_the_count() {
        let server = Arc::new(MemoryApi::new());
        let holds = [0, 0, 0, 0, 6, 0].map(|seconds| (Duration::from_secs(seconds), vec![refused(404)]));
        let (mut events, _) = gears(&server, holds.into());
        assert_eq!(seconds(&mut events, 6).await, [0, 0, 1, 3, 13, 14]);
    }
}
