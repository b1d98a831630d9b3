//! Creates the process's client, which finds its cluster as kubectl does, sets a user agent, counts requests, and
//! limits the time and size of responses.

mod apply;
mod as_of;
mod bounded;
mod certificates;
mod connections;
mod contact;
mod find;
mod followed;
mod pages;
mod reader;
pub mod rehearsal;
mod restart;
mod resume;
mod senders;
mod sharded;
mod term;
mod traced;

use std::pin::Pin;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use axum::body::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body::Body as HttpBody;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tokio_util::sync::CancellationToken;
use tower::layer::layer_fn;
use tower::retry::RetryLayer;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, Service, ServiceBuilder};
use tracing::Instrument as _;

pub(crate) use crate::client::apply::apply;
pub use crate::client::as_of::AsOf;
pub(crate) use crate::client::as_of::as_of_now;
use crate::client::bounded::{Bounded, TooLarge};
pub use crate::client::certificates::CertificatesError;
pub(crate) use crate::client::certificates::certificates;
use crate::client::connections::{Connections, is_followed_log, is_watch};
pub(crate) use crate::client::connections::{HttpClient, to_others};
pub use crate::client::contact::Contact;
pub use crate::client::find::NoCluster;
pub use crate::client::find::{find as find_cluster, find_in as find_cluster_in};
use crate::client::pages::in_pages;
pub use crate::client::reader::read_by;
use crate::client::restart::AfterRestart;
use crate::client::resume::resuming;
pub(crate) use crate::client::senders::senders;
pub use crate::client::sharded::sharded;
use crate::client::term::within_term;
use crate::lease::{Lost, Term};
use crate::metrics::Metrics;

/// How long the server may take to start a response. Watches may take longer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Sends a request to the API server; what clients have instead of connections where the server is in the same process.
pub type Hop = BoxCloneSyncService<Request<Body>, Response<axum::body::Body>, BoxError>;

/// The reason why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No cluster is configured.
    #[error(transparent)]
    Kubeconfig(#[from] NoCluster),
    /// The configured cluster cannot be used.
    #[error("cannot create a client for the cluster")]
    Client(#[source] kube::Error),
}

/// A client, and what it knows of its contact with the server.
#[derive(Clone)]
pub struct Connection {
    /// The client.
    pub client: Client,
    /// Knows when its watches were interrupted.
    pub contact: Contact,
}

impl From<Client> for Connection {
    /// Returns a connection to a server whose watches are never interrupted.
    fn from(client: Client) -> Connection {
        Connection { client, contact: Contact::default() }
    }
}

/// Creates a client of the cluster that writes nothing once the term is over. Its requests are accepted on the current
/// runtime; a connection is driven by the runtime that sends its first request.
///
/// # Errors
/// The configuration cannot be used.
pub fn connect(config: Config, program: &str, metrics: &Metrics, term: &Term) -> Result<Connection, Error> {
    let (config, contact) = (prepared(config, program), Contact::default());
    let client = client(config, metrics, term, &contact).map_err(Error::Client)?;
    Ok(Connection { client: in_pages(client), contact })
}

/// Returns a client that changes each request before it sends it with this one.
fn changing(client: Client, change: impl Fn(&mut Request<Body>) -> Result<(), http::Error> + Send + 'static) -> Client {
    let namespace = client.default_namespace().to_owned();
    let send = move |mut request: Request<Body>| {
        let (client, changed) = (client.clone(), change(&mut request));
        async move {
            changed?;
            Ok::<_, BoxError>(client.send(request).await?)
        }
    };
    Client::new(tower::service_fn(send), namespace)
}

/// Creates the same client, whose requests end at `hop` instead of on a connection. The configuration only provides the
/// address, the namespace, and additions to requests.
///
/// # Errors
/// The configuration cannot be used.
pub fn connect_over(
    hop: Hop,
    config: Config,
    program: &str,
    metrics: &Metrics,
    term: &Term,
) -> Result<Connection, Error> {
    let (config, contact) = (prepared(config, program), Contact::default());
    let connections = Connections::new(move || hop.clone());
    let client = layered(connections, config, metrics, term, &contact).map_err(Error::Client)?;
    Ok(Connection { client: in_pages(client), contact })
}

fn prepared(mut config: Config, program: &str) -> Config {
    let agent = format!("{program}/{}", env!("CARGO_PKG_VERSION"));
    config.headers.extend(HeaderValue::from_str(&agent).ok().map(|agent| (header::USER_AGENT, agent)));
    if config.accept_invalid_certs {
        // Without this, each client reads all of the system's authorities, which nothing checks against.
        config.root_cert.get_or_insert_default();
    }
    config
}

/// Builds a client like kube's own, with our connections.
fn client(config: Config, metrics: &Metrics, term: &Term, contact: &Contact) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        metrics.api_server(host(&config));
        let client = ClientBuilder::try_from(config)?.with_layer(&within_term(term.clone()));
        return Ok(client.with_layer(&counted(metrics.clone())).build());
    }
    layered(connections::connections(&config)?, config, metrics, term, contact)
}

