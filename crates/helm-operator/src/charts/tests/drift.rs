//! Tests of drift policies, and of fields that others own.

use helm_release::kube::{DriftPolicy, IgnoreRule, ObjectRule, Pointer};

use super::reporting::published;
use super::*;

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/ns/deployments/web";
const POLICY: &str = "helm.sdk.operatorframework.io/drift";

/// Creates a controller with this policy, after the install.
async fn world(spec: Value, policy: DriftPolicy) -> World {
    let server = World::new(spec).server;
    let world = World::with_events(server, Arc::new(Stub::default()), |settings| settings.drift.policy = policy);
    world.reconcile().await;
    // The event of the install.
    published(&world).await;
    world
}

fn change(world: &World, name: &str, value: &str, manager: &str) {
    let path = format!("{MAPS}/{name}");
    let mut object = world.server.object(&path).unwrap();
    object["data"]["value"] = value.into();
    world.server.put(&path, object, manager);
}

async fn detected(world: &World) -> Vec<String> {
    published(world).await.into_iter().filter(|event| event.contains("DriftDetected")).collect()
}

async fn corrected(world: &World) -> Vec<String> {
    published(world).await.into_iter().filter(|event| event.contains("DriftCorrected")).collect()
}

const NOTHING: &str = "; the drift policy is detect, so nothing is repaired";

