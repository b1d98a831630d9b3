//! Tests of the page over a controller's caches: who sees what, and that a view sends no request.

use controller::lease::Holder;
use controller::runtime::readiness::Readiness;
use controller::server::{Access, Form, Page, Right, Site as _, Submitted, Visit};

use super::*;
use crate::charts::running::Running;
use crate::values_from::ValuesSource;
use crate::web::Web;
use crate::web::sight::MAX_NAMESPACES;

/// A caller who may do this, in these namespaces; an empty one means all of them. Notes what was asked.
struct Caller {
    verbs: &'static [&'static str],
    namespaces: &'static [&'static str],
    /// The kinds besides custom resources that the caller may read.
    others: &'static [&'static str],
    sees_process: bool,
    asked: Mutex<Vec<String>>,
}

impl Caller {
    fn of(verbs: &'static [&'static str], namespaces: &'static [&'static str]) -> Caller {
        Caller { verbs, namespaces, others: &[], sees_process: false, asked: Mutex::default() }
    }

    fn reading(self, others: &'static [&'static str]) -> Caller {
        Caller { others, ..self }
    }
}

impl Access for Caller {
    fn has<'r>(&'r self, right: Right<'r>) -> BoxFuture<'r, Result<bool, Error>> {
        let Right { verb, group, plural, namespace } = right;
        self.asked.lock().unwrap().push(format!("{verb} {plural}.{group} {namespace}"));
        let is_kind = group == "cache.my.domain" || self.others.contains(&plural);
        Box::pin(async move { Ok(is_kind && self.verbs.contains(&verb) && self.namespaces.contains(&namespace)) })
    }

    fn gets<'r>(&'r self, path: &'r str) -> BoxFuture<'r, Result<bool, Error>> {
        self.asked.lock().unwrap().push(format!("get {path}"));
        Box::pin(async move { Ok(self.sees_process) })
    }
}

const READ: &[&str] = &["get", "list"];

fn web(world: &World) -> Web {
    let running = Arc::new(Running::default());
    running.add(&world.shared);
    Web::of(running, Readiness::default(), Holder::default(), Some("replica-1".to_owned()))
}

async fn load(world: &World, caller: &Caller, address: &str, as_json: bool) -> (u16, String) {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let Page { status, body, .. } =
        web(world).answer(Visit { path, query, as_json, takes_forms: false, access: caller }).await.unwrap();
    (status.as_u16(), String::from_utf8(body).unwrap())
}

/// Returns the names in an overview, after its kinds with their counts.
async fn names(world: &World, caller: &Caller, address: &str) -> Vec<String> {
    let (status, body) = load(world, caller, address, true).await;
    assert_eq!(status, 200, "{body}");
    let overview: Value = serde_json::from_str(&body).unwrap();
    let mut all = Vec::new();
    for kind in overview["kinds"].as_array().unwrap() {
        all.push(format!("{} {}/{}", kind["kind"].as_str().unwrap(), kind["ready"], kind["total"]));
        for row in kind["releases"].as_array().unwrap() {
            let text = |field: &str| row["resource"][field].as_str().unwrap_or_default().to_owned();
            all.push(format!("{}/{}", text("namespace"), text("name")));
        }
    }
    all
}

