//! Spreads requests over a few connections: HTTP/2 if the server speaks it, otherwise HTTP/1.1 with one request at a
//! time per connection.
//!
//! An API server allows about 100 streams per connection (`--http2-max-streams-per-connection`), and a client that
//! needs more waits. Watches never end, so the number per connection is limited, and ordinary requests use a separate
//! connection.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{Body, ConfigExt as _, RustlsTlsError};
use outside::sync;
use tower::{BoxError, Service};

/// The maximum number of watches per connection.
const WATCHES: usize = 90;

/// How often a connection is probed, so that a broken one is noticed even if nothing is written to it.
const PING: Duration = Duration::from_secs(30);
/// How long a probe waits for its answer.
const PONG: Duration = Duration::from_secs(15);

/// A client of any server over HTTP.
pub(crate) type HttpClient = Client<Https, Body>;

type Https = hyper_timeout::TimeoutConnector<hyper_rustls::HttpsConnector<HttpConnector>>;

/// Returns whether the request is a watch, whose response never ends by itself.
pub(super) fn is_watch<B>(request: &Request<B>) -> bool {
    has(request, "watch=true")
}

/// Returns whether the request follows a log, whose response ends with its container.
pub(super) fn is_followed_log<B>(request: &Request<B>) -> bool {
    has(request, "follow=true")
}

fn has<B>(request: &Request<B>, parameter: &str) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == parameter))
}

/// Sends each request on a connection that suits it.
#[derive(Clone)]
pub(super) struct Connections<S> {
    open: Arc<dyn Fn() -> S + Send + Sync>,
    requests: S,
    watches: Arc<Mutex<Vec<(S, Load)>>>,
}

/// Returns the connections to the configured cluster, none of them open yet.
///
/// # Errors
/// The configured certificates or the configured server name cannot be used.
pub(super) fn connections(config: &Config) -> Result<Connections<Client<Https, Body>>, kube::Error> {
    let https = connector(config)?;
    let mut builder = Client::builder(TokioExecutor::new());
    builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new());
    builder.http2_keep_alive_interval(PING).http2_keep_alive_timeout(PONG).http2_keep_alive_while_idle(true);
    Ok(Connections::new(move || Builder::build(&builder, https.clone())))
}

/// Returns a client of another server than the cluster's. Connections that are idle for a while are closed.
///
/// # Errors
/// The configured certificates cannot be used.
pub(crate) fn to_others(config: &Config) -> Result<HttpClient, kube::Error> {
    let mut builder = Client::builder(TokioExecutor::new());
    Ok(builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).build(connector(config)?))
}

fn connector(config: &Config) -> Result<Https, kube::Error> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    // HTTP/2 writes a request's head and body separately. With Nagle's algorithm, the body would wait 40 ms for the
    // head to be acknowledged.
    http.set_nodelay(true);
    let mut https =
        hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        let name = name.try_into().map_err(|error| kube::Error::RustlsTls(RustlsTlsError::InvalidServerName(error)))?;
        https = https.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name));
    }
    let mut connector = hyper_timeout::TimeoutConnector::new(https.enable_http1().enable_http2().wrap_connector(http));
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    Ok(connector)
}

impl<S: Clone> Connections<S> {
    /// Returns connections that `open` opens one by one.
    pub(super) fn new(open: impl Fn() -> S + Send + Sync + 'static) -> Connections<S> {
        Connections { requests: open(), open: Arc::new(open), watches: Arc::default() }
    }

    /// Returns the first connection with room for another watch; opens a new one if none has room. The watch counts
    /// until its load is dropped.
    fn for_watch(&self) -> (S, Load) {
        let mut watches = sync::lock(&self.watches);
        if let Some((connection, load)) = watches.iter().find(|(_, load)| load.watches() < WATCHES) {
            return (connection.clone(), load.clone());
        }
        let (connection, load) = ((self.open)(), Load::default());
        watches.push((connection.clone(), load.clone()));
        (connection, load)
    }
}

/// Counts a connection's watches: one per clone.
#[derive(Clone, Default)]
struct Load(Arc<()>);

impl Load {
    fn watches(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

impl<S, B> Service<Request<Body>> for Connections<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: HttpBody + Send + Unpin + 'static,
{
    type Response = Response<Streamed<B>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The connection depends on the request, so there is nothing to wait for yet.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (connection, load) = match is_watch(&request) {
            true => {
                let (connection, load) = self.for_watch();
                (connection, Some(load))
            }
            false => (self.requests.clone(), None),
        };
        Box::pin(async move {
            let answer = tower::ServiceExt::oneshot(connection, request).await.map_err(Into::into)?;
            Ok(answer.map(|body| Streamed { body, _load: load }))
        })
    }
}

/// The body of a response. A watch's body counts towards its connection until it is dropped.
pub(super) struct Streamed<B> {
    body: B,
    _load: Option<Load>,
}

impl<B: HttpBody + Unpin> HttpBody for Streamed<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(task)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt as _;

    use super::*;

    /// Returns connections that answer with their own number, starting at 0.
    fn numbered() -> (
        Connections<
            impl Service<Request<Body>, Response = Response<String>, Error = BoxError, Future = impl Send> + Clone + Send,
        >,
        Arc<AtomicUsize>,
    ) {
        let opened = Arc::new(AtomicUsize::new(0));
        let count = opened.clone();
        let connections = Connections::new(move || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            tower::service_fn(move |_: Request<Body>| async move { Ok(Response::new(number.to_string())) })
        });
        (connections, opened)
    }

    #[tokio::test]
    async fn watches_fill_connections_and_requests_have_their_own() {
        let (mut connections, opened) = numbered();
        let mut ask = async |uri: &str| {
            connections.call(Request::get(uri).body(Body::empty()).unwrap()).await.unwrap().into_body()
        };
        let mut watches = Vec::new();
        for _ in 0..WATCHES {
            watches.push(ask("/api/v1/pods?allowWatchBookmarks=true&watch=true").await);
        }
        let number =
            async |body: Streamed<String>| String::from_utf8(body.collect().await.unwrap().to_bytes().into()).unwrap();
        assert_eq!(number(ask("/api/v1/pods?labelSelector=watch%3Dtrue").await).await, "0");
        let next = ask("/api?watch=true").await;
        assert_eq!((opened.load(Ordering::SeqCst), number(next).await), (3, "2".into()));
        watches.pop();
        assert_eq!(number(ask("/api?watch=true").await).await, "1", "a place is free again");
        assert_eq!(opened.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn only_watches_and_followed_logs_last() {
        for (query, watch, log) in [
            ("watch=true&resourceVersion=7", true, false),
            ("container=main&follow=true", false, true),
            ("follow=false&tailLines=5", false, false),
            ("labelSelector=watch%3Dtrue", false, false),
        ] {
            let request = Request::get(format!("/api?{query}")).body(()).unwrap();
            assert_eq!((is_watch(&request), is_followed_log(&request)), (watch, log), "{query}");
        }
    }

    #[test]
    fn an_invalid_server_name_is_an_error() {
        let mut config = Config::new("https://127.0.0.1:6443".parse().unwrap());
        for (name, valid) in [(None, true), (Some("api.example.com"), true), (Some("not a name"), false)] {
            config.tls_server_name = name.map(str::to_owned);
            assert_eq!(connections(&config).is_ok(), valid, "{name:?}");
        }
    }
}
