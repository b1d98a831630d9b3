//! Tests of what a reconcile reads from the cache: drift, health, objects to wait for, owners, and the effect of a lost
//! write.

use controller::runtime::reflector::First;
use helm_release::kube::{Call, Disturbance, Live, Mark, ObjectKey, Readiness};
use helm_release::storage::Marks;

use crate::charts::tests::*;
use crate::reconcile::decide::health;
use crate::reconcile::ownership;
use crate::reconcile::step_context::StepContext;
use crate::status::Health;
use crate::view::dependent::Claim;

fn map_key(name: &str) -> ObjectKey {
    object_key("ConfigMap", name)
}

fn change_map(world: &World, name: &str) {
    let path = format!("{MAPS}/{name}");
    let mut object = world.server.object(&path).unwrap();
    object["data"]["value"] = "mine".into();
    world.server.put(&path, object, "kubectl");
}

fn marks(world: &World) -> Marks {
    let release = world.shared.cache.release(&key()).unwrap();
    Marks::clone(release.deployed().unwrap().1.marks.as_ref().unwrap())
}

/// Returns the names of the objects that drifted from these marks.
fn drifted(world: &World, marks: &Marks) -> Vec<String> {
    let primary = world.shared.cache.primary(&key()).unwrap();
    StepContext::new(&world.shared, &key(), &())
        .drifted(marks, &primary)
        .iter()
        .map(|key| key.name.to_string())
        .collect()
}

/// Advances the clock and reconciles; returns whether the change of the ConfigMap `b` was undone.
async fn is_put_back_after(world: &World, seconds: u64) -> bool {
    tokio::time::advance(Duration::from_secs(seconds)).await;
    world.reconcile().await;
    world.value_of("b") == "1"
}

#[tokio::test(start_paused = true)]
async fn unwatched_objects_are_reapplied_once_a_period() {
    let world = World::unwatched(World::new(spec()).server, |settings| settings.watch_dependent_resources = false);
    world.reconcile().await;
    change_map(&world, "b");
    assert!(!is_put_back_after(&world, 50).await);
    assert!(is_put_back_after(&world, 4).await, "a tenth of the period early, for timers are not exact");
    change_map(&world, "b");
    assert!(!is_put_back_after(&world, 50).await, "the period begins anew");

    let world = World::unwatched(World::new(spec()).server, |settings| {
        settings.watch_dependent_resources = false;
        settings.period = Duration::ZERO;
    });
    world.reconcile().await;
    change_map(&world, "b");
    assert!(!is_put_back_after(&world, 100_000).await, "without a period never");
}

#[tokio::test(start_paused = true)]
async fn the_period_of_the_annotation_decides_when_unwatched_objects_are_reapplied_or_looked_at() {
    let world = World::unwatched(World::new(spec()).server, |settings| {
        settings.watch_dependent_resources = false;
        settings.period = Duration::ZERO;
    });
    let annotate = |annotations: Value| world.edit(|p| p["metadata"]["annotations"] = annotations);
    let [period, drift] = ["reconcile-period", "drift"].map(|name| format!("helm.sdk.operatorframework.io/{name}"));
    annotate(json!({&period: "1m"}));
    world.reconcile().await;
    change_map(&world, "b");
    assert!(!is_put_back_after(&world, 50).await);
    assert!(is_put_back_after(&world, 4).await);
    change_map(&world, "b");
    annotate(json!({&period: "1m", &drift: "detect"}));
    assert!(!is_put_back_after(&world, 60).await);
    assert_eq!(world.state("Drifted"), "True/DriftDetected");
}

#[tokio::test(start_paused = true)]
async fn only_kinds_that_may_not_be_listed_are_reapplied_each_period() {
    let world = World::unwatched(World::new(spec()).server, |_| {});
    world.reconcile().await;
    change_map(&world, "b");
    assert!(!is_put_back_after(&world, 600).await, "their list is to come");
    world.shared.cache.kind_listed(&config_maps(), Some(First::Refused));
    assert!(is_put_back_after(&world, 600).await);
}

#[tokio::test(start_paused = true)]
async fn an_object_being_deleted_is_recreated_once_it_is_gone() {
    let world = World::new(spec());
    world.reconcile().await;
    let path = format!("{MAPS}/b");
    let mut object = world.server.object(&path).unwrap();
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    object["data"]["value"] = "mine".into();
    world.server.put(&path, object, "kubectl");
    world.reconcile().await;
    assert_eq!(world.value_of("b"), "mine");
    assert_eq!(
        world.condition("Ready").unwrap(),
        "False/Progressing/ConfigMap \"b\" is not ready: it is being deleted"
    );
    world.server.remove(&path);
    world.reconcile().await;
    assert_eq!(world.value_of("b"), "1");
}

