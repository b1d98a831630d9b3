//! Whole reconciles against the API server in memory: scenarios, and a crash after each single write.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use helm::action::Candidate;
use helm::kube::{Api, Applier, Live, MemoryApi, Resource, install_order, objects_of};
use helm::release::ChartDocument;
use helm::storage::{RecordMeta, Storage};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::cache::Cache;
use super::primary::{FINALIZER, Primary, ResourceKey};
use super::queue::Queue;
use super::render::{RenderError, Renderer, Request};
use super::{Hooks, Settings, Shared, work};
use crate::events::Events;
use crate::metrics::{Metrics, ReconcileResult};

#[path = "failure_scenarios.rs"]
mod failure_scenarios;

const PRIMARY: &str = "/apis/cache.my.domain/v1/namespaces/ns/memcacheds/web";
const SECRETS: &str = "/api/v1/namespaces/ns/secrets";
const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

/// A chart that makes a ConfigMap for each name in `spec.maps`, with `spec.value` in it.
struct Stub;

impl Renderer for Stub {
    fn digest(&self) -> String {
        "chart".into()
    }

    fn chart_name(&self) -> &str {
        "memcached"
    }

    fn overrides(&self) -> &[(String, String)] {
        &[]
    }

    fn render(&self, request: Request) -> BoxFuture<'_, Result<Candidate, RenderError>> {
        Box::pin(async move { render(&request) })
    }
}

fn render(request: &Request) -> Result<Candidate, RenderError> {
    let spec: Value = serde_json::from_str(&request.spec).unwrap();
    if spec["broken"] == true {
        let message = "template: memcached/templates/a.yaml:3:5: executing \"a\" at <fail>: no".into();
        return Err(RenderError { reason: "RenderError", message });
    }
    let mut manifest = String::new();
    for name in spec["maps"].as_array().into_iter().flatten() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": spec["value"]}});
        manifest = format!("{manifest}---\n{map}\n");
    }
    if spec["unknown"] == true {
        manifest = format!("{manifest}---\napiVersion: example.com/v1\nkind: Unknown\nmetadata:\n  name: u\n");
    }
    let mut objects = objects_of(&manifest).unwrap();
    install_order(&mut objects);
    let chart = r#"{"metadata":{"name":"memcached","version":"0.1.0","appVersion":"1.6"}}"#;
    Ok(Candidate {
        chart: Arc::new(ChartDocument::from_json(chart).unwrap()),
        config: spec,
        manifest,
        objects,
        hooks: Vec::new(),
        notes: "enjoy".into(),
        crds: Vec::new(),
        duplicates: Vec::new(),
        inputs: String::new(),
    })
}

/// A controller, and the server that outlives it.
struct World {
    server: Arc<MemoryApi>,
    shared: Shared,
}

fn key() -> ResourceKey {
    ResourceKey::new("ns", "web")
}

impl World {
    fn new(spec: Value) -> World {
        let server = Arc::new(MemoryApi::new());
        server.serve("cache.my.domain/v1", "Memcached", "memcacheds", true);
        let primary = json!({
            "apiVersion": "cache.my.domain/v1", "kind": "Memcached", "metadata": {"name": "web", "namespace": "ns", "generation": 1}, "spec": spec,
        });
        server.put(PRIMARY, primary, "user");
        World::on(server)
    }

    /// A controller that has just started.
    fn on(server: Arc<MemoryApi>) -> World {
        let api: Arc<dyn Api> = server.clone();
        let resource = Resource {
            api_version: "cache.my.domain/v1".into(),
            kind: "Memcached".into(),
            plural: "memcacheds".into(),
            namespaced: true,
        };
        let settings = Settings {
            controller: "memcached-controller".into(),
            period: Duration::from_secs(60),
            watch_dependents: true,
            max_history: 3,
            one_namespace: false,
            suppress_overrides: false,
            apply: helm::kube::Policy::Auto,
        };
        let shared = Shared {
            applier: Applier::new(api.clone()),
            storage: Storage::new(api.clone()),
            api,
            cache: Cache::default(),
            queue: Queue::new(),
            renderer: Arc::new(Stub),
            hooks: Hooks::default(),
            metrics: Metrics::default(),
            events: Events::default(),
            settings,
            resource: Arc::new(resource),
            new_kinds: mpsc::unbounded_channel().0,
        };
        let world = World { server, shared };
        world.feed();
        world
    }

