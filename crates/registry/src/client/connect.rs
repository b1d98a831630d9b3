//! Opens connections: over TLS, and through the proxy that the environment names (`HTTPS_PROXY`, `NO_PROXY`).

use std::future::ready;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt};

use crate::Error;

/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Sends a request to a server: over the network, or in its place.
pub type Hop = BoxCloneSyncService<Request<Empty<Bytes>>, Response<UnsyncBoxBody<Bytes, io::Error>>, BoxError>;

/// A connector over TLS.
type Https = HttpsConnector<Proxied>;

/// Returns the way over the network, which trusts the system's certificates and these, in PEM.
pub(super) fn network(ca: &[u8]) -> Result<Hop, Error> {
    let client = ServiceExt::<Request<Empty<Bytes>>>::map_err(client(ca)?, BoxError::from);
    Ok(Hop::new(client.map_response(|answer| answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))))
}

fn client(ca: &[u8]) -> Result<Client<Https, Empty<Bytes>>, Error> {
    let mut direct = HttpConnector::new();
    direct.enforce_http(false);
    direct.set_connect_timeout(Some(CONNECT_LIMIT));
    let proxied = Proxied { direct, proxies: Arc::new(Matcher::from_env()) };
    let https = HttpsConnectorBuilder::new().with_tls_config(tls(ca)?).https_or_http().enable_http1();
    let mut builder = Client::builder(TokioExecutor::new());
    Ok(builder.pool_timer(TokioTimer::new()).build(https.wrap_connector(proxied)))
}

fn tls(ca: &[u8]) -> Result<ClientConfig, Error> {
    let wrong = |error: rustls::Error| Error::Tls(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let extra: Vec<_> = CertificateDer::pem_slice_iter(ca)
        .collect::<Result<_, _>>()
        .map_err(|_| Error::Tls("the private authority's certificates are not PEM".to_owned()))?;
    if extra.is_empty() && !ca.is_empty() {
        return Err(Error::Tls("the private authority has no certificate in PEM".to_owned()));
    }
    let verifier = Verifier::new_with_extra_roots(extra, provider.clone()).map_err(wrong)?;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(wrong)?;
    Ok(config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// Connects directly or through a proxy.
#[derive(Clone)]
struct Proxied {
    direct: HttpConnector,
    proxies: Arc<Matcher>,
}

impl Service<Uri> for Proxied {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.direct.poll_ready(task).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let Some(proxy) = self.proxies.intercept(&to) else {
            let connecting = self.direct.call(to);
            return Box::pin(async move { connecting.await.map_err(Into::into) });
        };
        // The tunnel speaks plain HTTP: a proxy behind TLS or of another protocol would get the password in the clear.
        if proxy.uri().scheme() != Some(&Scheme::HTTP) {
            let refused = format!("the proxy {} is not asked: only one at http:// is", proxy.uri());
            return Box::pin(ready(Err(BoxError::from(refused))));
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.direct.clone());
        if let Some(authorization) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        let connecting = tunnel.call(to);
        Box::pin(async move { connecting.await.map_err(Into::into) })
    }
}
