//! Tests of releases that an upstream operator made, and of what it needs to take them back.

use helm::chart::Chart;
use helm::engine::Engine;
use helm_release::release::{Info, Packed, Release, Status};
use k8s_openapi::ByteString;

use crate::charts::tests::*;
use crate::reconcile::versions::Versions;
use crate::rendering::discovered::Discovered;
use crate::rendering::renderer::EngineRenderer;
use crate::view::finalizers::SDK_FINALIZER;
use crate::watches::AnnotationNames;

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader";

/// The output of the chart: an object in the namespace and a cluster-scoped one.
const RENDERED: &str = "---\n# Source: memcached/templates/map.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  value: \"1\"\n\
    ---\n# Source: memcached/templates/role.yaml\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: reader\nrules: []\n";

/// The manifest that helm-operator-plugins records for it, with the owner of each object.
const RECORDED_BY_HOP: &str = "---\napiVersion: v1\ndata:\n  value: \"1\"\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: ns\n  ownerReferences:\n  \
    - apiVersion: cache.my.domain/v1\n    blockOwnerDeletion: true\n    controller: true\n    kind: Memcached\n    name: web\n    uid: UID\n\
    ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  annotations:\n    operator-sdk/primary-resource: ns/web\n    \
    operator-sdk/primary-resource-type: Memcached.cache.my.domain\n  name: reader\nrules: []\n";

/// A chart that renders the same text for every resource.
struct Fixed(&'static str);

impl Renderer for Fixed {
    fn digest(&self) -> String {
        "fixed".into()
    }

    fn chart_name(&self) -> &str {
        "memcached"
    }

    fn render(&self, request: Request) -> BoxFuture<'_, Result<Rendered, RenderError>> {
        let objects = objects_of(self.0).unwrap();
        let candidate = super::render(&request).map(|stub| Candidate { manifest: self.0.to_owned(), objects, ..stub });
        Box::pin(async move { candidate.map(Rendered::Done) })
    }
}

/// Renders as [`Fixed`], notes each `spec`, and does something else while it renders for the first time.
#[derive(Default)]
struct Interrupted {
    specs: Mutex<Vec<String>>,
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Renderer for Interrupted {
    fn digest(&self) -> String {
        Fixed(RENDERED).digest()
    }

    fn chart_name(&self) -> &str {
        "memcached"
    }

    fn render(&self, request: Request) -> BoxFuture<'_, Result<Rendered, RenderError>> {
        self.specs.lock().unwrap().push(request.spec.json().unwrap().to_owned());
        if let Some(act) = self.meanwhile.lock().unwrap().take() {
            act();
        }
        let candidate = super::render(&request);
        let objects = objects_of(RENDERED).unwrap();
        let candidate = candidate.map(|stub| Candidate { manifest: RENDERED.to_owned(), objects, ..stub });
        Box::pin(async move { candidate.map(Rendered::Done) })
    }
}

