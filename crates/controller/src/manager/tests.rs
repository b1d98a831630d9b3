//! Tests of the order in which the manager stops its controllers.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};

use futures::future::{BoxFuture, FutureExt as _};
use http::{Request, Response};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::client::Body;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::context::Context;
use crate::reconciler::{Controller, Next, Reconciler, Rights, Scope, Watching, WriteError};
use crate::report::{Outcome, chain};

type Diary = Arc<Mutex<Vec<&'static str>>>;

/// A controller that takes `finish` to stop once asked to, or ends by itself if `ends` is set.
struct Fake {
    diary: Diary,
    finish: Duration,
    ends: Option<reconciler::Error>,
}

impl Controller for Fake {
    fn name(&self) -> &str {
        "fake-controller"
    }

    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), reconciler::Error>> {
        async move {
            self.diary.lock().unwrap().push("start");
            if let Some(error) = self.ends {
                return Err(error);
            }
            context.shutdown.cancelled().await;
            self.diary.lock().unwrap().push("asked to end");
            tokio::time::sleep(self.finish).await;
            self.diary.lock().unwrap().push("finished");
            Ok(())
        }
        .boxed()
    }
}

/// Returns a client of an API server that accepts any lease, and stops responding after this many responses, not
/// counting `/version`.
fn client(answers: usize) -> Client {
    let left = Arc::new(AtomicUsize::new(answers));
    let service = tower::service_fn(move |request: Request<Body>| {
        let left = left.clone();
        async move {
            let is_version = request.uri().path() == "/version";
            if !is_version && left.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_err() {
                std::future::pending::<()>().await;
            }
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let missing = r#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404}"#;
            let (code, body) = match parts.method {
                http::Method::GET => (404, missing.as_bytes().to_vec()),
                _ => (200, body.to_vec()),
            };
            Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(Body::from(body)).unwrap())
        }
    });
    Client::new(service, "default")
}

/// A controller that publishes three events when it is asked to stop.
struct Farewell;

impl Controller for Farewell {
    fn name(&self) -> &str {
        "farewell-controller"
    }

    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), reconciler::Error>> {
        async move {
            context.shutdown.cancelled().await;
            for n in 0..3 {
                context.events.publish(ObjectReference::default(), Outcome::normal("Ended", "End", n.to_string()));
            }
            Ok(())
        }
        .boxed()
    }
}

/// A controller that publishes an event about the process.
struct Herald;

impl Controller for Herald {
    fn name(&self) -> &str {
        "herald-controller"
    }

    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), reconciler::Error>> {
        async move {
            context.publish(Outcome::normal("Announced", "Announce", "all of you"));
            context.shutdown.cancelled().await;
            Ok(())
        }
        .boxed()
    }
}

fn config() -> Config {
    let nowhere = || "0".to_owned();
    Config { metrics_bind_address: nowhere(), health_probe_bind_address: nowhere(), ..Config::default() }
}

/// Runs a manager that is asked to stop after 60 s. Returns the diary and how the run ended.
async fn run(
    config: Config,
    finish: u64,
    ends: Option<reconciler::Error>,
    answers: usize,
) -> (Vec<&'static str>, String) {
    let diary = Diary::default();
    let fake = Fake { diary: diary.clone(), finish: Duration::from_secs(finish), ends };
    let shutdown = CancellationToken::new();
    let asked = shutdown.clone();
    let stop = async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        asked.cancel();
        std::future::pending().await
    };
    let result = tokio::select! {
        result = Manager::new(config).controller(fake).run_until(client(answers), shutdown) => result,
        () = stop => unreachable!(),
    };
    let ended = result.map_or_else(|error| chain(&error), |()| "ended well".to_owned());
    let diary = diary.lock().unwrap().clone();
    (diary, ended)
}

