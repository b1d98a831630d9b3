//! Decides how many objects a page of a list has: as many as fit a budget of bytes, because anyone who may create
//! objects decides how large they are.
//!
//! Callers ask for [`PAGE`] objects and follow `continue`. A page that turns out to be too large is dropped while it
//! arrives, and requested again with fewer objects.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::poll_fn;
use http::{Method, Request, Response, Uri};
use http_body::Body as _;
use kube::Client;
use kube::client::Body;
use outside::PAGE;
use outside::sync::lock;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tower::BoxError;

use crate::client::TooLarge;

/// The objects in a kind's first page, whose sizes are unknown.
const FIRST: u32 = 20;

/// The maximum growth from one page to the next.
const GROWTH: u32 = 5;

/// The target size of a page, in bytes.
const USUAL_BYTES: usize = 512 << 10;

/// The maximum size of a page, in bytes: more than the largest object that etcd stores (1.5 MiB).
const MAX_BYTES: usize = 2 << 20;

/// The maximum size of a page of one object, in bytes. It may be several times larger as JSON than in etcd.
const MAX_ONE: usize = 16 << 20;

/// How many pages larger than [`USUAL_BYTES`] are read concurrently.
const MAX_LARGE: usize = 2;

/// How long a page may take to arrive; for a large one, counted from its turn. Without this limit, two large pages that
/// stall would delay the large pages of all other kinds.
const ARRIVAL: Duration = Duration::from_secs(30);

/// How long a large page may wait for its turn. The server would abort the response soon after.
const TURN: Duration = Duration::from_secs(55);

/// A page that did not arrive in time.
#[derive(Debug, thiserror::Error)]
enum Late {
    #[error("a page of a list did not arrive within {} seconds", ARRIVAL.as_secs())]
    Arrival,
    #[error("a large page of a list waited {} seconds for others", TURN.as_secs())]
    Turn,
}

/// Returns a client whose lists arrive in pages of bounded size.
pub(super) fn in_pages(client: Client) -> Client {
    let (namespace, pages) = (client.default_namespace().to_owned(), Pages::new(client));
    Client::new(tower::service_fn(move |request| pages.clone().send(request)), namespace)
}

/// A client, and what it has learned about the sizes of pages.
#[derive(Clone)]
struct Pages {
    inner: Client,
    sizes: Arc<Mutex<Sizes>>,
    large: Arc<Semaphore>,
}

/// The number of objects for the next page, by path.
#[derive(Default)]
struct Sizes(HashMap<String, u32>);

impl Pages {
    fn new(inner: Client) -> Pages {
        Pages { inner, sizes: Arc::default(), large: Arc::new(Semaphore::new(MAX_LARGE)) }
    }

    async fn send(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        match is_page(&request) {
            true => self.page(request.into_parts().0).await,
            false => self.inner.send(request).await.map_err(Into::into),
        }
    }

    async fn page(self, parts: http::request::Parts) -> Result<Response<Body>, BoxError> {
        let path = parts.uri.path().to_owned();
        loop {
            let limit = lock(&self.sizes).next(&path);
            let mut request = Request::from_parts(parts.clone(), Body::empty());
            *request.uri_mut() = with_limit(&parts.uri, limit)?;
            let (head, body) = self.inner.send(request).await?.into_parts();
            match self.read(body, if limit == 1 { MAX_ONE } else { MAX_BYTES }).await? {
                Some(bytes) => {
                    lock(&self.sizes).arrived(&path, limit, bytes.len());
                    return Ok(Response::from_parts(head, Body::from(bytes)));
                }
                None if limit == 1 => return Err(TooLarge::Answer(MAX_ONE).into()),
                None => lock(&self.sizes).exceeded(&path, limit),
            }
        }
    }

    /// Reads a body; returns `None` if it exceeds `most` bytes.
    ///
    /// # Errors
    /// The connection failed, or [`Late`].
    async fn read(&self, mut body: Body, most: usize) -> Result<Option<Vec<u8>>, BoxError> {
        let (mut bytes, mut turn, mut until) = (Vec::new(), None, Instant::now() + ARRIVAL);
        loop {
            let frame = timeout_at(until, poll_fn(|task| Pin::new(&mut body).poll_frame(task))).await;
            let Some(frame) = frame.map_err(|_| Late::Arrival)? else { return Ok(Some(bytes)) };
            let Ok(data) = frame?.into_data() else { continue };
            if bytes.len() + data.len() > most {
                return Ok(None);
            }
            if turn.is_none() && bytes.len() + data.len() > USUAL_BYTES {
                // The semaphore is never closed.
                turn = timeout(TURN, self.large.acquire()).await.map_err(|_| Late::Turn)?.ok();
                until = Instant::now() + ARRIVAL;
            }
            bytes.extend_from_slice(&data);
        }
    }
}

impl Sizes {
    fn next(&self, path: &str) -> u32 {
        self.0.get(path).copied().unwrap_or(FIRST)
    }

    /// Learns from a page of at most `limit` objects.
    fn arrived(&mut self, path: &str, limit: u32, bytes: usize) {
        let fitting = u64::from(limit) * USUAL_BYTES as u64 / bytes.max(1) as u64;
        let next = u32::try_from(fitting).unwrap_or(PAGE).clamp(1, PAGE.min(limit * GROWTH));
        self.0.insert(path.to_owned(), next);
    }

    fn exceeded(&mut self, path: &str, limit: u32) {
        self.0.insert(path.to_owned(), (limit / GROWTH).max(1));
    }
}

