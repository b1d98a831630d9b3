//! Asks a server that was unreachable, or that ended a watch early, whether it knows the version from which the watch
//! resumes. A server that was restored from a backup does not, and would keep the watch waiting silently until its
//! versions have caught up.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use kube::client::Body;
use tower::layer::layer_fn;
use tower::{BoxError, Layer, Service, ServiceExt as _};

use super::connections::is_watch;
use super::contact::{self, Contact};
use super::followed::Followed;
use super::reader::ReaderName;

/// Requests the metadata of objects alone, if the server supports that.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// A version that no server knows.
const NEVER: &str = "9223372036854775807";

/// The query parameters of a watch that a list does not have.
const OF_WATCHES: [&str; 6] =
    ["watch", "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "resourceVersionMatch", "limit"];

/// Returns a layer that asks this question before a watch resumes, and holds writes while watches are interrupted.
pub(super) fn resuming<S>(contact: Contact) -> impl Layer<S, Service = Resuming<S>> {
    layer_fn(move |inner| Resuming { inner, contact: contact.clone() })
}

#[derive(Clone)]
pub(super) struct Resuming<S> {
    inner: S,
    contact: Contact,
}

impl<S, B> Service<Request<Body>> for Resuming<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<Followed<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Followed<B>>, BoxError>>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(task).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // `oneshot` polls each clone until it is ready.
        let mut server = Server { inner: self.inner.clone(), contact: self.contact.clone() };
        let is_write = contact::is_write(&request);
        match ResumedWatch::resuming(&request) {
            Some(watch) => server.resume(watch, request).boxed(),
            None => async move {
                if is_write {
                    server.contact.admit_write(request.extensions().get().copied()).await?;
                }
                server.send(request).await.map(|answer| answer.map(Followed::nowhere))
            }
            .boxed(),
        }
    }
}

/// The server, and the contact with it.
struct Server<S> {
    inner: S,
    contact: Contact,
}

impl<S, B> Server<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
{
    async fn send(&mut self, request: Request<Body>) -> Result<Response<B>, BoxError> {
        let answer = self.inner.clone().oneshot(request).await;
        answer.map_err(Into::into).inspect_err(|_| self.contact.failed())
    }

    /// Sends a watch, after the question if there is doubt.
    async fn resume(mut self, watch: ResumedWatch, request: Request<Body>) -> Result<Response<Followed<B>>, BoxError> {
        let outages = self.contact.outages();
        let answer = match self.ask(&watch, request.headers()).await? {
            Some(answer) => answer,
            None => self.send(request).await?,
        };
        let end = self.contact.answered(&watch.name, answer.status(), watch.timeout, outages);
        let is_watching = answer.status().is_success();
        let follow = move |body| {
            if is_watching { Followed::by(self.contact, watch.name, end, body) } else { Followed::nowhere(body) }
        };
        Ok(answer.map(follow))
    }

    /// Asks whether the server knows the version; returns the answer for the watch if it does not, or if the question
    /// is still open.
    async fn ask(&mut self, watch: &ResumedWatch, headers: &HeaderMap) -> Result<Option<Response<B>>, BoxError> {
        if !self.contact.doubts(&watch.name) {
            return Ok(None);
        }
        let must_list = self.contact.must_list(&watch.name);
        let version = if must_list { NEVER } else { &*watch.version };
        let Some(question) = question(&watch.selection, version, headers) else { return Ok(None) };
        let answer = self.send(question).await?;
        Ok(match answer.status() {
            // Respond as for an expired watch, which then lists again.
            StatusCode::GATEWAY_TIMEOUT => {
                self.contact.refuted(&watch.name);
                Some(gone(answer))
            }
            status if status.is_success() || is_misunderstood(status) => {
                // An answer about the watch's own version does not rule out a restore that was found in the meantime.
                if must_list {
                    self.contact.resumes(&watch.name);
                }
                None
            }
            // A server that has just started turns requests away.
            _ => Some(answer),
        })
    }
}

/// A watch that resumes from a version.
struct ResumedWatch {
    /// Its address without the version.
    selection: String,
    /// Its reader, if that has a name, and its selection.
    name: String,
    version: String,
    /// When the server ends it.
    timeout: Duration,
}

impl ResumedWatch {
    fn resuming(request: &Request<Body>) -> Option<ResumedWatch> {
        if !is_watch(request) {
            return None;
        }
        let (selection, version) = address(request.uri())?;
        let seconds = parameter(request.uri().query()?, "timeoutSeconds").and_then(|seconds| seconds.parse().ok());
        let name = match request.extensions().get() {
            Some(ReaderName(reader)) => format!("{reader} {selection}"),
            None => selection.clone(),
        };
        Some(ResumedWatch { selection, name, version, timeout: Duration::from_secs(seconds.unwrap_or_default()) })
    }
}

/// Returns whether the server does not understand the question; then the watch begins without an answer.
fn is_misunderstood(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_ACCEPTABLE)
}