#[tokio::test(start_paused = true)]
async fn running_reconciles_finish_within_the_grace_period() {
    let (diary, ended) = run(config(), 7, None, 0).await;
    assert_eq!((diary, ended.as_str()), (vec!["start", "asked to end", "finished"], "ended well"));
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_are_published_before_the_process_ends() {
    let published = Arc::new(AtomicUsize::new(0));
    let count = published.clone();
    let slow = tower::service_fn(move |request: Request<Body>| {
        let count = count.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            count.fetch_add(usize::from(request.uri().path().ends_with("/events")), Relaxed);
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(b"{}".to_vec())))
        }
    });
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(10)).await;
        stop.cancel();
    });
    let manager = Manager::new(config()).controller(Farewell);
    manager.run_until(Client::new(slow, "default"), shutdown).await.unwrap();
    assert_eq!(published.load(Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn events_about_the_process_are_on_its_lease_or_without_one_on_its_pod() {
    for (leader_elect, expected) in [
        (
            true,
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "namespace": "op", "name": "lock", "uid": "u"}),
        ),
        (false, json!({"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "operator-0"})),
    ] {
        let events = Arc::new(Mutex::new(Vec::new()));
        let heard = events.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let heard = heard.clone();
            async move {
                let is_event = request.uri().path().ends_with("/events");
                let body = request.into_body().collect_bytes().await.unwrap();
                let mut object: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
                if is_event {
                    heard.lock().unwrap().push(object["regarding"].clone());
                } else if object.is_object() {
                    object["metadata"]["namespace"] = "op".into();
                    object["metadata"]["uid"] = "u".into();
                }
                let code = if object.is_null() { 404 } else { 200 };
                let missing = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
                let answer = if object.is_null() { missing } else { object };
                let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, std::convert::Infallible>(answer.unwrap())
            }
        });
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            stop.cancel();
        });
        let mut config = Config {
            leader_elect,
            leader_election_id: "lock".into(),
            leader_election_namespace: "op".into(),
            ..config()
        };
        config.controllers.pod_name = Some("operator-0".into());
        let manager = Manager::new(config).controller(Herald);
        manager.run_until(Client::new(service, "default"), shutdown).await.unwrap();
        assert_eq!(*events.lock().unwrap(), [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn reconciles_that_never_end_are_abandoned_after_the_grace_period() {
    let (diary, ended) = run(config(), 9, None, 0).await;
    assert_eq!((diary, ended.as_str()), (vec!["start", "asked to end"], "reconciles were still running after 8s"));
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_ends_everything_at_once_and_the_error_says_so() {
    let diary = Diary::default();
    let fake = Fake { diary: diary.clone(), finish: Duration::from_secs(7), ends: None };
    let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
    let (first, second) = (shutdown.clone(), abort.clone());
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        first.cancel();
        tokio::time::sleep(Duration::from_millis(100)).await;
        second.cancel();
    });
    let clients = Clients { own: client(0), controllers: client(0).into(), people: None };
    let began = tokio::time::Instant::now();
    let ended = Manager::new(config()).controller(fake).run_until_interrupted(clients, shutdown, abort).await;
    assert_eq!(chain(&ended.unwrap_err()), "interrupted by a second signal");
    assert_eq!((began.elapsed().as_millis(), &diary.lock().unwrap()[..]), (60_100, &["start", "asked to end"][..]));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_controller_ends_the_manager() {
    let (diary, ended) = run(config(), 0, Some("no such kind".into()), 0).await;
    assert_eq!((diary, ended.as_str()), (vec!["start"], "controller \"fake-controller\" ended: no such kind"));
}

/// A controller that does not stop, and records when it is dropped.
struct Stubborn(Diary);

impl Drop for Stubborn {
    fn drop(&mut self) {
        self.0.lock().unwrap().push("gone");
    }
}

impl Controller for Stubborn {
    fn name(&self) -> &str {
        "stubborn-controller"
    }

    fn run(self: Box<Self>, _: Context) -> BoxFuture<'static, Result<(), reconciler::Error>> {
        async move {
            let _self = self;
            std::future::pending().await
        }
        .boxed()
    }
}

/// Returns a client of a server that has no object, and says of each write that it is stored. `see` gets what is
/// written.
fn storing(see: impl Fn(serde_json::Value) + Clone + Send + 'static) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let see = see.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let missing = r#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404}"#;
            let (code, body) = match parts.method {
                http::Method::GET => (404, missing.as_bytes().to_vec()),
                _ => {
                    see(serde_json::from_slice(&body).unwrap_or_default());
                    (200, body.to_vec())
                }
            };
            Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(Body::from(body)).unwrap())
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_released_once_the_controllers_are_gone() {
    let diary = Diary::default();
    let log = diary.clone();
    let client = storing(move |lease| {
        if lease["spec"]["holderIdentity"] == "" {
            log.lock().unwrap().push("released");
        }
    });
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        stop.cancel();
    });
    let leader = Config {
        leader_elect: true,
        leader_election_id: "lock".into(),
        leader_election_namespace: "ns".into(),
        ..config()
    };
    let manager = Manager::new(leader).controller(Stubborn(diary.clone()));
    let ended = manager.run_until(client, shutdown).await.unwrap_err();
    assert!(chain(&ended).starts_with("reconciles were still running"), "{}", chain(&ended));
    assert_eq!(*diary.lock().unwrap(), ["gone", "released"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_stops_everything_at_once() {
    let leader = Config {
        leader_elect: true,
        leader_election_id: "lock".into(),
        leader_election_namespace: "ns".into(),
        ..config()
    };
    // The lease is read and created, and the shards' are listed.
    let (diary, ended) = run(leader, 0, None, 3).await;
    assert_eq!((diary, ended.as_str()), (vec!["start"], "leader election lost"));
}

/// A reconciler whose first reconcile waits for a thread, if it has one. Notes when each begins and ends.
struct OnThread {
    log: Arc<Mutex<Vec<String>>>,
    thread: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Reconciler for OnThread {
    type Resource = ConfigMap;
    type Error = WriteError;
    type Caches = ();

    fn watch(&self, _: &mut Watching<ConfigMap>) {}

    fn rights(&self) -> Rights {
        Rights::none()
    }

    async fn reconcile(&self, scope: &Scope<'_, ConfigMap>, _: &()) -> Result<Next, WriteError> {
        let note = |what: &str| {
            let uid = scope.resource().metadata.uid.as_deref().unwrap_or_default();
            self.log.lock().unwrap().push(format!("{what} {uid}"));
        };
        note("begun");
        let thread = self.thread.lock().unwrap().take();
        if let Some(thread) = thread {
            outside::apart(move || thread.recv()).await;
        }
        note("done");
        Ok(Next::Wait)
    }
}

/// Lets time pass until this is so. While a thread works, paused time stands still.
async fn pass_until(is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    unreachable!("it does not happen");
}

#[tokio::test(start_paused = true)]
async fn a_resource_whose_reconcile_waits_for_a_thread_when_the_lease_is_lost_is_reconciled_in_the_next_term() {
    const MAP: &str = "/api/v1/namespaces/ns/configmaps/a";
    let server = Arc::new(outside::MemoryApi::new());
    server.serve("coordination.k8s.io/v1", "Lease", "leases");
    server.serve("v1", "ConfigMap", "configmaps");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
    server.put(MAP, map, "user");
    let uid = server.object(MAP).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let is_last = |what: &str| log.lock().unwrap().last().is_some_and(|last| *last == format!("{what} {uid}"));
    let leader = Config {
        leader_elect: true,
        leader_election_id: "lock".into(),
        leader_election_namespace: "ns".into(),
        ..config()
    };
    let term = |thread: Option<mpsc::Receiver<()>>, stop: CancellationToken| {
        let reconciler = OnThread { log: log.clone(), thread: Mutex::new(thread) };
        let manager = Manager::new(leader.clone()).reconciler(reconciler);
        manager.run_until(crate::testing::client(&server, &Arc::default()), stop)
    };
    let (ends, thread) = mpsc::channel();
    let losing = async {
        pass_until(|| is_last("begun")).await;
        server.refuse(|call| {
            let renews = call.path.contains("/leases") && call.method != http::Method::GET;
            renews.then(|| outside::Error::from_status(500, "InternalError", "away"))
        });
        pass_until(|| false).await;
    };
    let lost = tokio::select! {
        ended = term(Some(thread), CancellationToken::new()) => ended,
        () = losing => unreachable!(),
    };
    // Its queue has ended with the manager, and each term has its own.
    assert!(matches!(lost, Err(Error::Lost(_))), "{lost:?}");
    assert!(is_last("begun"), "{log:?}");
    server.accept();
    let stop = CancellationToken::new();
    let regaining = async {
        pass_until(|| is_last("done")).await;
        drop(ends);
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(term(None, stop.clone()), regaining);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(*log.lock().unwrap(), ["begun", "begun", "done"].map(|what| format!("{what} {uid}")));
}

#[tokio::test]
async fn leader_election_needs_a_name_and_outside_a_cluster_a_namespace() {
    let check = async |id: &str, expected: &str| {
        let config = Config { leader_elect: true, leader_election_id: id.into(), ..config() };
        assert_eq!(run(config, 0, None, 0).await.1, expected);
    };
    let both = "LeaderElectionID must be configured: set --leader-election-id and, outside a cluster, --leader-election-namespace";
    check("", both).await;
    let outside =
        "unable to find leader election namespace: not running in-cluster, please specify --leader-election-namespace";
    check("lock", outside).await;
}

/// A controller whose reconciles block every thread that they run on until the test ends.
struct Blocking(Arc<Mutex<mpsc::Receiver<()>>>, mpsc::Sender<()>);

impl Controller for Blocking {
    fn name(&self) -> &str {
        "blocking-controller"
    }

    fn run(self: Box<Self>, _: Context) -> BoxFuture<'static, Result<(), reconciler::Error>> {
        async move {
            _ = self.1.send(());
            _ = self.0.lock().unwrap().recv();
            std::future::pending().await
        }
        .boxed()
    }
}

/// Returns two addresses with free ports of a loopback IP. Each test has its own, which nothing else binds, so that no
/// other test takes a port before the manager listens there.
fn free_addresses(ip: &str) -> [String; 2] {
    let listeners = [(); 2].map(|()| std::net::TcpListener::bind((ip, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().to_string())
}

/// Sends a request for a path, once something listens at the address.
async fn request(address: &str, path: &str) -> TcpStream {
    let mut stream = loop {
        match TcpStream::connect(address).await {
            Ok(stream) => break stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Waits until this many threads have reported that they are blocked.
async fn wait_until_blocked(blocked: &mpsc::Receiver<()>, mut threads: usize) {
    while threads > 0 {
        match blocked.try_recv() {
            Ok(()) => threads -= 1,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Runs a leader with probes at this address. Once `blocks` has blocked its threads, expects that it renews its lease
/// twice and answers a probe. Then stops it; returns how it ended.
async fn run_blocked<T>(manager: Manager, probes: &str, blocks: impl Future<Output = T>) -> Result<(), Error> {
    let limit = Duration::from_secs(60);
    let renewals = Arc::new(AtomicUsize::new(0));
    let counted = renewals.clone();
    let own = storing(move |_| {
        counted.fetch_add(1, Relaxed);
    });
    let clients = Clients { own, controllers: client(0).into(), people: None };
    let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
    let mut running = std::pin::pin!(manager.run_until_interrupted(clients, shutdown.clone(), abort));
    let checks = async {
        let _blocks = blocks.await;
        let before = renewals.load(Relaxed);
        while renewals.load(Relaxed) < before + 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut answer = String::new();
        request(probes, "/healthz").await.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    tokio::select! {
        ended = &mut running => panic!("{ended:?}"),
        checked = tokio::time::timeout(limit, checks) => checked.unwrap(),
    }
    shutdown.cancel();
    tokio::time::timeout(limit, running).await.unwrap()
}

/// Returns the configuration of a leader that serves metrics and probes.
fn serving(metrics: &str, probes: &str) -> Config {
    Config {
        leader_elect: true,
        leader_election_id: "lock".into(),
        leader_election_namespace: "ns".into(),
        metrics_bind_address: metrics.to_owned(),
        health_probe_bind_address: probes.to_owned(),
        ..config()
    }
}

/// The metrics server shares the blocked threads, and does not keep the process from ending either.
#[test]
fn reconciles_that_block_their_threads_delay_neither_lease_nor_probes() {
    let threads = Threads::start().unwrap();
    let (release, released) = mpsc::channel();
    let (blocks, blocked) = mpsc::channel();
    let [metrics, probes] = free_addresses("127.0.0.3");
    let config = Config { shutdown_grace: Duration::from_millis(100), ..serving(&metrics, &probes) };
    let released = Arc::new(Mutex::new(released));
    // One for each thread there may be.
    let blocking = (0..4).map(|_| Box::new(Blocking(released.clone(), blocks.clone())) as Box<dyn Controller>);
    let manager = Manager::new(config).controllers(blocking).controllers_on(threads.workers().clone());
    let count = threads.workers().metrics().num_workers();
    let ended = threads.run(async { run_blocked(manager, &probes, wait_until_blocked(&blocked, count)).await });
    assert!(matches!(ended, Err(Error::Grace(_))), "{ended:?}");
    drop(release);
}

/// The write may still arrive, so the lease is left to expire.
#[test]
fn a_process_with_a_write_in_flight_on_blocked_threads_ends_within_the_scaffolds_grace_period() {
    let threads = Threads::start().unwrap();
    let (release, released) = mpsc::channel();
    let (blocks, blocked) = mpsc::channel();
    let [metrics, probes] = free_addresses("127.0.0.5");
    let released = Arc::new(Mutex::new(released));
    let blocking = (0..4).map(|_| Box::new(Blocking(released.clone(), blocks.clone())) as Box<dyn Controller>);
    let manager = Manager::new(serving(&metrics, &probes)).controllers(blocking);
    let manager = manager.controllers_on(threads.workers().clone());
    let _in_flight = manager.term.begin_write().unwrap();
    let count = threads.workers().metrics().num_workers();
    let (releases, shutdown) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let (counted, stop) = (releases.clone(), shutdown.clone());
    let (ended, took) = threads.run(async move {
        let client = storing(move |lease| {
            counted.fetch_add(usize::from(lease["spec"]["holderIdentity"] == ""), Relaxed);
        });
        let mut running = std::pin::pin!(manager.run_until(client, shutdown));
        tokio::select! {
            ended = &mut running => panic!("{ended:?}"),
            () = wait_until_blocked(&blocked, count) => {}
        }
        tokio::time::pause();
        let asked = tokio::time::Instant::now();
        stop.cancel();
        (running.await, asked.elapsed())
    });
    assert!(matches!(ended, Err(Error::Grace(_))), "{ended:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(releases.load(Relaxed), 0);
    drop(release);
}

/// A collector of a process with these workers, which blocks the thread of a scrape until the test ends.
#[derive(Debug)]
struct BlockingCollector(Mutex<mpsc::Receiver<()>>, mpsc::Sender<()>, Handle);

impl Collector for BlockingCollector {
    fn encode(&self, _: DescriptorEncoder<'_>) -> std::fmt::Result {
        assert_eq!(Handle::current().id(), self.2.id(), "the workers serve metrics");
        _ = self.1.send(());
        _ = self.0.lock().unwrap().recv();
        Ok(())
    }
}

#[test]
fn scrapes_that_block_their_threads_delay_neither_lease_nor_probes() {
    let threads = Threads::start().unwrap();
    let (release, released) = mpsc::channel();
    let (blocks, blocked) = mpsc::channel();
    let [metrics, probes] = free_addresses("127.0.0.4");
    let manager = Manager::new(serving(&metrics, &probes)).controllers_on(threads.workers().clone());
    let collector = Box::new(BlockingCollector(Mutex::new(released), blocks, threads.workers().clone()));
    manager.metrics.register(|registry| registry.register_collector(collector));
    let scrape = async {
        let scrape = request(&metrics, "/metrics").await;
        wait_until_blocked(&blocked, 1).await;
        scrape
    };
    let ended = threads.run(async { run_blocked(manager, &probes, scrape).await });
    assert!(ended.is_ok(), "{ended:?}");
    drop(release);
}

#[tokio::test(start_paused = true)]
async fn a_shard_has_a_lease_of_its_own_and_neither_a_leader_nor_webhooks() {
    let ring = crate::shards::Ring::new("memcached", Some("pod-1")).unwrap();
    let controllers = ControllerConfig { ring: Some(ring), ..ControllerConfig::default() };
    let shard = Config { controllers, leader_election_namespace: "ns".into(), ..config() };
    let leases = Arc::new(Mutex::new(Vec::new()));
    let log = leases.clone();
    let client = storing(move |lease| {
        let (name, holder) = (&lease["metadata"]["name"], &lease["spec"]["holderIdentity"]);
        log.lock().unwrap().push(format!("{name} {holder} {}", lease["metadata"]["labels"]));
    });
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let controller = Fake { diary: Diary::default(), finish: Duration::ZERO, ends: None };
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    });
    Manager::new(shard.clone()).controller(controller).run_until(client.clone(), shutdown).await.unwrap();
    leases.lock().unwrap().dedup();
    let labels = r#"{"alpha.sharding.timebertt.dev/controllerring":"memcached"}"#;
    let expected = [format!(r#""pod-1" "pod-1" {labels}"#), format!(r#""pod-1" "" {labels}"#)];
    assert_eq!(*leases.lock().unwrap(), expected);
    let both = Manager::new(Config { leader_elect: true, ..shard });
    let error = both.run_until(client, CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("either --controller-ring or --leader-elect"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_takes_a_lease_over_starts_only_once_earlier_moves_have_ended() {
    let ring = crate::shards::Ring::new("memcached", Some("pod-1")).unwrap();
    let controllers = ControllerConfig { ring: Some(ring), ..ControllerConfig::default() };
    let shard = Config { controllers, leader_election_namespace: "ns".into(), ..config() };
    for (seconds, starts) in [(25, false), (35, true)] {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let (parts, body) = request.into_parts();
            let released =
                json!({"metadata": {"name": "pod-1", "resourceVersion": "1"}, "spec": {"holderIdentity": ""}});
            let body = match parts.method {
                http::Method::GET => released.to_string().into_bytes().into(),
                _ => body.collect_bytes().await.unwrap(),
            };
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(body)))
        });
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            stop.cancel();
        });
        let diary = Diary::default();
        let controller = Fake { diary: diary.clone(), finish: Duration::ZERO, ends: None };
        let manager = Manager::new(shard.clone()).controller(controller);
        manager.run_until(Client::new(service, "default"), shutdown).await.unwrap();
        assert_eq!(diary.lock().unwrap().contains(&"start"), starts, "after {seconds} s");
    }
}

/// Runs a process on this server, after so many seconds, until the token is cancelled. It writes only within
/// its term.
async fn run_on(
    server: &Arc<outside::MemoryApi>,
    (config, after): (Config, u64),
    diary: Diary,
    stop: CancellationToken,
) -> Result<(), Error> {
    tokio::time::sleep(Duration::from_secs(after)).await;
    let manager = Manager::new(config).controller(Fake { diary, finish: Duration::ZERO, ends: None });
    let client = crate::testing::client(server, &Arc::default());
    let client = crate::client::within(client, manager.term.clone(), CancellationToken::new());
    manager.run_until(client, stop).await
}

#[tokio::test(start_paused = true)]
async fn a_leader_and_a_shard_of_one_operator_never_run_at_the_same_time() {
    let ring = crate::shards::Ring::new("memcached", Some("pod-1")).unwrap();
    let (leader_election_id, leader_election_namespace) = ("lock".to_owned(), "ns".to_owned());
    let both = Config { leader_election_id, leader_election_namespace, ..config() };
    let controllers = ControllerConfig { ring: Some(ring), ..ControllerConfig::default() };
    let (leader, shard) = (Config { leader_elect: true, ..both.clone() }, Config { controllers, ..both });
    let shards_lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/pod-1";
    for (leads_after, shares_after) in [(0, 20), (20, 0), (0, 0)] {
        let server = Arc::new(outside::MemoryApi::new());
        server.serve("coordination.k8s.io/v1", "Lease", "leases");
        // Two that begin at once stay in step.
        server.slow_down(Duration::from_millis(10));
        let stops = [CancellationToken::new(), CancellationToken::new()];
        let diaries = [Diary::default(), Diary::default()];
        let starts = || [0, 1].map(|of: usize| diaries[of].lock().unwrap().contains(&"start"));
        let script = async {
            tokio::time::sleep(Duration::from_secs(120)).await;
            let first = starts();
            assert!(first[0] != first[1], "after {leads_after} s and {shares_after} s: {first:?}");
            if leads_after == shares_after {
                assert!(first[0] && server.object(shards_lease).is_some(), "the shard gave its lease back");
                // The sharder deletes the lease.
                server.remove(shards_lease);
            }
            stops[usize::from(first[1])].cancel();
            tokio::time::sleep(Duration::from_secs(120)).await;
            assert_eq!(starts(), [true, true], "after {leads_after} s and {shares_after} s");
            stops.iter().for_each(CancellationToken::cancel);
            first
        };
        let (leading, sharing, first) = tokio::join!(
            run_on(&server, (leader.clone(), leads_after), diaries[0].clone(), stops[0].clone()),
            run_on(&server, (shard.clone(), shares_after), diaries[1].clone(), stops[1].clone()),
            script,
        );
        assert!(leading.is_ok() && sharing.is_ok(), "{leading:?} {sharing:?}");
        if leads_after != shares_after {
            assert_eq!(first[0], leads_after < shares_after, "the one that runs goes on");
        }
    }
}

/// Returns a selector of the hashes from 0 to the end.
fn range(end: &str) -> crate::shards::ShardSelector {
    format!("shardRange(object.metadata.uid, '0x0000000000000000', '{end}')").parse().unwrap()
}

/// Returns the configuration of a process that serves a range.
fn of_range(end: &str) -> Config {
    let controllers = ControllerConfig { shard_selector: Some(range(end)), ..ControllerConfig::default() };
    let (leader_election_id, leader_election_namespace) = ("operator".to_owned(), "ns".to_owned());
    Config { controllers, leader_elect: true, leader_election_id, leader_election_namespace, ..config() }
}

/// Runs a manager for a second; returns the names of the leases that it writes.
async fn leases(config: Config) -> std::collections::BTreeSet<String> {
    let leases: Arc<Mutex<std::collections::BTreeSet<String>>> = Arc::default();
    let log = leases.clone();
    let client = storing(move |lease| {
        log.lock().unwrap().insert(lease["metadata"]["name"].as_str().unwrap_or_default().to_owned());
    });
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    });
    let controller = Fake { diary: Diary::default(), finish: Duration::ZERO, ends: None };
    Manager::new(config).controller(controller).run_until(client, shutdown).await.unwrap();
    std::mem::take(&mut *leases.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn each_range_has_its_own_lease_which_the_replicas_of_the_range_share() {
    let (eight, four) = ("0x8000000000000000", "0x4000000000000000");
    let lease = |end: &str| format!("operator-{}", range(end).digest());
    assert_eq!(leases(of_range(eight)).await, [lease(eight)].into());
    assert_eq!(leases(of_range(four)).await, [lease(four)].into());
    assert_ne!(lease(eight), lease(four));
}

#[tokio::test]
async fn a_range_excludes_a_ring_and_webhooks() {
    let ring = crate::shards::Ring::new("memcached", Some("pod-1")).unwrap();
    let mut both = of_range("0x8000000000000000");
    both.leader_elect = false;
    both.controllers.ring = Some(ring);
    let error = Manager::new(both).run_until(storing(|_| ()), CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().ends_with("use either --controller-ring or --shard-selector"), "{error}");
    let error = super::run::check_webhooks(&of_range("0x8000000000000000").controllers).unwrap_err();
    assert!(error.to_string().starts_with("a process with --shard-selector cannot publish webhooks"), "{error}");
}

#[test]
fn the_lease_of_a_pod_may_be_elsewhere_and_its_service_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (file, missing) = (folder.path().join("namespace"), folder.path().join("missing"));
    std::fs::write(&file, "op\n").unwrap();
    for (file, lease, expected) in [
        (&file, "", Some("op")),
        (&file, "leases", Some("op")),
        (&missing, "leases", Some("leases")),
        (&missing, "", None),
    ] {
        assert_eq!(election::own_namespace(file, lease).as_deref(), expected, "{file:?} {lease}");
    }
}

/// A reconciler that writes in this name, and wrote in these.
struct Writer(&'static str, &'static [&'static str]);

impl Reconciler for Writer {
    type Resource = ConfigMap;
    type Error = WriteError;
    type Caches = ();

    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn former_names(&self) -> &[&str] {
        self.1
    }

    fn watch(&self, _: &mut Watching<ConfigMap>) {}

    fn rights(&self) -> Rights {
        Rights::none()
    }

    async fn reconcile(&self, _: &Scope<'_, ConfigMap>, _: &()) -> Result<Next, WriteError> {
        Ok(Next::Wait)
    }
}

#[tokio::test(start_paused = true)]
async fn two_reconcilers_never_write_as_one_field_manager() {
    let run = async |names: [&'static str; 2], former: &'static [&'static str]| {
        let [first, second] = names.map(|name| Writer(name, former));
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            stop.cancel();
        });
        let manager = Manager::new(config()).reconciler(first).reconciler(second);
        manager.run_until(client(0), shutdown).await
    };
    let ended = run(["clusters-controller", "caches-controller"], &["cluster-controller"]).await;
    assert!(ended.is_ok(), "they wait for the server until they are stopped: {ended:?}");
    assert_eq!(
        run(["cluster-controller", "cluster-controller"], &[]).await.unwrap_err().to_string(),
        "two reconcilers are called \"cluster-controller\", so each would remove what the other applied: return another \
         name from one's Reconciler::name"
    );
    assert_eq!(
        run(["clusters-controller", "caches-controller"], &["caches-controller"]).await.unwrap_err().to_string(),
        "a reconciler is called \"caches-controller\", which Reconciler::former_names returns: its fields would move to the \
         other; remove it from the former names"
    );
}

/// Returns a client of a server that answers, but cannot list ConfigMaps.
fn unlisted() -> Client {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let refused = |code: u16| (code, json!({"kind": "Status", "status": "Failure", "message": "no", "code": code}));
        let (code, body) = match request.uri().path() {
            "/version" => (200, json!({})),
            path if path.ends_with("/configmaps") => refused(500),
            _ => refused(404),
        };
        let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
        Ok::<_, std::convert::Infallible>(response.unwrap())
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_process_with_webhooks_is_ready_before_it_has_listed_what_it_may_have_to_convert() {
    let waits_for = async |webhooks: Webhooks| {
        let mut config = config();
        config.webhooks.bind_address = "127.0.0.1:0".into();
        let manager = Manager::new(config).webhooks(webhooks).reconciler(Writer("maps-controller", &[]));
        let readiness = manager.readiness().clone();
        let minute = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            (readiness.unready(), readiness.unmet())
        };
        tokio::select! {
            ended = manager.run_until(unlisted(), CancellationToken::new()) => unreachable!("{ended:?}"),
            waits_for = minute => waits_for,
        }
    };
    let (unready, unmet) = waits_for(Webhooks::new()).await;
    assert_eq!(unready, unmet);
    assert!(unmet.len() == 1 && unmet[0].starts_with("ConfigMap (v1) in the whole cluster: "), "{unmet:?}");
    let (unready, still_unmet) = waits_for(Webhooks::new().convert::<ConfigMap, ConfigMap>()).await;
    assert_eq!((unready, still_unmet), (Vec::new(), unmet), "and says what it waits for");
}
