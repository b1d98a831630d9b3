//! The cluster from a user's point of view. Without binaries, each test prints a message and passes.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use test_cluster::{Component, Options, Processes, TestCluster, eventually};

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web:1}]}
"#;

#[test]
fn a_deployment_becomes_ready_and_its_deletion_deletes_the_pods() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("deployment").unwrap();
    namespace.apply(DEPLOYMENT).unwrap();
    namespace.kubectl(["rollout", "status", "deployment/web", "--timeout=30s"]).unwrap();
    let ready = namespace
        .kubectl(["get", "pods", "-o", "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"])
        .unwrap();
    assert_eq!(ready, "True True");

    namespace.kubectl(["delete", "deployment/web"]).unwrap();
    namespace.kubectl(["wait", "--for=delete", "pods", "--all", "--timeout=30s"]).unwrap();
}

const HELD: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: web, finalizers: [example.com/stays]}
---
apiVersion: test-cluster.example.com/v1
kind: Hold
metadata: {name: web, finalizers: [example.com/stays]}
";

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: holds.test-cluster.example.com}
spec:
  group: test-cluster.example.com
  scope: Namespaced
  names: {kind: Hold, plural: holds}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";

#[test]
fn a_dropped_namespace_goes_although_finalizers_hold_its_objects() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    cluster.apply(DEFINITION).unwrap();
    let definition = "crd/holds.test-cluster.example.com";
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", definition]).unwrap();
    let namespace = cluster.namespace("held").unwrap();
    let name = namespace.name().to_owned();
    namespace.apply(HELD).unwrap();
    drop(namespace);
    eventually("end of the namespace", || {
        let left = cluster.kubectl(["get", "namespace", &name, "--output=yaml", "--ignore-not-found"]).unwrap();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}

#[test]
fn jobs_complete_and_pods_fail_or_hang_on_request() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("fates").unwrap();
    let job = "apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: once, image: once}]}}}";
    let pod = |name: &str| {
        format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {{test-cluster/pod: {name}}}}}
spec: {{restartPolicy: Never, containers: [{{name: one, image: one}}]}}"
        )
    };
    namespace.apply(&[job.to_owned(), pod("fails"), pod("stuck")].join("\n---\n")).unwrap();
    namespace.kubectl(["wait", "--for=condition=Complete", "job/once", "--timeout=30s"]).unwrap();
    namespace.kubectl(["wait", "--for=jsonpath={.status.phase}=Failed", "pod/fails", "--timeout=30s"]).unwrap();
    namespace.kubectl(["wait", "--for=condition=PodScheduled", "pod/stuck", "--timeout=30s"]).unwrap();
    assert_eq!(namespace.kubectl(["get", "pod/stuck", "-o", "jsonpath={.status.phase}"]).unwrap(), "Pending");
}

#[test]
fn a_service_account_has_its_rbac_rights_and_its_requests_are_recorded() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    if std::env::var_os("USE_KUBECONFIG").is_some() {
        return;
    }
    let namespace = cluster.namespace("rbac").unwrap();
    namespace.kubectl(["create", "role", "reader", "--verb=list", "--resource=configmaps"]).unwrap();
    let account = format!("{}:default", namespace.name());
    namespace
        .kubectl(["create", "rolebinding", "reader", "--role=reader", &format!("--serviceaccount={account}")])
        .unwrap();
    let kubeconfig = cluster.kubeconfig_of(namespace.name(), "default").unwrap();
    let another = cluster.kubeconfig_of(namespace.name(), "default").unwrap();
    assert_ne!(kubeconfig, another, "a program may be reading the first one");
    let list =
        |what| cluster.kubectl(["--kubeconfig", kubeconfig.to_str().unwrap(), "-n", namespace.name(), "get", what]);

    let user = format!("system:serviceaccount:{account}");
    // The API server knows a role a moment after it is created.
    let person = format!("--as={user}");
    eventually("the rights", || namespace.kubectl(["auth", "can-i", "list", "configmaps", &person]));
    list("configmaps").unwrap();
    assert!(list("secrets").unwrap_err().to_string().contains("forbidden"));

    // The audit log has a request a moment after its answer.
    eventually("both requests", || {
        let requests = cluster.requests().unwrap().into_iter();
        let asked = requests.filter(|r| r.user == user && !r.resource.is_empty()).map(|r| (r.resource, r.code));
        let asked: Vec<_> = asked.collect();
        if asked == [("configmaps".to_owned(), 200), ("secrets".to_owned(), 403)] { Ok(()) } else { Err(asked) }
    });
}

