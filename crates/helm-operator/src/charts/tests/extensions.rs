//! Tests of what the operator's author adds to a chart: value mappers, filters, pauses and watches of more objects.

use controller::report::Outcome;
use kube::ResourceExt as _;
use kube::core::DynamicObject;

use super::hooks::{JOBS, reconcile};
use super::*;
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
