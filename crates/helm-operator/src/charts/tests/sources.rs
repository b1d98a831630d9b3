//! Tests of `valuesFrom`: Secrets and ConfigMaps below the `spec`, and the effect of their changes, absence and
//! permissions.

use helm_release::kube::Disturbance;

use super::hooks::{JOBS, reconcile_while};
use super::*;
use crate::values_from::{SourceKey, ValuesSource};

const HIDDEN: &str = "hunter2";

/// Creates a controller that reads these sources for each resource, and allows the annotation.
fn reading(server: Arc<MemoryApi>, sources: &str) -> World {
    let sources: Vec<ValuesSource> = serde_json::from_str(sources).unwrap();
    World::with_events(server, Arc::new(Stub::default()), |settings| {
        settings.values_from = sources;
        settings.values_from_annotation = crate::watches::AnnotationSources::Own;
    })
}

fn secret(world: &World, namespace: &str, name: &str, data: &[(&str, &str)]) {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let data: serde_json::Map<_, _> = data.iter().map(|(key, text)| ((*key).to_owned(), encode(text).into())).collect();
    let object = json!({"metadata": {"name": name}, "data": data});
    world.server.put(&format!("/api/v1/namespaces/{namespace}/secrets/{name}"), object, "user");
}

/// One Secret for each resource.
const OWN: &str = r#"[{"kind": "Secret", "name": "$(name)-values"}]"#;
/// One Secret for all resources of a namespace.
const SHARED: &str = r#"[{"kind": "Secret", "name": "shared"}]"#;

fn world(sources: &str) -> World {
    reading(World::new(json!({"maps": ["a"]})).server, sources)
}

async fn installed() -> World {
    let world = world(OWN);
    secret(&world, "ns", "web-values", &[("values.yaml", "value: hunter2")]);
    world.reconcile().await;
    world
}

/// Returns everything that people see of a resource.
fn visible(world: &World) -> String {
    let status = &world.server.object(PRIMARY).unwrap()["status"];
    format!(
        "{status} {:?} {}",
        events(&world.server),
        world.shared.metrics.encode(controller::metrics::Format::Classic)
    )
}

#[tokio::test(start_paused = true)]
async fn a_source_lies_below_the_spec_and_a_change_of_it_upgrades() {
    let world = installed().await;
    assert_eq!((world.value_of("a"), world.history()), (json!(HIDDEN), vec!["1 deployed".to_owned()]));
    secret(&world, "ns", "web-values", &[("values.yaml", "{value: two, maps: [x]}")]);
    assert_eq!(world.requests().await, 6, "one read of the source, and an upgrade");
    assert_eq!((world.value_of("a"), world.maps()), (json!("two"), vec!["a".to_owned()]));
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
    assert_eq!(world.requests().await, 0);
    assert!(!visible(&world).contains(HIDDEN));
}

