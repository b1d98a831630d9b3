//! The operator on a real control plane, with the rights in `config/rbac` and no others. `make test-cluster` runs it.

use std::path::Path;
use std::process::Command;

use test_cluster::{Process, TestCluster};

const NAMESPACE: &str = "__project__-system";
const ACCOUNT: &str = "__project__-controller-manager";

/// Deploys `config/default`, whose pod is simulated, and runs the operator here as that pod's account.
fn start(cluster: &TestCluster) -> Process {
    cluster.deploy("config/default").unwrap();
    let mut operator = Command::new(env!("CARGO_BIN_EXE___project__"));
    operator.args([
        "run",
        "--leader-elect",
        "--leader-election-id=__project__",
        "--leader-election-namespace=__project__-system",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--webhook-bind-address=127.0.0.1:0",
    ]);
    let kubeconfig = cluster.kubeconfig_of(NAMESPACE, ACCOUNT).unwrap();
    operator.env("KUBECONFIG", kubeconfig);
    Process::start(cluster, &mut operator).unwrap()
}

/// Applies the samples; returns them as `kind/name`. There are none before the first `create api`.
fn apply_samples(cluster: &TestCluster) -> Vec<String> {
    let folder = "config/samples";
    if !Path::new(folder).exists() {
        return Vec::new();
    }
    let applied = cluster
        .kubectl(["apply", "--output=name", "-k", folder])
        .unwrap();
    applied.lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs a control plane: make test-cluster"]
fn every_sample_becomes_ready_and_goes_when_it_is_deleted() {
    let Some(cluster) = TestCluster::built_or_skip() else {
        return;
    };
    let operator = start(cluster);
    for sample in apply_samples(cluster) {
        let ready = ["wait", "--for=condition=Ready", "--timeout=60s", &sample];
        if let Err(error) = cluster.kubectl(ready) {
            panic!("{error}\n{}", operator.log());
        }
        cluster
            .kubectl(["delete", "--timeout=60s", &sample])
            .unwrap();
    }
    let (status, log) = operator.terminate().unwrap();
    assert!(status.success(), "{log}");

    let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    let requests = cluster.requests().unwrap().into_iter();
    let refused: Vec<_> = requests
        .filter(|request| request.user == user && request.code == 403)
        .collect();
    assert!(
        refused.is_empty(),
        "config/rbac lacks a rule: {refused:#?}"
    );
}
