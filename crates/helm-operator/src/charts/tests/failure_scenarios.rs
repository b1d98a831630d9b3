//! Tests of what failed attempts leave, how often they are recorded, and which objects are written client-side.

use std::sync::atomic::AtomicBool;

use helm_release::kube::{Call, Disturbance, Error};

use super::*;
use crate::watches::OnFailure;

const TYPED: &str = "failed to create typed patch object (ns/b; /v1, Kind=ConfigMap): .data.value: expected string, got &value.valueUnstructured{Value:hunter2}";
const WEBHOOK: &str =
    "Internal error occurred: failed calling webhook \"check.example.com\": failed to call webhook: connection refused";

/// Returns whether a request writes the ConfigMap with this name and text.
fn writes(call: &Call, name: &str, text: &str) -> bool {
    let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
    let named = call.path.contains(&format!("/configmaps/{name}")) || body.contains(&format!("\"name\":\"{name}\""));
    call.path.contains("/configmaps") && named && body.contains(text)
}

/// Rejects `b` with this text in every kind of write, as a server rejects an object with wrong types.
fn refuse(world: &World, text: &'static str) {
    world.server.refuse(move |call| writes(call, "b", text).then(|| Error::from_status(500, "", TYPED)));
}

/// Rejects the rollback of `a`.
fn refuse_to_roll_back(world: &World) {
    world.server.refuse(|call| writes(call, "a", "\"1\"").then(|| Error::from_status(403, "Forbidden", "a is frozen")));
}

/// Makes the webhook that checks `b` unavailable.
fn webhook_is_away(world: &World, text: &'static str) {
    world.server.refuse(move |call| writes(call, "b", text).then(|| Error::from_status(500, "InternalError", WEBHOOK)));
}

/// Retries this many times, each after the maximum wait.
async fn retry(world: &World, times: usize) {
    for _ in 0..times {
        tokio::time::advance(Duration::from_secs(600)).await;
        world.reconcile().await;
    }
}

fn set_value(world: &World, value: &str) {
    world.edit(|p| p["spec"]["value"] = value.into());
}

async fn installed() -> World {
    let world = World::new(spec());
    world.reconcile().await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_type_error_is_not_an_outage_so_the_upgrade_is_rolled_back() {
    let world = installed().await;
    refuse(&world, "abc");
    set_value(&world, "abc");
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.value_of("b"), world.value_of("c")), (json!("1"), json!("1"), json!("1")));
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    let expected = "True/UpgradeError/cannot apply ConfigMap \"b\": does not fit its schema: .data.value: expected string, got string";
    assert_eq!(world.condition("ReleaseFailed").unwrap(), expected);
    let record = world.shared.storage.get("ns", "web", 2).await.unwrap().release.facts().clone();
    let cause = expected.trim_start_matches("True/UpgradeError/");
    assert_eq!(record.info.description, format!("Upgrade \"web\" failed: {cause}"));
}

#[tokio::test(start_paused = true)]
async fn an_install_of_wrong_types_leaves_nothing() {
    let world = World::new(spec());
    refuse(&world, "\"1\"");
    world.reconcile().await;
    retry(&world, 3).await;
    assert_eq!((world.maps(), world.history()), (vec![], vec![]));
    assert!(world.condition("ReleaseFailed").unwrap().starts_with("True/InstallError/cannot apply ConfigMap \"b\""));
}

#[tokio::test(start_paused = true)]
async fn an_outage_makes_one_revision_however_long_it_lasts() {
    let world = World::new(spec());
    webhook_is_away(&world, "value");
    world.reconcile().await;
    retry(&world, 8).await;
    assert_eq!(world.history(), ["1 pending-install"]);
    assert!(world.condition("Irreconcilable").unwrap().contains("failed calling webhook"));
    world.server.accept();
    retry(&world, 1).await;
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));

    webhook_is_away(&world, "\"2\"");
    set_value(&world, "2");
    world.reconcile().await;
    retry(&world, 8).await;
    assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"]);
    world.server.accept();
    retry(&world, 1).await;
    assert_eq!((world.value_of("b"), world.history()), (json!("2"), vec!["1 superseded".into(), "2 deployed".into()]));
    assert_eq!(world.condition("Irreconcilable"), None);
}

