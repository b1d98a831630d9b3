//! Tests of the records of all releases in one namespace.

use helm_release::kube::{CHART_LABEL, Disturbance, Policy};

use super::followed_uninstalls::end_rollback;
use super::hooks::{self, JOBS};
use super::*;
use crate::watches::OnFailure;

const RECORDS: &str = "/api/v1/namespaces/records/secrets/sh.helm.release.v1";

/// Creates a controller that keeps its records in the namespace `records`.
pub(super) fn recording(server: Arc<MemoryApi>, renderer: Stub) -> World {
    recording_at(Home::in_namespace("records"), server, renderer)
}

/// Creates a controller that keeps its records at this home.
pub(super) fn recording_at(home: Home, server: Arc<MemoryApi>, renderer: Stub) -> World {
    recording_with(server, renderer, |settings| settings.home = home)
}

fn recording_with(server: Arc<MemoryApi>, renderer: Stub, change: impl FnOnce(&mut Settings)) -> World {
    World::start(
        server,
        Arc::new(renderer),
        Events::default(),
        ChartObjects::Watched,
        change,
        Acceptance::default(),
        Extensions::default(),
    )
}

/// Returns the paths of all records.
fn records(world: &World) -> Vec<String> {
    world.server.paths().into_iter().filter(|path| path.contains("/secrets/")).collect()
}

