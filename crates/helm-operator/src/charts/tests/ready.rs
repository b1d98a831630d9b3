//! Tests of readiness and its reasons: diagnosis of pods, the no-progress limit, and the verdict of kstatus over a
//! resource's whole life.

use helm_release::kube::DriftPolicy;

use super::*;

const PODS: &str = "GET /api/v1/namespaces/ns/pods";
const EVENTS: &str = "GET /api/v1/namespaces/ns/events";
const MINUTE: Duration = Duration::from_secs(60);

/// Returns the verdict of kstatus' `Compute` on a custom resource.
fn kstatus(resource: &Value) -> &'static str {
    let (metadata, status) = (&resource["metadata"], &resource["status"]);
    if metadata["deletionTimestamp"].is_string() {
        return "Terminating";
    }
    let observed = &status["observedGeneration"];
    if observed.is_i64() && *observed != metadata["generation"] {
        return "InProgress";
    }
    let all = status["conditions"].as_array().into_iter().flatten();
    let of = |kind: &str| all.clone().find(|c| c["type"] == kind).map(|c| c["status"].as_str().unwrap());
    match (of("Reconciling"), of("Stalled"), of("Ready")) {
        (Some("True"), Some("True"), _) => "contradiction",
        (Some("True"), ..) => "InProgress",
        (_, Some("True"), _) => "Failed",
        (.., Some("True") | None) => "Current",
        _ => "InProgress",
    }
}

fn deployments() -> World {
    let world = World::new(json!({"deployments": ["web"]}));
    world.annotate_period();
    world
}

impl World {
    /// Turns off the period, so that only events and the controller's own timers cause reconciles.
    fn annotate_period(&self) {
        let annotations = json!({"helm.sdk.operatorframework.io/reconcile-period": "0"});
        self.edit(|primary| primary["metadata"]["annotations"] = annotations);
    }

    fn kstatus(&self) -> &'static str {
        kstatus(&self.server.object(PRIMARY).unwrap())
    }

    /// Sets the status of a Deployment as its controller would: one replica, `available` or not.
    fn roll_out(&self, name: &str, available: bool, reason: &str) {
        let path = format!("/apis/apps/v1/namespaces/ns/deployments/{name}");
        let mut object = self.server.object(&path).unwrap();
        let count = u8::from(available);
        object["status"] = json!({
            "replicas": 1, "updatedReplicas": 1, "readyReplicas": count, "availableReplicas": count,
            "conditions": [
                {"type": "Available", "status": if available { "True" } else { "False" }},
                {"type": "Progressing", "status": "True", "reason": reason},
            ],
        });
        self.server.put(&path, object, "controller");
    }

    /// Puts a pod of the Deployment `web` whose container waits for this reason.
    fn put_pod(&self, reason: &str) {
        let waiting = json!({"waiting": {"reason": reason, "message": "not found"}});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "labels": {"app": "web"}},
            "status": {"phase": "Pending", "containerStatuses": [{"name": "app", "image": "reg/app:1", "state": waiting}]},
        });
        self.server.put("/api/v1/namespaces/ns/pods/web-1", pod, "kubelet");
    }

    /// Returns `Ready`, without its message when it is true.
    fn ready(&self) -> String {
        let condition = self.condition("Ready").unwrap();
        if condition.starts_with("True/") { self.state("Ready") } else { condition }
    }

    fn looks(&self) -> usize {
        self.server.log().iter().filter(|request| *request == PODS).count()
    }

    fn event_lists(&self) -> usize {
        self.server.log().iter().filter(|request| *request == EVENTS).count()
    }
}

const UNAVAILABLE: &str = "False/Progressing/Deployment \"web\" is not ready: 0 of 1 replicas are available";

#[tokio::test(start_paused = true)]
async fn after_ten_seconds_the_message_names_pod_container_and_reason() {
    let world = deployments();
    world.work_for(SECOND).await;
    assert_eq!(world.ready(), "False/Progressing/Deployment \"web\" is not ready: 0 of 1 replicas are created");
    world.roll_out("web", false, "NewReplicaSetCreated");
    world.put_pod("ErrImagePull");
    world.work_for(8 * SECOND).await;
    assert_eq!(world.looks(), 0, "most roll-outs are over by then");
    world.work_for(3 * SECOND).await;
    let cause = "pod \"web-1\": container \"app\" cannot pull image \"reg/app:1\": ErrImagePull: not found";
    assert_eq!(world.ready(), format!("{UNAVAILABLE}: {cause}"));
    assert_eq!(world.condition("Reconciling").unwrap(), world.ready().replacen("False", "True", 1));
    let looks = world.looks();
    world.work_for(60 * MINUTE).await;
    assert!((12..=18).contains(&(world.looks() - looks)), "{} looks in an hour", world.looks() - looks);

    world.roll_out("web", true, "NewReplicaSetAvailable");
    world.work_for(SECOND).await;
    assert_eq!((world.ready().as_str(), world.condition("Reconciling")), ("True/Ready", None));
    let requests = world.server.log().len();
    world.work_for(60 * MINUTE).await;
    assert_eq!(world.server.log().len(), requests, "a ready release costs nothing");
}

