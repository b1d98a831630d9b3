//! Which objects the operator touches, and how it recovers from missed events: two owners, two namespaces, lists after
//! expired watches, deleted namespaces, and releases that must not be rendered again.

use serde_json::{Value, json};
use test_cluster::{Component, Namespace, Options, TestCluster};

use crate::account::is_operators;
use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::reader::get;
use crate::resource::Kind;

pub(crate) const HOLDER: Kind = Kind("Holder");

pub(crate) fn install_kind(cluster: &TestCluster) {
    // Concurrent tests may apply the same, which server-side apply allows.
    let apply = ["apply", "--server-side", "-f", "-"];
    cluster.kubectl_with_input(apply, include_str!("fixtures/crds/holder.yaml")).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd/holders.test.my.domain"]).unwrap();
}

/// Starts an operator that serves Holders in these namespaces.
fn start(cluster: &TestCluster, namespaces: &[&Namespace<'_>]) -> Operator {
    install_kind(cluster);
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/holder");
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": chart}]);
    Operator::start_in(cluster, namespaces, &watch.to_string())
}

fn set(namespace: &Namespace<'_>, name: &str, spec: Value) {
    HOLDER.set(namespace, name, &spec);
}

fn wait_for(namespace: &Namespace<'_>, name: &str, kind: &str) -> Value {
    HOLDER.wait_for(namespace, name, kind)
}

fn revision(namespace: &Namespace<'_>, name: &str) -> Value {
    HOLDER.revision(namespace, name)
}

fn uid(namespace: &Namespace<'_>, what: [&str; 2]) -> String {
    get(namespace, what)["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn exists(namespace: &Namespace<'_>, what: [&str; 2]) -> bool {
    get(namespace, what).is_object()
}

/// Waits until the operator has handled all earlier events: creates a resource and waits until it is ready.
fn settle(namespace: &Namespace<'_>, probe: &str) {
    set(namespace, probe, json!({"map": probe}));
    wait_for(namespace, probe, "Ready");
}

/// Returns the number of the operator's writes in a namespace, and of its deletions of cluster-scoped objects.
fn writes(cluster: &TestCluster, namespaces: &[&Namespace<'_>]) -> usize {
    let requests = cluster.requests().unwrap();
    let ours = requests.iter().filter(|r| is_operators(r) && r.is_write());
    ours.filter(|r| r.resource != "events" && namespaces.iter().any(|n| r.namespace == n.name())).count()
}

#[test]
fn an_object_of_another_release_is_named_and_left_alone() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let (one, two) = (cluster.namespace("own-one").unwrap(), cluster.namespace("own-two").unwrap());
    let _operator = start(cluster, &[&one, &two]);
    let role = format!("role-of-{}", one.name());
    set(&one, "first", json!({"map": "fixed", "role": role}));
    wait_for(&one, "first", "Ready");
    let before = (uid(&one, ["configmap", "fixed"]), uid(&one, ["clusterrole", &role]));

    // The second release also has its own object, which a conflict must not leave behind.
    set(&one, "second", json!({"map": "fixed", "password": true}));
    set(&two, "third", json!({"map": "mine", "role": role}));
    let second = wait_for(&one, "second", "ReleaseFailed");
    let third = wait_for(&two, "third", "ReleaseFailed");
    let told = |holder: &Value| condition(holder, "ReleaseFailed")["message"].as_str().unwrap().to_owned();
    assert_eq!(condition(&second, "ReleaseFailed")["reason"], "ReleaseConflict");
    assert!(told(&second).contains("it belongs to Holder \"first\", its controller"), "{}", told(&second));
    let owner = format!("Holder.test.my.domain \"{}/first\"", one.name());
    assert!(told(&third).contains(&owner), "{}", told(&third));

    // After a few retries, the first release is unchanged.
    for (namespace, name) in [(&one, "second"), (&two, "third")] {
        namespace.kubectl(["annotate", "holder", name, "helm.sdk.operatorframework.io/x=1"]).unwrap();
        namespace.kubectl(["annotate", "holder", name, "helm.sdk.operatorframework.io/x=2", "--overwrite"]).unwrap();
    }
    settle(&one, "probe");
    settle(&two, "probe");
    assert_eq!((uid(&one, ["configmap", "fixed"]), uid(&one, ["clusterrole", &role])), before);
    let first = get(&one, ["holder", "first"]);
    assert!(condition(&first, "Irreconcilable").is_null(), "{first}");
    assert!(!exists(&one, ["secret", "second-password"]) && !exists(&two, ["configmap", "mine"]));
    let records = |n: &Namespace<'_>, name: &str| {
        n.kubectl(["get", "secret", "-l", &format!("owner=helm,name={name}"), "-o", "name"]).unwrap()
    };
    assert_eq!((records(&one, "second"), records(&two, "third")), (String::new(), String::new()));

    // Once the first one is deleted, the others get the object.
    one.kubectl(["delete", "holder", "first", "--timeout=60s"]).unwrap();
    wait_for(&one, "second", "Ready");
    wait_for(&two, "third", "Ready");
    assert_ne!(uid(&one, ["configmap", "fixed"]), before.0);
    for namespace in [&one, &two] {
        namespace.kubectl(["delete", "holder", "--all", "--timeout=60s"]).unwrap();
    }
}

#[test]
fn a_restart_with_two_namespaces_changes_nothing() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let (one, two) = (cluster.namespace("list-one").unwrap(), cluster.namespace("list-two").unwrap());
    let operator = start(cluster, &[&one, &two]);
    for namespace in [&one, &two] {
        set(namespace, "web", json!({"map": "web"}));
        wait_for(namespace, "web", "Ready");
        set(namespace, "web", json!({"map": "web", "value": "2"}));
        wait_for(namespace, "web", "Ready");
    }
    operator.terminate();
    let before = writes(cluster, &[&one, &two]);
    let _operator = start(cluster, &[&one, &two]);
    settle(&one, "probe");
    settle(&two, "probe");
    assert_eq!((revision(&one, "web"), revision(&two, "web")), (json!(2), json!(2)));
    // A probe's writes: finalizer, record, object, record, status, and a ready status if that comes later.
    let probes = writes(cluster, &[&one, &two]) - before;
    assert!(probes <= 12, "{probes} writes for two probes");
    for namespace in [&one, &two] {
        namespace.kubectl(["delete", "holder", "--all", "--timeout=60s"]).unwrap();
        let left = namespace.kubectl(["get", "configmap,secret", "-o", "name"]).unwrap();
        assert!(!left.contains("web") && !left.contains("helm"), "{left}");
    }
}

