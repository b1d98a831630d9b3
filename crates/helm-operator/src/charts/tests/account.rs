//! Tests of what each revision keeps of what it did: as it was sent, without contents, and without a request.

use helm_release::kube::Error;

use super::hooks::{hook, with_hooks};
use super::*;
use crate::mask::Mask;
use crate::plan::account::Account;

async fn account(world: &World, version: u32) -> Account {
    let plan = world.shared.storage.get("ns", "web", version).await.unwrap().plan;
    Account::read(&plan.unwrap_or_else(|| panic!("revision {version} keeps nothing"))).unwrap()
}

/// Returns the summary and the lines of what a revision did.
async fn did(world: &World, version: u32) -> Vec<String> {
    let account = account(world, version).await;
    [vec![account.summary()], account.lines(&Mask::default())].concat()
}

async fn upgrade(world: &World, spec: Value) {
    world.edit(|primary| primary["spec"] = spec);
    world.reconcile().await;
}

#[tokio::test(start_paused = true)]
async fn each_revision_says_what_it_created_changed_deleted_and_kept() {
    let kept = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "k", "annotations": {"helm.sh/resource-policy": "keep"}},
    });
    let world = World::new(json!({"maps": ["a", "b"], "value": "canary-1", "objects": [kept]}));
    world.reconcile().await;
    let expected = ["+3 ~0 -0", "+ ConfigMap ns/a", "+ ConfigMap ns/b", "+ ConfigMap ns/k"];
    assert_eq!(did(&world, 1).await, expected);
    upgrade(&world, json!({"maps": ["a", "d"], "value": "canary-2"})).await;
    let mut second = did(&world, 2).await;
    second[1..].sort_unstable();
    let kept = "= ConfigMap ns/k (leaves the release and stays)";
    let expected = ["+1 ~1 -1, 1 kept", "+ ConfigMap ns/d", "- ConfigMap ns/b", kept, "~ ConfigMap ns/a: data.value"];
    assert_eq!(second, expected);
    assert_eq!(did(&world, 1).await[0], "+3 ~0 -0", "a superseded revision keeps it");
    for version in [1, 2] {
        assert!(!serde_json::to_string(&account(&world, version).await).unwrap().contains("canary"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_upgrade_after_a_restart_names_fields_too() {
    let world = World::new(spec());
    world.reconcile().await;
    let world = World::on(world.server);
    let mut changed = spec();
    changed["value"] = "2".into();
    upgrade(&world, changed).await;
    let lines = did(&world, 2).await;
    assert!(lines.contains(&"~ ConfigMap ns/a: data.value".to_owned()), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_recreated_is_reported_with_its_immutable_field() {
    let metadata = json!({"name": "web", "annotations": {"helm.sdk.operatorframework.io/recreate": "true"}});
    let deployment = |selector: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"selector": selector}});
    let world = World::new(json!({"objects": [deployment("1")]}));
    world.server.make_immutable("deployments", "/spec/selector");
    world.reconcile().await;
    upgrade(&world, json!({"objects": [deployment("2")]})).await;
    let recreated = "-/+ Deployment ns/web (deleted and created again): spec.selector";
    assert_eq!(did(&world, 2).await, ["1 recreated", recreated]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_revision_says_what_was_refused_and_its_rollback_what_was_undone() {
    let world = World::new(spec());
    world.reconcile().await;
    world.server.refuse(|call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_bad = call.path.contains(MAPS) && body.contains("canary-2");
        (is_bad && call.path.contains("/b")).then(|| Error::from_status(403, "Forbidden", "no canary-2 here"))
    });
    upgrade(&world, json!({"maps": ["a", "b", "c"], "value": "canary-2"})).await;
    let failed = did(&world, 2).await;
    assert_eq!(failed[0], "+0 ~2 -0, 1 refused", "{failed:?}");
    assert!(failed.contains(&"! ConfigMap ns/b (refused): Forbidden".to_owned()), "{failed:?}");
    let rollback = did(&world, 3).await;
    assert!(rollback.contains(&"~ ConfigMap ns/a".to_owned()), "{rollback:?}");
    assert!(!format!("{failed:?}{rollback:?}").contains("canary"));
}

#[tokio::test(start_paused = true)]
async fn an_adopted_object_names_who_lost_fields() {
    let world = World::new(json!({"maps": ["a"], "value": "1"}));
    world.server.put(&format!("{MAPS}/a"), json!({"metadata": {"name": "a"}, "data": {"value": "theirs"}}), "kubectl");
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/adopt": "true"}));
    world.reconcile().await;
    let adopted = "~ ConfigMap ns/a (takes fields from kubectl; it existed and was taken over)";
    assert_eq!(did(&world, 1).await, ["+0 ~1 -0", adopted]);
}

#[tokio::test(start_paused = true)]
async fn hooks_are_reported_with_their_outcome() {
    let world = World::new(with_hooks(json!([hook("before", "pre-install"), hook("after", "post-install")])));
    super::hooks::reconcile(&world, "Complete").await;
    let lines = did(&world, 1).await;
    assert_eq!(lines[0], "+3 ~0 -0, 2 hooks");
    for name in ["before", "after"] {
        assert!(lines.contains(&format!("> Job ns/{name} (hook; succeeded)")), "{lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_continued_revision_says_that_more_was_done() {
    let world = World::new(with_hooks(json!([hook("before", "pre-install")])));
    super::hooks::killed_after(&world, 3).await;
    let world = World::on(world.server);
    super::hooks::reconcile(&world, "Complete").await;
    let lines = did(&world, 1).await;
    assert_eq!(lines.last().unwrap(), "an interrupted attempt at this revision may have written more");
    assert_eq!(lines[0], "+3 ~0 -0, 1 hook", "{lines:?}");
}
