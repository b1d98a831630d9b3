//! Provides the certificates of servers: self-signed, from files that are reloaded when they change, or replaced by their
//! owner.
//!
//! Counterpart: controller-runtime's `pkg/metrics/server` and `pkg/certwatcher`, which polls the files.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex as StdMutex};

use axum_server::accept::Accept;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use futures::future::BoxFuture;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WantsServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ConfigBuilder, ServerConfig};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;

use super::{CertificateFiles, Tls};
use crate::report::chain;
use outside::sync::lock;

/// The names in a self-signed certificate.
const SELF_SIGNED: [&str; 2] = ["localhost", "127.0.0.1"];

/// The reason why a certificate cannot be used. Never contains the key.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The certificate file is not PEM, or has no certificate.
    #[error("cannot parse the certificate")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// The key file is not PEM, or has no private key.
    #[error("cannot parse the private key")]
    Key(#[source] rustls::pki_types::pem::Error),
    /// The key does not match the certificate, or its algorithm is not supported.
    #[error("cannot use the certificate with its key")]
    Pair(#[source] rustls::Error),
    /// No certificate could be generated.
    #[error("cannot generate a self-signed certificate")]
    Generate(#[source] rcgen::Error),
}

/// A chain and its key.
struct Pair {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Accepts TLS connections with the current certificate. Cheap to clone.
#[derive(Clone)]
pub(super) struct Acceptor {
    inner: RustlsAcceptor,
    config: RustlsConfig,
    pub(super) http2: bool,
    files: Option<Arc<Watched>>,
}

/// A certificate that its owner replaces while it is served. Until the first one, no client can connect.
#[derive(Clone, Debug, Default)]
pub struct Certificate(Arc<StdMutex<Option<Arc<CertifiedKey>>>>);

impl Certificate {
    /// Serves this chain with this key, both as PEM, to clients that connect from now on.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), CertificateError> {
        let Pair { chain, key } = parse(certificate, key)?;
        let certified =
            CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(CertificateError::Pair)?;
        *lock(&self.0) = Some(Arc::new(certified));
        Ok(())
    }

    /// Returns whether this certificate, as PEM, is served.
    #[cfg(test)]
    pub(crate) fn is(&self, certificate: &str) -> bool {
        let expected = CertificateDer::from_pem_slice(certificate.as_bytes()).ok();
        lock(&self.0).as_ref().is_some_and(|served| served.cert.first() == expected.as_ref())
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        lock(&self.0).clone()
    }
}

/// Certificate files and what was last read from them.
struct Watched {
    files: CertificateFiles,
    /// The digest of the last contents, or the error of reading them.
    last: Mutex<Result<[u8; 32], String>>,
}

impl Acceptor {
    /// Reads or generates the certificate.
    pub(super) async fn new(tls: &Tls) -> Result<Acceptor, CertificateError> {
        let (pair, files) = match &tls.files {
            None => (self_signed()?, None),
            Some(files) => {
                let (certificate, key) = read(files).await?;
                let last = Mutex::new(Ok(digest(&certificate, &key)));
                (parse(&certificate, &key)?, Some(Arc::new(Watched { files: files.clone(), last })))
            }
        };
        let config = RustlsConfig::from_config(server_config(pair, tls.http2)?);
        Ok(Acceptor { inner: RustlsAcceptor::new(config.clone()), config, http2: tls.http2, files })
    }

    /// Accepts connections with the certificate's current state.
    ///
    /// # Errors
    /// The crypto provider is unusable, which is a bug.
    pub(super) fn of(certificate: Certificate) -> Result<Acceptor, CertificateError> {
        let mut config = builder()?.with_cert_resolver(Arc::new(certificate));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = RustlsConfig::from_config(Arc::new(config));
        Ok(Acceptor { inner: RustlsAcceptor::new(config.clone()), config, http2: false, files: None })
    }

    /// Reloads changed files. If they cannot be used, keeps the previous certificate and logs that once.
    async fn reload(&self) {
        let Some(watched) = &self.files else { return };
        let mut last = watched.last.lock().await;
        let read = read(&watched.files).await;
        let found = read.as_ref().map(|(certificate, key)| digest(certificate, key)).map_err(|e| chain(e));
        if *last == found {
            return;
        }
        *last = found;
        let config = read.and_then(|(certificate, key)| server_config(parse(&certificate, &key)?, self.http2));
        match config {
            Ok(config) => {
                self.config.reload_from_config(config);
                tracing::info!("Updated current TLS certificate");
            }
            Err(error) => {
                tracing::warn!(error = chain(&error), "Cannot use the changed TLS certificate; the previous one stays");
            }
        }
    }
}

impl<I, S> Accept<I, S> for Acceptor
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Send + 'static,
{
    type Stream = <RustlsAcceptor as Accept<I, S>>::Stream;
    type Service = S;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, S)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let acceptor = self.clone();
        Box::pin(async move {
            acceptor.reload().await;
            acceptor.inner.accept(stream, service).await
        })
    }
}

async fn read(files: &CertificateFiles) -> Result<(Vec<u8>, Vec<u8>), CertificateError> {
    Ok((read_file(&files.certificate).await?, read_file(&files.key).await?))
}

async fn read_file(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let named = |source| CertificateError::Read { path: path.display().to_string(), source };
    tokio::fs::read(path).await.map_err(named)
}

/// Identifies contents without keeping a second copy of the key.
fn digest(certificate: &[u8], key: &[u8]) -> [u8; 32] {
    let mut all = Sha256::new();
    all.update(Sha256::digest(certificate));
    all.update(Sha256::digest(key));
    all.finalize().into()
}

fn parse(certificate: &[u8], key: &[u8]) -> Result<Pair, CertificateError> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(CertificateError::Certificate)?;
    Ok(Pair { chain, key: PrivateKeyDer::from_pem_slice(key).map_err(CertificateError::Key)? })
}

fn self_signed() -> Result<Pair, CertificateError> {
    let names = SELF_SIGNED.map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).map_err(CertificateError::Generate)?;
    Ok(Pair { chain: vec![made.cert.der().clone()], key: made.signing_key.into() })
}

/// Builds the TLS configuration. Offers HTTP/2 only on request, because its stream resets have been used to overload
/// servers.
fn server_config(pair: Pair, http2: bool) -> Result<Arc<ServerConfig>, CertificateError> {
    let mut config = builder()?.with_single_cert(pair.chain, pair.key).map_err(CertificateError::Pair)?;
    let protocols: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

fn builder() -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, CertificateError> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(CertificateError::Pair)?;
    Ok(builder.with_no_client_auth())
}