#[tokio::test(start_paused = true)]
async fn detected_drift_is_reported_once_and_never_repaired() {
    let world = world(spec(), DriftPolicy::Detect).await;
    change(&world, "b", "s3cret", "kubectl");
    let writes = world.server.writes();
    world.reconcile().await;
    let text = "kubectl changed .data.value of ConfigMap \"b\"";
    assert_eq!(world.condition("Drifted").unwrap(), format!("True/DriftDetected/{text}{NOTHING}"));
    assert_eq!(world.state("Ready"), "True/Ready");
    assert_eq!(detected(&world).await, [format!("Warning DriftDetected x1: {text}")]);
    assert_eq!(world.server.writes(), writes + 2, "the status and the event");
    assert_eq!((world.value_of("b"), world.requests().await), (json!("s3cret"), 0));

    let restarted = World::with_events(world.server.clone(), Arc::new(Stub::default()), |settings| {
        settings.drift.policy = DriftPolicy::Detect;
    });
    restarted.reconcile().await;
    assert_eq!(detected(&restarted).await.len(), 1, "a restart reports nothing twice");

    change(&world, "b", "1", "kubectl");
    change(&world, "a", "2", "someone");
    world.server.remove(&format!("{MAPS}/c"));
    world.reconcile().await;
    let texts = format!("someone changed .data.value of ConfigMap \"a\"; {text}; ConfigMap \"c\" is gone{NOTHING}");
    assert_eq!(world.condition("Drifted").unwrap(), format!("True/DriftDetected/{texts}"), "b is not ours any more");
    assert_eq!(detected(&world).await.len(), 3);
    assert!(!format!("{:?}", published(&world).await).contains("s3cret"));

    world.edit(|p| p["spec"]["value"] = "3".into());
    world.reconcile().await;
    assert_eq!((world.condition("Drifted"), world.maps().len()), (None, 3), "an upgrade applies everything");
    change(&world, "b", "4", "kubectl");
    world.reconcile().await;
    let text = format!("Warning DriftDetected x2: {text}");
    assert!(detected(&world).await.contains(&text), "new drift is a new event");
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_managed_fields_someone_has_removed_has_drifted() {
    for policy in [DriftPolicy::Repair, DriftPolicy::Detect] {
        let world = world(spec(), policy).await;
        change(&world, "b", "mine", "kubectl");
        let path = format!("{MAPS}/b");
        let mut live = world.server.object(&path).unwrap();
        live["metadata"]["managedFields"] = json!([]);
        let uid = live["metadata"]["uid"].clone();
        world.server.restore(&path, live);
        world.reconcile().await;
        let is_repaired = policy == DriftPolicy::Repair;
        assert_eq!(world.value_of("b"), if is_repaired { "1" } else { "mine" });
        assert_eq!(world.server.object(&path).unwrap()["metadata"]["uid"], uid);
        assert_eq!(world.condition("Drifted").is_none(), is_repaired);
        assert_eq!(detected(&world).await.len(), usize::from(!is_repaired));
        assert_eq!((world.requests().await, world.condition("Irreconcilable")), (0, None), "once");
    }
}

#[tokio::test(start_paused = true)]
async fn drift_that_is_switched_off_is_neither_read_nor_reported() {
    let world = world(spec(), DriftPolicy::Off).await;
    change(&world, "b", "mine", "kubectl");
    assert_eq!(world.requests().await, 0);
    assert_eq!((world.condition("Drifted"), world.value_of("b")), (None, json!("mine")));
}

#[tokio::test(start_paused = true)]
async fn a_restart_undoes_drift_in_a_release_with_too_many_objects_for_its_marks_whatever_the_policy() {
    for policy in [DriftPolicy::Detect, DriftPolicy::Off] {
        let world = world(spec(), policy).await;
        change(&world, "b", "mine", "kubectl");
        omit_objects(&world.server, 1);
        let set = |settings: &mut Settings| settings.drift.policy = policy;
        let world = World::with_events(world.server, Arc::new(Stub::default()), set);
        world.reconcile().await;
        assert_eq!((world.value_of("b"), world.history()), (json!("1"), vec!["1 deployed".to_owned()]), "{policy:?}");
        assert_eq!((world.condition("Drifted"), detected(&world).await), (None, vec![]), "{policy:?}");
        assert_eq!(corrected(&world).await, Vec::<String>::new(), "nobody says so: {policy:?}");
        // Until the next restart, the policy counts.
        change(&world, "b", "mine", "kubectl");
        world.reconcile().await;
        assert_eq!(world.value_of("b"), "mine", "{policy:?}");
        assert_eq!(world.condition("Drifted").is_some(), policy == DriftPolicy::Detect);
    }
}

#[tokio::test(start_paused = true)]
async fn the_rules_of_an_aggregated_role_are_no_drift_and_stay() {
    const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/all";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "all"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"in": "all"}}]}, "rules": [],
    });
    let mut labelled = role.clone();
    labelled["metadata"]["labels"] = json!({"new": "true"});
    let mut spec = spec();
    spec["objects"] = json!([role]);
    let world = world(spec, DriftPolicy::Repair).await;
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let mut live = world.server.object(ROLE).unwrap();
    live["rules"] = rules.clone();
    world.server.put(ROLE, live, "clusterrole-aggregation-controller");
    assert_eq!(world.requests().await, 0);
    let now = || world.server.object(ROLE).unwrap();
    assert_eq!(now()["rules"], rules);
    for change in [json!({"value": "2"}), json!({"objects": [labelled]})] {
        world.edit(|p| p["spec"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone()));
        world.reconcile().await;
        assert_eq!((world.state("Ready"), now()["rules"].clone()), ("True/Ready".to_owned(), rules.clone()));
    }
    assert_eq!(now()["metadata"]["labels"]["new"], "true", "an upgrade has applied it");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_that_is_rendered_with_two_namespaces_is_one_object_and_no_drift() {
    const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/all";
    let role = |metadata: Value, verb: &str| {
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules})
    };
    let mut spec = spec();
    spec["objects"] =
        json!([role(json!({"name": "all", "namespace": "elsewhere"}), "delete"), role(json!({"name": "all"}), "get")]);
    let world = world(spec, DriftPolicy::Repair).await;
    let live = || world.server.object(ROLE).unwrap();
    let installed = live();
    assert_eq!(installed["rules"][0]["verbs"], json!(["get"]));
    let events = published(&world).await;
    let duplicates: Vec<_> = events.iter().filter(|event| event.contains("DuplicateObject")).collect();
    assert!(matches!(&duplicates[..], [one] if one.contains("ClusterRole \"all\"")), "{events:#?}");
    assert_eq!(world.requests().await, 0);
    // The chart renders the same.
    world.edit(|p| p["spec"]["unused"] = 1.into());
    world.reconcile().await;
    assert_eq!((world.history(), live()), (vec!["1 deployed".to_owned()], installed));
    let restarted = World::on(world.server.clone());
    assert_eq!((restarted.requests().await, restarted.condition("Irreconcilable")), (0, None));
}

