//! Tests of a chart's Jobs, and of objects like them, that are deleted after they finished: their absence is not drift,
//! and they do not run again, unless the operator itself deleted them before.

use std::cell::RefCell;

use helm_release::kube::{Adopt, Call, Disturbance, DriftPolicy};

use super::failure_policy::{refuse, retry};
use super::hooks;
use super::storage::recording;
use super::*;
use crate::watches::OnFailure;

pub(super) const LOAD: &str = "/apis/batch/v1/namespaces/ns/jobs/load";
const LATE: &str = "/apis/networking.k8s.io/v1/namespaces/ns/ingresses/late";

/// Returns a Job with a TTL, besides a ConfigMap.
pub(super) fn loading(value: &str, image: &str) -> Value {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "load"},
        "spec": {"ttlSecondsAfterFinished": 22, "image": image},
    });
    json!({"maps": ["b"], "value": value, "objects": [job]})
}

/// Feeds the result of a new list of Jobs.
pub(super) fn feed_jobs(world: &World) {
    let jobs = Dependents(world.shared.clone(), Arc::new(resource("batch/v1", "Job", "jobs")), 1);
    let number = world.lists.fetch_add(1, Ordering::Relaxed) + 1;
    let epoch = Epoch { number, began: Instant::now(), is_list: true };
    if let Some(mut job) = world.server.object(LOAD) {
        job["metadata"]["namespace"] = "ns".into();
        jobs.changed(live(job), epoch);
    }
    jobs.sweep(&WatchScope::ALL, epoch);
}

async fn reconcile(world: &World) {
    feed_jobs(world);
    world.reconcile().await;
    feed_jobs(world);
}

/// Creates a release whose Job finished and was deleted by the server.
async fn finished() -> World {
    let world = World::new(loading("1", "a"));
    reconcile(&world).await;
    assert!(world.server.object(LOAD).is_some());
    world.server.remove(LOAD);
    world
}

fn exists(world: &World) -> bool {
    world.server.object(LOAD).is_some()
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_that_the_server_deleted_is_ready_and_not_made_again() {
    let world = finished().await;
    for _ in 0..3 {
        reconcile(&world).await;
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    assert_eq!((exists(&world), world.state("Ready")), (false, "True/Ready".to_owned()));
    let world = World::on(world.server);
    feed_jobs(&world);
    assert_eq!(world.requests().await, 0, "a restart knows it");
    assert_eq!((exists(&world), world.state("Ready")), (false, "True/Ready".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_makes_a_finished_job_again_only_if_the_chart_changes_it() {
    let world = finished().await;
    for value in ["2", "3"] {
        world.edit(|p| p["spec"] = loading(value, "a"));
        reconcile(&world).await;
        assert_eq!((exists(&world), world.value_of("b")), (false, json!(value)));
    }
    world.edit(|p| p["spec"] = loading("3", "b"));
    reconcile(&world).await;
    assert!(exists(&world));
    assert_eq!(world.history().last().unwrap(), "4 deployed");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_and_a_request_leave_a_finished_job_finished() {
    let world = finished().await;
    refuse(&world, 422);
    world.edit(|p| p["spec"] = loading("bad", "a"));
    reconcile(&world).await;
    retry(&world).await;
    assert_eq!((exists(&world), world.value_of("b")), (false, json!("1")));
    world.server.accept();
    world.edit(|p| p["spec"] = loading("1", "a"));
    reconcile(&world).await;
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/reconcile-now": "1"}));
    reconcile(&world).await;
    assert!(!exists(&world));
    assert_eq!(world.state("Ready"), "True/Ready");
}

#[tokio::test(start_paused = true)]
async fn without_a_watch_no_period_makes_a_finished_job_again() {
    for policy in [DriftPolicy::Repair, DriftPolicy::Detect] {
        let server = World::new(loading("1", "a")).server;
        let world = World::unwatched(server, |settings| {
            (settings.watch_dependent_resources, settings.drift.policy) = (false, policy);
        });
        world.reconcile().await;
        world.server.remove(LOAD);
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(60)).await;
            world.reconcile().await;
        }
        assert_eq!((exists(&world), world.condition("Drifted")), (false, None), "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_finished_object_of_a_custom_kind_is_not_made_again() {
    const SET: &str = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets/load";
    let set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "load"},
        "spec": {"ttlSecondsAfterFinished": 22},
    });
    let server = World::new(json!({"maps": ["b"], "value": "1", "objects": [set]})).server;
    server.serve("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets");
    let world = World::unwatched(server, |settings| settings.watch_dependent_resources = false);
    world.reconcile().await;
    assert!(world.server.object(SET).is_some());
    world.server.remove(SET);
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(60)).await;
        world.reconcile().await;
    }
    assert_eq!(world.server.object(SET), None);
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    assert_eq!((world.server.object(SET), world.value_of("b")), (None, json!("2")));
}

/// Creates a controller that keeps what a failed action made.
pub(super) fn keeping(server: Arc<MemoryApi>) -> World {
    World::with_events(server, Arc::new(Stub::default()), |settings| settings.on_failure = OnFailure::Keep)
}

/// Adds an Ingress, which is applied after the Job.
fn with_late(mut spec: Value) -> Value {
    let route = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "late"}});
    spec["objects"].as_array_mut().unwrap().push(route);
    spec
}

