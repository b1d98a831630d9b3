//! A chart's tests as a gate on a real control plane, and what the real `helm` reads of them in the record.

use std::process::Command;

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};
use crate::reader::get;

/// A chart with a test Pod that runs first, and a test Job that ends as the value `fate` says.
const CHECKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/checked");

fn set(namespace: &Namespace<'_>, value: &str, fate: &str) {
    HOLDER.set(namespace, "web", &json!({"value": value, "fate": fate}));
}

fn start(cluster: &TestCluster, namespace: &Namespace<'_>) -> Operator {
    install_kind(cluster);
    let test = json!({"enable": true, "onFailure": "rollback", "timeout": "2m"});
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": CHECKED, "test": test}]);
    Operator::start_in(cluster, &[namespace], &watch.to_string())
}

fn helm(cluster: &TestCluster, namespace: &Namespace<'_>, arguments: &[&str]) -> String {
    let mut command: Command = cluster.command("helm");
    command.args(arguments).args(["-n", namespace.name()]).env("KUBECONFIG", cluster.kubeconfig_path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the tests of a revision as `helm status` reads them, without times.
fn hooks(cluster: &TestCluster, namespace: &Namespace<'_>, release: &str, revision: &str) -> Value {
    let status = helm(cluster, namespace, &["status", release, "--revision", revision, "-o", "json"]);
    let status: Value = serde_json::from_str(&status.replace(release, "web")).unwrap();
    let mut hooks = status["hooks"].clone();
    for hook in hooks.as_array_mut().unwrap() {
        let run = hook["last_run"].as_object_mut().unwrap();
        assert!(run.remove("started_at").is_some() && run.remove("completed_at").is_some(), "{run:?}");
    }
    hooks
}

/// Waits until `TestSuccess` of `web` has this status and its message contains the text.
fn told(namespace: &Namespace<'_>, status: &str, text: &str) -> Value {
    eventually(text, || {
        let holder = get(namespace, ["holder", "web"]);
        let found = condition(&holder, "TestSuccess");
        let has_text = found["message"].as_str().unwrap_or_default().contains(text);
        if found["status"] == status && has_text { Ok(holder) } else { Err(holder["status"].clone()) }
    })
}

#[test]
fn tests_are_recorded_as_helm_records_them_and_a_revision_that_fails_them_is_rolled_back() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("gate").unwrap();
    let operator = start(cluster, &namespace);
    set(&namespace, "1", "");
    told(&namespace, "True", "revision 1 passed its tests");
    helm(cluster, &namespace, &["install", "theirs", CHECKED]);
    helm(cluster, &namespace, &["test", "theirs"]);
    assert_eq!(hooks(cluster, &namespace, "web", "1"), hooks(cluster, &namespace, "theirs", "1"));
    let status = helm(cluster, &namespace, &["status", "web"]);
    assert!(
        status.contains("TEST SUITE:     web-a-second") && status.contains("Phase:          Succeeded"),
        "{status}"
    );
    assert!(helm(cluster, &namespace, &["get", "hooks", "web"]).contains("name: web-z-first"));

    set(&namespace, "2", "stuck");
    let uid = || get(&namespace, ["job", "web-a-second"])["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let before = eventually("the second revision's test", || {
        let job = get(&namespace, ["job", "web-a-second"]);
        let fate = &job["spec"]["template"]["metadata"]["annotations"]["test-cluster/pod"];
        if fate == "stuck" { Ok(job["metadata"]["uid"].as_str().unwrap().to_owned()) } else { Err(job) }
    });
    let pod = eventually("its pod", || {
        let selector = format!("batch.kubernetes.io/controller-uid={before}");
        let pods = namespace.kubectl(["get", "pods", "-l", &selector, "-o", "name"]).unwrap();
        if pods.is_empty() { Err(pods) } else { Ok(pods.trim().to_owned()) }
    });
    operator.kill();
    let _operator = start(cluster, &namespace);
    let failed = r#"{"status": {"phase": "Failed"}}"#;
    namespace.kubectl(["patch", &pod, "--subresource=status", "-p", failed]).unwrap();
    let holder = told(
        &namespace,
        "False",
        "revision 2 failed its tests: hook checked/templates/tests.yaml failed: Job \"web-a-second\"",
    );
    assert_eq!(uid(), before, "the restart waited for the test that ran");
    let stalled = eventually("the rollback", || {
        let holder = get(&namespace, ["holder", "web"]);
        let stalled = condition(&holder, "Stalled")["reason"].clone();
        if stalled == "TestFailed" { Ok(stalled) } else { Err(holder) }
    });
    assert_eq!(stalled, "TestFailed", "{holder}");
    assert_eq!(get(&namespace, ["configmap", "web"])["data"]["value"], "1");
    let phases = |revision: &str| {
        let hooks = hooks(cluster, &namespace, "web", revision);
        let phase = |hook: &Value| hook["last_run"]["phase"].as_str().unwrap().to_owned();
        hooks.as_array().unwrap().iter().map(phase).collect::<Vec<_>>()
    };
    let mut all = phases("2");
    all.sort();
    assert_eq!(all, ["Failed", "Succeeded"]);
    let history: Value = serde_json::from_str(&helm(cluster, &namespace, &["history", "web", "-o", "json"])).unwrap();
    let line = |revision: &Value| format!("{} {}", revision["revision"], revision["status"].as_str().unwrap());
    let history: Vec<String> = history.as_array().unwrap().iter().map(line).collect();
    assert_eq!(history, ["1 superseded", "2 superseded", "3 deployed"]);
    set(&namespace, "3", "");
    told(&namespace, "True", "revision 4 passed its tests");
    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
}
