//! Tests of a controller that has to watch the objects of another chart, too, while it runs.

use kube::runtime::watcher::Event;
use tokio::task::JoinSet;

use super::kinds::Process;
use super::*;
use crate::charts::object_watches::{FIRST_LISTS, ObjectWatches};
use crate::reconcile::controller_context::WatchRequest;

/// Returns the release's ConfigMaps, as a list or a watch shows them.
fn objects(world: &World) -> Vec<Live> {
    let object = |name: &String| {
        let mut object = world.server.object(&format!("{MAPS}/{name}")).unwrap();
        object["metadata"]["namespace"] = "ns".into();
        Live::clone(&live(object))
    };
    world.maps().iter().map(object).collect()
}

/// Shows the controller that its release has had the chart `a`, as when the resource comes from another shard.
fn show_another_chart(world: &World) {
    show_with_another_chart(world, PRIMARY);
}

/// Shows the controller a resource whose release has had the chart `a`.
fn show_with_another_chart(world: &World, path: &str) {
    let mut resource = world.server.object(path).unwrap();
    resource["status"]["deployedRelease"]["chart"] = "a-1.0.0".into();
    world.server.put(path, resource, "another shard");
    let mut resource = world.server.object(path).unwrap();
    resource["metadata"]["namespace"] = "ns".into();
    let epoch = Epoch { number: 99, began: Instant::now(), is_list: false };
    Primaries(world.shared.clone()).changed(serde_json::from_value::<Received>(resource).unwrap(), epoch);
}

/// Lists these objects in the first watch.
fn list(process: &Process, objects: impl IntoIterator<Item = Live>) {
    let listed = objects.into_iter().map(Event::InitApply);
    for event in std::iter::once(Event::Init).chain(listed).chain([Event::InitDone]) {
        process.server.send(1, event);
    }
}

/// Returns whether the ConfigMap was written since this many requests.
fn is_written(world: &World, path: &str, since: usize) -> bool {
    world.server.log()[since..].contains(&format!("PATCH {path}"))
}

