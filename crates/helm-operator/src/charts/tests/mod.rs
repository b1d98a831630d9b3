//! Tests of whole reconciles against the API server in memory: scenarios, and a crash after every single write.

mod time;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use controller::client::Contact;
use controller::events::Events;
use controller::metrics::{Metrics, ReconcileResult};
use controller::runtime::concurrency::ConcurrencyLimit;
use controller::runtime::freshness::Epoch;
use controller::runtime::key::ResourceKey;
use controller::runtime::priority::Priority;
use controller::runtime::queue::Queue;
use controller::runtime::reflector::{EventHandler, WatchScope};
use controller::shards::{Shard, Share};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use helm::chart::Chart;
use helm::reads::Unread;
use helm_release::action::Candidate;
use helm_release::kube::{
    Api, Applier, Error, Live, MemoryApi, Object, ObjectKey, Resource, Whole, deduplicate, install_order, objects_of,
};
use helm_release::release::{ChartDocument, Hook, Packed, Status};
use helm_release::storage::{Home, Key, Keyring, MARKS_ANNOTATION, Marks, RecordMeta, SEAL_ANNOTATION, Storage};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::handlers;
use super::handlers::{Dependents, Primaries};
use crate::chart_metrics::ChartMetrics;
use crate::hooks::extensions::Extensions;
use crate::reconcile;
use crate::reconcile::accept::Acceptance;
use crate::reconcile::controller_context::{ControllerContext, Settings};
use crate::reconcile::decide::action_room::ActionRoom;
use crate::reconcile::decide::arrivals::Arrivals;
use crate::reconcile::decide::memory::Memory;
use crate::reconcile::decide::schedule::Started;
use crate::reconcile::decide::turns::Turns;
use crate::reconcile::decide::unseen::Unseen;
use crate::reconcile::restore;
use crate::rendering::request::{RenderError, Rendered, Renderer, Request};
use crate::rendering::unavailable::Unavailable;
use crate::status::declared_fields::Undeclared;
use crate::values::Spec;
use crate::values_from::SourceKind;
use crate::view::cache::Cache;
use crate::view::chart_names::SelectedCharts;
use crate::view::dependencies::registry::Dependencies;
use crate::view::finalizers::FINALIZER;
use crate::view::primary::{Primary, Received};
use crate::view::releases::Releases;
use crate::view::sources::registry::Sources;
use crate::view::sources::watch::{SourceHandler, SourceMeta};
use crate::watches::{OverrideValuesType, Overrides, Sequencing, Watch};

mod account;
mod added_charts;
mod adopted;
mod afterwards;
mod apart;
mod cache;
mod capabilities;
mod chart_tests;
mod competitors;
mod dependencies;
mod drift;
mod extensions;
mod failure_policy;
mod failure_scenarios;
mod faults;
mod finished_jobs;
mod followed_uninstalls;
mod forms_of_jobs;
mod helm_commands;
mod hooks;
mod hostile;
mod identity;
mod inventory;
mod kinds;
mod large_specs;
mod leaks;
mod ordered;
mod override_types;
mod page;
mod pinned;
mod planned;
mod previews;
mod proven;
mod pulled;
mod ready;
mod recorded;
mod recreate;
mod refused_deletions;
mod releases;
pub(super) mod reporting;
mod requests;
mod requeue;
mod restored;
mod retries;
mod reverse_deletion;
mod rollout;
mod rollout_steps;
mod shards;
mod shares;
mod silent;
mod sources;
mod stopped_uninstalls;
mod storage;
mod unanswered;
mod upstreams;
pub(crate) mod whole_controller;

pub(super) const PRIMARY: &str = "/apis/cache.my.domain/v1/namespaces/ns/memcacheds/web";
pub(super) const SECRETS: &str = "/api/v1/namespaces/ns/secrets";
pub(super) const MAPS: &str = "/api/v1/namespaces/ns/configmaps";
const SECOND: Duration = Duration::from_secs(1);

/// A chart that renders a ConfigMap with `spec.value` for each name in `spec.maps`, and the objects in `spec.objects`.
/// Its `crds` folder has those in `spec.crds`. Rendering takes `spec.seconds`.
#[derive(Default)]
pub(super) struct Stub {
    /// The chart's name, if it is not `memcached`.
    name: &'static str,
    /// The version of the chart, which every object contains.
    chart: &'static str,
    overrides: Overrides,
    /// The kinds that the cluster serves, which every object contains if there are any.
    kinds: Mutex<String>,
    /// The kinds that the next render discovers, if there are any.
    discovers: Mutex<String>,
    /// Whether the kinds have yet to settle.
    is_settling: AtomicBool,
    has_sources: bool,
    /// The chart that views show the values of.
    lines: Option<Arc<Chart>>,
    is_random: bool,
    renders: AtomicUsize,
    /// The revisions that it rendered.
    revisions: Mutex<Vec<u32>>,
    /// The number of retries that it is rendering.
    retries: AtomicUsize,
    /// The end of the cooldown, before which it renders no retry.
    rests_until: Mutex<Option<Instant>>,
    /// The ConfigMap without which everything renders.
    faulty: Mutex<String>,
}

impl Renderer for Stub {
    fn digest(&self) -> String {
        format!("chart{}", self.chart)
    }

    fn capabilities(&self) -> Option<String> {
        Some(self.kinds.lock().unwrap().clone())
    }

    fn are_capabilities_settled(&self) -> bool {
        !self.is_settling.load(Ordering::SeqCst)
    }

    fn chart_name(&self) -> &str {
        if self.name.is_empty() { "memcached" } else { self.name }
    }

    fn chart_version(&self) -> &str {
        "0.1.0"
    }

    fn overrides(&self) -> Option<&Overrides> {
        Some(&self.overrides)
    }

    fn sources(&self, spec: &Spec, _: OverrideValuesType) -> Option<(Arc<ChartDocument>, Value)> {
        self.has_sources.then(|| (document_of(self.chart_name()), serde_json::from_str(spec.json().unwrap()).unwrap()))
    }

    fn chart_with_lines(&self) -> Option<Arc<Chart>> {
        self.lines.clone()
    }

