//! Lists in pages, whose sizes [`PAGE`] leaves to the client. Lists again when the server cannot resume a watch from
//! the last seen version, after a list failed, after the server refused a watch, and after it sent an object that the
//! process does not serve, or an event that cannot be decoded.

use std::fmt::Debug;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{self, BoxStream, Stream, StreamExt as _, TryStreamExt as _};
use kube::Api;
use kube::api::ListParams;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use outside::PAGE;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::reflector;
use super::refusals::Refusals;
use super::shard_selector::{NotHonoured, ShardSelector};

/// Lists and watches objects repeatedly. Pauses after errors.
pub fn watch<K>(api: Api<K>, config: watcher::Config) -> Pages<K>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let open = move || watcher::watcher(api.clone(), config.clone().page_size(PAGE)).default_backoff().boxed();
    let accepts = Box::new(|_: &K| true);
    let (opened, [failed, refusals, unknown]) = (Instant::now(), [Refusals::default(); 3]);
    Pages { events: open(), open: Box::new(open), accepts, opened, listed: opened, failed, refusals, unknown }
}

/// List and watch events of a kind.
pub struct Pages<K> {
    open: Box<dyn Fn() -> Events<K> + Send>,
    events: Events<K>,
    /// Returns whether the server may send an object.
    accepts: Box<dyn Fn(&K) -> bool + Send>,
    /// When the current list started.
    opened: Instant,
    /// When the last list ended.
    listed: Instant,
    /// Counts lists that failed in a row.
    failed: Refusals,
    refusals: Refusals,
    /// Counts watches that could not begin at the version of the list before them.
    unknown: Refusals,
}

type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

impl<K: kube::Resource + Send + 'static> Pages<K> {
    /// Passes on only objects that the selector selects. A server that sends another does not honour the selector: its
    /// list or watch ends with an error, and another list begins after a pause.
    #[must_use]
    pub fn within(self, selector: Option<ShardSelector>) -> Pages<K> {
        let Some(selector) = selector else { return self };
        let accepts = move |object: &K| {
            let meta = object.meta();
            selector.selects(meta.uid.as_deref().unwrap_or_default(), meta.namespace.as_deref().unwrap_or_default())
        };
        Pages { accepts: Box::new(accepts), ..self }
    }
}

impl<K: Send + 'static> Pages<K> {
    /// Lists again: at once after a watch, and after a pause if the server does not even know the version of the list that
    /// has just ended. kube would ask for the same version over and over.
    fn open_anew(&mut self) {
        self.unknown.add_if_soon(self.listed.elapsed());
        self.open_after(self.unknown.pause());
    }

    /// Returns whether the event has an object that the server must not send.
    fn is_foreign(&self, event: &watcher::Result<Event<K>>) -> bool {
        match event {
            Ok(Event::InitApply(object) | Event::Apply(object) | Event::Delete(object)) => !(self.accepts)(object),
            Ok(Event::Init | Event::InitDone) | Err(_) => false,
        }
    }

    /// Lists again after a pause, from the first page. Only a complete list resets the count: any other may have taken
    /// long, and failed at its last page.
    fn open_after_failure(&mut self) {
        self.failed.add(Duration::ZERO);
        self.open_after(self.failed.pause());
    }

    /// Lists again after a pause. Only a successful list proves that the refusal is over.
    fn open_after_refusal(&mut self) {
        self.refusals.add(self.opened.elapsed());
        self.open_after(self.refusals.pause());
    }

    fn open_after(&mut self, pause: Duration) {
        let events = (self.open)();
        self.events = sleep(pause).map(|()| events).flatten_stream().boxed();
        self.opened = Instant::now() + pause;
    }
}

/// Returns whether an event could not be decoded. kube would continue with the next one and miss this one. It reads a
/// JSON object that is not an event as a `Status`, whose fields are all optional.
fn is_undecodable(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchFailed(kube::Error::SerdeError(_) | kube::Error::Api(_)))
}

impl<K: Send + 'static> Stream for Pages<K> {
    type Item = watcher::Result<Event<K>>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.events.poll_next_unpin(task);
        match &polled {
            Poll::Ready(Some(event)) if self.is_foreign(event) => {
                self.open_after_refusal();
                let error = kube::Error::Service(Box::new(NotHonoured));
                return Poll::Ready(Some(Err(watcher::Error::InitialListFailed(error))));
            }
            // kube ends its own pauses as soon as a list starts.
            Poll::Ready(Some(Err(watcher::Error::InitialListFailed(_)))) => self.open_after_failure(),
            // kube lists again after an expired watch, but not if the server refuses to start one.
            Poll::Ready(Some(Err(error))) if reflector::is_expired(error) => self.open_anew(),
            Poll::Ready(Some(Err(watcher::Error::NoResourceVersion))) => self.open_after_refusal(),
            Poll::Ready(Some(Err(error))) if reflector::is_refused(error) => self.open_after_refusal(),
            Poll::Ready(Some(Err(error))) if is_undecodable(error) => self.open_after_refusal(),
            Poll::Ready(Some(Ok(Event::InitDone))) => {
                (self.listed, self.failed) = (Instant::now(), Refusals::default());
            }
            _ => {}
        }
        polled
    }
}