async fn three() -> World {
    let world = World::new(spec());
    for (namespace, name) in [("ns", "shop"), ("other", "web")] {
        world.add(namespace, name, json!({"maps": [format!("{name}-map")], "value": "1"}));
    }
    for key in [key(), ResourceKey::new("ns", "shop"), ResourceKey::new("other", "web")] {
        world.reconcile_one(&key).await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn each_caller_sees_only_what_their_rights_allow_and_nothing_else_counts() {
    let world = three().await;
    for (what, caller, address, expected) in [
        ("everywhere", Caller::of(READ, &[""]), "/", vec!["Memcached 3/3", "ns/shop", "ns/web", "other/web"]),
        ("one namespace", Caller::of(READ, &["other"]), "/", vec!["Memcached 1/1", "other/web"]),
        ("one, named", Caller::of(READ, &["other"]), "/?namespace=other", vec!["Memcached 1/1", "other/web"]),
        ("one, another named", Caller::of(READ, &["other"]), "/?namespace=ns", vec![]),
        ("none", Caller::of(READ, &[]), "/", vec![]),
        ("only get", Caller::of(&["get"], &["", "ns", "other"]), "/", vec![]),
        ("everywhere, one named", Caller::of(READ, &[""]), "/?namespace=ns&q=SHOP", vec!["Memcached 1/1", "ns/shop"]),
        ("another kind", Caller::of(READ, &[""]), "/?kind=Shop", vec![]),
        (
            "a kind with its group",
            Caller::of(READ, &["other"]),
            "/?kind=memcached.cache.my.domain",
            vec!["Memcached 1/1", "other/web"],
        ),
    ] {
        assert_eq!(names(&world, &caller, address).await, expected, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_cannot_be_told_from_what_does_not_exist() {
    let world = three().await;
    for as_json in [false, true] {
        let caller = Caller::of(READ, &["other"]);
        let (status, hidden) = load(&world, &caller, "/Memcached.cache.my.domain/ns/web", as_json).await;
        assert_eq!(status, 404);
        for address in [
            "/Memcached.cache.my.domain/ns/absent",
            "/Memcached.cache.my.domain/nowhere/web",
            "/Memcached.cache.my.domain/other/absent",
            "/Memcached.cache.my.domain/web",
            "/Shop.g/ns/web",
            "/unknown",
        ] {
            assert_eq!(load(&world, &caller, address, as_json).await, (404, hidden.clone()), "{address}");
        }
        let seen = load(&world, &caller, "/Memcached.cache.my.domain/other/web", as_json).await;
        assert!(seen.0 == 200 && seen.1.contains("web-map"), "{}", seen.1);
    }
    // A caller without rights gets the same overview from an operator without resources.
    let caller = Caller::of(READ, &[]);
    let empty = World::on(Arc::new(MemoryApi::new()));
    assert_eq!(load(&world, &caller, "/", false).await, load(&empty, &caller, "/", false).await);
    let list_only = Caller::of(&["list"], &["", "other"]);
    assert_eq!(load(&world, &list_only, "/Memcached.cache.my.domain/other/web", true).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_release_shows_its_objects_and_history_from_the_cache_alone() {
    let world = three().await;
    let caller = Caller::of(READ, &["ns"]);
    let (status, body) = load(&world, &caller, "/Memcached.cache.my.domain/ns/web", true).await;
    let release: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &release["state"], &release["release"]["revision"]), (200, &json!("ready"), &json!(1)));
    let objects: Vec<String> =
        release["objects"].as_array().unwrap().iter().map(|o| format!("{} {}", o["name"], o["health"])).collect();
    assert_eq!(objects, ["\"a\" \"ready\"", "\"b\" \"ready\"", "\"c\" \"ready\""]);
    assert_eq!(release["history"][0]["outcome"], "deployed");
    assert_eq!(*caller.asked.lock().unwrap(), ["get memcacheds.cache.my.domain ns"]);
    let (_, html) = load(&world, &caller, "/Memcached.cache.my.domain/ns/web", false).await;
    assert!(html.contains("memcached-0.1.0") && html.contains("Deployed") && html.contains("installed"), "{html}");
    for value in ["2", "3"] {
        world.edit(|p| p["spec"]["value"] = value.into());
        world.reconcile().await;
    }
    let before = world.server.log().len();
    let (_, body) = load(&world, &caller, "/Memcached.cache.my.domain/ns/web", true).await;
    let release: Value = serde_json::from_str(&body).unwrap();
    let causes: Vec<&str> =
        release["revisions"].as_array().unwrap().iter().filter_map(|r| r["cause"].as_str()).collect();
    assert_eq!(causes, ["spec changed (generation 3)", "spec changed (generation 2)", "installed"]);
    world.server.remove(&format!("{MAPS}/b"));
    world.feed();
    let (_, body) = load(&world, &caller, "/Memcached.cache.my.domain/ns/web", true).await;
    let release: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(release["objects"][1]["health"], "missing");
    assert_eq!(world.server.log().len(), before, "a view sends no request but the questions about rights");
}

#[tokio::test(start_paused = true)]
async fn the_release_of_another_kind_with_the_same_name_shows_no_objects() {
    let world = World::new(spec());
    world.reconcile().await;
    let mut primary = world.server.object(PRIMARY).unwrap();
    world.server.remove(PRIMARY);
    primary["metadata"]["uid"] = "another".into();
    primary["kind"] = "Shop".into();
    primary["metadata"]["generation"] = 1.into();
    world.server.put(PRIMARY, primary, "user");
    world.feed();
    let (status, body) = load(&world, &Caller::of(READ, &["ns"]), "/Memcached.cache.my.domain/ns/web", true).await;
    let release: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &release["objects"]), (200, &json!([])), "{body}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_the_whole_cluster_costs_a_bounded_number_of_questions() {
    let world = World::new(spec());
    (0..2 * MAX_NAMESPACES).for_each(|n| _ = world.add(&format!("n{n:03}"), "web", spec()));
    world.feed();
    let caller = Caller::of(READ, &["n001", "n199"]);
    assert_eq!(names(&world, &caller, "/").await, ["Memcached 0/1", "n001/web"]);
    assert_eq!(caller.asked.lock().unwrap().len(), 1 + MAX_NAMESPACES);
    assert_eq!(names(&world, &caller, "/?namespace=n199").await, ["Memcached 0/1", "n199/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_serves_nothing_says_so() {
    let readiness = Readiness::default();
    let _waits = readiness.require("lease ns/shop", "not read yet");
    let web = Web::of(Arc::default(), readiness, Holder::default(), Some("replica-1".to_owned()));
    let few = Caller::of(READ, &[""]);
    let all = Caller { sees_process: true, ..Caller::of(READ, &[""]) };
    let visit = |path, as_json, access| web.answer(Visit { path, query: "", as_json, takes_forms: false, access });
    let text = |page: Page| (page.status.as_u16(), String::from_utf8(page.body).unwrap());
    let (status, page) = text(visit("/", false, &few).await.unwrap());
    assert!(status == 200 && page.contains("another one leads") && !page.contains("replica-1"), "{page}");
    let (status, page) = text(visit("/", false, &all).await.unwrap());
    assert!(status == 200 && page.contains("replica-1") && page.contains("lease ns/shop: not read yet"), "{page}");
    // A program must not take it for an operator without releases.
    assert_eq!(visit("/", true, &all).await.unwrap().status.as_u16(), 503);
    assert_eq!(visit("/Shop.g/ns/web", false, &all).await.unwrap().status.as_u16(), 503);
    for (path, content_type) in [("/style.css", "text/css"), ("/page.js", "text/javascript")] {
        let file = visit(path, false, &few).await.unwrap();
        assert_eq!((file.status.as_u16(), file.content_type), (200, &*format!("{content_type}; charset=utf-8")));
    }
}

#[tokio::test(start_paused = true)]
async fn the_process_is_shown_to_whoever_may_read_its_metrics() {
    let world = three().await;
    let few = Caller::of(READ, &[""]);
    assert_eq!(load(&world, &few, "/process", true).await.0, 403);
    assert_eq!(*few.asked.lock().unwrap(), ["get /metrics"]);
    let all = Caller { sees_process: true, ..Caller::of(READ, &[]) };
    let (status, body) = load(&world, &all, "/process", true).await;
    let process: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &process["replica"]), (200, &json!("replica-1")), "{body}");
    let controller = &process["controllers"][0];
    assert_eq!((&controller["kind"], &controller["resources"]), (&json!("Memcached"), &json!(3)), "{body}");
    assert_eq!(controller["queue"]["running"], 0);
    assert!(controller["watches"].as_array().unwrap().iter().any(|one| one["kind"] == "ConfigMap"), "{body}");
    let (_, html) = load(&world, &all, "/process", false).await;
    assert!(html.contains("data-refresh=\"5\"") && html.contains("memcached 0.1.0"), "{html}");
}

const CANARY: &str = "canary-8c1f";

fn secret(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": value}})
}

#[tokio::test(start_paused = true)]
async fn differences_of_revisions_are_for_those_who_may_read_their_records_and_mask_secrets() {
    let world = World::new(json!({"maps": ["a"], "value": "one", "objects": [secret(CANARY)]}));
    world.reconcile().await;
    let next = json!({"maps": ["a"], "value": "two", "objects": [secret(&format!("{CANARY}-2"))]});
    world.edit(|primary| primary["spec"] = next);
    world.reconcile().await;
    let address = |from: u32, to: u32| format!("/Memcached.cache.my.domain/ns/web?view=diff&from={from}&to={to}");
    let reader = Caller::of(READ, &["ns"]).reading(&["secrets"]);
    let (status, html) = load(&world, &reader, &address(1, 2), false).await;
    let parts = ["From revision 1 to 2", "ConfigMap", "<mark>one</mark>", "<mark>two</mark>", "****"];
    assert!(status == 200 && parts.iter().all(|part| html.contains(part)), "{html}");
    let (_, json) = load(&world, &reader, &address(0, 2), true).await;
    assert!(json.contains("two") && !json.contains(CANARY) && !html.contains(CANARY), "{json} {html}");
    let (_, missing) = load(&world, &reader, &address(1, 7), false).await;
    assert!(missing.contains("There is no such revision."), "{missing}");
    let before = world.server.log().len();
    let (_, html) = load(&world, &Caller::of(READ, &["ns"]), &address(1, 2), false).await;
    assert!(html.contains("You may not get Secrets") && !html.contains("two"), "{html}");
    assert_eq!(world.server.log().len(), before, "nothing is read for a caller who may not");
}

#[tokio::test(start_paused = true)]
async fn why_an_object_is_not_ready_is_for_those_who_may_get_it() {
    let world = World::new(json!({"deployments": ["app"]}));
    world.reconcile().await;
    world.feed();
    let why = async |caller: Caller| -> Value {
        let (_, body) = load(&world, &caller, "/Memcached.cache.my.domain/ns/web", true).await;
        serde_json::from_str::<Value>(&body).unwrap()["objects"][0].clone()
    };
    let few = why(Caller::of(READ, &["ns"])).await;
    assert_eq!((&few["health"], few.get("why")), (&json!("progressing"), None), "{few}");
    let all = why(Caller::of(READ, &["ns"]).reading(&["deployments"])).await;
    assert!(!all["why"].as_str().unwrap().is_empty(), "{all}");
}

#[tokio::test(start_paused = true)]
async fn a_version_differs_after_changes_that_the_caller_may_see_and_after_no_others() {
    let world = three().await;
    let caller = Caller::of(READ, &["other"]);
    let web = web(&world);
    let version = async |path: &'static str| {
        web.version(Visit { path, query: "", as_json: false, takes_forms: false, access: &caller }).await.unwrap()
    };
    let (visible, hidden) = ("/Memcached.cache.my.domain/other/web", "/Memcached.cache.my.domain/ns/web");
    let (overview, one, generation) = (version("/").await, version(visible).await, web.generation());
    world.add("ns", "more", spec());
    world.feed();
    assert_ne!(web.generation(), generation);
    assert_eq!((version("/").await, version(visible).await), (overview, one));
    assert_eq!(version(hidden).await, version("/Memcached.cache.my.domain/ns/absent").await);
    world.add("other", "more", spec());
    world.feed();
    assert_ne!(version("/").await, overview);
    assert_eq!(version(visible).await, one);
    world.server.remove("/api/v1/namespaces/other/configmaps/web-map");
    world.feed();
    assert_ne!(version(visible).await, one);
}

#[tokio::test(start_paused = true)]
async fn a_version_differs_by_why_an_object_is_not_ready_only_for_those_who_may_get_it() {
    let world = World::new(json!({"deployments": ["app"]}));
    world.reconcile().await;
    world.feed();
    let web = web(&world);
    let version = async |caller: &Caller| {
        let path = "/Memcached.cache.my.domain/ns/web";
        web.version(Visit { path, query: "", as_json: false, takes_forms: false, access: caller }).await.unwrap()
    };
    let (few, all) = (Caller::of(READ, &["ns"]), Caller::of(READ, &["ns"]).reading(&["deployments"]));
    let (of_few, of_all) = (version(&few).await, version(&all).await);
    let path = "/apis/apps/v1/namespaces/ns/deployments/app";
    let mut app = world.server.object(path).unwrap();
    app["status"] = json!({"observedGeneration": app["metadata"]["generation"], "replicas": 1, "updatedReplicas": 1});
    world.server.put(path, app, "kube-controller-manager");
    world.feed();
    assert_eq!(version(&few).await, of_few);
    assert_ne!(version(&all).await, of_all);
}

#[tokio::test(start_paused = true)]
async fn values_have_origins_and_those_of_secrets_are_masked() {
    let chart = Chart::from_files([
        ("Chart.yaml", "apiVersion: v2\nname: memcached\nversion: 0.1.0\n"),
        ("values.yaml", "size: 1\nauth:\n  password: none\n"),
        ("templates/a.yaml", "a: {{ .Values.size }}{{ .Values.auth.password }}{{ .Values.maps }}"),
    ]);
    let stub = Stub { lines: Some(chart.unwrap()), ..Stub::default() };
    let sources: Vec<ValuesSource> = serde_json::from_value(json!([{"kind": "Secret", "name": "extra"}])).unwrap();
    let world = World::with_events(Arc::new(MemoryApi::new()), Arc::new(stub), |settings| {
        settings.values_from = sources;
    });
    world.add("ns", "web", json!({"maps": ["a"], "szie": 3}));
    let data = json!({"values.yaml": ByteString(format!("auth: {{password: {CANARY}}}").into_bytes())});
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "extra"}, "data": data});
    world.server.put(&format!("{SECRETS}/extra"), object, "user");
    world.feed();
    let address = "/Memcached.cache.my.domain/ns/web?view=values";
    let reader = Caller::of(READ, &["ns"]).reading(&["secrets"]);
    let (status, html) = load(&world, &reader, address, false).await;
    let parts = ["auth.password", "****", "Secret extra, key values.yaml", "did you mean size?", "spec"];
    assert!(status == 200 && parts.iter().all(|part| html.contains(part)), "{html}");
    assert!(!html.contains(CANARY) && !html.contains(">size<"), "{html}");
    let (_, all) = load(&world, &reader, &format!("{address}&all=1"), false).await;
    assert!(all.contains(">size<") && all.contains("memcached/values.yaml"), "{all}");
    let before = world.server.log().len();
    let (_, html) = load(&world, &Caller::of(READ, &["ns"]), address, false).await;
    assert!(html.contains("You may not get Secret &quot;extra&quot;") && !html.contains("auth.password"), "{html}");
    assert_eq!(world.server.log().len(), before, "nothing is read for a caller who may not");
}

