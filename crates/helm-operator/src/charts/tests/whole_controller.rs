//! Tests of a whole controller with its watches, on a client of the API server in memory.

use std::sync::Mutex;

use controller::context::{Context, ControllerConfig};
use controller::reconciler::Controller;
use controller::runtime::namespaces::Namespaces;
use controller::testing::{Requests, client};
use futures::future::join_all;
use helm_release::kube::{CHART_LABEL, Call, Disturbance};
use http::{Request as HttpRequest, Response, StatusCode};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::client::Body;
use kube::{Client, ResourceExt as _};
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use crate::charts::chart_controller::ChartController;
use crate::charts::cluster::Cluster;
use crate::charts::tests::rollout::refuse;
use crate::charts::tests::*;
use crate::hooks::{After, Before, Error as HookFailure, PostHook, PreHook};
use crate::watches;

struct Running {
    server: Arc<MemoryApi>,
    asked: Requests,
    context: Context,
}

impl Running {
    fn new(server: Arc<MemoryApi>) -> Running {
        Running::with(server, ControllerConfig::default())
    }

    fn with(server: Arc<MemoryApi>, config: ControllerConfig) -> Running {
        let asked = Requests::default();
        let client = client(&server, &asked);
        Running::through(client, server, asked, config)
    }

    /// Creates a process whose watches deliver the writes of others.
    fn watching(server: Arc<MemoryApi>) -> Running {
        let asked = Requests::default();
        let client = watching_client(&server, &asked);
        Running::through(client, server, asked, ControllerConfig::default())
    }

    fn through(client: Client, server: Arc<MemoryApi>, asked: Requests, config: ControllerConfig) -> Running {
        let context = Context::new(client, config, Metrics::default(), CancellationToken::new());
        Running { server, asked, context: context.for_controller("memcached-controller") }
    }

    /// Runs the controller until `so` holds, then waits for its orderly end.
    async fn until(&self, controller: ChartController, so: impl Fn() -> bool) {
        self.during(vec![controller], holds(so)).await;
    }

    /// Runs the controllers of one process until `what` is over, then waits for their orderly end.
    async fn during(&self, controllers: Vec<ChartController>, what: impl Future<Output = ()>) {
        let running = controllers.into_iter().map(|controller| {
            let context = self.context.for_controller(controller.name());
            Box::new(controller).run(context)
        });
        let what = async {
            what.await;
            self.context.shutdown.cancel();
        };
        let both = async { tokio::join!(join_all(running), what).0 };
        for ended in tokio::time::timeout(Duration::from_secs(100), both).await.expect("it comes to its end") {
            ended.unwrap();
        }
    }

    fn asked(&self, what: &str) -> bool {
        self.asked.lock().unwrap().iter().any(|line| line.contains(what))
    }

    fn is_ready(&self) -> bool {
        condition(&self.server, PRIMARY, "Ready")["status"] == "True"
    }
}

