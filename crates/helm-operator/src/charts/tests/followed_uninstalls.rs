//! Tests of uninstalls that something follows before they end: a person rolls the release back with `helm`, or makes the
//! resource anew.

use std::sync::Arc;
use std::time::Duration;

use controller::metrics::ReconcileResult;
use controller::runtime::priority::Priority;
use helm_release::kube::Error;
use helm_release::release::Status;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::failure_policy::{refuse, retry, uids, uninstalling};
use super::helm_commands::{helm_applies, helm_writes, manifest};
use super::hooks::{self, JOBS, complete, count, hook, killed_after, last, phases, reconcile_while, with_hooks};
use crate::charts::tests::{PRIMARY, Stub, World, key, record_path};
use crate::reconcile::controller_context::Settings;
use crate::reconcile::reconcile;
use crate::watches::OnFailure;

const FAREWELL: &str = "/apis/batch/v1/namespaces/ns/jobs/farewell";

/// The hooks of an uninstall: before and after its deletions.
const EVENTS: [&str; 2] = ["pre-delete", "post-delete"];

/// Returns a release with a hook at this event of its uninstall, which begins once its next upgrade has failed.
async fn before_a_failure(event: &str) -> World {
    let world = uninstalling(World::new(with_hooks(json!([hook("farewell", event)]))).server);
    world.reconcile().await;
    refuse(&world, 422);
    world.edit(|p| p["spec"]["value"] = "bad".into());
    world
}

/// Returns a release with a hook at this event of its uninstall, which begins next, because the resource is deleted.
async fn deleted(event: &str) -> World {
    let world = World::new(with_hooks(json!([hook("farewell", event)])));
    world.reconcile().await;
    world.delete();
    world
}

/// Begins a person's rollback to the first revision.
fn roll_back(world: &World, version: u32) {
    helm_writes(world, version, Status::PendingRollback, &manifest(&["a", "b", "c"], "1"), Duration::ZERO);
}

/// Ends a person's rollback to a revision with these ConfigMaps.
pub(super) fn end_rollback(world: &World, version: u32, maps: &[&str]) {
    maps.iter().for_each(|name| helm_applies(world, name, "1"));
    helm_writes(world, version, Status::Deployed, &manifest(maps, "1"), Duration::ZERO);
}

/// Reconciles. After ten seconds, a person's rollback begins as this revision, no event of which arrives, and the hook
/// succeeds. Returns the uids of the ConfigMaps by then.
async fn rolled_back_unseen(world: &World, version: u32) -> Vec<Value> {
    let later = async {
        sleep(Duration::from_secs(10)).await;
        roll_back(world, version);
        complete(&world.server, "farewell");
        uids(world)
    };
    let (_, before) = tokio::join!(world.reconcile(), later);
    before
}

fn uid_of_record(world: &World, version: u32) -> Value {
    world.server.object(&record_path(version)).unwrap()["metadata"]["uid"].clone()
}

/// Checks that a person's rollback is left alone until it ends.
async fn is_left_alone(world: &World, version: u32) {
    let before = (uids(world), uid_of_record(world, version));
    world.reconcile().await;
    let said = world.condition("Irreconcilable").unwrap();
    assert!(said.starts_with(&format!("True/ReleaseInFlight/revision {version} ")), "{said}");
    assert_eq!((uids(world), uid_of_record(world, version)), before);
}

/// Lets a person's rollback after a failed upgrade end, and the resource agree with it. Checks that the release is taken
/// over with its objects, by a revision that has the chart's hook, which Helm's lacks.
async fn is_taken_over(world: &World) {
    world.server.accept();
    world.edit(|p| p["spec"]["value"] = "1".into());
    is_left_alone(world, 3).await;
    end_rollback(world, 3, &["a", "b", "c"]);
    let before = (uids(world), uid_of_record(world, 3));
    hooks::reconcile(world, "Complete").await;
    assert_eq!(world.history().last().unwrap(), "4 deployed", "{:#?}", world.server.log());
    assert_eq!((uids(world), uid_of_record(world, 3)), before);
    assert_eq!((world.maps().len(), world.value_of("a"), world.state("Ready")), (3, json!("1"), "True/Ready".into()));
}

