//! Fetches from a real registry, distribution's, over TLS and with tokens. Real Helm pushes.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256};
use registry::{Access, Cache, Error, Source, Wanted};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use test_cluster::eventually;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

/// The user that the server of tokens knows.
const USER: &str = "me:s3cret";

/// Certificates for this host, of an authority that no system knows.
struct Tls {
    ca: String,
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Tls {
    fn new() -> Tls {
        let key = || KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = key();
        let ca = params.self_signed(&authority).unwrap();
        let own = key();
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])
            .unwrap()
            .signed_by(&own, &Issuer::new(params, authority))
            .unwrap();
        Tls { ca: ca.pem(), certificate, key: own }
    }
}

/// A process of the registry; killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn program(name: &str) -> PathBuf {
    let path = test_cluster::home().join("bin").join(name);
    assert!(path.is_file(), "{} is missing: run make cluster", path.display());
    path
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a registry with this configuration, and waits until it listens.
fn serve(folder: &Path, name: &str, http: &str, auth: &str, port: u16) -> Process {
    let (store, config) = (folder.join("store"), folder.join(format!("{name}.yaml")));
    let text = format!(
        "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '127.0.0.1:{port}', secret: x{http}}}\n{auth}",
        store.display()
    );
    std::fs::write(&config, text).unwrap();
    let log = std::fs::File::create(folder.join(format!("{name}.log"))).unwrap();
    let mut command = Command::new(program("registry"));
    command.arg("serve").arg(config).env("OTEL_TRACES_EXPORTER", "none");
    let process = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    let process = Process(process);
    eventually("registry", || match TcpStream::connect(("127.0.0.1", port)) {
        Ok(_) => Ok(()),
        Err(_) => Err(std::fs::read_to_string(folder.join(format!("{name}.log"))).unwrap()),
    });
    process
}

/// Pushes a version of a chart; returns what Helm prints.
fn push(folder: &Path, port: u16, version: &str) -> String {
    let chart = folder.join("shop");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), format!("apiVersion: v2\nname: shop\nversion: {version}\n")).unwrap();
    let helm = |args: &[&str]| {
        let mut command = Command::new(program("helm"));
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(name, folder.join("helm"));
        }
        let output = command.args(args).current_dir(folder).output().unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(output.status.success(), "{args:?}: {said}");
        said
    };
    helm(&["package", "shop"]);
    helm(&["push", &format!("shop-{version}.tgz"), &format!("oci://127.0.0.1:{port}/charts"), "--plain-http"])
}

/// Serves tokens over TLS to the one user.
async fn serve_tokens(tls: &Tls) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![tls.certificate.der().clone()],
            PrivateKeyDer::try_from(tls.key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let token = json!({"token": token(tls)}).to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { break };
                head.push(byte);
            }
            let head = String::from_utf8(head).unwrap();
            let asks = head.starts_with("GET /token?") && head.contains("scope=repository:charts/shop:pull");
            let is_known = head.contains(&format!("Basic {}", STANDARD.encode(USER)));
            let (status, body) = if asks && is_known { (200, &*token) } else { (401, "{}") };
            let length = body.len();
            let answer = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
            _ = stream.write_all(answer.as_bytes()).await;
            _ = stream.shutdown().await;
        }
    });
    port
}

