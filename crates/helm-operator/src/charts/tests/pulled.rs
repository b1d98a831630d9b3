//! Charts that are fetched: a whole controller on the API server in memory, and a registry in this process.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controller::context::{Context, ControllerConfig};
use controller::metrics::Format;
use controller::reconciler::Controller;
use controller::testing::{Requests, client};
use flate2::Compression;
use flate2::write::GzEncoder;
use registry::Digest;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::charts::ChartConfig;
use crate::charts::chart_controller::ChartController;
use crate::charts::running::Running;
use crate::charts::tests::*;
use crate::watches::{self, Pem};

/// How often a test's controller looks for a newer version.
const INTERVAL: Duration = Duration::from_millis(100);

/// A registry whose content can change, and which can be away.
#[derive(Clone, Default)]
struct Registry {
    host: String,
    has: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    tags: Arc<Mutex<Vec<String>>>,
    is_away: Arc<Mutex<bool>>,
    /// How many of the next requests fail.
    failures: Arc<Mutex<usize>>,
    /// The requests.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    async fn start() -> Registry {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let registry = Registry { host: listener.local_addr().unwrap().to_string(), ..Registry::default() };
        let served = registry.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let served = served.clone();
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else { return };
                        head.push(byte);
                    }
                    let path = String::from_utf8(head).unwrap().split(' ').nth(1).unwrap().to_owned();
                    let (status, content) = served.answer(&path);
                    let length = content.len();
                    let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
                    _ = stream.write_all(&[head.as_bytes(), &content].concat()).await;
                });
            }
        });
        registry
    }

    fn answer(&self, path: &str) -> (u16, Vec<u8>) {
        self.asked.lock().unwrap().push(path.to_owned());
        let left = std::mem::take(&mut *self.failures.lock().unwrap());
        *self.failures.lock().unwrap() = left.saturating_sub(1);
        if left > 0 || *self.is_away.lock().unwrap() {
            return (503, Vec::new());
        }
        if path.starts_with("/v2/shop/tags/list") {
            return (200, json!({"tags": *self.tags.lock().unwrap()}).to_string().into_bytes());
        }
        self.has.lock().unwrap().get(path).map_or((404, Vec::new()), |content| (200, content.clone()))
    }

    /// Publishes a version of a chart whose ConfigMap contains that version.
    fn push(&self, version: &str) {
        self.push_chart(version, chart(version));
    }

    /// Publishes a packed chart as this version.
    fn push_chart(&self, version: &str, archive: Vec<u8>) {
        let digest = Digest::of(&archive).to_string();
        let manifest = json!({
            "schemaVersion": 2,
            "config": {"mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": digest, "size": 2},
            "layers": [{
                "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
                "digest": digest,
                "size": archive.len(),
            }],
        });
        let mut has = self.has.lock().unwrap();
        has.insert(format!("/v2/shop/blobs/{digest}"), archive);
        has.insert(format!("/v2/shop/manifests/{version}"), manifest.to_string().into_bytes());
        self.tags.lock().unwrap().push(version.to_owned());
    }

    /// Publishes what one tag names under another, as anyone can who may push.
    fn tag(&self, tag: &str, of: &str) {
        let mut has = self.has.lock().unwrap();
        let manifest = has[&format!("/v2/shop/manifests/{of}")].clone();
        has.insert(format!("/v2/shop/manifests/{tag}"), manifest);
        self.tags.lock().unwrap().push(tag.to_owned());
    }

    /// Signs a version as cosign does.
    fn sign(&self, version: &str, signer: &Signer) {
        let manifest = self.digest(version);
        let image = json!({"docker-manifest-digest": manifest.to_string()});
        let kind = "cosign container image signature";
        let text = json!({"critical": {"identity": {}, "image": image, "type": kind}, "optional": null}).to_string();
        let digest = Digest::of(text.as_bytes()).to_string();
        let layer = json!({
            "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
            "digest": digest,
            "size": text.len(),
            "annotations": {"dev.cosignproject.cosign/signature": signer.sign(text.as_bytes())},
        });
        let signatures = json!({"schemaVersion": 2, "layers": [layer]}).to_string().into_bytes();
        let mut has = self.has.lock().unwrap();
        has.insert(format!("/v2/shop/blobs/{digest}"), text.into_bytes());
        has.insert(format!("/v2/shop/manifests/sha256-{}.sig", manifest.hex()), signatures);
    }

    /// Removes a version's tag.
    fn withdraw(&self, version: &str) {
        self.tags.lock().unwrap().retain(|tag| tag != version);
    }

    /// Returns the digest of a version's manifest.
    fn digest(&self, version: &str) -> Digest {
        Digest::of(&self.has.lock().unwrap()[&format!("/v2/shop/manifests/{version}")])
    }

    fn away(&self, is_away: bool) {
        *self.is_away.lock().unwrap() = is_away;
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

/// A key pair, as cosign makes it.
struct Signer(EcdsaKeyPair);

impl Signer {
    fn new() -> Signer {
        let (random, curve) = (SystemRandom::new(), &ECDSA_P256_SHA256_ASN1_SIGNING);
        let pair = EcdsaKeyPair::generate_pkcs8(curve, &random).unwrap();
        Signer(EcdsaKeyPair::from_pkcs8(curve, pair.as_ref(), &random).unwrap())
    }

    /// Returns the public key in PEM. All keys on the curve begin alike.
    fn pem(&self) -> String {
        let point = STANDARD.encode(&self.0.public_key().as_ref()[1..]);
        format!("-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE{point}\n-----END PUBLIC KEY-----\n")
    }

    /// Returns the signature of a text, in base64.
    fn sign(&self, text: &[u8]) -> String {
        STANDARD.encode(self.0.sign(&SystemRandom::new(), text).unwrap())
    }
}

fn chart(version: &str) -> Vec<u8> {
    chart_named("shop", version)
}

fn chart_named(name: &str, version: &str) -> Vec<u8> {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {version: \"{{ .Chart.Version }}\"}\n";
    let about = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    packed(&[("Chart.yaml", &*about), ("templates/c.yaml", map)])
}

/// Returns a chart that does not load, because it lacks a dependency.
fn broken(version: &str) -> Vec<u8> {
    let dependency = "{name: database, version: 1.0.0, repository: 'https://charts.example.com'}";
    let about = format!("apiVersion: v2\nname: shop\nversion: {version}\ndependencies: [{dependency}]\n");
    packed(&[("Chart.yaml", &*about)])
}

/// Packs the files of a chart.
fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append_data(&mut header, format!("shop/{path}"), text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// A process that serves the chart of the registry, and stops with its end.
struct Operator {
    server: Arc<MemoryApi>,
    context: Context,
    shutdown: CancellationToken,
    work: tokio::task::JoinHandle<()>,
}

impl Operator {
    fn start(server: &Arc<MemoryApi>, registry: &Registry, cache: &std::path::Path, key: Option<Pem>) -> Operator {
        Operator::start_with(server, registry, cache, ("^1", key))
    }

    fn start_with(
        server: &Arc<MemoryApi>,
        registry: &Registry,
        cache: &std::path::Path,
        (version, key): (&str, Option<Pem>),
    ) -> Operator {
        let chart = format!("chart: 'oci://{}/shop', pull: {{version: {version}, plainHttp: true}}", registry.host);
        Operator::serving(server, cache, &chart, key)
    }

    /// Starts a process whose watch has these keys.
    fn serving(server: &Arc<MemoryApi>, cache: &std::path::Path, keys: &str, key: Option<Pem>) -> Operator {
        Operator::looking_every(INTERVAL, server, cache, keys, key)
    }

    fn looking_every(
        interval: Duration,
        server: &Arc<MemoryApi>,
        cache: &std::path::Path,
        keys: &str,
        key: Option<Pem>,
    ) -> Operator {
        let text = format!("- {{group: cache.my.domain, version: v1, kind: Memcached, {keys}}}");
        let mut watch = watches::parse(&text, |_| None).unwrap().watches.remove(0);
        let pull = watch.pull.as_mut().unwrap();
        (pull.interval, pull.key) = (interval, key);
        let shutdown = CancellationToken::new();
        let client = client(server, &Requests::default());
        let config = ControllerConfig { pod_name: Some("operator-0".into()), ..ControllerConfig::default() };
        let context = Context::new(client, config, Metrics::default(), shutdown.clone());
        let config = ChartConfig { chart_cache: cache.to_owned(), ..ChartConfig::default() };
        let context = context.with(Arc::new(config)).for_controller("memcached-controller");
        let controller = ChartController::load(watch).unwrap();
        controller.prepare(&context);
        let running = context.clone();
        let work = tokio::spawn(async move { Box::new(controller).run(running).await.unwrap() });
        Operator { server: server.clone(), context, shutdown, work }
    }

    /// Waits until the ConfigMap contains this version.
    async fn serves(&self, version: &str) {
        let map = || self.server.object(&format!("{MAPS}/c")).unwrap_or_default()["data"]["version"].clone();
        eventually(|| if map() == version { Ok(()) } else { Err(format!("{} {}", map(), status(&self.server))) }).await;
    }

    /// Waits until nothing keeps the process unready.
    async fn is_ready(&self) {
        eventually(|| match self.context.readiness.unready() {
            lines if lines.is_empty() => Ok(()),
            lines => Err(lines.join("; ")),
        })
        .await;
    }

    /// Waits until one chart has replaced another, or none.
    async fn has_replaced(&self) {
        let replaced = || self.published("ChartUpdated").len();
        eventually(|| if replaced() == 1 { Ok(()) } else { Err(format!("{} replacements", replaced())) }).await;
    }

    /// Waits until drift is repaired, which shows that the chart serves, and that no revision was made.
    async fn repairs(&self, version: &str) {
        self.server.remove(&format!("{MAPS}/c"));
        self.serves(version).await;
        let releases = self.server.paths().into_iter().filter(|path| path.contains("sh.helm.release")).count();
        assert_eq!(releases, 1, "no revision is made");
    }

    /// Waits until the resource says why it has no release.
    async fn says(&self, reason: &str, message: &str) {
        let is_said = |condition: &Value| {
            condition["reason"] == reason && condition["message"].as_str().is_some_and(|text| text.contains(message))
        };
        let conditions = || status(&self.server)["conditions"].as_array().cloned().unwrap_or_default();
        eventually(|| if conditions().iter().any(is_said) { Ok(()) } else { Err(json!(conditions()).to_string()) })
            .await;
    }

    /// Returns the notes of the events with this reason, with their type and the object that they are on.
    fn published(&self, reason: &str) -> Vec<String> {
        let all = events(&self.server).into_iter().filter(|event| event["reason"] == reason);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        all.map(|event| {
            let (on, kind) = (&event["regarding"], text(&event["type"]));
            format!("{kind} {reason} {} {}: {}", text(&on["kind"]), text(&on["name"]), text(&event["note"]))
        })
        .collect()
    }

    /// Waits for an event on the process.
    async fn publishes(&self, what: &str, note: &str) {
        let expected = format!("{what} Pod operator-0: {note}");
        let reason = what.split(' ').next_back().unwrap();
        let is_there = || self.published(reason).iter().any(|event| event.starts_with(&expected));
        eventually(|| if is_there() { Ok(()) } else { Err(format!("{:?}", self.published(reason))) }).await;
    }

    /// Waits until an event says that the newest version does not load, and that this one is served.
    async fn publishes_broken(&self, registry: &Registry, served: &str) {
        let chart = format!("oci://{}/shop", registry.host);
        let why = "found in Chart.yaml, but missing in charts/ directory: database";
        let note = format!("Memcached: cannot fetch the chart {chart}: {why}; {served} (sha256:");
        self.publishes("Warning ChartUnavailable", &note).await;
    }

    /// Returns the series of resources, releases and revisions that the metrics have more than once.
    fn repeated_series(&self) -> Vec<String> {
        let metrics = self.context.metrics.encode(Format::Classic);
        let series = metrics.lines().filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series);
        let mut seen = BTreeSet::new();
        let own = series.filter(|series| series.starts_with("helm_operator_"));
        own.filter(|series| !seen.insert(*series)).map(str::to_owned).collect()
    }

    /// Waits until no condition says that the chart is unavailable.
    async fn has_chart(&self) {
        eventually(|| match status(&self.server)["conditions"].to_string() {
            conditions if conditions.contains("ChartUnavailable") => Err(conditions),
            _ => Ok(()),
        })
        .await;
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.work.await.unwrap();
    }
}

fn status(server: &MemoryApi) -> Value {
    server.object(PRIMARY).unwrap_or_default()["status"].clone()
}

/// Waits until something holds, which the messages of attempts explain.
async fn eventually(holds: impl Fn() -> Result<(), String>) {
    let limit = Instant::now() + Duration::from_secs(60);
    while let Err(why) = holds() {
        assert!(Instant::now() < limit, "{why}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn server() -> Arc<MemoryApi> {
    let server = World::new(spec()).server;
    server.serve("v1", "ConfigMap", "configmaps");
    server.serve("v1", "Secret", "secrets");
    server
}

#[tokio::test]
async fn a_newer_version_of_a_fetched_chart_upgrades_its_releases_while_the_process_runs() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    registry.push("1.0.0");
    let operator = Operator::start(&server, &registry, &cache.path().join("charts"), None);
    operator.serves("1.0.0").await;
    registry.push("2.0.0");
    registry.push("1.1.0");
    operator.serves("1.1.0").await;
    let [digest_1, digest_2] = ["1.0.0", "1.1.0"].map(|version| registry.digest(version));
    let chart = format!("oci://{}/shop", registry.host);
    let expected =
        format!("Memcached: chart {chart} 1.0.0 ({digest_1}) → 1.1.0 ({digest_2}); its releases are upgraded");
    operator.publishes("Normal ChartUpdated", &expected).await;
    assert_eq!(operator.published("ChartUpdated").len(), 1, "none at the start");
    let running = Running::of(&operator.context);
    eventually(|| match running.all().len() {
        1 => Ok(()),
        other => Err(format!("{other} controllers")),
    })
    .await;
    assert_eq!(operator.repeated_series(), Vec::<String>::new());
    registry.away(true);
    let away = format!("Memcached: cannot fetch the chart {chart}: {} answered 503", registry.host);
    operator.publishes("Warning ChartUnavailable", &away).await;
    operator.stop().await;
}

#[tokio::test]
async fn a_chart_that_cannot_be_fetched_is_the_reason_of_its_resources_until_it_can() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    registry.push("1.0.0");
    registry.away(true);
    let operator = Operator::start(&server, &registry, &cache.path().join("charts"), None);
    let expected = format!("cannot fetch the chart oci://{}/shop: {} answered 503", registry.host, registry.host);
    operator.says("ChartUnavailable", &expected).await;
    registry.away(false);
    operator.serves("1.0.0").await;
    operator.stop().await;
}

/// Refuses the lists of resources from now on. Returns how many it has refused.
fn refuse_lists(server: &MemoryApi) -> Arc<AtomicUsize> {
    let refused = Arc::new(AtomicUsize::new(0));
    let refuses = refused.clone();
    server.refuse(move |call| {
        call.path.contains("/memcacheds?").then(|| {
            refuses.fetch_add(1, Ordering::SeqCst);
            Error::from_status(403, "Forbidden", "no")
        })
    });
    refused
}

/// Waits until another list is refused.
async fn refuses_another(refused: &AtomicUsize) {
    let before = refused.load(Ordering::SeqCst);
    let is_more = || refused.load(Ordering::SeqCst) > before;
    eventually(|| if is_more() { Ok(()) } else { Err("no list".into()) }).await;
}

#[tokio::test]
async fn a_process_whose_first_look_failed_is_ready_once_the_chart_is_there_and_its_kind_is_listed() {
    let (server, registry, cache) = (Arc::new(MemoryApi::new()), Registry::start().await, tempfile::tempdir().unwrap());
    server.serve("v1", "ConfigMap", "configmaps");
    server.serve("v1", "Secret", "secrets");
    registry.push("1.0.0");
    *registry.failures.lock().unwrap() = 1;
    let operator = Operator::start(&server, &registry, &cache.path().join("charts"), None);
    operator.has_replaced().await;
    assert!(!operator.context.readiness.unready().is_empty(), "the kind is not served yet");
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let (path, resource) = primary("ns", "web", spec());
    server.put(&path, resource, "user");
    operator.is_ready().await;
    operator.serves("1.0.0").await;
    operator.stop().await;
}

#[tokio::test]
async fn a_process_is_ready_once_a_newer_chart_has_listed_what_the_one_before_could_not() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    registry.push("1.0.0");
    let refused = refuse_lists(&server);
    let operator = Operator::start(&server, &registry, &cache.path().join("charts"), None);
    refuses_another(&refused).await;
    registry.push("1.1.0");
    operator.has_replaced().await;
    refuses_another(&refused).await;
    assert!(!operator.context.readiness.unready().is_empty(), "the kind is not listed yet");
    server.accept();
    operator.is_ready().await;
    operator.serves("1.1.0").await;
    operator.stop().await;
}

#[tokio::test]
async fn a_process_that_was_ready_stays_so_while_a_newer_chart_has_not_listed_its_kind() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    registry.push("1.0.0");
    let operator = Operator::start(&server, &registry, &cache.path().join("charts"), None);
    operator.serves("1.0.0").await;
    operator.is_ready().await;
    let refused = refuse_lists(&server);
    registry.push("1.1.0");
    refuses_another(&refused).await;
    assert_eq!(operator.context.readiness.unready(), [] as [String; 0]);
    server.accept();
    operator.serves("1.1.0").await;
    assert_eq!(operator.context.readiness.unready(), [] as [String; 0]);
    operator.stop().await;
}