#[tokio::test(start_paused = true)]
async fn the_most_specific_policy_wins() {
    let map = |name: &str, policy: &str| {
        let metadata = json!({"name": name, "annotations": {POLICY: policy}});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": "1"}})
    };
    let mut spec = spec();
    spec["objects"] = json!([map("r", "repair"), map("d", "detect"), map("o", "off")]);
    let world = world(spec, DriftPolicy::Off).await;
    for name in ["a", "r", "d", "o"] {
        change(&world, name, "mine", "kubectl");
    }
    world.reconcile().await;
    let values = || ["a", "r", "d", "o"].map(|name| world.value_of(name) == "1");
    assert_eq!(values(), [false, true, false, false]);
    let only = format!("True/DriftDetected/kubectl changed .data.value of ConfigMap \"d\"{NOTHING}");
    assert_eq!(world.condition("Drifted").unwrap(), only);
    world.edit(|p| p["metadata"]["annotations"] = json!({POLICY: "repair"}));
    world.reconcile().await;
    assert_eq!(values(), [true, true, false, false]);
    assert_eq!(world.condition("Drifted").unwrap(), only);
    world.edit(|p| p["metadata"]["annotations"] = json!({POLICY: "mend"}));
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/InvalidAnnotation/"));
}

#[tokio::test(start_paused = true)]
async fn objects_that_went_with_their_kind_are_not_ready_until_it_is_back() {
    let world = World::new(spec());
    world.reconcile().await;
    let maps = world.maps();
    maps.iter().for_each(|map| world.server.remove(&format!("{MAPS}/{map}")));
    world.server.unserve("v1", "ConfigMap");
    assert_eq!(world.reconcile().await, ReconcileResult::Error, "its watch still runs");
    let assert_cannot = |verb: &str| {
        let why = "no matches for kind \"ConfigMap\" in version \"v1\"";
        assert_eq!(
            world.condition("Irreconcilable").unwrap(),
            format!("True/ReconcileError/cannot {verb} ConfigMap \"a\": {why}")
        );
    };
    assert_cannot("apply");
    tokio::time::advance(SECOND).await;
    assert_eq!(world.reconcile().await, ReconcileResult::Error, "discovery has run again");
    assert_cannot("repair");

    let watch = Dependents(world.shared.clone(), Arc::new(config_maps()), 1);
    let alone = async || {
        tokio::time::advance(60 * SECOND).await;
        reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await
    };
    watch.lost(&WatchScope::namespace("other"));
    assert_eq!(alone().await, ReconcileResult::Error, "another namespace's watch has failed");
    watch.lost(&WatchScope::ALL);
    assert_ne!(alone().await, ReconcileResult::Error);
    assert_eq!(world.condition("Irreconcilable"), None);
    let expected = "False/Progressing/ConfigMap \"a\" is not ready: the server does not serve its kind";
    assert!(world.condition("Ready").unwrap().starts_with(expected), "{:?}", world.condition("Ready"));

    world.server.accept();
    world.server.serve("v1", "ConfigMap", "configmaps");
    world.reconcile().await;
    assert_eq!((world.maps(), world.state("Ready")), (maps, "True/Ready".to_owned()));
}

/// The paths of a Gear, in a namespace and without one.
const GEARS: [&str; 2] = ["/apis/x.y/v1/namespaces/ns/gears/g", "/apis/x.y/v1/gears/g"];