/// Returns a resource whose values come from these entries of `valuesFrom`.
fn with_maps(entries: &[Value]) -> World {
    let sources: Vec<ValuesSource> = serde_json::from_value(entries.into()).unwrap();
    let server = World::new(json!({"maps": ["m"]})).server;
    World::with_events(server, Arc::new(Stub::default()), |settings| settings.values_from = sources)
}

#[tokio::test(start_paused = true)]
async fn sources_that_are_too_large_together_are_read_no_further_than_by_a_reconcile() {
    let world = with_maps(&["a", "b", "c"].map(|name| json!({"kind": "ConfigMap", "name": name})));
    for name in ["a", "b", "c"] {
        let data = json!({"values.yaml": format!("value: {}", "x".repeat(600_000))});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        world.server.put(&format!("{MAPS}/{name}"), object, "user");
    }
    world.reconcile().await;
    let expected = "valuesFrom: the sources have more than 1048576 bytes";
    assert_eq!(world.condition("Irreconcilable").unwrap(), format!("True/InvalidValues/{expected}"));
    let before = world.server.log().len();
    let reader = Caller::of(READ, &["ns"]).reading(&["configmaps"]);
    let (status, html) = load(&world, &reader, "/Memcached.cache.my.domain/ns/web?view=values", false).await;
    assert!(status == 200 && html.contains(expected), "{html}");
    assert_eq!(world.server.log()[before..], [format!("GET {MAPS}/a"), format!("GET {MAPS}/b")]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_several_sources_name_is_read_once() {
    let world = with_maps(&["one", "two"].map(|key| json!({"kind": "ConfigMap", "name": "a", "valuesKey": key})));
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"one": "a: 1"}});
    world.server.put(&format!("{MAPS}/a"), object, "user");
    world.feed();
    let before = world.server.log().len();
    let reader = Caller::of(READ, &["ns"]).reading(&["configmaps"]);
    let (_, html) = load(&world, &reader, "/Memcached.cache.my.domain/ns/web?view=values", false).await;
    assert!(html.contains("key &quot;two&quot;, in namespace &quot;ns&quot;, has no such key."), "{html}");
    assert_eq!(world.server.log()[before..], [format!("GET {MAPS}/a")]);
}