#[tokio::test]
async fn a_chart_that_is_never_looked_up_again_comes_back_when_the_cache_has_lost_it() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    registry.push("1.0.0");
    registry.push("1.1.0");
    let folder = cache.path().join("charts");
    let operator = Operator::start_with(&server, &registry, &folder, ("1.0.0", None));
    operator.serves("1.0.0").await;
    let asked = registry.asked();
    let archive = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let archive = archive.into_iter().find(|path| path.extension().is_some_and(|is| is == "tgz")).unwrap();
    std::fs::remove_file(&archive).unwrap();
    eventually(|| if archive.exists() { Ok(()) } else { Err("the archive is gone".into()) }).await;
    assert_eq!(registry.asked(), asked + 2, "the manifest and the archive");
    operator.serves("1.0.0").await;
    operator.stop().await;
}

#[tokio::test]
async fn a_release_is_uninstalled_without_its_chart() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    registry.push("1.0.0");
    let operator = Operator::start(&server, &registry, &cache.path().join("charts"), None);
    operator.serves("1.0.0").await;
    operator.stop().await;
    let mut resource = server.object(PRIMARY).unwrap();
    resource["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    server.put(PRIMARY, resource, "user");
    registry.away(true);
    let operator = Operator::start(&server, &registry, &cache.path().join("empty"), None);
    eventually(|| if server.object(PRIMARY).is_none() { Ok(()) } else { Err(status(&server).to_string()) }).await;
    assert_eq!(server.object(&format!("{MAPS}/c")), None);
    operator.stop().await;
}