/// Lists objects, mapped by `read`.
pub async fn list<K, T>(api: Api<K>, wanted: ListParams, read: impl Fn(K) -> Option<T>) -> Result<Vec<T>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    in_pages(api, wanted, read).try_concat().await
}

/// Lists objects, mapped by `read`. Requests each page only when the stream is polled for it. The stream ends after an
/// error.
pub fn in_pages<K, T>(
    api: Api<K>,
    wanted: ListParams,
    read: impl Fn(K) -> Option<T>,
) -> impl Stream<Item = Result<Vec<T>, kube::Error>>
where
    K: Clone + DeserializeOwned + Debug,
{
    stream::try_unfold((Some(wanted.limit(PAGE)), api, read), |(wanted, api, read)| async move {
        let Some(mut wanted) = wanted else { return Ok(None) };
        let page = api.list(&wanted).await?;
        let items: Vec<T> = page.items.into_iter().filter_map(&read).collect();
        wanted.continue_token = page.metadata.continue_.filter(|more| !more.is_empty());
        let next = wanted.continue_token.is_some().then_some(wanted);
        Ok::<_, kube::Error>(Some((items, (next, api, read))))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::client::{Hop, connect_over};
    use crate::lease::Term;
    use crate::metrics::Metrics;
    use crate::runtime::freshness::Epoch;
    use crate::runtime::reflector::{self, EventHandler, WatchScope};

    type Asked = Arc<Mutex<Vec<String>>>;

    /// Names in the cache, which is filled like a controller's.
    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<BTreeMap<String, Epoch>>>);

    impl EventHandler<ConfigMap> for Names {
        fn changed(&self, item: ConfigMap, epoch: Epoch) {
            self.0.lock().unwrap().insert(item.metadata.name.unwrap(), epoch);
        }

        fn deleted(&self, item: ConfigMap) {
            self.0.lock().unwrap().remove(&item.metadata.name.unwrap());
        }

        fn sweep(&self, _: &WatchScope, list: Epoch) {
            self.0.lock().unwrap().retain(|_, epoch| epoch.number == list.number);
        }

        fn description(&self) -> String {
            "names".into()
        }
    }

    /// An event of an object that is no ConfigMap.
    const UNDECODABLE: &str =
        r#"{"type": "ADDED", "object": {"metadata": {"name": "b", "resourceVersion": "6"}, "data": 7}}"#;

    /// How the first watch ends.
    #[derive(Clone, Copy, Debug)]
    enum Ends {
        /// It delivers `b` and then expires, by an event.
        Expired,
        /// It sends this line.
        Undecodable(&'static str),
        /// The server refuses to start it, with this status and cause.
        Unstarted(u16, &'static str),
    }

    /// Returns a server whose first watch ends. In between, `a` and `b` are deleted and `c` is created.
    fn ending(asked: &Asked, ends: Ends) -> Api<ConfigMap> {
        let asked = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            asked.lock().unwrap().push(query.clone());
            let number = asked.lock().unwrap().len();
            async move {
                let status = |code: u16, cause: &str| {
                    let details = json!({"causes": [{"reason": cause, "message": "no"}]});
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "No", "message": "no", "details": details})
                };
                let answer = |code: u16, text: String| {
                    Ok::<_, tower::BoxError>(Response::builder().status(code).body(Body::from(text.into_bytes()))?)
                };
                match (query.contains("watch=true"), number, ends) {
                    (true, 2, Ends::Expired) => {
                        let b = json!({"type": "ADDED", "object": {"metadata": {"name": "b", "resourceVersion": "6"}}});
                        let end = json!({"type": "ERROR", "object": status(410, "Expired")});
                        answer(200, format!("{b}\n{end}\n"))
                    }
                    (true, 2, Ends::Undecodable(line)) => answer(200, format!("{line}\n")),
                    (true, 2, Ends::Unstarted(code, cause)) => answer(code, status(code, cause).to_string()),
                    (true, ..) => std::future::pending().await,
                    (false, ..) => {
                        let name = if number == 1 { "a" } else { "c" };
                        let items = [json!({"metadata": {"name": name}})];
                        answer(200, json!({"metadata": {"resourceVersion": "5"}, "items": items}).to_string())
                    }
                }
            }
        });
        Api::all(Client::new(service, "default"))
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_watch_that_cannot_go_on_a_new_list_says_what_is_gone() {
        for ends in [
            Ends::Expired,
            Ends::Undecodable(UNDECODABLE),
            Ends::Undecodable("7"),
            Ends::Unstarted(410, "Expired"),
            Ends::Unstarted(403, "Forbidden"),
            // A server that was restored from a backup does not know the version yet.
            Ends::Unstarted(504, "ResourceVersionTooLarge"),
        ] {
            let (asked, names) = (Asked::default(), Names::default());
            let api = ending(&asked, ends);
            let open = move || watch(api.clone(), watcher::Config::default()).boxed();
            let stream = reflector::Stream::new(WatchScope::ALL, open);
            let feeding = reflector::run(names.clone(), stream, tokio::sync::oneshot::channel().0);
            // The watch never ends.
            assert!(tokio::time::timeout(Duration::from_secs(120), feeding).await.is_err());
            assert_eq!(names.0.lock().unwrap().keys().collect::<Vec<_>>(), ["c"], "{ends:?}");
            let watches: Vec<bool> = asked.lock().unwrap().iter().map(|query| query.contains("watch=true")).collect();
            assert_eq!(watches, [false, true, false, true], "one list and one watch more: {ends:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_know_the_version_of_its_own_list_is_listed_after_growing_pauses() {
        let asked = Arc::new(Mutex::new(0));
        let count = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
            *count.lock().unwrap() += 1;
            let is_spinning = *count.lock().unwrap() > 1000;
            let status = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"});
            let list = json!({"metadata": {"resourceVersion": "5"}, "items": []});
            let (code, text) = if is_watch { (410, status) } else { (200, list) };
            async move {
                match is_spinning {
                    true => std::future::pending().await,
                    false => Ok::<_, tower::BoxError>(
                        Response::builder().status(code).body(Body::from(text.to_string().into_bytes()))?,
                    ),
                }
            }
        });
        let mut events = watch::<ConfigMap>(Api::all(Client::new(service, "default")), watcher::Config::default());
        let reading = async { while events.next().await.is_some() {} };
        assert!(tokio::time::timeout(Duration::from_secs(120), reading).await.is_err());
        let asked = *asked.lock().unwrap();
        assert!((10..40).contains(&asked), "{asked} requests in 120 s");
    }

    /// Returns a server that lists objects with these uids, and then watches them; only `a` if it honours a selector.
    fn ignoring(asked: &Asked, listed: &'static [&str], watched: &'static [&str]) -> Client {
        let asked = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let is_watch = query.contains("watch=true");
            asked.lock().unwrap().push(query);
            let object = |uid: &&str| json!({"metadata": {"name": uid, "uid": uid, "resourceVersion": "6"}});
            let event = |uid: &&str| format!("{}\n", json!({"type": "ADDED", "object": object(uid)}));
            let list =
                json!({"metadata": {"resourceVersion": "5"}, "items": listed.iter().map(object).collect::<Vec<_>>()});
            let text = if is_watch { watched.iter().map(event).collect() } else { list.to_string() };
            async move {
                match is_watch && watched.is_empty() {
                    true => std::future::pending().await,
                    false => Ok::<_, tower::BoxError>(Response::new(Body::from(text.into_bytes()))),
                }
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_sends_what_a_shard_selector_excludes_is_asked_again_and_nothing_of_it_is_stored() {
        // The hash of `a` alone.
        let only_a = "shardRange(object.metadata.uid, '0xaf63dc4c8601ec8c', '0xaf63dc4c8601ec8d')";
        let selector: ShardSelector = only_a.parse().unwrap();
        for (listed, watched, is_listed, requests) in
            [(&["a"][..], &[][..], true, 2..3), (&["a", "b"], &[], false, 10..20), (&["a"], &["b"], true, 20..40)]
        {
            let (asked, names) = (Asked::default(), Names::default());
            let client = crate::client::sharded(ignoring(&asked, listed, watched), Some(&selector));
            let (api, range): (Api<ConfigMap>, _) = (Api::all(client), selector.clone());
            let open = move || watch(api.clone(), watcher::Config::default()).within(Some(range.clone())).boxed();
            let (first, listing) = tokio::sync::oneshot::channel();
            let feeding = reflector::run(names.clone(), reflector::Stream::new(WatchScope::ALL, open), first);
            assert!(tokio::time::timeout(Duration::from_secs(300), feeding).await.is_err());
            assert_eq!(names.0.lock().unwrap().keys().collect::<Vec<_>>(), ["a"], "{listed:?} {watched:?}");
            assert_eq!(listing.await.is_ok(), is_listed, "{listed:?} {watched:?}");
            let asked = asked.lock().unwrap();
            assert!(requests.contains(&asked.len()), "{listed:?} {watched:?}: {}", asked.len());
            let has_selector =
                |query: &String| query.contains("&shardSelector=shardRange%28object%2Emetadata%2Euid%2C%20");
            assert!(asked.iter().all(has_selector), "{asked:?}");
        }
    }

    #[test]
    fn a_server_that_ignores_the_selector_is_reported_with_what_helps() {
        let error = watcher::Error::InitialListFailed(kube::Error::Service(Box::new(NotHonoured)));
        let message = crate::report::chain(&error);
        assert!(
            message.ends_with(
                "the API server sends resources outside --shard-selector: enable its feature gate ShardedListAndWatch \
             (Kubernetes 1.36) on every API server, or remove the flag"
            ),
            "{message}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_refuses_to_watch_or_to_list_is_asked_at_growing_intervals() {
        let status = |code: u16| json!({"kind": "Status", "code": code, "reason": "No", "message": "no"});
        let (refused, failed) = (status(403).to_string(), status(500).to_string());
        let expired = json!({"type": "ERROR", "object": status(410)}).to_string();
        let list = r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#;
        let unversioned = r#"{"metadata":{},"items":[]}"#;
        for (what, lists, watches, expected) in [
            ("refuses watches", (200, list), (403, &*refused), 20..40),
            ("refuses lists", (403, &*refused), (200, ""), 10..20),
            ("fails to list", (500, &*failed), (200, ""), 10..20),
            ("lists without a version", (200, unversioned), (200, ""), 10..20),
            ("ends watches at once", (200, list), (200, ""), 15..40),
            ("ends watches as expired", (200, list), (200, &*expired), 20..60),
            ("sends what cannot be decoded", (200, list), (200, UNDECODABLE), 20..60),
        ] {
            let asked = asked_in_five_minutes(lists, watches).await;
            assert!(expected.contains(&asked), "it {what}: {asked} requests");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_fails_at_a_late_page_is_repeated_at_growing_intervals_until_it_is_complete() {
        let (asked, is_over) = (Asked::default(), Arc::new(AtomicBool::new(false)));
        let (log, over) = (asked.clone(), is_over.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let (is_watch, is_late) = (query.contains("watch=true"), query.contains("continue="));
            log.lock().unwrap().push(query);
            let over = over.clone();
            async move {
                if is_watch {
                    std::future::pending::<()>().await;
                }
                sleep(Duration::from_secs(10)).await;
                let (code, body) = match (over.load(Ordering::SeqCst), is_late) {
                    (false, true) => (410, json!({"kind": "Status", "code": 410, "reason": "Expired"})),
                    (is_over, _) => {
                        let more = if is_over { "" } else { "more" };
                        (200, json!({"metadata": {"resourceVersion": "5", "continue": more}, "items": []}))
                    }
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, tower::BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        let mut events = watch::<ConfigMap>(Api::all(Client::new(service, "default")), watcher::Config::default());
        let mut read = async |seconds: u64| {
            let until_listed = async { while !matches!(events.next().await, Some(Ok(Event::InitDone))) {} };
            tokio::time::timeout(Duration::from_secs(seconds), until_listed).await.is_ok()
        };
        assert!(!read(600).await);
        let lists = asked.lock().unwrap().iter().filter(|query| !query.contains("continue=")).count();
        assert!((10..20).contains(&lists), "{lists} lists in 600 s, of 20 s each");
        is_over.store(true, Ordering::SeqCst);
        assert!(read(60).await);
    }

    /// Returns how many requests a process makes if its server always answers lists and watches like this.
    async fn asked_in_five_minutes(lists: (u16, &str), watches: (u16, &str)) -> usize {
        let asked = Asked::default();
        let (log, answers) = (asked.clone(), [lists, watches].map(|(code, body)| (code, body.to_owned())));
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let (code, body) = answers[usize::from(query.contains("watch=true"))].clone();
            log.lock().unwrap().push(query);
            let is_spinning = log.lock().unwrap().len() > 1000;
            async move {
                if is_spinning {
                    std::future::pending::<()>().await;
                }
                let answer = Response::builder().status(code).body(axum::body::Body::from(body));
                Ok::<_, tower::BoxError>(answer?)
            }
        });
        let (hop, config) = (Hop::new(service), kube::Config::new("http://here".parse().unwrap()));
        let client = connect_over(hop, config, "test", &Metrics::default(), &Term::default()).unwrap().client;
        let events = watch::<ConfigMap>(Api::all(client), watcher::Config::default());
        assert!(tokio::time::timeout(Duration::from_secs(300), events.count()).await.is_err());
        asked.lock().unwrap().len()
    }
}