#[tokio::test(start_paused = true)]
async fn the_overview_says_how_far_a_rollout_is_without_numbers_of_releases() {
    let canary = kube::core::Selector::from_iter([("tier", "canary")]);
    let rule = Arc::new(crate::watches::rollout_of(Some(canary), &[50], "", crate::watches::OnGateFailure::Halt));
    let serving = |server: Arc<MemoryApi>, chart: &'static str| {
        let rule = rule.clone();
        World::with_events(server, Arc::new(Stub { chart, ..Stub::default() }), |settings| {
            settings.rollout = Some(rule)
        })
    };
    let world = serving(World::new(spec()).server, "v1");
    world.reconcile().await;
    for (chart, expected) in [("v1", None), ("v2", Some("step 2 of 3 (50% of the others)"))] {
        let world = serving(world.server.clone(), chart);
        let caller = Caller::of(READ, &["ns"]);
        let (_, page) = load(&world, &caller, "/", false).await;
        let line = expected.map(|text| format!("<p class=\"note\">Rollout of the chart: {text}</p>"));
        assert_eq!(page.contains("Rollout of the chart"), line.is_some(), "{page}");
        assert!(line.is_none_or(|line| page.contains(&line)), "{page}");
        let (_, overview) = load(&world, &caller, "/", true).await;
        let overview: Value = serde_json::from_str(&overview).unwrap();
        assert_eq!(overview["kinds"][0]["rollout"].as_str(), expected);
    }
}