#[tokio::test]
async fn a_release_of_operator_sdk_keeps_strings_although_its_chart_comes_late() {
    let (registry, cache) = (Registry::start().await, tempfile::tempdir().unwrap());
    let server = override_types::upstreams(OverrideValuesType::String).await;
    server.serve("v1", "ConfigMap", "configmaps");
    server.serve("v1", "Secret", "secrets");
    let before = server.object(&format!("{MAPS}/a")).unwrap();
    registry.push_chart("1.0.0", packed(&override_types::CHART));
    registry.away(true);
    let keys = format!(
        "chart: 'oci://{}/shop', overrideValues: {{'on': 'false'}}, pull: {{version: 1.0.0, plainHttp: true}}",
        registry.host
    );
    let operator = Operator::serving(&server, &cache.path().join("charts"), &keys, None);
    operator.says("ChartUnavailable", "answered 503").await;
    registry.away(false);
    operator.has_chart().await;
    let after = server.object(&format!("{MAPS}/a")).unwrap();
    assert_eq!(
        (&after["data"], &after["metadata"]["uid"]),
        (&json!({"value": "string 1"}), &before["metadata"]["uid"])
    );
    assert_eq!(server.object(&record_path(2)), None, "no revision is made");
    operator.stop().await;
}

#[tokio::test]
async fn while_the_registry_is_away_the_cache_serves_and_a_start_changes_nothing() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    let folder = cache.path().join("charts");
    registry.push("1.0.0");
    let operator = Operator::start(&server, &registry, &folder, None);
    operator.serves("1.0.0").await;
    registry.away(true);
    let asked = registry.asked();
    eventually(|| if registry.asked() > asked + 2 { Ok(()) } else { Err("no look".into()) }).await;
    operator.stop().await;
    let operator = Operator::start(&server, &registry, &folder, None);
    operator.repairs("1.0.0").await;
    registry.push("1.1.0");
    registry.away(false);
    operator.serves("1.1.0").await;
    operator.stop().await;
}

