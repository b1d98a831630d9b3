//! `/metrics`, `/healthz` and `/readyz`: served from the start, by leaders and candidates alike.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use http::header::CONTENT_TYPE;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::{self, Metrics};

/// An address that cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address:?}")]
pub struct Error {
    address: String,
    source: std::io::Error,
}

/// A listening server; [`serve`](Server::serve) answers requests.
pub(crate) struct Server {
    listener: TcpListener,
    router: Router,
    /// The address, with the actual port for port 0.
    pub(crate) address: SocketAddr,
}

/// Listens for Prometheus. `None` if the address is `0` or empty.
///
/// # Errors
/// The address is in use or invalid.
pub(crate) async fn metrics(address: &str, metrics: Metrics) -> Result<Option<Server>, Error> {
    let answer = move || async move { ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics.encode()) };
    bind(address, Router::new().route("/metrics", get(answer))).await
}

/// Listens for the kubelet's probes. `None` if the address is `0` or empty.
///
/// # Errors
/// The address is in use or invalid.
pub(crate) async fn probes(address: &str) -> Result<Option<Server>, Error> {
    let ok = || async { "ok" };
    bind(address, Router::new().route("/healthz", get(ok)).route("/readyz", get(ok))).await
}

impl Server {
    /// Answers requests until `shutdown` is cancelled.
    pub(crate) async fn serve(self, shutdown: CancellationToken) {
        let serving = axum::serve(self.listener, self.router).with_graceful_shutdown(shutdown.cancelled_owned());
        if let Err(error) = serving.await {
            tracing::error!(address = %self.address, %error, "Server failed");
        }
    }
}

async fn bind(address: &str, router: Router) -> Result<Option<Server>, Error> {
    if matches!(address, "" | "0") {
        return Ok(None);
    }
    let named = |source| Error { address: address.to_owned(), source };
    let listener = listen(address).await.map_err(named)?;
    let address = listener.local_addr().map_err(named)?;
    Ok(Some(Server { listener, router, address }))
}

/// As in Go, `:8080` means every address of the host: both protocols, or the one that it has.
async fn listen(address: &str) -> std::io::Result<TcpListener> {
    match address.strip_prefix(':') {
        None => TcpListener::bind(address).await,
        Some(port) => match TcpListener::bind(format!("[::]:{port}")).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn metrics_and_probes_answer_until_they_are_told_to_end() {
        let shutdown = CancellationToken::new();
        let metrics = metrics("127.0.0.1:0", Metrics::default()).await.unwrap().unwrap();
        let probes = probes("127.0.0.1:0").await.unwrap().unwrap();
        let (at, probe) = (metrics.address, probes.address);
        let serving = [tokio::spawn(metrics.serve(shutdown.clone())), tokio::spawn(probes.serve(shutdown.clone()))];
        let answer = ask(at, "/metrics").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("helm_operator_build_info{"), "{answer}");
        assert!(ask(probe, "/healthz").await.ends_with("ok"));
        assert!(ask(probe, "/readyz").await.ends_with("ok"));
        assert!(ask(probe, "/metrics").await.starts_with("HTTP/1.1 404"));
        shutdown.cancel();
        for task in serving {
            task.await.unwrap();
        }
    }

    #[tokio::test]
    async fn addresses_zero_and_empty_serve_nothing() {
        assert!(probes("0").await.unwrap().is_none());
        assert!(metrics("", Metrics::default()).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn an_address_in_use_is_an_error_that_names_it() {
        let first = probes("127.0.0.1:0").await.unwrap().unwrap();
        let error = probes(&first.address.to_string()).await.err().unwrap();
        assert_eq!(error.to_string(), format!("cannot listen on \"{}\"", first.address));
    }
}