#[tokio::test(start_paused = true)]
async fn an_object_of_an_added_chart_is_not_missing_before_it_is_listed() {
    let (world, process) = (World::unwatched(World::new(spec()).server, |_| {}), Process::new());
    world.reconcile().await;
    let other = process.first().await;
    let (mut watches, mut tasks) = (ObjectWatches::new(&world.shared, process.kinds.clone()), JoinSet::new());
    watches.cover(WatchRequest::Kind(Arc::new(config_maps())), &mut tasks);
    tokio::time::advance(SECOND).await;
    // The list lacks an object with the label of another chart.
    list(&process, objects(&world).into_iter().filter(|live| live.metadata.name.as_deref() != Some("b")));
    other.until("sweep 2").await;
    let (b, path) = (object_key("ConfigMap", "b"), format!("{MAPS}/b"));
    assert!(world.shared.cache.is_synced(&b) && world.shared.cache.dependent(&b).is_none());

    let before = world.server.log().len();
    process.server.fail();
    show_another_chart(&world);
    assert!(!world.shared.cache.is_synced(&b), "it may have the label of the added chart");
    assert!(world.shared.cache.is_listing(&key()));
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    watches.cover(WatchRequest::Chart, &mut tasks);
    // Its lists fail for longer than resources wait.
    tokio::time::sleep(FIRST_LISTS + SECOND).await;
    assert!(!world.shared.cache.is_listing(&key()) && !world.shared.cache.is_synced(&b));
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    assert!(!is_written(&world, &path, before), "{:#?}", world.server.log());

    process.server.answer_with(objects(&world));
    while tasks.join_next().await.is_some() {}
    assert!(world.shared.cache.is_synced(&b) && world.shared.cache.dependent(&b).is_some());
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    assert!(!is_written(&world, &path, before), "{:#?}", world.server.log());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_goes_while_a_chart_is_added_comes_back() {
    let (world, process) = (World::unwatched(World::new(spec()).server, |_| {}), Process::new());
    world.reconcile().await;
    let other = process.first().await;
    let (mut watches, mut tasks) = (ObjectWatches::new(&world.shared, process.kinds.clone()), JoinSet::new());
    watches.cover(WatchRequest::Kind(Arc::new(config_maps())), &mut tasks);
    list(&process, objects(&world));
    other.until("sweep 2").await;

    // The watch selects this chart already, so that the controller lists by itself, which fails at first.
    process.server.fail();
    show_another_chart(&world);
    watches.cover(WatchRequest::Chart, &mut tasks);
    let [_, lost, _]: [Live; 3] = objects(&world).try_into().unwrap();
    let path = format!("{MAPS}/b");
    let uid = world.server.object(&path).unwrap()["metadata"]["uid"].clone();
    world.server.remove(&path);
    process.server.send(1, Event::Delete(lost));
    other.until("b gone").await;
    process.server.answer_with(objects(&world));
    while tasks.join_next().await.is_some() {}

    assert!(world.shared.cache.dependent(&object_key("ConfigMap", "b")).is_none());
    assert_ne!(reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await, ReconcileResult::Error);
    assert_ne!(world.server.object(&path).unwrap()["metadata"]["uid"], uid);
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_added_chart_that_is_refused_once_is_tried_again() {
    let (world, process) = (World::unwatched(World::new(spec()).server, |_| {}), Process::new());
    world.reconcile().await;
    let other = process.first().await;
    let (mut watches, mut tasks) = (ObjectWatches::new(&world.shared, process.kinds.clone()), JoinSet::new());
    watches.cover(WatchRequest::Kind(Arc::new(config_maps())), &mut tasks);
    let list = || {
        let listed = objects(&world).into_iter().map(Event::InitApply);
        std::iter::once(Event::Init).chain(listed).chain([Event::InitDone])
    };
    list().for_each(|event| process.server.send(1, event));
    other.until("sweep 2").await;

    process.server.refuse_lists();
    show_another_chart(&world);
    watches.cover(WatchRequest::Chart, &mut tasks);
    tokio::time::sleep(SECOND).await;
    let b = object_key("ConfigMap", "b");
    assert!(world.shared.cache.is_listing(&key()) && !world.shared.cache.is_synced(&b));
    list().for_each(|event| process.server.send(2, event));
    while tasks.join_next().await.is_some() {}
    assert!(!world.shared.cache.is_listing(&key()) && !world.shared.cache.is_refused(&b));
    assert!(world.shared.cache.is_synced(&b) && world.shared.cache.dependent(&b).is_some());
}

#[tokio::test(start_paused = true)]
async fn resources_wait_for_the_lists_with_an_added_chart_although_earlier_ones_end() {
    let (world, process) = (World::unwatched(World::new(spec()).server, |_| {}), Process::new());
    world.reconcile().await;
    let other = process.first().await;
    let kind = Arc::new(config_maps());
    world.shared.cache.await_kind(&kind);
    let (mut watches, mut tasks) = (ObjectWatches::new(&world.shared, process.kinds.clone()), JoinSet::new());
    watches.cover(WatchRequest::Kind(kind), &mut tasks);
    // The watch selects this chart already, so that the controller lists by itself.
    show_another_chart(&world);
    watches.cover(WatchRequest::Chart, &mut tasks);
    list(&process, objects(&world));
    other.until("sweep 2").await;
    _ = tasks.join_next().await;
    assert!(world.shared.cache.is_listing(&key()), "its own list has no answer yet");

    // The watch may have listed since its own list began, so that it begins again.
    process.server.answer_with(objects(&world));
    process.server.answer_with(objects(&world));
    while tasks.join_next().await.is_some() {}
    assert!(!world.shared.cache.is_listing(&key()));
}

#[tokio::test(start_paused = true)]
async fn every_resource_that_comes_before_the_objects_of_an_added_chart_are_listed_waits_for_them() {
    for is_listed in [true, false] {
        let (world, process) = (World::unwatched(World::new(spec()).server, |_| {}), Process::new());
        world.reconcile().await;
        let late = ["one", "two"].map(|name| world.add("ns", name, json!({"maps": [name], "value": "1"})));
        for key in &late {
            world.reconcile_one(key).await;
        }
        for key in &late {
            let uid = world.shared.cache.primary(key).unwrap().uid().to_owned();
            assert!(world.shared.cache.unlist_primary(key, &uid));
        }
        let (other, kind) = (process.first().await, Arc::new(config_maps()));
        let (mut watches, mut tasks) = (ObjectWatches::new(&world.shared, process.kinds.clone()), JoinSet::new());
        world.shared.cache.await_kind(&kind);
        watches.cover(WatchRequest::Kind(kind), &mut tasks);
        if is_listed {
            let listed = objects(&world).into_iter().map(Event::InitApply);
            for event in std::iter::once(Event::Init).chain(listed).chain([Event::InitDone]) {
                process.server.send(1, event);
            }
            other.until("sweep 2").await;
            _ = tasks.join_next().await;
        }

        process.server.fail();
        for key in &late {
            show_with_another_chart(&world, &primary("ns", &key.name, Value::Null).0);
            assert!(world.shared.cache.primary(key).is_some());
            assert!(world.shared.cache.is_listing(key), "{is_listed}, {}", key.name);
        }
        watches.cover(WatchRequest::Chart, &mut tasks);
        process.server.answer_with(objects(&world));
        while tasks.join_next().await.is_some() {}
        assert!(!late.iter().any(|key| world.shared.cache.is_listing(key)), "{is_listed}");
        assert!(world.shared.cache.is_synced(&object_key("ConfigMap", "two")), "{is_listed}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_list_without_an_added_chart_does_not_count_however_late_it_comes() {
    let world = World::unwatched(World::new(spec()).server, |_| {});
    let (cache, kind, b) = (&world.shared.cache, Arc::new(config_maps()), object_key("ConfigMap", "b"));
    let [old, new] = [1, 2].map(|charts| Dependents(world.shared.clone(), kind.clone(), charts));
    let list = |number| Epoch { number, began: Instant::now(), is_list: true };
    cache.watch_kind_in(&kind, vec![WatchScope::ALL], 1);
    cache.widen(2);
    cache.watch_kind_in(&kind, vec![WatchScope::ALL], 2);
    old.sweep(&WatchScope::ALL, list(1));
    assert!(!cache.is_synced(&b), "it may have the label of the added chart");
    new.sweep(&WatchScope::ALL, list(2));
    assert!(cache.is_synced(&b));
}

#[test]
fn whoever_finds_a_chart_added_finds_no_list_without_its_objects() {
    let (cache, charts, b) = (Cache::default(), SelectedCharts::default(), object_key("ConfigMap", "b"));
    charts.begin(["memcached".to_owned()].into());
    cache.watch_kind_in(&config_maps(), vec![WatchScope::ALL], 1);
    cache.kind_synced(&config_maps(), &WatchScope::ALL, 1);
    assert!(cache.is_synced(&b));
    std::thread::scope(|scope| {
        let other = || {
            assert!(!charts.add("a", |_| ()), "it is added already");
            cache.is_synced(&b)
        };
        let mut found = None;
        charts.add("a", |number| {
            found = Some(scope.spawn(other));
            std::thread::sleep(SECOND / 100);
            cache.widen(number);
        });
        assert!(!found.unwrap().join().unwrap());
    });
}
