//! Tests of the servers, as clients see them: plain, over TLS, and behind RBAC. What limits connections, heads and slow
//! readers is the same code for all of them.

mod site;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, mpsc};

use axum::body::Body;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use outside::{Call, Error as ApiError, MemoryApi, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::ServiceExt as _;

use super::access::Verdict;
use super::gate::VALID_FOR;
use super::*;

fn no_api() -> Arc<dyn Api> {
    Arc::new(MemoryApi::new())
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, headers: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn ask(address: SocketAddr, path: &str) -> String {
    exchange(TcpStream::connect(address).await.unwrap(), path, "").await
}

#[tokio::test]
async fn metrics_and_probes_answer_until_they_are_told_to_end() {
    let shutdown = CancellationToken::new();
    let metrics = metrics("127.0.0.1:0", None, Metrics::default(), no_api()).await.unwrap().unwrap();
    let probes = probes("127.0.0.1:0", Readiness::default(), Liveness::default()).await.unwrap().unwrap();
    let (at, probe) = (metrics.address, probes.address);
    let serving = [tokio::spawn(metrics.serve(shutdown.clone())), tokio::spawn(probes.serve(shutdown.clone()))];
    let answer = ask(at, "/metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("controller_build_info{"), "{answer}");
    assert!(ask(probe, "/healthz").await.ends_with("ok"));
    assert!(ask(probe, "/readyz").await.ends_with("ok"));
    let elsewhere =
        [(probe, "/metrics", "/healthz and /readyz"), (probe, "/", "/healthz and /readyz"), (at, "/", "/metrics")];
    for (address, path, served) in elsewhere {
        let answer = ask(address, path).await;
        let ending = format!("nothing is here; this server answers at {served}\n");
        assert!(answer.starts_with("HTTP/1.1 404") && answer.ends_with(&ending), "{answer}");
    }
    shutdown.cancel();
    for task in serving {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn healthz_fails_only_while_a_restart_would_help() {
    let liveness = Liveness::default();
    assert_eq!(healthz(&liveness), (StatusCode::OK, "ok".to_owned()));
    let work = liveness.begin("work".to_owned(), Duration::from_secs(25));
    tokio::time::advance(Duration::from_secs(300)).await;
    assert_eq!(healthz(&liveness).0, StatusCode::OK, "it may still end");
    tokio::time::advance(Duration::from_secs(25)).await;
    let why = "work that cannot be interrupted is overdue by 300 s\n".to_owned();
    assert_eq!(healthz(&liveness), (StatusCode::SERVICE_UNAVAILABLE, why));
    drop(work);
    assert_eq!(healthz(&liveness).0, StatusCode::OK);
}

#[tokio::test]
async fn readyz_names_what_the_process_waits_for() {
    let readiness = Readiness::default();
    let probes = probes("127.0.0.1:0", readiness.clone(), Liveness::default()).await.unwrap().unwrap();
    let address = probes.address;
    tokio::spawn(probes.serve(CancellationToken::new()));
    let shops = readiness.require("Shop (g/v1)", "not listed yet");
    let answer = ask(address, "/readyz").await;
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.ends_with("not ready\n- Shop (g/v1): not listed yet\n"),
        "{answer}"
    );
    assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 200"), "a restart would not help");
    shops.meet();
    assert!(ask(address, "/readyz").await.ends_with("ok"));
    readiness.answer_webhooks();
    let tools = readiness.require_to_reconcile("Tool (g/v1)", "not listed yet");
    let answer = ask(address, "/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\n- Tool (g/v1): not listed yet\n"), "{answer}");
    tools.meet();
    assert!(ask(address, "/readyz").await.ends_with("ok"));
}

#[tokio::test]
async fn metrics_are_classic_text_unless_the_client_asks_for_openmetrics() {
    let world = World::start(Tls::default(), no_api()).await;
    let check = async |accept: &str, content_type: &str, end: &str| {
        let answer = world.get("/metrics", accept).await;
        assert!(answer.contains(&format!("content-type: {content_type}\r\n")), "{answer}");
        assert_eq!(answer.ends_with("# EOF\n"), end == "# EOF\n");
    };
    check("", "text/plain; version=0.0.4; charset=utf-8", "").await;
    let asked = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1\r\n";
    check(asked, "application/openmetrics-text; version=1.0.0; charset=utf-8", "# EOF\n").await;
}

/// A collector that blocks the threads of scrapes until the other end of its channel is dropped.
#[derive(Debug)]
struct BlockingCollector(mpsc::Sender<()>, Mutex<mpsc::Receiver<()>>);

impl Collector for BlockingCollector {
    fn encode(&self, _: DescriptorEncoder<'_>) -> std::fmt::Result {
        _ = self.0.send(());
        _ = self.1.lock().unwrap().recv();
        Ok(())
    }
}

#[test]
fn scrapes_take_one_thread_at_most_even_if_their_clients_have_gone() {
    // Dropped after the channels, because it waits for its threads.
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(2).build().unwrap();
    let (begins, begun) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let families = Metrics::default();
    let collector = Box::new(BlockingCollector(begins, Mutex::new(released)));
    families.register(|registry| registry.register_collector(collector));
    runtime.block_on(async {
        let server = metrics("127.0.0.1:0", None, families, no_api()).await.unwrap().unwrap();
        let request = || http::Request::get("/metrics").body(Body::empty()).unwrap();
        let mut gone = Box::pin(server.router.clone().oneshot(request()));
        assert!((&mut gone).now_or_never().is_none());
        begun.recv_timeout(Duration::from_secs(60)).unwrap();
        drop(gone);
        let mut waiting = [0, 1].map(|_| Box::pin(server.router.clone().oneshot(request())));
        assert!(waiting.iter_mut().all(|scrape| scrape.now_or_never().is_none()));
        let other = tokio::task::spawn_blocking(|| ());
        tokio::time::timeout(Duration::from_secs(60), other).await.expect("the second thread is free").unwrap();
        drop(release);
        for scrape in waiting {
            assert_eq!(scrape.await.unwrap().status(), StatusCode::OK);
        }
    });
}

#[tokio::test]
async fn addresses_zero_and_empty_serve_nothing() {
    assert!(probes("0", Readiness::default(), Liveness::default()).await.unwrap().is_none());
    assert!(metrics("", Some(&Tls::default()), Metrics::default(), no_api()).await.unwrap().is_none());
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_it_and_its_flag() {
    let first = probes("127.0.0.1:0", Readiness::default(), Liveness::default()).await.unwrap().unwrap();
    let error = probes(&first.address.to_string(), Readiness::default(), Liveness::default()).await.err().unwrap();
    let expected = format!(
        "cannot listen on \"{}\" for probes: Address already in use (os error 98); \
         set --health-probe-bind-address to another address, or to 0 for none",
        first.address
    );
    assert_eq!(crate::report::chain(&error), expected);
}

#[tokio::test]
async fn open_connections_are_closed_when_the_server_ends() {
    let server = probes("127.0.0.1:0", Readiness::default(), Liveness::default()).await.unwrap().unwrap();
    let (address, shutdown) = (server.address, CancellationToken::new());
    let serving = tokio::spawn(server.serve(shutdown.clone()));
    let mut kept = TcpStream::connect(address).await.unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    kept.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    shutdown.cancel();
    serving.await.unwrap();
    assert!(kept.read_to_end(&mut Vec::new()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn silent_clients_are_disconnected() {
    let plain = probes("127.0.0.1:0", Readiness::default(), Liveness::default()).await.unwrap().unwrap();
    let address = plain.address;
    tokio::spawn(plain.serve(CancellationToken::new()));
    let secure = World::start(Tls::default(), no_api()).await;
    let handshake_limit = Duration::from_secs(10);
    closed_after(HEAD_LIMIT, TcpStream::connect(address).await.unwrap()).await;
    closed_after(handshake_limit, TcpStream::connect(secure.address).await.unwrap()).await;
    closed_after(HEAD_LIMIT, secure.connect(&[]).await).await;
}

#[tokio::test]
async fn a_full_server_serves_the_newest_and_spares_other_addresses() {
    let server = probes("127.0.0.1:0", Readiness::default(), Liveness::default()).await.unwrap().unwrap();
    let address = server.address;
    tokio::spawn(server.serve(CancellationToken::new()));
    let mut neighbour = connect_from("127.0.0.2", address).await;
    let mut idle = Vec::new();
    for _ in 0..3 * MAX_PROBES {
        let mut attacker = TcpStream::connect(address).await.unwrap();
        attacker.write_all(b"GET /healthz HTTP/1.1\r\nX: ").await.unwrap();
        idle.push(attacker);
    }
    assert!(ask(address, "/healthz").await.ends_with("ok"));
    assert!(matches!(idle[0].read(&mut [0]).await, Ok(0) | Err(_)), "the oldest was disconnected");
    neighbour.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    neighbour.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("ok"), "{answer}");
}

async fn connect_from(source: &str, to: SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(format!("{source}:0").parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

#[tokio::test]
async fn a_head_larger_than_16_kib_is_refused() {
    let server = probes("127.0.0.1:0", Readiness::default(), Liveness::default()).await.unwrap().unwrap();
    let address = server.address;
    tokio::spawn(server.serve(CancellationToken::new()));
    let ask = async |length: usize| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("GET /healthz HTTP/1.1\r\nConnection: close\r\nX: {}\r\n\r\n", "x".repeat(length));
        // The server stops reading at its limit.
        let _ = stream.write_all(head.as_bytes()).await;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.map(|_| String::from_utf8_lossy(&answer).into_owned())
    };
    assert_eq!(ask(8 << 10).await.unwrap(), "HTTP/1.1 200");
    assert_eq!(ask(17 << 10).await.unwrap_or("HTTP/1.1 431".into()), "HTTP/1.1 431");
}

async fn closed_after(limit: Duration, mut silent: impl AsyncRead + Unpin) {
    let began = tokio::time::Instant::now();
    let _ = silent.read_to_end(&mut Vec::new()).await;
    assert!((limit..limit + Duration::from_secs(1)).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_client_that_never_speaks_tls_does_not_block_others() {
    let world = World::start(Tls::default(), no_api()).await;
    let _silent = TcpStream::connect(world.address).await.unwrap();
    assert!(world.get("/metrics", "").await.contains("controller_build_info{"));
}

/// A metrics server over TLS.
struct World {
    address: SocketAddr,
    shutdown: CancellationToken,
}

impl World {
    async fn start(tls: Tls, api: Arc<dyn Api>) -> World {
        let server = metrics("127.0.0.1:0", Some(&tls), Metrics::default(), api).await.unwrap().unwrap();
        assert!(server.is_secure());
        let world = World { address: server.address, shutdown: CancellationToken::new() };
        tokio::spawn(server.serve(world.shutdown.clone()));
        world
    }

    /// Connects with these ALPN protocols, and accepts any certificate.
    async fn connect(&self, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone)).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let tcp = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap()
    }

    async fn get(&self, path: &str, headers: &str) -> String {
        exchange(self.connect(&[]).await, path, headers).await
    }

    /// Returns the status of the response to a request with these headers.
    async fn status(&self, headers: &str) -> String {
        self.get("/metrics", headers).await.split(' ').nth(1).unwrap().to_owned()
    }

    async fn certificate(&self) -> CertificateDer<'static> {
        self.connect(&[]).await.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }

    async fn protocol(&self, offered: &[&[u8]]) -> Option<String> {
        let chosen = self.connect(offered).await.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        chosen.map(|name| String::from_utf8(name).unwrap())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Accepts every certificate.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

#[tokio::test]
async fn each_start_generates_its_own_certificate() {
    let (a, b) = (World::start(Tls::default(), no_api()).await, World::start(Tls::default(), no_api()).await);
    assert_eq!(a.certificate().await, a.certificate().await);
    assert_ne!(a.certificate().await, b.certificate().await);
}

#[tokio::test]
async fn http2_is_offered_only_on_request() {
    let both: &[&[u8]] = &[b"h2", b"http/1.1"];
    let one = World::start(Tls::default(), no_api()).await;
    assert_eq!(one.protocol(both).await.as_deref(), Some("http/1.1"));
    let two = World::start(Tls { http2: true, ..Tls::default() }, no_api()).await;
    assert_eq!(two.protocol(both).await.as_deref(), Some("h2"));
    assert_eq!(two.protocol(&[b"http/1.1"]).await.as_deref(), Some("http/1.1"));
}

/// A directory with a certificate, as cert-manager mounts it.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new() -> Mounted {
        let mounted = Mounted(tempfile::tempdir().unwrap());
        mounted.renew();
        mounted
    }

    /// Replaces the pair; returns the new certificate.
    fn renew(&self) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(["metrics.example.com".to_owned()]).unwrap();
        std::fs::write(self.files().certificate, made.cert.pem()).unwrap();
        std::fs::write(self.files().key, made.signing_key.serialize_pem()).unwrap();
        made.cert.der().clone()
    }

    fn files(&self) -> CertificateFiles {
        let folder = self.0.path();
        CertificateFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key") }
    }

    fn tls(&self) -> Tls {
        Tls { files: Some(self.files()), ..Tls::default() }
    }
}

#[tokio::test]
async fn renewed_certificate_files_are_served_and_broken_ones_are_not() {
    let mounted = Mounted::new();
    let first = mounted.renew();
    let world = World::start(mounted.tls(), no_api()).await;
    assert_eq!(world.certificate().await, first);
    let second = mounted.renew();
    assert_eq!(world.certificate().await, second);
    let key = std::fs::read(mounted.files().key).unwrap();
    for broken in ["", "no PEM", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
        std::fs::write(mounted.files().key, broken).unwrap();
        assert_eq!(world.certificate().await, second, "{broken:?}");
    }
    std::fs::remove_file(mounted.files().key).unwrap();
    assert_eq!(world.certificate().await, second);
    std::fs::write(mounted.files().key, key).unwrap();
    let third = mounted.renew();
    assert_eq!(world.certificate().await, third);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_stops_the_start_and_the_error_names_the_file_but_no_key() {
    let (mounted, other) = (Mounted::new(), Mounted::new());
    let start = async |files: CertificateFiles| {
        let tls = Tls { files: Some(files), ..Tls::default() };
        let error = metrics("127.0.0.1:0", Some(&tls), Metrics::default(), no_api()).await.err().unwrap();
        crate::report::chain(&error)
    };
    let foreign = CertificateFiles { key: other.files().key, ..mounted.files() };
    assert!(start(foreign).await.starts_with("cannot serve metrics over TLS: cannot use the certificate with its key"));
    std::fs::write(mounted.files().key, "SECRET").unwrap();
    let error = start(mounted.files()).await;
    assert!(error.contains("cannot parse the private key") && !error.contains("SECRET"), "{error}");
    std::fs::remove_file(mounted.files().certificate).unwrap();
    let error = start(mounted.files()).await;
    assert!(error.contains("cannot read ") && error.contains("/tls.crt: "), "{error}");
}

/// An API server that reviews tokens, with the user of each token and the users that may read metrics.
#[derive(Default)]
struct Reviewer {
    users: HashMap<&'static str, &'static str>,
    allowed: Mutex<Vec<&'static str>>,
    /// The users with the namespaces in which they may read everything.
    readers: Mutex<Vec<(&'static str, &'static str)>>,
    fails: Mutex<Option<&'static str>>,
    calls: AtomicUsize,
    asked: Mutex<Vec<Value>>,
    /// Whether reviews of unknown tokens never end.
    slow: AtomicBool,
    /// Whether reviews tell a user's tokens apart, as API servers do.
    names_tokens: AtomicBool,
}

impl Reviewer {
    fn user(&self, name: &str, token: &Value) -> Value {
        let mut user = json!({"username": name, "groups": ["g"], "uid": "u"});
        if self.names_tokens.load(Relaxed) {
            user["extra"] = json!({"authentication.kubernetes.io/credential-id": [token]});
        }
        user
    }
}

impl Api for Reviewer {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, ApiError>> {
        self.calls.fetch_add(1, Relaxed);
        let body: Value = serde_json::from_slice(&call.body.unwrap().1).unwrap();
        let spec = &body["spec"];
        let status = match call.path.as_str() {
            "/apis/authentication.k8s.io/v1/tokenreviews" => match self.users.get(spec["token"].as_str().unwrap()) {
                Some(user) => json!({"authenticated": true, "user": self.user(user, &spec["token"])}),
                None => json!({"authenticated": false, "error": "invalid bearer token"}),
            },
            "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                self.asked.lock().unwrap().push(spec.clone());
                let namespace = &spec["resourceAttributes"]["namespace"];
                let reads = |(user, of): &(&str, &str)| spec["user"] == *user && namespace == *of;
                let is_reader = self.readers.lock().unwrap().iter().any(reads);
                let is_allowed = self.allowed.lock().unwrap().iter().any(|user| spec["user"] == **user);
                json!({"allowed": is_reader || is_allowed})
            }
            other => panic!("{other}"),
        };
        let failed = self.fails.lock().unwrap().filter(|part| call.path.contains(part));
        let is_slow = self.slow.load(Relaxed) && status["authenticated"] == false;
        Box::pin(async move {
            if is_slow {
                std::future::pending::<()>().await;
            }
            match failed {
                Some(_) => Err(ApiError::from_status(403, "Forbidden", "tokenreviews is forbidden")),
                None => Ok(json!({"spec": {}, "status": status}).to_string().into_bytes().into()),
            }
        })
    }
}

fn reviewer() -> Arc<Reviewer> {
    let users = HashMap::from([("good", "prometheus"), ("renewed", "prometheus"), ("weak", "nobody")]);
    Arc::new(Reviewer { users, allowed: Mutex::new(vec!["prometheus"]), ..Reviewer::default() })
}

async fn guarded(api: Arc<Reviewer>) -> World {
    World::start(Tls { require_rbac: true, ..Tls::default() }, api).await
}

#[tokio::test]
async fn metrics_need_a_token_of_a_user_with_the_right() {
    let api = reviewer();
    let world = guarded(api.clone()).await;
    let check = async |headers: &str, expected: &str| assert_eq!(world.status(headers).await, expected, "{headers:?}");
    for headers in ["", "Authorization: Basic good\r\n", "Authorization: Bearer \r\n", "Authorization: good\r\n"] {
        check(headers, "401").await;
    }
    assert_eq!(api.calls.load(Relaxed), 0, "requests without a token must not reach the API server");
    check("Authorization: Bearer bad\r\n", "401").await;
    check("Authorization: Bearer weak\r\n", "403").await;
    check("Authorization: Bearer good\r\n", "200").await;
    check("authorization: bearer good\r\n", "200").await;
    let asked = api.asked.lock().unwrap().clone();
    let expected = json!({"user": "prometheus", "groups": ["g"], "uid": "u", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
    assert_eq!(asked[1], expected);
    let answer = world.get("/metrics", "Authorization: Bearer weak\r\n").await;
    assert!(answer.ends_with("Authorization denied for user nobody\n") && !answer.contains("build_info"), "{answer}");
}

#[tokio::test]
async fn answers_count_for_a_while_but_not_for_another_path() {
    let api = reviewer();
    let world = guarded(api.clone()).await;
    for _ in 0..5 {
        assert_eq!(world.status("Authorization: Bearer good\r\n").await, "200");
        assert_eq!(world.status("Authorization: Bearer bad\r\n").await, "401");
    }
    assert_eq!(api.calls.load(Relaxed), 3);
    assert!(world.get("/other", "Authorization: Bearer good\r\n").await.starts_with("HTTP/1.1 404"));
    assert_eq!(api.calls.load(Relaxed), 5);
}

#[tokio::test]
async fn a_failing_api_server_is_an_error_and_never_a_pass() {
    let api = reviewer();
    let world = guarded(api.clone()).await;
    for part in ["tokenreviews", "subjectaccessreviews"] {
        *api.fails.lock().unwrap() = Some(part);
        assert_eq!(world.status("Authorization: Bearer good\r\n").await, "500", "{part}");
    }
    *api.fails.lock().unwrap() = None;
    assert_eq!(world.status("Authorization: Bearer good\r\n").await, "200");
}

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

async fn judge(reviews: &AccessReviews, client: IpAddr, token: &str) -> Result<Verdict, ApiError> {
    reviews.judge(client, token, &http::Method::GET, "/metrics").await
}

#[tokio::test(start_paused = true)]
async fn permissions_and_refusals_expire_after_ten_seconds() {
    let api = reviewer();
    let reviews = AccessReviews::new(api.clone());
    let judge = async |token: &str| format!("{:?}", judge(&reviews, CLIENT, token).await.unwrap());
    assert_eq!((judge("good").await, judge("weak").await), ("Allowed(())".into(), "Denied(\"nobody\")".into()));
    *api.allowed.lock().unwrap() = vec!["nobody"];
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!((judge("good").await, judge("weak").await), ("Allowed(())".into(), "Denied(\"nobody\")".into()));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!((judge("good").await, judge("weak").await), ("Denied(\"prometheus\")".into(), "Allowed(())".into()));
}

#[tokio::test(start_paused = true)]
async fn random_tokens_use_bounded_memory_and_push_out_no_permission() {
    let api = reviewer();
    let reviews = AccessReviews::new(api.clone());
    assert_eq!(judge(&reviews, CLIENT, "good").await.unwrap(), Verdict::Allowed(()));
    for n in 0..1000 {
        judge(&reviews, CLIENT, &n.to_string()).await.unwrap();
    }
    assert_eq!(reviews.len(), 257);
    let calls = api.calls.load(Relaxed);
    assert_eq!(judge(&reviews, CLIENT, "good").await.unwrap(), Verdict::Allowed(()));
    assert_eq!(api.calls.load(Relaxed), calls, "it was remembered");
}

#[tokio::test(start_paused = true)]
async fn invented_tokens_keep_no_other_client_waiting() {
    let api = reviewer();
    let reviews = AccessReviews::new(api.clone());
    assert_eq!(judge(&reviews, CLIENT, "good").await.unwrap(), Verdict::Allowed(()));
    tokio::time::advance(VALID_FOR).await;
    // The server is slow with tokens that it does not know.
    api.slow.store(true, Relaxed);
    let attackers = (1..=5).map(|last| IpAddr::from([10, 0, 9, last]));
    let attacks = attackers.flat_map(|attacker| (0..10).map(move |n| (attacker, format!("{attacker}-{n}"))));
    let mut attacks: Vec<_> = attacks
        .map(|(from, token)| {
            Box::pin({
                let reviews = &reviews;
                async move { judge(reviews, from, &token).await }
            })
        })
        .collect();
    let mut busy = 0;
    for attack in &mut attacks {
        busy += usize::from(matches!(futures::poll!(attack), std::task::Poll::Ready(Ok(Verdict::Busy))));
    }
    assert_eq!(busy, 40, "two tokens of each address are reviewed, or wait for it");
    let began = tokio::time::Instant::now();
    assert_eq!(judge(&reviews, CLIENT, "good").await.unwrap(), Verdict::Allowed(()));
    assert_eq!(began.elapsed(), Duration::ZERO);
    drop(attacks);
    assert_eq!(judge(&reviews, IpAddr::from([10, 0, 9, 1]), "good").await.unwrap(), Verdict::Allowed(()));
}

#[tokio::test(start_paused = true)]
async fn a_silent_api_server_is_an_error_after_ten_seconds() {
    let api = MemoryApi::new();
    api.disturb("tokenreviews", 1, outside::Disturbance::Unanswered);
    let began = tokio::time::Instant::now();
    let error = judge(&AccessReviews::new(Arc::new(api)), CLIENT, "t").await.unwrap_err();
    assert!(matches!(error, ApiError::TimedOut { .. }), "{error}");
    assert_eq!(began.elapsed().as_secs(), 10);
}