/// Makes the server refuse the Ingress with this code.
fn refuse_late(world: &World, code: u16) {
    world.server.serve("networking.k8s.io/v1", "Ingress", "ingresses");
    world.server.refuse(move |call| {
        let is_late = call.method != http::Method::GET && call.path.contains("/ingresses");
        is_late.then(|| Error::from_status(code, "", "late is refused"))
    });
}

/// Returns a resource with a Job and an Ingress after it, which the server refuses with this code.
fn with_late_ingress(code: u16) -> World {
    let world = World::new(with_late(loading("1", "a")));
    refuse_late(&world, code);
    world
}

/// Returns a release whose install failed with this code, after its Job had finished.
async fn failed_after_the_job(code: u16) -> World {
    let world = keeping(with_late_ingress(code).server);
    reconcile(&world).await;
    assert!(exists(&world), "{code}");
    world.server.remove(LOAD);
    world.server.accept();
    world
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_again_for_a_resource_that_takes_the_place_of_one_whose_install_ran_it() {
    for code in [500, 422] {
        let world = failed_after_the_job(code).await;
        world.server.remove(&format!("{MAPS}/b"));
        world.recreate(PRIMARY);
        let world = keeping(world.server);
        reconcile(&world).await;
        retry(&world).await;
        assert_eq!((exists(&world), world.history().last().unwrap().as_str()), (true, "2 deployed"), "{code}");
    }
}

/// What another resource of the name finds of the release of one that went without its uninstall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    /// An object that names the former resource as its owner.
    ToCollect,
    /// An object that an orphan deletion left.
    Orphan,
}

