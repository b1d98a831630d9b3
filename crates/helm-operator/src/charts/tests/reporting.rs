//! Tests of what users see of a release over its whole life: events and the status.

use controller::runtime::workers::serve;
use helm_release::kube::Disturbance;
use tokio_util::sync::CancellationToken;

use crate::chart_metrics::Census as _;
use crate::charts::tests::*;
use crate::watches::OverrideValuesType;

/// Returns the events so far, oldest first: type, reason, count, note.
pub(crate) async fn published(world: &World) -> Vec<String> {
    tokio::time::sleep(SECOND).await;
    let said = |event: Value| {
        let text = |field: &str| event[field].as_str().unwrap().to_owned();
        let count = event["series"]["count"].as_u64().unwrap_or(1);
        format!("{} {} x{count}: {}", text("type"), text("reason"), text("note"))
    };
    events(&world.server).into_iter().map(said).collect()
}

fn status(world: &World) -> Value {
    world.server.object(PRIMARY).unwrap()["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn override_values_and_duplicate_objects_are_reported_with_values_hidden_on_request() {
    for (suppressed, value) in [(false, "s3cret"), (true, "****")] {
        let mut spec = spec();
        spec["twice"] = true.into();
        let texts = [("auth.password".to_owned(), "s3cret".to_owned())].into();
        let overrides = Overrides::parse(texts, OverrideValuesType::Typed).unwrap();
        let renderer = Stub { overrides, ..Stub::default() };
        let change = |settings: &mut Settings| settings.suppress_overrides = suppressed;
        let world = World::with_events(World::new(spec).server, Arc::new(renderer), change);
        world.reconcile().await;
        let published = published(&world).await;
        let overridden = format!("Chart value \"auth.password\" overridden to {value:?} by operator's watches.yaml");
        assert!(published.contains(&format!("Normal OverrideValuesInUse x1: {overridden}")), "{published:#?}");
        let duplicates: Vec<_> = published.iter().filter(|event| event.contains("DuplicateObject")).collect();
        assert_eq!(duplicates.len(), 1, "{published:#?}");
        assert!(duplicates[0].contains("ConfigMap \"a\""));
        assert_eq!(world.value_of("a"), "last");
    }
}

#[tokio::test(start_paused = true)]
async fn many_duplicate_objects_are_one_event() {
    let map = |n: u32| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}, "data": {"n": n.to_string()}});
    let objects: Vec<Value> = (0..6).map(map).collect();
    let world = World::with_events(World::new(json!({"objects": objects})).server, Arc::new(Stub::default()), |_| {});
    world.reconcile().await;
    let published = published(&world).await;
    let duplicates: Vec<_> = published.iter().filter(|event| event.contains("DuplicateObject")).collect();
    assert_eq!(duplicates.len(), 1, "{published:#?}");
    assert!(duplicates[0].starts_with("Warning DuplicateObject x1: "), "{duplicates:?}");
    assert_eq!(duplicates[0].matches("renders ConfigMap \"d\"").count(), 3, "{duplicates:?}");
    assert!(duplicates[0].ends_with("; and 2 more"), "{duplicates:?}");
}