#[tokio::test(start_paused = true)]
async fn events_are_listed_only_where_nothing_else_explains() {
    let world = deployments();
    world.work_for(SECOND).await;
    world.roll_out("web", false, "NewReplicaSetCreated");
    world.work_for(5 * MINUTE).await;
    assert!(world.looks() > 2 && world.event_lists() == 0, "no pod: a condition of the Deployment would tell why");
    world.put_pod("ErrImagePull");
    world.work_for(10 * MINUTE).await;
    assert_eq!(world.event_lists(), 0, "the pod says why");
    world.put_pod("ContainerCreating");
    world.work_for(10 * MINUTE).await;
    assert!(world.event_lists() > 0, "only an event says what the pod waits for");
}

#[tokio::test(start_paused = true)]
async fn looks_rest_nineteen_times_as_long_as_one_took() {
    let world = deployments();
    world.work_for(SECOND).await;
    world.roll_out("web", false, "NewReplicaSetCreated");
    world.put_pod("ContainerCreating");
    world.server.slow_down(SECOND);
    world.work_for(16 * SECOND).await;
    assert_eq!((world.looks(), world.event_lists()), (1, 1));
    world.server.slow_down(Duration::ZERO);
    world.work_for(32 * SECOND).await;
    assert_eq!((world.looks(), world.event_lists()), (1, 1), "its three requests took three seconds");
    world.work_for(35 * SECOND).await;
    assert_eq!((world.looks(), world.event_lists()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn without_permission_the_objects_own_conditions_have_to_do() {
    let world = deployments();
    world.server.refuse(|call| call.path.contains("/pods").then(|| Error::from_status(403, "Forbidden", "no")));
    world.put_pod("ErrImagePull");
    world.work_for(SECOND).await;
    world.roll_out("web", false, "NewReplicaSetCreated");
    world.work_for(9 * MINUTE).await;
    assert_eq!((world.ready().as_str(), world.looks()), (UNAVAILABLE, 1));
    world.work_for(30 * MINUTE).await;
    assert!((2..=4).contains(&world.looks()), "{} looks", world.looks());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_stops_moving_is_stalled_until_something_moves() {
    let world =
        World::with_events(World::new(json!({"deployments": ["web"]})).server, Arc::new(Stub::default()), |_| {});
    world.annotate_period();
    world.work_for(SECOND).await;
    world.roll_out("web", false, "NewReplicaSetCreated");
    world.work_for(9 * MINUTE).await;
    assert_eq!((world.kstatus(), world.condition("Stalled")), ("InProgress", None));
    world.work_for(5 * MINUTE).await;
    let stalled = UNAVAILABLE.replace("False/Progressing/", "True/ProgressTimeout/");
    assert_eq!((world.kstatus(), world.condition("Stalled").unwrap()), ("Failed", stalled.clone()));
    assert_eq!(world.ready(), stalled.replacen("True", "False", 1));
    let timeouts = || events(&world.server).into_iter().filter(|event| event["reason"] == "ProgressTimeout").count();
    world.work_for(60 * MINUTE).await;
    assert_eq!(timeouts(), 1);

    // A restart keeps it, and a change of the object ends it.
    let world = World::on(world.server.clone());
    world.work_for(20 * MINUTE).await;
    assert_eq!(world.condition("Stalled").unwrap(), stalled);
    world.roll_out("web", false, "ReplicaSetUpdated");
    world.work_for(6 * MINUTE).await;
    assert_eq!((world.kstatus(), world.condition("Stalled")), ("InProgress", None));
    world.work_for(10 * MINUTE).await;
    assert_eq!(world.kstatus(), "Failed", "and it stalls again");
    world.roll_out("web", true, "NewReplicaSetAvailable");
    world.work_for(SECOND).await;
    assert_eq!((world.kstatus(), world.condition("Stalled")), ("Current", None));
}

#[tokio::test(start_paused = true)]
async fn a_release_stalls_only_once_the_server_says_that_its_objects_are_as_they_were() {
    let world = deployments();
    world.work_for(SECOND).await;
    world.roll_out("web", false, "NewReplicaSetCreated");
    world.work_for(SECOND).await;
    world.server.refuse(|call| {
        let reads = call.method == http::Method::GET && call.path.ends_with("/deployments/web");
        reads.then(|| Error::from_status(500, "InternalError", "no answer"))
    });
    world.work_for(35 * MINUTE).await;
    assert_eq!((world.kstatus(), world.condition("Stalled")), ("InProgress", None));
    world.server.accept();
    world.work_for(11 * MINUTE).await;
    assert_eq!((world.kstatus(), world.state("Stalled").as_str()), ("Failed", "True/ProgressTimeout"));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_does_not_hide_that_another_stalls() {
    let world = World::new(json!({"deployments": ["a", "web"]}));
    world.annotate_period();
    world.work_for(SECOND).await;
    world.server.refuse(|call| {
        let reads = call.method == http::Method::GET && call.path.ends_with("/deployments/a");
        reads.then(|| Error::from_status(503, "ServiceUnavailable", "no answer"))
    });
    world.work_for(15 * MINUTE).await;
    assert_eq!((world.kstatus(), world.state("Stalled").as_str()), ("Failed", "True/ProgressTimeout"));
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_that_no_watch_covers_does_not_become_ready_by_being_asked_for() {
    let server = World::new(json!({"deployments": ["web"]})).server;
    let world = World::unwatched(server, |settings| settings.watch_dependent_resources = false);
    world.annotate_period();
    world.work_for(SECOND).await;
    assert_eq!(world.state("Ready"), "False/Progressing");
    world.server.remove("/apis/apps/v1/namespaces/ns/deployments/web");
    world.work_for(15 * MINUTE).await;
    assert_eq!((world.kstatus(), world.state("Stalled").as_str()), ("Failed", "True/ProgressTimeout"));
    assert_eq!(world.state("Ready"), "False/ProgressTimeout");
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_nothing_stalls() {
    let server = World::new(json!({"deployments": ["web"]})).server;
    let change = |settings: &mut Settings| settings.progress_timeout = Duration::ZERO;
    let world = World::with_events(server, Arc::new(Stub::default()), change);
    world.work_for(600 * MINUTE).await;
    assert_eq!((world.kstatus(), world.condition("Stalled")), ("InProgress", None));
}

#[tokio::test(start_paused = true)]
async fn kstatus_judges_a_resource_right_over_its_whole_life() {
    let world = deployments();
    world.work_for(SECOND).await;
    assert_eq!(world.kstatus(), "InProgress", "installing");
    world.roll_out("web", true, "NewReplicaSetAvailable");
    world.work_for(SECOND).await;
    assert_eq!(world.kstatus(), "Current", "ready");

    world.edit(|primary| primary["spec"]["maps"] = json!(["a"]));
    assert_eq!(world.kstatus(), "InProgress", "the new generation is not observed");
    world.roll_out("web", false, "ReplicaSetUpdated");
    world.work_for(SECOND).await;
    assert_eq!(world.kstatus(), "InProgress", "upgrading");
    world.roll_out("web", true, "NewReplicaSetAvailable");
    world.work_for(SECOND).await;
    assert_eq!(world.kstatus(), "Current", "upgraded");

    world.roll_out("web", false, "ProgressDeadlineExceeded");
    world.work_for(SECOND).await;
    assert_eq!(world.kstatus(), "Failed", "an object failed");
    world.roll_out("web", true, "NewReplicaSetAvailable");
    world.work_for(SECOND).await;
    assert_eq!(world.kstatus(), "Current", "it recovered");

    world.edit(|primary| primary["spec"]["broken"] = true.into());
    world.work_for(SECOND).await;
    assert_eq!(world.kstatus(), "Failed", "only a change helps");
    world.edit(|primary| primary["spec"]["broken"] = false.into());
    world.work_for(SECOND).await;
    assert_eq!(world.kstatus(), "Current", "corrected");

    world.server.fail_after(None);
    world.server.refuse(|call| {
        let is_map = call.path.contains("/configmaps") && call.method != http::Method::GET;
        is_map.then(|| Error::from_status(500, "InternalError", "etcd is down"))
    });
    world.edit(|primary| primary["spec"]["value"] = "2".into());
    world.work_for(10 * SECOND).await;
    assert_eq!(world.kstatus(), "InProgress", "retrying");
    world.server.accept();
    world.work_for(10 * MINUTE).await;
    world.roll_out("web", true, "NewReplicaSetAvailable");
    world.work_for(SECOND).await;
    assert_eq!(world.kstatus(), "Current", "it went through: {}", world.ready());

    world.delete();
    assert_eq!(world.kstatus(), "Terminating");
    world.work_for(SECOND).await;
    assert_eq!(world.server.object(PRIMARY), None);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_resource_is_neither_reconciling_nor_stalled() {
    let world = deployments();
    world.work_for(SECOND).await;
    world.edit(|primary| primary["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/suspend": "true"}));
    world.work_for(SECOND).await;
    assert_eq!((world.condition("Reconciling"), world.condition("Stalled")), (None, None));
    let requests = world.server.log().len();
    world.work_for(60 * MINUTE).await;
    assert_eq!(world.server.log().len(), requests);
}

/// Creates a controller whose watch has these expressions.
fn expressing(server: Arc<MemoryApi>, expressions: &str) -> World {
    let watch = crate::watches::parse(&format!("- version: v1\n  kind: Memcached\n{expressions}"), |_| None);
    let expressions = Arc::new(watch.unwrap().watches.remove(0).expressions);
    World::with_events(server, Arc::new(Stub::default()), |settings| settings.expressions = expressions)
}

impl World {
    fn status(&self, field: &str) -> Value {
        self.server.object(PRIMARY).unwrap()["status"][field].clone()
    }

    /// Sets a field in the status of the Deployment `web`.
    fn report(&self, field: &str, value: Value) {
        let path = "/apis/apps/v1/namespaces/ns/deployments/web";
        let mut object = self.server.object(path).unwrap();
        object["status"][field] = value;
        self.server.put(path, object, "controller");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_of_watches_yaml_replaces_those_of_kstatus() {
    let rule = "  readiness:
  - {group: apps, kind: Deployment, ready: \"self.status.phase == 'Up'\", failed: \"self.status.?phase.orValue('') == 'Down'\",
     message: \"'its phase is ' + self.status.phase\"}\n";
    let world = expressing(deployments().server, rule);
    world.work_for(15 * SECOND).await;
    let text = "False/Progressing/Deployment \"web\" is not ready: the rule \"failed\" of watches.yaml fails: no such key: status";
    assert_eq!(world.ready(), text);
    world.report("phase", "Starting".into());
    world.work_for(15 * SECOND).await;
    assert_eq!(world.ready(), "False/Progressing/Deployment \"web\" is not ready: its phase is Starting");
    world.report("phase", "Down".into());
    world.work_for(SECOND).await;
    assert_eq!(
        (world.ready().as_str(), world.kstatus()),
        ("False/Failed/Deployment \"web\" failed: its phase is Down", "Failed")
    );
    world.report("phase", "Up".into());
    world.work_for(SECOND).await;
    assert_eq!(world.ready(), "True/Ready");
    // After an upgrade, the new object counts only once a watch has delivered it.
    world.edit(|primary| primary["spec"]["maps"] = json!(["a"]));
    world.work_for(SECOND).await;
    assert_eq!(world.ready(), "True/Ready");
}

#[tokio::test(start_paused = true)]
async fn the_status_says_nothing_of_an_object_that_belongs_to_another_resource() {
    let watch = "- version: v1\n  kind: Memcached\n  status: {replicas: objects.Deployment.web.status.readyReplicas}\n";
    let expressions = Arc::new(crate::watches::parse(watch, |_| None).unwrap().watches.remove(0).expressions);
    let world = World::with_events(deployments().server, Arc::new(Stub::default()), |settings| {
        (settings.expressions, settings.drift.policy) = (expressions, DriftPolicy::Off);
    });
    world.work_for(SECOND).await;
    world.roll_out("web", true, "NewReplicaSetAvailable");
    world.work_for(SECOND).await;
    assert_eq!((world.ready().as_str(), world.status("replicas")), ("True/Ready", json!(1)));
    let path = "/apis/apps/v1/namespaces/ns/deployments/web";
    let mut object = world.server.object(path).unwrap();
    object["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "name": "two", "uid": "u2", "controller": true},
    ]);
    world.server.put(path, object, "someone");
    world.roll_out("web", false, "ReplicaSetUpdated");
    world.report("readyReplicas", 5.into());
    world.reconcile().await;
    assert_eq!((world.ready().as_str(), world.status("replicas")), ("True/Ready", json!(1)));
}

#[tokio::test(start_paused = true)]
async fn status_fields_follow_the_objects_and_are_written_only_when_they_change() {
    let fields = "  status:
    replicas: objects.Deployment.web.status.readyReplicas
    endpoint: self.metadata.name + '.' + self.metadata.namespace
    names: objects.Deployment.map(name, name)\n";
    let world = expressing(deployments().server, fields);
    world.work_for(SECOND).await;
    assert_eq!((world.status("replicas"), world.status("endpoint")), (Value::Null, json!("web.ns")));
    world.roll_out("web", true, "NewReplicaSetAvailable");
    world.work_for(SECOND).await;
    assert_eq!((world.status("replicas"), world.status("names")), (json!(1), json!(["web"])));
    assert_eq!(world.ready(), "True/Ready");
    world.report("readyReplicas", 5.into());
    world.work_for(SECOND).await;
    assert_eq!(world.status("replicas"), 5);

    let requests = world.server.log().len();
    world.report("unrelated", 1.into());
    world.work_for(60 * MINUTE).await;
    assert_eq!(world.server.log().len(), requests, "the fields are the same");
    let world = expressing(world.server, fields);
    world.work_for(MINUTE).await;
    assert_eq!(world.server.log().len(), requests, "a restart changes nothing");

    // A field that can no longer be computed keeps its value, which is reported once.
    world.report("readyReplicas", Value::Null);
    world.report("availableReplicas", 1.into());
    let path = "/apis/apps/v1/namespaces/ns/deployments/web";
    let mut object = world.server.object(path).unwrap();
    object["status"].as_object_mut().unwrap().remove("readyReplicas");
    object["spec"]["replicas"] = 0.into();
    object["status"]["replicas"] = 0.into();
    object["status"]["updatedReplicas"] = 0.into();
    world.server.put(path, object, "controller");
    world.work_for(10 * MINUTE).await;
    assert_eq!((world.ready().as_str(), world.status("replicas")), ("True/Ready", json!(5)));
    let failures =
        || events(&world.server).into_iter().filter(|event| event["reason"] == "StatusExpressionError").count();
    assert_eq!(failures(), 1);
    assert_eq!(world.condition("Deployed").unwrap().split('/').next(), Some("True"));
}

/// Refuses the computed field `hosts` of the first resource, as a server whose schema has a list there does, and quotes its
/// value.
fn refuse_hosts(world: &World, hosts: &str) {
    let why = format!(
        "failed to create typed patch object (ns/web; cache.my.domain/v1, Kind=Memcached): .status.hosts: expected list, got &{{{hosts}}}"
    );
    world.server.refuse(move |call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_refused = call.path.contains("/ns/memcacheds/web/status?") && body.contains("\"hosts\"");
        is_refused.then(|| Error::from_status(500, "", &why))
    });
}

#[tokio::test(start_paused = true)]
async fn a_computed_value_that_the_schema_rejects_costs_no_resource_the_rest_of_its_status() {
    let fields = [".status", ".status.conditions", ".status.deployedRelease"];
    let faults = fields.map(|field| format!("  {field}: field not declared in schema\n"));
    let hosts = format!("x\n{}  y", faults.concat());
    let server = World::new(json!({"maps": ["a"], "value": "1", "hosts": hosts})).server;
    let world = expressing(server, "  status: {hosts: self.spec.hosts}\n");
    refuse_hosts(&world, &hosts);
    let other = world.add("shop", "web", json!({"maps": ["a"], "value": "1", "hosts": ["b"]}));
    world.reconcile().await;
    world.reconcile_one(&other).await;
    let there = "/apis/cache.my.domain/v1/namespaces/shop/memcacheds/web";
    for (path, hosts) in [(PRIMARY, Value::Null), (there, json!(["b"]))] {
        let status = world.server.object(path).unwrap()["status"].take();
        assert_eq!((&status["hosts"], &status["deployedRelease"]["name"]), (&hosts, &json!("web")), "{status}");
        assert!(
            status["conditions"].as_array().is_some_and(|all| all.iter().any(|c| c["type"] == "Ready")),
            "{status}"
        );
    }
    let published = super::reporting::published(&world).await;
    let said = published.iter().filter(|event| event.contains(" StatusExpressionError ")).collect::<Vec<_>>();
    assert!(matches!(said[..], [one] if one.ends_with("none of them is written: .status.hosts")), "{published:?}");
    assert_eq!(world.requests().await, 0, "the same status is not sent again");
    // The definition is corrected.
    world.server.accept();
    tokio::time::advance(Duration::from_secs(601)).await;
    world.reconcile().await;
    assert_eq!(world.server.object(PRIMARY).unwrap()["status"]["hosts"], hosts);
}