fn parameter<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// Splits a watch's address into its selection and the version from which it resumes; returns `None` if it does not
/// resume.
fn address(uri: &Uri) -> Option<(String, String)> {
    let query = uri.query()?;
    let is_version = |pair: &&str| pair.starts_with("resourceVersion=");
    let version = parameter(query, "resourceVersion")?.to_owned();
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
    use std::sync::{Arc, Mutex};

    use http_body::Frame;
    use http_body_util::BodyExt as _;
    use outside::sync::lock;

    use super::*;

    const WATCH: &str =
        "/api/v1/pods?watch=true&timeoutSeconds=290&allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersion=";
    const QUESTION: &str =
        "/api/v1/pods?labelSelector=a%3Db&limit=1&resourceVersionMatch=NotOlderThan&resourceVersion=7";

    /// A server that is unreachable while `away`, and that knows versions up to `newest`.
    #[derive(Default)]
    struct Fake {
        away: bool,
        newest: u64,
        /// The status of every answer but to watches, if it is not the server's own.
        answers: Option<u16>,
        asked: Vec<String>,
    }

    type FakeServer = Arc<Mutex<Fake>>;

    fn answer(server: &FakeServer, request: &Request<Body>) -> Result<Response<()>, BoxError> {
        let mut server = lock(server);
        let uri = request.uri().to_string();
        server.asked.push(uri.clone());
        if server.away {
            return Err("connection refused".into());
        }
        let version: u64 = uri.rsplit("resourceVersion=").next().and_then(|v| v.parse().ok()).unwrap_or_default();
        // A watch from a future version waits.
        let code = match (is_watch(request), server.answers) {
            (false, Some(code)) => code,
            (false, None) if version > server.newest => 504,
            _ => 200,
        };
        Ok(Response::builder().status(code).body(()).unwrap())
    }

    async fn ask<S>(client: &mut S, uri: &str) -> Option<u16>
    where
        S: Service<Request<Body>, Response = Response<Followed<()>>, Error = BoxError>,
    {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        client.ready().await.unwrap().call(request).await.ok().map(|answer| answer.status().as_u16())
    }

    fn client(server: &FakeServer) -> impl Service<Request<Body>, Response = Response<Followed<()>>, Error = BoxError> {
        client_of(server, Contact::default())
    }

    fn client_of(
        server: &FakeServer,
        contact: Contact,
    ) -> impl Service<Request<Body>, Response = Response<Followed<()>>, Error = BoxError> {
        let state = server.clone();
        resuming(contact).layer(tower::service_fn(move |request| std::future::ready(answer(&state, &request))))
    }

    /// How long the watches of these tests run.
    const WHOLE: Duration = Duration::from_secs(290);

    #[tokio::test(start_paused = true)]
    async fn a_question_is_asked_until_the_server_answers_it() {
        for (code, expected, then) in [
            (401, 401, vec![QUESTION]),
            (403, 403, vec![QUESTION]),
            (404, 404, vec![QUESTION]),
            (429, 429, vec![QUESTION]),
            (500, 500, vec![QUESTION]),
            (503, 503, vec![QUESTION]),
            (400, 200, vec![QUESTION, "the watch"]),
            (406, 200, vec![QUESTION, "the watch"]),
        ] {
            let (server, seven) = (FakeServer::default(), format!("{WATCH}7"));
            let mut client = client(&server);
            ask(&mut client, &seven).await;
            tokio::time::advance(WHOLE).await;
            lock(&server).away = true;
            assert_eq!(ask(&mut client, &seven).await, None);
            *lock(&server) = Fake { answers: Some(code), ..Fake::default() };
            assert_eq!(ask(&mut client, &seven).await, Some(expected), "{code}");
            let then: Vec<&str> = then.into_iter().map(|uri| if uri == "the watch" { &seven } else { uri }).collect();
            assert_eq!(lock(&server).asked, then, "{code}");
            if expected != 200 {
                lock(&server).answers = None;
                assert_eq!(ask(&mut client, &seven).await, Some(410), "restored, and {code} until it was ready");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_must_list_resumes_if_its_server_cannot_refuse_a_version() {
        for code in [200, 400, 406] {
            let (server, contact, seven) = (FakeServer::default(), Contact::default(), format!("{WATCH}7"));
            let mut client = client_of(&server, contact.clone());
            lock(&server).answers = Some(code);
            ask(&mut client, &seven).await;
            crate::lease::Witness::refuted(&contact);
            assert_eq!(ask(&mut client, &seven).await, Some(200), "{code}");
            let selection = address(&seven.parse().unwrap()).unwrap().0;
            assert!(!contact.must_list(&selection), "{code}: it would be interrupted at once, again and again");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_from_before_a_restore_was_found_lets_no_watch_resume() {
        let (contact, asked) = (Contact::default(), FakeServer::default());
        let (found, server) = (contact.clone(), asked.clone());
        lock(&server).newest = 9;
        let inner = tower::service_fn(move |request: Request<Body>| {
            // The lease says so while the answer to the first question is on its way.
            if lock(&server).asked.is_empty() && !is_watch(&request) {
                crate::lease::Witness::refuted(&found);
            }
            std::future::ready(answer(&server, &request))
        });
        let (mut client, seven) = (resuming(contact.clone()).layer(inner), format!("{WATCH}7"));
        let name = address(&seven.parse().unwrap()).unwrap().0;
        contact.answered(&name, StatusCode::OK, WHOLE, 0);
        contact.ended(&name, contact::Ended::Broken);
        drop(client.ready().await.unwrap().call(Request::get(&seven).body(Body::empty()).unwrap()).await.unwrap());
        assert!(contact.must_list(&name), "its list is still due");
        assert_eq!(ask(&mut client, &seven).await, Some(410));
    }

    #[tokio::test(start_paused = true)]
    async fn each_reader_of_the_same_objects_lists_again_after_a_restore() {
        let (server, contact, seven) = (FakeServer::default(), Contact::default(), format!("{WATCH}7"));
        let mut client = client_of(&server, contact.clone());
        lock(&server).newest = 9;
        let by = |reader: &str| {
            let request = Request::get(&seven).extension(ReaderName(reader.into()));
            request.body(Body::empty()).unwrap()
        };
        let mut send = async |reader: &str| client.ready().await.unwrap().call(by(reader)).await.unwrap();
        let streams = [send("sources").await, send("dependencies").await];
        crate::lease::Witness::refuted(&contact);
        drop(streams);
        for reader in ["sources", "dependencies"] {
            assert_eq!(send(reader).await.status(), 410, "{reader}");
            assert_eq!(send(reader).await.status(), 200, "{reader} after its list");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_ended_early_asks_even_if_no_request_failed() {
        let (server, seven) = (FakeServer::default(), format!("{WATCH}7"));
        let mut client = client(&server);
        lock(&server).newest = 9;
        let asked = || std::mem::take(&mut lock(&server).asked);
        for (ended, expected) in [(WHOLE, vec![&*seven]), (WHOLE / 2, vec![QUESTION, &seven])] {
            ask(&mut client, &seven).await;
            asked();
            tokio::time::advance(ended).await;
            assert_eq!(ask(&mut client, &seven).await, Some(200));
            assert_eq!(asked(), expected, "after {ended:?}");
            tokio::time::advance(WHOLE).await;
        }
        ask(&mut client, &seven).await;
        tokio::time::advance(WHOLE / 2).await;
        lock(&server).newest = 5;
        assert_eq!(ask(&mut client, &seven).await, Some(410), "the next server behind the balancer was restored");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_goes_on_after_an_outage_asks_whether_its_version_is_known() {
        let server = FakeServer::default();
        let seven = format!("{WATCH}7");
        let mut client = client(&server);
        lock(&server).newest = 9;
        let asked = || std::mem::take(&mut lock(&server).asked);

        assert_eq!(ask(&mut client, &seven).await, Some(200));
        assert_eq!(asked(), [&*seven], "nothing happened yet");
        tokio::time::advance(WHOLE).await;
        lock(&server).away = true;
        assert_eq!(ask(&mut client, "/api/v1/pods").await, None);
        assert_eq!(ask(&mut client, &seven).await, None, "still away");
        assert_eq!(asked(), ["/api/v1/pods", QUESTION]);
        lock(&server).away = false;
        assert_eq!(ask(&mut client, &seven).await, Some(200));
        assert_eq!(asked(), [QUESTION, &*seven]);
        tokio::time::advance(WHOLE).await;
        assert_eq!(ask(&mut client, &seven).await, Some(200));
        assert_eq!(asked(), [&*seven], "it is asked once");

        lock(&server).away = true;
        assert_eq!(ask(&mut client, "/api/v1/pods").await, None);
        (lock(&server).away, lock(&server).newest) = (false, 5);
        assert_eq!(ask(&mut client, &seven).await, Some(410), "the server was restored from a backup");
        let fresh = format!("{WATCH}5");
        assert_eq!(ask(&mut client, &fresh).await, Some(200), "after a list it goes on from there");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_waits_for_a_watch_whose_stream_broke_and_is_then_decided_again() {
        let streams = || http_body_util::StreamBody::new(futures::stream::iter([Err::<Frame<&[u8]>, _>("broken")]));
        let inner =
            tower::service_fn(move |_: Request<Body>| std::future::ready(Ok::<_, BoxError>(Response::new(streams()))));
        let mut client = resuming(Contact::default()).layer(inner);
        let send = |method: Method, uri: &str| Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
        let watch = || send(Method::GET, &format!("{WATCH}7"));
        let stream = client.ready().await.unwrap().call(watch()).await.unwrap();
        let write = async |client: &mut Resuming<_>| {
            let answer = client.ready().await.unwrap().call(send(Method::POST, "/api/v1/pods")).await;
            answer.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(write(&mut client).await, Ok(()), "the stream is whole");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(stream.into_body().collect().await.map_err(|error| error.to_string()).err(), Some("broken".into()));
        let mut other = client.clone();
        let (held, ()) = tokio::join!(write(&mut client), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(other.ready().await.unwrap().call(watch()).await.unwrap());
        });
        assert_eq!(held, Err(contact::Interrupted.to_string()));
        assert_eq!(write(&mut client).await, Ok(()), "who stops reading interrupts nothing");
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
