//! Tests of what the operator's author adds to a chart: value mappers, filters, pauses and watches of more objects.

use controller::metrics::WATCH_PANICS;
use controller::report::Outcome;
use controller::runtime::reflector::{self, Stream};
use futures::{StreamExt as _, stream};
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event};
use tokio::sync::oneshot;

use super::hooks::{JOBS, reconcile};
use super::storage::recording;
use super::*;
use crate::hooks::extensions::Judge;
use crate::hooks::{Error as Failure, Mapping, PostRender};

/// The values that the mapper adds to a resource; `None` makes it fail.
type Answer = Arc<Mutex<Option<Value>>>;

/// Creates a controller whose mapper merges an answer over the resource's values.
fn mapping(server: Arc<MemoryApi>, answer: &Answer) -> World {
    mapping_with(server, answer, |_| {})
}

/// Creates such a controller with other settings.
fn mapping_with(server: Arc<MemoryApi>, answer: &Answer, change: impl FnOnce(&mut Settings)) -> World {
    let answer = answer.clone();
    let mapper = move |mapping: Mapping| {
        let answer = answer.lock().unwrap().clone();
        async move {
            let mut values = mapping.values.clone();
            let answer = answer.ok_or("no such setting")?;
            if answer == "published" {
                mapping.publish(Outcome::normal("Mapped", "Map", "mapped"));
            }
            values["value"] = format!("{answer} for {}", mapping.resource.name_any()).into();
            Ok::<_, Failure>(values)
        }
    };
    let extensions = Extensions { mappers: vec![Arc::new(mapper)], ..Extensions::default() };
    let acceptance = Acceptance { keep_metadata: extensions.need_metadata(), ..Acceptance::default() };
    let events = Events::new(server.clone(), "memcached-controller", None);
    World::start(server, Arc::new(Stub::default()), events, ChartObjects::Watched, change, acceptance, extensions)
}

fn answering(answer: &str) -> (World, Answer) {
    let answer = Answer::new(Mutex::new(Some(answer.into())));
    (mapping(World::new(json!({"maps": ["a"], "value": "own"})).server, &answer), answer)
}