/// Builds a client over connections. Retries a request that the server turns away (429, 503, 504), as the server asks.
fn layered<S, B>(
    connections: Connections<S>,
    config: Config,
    metrics: &Metrics,
    term: &Term,
    contact: &Contact,
) -> Result<Client, kube::Error>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    metrics.api_server(host(&config));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.default_retry.then(|| RetryLayer::new(AfterRestart::of(contact.clone()))))
        .layer(resuming(contact.clone()))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .layer(within_term(term.clone()))
        .service(connections);
    Ok(ClientBuilder::new(service, config.default_namespace).with_layer(&counted(metrics.clone())).build())
}

/// Returns this client, which sends no write once this term is over either. A write that waits to be sent again is given
/// up when `gone` is cancelled.
pub(crate) fn within(client: Client, term: Term, gone: CancellationToken) -> Client {
    let namespace = client.default_namespace().to_owned();
    let send = move |request: Request<Body>| {
        let (client, gone, is_write) = (client.clone(), gone.clone(), contact::is_write(&request));
        async move {
            tokio::select! {
                biased;
                () = gone.cancelled(), if is_write => Err(BoxError::from(Lost)),
                answer = client.send(request) => answer.map_err(BoxError::from),
            }
        }
    };
    Client::new(within_term(term).layer(tower::service_fn(send)), namespace)
}

fn host(config: &Config) -> &str {
    config.cluster_url.authority().map_or("", |host| host.as_str())
}

/// Returns a layer that counts requests by code and method, gives them spans, and limits how long a response may take.
fn counted<S>(metrics: Metrics) -> impl Layer<S, Service = Counted<S>> {
    layer_fn(move |inner| Counted { inner, metrics: metrics.clone() })
}

