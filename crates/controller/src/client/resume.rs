//! Asks a server that was unreachable whether it knows the version from which a watch resumes. A server that was
//! restored from a backup does not, and would keep the watch waiting silently until its versions have caught up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt as _};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use kube::client::Body;
use outside::sync::lock;
use tower::{BoxError, Layer, Service, ServiceExt as _};

use super::connections::is_watch;

/// Requests the metadata of objects alone, if the server supports that.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The query parameters of a watch that a list does not have.
const OF_WATCHES: [&str; 6] =
    ["watch", "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "resourceVersionMatch", "limit"];

/// A layer that asks this question before a watch resumes.
#[derive(Clone, Default)]
pub(super) struct Resuming(Arc<Mutex<Contact>>);

/// What is known of past outages.
#[derive(Default)]
struct Contact {
    outages: u64,
    /// The number of outages when each watch last resumed, by its address without the version.
    resumed: HashMap<String, u64>,
}

#[derive(Clone)]
pub(super) struct ResumingService<S> {
    inner: S,
    contact: Arc<Mutex<Contact>>,
}

impl<S> Layer<S> for Resuming {
    type Service = ResumingService<S>;

    fn layer(&self, inner: S) -> ResumingService<S> {
        ResumingService { inner, contact: self.0.clone() }
    }
}

impl<S, B> Service<Request<Body>> for ResumingService<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(task).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let contact = self.contact.clone();
        let Some((watch, question)) = self.doubtful(&request) else {
            return counted(self.inner.call(request).map(|answer| answer.map_err(Into::into)), contact).boxed();
        };
        // This clone has not been polled, so `oneshot` waits until it is ready.
        let (asks, watches) = (self.inner.clone(), self.inner.clone());
        let resumed = async move {
            let outages = lock(&contact).outages;
            let answer =
                counted(asks.oneshot(question).map(|answer| answer.map_err(Into::into)), contact.clone()).await?;
            lock(&contact).resumed.insert(watch, outages);
            match answer.status() {
                // Respond as for an expired watch, which then lists again.
                StatusCode::GATEWAY_TIMEOUT => Ok(gone(answer)),
                // On any other answer, the watch itself gets the server's response.
                _ => counted(watches.oneshot(request).map(|answer| answer.map_err(Into::into)), contact).await,
            }
        };
        resumed.boxed()
    }
}

impl<S> ResumingService<S> {
    /// Returns the address of a watch that resumes after an outage, and the question to ask; `None` for any other
    /// request.
    fn doubtful(&self, request: &Request<Body>) -> Option<(String, Request<Body>)> {
        if !is_watch(request) {
            return None;
        }
        let (watch, version) = address(request.uri())?;
        let mut contact = lock(&self.contact);
        let outages = contact.outages;
        // A new watch has just listed.
        if *contact.resumed.entry(watch.clone()).or_insert(outages) == outages {
            return None;
        }
        let question = question(&watch, &version, request.headers())?;
        Some((watch, question))
    }
}

/// Awaits a response, and counts a failed one as an outage.
async fn counted<T>(
    answer: impl Future<Output = Result<T, BoxError>>,
    contact: Arc<Mutex<Contact>>,
) -> Result<T, BoxError> {
    answer.await.inspect_err(|_| lock(&contact).outages += 1)
}

/// Splits a watch's address into its selection and the version from which it resumes; returns `None` if it does not
/// resume.
fn address(uri: &Uri) -> Option<(String, String)> {
    let query = uri.query()?;
    let is_version = |pair: &&str| pair.starts_with("resourceVersion=");
    let version = query.split('&').find(is_version)?.trim_start_matches("resourceVersion=").to_owned();
    let of_lists = |pair: &&str| !is_version(pair) && !OF_WATCHES.contains(&pair.split('=').next().unwrap_or_default());
    let rest: Vec<&str> = query.split('&').filter(of_lists).filter(|pair| !pair.is_empty()).collect();
    let separator = if rest.is_empty() { "" } else { "&" };
    let origin = uri.to_string();
    let origin = origin.split('?').next().unwrap_or_default();
    (!["", "0"].contains(&&*version)).then(|| (format!("{origin}?{}{separator}", rest.join("&")), version))
}