    fn rested(&self) -> BoxFuture<'_, ()> {
        let until = *self.rests_until.lock().unwrap();
        Box::pin(tokio::time::sleep_until(until.unwrap_or_else(Instant::now)))
    }

    fn render(&self, mut request: Request) -> BoxFuture<'_, Result<Rendered, RenderError>> {
        self.revisions.lock().unwrap().push(request.revision);
        let count = self.renders.fetch_add(1, Ordering::SeqCst);
        if !self.chart.is_empty() {
            let mut spec: Value = serde_json::from_str(request.spec.json().unwrap()).unwrap();
            spec["value"] = format!("{} by {}", spec["value"].as_str().unwrap(), self.chart).into();
            // What this version of the chart renders instead.
            if let Some(instead) = spec["by"][self.chart].as_object().cloned() {
                spec.as_object_mut().unwrap().extend(instead);
            }
            request.spec = Spec::new(&spec.to_string());
        }
        let faulty = self.faulty.lock().unwrap().clone();
        if !faulty.is_empty() {
            let mut spec: Value = serde_json::from_str(request.spec.json().unwrap()).unwrap();
            spec["broken"] = (spec["maps"][0] == faulty).into();
            request.spec = Spec::new(&spec.to_string());
        }
        let discovered = std::mem::take(&mut *self.discovers.lock().unwrap());
        if !discovered.is_empty() {
            *self.kinds.lock().unwrap() = discovered;
        }
        let kinds = self.kinds.lock().unwrap().clone();
        if !kinds.is_empty() {
            let mut spec: Value = serde_json::from_str(request.spec.json().unwrap()).unwrap();
            spec["value"] = format!("{} with {kinds}", spec["value"].as_str().unwrap()).into();
            request.spec = Spec::new(&spec.to_string());
        }
        if self.is_random {
            let mut spec: Value = serde_json::from_str(request.spec.json().unwrap()).unwrap();
            spec["value"] = format!("password {count}").into();
            request.spec = Spec::new(&spec.to_string());
        }
        Box::pin(async move {
            let spec: Value = request.spec.json().map(|json| serde_json::from_str(json).unwrap()).unwrap_or_default();
            if let Some(seconds) = spec["seconds"].as_u64() {
                let before = self.retries.fetch_add(usize::from(request.priority == Priority::Retry), Ordering::SeqCst);
                assert!(request.priority == Priority::Normal || before == 0, "one retry at a time");
                tokio::time::sleep(SECOND * seconds as u32).await;
                self.retries.fetch_sub(usize::from(request.priority == Priority::Retry), Ordering::SeqCst);
            }
            let named = |candidate: Candidate| Candidate { chart: document_of(self.chart_name()), ..candidate };
            render(&request).map(|candidate| Rendered::Done(named(candidate)))
        })
    }
}

/// Returns the path of a revision's record.
fn record_path(version: u32) -> String {
    format!("{SECRETS}/sh.helm.release.v1.web.v{version}")
}

/// A renderer that postpones every render but a retry, as if each kept others waiting.
struct Slow(Arc<dyn Renderer>);

impl Renderer for Slow {
    fn digest(&self) -> String {
        self.0.digest()
    }

    fn capabilities(&self) -> Option<String> {
        self.0.capabilities()
    }

    fn chart_name(&self) -> &str {
        self.0.chart_name()
    }

    fn overrides(&self) -> Option<&Overrides> {
        self.0.overrides()
    }

    fn sources(&self, spec: &Spec, overrides: OverrideValuesType) -> Option<(Arc<ChartDocument>, Value)> {
        self.0.sources(spec, overrides)
    }

    fn render(&self, request: Request) -> BoxFuture<'_, Result<Rendered, RenderError>> {
        match request.priority {
            Priority::Normal => Box::pin(std::future::ready(Ok(Rendered::Postponed))),
            Priority::Retry => self.0.render(request),
        }
    }
}

fn document() -> Arc<ChartDocument> {
    document_of("memcached")
}

/// Returns the chart with this name, as a record contains it.
fn document_of(chart: &str) -> Arc<ChartDocument> {
    let chart = format!(r#"{{"metadata":{{"name":"{chart}","version":"0.1.0","appVersion":"1.6"}}}}"#);
    Arc::new(ChartDocument::from_json(&chart).unwrap())
}

fn render(request: &Request) -> Result<Candidate, RenderError> {
    let invalid =
        |error: crate::values::Error| RenderError::Failed { reason: "InvalidValues", message: error.to_string() };
    let spec: Value = serde_json::from_str(request.spec.json().map_err(invalid)?).unwrap();
    assert!(spec["panic"] != true, "a bug");
    if spec["broken"] == true {
        let told = spec["told"].as_str().map(|told| format!(" {told}")).unwrap_or_default();
        let message = format!("template: memcached/templates/a.yaml:3:5: executing \"a\" at <fail>: no{told}");
        return Err(RenderError::Failed { reason: "RenderError", message });
    }
    let mut manifest = String::new();
    for name in spec["maps"].as_array().into_iter().flatten() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": spec["value"]}});
        manifest = format!("{manifest}---\n{map}\n");
    }
    for name in spec["deployments"].as_array().into_iter().flatten() {
        let selector = json!({"matchLabels": {"app": name}});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"selector": selector}});
        manifest = format!("{manifest}---\n{object}\n");
    }
    for object in spec["objects"].as_array().into_iter().flatten() {
        manifest = format!("{manifest}---\n{object}\n");
    }
    if spec["unknown"] == true {
        manifest = format!("{manifest}---\napiVersion: example.com/v1\nkind: Unknown\nmetadata:\n  name: u\n");
    }
    if spec["twice"] == true {
        manifest =
            format!("{manifest}---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  value: last\n");
    }
    let (mut objects, duplicates) = deduplicate(objects_of(&manifest).unwrap(), &request.namespace);
    install_order(&mut objects);
    let unread = |key: &str| Unread { path: vec![key.into()], nearest: Some("maps".into()), is_documented: false };
    let unread = spec.get("mpas").map(|_| unread("mpas")).into_iter().collect();
    let told = spec["told"].as_str().map(|told| format!(" {told}")).unwrap_or_default();
    let notes = format!("enjoy{told}");
    Ok(Candidate {
        chart: document(),
        hooks: spec["hooks"].as_array().into_iter().flatten().map(hook).collect(),
        crds: spec["crds"].as_array().into_iter().flatten().map(|crd| Object::new(crd.clone()).unwrap()).collect(),
        config: spec,
        manifest,
        objects,
        notes,
        unread,
        duplicates,
        inputs: request.inputs.clone(),
    })
}

/// Returns a Job that runs at some events:
/// `{"name": …, "namespace": …, "events": […], "policies": […], "spec": …, "annotations": …}`.
fn hook(of: &Value) -> Hook {
    let mut job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": of["name"]}, "spec": of["spec"]});
    if let Some(namespace) = of.get("namespace") {
        job["metadata"]["namespace"] = namespace.clone();
    }
    if let Some(annotations) = of.get("annotations") {
        job["metadata"]["annotations"] = annotations.clone();
    }
    let text = of["name"].as_str().unwrap();
    Hook {
        name: text.into(),
        kind: "Job".into(),
        path: format!("memcached/templates/{text}.yaml"),
        manifest: job.to_string(),
        events: serde_json::from_value(of["events"].clone()).unwrap(),
        delete_policies: serde_json::from_value(of["policies"].clone()).unwrap_or_default(),
        ..Hook::default()
    }
}

/// A controller and the server, which outlives it.
pub(super) struct World {
    pub(super) server: Arc<MemoryApi>,
    pub(super) shared: Arc<ControllerContext>,
    releases: Arc<Releases>,
    /// The keys of release records.
    keys: Keyring,
    /// The number of lists so far.
    lists: AtomicU64,
    objects: ChartObjects,
}

/// Whether watches cover the charts' objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChartObjects {
    Watched,
    Unwatched,
}

/// Returns a stub that knows its chart and values without rendering.
pub(super) fn with_sources() -> Stub {
    Stub { has_sources: true, ..Stub::default() }
}

/// Returns a stub that renders a random value each time, as charts do with passwords.
fn random() -> Stub {
    Stub { is_random: true, ..Stub::default() }
}