#[test]
fn a_killed_api_server_restarts_with_its_data() {
    let Some(cluster) = own_cluster() else { return };
    cluster.kubectl(["create", "configmap", "kept"]).unwrap();
    cluster.kill(Component::ApiServer).unwrap();
    assert!(!cluster.is_running(Component::ApiServer));
    assert!(cluster.kubectl(["get", "configmap", "kept", "--request-timeout=2s"]).is_err());

    cluster.restart(Component::ApiServer).unwrap();
    assert!(cluster.kubectl(["get", "configmap", "kept"]).is_ok());

    let folder = cluster.folder().to_owned();
    drop(cluster);
    assert!(!folder.exists() && processes_of(&folder).is_empty());
}

/// Starts `cluster run cat`, which keeps a cluster while we hold its input, and kills it.
#[test]
fn a_killed_test_leaves_no_processes_and_no_directory() {
    if own_cluster().is_none() {
        return;
    }
    let mut holder = Command::new(env!("CARGO_BIN_EXE_cluster"))
        .args(["run", "sh", "-c", "echo $CLUSTER_FOLDER; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let folder = first_line(&mut holder);
    assert!(processes_of(&folder).len() >= 5, "{:?}", processes_of(&folder));

    holder.kill().unwrap();
    holder.wait().unwrap();
    eventually("end of the processes and of the directory", || match processes_of(&folder) {
        left if left.is_empty() && !folder.exists() => Ok(()),
        left => Err((left, &folder)),
    });
}

fn own_cluster() -> Option<TestCluster> {
    TestCluster::shared_or_skip()?;
    if std::env::var_os("USE_KUBECONFIG").is_some() {
        return None;
    }
    Some(TestCluster::start(Options::default()).unwrap())
}

fn first_line(child: &mut std::process::Child) -> PathBuf {
    use std::io::{BufRead, BufReader};
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    PathBuf::from(line.trim())
}

/// Returns the command lines that mention the directory, except the watchdog's.
fn processes_of(folder: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let folder = folder.to_str().unwrap();
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(folder) && !line.contains("test-cluster-watchdog")).collect()
}

#[test]
fn a_lone_api_server_keeps_objects_as_written_and_calls_no_webhooks() {
    let options = Options { processes: Processes::ApiServer, ..Options::default() };
    let cluster = match TestCluster::start(options) {
        Ok(cluster) => cluster,
        Err(error) if error.is_no_binaries() && std::env::var_os("CI").is_none() => return,
        Err(error) => panic!("{error}"),
    };
    assert!(cluster.is_running(Component::ApiServer) && !cluster.is_running(Component::ControllerManager));
    let webhook = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: never}
webhooks:
- name: never.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {name: nobody, namespace: default}}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]"#;
    cluster.apply(webhook).unwrap();
    cluster.apply(DEPLOYMENT).unwrap();
    let written = cluster.kubectl(["get", "deployment", "web", "-o", "jsonpath={.metadata.annotations}"]).unwrap();
    assert!(!written.contains("deployment.kubernetes.io/revision"), "{written}");
}

#[test]
fn a_feature_gate_of_the_api_server_can_be_turned_on() {
    let feature_gates = vec!["ShardedListAndWatch".to_owned()];
    let options = Options { processes: Processes::ApiServer, feature_gates, ..Options::default() };
    let cluster = match TestCluster::start(options) {
        Ok(cluster) => cluster,
        Err(error) if error.is_no_binaries() && std::env::var_os("CI").is_none() => return,
        Err(error) => panic!("{error}"),
    };
    let metrics = cluster.kubectl(["get", "--raw", "/metrics"]).unwrap();
    let gate = metrics.lines().find(|line| line.starts_with("kubernetes_feature_enabled{name=\"ShardedListAndWatch\""));
    assert!(gate.is_some_and(|line| line.ends_with(" 1")), "{gate:?}");
}
