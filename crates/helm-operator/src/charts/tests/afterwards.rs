//! Tests of what events report afterwards: why a revision was created, what it deleted, which hooks ran, and who caused
//! which drift.

use super::hooks::complete;
use super::reporting::published;
use super::*;
use crate::values_from::ValuesSource;

fn world(spec: Value, chart: &'static str) -> World {
    serving(World::new(spec).server, chart)
}

fn serving(server: Arc<MemoryApi>, chart: &'static str) -> World {
    let sources: Vec<ValuesSource> = serde_json::from_str(r#"[{"kind": "ConfigMap", "name": "defaults"}]"#).unwrap();
    World::with_events(server, Arc::new(Stub { chart, ..Stub::default() }), |settings| {
        settings.values_from = sources;
    })
}

fn defaults(world: &World, text: &str) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "defaults"}, "data": {"values.yaml": text}});
    world.server.put(&format!("{MAPS}/defaults"), object, "user");
}

/// Returns the last event.
async fn last(world: &World) -> String {
    published(world).await.pop().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_names_what_caused_it_also_after_a_restart() {
    let world = world(json!({"maps": ["a", "b"], "value": "1"}), "");
    defaults(&world, "{x: 1}");
    world.reconcile().await;
    assert_eq!(last(&world).await, "Normal Installed x1: installed release \"web\" with chart memcached-0.1.0");
    world.edit(|p| p["spec"] = json!({"maps": ["a"], "value": "1"}));
    world.reconcile().await;
    let upgraded = |text: &str| format!("Normal Upgraded x1: upgraded release \"web\" to revision {text}");
    assert_eq!(last(&world).await, upgraded("2: spec changed (generation 2); deleted ConfigMap \"b\""));

    let world = serving(world.server, "");
    defaults(&world, "{objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: z}}]}");
    world.reconcile().await;
    assert_eq!(last(&world).await, upgraded("3: ConfigMap \"defaults\" changed (key \"values.yaml\")"));

    let world = serving(world.server, "v2");
    world.reconcile().await;
    assert_eq!(last(&world).await, upgraded("4: the files of chart memcached-0.1.0 changed"));
}

#[tokio::test(start_paused = true)]
async fn a_repair_names_field_and_manager_for_one_read_of_each_changed_object() {
    let world = world(spec(), "");
    defaults(&world, "{}");
    world.reconcile().await;
    let mut changed = world.server.object(&format!("{MAPS}/b")).unwrap();
    changed["data"]["value"] = "s3cret".into();
    world.server.put(&format!("{MAPS}/b"), changed, "kubectl-edit");
    world.server.remove(&format!("{MAPS}/c"));
    let before = world.server.log().len();
    world.reconcile().await;
    let log = world.server.log()[before..].to_vec();
    assert_eq!(log.iter().filter(|line| line.starts_with("GET")).count(), 1, "{log:#?}");
    let repaired = "repaired ConfigMap \"b\" (kubectl-edit changed .data.value), ConfigMap \"c\" (it was gone)";
    assert_eq!(last(&world).await, format!("Normal DriftCorrected x1: {repaired}"));
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_is_an_event_with_both_revisions() {
    let world = world(json!({"maps": ["a"], "value": "1"}), "");
    defaults(&world, "{}");
    world.reconcile().await;
    world.server.refuse(|call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        (call.path.contains("configmaps") && body.contains("bad")).then(|| Error::from_status(422, "Invalid", "no"))
    });
    world.edit(|p| p["spec"]["value"] = "bad".into());
    world.reconcile().await;
    let all = published(&world).await;
    assert!(
        all.contains(&"Normal RolledBack x1: rolled back to revision 1 as revision 3: revision 2 failed".to_owned()),
        "{all:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rollback_is_described_as_one_whatever_the_annotations_describe() {
    let world = world(json!({"maps": ["a"], "value": "1"}), "");
    defaults(&world, "{}");
    world.reconcile().await;
    let annotate = |more: Option<&str>| {
        let key = |key: &str| format!("helm.sdk.operatorframework.io/{key}");
        let mut all = json!({key("upgrade-description"): "mine", key("rollback-description"): "mine"});
        more.into_iter().for_each(|revision| all[key("pin")] = revision.into());
        world.edit(|p| p["metadata"]["annotations"] = all);
    };
    annotate(None);
    world.server.refuse(|call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        (call.path.contains("configmaps") && body.contains("bad")).then(|| Error::from_status(422, "Invalid", "no"))
    });
    world.edit(|p| p["spec"]["value"] = "bad".into());
    world.reconcile().await;
    world.server.accept();
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    annotate(Some("3"));
    world.reconcile().await;
    let mut described = Vec::new();
    for version in 3..=5 {
        let record = world.shared.storage.get("ns", "web", version).await.unwrap();
        described.push(record.release.facts().info.description.clone());
    }
    assert_eq!(described, ["Rollback to 1", "mine", "Rollback to 3"]);
}

#[tokio::test(start_paused = true)]
async fn hooks_are_named_with_their_durations() {
    let mut spec = spec();
    spec["hooks"] = json!([{"name": "migrate", "events": ["pre-install"]}]);
    let world = world(spec, "");
    defaults(&world, "{}");
    let ends = async {
        tokio::time::sleep(64 * SECOND).await;
        complete(&world.server, "migrate");
    };
    tokio::join!(ends, world.reconcile());
    let note = last(&world).await;
    assert!(note.contains("installed release \"web\" with chart memcached-0.1.0; hooks: Job \"migrate\" ("), "{note}");
}