/// Reconciles while Jobs succeed. Checks that the release is uninstalled, and how often its hook has run.
async fn is_uninstalled(world: &World, runs: usize) {
    hooks::reconcile(world, "Complete").await;
    assert_eq!((world.server.object(PRIMARY), world.server.paths()), (None, vec![FAREWELL.to_owned()]));
    assert_eq!(count(world, &format!("POST {JOBS}")), runs, "{:#?}", world.server.log());
}

/// Lets a person's rollback during a deletion end. Checks that what it made is uninstalled, with the chart's hook.
async fn is_uninstalled_later(world: &World) {
    is_left_alone(world, 2).await;
    end_rollback(world, 2, &["a", "b", "c", "x"]);
    is_uninstalled(world, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_persons_rollback_ends_the_hook_of_an_uninstall_after_a_failed_upgrade_and_loses_nothing() {
    for event in EVENTS {
        let world = before_a_failure(event).await;
        let mut before = Vec::new();
        reconcile_while(&world, |world| {
            before = uids(world);
            roll_back(world, 3);
        })
        .await;
        assert_eq!(world.history(), ["1 uninstalling", "2 failed", "3 pending-rollback"], "{event}");
        assert_eq!((uids(&world), world.server.object(FAREWELL)), (before, None), "{event}");
        assert_eq!(phases(&world, 1).await, ["farewell Failed"], "{event}");
        is_taken_over(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_helm_rewrites_in_the_record_of_a_failed_upgrade_ends_no_hook_of_the_uninstall_after_it() {
    // `helm test` writes the newest record whatever its status is, and `helm uninstall` marks it.
    for status in [Status::Failed, Status::Uninstalling] {
        let world = before_a_failure("pre-delete").await;
        reconcile_while(&world, |world| {
            helm_writes(world, 2, status, &manifest(&["a", "b", "c"], "bad"), Duration::ZERO);
        })
        .await;
        let left = (world.maps(), world.history(), count(&world, &format!("POST {JOBS}")));
        assert_eq!(left, (vec![], vec![], 1), "{status:?}: {:#?}", world.server.log());
    }
}

#[tokio::test(start_paused = true)]
async fn a_persons_rollback_whose_event_is_late_stops_an_uninstall_after_a_failed_upgrade() {
    for event in EVENTS {
        let world = before_a_failure(event).await;
        let before = rolled_back_unseen(&world, 3).await;
        assert_eq!(world.history(), ["1 uninstalling", "2 failed", "3 pending-rollback"], "{event}");
        assert_eq!((uids(&world), phases(&world, 1).await), (before, vec!["farewell Succeeded".to_owned()]), "{event}");
        is_taken_over(&world).await;
        assert_eq!(count(&world, &format!("POST {JOBS}")), 1, "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_persons_rollback_during_the_hook_of_a_deletion_is_left_alone_and_then_uninstalled() {
    for event in EVENTS {
        let world = deleted(event).await;
        let mut before = Vec::new();
        reconcile_while(&world, |world| {
            before = uids(world);
            roll_back(world, 2);
        })
        .await;
        assert_eq!(world.history(), ["1 uninstalling", "2 pending-rollback"], "{event}");
        assert_eq!((uids(&world), world.server.object(FAREWELL)), (before, None), "{event}");
        is_uninstalled_later(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_persons_rollback_whose_event_is_late_is_not_lost_sight_of_by_a_deletion() {
    for event in EVENTS {
        let world = deleted(event).await;
        let before = rolled_back_unseen(&world, 2).await;
        assert_eq!(world.history(), ["1 uninstalling", "2 pending-rollback"], "{event}");
        assert_eq!((uids(&world), phases(&world, 1).await), (before, vec!["farewell Succeeded".to_owned()]), "{event}");
        is_uninstalled_later(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_reads_the_records_until_it_succeeds_after_its_hook_has_ended() {
    let world = deleted("pre-delete").await;
    let key = key();
    let unaware = || reconcile(&world.shared, &key, &(), Priority::Retry);
    let later = async {
        sleep(Duration::from_secs(10)).await;
        roll_back(&world, 2);
        world.server.refuse(|call| {
            let is_list = call.body.is_none() && call.path.contains("/secrets?");
            is_list.then(|| Error::from_status(500, "InternalError", "etcd is away"))
        });
        complete(&world.server, "farewell");
        uids(&world)
    };
    world.feed();
    let (ended, before) = tokio::join!(unaware(), later);
    assert_eq!(ended, ReconcileResult::Error);
    world.server.accept();
    unaware().await;
    world.feed();
    assert_eq!(world.history(), ["1 uninstalling", "2 pending-rollback"], "{:#?}", world.server.log());
    assert_eq!((uids(&world), phases(&world, 1).await), (before, vec!["farewell Succeeded".to_owned()]));
    is_uninstalled_later(&world).await;
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_an_uninstall_that_a_dead_process_began_ends_although_a_persons_rollback_followed() {
    for value in ["1", "2"] {
        let world = before_a_failure("pre-delete").await;
        killed_after(&world, 30).await;
        assert_eq!(phases(&world, 1).await, ["farewell Running"]);
        roll_back(&world, 3);
        let world = uninstalling(world.server);
        world.server.accept();
        world.edit(|p| p["spec"]["value"] = value.into());
        is_left_alone(&world, 3).await;
        assert!(world.server.object(FAREWELL).is_some());
        end_rollback(&world, 3, &["a", "b", "c"]);
        let before = uids(&world);
        hooks::reconcile(&world, "Complete").await;
        assert_eq!((uids(&world), world.value_of("a")), (before, json!(value)), "{:#?}", world.server.log());
        assert_eq!(world.history().last().unwrap(), "4 deployed");
        assert_eq!((world.server.object(FAREWELL), count(&world, &format!("POST {JOBS}"))), (None, 1), "{value}");
    }
}

/// Returns a release whose uninstall after a failed upgrade began in a process that died in its hook, and that a person has
/// rolled back since then.
async fn rolled_back_after_a_death() -> World {
    let world = before_a_failure("pre-delete").await;
    killed_after(&world, 30).await;
    end_rollback(&world, 3, &["a", "b", "c"]);
    let world = uninstalling(world.server);
    world.server.accept();
    world
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_an_uninstall_that_a_dead_process_began_ends_although_the_next_values_do_not_render() {
    let world = rolled_back_after_a_death().await;
    world.edit(|p| p["spec"]["broken"] = true.into());
    hooks::reconcile(&world, "Complete").await;
    let left = (world.history(), phases(&world, 1).await, world.server.object(FAREWELL));
    let history = ["1 superseded", "2 failed", "3 deployed"].map(str::to_owned).to_vec();
    assert_eq!(left, (history, vec!["farewell Failed".to_owned()], None));
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_an_uninstall_that_a_dead_process_began_ends_although_its_first_deletion_is_not_answered() {
    let world = rolled_back_after_a_death().await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.server.refuse(|call| {
        let is_deletion = call.method == http::Method::DELETE && call.path == FAREWELL;
        is_deletion.then(|| Error::from_status(500, "InternalError", "failed calling webhook"))
    });
    world.reconcile().await;
    assert_eq!(world.history().last().unwrap(), "3 deployed", "no revision begins beside the hook");
    assert_eq!((world.value_of("a"), phases(&world, 1).await), (json!("1"), vec!["farewell Failed".to_owned()]));
    assert!(world.server.object(FAREWELL).unwrap()["status"].is_null());
    world.server.accept();
    let world = uninstalling(world.server);
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(600)).await;
        world.reconcile().await;
    }
    assert_eq!((world.value_of("a"), world.server.object(FAREWELL)), (json!("2"), None), "{:#?}", world.server.log());
    assert!(last(&world, &format!("DELETE {FAREWELL}")) < last(&world, &format!("PATCH {}", record_path(4))));
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_a_deletion_that_a_dead_process_began_ends_before_that_of_what_a_person_rolled_back_to_begins() {
    let world = deleted("pre-delete").await;
    killed_after(&world, 30).await;
    assert_eq!(phases(&world, 1).await, ["farewell Running"]);
    // The chart has another hook now.
    world.edit(|p| p["spec"]["hooks"] = json!([hook("goodbye", "pre-delete")]));
    end_rollback(&world, 2, &["a", "b", "c"]);
    let world = World::on(world.server);
    hooks::reconcile(&world, "Complete").await;
    assert_eq!((world.server.object(PRIMARY), world.server.paths()), (None, vec![format!("{JOBS}/goodbye")]));
    assert!(last(&world, &format!("DELETE {FAREWELL}")) < last(&world, &format!("POST {JOBS}")));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_runs_the_charts_hook_although_the_record_of_an_earlier_uninstall_is_deleted_while_its_hook_ends() {
    let world = deleted("pre-delete").await;
    killed_after(&world, 30).await;
    world.edit(|p| p["spec"]["hooks"] = json!([hook("goodbye", "pre-delete")]));
    end_rollback(&world, 2, &["a", "b", "c"]);
    let server = Arc::downgrade(&world.server);
    world.server.refuse(move |call| {
        if call.method == http::Method::DELETE && call.path == FAREWELL {
            server.upgrade()?.remove(&record_path(1));
        }
        None
    });
    let world = World::on(world.server);
    hooks::reconcile(&world, "Complete").await;
    assert_eq!(count(&world, &format!("POST {JOBS}")), 2, "{:#?}", world.server.log());
    assert_eq!((world.server.object(PRIMARY), world.server.paths()), (None, vec![format!("{JOBS}/goodbye")]));
}

/// Returns a deleted resource whose release a person has rolled back, as revision 2, and the record of that.
async fn deleted_after_a_rollback() -> (World, Option<Value>) {
    let world = deleted("pre-delete").await;
    end_rollback(&world, 2, &["a", "b", "c"]);
    let theirs = world.server.object(&record_path(2));
    (world, theirs)
}

#[tokio::test(start_paused = true)]
async fn a_pause_during_the_charts_hook_finds_what_a_person_rolled_back_to_as_it_was() {
    for restarts in [false, true] {
        let (mut world, theirs) = deleted_after_a_rollback().await;
        let mut before = Vec::new();
        reconcile_while(&world, |world| {
            before = uids(world);
            world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/pause": "true"}));
        })
        .await;
        if restarts {
            world = World::on(world.server);
        }
        retry(&world).await;
        assert_eq!((world.server.object(&record_path(2)), uids(&world)), (theirs, before), "restarts: {restarts}");
        assert_eq!(world.history(), ["1 deployed", "2 deployed", "3 uninstalling"]);
        world.edit(|p| p["metadata"]["annotations"] = json!({}));
        is_uninstalled(&world, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_during_the_charts_hook_finds_what_a_person_rolled_back_to_before_as_it_was() {
    let (world, theirs) = deleted_after_a_rollback().await;
    reconcile_while(&world, |world| roll_back(world, 4)).await;
    let history = ["1 deployed", "2 deployed", "3 uninstalling", "4 pending-rollback"];
    assert_eq!((world.server.object(&record_path(2)), world.history()), (theirs, history.map(str::to_owned).to_vec()));
    assert_eq!(phases(&world, 3).await, ["farewell Failed"]);
    is_left_alone(&world, 4).await;
    end_rollback(&world, 4, &["a", "b", "c", "x"]);
    is_uninstalled(&world, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_makes_no_revision_above_one_that_a_person_has_just_begun() {
    let (world, theirs) = deleted_after_a_rollback().await;
    roll_back(&world, 3);
    let begun = world.server.object(&record_path(3));
    world.server.remove(&record_path(3));
    let (server, record) = (Arc::downgrade(&world.server), begun.clone().unwrap());
    // Its event is late.
    world.server.refuse(move |call| {
        let (server, path) = (server.upgrade()?, record_path(3));
        let makes_it = call.body.as_ref().is_some_and(|(_, body)| String::from_utf8_lossy(body).contains("web.v3"));
        if call.method == http::Method::POST && makes_it && server.object(&path).is_none() {
            server.restore(&path, record.clone());
        }
        None
    });
    let before = uids(&world);
    world.reconcile().await;
    let records = [2, 3].map(|version| world.server.object(&record_path(version)));
    assert_eq!((records, uids(&world)), ([theirs, begun], before), "{:#?}", world.server.log());
    let history = ["1 deployed", "2 deployed", "3 pending-rollback"].map(str::to_owned).to_vec();
    assert_eq!((world.history(), count(&world, &format!("POST {JOBS}"))), (history, 0));
    assert_eq!(world.state("Irreconcilable"), "True/ReleaseInFlight");
}

#[tokio::test(start_paused = true)]
async fn wherever_a_deletion_dies_that_makes_a_revision_for_the_charts_hook_the_hook_runs_once() {
    for writes in 0.. {
        let (world, _) = deleted_after_a_rollback().await;
        world.server.fail_after(Some(writes));
        hooks::reconcile(&world, "Complete").await;
        let has_died = world.server.writes_left() == Some(0);
        world.server.fail_after(None);
        let world = World::on(world.server);
        for _ in 0..3 {
            hooks::reconcile(&world, "Complete").await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        let left = (world.server.object(PRIMARY), world.server.paths(), count(&world, &format!("POST {JOBS}")));
        assert_eq!(left, (None, vec![FAREWELL.to_owned()], 1), "after {writes} writes: {:#?}", world.server.log());
        if !has_died {
            assert!(writes > 3, "the scenario wrote nothing");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_deleted_with_its_namespace_although_no_revision_can_be_made_there_for_the_charts_hook() {
    let (world, _) = deleted_after_a_rollback().await;
    world.server.refuse(|call| {
        let terminating = || Error::from_status(403, "NamespaceTerminating", "namespace ns is being terminated");
        (call.method == http::Method::POST).then(terminating)
    });
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_deleted_with_the_charts_hook_although_its_namespace_takes_no_more_secrets() {
    let (world, _) = deleted_after_a_rollback().await;
    world.server.refuse(|call| {
        let full = || Error::from_status(403, "Forbidden", "exceeded quota: count/secrets");
        (call.method == http::Method::POST && call.path.contains("/secrets")).then(full)
    });
    is_uninstalled(&world, 1).await;
}

/// Lets a process die while the hook of a deletion runs, and a person make the resource anew with this value.
async fn made_anew_during_its_deletion(world: &World, value: &str) {
    world.delete();
    killed_after(world, 30).await;
    assert_eq!(phases(world, 1).await[0], "farewell Running");
    world.edit(|p| {
        p["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
        p["spec"]["value"] = value.into();
    });
    world.recreate(PRIMARY);
}

/// Checks that the former resource's hook has ended before the other one began.
async fn check_former_ended(world: &World, event: &str) {
    assert_eq!(world.server.object(FAREWELL), None, "{event}: {:#?}", world.server.log());
    assert_eq!(phases(world, 1).await[0], "farewell Failed", "{event}");
    assert!(last(world, &format!("DELETE {FAREWELL}")) < last(world, &format!("POST {JOBS}")), "{event}");
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_a_former_resources_deletion_ends_before_the_release_is_installed_again() {
    for event in EVENTS {
        let world = World::new(with_hooks(json!([hook("farewell", event), hook("migrate", "pre-install")])));
        hooks::reconcile(&world, "Complete").await;
        made_anew_during_its_deletion(&world, "2").await;
        let world = World::on(world.server);
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(world.history().last().unwrap(), "2 deployed", "{event}: {:#?}", world.server.log());
        assert_eq!((world.maps().len(), world.value_of("a")), (3, json!("2")), "{event}");
        check_former_ended(&world, event).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_a_former_resources_deletion_ends_before_the_release_is_upgraded_after_a_failure() {
    let keeping = |server| {
        let keep = |settings: &mut Settings| settings.on_failure = OnFailure::Keep;
        World::with_events(server, Arc::new(Stub::default()), keep)
    };
    for event in EVENTS {
        let hooks_of_chart = with_hooks(json!([hook("farewell", event), hook("migrate", "pre-upgrade")]));
        let world = keeping(World::new(hooks_of_chart).server);
        world.reconcile().await;
        refuse(&world, 422);
        world.edit(|p| p["spec"]["value"] = "bad".into());
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(world.history(), ["1 deployed", "2 failed"]);
        world.server.accept();
        made_anew_during_its_deletion(&world, "2").await;
        let world = keeping(world.server);
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(world.history().last().unwrap(), "3 deployed", "{event}: {:#?}", world.server.log());
        assert_eq!((world.maps().len(), world.value_of("a")), (3, json!("2")), "{event}");
        check_former_ended(&world, event).await;
    }
}