#[tokio::test(start_paused = true)]
async fn a_chart_is_rendered_with_mapped_values_and_a_new_answer_upgrades() {
    let (world, answer) = answering("one");
    world.reconcile().await;
    assert_eq!(world.value_of("a"), "\"one\" for web");
    assert_eq!(world.requests().await, 0, "an equal answer is no change");
    *answer.lock().unwrap() = Some("two".into());
    world.reconcile().await;
    assert_eq!(
        (world.value_of("a"), world.history()),
        (json!("\"two\" for web"), vec!["1 superseded".into(), "2 deployed".into()])
    );
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_the_same_answer_changes_nothing() {
    let (world, answer) = answering("one");
    world.reconcile().await;
    let world = mapping(world.server.clone(), &answer);
    assert_eq!(world.requests().await, 0);
    assert_eq!(world.history(), ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn values_are_mapped_and_only_another_answer_waits_while_some_releases_are_not_listed() {
    let (world, answer) = answering("one");
    world.reconcile().await;
    let world = mapping_with(world.server, &answer, |settings| settings.max_parallel_upgrades = 1);
    world.shared.unseen.require([WatchScope::namespace("other")]);
    world.reconcile().await;
    assert_eq!((world.condition("Reconciling"), world.requests().await), (None, 0));
    *answer.lock().unwrap() = Some("two".into());
    world.reconcile().await;
    assert_eq!(
        (world.value_of("a"), world.state("Reconciling")),
        (json!("\"one\" for web"), "True/RolloutUnknown".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_mapper_is_a_condition_and_what_is_deployed_stays() {
    let (world, answer) = answering("one");
    world.reconcile().await;
    *answer.lock().unwrap() = None;
    world.reconcile().await;
    let status = world.server.object(PRIMARY).unwrap()["status"].to_string();
    assert!(status.contains("ValueMappingFailed") && status.contains("cannot map values: no such setting"), "{status}");
    assert_eq!((world.value_of("a"), world.history()), (json!("\"one\" for web"), vec!["1 deployed".to_owned()]));
    *answer.lock().unwrap() = Some("two".into());
    tokio::time::advance(SECOND).await;
    world.reconcile().await;
    assert_eq!(world.value_of("a"), "\"two\" for web");
}

#[tokio::test(start_paused = true)]
async fn a_mapper_that_fails_does_not_keep_a_release_from_being_uninstalled() {
    let (world, answer) = answering("one");
    world.reconcile().await;
    *answer.lock().unwrap() = None;
    world.delete();
    world.reconcile().await;
    assert!(world.server.object(PRIMARY).is_none() && world.maps().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_mapper_may_publish_events_on_the_resource() {
    let (world, _) = answering("published");
    world.reconcile().await;
    // Events are published in the background.
    tokio::time::sleep(SECOND).await;
    assert!(events(&world.server).iter().any(|event| event["reason"] == "Mapped"));
}

const PAUSES: &str = "The operator's own rule (pause_when) pauses the resource: even a deletion waits.";
const PAUSE_PANICKED: &str =
    "The operator's own rule (pause_when) panicked, a bug that its log describes: even a deletion waits.";
const FILTER_PANICKED: &str = "The operator's own filter panicked, a bug that its log describes: the resource is left \
    alone. If it is deleted, its release is uninstalled unless another operator has recorded it.";

/// Returns the condition `Paused` with this message.
fn paused_by(message: &str) -> String {
    format!("True/PauseReconcileAnnotationTrue/{message}")
}

/// Creates a controller that filters or pauses resources.
fn judging(server: Arc<MemoryApi>, acceptance: Acceptance) -> World {
    World::taking(server, Arc::new(Stub::default()), acceptance)
}

fn is_wanted(resource: &DynamicObject) -> bool {
    resource.annotations().get("skip").is_none() && resource.data["spec"]["skip"] != true
}

#[tokio::test(start_paused = true)]
async fn a_rejected_resource_is_left_alone_and_still_uninstalled_when_deleted() {
    let filtering = || Acceptance { filters: vec![Arc::new(is_wanted)], ..Acceptance::default() };
    let server = World::new(json!({"maps": ["a"], "skip": true})).server;
    let world = judging(server.clone(), filtering());
    world.reconcile().await;
    assert!(world.maps().is_empty(), "rejected by its spec");
    world.edit(|resource| resource["spec"] = json!({"maps": ["a"]}));
    world.reconcile().await;
    assert_eq!(world.maps(), ["a"]);
    world.edit(|resource| resource["spec"] = json!({"maps": ["b"], "skip": true}));
    world.reconcile().await;
    assert_eq!(world.maps(), ["a"], "it keeps its release");
    world.delete();
    world.reconcile().await;
    assert!(world.server.object(PRIMARY).is_none() && world.maps().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_paused_resource_is_not_even_uninstalled() {
    let paused = Acceptance { pauses: vec![Arc::new(|resource| !is_wanted(resource))], ..Acceptance::default() };
    let world = judging(World::new(json!({"maps": ["a"]})).server, paused);
    world.reconcile().await;
    world.edit(|resource| resource["spec"] = json!({"maps": ["b"], "skip": true}));
    world.delete();
    world.reconcile().await;
    assert_eq!((world.maps(), world.condition("Paused")), (vec!["a".to_owned()], Some(paused_by(PAUSES))));

    world.edit(|resource| resource["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/pause": "true"}));
    world.reconcile().await;
    assert_eq!(world.condition("Paused"), Some(paused_by(PAUSES)), "the code precedes the annotation");
    world.edit(|resource| resource["spec"] = json!({"maps": ["b"]}));
    world.reconcile().await;
    let annotated = paused_by("The annotation pause is set: even a deletion waits.");
    assert_eq!((world.maps(), world.condition("Paused")), (vec!["a".to_owned()], Some(annotated)));
}

/// Panics for some resources, and accepts the others.
fn is_harmless(resource: &DynamicObject) -> bool {
    assert!(resource.data["spec"]["bomb"] != true, "a bug");
    true
}

/// Returns rules with a filter, and with a condition for a pause, that panic for some resources.
fn panicking() -> [Acceptance; 2] {
    let filtering = Acceptance { filters: vec![Arc::new(is_harmless)], ..Acceptance::default() };
    let pausing = Acceptance { pauses: vec![Arc::new(|resource| !is_harmless(resource))], ..Acceptance::default() };
    [filtering, pausing]
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_paused_while_a_filter_or_pause_panics_for_it_and_no_other_is_affected() {
    let bomb = |maps: &str| json!({"maps": [maps], "value": "1", "bomb": true});
    for acceptance in panicking() {
        let filters = !acceptance.filters.is_empty();
        let world = judging(World::new(bomb("a")).server, acceptance);
        let two = world.add("ns", "two", json!({"maps": ["b"], "value": "1"}));
        let before = WATCH_PANICS.get();
        world.reconcile().await;
        world.reconcile_one(&two).await;
        assert_eq!(world.maps(), ["b"], "neither is anything installed, nor is the other missed");
        let message = if filters { FILTER_PANICKED } else { PAUSE_PANICKED };
        assert_eq!(world.condition("Paused").unwrap(), paused_by(message));
        assert!(WATCH_PANICS.get() > before);

        world.edit(|resource| resource["spec"] = json!({"maps": ["a"], "value": "1"}));
        world.reconcile().await;
        assert_eq!((world.maps(), world.state("Ready")), (vec!["a".to_owned(), "b".into()], "True/Ready".to_owned()));
        world.edit(|resource| resource["spec"] = bomb("c"));
        world.reconcile().await;
        assert_eq!((world.maps(), world.history()), (vec!["a".to_owned(), "b".into()], vec!["1 deployed".to_owned()]));
        world.delete();
        world.reconcile().await;
        assert_eq!(world.server.object(PRIMARY).is_none(), filters, "what this operator has recorded is uninstalled");
    }
}

/// Runs a watch that lists these resources, delivers events of others, and lists the others. Returns how often the watch
/// was opened.
async fn watch(world: &World, listed: &[Received], changed: &[Received]) -> usize {
    let list = |resources: &[Received]| {
        let items: Vec<_> = resources.iter().cloned().map(Event::InitApply).collect();
        [Event::Init].into_iter().chain(items).chain([Event::InitDone])
    };
    let events = list(listed).chain(changed.iter().cloned().map(Event::Apply)).chain(list(changed));
    let mut events: Vec<watcher::Result<Event<Received>>> = events.map(Ok).collect();
    let opened = Arc::new(AtomicUsize::new(0));
    let opens = opened.clone();
    let open = move || {
        opens.fetch_add(1, Ordering::SeqCst);
        stream::iter(std::mem::take(&mut events)).boxed()
    };
    let stream = Stream::new(WatchScope::ALL, open);
    reflector::run(Primaries(world.shared.clone()), stream, oneshot::channel().0).await;
    opened.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn a_filter_or_pause_that_panics_for_a_resource_does_not_end_the_watch_of_its_kind() {
    for acceptance in panicking() {
        let world = judging(World::new(json!({"value": "1"})).server, acceptance);
        let two = world.add("ns", "two", json!({"value": "1"}));
        world.edit(|resource| resource["spec"] = json!({"value": "2", "bomb": true}));
        let received = || {
            let paths = [&key(), &two].map(|key| primary("ns", &key.name, Value::Null).0);
            paths.map(|path| serde_json::from_value::<Received>(world.server.object(&path).unwrap()).unwrap())
        };
        let listed = received();
        world.edit(|resource| resource["spec"]["value"] = "3".into());
        world.add("ns", "two", json!({"value": "4"}));
        assert_eq!(watch(&world, &listed, &received()).await, 1);
        let known = [key(), two].map(|key| world.shared.cache.primary(&key).unwrap());
        let known = known.map(|primary| (primary.annotations.pause(), primary.spec.json().unwrap().to_owned()));
        let expected = [(true, json!({"value": "3", "bomb": true})), (false, json!({"value": "4"}))];
        let expected = expected.map(|(is_paused, spec)| (is_paused, spec.to_string()));
        assert_eq!(known, expected);
    }
}

/// Returns whether the `spec` of a resource names this operator.
fn is_ours(resource: &DynamicObject) -> bool {
    resource.data["spec"]["ours"] == true
}

#[test]
fn filters_and_pauses_see_specs_as_deep_as_charts_do_and_null_for_one_that_no_chart_can_read() {
    let is_null = |resource: &DynamicObject| resource.data["spec"].is_null();
    let filtering = Acceptance { filters: vec![Arc::new(is_null)], ..Acceptance::default() };
    let is_read = move |resource: &DynamicObject| !is_null(resource);
    let pausing = Acceptance { pauses: vec![Arc::new(is_read)], ..Acceptance::default() };
    // serde_json reads 127 levels, and charts 500.
    for (depth, is_seen) in [(100, true), (300, true), (600, false)] {
        let spec = format!(r#"{{"deep":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let received = || {
            let text = format!(r#"{{"metadata":{{"name":"web","namespace":"ns","uid":"u"}},"spec":{spec}}}"#);
            serde_json::from_str::<Received>(&text).unwrap()
        };
        assert_eq!(filtering.admit(received(), &[], None).is_none(), is_seen, "{depth}");
        assert_eq!(pausing.admit(received(), &[], None).unwrap().annotations.pause(), is_seen, "{depth}");
    }
}

/// Returns a `spec` with too many bytes, and one with too many values.
fn unreadable() -> [Value; 2] {
    [json!({"maps": ["b"], "padding": "x".repeat(1 << 20)}), json!({"maps": ["b"], "padding": vec![0; 100_001]})]
}

/// Returns whether a resource has maps. It panics without a `spec`.
fn has_maps(resource: &DynamicObject) -> bool {
    resource.data["spec"].as_object().unwrap().contains_key("maps")
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_cannot_be_read_is_reported_although_the_filter_that_accepted_it_rejects_or_panics() {
    let filters: [Judge; 2] = [Arc::new(is_ours), Arc::new(has_maps)];
    for (filter, spec) in filters.into_iter().flat_map(|filter| unreadable().map(|spec| (filter.clone(), spec))) {
        let filtering = Acceptance { filters: vec![filter], ..Acceptance::default() };
        let world = judging(World::new(json!({"maps": ["a"], "value": "1", "ours": true})).server, filtering);
        world.reconcile().await;
        world.edit(|resource| resource["spec"] = spec);
        world.reconcile().await;
        assert_eq!((world.state("Irreconcilable"), world.maps()), ("True/InvalidValues".into(), vec!["a".to_owned()]));
        world.edit(|resource| resource["metadata"]["labels"] = json!({"a": "b"}));
        world.reconcile().await;
        assert_eq!(world.state("Irreconcilable"), "True/InvalidValues", "it is still known");
        world.delete();
        world.reconcile().await;
        assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_a_filter_may_reject_a_spec_that_cannot_be_read_and_its_report_stays() {
    let filtering = || Acceptance { filters: vec![Arc::new(is_ours)], ..Acceptance::default() };
    let world = judging(World::new(json!({"maps": ["a"], "value": "1", "ours": true})).server, filtering());
    world.reconcile().await;
    let [spec, _] = unreadable();
    world.edit(|resource| resource["spec"] = spec);
    world.reconcile().await;
    let world = judging(world.server, filtering());
    world.reconcile().await;
    assert!(world.shared.cache.primary(&key()).is_none());
    let status = world.server.object(PRIMARY).unwrap()["status"].to_string();
    assert!(status.contains("InvalidValues") && world.maps() == ["a"], "{status}");
    world.delete();
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

fn is_protected(resource: &DynamicObject) -> bool {
    resource.labels().contains_key("protected")
}

/// Panics without a `spec`; pauses nothing else.
fn has_no_maps(resource: &DynamicObject) -> bool {
    !has_maps(resource)
}

#[tokio::test(start_paused = true)]
async fn a_resource_whose_spec_cannot_be_read_is_paused_by_metadata_and_by_a_panic_even_when_it_is_deleted() {
    let rules: [(Judge, &str); 2] = [(Arc::new(is_protected), PAUSES), (Arc::new(has_no_maps), PAUSE_PANICKED)];
    for ((rule, message), spec) in rules.into_iter().flat_map(|rule| unreadable().map(|spec| (rule.clone(), spec))) {
        let pausing = Acceptance { pauses: vec![rule], ..Acceptance::default() };
        let readable = json!({"maps": ["a"], "value": "1"});
        let world = judging(World::new(readable.clone()).server, pausing);
        world.reconcile().await;
        world.edit(|resource| {
            resource["metadata"]["labels"] = json!({"protected": "true"});
            resource["spec"] = spec;
        });
        let path = format!("{MAPS}/a");
        let mut map = world.server.object(&path).unwrap();
        map["data"]["value"] = "drifted".into();
        world.server.put(&path, map, "kubectl");
        world.reconcile().await;
        assert_eq!((world.value_of("a"), world.condition("Paused")), (json!("drifted"), Some(paused_by(message))));
        world.delete();
        world.reconcile().await;
        assert_eq!(world.maps(), ["a"], "the deletion waits");

        world.edit(|resource| {
            resource["metadata"]["labels"] = json!({});
            resource["spec"] = readable;
        });
        world.reconcile().await;
        assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
    }
}

/// Returns whether a resource is not another operator's.
fn is_not_theirs(resource: &DynamicObject) -> bool {
    resource.labels().get("operator").is_none_or(|operator| operator != "b")
}

#[tokio::test(start_paused = true)]
async fn another_operators_resource_is_left_to_it_although_its_spec_cannot_be_read() {
    for spec in unreadable() {
        let filtering = Acceptance { filters: vec![Arc::new(is_not_theirs)], ..Acceptance::default() };
        let ours = World::new(json!({"maps": ["a"], "value": "1"}));
        // Other operators have the same finalizer.
        ours.edit(|resource| {
            resource["metadata"]["labels"] = json!({"operator": "b"});
            resource["metadata"]["finalizers"] = json!([FINALIZER]);
        });
        let world = judging(ours.server, filtering);
        world.edit(|resource| resource["spec"] = spec);
        let before = world.server.object(PRIMARY);
        world.reconcile().await;
        assert!(world.server.object(PRIMARY) == before && world.maps().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_was_handed_over_is_not_taken_back_when_its_spec_cannot_be_read() {
    let filtering = Acceptance { filters: vec![Arc::new(is_not_theirs)], ..Acceptance::default() };
    let world = judging(World::new(json!({"maps": ["a"], "value": "1"})).server, filtering);
    world.reconcile().await;
    world.edit(|resource| resource["metadata"]["labels"] = json!({"operator": "b"}));
    world.reconcile().await;
    let [spec, _] = unreadable();
    world.edit(|resource| resource["spec"] = spec);
    let before = world.server.object(PRIMARY);
    world.reconcile().await;
    assert!(world.server.object(PRIMARY) == before);
}

/// Creates a process that leaves resources with the operator `b` to it.
fn leaving(server: Arc<MemoryApi>) -> World {
    let acceptance = Acceptance { filters: vec![Arc::new(is_not_theirs)], ..Acceptance::default() };
    let events = Events::new(server.clone(), "memcached-controller", None);
    World::start(
        server,
        Arc::new(Stub::default()),
        events,
        ChartObjects::Watched,
        |_| {},
        acceptance,
        Extensions::default(),
    )
}

/// Creates a process of the operator `b`, which has another key.
fn theirs(server: Arc<MemoryApi>) -> World {
    World::sealing(server, Stub::default(), Keyring::new(Key::new(&[2; 32]).unwrap(), Vec::new()))
}

fn give_to_b(world: &World) {
    world.edit(|resource| resource["metadata"]["labels"] = json!({"operator": "b"}));
}

/// Returns everything on the server but events.
fn everything(world: &World) -> Vec<(String, Value)> {
    let paths = world.server.paths().into_iter().filter(|path| !path.contains("/events/"));
    paths.map(|path| (path.clone(), world.server.object(&path).unwrap())).collect()
}

/// Reconciles a deleted resource, also later and in a new process. Checks that nothing changes, and that an event says why,
/// once for each process.
async fn is_left_alone(mut world: World) {
    let before = everything(&world);
    for processes in 1..=2 {
        for _ in 0..2 {
            world.reconcile().await;
            // Events are published in the background.
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
        assert_eq!(everything(&world), before, "{:#?}", world.server.log());
        let is_left = |event: &&Value| event["reason"] == "FilterRejects";
        let said = events(&world.server).iter().filter(is_left).count();
        assert!((1..=processes).contains(&said), "{said} events of {processes} processes");
        world = leaving(world.server);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_another_operator_is_at_is_left_to_it() {
    let spec = json!({"maps": ["a"], "value": "1", "hooks": [hooks::hook("farewell", "pre-delete")]});
    let other = theirs(World::new(spec).server);
    give_to_b(&other);
    other.reconcile().await;
    other.delete();
    hooks::killed_after(&other, 30).await;
    assert_eq!(hooks::phases(&other, 1).await, ["farewell Running"]);
    is_left_alone(leaving(other.server.clone())).await;
    let other = theirs(other.server);
    reconcile(&other, "Complete").await;
    assert_eq!((other.server.object(PRIMARY), other.maps()), (None, vec![]));
    assert_eq!(hooks::count(&other, &format!("POST {JOBS}")), 1);
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_what_another_operator_has_taken_over_is_left_to_it() {
    let world = leaving(World::new(json!({"maps": ["a"], "value": "1"})).server);
    world.reconcile().await;
    give_to_b(&world);
    world.reconcile().await;
    let other = theirs(world.server.clone());
    other.reconcile().await;
    assert!(other.shared.cache.release(&key()).unwrap().broken().is_empty(), "it has sealed the record");
    other.delete();
    is_left_alone(world).await;
    other.reconcile().await;
    assert_eq!((other.server.object(PRIMARY), other.maps()), (None, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_resource_that_nobody_has_installed_does_not_keep_the_finalizer() {
    let before = World::new(json!({"maps": ["a"], "value": "1"}));
    give_to_b(&before);
    before.edit(|resource| resource["metadata"]["finalizers"] = json!([FINALIZER]));
    before.delete();
    let world = leaving(before.server);
    loses_the_finalizer(&world).await;
    assert!(everything(&world).is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_panics_for_a_deleted_resource_without_a_record_does_not_keep_it() {
    let [filtering, _] = panicking();
    let world = judging(World::new(json!({"maps": ["a"], "bomb": true})).server, filtering);
    world.edit(|resource| resource["metadata"]["finalizers"] = json!([FINALIZER]));
    world.delete();
    loses_the_finalizer(&world).await;
    assert!(everything(&world).is_empty(), "{:?}", world.server.paths());
}

/// Reconciles a rejected resource of which there is no record, until it loses the finalizer.
async fn loses_the_finalizer(world: &World) {
    world.reconcile().await;
    tokio::time::advance(Duration::from_secs(599)).await;
    world.reconcile().await;
    assert!(world.server.object(PRIMARY).is_some(), "another operator may be at work");
    tokio::time::advance(Duration::from_secs(1)).await;
    world.reconcile().await;
    assert_eq!(world.server.object(PRIMARY), None);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_left_to_an_operator_with_records_elsewhere_as_long_as_its_hook_runs() {
    let spec = json!({"maps": ["a"], "value": "1", "hooks": [hooks::hook("farewell", "pre-delete")]});
    let other = recording(World::new(spec).server, Stub::default());
    give_to_b(&other);
    other.reconcile().await;
    other.delete();
    is_left_as_long_as_its_hook_runs(&leaving(other.server.clone()), &other).await;
}

/// Reconciles a deleted resource in this process while the other operator's hook runs. Checks that only the other one
/// uninstalls it.
async fn is_left_as_long_as_its_hook_runs(world: &World, other: &World) {
    let looks = async {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_secs(300)).await;
            world.reconcile().await;
            assert_eq!(world.maps(), ["a"], "{:#?}", world.server.log());
            let finalizers = &world.server.object(PRIMARY).unwrap()["metadata"]["finalizers"];
            assert_eq!(*finalizers, json!([FINALIZER]), "the other operator removes it");
        }
        hooks::complete(&world.server, "farewell");
    };
    tokio::join!(other.reconcile(), looks);
    assert_eq!((other.server.object(PRIMARY), other.maps()), (None, vec![]));
    assert_eq!(hooks::count(other, &format!("POST {JOBS}")), 1, "{:#?}", other.server.log());
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_what_an_operator_with_records_elsewhere_has_imported_is_left_to_it() {
    for is_restarted in [false, true] {
        let spec = json!({"maps": ["a"], "value": "1", "hooks": [hooks::hook("farewell", "pre-delete")]});
        let mut world = leaving(World::new(spec).server);
        world.reconcile().await;
        give_to_b(&world);
        world.reconcile().await;
        let other = recording(world.server.clone(), Stub::default());
        other.reconcile().await;
        assert_eq!((world.history(), other.history()), (vec!["1 deployed".to_owned()], vec!["2 deployed".to_owned()]));
        other.delete();
        if is_restarted {
            world = leaving(world.server);
        }
        is_left_as_long_as_its_hook_runs(&world, &other).await;
        assert!(world.server.object(&record_path(1)).is_some(), "it stays where it was before the import");
    }
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_goes_on_although_the_record_of_a_later_revision_in_the_status_is_gone() {
    let spec = json!({"maps": ["a"], "value": "1", "hooks": [hooks::hook("farewell", "pre-delete")]});
    let world = leaving(World::new(spec).server);
    world.reconcile().await;
    world.delete();
    hooks::killed_after(&world, 30).await;
    assert_eq!(hooks::phases(&world, 1).await, ["farewell Running"]);
    give_to_b(&world);
    world.edit(|resource| {
        let mut failed = resource["status"]["history"][0].clone();
        (failed["revision"], failed["outcome"]) = (2.into(), "failed".into());
        resource["status"]["history"].as_array_mut().unwrap().insert(0, failed);
    });
    let world = leaving(world.server);
    reconcile(&world, "Complete").await;
    assert_eq!((world.server.object(PRIMARY), world.maps()), (None, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_resource_keeps_its_objects_although_somebody_deletes_the_other_operators_record() {
    let other = theirs(World::new(json!({"maps": ["a"], "value": "1"})).server);
    give_to_b(&other);
    other.reconcile().await;
    other.delete();
    let world = leaving(other.server.clone());
    world.reconcile().await;
    world.server.remove(&format!("{SECRETS}/sh.helm.release.v1.web.v1"));
    for _ in 0..2 {
        world.reconcile().await;
    }
    assert_eq!(world.maps(), ["a"], "{:#?}", world.server.log());
    assert!(world.server.object(PRIMARY).is_some(), "the other operator may be at work");
}

#[tokio::test(start_paused = true)]
async fn a_rejected_resource_whose_operator_is_gone_loses_only_its_finalizer() {
    let other = recording(World::new(json!({"maps": ["a"], "value": "1"})).server, Stub::default());
    give_to_b(&other);
    other.reconcile().await;
    other.delete();
    let world = leaving(other.server.clone());
    world.edit(|resource| resource["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/pause": "true"}));
    for _ in 0..3 {
        world.reconcile().await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    assert!(world.server.object(PRIMARY).is_some(), "it is paused");
    world.edit(|resource| resource["metadata"]["annotations"] = json!({}));
    loses_the_finalizer(&world).await;
    assert_eq!(hooks::count(&world, "DELETE"), 0, "{:#?}", world.server.log());
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_rejected_as_it_is_deleted_is_uninstalled_wherever_its_process_dies() {
    for (writes, is_seen) in (0..).flat_map(|writes| [(writes, true), (writes, false)]) {
        let world = leaving(World::new(json!({"maps": ["a"], "value": "1"})).server);
        world.reconcile().await;
        give_to_b(&world);
        if is_seen {
            world.reconcile().await;
        }
        world.delete();
        world.server.fail_after(Some(writes));
        world.reconcile().await;
        let has_died = world.server.writes_left() == Some(0);
        world.server.fail_after(None);
        let world = leaving(world.server);
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(600)).await;
            world.reconcile().await;
        }
        let left = everything(&world);
        assert!(left.is_empty(), "after {writes} writes, seen: {is_seen}: {left:?}");
        if !has_died && !is_seen {
            assert!(writes > 3, "the scenario wrote nothing");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_panics_pauses_a_new_resource_whose_spec_cannot_be_read() {
    let filtering = Acceptance { filters: vec![Arc::new(has_maps)], ..Acceptance::default() };
    let [spec, _] = unreadable();
    let world = judging(World::new(spec).server, filtering);
    // Another operator may add its finalizer later.
    for finalizers in [Value::Null, json!([FINALIZER])] {
        world.edit(|resource| resource["metadata"]["finalizers"] = finalizers.clone());
        world.reconcile().await;
        assert_eq!(world.condition("Paused"), Some(paused_by(FILTER_PANICKED)));
        let is_reported = world.condition("Irreconcilable").is_some_and(|condition| condition.starts_with("True"));
        assert!(!is_reported && world.maps().is_empty(), "it was never accepted");
        assert_eq!(world.server.object(PRIMARY).unwrap()["metadata"]["finalizers"], finalizers);
    }
    world.edit(|resource| resource["spec"] = json!({"maps": ["a"], "value": "1"}));
    world.reconcile().await;
    assert_eq!(world.maps(), ["a"]);
}

/// Creates a controller with a post-renderer that puts a text into every object.
fn rendering(server: Arc<MemoryApi>, version: &str, text: Result<&'static str, &'static str>) -> World {
    let renderer = move |rendered: PostRender| async move {
        let name = rendered.resource.name_any();
        Ok::<_, Failure>(rendered.manifest.replace("\"own\"", &format!("\"{} for {name}\"", text?)))
    };
    let extensions =
        Extensions { post_renderers: vec![(version.to_owned(), Arc::new(renderer))], ..Extensions::default() };
    let acceptance = Acceptance { keep_metadata: extensions.need_metadata(), ..Acceptance::default() };
    World::start(
        server,
        Arc::new(Stub::default()),
        Events::default(),
        ChartObjects::Watched,
        |_| {},
        acceptance,
        extensions,
    )
}

#[tokio::test(start_paused = true)]
async fn a_post_renderers_text_is_applied_and_a_new_version_of_it_upgrades() {
    let world = rendering(World::new(json!({"maps": ["a"], "value": "own"})).server, "v1", Ok("one"));
    world.reconcile().await;
    assert_eq!(world.value_of("a"), "one for web");
    assert_eq!(world.requests().await, 0);
    let world = rendering(world.server.clone(), "v1", Ok("two"));
    assert_eq!(world.requests().await, 0, "the same version renders the same");
    let world = rendering(world.server.clone(), "v2", Ok("two"));
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history().len()), (json!("two for web"), 2));
}

#[tokio::test(start_paused = true)]
async fn hooks_pass_through_post_renderers_and_only_their_annotation_makes_them_hooks() {
    let hook = json!({"name": "job", "events": ["post-install"], "annotations": {"helm.sh/hook": "post-install", "text": "own"}});
    let unmarked = json!({"name": "unmarked", "events": ["post-install"]});
    let server = World::new(json!({"maps": ["a"], "value": "own", "hooks": [hook, unmarked]})).server;
    server.serve("batch/v1", "Job", "jobs");
    let world = rendering(server, "v1", Ok("one"));
    reconcile(&world, "Complete").await;
    let annotation =
        |name: &str| world.server.object(&format!("{JOBS}/{name}")).unwrap()["metadata"]["annotations"].clone();
    assert_eq!((world.value_of("a"), annotation("job")["text"].clone()), (json!("one for web"), json!("one for web")));
    let record = world.server.object(&format!("{SECRETS}/sh.helm.release.v1.web.v1")).unwrap();
    assert!(
        record["metadata"]["annotations"][MARKS_ANNOTATION].to_string().contains("unmarked"),
        "it is an object now"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_post_renderer_is_a_condition() {
    let world = rendering(World::new(json!({"maps": ["a"], "value": "own"})).server, "v1", Err("no such tool"));
    world.reconcile().await;
    let condition = world.condition(crate::status::condition::IRRECONCILABLE).unwrap();
    assert_eq!(condition, "True/PostRenderFailed/cannot post-render: no such tool");
    assert!(world.maps().is_empty());
}

/// Creates a controller whose watch has this label for all objects.
fn labelling(server: Arc<MemoryApi>, team: &str) -> World {
    let labels = [("team".to_owned(), team.to_owned())].into();
    World::with_events(server, Arc::new(with_sources()), |settings| {
        settings.common_labels = crate::watches::CommonLabels(Arc::new(labels));
    })
}

fn labels(world: &World, path: &str) -> Value {
    world.server.object(path).unwrap()["metadata"]["labels"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_common_label_is_on_each_object_and_in_the_record_and_a_change_is_one_revision() {
    let own = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own", "labels": {"team": "blue"}}});
    let selector = json!({"matchLabels": {"app": "d"}});
    let template = json!({"metadata": {"labels": {"app": "d"}}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": selector, "template": template}});
    let spec = json!({"maps": ["a"], "value": "1", "objects": [own, deployment]});
    let world = labelling(World::new(spec).server, "red");
    world.reconcile().await;
    let (a, d) = (format!("{MAPS}/a"), "/apis/apps/v1/namespaces/ns/deployments/d");
    assert_eq!((&labels(&world, &a)["team"], &labels(&world, d)["team"]), (&json!("red"), &json!("red")));
    assert_eq!(labels(&world, &format!("{MAPS}/own"))["team"], "blue", "the chart's own label wins");
    let spec = world.server.object(d).unwrap()["spec"].clone();
    assert_eq!((&spec["selector"], &spec["template"]), (&selector, &template), "a selector would have to be made anew");
    let record = world.shared.storage.get("ns", "web", 1).await.unwrap().release.facts().manifest.clone();
    assert_eq!(record.matches("team: red").count(), 2, "{record}");
    assert_eq!(world.requests().await, 0);

    let uid = world.server.object(&a).unwrap()["metadata"]["uid"].clone();
    let world = labelling(world.server, "red");
    assert_eq!((world.requests().await, world.history().len()), (0, 1), "the same label after a restart");
    let world = labelling(world.server, "green");
    world.reconcile().await;
    assert_eq!((&labels(&world, &a)["team"], world.history().len()), (&json!("green"), 2));
    assert_eq!(world.server.object(&a).unwrap()["metadata"]["uid"], uid);
    let upgraded = super::reporting::published(&world).await;
    assert!(upgraded.iter().any(|event| event.contains("commonLabels of watches.yaml changed")), "{upgraded:#?}");
    let world = World::rendering(world.server, Arc::new(with_sources()));
    world.reconcile().await;
    assert_eq!((&labels(&world, &a)["team"], world.history().len()), (&Value::Null, 3), "it goes with its key");
}

#[tokio::test(start_paused = true)]
async fn a_common_label_that_someone_changes_is_drift() {
    let world = labelling(World::new(json!({"maps": ["a"], "value": "1"})).server, "red");
    world.reconcile().await;
    let path = format!("{MAPS}/a");
    let mut map = world.server.object(&path).unwrap();
    map["metadata"]["labels"]["team"] = "mine".into();
    map["metadata"]["labels"]["theirs"] = "stays".into();
    world.server.put(&path, map, "someone");
    world.reconcile().await;
    let labels = labels(&world, &path);
    assert_eq!((&labels["team"], &labels["theirs"], world.history().len()), (&json!("red"), &json!("stays"), 1));
}

#[tokio::test(start_paused = true)]
async fn hooks_get_the_common_label_and_stay_hooks() {
    let hook = json!({"name": "job", "events": ["post-install"], "annotations": {"helm.sh/hook": "post-install"}});
    let server = World::new(json!({"maps": ["a"], "value": "1", "hooks": [hook]})).server;
    server.serve("batch/v1", "Job", "jobs");
    let world = labelling(server, "red");
    reconcile(&world, "Complete").await;
    assert_eq!(labels(&world, &format!("{JOBS}/job"))["team"], "red");
    let record = world.shared.storage.get("ns", "web", 1).await.unwrap().release.facts().clone();
    let [hook] = &record.hooks[..] else { panic!("{:?}", record.hooks) };
    assert!(hook.manifest.contains("team: red") && !hook.manifest.starts_with("---"), "{}", hook.manifest);
}

/// Creates a controller whose watch has this annotation for all objects.
fn annotating(server: Arc<MemoryApi>, owner: &str) -> World {
    let annotations = [("example.com/owner".to_owned(), owner.to_owned())].into();
    World::with_events(server, Arc::new(with_sources()), |settings| {
        settings.common_annotations = crate::watches::CommonAnnotations(Arc::new(annotations));
    })
}

fn owner(world: &World, path: &str) -> Value {
    world.server.object(path).unwrap()["metadata"]["annotations"]["example.com/owner"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_common_annotation_is_on_each_object_and_hook_and_a_change_is_one_revision() {
    let metadata = json!({"name": "own", "annotations": {"example.com/owner": "chart"}});
    let own = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let hook = json!({"name": "job", "events": ["post-install"], "annotations": {"helm.sh/hook": "post-install"}});
    let server = World::new(json!({"maps": ["a"], "value": "1", "objects": [own], "hooks": [hook]})).server;
    server.serve("batch/v1", "Job", "jobs");
    let world = annotating(server, "Red");
    reconcile(&world, "Complete").await;
    let (a, job) = (format!("{MAPS}/a"), format!("{JOBS}/job"));
    assert_eq!((owner(&world, &a), owner(&world, &job)), (json!("Red"), json!("Red")));
    assert_eq!(owner(&world, &format!("{MAPS}/own")), "chart", "the chart's own annotation wins");
    let record = world.shared.storage.get("ns", "web", 1).await.unwrap().release.facts().clone();
    assert_eq!(record.manifest.matches("example.com/owner: Red").count(), 1, "{}", record.manifest);
    let [hook] = &record.hooks[..] else { panic!("{:?}", record.hooks) };
    assert!(hook.manifest.contains("example.com/owner: Red"), "{}", hook.manifest);

    let world = annotating(world.server, "Red");
    assert_eq!((world.requests().await, world.history().len()), (0, 1), "the same annotation after a restart");
    let world = annotating(world.server, "Green");
    world.reconcile().await;
    assert_eq!((owner(&world, &a), world.history().len()), (json!("Green"), 2));
    let upgraded = super::reporting::published(&world).await;
    assert!(upgraded.iter().any(|event| event.contains("commonAnnotations of watches.yaml changed")), "{upgraded:#?}");
    let world = World::rendering(world.server, Arc::new(with_sources()));
    world.reconcile().await;
    assert_eq!((owner(&world, &a), world.history().len()), (Value::Null, 3), "it goes with its key");
}

/// Creates a controller whose watch sets this value, in the map `a` and in hooks.
fn patching(server: Arc<MemoryApi>, value: &str) -> World {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"patched": value}});
    let job = format!(r#"[{{"op": "add", "path": "/metadata/annotations/patched", "value": "{value}"}}]"#);
    let patches = json!([{"patch": map.to_string()}, {"target": {"kind": "Job"}, "patch": job}]);
    let patches = crate::watches::patches_of(&patches).unwrap();
    World::with_events(server, Arc::new(with_sources()), |settings| settings.patches = patches)
}

#[tokio::test(start_paused = true)]
async fn patches_change_objects_hooks_and_the_record_and_a_change_of_one_is_one_revision() {
    let hook = json!({"name": "job", "events": ["post-install"], "annotations": {"helm.sh/hook": "post-install"}});
    let server = World::new(json!({"maps": ["a", "b"], "value": "1", "hooks": [hook]})).server;
    server.serve("batch/v1", "Job", "jobs");
    let world = patching(server, "one");
    reconcile(&world, "Complete").await;
    let data = |world: &World, name: &str| world.server.object(&format!("{MAPS}/{name}")).unwrap()["data"].clone();
    assert_eq!(data(&world, "a"), json!({"patched": "one", "value": "1"}));
    assert_eq!(data(&world, "b"), json!({"value": "1"}));
    let job = world.server.object(&format!("{JOBS}/job")).unwrap();
    assert_eq!(job["metadata"]["annotations"]["patched"], "one");
    let record = world.shared.storage.get("ns", "web", 1).await.unwrap().release.facts().clone();
    assert!(record.manifest.contains("patched: one") && record.hooks[0].manifest.contains("patched: one"));
    assert_eq!(world.requests().await, 0);

    let world = patching(world.server, "one");
    assert_eq!((world.requests().await, world.history().len()), (0, 1), "the same patches after a restart");
    let world = patching(world.server, "two");
    world.reconcile().await;
    assert_eq!((&data(&world, "a")["patched"], world.history().len()), (&json!("two"), 2));
    let upgraded = super::reporting::published(&world).await;
    assert!(upgraded.iter().any(|event| event.contains("patches of watches.yaml changed")), "{upgraded:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_means_no_object_is_a_condition_and_changes_nothing() {
    let world = patching(World::new(json!({"maps": ["b"], "value": "1"})).server, "one");
    world.reconcile().await;
    let condition = world.condition(crate::status::condition::IRRECONCILABLE).unwrap();
    let expected = "True/RenderError/cannot apply patches: patch 1: 0 objects are ConfigMap \"a\"; without a target, it needs to be one";
    assert_eq!(condition, expected);
    assert!(world.maps().is_empty());
}