/// Returns the key that seals release records, the same for every process.
pub(crate) fn keys() -> Keyring {
    Keyring::new(Key::new(&[1; 32]).unwrap(), Vec::new())
}

/// Returns the metadata of a record that this operator wrote as this revision.
pub(super) async fn sealed_record(version: u32) -> Value {
    let world = World::new(spec());
    world.reconcile().await;
    let mut release = world.shared.storage.get("ns", "web", 1).await.unwrap().release.facts().clone();
    release.version = version;
    world.shared.storage.create(&release, &Marks::default()).await.unwrap();
    let mut record = world.server.object(&format!("{SECRETS}/{}", release.key())).unwrap();
    record["metadata"]["namespace"] = "ns".into();
    record["metadata"].take()
}

/// Returns the owner references of what another resource of the name controls.
fn owned_by_another() -> Value {
    json!([{"apiVersion": "cache.my.domain/v1", "kind": "Redis", "name": "web", "uid": "another", "controller": true}])
}

/// Stores a record as if this operator had written it for another resource.
fn put_as_anothers(server: &MemoryApi, path: &str, mut record: Value) {
    let marks = &mut record["metadata"]["annotations"][MARKS_ANNOTATION];
    let known = Marks::parse(marks.as_str().unwrap()).unwrap();
    let others = Marks { owner: "another".into(), owner_type: "Redis.cache.my.domain".into(), ..known };
    *marks = others.to_text().into();
    record["metadata"]["labels"][helm_release::storage::OWNER_LABEL] = "another".into();
    server.put(path, record, "other");
    reseal(server, path);
}

/// Seals a record that a test has changed, as if another version of this operator had written it.
pub(super) fn reseal(server: &MemoryApi, path: &str) {
    let mut secret = server.object(path).unwrap();
    let data: ByteString = serde_json::from_value(secret["data"]["release"].clone()).unwrap();
    let mut release = Packed::from_record(&data.0, Default::default()).unwrap();
    release.info.status = Status::parse(secret["metadata"]["labels"]["status"].as_str().unwrap());
    let marks = Marks::parse(secret["metadata"]["annotations"][MARKS_ANNOTATION].as_str().unwrap()).unwrap();
    let scratch = Arc::new(MemoryApi::new());
    scratch.restore(path, secret.clone());
    Storage::new(scratch.clone(), keys()).update(&release, &marks).now_or_never().unwrap().unwrap();
    let mut sealed = scratch.object(path).unwrap();
    secret["data"] = sealed["data"].take();
    for key in [MARKS_ANNOTATION, SEAL_ANNOTATION] {
        secret["metadata"]["annotations"][key] = sealed["metadata"]["annotations"][key].take();
    }
    server.restore(path, secret);
}

pub(super) fn key() -> ResourceKey {
    ResourceKey::new("ns", "web")
}

