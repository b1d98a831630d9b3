//! Tests that objects which existed before the release, or outlive it, keep their identity.

use helm_release::kube::{Adopt, CHART_LABEL, CrdPolicy, Error, FIELD_MANAGER, Policy};

use super::*;
use crate::watches::OnFailure;

/// Rejects every write of the ConfigMap `b`, by apply or by create and patch.
fn refuse_b(world: &World, code: u16, reason: &'static str) {
    world.server.refuse(move |call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_b = call.path.starts_with(MAPS) && body.contains("\"name\":\"b\"");
        is_b.then(|| Error::from_status(code, reason, "b is refused"))
    });
}

/// Puts the ConfigMap `a`, whose data cannot be recreated.
fn put_precious(server: &MemoryApi, metadata: Value) {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": "irreplaceable"}});
    server.put(&format!("{MAPS}/a"), object, "user");
}

fn helms() -> Value {
    json!({
        "name": "a", "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"},
    })
}

fn adopt(world: &World) {
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/adopt": "true"}));
}

fn uid(world: &World) -> Value {
    world.server.object(&format!("{MAPS}/a")).expect("a exists")["metadata"]["uid"].clone()
}

/// Returns the metadata that the release left on `a`: labels, annotations and owner references.
fn left(world: &World) -> [Value; 3] {
    let metadata = world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"].clone();
    ["labels", "annotations", "ownerReferences"].map(|field| match &metadata[field] {
        Value::Object(map) if map.is_empty() => Value::Null,
        Value::Array(list) if list.is_empty() => Value::Null,
        value => value.clone(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_failed_install_leaves_what_it_only_adopted() {
    for annotated in [false, true] {
        let world = World::new(spec());
        let metadata = if annotated { helms() } else { json!({"name": "a"}) };
        put_precious(&world.server, metadata.clone());
        if !annotated {
            adopt(&world);
        }
        refuse_b(&world, 403, "Forbidden");
        let before = uid(&world);
        for _ in 0..3 {
            world.reconcile().await;
            assert_eq!((uid(&world), world.maps(), world.history()), (before.clone(), vec!["a".into()], vec![]));
            let expected = [&metadata["labels"], &metadata["annotations"], &Value::Null];
            assert_eq!(left(&world).each_ref(), expected, "{annotated}");
            tokio::time::advance(Duration::from_secs(600)).await;
            let live = world.server.object(&format!("{MAPS}/a")).unwrap();
            assert_eq!(live["data"]["key"], "irreplaceable", "{live}");
        }
        world.server.accept();
        world.reconcile().await;
        assert_eq!((uid(&world), world.history()), (before, vec!["1 deployed".to_owned()]));
        world.delete();
        world.reconcile().await;
        assert!(world.maps().is_empty(), "once deployed it is the release's");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_helms_without_a_namespace_needs_the_right_to_take_over_its_release() {
    const READER: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader";
    let role = |metadata: Value, verbs: Value| {
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]);
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules})
    };
    for (grant, is_taken) in [(Adopt::Never, false), (Adopt::Unowned, false), (Adopt::Released, true)] {
        let server = World::new(json!({"objects": [role(json!({"name": "reader"}), json!(["list"]))]})).server;
        server.serve_cluster_scoped("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles");
        let mut metadata = helms();
        metadata["name"] = "reader".into();
        server.put(READER, role(metadata, json!(["get"])), "helm");
        let before = server.object(READER).unwrap();
        let world = granting(server, grant);
        if grant != Adopt::Never {
            adopt(&world);
        }
        world.reconcile().await;
        let after = world.server.object(READER).unwrap();
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "{grant:?}");
        assert_eq!(after != before, is_taken, "{grant:?}");
        if !is_taken {
            let condition = world.condition("ReleaseFailed").unwrap();
            assert!(condition.contains("missing key \"operator-sdk/primary-resource\""), "{condition}");
        }
        world.delete();
        world.reconcile().await;
        assert_eq!(world.server.object(READER), (!is_taken).then_some(before), "{grant:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_cleanup_of_a_failed_install_deletes_no_record_that_took_the_place_of_its_own() {
    let world = World::new(spec());
    refuse_b(&world, 403, "Forbidden");
    let path = record_path(1);
    let (server, record) = (world.server.clone(), path.clone());
    // While the cleanup deletes an object, a person uninstalls the release and installs another one, with Helm.
    world.server.refuse(move |call| {
        let before = server.object(&record).filter(|_| call.method == "DELETE" && call.path.starts_with(MAPS));
        if let Some(mut another) = before.filter(|ours| ours["metadata"]["annotations"].is_object()) {
            another["metadata"].as_object_mut().unwrap().retain(|key, _| ["name", "labels"].contains(&key.as_str()));
            server.remove(&record);
            server.put(&record, another, "helm");
        }
        None
    });
    world.reconcile().await;
    let helms = world.server.object(&path).expect("the other record is not ours to delete");
    assert_eq!(helms["metadata"]["managedFields"][0]["manager"], "helm");
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_moves_to_the_crds_folder_stays_wherever_the_upgrade_is_interrupted() {
    const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dbs.x.y";
    let (api_version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let definition = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "dbs.x.y"}});
    let uid = |world: &World| world.server.object(DEFINITION).expect("it stays")["metadata"]["uid"].clone();
    for writes in 0.. {
        let server = World::new(json!({"objects": [definition], "maps": ["a"], "value": "1"})).server;
        server.serve_cluster_scoped(api_version, kind, "customresourcedefinitions");
        let world = World::on(server);
        world.reconcile().await;
        let before = uid(&world);
        world.edit(|p| p["spec"] = json!({"crds": [definition], "maps": ["a"], "value": "2"}));
        // The other process continues from the record, which lists neither the folder nor the definition.
        let (world, died) = restarted_after(writes, world).await;
        assert_eq!((uid(&world), world.value_of("a")), (before.clone(), json!("2")), "after {writes} writes");
        assert_eq!(world.history().last().unwrap(), "2 deployed");
        world.delete();
        world.reconcile().await;
        assert_eq!((uid(&world), world.maps()), (before, vec![]), "after {writes} writes");
        if !died {
            assert!(writes > 3, "the scenario wrote nothing");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_of_another_release_is_not_written_by_a_chart_that_ships_it_and_a_condition_names_the_owner() {
    const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dbs.x.y";
    let (api_version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let definition = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "dbs.x.y"}});
    let install = json!({"crds": [definition], "maps": ["a", "b", "c"], "value": "1"});
    // It comes with the install, with an upgrade that changes nothing else, and with one that does.
    for (first, upgrade) in [(install, None), (spec(), Some("1")), (spec(), Some("2"))] {
        let server = World::new(first).server;
        server.serve_cluster_scoped(api_version, kind, "customresourcedefinitions");
        let mut theirs = definition.clone();
        theirs["metadata"]["annotations"] =
            json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "ns"});
        server.put(DEFINITION, theirs, "helm");
        let before = server.object(DEFINITION);
        let replaces = |settings: &mut Settings| settings.crds = CrdPolicy::CreateOrReplace;
        let world = World::with_events(server, Arc::new(Stub::default()), replaces);
        world.reconcile().await;
        if let Some(value) = upgrade {
            assert_eq!(world.history(), ["1 deployed"]);
            world.edit(|p| (p["spec"]["crds"], p["spec"]["value"]) = (json!([definition]), value.into()));
            world.reconcile().await;
            assert_eq!((world.history(), world.value_of("a")), (vec!["1 deployed".to_owned()], json!("1")));
        } else {
            assert_eq!((world.history(), world.maps()), (vec![], vec![]), "nothing else is written either");
        }
        assert_eq!(world.server.object(DEFINITION), before, "{upgrade:?}");
        let log = world.server.log().into_iter().filter(|line| line.ends_with(DEFINITION));
        let writes: Vec<String> = log.filter(|line| !line.starts_with("GET ")).collect();
        assert_eq!(writes, Vec::<String>::new(), "{upgrade:?}");
        let owner = "it belongs to release \"other\" in namespace \"ns\"";
        let faults = [world.condition("ReleaseFailed"), world.condition("Irreconcilable")];
        assert!(faults.iter().flatten().any(|fault| fault.contains(owner)), "{upgrade:?}: {faults:?}");
        let events = reporting::published(&world).await;
        assert!(events.iter().any(|event| event.starts_with("Warning ") && event.contains(owner)), "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_leaves_what_the_failed_upgrade_adopted() {
    let world = World::new(json!({"maps": ["c"], "value": "1"}));
    adopt(&world);
    world.reconcile().await;
    put_precious(&world.server, json!({"name": "a"}));
    refuse_b(&world, 403, "Forbidden");
    let before = uid(&world);
    world.edit(|p| p["spec"] = spec());
    world.reconcile().await;
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!((uid(&world), left(&world)), (before, [Value::Null, Value::Null, Value::Null]));
    assert_eq!(world.maps(), ["a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn what_an_attempt_adopted_outlives_the_failure_of_a_later_one() {
    for too_many in [false, true] {
        let world = World::new(spec());
        adopt(&world);
        put_precious(&world.server, json!({"name": "a"}));
        let before = uid(&world);
        refuse_b(&world, 503, "ServiceUnavailable");
        world.reconcile().await;
        assert_eq!(world.history(), ["1 pending-install"]);
        if too_many {
            omit_objects(&world.server, 1);
        }
        world.server.accept();
        refuse_b(&world, 403, "Forbidden");
        let world = World::on(world.server.clone());
        world.reconcile().await;
        let expected = (before, vec!["a".into()], vec![]);
        assert_eq!((uid(&world), world.maps(), world.history()), expected, "too many to list: {too_many}");
    }
}

/// Refuses every write of a ConfigMap, as a webhook that is away does.
fn refuse_maps(world: &World) {
    world.server.refuse(|call| {
        let is_write = call.method != http::Method::GET && call.path.starts_with(MAPS);
        is_write.then(|| Error::from_status(503, "ServiceUnavailable", "the webhook is away"))
    });
}

/// Returns the metadata of the ConfigMap `a` that a user creates. Unless it has Helm's marks, makes the resource adopt it.
fn precious(world: &World, annotated: bool) -> Value {
    if !annotated {
        adopt(world);
    }
    if annotated { helms() } else { json!({"name": "a"}) }
}

#[tokio::test(start_paused = true)]
async fn a_failed_install_leaves_what_appeared_after_its_record_was_written() {
    for annotated in [false, true] {
        let world = World::new(spec());
        let metadata = precious(&world, annotated);
        refuse_maps(&world);
        world.reconcile().await;
        assert_eq!((world.history(), world.maps()), (vec!["1 pending-install".to_owned()], vec![]));
        world.server.accept();
        put_precious(&world.server, metadata.clone());
        let before = uid(&world);
        refuse_b(&world, 403, "Forbidden");
        let world = World::on(world.server.clone());
        world.reconcile().await;
        assert_eq!((uid(&world), world.maps(), world.history()), (before, vec!["a".into()], vec![]), "{annotated}");
        assert_eq!(left(&world).each_ref(), [&metadata["labels"], &metadata["annotations"], &Value::Null]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_install_leaves_what_another_release_made_after_its_record_was_written() {
    let world = granting(World::new(spec()).server, Adopt::Any);
    adopt(&world);
    refuse_maps(&world);
    world.reconcile().await;
    assert_eq!((world.history(), world.maps()), (vec!["1 pending-install".to_owned()], vec![]));
    world.server.accept();
    let controller =
        json!({"apiVersion": "demo.io/v1", "kind": "Widget", "name": "web1", "uid": "1", "controller": true});
    let annotations = json!({"meta.helm.sh/release-name": "web1", "meta.helm.sh/release-namespace": "ns"});
    let metadata = json!({"name": "a", "annotations": annotations, "ownerReferences": [controller]});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    world.server.put(&format!("{MAPS}/a"), object, FIELD_MANAGER);
    let before = uid(&world);
    refuse_b(&world, 403, "Forbidden");
    let world = granting(world.server.clone(), Adopt::Any);
    world.reconcile().await;
    assert_eq!((uid(&world), world.maps(), world.history()), (before, vec!["a".into()], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_failed_install_leaves_what_a_backup_restored_with_its_former_managed_fields() {
    let world = World::new(spec());
    refuse_maps(&world);
    world.reconcile().await;
    assert_eq!(world.history(), ["1 pending-install"]);
    world.server.accept();
    put_precious(&world.server, helms());
    let path = format!("{MAPS}/a");
    let mut restored = world.server.object(&path).unwrap();
    restored["metadata"]["managedFields"] = json!([{
        "manager": "helm-operator", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "time": "2020-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:key": {}}},
    }]);
    restored["metadata"]["creationTimestamp"] = "2020-01-02T00:00:00Z".into();
    world.server.change(|server| server.restore(&path, restored));
    let before = uid(&world);
    refuse_b(&world, 403, "Forbidden");
    let world = World::on(world.server.clone());
    world.reconcile().await;
    assert_eq!((uid(&world), world.maps(), world.history()), (before, vec!["a".into()], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_rollback_leaves_what_appeared_after_the_record_of_the_upgrade_was_written() {
    for (annotated, gives_up) in [(false, false), (true, false), (false, true), (true, true)] {
        let world = World::new(json!({"maps": ["c"], "value": "1"}));
        let metadata = precious(&world, annotated);
        world.reconcile().await;
        refuse_maps(&world);
        world.edit(|p| p["spec"] = spec());
        world.reconcile().await;
        assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"]);
        world.server.accept();
        put_precious(&world.server, metadata);
        let before = uid(&world);
        refuse_b(&world, 403, "Forbidden");
        if gives_up {
            world.edit(|p| p["spec"]["value"] = "2".into());
        }
        let world = World::on(world.server.clone());
        world.reconcile().await;
        let newest = if gives_up { "4 deployed" } else { "3 deployed" };
        assert_eq!(world.history().last().unwrap(), newest, "{annotated}");
        assert_eq!((uid(&world), world.maps()), (before, vec!["a".into(), "c".into()]), "{annotated} {gives_up}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_appears_while_a_hook_of_the_install_runs_is_taken_over_once_that_is_noted() {
    for annotated in [false, true] {
        let world = World::new(hooks::with_hooks(json!([hooks::hook("migrate", "pre-install")])));
        let metadata = precious(&world, annotated);
        refuse_b(&world, 403, "Forbidden");
        hooks::reconcile_while(&world, |world| put_precious(&world.server, metadata.clone())).await;
        assert_eq!(world.history(), ["1 pending-install"], "{annotated}");
        let said = world.condition("Irreconcilable").unwrap();
        assert!(said.contains("ConfigMap \"a\" was made by somebody else since this action began"), "{said}");
        let before = uid(&world);
        let expected = [&metadata["labels"], &metadata["annotations"], &Value::Null];
        assert_eq!(left(&world).each_ref(), expected, "{annotated}");
        tokio::time::advance(Duration::from_secs(600)).await;
        hooks::reconcile(&world, "Complete").await;
        assert_eq!((uid(&world), world.maps(), world.history()), (before.clone(), vec!["a".into()], vec![]));
        assert_eq!(left(&world).each_ref(), expected, "{annotated}");
        world.server.accept();
        tokio::time::advance(Duration::from_secs(600)).await;
        hooks::reconcile(&world, "Complete").await;
        assert_eq!((uid(&world), world.history()), (before, vec!["1 deployed".to_owned()]), "{annotated}");
    }
}

/// Reconciles; during a hook, makes `a` with this metadata and then lets the hook fail. Returns the uid of `a`.
async fn appears_before_a_hook_fails(world: &World, metadata: &Value) -> Value {
    let mut made = Value::Null;
    let make = |world: &World| {
        put_precious(&world.server, metadata.clone());
        made = uid(world);
    };
    hooks::reconcile_until(world, make, "Failed").await;
    made
}

#[tokio::test(start_paused = true)]
async fn an_install_whose_hook_fails_leaves_what_appeared_while_the_hook_ran() {
    for annotated in [false, true] {
        let world = World::new(hooks::with_hooks(json!([hooks::hook("migrate", "pre-install")])));
        let metadata = precious(&world, annotated);
        let before = appears_before_a_hook_fails(&world, &metadata).await;
        assert_eq!((uid(&world), world.maps(), world.history()), (before, vec!["a".into()], vec![]), "{annotated}");
        assert_eq!(left(&world).each_ref(), [&metadata["labels"], &metadata["annotations"], &Value::Null]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_continued_install_whose_hook_fails_leaves_what_appeared_although_its_record_had_no_room_for_objects() {
    let world = World::new(hooks::with_hooks(json!([hooks::hook("migrate", "pre-install")])));
    hooks::killed_after(&world, 30).await;
    omit_objects(&world.server, 1);
    let world = World::on(world.server);
    let before = appears_before_a_hook_fails(&world, &helms()).await;
    assert_eq!((uid(&world), world.maps(), world.history()), (before, vec!["a".into()], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_rollback_leaves_what_appeared_while_a_hook_of_the_upgrade_ran_that_failed() {
    for annotated in [false, true] {
        let mut spec = hooks::with_hooks(json!([hooks::hook("migrate", "pre-upgrade")]));
        spec["maps"] = json!(["c"]);
        let world = World::new(spec);
        let metadata = precious(&world, annotated);
        world.reconcile().await;
        world.edit(|p| p["spec"]["maps"] = json!(["a", "b", "c"]));
        let before = appears_before_a_hook_fails(&world, &metadata).await;
        assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"], "{annotated}");
        assert_eq!((uid(&world), world.maps()), (before.clone(), vec!["a".into(), "c".into()]), "{annotated}");
        assert_eq!(left(&world).each_ref(), [&metadata["labels"], &metadata["annotations"], &Value::Null]);
        world.delete();
        world.reconcile().await;
        assert_eq!((world.server.object(PRIMARY), uid(&world), world.maps()), (None, before, vec!["a".into()]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_deleted_while_a_hook_runs_leaves_what_appeared_meanwhile() {
    for (event, maps, waits) in [
        ("pre-install", json!(["a", "b", "c"]), false),
        ("pre-install", json!(["a", "b", "c"]), true),
        ("pre-upgrade", json!(["c"]), false),
        ("pre-upgrade", json!(["c"]), true),
    ] {
        let mut spec = hooks::with_hooks(json!([hooks::hook("migrate", event)]));
        spec["maps"] = maps;
        let world = World::new(spec);
        let wait = json!({"helm.sdk.operatorframework.io/uninstall-wait": waits.to_string()});
        world.edit(|p| p["metadata"]["annotations"] = wait);
        if event == "pre-upgrade" {
            world.reconcile().await;
            world.edit(|p| p["spec"]["maps"] = json!(["a", "b", "c"]));
        }
        let mut before = Value::Null;
        hooks::reconcile_while(&world, |world| {
            put_precious(&world.server, helms());
            before = uid(world);
            world.delete();
        })
        .await;
        assert!(world.server.object(PRIMARY).is_none(), "{event}: it waits for nothing that stays: {waits}");
        assert_eq!((uid(&world), world.maps()), (before, vec!["a".to_owned()]), "{event} {waits}");
        assert_eq!(left(&world).each_ref(), [&helms()["labels"], &helms()["annotations"], &Value::Null]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_that_another_process_continues_leaves_what_appeared_before_an_upgrade_failed() {
    let start = |server| {
        World::with_events(server, Arc::new(Stub::default()), |settings| settings.on_failure = OnFailure::Keep)
    };
    let hooks = json!([hooks::hook("migrate", "pre-upgrade"), hooks::hook("farewell", "pre-delete")]);
    let mut spec = hooks::with_hooks(hooks);
    spec["maps"] = json!(["c"]);
    let world = start(World::new(spec).server);
    world.reconcile().await;
    world.edit(|p| p["spec"]["maps"] = json!(["a", "b", "c"]));
    let before = appears_before_a_hook_fails(&world, &helms()).await;
    assert_eq!(world.history(), ["1 deployed", "2 failed"]);
    world.server.refuse(|call| {
        let is_deletion = call.method == http::Method::DELETE && call.path.starts_with(MAPS);
        is_deletion.then(|| Error::from_status(503, "ServiceUnavailable", "the webhook is away"))
    });
    world.delete();
    hooks::reconcile(&world, "Complete").await;
    // The record of the uninstall lists what only the upgrade has.
    assert_eq!((world.history().first().unwrap().as_str(), world.maps().len()), ("1 uninstalling", 2));
    world.server.accept();
    let world = start(world.server);
    tokio::time::advance(Duration::from_secs(600)).await;
    hooks::reconcile(&world, "Complete").await;
    assert_eq!((world.server.object(PRIMARY), uid(&world), world.maps()), (None, before, vec!["a".into()]));
}

#[tokio::test(start_paused = true)]
async fn a_failed_install_leaves_what_appeared_before_its_turn_came() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "first"}});
    let world = World::new(json!({"objects": [secret], "maps": ["a"], "value": "1"}));
    let server = world.server.clone();
    world.server.refuse(move |call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_first = call.path.starts_with(SECRETS) && body.contains("\"name\":\"first\"");
        if is_first && server.object(&format!("{MAPS}/a")).is_none() {
            put_precious(&server, helms());
        }
        is_first.then(|| Error::from_status(422, "Invalid", "no"))
    });
    world.reconcile().await;
    assert_eq!((world.history(), world.maps()), (vec![], vec!["a".to_owned()]));
    assert_eq!(left(&world).each_ref(), [&helms()["labels"], &helms()["annotations"], &Value::Null]);
    let live = world.server.object(&format!("{MAPS}/a")).unwrap();
    assert_eq!(live["data"], json!({"key": "irreplaceable"}));
}

#[tokio::test(start_paused = true)]
async fn a_failed_upgrade_that_is_kept_owns_nothing_that_it_adopted() {
    let world = World::new(json!({"maps": ["c"], "value": "1"}));
    let server = world.server.clone();
    let keep = |settings: &mut Settings| settings.on_failure = OnFailure::Keep;
    let world = World::with_events(server, Arc::new(Stub::default()), keep);
    adopt(&world);
    world.reconcile().await;
    put_precious(&world.server, json!({"name": "a"}));
    refuse_b(&world, 403, "Forbidden");
    let before = uid(&world);
    world.edit(|p| p["spec"] = spec());
    world.reconcile().await;
    world.delete();
    world.reconcile().await;
    assert_eq!((uid(&world), world.maps()), (before, vec!["a".to_owned()]));
    assert_eq!(left(&world), [Value::Null, Value::Null, Value::Null]);
}

#[tokio::test(start_paused = true)]
async fn what_a_person_keeps_loses_its_owner_and_returns_to_the_resource() {
    for pruned in [false, true] {
        let world = World::new(spec());
        world.reconcile().await;
        let before = uid(&world);
        keep_a(&world);
        if pruned {
            world.edit(|p| p["spec"]["maps"] = json!(["b", "c"]));
        } else {
            world.delete();
        }
        world.reconcile().await;
        let [_, annotations, owners] = left(&world);
        assert_eq!((uid(&world), owners), (before.clone(), Value::Null), "pruned: {pruned}");
        assert_eq!(annotations["operator-sdk/primary-resource"], "ns/web");
        if pruned {
            world.edit(|p| p["spec"]["maps"] = json!(["a", "b", "c"]));
            world.reconcile().await;
            assert_eq!((uid(&world), world.history().last().cloned()), (before, Some("3 deployed".into())));
        }
    }
}

/// Adds the annotation by which a person keeps `a`.
fn keep_a(world: &World) {
    let path = format!("{MAPS}/a");
    let mut object = world.server.object(&path).unwrap();
    object["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
    world.server.put(&path, object, "user");
}

#[tokio::test(start_paused = true)]
async fn what_a_person_keeps_loses_its_owner_before_anything_is_deleted() {
    for (restarts, apply) in [(false, Policy::Server), (true, Policy::Server), (true, Policy::Client)] {
        let writing = |server: Arc<MemoryApi>| {
            World::with_events(server, Arc::new(Stub::default()), |settings| settings.apply = apply)
        };
        let mut world = writing(World::new(spec()).server);
        world.reconcile().await;
        let before = uid(&world);
        keep_a(&world);
        if restarts {
            world = writing(world.server);
        }
        for _ in 0..3 {
            world.reconcile().await;
            let [_, annotations, owners] = left(&world);
            assert_eq!((uid(&world), owners), (before.clone(), Value::Null), "restarts: {restarts}");
            assert_eq!(annotations["operator-sdk/primary-resource"], "ns/web");
        }
        assert_eq!(world.requests().await, 0);
        let value = world.value_of("a");
        // An upgrade does not restore the owner reference.
        world.edit(|p| p["spec"]["value"] = "2".into());
        world.reconcile().await;
        let [_, _, owners] = left(&world);
        assert_eq!((owners, world.value_of("a") == value), (Value::Null, false));
        assert_eq!((world.requests().await, world.history().len()), (0, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_person_keeps_loses_its_owner_although_the_server_refuses_its_repair_or_an_upgrade_failed() {
    for has_failed in [false, true] {
        let server = World::new(spec()).server;
        let world = World::with_events(server, Arc::new(Stub::default()), |settings| {
            settings.on_failure = OnFailure::Keep;
        });
        world.reconcile().await;
        let before = uid(&world);
        // Only the object itself is refused, not a change of its metadata.
        world.server.refuse(|call| {
            let body =
                call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
            let sets_data =
                call.method == http::Method::PATCH && call.path.contains("/configmaps/a") && body.contains("\"data\"");
            sets_data.then(|| Error::from_status(422, "Invalid", "field can not be less than previous value"))
        });
        if has_failed {
            world.edit(|p| p["spec"]["value"] = "2".into());
            world.reconcile().await;
            assert_eq!(world.history().last().unwrap(), "2 failed");
        } else {
            let path = format!("{MAPS}/a");
            let mut object = world.server.object(&path).unwrap();
            object["data"] = json!({"grown": "by a person"});
            world.server.put(&path, object, "user");
            world.reconcile().await;
        }
        keep_a(&world);
        world.reconcile().await;
        if !has_failed {
            // The refused repair is about to be tried again.
            tokio::time::advance(Duration::from_secs(600)).await;
            world.reconcile().await;
        }
        let [_, annotations, owners] = left(&world);
        assert_eq!((uid(&world), owners), (before, Value::Null), "an upgrade failed: {has_failed}");
        assert_eq!(annotations["operator-sdk/primary-resource"], "ns/web");
        let requests = world.requests().await;
        assert!(requests <= 4, "and does so once: {requests}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_person_kept_and_deleted_after_a_failed_upgrade_is_repaired_once_that_is_seen() {
    let server = World::new(spec()).server;
    let world = World::with_events(server, Arc::new(Stub::default()), |settings| {
        settings.on_failure = OnFailure::Keep;
    });
    world.reconcile().await;
    world.server.refuse(|call| {
        let is_b = call.method == http::Method::PATCH && call.path.contains("/configmaps/b");
        is_b.then(|| Error::from_status(422, "Invalid", "no"))
    });
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed", "2 failed"]);
    keep_a(&world);
    world.feed();
    world.server.remove(&format!("{MAPS}/a"));
    let before = world.server.log().len();
    // The event of the deletion is late.
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    let log = world.server.log();
    let reads = log[before..].iter().filter(|line| line.starts_with(&format!("GET {MAPS}/a"))).count();
    world.feed();
    assert_eq!((reads, world.condition("Irreconcilable")), (1, None), "{:?}", &log[before..]);
    world.reconcile().await;
    assert_eq!(world.value_of("a"), "1");
}

#[tokio::test(start_paused = true)]
async fn what_a_person_keeps_has_no_owner_after_its_records_were_removed() {
    for has_status in [true, false] {
        let world = World::new(spec());
        world.reconcile().await;
        let before = uid(&world);
        keep_a(&world);
        world.server.remove(&format!("{SECRETS}/sh.helm.release.v1.web.v1"));
        if !has_status {
            let mut resource = world.server.object(PRIMARY).unwrap();
            resource["status"] = Value::Null;
            world.server.put(PRIMARY, resource, "user");
        }
        let world = World::on(world.server);
        world.delete();
        world.reconcile().await;
        let [_, _, owners] = left(&world);
        assert_eq!(
            (uid(&world), owners, world.maps()),
            (before, Value::Null, vec!["a".into()]),
            "status: {has_status}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_person_keeps_has_no_owner_after_an_interrupted_install_found_it() {
    let world = World::new(spec());
    world.reconcile().await;
    keep_a(&world);
    let before = uid(&world);
    world.delete();
    world.reconcile().await;
    assert_eq!(world.maps(), ["a"]);
    let (path, again) = primary("ns", "web", spec());
    world.server.put(&path, again, "user");
    let world = World::on(world.server);
    refuse_b(&world, 503, "ServiceUnavailable");
    world.reconcile().await;
    assert_eq!(world.history(), ["1 pending-install"]);
    world.server.accept();
    world.delete();
    world.reconcile().await;
    let [_, annotations, owners] = left(&world);
    assert_eq!((uid(&world), owners), (before, Value::Null), "the garbage collector leaves it");
    assert_eq!(annotations["operator-sdk/primary-resource"], "ns/web");
}

/// Removes from a release's record that this operator created it, as if Helm had.
fn disown(world: &World) {
    let path = format!("{SECRETS}/sh.helm.release.v1.web.v1");
    let mut record = world.server.object(&path).unwrap();
    record["metadata"]["annotations"] = json!({});
    record["metadata"]["ownerReferences"] = json!([]);
    let labels = record["metadata"]["labels"].as_object_mut().unwrap();
    labels.retain(|name, _| ["name", "owner", "status", "version"].contains(&name.as_str()));
    world.server.put(&path, record, "helm");
    let paths: Vec<String> = world.maps().iter().map(|name| format!("{MAPS}/{name}")).collect();
    for path in paths {
        let mut object = world.server.object(&path).unwrap();
        object["metadata"]["ownerReferences"] = json!([]);
        world.server.put(&path, object, "helm");
    }
    world.edit(|p| {
        p["status"] = Value::Null;
        p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/adopt": "true"});
    });
}

fn granting(server: Arc<MemoryApi>, adopt: Adopt) -> World {
    World::with_events(server, Arc::new(Stub::default()), |settings| settings.adopt = adopt)
}

#[tokio::test(start_paused = true)]
async fn a_deletion_uninstalls_no_release_that_was_never_taken_over() {
    for adopt in [Adopt::Released, Adopt::Any] {
        let world = World::new(spec());
        world.reconcile().await;
        disown(&world);
        world.edit(|p| p["spec"]["broken"] = true.into());
        let world = granting(world.server, adopt);
        let before: Vec<Value> =
            world.maps().iter().map(|name| world.server.object(&format!("{MAPS}/{name}")).unwrap()).collect();
        world.reconcile().await;
        assert_eq!(world.state("Irreconcilable"), "True/RenderError", "it tried, and failed");
        world.delete();
        world.reconcile().await;
        let after: Vec<Value> =
            world.maps().iter().map(|name| world.server.object(&format!("{MAPS}/{name}")).unwrap()).collect();
        assert_eq!(after, before);
        assert!(world.server.object(&format!("{SECRETS}/sh.helm.release.v1.web.v1")).is_some());
        assert!(world.server.object(PRIMARY).is_none(), "the finalizer is gone");
        // Another resource of that name, which does not request adoption, finds the release as it was.
        let (path, again) = primary("ns", "web", spec());
        world.server.put(&path, again, "user");
        for _ in 0..2 {
            world.reconcile().await;
            assert_eq!(world.state("Irreconcilable"), "True/ReleaseConflict");
            tokio::time::advance(Duration::from_secs(600)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_runs_no_hook_of_another_resources_release_that_was_never_taken_over() {
    for is_suspended in [false, true] {
        let chart_hooks = json!([hooks::hook("farewell", "pre-delete"), hooks::hook("drop", "post-delete")]);
        let world = World::new(hooks::with_hooks(chart_hooks));
        world.reconcile().await;
        let record = world.server.object(&record_path(1)).unwrap();
        put_as_anothers(&world.server, &record_path(1), record);
        for path in world.maps().iter().map(|name| format!("{MAPS}/{name}")) {
            let mut object = world.server.object(&path).unwrap();
            object["metadata"]["annotations"]["operator-sdk/primary-resource-type"] = "Redis.cache.my.domain".into();
            world.server.put(&path, object, "other");
        }
        disown_status(&world);
        match is_suspended {
            true => world.edit(|p| {
                p["metadata"]["annotations"]["helm.sdk.operatorframework.io/suspend"] = "true".into();
            }),
            false => world.edit(|p| p["spec"]["broken"] = true.into()),
        }
        let world = granting(world.server, Adopt::Any);
        let others = || {
            let paths = world.server.paths().into_iter().filter(|path| path != PRIMARY && !path.contains("/events/"));
            paths.map(|path| (world.server.object(&path), path)).collect::<Vec<_>>()
        };
        let before = others();
        world.reconcile().await;
        if is_suspended {
            assert_eq!(world.state("Suspended"), "True/SuspendAnnotation");
        } else {
            assert_eq!(world.state("Irreconcilable"), "True/RenderError", "it tried, and failed");
        }
        world.delete();
        hooks::reconcile(&world, "Complete").await;
        assert!(world.server.object(PRIMARY).is_none(), "the finalizer is gone: suspended: {is_suspended}");
        assert_eq!(others(), before, "suspended: {is_suspended}");
        assert_eq!(hooks::count(&world, &format!("POST {}", hooks::JOBS)), 0, "suspended: {is_suspended}");
    }
}

/// How a resource goes whose takeover of a release failed half-way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepsBack {
    ByDeletion,
    /// It no longer asks for the release when it is deleted.
    AfterWithdrawal,
    /// The process ended before it could write the status.
    Unreported,
    /// The process ended, and the next one serves a chart with another name.
    WithAnotherChart,
    /// Every list fails while the resource is deleted.
    WithoutLists,
}

/// Renders as [`Stub`], as a chart with another name.
struct Renamed(Stub);

impl Renderer for Renamed {
    fn digest(&self) -> String {
        self.0.digest()
    }

    fn chart_name(&self) -> &str {
        "store"
    }

    fn render(&self, request: Request) -> BoxFuture<'_, Result<Rendered, RenderError>> {
        self.0.render(request)
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_goes_gives_back_a_release_that_it_began_to_take_over() {
    use StepsBack::{AfterWithdrawal, ByDeletion, Unreported, WithAnotherChart, WithoutLists};
    for way in [ByDeletion, AfterWithdrawal, Unreported, WithAnotherChart, WithoutLists] {
        let world = World::new(spec());
        world.reconcile().await;
        disown(&world);
        let mut world = granting(world.server, Adopt::Released);
        let before = (uid(&world), left(&world), world.server.object(&record_path(1)));
        refuse_b(&world, 403, "Forbidden");
        world.reconcile().await;
        assert!(left(&world)[2].is_array(), "it has tied the object to itself");
        let status = world.server.object(PRIMARY).unwrap()["status"].take();
        assert_eq!((status["conditions"].is_array(), &status["deployedRelease"]), (true, &Value::Null));
        world.server.accept();
        match way {
            ByDeletion => {}
            AfterWithdrawal => {
                world.edit(|p| p["metadata"]["annotations"] = json!({}));
                world.reconcile().await;
                assert_eq!(world.state("Irreconcilable"), "True/ReleaseConflict");
            }
            Unreported => {
                world.edit(|p| p["status"] = Value::Null);
                world = granting(world.server, Adopt::Released);
            }
            WithAnotherChart => {
                let renamed = Arc::new(Renamed(Stub::default()));
                world = World::with_events(world.server, renamed, |settings| settings.adopt = Adopt::Released);
            }
            WithoutLists => world.server.refuse(|call| {
                let is_list = call.path.contains(CHART_LABEL);
                is_list.then(|| Error::from_status(500, "InternalError", "the conversion webhook is away"))
            }),
        }
        world.delete();
        world.reconcile().await;
        assert!(world.server.object(PRIMARY).is_none(), "the finalizer is gone: {way:?}");
        let [labels, annotations, owners] = left(&world);
        let (before_uid, [_, before_annotations, _], before_record) = before;
        assert_eq!((uid(&world), annotations, owners), (before_uid, before_annotations, Value::Null), "{way:?}");
        assert_eq!(labels, json!({"app.kubernetes.io/managed-by": "Helm"}), "{way:?}");
        assert_eq!((world.maps().len(), world.server.object(&record_path(1))), (3, before_record), "{way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_helm_made_is_taken_over_if_the_watch_grants_it() {
    for (adopt, expected) in [(Adopt::Unowned, "1 deployed"), (Adopt::Released, "2 deployed")] {
        let world = World::new(spec());
        world.reconcile().await;
        disown(&world);
        world.edit(|p| p["spec"]["value"] = "2".into());
        let world = granting(world.server, adopt);
        world.reconcile().await;
        assert_eq!(world.history().last().unwrap(), expected, "{adopt:?}");
        assert_eq!(world.condition("Irreconcilable").is_some(), adopt == Adopt::Unowned);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_replaces_a_hook_object_that_helm_left_in_another_namespace_if_the_watch_grants_any() {
    const JOB: &str = "/apis/batch/v1/namespaces/infra/jobs/farewell";
    let mut spec = spec();
    spec["hooks"] = json!([{"name": "farewell", "namespace": "infra", "events": ["pre-delete"]}]);
    let world = World::new(spec);
    world.reconcile().await;
    disown(&world);
    let world = granting(world.server, Adopt::Any);
    world.reconcile().await;
    assert!(world.shared.cache.release(&key()).is_some_and(|release| release.is_taken_over()));
    let helms = json!({"metadata": {"name": "farewell", "annotations": {"helm.sh/hook": "pre-delete"}}});
    world.server.put(JOB, helms, "helm");
    let before = world.server.object(JOB).unwrap()["metadata"]["uid"].clone();
    world.delete();
    let complete = async {
        loop {
            tokio::time::sleep(SECOND).await;
            let Some(mut job) = world.server.object(JOB) else { continue };
            if job["metadata"]["uid"] != before && job["status"].is_null() {
                job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
                world.server.put(JOB, job, "kube-controller-manager");
            }
        }
    };
    tokio::select! {
        _ = world.reconcile() => {}
        () = complete => unreachable!("it has no end"),
    }
    assert!(world.server.object(PRIMARY).is_none(), "{:?}", world.condition("ReleaseFailed"));
    let after = world.server.object(JOB).expect("it stays, as any hook's")["metadata"]["uid"].clone();
    assert_ne!(after, before);
}

#[tokio::test(start_paused = true)]
async fn an_adoption_that_the_watch_never_grants_is_refused_with_a_reason() {
    let world = World::new(spec());
    adopt(&world);
    let world = granting(world.server, Adopt::Never);
    world.reconcile().await;
    assert!(world.maps().is_empty());
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/InvalidAnnotation/") && condition.contains("adopt: never"), "{condition}");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_somebody_else_in_the_place_of_one_that_an_upgrade_drops_stays_whatever_may_be_adopted() {
    let world = World::new(spec());
    world.reconcile().await;
    let path = format!("{MAPS}/a");
    world.server.remove(&path);
    let another = json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "ns"});
    put_precious(&world.server, json!({"name": "a", "annotations": another}));
    let before = world.server.object(&path);
    adopt(&world);
    world.edit(|p| p["spec"]["maps"] = json!(["b", "c"]));
    let world = granting(world.server, Adopt::Any);
    world.reconcile().await;
    assert_eq!(world.history().last().unwrap(), "2 deployed");
    assert_eq!(world.server.object(&path), before);
    world.delete();
    world.reconcile().await;
    assert_eq!((world.maps(), world.server.object(&path)), (vec!["a".to_owned()], before));
}

/// Records that another resource began to take the release over.
pub(super) async fn begin_takeover(world: &World, status: Status) {
    record_takeover(world, &world.shared.storage, 2, status).await;
}

/// Records, as an operator with this storage does, that another resource began to take the release over with a revision.
async fn record_takeover(world: &World, storage: &Storage, version: u32, status: Status) {
    let read = world.shared.storage.get("ns", "web", version - 1).await.unwrap();
    let marks =
        Marks { owner: "another".into(), owner_type: "Redis.cache.my.domain".into(), ..read.marks.clone().unwrap() };
    let mut release = read.release.facts().clone();
    (release.version, release.info.status) = (version, status);
    storage.create(&release, &marks).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deletion_runs_no_hook_and_deletes_no_record_of_a_release_that_an_operator_with_another_key_took_over() {
    for status in [Status::Deployed, Status::PendingUpgrade] {
        let mut spec = spec();
        spec["hooks"] =
            json!([{"name": "farewell", "events": ["pre-delete"]}, {"name": "drop", "events": ["post-delete"]}]);
        let world = World::new(spec);
        world.reconcile().await;
        world.edit(|p| p["spec"]["value"] = "2".into());
        world.reconcile().await;
        assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
        let another = Storage::new(world.server.clone(), Keyring::new(Key::new(&[2; 32]).unwrap(), Vec::new()));
        record_takeover(&world, &another, 3, status).await;
        if status == Status::Deployed {
            let mut replaced = world.server.object(&record_path(2)).unwrap();
            replaced["metadata"]["labels"]["status"] = "superseded".into();
            world.server.put(&record_path(2), replaced, "other");
            for path in world.maps().iter().map(|name| format!("{MAPS}/{name}")) {
                let mut object = world.server.object(&path).unwrap();
                object["metadata"]["annotations"]["operator-sdk/primary-resource-type"] =
                    "Redis.cache.my.domain".into();
                world.server.put(&path, object, "other");
            }
        }
        let everything = || [1, 2, 3].map(|version| world.server.object(&record_path(version)));
        let (before, a) = (everything(), uid(&world));
        world.delete();
        world.reconcile().await;
        assert_eq!(everything(), before, "{status:?}");
        assert_eq!((uid(&world), world.maps().len()), (a, 3), "{status:?}");
        assert_eq!(hooks::count(&world, &format!("POST {}", hooks::JOBS)), 0, "{status:?}");
        // An action that is under way ends first.
        assert_eq!(world.server.object(PRIMARY).is_none(), status == Status::Deployed);
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_with_another_key_took_over_is_not_taken_back() {
    for is_taken in [true, false] {
        let world = World::new(spec());
        world.reconcile().await;
        let another = Storage::new(world.server.clone(), Keyring::new(Key::new(&[2; 32]).unwrap(), Vec::new()));
        record_takeover(&world, &another, 2, Status::Deployed).await;
        let successor = owned_by_another();
        for path in world.maps().iter().filter(|_| is_taken).map(|name| format!("{MAPS}/{name}")) {
            let mut object = world.server.object(&path).unwrap();
            object["metadata"]["ownerReferences"] = successor.clone();
            world.server.put(&path, object, "other");
        }
        adopt(&world);
        let world = granting(world.server, Adopt::Any);
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(600)).await;
            world.reconcile().await;
        }
        let references = &world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["ownerReferences"];
        assert_eq!(*references == successor, is_taken, "a record alone proves nothing");
        let faults = [world.condition("ReleaseFailed"), world.condition("Irreconcilable")];
        let is_refused = faults.iter().flatten().any(|fault| fault.contains("ReleaseConflict"));
        assert_eq!(is_refused, is_taken, "{faults:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_goes_leaves_its_objects_to_the_one_that_is_taking_them_over() {
    for status in [Status::PendingUpgrade, Status::Failed, Status::Deployed] {
        let world = World::new(spec());
        world.reconcile().await;
        let before = uid(&world);
        begin_takeover(&world, status).await;
        let mut own = world.server.object(&format!("{MAPS}/b")).unwrap();
        let successor = owned_by_another();
        own["metadata"]["ownerReferences"] = successor.clone();
        world.server.put(&format!("{MAPS}/b"), own, "helm-operator");
        world.delete();
        world.reconcile().await;
        assert!(world.server.object(PRIMARY).is_none(), "the finalizer is gone");
        let [_, annotations, references] = left(&world);
        assert_eq!((uid(&world), references), (before, Value::Null), "{status:?}: the garbage collector has no reason");
        assert_eq!(annotations["meta.helm.sh/release-name"], "web");
        assert_eq!(world.server.object(&format!("{MAPS}/b")).unwrap()["metadata"]["ownerReferences"], successor);
        assert!(world.server.object(&format!("{SECRETS}/sh.helm.release.v1.web.v2")).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_goes_leaves_what_another_took_over_although_somebody_deleted_the_records() {
    for (status, is_reported) in [(Status::Deployed, true), (Status::Deployed, false), (Status::Failed, true)] {
        let world = World::new(spec());
        world.reconcile().await;
        let before = uid(&world);
        begin_takeover(&world, status).await;
        if is_reported {
            world.reconcile().await;
            assert_eq!(world.state("Irreconcilable"), "True/ReleaseConflict");
        } else {
            world.feed();
        }
        [1, 2].iter().for_each(|version| world.server.remove(&record_path(*version)));
        world.feed();
        world.delete();
        world.reconcile().await;
        assert_eq!((world.server.object(PRIMARY), world.maps().len()), (None, 3), "{status:?}");
        let [_, _, references] = left(&world);
        assert_eq!((uid(&world), references), (before, Value::Null), "{status:?}: the garbage collector has no reason");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_whose_records_are_lost_deletes_its_objects_although_anothers_were_lost_since() {
    let world = World::new(spec());
    world.reconcile().await;
    let record = world.server.object(&record_path(1)).unwrap();
    world.server.remove(&record_path(1));
    world.feed();
    put_as_anothers(&world.server, &record_path(1), record);
    world.feed();
    world.server.remove(&record_path(1));
    world.feed();
    world.delete();
    world.reconcile().await;
    assert_eq!((world.server.object(PRIMARY), world.maps().len()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn what_another_resource_took_over_is_not_taken_back_after_a_restart() {
    let world = World::new(spec());
    world.reconcile().await;
    let uid = world.server.object(PRIMARY).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    // The other resource's revisions have replaced those of this one.
    begin_takeover(&world, Status::Deployed).await;
    world.server.remove(&format!("{SECRETS}/sh.helm.release.v1.web.v1"));
    let path = format!("{SECRETS}/sh.helm.release.v1.web.v2");
    let mut record = world.server.object(&path).unwrap();
    let marks = &mut record["metadata"]["annotations"][MARKS_ANNOTATION];
    let named = Marks { former: vec![uid.as_str().into()], ..Marks::parse(marks.as_str().unwrap()).unwrap() };
    *marks = named.to_text().into();
    world.server.put(&path, record, "other");
    reseal(&world.server, &path);
    disown_status(&world);
    let before = world.server.object(&path);
    let world = granting(world.server, Adopt::Any);
    for _ in 0..3 {
        world.reconcile().await;
        assert_eq!(world.state("Irreconcilable"), "True/ReleaseConflict");
        assert_eq!(world.server.object(&path), before);
        tokio::time::advance(Duration::from_secs(600)).await;
    }
}

/// Makes a record one that was last written so long ago.
fn silence(world: &World, version: u32, ago: Duration) {
    let path = format!("{SECRETS}/sh.helm.release.v1.web.v{version}");
    let mut record = world.server.object(&path).unwrap();
    let written = jiff::Timestamp::now() - ago;
    let metadata = &mut record["metadata"];
    metadata["creationTimestamp"] = written.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
    for label in ["createdAt", "modifiedAt"] {
        metadata["labels"][label] = written.as_second().to_string().into();
    }
    world.server.put(&path, record, "other");
    reseal(&world.server, &path);
}

/// Removes the release from the status, as a conflict does, and requests to adopt it.
fn disown_status(world: &World) {
    world.edit(|p| {
        p["status"] = Value::Null;
        p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/adopt": "true"});
    });
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_wrote_nothing_cleans_up_nothing_that_another_resource_left() {
    let world = World::new(spec());
    world.reconcile().await;
    let path = record_path(1);
    let mut record = world.server.object(&path).unwrap();
    record["metadata"]["labels"]["status"] = "failed".into();
    put_as_anothers(&world.server, &path, record);
    disown_status(&world);
    let noise: String = (0..62_000).map(|_| format!("{:016x}", outside::random())).collect();
    world.edit(|p| p["spec"]["value"] = noise.into());
    let before = (world.server.object(&path), world.maps());
    let world = granting(world.server, Adopt::Any);
    world.reconcile().await;
    assert_eq!(world.state("ReleaseFailed"), "True/RecordTooLarge", "it tried to take the failed install over");
    assert_eq!((world.server.object(&path), world.maps()), before);
}

#[tokio::test(start_paused = true)]
async fn every_record_names_the_resource_that_a_release_was_taken_from() {
    for (value, status) in [("1", Status::Deployed), ("2", Status::Deployed), ("1", Status::PendingInstall)] {
        let world = World::new(spec());
        world.reconcile().await;
        begin_takeover(&world, status).await;
        world.server.remove(&format!("{SECRETS}/sh.helm.release.v1.web.v1"));
        disown_status(&world);
        world.edit(|p| p["spec"]["value"] = value.into());
        let mut world = granting(world.server, Adopt::Any);
        if status == Status::PendingInstall {
            let before = (world.history(), world.server.object(&format!("{MAPS}/a")));
            world.reconcile().await;
            let waits = world.condition("Irreconcilable").unwrap();
            assert!(waits.contains("is pending-install for another resource, a Redis"), "{waits}");
            assert_eq!((world.history(), world.server.object(&format!("{MAPS}/a"))), before, "the other continues");
            silence(&world, 2, Duration::from_secs(601));
            world = granting(world.server, Adopt::Any);
        }
        for next in ["3", "4"] {
            world.reconcile().await;
            assert_eq!(world.state("Ready"), "True/Ready");
            let release = world.shared.cache.release(&key()).unwrap();
            let marks = release.deployed().unwrap().1.marks.clone().unwrap();
            assert_eq!(marks.former, ["another".into()], "{value}, {:?}", world.history());
            world.edit(|p| p["spec"]["value"] = next.into());
        }
    }
}

/// Returns the spec of a resource whose hook `migrate` runs at this event.
fn migrating(event: &str) -> Value {
    let mut spec = spec();
    spec["hooks"] = json!([hooks::hook("migrate", event)]);
    spec
}

#[tokio::test(start_paused = true)]
async fn a_hook_ends_once_another_resource_has_taken_its_release_over() {
    for event in ["pre-upgrade", "post-upgrade"] {
        let world = World::new(migrating(event));
        world.reconcile().await;
        world.edit(|p| p["spec"]["value"] = "2".into());
        let writes = |world: &World| hooks::count(world, &format!("PATCH {MAPS}"));
        let takeover = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            record_takeover(&world, &world.shared.storage, 3, Status::PendingUpgrade).await;
            world.feed();
            (writes(&world), world.server.object(&record_path(3)))
        };
        let (_, (maps, record)) = tokio::join!(world.reconcile(), takeover);
        assert_eq!(world.history(), ["1 deployed", "2 failed", "3 pending-upgrade"], "{event}");
        assert_eq!(hooks::phases(&world, 2).await, ["migrate Failed"], "{event}");
        assert_eq!(world.server.object(&format!("{}/migrate", hooks::JOBS)), None, "{event}");
        assert_eq!((writes(&world), world.server.object(&record_path(3))), (maps, record), "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_person_keeps_of_a_release_that_was_taken_over_loses_its_former_owner() {
    for keeps in [true, false] {
        let world = World::new(spec());
        world.reconcile().await;
        begin_takeover(&world, Status::Deployed).await;
        world.server.remove(&format!("{SECRETS}/sh.helm.release.v1.web.v1"));
        let former = owned_by_another();
        let mut object = world.server.object(&format!("{MAPS}/a")).unwrap();
        object["metadata"]["ownerReferences"] = former.clone();
        world.server.put(&format!("{MAPS}/a"), object, "helm-operator");
        if keeps {
            keep_a(&world);
        }
        disown_status(&world);
        world.edit(|p| p["spec"]["maps"] = json!(["b", "c"]));
        let world = granting(world.server, Adopt::Any);
        world.reconcile().await;
        assert_eq!(world.history().last().unwrap(), "3 deployed");
        let [_, annotations, references] = left(&world);
        assert_eq!(references, if keeps { Value::Null } else { former }, "what is not kept goes with its owner");
        assert_eq!(annotations["meta.helm.sh/release-name"], "web");
    }
}