    /// What the watches would tell.
    fn feed(&self) {
        let cache = &self.shared.cache;
        let read = |path: &str| self.server.object(path);
        match read(PRIMARY) {
            Some(primary) => self.shared.see_primary(serde_json::from_value::<Primary>(primary).unwrap()),
            None => self.shared.lose_primary(&key()),
        }
        let maps = Resource {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            plural: "configmaps".into(),
            namespaced: true,
        };
        let (mut records, mut listed) = (HashSet::new(), HashSet::new());
        for path in self.server.paths() {
            let Some(object) = read(&path) else { continue };
            if path.starts_with(SECRETS) {
                let mut metadata = object["metadata"].clone();
                (metadata["namespace"], metadata["managedFields"]) = ("ns".into(), Value::Null);
                let meta = RecordMeta::read(&serde_json::from_value(metadata).unwrap()).unwrap();
                records.insert((key(), meta.version));
                self.shared.see_record(meta);
            } else if path.starts_with(MAPS) {
                let live: Live = serde_json::from_value(object).unwrap();
                listed.insert(super::watch::key_of(&maps, &live));
                self.shared.see_dependent(&maps, &live);
            }
        }
        cache.retain_records(&records, u64::MAX);
        cache.retain_dependents(&maps, None, &listed, u64::MAX);
        cache.kind_synced(&maps);
    }

    async fn reconcile(&self) -> ReconcileResult {
        self.feed();
        let result = work::reconcile(&self.shared, &key(), &()).await;
        self.feed();
        result
    }

    /// Changes the resource as its user would.
    fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut primary = self.server.object(PRIMARY).unwrap();
        change(&mut primary);
        let generation = primary["metadata"]["generation"].as_i64().unwrap_or(0);
        primary["metadata"]["generation"] = (generation + 1).into();
        self.server.put(PRIMARY, primary, "user");
    }

    fn delete(&self) {
        self.edit(|primary| primary["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
    }

    /// The names of the release's objects.
    fn maps(&self) -> Vec<String> {
        self.server
            .paths()
            .iter()
            .filter_map(|p| p.strip_prefix(MAPS))
            .map(|p| p.trim_start_matches('/').to_owned())
            .collect()
    }

    fn value_of(&self, map: &str) -> Value {
        self.server.object(&format!("{MAPS}/{map}")).unwrap()["data"]["value"].clone()
    }

    /// Each revision with its status.
    fn history(&self) -> Vec<String> {
        let release = self.shared.cache.release(&key()).unwrap_or_default();
        release.revisions.iter().map(|(v, r)| format!("{v} {}", r.status.as_str())).collect()
    }

    fn condition(&self, kind: &str) -> Option<String> {
        let primary = self.shared.cache.primary(&key())?;
        primary.status.find(kind).map(|c| format!("{}/{}/{}", c.status, c.reason, c.message))
    }

    /// The requests of a reconcile, discovery left out.
    async fn requests(&self) -> usize {
        let count = || self.server.log().iter().filter(|l| !l.ends_with("/api") && !l.ends_with("/apis")).count();
        let before = count();
        self.reconcile().await;
        count() - before
    }
}

fn spec() -> Value {
    json!({"maps": ["a", "b", "c"], "value": "1"})
}

#[tokio::test(start_paused = true)]
async fn install_upgrade_and_uninstall_stay_in_their_budget_of_requests() {
    let world = World::new(spec());
    // Finalizer, record, three objects, record, status; the event comes on top.
    assert_eq!(world.requests().await, 7);
    assert_eq!((world.maps(), world.history()), (vec!["a".into(), "b".into(), "c".into()], vec!["1 deployed".into()]));
    assert_eq!(world.condition("Deployed").unwrap(), "True/InstallSuccessful/enjoy");
    assert_eq!(world.condition("Ready").unwrap(), "True/Ready/");
    assert_eq!(world.requests().await, 0);
    world.edit(|p| p["spec"]["value"] = "2".into());
    assert_eq!(world.requests().await, 7);
    assert_eq!(
        (world.value_of("a"), world.history()),
        (json!("2"), vec!["1 superseded".to_owned(), "2 deployed".into()])
    );
    assert_eq!(world.condition("Deployed").unwrap(), "True/UpgradeSuccessful/enjoy");
    world.delete();
    // Three objects, the records at once, the finalizer.
    assert_eq!(world.requests().await, 5);
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
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
async fn a_fight_over_a_field_is_named_and_slowed_down() {
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
    assert_eq!(message, "True/DriftLoop/fighter keeps changing what the release \"web\" sets in ConfigMap \"b\"");
}

#[tokio::test(start_paused = true)]
async fn a_template_error_keeps_the_release_and_is_tried_again_later() {
    let world = World::new(spec());
    world.reconcile().await;
    world.edit(|p| p["spec"]["broken"] = true.into());
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    assert!(world.condition("Irreconcilable").unwrap().contains("templates/a.yaml:3:5"));
    assert_eq!(world.condition("Deployed").unwrap(), "True/InstallSuccessful/enjoy");
    assert_eq!(world.requests().await, 0);
    world.edit(|p| p["spec"]["broken"] = false.into());
    world.reconcile().await;
    assert_eq!(world.condition("Irreconcilable"), None);
    assert_eq!(world.condition("Ready").unwrap(), "True/Ready/");
}

#[tokio::test(start_paused = true)]
async fn a_failed_install_leaves_nothing() {
    let world = World::new(spec());
    let foreign =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"value": "theirs"}});
    world.server.put(&format!("{MAPS}/b"), foreign, "kubectl");
    world.reconcile().await;
    assert_eq!((world.maps(), world.value_of("b"), world.history()), (vec!["b".to_owned()], json!("theirs"), vec![]));
    assert!(
        world
            .condition("ReleaseFailed")
            .unwrap()
            .starts_with("True/ReleaseConflict/ConfigMap \"b\" in namespace \"ns\" exists")
    );
    world.server.remove(&format!("{MAPS}/b"));
    tokio::time::advance(Duration::from_secs(1)).await;
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.condition("ReleaseFailed")), (3, None));
}

