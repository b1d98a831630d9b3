//! Serves `/metrics`, `/healthz`, `/readyz`, webhooks and a site for people from startup on, on leaders and candidates alike.

mod access;
mod callers;
mod connections;
mod forms;
mod gate;
mod live;
mod reviews;
mod site;
#[cfg(test)]
mod tests;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum_server::Handle;
use axum_server::accept::DefaultAcceptor;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use hyper_util::rt::TokioTimer;
use outside::Api;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::metrics::{Format, Metrics};
use crate::runtime::liveness::Liveness;
use crate::runtime::readiness::Readiness;
use access::AccessReviews;
use connections::{Connections, Limited};
pub use site::{Access, Form, Page, Right, Senders, Site, Submitted, Visit};
use tls::Acceptor;
pub use tls::{Certificate, CertificateError};

/// How long a client may take to send a request's head, including the first one. Idle clients could otherwise use up
/// the process's file descriptors.
const HEAD_LIMIT: Duration = Duration::from_secs(10);

/// The maximum size of a request's head, in bytes. A token has 1 or 2 KiB.
const MAX_HEAD: u32 = 16 << 10;

/// How many concurrent requests one HTTP/2 connection may have.
const MAX_STREAMS: u32 = 4;

/// How many probes may be connected at once.
const MAX_PROBES: usize = 64;

/// How many scrapers may be connected at once. Each response is as large as the metrics.
const MAX_SCRAPERS: usize = 16;

/// How many connections people may have to a site at once. Most wait for changes and hold nothing; a browser has up to
/// six.
const MAX_READERS: usize = 320;

/// Maximum concurrent connections to webhooks. An API server opens one for each request that it has under way.
const MAX_ASKING: usize = 512;

/// How long running requests may take to finish when the server stops.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

/// How long a server may take to notice that it should stop. It takes longer only if all of its threads are blocked.
const STOPPING: Duration = Duration::from_secs(1);

/// The reason why an address cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use or invalid.
    #[error("cannot listen on {address:?} for {what}: {why}; set {flag} to another address, or to 0 for none")]
    Listen {
        /// The address.
        address: String,
        /// What is served there.
        what: &'static str,
        /// The flag that sets the address.
        flag: &'static str,
        /// The cause.
        why: std::io::Error,
    },
    /// The certificate of a server cannot be used.
    #[error("cannot serve metrics over TLS")]
    Certificate(#[from] CertificateError),
    /// The certificate of the site cannot be used.
    #[error("cannot serve the page over TLS")]
    SiteCertificate(#[source] CertificateError),
}

/// How `/metrics` is served over HTTPS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The certificate. Default: self-signed, generated at startup and kept in memory.
    pub files: Option<CertificateFiles>,
    /// Whether clients may use HTTP/2. Default: false.
    pub http2: bool,
    /// Whether a client needs a bearer token of a user that RBAC allows to `get` the path `/metrics`. Default: false.
    pub require_rbac: bool,
}

/// A certificate chain and its private key as PEM files. A change takes effect when the next client connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// The private key in PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

/// A listening server; [`serve`](Server::serve) answers requests.
pub struct Server {
    listener: TcpListener,
    router: Router,
    tls: Option<Acceptor>,
    connections: Connections,
    /// How long running requests may take to finish.
    last: Duration,
    /// The address, with the actual port for port 0.
    pub address: SocketAddr,
}

/// Listens for Prometheus. Returns `None` if the address is `0` or empty. `api` reviews tokens.
///
/// # Errors
/// The address is in use or invalid, or the certificate cannot be used.
pub async fn metrics(
    address: &str,
    tls: Option<&Tls>,
    metrics: Metrics,
    api: Arc<dyn Api>,
) -> Result<Option<Server>, Error> {
    let turns = Arc::new(Mutex::new(()));
    let answer = move |headers: HeaderMap| async move {
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let format = Format::negotiate(accept);
        let text = encode(metrics, format, turns).await?;
        Ok::<_, StatusCode>(([(CONTENT_TYPE, format.content_type())], text))
    };
    let mut router = Router::new().route("/metrics", get(answer)).fallback(|| paths("/metrics"));
    if tls.is_some_and(|tls| tls.require_rbac) {
        router = router.layer(from_fn_with_state(Arc::new(AccessReviews::new(api)), access::check));
    }
    bind((address, &METRICS), router, tls).await
}

