//! Tests of releases from another version of the operator or from an upstream: their inputs have not changed, so
//! nothing is rendered again. See `tests/fixtures/recorded/README.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use helm::chart::Chart;
use helm::engine::Engine;
use helm_release::release::{Packed, Release, Status};
use k8s_openapi::ByteString;

use crate::charts::tests::*;
use crate::rendering::discovered::Discovered;
use crate::rendering::renderer::EngineRenderer;
use crate::watches;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/recorded");
const MARKS: &str = helm_release::storage::MARKS_ANNOTATION;

/// Returns the directories of recorded states.
fn versions() -> Vec<PathBuf> {
    let folders = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let versions: Vec<_> = folders.filter(|path| path.join("records.json").is_file()).collect();
    assert!(!versions.is_empty());
    versions
}

fn items(file: &Path) -> Vec<Value> {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Returns a server with a recorded state, and the resource.
fn restored(folder: &Path) -> (Arc<MemoryApi>, ResourceKey) {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let all = ["resource.json", "records.json", "objects.json"];
    for object in all.iter().flat_map(|file| items(&folder.join(file))) {
        let text = |of: &Value| of.as_str().unwrap().to_owned();
        let (group, plural) = (text(&object["apiVersion"]), format!("{}s", text(&object["kind"]).to_lowercase()));
        let root = if group == "v1" { "/api".to_owned() } else { "/apis".into() };
        let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        server.restore(&format!("{root}/{group}/namespaces/{namespace}/{plural}/{name}"), object);
    }
    // The state was recorded without a key, so the test's own key seals it.
    server.paths().iter().filter(|path| path.contains("sh.helm.release.v1")).for_each(|path| reseal(&server, path));
    let resource = items(&folder.join("resource.json")).remove(0);
    let of = |field: &str| resource["metadata"][field].as_str().unwrap().to_owned();
    (server, ResourceKey::new(&of("namespace"), &of("name")))
}

/// Returns the chart's directory.
fn chart() -> PathBuf {
    Path::new(FOLDER).join("chart")
}

/// Starts the current operator on that server.
async fn start(server: &Arc<MemoryApi>, chart: &Path) -> World {
    World::rendering(server.clone(), renderer(server, chart).await)
}

async fn renderer(server: &Arc<MemoryApi>, chart: &Path) -> Arc<dyn Renderer> {
    let watch = "- {group: cache.my.domain, version: v1, kind: Memcached, chart: x, overrideValues: {image: 'memcached:1.6.40'}}";
    let watch = watches::parse(watch, |_| None).unwrap().watches.remove(0);
    let engine = Arc::new(Engine::new(Chart::load(chart).unwrap()));
    let discovered = Arc::new(Discovered::read(&Applier::new(server.clone())).await.unwrap());
    Arc::new(EngineRenderer::new(engine, watch.overrides, discovered).unwrap())
}

/// Returns all objects except the records, the resource and its revisions.
fn objects(server: &MemoryApi) -> BTreeMap<String, Value> {
    let dependent = |path: &&String| !path.contains("sh.helm.release.v1") && !path.contains("/memcacheds/");
    let paths = server.paths();
    paths.iter().filter(dependent).map(|path| (path.clone(), server.object(path).unwrap())).collect()
}

fn record_path(server: &MemoryApi) -> String {
    server.paths().into_iter().find(|path| path.contains("sh.helm.release.v1")).unwrap()
}

/// Changes a record and its marks.
fn change_record(server: &MemoryApi, release: impl FnOnce(&mut Release), marks: impl FnOnce(&mut Value)) {
    let path = record_path(server);
    let mut secret = server.object(&path).unwrap();
    let data: ByteString = serde_json::from_value(secret["data"]["release"].take()).unwrap();
    let mut record = Packed::from_record(&data.0, BTreeMap::new()).unwrap();
    release(&mut record);
    let written = Packed::pack(&record).unwrap().to_record().into_bytes();
    secret["data"]["release"] = serde_json::to_value(ByteString(written)).unwrap();
    secret["metadata"]["labels"]["status"] = record.info.status.as_str().into();
    let noted = &mut secret["metadata"]["annotations"][MARKS];
    let mut text: Value = serde_json::from_str(noted.as_str().unwrap()).unwrap();
    marks(&mut text);
    *noted = text.to_string().into();
    server.restore(&path, secret);
    reseal(server, &path);
}

fn scheme(of: &'static str) -> impl FnOnce(&mut Value) {
    move |marks| marks["i"] = format!("{of}:0123456789abcdef").into()
}

fn revisions(world: &World, key: &ResourceKey) -> Vec<String> {
    let release = world.shared.cache.release(key).unwrap();
    release.revisions.iter().map(|(version, r)| format!("{version} {}", r.status.as_str())).collect()
}

/// Returns the writes of the first reconcile of a release, and those of one after a restart. The status of this version
/// may contain more than the recorded one, once.
async fn looked_at(server: &Arc<MemoryApi>, key: &ResourceKey) -> [Vec<String>; 2] {
    let before = objects(server);
    let (mut writes, mut statuses) = ([Vec::new(), Vec::new()], 0);
    for written in &mut writes {
        let world = start(server, &chart()).await;
        let known = server.log().len();
        assert_ne!(world.reconcile_one(key).await, ReconcileResult::Error);
        let log = server.log()[known..].to_vec();
        let is_kept = |line: &&String| !line.starts_with("GET") && !line.ends_with("/web/status");
        *written = log.iter().filter(is_kept).cloned().collect();
        statuses += log.iter().filter(|line| line.ends_with("/web/status")).count();
        assert_eq!(revisions(&world, key), ["1 deployed"]);
        assert_eq!(world.condition_of(key, "Irreconcilable"), None);
        assert!(world.condition_of(key, "Ready").unwrap().starts_with("True"));
    }
    assert!(objects(server) == before && statuses <= 1, "{statuses} status writes");
    writes
}

#[tokio::test(start_paused = true)]
async fn a_release_of_another_version_of_this_operator_is_left_as_it_is() {
    for folder in versions() {
        let (server, key) = restored(&folder);
        assert_eq!(looked_at(&server, &key).await, [[""; 0]; 2], "{folder:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_with_a_digest_of_another_scheme_is_compared_and_gets_a_new_digest() {
    for (folder, other) in versions().iter().flat_map(|folder| ["1", "99"].map(|other| (folder, other))) {
        let (server, key) = restored(folder);
        change_record(&server, |_| {}, scheme(other));
        let patch = format!("PATCH {}", record_path(&server));
        assert_eq!(looked_at(&server, &key).await, [vec![patch], Vec::new()], "{folder:?} {other}");
    }
}

/// Returns the result of reconciling a release whose record has another scheme and further changes.
async fn looked_at_changed(change: impl FnOnce(&mut Release), chart: &Path) -> Vec<String> {
    let (server, key) = restored(&versions()[0]);
    change_record(&server, change, scheme("1"));
    let world = start(&server, chart).await;
    world.reconcile_one(&key).await;
    revisions(&world, &key)
}

#[tokio::test(start_paused = true)]
async fn a_record_that_does_not_prove_equality_is_rendered_again() {
    assert_eq!(looked_at_changed(|_| {}, &chart()).await, ["1 deployed"]);
    let other_values = |record: &mut Release| record.config["replicaCount"] = 2.into();
    assert_eq!(looked_at_changed(other_values, &chart()).await, ["1 superseded", "2 deployed"]);
    let other_chart = |record: &mut Release| {
        record.chart = Arc::new(ChartDocument::from_json(r#"{"metadata":{"name":"x"}}"#).unwrap())
    };
    assert_eq!(looked_at_changed(other_chart, &chart()).await, ["1 superseded", "2 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn changed_inputs_are_rendered_whatever_the_scheme() {
    for digest in ["1", "2"] {
        let (server, key) = restored(&versions()[0]);
        change_record(&server, |_| {}, scheme(digest));
        let path = server.paths().into_iter().find(|path| path.contains("/memcacheds/")).unwrap();
        let mut resource = server.object(&path).unwrap();
        resource["spec"]["replicaCount"] = 2.into();
        server.put(&path, resource, "user");
        let world = start(&server, &chart()).await;
        world.reconcile_one(&key).await;
        assert_eq!(revisions(&world, &key), ["1 superseded", "2 deployed"], "{digest}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_does_not_cause_a_new_render() {
    let (server, key) = restored(&versions()[0]);
    change_record(&server, |_| {}, scheme("1"));
    server.refuse(|call| call.path.contains("sh.helm").then(|| Error::from_status(503, "", "away")));
    let world = start(&server, &chart()).await;
    assert_eq!(world.reconcile_one(&key).await, ReconcileResult::Error);
    server.accept();
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_ne!(world.reconcile_one(&key).await, ReconcileResult::Error);
    assert_eq!(revisions(&world, &key), ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_decoded_proves_nothing() {
    let (server, key) = restored(&versions()[0]);
    change_record(&server, |_| {}, scheme("1"));
    let path = record_path(&server);
    let mut secret = server.object(&path).unwrap();
    secret["data"]["release"] = "AAAA".into();
    server.restore(&path, secret);
    let world = start(&server, &chart()).await;
    world.reconcile_one(&key).await;
    assert_eq!(revisions(&world, &key).last().unwrap(), "2 deployed");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_started_by_another_version_is_finished_as_it_was_rendered() {
    for digest in ["1", "2"] {
        let (server, key) = restored(&versions()[0]);
        let before = random(&server);
        let pending = |record: &mut Release| record.set_status(Status::PendingInstall, "Install in progress");
        change_record(&server, pending, |marks| {
            if digest == "1" {
                scheme("1")(marks);
            }
        });
        let world = start(&server, &chart()).await;
        world.reconcile_one(&key).await;
        assert_eq!(revisions(&world, &key), ["1 deployed"]);
        assert!(random(&server) == before, "{digest}");
        let writes = server.writes();
        assert_ne!(start(&server, &chart()).await.reconcile_one(&key).await, ReconcileResult::Error);
        assert_eq!(server.writes(), writes);
    }
}

/// Changes the release to the state in which an upstream leaves it: no marks, an owner reference, and fields of a
/// client-side apply.
fn as_an_upstream_left_it(server: &MemoryApi) {
    let path = record_path(server);
    let mut secret = server.object(&path).unwrap();
    let uid = secret["metadata"]["labels"][helm_release::storage::OWNER_LABEL].take();
    secret["metadata"]["annotations"] = Value::Null;
    secret["metadata"]["labels"].as_object_mut().unwrap().remove(helm_release::storage::OWNER_LABEL);
    secret["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "name": "web", "uid": uid}]);
    server.restore(&path, secret);
    for (path, mut object) in objects(server) {
        for entry in object["metadata"]["managedFields"].as_array_mut().unwrap() {
            if entry["operation"] == "Apply" {
                (entry["manager"], entry["operation"]) = ("memcached-operator".into(), "Update".into());
            }
        }
        server.restore(&path, object);
    }
}

/// Returns the passwords, keys and dates, and their checksum.
fn random(server: &MemoryApi) -> Vec<Value> {
    let checksum = |object: &Value| object["spec"]["template"]["metadata"]["annotations"].clone();
    objects(server).values().map(|object| json!([object["data"], checksum(object)])).collect()
}

#[tokio::test(start_paused = true)]
async fn an_upstreams_release_is_taken_over_without_new_passwords() {
    let (server, key) = restored(&versions()[0]);
    as_an_upstream_left_it(&server);
    let before = random(&server);
    let world = start(&server, &chart()).await;
    world.reconcile_one(&key).await;
    assert_eq!(revisions(&world, &key), ["1 deployed"]);
    assert!(random(&server) == before);
    let world = start(&server, &chart()).await;
    let writes = server.writes();
    assert_ne!(world.reconcile_one(&key).await, ReconcileResult::Error);
    assert_eq!((server.writes(), revisions(&world, &key)), (writes, vec!["1 deployed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn an_upstreams_release_is_taken_over_as_a_retry_if_its_chart_keeps_others_waiting() {
    let (server, key) = restored(&versions()[0]);
    as_an_upstream_left_it(&server);
    let before = random(&server);
    let world = World::rendering(server.clone(), Arc::new(Slow(renderer(&server, &chart()).await)));
    assert_eq!(world.reconcile_at_first(&key).await, 1);
    assert_eq!(world.condition_of(&key, "Irreconcilable"), None);
    world.reconcile_one(&key).await;
    assert_eq!(world.condition_of(&key, "Irreconcilable"), None);
    assert_eq!(revisions(&world, &key), ["1 deployed"]);
    assert!(random(&server) == before);
}
