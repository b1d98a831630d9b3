//! The tutorial on a real control plane: deployed with `config/default`, run with the rights of its own ServiceAccount.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::process::Command;

use serde_json::{Value, json};
use test_cluster::{Namespace, Process, TestCluster, eventually};

const SYSTEM: &str = "memcached-operator-system";
const ACCOUNT: &str = "memcached-operator-controller-manager";

fn folder(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// Deploys the operator, whose pod is simulated, and runs it here.
fn start(cluster: &TestCluster, namespace: &Namespace<'_>) -> Process {
    cluster.deploy(folder("config/default")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-native"));
    command.args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    command.env("KUBECONFIG", cluster.kubeconfig_of(SYSTEM, ACCOUNT).unwrap());
    command.env("WATCH_NAMESPACE", namespace.name());
    Process::start(cluster, &mut command).unwrap()
}

fn set_size(namespace: &Namespace<'_>, size: i32) {
    let memcached = json!({"apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": {"name": "cache"}, "spec": {"size": size}});
    namespace.apply(&memcached.to_string()).unwrap();
}

fn pods(namespace: &Namespace<'_>) -> Vec<String> {
    let names = namespace.kubectl(["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"]).unwrap();
    let mut names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    names.sort();
    names
}

/// Waits until the status is exactly the list of the existing pods, this many.
fn wait_nodes(namespace: &Namespace<'_>, count: usize) -> Vec<String> {
    eventually("true status", || {
        let status = namespace.kubectl(["get", "memcached", "cache", "-o", "jsonpath={.status}"]).unwrap();
        let pods = pods(namespace);
        let expected = json!({"nodes": pods}).to_string();
        let is_true = status == expected && pods.len() == count;
        if is_true { Ok(pods) } else { Err(format!("{status} and {pods:?}")) }
    })
}

fn deployment(namespace: &Namespace<'_>) -> Value {
    serde_json::from_str(&namespace.kubectl(["get", "deployment", "cache", "-o", "json"]).unwrap()).unwrap()
}

#[test]
fn the_status_lists_the_pods_through_every_change() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("memcached").unwrap();
    let operator = start(cluster, &namespace);
    set_size(&namespace, 3);
    wait_nodes(&namespace, 3);
    set_size(&namespace, 1);
    wait_nodes(&namespace, 1);
    set_size(&namespace, 2);
    wait_nodes(&namespace, 2);
    namespace.kubectl(["scale", "deployment", "cache", "--replicas=5"]).unwrap();
    eventually("size that is set back", || match deployment(&namespace)["spec"]["replicas"].clone() {
        replicas if replicas == json!(2) => Ok(()),
        other => Err(other),
    });
    wait_nodes(&namespace, 2);
    // The ReplicaSet may still be choosing which of the five to keep.
    let lost = eventually("pod to lose", || {
        let pods = pods(&namespace);
        let first = pods.first().ok_or("no pod")?;
        namespace.kubectl(["delete", "pod", first]).map_err(|_| "it went by itself")?;
        Ok::<_, &str>(first.clone())
    });
    let others = wait_nodes(&namespace, 2);
    assert!(!others.contains(&lost));
    set_size(&namespace, 0);
    wait_nodes(&namespace, 0);
    namespace.kubectl(["delete", "memcached", "cache", "--timeout=30s"]).unwrap();
    namespace.kubectl(["wait", "--for=delete", "deployment/cache", "--timeout=60s"]).unwrap();
    for phrase in ["Created Deployment cache with 3 pods", "Scaled Deployment cache from 3 to 1 pods"] {
        assert!(operator.logged(phrase).contains("\"name\":\"cache\""));
        eventually("event", || {
            let events = namespace.kubectl(["get", "events.events.k8s.io", "-o", "jsonpath={.items[*].note}"]).unwrap();
            if events.contains(phrase) { Ok(()) } else { Err(events) }
        });
    }
    let gone = "not found. Ignoring since object must be deleted";
    _ = operator.logged(gone);
    let (status, log) = operator.terminate().unwrap();
    assert!(status.success() && !log.contains("\"level\":\"error\""), "{log}");
    assert_eq!(log.matches(gone).count(), 1, "its pods outlive it and say nothing: {log}");
}

#[test]
fn the_deployment_is_that_of_the_tutorial() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("shape").unwrap();
    let _operator = start(cluster, &namespace);
    set_size(&namespace, 1);
    wait_nodes(&namespace, 1);
    let deployment = deployment(&namespace);
    let labels = json!({"app": "memcached", "memcached_cr": "cache"});
    let (pod, owner) = (&deployment["spec"]["template"], &deployment["metadata"]["ownerReferences"][0]);
    assert_eq!((&pod["metadata"]["labels"], &deployment["spec"]["selector"]["matchLabels"]), (&labels, &labels));
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("Memcached"), &json!(true)));
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["image"], "memcached:1.4.36-alpine");
    assert_eq!(container["command"], json!(["memcached", "-m=64", "-o", "modern", "-v"]));
    assert_eq!((&container["name"], &container["ports"][0]["name"]), (&json!("memcached"), &json!("memcached")));
    assert_eq!(container["ports"][0]["containerPort"], 11211);
}

#[test]
fn a_negative_size_is_refused() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("negative").unwrap();
    let _operator = start(cluster, &namespace);
    let memcached = json!({"apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": {"name": "cache"}, "spec": {"size": -1}});
    let error = namespace.apply(&memcached.to_string()).unwrap_err().to_string();
    assert!(error.contains("greater than or equal to 0"), "{error}");
}

#[test]
fn the_installer_has_everything_and_the_sample_is_valid() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("installer").unwrap();
    let _operator = start(cluster, &namespace);
    let kubectl = format!("KUBECTL={}", cluster.bin("kubectl").display());
    let mut make = Command::new("make");
    make.args(["build-installer", "IMG=example.com/operator:1", &kubectl]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let made = make.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let installer = folder("dist/install.yaml");
    assert!(std::fs::read_to_string(&installer).unwrap().contains("image: example.com/operator:1"));
    cluster.kubectl(["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", &installer]).unwrap();
    let sample = folder("config/samples");
    namespace.kubectl(["apply", "--dry-run=server", "-k", &sample]).unwrap();
}