/// Listens for the kubelet's probes. Returns `None` if the address is `0` or empty.
///
/// # Errors
/// The address is in use or invalid.
pub async fn probes(address: &str, readiness: Readiness, liveness: Liveness) -> Result<Option<Server>, Error> {
    let health = move || async move { healthz(&liveness) };
    let ready = move || async move { readyz(&readiness.unready(), &readiness.unmet()) };
    let router = Router::new().route("/healthz", get(health)).route("/readyz", get(ready));
    bind((address, &PROBES), router.fallback(|| paths("/healthz and /readyz")), None).await
}

/// Listens for people who read a site, over HTTPS because requests carry tokens; without `files`, the certificate is
/// self-signed. Returns `None` if the address is `0` or empty. `api` reviews tokens and rights. With `senders`, people may
/// also send forms, which act on the API server with the sender's own token.
///
/// # Errors
/// The address is in use or invalid, or the certificate cannot be used.
pub async fn site(
    address: &str,
    files: Option<CertificateFiles>,
    site: Arc<dyn Site>,
    api: Arc<dyn Api>,
    senders: Option<Senders>,
) -> Result<Option<Server>, Error> {
    let tls = Tls { files, ..Tls::default() };
    bind((address, &SITE), site::router(site, api, senders), Some(&tls)).await.map_err(|error| match error {
        Error::Certificate(why) => Error::SiteCertificate(why),
        other => other,
    })
}

/// Listens for the API server's requests to webhooks, over HTTPS.
///
/// # Errors
/// The address is in use or invalid.
pub async fn webhooks(address: &str, certificate: Certificate) -> Result<Listener, Error> {
    let Use(what, flag, most) = WEBHOOKS;
    let listener = listen_for(address, what, flag).await?;
    Ok(Listener { listener, tls: Acceptor::of(certificate)?, connections: Connections::at_most(most) })
}

/// A bound address whose routes are not known yet.
pub struct Listener {
    listener: TcpListener,
    tls: Acceptor,
    connections: Connections,
}

impl Listener {
    /// Returns the port; 0 if it is unknown.
    pub fn port(&self) -> u16 {
        self.listener.local_addr().map_or(0, |address| address.port())
    }

    /// Returns a server that answers with these routes.
    pub fn routes(self, router: Router) -> Server {
        let Listener { listener, tls, connections } = self;
        let address = listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        Server { listener, router, tls: Some(tls), connections, address, last: LAST_REQUESTS }
    }
}

/// Answers a liveness probe. Fails only if a restart helps.
fn healthz(liveness: &Liveness) -> (StatusCode, String) {
    match liveness.failure() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// Answers a readiness probe, and names the requirements that are not met yet, whether or not they keep the process
/// unready.
fn readyz(unready: &[String], unmet: &[String]) -> (StatusCode, String) {
    let named = unmet.join("\n- ");
    match (unready, unmet) {
        ([], []) => (StatusCode::OK, "ok".to_owned()),
        ([], _) => (StatusCode::OK, format!("ok for webhooks, but not to reconcile everything\n- {named}\n")),
        _ => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready\n- {named}\n")),
    }
}

/// Encodes metrics on a separate thread, because that takes long with many resources, and for one scrape at a time. A scrape
/// keeps its turn until its thread ends, even if the client is gone, so there is at most one such thread.
async fn encode(metrics: Metrics, format: Format, turns: Arc<Mutex<()>>) -> Result<String, StatusCode> {
    let turn = turns.lock_owned().await;
    let encoded = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        metrics.encode(format)
    });
    encoded.await.map_err(|error| {
        tracing::error!(%error, "Cannot encode metrics");
        StatusCode::INTERNAL_SERVER_ERROR
    })
}