const WEB: &str = "/Memcached.cache.my.domain/ns/web";

/// Returns a visit of a page with buttons.
fn acting<'v>(path: &'v str, query: &'v str, caller: &'v Caller) -> Visit<'v> {
    Visit { path, query, as_json: false, takes_forms: true, access: caller }
}

/// Sends a form to the page of a release; returns the address of the outcome, or the status with the page.
async fn submit(
    world: &World,
    caller: &Caller,
    path: &str,
    form: &str,
    api: &dyn Api,
) -> Result<String, (u16, String)> {
    let form = Form { body: form, user: "alice\u{202e}", api };
    match web(world).submit(acting(path, "", caller), form).await.unwrap() {
        Submitted::Done(address) => Ok(address),
        Submitted::Refused(page) => Err((page.status.as_u16(), String::from_utf8(page.body).unwrap())),
    }
}

/// Returns the actions that the page of a release offers.
async fn buttons(world: &World, caller: &Caller) -> Vec<String> {
    let visit = Visit { as_json: true, ..acting(WEB, "", caller) };
    let page = web(world).answer(visit).await.unwrap();
    let release: Value = serde_json::from_slice(&page.body).unwrap();
    release["actions"].as_array().into_iter().flatten().map(|one| one.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn buttons_are_for_those_who_may_patch_where_forms_are_taken() {
    let world = three().await;
    let (reader, writer) = (Caller::of(READ, &["ns"]), Caller::of(&["get", "patch"], &["ns"]));
    assert!(buttons(&world, &reader).await.is_empty());
    assert_eq!(buttons(&world, &writer).await, ["reconcileNow", "suspend"]);
    let asked = writer.asked.lock().unwrap().clone();
    assert_eq!(asked, ["get memcacheds.cache.my.domain ns", "patch memcacheds.cache.my.domain ns"]);
    let (_, html) = load(&world, &writer, WEB, false).await;
    assert!(!html.contains("<form method=\"post\""), "a site that can only be read has none: {html}");
    let page = web(&world).answer(acting(WEB, "action=suspend", &writer)).await.unwrap();
    let html = String::from_utf8(page.body).unwrap();
    let button = "<button id=\"action-suspend\" type=\"submit\" name=\"action\" value=\"suspend\">Suspend</button>";
    assert!(html.contains(&format!("<form method=\"post\" action=\"{WEB}\"")) && html.contains(button), "{html}");
    assert!(html.contains("You asked for “Suspend”."), "{html}");
}

#[tokio::test(start_paused = true)]
async fn an_action_is_the_callers_own_patch_and_an_event_names_them() {
    let world = World::with_events(three().await.server, Arc::new(Stub::default()), |_| {});
    world.feed();
    let caller = Caller::of(&["get", "patch"], &["ns"]);
    let before = world.server.log().len();
    let done = submit(&world, &caller, WEB, "action=suspend", &*world.server).await;
    assert_eq!(done, Ok(format!("{WEB}?action=suspend")));
    let sent = world.server.log().split_off(before);
    assert!(sent.len() == 1 && sent[0].contains(&format!("PATCH {PRIMARY}")), "nothing but the patch: {sent:?}");
    let annotation = |world: &World| {
        let key = "/metadata/annotations/helm.sdk.operatorframework.io~1suspend";
        world.server.object(PRIMARY).unwrap().pointer(key).cloned()
    };
    assert_eq!(annotation(&world), Some(json!("true")));
    world.shared.events.flush(Duration::from_secs(5)).await;
    let event = events(&world.server).pop().unwrap();
    let texts = ["type", "reason", "action", "note"].map(|field| event[field].as_str().unwrap().to_owned());
    assert_eq!(texts, ["Normal", "ActionRequested", "Suspend", "alice\u{fffd} asked for \"Suspend\" on the page"]);
    assert_eq!(event["regarding"]["name"], "web");
    world.feed();
    assert_eq!(buttons(&world, &caller).await, ["resume"]);
    submit(&world, &caller, WEB, "action=resume", &*world.server).await.unwrap();
    assert_eq!(annotation(&world), None);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_not_done_and_says_why() {
    let world = three().await;
    let caller = Caller::of(&["get", "patch"], &["ns"]);
    let before = world.server.log().len();
    let api = &*world.server;
    for (path, form, status) in [
        (WEB, "action=pin", 400),
        (WEB, "", 400),
        (WEB, "action=suspend&more=1", 400),
        ("/", "action=suspend", 404),
        ("/Memcached.cache.my.domain/ns/absent", "action=suspend", 404),
        ("/Memcached.cache.my.domain/other/web", "action=suspend", 404),
    ] {
        let (found, page) = submit(&world, &caller, path, form, api).await.unwrap_err();
        assert_eq!(found, status, "{path} {form}: {page}");
    }
    assert_eq!(world.server.log().len(), before, "no request is sent for them");
    world.server.refuse(|call| {
        let why = "memcacheds \"web\" is forbidden: User \"alice\" cannot patch";
        (call.method == "PATCH").then(|| Error::from_status(403, "Forbidden", why))
    });
    let (status, page) = submit(&world, &caller, WEB, "action=suspend", api).await.unwrap_err();
    assert!(status == 403 && page.contains("cannot patch"), "{page}");
}