#[tokio::test(start_paused = true)]
async fn a_failed_upgrade_is_rolled_back() {
    let world = World::new(spec());
    world.reconcile().await;
    let foreign =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "z"}, "data": {"value": "theirs"}});
    world.server.put(&format!("{MAPS}/z"), foreign, "kubectl");
    world.edit(|p| p["spec"] = json!({"maps": ["a", "b", "c", "z"], "value": "2"}));
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.value_of("z")), (json!("1"), json!("theirs")));
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert!(world.condition("ReleaseFailed").unwrap().starts_with("True/ReleaseConflict/"));
    assert_eq!(world.requests().await, 0, "the same is not tried again at once");
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
async fn a_release_of_someone_else_is_refused_unless_adopted() {
    let world = World::new(spec());
    world.reconcile().await;
    let mut primary = world.server.object(PRIMARY).unwrap();
    world.server.remove(PRIMARY);
    (primary["status"], primary["metadata"]["finalizers"]) = (Value::Null, Value::Null);
    world.server.put(PRIMARY, primary, "user");
    let world = World::on(world.server);
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/ReleaseConflict/release \"web\""));
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/adopt": "true"}));
    world.reconcile().await;
    assert_eq!(world.condition("Irreconcilable"), None);
    assert_eq!(world.condition("Ready").unwrap(), "True/Ready/");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_resource_is_left_alone() {
    let world = World::new(spec());
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/suspend": "true"}));
    world.reconcile().await;
    assert!(world.maps().is_empty());
}

/// Runs a scenario once for each number of writes after which the process dies, restarts it, and compares the ends.
async fn survive(prepare: impl AsyncFn() -> World, end: impl Fn(&World)) {
    for writes in 0.. {
        let world = prepare().await;
        world.server.die_after(Some(writes));
        world.reconcile().await;
        let died = world.server.writes_left() == Some(0);
        world.server.die_after(None);
        let world = World::on(world.server);
        for _ in 0..3 {
            world.reconcile().await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
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
            assert_eq!(world.condition("Ready").unwrap(), "True/Ready/");
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
        assert_eq!(world.condition("Ready").unwrap(), "True/Ready/");
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
    world.server.die_after(Some(1));
    world.reconcile().await;
    world.server.die_after(None);
    assert_eq!(world.server.object(PRIMARY).unwrap()["metadata"]["finalizers"], json!([FINALIZER]));
    assert!(world.maps().is_empty());
}