#[tokio::test]
async fn a_start_asks_again_before_it_returns_to_the_older_version_in_its_own_cache() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    let [first, second] = ["first", "second"].map(|replica| cache.path().join(replica));
    registry.push("1.0.0");
    let operator = Operator::start(&server, &registry, &first, None);
    operator.serves("1.0.0").await;
    operator.stop().await;
    registry.push("1.1.0");
    let operator = Operator::start(&server, &registry, &second, None);
    operator.serves("1.1.0").await;
    operator.stop().await;
    *registry.failures.lock().unwrap() = 1;
    server.remove(&format!("{MAPS}/c"));
    let operator = Operator::start(&server, &registry, &first, None);
    operator.serves("1.1.0").await;
    assert_eq!(server.object(&record_path(3)), None, "no revision is made");
    operator.stop().await;
}

#[tokio::test]
async fn a_cached_version_is_looked_up_once_the_registry_is_back_even_if_none_is_looked_up_again() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    let keys = format!("chart: 'oci://{}/shop', pull: {{version: ^1, plainHttp: true}}", registry.host);
    let start = || Operator::looking_every(Duration::ZERO, &server, &cache.path().join("charts"), &keys, None);
    registry.push("1.0.0");
    let operator = start();
    operator.serves("1.0.0").await;
    operator.stop().await;
    registry.push("1.1.0");
    registry.away(true);
    let operator = start();
    operator.repairs("1.0.0").await;
    registry.away(false);
    operator.serves("1.1.0").await;
    let asked = registry.asked();
    registry.push("1.2.0");
    operator.stop().await;
    assert_eq!(registry.asked(), asked);
}