#[test]
fn changes_during_an_expired_watch_are_seen_at_the_next_list() {
    // A separate cluster, because the API server restarts.
    let Some(_) = TestCluster::shared_or_skip() else { return };
    let cluster = match TestCluster::start(Options { audit: true, ..Options::default() }) {
        Ok(cluster) => cluster,
        Err(error) => panic!("{error}"),
    };
    if cluster.is_running(Component::ApiServer) {
        relist(&cluster);
    }
}

fn relist(cluster: &TestCluster) {
    let (one, two) = (cluster.namespace("gap-one").unwrap(), cluster.namespace("gap-two").unwrap());
    let operator = start(cluster, &[&one, &two]);
    set(&one, "kept", json!({"map": "kept"}));
    set(&one, "gone", json!({"map": "gone"}));
    set(&two, "only", json!({"map": "only", "role": "gap-role"}));
    for (namespace, name) in [(&one, "kept"), (&one, "gone"), (&two, "only")] {
        wait_for(namespace, name, "Ready");
    }

    operator.pause();
    one.kubectl(["delete", "configmap", "kept"]).unwrap();
    two.kubectl(["delete", "configmap", "only"]).unwrap();
    cluster.kubectl(["delete", "clusterrole", "gap-role"]).unwrap();
    one.kubectl(["patch", "holder", "gone", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]).unwrap();
    one.kubectl(["delete", "holder", "gone"]).unwrap();
    // A restarted API server no longer has the events from which an old watch would resume.
    cluster.restart(Component::ApiServer).unwrap();
    operator.resume();

    let back = |what: [&str; 2], namespace: &Namespace<'_>| {
        eventually("what was deleted", || if exists(namespace, what) { Ok(()) } else { Err(operator.log()) });
    };
    back(["configmap", "kept"], &one);
    back(["configmap", "only"], &two);
    back(["clusterrole", "gap-role"], &two);
    settle(&one, "probe");
    assert_eq!((revision(&one, "kept"), revision(&two, "only")), (json!(1), json!(1)));
    let gone = |r: &&test_cluster::Request| is_operators(r) && r.name == "gone" && r.resource == "holders";
    let requests = cluster.requests().unwrap();
    let lost = requests.iter().filter(gone).filter(|r| r.code == 404).count();
    assert!(lost <= 2, "{lost} requests for a resource that is gone");
}