/// Returns a request for a list of one object that is at least as new as the version.
fn question(watch: &str, version: &str, headers: &HeaderMap) -> Option<Request<Body>> {
    let address = format!("{watch}limit=1&resourceVersionMatch=NotOlderThan&resourceVersion={version}");
    let mut request = Request::builder().method(Method::GET).uri(address).body(Body::empty()).ok()?;
    *request.headers_mut() = headers.clone();
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(METADATA));
    Some(request)
}

fn gone<B>(mut answer: Response<B>) -> Response<B> {
    *answer.status_mut() = StatusCode::GONE;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCH: &str =
        "/api/v1/pods?watch=true&timeoutSeconds=290&allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersion=";
    const QUESTION: &str =
        "/api/v1/pods?labelSelector=a%3Db&limit=1&resourceVersionMatch=NotOlderThan&resourceVersion=7";

    /// A server that is unreachable while `away`, and that knows versions up to `newest`.
    #[derive(Default)]
    struct Server {
        away: bool,
        newest: u64,
        asked: Vec<String>,
    }

    type Shared = Arc<Mutex<Server>>;

    fn answer(server: &Shared, request: &Request<Body>) -> Result<Response<()>, BoxError> {
        let mut server = lock(server);
        let uri = request.uri().to_string();
        server.asked.push(uri.clone());
        if server.away {
            return Err("connection refused".into());
        }
        let version: u64 = uri.rsplit("resourceVersion=").next().and_then(|v| v.parse().ok()).unwrap_or_default();
        // A watch from a future version waits.
        let code = if !is_watch(request) && version > server.newest { 504 } else { 200 };
        Ok(Response::builder().status(code).body(()).unwrap())
    }

    async fn ask<S>(client: &mut S, uri: &str) -> Option<u16>
    where
        S: Service<Request<Body>, Response = Response<()>, Error = BoxError>,
    {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        client.ready().await.unwrap().call(request).await.ok().map(|answer| answer.status().as_u16())
    }

    #[tokio::test]
    async fn a_watch_that_goes_on_after_an_outage_asks_whether_its_version_is_known() {
        let server = Shared::default();
        let (state, seven) = (server.clone(), format!("{WATCH}7"));
        let inner = tower::service_fn(move |request| std::future::ready(answer(&state, &request)));
        let mut client = Resuming::default().layer(inner);
        lock(&server).newest = 9;
        let asked = || std::mem::take(&mut lock(&server).asked);

        assert_eq!(ask(&mut client, &seven).await, Some(200));
        assert_eq!(asked(), [&*seven], "nothing happened yet");
        lock(&server).away = true;
        assert_eq!(ask(&mut client, "/api/v1/pods").await, None);
        assert_eq!(ask(&mut client, &seven).await, None, "still away");
        assert_eq!(asked(), ["/api/v1/pods", QUESTION]);
        lock(&server).away = false;
        assert_eq!(ask(&mut client, &seven).await, Some(200));
        assert_eq!(asked(), [QUESTION, &*seven]);
        assert_eq!(ask(&mut client, &seven).await, Some(200));
        assert_eq!(asked(), [&*seven], "it is asked once");

        lock(&server).away = true;
        assert_eq!(ask(&mut client, "/api/v1/pods").await, None);
        (lock(&server).away, lock(&server).newest) = (false, 5);
        assert_eq!(ask(&mut client, &seven).await, Some(410), "the server was restored from a backup");
        let fresh = format!("{WATCH}5");
        assert_eq!(ask(&mut client, &fresh).await, Some(200), "after a list it goes on from there");
    }

    #[test]
    fn a_watch_that_begins_anew_has_no_version() {
        for query in ["watch=true", "watch=true&resourceVersion=", "watch=true&resourceVersion=0"] {
            assert_eq!(address(&format!("/api/v1/pods?{query}").parse().unwrap()), None, "{query}");
        }
        let whole = address(&"https://host/k8s/api/v1/pods?resourceVersion=3&watch=true".parse().unwrap());
        assert_eq!(whole, Some(("https://host/k8s/api/v1/pods?".into(), "3".into())));
    }
}