#[tokio::test]
async fn a_start_serves_the_last_version_that_loaded() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    let folder = cache.path().join("charts");
    registry.push("1.0.0");
    let operator = Operator::start(&server, &registry, &folder, None);
    operator.serves("1.0.0").await;
    registry.push_chart("1.1.0", broken("1.1.0"));
    operator.publishes_broken(&registry, "1.0.0").await;
    operator.stop().await;
    let operator = Operator::start(&server, &registry, &folder, None);
    operator.repairs("1.0.0").await;
    operator.stop().await;
}

#[tokio::test]
async fn a_version_that_never_loaded_may_be_withdrawn() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    registry.push("1.0.0");
    let operator = Operator::start(&server, &registry, &cache.path().join("charts"), None);
    operator.serves("1.0.0").await;
    let uid = || server.object(&format!("{MAPS}/c")).unwrap()["metadata"]["uid"].clone();
    let before = uid();
    registry.push_chart("1.1.0", broken("1.1.0"));
    operator.publishes_broken(&registry, "1.0.0").await;
    registry.withdraw("1.1.0");
    registry.push("1.0.1");
    operator.serves("1.0.1").await;
    assert_eq!(uid(), before, "the object is upgraded");
    operator.stop().await;
}

#[tokio::test]
async fn a_chart_that_nobody_vouches_for_is_never_rendered_and_the_key_may_be_in_a_secret() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    registry.push("1.0.0");
    let (folder, key) = (cache.path().join("charts"), Pem::Secret { name: "cosign".into(), key: "cosign.pub".into() });
    let operator = Operator::start(&server, &registry, &folder, Some(key));
    operator.says("ChartUnavailable", "cannot read Secret default/cosign").await;
    // A public key that signed nothing.
    let pem = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt\n6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n-----END PUBLIC KEY-----\n";
    let secret =
        json!({"metadata": {"name": "cosign", "namespace": "default"}, "data": {"cosign.pub": STANDARD.encode(pem)}});
    server.put("/api/v1/namespaces/default/secrets/cosign", secret, "user");
    operator.says("ChartUnverified", "the chart has no signature").await;
    assert_eq!(server.object(&format!("{MAPS}/c")), None);
    assert!(!registry.asked.lock().unwrap().iter().any(|path| path.contains("/blobs/")), "its archive is not fetched");
    operator.stop().await;
}