#[tokio::test(start_paused = true)]
async fn a_restart_reads_each_source_once_and_changes_nothing() {
    let world = installed().await;
    let writes = world.server.writes();
    let world = reading(world.server, OWN);
    assert_eq!(world.requests().await, 1);
    assert_eq!((world.requests().await, world.server.writes()), (0, writes));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_other_keys_or_of_metadata_renders_nothing() {
    let world = installed().await;
    secret(&world, "ns", "web-values", &[("values.yaml", "value: hunter2"), ("other", "x")]);
    assert_eq!(world.requests().await, 1, "the read");
    assert_eq!(world.history(), ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_content_under_another_name_is_no_change() {
    let world = installed().await;
    secret(&world, "ns", "renamed", &[("values.yaml", "value: hunter2")]);
    let world = reading(world.server, r#"[{"kind": "Secret", "name": "renamed"}]"#);
    let writes = world.server.writes();
    world.reconcile().await;
    assert_eq!((world.server.writes(), world.history()), (writes, vec!["1 deployed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_missing_source_is_reported_and_its_arrival_installs_at_once() {
    let world = world(OWN);
    world.reconcile().await;
    assert!(world.maps().is_empty());
    let expected = "True/ValuesSourceMissing/Secret \"web-values\", key \"values.yaml\", in namespace \"ns\": Secret does not exist";
    assert_eq!(world.condition("Irreconcilable").unwrap(), expected);
    assert_eq!(world.requests().await, 0, "it is not asked for again at once");
    secret(&world, "ns", "web-values", &[("other", "x")]);
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").unwrap().ends_with("Secret has no such key"));
    secret(&world, "ns", "web-values", &[("values.yaml", "value: hunter2")]);
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.condition("Irreconcilable")), (json!(HIDDEN), None));
}

#[tokio::test(start_paused = true)]
async fn a_missing_source_is_installed_at_once_after_a_restart_too() {
    let world = world(OWN);
    world.reconcile().await;
    let world = reading(world.server, OWN);
    world.reconcile().await;
    secret(&world, "ns", "web-values", &[("values.yaml", "value: hunter2")]);
    world.reconcile().await;
    assert_eq!(world.maps(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_source_keeps_the_release_and_its_drift_is_repaired() {
    let world = installed().await;
    world.server.remove(&format!("{SECRETS}/web-values"));
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").unwrap().contains("ValuesSourceMissing"));
    assert_eq!((world.value_of("a"), world.history()), (json!(HIDDEN), vec!["1 deployed".to_owned()]));
    world.server.remove(&format!("{MAPS}/a"));
    world.reconcile().await;
    assert_eq!(world.value_of("a"), HIDDEN);
    world.delete();
    world.reconcile().await;
    assert!(world.server.object(PRIMARY).is_none(), "a deletion needs no source");
}

#[tokio::test(start_paused = true)]
async fn an_optional_source_counts_when_it_appears_and_when_it_goes() {
    let sources = r#"[{"kind": "ConfigMap", "name": "base"},
        {"kind": "Secret", "name": "$(name)-values", "valuesKey": "v", "targetPath": "value", "optional": true}]"#;
    let world = world(sources);
    let base = json!({"metadata": {"name": "base"}, "data": {"values.yaml": "value: base"}});
    world.server.put(&format!("{MAPS}/base"), base, "user");
    world.reconcile().await;
    assert_eq!(world.value_of("a"), "base");
    secret(&world, "ns", "web-values", &[("v", "true")]);
    world.reconcile().await;
    assert_eq!(world.value_of("a"), json!("true"), "a target path takes text");
    secret(&world, "ns", "web-values", &[("w", "x")]);
    world.reconcile().await;
    assert_eq!(world.value_of("a"), "base", "the key may be missing, too");
    secret(&world, "ns", "web-values", &[("v", "x")]);
    world.reconcile().await;
    world.server.remove(&format!("{SECRETS}/web-values"));
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history().len()), (json!("base"), 3));
}

#[tokio::test(start_paused = true)]
async fn an_optional_source_whose_path_is_not_served_for_a_moment_does_not_count_as_gone() {
    let world =
        world(r#"[{"kind": "Secret", "name": "shared", "valuesKey": "v", "targetPath": "value", "optional": true}]"#);
    secret(&world, "ns", "shared", &[("v", "one")]);
    world.reconcile().await;
    secret(&world, "ns", "shared", &[("v", "two")]);
    let unserved = || Error::from_status(404, "", "404 page not found");
    world.server.refuse(move |call| call.path.ends_with("/secrets/shared").then(unserved));
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history().len()), (json!("one"), 1));
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/Unanswered/cannot read Secret"));
    world.server.accept();
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history().len()), (json!("two"), 2));
}

#[tokio::test(start_paused = true)]
async fn resources_share_a_source_within_their_namespace_only() {
    let world = world(SHARED);
    let (two, far) = (world.add("ns", "two", json!({"maps": ["b"]})), world.add("far", "web", json!({"maps": ["c"]})));
    secret(&world, "ns", "shared", &[("values.yaml", "value: near")]);
    secret(&world, "far", "shared", &[("values.yaml", "value: far")]);
    let far_value = || world.server.object("/api/v1/namespaces/far/configmaps/c").unwrap()["data"]["value"].clone();
    for key in [&key(), &two, &far] {
        world.reconcile_one(key).await;
    }
    assert_eq!((world.value_of("a"), world.value_of("b"), far_value()), (json!("near"), json!("near"), json!("far")));
    assert_eq!(world.shared.sources.len(), 2);
    world.open();
    while futures::FutureExt::now_or_never(world.shared.queue.next()).is_some() {}
    [key(), two.clone(), far.clone()].iter().for_each(|key| world.shared.queue.done(key));
    secret(&world, "ns", "shared", &[("values.yaml", "value: changed")]);
    world.feed();
    let mut woken = Vec::new();
    while let Some(key) = futures::FutureExt::now_or_never(world.shared.queue.next()) {
        woken.push(key);
    }
    woken.sort();
    assert_eq!(woken, [two.clone(), key()], "only those that depend on it");
    world.reconcile_one(&two).await;
    world.reconcile().await;
    assert_eq!(
        (world.value_of("a"), world.value_of("b"), far_value()),
        (json!("changed"), json!("changed"), json!("far"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_event_was_missed_is_found_by_the_next_list() {
    let world = installed().await;
    world.server.remove(&format!("{SECRETS}/web-values"));
    secret(&world, "ns", "web-values", &[("values.yaml", "value: two")]);
    world.reconcile().await;
    assert_eq!(world.value_of("a"), "two", "deleted and created again");
}

#[tokio::test(start_paused = true)]
async fn a_resource_waits_while_the_sources_of_others_are_read() {
    let world = world(OWN);
    secret(&world, "ns", "web-values", &[("values.yaml", "value: hunter2")]);
    let held = [world.shared.sources.loading().await, world.shared.sources.loading().await];
    let waits = tokio::time::timeout(SECOND, world.reconcile()).await.is_err();
    assert!(waits && !world.server.log().contains(&format!("GET {SECRETS}/web-values")));
    drop(held);
    world.reconcile().await;
    assert_eq!(world.value_of("a"), HIDDEN);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_read_is_read_again() {
    let world = installed().await;
    let server = world.server.clone();
    let feeder = Arc::downgrade(&world.shared.sources);
    secret(&world, "ns", "web-values", &[("values.yaml", "value: two")]);
    world.server.refuse(move |call| {
        if call.path.ends_with("/secrets/web-values") && call.body.is_none() {
            let object = server.object(&format!("{SECRETS}/web-values")).unwrap();
            let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            let kind = SourceKind::Secret;
            let key = SourceKey { kind, namespace: "ns".into(), name: "web-values".into() };
            let handler = SourceHandler { sources: feeder.clone(), kind };
            handler.changed(
                SourceMeta { key, version: version + 1 },
                Epoch { number: 1, began: Instant::now(), is_list: false },
            );
        }
        None
    });
    world.reconcile().await;
    world.server.accept();
    assert_eq!(world.value_of("a"), "two");
    let before = world.server.log().len();
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    let log = world.server.log()[before..].to_vec();
    assert_eq!(log, [format!("GET {SECRETS}/web-values")], "what it read may have been older than the event");
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_changes_while_sources_are_read_is_not_lost() {
    let world = installed().await;
    let (server, shared) = (world.server.clone(), Arc::downgrade(&world.shared));
    let edited = std::sync::atomic::AtomicBool::new(false);
    secret(&world, "ns", "web-values", &[("values.yaml", "value: two")]);
    world.server.refuse(move |call| {
        let reads = call.path.ends_with("/secrets/web-values") && call.body.is_none();
        if reads && !edited.swap(true, Ordering::Relaxed) {
            let mut primary = server.object(PRIMARY)?;
            primary["spec"]["maps"] = json!(["a", "b"]);
            primary["metadata"]["generation"] = (primary["metadata"]["generation"].as_i64()? + 1).into();
            server.put(PRIMARY, primary, "user");
            shared.upgrade()?.primary_written(serde_json::from_value(server.object(PRIMARY)?).ok()?);
        }
        None
    });
    world.reconcile().await;
    world.server.accept();
    world.reconcile().await;
    assert_eq!(world.maps(), ["a", "b"]);
    assert_eq!(world.value_of("b"), "two");
}

#[tokio::test(start_paused = true)]
async fn a_failed_render_is_repeated_at_once_with_the_contents_that_came_meanwhile() {
    let world = installed().await;
    world.edit(|p| (p["spec"]["seconds"], p["spec"]["broken"]) = (20.into(), true.into()));
    world.feed();
    let of = key();
    let reconcile = || reconcile::reconcile(&world.shared, &of, &(), Priority::Retry);
    let come = async {
        tokio::time::sleep(10 * SECOND).await;
        secret(&world, "ns", "web-values", &[("values.yaml", "value: two")]);
        world.feed();
        futures::future::pending::<()>().await
    };
    let first = tokio::select! { result = reconcile() => result, () = come => unreachable!("it has no end") };
    assert_eq!(first, ReconcileResult::Error);
    assert_eq!(reconcile().await, ReconcileResult::Error, "the old contents failed, not the new ones");
    assert_eq!(reconcile().await, ReconcileResult::RequeueAfter, "the new ones have failed, too");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_resource_leaves_nothing_behind_and_a_suspended_one_watches_nothing() {
    let world = installed().await;
    assert_eq!(world.shared.sources.len(), 1);
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/suspend": "true"}));
    world.reconcile().await;
    assert_eq!(world.shared.sources.len(), 0);
    world.edit(|p| p["metadata"]["annotations"] = json!({}));
    world.reconcile().await;
    assert_eq!(world.shared.sources.len(), 1);
    world.delete();
    world.reconcile().await;
    assert_eq!(world.shared.sources.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn missing_rights_name_the_rule_to_add() {
    let world = installed().await;
    let world = reading(world.server, OWN);
    let forbid = |call: &helm_release::kube::Call| {
        call.path
            .ends_with("/web-values")
            .then(|| Error::from_status(403, "Forbidden", "secrets \"web-values\" is forbidden"))
    };
    world.server.refuse(forbid);
    world.reconcile().await;
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(
        condition.starts_with("True/ValuesSourceForbidden/cannot read Secret \"web-values\" in namespace \"ns\""),
        "{condition}"
    );
    assert!(condition.ends_with("{apiGroups: [\"\"], resources: [secrets], verbs: [get, list, watch]}"), "{condition}");
    world.server.accept();
    tokio::time::advance(Duration::from_secs(1)).await;
    world.reconcile().await;
    assert_eq!(world.condition("Irreconcilable"), None);
    world.shared.sources.refused(SourceKind::Secret, &WatchScope::ALL, "the server refuses to list them");
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    assert!(world.condition("Irreconcilable").unwrap().contains("refuses to list them; add this rule"));
    world.reconcile().await;
    assert_eq!(world.condition("Irreconcilable"), None, "a list that succeeds ends it");
}

#[tokio::test(start_paused = true)]
async fn an_outage_while_reading_is_retried_and_changes_nothing() {
    let world = installed().await;
    let world = reading(world.server, OWN);
    world.server.disturb("GET /api/v1/namespaces/ns/secrets/web-values", 1, Disturbance::Unreachable);
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed"]);
    tokio::time::advance(Duration::from_secs(1)).await;
    world.reconcile().await;
    assert_eq!((world.condition("Irreconcilable"), world.history()), (None, vec!["1 deployed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn errors_and_notes_never_quote_a_secret() {
    let world = world(OWN);
    secret(&world, "ns", "web-values", &[("values.yaml", "a: 1\nvalue: [hunter2\n")]);
    world.reconcile().await;
    let expected = "True/InvalidValues/Secret \"web-values\", key \"values.yaml\", line 2: is not valid YAML";
    assert_eq!(world.condition("Irreconcilable").unwrap(), expected);
    secret(&world, "ns", "web-values", &[("values.yaml", "{told: hunter2, broken: true}")]);
    world.reconcile().await;
    assert!(
        world.condition("Irreconcilable").unwrap().ends_with("<fail>: no ****"),
        "{:?}",
        world.condition("Irreconcilable")
    );
    secret(&world, "ns", "web-values", &[("values.yaml", "told: hunter2")]);
    world.reconcile().await;
    assert_eq!(world.condition("Deployed").unwrap(), "True/InstallSuccessful/enjoy ****");
    assert!(!visible(&world).contains(HIDDEN));
    let record = world.shared.storage.get("ns", "web", 1).await.unwrap().release.facts().clone();
    assert_eq!(record.config["told"], HIDDEN, "as with Helm, the record has the values");
}

#[tokio::test(start_paused = true)]
async fn a_resource_may_name_its_own_sources_where_the_watch_allows_it() {
    let world = installed().await;
    secret(&world, "ns", "mine", &[("values.yaml", "value: mine")]);
    let annotation = |text: &str| {
        let text = text.to_owned();
        world.edit(move |p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/values-from": text}));
    };
    annotation("- {kind: Secret, name: mine}");
    world.reconcile().await;
    assert_eq!(world.value_of("a"), "mine", "over those of the watch");
    annotation("- {kind: Secret, name: mine, namespace: far}");
    world.reconcile().await;
    let expected =
        "True/InvalidAnnotation/annotation values-from: valuesFrom[0]: namespace is only for cluster-scoped resources";
    assert_eq!(world.condition("Irreconcilable").unwrap(), expected);
    annotation("- {kind: Pod, name: mine}");
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/InvalidAnnotation/annotation values-from: "));
    let refusing = World::on(world.server.clone());
    tokio::time::advance(Duration::from_secs(60)).await;
    refusing.reconcile().await;
    let condition = refusing.condition("Irreconcilable").unwrap();
    assert!(condition.ends_with("its watches.yaml lacks valuesFromAnnotation"), "{condition}");
    assert_eq!(world.value_of("a"), "mine");
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_of_an_upgrade_by_a_source_heals() {
    for writes in 0..8 {
        let world = installed().await;
        secret(&world, "ns", "web-values", &[("values.yaml", "value: two")]);
        world.server.fail_after(Some(writes));
        world.reconcile().await;
        world.server.fail_after(None);
        let world = reading(world.server, OWN);
        world.reconcile().await;
        tokio::time::advance(Duration::from_secs(600)).await;
        world.reconcile().await;
        assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("two"), "2 deployed"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_sources_that_is_refused_later_is_reported_and_recovers() {
    let world = installed().await;
    secret(&world, "ns", "web-values", &[("values.yaml", "value: two")]);
    let handler = SourceHandler { sources: Arc::downgrade(&world.shared.sources), kind: SourceKind::Secret };
    handler.lost(&WatchScope::ALL);
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/ValuesSourceForbidden/"), "{condition}");
    assert!(condition.contains("refuses to list or watch them; add this rule"), "{condition}");
    assert_eq!(world.state("Ready"), "False/ValuesSourceForbidden");
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.condition("Irreconcilable")), (json!("two"), None));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_records_that_is_refused_later_is_reported_and_changes_nothing_meanwhile() {
    let world = World::new(json!({"maps": ["a"], "value": "one"}));
    world.reconcile().await;
    let writes = |world: &World| world.server.writes();
    world.releases.lost(&WatchScope::ALL);
    world.server.remove(&format!("{MAPS}/a"));
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/RecordsForbidden/"), "{condition}");
    assert_eq!((world.state("Ready"), world.maps()), ("False/RecordsForbidden".to_owned(), vec![]));
    let before = writes(&world);
    world.edit(|primary| primary["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    assert!(writes(&world) <= before + 1, "at most a status");
    assert_eq!(world.history(), ["1 deployed"], "nothing is taken for uninstalled");
    world.reconcile().await;
    assert!(world.server.object(PRIMARY).is_none(), "a list ends it");
}

#[tokio::test(start_paused = true)]
async fn other_values_in_a_source_end_the_wait_for_a_hook_and_nothing_else_about_it_does() {
    let migrate =
        |world: &World| world.server.object(&format!("{JOBS}/migrate")).map(|job| job["metadata"]["uid"].clone());
    for (content, history) in [
        ("value: three", vec!["1 superseded", "2 failed", "3 deployed"]),
        ("value: two", vec!["1 superseded", "2 deployed"]),
    ] {
        let spec = json!({"maps": ["a"], "hooks": [{"name": "migrate", "events": ["post-upgrade"]}]});
        let world = reading(World::new(spec).server, OWN);
        secret(&world, "ns", "web-values", &[("values.yaml", "value: one")]);
        world.reconcile().await;
        secret(&world, "ns", "web-values", &[("values.yaml", "value: two")]);
        world.feed();
        let mut first = None;
        reconcile_while(&world, |world| {
            first = migrate(world);
            secret(world, "ns", "web-values", &[("values.yaml", content), ("other", "x")]);
        })
        .await;
        assert_eq!(world.history(), history, "{content}");
        assert!(first.is_some() && (migrate(&world) == first) == (content == "value: two"), "{content}");
        let value = content.trim_start_matches("value: ");
        assert_eq!((world.value_of("a"), world.state("Ready")), (json!(value), "True/Ready".to_owned()));
    }
}