#[tokio::test(start_paused = true)]
async fn a_chart_is_rendered_for_the_revision_that_is_made() {
    let renderer = Arc::new(Stub::default());
    let world = World::with_events(World::new(spec()).server, renderer.clone(), |_| {});
    world.reconcile().await;
    let rendered = || std::mem::take(&mut *renderer.revisions.lock().unwrap());
    assert_eq!(rendered(), [1]);
    for (value, expected) in [("2", [1, 2]), ("3", [2, 3])] {
        world.edit(|p| p["spec"]["value"] = value.into());
        world.reconcile().await;
        assert_eq!(rendered(), expected, "as the deployed one, to see whether anything changes, and then as the next");
    }
    world.server.fail_after(Some(2));
    world.edit(|p| p["spec"]["value"] = "4".into());
    world.reconcile().await;
    world.server.fail_after(None);
    rendered();
    world.edit(|p| p["spec"]["value"] = "5".into());
    let world = World::with_events(world.server, renderer.clone(), |_| {});
    world.reconcile().await;
    let made = world.history().last().unwrap().clone();
    assert_eq!((rendered(), made, world.value_of("a")), (vec![5], "5 deployed".to_owned(), json!("5")));
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_status_keeps_the_chart_of_the_running_revision_and_of_no_other() {
    let world = World::new(spec());
    world.reconcile().await;
    let published = json!({"name": "web", "revision": 1, "chart": "memcached-0.1.0", "appVersion": "1.6"});
    assert_eq!(status(&world)["deployedRelease"], published);
    let restarted = |server: Arc<MemoryApi>, release: Value| async move {
        let mut primary = server.object(PRIMARY).unwrap();
        primary["status"]["deployedRelease"] = release;
        server.put(PRIMARY, primary, "someone");
        let world = World::on(server);
        world.reconcile().await;
        (status(&world)["deployedRelease"].clone(), world.server)
    };
    let (same, server) = restarted(world.server, published.clone()).await;
    assert_eq!(same, published);
    let (other, server) = restarted(server, json!({"name": "web", "revision": 7, "chart": "memcached-9"})).await;
    assert_eq!(other, published, "read from the record");
    let (nothing, _) = restarted(server, Value::Null).await;
    assert_eq!(nothing, published);
}

/// Returns a world whose chart takes ten seconds to fail.
fn failing_slowly() -> World {
    World::new(json!({"maps": ["a"], "value": "1", "seconds": 10, "broken": true}))
}

/// Reconciles, and changes the resource meanwhile.
async fn reconcile_while(world: &World, change: impl FnOnce()) {
    tokio::join!(world.reconcile(), async {
        tokio::time::sleep(5 * SECOND).await;
        change();
        world.feed();
    });
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_generation_is_not_reported_as_that_of_the_next_one() {
    let world = failing_slowly();
    let generation = || world.server.object(PRIMARY).unwrap()["metadata"]["generation"].clone();
    let first = generation();
    reconcile_while(&world, || {
        world.edit(|p| {
            p["spec"] = spec();
            p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/reconcile-now": "token"});
        })
    })
    .await;
    assert_eq!(
        (world.state("Ready").as_str(), world.state("Stalled").as_str()),
        ("False/RenderError", "True/RenderError")
    );
    let written = status(&world);
    assert_ne!(generation(), first);
    assert_eq!((&written["observedGeneration"], &written["lastHandled"]), (&first, &Value::Null));
    for condition in written["conditions"].as_array().unwrap() {
        assert_eq!(condition["observedGeneration"], first, "{condition}");
    }
    world.reconcile().await;
    assert_eq!((world.state("Ready"), &status(&world)["observedGeneration"]), ("True/Ready".into(), &generation()));
    assert_eq!(status(&world)["lastHandled"]["reconcileNow"], "token");
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_deleted_resource_is_not_reported_on_another_one_of_its_name() {
    let world = failing_slowly();
    let uid = || world.server.object(PRIMARY).unwrap()["metadata"]["uid"].clone();
    let first = uid();
    reconcile_while(&world, || world.recreate(PRIMARY)).await;
    assert_ne!(uid(), first);
    assert_eq!(status(&world)["conditions"], Value::Null);
    world.reconcile().await;
    assert_eq!(world.state("Ready"), "False/RenderError");
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_its_controller_has_just_changed_is_not_put_back_where_the_list_is_one_field() {
    for now in [Some("True"), None] {
        let world = World::new(spec());
        world.reconcile().await;
        let back_up = |result: Option<&str>| {
            let mut primary = world.server.object(PRIMARY).unwrap();
            let conditions = primary["status"]["conditions"].as_array_mut().unwrap();
            conditions.retain(|condition| condition["type"] != "Backup");
            conditions.extend(result.map(|status| {
                json!({"type": "Backup", "status": status, "reason": "Nightly", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            }));
            world.server.put(PRIMARY, primary, "backup");
        };
        back_up(Some("False"));
        world.edit(|p| p["spec"]["value"] = "2".into());
        world.feed();
        // No event says so.
        back_up(now);
        reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
        let written = status(&world);
        assert_eq!((&written["deployedRelease"]["revision"], world.value_of("a")), (&json!(2), json!("2")));
        let mut backups = written["conditions"].as_array().unwrap().iter().filter(|c| c["type"] == "Backup");
        assert_eq!(backups.next().map(|condition| &condition["status"]), now.map(Value::from).as_ref());
        assert!(backups.next().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_of_others_stay_as_they_are_where_the_list_is_one_field() {
    let world = World::new(spec());
    world.reconcile().await;
    let others = [
        json!({"type": "Backup", "status": "True", "severity": "Info", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}),
        json!({"type": "Quota", "phase": "Exceeded"}),
    ];
    let mut primary = world.server.object(PRIMARY).unwrap();
    primary["status"]["conditions"].as_array_mut().unwrap().extend(others.clone());
    world.server.put(PRIMARY, primary, "others");
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    let written = status(&world);
    assert_eq!(written["deployedRelease"]["revision"], 2);
    let conditions = written["conditions"].as_array().unwrap();
    for other in &others {
        let found: Vec<&Value> = conditions.iter().filter(|condition| condition["type"] == other["type"]).collect();
        assert_eq!(found, [other]);
    }
}

#[tokio::test(start_paused = true)]
async fn operator_sdks_manifest_is_removed_from_the_status() {
    let server = World::new(spec()).server;
    let mut primary = server.object(PRIMARY).unwrap();
    primary["status"] = json!({"deployedRelease": {"name": "web", "manifest": "password: s3cret"}});
    server.put(PRIMARY, primary, "operator-sdk");
    let world = World::on(server);
    world.reconcile().await;
    let release = &status(&world)["deployedRelease"];
    assert_eq!((&release["manifest"], &release["revision"]), (&Value::Null, &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn while_the_server_refuses_the_status_operator_sdks_manifest_waits_like_the_rest() {
    let server = World::new(spec()).server;
    let mut primary = server.object(PRIMARY).unwrap();
    primary["status"] = json!({"deployedRelease": {"name": "web", "manifest": "password: s3cret"}});
    server.put(PRIMARY, primary, "operator-sdk");
    let world = World::on(server);
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    world.server.refuse(move |call| {
        let is_status = call.path.contains("/status");
        counted.fetch_add(usize::from(is_status), Ordering::Relaxed);
        is_status.then(|| Error::from_status(403, "Forbidden", "no"))
    });
    world.reconcile().await;
    let before = sent.load(Ordering::Relaxed);
    world.reconcile().await;
    assert_eq!((before > 0, sent.load(Ordering::Relaxed) - before), (true, 0));
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_release_does_not_appear_in_the_status() {
    let world = World::new(spec());
    world.reconcile().await;
    let path = world.server.paths().into_iter().find(|path| path.contains("sh.helm.release.v1")).unwrap();
    let mut record = world.server.object(&path).unwrap();
    record["metadata"]["annotations"] = Value::Null;
    record["metadata"]["ownerReferences"] = json!([{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x"}]);
    let labels = json!({"owner": "helm", "name": "web", "version": "1", "status": "deployed"});
    record["metadata"]["labels"] = labels;
    let server = World::new(spec()).server;
    server.put(&path, record, "helm");
    let world = World::with_events(server, Arc::new(Stub::default()), |_| {});
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/ReleaseConflict/release \"web\""));
    assert_eq!(status(&world)["deployedRelease"], Value::Null);
    assert!(world.maps().is_empty());
    assert_eq!(published(&world).await.iter().filter(|said| said.contains("ReleaseConflict x1")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn while_waiting_for_its_objects_a_deleted_resource_shows_no_release() {
    let world = World::unwatched(World::new(spec()).server, |_| {});
    world.reconcile().await;
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}));
    let path = format!("{MAPS}/b");
    let mut held = world.server.object(&path).unwrap();
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.server.put(&path, held, "someone");
    world.delete();
    assert_eq!(world.reconcile().await, ReconcileResult::RequeueAfter);
    assert_eq!(status(&world)["deployedRelease"], Value::Null);
    // No watch reports the deletion, so it is polled.
    let began = Instant::now();
    let watches = async {
        tokio::time::sleep(30 * SECOND).await;
        let mut free = world.server.object(&path).unwrap();
        free["metadata"]["finalizers"] = Value::Null;
        world.server.put(&path, free, "someone");
        world.server.remove(&path);
        while world.server.object(PRIMARY).is_some() && began.elapsed() < 60 * SECOND {
            tokio::time::sleep(SECOND / 10).await;
        }
    };
    world.open();
    let shutdown = CancellationToken::new();
    tokio::select! {
        () = watches => {}
        _ = serve(&world.shared, &shutdown, ConcurrencyLimit::default().for_controller(1)) => unreachable!(),
    }
    assert!(began.elapsed() < 40 * SECOND, "{:?} {:#?} {}", began.elapsed(), world.server.log(), status(&world));
    let looks =
        world.server.log().iter().filter(|line| line.contains("DELETE") && line.contains("configmaps/b")).count();
    assert!(looks < 20, "two requests in five seconds: {looks}");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_hook_occupies_no_worker() {
    let mut spec = spec();
    spec["hooks"] = json!([{"name": "slow", "events": ["pre-install"]}]);
    let world = World::new(spec);
    let other = world.add("ns", "other", json!({"maps": ["x"]}));
    world.feed();
    let ready = async {
        while world.server.object(&format!("{MAPS}/x")).is_none() || world.condition_of(&other, "Ready").is_none() {
            tokio::time::sleep(SECOND / 10).await;
        }
    };
    world.open();
    let shutdown = CancellationToken::new();
    tokio::select! {
        () = ready => {}
        () = tokio::time::sleep(60 * SECOND) => panic!("the only worker waits for the hook"),
        _ = serve(&world.shared, &shutdown, ConcurrencyLimit::default().for_controller(1)) => unreachable!(),
    }
    assert!(world.maps() == ["x"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_whose_pod_cannot_be_scheduled_says_so_in_status_and_event() {
    let mut spec = spec();
    spec["hooks"] = json!([{"name": "slow", "events": ["pre-install"]}]);
    let world = World::with_events(World::new(spec).server, Arc::new(Stub::default()), |_| {});
    world.server.serve("v1", "Pod", "pods");
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"});
    let pod = |job: &Value| {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "slow", "uid": job["metadata"]["uid"], "controller": true});
        let metadata = json!({"name": "slow-x", "labels": {"job-name": "slow"}, "ownerReferences": [owner]});
        json!({"metadata": metadata, "status": {"phase": "Pending", "conditions": [condition]}})
    };
    let path = "/apis/batch/v1/namespaces/ns/jobs/slow";
    let seen = async {
        loop {
            if let Some(mut job) = world.server.object(path)
                && job["spec"]["selector"].is_null()
            {
                world.server.put("/api/v1/namespaces/ns/pods/slow-x", pod(&job), "kubelet");
                job["spec"]["selector"] = json!({"matchLabels": {"job-name": "slow"}});
                world.server.put(path, job, "kube-controller-manager");
            }
            if world.condition("Reconciling").is_some_and(|said| said.contains("Unschedulable")) {
                return;
            }
            tokio::time::sleep(SECOND).await;
        }
    };
    let limit = tokio::time::sleep(60 * SECOND);
    tokio::select! {
        () = seen => {}
        () = limit => panic!("{:#}", status(&world)),
        _ = world.reconcile() => unreachable!("the hook never ends"),
    }
    let said = world.condition("Reconciling").unwrap();
    let cause = "pod \"slow-x\": Unschedulable: 0/1 nodes are available";
    assert!(said.contains("waiting for Job \"slow\"") && said.ends_with(cause), "{said}");
    let events = published(&world).await;
    let event = format!("Warning HookWaiting x1: hook Job \"slow\" waits: {cause}");
    assert!(events.contains(&event), "{events:#?}");
}

/// Creates a resource that was installed and deleted, with the hook `bye` at this event of its uninstall.
async fn deleted_with_hook(event: &str) -> World {
    let mut spec = spec();
    spec["hooks"] = json!([{"name": "bye", "events": [event]}]);
    let world = World::with_events(World::new(spec).server, Arc::new(Stub::default()), |_| {});
    world.reconcile().await;
    world.delete();
    world
}

/// Ends the Job `bye` in this way whenever it runs.
async fn end_job(world: &World, how: &str) {
    let path = "/apis/batch/v1/namespaces/ns/jobs/bye";
    loop {
        if let Some(mut job) = world.server.object(path)
            && job["status"].is_null()
        {
            job["status"]["conditions"] = json!([{"type": how, "status": "True", "message": "no disk"}]);
            world.server.put(path, job, "kube-controller-manager");
        }
        tokio::time::sleep(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn giving_up_on_a_post_delete_hook_is_reported() {
    let world = deleted_with_hook("post-delete").await;
    let tries = async {
        while world.server.object(PRIMARY).is_some() {
            world.reconcile().await;
            tokio::time::advance(600 * SECOND).await;
        }
    };
    tokio::select! {
        () = tries => {}
        () = end_job(&world, "Failed") => unreachable!(),
    }
    let published = published(&world).await;
    let given_up =
        "Warning HookGivenUp x1: a post-delete hook failed 5 times, so the release is uninstalled without it: ";
    assert!(published.iter().any(|said| said.starts_with(given_up) && said.contains("no disk")), "{published:#?}");
}

#[tokio::test(start_paused = true)]
async fn skipping_a_hook_in_a_terminating_namespace_is_reported() {
    let world = deleted_with_hook("pre-delete").await;
    world.server.refuse(|call| {
        let refused = call.method == http::Method::POST && call.path.contains("/jobs");
        refused.then(|| Error::from_status(403, "NamespaceTerminating", "namespace ns is being terminated"))
    });
    world.reconcile().await;
    let published = published(&world).await;
    let left_out = "Warning HookSkipped x1: the release is uninstalled without a hook: ";
    assert!(published.iter().any(|said| said.starts_with(left_out)), "{published:#?}");
    assert!(world.server.object(PRIMARY).is_none());
}

#[tokio::test(start_paused = true)]
async fn hooks_that_an_uninstall_ran_are_not_run_again_when_the_rest_failed() {
    let world = deleted_with_hook("pre-delete").await;
    world.feed();
    world.server.disturb("DELETE /api/v1/namespaces/ns/configmaps", 1, Disturbance::Refused(500));
    let of = key();
    let twice = async {
        assert_eq!(reconcile::reconcile(&world.shared, &of, &(), Priority::Retry).await, ReconcileResult::Error);
        tokio::time::advance(600 * SECOND).await;
        // No watch has delivered what the first attempt recorded.
        reconcile::reconcile(&world.shared, &of, &(), Priority::Retry).await;
    };
    tokio::select! {
        () = twice => {}
        () = end_job(&world, "Complete") => unreachable!(),
    }
    assert_eq!(world.server.log().iter().filter(|line| line.starts_with("POST /apis/batch")).count(), 1);
    assert!(world.server.object(PRIMARY).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fight_over_many_objects_names_three_of_them() {
    let names = ["a", "b", "c", "d", "e"];
    let world = World::new(json!({"maps": names, "value": "1"}));
    world.reconcile().await;
    for _ in 0..8 {
        for name in names {
            let path = format!("{MAPS}/{name}");
            let mut changed = world.server.object(&path).unwrap();
            changed["data"]["value"] = "mine".into();
            world.server.put(&path, changed, "fighter");
        }
        world.reconcile().await;
    }
    let said = world.condition("Irreconcilable").unwrap();
    assert_eq!(said.matches("fighter keeps changing").count(), 3, "{said}");
    assert!(said.contains("; and 2 more objects; release \"web\" restores them"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_upgrade_each_condition_says_something_else_and_the_recovery_is_the_last_event() {
    let world = World::with_events(World::new(spec()).server, Arc::new(Stub::default()), |_| {});
    world.reconcile().await;
    assert_eq!(status(&world)["readyObjects"], "3/3");
    assert_eq!(world.condition("Ready").unwrap(), "True/Ready/3 objects ready, chart memcached-0.1.0, revision 1");
    world.server.refuse(|call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_bad = call.path.contains("/configmaps/b") && body.contains("\"value\":\"bad\"");
        is_bad.then(|| Error::from_status(422, "Invalid", "no"))
    });
    world.edit(|p| p["spec"]["value"] = "bad".into());
    world.reconcile().await;
    let deployed = "revision 3 of chart memcached-0.1.0 is still deployed; rolled back to revision 1";
    assert_eq!(world.condition("Deployed").unwrap(), format!("True/RollbackSuccessful/{deployed}"));
    let failure = "UpgradeError/cannot apply ConfigMap \"b\": no";
    assert_eq!(world.condition("ReleaseFailed").unwrap(), format!("True/{failure}"));
    assert_eq!(world.condition("Ready").unwrap(), format!("False/{failure}"));
    let conditions = status(&world)["conditions"].to_string();
    assert_eq!(conditions.matches("cannot apply ConfigMap").count(), 2, "{conditions}");
    // A restart keeps that knowledge.
    let world = World::with_events(world.server, Arc::new(Stub::default()), |_| {});
    world.server.accept();
    world.edit(|p| p["spec"]["value"] = "1".into());
    tokio::time::sleep(60 * SECOND).await;
    world.reconcile().await;
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!(world.condition("Deployed").unwrap(), "True/RollbackSuccessful/rolled back to revision 1");
    let recovered =
        "Normal Recovered x1: recovered from UpgradeError: 3 objects ready, chart memcached-0.1.0, revision 3";
    assert_eq!(published(&world).await.last().unwrap(), recovered);
}

#[tokio::test(start_paused = true)]
async fn values_and_annotations_without_effect_are_reported_once_for_each_change() {
    let mut odd = spec();
    odd["mpas"] = json!([]);
    let world = World::with_events(World::new(odd).server, Arc::new(Stub::default()), |_| {});
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/suspnd": "true"}));
    world.reconcile().await;
    let unread = "UnreadValues/no template of the chart reads spec.mpas (did you mean spec.maps?)";
    let ignored = "annotation helm.sdk.operatorframework.io/suspnd is unknown; did you mean helm.sdk.operatorframework.io/suspend?";
    assert_eq!(world.condition("UnreadValues").unwrap(), format!("True/{unread}"));
    assert_eq!(world.condition("IgnoredAnnotations").unwrap(), format!("True/IgnoredAnnotations/{ignored}"));
    assert!(world.condition("Ready").unwrap().starts_with("True/"));
    // A restart renders nothing, and keeps the findings of this generation.
    let world = World::with_events(world.server.clone(), Arc::new(Stub::default()), |_| {});
    assert_eq!(world.requests().await, 0);
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    assert_eq!(world.condition("UnreadValues").unwrap(), format!("True/{unread}"));
    let events = published(&world).await;
    let said: Vec<&String> = events.iter().filter(|e| e.contains("Unread") || e.contains("Ignored")).collect();
    let expected =
        [format!("Warning UnreadValues x1: {}", &unread[13..]), format!("Warning IgnoredAnnotations x1: {ignored}")];
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(expected.iter().all(|event| said.contains(&event)), "{said:?}");
    world.edit(|p| _ = p["spec"].as_object_mut().unwrap().remove("mpas"));
    world.edit(|p| p["metadata"]["annotations"] = json!({}));
    world.reconcile().await;
    assert_eq!((world.condition("UnreadValues"), world.condition("IgnoredAnnotations")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn resources_that_are_left_alone_are_counted_by_the_annotation_that_asks_for_it() {
    let world = World::new(spec());
    world.reconcile().await;
    for (annotations, expected) in [
        (&[][..], [0, 0]),
        (&["suspend"], [1, 0]),
        // A pause leaves more alone.
        (&["suspend", "pause"], [0, 1]),
        (&["install-wait"], [0, 0]),
    ] {
        let set = annotations.iter().map(|name| (format!("helm.sdk.operatorframework.io/{name}"), json!("true")));
        let set: serde_json::Map<String, Value> = set.collect();
        world.edit(|primary| primary["metadata"]["annotations"] = set.into());
        world.reconcile().await;
        let left_alone = world.shared.count().left_alone;
        assert_eq!([left_alone["suspend"], left_alone["pause"]], expected, "{annotations:?}");
    }
}
