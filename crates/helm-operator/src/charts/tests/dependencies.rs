//! Tests of `dependsOn`: what a resource waits for, what it costs, what it says, and to whom. The cases of
//! fluxcd/flux2#5879 (any kind), #3042 (presence of a definition) and #125 (old statuses), and of
//! fluxcd/helm-controller#552 (labels that nothing has yet).

use std::collections::BTreeMap;

use controller::runtime::served_kinds::ServedKinds;
use helm_release::kube::Call;

use super::hooks::JOBS;
use super::rollout::refuse;
use super::*;
use crate::dependencies::{Origin, parse, resolve};
use crate::values_from::SourceKey;
use crate::view::coverage::KindKey;
use crate::view::dependencies::seen::{Portion, Seen};
use crate::watches::{AnnotationRule, ServiceAccount};

const DATABASE: &str = "/apis/db.example.com/v1/namespaces/ns/databases/db";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns the kinds that the test's process serves.
pub(super) fn served() -> Arc<ServedKinds> {
    let served = Arc::new(ServedKinds::default());
    served.add("cache.my.domain", "Memcached");
    served
}

impl World {
    /// Feeds the objects of the kinds that tests wait for.
    pub(super) fn feed_dependencies(&self, epoch: Epoch) {
        let settings = &self.shared.settings;
        if settings.depends_on.is_empty() && settings.depends_on_annotation.is_none() {
            return;
        }
        let kinds = [
            ("databases", "db.example.com", "Database"),
            ("memcacheds", "cache.my.domain", "Memcached"),
            ("secrets", "", "Secret"),
            ("deployments", "apps", "Deployment"),
            ("customresourcedefinitions", "apiextensions.k8s.io", "CustomResourceDefinition"),
        ];
        for (plural, group, kind) in kinds {
            let kind: KindKey = (group.into(), kind.into());
            for path in self.server.paths() {
                let mut parts = path.rsplit('/');
                let is_it = parts.nth(1) == Some(plural);
                let Some(mut object) = self.server.object(&path).filter(|_| is_it) else { continue };
                if let Some(namespace) = path.split("/namespaces/").nth(1).and_then(|rest| rest.split('/').next()) {
                    object["metadata"]["namespace"] = namespace.into();
                }
                let seen: Seen = serde_json::from_value(object).unwrap();
                self.shared.dependencies.changed(&kind, &seen, epoch);
            }
            self.shared.dependencies.sweep(&kind, &WatchScope::ALL, epoch, Portion::Whole);
        }
    }

    /// Reconciles whatever is woken until nothing is left to do; returns how many reconciles that took.
    async fn settle(&self) -> usize {
        let mut count = 0;
        while let Ok(key) = tokio::time::timeout(SECOND, self.shared.queue.next()).await {
            reconcile::reconcile(&self.shared, &key, &(), Priority::Retry).await;
            self.shared.queue.done(&key);
            self.feed();
            count += 1;
        }
        count
    }
}

fn kinds(server: &MemoryApi) {
    server.serve("v1", "Secret", "secrets");
    server.serve("apps/v1", "Deployment", "deployments");
    server.serve("db.example.com/v1", "Database", "databases");
    server.serve_cluster_scoped("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions");
}

/// Creates a controller whose resources depend on these, in JSON.
fn depending(server: Arc<MemoryApi>, on: Value, change: impl FnOnce(&mut Settings)) -> World {
    kinds(&server);
    World::with_events(server, Arc::new(Stub::default()), |settings| {
        settings.depends_on = parse(&on).unwrap();
        settings.period = Duration::ZERO;
        change(settings);
    })
}

fn world(on: Value) -> World {
    depending(World::new(json!({"maps": ["a"], "value": "1"})).server, on, |_| {})
}

fn on_database(more: Value) -> Value {
    let mut entry = json!({"group": "db.example.com", "kind": "Database", "name": "db"});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!([entry])
}