#[tokio::test(start_paused = true)]
async fn without_managed_fields_everything_is_reapplied_once_a_period() {
    let world = World::new(spec());
    world.reconcile().await;
    let (marked, mut unmarked) = (marks(&world), marks(&world));
    unmarked.objects[1].mark = None;
    assert!(drifted(&world, &marked).is_empty() && drifted(&world, &unmarked).is_empty());
    let mut live: Live = serde_json::from_value(world.server.object(&format!("{MAPS}/b")).unwrap()).unwrap();
    live.mark = None;
    live.metadata.resource_version = Some("1000".into());
    let claim = Claim { owner: Some(key()), ours: true };
    let epoch = Epoch { number: 99, began: Instant::now(), is_list: false };
    world.shared.cache.store_dependent(map_key("b"), &live, claim, epoch);
    assert!(drifted(&world, &unmarked).is_empty());
    assert_eq!(drifted(&world, &marked), ["b"], "someone has removed our entry");
    tokio::time::advance(60 * SECOND).await;
    assert_eq!(drifted(&world, &unmarked), ["b"]);
    let mut changed = marked;
    changed.objects[2].mark = Some(Mark(1));
    assert_eq!(drifted(&world, &changed), ["b", "c"]);
}

/// Sets the status of an object of the release.
fn see(world: &World, name: &str, status: &str) {
    let metadata = json!({"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1000", "generation": 1});
    let conditions = match status {
        "failed" => json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]),
        _ => json!([{"type": "Available", "status": "True"}]),
    };
    let ready = u8::from(status == "ready");
    let status = json!({
        "observedGeneration": 1, "conditions": conditions, "replicas": 1, "updatedReplicas": 1,
        "readyReplicas": ready, "availableReplicas": ready,
    });
    let live =
        serde_json::from_value(json!({"metadata": metadata, "spec": {"replicas": 1}, "status": status})).unwrap();
    let key = ObjectKey { group: "apps".into(), kind: "Deployment".into(), ..map_key(name) };
    let epoch = Epoch { number: 99, began: Instant::now(), is_list: false };
    world.shared.cache.store_dependent(key, &live, Claim { owner: Some(super::key()), ours: true }, epoch);
}