/// Creates a release that helm-operator-plugins installed, and an operator of ours that takes it over.
fn hop_release() -> World {
    let world = World::new(json!({}));
    world.server.serve_cluster_scoped("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles");
    let uid = world.server.object(PRIMARY).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let manifest = RECORDED_BY_HOP.replace("UID", &uid);
    for object in objects_of(&manifest).unwrap() {
        let mut body = object.body.clone();
        let helms = json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"});
        let annotations = body["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        body["metadata"]["annotations"] =
            json!(annotations.into_iter().chain(helms.as_object().unwrap().clone()).collect::<serde_json::Map<_, _>>());
        body["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
        let path = if object.kind == "ClusterRole" { ROLE.to_owned() } else { format!("{MAPS}/a") };
        world.server.put(&path, body, "manager");
    }
    let release = Release {
        name: "web".into(),
        namespace: "ns".into(),
        version: 1,
        info: Info { status: Status::Deployed, ..Info::default() },
        chart: document(),
        config: json!({}),
        manifest,
        hooks: Vec::new(),
        apply_method: String::new(),
        labels: Default::default(),
        record_uid: None,
        more: Default::default(),
    };
    let record = Packed::pack(&release).unwrap().to_record().into_bytes();
    let owners = json!([{"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "name": "web", "uid": uid, "controller": true}]);
    let labels = json!({"name": "web", "owner": "helm", "status": "deployed", "version": "1", "createdAt": "1"});
    let metadata = json!({"name": release.key(), "labels": labels, "ownerReferences": owners});
    let data = json!({"release": serde_json::to_value(ByteString(record)).unwrap()});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
    world.server.put(&record_path(1), secret, "manager");
    World::rendering(world.server, Arc::new(Fixed(RENDERED)))
}

/// Returns an object without what only the server and field managers use.
fn content(server: &MemoryApi, path: &str) -> Value {
    let mut object = server.object(path).unwrap();
    let metadata = object["metadata"].as_object_mut().unwrap();
    ["managedFields", "resourceVersion"].iter().for_each(|field| _ = metadata.remove(*field));
    object
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_of_helm_operator_plugins_is_no_reason_to_upgrade() {
    let world = hop_release();
    let record = content(&world.server, &record_path(1))["data"].clone();
    let (role, map) = (content(&world.server, ROLE), content(&world.server, &format!("{MAPS}/a")));
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed"]);
    assert_eq!(content(&world.server, &record_path(1))["data"], record, "going back costs no revision either");
    for (path, mut before) in [(ROLE.to_owned(), role), (format!("{MAPS}/a"), map)] {
        before["metadata"]["labels"]["helm.sdk.operatorframework.io/chart"] = "memcached".into();
        assert_eq!(content(&world.server, &path), before, "{path}");
    }
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_changes_while_a_release_is_taken_over_is_rendered() {
    let renderer = Arc::new(Interrupted::default());
    let world = World::rendering(hop_release().server, renderer.clone());
    let (server, shared) = (world.server.clone(), Arc::downgrade(&world.shared));
    *renderer.meanwhile.lock().unwrap() = Some(Box::new(move || {
        let mut primary = server.object(PRIMARY).unwrap();
        primary["spec"]["value"] = "new".into();
        primary["metadata"]["generation"] = (primary["metadata"]["generation"].as_i64().unwrap_or(0) + 1).into();
        server.put(PRIMARY, primary, "user");
        let edited = serde_json::from_value(server.object(PRIMARY).unwrap()).unwrap();
        shared.upgrade().unwrap().primary_written(edited);
    }));
    for _ in 0..2 {
        world.reconcile().await;
    }
    let specs = renderer.specs.lock().unwrap().clone();
    assert!(specs.last().is_some_and(|spec| spec.contains("new")), "{specs:?}");
    assert_eq!(world.history(), ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_resource_gets_the_finalizer_that_both_upstreams_remove() {
    let world = World::new(spec());
    world.reconcile().await;
    assert_eq!(world.server.object(PRIMARY).unwrap()["metadata"]["finalizers"], json!(["uninstall-helm-release"]));
}

#[tokio::test(start_paused = true)]
async fn a_resource_keeps_the_finalizer_of_operator_sdk_until_it_is_uninstalled() {
    let world = World::new(spec());
    world.edit(|p| p["metadata"]["finalizers"] = json!([SDK_FINALIZER, "other"]));
    world.reconcile().await;
    assert_eq!(world.server.object(PRIMARY).unwrap()["metadata"]["finalizers"], json!([SDK_FINALIZER, "other"]));
    world.edit(|p| p["metadata"]["finalizers"] = json!([SDK_FINALIZER, FINALIZER]));
    world.delete();
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

/// Creates an operator whose pause annotation has this name, as helm-operator-plugins allows.
fn with_pause(server: Arc<MemoryApi>) -> World {
    let mut annotations = AnnotationNames::default();
    annotations.add("pause", "example.com/paused").unwrap();
    World::taking(server, Arc::new(Stub::default()), Acceptance { annotations, ..Acceptance::default() })
}

#[tokio::test(start_paused = true)]
async fn a_paused_resource_is_left_alone_even_when_it_is_deleted() {
    let world = with_pause(World::new(spec()).server);
    world.reconcile().await;
    assert_eq!(world.condition("Paused"), None);
    world.edit(|p| {
        p["metadata"]["annotations"] = json!({"example.com/paused": "true"});
        p["spec"]["value"] = "2".into();
    });
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.state("Paused")), (json!("1"), "True/PauseReconcileAnnotationTrue".into()));
    world.delete();
    assert_eq!(world.requests().await, 1, "the status");
    assert_eq!((world.maps().len(), world.requests().await), (3, 0));

    let world = with_pause(world.server);
    assert_eq!(world.requests().await, 0, "after a restart, too");
    world.edit(|p| p["metadata"]["annotations"] = json!({"example.com/paused": "false"}));
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn an_unpaused_resource_catches_up_and_says_so() {
    let world = with_pause(World::new(spec()).server);
    world.edit(|p| p["metadata"]["annotations"] = json!({"example.com/paused": "true"}));
    world.reconcile().await;
    assert!(world.maps().is_empty());
    world.edit(|p| p["metadata"]["annotations"] = json!({}));
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.condition("Paused").unwrap()), (3, "False/AsExpected/".into()));
}

#[tokio::test(start_paused = true)]
async fn a_resource_of_helm_operator_plugins_keeps_its_conditions_and_the_name_of_its_event() {
    let texts = [("auth.user".to_owned(), "me".to_owned())].into();
    let overrides = Overrides::parse(texts, OverrideValuesType::Typed).unwrap();
    let renderer = Arc::new(Stub { overrides, ..Stub::default() });
    let world = World::with_events(World::new(spec()).server, renderer, |_| {});
    let false_ones = ["Irreconcilable", "ReleaseFailed"].map(|kind| json!({"type": kind, "status": "False"}));
    world.edit(|p| p["status"]["conditions"] = json!(false_ones));
    world.reconcile().await;
    tokio::time::sleep(SECOND).await;
    let said: Vec<String> = events(&world.server).iter().map(Value::to_string).collect();
    let overridden =
        |event: &&String| event.contains("ValueOverridden") && event.contains(r#"overridden to \"me\" by operator""#);
    assert_eq!(said.iter().filter(overridden).count(), 1, "{said:#?}");
    world.edit(|p| p["spec"]["broken"] = true.into());
    world.reconcile().await;
    assert_eq!(world.condition("ReleaseFailed").unwrap(), "False/AsExpected/");
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/RenderError/"));
    world.edit(|p| p["spec"]["broken"] = false.into());
    world.reconcile().await;
    assert_eq!(world.condition("Irreconcilable").unwrap(), "False/AsExpected/");
}

const CLUSTER_SCOPED: &str = "/apis/cache.my.domain/v1/memcacheds/web";

/// Creates an operator for cluster-scoped resources, whose releases live in this namespace.
fn releasing_in(namespace: &str, server: Arc<MemoryApi>) -> World {
    let acceptance = Acceptance { release_namespace: Some(namespace.into()), ..Acceptance::default() };
    World::taking(server, Arc::new(Stub::default()), acceptance)
}

fn cluster_scoped(server: Arc<MemoryApi>) -> World {
    releasing_in("ns", server)
}

/// Creates a server that has a cluster-scoped resource with these annotations.
fn with_cluster_scoped(annotations: Value) -> Arc<MemoryApi> {
    let server = Arc::new(MemoryApi::new());
    server.serve_cluster_scoped("cache.my.domain/v1", "Memcached", "memcacheds");
    let metadata = json!({"name": "web", "generation": 1, "annotations": annotations});
    let primary =
        json!({"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "metadata": metadata, "spec": spec()});
    server.put(CLUSTER_SCOPED, primary, "user");
    server
}

/// Creates a cluster-scoped resource with a release in the namespace `ns`.
async fn cluster_scoped_release() -> World {
    let world = cluster_scoped(with_cluster_scoped(json!({})));
    world.reconcile().await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_resource_has_its_release_in_the_configured_namespace() {
    let world = cluster_scoped_release().await;
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
    assert_eq!(world.state("Ready"), "True/Ready");
    let owner = &world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["name"], &owner["controller"]), (&json!("web"), &json!(true)));
    assert!(world.server.object(&record_path(1)).is_some());

    let world = cluster_scoped(world.server);
    assert_eq!(world.requests().await, 0, "after a restart");
    world.server.remove(&format!("{MAPS}/b"));
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
    delete_cluster_scoped(&world);
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_resource_takes_over_no_object_of_the_operators_namespace_unless_the_watch_says_so() {
    let server = with_cluster_scoped(json!({"helm.sdk.operatorframework.io/adopt": "true"}));
    let path = format!("{MAPS}/a");
    let own = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "value"}});
    server.put(&path, own, "kubectl");
    let before = server.object(&path);
    let world = cluster_scoped(server);
    world.reconcile().await;
    assert_eq!((world.maps(), world.server.object(&path)), (vec!["a".to_owned()], before));
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/InvalidAnnotation/") && condition.contains("adopt: released"), "{condition}");

    let acceptance = Acceptance { release_namespace: Some("ns".into()), ..Acceptance::default() };
    let world = World::start(
        world.server,
        Arc::new(Stub::default()),
        Events::default(),
        ChartObjects::Watched,
        |settings| settings.adopt = helm_release::kube::Adopt::Released,
        acceptance,
        Extensions::default(),
    );
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
}

/// The records of that release need not be in its namespace: those of a HelmRelease of Flux are in its own.
#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_resource_imports_no_object_of_a_release_of_helms_that_has_its_name() {
    let server = with_cluster_scoped(json!({}));
    let path = format!("{MAPS}/a");
    let annotations = json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"});
    let labels = json!({"app.kubernetes.io/managed-by": "Helm"});
    let metadata = json!({"name": "a", "annotations": annotations, "labels": labels});
    server.put(&path, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}), "helm");
    let before = server.object(&path);
    let world = cluster_scoped(server);
    world.reconcile().await;
    assert_eq!(world.server.object(&path), before);
    let condition = world.condition("ReleaseFailed").unwrap();
    assert!(condition.contains("missing key \"operator-sdk/primary-resource\": must be set to \"web\""), "{condition}");
    delete_cluster_scoped(&world);
    world.reconcile().await;
    assert_eq!(world.server.object(&path), before, "the uninstall leaves it, too");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_of_a_cluster_scoped_resource_reads_and_writes_no_object_that_it_does_not_change() {
    let world = cluster_scoped_release().await;
    let mut edited = world.server.object(CLUSTER_SCOPED).unwrap();
    edited["spec"]["maps"] = json!(["a", "b", "c", "d"]);
    edited["metadata"]["generation"] = 2.into();
    world.server.put(CLUSTER_SCOPED, edited, "user");
    let before = world.server.log().len();
    world.reconcile().await;
    assert_eq!(world.maps(), ["a", "b", "c", "d"]);
    let log = world.server.log()[before..].to_vec();
    let objects: Vec<&String> = log.iter().filter(|line| line.contains(&format!("{MAPS}/"))).collect();
    assert!(objects.iter().all(|line| line.contains("/configmaps/d")), "{objects:#?}");
    assert_eq!(objects.iter().filter(|line| line.starts_with("PATCH")).count(), 1, "{objects:#?}");
}

/// Returns everything but the resource.
fn others(world: &World) -> Vec<(String, Value)> {
    let paths = world.server.paths().into_iter().filter(|path| path != CLUSTER_SCOPED);
    paths.map(|path| (path.clone(), world.server.object(&path).unwrap())).collect()
}

/// Deletes the cluster-scoped resource as its user would.
fn delete_cluster_scoped(world: &World) {
    let mut deleted = world.server.object(CLUSTER_SCOPED).unwrap();
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.server.put(CLUSTER_SCOPED, deleted, "user");
}

#[tokio::test(start_paused = true)]
async fn a_release_is_neither_installed_again_nor_left_behind_if_its_watch_has_another_namespace() {
    let world = cluster_scoped_release().await;
    let (before, moved) = (others(&world), ResourceKey::new("other", "web"));
    let world = releasing_in("other", world.server);
    for _ in 0..2 {
        world.reconcile_one(&moved).await;
        tokio::time::advance(Duration::from_secs(600)).await;
        assert_eq!(others(&world), before);
        let condition = world.condition_of(&moved, "Irreconcilable").unwrap();
        let expected = "True/ReleaseElsewhere/the release of this resource is in namespace \"ns\", and the operator looks for it in namespace \"other\": ";
        assert!(condition.starts_with(expected) && condition.contains("Set releaseNamespace: ns in"), "{condition}");
    }
    let world = cluster_scoped(world.server);
    world.reconcile().await;
    assert_eq!((world.history(), others(&world)), (vec!["1 deployed".to_owned()], before.clone()));
    assert_eq!((world.state("Ready").as_str(), world.condition("Irreconcilable")), ("True/Ready", None));
    assert_eq!(world.requests().await, 0);

    let world = releasing_in("other", world.server);
    delete_cluster_scoped(&world);
    world.reconcile_one(&moved).await;
    assert_eq!(others(&world), before);
    assert_eq!(world.server.object(CLUSTER_SCOPED).unwrap()["metadata"]["finalizers"], json!([FINALIZER]));
    let world = cluster_scoped(world.server);
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_no_status_names_is_not_left_behind_if_its_watch_has_another_namespace() {
    for status in [Value::Null, json!({"conditions": [{"type": "Backup", "status": "True"}]})] {
        let world = cluster_scoped_release().await;
        let (before, moved) = (others(&world), ResourceKey::new("other", "web"));
        let mut resource = world.server.object(CLUSTER_SCOPED).unwrap();
        resource["status"] = status;
        world.server.restore(CLUSTER_SCOPED, resource);
        delete_cluster_scoped(&world);
        let mut server = world.server;
        for _ in 0..2 {
            let world = releasing_in("other", server);
            for _ in 0..2 {
                tokio::time::advance(Duration::from_secs(600)).await;
                world.reconcile_one(&moved).await;
                let condition = world.condition_of(&moved, "Irreconcilable").unwrap();
                assert!(condition.starts_with("True/ReleaseElsewhere/"), "{condition}");
                assert_eq!(others(&world), before);
            }
            server = world.server;
        }
        let world = cluster_scoped(server);
        tokio::time::advance(Duration::from_secs(600)).await;
        world.reconcile().await;
        assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
    }
}

#[tokio::test(start_paused = true)]
async fn records_in_namespaces_that_are_not_watched_are_looked_for_before_a_release_is_installed_again() {
    let server = cluster_scoped_release().await.server;
    let (record, moved) = (server.object(&record_path(1)).unwrap(), ResourceKey::new("other", "web"));
    server.remove(&record_path(1));
    let world = releasing_in("other", server);
    world.releases.lost(&WatchScope::namespace("elsewhere"));
    world.server.restore(&record_path(1), record);
    let before = others(&world);
    let reconcile = async || {
        reconcile::reconcile(&world.shared, &moved, &(), Priority::Retry).await;
        tokio::time::advance(Duration::from_secs(600)).await;
        world.condition_of(&moved, "Irreconcilable").unwrap_or_default()
    };
    world.server.disturb("GET /api/v1/secrets?", 1, helm_release::kube::Disturbance::Refused(503));
    let condition = reconcile().await;
    assert!(condition.starts_with("True/Unanswered/"), "{condition}");
    let condition = reconcile().await;
    assert!(condition.starts_with("True/ReleaseElsewhere/"), "{condition}");
    assert_eq!(others(&world), before);
    world.server.remove(&record_path(1));
    assert_eq!(reconcile().await, "", "it is recorded nowhere");
    assert_eq!(world.shared.cache.release(&moved).unwrap().deployed().unwrap().0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_does_not_wait_for_the_right_to_look_for_records_elsewhere() {
    let server = cluster_scoped_release().await.server;
    server.remove(&record_path(1));
    let world = releasing_in("other", server);
    world.releases.lost(&WatchScope::namespace("elsewhere"));
    world.server.disturb("GET /api/v1/secrets?", 9, helm_release::kube::Disturbance::Refused(403));
    let moved = ResourceKey::new("other", "web");
    world.reconcile_one(&moved).await;
    let condition = world.condition_of(&moved, "Irreconcilable").unwrap_or_default();
    assert!(condition.starts_with("True/Unanswered/"), "{condition}");
    delete_cluster_scoped(&world);
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile_one(&moved).await;
    assert!(world.server.object(CLUSTER_SCOPED).is_none(), "the finalizer is gone");
}

/// Creates controllers of `v1` and `v2` of one kind.
fn two_versions(server: &Arc<MemoryApi>) -> [World; 2] {
    let both = "- {group: cache.my.domain, version: v1, kind: Memcached}\n- {group: cache.my.domain, version: v2, kind: Memcached}";
    let versions = Versions::of(crate::watches::parse(both, |_| None).unwrap().watches.iter())[0].clone().unwrap();
    ["v1", "v2"].map(|version| {
        let acceptance = Acceptance { version: Some((version.to_owned(), versions.clone())), ..Acceptance::default() };
        World::taking(server.clone(), Arc::new(Stub::default()), acceptance)
    })
}

/// Sets the version in which the resource was last written.
fn write_in(server: &MemoryApi, version: &str, value: &str) {
    let mut primary = server.object(PRIMARY).unwrap();
    primary["spec"]["value"] = value.into();
    primary["metadata"]["generation"] = (primary["metadata"]["generation"].as_i64().unwrap() + 1).into();
    server.put(PRIMARY, primary, "user");
    let mut primary = server.object(PRIMARY).unwrap();
    let entry =
        json!({"manager": "user", "apiVersion": format!("cache.my.domain/{version}"), "fieldsV1": {"f:spec": {}}});
    primary["metadata"]["managedFields"] = json!([entry]);
    server.restore(PRIMARY, primary);
}

#[tokio::test(start_paused = true)]
async fn of_two_versions_of_a_kind_the_one_that_was_written_serves_a_resource_alone() {
    let server = World::new(spec()).server;
    write_in(&server, "v2", "2");
    let [first, second] = two_versions(&server);
    assert_eq!(first.requests().await, 0);
    assert!(first.shared.cache.primary(&key()).is_none());
    second.reconcile().await;
    assert_eq!((second.value_of("a"), first.requests().await), (json!("2"), 0));

    write_in(&server, "v1", "3");
    assert_eq!(second.requests().await, 0, "it hands the resource over");
    first.reconcile().await;
    assert_eq!(
        (first.value_of("a"), first.history()),
        (json!("3"), vec!["1 superseded".to_owned(), "2 deployed".into()])
    );
    assert_eq!((first.requests().await, second.requests().await), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_lets_every_object_name_its_owner_in_the_version_of_the_watch() {
    let map = |world: &World, name: &str| world.server.object(&format!("{MAPS}/{name}")).unwrap();
    let world = World::new(spec());
    world.reconcile().await;
    let current = map(&world, "a");
    let mut former = current.clone();
    former["metadata"]["ownerReferences"][0]["apiVersion"] = "cache.my.domain/v1beta1".into();
    world.server.restore(&format!("{MAPS}/a"), former.clone());
    let world = World::on(world.server);
    world.reconcile().await;
    assert_eq!(map(&world, "a"), former, "it alone is no reason to write");
    let others = ["b", "c"].map(|name| map(&world, name));
    world.edit(|p| p["spec"]["maps"] = json!(["a", "b", "c", "d"]));
    world.reconcile().await;
    let written = map(&world, "a");
    for field in ["ownerReferences", "uid"] {
        assert_eq!(written["metadata"][field], current["metadata"][field]);
    }
    assert_eq!(written["metadata"]["ownerReferences"][0]["apiVersion"], "cache.my.domain/v1");
    assert_eq!(["b", "c"].map(|name| map(&world, name)), others);
}

#[tokio::test(start_paused = true)]
async fn the_controller_of_an_old_version_whose_watch_lags_does_not_upgrade_back() {
    let server = World::new(spec()).server;
    write_in(&server, "v1", "1");
    let [first, second] = two_versions(&server);
    first.reconcile().await;
    second.feed();
    write_in(&server, "v2", "2");
    second.reconcile().await;
    assert_eq!(second.value_of("a"), "2");
    // All controllers of the process share the watch of the records, which does not lag.
    let record = server.object(&format!("{SECRETS}/sh.helm.release.v1.web.v2")).unwrap();
    let metadata = serde_json::from_value(record["metadata"].clone()).unwrap();
    let newest = RecordMeta::read(&metadata, &keys()).unwrap();
    let writes = server.writes();
    let epoch = Epoch { number: 1_000, began: Instant::now(), is_list: false };
    first.releases.changed(newest, epoch);
    server.disturb(&format!("GET {PRIMARY}"), 1, helm_release::kube::Disturbance::Unreachable);
    reconcile::reconcile(&first.shared, &key(), &(), Priority::Retry).await;
    assert_eq!(second.value_of("a"), "2", "it waits if it cannot know");
    tokio::time::advance(Duration::from_secs(60)).await;
    let statuses = server.writes() - writes;
    reconcile::reconcile(&first.shared, &key(), &(), Priority::Retry).await;
    assert_eq!((server.writes() - writes, second.value_of("a")), (statuses, json!("2")));
    assert!(first.shared.cache.primary(&key()).is_none(), "it is the other one's");
}

#[tokio::test(start_paused = true)]
async fn a_resource_waits_while_the_controller_of_another_version_reconciles_it() {
    let server = World::new(spec()).server;
    write_in(&server, "v1", "1");
    let [first, second] = two_versions(&server);
    let place = second.shared.acceptance.take(&key()).unwrap();
    assert_eq!(first.requests().await, 0);
    assert!(first.maps().is_empty());
    drop(place);
    first.reconcile().await;
    assert_eq!(first.maps().len(), 3);
}

/// Moves the record of a release into two Secrets, as helm-operator-plugins' chunked storage keeps it. The status names
/// the release.
fn in_chunks(world: World) -> World {
    let server = world.server;
    let record = server.object(&record_path(1)).unwrap();
    let text: ByteString = serde_json::from_value(record["data"]["release"].clone()).unwrap();
    let gzip: ByteString = serde_json::from_value(String::from_utf8(text.0).unwrap().into()).unwrap();
    let (first, second) = gzip.0.split_at(gzip.0.len() / 2);
    let encoded = |bytes: &[u8]| serde_json::to_value(ByteString(bytes.to_vec())).unwrap();
    let mut index = record;
    let key = index["metadata"]["name"].as_str().unwrap().to_owned();
    let chunk = format!("{key}-abc");
    (index["metadata"]["labels"]["owner"], index["metadata"]["labels"]["type"]) = ("mine".into(), "index".into());
    index["data"] = json!({"chunk": encoded(first), "extraChunks": encoded(json!([chunk]).to_string().as_bytes())});
    server.restore(&record_path(1), index);
    let metadata = json!({"name": chunk, "labels": {"owner": "mine", "key": key, "type": "chunk"}});
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"chunk": encoded(second)}});
    server.put(&format!("{SECRETS}/{chunk}"), secret, "manager");
    let mut primary = server.object(PRIMARY).unwrap();
    primary["metadata"]["finalizers"] = json!([FINALIZER]);
    primary["status"] = json!({"deployedRelease": {"name": "web"}});
    server.put(PRIMARY, primary, "manager");
    World::rendering(server, Arc::new(Fixed(RENDERED)))
}

#[tokio::test(start_paused = true)]
async fn a_release_recorded_in_chunks_is_imported_without_touching_its_objects() {
    let world = in_chunks(hop_release());
    let uids = |world: &World| {
        [ROLE, &format!("{MAPS}/a")].map(|path| world.server.object(path).unwrap()["metadata"]["uid"].clone())
    };
    let before = (uids(&world), world.server.object(&record_path(1)));
    world.reconcile().await;
    assert_eq!((world.history(), world.state("Ready")), (vec!["2 deployed".to_owned()], "True/Ready".into()));
    assert_eq!((uids(&world), world.server.object(&record_path(1))), before, "the chunks stay");
    let world = World::rendering(world.server, Arc::new(Fixed(RENDERED)));
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_release_recorded_in_chunks_is_uninstalled_from_them() {
    let world = in_chunks(hop_release());
    world.delete();
    world.reconcile().await;
    assert_eq!((world.server.object(ROLE), world.server.object(PRIMARY), world.maps().len()), (None, None, 0));
}

#[tokio::test(start_paused = true)]
async fn no_hook_of_a_release_in_chunks_runs_twice_although_the_finalizer_outlives_its_records() {
    let world = in_chunks(hop_release());
    let hooks = json!([hooks::hook("backup", "pre-delete"), hooks::hook("gone", "post-delete")]);
    world.edit(|p| p["spec"] = json!({"hooks": hooks}));
    world.delete();
    world.server.refuse(|call| {
        let is_finalizer = call.method == http::Method::PATCH && call.path.starts_with(&format!("{PRIMARY}?"));
        is_finalizer.then(|| Error::from_status(500, "InternalError", "away"))
    });
    hooks::reconcile(&world, "Complete").await;
    assert!(world.server.object(&record_path(2)).is_none() && world.server.object(PRIMARY).is_some());
    world.server.accept();
    let world = World::rendering(world.server, Arc::new(Fixed(RENDERED)));
    tokio::time::advance(Duration::from_secs(600)).await;
    hooks::reconcile(&world, "Complete").await;
    assert_eq!(world.server.object(PRIMARY), None);
    assert_eq!(hooks::count(&world, &format!("POST {}", hooks::JOBS)), 2, "{:#?}", world.server.log());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_no_record_can_hold_fails_before_anything_is_written() {
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b"abcdefghijklmnopqrstuvwxyz012345"[(state >> 59) as usize])
    };
    let text: String = (0..1_000_000).map(|_| noise()).collect();
    let world = World::new(json!({"maps": ["a"], "value": "1"}));
    world.reconcile().await;
    world.edit(|p| p["spec"]["value"] = text.into());
    let writes = world.server.writes();
    world.reconcile().await;
    assert_eq!(world.server.writes(), writes + 1, "the status only");
    assert_eq!((world.history(), world.value_of("a")), (vec!["1 deployed".to_owned()], json!("1")));
    let failed = world.condition("ReleaseFailed").unwrap();
    assert!(failed.starts_with("True/RecordTooLarge/release \"web\" is too large to record: "), "{failed}");
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.condition("ReleaseFailed")), (json!("2"), None));
}

#[tokio::test(start_paused = true)]
async fn a_description_from_an_annotation_is_recorded() {
    let world = World::new(spec());
    let annotation = |action: &str| format!("helm.sdk.operatorframework.io/{action}-description");
    world.edit(|p| {
        p["metadata"]["annotations"] = json!({annotation("install"): "first", annotation("upgrade"): "second"})
    });
    world.reconcile().await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    let description = async |version| {
        world.shared.storage.get("ns", "web", version).await.unwrap().release.facts().info.description.clone()
    };
    assert_eq!((description(1).await, description(2).await), ("first".to_owned(), "second".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn values_that_no_chart_can_take_are_reported_and_leave_the_release_alone() {
    let texts = [("image.tag".to_owned(), "1".to_owned())].into();
    let overrides = Overrides::parse(texts, OverrideValuesType::Typed).unwrap();
    let chart = [("Chart.yaml", "apiVersion: v2\nname: memcached\nversion: 1.0.0\n")];
    let engine = Arc::new(Engine::new(Chart::from_files(chart).unwrap()));
    let world = World::new(json!({}));
    let discovered = Arc::new(Discovered::read(&Applier::new(world.server.clone())).await.unwrap());
    let renderer = Arc::new(EngineRenderer::new(engine, overrides, discovered).unwrap());
    let world = World::rendering(world.server, renderer);
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed"]);
    world.edit(|p| p["spec"]["image"] = "s3cret".into());
    world.reconcile().await;
    let said = world.condition("Irreconcilable").unwrap();
    assert!(
        said.starts_with("True/InvalidValues/invalid override value \"image.tag\": ") && !said.contains("s3cret"),
        "{said}"
    );
    assert_eq!(world.history(), ["1 deployed"]);
    assert!(world.condition("Deployed").unwrap().starts_with("True"));
}