#[tokio::test]
async fn a_signed_chart_under_the_tag_of_another_version_or_the_name_of_another_chart_is_never_rendered() {
    let (server, registry, cache) = (server(), Registry::start().await, tempfile::tempdir().unwrap());
    let (signer, key) = (Signer::new(), cache.path().join("cosign.pub"));
    std::fs::write(&key, signer.pem()).unwrap();
    registry.push("1.0.0");
    registry.sign("1.0.0", &signer);
    let folder = cache.path().join("charts");
    let operator = Operator::start(&server, &registry, &folder, Some(Pem::File(key.clone())));
    operator.serves("1.0.0").await;

    let refused = |why: &str| {
        let chart = format!("oci://{}/shop", registry.host);
        format!("Memcached: cannot fetch the chart {chart}: {why}")
    };
    registry.tag("1.99.0", "1.0.0");
    let renamed = refused("the tag 1.99.0 has version 1.0.0 of the chart:");
    operator.publishes("Warning ChartUnverified", &renamed).await;
    registry.withdraw("1.99.0");
    registry.push_chart("1.5.0", chart_named("cart", "1.5.0"));
    registry.sign("1.5.0", &signer);
    let other = refused("the repository shop has the chart cart:");
    operator.publishes("Warning ChartUnverified", &other).await;
    operator.serves("1.0.0").await;
    operator.stop().await;

    let operator = Operator::start(&server, &registry, &folder, Some(Pem::File(key)));
    operator.repairs("1.0.0").await;
    registry.withdraw("1.5.0");
    registry.push("1.1.0");
    registry.sign("1.1.0", &signer);
    operator.serves("1.1.0").await;
    operator.stop().await;
}