#[tokio::test(start_paused = true)]
async fn health_names_failed_objects_first_and_says_why() {
    let world = World::new(spec());
    world.reconcile().await;
    let health = |objects: &[(&str, &str)]| {
        let mut marks = marks(&world);
        let one = marks.objects[0].clone();
        marks.objects = objects
            .iter()
            .map(|(name, status)| {
                if *status != "absent" {
                    see(&world, name, status);
                }
                let mut object = one.clone();
                object.key = ObjectKey { group: "apps".into(), kind: "Deployment".into(), ..map_key(name) };
                object
            })
            .collect();
        let unhealthy = StepContext::new(&world.shared, &key(), &()).unhealthy(&marks);
        health::Waiting::begin(0, Instant::now()).health(&unhealthy, Duration::ZERO)
    };
    let waits = |name: &str| format!("Deployment \"{name}\" is not ready: 0 of 1 replicas are available");
    assert_eq!(health(&[("r", "ready")]), Health::Ready);
    let both = format!("{}; {}", waits("p"), waits("q"));
    assert_eq!(health(&[("r", "ready"), ("p", "progressing"), ("q", "progressing")]), Health::Progressing(both));
    // What the Deployment says about it is shown once it is redacted.
    let failed = format!("Deployment \"f\" failed: ****; {}", waits("p"));
    assert_eq!(health(&[("p", "progressing"), ("f", "failed")]), Health::Failed(failed));
    let gone = "Deployment \"gone\" is not ready: it does not exist".to_owned();
    assert_eq!(health(&[("gone", "absent")]), Health::Progressing(gone), "its kind is listed");
    let world = World::unwatched(world.server, |_| {});
    let work_key = key();
    let work = StepContext::new(&world.shared, &work_key, &());
    assert!(work.unhealthy(&marks(&world)).is_empty(), "no watch reports it");
    assert!(!work.is_watched());
    assert_eq!(Readiness::default(), Readiness::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_release_is_watched_once_all_its_kinds_are_listed() {
    let world = World::new(spec());
    let of = key();
    let work = StepContext::new(&world.shared, &of, &());
    assert!(!work.is_watched(), "no release is installed");
    world.reconcile().await;
    assert!(work.is_watched());
}

#[tokio::test(start_paused = true)]
async fn the_owner_of_an_object_is_its_controller_or_else_the_one_in_its_annotation() {
    let world = World::new(spec());
    let owner_of = |metadata: Value| {
        let mut metadata = metadata;
        metadata["name"] = "a".into();
        metadata["namespace"] = "ns".into();
        ownership::owner_of(&world.shared, &serde_json::from_value(json!({"metadata": metadata})).unwrap())
    };
    let by_reference = |api_version: &str, kind: &str| {
        owner_of(json!({"ownerReferences": [
            {"apiVersion": api_version, "kind": kind, "name": "web", "uid": "u", "controller": true},
        ]}))
    };
    assert_eq!(by_reference("cache.my.domain/v1", "Memcached"), Some(key()));
    assert_eq!(by_reference("cache.my.domain/v2", "Memcached"), Some(key()), "versions of a kind are one kind");
    assert_eq!(by_reference("other.domain/v1", "Memcached"), None);
    assert_eq!(by_reference("cache.my.domain/v1", "Other"), None);
    let by_annotation = |primary: &str, kind: &str| {
        owner_of(json!({"annotations": {
            "operator-sdk/primary-resource": primary, "operator-sdk/primary-resource-type": kind,
        }}))
    };
    assert_eq!(by_annotation("ns/web", "Memcached.cache.my.domain"), Some(key()));
    assert_eq!(by_annotation("web", "Memcached.cache.my.domain"), Some(ResourceKey::new("", "web")));
    assert_eq!(by_annotation("ns/web", "Other.cache.my.domain"), None);
    assert_eq!(owner_of(json!({})), None);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_lost_its_owner_wakes_its_previous_owner_and_another_of_the_same_name_does_not() {
    let world = World::new(spec());
    world.reconcile().await;
    let claim = |uid: &str| {
        let live = json!({"metadata": {"name": "a", "namespace": "ns", "uid": uid}});
        ownership::claim(&world.shared, &map_key("a"), &serde_json::from_value(live).unwrap())
    };
    let uid = world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(claim(&uid), Claim { owner: Some(key()), ours: false });
    assert_eq!(claim("another"), Claim { owner: None, ours: false });
}

/// Returns whether `what` wakes the idle resource.
async fn wakes(world: &World, what: impl FnOnce()) -> bool {
    world.open();
    while let Ok(key) = tokio::time::timeout(SECOND, world.shared.queue.next()).await {
        world.shared.queue.done(&key);
    }
    what();
    let woken = tokio::time::timeout(SECOND, world.shared.queue.next()).await;
    woken.inspect(|key| world.shared.queue.done(key)).is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_lost_object_and_a_lost_record_wake_their_resource() {
    let world = World::new(spec());
    world.reconcile().await;
    let live = live(world.server.object(&format!("{MAPS}/a")).unwrap());
    let maps = Arc::new(config_maps());
    assert!(wakes(&world, || Dependents(world.shared.clone(), maps.clone(), 1).deleted(live.clone())).await);
    assert!(!wakes(&world, || Dependents(world.shared.clone(), maps, 1).deleted(live)).await, "it is known to be gone");

    let path = world.server.paths().into_iter().find(|path| path.contains("sh.helm.release.v1")).unwrap();
    let metadata = serde_json::from_value(world.server.object(&path).unwrap()["metadata"].take()).unwrap();
    let meta = RecordMeta::read(&metadata, &keys()).unwrap();
    assert!(wakes(&world, || world.releases.deleted(meta)).await);
    assert!(world.shared.cache.release(&key()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_resource_leaves_no_failure_for_its_successor() {
    let world = World::new(spec());
    world.edit(|p| p["spec"]["broken"] = true.into());
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    assert!(world.shared.memory.of(&key()).fault().is_some());
    let gone = serde_json::from_value(world.server.object(PRIMARY).unwrap()).unwrap();
    Primaries(world.shared.clone()).deleted(gone);
    assert!(world.shared.cache.primary(&key()).is_none());
    assert!(world.shared.memory.of(&key()).fault().is_none());
}

/// Creates a controller that tries everything once.
fn without_retries(server: Arc<MemoryApi>) -> World {
    World::with_events(server, Arc::new(Stub::default()), |settings| settings.retries = Some(0))
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_a_list_shows_in_place_of_another_has_not_failed_yet() {
    let world = without_retries(World::new(json!({"maps": ["a", "b"], "value": "bad"})).server);
    failure_policy::refuse(&world, 422);
    world.reconcile().await;
    assert_eq!((world.state("Stalled").as_str(), world.history()), ("True/RetriesExceeded", vec![]));
    world.server.accept();
    // Its deletion falls into a gap of the watch.
    world.recreate(PRIMARY);
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.history()), (2, vec!["1 deployed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_first_listed_during_or_after_the_start_brings_its_failure_with_it() {
    for is_over in [false, true] {
        let world = World::new(json!({"broken": true}));
        assert_eq!(world.reconcile().await, ReconcileResult::Error);
        let mut failed = world.server.object(PRIMARY).unwrap();
        for condition in failed["status"]["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = "2020-01-01T00:00:00Z".into();
        }
        world.server.remove(PRIMARY);
        let world = World::on(world.server);
        restore::begin(&world.shared);
        if is_over {
            restore::open(&world.shared);
        }
        // As after a refusal of the first list.
        world.server.restore(PRIMARY, failed);
        world.feed();
        if !is_over {
            restore::open(&world.shared);
        }
        let result = reconcile::reconcile(&world.shared, &key(), &(), Priority::Normal).await;
        let expected = (ReconcileResult::RequeueAfter, 1);
        assert_eq!((result, world.shared.queue.timers()), expected, "it has failed for long; start over: {is_over}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_takes_the_place_of_one_during_its_action_has_not_failed_yet() {
    let world = without_retries(World::new(spec()).server);
    let (server, shared) = (world.server.clone(), world.shared.clone());
    let is_replaced = std::sync::atomic::AtomicBool::new(false);
    let epoch = Epoch { number: world.lists.load(Ordering::Relaxed) + 1, began: Instant::now(), is_list: false };
    let received = |server: &MemoryApi| {
        let mut resource = server.object(PRIMARY).unwrap();
        resource["metadata"]["namespace"] = "ns".into();
        serde_json::from_value::<Received>(resource).unwrap()
    };
    world.server.refuse(move |call| {
        let is_made = call.method == http::Method::POST && call.path.starts_with(MAPS);
        let is_b = is_made || call.method == http::Method::PATCH && call.path.starts_with(&format!("{MAPS}/b"));
        if is_b && !is_replaced.swap(true, Ordering::Relaxed) {
            let primaries = Primaries(shared.clone());
            primaries.deleted(received(&server));
            server.remove(PRIMARY);
            let (path, again) = primary("ns", "web", spec());
            server.put(&path, again, "user");
            primaries.changed(received(&server), epoch);
        }
        is_b.then(|| Error::from_status(422, "Invalid", "no"))
    });
    let old = world.shared.cache.primary(&key()).unwrap();
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    assert_ne!(world.shared.cache.primary(&key()).unwrap().uid(), old.uid());
    assert!(world.shared.memory.of(&key()).fault().is_none());
    world.server.accept();
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_added_to_the_new_version_when_the_resource_has_just_changed() {
    for (is_gone, maps) in [(false, 3), (true, 0)] {
        let world = World::new(spec());
        let (server, has_changed) = (world.server.clone(), AtomicBool::new(false));
        world.server.refuse(move |call| {
            let is_first = is_finalizer_write(call) && !has_changed.swap(true, Ordering::Relaxed);
            if is_first && is_gone {
                server.remove(PRIMARY);
            } else if is_first {
                let mut primary = server.object(PRIMARY)?;
                primary["metadata"]["labels"] = json!({"new": "yes"});
                server.put(PRIMARY, primary, "user");
            }
            is_first.then(|| Error::from_status(if is_gone { 404 } else { 409 }, "Conflict", "it has changed"))
        });
        world.reconcile().await;
        assert_eq!((world.maps().len(), world.condition("Irreconcilable")), (maps, None), "gone: {is_gone}");
    }
    let world = World::new(spec());
    world.server.disturb("PATCH /apis/cache.my.domain", 1, Disturbance::Refused(500));
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/Unanswered/failed to add uninstall finalizer: "), "{condition}");
}

/// Returns whether a request writes the resource's finalizers.
fn is_finalizer_write(call: &Call) -> bool {
    call.method == http::Method::PATCH && call.path.starts_with(&format!("{PRIMARY}?"))
}

#[tokio::test(start_paused = true)]
async fn a_conflict_over_a_finalizer_is_reported_if_the_resource_cannot_be_read_or_has_not_changed() {
    for is_readable in [true, false] {
        let world = World::new(spec());
        world.server.refuse(move |call| {
            let is_read = !is_readable && call.method == http::Method::GET && call.path == PRIMARY;
            match () {
                () if is_finalizer_write(call) => Some(Error::from_status(409, "Conflict", "the quota has changed")),
                () if is_read => Some(Error::from_status(500, "InternalError", "no")),
                () => None,
            }
        });
        let writes = || world.server.log().iter().filter(|line| **line == format!("PATCH {PRIMARY}")).count();
        assert_eq!((world.reconcile().await, writes()), (ReconcileResult::Error, 1), "readable: {is_readable}");
        let condition = world.condition("Irreconcilable").unwrap();
        let expected = "True/Unanswered/failed to add uninstall finalizer: ";
        assert!(condition.starts_with(expected), "{condition}");
        assert_eq!(condition.contains("the quota has changed"), is_readable, "{condition}");
        world.server.accept();
        tokio::time::advance(60 * SECOND).await;
        world.reconcile().await;
        assert_eq!((world.maps().len(), world.condition("Irreconcilable")), (3, None));
    }
}

/// Otherwise the same step would follow at once, as often as a reconcile has steps.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_a_webhook_removes_or_puts_back_is_written_once_and_the_condition_says_why() {
    for (is_deleted, verb) in [(false, "add"), (true, "remove")] {
        let world = World::new(spec());
        if is_deleted {
            world.reconcile().await;
            world.delete();
        }
        world.server.change(|server| {
            server.mutate(move |plural, object| {
                if plural == "memcacheds" {
                    object["metadata"]["finalizers"] = if is_deleted { json!([FINALIZER]) } else { json!([]) };
                }
            });
        });
        let writes = || world.server.log().iter().filter(|line| **line == format!("PATCH {PRIMARY}")).count();
        let before = writes();
        assert_eq!((world.reconcile().await, writes() - before), (ReconcileResult::Error, 1), "{verb}");
        let why = "the API server accepts the patch and stores the resource as before, which a webhook may cause";
        let expected = format!("True/ReconcileError/failed to {verb} uninstall finalizer: {why}");
        assert_eq!(world.condition("Irreconcilable"), Some(expected));
        world.server.change(|server| server.clear_webhooks());
        tokio::time::advance(600 * SECOND).await;
        world.reconcile().await;
        assert_eq!(
            (world.server.object(PRIMARY).is_none(), world.maps().is_empty()),
            (is_deleted, is_deleted),
            "{verb}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_replaced_resource_is_forgotten_once_the_server_reports_it() {
    let world = World::new(spec());
    let old = world.shared.cache.primary(&key()).unwrap();
    world.server.remove(PRIMARY);
    let (path, mut body) = primary("ns", "web", spec());
    body["metadata"]["finalizers"] = json!([]);
    world.server.put(&path, body, "user");
    world.shared.memory.change(&key(), |memory| memory.triggers.resynced = Some(Instant::now()));
    let of = key();
    let work = StepContext::new(&world.shared, &of, &());
    crate::reconcile::reread::refresh(&work, &old).await;
    assert_ne!(world.shared.cache.primary(&key()).unwrap().uid(), old.uid());
    assert!(world.shared.memory.of(&key()).triggers.resynced.is_none());
    let new = world.shared.cache.primary(&key()).unwrap();
    world.shared.memory.change(&key(), |memory| memory.triggers.resynced = Some(Instant::now()));
    crate::reconcile::reread::refresh(&work, &new).await;
    assert!(world.shared.memory.of(&key()).triggers.resynced.is_some(), "it is the same");
    world.server.disturb("GET /apis/cache.my.domain", 1, Disturbance::Refused(500));
    crate::reconcile::reread::refresh(&work, &new).await;
    assert!(world.shared.cache.primary(&key()).is_some(), "a read that fails says nothing");
}

#[tokio::test(start_paused = true)]
async fn what_somebody_changed_just_before_a_status_write_wakes_the_resource() {
    let world = World::new(spec());
    let (server, edited) = (world.server.clone(), std::sync::atomic::AtomicBool::new(false));
    world.server.refuse(move |call| {
        if call.path.contains("/status") && !edited.swap(true, Ordering::Relaxed) {
            let mut primary = server.object(PRIMARY)?;
            primary["spec"]["value"] = "2".into();
            primary["metadata"]["generation"] = (primary["metadata"]["generation"].as_i64()? + 1).into();
            server.put(PRIMARY, primary, "user");
        }
        None
    });
    world.reconcile().await;
    world.server.accept();
    assert_eq!(world.value_of("a"), "1");
    world.open();
    // The event of the edit is older than the answer to the status write, which the cache has.
    let woken = tokio::time::timeout(SECOND, world.shared.queue.next()).await;
    assert_eq!(woken, Ok(key()), "otherwise the edit waits for the next period, or for ever");
}

/// Creates a controller of the resources with the label `tier: prod`, which the resource has.
fn selecting(server: Arc<MemoryApi>) -> World {
    let mut primary = server.object(PRIMARY).unwrap();
    primary["metadata"]["labels"] = json!({"tier": "prod"});
    server.put(PRIMARY, primary, "user");
    let selector = kube::core::Selector::from_iter([("tier", "prod")]);
    World::taking(server, Arc::new(Stub::default()), Acceptance { selector, ..Acceptance::default() })
}

/// Removes the label just before the first request whose line of the log contains `what`, and delivers the event by
/// which the resource leaves the watch: its last state there, with the version of the change.
fn leave_before(world: &World, what: &'static str) {
    let (server, shared) = (world.server.clone(), world.shared.clone());
    let has_left = std::sync::atomic::AtomicBool::new(false);
    world.server.refuse(move |call| {
        let line = format!("{} {}", call.method, call.path);
        if line.contains(what) && !has_left.swap(true, Ordering::Relaxed) {
            let mut last = server.object(PRIMARY)?;
            let mut primary = last.clone();
            primary["metadata"]["labels"] = json!({});
            server.put(PRIMARY, primary, "user");
            last["metadata"]["namespace"] = "ns".into();
            last["metadata"]["resourceVersion"] = server.object(PRIMARY)?["metadata"]["resourceVersion"].clone();
            Primaries(shared.clone()).deleted(serde_json::from_value(last).unwrap());
        }
        None
    });
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_status_write_brings_no_resource_back_that_left_the_watch_just_before() {
    let world = selecting(World::new(spec()).server);
    leave_before(&world, "memcacheds/web/status");
    world.open();
    assert_eq!(world.shared.queue.next().await, key());
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    world.shared.queue.done(&key());
    world.server.accept();
    assert_eq!(world.server.object(PRIMARY).unwrap()["status"]["deployedRelease"]["revision"], 1, "it was answered");
    assert!(world.shared.cache.primary(&key()).is_none());
    assert!(world.shared.memory.of(&key()).is_blank());
    assert!(tokio::time::timeout(SECOND, world.shared.queue.next()).await.is_err(), "nobody wakes it");
    let mut primary = world.server.object(PRIMARY).unwrap();
    primary["metadata"]["labels"] = json!({"tier": "prod"});
    world.server.put(PRIMARY, primary, "user");
    world.feed();
    assert!(world.shared.cache.primary(&key()).is_some(), "it comes back");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_leaves_the_watch_while_its_record_is_read_gets_no_status() {
    let world = World::new(spec());
    world.server.refuse(|call| call.path.contains("/status").then(|| Error::from_status(500, "InternalError", "away")));
    world.reconcile().await;
    world.server.accept();
    let world = selecting(world.server);
    leave_before(&world, "GET /api/v1/namespaces/ns/secrets/sh.helm.release.v1.web.v1");
    let before = world.server.log().len();
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    assert!(world.shared.cache.primary(&key()).is_none(), "the record was read");
    let log = world.server.log()[before..].join("\n");
    assert!(!log.contains("/status"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn finalizers_that_somebody_removed_just_before_a_status_write_wake_the_resource() {
    for (is_deleted, before, after) in [
        (false, vec![FINALIZER], vec![]),
        (true, vec![FINALIZER, "their.org/a", "their.org/b"], vec![FINALIZER, "their.org/b"]),
    ] {
        let world = World::new(spec());
        world.reconcile().await;
        let edit = |finalizers: Vec<&str>| {
            let mut primary = world.server.object(PRIMARY).unwrap();
            primary["metadata"]["finalizers"] = finalizers.into();
            if is_deleted {
                primary["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            world.server.put(PRIMARY, primary, "user");
            serde_json::from_value::<Received>(world.server.object(PRIMARY).unwrap()).unwrap()
        };
        world.shared.primary_written(edit(before));
        let is_woken = wakes(&world, || world.shared.primary_written(edit(after))).await;
        assert!(is_woken, "deleted: {is_deleted}; the event of the removal is older than this answer");
    }
}