/// Answers requests for any other path.
async fn paths(served: &'static str) -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, format!("nothing is here; this server answers at {served}\n"))
}

impl Server {
    /// Returns whether the server speaks HTTPS.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns how long [`serve`](Self::serve) may take to end once it should stop.
    pub fn ends_within(&self) -> Duration {
        self.last + STOPPING
    }

    /// Answers requests until `shutdown` is cancelled. Then closes all connections, those of webhooks once they have
    /// their answers.
    pub async fn serve(self, shutdown: CancellationToken) {
        let handle = Handle::<SocketAddr>::new();
        let mut server = axum_server::Server::from_listener(self.listener).handle(handle.clone());
        let http = server.http_builder();
        http.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(MAX_HEAD as usize);
        http.http2().max_header_list_size(MAX_HEAD).max_concurrent_streams(MAX_STREAMS);
        let service = self.router.into_make_service_with_connect_info::<SocketAddr>();
        let connections = self.connections;
        // `http1_only` comes last because `acceptor` undoes a part of it, without which the head limit would start only
        // after the first bytes.
        let serving = async {
            match self.tls {
                Some(inner) if inner.http2 => server.acceptor(Limited { inner, connections }).serve(service).await,
                Some(inner) => server.acceptor(Limited { inner, connections }).http1_only().serve(service).await,
                None => {
                    let inner = DefaultAcceptor::new();
                    server.acceptor(Limited { inner, connections }).http1_only().serve(service).await
                }
            }
        };
        let stopping = async {
            shutdown.cancelled().await;
            match self.last.is_zero() {
                true => handle.shutdown(),
                false => handle.graceful_shutdown(Some(self.last)),
            }
        };
        let (result, ()) = tokio::join!(serving, stopping);
        if let Err(error) = result {
            tracing::error!(address = %self.address, %error, "Server failed");
        }
    }
}

/// The use of an address: what is served there, the flag that sets it, and its maximum number of clients.
struct Use(&'static str, &'static str, usize);

const METRICS: Use = Use("metrics", "--metrics-bind-address", MAX_SCRAPERS);
const PROBES: Use = Use("probes", "--health-probe-bind-address", MAX_PROBES);
const SITE: Use = Use("the page", "--web-bind-address", MAX_READERS);
const WEBHOOKS: Use = Use("webhooks", "--webhook-bind-address", MAX_ASKING);

async fn bind((address, used): (&str, &Use), router: Router, tls: Option<&Tls>) -> Result<Option<Server>, Error> {
    if matches!(address, "" | "0") {
        return Ok(None);
    }
    let tls = match tls {
        Some(tls) => Some(Acceptor::new(tls).await?),
        None => None,
    };
    let Use(what, flag, most) = *used;
    let listener = listen_for(address, what, flag).await?;
    let address =
        listener.local_addr().map_err(|why| Error::Listen { address: address.to_owned(), what, flag, why })?;
    let connections = Connections::at_most(most);
    Ok(Some(Server { listener, router, tls, connections, address, last: Duration::ZERO }))
}

async fn listen_for(address: &str, what: &'static str, flag: &'static str) -> Result<TcpListener, Error> {
    listen(address).await.map_err(|why| Error::Listen { address: address.to_owned(), what, flag, why })
}

/// Binds an address. As in Go, `:8080` means every address of the host, in both IP versions, or in the only one that it
/// supports.
async fn listen(address: &str) -> std::io::Result<TcpListener> {
    match address.strip_prefix(':') {
        None => TcpListener::bind(address).await,
        Some(port) => match TcpListener::bind(format!("[::]:{port}")).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await,
        },
    }
}