#[tokio::test(start_paused = true)]
async fn retries_during_an_outage_back_off() {
    let world = World::new(spec());
    webhook_is_away(&world, "value");
    let mut attempts = 0;
    for _ in 0..600 {
        let before = world.server.writes();
        world.reconcile().await;
        attempts += usize::from(world.server.writes() > before + 1);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!((8..=14).contains(&attempts), "{attempts} attempts in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_half_done_upgrade_is_rolled_back_once_rendering_fails() {
    let world = installed().await;
    webhook_is_away(&world, "\"2\"");
    set_value(&world, "2");
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("2"), json!("1")), "half applied");
    world.edit(|p| p["spec"]["broken"] = true.into());
    retry(&world, 1).await;
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("1"), json!("1")));
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert!(world.condition("Irreconcilable").unwrap().contains("templates/a.yaml:3:5"));

    let world = World::new(spec());
    webhook_is_away(&world, "value");
    world.reconcile().await;
    assert!(!world.maps().is_empty(), "half installed");
    let half = identities(&world);
    world.edit(|p| p["spec"]["broken"] = true.into());
    retry(&world, 2).await;
    assert_eq!((identities(&world), world.history()), (half.clone(), vec!["1 pending-install".into()]));
    world.server.accept();
    world.edit(|p| p["spec"]["broken"] = false.into());
    world.reconcile().await;
    let whole = identities(&world);
    assert!(half.iter().all(|uid| whole.contains(uid)), "{half:?} {whole:?}");
    assert_eq!(world.history(), ["1 failed", "2 deployed"]);
}

