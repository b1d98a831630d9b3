//! Fetches an archive over TLS through the proxy that the environment names. Each fetch runs in a child
//! process, because the environment belongs to the process.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use registry::{Access, Cache, Source};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// The test that each child process runs.
const FETCH: &str = "a_fetch_of_the_test_of_proxies";

#[tokio::test]
#[ignore = "is a part of a_chart_comes_through_the_proxy_that_the_environment_names"]
async fn a_fetch_of_the_test_of_proxies() {
    let given = |name: &str| std::env::var(name).unwrap();
    let ca = std::fs::read(given("FETCH_CA")).unwrap();
    let source = Source { location: given("FETCH_URL").parse().unwrap(), wanted: None, plain: false };
    let cache = Cache::new(given("FETCH_CACHE"), 1 << 20);
    match source.fetch(&cache, Access { ca: &ca, ..Access::default() }).await {
        Ok(fetched) => assert_eq!(std::fs::read(fetched.archive).unwrap(), b"chart"),
        Err(error) => panic!("{}", chain(&error)),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

async fn head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { break };
        head.push(byte);
    }
    String::from_utf8(head).unwrap()
}

/// Serves the archive over TLS; returns the port and the certificate.
async fn server() -> (u16, String) {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            head(&mut stream).await;
            _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nchart").await;
            _ = stream.shutdown().await;
        }
    });
    (port, certificate.pem())
}

/// Serves tunnels; returns the port, and where it notes what it was asked.
async fn proxy() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, asked) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
    let notes = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let head = head(&mut stream).await;
            let to = head.split(' ').nth(1).unwrap_or_default().to_owned();
            notes.lock().unwrap().push(head);
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await.unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                _ = copy_bidirectional(&mut stream, &mut server).await;
            });
        }
    });
    (port, asked)
}

/// Fetches in a process with these variables; returns whether that worked, and what it printed.
async fn fetch(folder: &Path, port: u16, variables: &[(&str, &str)]) -> (bool, String) {
    let cache = tempfile::tempdir_in(folder).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([FETCH, "--exact", "--ignored", "--nocapture"]);
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
        command.env_remove(name);
    }
    command.env("FETCH_URL", format!("https://localhost:{port}/shop-1.0.0.tgz"));
    command.env("FETCH_CA", folder.join("ca.crt")).env("FETCH_CACHE", cache.path().join("charts"));
    command.envs(variables.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.success(), said)
}

#[tokio::test]
async fn a_chart_comes_through_the_proxy_that_the_environment_names() {
    let folder = tempfile::tempdir().unwrap();
    let ((port, ca), (through, asked)) = (server().await, proxy().await);
    std::fs::write(folder.path().join("ca.crt"), ca).unwrap();
    let with_user = format!("http://me:s3cret@127.0.0.1:{through}");
    for (behaviour, variables, is_asked) in [
        ("no proxy", vec![], false),
        ("a proxy", vec![("HTTPS_PROXY", &*with_user)], true),
        ("in small letters", vec![("https_proxy", &*with_user)], true),
        ("for all", vec![("ALL_PROXY", &*with_user)], true),
        ("not for this host", vec![("HTTPS_PROXY", &*with_user), ("NO_PROXY", "example.com,localhost")], false),
        ("for another host", vec![("HTTPS_PROXY", &*with_user), ("no_proxy", "example.com")], true),
    ] {
        let (is_fetched, said) = fetch(folder.path(), port, &variables).await;
        assert!(is_fetched, "{behaviour}: {said}");
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        assert_eq!(asked.len(), usize::from(is_asked), "{behaviour}: {asked:?}");
        for head in asked {
            assert!(head.starts_with(&format!("CONNECT localhost:{port} HTTP/1.1\r\n")), "{behaviour}: {head}");
            // me:s3cret
            assert!(head.to_lowercase().contains("proxy-authorization: basic bwu6cznjcmv0\r\n"), "{behaviour}: {head}");
        }
    }
    // The tunnel is asked for in plain text, so no other proxy gets the password.
    for scheme in ["https", "socks5"] {
        let other = format!("{scheme}://me:s3cret@127.0.0.1:{through}");
        let (is_fetched, said) = fetch(folder.path(), port, &[("HTTPS_PROXY", &*other)]).await;
        let expected = format!("the proxy {scheme}://127.0.0.1:{through}/ is not asked: only one at http:// is");
        assert!(!is_fetched && said.contains(&expected) && !said.contains("s3cret"), "{said}");
        assert_eq!(*asked.lock().unwrap(), [""; 0]);
    }
    // A proxy that is away is an error that does not quote its password.
    let (is_fetched, said) = fetch(folder.path(), port, &[("HTTPS_PROXY", "http://me:s3cret@127.0.0.1:1")]).await;
    assert!(!is_fetched && said.contains("localhost") && !said.contains("s3cret"), "{said}");
}