/// Feeds the result of a new list of Gears, which are served in the scope of this path.
fn feed_gears(world: &World, at: usize) {
    let kind = Resource { namespaced: at == 0, ..resource("x.y/v1", "Gear", "gears") };
    let gears = Dependents(world.shared.clone(), Arc::new(kind), 1);
    let number = world.lists.fetch_add(1, Ordering::Relaxed) + 1;
    let epoch = Epoch { number, began: Instant::now(), is_list: true };
    if let Some(mut gear) = world.server.object(GEARS[at]) {
        gear["metadata"]["namespace"] = if at == 0 { "ns".into() } else { Value::Null };
        gears.changed(live(gear), epoch);
    }
    gears.sweep(&WatchScope::ALL, epoch);
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_kind_changed_its_scope_is_made_once_and_stays_until_the_release_goes() {
    for from in [0, 1] {
        let (gear, to) = (json!({"apiVersion": "x.y/v1", "kind": "Gear", "metadata": {"name": "g"}}), 1 - from);
        let server = World::new(json!({"maps": ["b"], "value": "1", "objects": [gear]})).server;
        let serve = |at: usize| match at {
            0 => server.serve("x.y/v1", "Gear", "gears"),
            _ => server.serve_cluster_scoped("x.y/v1", "Gear", "gears"),
        };
        serve(from);
        let world = World::on(server.clone());
        world.reconcile().await;
        feed_gears(&world, from);
        assert!(server.object(GEARS[from]).is_some());
        // Its definition goes, and with it all Gears.
        server.remove(GEARS[from]);
        serve(to);
        server.refuse(move |call| {
            let is_gone = call.path.starts_with(GEARS[from]);
            is_gone.then(|| Error::from_status(404, "", "404 page not found"))
        });
        for _ in 0..3 {
            feed_gears(&world, to);
            world.reconcile().await;
            tokio::time::advance(600 * SECOND).await;
        }
        feed_gears(&world, to);
        let uid = || server.object(GEARS[to]).map(|gear| gear["metadata"]["uid"].clone());
        let made = uid();
        assert!(made.is_some(), "{:#?}", server.log());
        assert_eq!((world.condition("Irreconcilable"), world.requests().await), (None, 0));
        world.edit(|p| p["spec"]["value"] = "2".into());
        world.reconcile().await;
        assert_eq!((uid(), world.value_of("b")), (made, json!("2")), "{:#?}", server.log());
        world.delete();
        world.reconcile().await;
        assert_eq!((uid(), server.object(PRIMARY)), (None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_watched_any_more_is_not_known_to_be_gone() {
    let world = World::new(spec());
    world.reconcile().await;
    let watch = Dependents(world.shared.clone(), Arc::new(config_maps()), 1);
    watch.lost(&WatchScope::ALL);
    assert!(!world.shared.cache.is_synced(&object_key("ConfigMap", "a")));
    world.server.remove(&format!("{MAPS}/a"));
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    assert_eq!((world.maps(), world.state("Ready")), (vec!["b".into(), "c".into()], "True/Ready".into()));
    world.reconcile().await;
    assert_eq!(world.maps(), ["a", "b", "c"], "the rights are back");
}

#[tokio::test(start_paused = true)]
async fn drift_that_cannot_be_read_backs_off() {
    let world = world(spec(), DriftPolicy::Detect).await;
    change(&world, "b", "mine", "kubectl");
    world.server.refuse(|call| {
        (call.method == http::Method::GET && call.path.contains("configmaps/b"))
            .then(|| Error::from_status(503, "", "away"))
    });
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    assert_eq!(world.condition("Irreconcilable").unwrap(), "True/Unanswered/cannot read ConfigMap \"b\": away");
    assert_eq!(world.requests().await, 0);
    world.server.accept();
    tokio::time::advance(SECOND).await;
    world.reconcile().await;
    assert_eq!(world.condition("Irreconcilable"), None);
    assert!(world.condition("Drifted").is_some());
}

/// Returns the Deployment `web` with one replica.
fn deployment(image: &str) -> Value {
    let spec = json!({"replicas": 1, "image": image});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_server_refuses_to_repair_keeps_no_other_from_it() {
    let mut spec = spec();
    spec["objects"] = json!([deployment("a")]);
    let world = world(spec, DriftPolicy::Repair).await;
    world.server.refuse(|call| {
        let is_write = call.method == http::Method::PATCH && call.path.contains("configmaps/b");
        is_write.then(|| Error::from_status(422, "Invalid", "no"))
    });
    change(&world, "b", "mine", "kubectl");
    world.server.remove(DEPLOYMENT);
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    let uid = || world.server.object(DEPLOYMENT).unwrap()["metadata"]["uid"].clone();
    let made = uid();
    tokio::time::advance(600 * SECOND).await;
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    let fault = world.condition("Irreconcilable").unwrap();
    assert!(fault.starts_with("True/ReconcileError/cannot apply ConfigMap \"b\""), "{fault}");
    assert_eq!((uid(), world.value_of("b")), (made, json!("mine")));
    let events = corrected(&world).await;
    assert!(events.len() == 1 && events[0].contains("x1: repaired Deployment \"web\" (it was gone)"), "{events:?}");

    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/reconcile-now": "1"}));
    world.server.remove(DEPLOYMENT);
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    assert!(world.server.object(DEPLOYMENT).is_some(), "everything is applied again");
    let (events, said) = (corrected(&world).await, "x1: repaired Deployment \"web\"");
    assert!(events.iter().any(|event| event.ends_with(said)), "{events:?}");
    world.server.accept();
    tokio::time::advance(600 * SECOND).await;
    world.reconcile().await;
    assert_eq!((world.value_of("b"), world.condition("Irreconcilable")), (json!("1"), None));
}

#[tokio::test(start_paused = true)]
async fn objects_that_are_applied_again_without_a_change_are_not_reported_as_repaired() {
    let world = world(spec(), DriftPolicy::Detect).await;
    let apply_again = async |token: &str| {
        let before = world.server.log().len();
        world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/reconcile-now": token}));
        world.reconcile().await;
        let is_apply = |line: &&String| line.starts_with(&format!("PATCH {MAPS}/"));
        assert_eq!(world.server.log()[before..].iter().filter(is_apply).count(), 3);
        corrected(&world).await
    };
    assert_eq!(apply_again("1").await, [""; 0]);
    change(&world, "b", "mine", "kubectl");
    assert_eq!(apply_again("2").await, ["Normal DriftCorrected x1: repaired ConfigMap \"b\""]);
    assert_eq!(world.value_of("b"), "1");
}

/// Reconciles once a second for a minute, while someone changes `b` back each time. Returns how often `b` was repaired.
async fn fight(world: &World) -> usize {
    let before = world.server.log().len();
    for _ in 0..60 {
        change(world, "b", "theirs", "fighter");
        world.reconcile().await;
        tokio::time::advance(SECOND).await;
    }
    world.server.log()[before..].iter().filter(|line| line.starts_with(&format!("PATCH {MAPS}/b"))).count()
}

const FIGHT: &str = "True/DriftLoop/fighter keeps changing .data.value of ConfigMap \"b\"; release \"web\" restores them at increasing intervals";

#[tokio::test(start_paused = true)]
async fn a_fight_beside_an_object_that_the_server_refuses_to_repair_is_named_and_slowed_down() {
    let world = world(spec(), DriftPolicy::Repair).await;
    world.server.refuse(|call| {
        let is_write = call.method == http::Method::PATCH && call.path.contains("configmaps/c");
        is_write.then(|| Error::from_status(422, "Invalid", "no"))
    });
    change(&world, "c", "mine", "kubectl");
    let repairs = fight(&world).await;
    assert!(repairs <= 10, "{repairs}");
    let condition = world.condition("Irreconcilable").unwrap();
    let expected = format!("{FIGHT}; a repair also fails: cannot apply ConfigMap \"c\"");
    assert!(condition.starts_with(&expected), "{condition}");
    assert_eq!(world.value_of("c"), "mine");
}

#[tokio::test(start_paused = true)]
async fn a_fight_beside_detected_drift_that_cannot_be_read_is_named_and_slowed_down() {
    let metadata = json!({"name": "d", "annotations": {POLICY: "detect"}});
    let mut spec = spec();
    spec["objects"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": "1"}}]);
    let world = world(spec, DriftPolicy::Repair).await;
    world.server.refuse(|call| {
        let is_read = call.method == http::Method::GET && call.path.contains("configmaps/d");
        is_read.then(|| Error::from_status(503, "", "away"))
    });
    change(&world, "d", "mine", "kubectl");
    let repairs = fight(&world).await;
    assert!(repairs <= 12, "{repairs}");
    assert_eq!(world.condition("Irreconcilable").unwrap(), FIGHT);
}

/// Sets the Deployment's replicas as its autoscaler does.
fn scale(world: &World, replicas: u32) {
    let mut live = world.server.object(DEPLOYMENT).unwrap();
    live["spec"]["replicas"] = replicas.into();
    world.server.put(DEPLOYMENT, live, "kube-controller-manager");
    let mut live = world.server.object(DEPLOYMENT).unwrap();
    for entry in live["metadata"]["managedFields"].as_array_mut().unwrap() {
        if entry["manager"] == "kube-controller-manager" {
            entry["subresource"] = "scale".into();
        }
    }
    world.server.restore(DEPLOYMENT, live);
}

/// Returns a release with a changed ConfigMap, and a Deployment of which only a read shows whether it has drifted.
async fn with_an_unread_object() -> World {
    let mut spec = spec();
    spec["objects"] = json!([deployment("a")]);
    let world = world(spec, DriftPolicy::Repair).await;
    scale(&world, 3);
    change(&world, "b", "mine", "kubectl");
    world
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_keeps_no_other_from_its_repair() {
    let world = with_an_unread_object().await;
    world.server.refuse(|call| {
        let is_read = call.method == http::Method::GET && call.path.contains("/deployments/web");
        is_read.then(|| Error::from_status(403, "Forbidden", "no"))
    });
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    assert_eq!(world.value_of("b"), "1");
    let fault = world.condition("Irreconcilable").unwrap();
    assert!(fault.contains("cannot read Deployment \"web\""), "{fault}");
}

#[tokio::test(start_paused = true)]
async fn a_repair_that_loses_contact_after_another_failure_says_so() {
    let world = with_an_unread_object().await;
    world.server.refuse(|call| match (call.method.as_str(), &*call.path) {
        ("GET", path) if path.contains("/deployments/web") => Some(Error::from_status(403, "Forbidden", "no")),
        ("PATCH", path) if path.contains("/configmaps/b") => Some(Error::Transport("reset".into())),
        _ => None,
    });
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    let fault = world.condition("Irreconcilable").unwrap();
    assert!(fault.starts_with("True/Unanswered/cannot apply ConfigMap \"b\""), "{fault}");
}

/// Returns the requests of a reconcile, without discovery and without those for the resource itself, whose readiness
/// changes with the replicas.
async fn requests(world: &World) -> Vec<String> {
    let before = world.server.log().len();
    world.reconcile().await;
    let counts = |line: &&String| {
        let own = line.contains("/memcacheds/") || line.contains("/pods") || line.contains("/events");
        !own && !line.ends_with("/api") && !line.ends_with("/apis")
    };
    world.server.log()[before..].iter().filter(counts).cloned().collect()
}

const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers";

/// Creates an autoscaler of the Deployment, outside of all releases.
fn add_autoscaler(world: &World) {
    world.server.serve("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let autoscaler = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target}});
    world.server.put(&format!("{AUTOSCALERS}/web"), autoscaler, "user");
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_outside_the_release_may_scale_without_a_write_of_ours() {
    let world = world(json!({"objects": [deployment("a")]}), DriftPolicy::Repair).await;
    add_autoscaler(&world);
    scale(&world, 5);
    let looks = [format!("GET {DEPLOYMENT}"), format!("GET {AUTOSCALERS}")];
    assert_eq!(requests(&world).await, looks, "once");
    for replicas in [3, 1, 5] {
        scale(&world, replicas);
        assert_eq!(requests(&world).await, [""; 0], "{replicas}");
    }
    let restarted = World::on(world.server.clone());
    let again = requests(&restarted).await;
    assert_eq!(&again[1..], looks, "after the record, for what the chart sets");

    let mut live = world.server.object(DEPLOYMENT).unwrap();
    live["spec"]["image"] = "theirs".into();
    world.server.put(DEPLOYMENT, live, "kubectl");
    world.reconcile().await;
    assert_eq!(world.server.object(DEPLOYMENT).unwrap()["spec"], json!({"replicas": 5, "image": "a"}));
    world.edit(|p| p["spec"]["objects"] = json!([deployment("b")]));
    world.reconcile().await;
    assert_eq!(world.server.object(DEPLOYMENT).unwrap()["spec"], json!({"replicas": 5, "image": "b"}));
}

#[tokio::test(start_paused = true)]
async fn a_detected_autoscaler_is_no_drift() {
    let world = world(json!({"objects": [deployment("a")]}), DriftPolicy::Detect).await;
    add_autoscaler(&world);
    scale(&world, 5);
    world.reconcile().await;
    assert_eq!(world.condition("Drifted"), None);
    scale(&world, 1);
    assert_eq!(requests(&world).await, [""; 0]);
}

/// Returns the rule that a field of the ConfigMap `b` is ignored.
fn ignoring(pointer: &str) -> IgnoreRule {
    let objects = ObjectRule { name: Some("b".into()), ..ObjectRule::default() };
    IgnoreRule { objects, paths: vec![Pointer::parse(pointer).unwrap()] }
}

/// Creates a controller that must read `b` before it repairs it, because others may own another field of it.
fn reading_b(server: Arc<MemoryApi>, objects: ChartObjects) -> World {
    let change = |settings: &mut Settings| {
        settings.watch_dependent_resources = objects == ChartObjects::Watched;
        settings.drift.ignore = [ignoring("/data/other")].into();
    };
    let (renderer, events) = (Arc::new(Stub::default()), Events::default());
    World::start(server, renderer, events, objects, change, Acceptance::default(), Extensions::default())
}

#[tokio::test(start_paused = true)]
async fn what_helm_changed_is_put_back_wherever_a_repair_that_takes_its_fields_is_interrupted() {
    for objects in [ChartObjects::Watched, ChartObjects::Unwatched] {
        for writes in 0.. {
            let world = reading_b(World::new(spec()).server, objects);
            world.reconcile().await;
            change(&world, "b", "mine", "helm");
            tokio::time::advance(60 * SECOND).await;
            world.server.fail_after(Some(writes));
            world.reconcile().await;
            let died = world.server.writes_left() == Some(0);
            world.server.fail_after(None);
            let world = reading_b(world.server, objects);
            for _ in 0..2 {
                world.reconcile().await;
                tokio::time::advance(600 * SECOND).await;
            }
            let is_watched = objects == ChartObjects::Watched;
            assert_eq!(world.value_of("b"), "1", "watched: {is_watched}, after {writes} writes");
            if !died {
                assert!(writes > 2, "the scenario wrote nothing");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ignored_fields_may_change_freely() {
    let server = World::new(spec()).server;
    let rule = ignoring("/data/value");
    let world = World::with_events(server, Arc::new(Stub::default()), |settings| settings.drift.ignore = [rule].into());
    world.reconcile().await;
    assert_eq!(world.value_of("b"), "1");
    change(&world, "b", "mine", "kubectl");
    assert_eq!(world.requests().await, 0);
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("2"), json!("mine")));
}