/// Returns a token that lets its bearer pull the chart.
fn token(tls: &Tls) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let head = json!({"typ": "JWT", "alg": "ES256", "x5c": [STANDARD.encode(tls.certificate.der())]});
    let claims = json!({
        "iss": "test", "sub": "me", "aud": "registry", "exp": now + 600, "nbf": now - 60, "iat": now, "jti": "1",
        "access": [{"type": "repository", "name": "charts/shop", "actions": ["pull"]}],
    });
    let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&head), part(&claims));
    let random = SystemRandom::new();
    let der = tls.key.serialize_der();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random).unwrap();
    let signature = pair.sign(&random, signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Returns the file of a blob in the registry's store.
fn blob(folder: &Path, digest: &str) -> PathBuf {
    let hex = digest.trim_start_matches("sha256:");
    folder.join("store/docker/registry/v2/blobs/sha256").join(&hex[..2]).join(hex).join("data")
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_that_helm_pushes_are_fetched_over_tls_with_a_token_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, tls) = (folder.path(), Tls::new());
    for (name, text) in
        [("tls.crt", tls.certificate.pem()), ("tls.key", tls.key.serialize_pem()), ("ca.crt", tls.ca.clone())]
    {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let (open, guarded, tokens) = (free_port(), free_port(), serve_tokens(&tls).await);
    let _pushed_to = serve(folder, "open", "", "", open);
    let at = |name: &str| folder.join(name).display().to_string();
    let http = format!(", tls: {{certificate: {}, key: {}}}", at("tls.crt"), at("tls.key"));
    let auth = format!(
        "auth: {{token: {{realm: 'https://127.0.0.1:{tokens}/token', service: registry, issuer: test, rootcertbundle: {}}}}}\n",
        at("ca.crt")
    );
    let registry = serve(folder, "guarded", &http, &auth, guarded);
    let said = push(folder, open, "1.0.0");
    push(folder, open, "1.1.0+build.1");
    push(folder, open, "2.0.0");

    let cache = Cache::new(folder.join("cache"), 1 << 20);
    let config = json!({"auths": {format!("127.0.0.1:{guarded}"): {"auth": STANDARD.encode(USER)}}}).to_string();
    let access = Access { docker_config: Some(config.as_bytes()), ca: tls.ca.as_bytes(), ..Access::default() };
    let source = |wanted| Source {
        location: format!("oci://127.0.0.1:{guarded}/charts/shop").parse().unwrap(),
        wanted: Some(wanted),
        plain: false,
    };
    let range = source(Wanted::parse("^1").unwrap());
    let fetched = range.fetch(&cache, access).await.unwrap();
    fetched.keep(&cache).unwrap();
    assert_eq!(fetched.version.as_deref(), Some("1.1.0+build.1"));
    assert_eq!(std::fs::read(&fetched.archive).unwrap(), std::fs::read(at("shop-1.1.0+build.1.tgz")).unwrap());

    // By the digest that `helm push` prints.
    let digest = said.split_whitespace().find(|word| word.starts_with("sha256:")).unwrap();
    let pinned = source(Wanted::Digest(digest.parse().unwrap()));
    let first = pinned.fetch(&cache, access).await.unwrap();
    first.keep(&cache).unwrap();
    assert_eq!(std::fs::read(&first.archive).unwrap(), std::fs::read(at("shop-1.0.0.tgz")).unwrap());

    // Without the right to it, with another authority, or without the chart.
    let error = range.fetch(&cache, Access { docker_config: None, ..access }).await.unwrap_err();
    assert!(matches!(error, Error::Status { .. }) && error.to_string().contains("401"), "{error}");
    let error = range.fetch(&cache, Access { ca: &[], ..access }).await.unwrap_err();
    assert!(matches!(error, Error::Request { .. } | Error::Tls(_)), "{error}");
    let error = source(Wanted::parse("3.0.0").unwrap()).fetch(&cache, access).await.unwrap_err();
    assert!(error.to_string().contains("404 Not Found to /v2/charts/shop/manifests/3.0.0"), "{error}");

    // The registry's own store is damaged.
    let version = source(Wanted::parse("2.0.0").unwrap());
    let archive = registry_digest(&std::fs::read(at("shop-2.0.0.tgz")).unwrap());
    std::fs::write(blob(folder, &archive), "another").unwrap();
    assert!(version.fetch(&cache, access).await.is_err());
    assert_eq!(version.cached(&cache, None), None);

    // It is away: what was fetched serves.
    drop(registry);
    assert!(range.fetch(&cache, access).await.is_err());
    assert_eq!(range.cached(&cache, None), Some(fetched));
    assert_eq!(pinned.fetch(&cache, access).await.unwrap(), first);
}

fn registry_digest(content: &[u8]) -> String {
    registry::Digest::of(content).to_string()
}