#[test]
fn deleting_a_namespace_deletes_the_cluster_scoped_objects_of_its_releases() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    for down in [false, true] {
        let (namespace, other) = (cluster.namespace("ns-going").unwrap(), cluster.namespace("ns-staying").unwrap());
        let roles: Vec<String> = (0..3).map(|n| format!("{}-{n}", namespace.name())).collect();
        let operator = start(cluster, &[&namespace, &other]);
        for (n, role) in roles.iter().enumerate() {
            set(&namespace, &format!("web-{n}"), json!({"map": format!("map-{n}"), "role": role, "farewell": n == 0}));
        }
        let staying = format!("{}-stays", namespace.name());
        set(&other, "web-0", json!({"role": staying}));
        (0..3).for_each(|n| _ = wait_for(&namespace, &format!("web-{n}"), "Ready"));
        wait_for(&other, "web-0", "Ready");
        let mut running = Some(operator);
        if down {
            running.take().unwrap().terminate();
        }
        cluster.kubectl(["delete", "namespace", namespace.name(), "--wait=false"]).unwrap();
        if down {
            let records = || namespace.kubectl(["get", "secret", "-l", "owner=helm", "-o", "name"]).unwrap();
            eventually("records gone", || match records() {
                none if none.is_empty() => Ok(()),
                some => Err(some),
            });
            running = Some(start(cluster, &[&namespace, &other]));
        }
        let log = || running.as_ref().unwrap().log();
        eventually("namespace gone", || {
            let left = cluster.kubectl(["get", "namespace", namespace.name(), "--ignore-not-found", "-o", "yaml"]);
            let left = left.unwrap();
            if left.is_empty() { Ok(()) } else { Err(format!("{left}\n{}", log())) }
        });
        for role in &roles {
            assert!(!exists(&other, ["clusterrole", role]), "{role} with the operator down: {down}: {}", log());
        }
        assert!(exists(&other, ["clusterrole", &staying]));
        other.kubectl(["delete", "holder", "web-0", "--timeout=60s"]).unwrap();
    }
}

#[test]
fn neither_a_restart_nor_new_kinds_nor_a_lookup_make_a_revision() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("rotate").unwrap();
    let role = format!("guarded-{}", namespace.name());
    let operator = start(cluster, &[&namespace]);
    set(&namespace, "web", json!({"password": true, "guarded": role}));
    wait_for(&namespace, "web", "Ready");
    let secret = || get(&namespace, ["secret", "web-password"])["data"].clone();
    let before = secret();
    settle(&namespace, "first");
    operator.terminate();
    for (kind, title) in [("alpha", "Alpha"), ("beta", "Beta"), ("gamma", "Gamma")] {
        let crd = include_str!("fixtures/crds/holder.yaml").replace("holder", kind).replace("Holder", title);
        cluster.apply(&crd).unwrap();
    }
    let _operator = start(cluster, &[&namespace]);
    settle(&namespace, "second");
    set(&namespace, "first", json!({"map": "first", "value": "2"}));
    wait_for(&namespace, "first", "Ready");
    assert_eq!((revision(&namespace, "web"), secret()), (json!(1), before));
    assert!(exists(&namespace, ["clusterrole", &role]));
    for kind in ["alphas", "betas", "gammas"] {
        cluster.kubectl(["delete", "crd", &format!("{kind}.test.my.domain")]).unwrap();
    }
    namespace.kubectl(["delete", "holder", "--all", "--timeout=60s"]).unwrap();
    assert!(!exists(&namespace, ["clusterrole", &role]));
}

#[test]
fn a_recreated_resource_gets_its_own_release() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("again").unwrap();
    let operator = start(cluster, &[&namespace]);
    let role = format!("again-{}", namespace.name());
    let spec = || json!({"map": "web", "role": role, "password": true});
    set(&namespace, "web", spec());
    wait_for(&namespace, "web", "Ready");
    let old = uid(&namespace, ["clusterrole", &role]);

    // Deleted and recreated while the operator runs.
    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
    set(&namespace, "web", spec());
    wait_for(&namespace, "web", "Ready");
    let new = uid(&namespace, ["clusterrole", &role]);
    assert_ne!(new, old);
    assert_eq!(revision(&namespace, "web"), 1);

    // Deleted while the operator is down.
    operator.terminate();
    namespace.kubectl(["delete", "holder", "web", "--wait=false"]).unwrap();
    let operator = start(cluster, &[&namespace]);
    eventually("resource gone", || if exists(&namespace, ["holder", "web"]) { Err(operator.log()) } else { Ok(()) });
    assert!(!exists(&namespace, ["clusterrole", &role]) && !exists(&namespace, ["configmap", "web"]));

    // Force-deleted and recreated while the operator is down: the same release, owned by the new resource.
    set(&namespace, "web", spec());
    wait_for(&namespace, "web", "Ready");
    let password = get(&namespace, ["secret", "web-password"])["data"].clone();
    operator.terminate();
    namespace.kubectl(["patch", "holder", "web", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]).unwrap();
    namespace.kubectl(["delete", "holder", "web", "--cascade=orphan"]).unwrap();
    set(&namespace, "web", spec());
    let _operator = start(cluster, &[&namespace]);
    let holder = wait_for(&namespace, "web", "Ready");
    assert_eq!(revision(&namespace, "web"), 1);
    assert_eq!(get(&namespace, ["secret", "web-password"])["data"], password);
    let owner = &get(&namespace, ["configmap", "web"])["metadata"]["ownerReferences"][0]["uid"];
    assert_eq!(*owner, holder["metadata"]["uid"]);
    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
}