fn put_database(world: &World, is_ready: bool) {
    let status = json!({"phase": if is_ready { "Up" } else { "Starting" }, "conditions": [
        {"type": "Ready", "status": if is_ready { "True" } else { "False" }},
    ]});
    world.server.put(DATABASE, json!({"metadata": {"name": "db"}, "status": status}), "user");
}

/// Returns the requests of a reconcile, without discovery and events, which are published in the background.
async fn asked(world: &World) -> Vec<String> {
    let before = world.server.log().len();
    world.reconcile().await;
    let is_own = |line: &String| !line.contains("/events") && !line.ends_with("/api") && !line.ends_with("/apis");
    world.server.log()[before..].iter().filter(|line| is_own(line)).cloned().collect()
}

/// Returns what the resource says while it waits.
fn waiting(world: &World) -> String {
    world.condition("Reconciling").unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_resource_waits_for_an_object_of_any_kind_without_a_request() {
    let world = world(on_database(json!({})));
    world.reconcile().await;
    let missing = "True/DependencyNotReady/waiting for Database \"db\" (does not exist)";
    assert_eq!((world.maps(), waiting(&world)), (vec![], missing.to_owned()));
    assert_eq!(world.condition("Ready").unwrap(), missing.replace("True/", "False/"));
    assert_eq!((world.condition("Irreconcilable"), world.history()), (None, vec![]));
    for _ in 0..5 {
        assert_eq!(asked(&world).await, [""; 0]);
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    put_database(&world, false);
    assert_eq!(asked(&world).await.len(), 1, "the status");
    assert!(waiting(&world).ends_with("Database \"db\" (is not ready)"), "{}", waiting(&world));
    put_database(&world, true);
    world.reconcile().await;
    assert_eq!((world.maps(), world.history()), (vec!["a".to_owned()], vec!["1 deployed".to_owned()]));
    assert_eq!((world.condition("Reconciling"), world.state("Ready")), (None, "True/Ready".to_owned()));
    let reasons: Vec<_> = events(&world.server).iter().map(|event| event["reason"].clone()).collect();
    assert_eq!(reasons.iter().filter(|reason| **reason == "DependencyNotReady").count(), 1, "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn only_a_change_of_what_is_missing_wakes_the_resource() {
    let world = world(on_database(json!({})));
    world.reconcile().await;
    world.open();
    world.settle().await;
    put_database(&world, false);
    world.feed();
    assert_eq!(world.settle().await, 1, "it exists");
    for step in 0..3 {
        let mut database = world.server.object(DATABASE).unwrap();
        database["status"]["step"] = step.into();
        world.server.put(DATABASE, database, "user");
        world.feed();
    }
    assert_eq!(world.settle().await, 0, "it makes progress");
    put_database(&world, true);
    world.feed();
    assert!(world.settle().await >= 1);
    assert_eq!(world.history(), ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_awaited_by_its_presence_and_an_unserved_kind_is_named() {
    let name = "servicemonitors.monitoring.coreos.com";
    let on = json!([{"group": "apiextensions.k8s.io", "kind": "CustomResourceDefinition", "name": name}]);
    let world = world(on);
    world.reconcile().await;
    assert!(waiting(&world).ends_with(&format!("CustomResourceDefinition {name:?} (does not exist)")));
    let conditions = json!([{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]);
    let definition = json!({"metadata": {"name": name}, "status": {"conditions": conditions}});
    world.server.put(&format!("{DEFINITIONS}/{name}"), definition, "user");
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed"]);

    let world = self::world(json!([{"group": "monitoring.coreos.com", "kind": "ServiceMonitor", "name": "a"}]));
    world.reconcile().await;
    let expected = "ServiceMonitor \"a\" (the server does not serve its kind)";
    assert!(waiting(&world).ends_with(expected), "{}", waiting(&world));
}

#[tokio::test(start_paused = true)]
async fn labels_that_nothing_has_yet_are_awaited_and_then_all_that_have_them() {
    let world = world(json!([{"kind": "Secret", "selector": {"matchLabels": {"tier": "db"}}}]));
    world.reconcile().await;
    let expected = "Secret with labels tier=db (no object has these labels)";
    assert!(waiting(&world).ends_with(expected), "{} {:?}", waiting(&world), world.condition("Ready"));
    let secret = |name: &str, leaving: bool| {
        let mut object = json!({"metadata": {"name": name, "labels": {"tier": "db"}}});
        if leaving {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        world.server.put(&format!("{SECRETS}/{name}"), object, "user");
    };
    secret("one", false);
    secret("two", true);
    world.reconcile().await;
    assert!(waiting(&world).ends_with("Secret \"two\" (is being deleted)"), "{}", waiting(&world));
    secret("two", false);
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn an_expression_decides_over_the_live_object() {
    let world = world(on_database(json!({"ready": "self.status.phase == 'Up'"})));
    put_database(&world, false);
    world.reconcile().await;
    assert!(waiting(&world).ends_with("Database \"db\" (its expression is not true)"), "{}", waiting(&world));
    put_database(&world, true);
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_waits_while_drift_is_repaired_and_an_idle_release_asks_for_nothing() {
    let world = world(on_database(json!({})));
    put_database(&world, true);
    world.reconcile().await;
    world.server.remove(DATABASE);
    assert_eq!(asked(&world).await, [""; 0], "what is deployed needs nothing");
    world.edit(|resource| resource["spec"]["value"] = "2".into());
    world.server.remove(&format!("{MAPS}/a"));
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history()), (json!("1"), vec!["1 deployed".to_owned()]));
    assert!(waiting(&world).contains("DependencyNotReady"), "{}", waiting(&world));
    assert_eq!(world.state("Ready"), "True/Ready");
    put_database(&world, true);
    world.reconcile().await;
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn drift_that_has_ended_is_no_longer_reported_while_an_upgrade_waits() {
    let world = world(on_database(json!({})));
    put_database(&world, true);
    world.reconcile().await;
    let path = format!("{MAPS}/a");
    let intact = world.server.object(&path).unwrap();
    let change = || {
        let mut changed = intact.clone();
        changed["data"]["value"] = "mine".into();
        world.server.put(&path, changed, "fighter");
    };
    world.server.remove(DATABASE);
    world.edit(|resource| resource["spec"]["value"] = "2".into());
    world.server.refuse(|call| {
        let is_write = call.method == http::Method::PATCH && call.path.contains("configmaps/a");
        is_write.then(|| Error::from_status(422, "Invalid", "no"))
    });
    change();
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    let said = world.condition("Irreconcilable").unwrap();
    assert!(said.contains("cannot apply ConfigMap \"a\""), "{said}");
    world.server.accept();
    tokio::time::advance(SECOND).await;
    world.server.restore(&path, intact.clone());
    world.reconcile().await;
    assert_eq!(world.condition("Irreconcilable"), None);
    assert!(waiting(&world).contains("DependencyNotReady"), "{}", waiting(&world));

    tokio::time::advance(60 * SECOND).await;
    for _ in 0..8 {
        change();
        world.reconcile().await;
    }
    assert_eq!(world.state("Irreconcilable"), "True/DriftLoop");
    for _ in 0..2 {
        tokio::time::advance(60 * SECOND).await;
        world.reconcile().await;
    }
    assert_eq!((world.value_of("a"), world.condition("Irreconcilable")), (json!("1"), None));
    assert_eq!(world.history(), ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn an_install_that_was_begun_goes_on_after_a_restart_without_its_dependency() {
    let hook = json!({"name": "check", "events": ["pre-install"]});
    let server = World::new(json!({"maps": ["a"], "value": "1", "hooks": [hook]})).server;
    let world = depending(server, on_database(json!({})), |_| {});
    put_database(&world, true);
    world.server.fail_after(Some(3));
    world.reconcile().await;
    assert!(world.maps().is_empty());
    world.server.fail_after(None);
    world.server.remove(DATABASE);
    let world = depending(world.server, on_database(json!({})), |_| {});
    assert_eq!(world.history(), ["1 pending-install"]);
    let finish = async {
        loop {
            if let Some(mut job) = world.server.object(&format!("{JOBS}/check")) {
                job["status"] = json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]});
                world.server.put(&format!("{JOBS}/check"), job, "user");
                return;
            }
            tokio::time::sleep(SECOND).await;
        }
    };
    tokio::join!(world.reconcile(), finish);
    assert_eq!(world.history(), ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_reads_only_what_somebody_waits_for() {
    let world = world(on_database(json!({})));
    put_database(&world, true);
    world.reconcile().await;
    let world = depending(world.server, on_database(json!({})), |_| {});
    assert_eq!(asked(&world).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_a_wait_is_reported_beside_the_failure_from_before() {
    let world = World::new(json!({"broken": true}));
    world.reconcile().await;
    let before = world.condition("Irreconcilable").unwrap();
    assert!(before.starts_with("True/RenderError/"), "{before}");
    let world = depending(world.server, on_database(json!({})), |_| {});
    world.reconcile().await;
    tokio::time::advance(60 * SECOND).await;
    world.reconcile().await;
    assert_eq!(waiting(&world), "True/DependencyNotReady/waiting for Database \"db\" (does not exist)");
    assert_eq!(
        (world.condition("Irreconcilable"), world.state("Ready")),
        (Some(before.clone()), "False/RenderError".into())
    );
    assert_eq!(asked(&world).await, [""; 0]);
    world.shared.events.flush(Duration::from_secs(5)).await;
    let events = events(&world.server);
    assert_eq!(events.iter().filter(|event| event["reason"] == "DependencyNotReady").count(), 1, "{events:?}");

    let suspend = |is_on: &str| {
        let annotation = json!({"helm.sdk.operatorframework.io/suspend": is_on});
        world.edit(|resource| resource["metadata"]["annotations"] = annotation);
    };
    suspend("true");
    world.reconcile().await;
    assert_eq!(
        (world.state("Suspended"), world.condition("Irreconcilable")),
        ("True/SuspendAnnotation".into(), Some(before))
    );
    suspend("false");
    world.edit(|resource| resource["spec"] = json!({"maps": ["a"], "value": "1"}));
    put_database(&world, true);
    world.reconcile().await;
    assert_eq!((world.history(), world.condition("Irreconcilable")), (vec!["1 deployed".to_owned()], None));
}

/// Returns a resource's path, and the resource with its annotation.
fn annotated(name: &str, depends_on: &Value) -> (String, Value) {
    let (path, mut resource) = primary("ns", name, json!({"maps": [name], "value": "1"}));
    resource["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/depends-on": depends_on.to_string()});
    (path, resource)
}

/// Creates a controller whose resources may name some kinds in their annotations.
fn open(server: Arc<MemoryApi>, account: bool) -> World {
    depending(server, json!([]), |settings| {
        let kinds = ["Memcached.cache.my.domain", "Database.db.example.com", "Secret"].map(str::to_owned).into();
        settings.depends_on_annotation = Some(AnnotationRule { kinds, namespaces: ["far".to_owned()].into() });
        settings.service_account = account.then(|| ServiceAccount { namespace: None, name: "deployer".into() });
    })
}

fn on_memcached(name: &str) -> Value {
    json!({"group": "cache.my.domain", "kind": "Memcached", "name": name})
}

fn new_server() -> Arc<MemoryApi> {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    server
}

#[tokio::test(start_paused = true)]
async fn a_cycle_names_its_members_until_somebody_breaks_it() {
    let server = new_server();
    for (name, on) in [("a", "b"), ("b", "c"), ("c", "a")] {
        let (path, resource) = annotated(name, &json!([on_memcached(on)]));
        server.put(&path, resource, "user");
    }
    let world = open(server, false);
    let key = |name: &str| ResourceKey::new("ns", name);
    for name in ["a", "b", "c"] {
        world.reconcile_one(&key(name)).await;
    }
    let stalled = world.condition_of(&key("b"), "Stalled").unwrap();
    let members = "Memcached \"b\" → Memcached \"c\" → Memcached \"a\" → Memcached \"b\"";
    assert!(stalled.starts_with("True/DependencyCycle/these resources wait for each other"), "{stalled}");
    assert!(stalled.contains(members), "{stalled}");
    assert!(world.condition_of(&key("b"), "Ready").unwrap().starts_with("False/DependencyCycle/"));
    let (path, _) = annotated("c", &json!([]));
    let mut broken = world.server.object(&path).unwrap();
    broken["metadata"]["annotations"] = json!({});
    world.server.put(&path, broken, "user");
    world.feed();
    world.open();
    world.settle().await;
    for name in ["a", "b", "c"] {
        assert!(world.condition_of(&key(name), "Ready").unwrap().starts_with("True/"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_waits_for_the_resources_that_depend_on_it_if_they_ask_for_that() {
    let server = new_server();
    let mut reverse = on_memcached("a");
    reverse["reverseDeletion"] = true.into();
    for (name, on) in [("a", json!([])), ("b", json!([reverse]))] {
        let (path, resource) = annotated(name, &on);
        server.put(&path, resource, "user");
    }
    let world = open(server, false);
    let key = |name: &str| ResourceKey::new("ns", name);
    let delete = |name: &str| {
        let (path, _) = primary("ns", name, Value::Null);
        let mut resource = world.server.object(&path).unwrap();
        resource["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        world.server.put(&path, resource, "user");
    };
    world.reconcile_one(&key("a")).await;
    world.reconcile_one(&key("b")).await;
    assert_eq!(world.maps(), ["a", "b"]);
    delete("a");
    world.reconcile_one(&key("a")).await;
    assert_eq!(world.maps(), ["a", "b"]);
    let waits = world.condition_of(&key("a"), "Reconciling").unwrap();
    assert!(waits.starts_with("True/DependentsExist/") && waits.ends_with(": Memcached \"b\""), "{waits}");
    world.open();
    world.settle().await;
    delete("b");
    world.feed();
    world.settle().await;
    assert!(world.maps().is_empty() && !world.server.paths().iter().any(|path| path.contains("/memcacheds/")));
    let log = world.server.log();
    let deleted = |map: &str| log.iter().position(|line| line.starts_with("DELETE") && line.ends_with(map)).unwrap();
    assert!(deleted("configmaps/b") < deleted("configmaps/a"));
}

#[tokio::test(start_paused = true)]
async fn an_annotation_has_no_effect_unless_the_watch_allows_it_and_the_message_names_the_key() {
    let (path, resource) = annotated("web", &on_database(json!({})));
    let server = new_server();
    server.put(&path, resource, "user");
    let world = depending(server, json!([]), |_| {});
    world.reconcile().await;
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.contains("InvalidAnnotation") && condition.ends_with("lacks dependsOnAnnotation"), "{condition}");
    let world = open(world.server, false);
    for (entry, expected) in [
        (json!({"kind": "Node", "name": "a"}), "Node is not allowed"),
        (json!({"kind": "Secret", "name": "a", "namespace": "kube-system"}), "\"kube-system\" is not allowed"),
        (on_database(json!({"ready": "true"}))[0].clone(), "a watch with a serviceAccountName"),
        (json!({"kind": "Secret", "selecter": "a"}), "did you mean \"selector\"?"),
    ] {
        world.edit(|resource| {
            resource["metadata"]["annotations"]["helm.sdk.operatorframework.io/depends-on"] =
                json!([entry]).to_string().into();
        });
        let before = world.server.log().len();
        world.reconcile().await;
        let condition = world.condition("Irreconcilable").unwrap();
        assert!(condition.contains("InvalidAnnotation") && condition.contains(expected), "{condition}");
        let log = world.server.log()[before..].join("\n");
        assert!(!log.contains("secrets") && !log.contains("databases"), "nothing is read: {log}");
    }
}

/// Refuses the account's reads of these objects.
fn close(server: &MemoryApi, what: &'static str) {
    server.refuse(move |call: &Call| {
        let message = format!("x is forbidden: User \"u\" cannot get resource {what:?} in API group \"\"");
        let is_hit = call.user.is_some() && call.path.contains(what) && call.path.ends_with("db");
        is_hit.then(|| Error::from_status(403, "Forbidden", &message))
    });
}

const ACCOUNT: &str = "/api/v1/namespaces/ns/serviceaccounts/deployer";

#[tokio::test(start_paused = true)]
async fn an_annotation_reveals_nothing_of_objects_that_the_account_may_not_read() {
    let mut conditions = BTreeMap::new();
    for state in ["absent", "not ready", "ready"] {
        let (path, resource) = annotated("web", &on_database(json!({})));
        let server = new_server();
        server.put(&path, resource, "user");
        server.put(ACCOUNT, json!({"metadata": {"name": "deployer"}}), "user");
        let world = open(server, true);
        close(&world.server, "databases");
        if state != "absent" {
            put_database(&world, state == "ready");
        }
        world.reconcile().await;
        assert!(world.maps().is_empty(), "{state}");
        let status = &world.server.object(PRIMARY).unwrap()["status"]["conditions"];
        let said = |kind: &str| world.condition(kind).unwrap_or_default();
        assert!(said("Irreconcilable").starts_with("True/DependencyForbidden/"), "{status}");
        conditions.insert(said("Irreconcilable") + &said("Ready") + &said("Reconciling"), state);
    }
    assert_eq!(conditions.len(), 1, "it is the same, whatever there is: {conditions:?}");
    let (conditions, _) = conditions.pop_first().unwrap();
    assert!(conditions.contains("resources: [databases], verbs: [get]}"), "{conditions}");
}

#[tokio::test(start_paused = true)]
async fn an_entry_of_the_watch_holds_but_names_nothing_that_the_account_may_not_read() {
    let server = World::new(json!({"maps": ["a"], "value": "1"})).server;
    server.put(ACCOUNT, json!({"metadata": {"name": "deployer"}}), "user");
    let world = depending(server, on_database(json!({})), |settings| {
        settings.service_account = Some(ServiceAccount { namespace: None, name: "deployer".into() });
    });
    close(&world.server, "databases");
    world.reconcile().await;
    let condition = waiting(&world);
    assert!(condition.starts_with("True/DependencyNotReady/") && condition.contains("may not read"), "{condition}");
    assert!(!condition.contains("Database"), "{condition}");
    assert_eq!(asked(&world).await, [""; 0], "it is checked once for what is said");
    put_database(&world, true);
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn an_account_that_may_read_is_informed() {
    let server = World::new(json!({"maps": ["a"], "value": "1"})).server;
    server.put(ACCOUNT, json!({"metadata": {"name": "deployer"}}), "user");
    let world = depending(server, on_database(json!({})), |settings| {
        settings.service_account = Some(ServiceAccount { namespace: None, name: "deployer".into() });
    });
    world.reconcile().await;
    assert!(waiting(&world).ends_with("Database \"db\" (does not exist)"), "{}", waiting(&world));
    assert_eq!(asked(&world).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_the_operator_may_not_read_is_named_with_the_rule() {
    let world = world(on_database(json!({})));
    world
        .server
        .refuse(|call: &Call| call.path.contains("databases").then(|| Error::from_status(403, "Forbidden", "no")));
    world.reconcile().await;
    let condition = world.condition("Irreconcilable").unwrap();
    let rule = "{apiGroups: [db.example.com], resources: [databases], verbs: [get, list, watch]}";
    assert!(condition.starts_with("True/DependencyForbidden/") && condition.ends_with(rule), "{condition}");
    world.server.accept();
    put_database(&world, true);
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!((world.history(), world.condition("Irreconcilable")), (vec!["1 deployed".to_owned()], None));
}

/// Forty resources depend on up to three others each, so that none is in a cycle.
#[tokio::test(start_paused = true)]
async fn many_resources_converge_in_the_order_of_a_random_graph() {
    let mut seed = 20_261_125_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let server = new_server();
    let mut graph = Vec::new();
    for at in 0..40_u64 {
        let on: Vec<u64> = (0..random(4)).filter(|_| at > 0).map(|_| random(at.max(1))).collect();
        let entries: Vec<Value> = on.iter().map(|on| on_memcached(&format!("r{on}"))).collect();
        let (path, resource) = annotated(&format!("r{at}"), &json!(entries));
        server.put(&path, resource, "user");
        graph.push(on);
    }
    let world = open(server, false);
    world.feed();
    // The last are first: every one waits as long as possible.
    for at in (0..40).rev() {
        world.shared.wake(ResourceKey::new("ns", &format!("r{at}")));
    }
    world.open();
    let reconciles = world.settle().await;
    let log = world.server.log();
    let applied = |at: usize| {
        let path = format!("PATCH {MAPS}/r{at}");
        log.iter().position(|line| line.split('?').next() == Some(&path)).unwrap_or_else(|| panic!("{path}: {log:#?}"))
    };
    for (at, on) in graph.iter().enumerate() {
        for on in on {
            assert!(applied(*on as usize) < applied(at), "r{at} waits for r{on}");
        }
    }
    assert!(reconciles < 320, "{reconciles} reconciles");
}

/// Two releases wait for one slot. The dependency of the first is deleted before its turn.
#[tokio::test(start_paused = true)]
async fn an_upgrade_that_waits_for_a_dependency_keeps_no_place_from_the_next() {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let serving = |chart: &'static str| {
        kinds(&server);
        World::with_events(server.clone(), Arc::new(Stub { chart, ..Stub::default() }), |settings| {
            settings.depends_on = parse(&json!([{"kind": "Secret", "name": "$(name)", "until": "exists"}])).unwrap();
            settings.max_parallel_upgrades = 1;
        })
    };
    let secret = |name: &str| format!("/api/v1/namespaces/ns/secrets/{name}");
    let world = serving("v1");
    let names = ["a", "b", "c"];
    let keys = names.map(|name| {
        world.server.put(&secret(name), json!({"metadata": {"name": name}}), "user");
        world.add("ns", name, json!({"maps": [name], "value": "x"}))
    });
    for key in &keys {
        world.reconcile_one(key).await;
    }
    let world = serving("v2");
    refuse(&world.server, "a");
    for key in &keys {
        world.reconcile_one(key).await;
    }
    world.server.remove(&secret("b"));
    world.server.accept();
    for _ in 0..6 {
        for key in &keys {
            world.reconcile_one(key).await;
        }
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    let values = names.map(|name| world.value_of(name).as_str().unwrap().to_owned());
    assert_eq!(values, ["x by v2", "x by v1", "x by v2"]);
    assert!(world.condition_of(&keys[1], "Reconciling").unwrap().starts_with("True/DependencyNotReady/"));
    world.server.put(&secret("b"), json!({"metadata": {"name": "b"}}), "user");
    world.reconcile_one(&keys[1]).await;
    assert_eq!(world.value_of("b"), "x by v2");
}

/// A chart that is fetched may change while a resource goes: the new controller never knew it.
#[tokio::test(start_paused = true)]
async fn what_an_earlier_controller_of_the_kind_registered_ends_with_the_first_list() {
    let server = new_server();
    let (path, resource) = annotated("a", &json!([]));
    server.put(&path, resource, "user");
    let world = open(server, false);
    world.reconcile_one(&ResourceKey::new("ns", "a")).await;
    let mut entry = on_memcached("a");
    entry["reverseDeletion"] = true.into();
    let wanted = resolve(&parse(&json!([entry])).unwrap(), Origin::Watch, ("ns", "gone"), &|_, _| None).unwrap();
    world.shared.dependencies.depend(&world.shared.user("ns", "gone"), wanted);
    let source = SourceKey { kind: SourceKind::Secret, namespace: "ns".into(), name: "gone".into() };
    let user = ("memcached-controller".into(), ResourceKey::new("ns", "gone"));
    world.shared.sources.depend(user, [(source, "values.yaml".into())]);
    let (_, node) = world.shared.user("ns", "a");
    world.relist(&WatchScope::namespace("other"), "other");
    assert_eq!((world.shared.dependencies.holders(&node).len(), world.shared.sources.len()), (1, 1));
    world.feed();
    assert_eq!((world.shared.dependencies.holders(&node).len(), world.shared.sources.len()), (0, 0));
}