fn primary(namespace: &str, name: &str, spec: Value) -> (String, Value) {
    let metadata = json!({"name": name, "namespace": namespace, "generation": 1});
    let body = json!({"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "metadata": metadata, "spec": spec});
    (format!("/apis/cache.my.domain/v1/namespaces/{namespace}/memcacheds/{name}"), body)
}

fn resource(api_version: &str, kind: &str, plural: &str) -> Resource {
    Resource { api_version: api_version.into(), kind: kind.into(), plural: plural.into(), namespaced: true }
}

fn config_maps() -> Resource {
    resource("v1", "ConfigMap", "configmaps")
}

fn object_key(kind: &str, name: &str) -> ObjectKey {
    ObjectKey { group: "".into(), kind: kind.into(), namespace: "ns".into(), name: name.into() }
}

fn live(object: Value) -> Arc<Live> {
    Arc::new(serde_json::from_value::<Whole>(object).unwrap().live)
}

/// Returns a server's events, oldest first.
fn events(server: &MemoryApi) -> Vec<Value> {
    let paths = server.paths().into_iter().filter(|path| path.contains("/events/"));
    let mut all: Vec<Value> = paths.map(|path| server.object(&path).unwrap()).collect();
    all.sort_by_key(|event| event["eventTime"].to_string());
    all
}

/// Returns what events are on that concern no single resource.
fn lease() -> ObjectReference {
    let [kind, namespace, name] = ["Lease", "op", "lock"].map(|text| Some(text.to_owned()));
    ObjectReference { kind, namespace, name, ..ObjectReference::default() }
}

impl World {
    pub(super) fn new(spec: Value) -> World {
        let server = Arc::new(MemoryApi::new());
        server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
        let (path, primary) = primary("ns", "web", spec);
        server.put(&path, primary, "user");
        World::on(server)
    }

    /// Creates a controller that has just started.
    pub(super) fn on(server: Arc<MemoryApi>) -> World {
        World::rendering(server, Arc::new(Stub::default()))
    }

    pub(super) fn rendering(server: Arc<MemoryApi>, renderer: Arc<dyn Renderer>) -> World {
        World::taking(server, renderer, Acceptance::default())
    }

    /// Creates a controller that reads resources by these rules.
    fn taking(server: Arc<MemoryApi>, renderer: Arc<dyn Renderer>, acceptance: Acceptance) -> World {
        World::start(
            server,
            renderer,
            Events::default(),
            ChartObjects::Watched,
            |_| {},
            acceptance,
            Extensions::default(),
        )
    }

    /// Creates a controller that publishes its events to the server.
    pub(super) fn with_events(
        server: Arc<MemoryApi>,
        renderer: Arc<dyn Renderer>,
        change: impl FnOnce(&mut Settings),
    ) -> World {
        let events = Events::new(server.clone(), "memcached-controller", None);
        World::start(
            server,
            renderer,
            events,
            ChartObjects::Watched,
            change,
            Acceptance::default(),
            Extensions::default(),
        )
    }

    /// Creates a controller without watches of the chart's objects.
    fn unwatched(server: Arc<MemoryApi>, change: impl FnOnce(&mut Settings)) -> World {
        let stub = Arc::new(Stub::default());
        World::start(
            server,
            stub,
            Events::default(),
            ChartObjects::Unwatched,
            change,
            Acceptance::default(),
            Extensions::default(),
        )
    }

    /// Creates a controller whose operator has these keys.
    fn sealing(server: Arc<MemoryApi>, renderer: Stub, keys: Keyring) -> World {
        let (events, renderer) = (Events::default(), Arc::new(renderer));
        World::begin(
            (server, keys),
            renderer,
            events,
            ChartObjects::Watched,
            |_| {},
            Acceptance::default(),
            Extensions::default(),
        )
    }

    fn start(
        server: Arc<MemoryApi>,
        renderer: Arc<dyn Renderer>,
        events: Events,
        objects: ChartObjects,
        change: impl FnOnce(&mut Settings),
        acceptance: Acceptance,
        extensions: Extensions,
    ) -> World {
        World::begin((server, keys()), renderer, events, objects, change, acceptance, extensions)
    }

    fn begin(
        (server, keys): (Arc<MemoryApi>, Keyring),
        renderer: Arc<dyn Renderer>,
        events: Events,
        objects: ChartObjects,
        change: impl FnOnce(&mut Settings),
        acceptance: Acceptance,
        extensions: Extensions,
    ) -> World {
        let api: Arc<dyn Api> = server.clone();
        let mut settings = Settings {
            watch: Watch { watch_dependent_resources: true, ..Watch::default() },
            controller: "memcached-controller".into(),
            period: Duration::from_secs(60),
            hook_timeout: Duration::from_secs(3600),
            max_history: 3,
            suppress_overrides: false,
            progress_timeout: Duration::from_secs(600),
            full_resync: Duration::ZERO,
            max_parallel_upgrades: 0,
            reach: Arc::default(),
            rehearses: false,
            expressions: Arc::default(),
            home: Home::default(),
        };
        change(&mut settings);
        let canary = settings.rollout.as_ref().and_then(|rollout| rollout.canary.clone());
        let acceptance = Acceptance { canary, ..acceptance };
        static PROCESSES: AtomicUsize = AtomicUsize::new(0);
        // The controllers of several versions of a kind are one process.
        let process = if acceptance.version.is_none() { PROCESSES.fetch_add(1, Ordering::Relaxed) } else { usize::MAX };
        let name: Arc<str> = format!("operator-{process}").into();
        let ring = acceptance.share.as_ref().and_then(|share| match share {
            Share::Ring(ring) => Some(ring),
            Share::Range(_) => None,
        });
        let releases = Arc::new(Releases::of(name.clone()).in_ring(ring));
        let metrics = Metrics::of("helm_operator");
        let applier = Applier::new(api.clone());
        let shared = ControllerContext {
            applier: applier.clone(),
            storage: Storage::new(api.clone(), keys.clone()).at(settings.home.clone()).written_by(name),
            api,
            memory: Memory::default(),
            arrivals: Arrivals::default(),
            cache: Cache::over(releases.clone())
                .judging(settings.expressions.clone())
                .sequenced(settings.sequencing)
                .recording_at(settings.home.clone()),
            queue: Queue::new(),
            renderer,
            sources: Sources::new(None, Default::default()),
            dependencies: Dependencies::new(None, Default::default(), applier.mapper.clone(), dependencies::served()),
            started: Started { at: Instant::now(), today: outside::now() },
            stopping: CancellationToken::new(),
            extensions,
            client: controller::testing::client(&server, &Arc::default()),
            contact: Contact::default(),
            counts: ChartMetrics::new(&metrics),
            metrics,
            events,
            process: lease(),
            rollout: settings.slots(),
            turns: Turns::new(settings.rollout.clone()),
            unseen: Unseen::default(),
            settings,
            resource: Arc::new(Resource {
                namespaced: acceptance.release_namespace.is_none(),
                ..resource("cache.my.domain/v1", "Memcached", "memcacheds")
            }),
            shard: acceptance.share.clone().map(Shard::new),
            acceptance,
            charts: SelectedCharts::default(),
            watch_requests: mpsc::unbounded_channel().0,
            action_room: ActionRoom::within(Some(128 << 20)),
            diagnoses: Arc::default(),
            undeclared: Undeclared::default(),
        };
        let shared = Arc::new(shared);
        let reader: Weak<ControllerContext> = Arc::downgrade(&shared);
        shared.cache.report_releases_to(reader);
        handlers::connect_sources(&shared);
        handlers::connect_dependencies(&shared);
        let world = World { server, shared, releases, keys, lists: AtomicU64::new(0), objects };
        world.feed();
        restore::restore(&world.shared);
        world
    }

    /// Begins and ends the controller's start, which restores nothing more.
    fn open(&self) {
        self.shared.arrivals.begin();
        self.shared.queue.open();
    }

    /// Feeds the results of new lists of every watch.
    pub(super) fn feed(&self) {
        self.relist(&WatchScope::ALL, "");
    }

    /// Feeds the results of new lists of one namespace's watches; of all if `namespace` is empty.
    fn relist(&self, scope: &WatchScope, namespace: &str) {
        let number = self.lists.fetch_add(1, Ordering::Relaxed) + 1;
        let epoch = Epoch { number, began: Instant::now(), is_list: true };
        let maps = Arc::new(config_maps());
        let roles = resource("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles");
        let roles = Arc::new(Resource { namespaced: false, ..roles });
        let (primaries, records) = (Primaries(self.shared.clone()), self.releases.clone());
        let secrets = Arc::new(resource("v1", "Secret", "secrets"));
        let deployments = Arc::new(resource("apps/v1", "Deployment", "deployments"));
        let dependents = [maps, roles, secrets, deployments].map(|kind| Dependents(self.shared.clone(), kind, 1));
        let source = |kind| SourceHandler { sources: Arc::downgrade(&self.shared.sources), kind };
        let sources = [SourceKind::Secret, SourceKind::ConfigMap].map(source);
        self.feed_dependencies(epoch);
        let is_unwatched = self.objects == ChartObjects::Unwatched;
        let mut paths = self.server.paths();
        // As at startup: resources before the objects of their releases.
        paths.sort_by_key(|path| !path.contains("/memcacheds/"));
        for path in paths {
            let Some(mut object) = self.server.object(&path) else { continue };
            let (collection, _) = path.rsplit_once('/').unwrap();
            let (_, plural) = collection.rsplit_once('/').unwrap();
            let own = collection.split("/namespaces/").nth(1).map(|rest| rest.split('/').next().unwrap().to_owned());
            if !namespace.is_empty() && own.as_deref().is_some_and(|own| own != namespace) {
                continue;
            }
            object["metadata"]["namespace"] = own.map_or(Value::Null, Value::from);
            for handler in sources.iter().filter(|handler| handler.kind.plural() == plural) {
                // Watches of sources skip the managed fields.
                let mut metadata = object["metadata"].clone();
                metadata["managedFields"] = Value::Null;
                let metadata = serde_json::from_value(metadata).unwrap();
                handler.changed(SourceMeta::read(handler.kind, metadata).unwrap(), epoch);
            }
            match plural {
                "configmaps" | "deployments" | "clusterroles" if is_unwatched => {}
                "memcacheds" => primaries.changed(serde_json::from_value::<Received>(object).unwrap(), epoch),
                "secrets" if object["metadata"]["labels"]["owner"] != "helm" && is_unwatched => {}
                "secrets" if object["metadata"]["labels"]["owner"] != "helm" => {
                    dependents[2].changed(live(object), epoch)
                }
                "secrets" => {
                    object["metadata"]["managedFields"] = Value::Null;
                    let metadata = serde_json::from_value(object["metadata"].take()).unwrap();
                    if let Some(record) = RecordMeta::read(&metadata, &self.keys) {
                        records.changed(record, epoch);
                    }
                }
                "configmaps" => dependents[0].changed(live(object), epoch),
                "deployments" => dependents[3].changed(live(object), epoch),
                "clusterroles" => dependents[1].changed(live(object), epoch),
                _ => {}
            }
        }
        primaries.sweep(scope, epoch);
        records.sweep(scope, epoch);
        sources.iter().for_each(|handler| handler.sweep(scope, epoch));
        if self.objects == ChartObjects::Unwatched {
            return;
        }
        dependents[0].sweep(scope, epoch);
        dependents[1].sweep(&WatchScope::ALL, epoch);
        dependents[2].sweep(scope, epoch);
        dependents[3].sweep(scope, epoch);
    }

    /// Adds a resource.
    fn add(&self, namespace: &str, name: &str, spec: Value) -> ResourceKey {
        let (path, primary) = primary(namespace, name, spec);
        self.server.put(&path, primary, "user");
        ResourceKey::new(namespace, name)
    }

    async fn reconcile_one(&self, key: &ResourceKey) -> ReconcileResult {
        self.feed();
        let result = reconcile::reconcile(&self.shared, key, &(), Priority::Retry).await;
        self.feed();
        result
    }

    /// Replaces a resource with a new one that has the same spec, but another uid, no status and no finalizers.
    fn recreate(&self, path: &str) {
        let mut resource = self.server.object(path).unwrap();
        self.server.remove(path);
        (resource["status"], resource["metadata"]["finalizers"]) = (Value::Null, Value::Null);
        self.server.put(path, resource, "user");
    }

    /// Reconciles a resource with a permit that is not reserved for retries. Returns how many resources wait for one that
    /// is.
    async fn reconcile_at_first(&self, key: &ResourceKey) -> usize {
        self.feed();
        assert_ne!(reconcile::reconcile(&self.shared, key, &(), Priority::Normal).await, ReconcileResult::Error);
        self.feed();
        self.shared.queue.sizes().retrying
    }

    pub(super) async fn reconcile(&self) -> ReconcileResult {
        self.reconcile_one(&key()).await
    }

    /// Changes the resource as its user would.
    pub(super) fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut primary = self.server.object(PRIMARY).unwrap();
        change(&mut primary);
        let generation = primary["metadata"]["generation"].as_i64().unwrap_or(0);
        primary["metadata"]["generation"] = (generation + 1).into();
        self.server.put(PRIMARY, primary, "user");
    }

    pub(super) fn delete(&self) {
        self.edit(|primary| primary["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
    }

    /// Returns the names of the release's ConfigMaps.
    pub(super) fn maps(&self) -> Vec<String> {
        self.server
            .paths()
            .iter()
            .filter_map(|p| p.strip_prefix(MAPS))
            .map(|p| p.trim_start_matches('/').to_owned())
            .collect()
    }

    pub(super) fn value_of(&self, map: &str) -> Value {
        self.server.object(&format!("{MAPS}/{map}")).unwrap()["data"]["value"].clone()
    }

    /// Returns each revision with its status.
    pub(super) fn history(&self) -> Vec<String> {
        let release = self.shared.cache.release(&key()).unwrap_or_default();
        release.revisions.iter().map(|(v, r)| format!("{v} {}", r.status.as_str())).collect()
    }

    pub(super) fn condition(&self, kind: &str) -> Option<String> {
        self.condition_of(&key(), kind)
    }

    /// Returns a condition's status and reason.
    pub(super) fn state(&self, kind: &str) -> String {
        let condition = self.condition(kind).unwrap();
        condition.splitn(3, '/').take(2).collect::<Vec<_>>().join("/")
    }

    fn condition_of(&self, key: &ResourceKey, kind: &str) -> Option<String> {
        let primary = self.shared.cache.primary(key)?;
        primary.status.find(kind).map(|c| format!("{}/{}/{}", c.status, c.reason, c.message))
    }

    /// Returns the number of requests of a reconcile, without discovery.
    pub(super) async fn requests(&self) -> usize {
        let count = || self.server.log().iter().filter(|l| !l.ends_with("/api") && !l.ends_with("/apis")).count();
        let before = count();
        self.reconcile().await;
        count() - before
    }
}

pub(super) fn spec() -> Value {
    json!({"maps": ["a", "b", "c"], "value": "1"})
}

#[tokio::test(start_paused = true)]
async fn install_upgrade_and_uninstall_stay_within_their_request_budget() {
    let world = World::new(spec());
    // The finalizer, three reads for conflicts, the record, three objects, the record and the status; the event comes
    // in addition.
    assert_eq!(world.requests().await, 10);
    assert_eq!((world.maps(), world.history()), (vec!["a".into(), "b".into(), "c".into()], vec!["1 deployed".into()]));
    assert_eq!(world.condition("Deployed").unwrap(), "True/InstallSuccessful/enjoy");
    assert_eq!(world.state("Ready"), "True/Ready");
    assert_eq!(world.requests().await, 0);
    world.edit(|p| p["spec"]["value"] = "2".into());
    assert_eq!(world.requests().await, 7);
    assert_eq!(
        (world.value_of("a"), world.history()),
        (json!("2"), vec!["1 superseded".to_owned(), "2 deployed".into()])
    );
    assert_eq!(world.condition("Deployed").unwrap(), "True/UpgradeSuccessful/enjoy");
    world.delete();
    // Three objects, two records and the finalizer.
    assert_eq!(world.requests().await, 6);
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_deletes_records_and_no_other_secret() {
    let world = World::new(spec());
    world.reconcile().await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    let record = world.server.object(&format!("{SECRETS}/sh.helm.release.v1.web.v1")).unwrap();
    let precious = json!({"metadata": {"labels": record["metadata"]["labels"]}, "data": {"a": "b"}});
    for (name, mut object) in [("my-backup-of-web", record), ("precious", precious)] {
        object["metadata"]["name"] = name.into();
        world.server.put(&format!("{SECRETS}/{name}"), object, "user");
    }
    world.delete();
    world.reconcile().await;
    assert_eq!(world.server.paths(), ["my-backup-of-web", "precious"].map(|name| format!("{SECRETS}/{name}")));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_applies_what_changed_and_prunes_what_is_gone() {
    let world = World::new(spec());
    world.reconcile().await;
    world.edit(|p| p["spec"]["maps"] = json!(["a", "b", "d"]));
    let before = world.server.log().len();
    world.reconcile().await;
    assert_eq!(world.maps(), ["a", "b", "d"]);
    let log = world.server.log()[before..].join("\n");
    assert!(log.contains("DELETE /api/v1/namespaces/ns/configmaps/c") && !log.contains("configmaps/a"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_everything_in_place_makes_no_request() {
    let world = World::new(spec());
    world.reconcile().await;
    let world = World::on(world.server);
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired_without_a_new_revision() {
    let world = World::new(spec());
    world.reconcile().await;
    world.server.remove(&format!("{MAPS}/a"));
    let mut changed = world.server.object(&format!("{MAPS}/b")).unwrap();
    changed["data"]["value"] = "mine".into();
    world.server.put(&format!("{MAPS}/b"), changed, "kubectl");
    let world = World::on(world.server);
    world.reconcile().await;
    assert_eq!(
        (world.maps().len(), world.value_of("b"), world.history()),
        (3, json!("1"), vec!["1 deployed".to_owned()])
    );
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_fight_over_a_field_is_reported_and_slowed_down() {
    let world = World::new(spec());
    world.reconcile().await;
    for _ in 0..8 {
        let mut changed = world.server.object(&format!("{MAPS}/b")).unwrap();
        changed["data"]["value"] = "mine".into();
        world.server.put(&format!("{MAPS}/b"), changed, "fighter");
        world.reconcile().await;
    }
    assert_eq!(world.value_of("b"), "mine");
    let message = world.condition("Irreconcilable").unwrap();
    assert_eq!(
        message,
        "True/DriftLoop/fighter keeps changing .data.value of ConfigMap \"b\"; release \"web\" restores them at increasing intervals"
    );
}

#[tokio::test(start_paused = true)]
async fn a_template_error_keeps_the_release_and_is_retried_later() {
    let world = World::new(spec());
    world.reconcile().await;
    world.edit(|p| p["spec"]["broken"] = true.into());
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    assert!(world.condition("Irreconcilable").unwrap().contains("templates/a.yaml:3:5"));
    let still = "True/InstallSuccessful/revision 1 of chart memcached-0.1.0 is still deployed; enjoy";
    assert_eq!(world.condition("Deployed").unwrap(), still);
    assert_eq!(world.requests().await, 0);
    world.edit(|p| p["spec"]["broken"] = false.into());
    world.reconcile().await;
    assert_eq!(world.condition("Irreconcilable"), None);
    assert_eq!(world.condition("Deployed").unwrap(), "True/InstallSuccessful/enjoy");
    assert_eq!(world.state("Ready"), "True/Ready");
}

#[tokio::test(start_paused = true)]
async fn a_failed_install_leaves_nothing() {
    let world = World::new(spec());
    let foreign =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"value": "theirs"}});
    world.server.put(&format!("{MAPS}/b"), foreign, "kubectl");
    world.reconcile().await;
    assert_eq!((world.maps(), world.value_of("b"), world.history()), (vec!["b".to_owned()], json!("theirs"), vec![]));
    let message = world.condition("ReleaseFailed").unwrap();
    let lines: Vec<&str> = message.lines().collect();
    let [first, helms] = lines[..] else { panic!("{message}") };
    let object = "ConfigMap \"b\" in namespace \"ns\"";
    assert!(first.starts_with(&format!("True/ReleaseConflict/{object} is not part of this release: ")), "{message}");
    assert!(helms.starts_with(&format!("{object} exists and cannot be imported")), "{message}");
    world.server.remove(&format!("{MAPS}/b"));
    tokio::time::advance(Duration::from_secs(1)).await;
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.condition("ReleaseFailed")), (3, None));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_found_before_anything_is_written_and_names_the_owner() {
    let world = World::new(spec());
    world.reconcile().await;
    let annotations = json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "ns"});
    let theirs =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "z", "annotations": annotations}});
    world.server.put(&format!("{MAPS}/z"), theirs.clone(), "helm");
    world.edit(|p| p["spec"] = json!({"maps": ["a", "b", "c", "z"], "value": "2"}));
    let writes = world.server.writes();
    world.reconcile().await;
    assert_eq!(world.server.writes(), writes + 1, "the status only");
    assert_eq!((world.value_of("a"), world.history()), (json!("1"), vec!["1 deployed".to_owned()]));
    assert_eq!(world.server.object(&format!("{MAPS}/z")).unwrap()["metadata"]["annotations"], annotations);
    let status = &world.server.object(PRIMARY).unwrap()["status"];
    assert_eq!(status["deployedRelease"]["revision"], 1, "what runs is still reported");
    let message = world.condition("ReleaseFailed").unwrap();
    let first =
        "True/ReleaseConflict/ConfigMap \"z\" in namespace \"ns\" belongs to release \"other\" in namespace \"ns\": ";
    assert!(message.starts_with(first), "{message}");
    assert!(message.ends_with("it belongs to release \"other\" in namespace \"ns\""), "{message}");
    assert_eq!(world.requests().await, 0, "the same is not tried again at once");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_two_resources_stays_with_the_first() {
    let world = World::new(json!({"maps": ["shared"], "value": "1"}));
    world.reconcile().await;
    let uid = |world: &World| world.server.object(&format!("{MAPS}/shared")).unwrap()["metadata"]["uid"].clone();
    let first = uid(&world);
    let second = world.add("ns", "two", json!({"maps": ["own", "shared"], "value": "2"}));
    for _ in 0..5 {
        world.reconcile_one(&second).await;
        world.reconcile().await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    assert_eq!((uid(&world), world.value_of("shared"), world.maps()), (first, json!("1"), vec!["shared".to_owned()]));
    let message = world.condition_of(&second, "ReleaseFailed").unwrap();
    assert!(message.contains("it belongs to Memcached \"web\", its controller"), "{message}");
    assert_eq!((world.condition("Irreconcilable"), world.history()), (None, vec!["1 deployed".to_owned()]));

    // The deletion of the second resource does not affect it either.
    let path = primary("ns", "two", Value::Null).0;
    let mut deleted = world.server.object(&path).unwrap();
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.server.put(&path, deleted, "user");
    world.reconcile_one(&second).await;
    assert_eq!((world.server.object(&path), world.maps()), (None, vec!["shared".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_another_owner_took_is_neither_pruned_nor_repaired_nor_deleted() {
    let taken = |world: &World| {
        let path = format!("{MAPS}/b");
        let mut object = world.server.object(&path).unwrap();
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "x/v1", "kind": "Other", "name": "o", "uid": "o", "controller": true}]);
        object["data"]["value"] = "theirs".into();
        world.server.put(&path, object, "other");
    };
    let world = World::new(spec());
    world.reconcile().await;
    taken(&world);
    world.reconcile().await;
    assert_eq!(world.value_of("b"), "theirs");
    let message = world.condition("Irreconcilable").unwrap();
    assert!(message.starts_with("True/ReleaseConflict/"), "{message}");
    assert!(message.contains("Other \"o\", its controller"), "{message}");
    world.edit(|p| p["spec"]["maps"] = json!(["a"]));
    world.reconcile().await;
    assert_eq!(world.maps(), ["a", "b"]);
    world.delete();
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!(world.server.paths(), [format!("{MAPS}/b")]);
}

#[tokio::test(start_paused = true)]
async fn a_live_object_with_the_keep_policy_is_not_pruned() {
    let world = World::new(spec());
    world.reconcile().await;
    let path = format!("{MAPS}/b");
    let mut object = world.server.object(&path).unwrap();
    object["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
    world.server.put(&path, object, "kubectl");
    world.edit(|p| p["spec"]["maps"] = json!(["a"]));
    world.reconcile().await;
    assert_eq!((world.maps(), world.history().len()), (vec!["a".to_owned(), "b".into()], 2));
}

#[tokio::test(start_paused = true)]
async fn the_history_is_bounded() {
    let world = World::new(spec());
    for value in 0..6 {
        world.reconcile().await;
        world.edit(|p| p["spec"]["value"] = value.to_string().into());
    }
    world.reconcile().await;
    assert_eq!(world.history(), ["5 superseded", "6 superseded", "7 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_could_not_be_marked_superseded_is_marked_by_the_next_upgrade_even_if_it_does_not_render() {
    for (restarts, broken) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut world = World::new(spec());
        world.reconcile().await;
        world.server.refuse(|call| {
            let first = call.method == http::Method::PATCH && call.path.contains("sh.helm.release.v1.web.v1");
            first.then(|| Error::from_status(500, "InternalError", "away"))
        });
        world.edit(|p| p["spec"]["value"] = "two".into());
        world.reconcile().await;
        assert_eq!(world.history(), ["1 deployed", "2 deployed"]);
        world.server.accept();
        if restarts {
            world = World::on(world.server);
        }
        world.edit(|p| p["spec"]["value"] = "three".into());
        if broken {
            world.edit(|p| p["spec"]["broken"] = true.into());
            world.reconcile().await;
            assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
            continue;
        }
        world.reconcile().await;
        assert_eq!(world.history(), ["1 superseded", "2 superseded", "3 deployed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_release_is_a_conflict_unless_adopted() {
    let world = World::new(spec());
    world.reconcile().await;
    let path = format!("{SECRETS}/sh.helm.release.v1.web.v1");
    let mut record = world.server.object(&path).unwrap();
    let marks = record["metadata"]["annotations"]["helm.sdk.operatorframework.io/marks"].as_str().unwrap();
    let marks = marks.replace("Memcached.cache.my.domain", "Redis.cache.my.domain").replace("uid-", "another-");
    record["metadata"]["annotations"]["helm.sdk.operatorframework.io/marks"] = marks.into();
    record["metadata"]["labels"][helm_release::storage::OWNER_LABEL] = "another".into();
    world.server.put(&path, record, "other");
    reseal(&world.server, &path);
    let any = |settings: &mut Settings| settings.adopt = helm_release::kube::Adopt::Any;
    let world = World::with_events(world.server, Arc::new(Stub::default()), any);
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/ReleaseConflict/release \"web\""));
    let another = world.server.object(&path).unwrap();
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/adopt": "true"}));
    world.reconcile().await;
    assert_eq!(world.condition("Irreconcilable"), None);
    assert_eq!(world.state("Ready"), "True/Ready");
    let taken = world.server.object(&path).unwrap();
    assert!(!taken["metadata"]["annotations"].to_string().contains("Redis"));

    // The other resource takes it back. Without a limit they would alternate for ever.
    world.server.put(&path, another.clone(), "other");
    for _ in 0..3 {
        world.reconcile().await;
        tokio::time::advance(Duration::from_secs(600)).await;
        assert_eq!(world.history(), ["1 deployed"]);
        let record = world.server.object(&path).unwrap();
        assert_eq!(record["metadata"]["annotations"], another["metadata"]["annotations"]);
    }
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/ReleaseConflict/") && condition.contains("not taken back"), "{condition}");
}

#[tokio::test(start_paused = true)]
async fn a_force_deleted_and_recreated_resource_takes_over_its_release_without_a_revision() {
    let world = World::new(spec());
    world.reconcile().await;
    world.recreate(PRIMARY);
    let uid = world.server.object(PRIMARY).unwrap()["metadata"]["uid"].clone();
    for world in [World::on(world.server.clone()), world] {
        world.reconcile().await;
        assert_eq!((world.history(), world.condition("Irreconcilable")), (vec!["1 deployed".to_owned()], None));
        let object = world.server.object(&format!("{MAPS}/a")).unwrap();
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], uid);
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspended_resource_is_left_alone() {
    let world = World::new(spec());
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/suspend": "true"}));
    world.reconcile().await;
    assert!(world.maps().is_empty());
}

/// Reconciles in a process that dies after this many writes, and then in another one. Returns whether the first one died.
async fn restarted_after(writes: usize, world: World) -> (World, bool) {
    restarted_and(writes, world, |_| ()).await
}

/// Restarts as `restarted_after` does. `meanwhile` happens between the two processes.
async fn restarted_and(writes: usize, world: World, meanwhile: impl Fn(&World)) -> (World, bool) {
    world.server.fail_after(Some(writes));
    world.reconcile().await;
    let died = world.server.writes_left() == Some(0);
    world.server.fail_after(None);
    meanwhile(&world);
    let world = World::on(world.server);
    for _ in 0..3 {
        world.reconcile().await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    (world, died)
}

/// Runs a scenario once for each number of writes after which the process dies, restarts it, and compares the results.
async fn survive(prepare: impl AsyncFn() -> World, end: impl Fn(&World)) {
    survive_and(prepare, |_| (), end).await;
}

/// Runs a scenario as `survive` does. `meanwhile` happens between the two processes.
async fn survive_and(prepare: impl AsyncFn() -> World, meanwhile: impl Fn(&World), end: impl Fn(&World)) {
    for writes in 0.. {
        let (world, died) = restarted_and(writes, prepare().await, &meanwhile).await;
        end(&world);
        if !died {
            assert!(writes > 3, "the scenario wrote nothing");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_of_an_install_heals() {
    survive(
        async || World::new(spec()),
        |world| {
            assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
            assert_eq!(world.state("Ready"), "True/Ready");
            assert_eq!(world.condition("ReleaseFailed"), None);
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_of_an_upgrade_heals() {
    let prepare = async || {
        let world = World::new(spec());
        world.reconcile().await;
        world.edit(|p| p["spec"] = json!({"maps": ["a", "d"], "value": "2"}));
        world
    };
    survive(prepare, |world| {
        assert_eq!((world.maps(), world.value_of("a")), (vec!["a".to_owned(), "d".into()], json!("2")));
        assert_eq!(world.history().last().unwrap(), "2 deployed");
        assert_eq!(world.state("Ready"), "True/Ready");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_of_an_uninstall_heals() {
    let prepare = async || {
        let world = World::new(spec());
        world.reconcile().await;
        world.edit(|p| p["spec"]["value"] = "2".into());
        world.reconcile().await;
        world.delete();
        world
    };
    survive(prepare, |world| assert!(world.server.paths().is_empty(), "{:?}", world.server.paths())).await;
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_comes_before_the_first_object() {
    let world = World::new(spec());
    world.server.fail_after(Some(1));
    world.reconcile().await;
    world.server.fail_after(None);
    assert_eq!(world.server.object(PRIMARY).unwrap()["metadata"]["finalizers"], json!([FINALIZER]));
    assert!(world.maps().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_action_continues_as_it_was_rendered() {
    for writes in 2..6 {
        let server = World::new(spec()).server;
        let world = World::rendering(server.clone(), Arc::new(random()));
        server.fail_after(Some(writes));
        world.reconcile().await;
        server.fail_after(None);
        let renderer = Arc::new(Stub { renders: AtomicUsize::new(100), ..random() });
        let world = World::rendering(server, renderer.clone());
        world.reconcile().await;
        assert_eq!(renderer.renders.load(Ordering::SeqCst), 100, "after {writes} writes");
        assert_eq!((world.value_of("a"), world.value_of("c")), (json!("password 0"), json!("password 0")));
        assert_eq!(world.history(), ["1 deployed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn only_changed_inputs_are_a_reason_to_render_again() {
    let server = World::new(spec()).server;
    let renderer = Arc::new(random());
    World::rendering(server.clone(), renderer.clone()).reconcile().await;
    assert_eq!(renderer.renders.load(Ordering::SeqCst), 1);
    let world = World::rendering(server, renderer.clone());
    world.server.remove(&format!("{MAPS}/a"));
    world.reconcile().await;
    world.edit(|p| p["metadata"]["labels"] = json!({"x": "y"}));
    world.reconcile().await;
    assert_eq!(renderer.renders.load(Ordering::SeqCst), 1, "neither a restart, nor drift, nor a label");
    assert_eq!(world.value_of("a"), "password 0");
    world.edit(|p| p["spec"]["more"] = 1.into());
    world.reconcile().await;
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
}

/// Removes the objects from a record's marks, as if they were too many for the annotation.
fn omit_objects(server: &MemoryApi, version: u32) {
    let path = record_path(version);
    let mut record = server.object(&path).unwrap();
    let text = &mut record["metadata"]["annotations"][MARKS_ANNOTATION];
    *text = Marks::parse(text.as_str().unwrap()).unwrap().without_inventory().to_text().into();
    server.restore(&path, record);
    reseal(server, &path);
}

#[tokio::test(start_paused = true)]
async fn a_release_with_too_many_objects_for_its_marks_is_not_rendered_again_by_a_restart() {
    for writes in [None, Some(4)] {
        let server = World::new(spec()).server;
        server.fail_after(writes);
        World::rendering(server.clone(), Arc::new(random())).reconcile().await;
        server.fail_after(None);
        omit_objects(&server, 1);
        let renderer = Arc::new(Stub { renders: AtomicUsize::new(100), ..random() });
        let world = World::rendering(server, renderer.clone());
        world.reconcile().await;
        assert_eq!((world.history(), world.value_of("a")), (vec!["1 deployed".to_owned()], json!("password 0")));
        assert_eq!((renderer.renders.load(Ordering::SeqCst), world.maps().len()), (100, 3));
    }
}

#[tokio::test(start_paused = true)]
async fn inputs_that_render_the_same_objects_are_recorded_once() {
    let world = World::new(spec());
    world.reconcile().await;
    world.edit(|p| p["spec"]["unused"] = 1.into());
    world.reconcile().await;
    let world = World::on(world.server);
    assert_eq!((world.requests().await, world.history()), (0, vec!["1 deployed".to_owned()]));
    let renderer = Arc::new(random());
    World::rendering(world.server, renderer.clone()).reconcile().await;
    assert_eq!(renderer.renders.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn objects_deleted_unnoticed_are_recreated_at_the_next_list() {
    let world = World::new(spec());
    world.reconcile().await;
    tokio::time::advance(Duration::from_secs(60)).await;
    ["a", "b", "c"].iter().for_each(|map| world.server.remove(&format!("{MAPS}/{map}")));
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_disappeared_unnoticed_is_forgotten_at_the_next_list() {
    let world = World::new(spec());
    world.reconcile().await;
    tokio::time::advance(Duration::from_secs(60)).await;
    world.server.remove(PRIMARY);
    let before = world.server.log().len();
    world.reconcile().await;
    assert!(world.shared.cache.primary(&key()).is_none());
    assert_eq!(world.server.log().len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_resource_deleted_before_its_status_write_is_forgotten_at_once() {
    let world = World::new(json!({"broken": true}));
    world.reconcile().await;
    let world = World::on(world.server);
    world.edit(|p| p["spec"]["more"] = 1.into());
    world.feed();
    world.server.remove(PRIMARY);
    let before = world.server.log().len();
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    assert!(world.shared.cache.primary(&key()).is_none());
    assert_eq!(world.server.log()[before..], [format!("PATCH {PRIMARY}/status"), format!("GET {PRIMARY}")]);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_namespace_does_not_affect_another() {
    let world = World::new(spec());
    world.reconcile().await;
    let other = world.add("two", "web", json!({"maps": ["x"], "value": "1"}));
    world.reconcile_one(&other).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    for namespace in ["ns", "two", "ns"] {
        world.relist(&WatchScope::namespace(namespace), namespace);
    }
    let before = world.server.log().len();
    for key in [key(), other] {
        reconcile::reconcile(&world.shared, &key, &(), Priority::Retry).await;
        assert_eq!(world.shared.cache.release(&key).unwrap().revisions.len(), 1);
    }
    assert_eq!(world.server.log()[before..], [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn our_own_write_without_an_event_is_read_back() {
    let world = World::new(spec());
    world.feed();
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    world.shared.cache.kind_synced(&resource("v1", "ConfigMap", "configmaps"), &WatchScope::ALL, 1);
    world.server.remove(&format!("{MAPS}/b"));
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    assert_eq!(world.maps(), ["a", "c"], "nothing is known yet");
    tokio::time::advance(Duration::from_secs(11)).await;
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    assert_eq!(world.maps(), ["a", "b", "c"]);
}

/// Creates a ClusterRole besides the release's ConfigMaps, which no owner reference deletes.
fn claimed_role(world: &World) {
    let annotations = json!({
        "meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns",
        "operator-sdk/primary-resource": "ns/web", "operator-sdk/primary-resource-type": "Memcached.cache.my.domain",
    });
    let metadata = json!({"name": "role", "annotations": annotations, "labels": {"helm.sdk.operatorframework.io/chart": "memcached"}});
    world.server.put(ROLE, json!({"metadata": metadata}), "helm-operator");
}

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/role";

#[tokio::test(start_paused = true)]
async fn a_release_whose_record_is_deleted_first_is_uninstalled_from_the_cache() {
    let world = World::new(spec());
    world.reconcile().await;
    world.server.remove(&format!("{SECRETS}/sh.helm.release.v1.web.v1"));
    world.delete();
    let before = world.server.log().len();
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
    assert!(!world.server.log()[before..].iter().any(|line| line.contains("clusterroles")), "nothing is searched for");
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_record_is_deleted_while_we_are_down_is_uninstalled_by_its_objects_metadata() {
    let world = World::new(spec());
    world.reconcile().await;
    claimed_role(&world);
    let mut other = world.server.object(ROLE).unwrap();
    other["metadata"]["annotations"]["operator-sdk/primary-resource"] = "ns/other".into();
    let theirs = ROLE.replace("/role", "/theirs");
    world.server.put(&theirs, other, "helm-operator");
    world.server.remove(&format!("{SECRETS}/sh.helm.release.v1.web.v1"));
    world.delete();
    // A failed first attempt must not count as if there were nothing to do.
    world.server.refuse(|call| call.path.contains("clusterroles").then(|| Error::Transport("away".into())));
    let world = World::on(world.server);
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/Unanswered/cannot list clusterroles"));
    world.server.accept();
    let world = World::on(world.server);
    world.reconcile().await;
    tokio::time::advance(Duration::from_secs(60)).await;
    world.reconcile().await;
    assert_eq!(world.server.paths(), [theirs], "{:?}", world.condition("ReleaseFailed"));
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_release_without_a_record_are_found_although_its_chart_has_another_name_now() {
    for deployed in ["memcached-0.1.0", "shop-0.1.0"] {
        let world = World::new(spec());
        world.reconcile().await;
        claimed_role(&world);
        world.server.remove(&record_path(1));
        // An earlier version of this operator has left what an upgrade to this chart did not change.
        world.edit(|p| p["status"]["deployedRelease"]["chart"] = deployed.into());
        world.delete();
        let world = World::rendering(world.server, Arc::new(Unavailable::new("store", Overrides::default())));
        world.reconcile().await;
        assert!(world.server.paths().is_empty(), "{deployed}: {:?}", world.server.paths());
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_without_a_release_is_released_without_a_search() {
    let world = World::new(json!({"broken": true}));
    world.reconcile().await;
    claimed_role(&world);
    world.delete();
    let before = world.server.log().len();
    world.reconcile().await;
    assert_eq!(world.server.paths(), [ROLE]);
    assert_eq!(world.server.log().len(), before + 2, "its records, of which none is known, and the finalizer");
}