/// Returns the uids of the ConfigMaps.
fn identities(world: &World) -> Vec<Value> {
    let paths = world.maps().into_iter().map(|name| format!("{MAPS}/{name}"));
    paths.map(|path| world.server.object(&path).unwrap()["metadata"]["uid"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn values_that_do_not_render_uninstall_nothing_after_an_interrupted_upgrade() {
    let world = World::with_events(World::new(spec()).server, Arc::new(Stub::default()), |settings| {
        settings.on_failure = OnFailure::Uninstall;
    });
    world.reconcile().await;
    let before = identities(&world);
    webhook_is_away(&world, "\"2\"");
    set_value(&world, "2");
    world.reconcile().await;
    world.edit(|p| p["spec"]["broken"] = true.into());
    retry(&world, 2).await;
    assert_eq!((identities(&world), world.history()), (before, vec!["1 deployed".into(), "2 pending-upgrade".into()]));
}

/// Asks in addition for an object of a kind that is not served, and retries twice.
async fn ask_for_an_unserved_kind(world: &World) {
    world.edit(|p| p["spec"]["unknown"] = true.into());
    retry(world, 2).await;
    let failed = world.condition("ReleaseFailed").unwrap();
    assert!(failed.contains("no matches for kind \"Unknown\""), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_writes_nothing_removes_nothing_after_an_interruption() {
    for policy in [OnFailure::Rollback, OnFailure::Uninstall] {
        let world = World::with_events(World::new(spec()).server, Arc::new(Stub::default()), |settings| {
            settings.on_failure = policy;
        });
        webhook_is_away(&world, "value");
        world.reconcile().await;
        let half = identities(&world);
        assert!(!half.is_empty(), "half installed");
        ask_for_an_unserved_kind(&world).await;
        assert_eq!((identities(&world), world.history()), (half.clone(), vec!["1 pending-install".into()]));
        world.server.accept();
        world.edit(|p| p["spec"]["unknown"] = false.into());
        world.reconcile().await;
        let whole = identities(&world);
        assert!(half.iter().all(|uid| whole.contains(uid)), "{half:?} {whole:?}");
        assert_eq!(world.history(), ["1 failed", "2 deployed"]);

        webhook_is_away(&world, "\"2\"");
        set_value(&world, "2");
        world.reconcile().await;
        assert_eq!(world.history(), ["1 failed", "2 deployed", "3 pending-upgrade"]);
        ask_for_an_unserved_kind(&world).await;
        assert_eq!(identities(&world), whole);
        let newest = if policy == OnFailure::Uninstall { "3 pending-upgrade" } else { "4 deployed" };
        assert_eq!(world.history().last().unwrap(), newest, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_writes_nothing_removes_no_install_whose_hook_another_spec_interrupted() {
    let world = World::new(hooks::with_hooks(json!([hooks::hook("migrate", "post-install")])));
    hooks::reconcile_while(&world, |world| world.edit(|p| p["spec"]["unknown"] = true.into())).await;
    let half = identities(&world);
    assert_eq!((half.len(), world.history()), (3, vec!["1 failed".to_owned()]));
    ask_for_an_unserved_kind(&world).await;
    assert_eq!((identities(&world), world.history()), (half.clone(), vec!["1 failed".to_owned()]));
    world.edit(|p| p["spec"]["unknown"] = false.into());
    hooks::reconcile(&world, "Complete").await;
    let whole = identities(&world);
    assert!(half.iter().all(|uid| whole.contains(uid)), "{half:?} {whole:?}");
    assert_eq!(world.history(), ["1 failed", "2 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_rollback_is_reported_and_retried() {
    let world = installed().await;
    refuse(&world, "\"2\"");
    refuse_to_roll_back(&world);
    set_value(&world, "2");
    world.reconcile().await;
    let message = world.condition("ReleaseFailed").unwrap();
    assert!(message.ends_with("; rollback failed: cannot apply ConfigMap \"a\": a is frozen"), "{message}");
    assert_eq!(world.history(), ["1 deployed", "2 failed", "3 failed"]);
    world.server.accept();
    world.edit(|p| p["spec"]["broken"] = true.into());
    retry(&world, 1).await;
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("1"), json!("1")));
    assert!(world.history().last().unwrap().ends_with("deployed"));
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_is_not_answered_is_completed_although_no_retries_are_left() {
    let no_retries = |settings: &mut Settings| settings.retries = Some(0);
    let world = World::with_events(World::new(spec()).server, Arc::new(Stub::default()), no_retries);
    world.reconcile().await;
    let is_away = Arc::new(AtomicBool::new(true));
    let away = is_away.clone();
    refuse(&world, "\"2\"");
    world.server.refuse(move |call| {
        let is_lost = away.load(Ordering::Relaxed) && writes(call, "a", "\"1\"");
        is_lost.then(|| Error::from_status(503, "ServiceUnavailable", "away"))
    });
    set_value(&world, "2");
    world.reconcile().await;
    let message = world.condition("ReleaseFailed").unwrap();
    assert!(message.ends_with("; rollback failed: cannot apply ConfigMap \"a\": away"), "{message}");
    assert_eq!(world.value_of("a"), json!("2"), "half rolled back");
    is_away.store(false, Ordering::Relaxed);
    retry(&world, 1).await;
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("1"), json!("1")));
    assert!(world.history().last().unwrap().ends_with("deployed"), "{:?}", world.history());
}

#[tokio::test(start_paused = true)]
async fn a_rollback_whose_last_answer_is_lost_is_made_once_and_ends_the_attempt() {
    for is_seen in [false, true] {
        let no_retries = |settings: &mut Settings| settings.retries = Some(0);
        let world = World::with_events(World::new(spec()).server, Arc::new(Stub::default()), no_retries);
        world.reconcile().await;
        refuse(&world, "\"2\"");
        let record = format!("PATCH {SECRETS}/sh.helm.release.v1.web.v3");
        world.server.disturb(&record, 1, Disturbance::AnswerLost);
        set_value(&world, "2");
        world.feed();
        for _ in 0..2 {
            reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
            if is_seen {
                world.feed();
            }
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        retry(&world, 2).await;
        assert_eq!(world.state("Stalled"), "True/RetriesExceeded", "seen: {is_seen}");
        assert_eq!(world.history().last().unwrap(), "3 deployed", "seen: {is_seen}: {:?}", world.history());
        assert_eq!((world.value_of("a"), world.value_of("b")), (json!("1"), json!("1")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_does_not_wait_for_ever_for_a_webhook() {
    let no_retries = |settings: &mut Settings| settings.retries = Some(0);
    let world = World::with_events(World::new(spec()).server, Arc::new(Stub::default()), no_retries);
    world.reconcile().await;
    refuse(&world, "\"2\"");
    world.server.refuse(|call| writes(call, "a", "\"1\"").then(|| Error::from_status(500, "InternalError", WEBHOOK)));
    set_value(&world, "2");
    world.reconcile().await;
    retry(&world, 9).await;
    let message = world.condition("ReleaseFailed").unwrap();
    assert!(message.contains("; rollback failed: cannot apply ConfigMap \"a\": "), "{message}");
    assert!(world.condition("Stalled").is_none_or(|stalled| !stalled.contains("RetriesExceeded")));
    retry(&world, 2).await;
    assert_eq!(world.state("Stalled"), "True/RetriesExceeded");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_whose_record_is_rejected_is_not_retried_without_limit() {
    let no_retries = |settings: &mut Settings| settings.retries = Some(0);
    let world = World::with_events(World::new(spec()).server, Arc::new(Stub::default()), no_retries);
    world.reconcile().await;
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    refuse(&world, "\"2\"");
    world.server.refuse(move |call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_record = call.method == http::Method::POST && call.path.starts_with("/api/v1/namespaces/ns/secrets");
        let is_third = is_record && body.contains("sh.helm.release.v1.web.v3");
        is_third.then(|| {
            counted.fetch_add(1, Ordering::Relaxed);
            Error::from_status(403, "Forbidden", "exceeded quota")
        })
    });
    set_value(&world, "2");
    world.reconcile().await;
    let message = world.condition("ReleaseFailed").unwrap();
    assert!(message.contains("; rollback failed: ") && message.contains("exceeded quota"), "{message}");
    assert_eq!(world.state("Stalled"), "True/RetriesExceeded");
    retry(&world, 3).await;
    assert_eq!((tries.load(Ordering::Relaxed), world.state("Stalled")), (1, "True/RetriesExceeded".to_owned()));
    assert_eq!(world.history(), ["1 deployed", "2 failed"]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_with_the_same_refusal_writes_nothing() {
    let world = installed().await;
    refuse(&world, "abc");
    set_value(&world, "abc");
    world.reconcile().await;
    let (before, failed) = (world.server.object(&format!("{MAPS}/a")), world.condition("ReleaseFailed"));
    let from = world.server.log().len();
    retry(&world, 5).await;
    assert_eq!((world.server.object(&format!("{MAPS}/a")), world.condition("ReleaseFailed")), (before, failed));
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    let log = world.server.log()[from..].to_vec();
    let dry_run = format!("PATCH {MAPS}/b");
    assert!(log.iter().all(|line| *line == dry_run || line.starts_with("GET ")), "{log:?}");
    assert_eq!(log.iter().filter(|line| **line == dry_run).count(), 5);
    // A different rejection is worth a retry, and so are different inputs.
    world.server.accept();
    world.server.refuse(|call| writes(call, "b", "abc").then(|| Error::from_status(403, "Forbidden", "no quota")));
    retry(&world, 1).await;
    assert_eq!(world.history(), ["3 superseded", "4 failed", "5 deployed"]);
    world.server.accept();
    retry(&world, 1).await;
    assert_eq!((world.value_of("b"), world.condition("ReleaseFailed")), (json!("abc"), None));
}

#[tokio::test(start_paused = true)]
async fn failures_do_not_outgrow_the_history() {
    let world = installed().await;
    refuse(&world, "abc");
    for at in 0..6 {
        set_value(&world, &format!("abc{at}"));
        world.reconcile().await;
    }
    assert_eq!(world.history(), ["11 superseded", "12 failed", "13 deployed"]);
    refuse_to_roll_back(&world);
    for at in 6..12 {
        set_value(&world, &format!("abc{at}"));
        world.reconcile().await;
    }
    let history = world.history();
    assert_eq!((history.len(), history[0].as_str()), (3, "13 deployed"), "{history:?}");
    assert_eq!(world.server.paths().iter().filter(|p| p.starts_with(SECRETS)).count(), 3);
}

/// Creates the records of a failed `helm rollback`: nothing deployed, and a newest record without our marks.
fn fail_a_rollback_by_hand(world: &World) {
    let path = |version: u32| format!("{SECRETS}/sh.helm.release.v1.web.v{version}");
    let mut newest = world.server.object(&path(1)).unwrap();
    for version in [1, 2] {
        let mut record = world.server.object(&path(version)).unwrap();
        record["metadata"]["labels"]["status"] = "superseded".into();
        world.server.put(&path(version), record, "helm");
    }
    newest["metadata"]["name"] = "sh.helm.release.v1.web.v3".into();
    newest["metadata"]["annotations"] = Value::Null;
    (newest["metadata"]["labels"]["version"], newest["metadata"]["labels"]["status"]) = ("3".into(), "failed".into());
    world.server.put(&path(3), newest, "helm");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_ever_ran_is_healed_and_never_removed() {
    let world = installed().await;
    world.edit(|p| p["spec"]["maps"] = json!(["a", "b", "d"]));
    world.reconcile().await;
    assert_eq!(world.maps(), ["a", "b", "d"]);
    fail_a_rollback_by_hand(&world);
    refuse(&world, "abc");
    set_value(&world, "abc");
    let world = World::on(world.server);
    world.reconcile().await;
    retry(&world, 4).await;
    assert_eq!(world.maps(), ["a", "b", "d"], "what runs stays");
    assert_eq!(world.history()[0], "2 superseded", "the last good revision stays: {:?}", world.history());

    world.edit(|p| p["spec"] = json!({"maps": ["a", "b"], "value": "2"}));
    world.reconcile().await;
    assert_eq!(
        (world.maps(), world.value_of("b")),
        (vec!["a".to_owned(), "b".into()], json!("2")),
        "and no orphan is left"
    );
    assert!(world.history().last().unwrap().ends_with(" deployed"));
    assert_eq!(world.condition("ReleaseFailed"), None);
}

/// Returns how often objects were written client-side because server-side apply rejected them.
fn client_side_applies(world: &World) -> usize {
    let metrics = world.shared.metrics.encode(controller::metrics::Format::Classic);
    let line = metrics.lines().find(|l| l.starts_with("helm_operator_outcomes_total") && l.contains("ClientSideApply"));
    line.and_then(|l| l.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Rejects `b` in server-side applies, and accepts it from a client.
fn refuse_only_applies(world: &World) {
    world.server.refuse(|call| {
        let applies = call.body.as_ref().is_some_and(|(kind, _)| *kind == "application/apply-patch+yaml");
        (applies && writes(call, "b", "value")).then(|| Error::from_status(500, "", TYPED))
    });
}

#[tokio::test(start_paused = true)]
async fn client_side_objects_are_reported_once_for_each_change_and_repaired_like_others() {
    let world = World::new(spec());
    refuse_only_applies(&world);
    world.reconcile().await;
    assert_eq!(
        (world.maps().len(), world.history(), client_side_applies(&world)),
        (3, vec!["1 deployed".to_owned()], 1)
    );
    let world = World::on(world.server);
    assert_eq!((world.requests().await, client_side_applies(&world)), (0, 0), "after a restart nothing is tried again");

    let mut changed = world.server.object(&format!("{MAPS}/b")).unwrap();
    changed["data"]["value"] = "mine".into();
    world.server.put(&format!("{MAPS}/b"), changed, "kubectl");
    let before = world.server.log().len();
    world.reconcile().await;
    assert_eq!((world.value_of("b"), client_side_applies(&world)), (json!("1"), 0), "repaired the way it was made");
    let log = world.server.log()[before..].to_vec();
    assert_eq!(log.iter().filter(|l| **l == format!("PATCH {MAPS}/b")).count(), 1, "{log:?}");
    assert_eq!(world.requests().await, 0);

    set_value(&world, "2");
    world.reconcile().await;
    assert_eq!((world.value_of("b"), client_side_applies(&world)), (json!("2"), 1));
    world.edit(|p| p["spec"]["maps"] = json!(["a", "b"]));
    world.reconcile().await;
    assert_eq!((world.maps().len(), client_side_applies(&world)), (2, 1), "an unchanged object is not tried again");
    world.delete();
    world.reconcile().await;
    assert!(world.maps().is_empty());
}

/// Removes a field that is ours only because a client owns the defaults of the objects that it creates.
async fn take_default(world: &World, number: u32) {
    let path = format!("{MAPS}/b");
    let mut managers = world.server.object(&path).unwrap()["metadata"]["managedFields"].clone();
    let ours = managers.as_array_mut().unwrap().iter_mut().find(|m| m["manager"] == "helm-operator").unwrap();
    ours["fieldsV1"]["f:defaults"] = json!({format!("f:left{number}"): {}});
    let patch = json!([{"op": "replace", "path": "/metadata/managedFields", "value": managers}]);
    world.server.send(Call::json_patch(path, patch.to_string().into_bytes())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn defaults_that_others_claim_from_client_side_objects_are_recorded_and_not_a_fight() {
    let world = World::new(spec());
    refuse_only_applies(&world);
    world.reconcile().await;
    for number in 0..8 {
        take_default(&world, number).await;
        let before = world.server.log().len();
        world.reconcile().await;
        let log = world.server.log()[before..].join("\n");
        assert!(log.contains("/secrets/sh.helm.release.v1.web.v1") && !log.contains(&format!("PATCH {MAPS}")), "{log}");
    }
    assert_eq!((world.condition("Irreconcilable"), world.history()), (None, vec!["1 deployed".to_owned()]));
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_repair_that_cannot_be_recorded_backs_off() {
    let world = World::new(spec());
    refuse_only_applies(&world);
    world.reconcile().await;
    take_default(&world, 0).await;
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    world.server.refuse(move |call| {
        let is_record = call.method == http::Method::PATCH && call.path.starts_with(&record_path(1));
        is_record.then(|| {
            counted.fetch_add(1, Ordering::Relaxed);
            Error::from_status(503, "", "away")
        })
    });
    for _ in 0..60 {
        world.reconcile().await;
        tokio::time::advance(SECOND).await;
    }
    let tries = tries.load(Ordering::Relaxed);
    assert!((2..=8).contains(&tries), "{tries}");
    world.server.accept();
    tokio::time::advance(Duration::from_secs(300)).await;
    world.reconcile().await;
    assert_eq!((world.condition("Irreconcilable"), world.state("Ready")), (None, "True/Ready".into()));
}

#[tokio::test(start_paused = true)]
async fn a_repair_that_apply_now_rejects_is_written_client_side_from_then_on() {
    let world = installed().await;
    refuse_only_applies(&world);
    let drift = |world: &World| {
        let mut changed = world.server.object(&format!("{MAPS}/b")).unwrap();
        changed["data"]["value"] = "mine".into();
        world.server.put(&format!("{MAPS}/b"), changed, "kubectl");
    };
    drift(&world);
    world.reconcile().await;
    assert_eq!(
        (world.value_of("b"), client_side_applies(&world), world.history()),
        (json!("1"), 1, vec!["1 deployed".to_owned()])
    );
    let world = World::on(world.server);
    assert_eq!(world.requests().await, 0);
    drift(&world);
    world.reconcile().await;
    assert_eq!((world.value_of("b"), client_side_applies(&world)), (json!("1"), 0), "not tried again");
}

#[tokio::test(start_paused = true)]
async fn an_install_that_lacks_a_kind_renders_again_when_discovery_has_changed() {
    let renderer = Arc::new(Stub::default());
    let world = World::rendering(World::new(spec()).server, renderer.clone());
    world.edit(|p| p["spec"]["unknown"] = true.into());
    // As at startup, which reads the served kinds.
    world.shared.applier.mapper.refresh().await.unwrap();
    world.reconcile().await;
    let renders = || renderer.renders.load(Ordering::SeqCst);
    let failed = world.condition("ReleaseFailed").unwrap();
    assert!(failed.contains("no matches for kind \"Unknown\""), "{failed}");
    let after_wait = async |world: &World| {
        tokio::time::advance(Duration::from_secs(300)).await;
        assert_eq!(world.reconcile().await, ReconcileResult::Error);
    };
    for _ in 0..2 {
        after_wait(&world).await;
        assert_eq!((renders(), world.condition("ReleaseFailed").unwrap()), (1, failed.clone()));
    }
    after_wait(&world).await;
    assert_eq!(renders(), 2, "after a while, what the chart looks up may have changed");
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    assert_eq!(renders(), 3, "other inputs are tried at once");
    world.server.serve("example.com/v1", "Unknown", "unknowns");
    tokio::time::advance(Duration::from_secs(300)).await;
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed"]);
    assert_eq!(world.condition("ReleaseFailed"), None);
}
