//! Lists in pages: large ones, and small ones for kinds whose objects are so large that a page exceeds the limit of an answer.

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

/// The page size of lists: what client-go's informers use.
const PAGE: u32 = 500;

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
        let Poll::Ready(Some(Err(watcher::Error::InitialListFailed(error)))) = &polled else { return polled };
        if self.small || !is_too_large(error) {
            return polled;
        }
        (self.small, self.events) = (true, (self.open)(SMALL_PAGE));
        self.poll_next(task)
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
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

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
                if query.contains("limit=500") {
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
}