/// Waits until this holds.
async fn holds(so: impl Fn() -> bool) {
    while !so() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns a condition of a resource; null if it has none.
fn condition(server: &MemoryApi, path: &str, kind: &str) -> Value {
    let conditions = server.object(path).unwrap()["status"]["conditions"].clone();
    conditions.as_array().into_iter().flatten().find(|c| c["type"] == kind).cloned().unwrap_or_default()
}

/// How long the server keeps a watch open that has nothing to deliver.
const WATCH: Duration = Duration::from_secs(5);

/// Returns a client whose watches deliver the writes of all clients. Each ends after its next events, or after a while;
/// the server may refuse the one that follows, as it may refuse a list.
fn watching_client(server: &Arc<MemoryApi>, asked: &Requests) -> Client {
    let (server, asked) = (server.clone(), asked.clone());
    let service = tower::service_fn(move |request: HttpRequest<Body>| {
        let (server, asked) = (server.clone(), asked.clone());
        async move {
            asked.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
            let call = Call::received(request).await?;
            let answer = match call.path.contains("watch=true") {
                true => next_events(&server, &call).await,
                false => server.send(call).await.map(|answer| answer.body),
            };
            let (code, body) = match answer {
                Ok(body) => (200, body),
                Err(error) => error.to_response().ok_or(error)?,
            };
            let mut response = Response::new(Body::from(body));
            *response.status_mut() = StatusCode::from_u16(code)?;
            Ok::<_, BoxError>(response)
        }
    });
    Client::new(service, "default")
}

/// Returns the next events of a watch as the body of its response; none if nothing happens for a while.
async fn next_events(server: &MemoryApi, call: &Call) -> Result<Vec<u8>, Error> {
    // The server's own decision whether the collection may be read.
    server.send(call.clone()).await?;
    let (mut written, mut watch) = (server.subscribe(), server.watch(call)?);
    let next = async {
        loop {
            written.borrow_and_update();
            let events = server.events(&mut watch)?;
            if !events.is_empty() {
                return Ok::<Vec<u8>, Error>(events.iter().map(line_of).collect::<String>().into_bytes());
            }
            written.changed().await.expect("the server outlives its watches");
        }
    };
    tokio::time::timeout(WATCH, next).await.unwrap_or(Ok(Vec::new()))
}

/// Formats an event as a line; `type` comes first, as on a real server.
fn line_of(event: &Value) -> String {
    format!("{{\"type\":{},\"object\":{}}}\n", event["type"], event["object"])
}

fn controller(rest: &str) -> ChartController {
    rendering(rest, Arc::new(Stub::default()))
}

fn rendering(rest: &str, renderer: Arc<dyn Renderer>) -> ChartController {
    serving("Memcached", rest, renderer)
}

fn serving(kind: &str, rest: &str, renderer: Arc<dyn Renderer>) -> ChartController {
    let text = format!("- {{group: cache.my.domain, version: v1, kind: {kind}, chart: x{rest}}}");
    let watch = watches::parse(&text, |_| None).unwrap().watches.remove(0);
    ChartController::with_renderer(watch, renderer)
}

/// Creates a server with one resource and the kinds of its chart's objects.
fn server() -> Arc<MemoryApi> {
    let server = World::new(spec()).server;
    server.serve("v1", "ConfigMap", "configmaps");
    server.serve("v1", "Secret", "secrets");
    server
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl PreHook for Notes {
    fn run(&self, before: Before) -> BoxFuture<'_, Result<(), HookFailure>> {
        let (name, deployed) = (before.resource.name_any(), before.deployed);
        self.0.lock().unwrap().push(format!("before {name} {} {deployed:?}", before.values["value"]));
        Box::pin(async { Err("no matter".into()) })
    }
}

impl PostHook for Notes {
    fn run(&self, after: After) -> BoxFuture<'_, Result<(), HookFailure>> {
        let (release, name) = (after.release, after.resource.name_any());
        let map: Option<ConfigMap> = release.object("c");
        let value = map.and_then(|map| map.data?.remove("value")).unwrap_or_default();
        let objects = release.objects().len();
        self.0.lock().unwrap().push(format!("after {name} {} {objects} {value}", release.revision));
        Box::pin(async { Err("no matter".into()) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_installs_listed_resources_and_ends_on_shutdown() {
    let running = Running::new(server());
    let notes = Notes::default();
    let controller = controller("").before(notes.clone()).after(notes.clone());
    assert_eq!(controller.name(), "memcached-controller");
    running.until(controller, || running.is_ready()).await;
    assert_eq!(running.server.object(&format!("{MAPS}/c")).unwrap()["data"]["value"], "1");
    assert_eq!(*notes.0.lock().unwrap(), ["before web \"1\" None", "after web 1 3 1"]);
    for stream in [
        "GET /apis/cache.my.domain/v1/memcacheds?&",
        "GET /api/v1/secrets?",
        "GET /api/v1/configmaps?",
        "labelSelector=helm.sdk.operatorframework.io%2Fchart%3Dmemcached",
        "labelSelector=owner%3Dhelm",
    ] {
        assert!(running.asked(stream), "{stream}: {:#?}", running.asked.lock().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn the_kinds_of_a_release_are_watched_although_the_last_answer_of_its_install_was_lost() {
    let running = Running::new(server());
    let record = format!("PATCH {SECRETS}/sh.helm.release.v1.web.v1");
    running.server.disturb(&record, 1, Disturbance::AnswerLost);
    running.until(controller(""), || running.is_ready() && running.asked("GET /api/v1/configmaps?")).await;
}

#[tokio::test(start_paused = true)]
async fn the_kinds_of_recorded_releases_are_listed_at_the_start_and_drift_is_repaired() {
    let running = Running::new(server());
    running.until(controller(""), || running.is_ready()).await;
    running.server.remove(&format!("{MAPS}/b"));
    let again = Running::new(running.server);
    again.until(controller(""), || again.server.object(&format!("{MAPS}/b")).is_some()).await;
    assert!(again.asked("GET /api/v1/configmaps?"));
}

#[tokio::test(start_paused = true)]
async fn objects_are_seen_until_their_upgrade_to_a_chart_of_another_name() {
    let running = Running::new(server());
    running.until(controller(""), || running.is_ready()).await;
    let maps = || ["a", "b", "c"].map(|name| running.server.object(&format!("{MAPS}/{name}")));
    let before = maps();
    let again = Running::new(running.server.clone());
    let store = Arc::new(Unavailable::new("store", Overrides::default()));
    let began = Instant::now();
    again.until(rendering(", reconcilePeriod: 10s", store), || began.elapsed() > 40 * SECOND).await;
    assert_eq!(maps(), before, "nothing is written");
    let selector = "chart+in+%28memcached%2Cstore%29";
    assert!(again.asked(selector), "{:#?}", again.asked.lock().unwrap());
}

/// Returns a controller that serves the same chart under another name.
fn renamed(rest: &str) -> ChartController {
    rendering(rest, Arc::new(Stub { name: "store", ..Stub::default() }))
}

/// Creates a release that was upgraded once its chart had another name: only the ConfigMap `d` is new.
async fn upgraded_by_renamed() -> Arc<MemoryApi> {
    let running = Running::new(server());
    running.until(controller(""), || running.is_ready()).await;
    let server = running.server;
    let mut edited = server.object(PRIMARY).unwrap();
    edited["spec"]["maps"] = json!(["a", "b", "c", "d"]);
    edited["metadata"]["generation"] = 2.into();
    server.put(PRIMARY, edited, "user");
    let running = Running::new(server.clone());
    let is_upgraded = || server.object(PRIMARY).unwrap()["status"]["deployedRelease"]["revision"] == 2;
    running.until(renamed(""), || running.is_ready() && is_upgraded()).await;
    server
}

/// Checks that a process with the renamed chart sees all objects: none is missing, and none is written.
async fn check_seen(server: &Arc<MemoryApi>) {
    let maps = || ["a", "b", "c", "d"].map(|name| server.object(&format!("{MAPS}/{name}")));
    let (before, began) = (maps(), Instant::now());
    let running = Running::new(server.clone());
    let is_over = || {
        assert!(running.is_ready(), "{:#}", server.object(PRIMARY).unwrap()["status"]);
        began.elapsed() > 40 * SECOND
    };
    running.until(renamed(", drift: {policy: detect}, reconcilePeriod: 10s"), is_over).await;
    assert_eq!(maps(), before);
    assert!(!running.asked(&format!("PATCH {MAPS}/")), "{:#?}", running.asked.lock().unwrap());
    let conditions = server.object(PRIMARY).unwrap()["status"]["conditions"].to_string();
    assert!(!conditions.contains("Drifted"), "{conditions}");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_by_a_renamed_chart_leaves_no_object_that_a_restart_does_not_see() {
    let server = upgraded_by_renamed().await;
    for name in ["a", "b", "c", "d"] {
        let labels = server.object(&format!("{MAPS}/{name}")).unwrap()["metadata"]["labels"].clone();
        assert_eq!(labels[CHART_LABEL], "store", "{name}");
    }
    // Nothing names the former chart any longer.
    let mut resource = server.object(PRIMARY).unwrap();
    resource["status"]["history"] = json!([]);
    server.restore(PRIMARY, resource);
    check_seen(&server).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_an_upgrade_by_a_renamed_chart_left_is_seen_while_the_history_names_the_former_chart() {
    let server = upgraded_by_renamed().await;
    let path = format!("{MAPS}/a");
    let mut left = server.object(&path).unwrap();
    left["metadata"]["labels"][CHART_LABEL] = "memcached".into();
    server.restore(&path, left);
    check_seen(&server).await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_release_that_comes_later_are_seen_although_another_chart_deployed_it() {
    let server = server();
    let (late, primary) = primary("late", "late", json!({"maps": ["late"], "value": "1"}));
    server.put(&late, primary, "user");
    let running = Running::new(server.clone());
    let is_deployed = || server.object(&late).unwrap()["status"]["deployedRelease"].is_object();
    running.until(controller(""), || running.is_ready() && is_deployed()).await;
    let mut first = server.object(PRIMARY).unwrap();
    first["status"]["deployedRelease"]["chart"] = "store-0.1.0".into();
    first["status"]["history"] = json!([]);
    server.put(PRIMARY, first, "user");
    // The other namespace's resources are listed long after the controller's start.
    server.disturb("/namespaces/late/memcacheds?", 6, Disturbance::Refused(403));
    let namespaces = Namespaces(["ns".to_owned(), "late".to_owned()].into());
    let again = Running::with(server, ControllerConfig { namespaces, ..ControllerConfig::default() });
    let (alone, both) = ("chart%3Dstore&", "chart+in+%28memcached%2Cstore%29");
    let store = Arc::new(Unavailable::new("store", Overrides::default()));
    again.until(rendering("", store), || again.asked(both)).await;
    assert!(again.asked(alone), "its kind was watched for the served chart when it came");
}

#[tokio::test(start_paused = true)]
async fn a_chart_that_broke_a_release_reaches_no_other_while_the_first_ones_namespace_may_not_be_listed() {
    let server = server();
    let (late, resource) = primary("late", "late", json!({"maps": ["late"], "value": "x"}));
    server.put(&late, resource, "user");
    let serving = |namespaces: &[&str]| {
        let namespaces = Namespaces(namespaces.iter().map(|name| (*name).to_owned()).collect());
        Running::with(server.clone(), ControllerConfig { namespaces, ..ControllerConfig::default() })
    };
    let limited = |chart| rendering(", maxParallelUpgrades: 1", Arc::new(Stub { chart, ..Stub::default() }));
    let condition = |path: &str, kind: &str| condition(&server, path, kind);
    let running = serving(&["ns", "late"]);
    running.until(limited("v1"), || running.is_ready() && condition(&late, "Ready")["status"] == "True").await;
    refuse(&server, "late");
    let running = serving(&["late"]);
    running.until(limited("v2"), || condition(&late, "ReleaseFailed")["status"] == "True").await;

    server.disturb("/namespaces/late/memcacheds?", 1000, Disturbance::Refused(403));
    let running = serving(&["ns", "late"]);
    let value = || server.object(&format!("{MAPS}/a")).unwrap()["data"]["value"].clone();
    let activity = || condition(PRIMARY, "Reconciling");
    running.until(limited("v2"), || activity()["reason"] == "RolloutUnknown" || value() != "1 by v1").await;
    assert_eq!(value(), "1 by v1");
    let message = activity()["message"].to_string();
    assert!(message.contains("WATCH_NAMESPACE") && !message.contains("late"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn each_served_namespace_has_its_own_streams_and_only_those() {
    let namespaces = Namespaces(["ns".to_owned(), "other".to_owned()].into());
    let running = Running::with(server(), ControllerConfig { namespaces, ..ControllerConfig::default() });
    running
        .until(controller(", selector: {matchLabels: {a: b}}"), || {
            running.asked("watch=true") && running.asked("/namespaces/other/secrets?")
        })
        .await;
    for kind in ["/apis/cache.my.domain/v1/namespaces/NS/memcacheds?", "/api/v1/namespaces/NS/secrets?"] {
        for namespace in ["ns", "other"] {
            assert!(running.asked(&kind.replace("NS", namespace)), "{:#?}", running.asked.lock().unwrap());
        }
    }
    assert!(running.asked("labelSelector=a%3Db"));
    assert!(!running.asked("/api/v1/secrets") && !running.asked("/v1/memcacheds"));
}

/// Returns how often a request with this text was sent.
fn count(running: &Running, what: &str) -> usize {
    running.asked.lock().unwrap().iter().filter(|line| line.contains(what)).count()
}

#[tokio::test(start_paused = true)]
async fn records_are_watched_once_although_the_controller_that_began_goes_before_they_are_listed() {
    let running = Running::new(server());
    let cluster = Cluster::of(&running.context);
    assert!(cluster.records_listed(keys()).now_or_never().is_none(), "they are not listed yet");
    cluster.records_listed(keys()).await;
    let asked = running.asked.lock().unwrap();
    let lists = asked.iter().filter(|line| line.contains("labelSelector=owner%3Dhelm") && !line.contains("watch=true"));
    assert_eq!(lists.count(), 1, "{asked:#?}");
}

#[tokio::test(start_paused = true)]
async fn sources_are_watched_once_by_their_metadata_however_many_resources_have_them() {
    let server = server();
    for name in ["two", "three"] {
        let (path, primary) = primary("ns", name, json!({"maps": [name], "value": "1"}));
        server.put(&path, primary, "user");
    }
    for name in ["web", "two", "three"] {
        let data = json!({"metadata": {"name": name, "namespace": "ns"}, "data": {"values.yaml": "dmFsdWU6IG9uZQ=="}});
        server.put(&format!("{SECRETS}/{name}"), data, "user");
    }
    let running = Running::new(server);
    let sources = ", valuesFrom: [{kind: Secret, name: $(name)}]";
    let watched = || count(&running, "fieldSelector=type%21%3Dhelm.sh%2Frelease.v1") >= 2;
    running.until(controller(sources), || running.is_ready() && watched()).await;
    assert_eq!(count(&running, "fieldSelector=type"), 2, "a list and a watch: {:#?}", running.asked.lock().unwrap());
    assert_eq!(count(&running, "GET /api/v1/namespaces/ns/secrets/web"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_sources_that_the_server_refuses_later_is_reported_until_it_allows_it_again() {
    let server = server();
    let mut resource = server.object(PRIMARY).unwrap();
    resource["spec"] = json!({"maps": ["a"]});
    server.put(PRIMARY, resource, "user");
    let set = |value: &str| {
        let data = json!({"values.yaml": ByteString(format!("value: {value}").into_bytes())});
        let secret = json!({"metadata": {"name": "shared", "namespace": "ns"}, "data": data});
        server.put(&format!("{SECRETS}/shared"), secret, "user");
    };
    set("one");
    let running = Running::watching(server.clone());
    let value = || server.object(&format!("{MAPS}/a")).unwrap_or_default()["data"]["value"].clone();
    let is_watched = || {
        let asked = running.asked.lock().unwrap();
        asked.iter().any(|line| line.contains("watch=true") && line.contains("fieldSelector=type%21%3D"))
    };
    let what = async {
        holds(|| running.is_ready() && is_watched()).await;
        assert_eq!(value(), "one");
        // The right to list and watch Secrets is taken away. The watch goes on until the server ends it.
        server.refuse(|call| {
            let is_sources = call.path.contains("/secrets?") && call.path.contains("fieldSelector=type!=");
            is_sources.then(|| Error::from_status(403, "Forbidden", "secrets is forbidden"))
        });
        holds(|| condition(&server, PRIMARY, "Ready")["reason"] == "ValuesSourceForbidden").await;
        set("two");
        tokio::time::sleep(12 * SECOND).await;
        let ready = condition(&server, PRIMARY, "Ready");
        assert_eq!((value(), &ready["status"]), (json!("one"), &json!("False")), "{ready}");
        let message = ready["message"].as_str().unwrap();
        assert!(message.contains("add this rule to the operator's role"), "{message}");
        server.accept();
        holds(|| running.is_ready() && value() == "two").await;
    };
    running.during(vec![controller(", valuesFrom: [{kind: Secret, name: shared}]")], what).await;
}

/// Changes the metadata of the resource as its user would.
fn edit_metadata(server: &MemoryApi, change: impl FnOnce(&mut Value)) {
    let mut resource = server.object(PRIMARY).unwrap();
    change(&mut resource["metadata"]);
    server.put(PRIMARY, resource, "user");
}

#[tokio::test(start_paused = true)]
async fn of_two_kinds_that_adopt_one_release_the_last_keeps_it_and_the_other_says_so_instead_of_taking_it_back() {
    const OTHER: &str = "/apis/cache.my.domain/v1/namespaces/ns/redises/web";
    for both_adopt in [false, true] {
        let server = server();
        server.serve("cache.my.domain/v1", "Redis", "redises");
        let adopts = json!({"helm.sdk.operatorframework.io/adopt": "true"});
        if both_adopt {
            edit_metadata(&server, |metadata| metadata["annotations"] = adopts.clone());
        }
        let running = Running::watching(server.clone());
        let maps = || ["a", "b", "c"].map(|name| server.object(&format!("{MAPS}/{name}")));
        let newest = || {
            let paths = server.paths().into_iter();
            let versions = paths.filter_map(|path| path.rsplit_once("sh.helm.release.v1.web.v")?.1.parse::<u32>().ok());
            versions.max()
        };
        let what = async {
            holds(|| running.is_ready()).await;
            let metadata = json!({"name": "web", "namespace": "ns", "generation": 1, "annotations": adopts});
            let spec = json!({"maps": ["a", "b", "c"], "value": "2"});
            let other =
                json!({"apiVersion": "cache.my.domain/v1", "kind": "Redis", "metadata": metadata, "spec": spec});
            server.put(OTHER, other, "user");
            let is_refused = || condition(&server, PRIMARY, "Irreconcilable")["reason"] == "ReleaseConflict";
            holds(|| is_refused() && condition(&server, OTHER, "Ready")["status"] == "True").await;
            let before = (newest(), maps());
            tokio::time::sleep(60 * SECOND).await;
            assert_eq!((newest(), maps()), before, "both adopt: {both_adopt}");
            assert!(newest().is_some_and(|newest| newest <= 3), "{:?}", newest());
            let message = condition(&server, PRIMARY, "Irreconcilable")["message"].to_string();
            assert!(message.contains("What another resource took over from this one is not taken back"), "{message}");
            assert_eq!(condition(&server, OTHER, "Irreconcilable"), Value::Null);
        };
        let rest = ", adopt: any, reconcilePeriod: 5s";
        let kinds = ["Memcached", "Redis"].map(|kind| serving(kind, rest, Arc::new(random())));
        running.during(kinds.into(), what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_leaves_the_selector_keeps_its_release_and_its_finalizer_until_it_is_selected_again() {
    let server = server();
    let label = |labels: Value| edit_metadata(&server, |metadata| metadata["labels"] = labels);
    label(json!({"tier": "prod"}));
    let running = Running::watching(server.clone());
    let state = || {
        let paths = server.paths().into_iter().filter(|path| !path.contains("/events/"));
        paths.map(|path| (server.object(&path), path)).collect::<Vec<_>>()
    };
    let what = async {
        holds(|| running.is_ready()).await;
        label(json!({}));
        tokio::time::sleep(10 * SECOND).await;
        edit_metadata(&server, |metadata| metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
        let before = state();
        tokio::time::sleep(40 * SECOND).await;
        assert_eq!(state(), before, "nobody says that the deletion waits");
        let resource = server.object(PRIMARY).unwrap();
        assert_eq!(resource["metadata"]["finalizers"], json!([FINALIZER]));
        label(json!({"tier": "prod"}));
        holds(|| server.object(PRIMARY).is_none()).await;
        assert_eq!(["a", "b", "c"].map(|name| server.object(&format!("{MAPS}/{name}"))), [None, None, None]);
    };
    running.during(vec![controller(", selector: {matchLabels: {tier: prod}}, reconcilePeriod: 10s")], what).await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_waits_for_its_kind_to_be_served_until_the_shutdown() {
    let server = Arc::new(MemoryApi::new());
    let running = Running::new(server.clone());
    let served = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
        server.serve("v1", "ConfigMap", "configmaps");
        let (path, primary) = primary("ns", "web", spec());
        server.put(&path, primary, "user");
    };
    let there = || server.object(PRIMARY).is_some() && running.is_ready();
    tokio::join!(running.until(controller(""), there), served);

    let nothing = Running::new(Arc::new(MemoryApi::new()));
    nothing.until(controller(""), || nothing.asked("GET /apis")).await;
}

/// Returns the object of an event, and its type, reason and note.
fn reported(event: &Value) -> (ObjectReference, String) {
    let said = ["type", "reason", "note"].map(|field| event[field].as_str().unwrap().to_owned()).join("/");
    (serde_json::from_value(event["regarding"].clone()).unwrap(), said)
}

#[tokio::test(start_paused = true)]
async fn events_name_the_resource_and_the_outcome() {
    let running = Running::new(server());
    running.until(controller(""), || running.is_ready() && !events(&running.server).is_empty()).await;
    let (on, said) = reported(&events(&running.server)[0]);
    assert_eq!(said, "Normal/Installed/installed release \"web\" with chart memcached-0.1.0");
    let uid = running.server.object(PRIMARY).unwrap()["metadata"]["uid"].as_str().map(str::to_owned);
    let expected = ObjectReference {
        api_version: Some("cache.my.domain/v1".into()),
        kind: Some("Memcached".into()),
        name: Some("web".into()),
        namespace: Some("ns".into()),
        uid,
        ..ObjectReference::default()
    };
    assert_eq!(on, expected);
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_starts_ends_with_the_process_whatever_the_server_has_yet_to_answer() {
    for requests in 0..8 {
        let running = Running::new(server());
        running.server.slow_down(60 * SECOND);
        let ends = async {
            tokio::time::sleep(60 * SECOND * requests + 30 * SECOND).await;
            running.context.shutdown.cancel();
            tokio::time::sleep(SECOND).await;
        };
        let started = tokio::select! {
            biased;
            started = crate::charts::start::start(controller(""), running.context.clone()) => started.is_ok(),
            () = ends => false,
        };
        assert!(started, "after {requests} answers");
    }
}

/// A process may have hundreds of controllers, each of which holds this future for as long as it runs.
#[tokio::test(start_paused = true)]
async fn what_a_controller_holds_while_it_serves_is_small() {
    let running = Running::new(server());
    let serving = crate::charts::start::start(controller(""), running.context.clone()).await.unwrap().unwrap();
    let size = std::mem::size_of_val(&*serving);
    assert!(size < 4096, "{size} bytes");
}
