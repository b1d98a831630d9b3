//! Reconcilers on a real control plane, in this process: the README's, and one that copies what tests put into it.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use controller::Manager;
use controller::manager::Config;
use controller::reconciler::{Cache, Next, Reconciler, Rights, Scope, Watching, WriteError};
use controller::testing::InProcess;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;
use test_cluster::{TestCluster, eventually};

#[path = "../examples/greeter.rs"]
#[allow(dead_code, reason = "its main is not used here")]
mod greeter;

/// What the reconciler's rights declare, for one account.
const ROLE: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: greeter}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: greeter}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, patch]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: greeter}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: greeter}
subjects: [{kind: ServiceAccount, name: greeter}]
"#;

/// Returns the settings of a manager that serves one namespace.
fn config(namespace: &str) -> Config {
    let mut config =
        Config { metrics_bind_address: "0".into(), health_probe_bind_address: "0".into(), ..Config::default() };
    config.controllers.namespaces = controller::context::Namespaces::parse(namespace);
    config
}

#[test]
fn a_manager_runs_in_the_tests_process_with_the_rights_of_its_account() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("greeter").unwrap();
    namespace.apply(ROLE).unwrap();
    // The API server knows a role a moment after it is created.
    let account = format!("--as=system:serviceaccount:{}:greeter", namespace.name());
    eventually("the rights", || namespace.kubectl(["auth", "can-i", "patch", "configmaps", &account]));
    let kubeconfig = cluster.kubeconfig_of(namespace.name(), "greeter").unwrap();
    let manager = Manager::new(config(namespace.name())).reconciler(greeter::Greeter);
    let running = InProcess::start(&kubeconfig, |client, shutdown| manager.run_until(client, shutdown)).unwrap();

    namespace.kubectl(["create", "configmap", "ada"]).unwrap();
    namespace.kubectl(["label", "configmap", "ada", "greet="]).unwrap();
    let greeting = ["configmap", "ada-greeting", "-n", namespace.name()];
    cluster.wait_for(&greeting, "/data/text", &json!("Hello, ada!"));
    let uid = cluster.get(&greeting).unwrap()["metadata"]["uid"].clone();

    namespace.kubectl(["patch", "configmap", "ada-greeting", "--patch", r#"{"data": {"text": "Bye"}}"#]).unwrap();
    cluster.wait_for(&greeting, "/data/text", &json!("Hello, ada!"));
    assert_eq!(cluster.get(&greeting).unwrap()["metadata"]["uid"], uid, "it is repaired, not made again");
    running.stop().unwrap();
    let user = format!("system:serviceaccount:{}:greeter", namespace.name());
    let requests = cluster.requests().unwrap().into_iter().filter(|request| request.user == user);
    // Without permission to list leases, it does not warn of other operators.
    let refused = requests.filter(|request| request.code == 403 && request.resource != "leases");
    assert_eq!(refused.collect::<Vec<_>>(), []);
}

/// Keeps a copy of each ConfigMap that is labelled `copy`.
struct Copier;

impl Reconciler for Copier {
    type Resource = ConfigMap;
    type Error = WriteError;
    type Caches = Cache<ConfigMap>;

    fn watch(&self, watching: &mut Watching<ConfigMap>) -> Cache<ConfigMap> {
        watching.labels("copy").owned("copied")
    }

    fn rights(&self) -> Rights {
        Rights::none().applies::<ConfigMap>()
    }

    async fn reconcile(&self, scope: &Scope<'_, ConfigMap>, copies: &Cache<ConfigMap>) -> Result<Next, WriteError> {
        let original = scope.resource();
        let mut copy = ConfigMap { data: original.data.clone(), ..ConfigMap::default() };
        copy.metadata.name = Some(format!("{}-copy", original.name_any()));
        copy.metadata.labels = Some([("copied".to_owned(), String::new())].into());
        scope.apply(copies, copy).await?;
        Ok(Next::Wait)
    }
}

/// The server reads an apply as YAML, which rejects some of these characters and changes the others.
#[test]
fn what_yaml_reads_differently_is_stored_unchanged() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("copier").unwrap();
    let manager = Manager::new(config(namespace.name())).reconciler(Copier);
    let kubeconfig = cluster.operator_kubeconfig_path();
    let running = InProcess::start(&kubeconfig, |client, shutdown| manager.run_until(client, shutdown)).unwrap();
    let text = "a\u{85}b\u{7f}\u{2028}c\u{feff}\u{fffe}d";
    let metadata = json!({"name": "odd", "labels": {"copy": ""}});
    let odd = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}});
    let create = ["create", "-n", namespace.name(), "-f", "-"];
    cluster.kubectl_with_input(create, &odd.to_string()).unwrap();
    cluster.wait_for(&["configmap", "odd-copy", "-n", namespace.name()], "/data/text", &json!(text));
    running.stop().unwrap();
}

/// Go has this time, Rust's type does not.
const FAR: &str = "9999-12-31T23:59:59Z";

/// Replaces a ConfigMap, with a new label and this time in its managed fields. The server ignores a new time alone.
fn date(cluster: &TestCluster, namespace: &str, name: &str, label: &str) {
    let object = ["configmap", name, "-n", namespace, "--show-managed-fields"];
    let mut map = cluster.get(&object).unwrap();
    map["metadata"]["managedFields"][0]["time"] = FAR.into();
    map["metadata"]["labels"][label] = "".into();
    cluster.kubectl_with_input(["replace", "-n", namespace, "-f", "-"], &map.to_string()).unwrap();
    let stored = cluster.get(&object).unwrap();
    let entries = stored["metadata"]["managedFields"].as_array().into_iter().flatten();
    assert!(entries.map(|entry| &entry["time"]).any(|time| *time == FAR), "{stored}");
}

/// Whoever may write one object can set such a time.
#[test]
fn a_time_beyond_those_of_rust_stops_nothing_at_a_start_or_by_event() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("dated").unwrap();
    let create = |name: &str| {
        namespace.kubectl(["create", "configmap", name, "--from-literal=text=x"]).unwrap();
        namespace.kubectl(["label", "configmap", name, "copy="]).unwrap();
    };
    let is_copied = |name: &str, text: &str| {
        let copy = format!("{name}-copy");
        cluster.wait_for(&["configmap", &copy, "-n", namespace.name()], "/data/text", &json!(text));
    };
    create("dated");
    date(cluster, namespace.name(), "dated", "one");
    create("other");
    let manager = Manager::new(config(namespace.name())).reconciler(Copier);
    let kubeconfig = cluster.operator_kubeconfig_path();
    let running = InProcess::start(&kubeconfig, |client, shutdown| manager.run_until(client, shutdown)).unwrap();
    is_copied("other", "x");
    is_copied("dated", "x");
    date(cluster, namespace.name(), "dated", "two");
    create("later");
    is_copied("later", "x");
    namespace.kubectl(["patch", "configmap", "dated", "--patch", r#"{"data": {"text": "y"}}"#]).unwrap();
    is_copied("dated", "y");
    running.stop().unwrap();
}
