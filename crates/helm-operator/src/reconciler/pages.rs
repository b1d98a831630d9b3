//! Lists in pages: large ones, and small ones for kinds whose objects are so large that a page exceeds the limit of an answer. Lists again when the
//! server no longer has the version from which to watch.

use std::fmt::Debug;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt as _};
use kube::Api;
use kube::api::ListParams;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;

use crate::client::TooLarge;

/// The page size of lists. client-go's informers take 500; pages of several kinds are in memory at once, so a start of ours takes a fifth of that.
const PAGE: u32 = 100;

/// As many of the largest objects that etcd stores (1.5 MiB) as fit into the largest answer (64 MiB).
const SMALL_PAGE: u32 = 40;

/// Lists and watches objects, again and again. Pauses after errors.
pub(crate) fn watch<K>(api: Api<K>, config: watcher::Config) -> Pages<K>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let open = move |page| watcher::watcher(api.clone(), config.clone().page_size(page)).default_backoff().boxed();
    Pages { events: open(PAGE), open: Box::new(open), small: false }
}

/// List and watch events of a kind.
pub(crate) struct Pages<K> {
    open: Box<dyn Fn(u32) -> Events<K> + Send>,
    events: Events<K>,
    small: bool,
}

type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

impl<K> Stream for Pages<K> {
    type Item = watcher::Result<Event<K>>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.events.poll_next_unpin(task);
        match &polled {
            Poll::Ready(Some(Err(watcher::Error::InitialListFailed(error)))) if !self.small && is_too_large(error) => {
                (self.small, self.events) = (true, (self.open)(SMALL_PAGE));
                self.poll_next(task)
            }
            // kube lists again after an expired watch, but not if the server refuses to start one: it would ask for the same version for ever.
            Poll::Ready(Some(Err(watcher::Error::WatchStartFailed(kube::Error::Api(status)))))
                if status.code == 410 =>
            {
                self.events = (self.open)(if self.small { SMALL_PAGE } else { PAGE });
                polled
            }
            _ => polled,
        }
    }
}

/// Lists what `read` makes of each object.
pub(super) async fn list<K, T>(
    api: Api<K>,
    wanted: ListParams,
    read: impl Fn(K) -> Option<T>,
) -> Result<Vec<T>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    match list_by(&api, wanted.clone().limit(PAGE), &read).await {
        Err(error) if is_too_large(&error) => list_by(&api, wanted.limit(SMALL_PAGE), &read).await,
        listed => listed,
    }
}

async fn list_by<K, T>(
    api: &Api<K>,
    mut wanted: ListParams,
    read: impl Fn(K) -> Option<T>,
) -> Result<Vec<T>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut all = Vec::new();
    loop {
        let page = api.list(&wanted).await?;
        all.extend(page.items.into_iter().filter_map(&read));
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => wanted.continue_token = Some(more),
            None => return Ok(all),
        }
    }
}

fn is_too_large(error: &kube::Error) -> bool {
    let mut causes = std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |e| e.source());
    causes.any(|cause| cause.is::<TooLarge>())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::reconciler::feed::{self, Scope, Sink};
    use crate::reconciler::stamp::Epoch;

    type Asked = Arc<Mutex<Vec<String>>>;

    /// A server of three objects, whose pages of more than 40 are too large. Its watches deliver nothing.
    fn api(asked: &Asked) -> Api<ConfigMap> {
        let asked = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            asked.lock().unwrap().push(query.clone());
            async move {
                if query.contains("watch=true") {
                    std::future::pending::<()>().await;
                }
                if query.contains("limit=100") {
                    return Err(TooLarge::Answer(7).into());
                }
                let more = if query.contains("continue=next") { "" } else { "next" };
                let items = if more.is_empty() { vec!["c"] } else { vec!["a", "b"] };
                let items: Vec<_> = items.iter().map(|name| json!({"metadata": {"name": name}})).collect();
                let list = json!({"metadata": {"resourceVersion": "5", "continue": more}, "items": items});
                Ok::<_, tower::BoxError>(Response::new(Body::from(list.to_string().into_bytes())))
            }
        });
        Api::all(Client::new(service, "default"))
    }

    fn limits(asked: &Asked) -> Vec<bool> {
        asked.lock().unwrap().iter().map(|query| query.contains("limit=40")).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_whose_pages_are_too_large_goes_on_with_small_ones() {
        let asked = Asked::default();
        let seen: Vec<String> = watch(api(&asked), watcher::Config::default())
            .filter_map(async |event| match event.unwrap() {
                Event::InitApply(map) => map.metadata.name,
                Event::InitDone => Some("done".into()),
                _ => None,
            })
            .take(4)
            .collect()
            .await;
        assert_eq!(seen, ["a", "b", "c", "done"]);
        assert_eq!(limits(&asked), [false, true, true]);
    }

    #[tokio::test]
    async fn a_list_whose_pages_are_too_large_is_read_in_small_ones() {
        let asked = Asked::default();
        let names = list(api(&asked), ListParams::default(), |map: ConfigMap| map.metadata.name).await.unwrap();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(limits(&asked), [false, true, true]);
    }

    /// Names in the cache, filled as a controller's is.
    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<BTreeMap<String, Epoch>>>);

    impl Sink<ConfigMap> for Names {
        fn changed(&self, item: ConfigMap, epoch: Epoch) {
            self.0.lock().unwrap().insert(item.metadata.name.unwrap(), epoch);
        }

        fn deleted(&self, item: ConfigMap) {
            self.0.lock().unwrap().remove(&item.metadata.name.unwrap());
        }

        fn sweep(&self, _: &Scope, list: Epoch) {
            self.0.lock().unwrap().retain(|_, epoch| epoch.number == list.number);
        }

        fn description(&self) -> String {
            "names".into()
        }
    }

    /// A server whose first watch delivers `b` and then expires: by an event, or at once by the answer's status. Meanwhile `a` and `b` go and `c` comes.
    fn expiring(asked: &Asked, by_event: bool) -> Api<ConfigMap> {
        let asked = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            asked.lock().unwrap().push(query.clone());
            let number = asked.lock().unwrap().len();
            async move {
                let expired = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
                let answer = |code: u16, text: String| {
                    Ok::<_, tower::BoxError>(Response::builder().status(code).body(Body::from(text.into_bytes()))?)
                };
                match (query.contains("watch=true"), number) {
                    (true, 2) if by_event => {
                        let b = json!({"type": "ADDED", "object": {"metadata": {"name": "b", "resourceVersion": "6"}}});
                        answer(200, format!("{b}\n{}\n", json!({"type": "ERROR", "object": expired})))
                    }
                    (true, 2) => answer(410, expired.to_string()),
                    (true, _) => std::future::pending().await,
                    (false, _) => {
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
    async fn after_an_expired_watch_a_new_list_says_what_is_gone() {
        for by_event in [true, false] {
            let (asked, names) = (Asked::default(), Names::default());
            let events = watch(expiring(&asked, by_event), watcher::Config::default()).boxed();
            let stream = feed::Stream::new(Scope::ALL, events);
            let feeding = feed::feed(names.clone(), stream, tokio::sync::oneshot::channel().0);
            // It never ends.
            assert!(tokio::time::timeout(std::time::Duration::from_secs(120), feeding).await.is_err());
            assert_eq!(names.0.lock().unwrap().keys().collect::<Vec<_>>(), ["c"], "by event: {by_event}");
            let watches: Vec<bool> = asked.lock().unwrap().iter().map(|query| query.contains("watch=true")).collect();
            assert_eq!(watches, [false, true, false, true], "one list and one watch more");
        }
    }
}
