//! Tests of releases whose override values an upstream converted to strings, while watches.yaml leaves their type open.

use helm::chart::Chart;
use helm::engine::Engine;
use helm_release::storage::OWNER_LABEL;

use crate::charts::tests::helm_commands::{helm_records, helm_supersedes};
use crate::charts::tests::*;
use crate::rendering::discovered::Discovered;
use crate::rendering::renderer::EngineRenderer;

pub(super) const CHART: [(&str, &str); 2] = [
    ("Chart.yaml", "apiVersion: v2\nname: memcached\nversion: 1.0.0\n"),
    (
        "templates/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  value: {{ printf \"%s %v\" (kindOf .Values.on) .Values.size }}\n",
    ),
];

/// Creates an operator with this type of override values.
async fn operator(server: Arc<MemoryApi>, kind: Option<OverrideValuesType>) -> World {
    configured(server, kind, |_| {}).await
}

/// Creates an operator with this type of override values and these settings.
async fn configured(
    server: Arc<MemoryApi>,
    kind: Option<OverrideValuesType>,
    change: impl FnOnce(&mut Settings),
) -> World {
    let texts = [("on".to_owned(), "false".to_owned())].into();
    let overrides = Overrides::parse(texts, kind).unwrap();
    let engine = Arc::new(Engine::new(Chart::from_files(CHART).unwrap()));
    let discovered = Arc::new(Discovered::read(&Applier::new(server.clone())).await.unwrap());
    let renderer = Arc::new(EngineRenderer::new(engine, overrides, discovered).unwrap());
    World::with_events(server, renderer, change)
}

