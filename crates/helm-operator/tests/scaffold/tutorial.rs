//! Tests of a project of charts, from an empty folder to a deleted resource.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use test_cluster::{Request, TestCluster};

use crate::folder::{Folder, PROGRAM};
use crate::process::{FREE_PORTS, Process, eventually};

/// Returns a token for the account of the project's deployment.
fn account(cluster: &TestCluster, project: &str) -> PathBuf {
    let (namespace, name) = (format!("{project}-system"), format!("{project}-controller-manager"));
    let token = cluster.kubectl(["-n", &namespace, "create", "token", &name]).unwrap();
    let path = cluster.folder().join(format!("{project}.kubeconfig"));
    fs::write(&path, cluster.kubeconfig_with_token(token.trim()).unwrap()).unwrap();
    path
}

fn requests_of(cluster: &TestCluster, project: &str, namespaces: &[&str]) -> Vec<Request> {
    let user = format!("system:serviceaccount:{project}-system:{project}-controller-manager");
    let requests = cluster.requests().unwrap().into_iter().filter(|request| request.user == user);
    requests.filter(|r| r.namespace.is_empty() || namespaces.contains(&r.namespace.as_str())).collect()
}

#[test]
fn a_project_from_an_empty_folder_serves_its_sample_with_its_own_rights() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    if std::env::var_os("USE_KUBECONFIG").is_some() {
        return;
    }
    let folder = Folder::new();
    folder.run("init --plugins helm --domain tutorial.test --project-name tutorial").unwrap();
    let create = "create api --group cache --version v1 --kind Memcached --plugins=helm.sdk.operatorframework.io/v1";
    folder.run(create).unwrap();
    let files = folder.files();
    assert_eq!(folder.run(create).unwrap(), "nothing to do\n");
    folder.make(cluster, &["manifests", "generate", "test", "lint"]);
    assert!(folder.files() == files, "a second run changed files");

    folder.make(cluster, &["bundle", "IMG=example.com/tutorial:v1", "VERSION=1.0.0"]);
    let bundled = folder.files();
    folder.make(cluster, &["bundle", "IMG=example.com/tutorial:v1", "VERSION=1.0.0"]);
    assert!(folder.files() == bundled, "a second bundle differs");
    let version: serde_json::Value =
        serde_yaml::from_str(&folder.text("bundle/manifests/tutorial.clusterserviceversion.yaml")).unwrap();
    let install = &version["spec"]["install"]["spec"];
    assert_eq!(install["clusterPermissions"][0]["serviceAccountName"], "tutorial-controller-manager");
    assert_eq!(
        install["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["image"],
        "example.com/tutorial:v1"
    );

    folder.make(cluster, &["install"]);
    folder.make(cluster, &["deploy", "IMG=example.com/tutorial:v1"]);
    cluster
        .kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd", "memcacheds.cache.tutorial.test"])
        .unwrap();
    // The server lists a new kind shortly after it serves it.
    eventually("explanation", || {
        match cluster.kubectl(["explain", "memcacheds.cache.tutorial.test.spec.replicaCount"]) {
            Ok(explained) if explained.contains("Number of pods.") => Ok(()),
            other => Err(other),
        }
    });

    let namespace = cluster.namespace("tutorial").unwrap();
    let kubeconfig = account(cluster, "tutorial");
    let lease = format!("--leader-election-id={}", namespace.name());
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--leader-elect", &lease, "--leader-election-namespace=tutorial-system"]).args(FREE_PORTS);
    command.current_dir(folder.path()).env("KUBECONFIG", &kubeconfig).env("WATCH_NAMESPACE", namespace.name());
    let operator = Process::start(&mut command);
    let sample = folder.text("config/samples/cache_v1_memcached.yaml");
    let everything = format!("{sample}  ingress: {{enabled: true}}\n  autoscaling: {{enabled: true}}\n");
    for (generation, text) in [(1, &sample), (2, &everything)] {
        namespace.apply(text).unwrap();
        let path = "jsonpath={.status.observedGeneration} {.status.conditions[?(@.type=='Ready')].status}";
        eventually("ready", || {
            match namespace.kubectl(["get", "memcacheds.cache.tutorial.test/memcached-sample", "-o", path]) {
                Ok(seen) if seen == format!("{generation} True") => Ok(()),
                other => Err(format!("{other:?} {}", operator.log())),
            }
        });
    }
    namespace.kubectl(["delete", "memcacheds.cache.tutorial.test/memcached-sample", "--timeout=30s"]).unwrap();
    operator.terminate();
    let requests = requests_of(cluster, "tutorial", &[namespace.name(), "tutorial-system"]);
    assert!(requests.iter().any(Request::is_write));
    let refused: Vec<_> = requests.iter().filter(|r| r.code == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");

    folder.make(cluster, &["undeploy"]);
    let left = cluster
        .kubectl(["get", "crd,clusterrole,namespace", "-l", "app.kubernetes.io/name=tutorial", "-o", "name"])
        .unwrap();
    assert!(left.is_empty() || left == "namespace/tutorial-system\n", "{left}");
}