struct Counted<S> {
    inner: S,
    metrics: Metrics,
}

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<Bounded<R>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bounded<R>>, BoxError>> + Send>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(task).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let span = traced::begin(&mut request);
        let method = request.method().clone();
        let (watch, log) = (is_watch(&request), is_followed_log(&request));
        let metrics = self.metrics.clone();
        let answer = span.in_scope(|| self.inner.call(request)).instrument(span.clone());
        Box::pin(async move {
            let answer = match watch {
                true => answer.await.map_err(Into::into),
                false => match tokio::time::timeout(ANSWER_LIMIT, answer).await {
                    Ok(answer) => answer.map_err(Into::into),
                    Err(elapsed) => Err(elapsed.into()),
                },
            };
            let status = answer.as_ref().ok().map(Response::status);
            traced::answered(&span, status);
            metrics.request(status.map(|status| status.as_u16()), &method);
            Ok(answer?.map(|body| match (watch, log) {
                (true, _) => Bounded::watch(body),
                (_, true) => Bounded::log(body),
                _ => Bounded::answer(body),
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::metrics::Format;

    type Answer = Result<Response<()>, BoxError>;

    async fn ask(
        metrics: &Metrics,
        uri: &str,
        work: impl Future<Output = Answer> + Send + 'static,
    ) -> Result<Response<Bounded<()>>, BoxError> {
        let mut work = Some(work);
        let service = tower::service_fn(move |_: Request<()>| work.take().expect("asked once"));
        counted(metrics.clone()).layer(service).call(Request::get(uri).body(()).unwrap()).await
    }

    #[test]
    fn a_client_that_accepts_any_certificate_reads_no_authorities() {
        let authorities = |accept_invalid_certs| {
            let mut config = Config::new(http::Uri::from_static("https://127.0.0.1"));
            config.accept_invalid_certs = accept_invalid_certs;
            prepared(config, "x").root_cert
        };
        assert_eq!((authorities(false), authorities(true)), (None, Some(Vec::new())));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_counted_by_its_code() {
        let metrics = Metrics::default();
        ask(&metrics, "/api", async { Ok(Response::builder().status(404).body(())?) }).await.unwrap();
        let expected = r#"rest_client_requests_total{code="404",host="",method="GET"} 1"#;
        assert!(metrics.encode(Format::Classic).contains(expected));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unresponsive_server_times_out_but_a_watch_waits() {
        let metrics = Metrics::default();
        let never = std::future::pending;
        assert!(ask(&metrics, "/api", never()).await.is_err());
        let watch = ask(&metrics, "/api?watch=true", never());
        assert!(tokio::time::timeout(ANSWER_LIMIT * 10, watch).await.is_err());
    }

    /// Starts a server that answers the first requests with 429, then with an empty object. Returns a client of it and
    /// the requests that arrive.
    async fn busy(refusals: usize, term: &Term) -> (Client, Arc<Mutex<Vec<(Instant, String)>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let arrived: Arc<Mutex<Vec<(Instant, String)>>> = Arc::default();
        let log = arrived.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = vec![0; 4096];
                let length = stream.read(&mut head).await.unwrap();
                let line = String::from_utf8_lossy(&head[..length]).lines().next().unwrap_or_default().to_owned();
                log.lock().unwrap().push((Instant::now(), line));
                let count = log.lock().unwrap().len();
                let (status, more) = if count <= refusals { ("429 X", "Retry-After: 1\r\n") } else { ("200 OK", "") };
                let answer = format!("HTTP/1.1 {status}\r\n{more}Connection: close\r\nContent-Length: 2\r\n\r\n{{}}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        (client(config, &Metrics::default(), term, &Contact::default()).unwrap(), arrived)
    }

    #[tokio::test]
    async fn a_busy_server_decides_when_a_request_is_repeated() {
        let (client, arrived) = busy(2, &Term::default()).await;
        let call = outside::Call::post("/api/v1/namespaces/ns/configmaps", b"{}".to_vec());
        outside::Api::send(&client, call).await.unwrap();
        let arrived = arrived.lock().unwrap();
        let lines: Vec<&str> = arrived.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(lines, ["POST /api/v1/namespaces/ns/configmaps HTTP/1.1"; 3], "writes, too");
        for pair in arrived.windows(2) {
            let waited = pair[1].0 - pair[0].0;
            assert!(waited >= Duration::from_millis(950) && waited < Duration::from_secs(10), "{waited:?}");
        }
    }

    #[tokio::test]
    async fn a_process_whose_term_is_over_reads_but_sends_no_write_not_even_again() {
        let term = Term::default();
        let (client, arrived) = busy(1, &term).await;
        let send = |call| outside::Api::send(&client, call);
        let write = || outside::Call::post("/api/v1/namespaces/ns/configmaps", b"{}".to_vec());
        // The server asks for a retry after one second, when the term is over.
        term.set_end(tokio::time::Instant::now() + Duration::from_millis(900));
        assert!(send(write()).await.is_err());
        assert!(send(write()).await.is_err());
        send(outside::Call::get("/api")).await.unwrap();
        let lines: Vec<String> = arrived.lock().unwrap().iter().map(|(_, line)| line.clone()).collect();
        assert_eq!(lines, ["POST /api/v1/namespaces/ns/configmaps HTTP/1.1", "GET /api HTTP/1.1"]);
        term.set_end(tokio::time::Instant::now() + Duration::from_secs(60));
        send(write()).await.unwrap();
    }

    /// Requests with their user agents.
    type Arrived = Arc<Mutex<Vec<(String, String)>>>;

    /// Returns a client over a server that turns the first request away, then answers; and the requests that arrive.
    fn over(term: &Term) -> (Client, Arrived) {
        let arrived = Arrived::default();
        let log = arrived.clone();
        let hop = tower::service_fn(move |request: Request<Body>| {
            let agent = request.headers()[header::USER_AGENT].to_str().unwrap().to_owned();
            log.lock().unwrap().push((format!("{} {}", request.method(), request.uri()), agent));
            let status = if log.lock().unwrap().len() == 1 { 503 } else { 200 };
            std::future::ready(Response::builder().status(status).body("{}".into()))
        });
        let config = Config::new("http://here".parse().unwrap());
        let hop = Hop::new(ServiceBuilder::new().map_err(BoxError::from).service(hop));
        (connect_over(hop, config, "shop", &Metrics::default(), term).unwrap().client, arrived)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_over_a_hop_repeats_pages_and_refuses_like_any_other() {
        let term = Term::default();
        let (client, arrived) = over(&term);
        let send = |call| outside::Api::send(&client, call);
        send(outside::Call::get("/api/v1/pods?limit=500")).await.unwrap();
        term.set_end(tokio::time::Instant::now());
        assert!(send(outside::Call::post("/api/v1/namespaces/ns/pods", b"{}".to_vec())).await.is_err());
        let page = "GET http://here/api/v1/pods?limit=20".to_owned();
        let agent = concat!("shop/", env!("CARGO_PKG_VERSION")).to_owned();
        assert_eq!(*arrived.lock().unwrap(), [(page.clone(), agent.clone()), (page, agent)]);
    }
}