/// Creates a release as an upstream leaves it, with this type.
pub(super) async fn upstreams(kind: OverrideValuesType) -> Arc<MemoryApi> {
    let world = operator(World::new(json!({"size": 1})).server, Some(kind)).await;
    world.reconcile().await;
    let server = world.server.clone();
    let path = format!("{SECRETS}/sh.helm.release.v1.web.v1");
    let mut record = server.object(&path).unwrap();
    record["metadata"]["annotations"] = Value::Null;
    let uid = record["metadata"]["labels"].as_object_mut().unwrap().remove(OWNER_LABEL);
    record["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "name": "web", "uid": uid}]);
    server.restore(&path, record);
    let path = format!("{MAPS}/a");
    let mut map = server.object(&path).unwrap();
    for entry in map["metadata"]["managedFields"].as_array_mut().unwrap() {
        (entry["manager"], entry["operation"]) = ("memcached-operator".into(), "Update".into());
    }
    server.restore(&path, map);
    world.edit(|primary| primary["status"]["deployedRelease"] = json!({"name": "web", "manifest": ""}));
    server
}

fn said(server: &MemoryApi) -> bool {
    events(server).iter().any(|event| event["reason"] == "OverrideValuesKept")
}

#[tokio::test(start_paused = true)]
async fn a_release_of_operator_sdk_keeps_strings_and_says_which_key_decides() {
    let server = upstreams(OverrideValuesType::String).await;
    let world = operator(server, None).await;
    world.reconcile().await;
    assert_eq!((world.history(), world.value_of("a")), (vec!["1 deployed".to_owned()], json!("string 1")));
    tokio::time::sleep(SECOND).await;
    assert!(said(&world.server));
    world.edit(|p| p["spec"]["size"] = 2.into());
    world.reconcile().await;
    assert_eq!((world.history().len(), world.value_of("a")), (2, json!("string 2")), "so do its upgrades");
    let world = operator(world.server, None).await;
    assert_eq!(world.requests().await, 0, "after a restart");
    world.edit(|p| p["spec"]["size"] = 3.into());
    world.reconcile().await;
    assert_eq!((world.history().len(), world.value_of("a")), (3, json!("string 3")));
}

#[tokio::test(start_paused = true)]
async fn a_release_of_operator_sdk_that_moves_to_another_namespace_for_records_keeps_strings() {
    let server = upstreams(OverrideValuesType::String).await;
    let uid = |server: &MemoryApi| server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].clone();
    let before = uid(&server);
    let recording = |settings: &mut Settings| settings.home = Home::in_namespace("records");
    let world = configured(server, None, recording).await;
    world.reconcile().await;
    assert_eq!((world.history(), world.value_of("a")), (vec!["2 deployed".to_owned()], json!("string 1")));
    assert_eq!(uid(&world.server), before);
    tokio::time::sleep(SECOND).await;
    assert!(said(&world.server));
    let world = configured(world.server, None, recording).await;
    assert_eq!(world.requests().await, 0, "after a restart");
    world.edit(|primary| primary["spec"]["size"] = 2.into());
    world.reconcile().await;
    assert_eq!(world.value_of("a"), json!("string 2"));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_looks_like_one_of_operator_sdk_makes_no_strings_without_its_status() {
    for status in [json!({}), json!({"deployedRelease": {"name": "web", "revision": 1}})] {
        let server = upstreams(OverrideValuesType::String).await;
        let world = operator(server, None).await;
        world.edit(|primary| primary["status"] = status.clone());
        world.reconcile().await;
        assert_eq!((world.history().len(), world.value_of("a")), (2, json!("bool 1")), "{status}");
        tokio::time::sleep(SECOND).await;
        assert!(!said(&world.server), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_says_that_override_values_are_strings_and_loses_the_manifest_that_confirmed_it() {
    let world = operator(upstreams(OverrideValuesType::String).await, None).await;
    world.reconcile().await;
    world.reconcile().await;
    let primary = world.server.object(PRIMARY).unwrap();
    let release = &primary["status"]["deployedRelease"];
    assert_eq!((&release["overrideValuesAreStrings"], &release["manifest"]), (&json!(true), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_a_person_upgrades_with_helm_during_a_pause_keeps_strings() {
    let world = operator(upstreams(OverrideValuesType::String).await, None).await;
    world.reconcile().await;
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/pause": "true"}));
    world.reconcile().await;
    let manifest = world.shared.storage.get("ns", "web", 1).await.unwrap().release.facts().manifest.clone();
    helm_supersedes(&world, 1).await;
    let values = json!({"size": 1, "on": "false"});
    helm_records(&world, 2, Status::Deployed, (&manifest, values, "1.0.0"), 60 * SECOND);
    world.reconcile().await;
    let says_strings = || {
        let primary = world.server.object(PRIMARY).unwrap();
        primary["status"]["deployedRelease"]["overrideValuesAreStrings"] == true
    };
    assert!(says_strings(), "while nothing is read");
    world.edit(|p| p["metadata"]["annotations"] = json!({}));
    world.reconcile().await;
    assert_eq!((world.value_of("a"), says_strings()), (json!("string 1"), true), "{:?}", world.history());
}

#[tokio::test(start_paused = true)]
async fn the_key_in_watches_yaml_decides_for_every_release() {
    let server = upstreams(OverrideValuesType::String).await;
    let world = operator(server, Some(OverrideValuesType::Typed)).await;
    world.reconcile().await;
    assert_eq!((world.history().len(), world.value_of("a")), (2, json!("bool 1")));
    tokio::time::sleep(SECOND).await;
    assert!(!said(&world.server));
}

#[tokio::test(start_paused = true)]
async fn without_the_key_new_releases_and_those_of_helm_operator_plugins_have_types() {
    let world = operator(World::new(json!({"size": 1})).server, None).await;
    world.reconcile().await;
    assert_eq!(world.value_of("a"), json!("bool 1"));
    let world = operator(upstreams(OverrideValuesType::Typed).await, None).await;
    world.reconcile().await;
    assert_eq!((world.history(), world.value_of("a")), (vec!["1 deployed".to_owned()], json!("bool 1")));
}