/// Returns a resource in the place of one whose Job finished.
async fn in_place_of(found: Found, value: &str) -> World {
    let world = finished().await;
    let map = format!("{MAPS}/b");
    match found {
        Found::Nothing => world.server.remove(&map),
        Found::ToCollect => {}
        Found::Orphan => {
            let mut orphan = world.server.object(&map).unwrap();
            orphan["metadata"]["ownerReferences"] = json!([]);
            world.server.put(&map, orphan, "kube-controller-manager");
        }
    }
    world.recreate(PRIMARY);
    world.edit(|p| p["spec"] = loading(value, "a"));
    World::on(world.server)
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_once_more_for_a_resource_in_place_of_one_whose_release_is_gone_wherever_it_is_interrupted() {
    for (found, value) in
        [(Found::Nothing, "1"), (Found::Nothing, "2"), (Found::ToCollect, "1"), (Found::ToCollect, "2")]
    {
        for writes in 0.. {
            let world = in_place_of(found, value).await;
            world.server.fail_after(Some(writes));
            reconcile(&world).await;
            let died = world.server.writes_left() == Some(0);
            world.server.fail_after(None);
            let world = World::on(world.server);
            for _ in 0..3 {
                reconcile(&world).await;
                tokio::time::advance(Duration::from_secs(600)).await;
            }
            let behaviour = format!("{found:?}, {value}, after {writes} writes: {:#?}", world.server.log());
            assert!(exists(&world), "{behaviour}");
            assert_eq!(world.value_of("b"), value, "{behaviour}");
            world.server.remove(LOAD);
            reconcile(&world).await;
            assert!(!exists(&world), "it has finished, {behaviour}");
            if !died {
                assert!(writes > 3, "the scenario wrote nothing: {behaviour}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_has_finished_for_a_resource_that_goes_on_with_what_an_orphan_deletion_left() {
    for value in ["1", "2"] {
        let world = in_place_of(Found::Orphan, value).await;
        for _ in 0..3 {
            reconcile(&world).await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        assert_eq!((exists(&world), world.value_of("b")), (false, json!(value)), "{value}: {:#?}", world.server.log());
        assert_eq!(world.state("Ready"), "True/Ready");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_has_finished_for_a_resource_that_takes_over_what_is_left_of_anothers_release() {
    for (value, is_left) in [("1", true), ("2", true), ("1", false), ("2", false)] {
        let world = finished().await;
        let map = format!("{MAPS}/b");
        let mut theirs = world.server.object(&map).unwrap();
        theirs["metadata"]["ownerReferences"] = owned_by_another();
        theirs["metadata"]["annotations"]["operator-sdk/primary-resource-type"] = "Redis.cache.my.domain".into();
        world.server.remove(&map);
        if is_left {
            world.server.put(&map, theirs, "helm-operator");
        }
        put_as_anothers(&world.server, &record_path(1), world.server.object(&record_path(1)).unwrap());
        world.recreate(PRIMARY);
        world.edit(|p| {
            p["spec"] = loading(value, "a");
            p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/adopt": "true"});
        });
        let any = |settings: &mut Settings| settings.adopt = Adopt::Any;
        let world = World::with_events(world.server, Arc::new(Stub::default()), any);
        reconcile(&world).await;
        assert_eq!((world.value_of("b"), exists(&world)), (json!(value), !is_left), "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_finished_for_another_resource_runs_for_one_whose_refused_takeover_outlives_the_others_release() {
    // The records move meanwhile, or not.
    for (home, history) in [(Home::default(), "3 deployed"), (Home::in_namespace("records"), "4 deployed")] {
        outlives_the_others_release(home, history).await;
    }
}

/// Returns the marks in the first revision's record, and whether they say that the Job is deleted and that it has finished.
fn recorded_job(world: &World) -> (Marks, (bool, bool)) {
    let record = world.server.object(&record_path(1)).unwrap();
    let marks = Marks::parse(record["metadata"]["annotations"][MARKS_ANNOTATION].as_str().unwrap()).unwrap();
    let state = state_of_job(&marks);
    (marks, state)
}

fn state_of_job(marks: &Marks) -> (bool, bool) {
    let job = marks.objects.iter().find(|object| &*object.key.name == "load").unwrap();
    (job.deleted, job.expires)
}

#[tokio::test(start_paused = true)]
async fn a_takeover_that_is_refused_notes_the_jobs_of_a_release_as_deleted_for_itself_alone() {
    let world = finished().await;
    world.server.remove(&format!("{MAPS}/b"));
    put_as_anothers(&world.server, &record_path(1), world.server.object(&record_path(1)).unwrap());
    world.recreate(PRIMARY);
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/adopt": "true"}));
    let world = taking_any(world.server, Home::default());
    world.server.refuse(|call| {
        // One that the server does not change is created anew.
        let makes_job = call.method != http::Method::GET && call.path.contains("/jobs");
        makes_job.then(|| Error::from_status(422, "Invalid", "no"))
    });
    for _ in 0..2 {
        reconcile(&world).await;
        let (marks, state) = recorded_job(&world);
        assert_eq!((&*marks.owner, state), ("another", (true, false)), "{:#?}", world.server.log());
        assert_eq!(state_of_job(&marks.for_owner().unwrap()), (false, true));
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    world.server.accept();
    reconcile(&world).await;
    let (marks, state) = recorded_job(&world);
    assert_eq!((exists(&world), marks.for_owner(), state), (true, None, (false, true)), "it runs for the new owner");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_refused_takeover_noted_for_itself_does_not_run_again_for_its_owner() {
    for value in ["1", "2"] {
        let world = finished().await;
        world.server.remove(&format!("{MAPS}/b"));
        let recorded = world.shared.storage.get("ns", "web", 1).await.unwrap();
        let job = [ObjectKey::new("batch", "Job", "ns", "load")];
        let noted = recorded.marks.unwrap().with_deleted(&job).unwrap().noted_for_taker(&job, "taker");
        world.shared.storage.update(recorded.release.facts(), &noted).await.unwrap();
        world.edit(|p| p["spec"] = loading(value, "a"));
        let world = World::on(world.server);
        for _ in 0..3 {
            reconcile(&world).await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        assert_eq!((exists(&world), world.value_of("b")), (false, json!(value)), "{:#?}", world.server.log());
        assert_eq!(world.state("Ready"), "True/Ready");
    }
}

/// Returns a controller that takes any release over and keeps its records here.
fn taking_any(server: Arc<MemoryApi>, home: Home) -> World {
    World::with_events(server, Arc::new(Stub::default()), |settings| {
        (settings.adopt, settings.home) = (Adopt::Any, home);
    })
}

/// Lets a process with this home end a takeover that was refused until the other resource's release was gone.
async fn outlives_the_others_release(home: Home, history: &str) {
    const MIGRATE: &str = "/apis/batch/v1/namespaces/ns/jobs/migrate";
    let world = finished().await;
    put_as_anothers(&world.server, &record_path(1), world.server.object(&record_path(1)).unwrap());
    let metadata = json!({"name": "migrate", "ownerReferences": owned_by_another()});
    let theirs = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata});
    world.server.put(MIGRATE, theirs, "helm-operator");
    world.recreate(PRIMARY);
    world.edit(|p| {
        p["spec"] = loading("2", "a");
        p["spec"]["hooks"] = json!([hooks::hook("migrate", "pre-upgrade")]);
        p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/adopt": "true"});
    });
    let world = taking_any(world.server, Home::default());
    reconcile(&world).await;
    let refused = world.condition("ReleaseFailed").unwrap();
    assert!(refused.contains("it belongs to Redis"), "{refused}");
    assert_eq!((world.history(), exists(&world)), (vec!["1 deployed".to_owned(), "2 failed".into()], false));
    // The other resource goes, with all that it had.
    world.server.remove(MIGRATE);
    world.server.remove(&format!("{MAPS}/b"));
    tokio::time::advance(Duration::from_secs(600)).await;
    let world = if home == Home::default() { world } else { taking_any(world.server, home) };
    for _ in 0..2 {
        feed_jobs(&world);
        hooks::reconcile(&world, "Complete").await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    assert_eq!((exists(&world), world.value_of("b")), (true, json!("2")), "{:#?}", world.server.log());
    assert_eq!(world.history().last().unwrap(), history);
    let release = world.shared.cache.release(&key()).unwrap();
    let former: Vec<&str> = release.deployed_marks().unwrap().former.iter().map(|uid| &**uid).collect();
    assert_eq!(former, ["another"], "it does not take the release back");
    world.server.remove(LOAD);
    reconcile(&world).await;
    assert!(!exists(&world), "it has finished");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_takeover_made_runs_once_although_what_follows_is_refused() {
    let mut spec = with_late(loading("1", "a"));
    spec["maps"] = json!([]);
    let world = World::new(spec);
    world.server.serve("networking.k8s.io/v1", "Ingress", "ingresses");
    reconcile(&world).await;
    world.server.remove(LOAD);
    world.server.remove(LATE);
    world.recreate(PRIMARY);
    let world = World::on(world.server);
    refuse_late(&world, 422);
    reconcile(&world).await;
    assert!(exists(&world), "{:#?}", world.server.log());
    world.server.remove(LOAD);
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(600)).await;
        reconcile(&world).await;
        assert!(!exists(&world), "{:#?}", world.server.log());
    }
    world.server.accept();
    tokio::time::advance(Duration::from_secs(600)).await;
    reconcile(&world).await;
    assert_eq!((exists(&world), world.state("Ready")), (false, "True/Ready".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_takeover_that_somebody_elses_object_prevents_notes_and_makes_no_job() {
    let world = World::new(with_late(loading("1", "a")));
    world.server.serve("networking.k8s.io/v1", "Ingress", "ingresses");
    reconcile(&world).await;
    world.server.remove(LOAD);
    world.server.remove(&format!("{MAPS}/b"));
    let mut theirs = world.server.object(LATE).unwrap();
    theirs["metadata"]["ownerReferences"] = owned_by_another();
    world.server.put(LATE, theirs, "other");
    world.recreate(PRIMARY);
    let world = World::on(world.server);
    let before = world.server.object(&record_path(1));
    for _ in 0..2 {
        reconcile(&world).await;
        assert_eq!(world.state("Irreconcilable"), "True/ReleaseConflict");
        assert_eq!((exists(&world), world.maps()), (false, vec![]), "{:#?}", world.server.log());
        assert_eq!(world.server.object(&record_path(1)), before);
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    world.server.remove(LATE);
    reconcile(&world).await;
    assert_eq!((exists(&world), world.maps().len(), world.condition("Irreconcilable")), (true, 1, None));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_an_unfinished_takeover_made_runs_again_for_the_next_resource_of_the_name() {
    let mut spec = with_late(loading("1", "a"));
    spec["maps"] = json!([]);
    let mut world = World::new(spec);
    world.server.serve("networking.k8s.io/v1", "Ingress", "ingresses");
    reconcile(&world).await;
    world.server.remove(LATE);
    for is_last in [false, true] {
        // What the resource made goes with it, and nothing uninstalls its release.
        world.server.remove(LOAD);
        world.recreate(PRIMARY);
        world = World::on(world.server);
        if is_last {
            world.server.accept();
        } else {
            refuse_late(&world, 422);
        }
        reconcile(&world).await;
        assert!(exists(&world), "last: {is_last}, {:#?}", world.server.log());
        assert_eq!(world.condition("Irreconcilable").is_none(), is_last);
    }
    world.server.remove(LOAD);
    reconcile(&world).await;
    assert_eq!((exists(&world), world.state("Ready")), (false, "True/Ready".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_once_more_although_objects_that_nothing_collects_are_left_of_the_former_release() {
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}});
    let mut spec = loading("1", "a");
    spec["objects"].as_array_mut().unwrap().push(role);
    let world = World::new(spec);
    world.server.serve_cluster_scoped("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles");
    reconcile(&world).await;
    world.server.remove(LOAD);
    world.server.remove(&format!("{MAPS}/b"));
    world.recreate(PRIMARY);
    let world = World::on(world.server);
    reconcile(&world).await;
    assert!(exists(&world), "{:#?}", world.server.log());
}

#[tokio::test(start_paused = true)]
async fn what_the_garbage_collector_is_about_to_delete_names_the_resource_that_goes_on_with_it() {
    let world = in_place_of(Found::ToCollect, "1").await;
    world.edit(|p| p["spec"] = loading("1", "b"));
    reconcile(&world).await;
    let uid = world.server.object(PRIMARY).unwrap()["metadata"]["uid"].clone();
    assert_eq!(world.server.object(&format!("{MAPS}/b")).unwrap()["metadata"]["ownerReferences"][0]["uid"], uid);
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_finished_before_its_action_could_end_does_not_run_again() {
    for code in [500, 422] {
        for restarts in [false, true] {
            let mut world = failed_after_the_job(code).await;
            if restarts {
                world = keeping(world.server);
            }
            tokio::time::advance(Duration::from_secs(600)).await;
            reconcile(&world).await;
            retry(&world).await;
            let deployed = world.history().last().unwrap().ends_with(" deployed");
            assert_eq!((exists(&world), deployed), (false, true), "{code}, restarts: {restarts}");
            assert_eq!(world.state("Ready"), "True/Ready");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_without_a_ttl_is_made_again() {
    let mut spec = loading("1", "a");
    spec["objects"][0]["spec"] = json!({"image": "a"});
    let world = World::new(spec);
    reconcile(&world).await;
    world.server.remove(LOAD);
    reconcile(&world).await;
    assert!(exists(&world));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_the_server_deletes_between_its_read_and_its_write_has_finished() {
    let world = World::new(loading("1", "a"));
    reconcile(&world).await;
    world.server.disturb(&format!("PATCH {MAPS}/b"), 1, Disturbance::Refused(500));
    world.edit(|p| p["spec"] = loading("2", "a"));
    reconcile(&world).await;
    let server = Arc::downgrade(&world.server);
    world.server.refuse(move |call| {
        if call.method == http::Method::PATCH && call.path.starts_with(LOAD) {
            server.upgrade()?.remove(LOAD);
        }
        None
    });
    retry(&world).await;
    reconcile(&world).await;
    assert_eq!((exists(&world), world.value_of("b")), (false, json!("2")));
    assert_eq!((world.history().last().unwrap().as_str(), world.state("Ready")), ("2 deployed", "True/Ready".into()));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_no_record_mentions_does_not_run_again_if_it_finishes_while_the_next_action_runs() {
    for value in ["1", "2"] {
        let world = World::new(loading("1", "a"));
        world.server.refuse(|call| {
            let notes = call.method == http::Method::PATCH && call.path.contains("/secrets/sh.helm.release");
            notes.then(|| Error::from_status(500, "", "away"))
        });
        reconcile(&world).await;
        assert!(exists(&world), "and its record does not say so: {:?}", world.history());
        world.server.accept();
        let world = World::on(world.server);
        feed_jobs(&world);
        let server = Arc::downgrade(&world.server);
        world.server.refuse(move |call| {
            if call.method == http::Method::PATCH && call.path.starts_with(&format!("{MAPS}/b")) {
                server.upgrade()?.remove(LOAD);
            }
            None
        });
        world.edit(|p| p["spec"] = loading(value, "a"));
        for _ in 0..3 {
            reconcile(&world).await;
            tokio::time::advance(Duration::from_secs(60)).await;
        }
        assert_eq!((exists(&world), world.value_of("b")), (false, json!(value)));
        assert!(world.history().last().unwrap().ends_with(" deployed"), "{:?}", world.history());
        let world = World::on(world.server);
        reconcile(&world).await;
        assert_eq!((exists(&world), world.state("Ready")), (false, "True/Ready".to_owned()), "after a restart");
    }
}

/// Returns a release with a running Job whose image cannot change.
async fn running() -> World {
    let world = World::new(loading("1", "a"));
    world.server.make_immutable("jobs", "/spec/image");
    reconcile(&world).await;
    assert!(exists(&world));
    world
}

/// Returns a chart without the Job, and with a hook that runs after the upgrade.
fn without_the_job() -> Value {
    json!({"maps": ["b"], "value": "2", "hooks": [{"name": "check", "events": ["post-upgrade"]}]})
}

/// Rejects the hook of `without_the_job`.
fn refuse_check(world: &World) {
    let is_it = |call: &Call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        call.method == http::Method::POST && call.path.contains("/jobs") && body.contains("\"name\":\"check\"")
    };
    world.server.refuse(move |call| is_it(call).then(|| Error::from_status(403, "Forbidden", "denied by policy")));
}

/// Rejects the Job with image `b` when it is created.
fn refuse_creation(world: &World) {
    let is_new = |call: &Call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_created = call.path.contains("/jobs/load") && body.contains("\"resourceVersion\":\"1\"");
        is_created && body.contains("\"image\":\"b\"")
    };
    world.server.refuse(move |call| is_new(call).then(|| Error::from_status(403, "Forbidden", "denied by policy")));
}

fn finish(world: &World) {
    let mut job = world.server.object(LOAD).unwrap();
    job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    world.server.put(LOAD, job, "kube-controller-manager");
}

fn uid(world: &World) -> Value {
    world.server.object(LOAD).expect("the Job exists")["metadata"]["uid"].clone()
}

/// Checks that the Job exists with image `a`, and is still the one with this uid unless the operator deleted that.
fn check_kept(world: &World, before: &Value) {
    let was_deleted = world.server.log().contains(&format!("DELETE {LOAD}"));
    assert_eq!(uid(world) != *before, was_deleted, "{:#?}", world.server.log());
    assert_eq!(world.server.object(LOAD).unwrap()["spec"]["image"], "a");
    assert!(world.history().last().unwrap().ends_with(" deployed"), "{:?}", world.history());
}

#[tokio::test(start_paused = true)]
async fn a_running_job_that_an_upgrade_deleted_is_made_again_wherever_the_upgrade_was_interrupted_and_taken_back() {
    let before = RefCell::new(Value::Null);
    let prepare = async || {
        let world = running().await;
        *before.borrow_mut() = uid(&world);
        world.edit(|p| p["spec"] = loading("2", "b"));
        world
    };
    let take_back = |world: &World| world.edit(|p| p["spec"] = loading("1", "a"));
    survive_and(prepare, take_back, |world| check_kept(world, &before.borrow())).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_makes_a_running_job_again_that_its_upgrade_deleted_wherever_it_is_interrupted() {
    let before = RefCell::new(Value::Null);
    let prepare = async || {
        let world = running().await;
        *before.borrow_mut() = uid(&world);
        refuse_creation(&world);
        world.edit(|p| p["spec"] = loading("2", "b"));
        world
    };
    survive(prepare, |world| check_kept(world, &before.borrow())).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_rollback_made_again_finishes_once() {
    let world = running().await;
    let before = uid(&world);
    refuse_creation(&world);
    world.edit(|p| p["spec"] = loading("2", "b"));
    reconcile(&world).await;
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_ne!(uid(&world), before);
    world.server.remove(LOAD);
    reconcile(&world).await;
    assert!(!exists(&world));
    let world = World::on(world.server);
    reconcile(&world).await;
    assert!(!exists(&world), "nor after a restart");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_had_finished_when_its_upgrade_deleted_it_does_not_run_again() {
    let world = running().await;
    finish(&world);
    refuse_creation(&world);
    world.edit(|p| p["spec"] = loading("2", "b"));
    reconcile(&world).await;
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert!(!exists(&world) && world.server.log().contains(&format!("DELETE {LOAD}")));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_waits_for_the_deletion_of_a_running_job_and_is_taken_back_makes_it_again() {
    let world = running().await;
    let before = uid(&world);
    let mut held = world.server.object(LOAD).unwrap();
    held["metadata"]["finalizers"] = json!(["kubernetes.io/x"]);
    world.server.put(LOAD, held, "someone");
    world.edit(|p| p["spec"] = loading("2", "b"));
    reconcile(&world).await;
    assert!(world.server.object(LOAD).unwrap()["metadata"]["deletionTimestamp"].is_string());
    world.edit(|p| p["spec"] = loading("1", "a"));
    retry(&world).await;
    world.server.remove(LOAD);
    reconcile(&world).await;
    assert_ne!(uid(&world), before);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_makes_a_job_again_that_its_upgrade_deleted_with_the_chart_only_if_it_had_not_finished() {
    for has_finished in [false, true] {
        let world = running().await;
        let before = uid(&world);
        if has_finished {
            finish(&world);
        }
        refuse_check(&world);
        world.edit(|p| p["spec"] = without_the_job());
        reconcile(&world).await;
        assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
        assert!(world.server.log().contains(&format!("DELETE {LOAD}")));
        let after = world.server.object(LOAD).map(|job| job["metadata"]["uid"].clone());
        assert_eq!((after.is_none(), after == Some(before)), (has_finished, false));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_makes_a_running_job_again_that_its_upgrade_deleted_although_no_watch_had_shown_it_yet() {
    let world = World::on(running().await.server);
    let before = uid(&world);
    // A list from before the Job.
    world.shared.cache.kind_synced(&resource("batch/v1", "Job", "jobs"), &WatchScope::ALL, 1);
    refuse_check(&world);
    world.edit(|p| p["spec"] = without_the_job());
    world.reconcile().await;
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert!(world.server.log().contains(&format!("DELETE {LOAD}")));
    assert_ne!(uid(&world), before);
}

#[tokio::test(start_paused = true)]
async fn a_running_job_that_an_upgrade_dropped_is_made_again_wherever_the_upgrade_was_interrupted_and_taken_back() {
    let before = RefCell::new(Value::Null);
    let prepare = async || {
        let world = running().await;
        *before.borrow_mut() = uid(&world);
        refuse_check(&world);
        world.edit(|p| p["spec"] = without_the_job());
        world
    };
    let take_back = |world: &World| {
        world.server.accept();
        world.edit(|p| p["spec"] = loading("1", "a"));
    };
    survive_and(prepare, take_back, |world| check_kept(world, &before.borrow())).await;
}

fn recorded_elsewhere(server: Arc<MemoryApi>) -> World {
    recording(server, Stub::default())
}

/// Ends the process after some writes, and lets another one go on, which makes the Job anew, once. Returns whether the
/// first process died.
async fn runs_once_more(
    world: World,
    process: fn(Arc<MemoryApi>) -> World,
    (writes, before): (usize, &Value),
    history: &str,
) -> bool {
    let died = dies_after(&world, writes).await;
    goes_on_and_runs_it_once_more(&process(world.server), (writes, before), history).await;
    assert!(died || writes > 3, "the scenario wrote nothing");
    died
}

/// Reconciles in a process that ends after some writes. Returns whether it died.
async fn dies_after(world: &World, writes: usize) -> bool {
    world.server.fail_after(Some(writes));
    reconcile(world).await;
    let died = world.server.writes_left() == Some(0);
    world.server.fail_after(None);
    died
}

async fn goes_on_and_runs_it_once_more(world: &World, (writes, before): (usize, &Value), history: &str) {
    for _ in 0..3 {
        reconcile(world).await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    assert!(exists(world), "after {writes} writes: {:#?}", world.server.log());
    assert_ne!(uid(world), *before, "after {writes} writes");
    assert_eq!(world.server.object(LOAD).unwrap()["spec"]["image"], "a", "after {writes} writes");
    world.server.remove(LOAD);
    reconcile(world).await;
    assert!(!exists(world), "it has finished, after {writes} writes");
    assert_eq!(world.history(), [history]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_repair_deleted_runs_once_wherever_the_repair_is_interrupted() {
    for writes in 0.. {
        let world = running().await;
        // Does what `kubectl replace --force` does.
        let mut theirs = world.server.object(LOAD).unwrap();
        (theirs["spec"]["image"], theirs["metadata"]["managedFields"]) = ("mine".into(), Value::Null);
        world.server.remove(LOAD);
        world.server.put(LOAD, theirs, "kubectl-replace");
        let before = uid(&world);
        if !runs_once_more(world, World::on, (writes, &before), "1 deployed").await {
            return;
        }
    }
}

/// Returns a release whose running Job is of a failed upgrade to these ConfigMaps that was kept, and whose resource is as
/// before the upgrade.
async fn with_the_job_of_a_kept_upgrade(maps: &[&str]) -> World {
    let world = keeping(running().await.server);
    refuse_late(&world, 422);
    world.edit(|p| {
        p["spec"] = with_late(loading("2", "b"));
        p["spec"]["maps"] = json!(maps);
    });
    reconcile(&world).await;
    world.server.accept();
    assert_eq!(world.history(), ["1 deployed", "2 failed"]);
    assert_eq!(world.server.object(LOAD).unwrap()["spec"]["image"], "b");
    world.edit(|p| p["spec"] = loading("1", "a"));
    world
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_takeover_deleted_runs_once_wherever_the_takeover_is_interrupted() {
    for writes in 0.. {
        let world = with_the_job_of_a_kept_upgrade(&["b"]).await;
        let before = uid(&world);
        let world = recorded_elsewhere(world.server);
        if !runs_once_more(world, recorded_elsewhere, (writes, &before), "3 deployed").await {
            return;
        }
    }
}

/// Returns a release whose running Job is of a kept upgrade, and whose deployed revision has no seal, as if Helm had written
/// it.
async fn with_an_unproven_record() -> World {
    let world = with_the_job_of_a_kept_upgrade(&["b"]).await;
    let mut record = world.server.object(&record_path(1)).unwrap();
    record["metadata"]["annotations"] = Value::Null;
    world.server.restore(&record_path(1), record);
    world
}

/// Returns a controller that can compare a record with the chart and the values, as it must before it takes over one
/// without a seal.
fn comparing_elsewhere(server: Arc<MemoryApi>) -> World {
    recording(server, with_sources())
}

/// Removes the objects from the marks that an unfinished takeover has sealed, as if they were too many.
async fn omit_what_is_taken_over(world: &World) {
    let storage = &world.shared.storage;
    let Ok(imported) = storage.get("ns", "web", 3).await else { return };
    if let Some(marks) = imported.marks.filter(|marks| !marks.complete) {
        storage.update(imported.release.facts(), &marks.without_inventory()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_the_takeover_of_an_unproven_record_deleted_runs_once_wherever_it_is_interrupted() {
    for has_too_many_objects in [false, true] {
        for writes in 0.. {
            let world = with_an_unproven_record().await;
            let before = uid(&world);
            let world = comparing_elsewhere(world.server);
            let died = dies_after(&world, writes).await;
            if has_too_many_objects {
                omit_what_is_taken_over(&world).await;
            }
            let world = comparing_elsewhere(world.server);
            goes_on_and_runs_it_once_more(&world, (writes, &before), "3 deployed").await;
            if !died {
                assert!(writes > 4, "the scenario wrote nothing");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_nobody_proves_is_sealed_before_its_takeover_deletes_a_job() {
    let world = comparing_elsewhere(with_an_unproven_record().await.server);
    world.server.refuse(|call| {
        let is_deletion = call.method == http::Method::DELETE && call.path.starts_with(LOAD);
        is_deletion.then(|| Error::from_status(500, "InternalError", "away"))
    });
    reconcile(&world).await;
    let imported = world.shared.storage.get("ns", "web", 3).await.unwrap();
    let marks = imported.marks.unwrap();
    let load = marks.objects.iter().find(|object| &*object.key.name == "load").unwrap();
    assert_eq!((marks.complete, load.deleted, load.expires), (false, true, false));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_takeover_made_again_runs_once_although_the_takeover_fails_after_it() {
    let world = World::new(with_late(loading("1", "a")));
    world.server.serve("networking.k8s.io/v1", "Ingress", "ingresses");
    world.server.make_immutable("jobs", "/spec/image");
    reconcile(&world).await;
    let world = keeping(world.server);
    refuse_late(&world, 422);
    world.edit(|p| {
        p["spec"] = with_late(loading("2", "b"));
        p["spec"]["objects"][1]["spec"] = json!({"ingressClassName": "b"});
    });
    reconcile(&world).await;
    assert_eq!(world.history(), ["1 deployed", "2 failed"]);
    world.edit(|p| p["spec"] = with_late(loading("1", "a")));
    let before = uid(&world);
    let world = recording(world.server, Stub::default());
    refuse_late(&world, 500);
    finishes_once_although_its_takeover_is_refused(&world, &before).await;
}

/// Checks that a takeover makes the Job again, once, although the server then refuses what follows.
async fn finishes_once_although_its_takeover_is_refused(world: &World, before: &Value) {
    reconcile(world).await;
    assert_ne!(uid(world), *before);
    assert_eq!(world.server.object(LOAD).unwrap()["spec"]["image"], "a");
    assert!(world.condition("Irreconcilable").is_some(), "it is refused");
    world.server.remove(LOAD);
    for refused in [true, true, false] {
        if !refused {
            world.server.accept();
        }
        tokio::time::advance(Duration::from_secs(600)).await;
        reconcile(world).await;
        assert!(!exists(world), "it has finished");
    }
    assert_eq!((world.condition("Irreconcilable"), world.history()), (None, vec!["3 deployed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_takeover_made_again_runs_once_although_an_object_that_was_left_cannot_be_deleted() {
    let world = with_the_job_of_a_kept_upgrade(&["b", "y"]).await;
    let before = uid(&world);
    let world = recording(world.server, Stub::default());
    world.server.refuse(|call| {
        let is_deletion = call.method == http::Method::DELETE && call.path.starts_with(&format!("{MAPS}/y"));
        is_deletion.then(|| Error::from_status(500, "InternalError", "y is refused"))
    });
    finishes_once_although_its_takeover_is_refused(&world, &before).await;
    assert_eq!(world.maps(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_running_job_that_a_kept_upgrade_deleted_is_made_again_although_the_records_moved_since() {
    let world = keeping(running().await.server);
    let before = uid(&world);
    refuse_creation(&world);
    world.edit(|p| p["spec"] = loading("2", "b"));
    reconcile(&world).await;
    assert_eq!((exists(&world), world.history()), (false, vec!["1 deployed".to_owned(), "2 failed".into()]));
    world.server.accept();
    world.edit(|p| p["spec"] = loading("1", "a"));
    let world = recording(world.server, Stub::default());
    reconcile(&world).await;
    assert_ne!(uid(&world), before);
    assert_eq!(world.history(), ["3 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_went_with_a_failed_install_runs_again_wherever_its_removal_was_interrupted() {
    let accept = |world: &World| world.server.accept();
    survive_and(
        async || with_late_ingress(422),
        accept,
        |world| {
            assert!(exists(world), "{:#?}", world.server.log());
            assert!(world.history().last().unwrap().ends_with(" deployed"), "{:?}", world.history());
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_went_with_a_failed_upgrade_runs_again_wherever_the_uninstall_was_interrupted() {
    let prepare = async || {
        let server = World::new(loading("1", "a")).server;
        let uninstall = |settings: &mut Settings| settings.on_failure = OnFailure::Uninstall;
        let world = World::with_events(server, Arc::new(Stub::default()), uninstall);
        reconcile(&world).await;
        refuse(&world, 422);
        world.edit(|p| p["spec"] = loading("bad", "a"));
        world
    };
    let correct = |world: &World| {
        world.server.accept();
        world.edit(|p| p["spec"] = loading("2", "a"));
    };
    survive_and(prepare, correct, |world| {
        assert!(exists(world), "{:#?}", world.server.log());
        assert_eq!(world.value_of("b"), "2");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_goes_with_a_failed_upgrade_runs_again_although_the_uninstall_has_to_wait() {
    let server = World::new(loading("1", "a")).server;
    let uninstall = |settings: &mut Settings| settings.on_failure = OnFailure::Uninstall;
    let world = World::with_events(server, Arc::new(Stub::default()), uninstall);
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}));
    reconcile(&world).await;
    let before = uid(&world);
    let mut held = world.server.object(&format!("{MAPS}/b")).unwrap();
    held["metadata"]["finalizers"] = json!(["x/y"]);
    world.server.put(&format!("{MAPS}/b"), held, "someone");
    refuse(&world, 422);
    world.edit(|p| p["spec"] = loading("bad", "a"));
    reconcile(&world).await;
    assert!(!exists(&world) && !world.history().is_empty(), "the uninstall waits for the ConfigMap");
    world.server.accept();
    world.server.remove(&format!("{MAPS}/b"));
    world.edit(|p| p["spec"] = loading("2", "a"));
    retry(&world).await;
    assert_ne!(uid(&world), before);
    assert_eq!(world.value_of("b"), "2");
}

/// Returns a release of which nothing was ever deployed: its install failed before the Job, and the next attempt died once
/// it had created the Job in another form. Its resource has the first form again.
async fn with_the_job_of_a_dead_attempt() -> World {
    let world = keeping(World::new(loading("bad", "a")).server);
    world.server.make_immutable("jobs", "/spec/image");
    refuse(&world, 422);
    reconcile(&world).await;
    assert_eq!((exists(&world), world.history()), (false, vec!["1 failed".to_owned()]));
    let server = Arc::downgrade(&world.server);
    world.server.refuse(move |call| {
        if call.method == http::Method::PATCH && call.path.starts_with(LOAD) {
            server.upgrade()?.fail_after(Some(0));
        }
        None
    });
    world.edit(|p| p["spec"] = loading("1", "b"));
    reconcile(&world).await;
    world.server.fail_after(None);
    world.server.accept();
    assert_eq!(world.server.object(LOAD).unwrap()["spec"]["image"], "b", "{:#?}", world.server.log());
    world.edit(|p| p["spec"] = loading("2", "a"));
    keeping(world.server)
}

/// Checks that the Job has run in the form that the resource has.
fn check_first_form(world: &World) {
    let job = world.server.object(LOAD).unwrap_or_else(|| panic!("it was never made: {:#?}", world.server.log()));
    assert_eq!((&job["spec"]["image"], world.value_of("b")), (&json!("a"), json!("2")));
    assert!(world.history().last().unwrap().ends_with(" deployed"), "{:?}", world.history());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_dead_attempt_left_in_another_form_is_replaced_wherever_that_is_interrupted() {
    survive(with_the_job_of_a_dead_attempt, check_first_form).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_dead_attempt_left_in_another_form_proves_no_run_when_it_finishes_meanwhile() {
    let world = with_the_job_of_a_dead_attempt().await;
    let server = Arc::downgrade(&world.server);
    world.server.refuse(move |call| {
        if call.method == http::Method::PATCH && call.path.starts_with(&format!("{MAPS}/b")) {
            server.upgrade()?.remove(LOAD);
        }
        None
    });
    reconcile(&world).await;
    check_first_form(&world);
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_does_not_run_again_after_an_uninstall_that_was_called_off() {
    let uninstalling = |server: Arc<MemoryApi>| {
        let uninstall = |settings: &mut Settings| settings.on_failure = OnFailure::Uninstall;
        World::with_events(server, Arc::new(Stub::default()), uninstall)
    };
    for dies in [false, true] {
        let mut spec = loading("1", "a");
        spec["hooks"] = json!([hooks::hook("farewell", "pre-delete")]);
        let mut world = uninstalling(World::new(spec).server);
        world.reconcile().await;
        assert!(exists(&world));
        world.server.remove(LOAD);
        refuse(&world, 422);
        world.edit(|p| p["spec"]["value"] = "bad".into());
        if dies {
            hooks::killed_after(&world, 30).await;
            world = uninstalling(world.server);
        } else {
            hooks::reconcile(&world, "Failed").await;
        }
        assert_eq!(world.history(), ["1 uninstalling", "2 failed"], "dies: {dies}");
        world.edit(|p| p["spec"]["value"] = "2".into());
        tokio::time::advance(Duration::from_secs(600)).await;
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"], "dies: {dies}");
        assert_eq!((exists(&world), world.value_of("b")), (false, json!("2")), "dies: {dies}");
        reconcile(&world).await;
        assert!(!exists(&world), "nor is it repaired: dies: {dies}");
        assert_eq!(hooks::count(&world, &format!("PATCH {LOAD}")), 1, "dies: {dies}");
    }
}