/// Returns whether the request is for a page whose size does not matter to the caller.
fn is_page<B>(request: &Request<B>) -> bool {
    let is_limit = |field: &str| field.strip_prefix("limit=").is_some_and(|limit| limit == PAGE.to_string());
    *request.method() == Method::GET && request.uri().query().is_some_and(|query| query.split('&').any(is_limit))
}

fn with_limit(uri: &Uri, limit: u32) -> Result<Uri, http::Error> {
    let change = |field: &str| if field.starts_with("limit=") { format!("limit={limit}") } else { field.to_owned() };
    let query: Vec<_> = uri.query().unwrap_or_default().split('&').map(change).collect();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{}", uri.path(), query.join("&")).parse()?);
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use axum::body::Bytes;
    use futures::stream::{self, StreamExt as _};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::ListParams;
    use serde_json::json;

    use super::*;

    type Asked = Arc<Mutex<Vec<(usize, u32)>>>;

    /// Returns a client of a server with objects of these sizes. Records each request's offset and limit.
    fn server(sizes: Vec<usize>, asked: &Asked) -> Client {
        let asked = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let field =
                |name: &str| query.split('&').find_map(|field| field.strip_prefix(name)).unwrap_or("0").to_owned();
            let (from, limit) = (field("continue=").parse::<usize>().unwrap(), field("limit=").parse::<u32>().unwrap());
            asked.lock().unwrap().push((from, limit));
            let to = sizes.len().min(from + limit as usize);
            let object =
                |at: usize| json!({"metadata": {"name": at.to_string()}, "data": {"x": "x".repeat(sizes[at])}});
            let items: Vec<_> = (from..to).map(object).collect();
            let more = if to < sizes.len() { to.to_string() } else { String::new() };
            let list = json!({"metadata": {"resourceVersion": "5", "continue": more}, "items": items});
            async move { Ok::<_, BoxError>(Response::new(Body::from(list.to_string().into_bytes()))) }
        });
        Client::new(service, "default")
    }

    /// Lists everything. Returns the number of objects, and the requests that it took.
    async fn list(sizes: Vec<usize>) -> (usize, Vec<(usize, u32)>) {
        let asked = Asked::default();
        let client = in_pages(server(sizes, &asked));
        let (api, mut wanted) = (Api::<ConfigMap>::all(client), ListParams::default().limit(PAGE));
        let mut count = 0;
        loop {
            let page = api.list(&wanted).await.unwrap();
            count += page.items.len();
            match page.metadata.continue_.filter(|more| !more.is_empty()) {
                Some(more) => wanted.continue_token = Some(more),
                None => return (count, asked.lock().unwrap().clone()),
            }
        }
    }

    #[tokio::test]
    async fn pages_of_small_objects_grow() {
        assert_eq!(list(vec![100; 700]).await, (700, vec![(0, 20), (20, 100), (120, 500), (620, 500)]));
        assert_eq!(list(vec![100; 20]).await, (20, vec![(0, 20)]));
    }

    #[tokio::test]
    async fn a_page_that_is_too_large_is_asked_for_again_with_fewer_objects() {
        let (count, asked) = list(vec![1_300_000; 4]).await;
        assert_eq!((count, &asked[..3]), (4, &[(0, 20), (0, 4), (0, 1)][..]));
        assert_eq!(asked.len(), 6, "{asked:?}");
        let (count, asked) = list([vec![100; 120], vec![1_300_000; 3], vec![100; 30]].concat()).await;
        assert_eq!((count, &asked[..5]), (153, &[(0, 20), (20, 100), (120, 500), (120, 100), (120, 20)][..]));
    }

    #[tokio::test]
    async fn other_requests_pass_as_they_are() {
        let asked = Asked::default();
        let client = in_pages(server(vec![100; 3], &asked));
        let api = Api::<ConfigMap>::all(client);
        assert_eq!(api.list(&ListParams::default().limit(2)).await.unwrap().items.len(), 2);
        assert_eq!(api.list(&ListParams::default().limit(5000)).await.unwrap().items.len(), 3);
        assert_eq!(*asked.lock().unwrap(), [(0, 2), (0, 5000)]);
    }

    #[tokio::test]
    async fn an_object_beyond_every_limit_is_an_error() {
        let client = in_pages(server(vec![MAX_ONE], &Asked::default()));
        let error = Api::<ConfigMap>::all(client).list(&ListParams::default().limit(PAGE)).await.unwrap_err();
        let causes = std::iter::successors(Some(&error as &(dyn std::error::Error + 'static)), |e| e.source());
        assert!(causes.into_iter().any(|cause| cause.is::<TooLarge>()), "{error:?}");
    }

    /// Returns a client of a server that stalls in the middle of its answers to `/stalls`.
    fn stalling() -> Client {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let begin = Bytes::from(vec![b' '; USUAL_BYTES + 1]);
            let begin = stream::iter([Ok::<_, BoxError>(Frame::data(begin))]);
            let body = match request.uri().path() {
                "/stalls" => begin.chain(stream::pending()).boxed(),
                _ => begin.boxed(),
            };
            Ok::<_, BoxError>(Response::new(StreamBody::new(body)))
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn pages_that_stall_fail_and_delay_others_for_less_than_a_minute() {
        let pages = Pages::new(stalling());
        let ask = |path: &str| {
            let request = Request::get(format!("{path}?limit={PAGE}")).body(Body::empty()).unwrap();
            pages.clone().send(request)
        };
        let (began, stalled) = (Instant::now(), ["/stalls", "/stalls"].map(|path| tokio::spawn(ask(path))));
        while pages.large.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(ask("/arrives").await.is_ok());
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        for page in stalled {
            let error = page.await.unwrap().unwrap_err();
            assert_eq!(error.to_string(), "a page of a list did not arrive within 30 seconds");
        }
    }
}