#[tokio::test(start_paused = true)]
async fn releases_of_one_name_in_two_namespaces_have_records_of_their_own() {
    let world = recording(World::new(spec()).server, Stub::default());
    let other = world.add("shop", "web", spec());
    world.reconcile().await;
    world.reconcile_one(&other).await;
    assert_eq!(records(&world), [format!("{RECORDS}.ns.web.v1"), format!("{RECORDS}.shop.web.v1")]);
    world.edit(|primary| primary["spec"]["value"] = "2".into());
    world.reconcile().await;
    assert_eq!(
        (world.value_of("a"), world.history()),
        (json!("2"), vec!["1 superseded".to_owned(), "2 deployed".into()])
    );

    let world = recording(world.server, Stub::default());
    assert_eq!(world.requests().await, 0, "after a restart");
    let there = "/api/v1/namespaces/shop/configmaps/a";
    assert_eq!(world.server.object(there).unwrap()["data"]["value"], "1");
    world.delete();
    world.reconcile().await;
    assert_eq!((world.maps().len(), records(&world)), (0, vec![format!("{RECORDS}.shop.web.v1")]));
    assert!(world.server.object(there).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_record_wakes_the_release_that_it_belongs_to_and_no_other() {
    let long = "n".repeat(40);
    let world = recording(World::new(spec()).server, Stub::default());
    let name = "w".repeat(40);
    let keys = [key(), world.add("shop", "web", spec()), world.add(&long, &name, spec())];
    for key in &keys {
        world.reconcile_one(key).await;
    }
    for key in &keys {
        let record = world.shared.settings.home.record(&key.namespace, &key.name);
        let record = ResourceKey::new(record.0, &record.1);
        assert_eq!(world.shared.cache.resource_of(&record).as_ref(), Some(key));
    }
    for stranger in ["web", "ns.other", "ns"] {
        assert_eq!(world.shared.cache.resource_of(&ResourceKey::new("records", stranger)), None, "{stranger}");
    }
    assert_eq!(world.shared.cache.resource_of(&key()), None, "a record in the release's namespace");

    // If a person deletes a record, its release is recorded again, with its current objects.
    world.server.remove(&format!("{RECORDS}.ns.web.v1"));
    world.feed();
    assert!(
        world.shared.memory.of(&keys[0]).release.lost.is_some()
            && world.shared.memory.of(&keys[1]).release.lost.is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn releases_move_when_records_get_a_namespace_of_their_own() {
    let world = World::rendering(World::new(spec()).server, Arc::new(Stub { has_sources: true, ..random() }));
    world.reconcile().await;
    let (value, uid) = (world.value_of("a"), |world: &World| {
        world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].clone()
    });
    let before = uid(&world);
    let world = recording(world.server, Stub { has_sources: true, ..random() });
    world.reconcile().await;
    assert_eq!((world.value_of("a"), uid(&world), world.history()), (value, before, vec!["2 deployed".to_owned()]));
    assert_eq!(records(&world).len(), 2, "the old record stays");
    assert_eq!(recording(world.server, random()).requests().await, 0);
}

/// Returns the objects of the release and its records.
pub(super) fn release(world: &World) -> Vec<(String, Value)> {
    let paths = world.server.paths().into_iter().filter(|path| path != PRIMARY);
    paths.map(|path| (path.clone(), world.server.object(&path).unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_release_is_neither_installed_again_nor_left_behind_if_its_records_are_in_another_namespace() {
    let world = recording(World::new(spec()).server, random());
    world.reconcile().await;
    let before = release(&world);
    let mut server = world.server;
    for home in [Home::in_namespace("elsewhere"), Home::default()] {
        let world = recording_at(home, server, random());
        for _ in 0..2 {
            world.reconcile().await;
            tokio::time::advance(Duration::from_secs(600)).await;
            assert_eq!(release(&world), before);
            let condition = world.condition("Irreconcilable").unwrap();
            let expected = "True/ReleaseElsewhere/the records of this release are in namespace \"records\", and the operator looks for them in namespace \"";
            assert!(
                condition.starts_with(expected) && condition.contains("Set storageNamespace: records in"),
                "{condition}"
            );
        }
        let world = recording(world.server, random());
        world.reconcile().await;
        assert_eq!((world.state("Ready").as_str(), world.condition("Irreconcilable")), ("True/Ready", None));
        assert_eq!((world.requests().await, release(&world)), (0, before.clone()));
        server = world.server;
    }

    let world = recording_at(Home::in_namespace("elsewhere"), server, random());
    world.delete();
    world.reconcile().await;
    assert_eq!(release(&world), before);
    assert_eq!(world.server.object(PRIMARY).unwrap()["metadata"]["finalizers"], json!([FINALIZER]));
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.contains("To uninstall the release without its hooks, delete the Secrets with"), "{condition}");
    let world = recording(world.server, random());
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn an_install_that_no_status_names_is_neither_begun_again_nor_forgotten_if_it_is_recorded_in_another_namespace() {
    for is_deleted in [false, true] {
        for home in [Home::in_namespace("elsewhere"), Home::default()] {
            let world = recording(World::new(spec()).server, random());
            world.reconcile().await;
            let before = release(&world);
            let began = json!({"type": "Ready", "status": "False", "reason": "Installing", "message": ""});
            world.edit(|p| p["status"] = json!({"conditions": [began]}));
            let world = recording_at(home.clone(), world.server, random());
            if is_deleted {
                world.delete();
            }
            world.reconcile().await;
            assert_eq!(release(&world), before, "{home:?}, deleted: {is_deleted}");
            assert_eq!(world.state("Irreconcilable"), "True/ReleaseElsewhere", "{home:?}, deleted: {is_deleted}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_recorded_elsewhere_is_not_installed_once_anothers_records_here_are_deleted() {
    for is_deleted in [false, true] {
        let world = recording(World::new(spec()).server, random());
        world.reconcile().await;
        let before = release(&world);
        let mut theirs = world.server.object(&format!("{RECORDS}.ns.web.v1")).unwrap();
        theirs["metadata"]["labels"]["name"] = "web".into();
        (theirs["metadata"]["namespace"], theirs["metadata"]["name"]) =
            ("ns".into(), "sh.helm.release.v1.web.v1".into());
        put_as_anothers(&world.server, &record_path(1), theirs);
        let world = recording_at(Home::default(), world.server, random());
        world.reconcile().await;
        assert_eq!(world.state("Irreconcilable"), "True/ReleaseConflict");

        world.server.remove(&record_path(1));
        world.feed();
        if is_deleted {
            world.delete();
        }
        tokio::time::advance(Duration::from_secs(600)).await;
        world.reconcile().await;
        assert_eq!(
            (world.state("Irreconcilable").as_str(), release(&world)),
            ("True/ReleaseElsewhere", before),
            "{is_deleted}"
        );
    }
}

/// Checks that a process which knows no records here changes nothing of a release that is recorded elsewhere, and says so.
pub(super) async fn is_left_as_it_is_elsewhere(world: &World) {
    let before = release(world);
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!((world.state("Irreconcilable").as_str(), release(world)), ("True/ReleaseElsewhere", before));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_another_process_moved_is_not_installed_again_once_the_former_records_are_deleted() {
    let stub = || Stub { has_sources: true, ..random() };
    let world = World::rendering(World::new(spec()).server, Arc::new(stub()));
    world.reconcile().await;
    let other = recording(world.server.clone(), stub());
    other.reconcile().await;
    assert_eq!(other.history(), ["2 deployed"]);
    world.feed();
    world.server.remove(&record_path(1));
    world.feed();
    is_left_as_it_is_elsewhere(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_install_went_on_after_its_records_moved_is_not_installed_again_once_those_before_are_deleted()
{
    let world = interrupted_in_a_hook(json!([hooks::hook("first", "pre-install")])).await;
    let other = recording(world.server, random_values(4));
    hooks::reconcile(&other, "Complete").await;
    assert_eq!(other.history(), ["1 deployed"]);
    let world = World::rendering(other.server, Arc::new(random_values(5)));
    world.reconcile().await;
    world.server.remove(&record_path(1));
    world.feed();
    is_left_as_it_is_elsewhere(&world).await;
}

/// Lets a tenant write a record without a seal, in the tenant's own namespace, that names the resource and seems newer than its
/// own.
fn forge_elsewhere(world: &World) {
    let mut record = world.server.object(&record_path(1)).unwrap();
    let key = "sh.helm.release.v1.ns.web.v99999";
    let metadata = &mut record["metadata"];
    (metadata["namespace"], metadata["name"]) = ("b".into(), key.into());
    (metadata["labels"]["name"], metadata["labels"]["version"]) = ("ns.web".into(), "99999".into());
    metadata["annotations"][SEAL_ANNOTATION] = "AAAA".into();
    world.server.put(&format!("/api/v1/namespaces/b/secrets/{key}"), record, "tenant");
}

#[tokio::test(start_paused = true)]
async fn a_forged_record_elsewhere_stops_neither_an_uninstall_nor_an_install_once_the_own_records_are_gone() {
    for is_deleted in [true, false] {
        let world = World::new(spec());
        world.reconcile().await;
        forge_elsewhere(&world);
        world.feed();
        world.server.remove(&record_path(1));
        world.feed();
        if is_deleted {
            world.delete();
        }
        world.reconcile().await;
        if is_deleted {
            assert_eq!((world.server.object(PRIMARY), world.maps()), (None, Vec::<String>::new()));
        } else {
            assert_eq!((world.state("Ready").as_str(), world.condition("Irreconcilable")), ("True/Ready", None));
            assert!(!world.history().is_empty());
        }
    }
}

/// Returns a stub that renders random values with this many digits in the first hundred renders.
fn random_values(digits: u32) -> Stub {
    let first = 10_usize.pow(digits - 1);
    Stub { has_sources: true, renders: AtomicUsize::new(first), ..random() }
}

/// Returns whether a stub with this many digits has rendered the value of `a`.
fn has_digits(world: &World, digits: usize) -> bool {
    world.value_of("a").as_str().unwrap().trim_start_matches("password ").len() == digits
}

/// Creates a release with these hooks, whose records are beside it. Its process dies while the first hook runs.
async fn interrupted_in_a_hook(all: Value) -> World {
    let server = World::new(hooks::with_hooks(all)).server;
    let world = World::rendering(server, Arc::new(random_values(3)));
    hooks::killed_after(&world, 30).await;
    world.feed();
    assert_eq!((world.history(), world.maps()), (vec!["1 pending-install".to_owned()], vec![]));
    world
}

#[tokio::test(start_paused = true)]
async fn an_install_that_was_interrupted_in_a_hook_when_its_records_moved_goes_on_or_is_deleted() {
    for is_deleted in [false, true] {
        let world = interrupted_in_a_hook(json!([hooks::hook("first", "pre-install")])).await;
        let uid = |world: &World| world.server.object(&format!("{JOBS}/first")).unwrap()["metadata"]["uid"].clone();
        let before = uid(&world);
        let world = recording(world.server, random_values(4));
        if is_deleted {
            world.delete();
        }
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(hooks::count(&world, &format!("POST {JOBS}")), 1, "{is_deleted}");
        if is_deleted {
            assert_eq!((world.server.object(PRIMARY), world.maps()), (None, Vec::<String>::new()));
        } else {
            assert_eq!((world.history(), uid(&world)), (vec!["1 deployed".to_owned()], before));
            assert!(has_digits(&world, 3));
        }
    }
}

/// How the first attempt to import a release ends.
#[derive(Clone, Copy, Debug)]
enum FirstImport {
    Succeeds,
    /// Its record is created, but the answer is lost.
    Unanswered,
    /// Its process dies before the deletion of the hook's Job arrives.
    DiesAtDeletion,
    /// Its process dies while a finalizer holds the hook's Job.
    DiesInWait,
}

const FIRST_IMPORTS: [FirstImport; 4] =
    [FirstImport::Succeeds, FirstImport::Unanswered, FirstImport::DiesAtDeletion, FirstImport::DiesInWait];

/// Loses the answer to the next record that is created in the namespace `records`.
fn lose_the_answer_to_a_record(server: &MemoryApi) {
    server.disturb("POST /api/v1/namespaces/records/secrets", 1, Disturbance::AnswerLost);
}

/// Creates a controller that keeps its records in the namespace `records`, after its first attempt to import a release
/// with the hook `migrate`, unless that would succeed.
async fn moved(server: Arc<MemoryApi>, renderer: impl Fn() -> Stub, first: FirstImport) -> World {
    let (world, path) = (recording(server, renderer()), format!("{JOBS}/migrate"));
    match first {
        FirstImport::Succeeds => return world,
        FirstImport::Unanswered => {
            lose_the_answer_to_a_record(&world.server);
            hooks::reconcile(&world, "Complete").await;
            tokio::time::advance(Duration::from_secs(600)).await;
            return world;
        }
        FirstImport::DiesAtDeletion => {
            world.server.disturb(&format!("DELETE {path}"), 1, Disturbance::Unanswered);
            hooks::killed_after(&world, 10).await;
        }
        FirstImport::DiesInWait => {
            let mut held = world.server.object(&path).unwrap();
            held["metadata"]["finalizers"] = json!(["x/y"]);
            world.server.put(&path, held, "someone");
            hooks::killed_after(&world, 20).await;
            world.server.remove(&path);
        }
    }
    recording(world.server, renderer())
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_an_upgrade_that_was_interrupted_when_its_records_moved_ends() {
    for first in FIRST_IMPORTS {
        let migrate = json!({"name": "migrate", "events": ["pre-upgrade"], "policies": ["hook-failed"]});
        let world = World::new(hooks::with_hooks(json!([migrate])));
        world.reconcile().await;
        world.edit(|p| p["spec"]["value"] = "2".into());
        hooks::killed_after(&world, 30).await;
        let path = format!("{JOBS}/migrate");
        assert!(world.server.object(&path).is_some());
        world.edit(|p| p["spec"]["value"] = "1".into());
        let world = moved(world.server, Stub::default, first).await;
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(world.history(), ["3 deployed"], "no revision followed, {first:?}");
        assert_eq!(world.server.object(&path), None, "{first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_an_uninstall_that_a_persons_rollback_followed_ends_when_its_records_move() {
    for first in FIRST_IMPORTS {
        let world = World::new(hooks::with_hooks(json!([hooks::hook("migrate", "pre-delete")])));
        world.reconcile().await;
        world.delete();
        hooks::killed_after(&world, 30).await;
        let path = format!("{JOBS}/migrate");
        assert!(world.server.object(&path).is_some());
        end_rollback(&world, 2, &["a", "b", "c"]);
        world.edit(|p| p["spec"]["hooks"] = json!([hooks::hook("goodbye", "pre-delete")]));
        let world = moved(world.server, Stub::default, first).await;
        hooks::reconcile(&world, "Complete").await;
        assert_eq!((world.server.object(PRIMARY), world.server.object(&path)), (None, None), "{first:?}");
        let (ends, begins) = (format!("DELETE {path}"), format!("POST {JOBS}"));
        assert!(hooks::last(&world, &ends) < hooks::last(&world, &begins), "{:#?}", world.server.log());
    }
}

/// Creates a release whose records are beside it, and whose process died in this event's hook `migrate`, whose Job has a TTL.
async fn interrupted_in(event: &str) -> World {
    let ttl = json!({"ttlSecondsAfterFinished": 60});
    let migrate = json!({"name": "migrate", "events": [event], "policies": ["hook-failed"], "spec": ttl});
    let world = World::new(hooks::with_hooks(json!([migrate])));
    if event == "pre-upgrade" {
        world.reconcile().await;
        world.edit(|primary| primary["spec"]["value"] = "2".into());
    }
    hooks::killed_after(&world, 30).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_ended_for_a_move_of_records_neither_runs_again_nor_counts_if_the_place_is_set_back() {
    let (create, delete) = ("POST /api/v1/namespaces/records/secrets", format!("DELETE {JOBS}/migrate"));
    let failed = json!({"type": "Ready", "status": "False", "reason": "InstallError", "message": "no"});
    for (event, version, expected) in [
        ("pre-upgrade", 2, ["1 superseded", "2 failed", "3 deployed"].as_slice()),
        ("pre-install", 1, &["1 failed", "2 deployed"]),
    ] {
        for (at, requests, how) in [
            (create, 1000, Disturbance::Refused(403)),
            (create, 1, Disturbance::Unanswered),
            (&delete, 1, Disturbance::Unanswered),
        ] {
            let world = interrupted_in(event).await;
            if event == "pre-install" {
                world.edit(|primary| primary["status"] = json!({"conditions": [failed]}));
            }
            let world = recording(world.server, Stub::default());
            world.server.disturb(at, requests, how);
            hooks::killed_after(&world, 10).await;
            assert!(!world.server.paths().iter().any(|path| path.starts_with(RECORDS)), "{event}, {at}");
            let world = World::rendering(world.server, Arc::new(Stub::default()));
            for _ in 0..2 {
                hooks::reconcile(&world, "Complete").await;
                tokio::time::advance(Duration::from_secs(600)).await;
            }
            assert_eq!(world.history(), expected, "{event}, {at}, {how:?}");
            assert_eq!(hooks::phases(&world, version).await, ["migrate Failed"], "{event}, {at}, {how:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_was_interrupted_before_its_records_moved_ends_if_the_release_is_deleted_without_hooks() {
    let disabled = json!({"helm.sdk.operatorframework.io/uninstall-disable-hooks": "true"});
    for event in ["pre-install", "pre-upgrade", "pre-delete"] {
        let backup = json!({"name": "backup", "events": ["pre-delete"]});
        let migrate = json!({"name": "migrate", "events": [event]});
        let hooks = if event == "pre-delete" { json!([migrate]) } else { json!([migrate, backup]) };
        let world = World::new(hooks::with_hooks(hooks));
        if event != "pre-install" {
            world.reconcile().await;
            world.edit(|primary| primary["spec"]["value"] = "2".into());
        }
        if event == "pre-delete" {
            world.delete();
        }
        hooks::killed_after(&world, 30).await;
        assert!(world.server.object(&format!("{JOBS}/migrate")).is_some(), "{event}");
        world.edit(|primary| primary["metadata"]["annotations"] = disabled.clone());
        if event != "pre-delete" {
            world.delete();
        }
        let world = recording(world.server, Stub::default());
        for _ in 0..3 {
            world.reconcile().await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        assert_eq!((world.server.object(PRIMARY), world.maps()), (None, Vec::<String>::new()), "{event}");
        assert!(!world.server.paths().iter().any(|path| path.starts_with(JOBS)), "{event}: {:?}", world.server.paths());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_an_interrupted_upgrade_ends_although_its_record_cannot_be_changed() {
    for code in [403, 422] {
        let world = interrupted_in("pre-upgrade").await;
        world.edit(|primary| primary["spec"]["value"] = "1".into());
        let world = recording(world.server, Stub::default());
        world.server.disturb(&format!("PATCH {}", record_path(2)), 1000, Disturbance::Refused(code));
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(world.history(), ["3 deployed"]);
        assert_eq!(world.server.object(&format!("{JOBS}/migrate")), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_an_interrupted_upgrade_does_not_end_before_its_record_can_say_so() {
    let world = interrupted_in("pre-upgrade").await;
    let world = recording(world.server, Stub::default());
    let patch = format!("/{}", record_path(2).rsplit_once('/').unwrap().1);
    world.server.refuse(move |call| {
        let is_patch = call.method == http::Method::PATCH && call.path.contains(&patch);
        // A server that has just started does not know its roles yet.
        let message = "no: RBAC: clusterrole.rbac.authorization.k8s.io \"manager\" not found";
        is_patch.then(|| Error::from_status(403, "Forbidden", message))
    });
    hooks::killed_after(&world, 10).await;
    assert!(world.server.object(&format!("{JOBS}/migrate")).is_some());
    assert_eq!(world.history(), Vec::<String>::new());
}

/// Creates a release whose records are beside it, and whose install counts as failed once they moved. Its process died
/// while the hook `migrate` ran.
async fn failed_in_a_hook() -> World {
    let migrate = json!({"name": "migrate", "events": ["pre-install"], "policies": ["hook-failed"]});
    let world = interrupted_in_a_hook(json!([migrate])).await;
    let ready = json!({"type": "Ready", "status": "False", "reason": "InstallError", "message": "no"});
    world.edit(|p| p["status"] = json!({"conditions": [ready]}));
    world
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_an_install_that_counts_as_failed_since_its_records_moved_ends() {
    for first in FIRST_IMPORTS {
        let world = failed_in_a_hook().await;
        let uid = |world: &World| world.server.object(&format!("{JOBS}/migrate")).unwrap()["metadata"]["uid"].clone();
        let before = uid(&world);
        let world = moved(world.server, || random_values(4), first).await;
        for _ in 0..2 {
            hooks::reconcile(&world, "Complete").await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        assert_eq!(world.history(), ["1 failed", "2 deployed"], "{first:?}");
        assert_eq!(hooks::phases(&world, 1).await, ["migrate Failed"], "{first:?}");
        assert_ne!(uid(&world), before, "{first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_import_whose_answer_was_lost_finds_its_record_before_the_event_arrives() {
    let world = recording(failed_in_a_hook().await.server, random_values(4));
    lose_the_answer_to_a_record(&world.server);
    for _ in 0..2 {
        hooks::reconcile_unaware(&world, "Complete").await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    world.feed();
    assert_eq!(world.history(), ["1 failed", "2 deployed"]);
}

/// Lets the server carry out the last write of an install, and lose the answer.
async fn unanswered(world: &World) {
    world.server.disturb(&format!("PATCH {}", record_path(1)), 1, Disturbance::AnswerLost);
    world.server.disturb(&format!("GET {}", record_path(1)), 1, Disturbance::Unreachable);
    world.reconcile().await;
    assert_eq!((world.state("Ready").as_str(), world.history()), ("False/Unanswered", vec!["1 deployed".to_owned()]));
}

/// Lets an install fail, and the process end after the next attempt, before it reports that.
async fn unreported(world: &World) {
    world.server.refuse(|call| {
        let is_write = call.method != http::Method::GET && call.path.starts_with(MAPS);
        is_write.then(|| Error::from_status(422, "Invalid", "no"))
    });
    world.reconcile().await;
    world.server.accept();
    assert_eq!(world.state("Ready"), "False/InstallError");
    tokio::time::advance(Duration::from_secs(600)).await;
    world.server.refuse(|call| call.path.contains("/status").then(|| Error::from_status(500, "", "down")));
    world.reconcile().await;
    world.server.accept();
    assert_eq!(
        (world.state("Ready").as_str(), world.history().last().unwrap().ends_with(" deployed")),
        ("False/InstallError", true)
    );
}

#[tokio::test(start_paused = true)]
async fn a_release_that_the_status_does_not_name_is_imported_if_something_of_it_remains() {
    for (is_unanswered, is_gone) in [(true, false), (true, true), (false, false), (false, true)] {
        let world = World::rendering(World::new(spec()).server, Arc::new(random_values(3)));
        if is_unanswered {
            unanswered(&world).await
        } else {
            unreported(&world).await
        }
        let imported = format!("{} deployed", world.history().len() + 1);
        if is_gone {
            world.maps().iter().for_each(|map| world.server.remove(&format!("{MAPS}/{map}")));
        }
        let world = recording(world.server, random_values(4));
        for _ in 0..2 {
            world.reconcile().await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        let expected = if is_gone { (4, "1 deployed".to_owned()) } else { (3, imported) };
        assert_eq!(world.history(), [expected.1], "unanswered: {is_unanswered}, gone: {is_gone}");
        assert!(has_digits(&world, expected.0), "unanswered: {is_unanswered}, gone: {is_gone}");
        assert_eq!(world.state("Ready"), "True/Ready");
    }
}

/// Refuses changes of the resource itself, as a broken webhook does.
fn refuse_finalizer(world: &World) {
    world.server.refuse(|call| {
        let is_own = call.path.starts_with(PRIMARY) && !call.path.contains("/status");
        let is_finalizer = call.method == http::Method::PATCH && is_own;
        is_finalizer.then(|| Error::from_status(500, "InternalError", "webhook is down"))
    });
}

/// Lets another process, whose requests are no longer refused, go on with a deletion.
async fn goes_with_the_next_process(server: Arc<MemoryApi>) -> World {
    let world = recording(server, with_sources());
    world.server.accept();
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(600)).await;
        hooks::reconcile(&world, "Complete").await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn no_hook_of_an_earlier_record_runs_after_an_uninstall_whose_finalizer_could_not_be_removed() {
    let mut spec = hooks::with_hooks(json!([hooks::hook("backup", "pre-delete")]));
    spec["maps"] = json!([]);
    let world = World::rendering(World::new(spec).server, Arc::new(with_sources()));
    hooks::reconcile(&world, "Complete").await;
    let world = recording(world.server, with_sources());
    hooks::reconcile(&world, "Complete").await;
    assert_eq!(world.history(), ["2 deployed"]);
    refuse_finalizer(&world);
    world.delete();
    hooks::reconcile(&world, "Complete").await;
    assert_eq!((hooks::count(&world, &format!("POST {JOBS}")), records(&world).len()), (1, 1));
    let world = goes_with_the_next_process(world.server).await;
    assert_eq!((hooks::count(&world, &format!("POST {JOBS}")), world.server.object(PRIMARY)), (1, None));
}

#[tokio::test(start_paused = true)]
async fn no_hook_of_an_uninstall_runs_again_after_its_records_moved_although_the_finalizer_could_not_be_removed() {
    let all = json!([hooks::hook("backup", "pre-delete"), hooks::hook("drop", "post-delete")]);
    let world = World::rendering(World::new(hooks::with_hooks(all)).server, Arc::new(with_sources()));
    world.reconcile().await;
    world.delete();
    hooks::killed_after(&world, 30).await;
    world.feed();
    assert_eq!(world.history(), ["1 uninstalling"]);
    let world = recording(world.server, with_sources());
    refuse_finalizer(&world);
    hooks::reconcile(&world, "Complete").await;
    let world = goes_with_the_next_process(world.server).await;
    assert_eq!((hooks::count(&world, &format!("POST {JOBS}")), world.server.object(PRIMARY)), (2, None));
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_an_uninstall_that_failed_is_tried_again_after_its_records_moved() {
    let spec = hooks::with_hooks(json!([hooks::hook("drop", "post-delete")]));
    let world = World::rendering(World::new(spec).server, Arc::new(with_sources()));
    world.reconcile().await;
    world.delete();
    hooks::reconcile(&world, "Failed").await;
    let ran = hooks::count(&world, &format!("POST {JOBS}"));
    assert_eq!((world.state("ReleaseFailed").as_str(), world.maps().len()), ("True/UninstallError", 0));
    let world = goes_with_the_next_process(world.server).await;
    assert_eq!((hooks::count(&world, &format!("POST {JOBS}")), world.server.object(PRIMARY)), (ran + 1, None));
}

#[tokio::test(start_paused = true)]
async fn the_hooks_of_a_release_of_cluster_scoped_objects_run_although_its_status_never_named_it() {
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}});
    let mut spec = hooks::with_hooks(json!([hooks::hook("backup", "pre-delete")]));
    (spec["maps"], spec["objects"]) = (json!([]), json!([role]));
    let world = World::rendering(World::new(spec).server, Arc::new(with_sources()));
    world.server.serve_cluster_scoped("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles");
    world.reconcile().await;
    world.edit(|p| p["status"] = Value::Null);
    let world = recording(world.server, with_sources());
    world.delete();
    hooks::reconcile(&world, "Complete").await;
    assert_eq!((hooks::count(&world, &format!("POST {JOBS}")), world.server.object(PRIMARY)), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_resource_whose_record_is_not_known_yet_does_not_go_without_its_uninstall() {
    let world = interrupted_in_a_hook(json!([hooks::hook("first", "pre-install")])).await;
    let record = world.server.object(&record_path(1)).unwrap();
    world.server.remove(&record_path(1));
    let world = World::on(world.server);
    world.delete();
    world.feed();
    // Its event is late.
    world.server.restore(&record_path(1), record);
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    assert_eq!((world.server.object(PRIMARY), world.server.object(&record_path(1))), (None, None));
    assert_eq!(world.server.object(&format!("{JOBS}/first")), None);
}

#[tokio::test(start_paused = true)]
async fn generated_values_stay_if_an_install_that_is_not_answered_goes_on_after_its_records_moved() {
    let world = World::rendering(World::new(spec()).server, Arc::new(random_values(3)));
    world.server.refuse(|call| {
        let is_away = call.method != http::Method::GET && call.path.contains("/configmaps/c");
        is_away.then(|| Error::from_status(500, "InternalError", "away"))
    });
    world.reconcile().await;
    world.server.accept();
    assert_eq!(
        (world.state("Ready"), world.history()),
        ("False/Unanswered".to_owned(), vec!["1 pending-install".into()])
    );
    assert!(has_digits(&world, 3));
    let world = recording(world.server, random_values(4));
    for _ in 0..2 {
        world.reconcile().await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    assert_eq!((world.history(), world.maps().len()), (vec!["1 deployed".to_owned()], 3));
    assert!(has_digits(&world, 3));
}

/// Creates a process that is about to install a release, with its records beside it.
async fn about_to_install() -> World {
    World::rendering(World::new(spec()).server, Arc::new(random_values(3)))
}

#[tokio::test(start_paused = true)]
async fn generated_values_stay_wherever_an_install_is_interrupted_before_its_records_move() {
    let process = |server| recording(server, random_values(4));
    let writes = interrupted_after_each_write(about_to_install, process, |world, writes| {
        let was_recorded = world.server.object(&record_path(1)).is_some();
        assert_eq!(has_digits(world, 3), was_recorded, "after {writes} writes");
        assert_eq!((world.maps().len(), world.state("Ready").as_str()), (3, "True/Ready"), "after {writes} writes");
    });
    assert!(writes.await > 5, "the scenario wrote nothing");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_wherever_an_install_is_interrupted_before_its_records_move_and_it_is_deleted() {
    let process = |server| {
        let world = recording(server, random_values(4));
        world.delete();
        world
    };
    let writes = interrupted_after_each_write(about_to_install, process, |world, writes| {
        assert_eq!(world.maps(), [] as [String; 0], "after {writes} writes");
        // Before the first write, it has no finalizer.
        assert!(writes == 0 || world.server.object(PRIMARY).is_none(), "after {writes} writes");
    });
    assert!(writes.await > 5, "the scenario wrote nothing");
}

#[tokio::test(start_paused = true)]
async fn no_hook_runs_twice_if_an_install_went_on_after_its_records_moved_wherever_its_deletion_is_interrupted() {
    let all = || json!([hooks::hook("first", "pre-install"), hooks::hook("backup", "pre-delete")]);
    let process = |server| recording(server, random_values(4));
    let prepare = async || {
        let world = process(interrupted_in_a_hook(all()).await.server);
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(world.history(), ["1 deployed"]);
        world.delete();
        world
    };
    let writes = interrupted_after_each_write(prepare, process, |world, writes| {
        assert_eq!((world.server.object(PRIMARY), world.maps().len()), (None, 0), "after {writes} writes");
        let runs = hooks::count(world, &format!("POST {JOBS}"));
        assert_eq!(runs, 2, "after {writes} writes: {:#?}", world.server.log());
        assert_eq!(records(world), [record_path(1)], "after {writes} writes");
    });
    assert!(writes.await > 5, "the scenario wrote nothing");
}

#[tokio::test(start_paused = true)]
async fn an_install_that_failed_before_its_records_moved_leaves_nothing() {
    for is_deleted in [false, true] {
        let world = super::finished_jobs::keeping(World::new(spec()).server);
        world.server.refuse(|call| {
            let is_b = call.method != http::Method::GET && call.path.contains("/configmaps/b");
            is_b.then(|| Error::from_status(403, "Forbidden", "no"))
        });
        world.reconcile().await;
        world.server.accept();
        assert!(world.maps().contains(&"a".to_owned()));
        assert_eq!(
            (world.state("ReleaseFailed").as_str(), world.history()),
            ("True/InstallError", vec!["1 failed".to_owned()])
        );
        world.edit(|p| p["spec"]["maps"] = json!(["b"]));
        let world = recording(world.server, Stub::default());
        if is_deleted {
            world.delete();
        }
        tokio::time::advance(Duration::from_secs(600)).await;
        world.reconcile().await;
        let left = if is_deleted { vec![] } else { vec!["b".to_owned()] };
        assert_eq!((world.maps(), world.server.object(PRIMARY).is_none()), (left, is_deleted));
    }
}

/// Creates a release that was upgraded after its records had moved to the namespace `records`. The old one is left beside
/// it.
async fn upgraded_after_a_move() -> World {
    let stub = || Stub { has_sources: true, ..random() };
    let world = World::rendering(World::new(spec()).server, Arc::new(stub()));
    world.reconcile().await;
    let world = recording(world.server, stub());
    world.reconcile().await;
    world.edit(|p| p["spec"]["maps"] = json!(["a", "b", "c", "d"]));
    world.reconcile().await;
    assert_eq!((world.history(), world.maps().len()), (vec!["2 superseded".to_owned(), "3 deployed".into()], 4));
    assert!(world.server.object(&record_path(1)).is_some());
    world
}

#[tokio::test(start_paused = true)]
async fn a_release_that_no_status_names_since_it_moved_is_not_upgraded_by_the_record_that_is_left_beside_it() {
    let world = upgraded_after_a_move().await;
    world.edit(|p| (p["status"]["deployedRelease"]["revision"], p["spec"]["value"]) = (1.into(), "2".into()));
    let before = release(&world);
    let world = recording_at(Home::default(), world.server, random());
    world.reconcile().await;
    assert_eq!((world.state("Irreconcilable").as_str(), release(&world)), ("True/ReleaseElsewhere", before));
}

/// Reconciles the resource in a new process that keeps records at this home, and watches those in `ns` but not those in
/// `records`.
async fn reconciled_without_sight_of_records(home: Home, server: Arc<MemoryApi>) -> World {
    let paths = server.paths().into_iter().filter(|path| path.starts_with(RECORDS));
    let hidden: Vec<(String, Value)> = paths.map(|path| (path.clone(), server.object(&path).unwrap())).collect();
    hidden.iter().for_each(|(path, _)| server.remove(path));
    let world = recording_at(home, server, random());
    world.releases.lost(&WatchScope::namespace("records"));
    hidden.into_iter().for_each(|(path, record)| world.server.restore(&path, record));
    tokio::time::advance(Duration::from_secs(600)).await;
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    world
}

#[tokio::test(start_paused = true)]
async fn an_install_that_ended_where_its_records_moved_is_not_continued_once_the_place_is_set_back() {
    let world =
        interrupted_in_a_hook(json!([hooks::hook("first", "pre-install"), hooks::hook("last", "post-install")])).await;
    let world = recording(world.server, random_values(4));
    hooks::reconcile(&world, "Complete").await;
    assert_eq!(world.history(), ["1 deployed"]);
    let before = world.server.paths();
    let world = reconciled_without_sight_of_records(Home::default(), world.server).await;
    assert_eq!(world.state("Irreconcilable"), "True/ReleaseElsewhere");
    assert_eq!((world.server.paths(), world.history()), (before, vec!["1 pending-install".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_moved_twice_is_neither_upgraded_nor_deleted_by_the_record_that_is_left_beside_it() {
    let mut world = upgraded_after_a_move().await;
    let before = release(&world);
    for is_deleted in [false, true] {
        if is_deleted {
            world.delete();
        }
        for home in [Home::in_namespace("elsewhere"), Home::default()] {
            world = reconciled_without_sight_of_records(home.clone(), world.server).await;
            assert_eq!(release(&world), before, "{home:?}, deleted: {is_deleted}");
            let condition = world.condition("Irreconcilable").unwrap();
            let expected = "True/ReleaseElsewhere/the records of this release are in namespace \"records\", and ";
            assert!(condition.starts_with(expected), "{home:?}, deleted: {is_deleted}: {condition}");
        }
    }
    let world = recording(world.server, random());
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!(world.server.paths(), [record_path(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_was_imported_before_is_not_imported_again() {
    for is_seen in [false, true] {
        let world = upgraded_after_a_move().await;
        records(&world).iter().filter(|path| path.starts_with(RECORDS)).for_each(|path| world.server.remove(path));
        let world = if is_seen { world } else { recording(world.server, random()) };
        world.reconcile().await;
        assert_eq!((world.history(), world.maps().len()), (vec!["1 deployed".to_owned()], 4), "{is_seen}");
    }
}

#[tokio::test(start_paused = true)]
async fn records_that_no_known_key_seals_still_show_that_a_release_is_recorded_elsewhere() {
    let world = recording(World::new(spec()).server, random());
    world.reconcile().await;
    let path = format!("{RECORDS}.ns.web.v1");
    let mut record = world.server.object(&path).unwrap();
    record["metadata"]["annotations"][SEAL_ANNOTATION] = "lost".into();
    world.server.restore(&path, record);
    let before = release(&world);
    let world = recording_at(Home::in_namespace("elsewhere"), world.server, random());
    world.reconcile().await;
    assert_eq!(world.state("Irreconcilable"), "True/ReleaseElsewhere");
    assert_eq!(release(&world), before);
}

#[tokio::test(start_paused = true)]
async fn a_release_is_installed_again_once_its_records_elsewhere_are_deleted() {
    let world = recording(World::new(spec()).server, random());
    world.reconcile().await;
    let world = recording_at(Home::default(), world.server, random());
    world.reconcile().await;
    assert_eq!(world.state("Irreconcilable"), "True/ReleaseElsewhere");
    world.server.remove(&format!("{RECORDS}.ns.web.v1"));
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!((world.history(), world.condition("Irreconcilable")), (vec!["1 deployed".to_owned()], None));
    assert_eq!(records(&world), [record_path(1)]);
}

/// Creates a release whose upgrade to these ConfigMaps failed and was kept. It changed and made some of them, and deleted
/// none.
async fn with_a_failed_upgrade_to(maps: &[&str]) -> World {
    let world = super::finished_jobs::keeping(World::new(spec()).server);
    world.reconcile().await;
    world.server.refuse(|call| {
        let is_written = call.method != http::Method::GET && call.path.contains("/deployments");
        is_written.then(|| Error::from_status(422, "Invalid", "no"))
    });
    world.edit(|p| p["spec"] = json!({"maps": maps, "value": "bad", "deployments": ["late"]}));
    world.reconcile().await;
    world.server.accept();
    assert_eq!((world.maps().len(), world.value_of("a"), world.history().len()), (4, json!("bad"), 2));
    world
}

/// Creates a release with the ConfigMap `y`, which only its failed and kept upgrade made, besides `a`, which that changed.
async fn with_a_failed_upgrade() -> World {
    with_a_failed_upgrade_to(&["a", "b", "c", "y"]).await
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_upgrade_did_before_its_release_moved_is_undone() {
    for (value, is_deleted) in [("1", false), ("2", false), ("1", true)] {
        let world = with_a_failed_upgrade().await;
        world.edit(|p| p["spec"] = json!({"maps": ["a", "b", "c"], "value": value}));
        let world = recording(world.server, Stub::default());
        if is_deleted {
            world.delete();
        }
        world.reconcile().await;
        let left = if is_deleted { vec![] } else { vec!["a", "b", "c"] };
        assert_eq!(world.maps(), left, "{value}");
        assert!(is_deleted || world.value_of("a") == value, "{value}: {}", world.value_of("a"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_set_after_a_takeover_stays_although_a_failed_upgrade_set_it_before_the_release_moved() {
    let with = |data: Value| {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "data": data});
        json!({"objects": [config]})
    };
    let path = format!("{MAPS}/config");
    let data = |world: &World| world.server.object(&path).unwrap()["data"].clone();
    let server = World::new(with(json!({"own": "1"}))).server;
    let world = World::with_events(server, Arc::new(Stub::default()), |settings| {
        (settings.on_failure, settings.apply) = (OnFailure::Keep, Policy::Client);
    });
    world.reconcile().await;
    world.server.refuse(|call| {
        let is_written = call.method != http::Method::GET && call.path.contains("/deployments");
        is_written.then(|| Error::from_status(422, "Invalid", "no"))
    });
    world.edit(|p| {
        p["spec"] = with(json!({"own": "2", "x": "failed"}));
        p["spec"]["deployments"] = json!(["late"]);
    });
    world.reconcile().await;
    world.server.accept();
    assert_eq!((data(&world), world.history().len()), (json!({"own": "2", "x": "failed"}), 2));
    world.edit(|p| p["spec"] = with(json!({"own": "1"})));
    let world = recording_with(world.server, Stub::default(), |settings| {
        (settings.home, settings.apply) = (Home::in_namespace("records"), Policy::Client);
    });
    world.reconcile().await;
    assert_eq!((data(&world), world.history()), (json!({"own": "1"}), vec!["3 deployed".to_owned()]));

    let mut live = world.server.object(&path).unwrap();
    live["data"]["x"] = "theirs".into();
    world.server.put(&path, live, "kubectl");
    let since = world.server.log().len();
    world.edit(|p| p["spec"] = with(json!({"own": "3"})));
    world.reconcile().await;
    assert_eq!(data(&world), json!({"own": "3", "x": "theirs"}));
    assert_eq!(world.history(), ["3 superseded", "4 deployed"]);
    let log = &world.server.log()[since..];
    assert!(!log.contains(&format!("GET {SECRETS}")), "it looks for no other records: {log:#?}");
}

/// Imports a release with a failed upgrade, whose next upgrade has to wait: the chart does not render.
async fn imported_and_waiting(world: World) -> World {
    world.edit(|p| p["spec"] = json!({"maps": ["a", "b", "c"], "value": "1", "broken": true}));
    let world = recording(world.server, Stub::default());
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.history()), (4, vec!["3 deployed".to_owned()]));
    world
}

/// Checks that another process undoes what the failed upgrade did, once the chart renders.
async fn undoes_the_failed_upgrade_after_a_restart(world: World) {
    world.edit(|p| p["spec"] = spec());
    let world = recording(world.server, Stub::default());
    world.reconcile().await;
    assert_eq!((world.maps(), world.value_of("a")), (vec!["a".to_owned(), "b".into(), "c".into()], json!("1")));
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_upgrade_made_before_its_release_moved_is_known_after_a_restart_even_if_no_seal_proves_the_rest()
{
    let world = with_a_failed_upgrade().await;
    let mut record = world.server.object(&record_path(1)).unwrap();
    record["metadata"]["annotations"] = Value::Null;
    world.server.restore(&record_path(1), record);
    let world = imported_and_waiting(world).await;
    let imported = world.server.object(&format!("{RECORDS}.ns.web.v3")).unwrap();
    assert!(imported["metadata"]["annotations"][MARKS_ANNOTATION].is_null(), "it lists nothing");
    undoes_the_failed_upgrade_after_a_restart(world).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_upgrade_made_before_its_release_moved_is_known_after_a_restart_although_the_marks_omit_it() {
    let world = with_a_failed_upgrade().await;
    let world = imported_and_waiting(world).await;
    let storage = &world.shared.storage;
    let imported = storage.get("ns", "web", 3).await.unwrap();
    let marks = imported.marks.as_ref().unwrap();
    assert!(marks.objects.iter().any(|object| &*object.key.name == "y"), "{marks:?}");
    storage.update(imported.release.facts(), &marks.without_inventory()).await.unwrap();
    undoes_the_failed_upgrade_after_a_restart(world).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_after_the_records_moved_deletes_what_was_too_much_for_the_marks() {
    let world = with_a_failed_upgrade_to(&["a", "y"]).await;
    [1, 2].into_iter().for_each(|version| omit_objects(&world.server, version));
    let world = recording(world.server, Stub::default());
    world.delete();
    world.reconcile().await;
    assert_eq!((world.server.object(PRIMARY), world.maps()), (None, Vec::<String>::new()));
}

/// Refuses to list Secrets outside of the namespace `records`, as a server does if `rbac.recordNamespaces` names that.
fn forbid_other_secrets(world: &World) {
    world.server.refuse(|call| {
        let is_list = call.method == http::Method::GET && call.path.contains("/secrets?");
        let is_elsewhere = !call.path.starts_with("/api/v1/namespaces/records/");
        (is_list && is_elsewhere).then(|| Error::from_status(403, "Forbidden", "no"))
    });
}

#[tokio::test(start_paused = true)]
async fn a_release_with_too_many_objects_for_its_marks_needs_no_right_to_other_secrets() {
    for is_deleted in [false, true] {
        let world = recording(World::new(spec()).server, Stub::default());
        world.reconcile().await;
        let uid = |world: &World| world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].clone();
        let before = uid(&world);
        let storage = &world.shared.storage;
        let recorded = storage.get("ns", "web", 1).await.unwrap();
        let marks = recorded.marks.as_ref().unwrap().without_inventory();
        storage.update(recorded.release.facts(), &marks).await.unwrap();

        let world = recording(world.server, Stub::default());
        forbid_other_secrets(&world);
        if is_deleted {
            world.delete();
            world.reconcile().await;
            assert_eq!((world.server.object(PRIMARY), world.maps()), (None, Vec::<String>::new()));
            continue;
        }
        world.edit(|p| p["spec"]["maps"] = json!(["a", "b"]));
        world.reconcile().await;
        assert_eq!((world.condition("Irreconcilable"), world.maps()), (None, vec!["a".to_owned(), "b".into()]));
        assert_eq!((uid(&world), world.history()), (before, vec!["1 superseded".to_owned(), "2 deployed".into()]));
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_other_secrets_a_lost_release_waits_until_a_person_does_without_its_hooks() {
    let world = recording(World::new(spec()).server, random());
    world.reconcile().await;
    let before = world.value_of("a");
    world.server.remove(&format!("{RECORDS}.ns.web.v1"));
    let world = recording(world.server, random());
    forbid_other_secrets(&world);
    world.reconcile().await;
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.contains("cannot list the release records in namespace \"ns\""), "{condition}");
    assert_eq!((world.value_of("a"), world.maps().len()), (before, 3));
    world.delete();
    deleted_after_a_person_does_without_hooks(&world).await;
}

/// Checks that a deletion waits for the right to other Secrets, and ends once the resource says that no hook shall run.
async fn deleted_after_a_person_does_without_hooks(world: &World) {
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    let condition = world.condition("Irreconcilable").unwrap();
    let help = "; to uninstall without hooks, set the annotation helm.sdk.operatorframework.io/uninstall-disable-hooks to \"true\"";
    assert!(condition.contains("cannot list the release records in namespace \"ns\""), "{condition}");
    assert!(condition.ends_with(help), "{condition}");
    assert_eq!(world.maps().len(), 3);
    let disabled = json!({"helm.sdk.operatorframework.io/uninstall-disable-hooks": "true"});
    world.edit(|primary| primary["metadata"]["annotations"] = disabled);
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!((world.server.object(PRIMARY), world.maps()), (None, Vec::<String>::new()));
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_other_secrets_a_deletion_before_the_import_skips_no_hooks() {
    let world = World::new(hooks::with_hooks(json!([hooks::hook("backup", "pre-delete")])));
    world.reconcile().await;
    let world = recording_with_events(world.server);
    forbid_other_secrets(&world);
    world.delete();
    deleted_after_a_person_does_without_hooks(&world).await;
    assert_eq!((hooks::count(&world, &format!("POST {JOBS}")), records(&world)), (0, vec![record_path(1)]));
    let events = super::reporting::published(&world).await;
    assert!(!events.iter().any(|event| event.contains("HookSkipped")), "{events:?}");
}

/// Checks that a release that was taken over is at rest without `y`, and that its next revision deletes that.
async fn keeps_y_until_the_next_revision(world: &World, go_on: impl FnOnce(&World)) {
    assert_eq!((world.maps().len(), world.value_of("a")), (4, json!("1")));
    assert_eq!(world.state("Ready"), "True/Ready");
    assert_eq!(world.server.object(PRIMARY).unwrap()["status"]["readyObjects"], "3/3");
    let y = world.server.object(&format!("{MAPS}/y")).unwrap();
    world.server.remove(&format!("{MAPS}/y"));
    assert_eq!(world.requests().await, 0, "it is not the revision's to repair");
    world.server.restore(&format!("{MAPS}/y"), y);
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.history()), (4, vec!["3 deployed".to_owned()]));
    go_on(world);
    world.reconcile().await;
    assert_eq!((world.maps(), world.history().len()), (vec!["a".to_owned(), "b".into(), "c".into()], 2));
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_upgrade_made_before_its_release_moved_goes_although_the_next_upgrade_has_to_wait() {
    let world = with_a_failed_upgrade().await;
    world.edit(|p| p["spec"] = spec());
    let another = ResourceKey::new("ns", "another");
    let world = recording_with(world.server, Stub { chart: "v2", ..Stub::default() }, |settings| {
        (settings.home, settings.max_parallel_upgrades) = (Home::in_namespace("records"), 1);
    });
    // The failed upgrade had the only slot.
    world.shared.rollout.leave(&key());
    assert!(world.shared.rollout.take(|| true, &another));
    world.reconcile().await;
    keeps_y_until_the_next_revision(&world, |world| _ = world.shared.rollout.leave(&another)).await;
    assert_eq!(world.value_of("a"), "1 by v2");
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_upgrade_made_before_its_release_moved_goes_although_the_release_is_pinned_for_a_time() {
    let world = with_a_failed_upgrade().await;
    world.edit(|p| p["spec"] = spec());
    let world = recording(world.server, Stub::default());
    world.server.refuse(|call| {
        let is_written = call.method != http::Method::GET && call.path.starts_with(MAPS);
        is_written.then(|| Error::from_status(503, "ServiceUnavailable", "away"))
    });
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history()), (json!("bad"), vec!["3 deployed".to_owned()]));
    world.server.accept();
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/pin": "3"}));
    world.reconcile().await;
    let unpin = |world: &World| {
        world.edit(|p| (p["metadata"]["annotations"], p["spec"]["value"]) = (json!({}), "2".into()));
    };
    keeps_y_until_the_next_revision(&world, unpin).await;
    assert_eq!(world.value_of("a"), "2");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_names_the_records_that_were_imported_and_left() {
    let world = World::new(spec());
    world.reconcile().await;
    let home = |settings: &mut Settings| settings.home = Home::in_namespace("records");
    let stub = Arc::new(Stub { has_sources: true, ..Stub::default() });
    let world = World::with_events(world.server, stub, home);
    world.reconcile().await;
    world.delete();
    world.reconcile().await;
    assert_eq!(records(&world), [format!("{SECRETS}/sh.helm.release.v1.web.v1")]);
    let events = super::reporting::published(&world).await;
    let said = events.iter().find(|event| event.contains("RecordsLeft")).unwrap();
    assert!(said.ends_with("delete the Secrets sh.helm.release.v1.web.v1"), "{said}");
}

/// Adds the ConfigMap that Kubernetes makes with the namespace, as old as this. A user has set the time of its managed
/// fields to one that Rust's type does not have.
fn made(server: &MemoryApi, time: &str) {
    let name = "kube-root-ca.crt";
    let managed = json!([{"manager": "user", "operation": "Update", "time": "9999-12-31T23:59:59Z"}]);
    let metadata = json!({"name": name, "uid": name, "resourceVersion": "1", "creationTimestamp": time,
        "managedFields": managed});
    server.restore(&format!("{MAPS}/{name}"), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
}

#[tokio::test(start_paused = true)]
async fn records_that_outlive_their_namespace_give_none_of_its_values_to_the_next_one() {
    for (time, keeps) in [(None, false), (Some("2199-01-01T00:00:00Z"), false), (Some("2001-01-01T00:00:00Z"), true)] {
        let world = recording(World::new(spec()).server, random());
        world.reconcile().await;
        let password = world.value_of("a");
        // The namespace goes, with the resource, whose finalizer was removed by hand.
        world.maps().iter().for_each(|map| world.server.remove(&format!("{MAPS}/{map}")));
        world.recreate(PRIMARY);
        if let Some(time) = time {
            made(&world.server, time);
        }
        let world = recording(world.server, Stub { renders: AtomicUsize::new(100), ..random() });
        world.reconcile().await;
        assert_eq!(world.value_of("a") == password, keeps, "{time:?}");
        let expected: &[&str] = if keeps { &["1 deployed"] } else { &["1 superseded", "2 deployed"] };
        assert_eq!(world.history(), expected, "{time:?}");
        assert_eq!(world.condition("Irreconcilable"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pin_repeats_nothing_of_an_earlier_namespace() {
    let world = recording(World::new(spec()).server, random());
    world.reconcile().await;
    world.maps().iter().for_each(|map| world.server.remove(&format!("{MAPS}/{map}")));
    world.recreate(PRIMARY);
    world.edit(|primary| primary["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/pin": "1"}));
    let world = recording(world.server, Stub { renders: AtomicUsize::new(100), ..random() });
    world.reconcile().await;
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/InvalidAnnotation/"), "{condition}");
    assert!(world.maps().is_empty() && world.history() == ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn a_recreated_resource_whose_objects_are_live_keeps_their_values_no_matter_how_old_its_namespace_is() {
    for pin in [None, Some("1")] {
        let world = recording(World::new(spec()).server, random());
        world.reconcile().await;
        let password = world.value_of("a");
        world.recreate(PRIMARY);
        if let Some(pin) = pin {
            let annotations = json!({"helm.sdk.operatorframework.io/pin": pin});
            world.edit(|primary| primary["metadata"]["annotations"] = annotations);
        }
        let world = recording(world.server, Stub { renders: AtomicUsize::new(100), ..random() });
        world.reconcile().await;
        assert_eq!((world.value_of("a"), world.history()), (password, vec!["1 deployed".to_owned()]), "{pin:?}");
        let uid = world.server.object(PRIMARY).unwrap()["metadata"]["uid"].clone();
        let object = world.server.object(&format!("{MAPS}/a")).unwrap();
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], uid, "{pin:?}");
        let conditions = (world.condition("Irreconcilable"), world.condition("Pinned").is_some());
        assert_eq!(conditions, (None, pin.is_some()));
    }
}

/// Creates a controller that has just started, keeps its records in the namespace `records`, and publishes its events.
fn recording_with_events(server: Arc<MemoryApi>) -> World {
    let home = |settings: &mut Settings| settings.home = Home::in_namespace("records");
    World::with_events(server, Arc::new(with_sources()), home)
}

#[tokio::test(start_paused = true)]
async fn a_deletion_before_the_import_runs_the_hooks_in_the_record() {
    let disabled = json!({"helm.sdk.operatorframework.io/uninstall-disable-hooks": "true"});
    for (annotations, runs) in [(json!({}), 1), (disabled, 0)] {
        let world = World::new(hooks::with_hooks(json!([hooks::hook("backup", "pre-delete")])));
        world.reconcile().await;
        let world = recording_with_events(world.server);
        world.edit(|primary| primary["metadata"]["annotations"] = annotations);
        world.delete();
        hooks::reconcile(&world, "Complete").await;
        let log = world.server.log();
        let at = |request: String| log.iter().position(|line| line.starts_with(&request));
        let (hook, first) = (at(format!("POST {JOBS}")), at(format!("DELETE {MAPS}/")));
        assert_eq!(hooks::count(&world, &format!("POST {JOBS}")), runs);
        assert!(hook.is_none_or(|hook| first.is_some_and(|first| hook < first)), "{log:?}");
        assert_eq!((world.server.object(PRIMARY), world.maps().len()), (None, 0));
        assert_eq!(records(&world), [record_path(1)]);
        let events = super::reporting::published(&world).await;
        assert!(events.iter().any(|event| event.contains("RecordsLeft")), "{events:?}");
    }
}

/// Deploys a release of this spec with its records beside it. A process that keeps them elsewhere changes it and dies as
/// [`interrupted_after_each_write`] says.
async fn moved_and_interrupted_after_each_write(
    spec: Value,
    process: impl Fn(Arc<MemoryApi>) -> World,
    change: impl Fn(&World),
    check: impl Fn(&World, usize),
) {
    let prepare = async || {
        let world = World::new(spec.clone());
        world.reconcile().await;
        let world = process(world.server);
        change(&world);
        world
    };
    let writes = interrupted_after_each_write(prepare, &process, check).await;
    assert!(writes > 10, "the scenario wrote nothing");
}

/// Prepares a process that dies after no write, one write and so on, until one survives. Each time another process
/// continues, and the result is checked. Returns after how many writes one survived.
async fn interrupted_after_each_write(
    prepare: impl AsyncFn() -> World,
    process: impl Fn(Arc<MemoryApi>) -> World,
    check: impl Fn(&World, usize),
) -> usize {
    let mut writes = 0;
    loop {
        let world = prepare().await;
        world.server.fail_after(Some(writes));
        tokio::select! {
            _ = hooks::reconcile(&world, "Complete") => {}
            () = tokio::time::sleep(Duration::from_secs(300)) => {}
        }
        let died = world.server.writes_left() == Some(0);
        world.server.fail_after(None);
        let world = process(world.server);
        for _ in 0..3 {
            hooks::reconcile(&world, "Complete").await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        check(&world, writes);
        if !died {
            return writes;
        }
        writes += 1;
    }
}

/// Returns a spec with a hook before and one after a deletion.
fn with_delete_hooks() -> Value {
    hooks::with_hooks(json!([hooks::hook("backup", "pre-delete"), hooks::hook("gone", "post-delete")]))
}

#[tokio::test(start_paused = true)]
async fn a_deletion_goes_on_where_it_was_when_the_records_moved() {
    let world = World::new(with_delete_hooks());
    world.reconcile().await;
    world.delete();
    hooks::killed_after(&world, 30).await;
    assert_eq!(hooks::phases(&world, 1).await, ["backup Running", "gone NotRun"]);
    let backup = |world: &World| world.server.object(&format!("{JOBS}/backup")).unwrap()["metadata"]["uid"].clone();
    let before = backup(&world);
    let world = recording(world.server, with_sources());
    hooks::reconcile(&world, "Complete").await;
    assert_eq!((backup(&world), hooks::count(&world, &format!("POST {JOBS}"))), (before, 2));
    assert_eq!((world.server.object(PRIMARY), world.maps().len()), (None, 0));
    assert_eq!(records(&world), [record_path(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_hook_failed_goes_on_when_the_records_moved() {
    let world = World::new(with_delete_hooks());
    world.reconcile().await;
    world.delete();
    hooks::reconcile(&world, "Failed").await;
    assert_eq!(world.state("ReleaseFailed"), "True/UninstallError");
    let world = recording(world.server, with_sources());
    tokio::time::advance(Duration::from_secs(600)).await;
    hooks::reconcile(&world, "Complete").await;
    assert_eq!((world.server.object(PRIMARY), world.maps().len()), (None, 0));
    assert_eq!(hooks::count(&world, &format!("POST {JOBS}")), 3, "the first one failed");
    assert_eq!(records(&world), [record_path(1)]);
}

#[tokio::test(start_paused = true)]
async fn no_hook_of_a_deletion_after_the_records_moved_runs_twice_wherever_it_is_interrupted() {
    let process = |server| recording(server, with_sources());
    moved_and_interrupted_after_each_write(with_delete_hooks(), process, World::delete, |world, writes| {
        assert_eq!((world.server.object(PRIMARY), world.maps().len()), (None, 0), "after {writes} writes");
        let runs = hooks::count(world, &format!("POST {JOBS}"));
        assert_eq!(runs, 2, "after {writes} writes: {:#?}", world.server.log());
        assert_eq!(records(world), [record_path(1)], "after {writes} writes");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn no_hook_that_was_dropped_after_the_records_moved_runs_wherever_a_deletion_that_waited_is_interrupted() {
    let process = |server| recording(server, with_sources());
    let prepare = async || {
        let world = World::new(with_delete_hooks());
        world.reconcile().await;
        let world = process(world.server);
        world.reconcile().await;
        world.edit(|p| p["spec"] = spec());
        world.reconcile().await;
        assert_eq!(world.history(), ["2 superseded", "3 deployed"]);
        let mut held = world.server.object(&format!("{MAPS}/b")).unwrap();
        held["metadata"]["finalizers"] = json!(["x/y"]);
        world.server.put(&format!("{MAPS}/b"), held, "someone");
        world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}));
        world.delete();
        world.reconcile().await;
        assert_eq!((world.maps(), world.state("Ready")), (vec!["b".to_owned()], "False/Uninstalling".to_owned()));
        world.server.remove(&format!("{MAPS}/b"));
        world
    };
    let writes = interrupted_after_each_write(prepare, process, |world, writes| {
        assert_eq!((world.server.object(PRIMARY), world.maps().len()), (None, 0), "after {writes} writes");
        assert_eq!(hooks::count(world, &format!("POST {JOBS}")), 0, "after {writes} writes: {:#?}", world.server.log());
        assert_eq!(records(world), [record_path(1)], "after {writes} writes");
    });
    assert!(writes.await > 2, "the scenario wrote nothing");
}

#[tokio::test(start_paused = true)]
async fn no_hook_of_an_uninstall_after_the_records_moved_runs_twice_wherever_it_is_interrupted() {
    let process = |server| {
        recording_with(server, with_sources(), |settings| {
            (settings.home, settings.on_failure) = (Home::in_namespace("records"), OnFailure::Uninstall);
        })
    };
    let fail = |world: &World| {
        super::failure_policy::refuse(world, 422);
        world.edit(|p| p["spec"]["value"] = "bad".into());
    };
    moved_and_interrupted_after_each_write(with_delete_hooks(), process, fail, |world, writes| {
        let runs = hooks::count(world, &format!("POST {JOBS}"));
        assert!(runs <= 2, "after {writes} writes: {:#?}", world.server.log());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_import_that_fails_before_a_deletion_says_how_to_go_on_without_hooks() {
    let world = World::new(hooks::with_hooks(json!([hooks::hook("backup", "pre-delete")])));
    world.reconcile().await;
    let world = recording(world.server, with_sources());
    world.server.refuse(|call| {
        let is_import = call.method == http::Method::POST && call.path.starts_with("/api/v1/namespaces/records/");
        is_import.then(|| Error::from_status(503, "ServiceUnavailable", "away"))
    });
    let before = world.maps();
    world.delete();
    world.reconcile().await;
    let condition = world.condition("Irreconcilable").unwrap();
    let help = "; to uninstall without hooks, set the annotation helm.sdk.operatorframework.io/uninstall-disable-hooks to \"true\"";
    assert!(condition.contains(help), "{condition}");
    assert_eq!((world.maps(), hooks::count(&world, &format!("POST {JOBS}"))), (before, 0));
}

/// Damages the content of the first record in the release's namespace. Its metadata stays.
fn damage(world: &World) {
    let mut secret = world.server.object(&record_path(1)).unwrap();
    secret["data"]["release"] = "AAAA".into();
    world.server.put(&record_path(1), secret, "user");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_was_imported_long_ago_has_neither_the_hooks_nor_all_objects_of_a_deletion() {
    for is_damaged in [false, true] {
        let world = World::new(hooks::with_hooks(json!([hooks::hook("backup", "pre-delete")])));
        world.reconcile().await;
        let world = recording_with_events(world.server);
        world.reconcile().await;
        world.edit(|primary| primary["spec"]["maps"] = json!(["a", "b", "c", "d"]));
        world.reconcile().await;
        assert_eq!((world.history(), world.maps().len()), (vec!["2 superseded".to_owned(), "3 deployed".into()], 4));
        // Someone deletes the records while no operator runs.
        records(&world).iter().filter(|path| path.starts_with(RECORDS)).for_each(|path| world.server.remove(path));
        if is_damaged {
            damage(&world);
        }
        let world = recording_with_events(world.server);
        world.delete();
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(hooks::count(&world, &format!("POST {JOBS}")), 0);
        assert_eq!((world.server.object(PRIMARY), world.maps()), (None, Vec::<String>::new()), "{is_damaged}");
        assert_eq!(records(&world), [record_path(1)]);
        let events = super::reporting::published(&world).await;
        assert!(events.iter().any(|event| event.starts_with("Warning HookSkipped x1: ")), "{is_damaged}: {events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_whose_hooks_a_deletion_needs_holds_it_up_until_a_person_decides() {
    let world = World::new(hooks::with_hooks(json!([hooks::hook("backup", "pre-delete")])));
    world.reconcile().await;
    damage(&world);
    // No search finds this object. The record's metadata lists it.
    let path = format!("{MAPS}/b");
    let mut unlabelled = world.server.object(&path).unwrap();
    unlabelled["metadata"]["labels"].as_object_mut().unwrap().remove(CHART_LABEL);
    world.server.put(&path, unlabelled, "user");
    let world = recording_with_events(world.server);
    world.delete();
    world.reconcile().await;
    assert_eq!(world.maps().len(), 3);
    let condition = world.condition("Irreconcilable").unwrap();
    let remedy = "restore the Secrets sh.helm.release.v1.web.v* in namespace \"ns\", or delete them: then the release is \
        uninstalled without its hooks; to uninstall without hooks, set the annotation \
        helm.sdk.operatorframework.io/uninstall-disable-hooks to \"true\"";
    assert!(condition.ends_with(remedy), "{condition}");

    let disabled = json!({"helm.sdk.operatorframework.io/uninstall-disable-hooks": "true"});
    world.edit(|primary| primary["metadata"]["annotations"] = disabled);
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!((world.server.object(PRIMARY), world.maps()), (None, Vec::<String>::new()));
    assert_eq!(hooks::count(&world, &format!("POST {JOBS}")), 0);
    assert_eq!(records(&world), [record_path(1)]);
}

/// Makes a release in the resource's namespace one that another resource has had from the start.
fn give_to_another(world: &World) {
    let mut record = world.server.object(&format!("{SECRETS}/sh.helm.release.v1.web.v1")).unwrap();
    let path = format!("{SECRETS}/sh.helm.release.v1.web.v1");
    let marks = record["metadata"]["annotations"][MARKS_ANNOTATION]
        .as_str()
        .unwrap()
        .replace("Memcached.cache.my.domain", "Redis.cache.my.domain")
        .replace("\"u\":\"uid-", "\"u\":\"another-");
    record["metadata"]["annotations"][MARKS_ANNOTATION] = marks.into();
    world.server.restore(&path, record);
    reseal(&world.server, &path);
}

#[tokio::test(start_paused = true)]
async fn a_release_of_somebody_else_in_the_resources_namespace_is_not_imported() {
    for was_refused in [false, true] {
        let world = World::new(spec());
        world.reconcile().await;
        give_to_another(&world);
        let world = World::on(world.server);
        if was_refused {
            world.reconcile().await;
            assert_eq!(world.state("Irreconcilable"), "True/ReleaseConflict");
        }
        let world = recording(world.server, Stub::default());
        tokio::time::advance(Duration::from_secs(600)).await;
        world.reconcile().await;
        assert_eq!((world.condition("Irreconcilable"), world.history()), (None, vec!["1 deployed".to_owned()]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_was_refused_before_its_records_moved_is_deleted_without_the_release_of_somebody_else() {
    let world = World::new(spec());
    world.reconcile().await;
    give_to_another(&world);
    let world = World::on(world.server);
    world.reconcile().await;
    assert_eq!(world.state("Irreconcilable"), "True/ReleaseConflict");
    let everything = |world: &World| (world.server.object(&record_path(1)), world.server.object(&format!("{MAPS}/a")));
    let before = everything(&world);
    let world = recording(world.server, Stub::default());
    world.delete();
    world.reconcile().await;
    assert_eq!((world.server.object(PRIMARY), world.maps().len(), everything(&world)), (None, 3, before));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_another_resource_took_over_in_the_resources_namespace_is_not_imported() {
    let world = World::new(spec());
    world.reconcile().await;
    super::adopted::begin_takeover(&world, Status::Deployed).await;
    let records = |world: &World| [1, 2].map(|version| world.server.object(&record_path(version)));
    let uid = |world: &World| world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].clone();
    let before = (records(&world), uid(&world));
    let world = recording(world.server, random());
    world.reconcile().await;
    assert_eq!((world.state("Irreconcilable"), world.history()), ("True/ReleaseConflict".to_owned(), vec![]));
    assert_eq!((records(&world), uid(&world)), before);
    assert_eq!(world.value_of("a"), "1");

    world.delete();
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!((world.server.object(PRIMARY), world.maps().len()), (None, 3));
    assert_eq!((records(&world), uid(&world)), before);
    let owners = world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["ownerReferences"].clone();
    assert!(owners.as_array().is_none_or(Vec::is_empty), "the garbage collector would delete it: {owners}");
}

/// Lets another resource take a release over from this one, and refuses this one its own.
async fn refused_after_a_takeover() -> World {
    let world = World::new(spec());
    world.reconcile().await;
    super::adopted::begin_takeover(&world, Status::Failed).await;
    world.reconcile().await;
    assert_eq!(world.state("Irreconcilable"), "True/ReleaseConflict");
    let status = world.server.object(PRIMARY).unwrap()["status"].clone();
    assert_eq!((&status["deployedRelease"], &status["history"][0]["revision"]), (&Value::Null, &json!(1)));
    world
}

#[tokio::test(start_paused = true)]
async fn a_release_that_another_resource_took_over_stays_its_own_if_the_records_move_after_the_first_refusal() {
    for is_deleted in [false, true] {
        let world = refused_after_a_takeover().await;
        let a = |world: &World| world.server.object(&format!("{MAPS}/a")).unwrap();
        let before = (records(&world), a(&world)["metadata"]["uid"].clone());

        let world = recording(world.server, random());
        if is_deleted {
            world.delete();
        }
        tokio::time::advance(Duration::from_secs(600)).await;
        world.reconcile().await;
        assert_eq!((records(&world), a(&world)["metadata"]["uid"].clone()), before, "{is_deleted}");
        assert_eq!(world.value_of("a"), "1", "{is_deleted}");
        if is_deleted {
            let owners = a(&world)["metadata"]["ownerReferences"].clone();
            assert_eq!((world.server.object(PRIMARY), world.maps().len()), (None, 3));
            assert!(owners.as_array().is_none_or(Vec::is_empty), "the garbage collector would delete it: {owners}");
        } else {
            let condition = world.condition("Irreconcilable").unwrap();
            assert!(condition.starts_with("True/ReleaseConflict/"), "{condition}");
            assert!(condition.contains("delete the Secrets sh.helm.release.v1.web.v* that are left in"), "{condition}");
            assert!(world.history().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_other_secrets_a_refused_resource_installs_nothing_after_the_records_moved() {
    let world = refused_after_a_takeover().await;
    let a = |world: &World| world.server.object(&format!("{MAPS}/a")).unwrap();
    let before = (records(&world), a(&world));
    let world = recording(world.server, random());
    forbid_other_secrets(&world);
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(600)).await;
        world.reconcile().await;
        let condition = world.condition("Irreconcilable").unwrap();
        assert!(condition.starts_with("True/ReleaseConflict/"), "{condition}");
        assert!(condition.contains("cannot list the release records in namespace \"ns\""), "{condition}");
        assert_eq!((records(&world), a(&world)), before);
    }
    world.delete();
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!((world.server.object(PRIMARY), records(&world), world.maps().len()), (None, before.0, 3));
    let owners = a(&world)["metadata"]["ownerReferences"].clone();
    assert!(owners.as_array().is_none_or(Vec::is_empty), "the garbage collector would delete it: {owners}");
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_other_secrets_a_refused_resource_is_installed_once_the_other_is_uninstalled() {
    for is_restarted in [false, true] {
        let world = recording(World::new(spec()).server, Stub::default());
        world.reconcile().await;
        let installed = world.shared.storage.get("ns", "web", 1).await.unwrap();
        let (owner, owner_type) = ("another".into(), "Redis.cache.my.domain".into());
        let marks = Marks { owner, owner_type, ..installed.marks.clone().unwrap() };
        world.shared.storage.update(installed.release.facts(), &marks).await.unwrap();
        world.recreate(PRIMARY);
        let world = recording(world.server, Stub::default());
        forbid_other_secrets(&world);
        world.reconcile().await;
        assert_eq!(world.state("Irreconcilable"), "True/ReleaseConflict");
        let uid = |world: &World| world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].clone();
        let theirs = uid(&world);
        for path in world.maps().into_iter().map(|name| format!("{MAPS}/{name}")).chain(records(&world)) {
            world.server.remove(&path);
        }
        let world = if is_restarted { recording(world.server, Stub::default()) } else { world };
        tokio::time::advance(Duration::from_secs(600)).await;
        world.reconcile().await;
        let ended = (world.condition("Irreconcilable"), world.history());
        assert_eq!(ended, (None, vec!["1 deployed".to_owned()]), "{is_restarted}");
        assert_ne!(uid(&world), theirs);
    }
}
