//! Failing and interrupted hooks, and manual `helm` commands on our releases, on a real control plane.

use std::process::{Child, Stdio};

use serde_json::{Value, json};
use test_cluster::{Component, Namespace, Options, TestCluster};

use crate::account::is_operators;
use crate::chart::condition;
use crate::chart_kinds::{define, events_of, serve, set, start, wait_for, writes};
use crate::operator::eventually;
use crate::reader::get;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/widget");
const HOOK_TIMEOUT: &str = "helm.sdk.operatorframework.io/hook-timeout";

/// Waits for the pod of a hook's Job; returns its name.
pub(crate) fn pod_of(namespace: &Namespace<'_>, job: &str) -> String {
    eventually("pod of the hook", || {
        let selector = format!("job-name={job}");
        let pods = namespace.kubectl(["get", "pods", "-l", &selector, "-o", "name"]).unwrap();
        if pods.is_empty() { Err(pods) } else { Ok(pods.trim().to_owned()) }
    })
}

pub(crate) fn finish(namespace: &Namespace<'_>, pod: &str) {
    let done = r#"{"status": {"phase": "Succeeded"}}"#;
    namespace.kubectl(["patch", pod, "--subresource=status", "-p", done]).unwrap();
}

/// Counts creations and deletions of a Job.
fn runs(cluster: &TestCluster, namespace: &Namespace<'_>, job: &str) -> (usize, usize) {
    let writes = writes(cluster, namespace);
    let count = |verb: &str| writes.iter().filter(|line| **line == format!("{verb} jobs/{job}")).count();
    (count("create"), count("delete"))
}

fn annotate(namespace: &Namespace<'_>, name: &str, annotation: &str) {
    namespace.kubectl(["annotate", "--overwrite", "widget", name, annotation]).unwrap();
}

/// Waits until the condition of the widget contains `text`; returns its message.
pub(crate) fn wait_said(namespace: &Namespace<'_>, name: &str, kind: &str, text: &str) -> String {
    eventually(text, || {
        let widget = get(namespace, ["widget", name]);
        let message = condition(&widget, kind)["message"].as_str().unwrap_or_default().to_owned();
        if message.contains(text) { Ok(message) } else { Err(widget) }
    })
}

fn revision(namespace: &Namespace<'_>, name: &str) -> Value {
    get(namespace, ["widget", name])["status"]["deployedRelease"]["revision"].clone()
}

/// Starts a manual Helm command.
fn helm(cluster: &TestCluster, namespace: &Namespace<'_>, arguments: &[&str]) -> Child {
    let mut command = cluster.command("helm");
    command.args(arguments).args(["-n", namespace.name()]).env("KUBECONFIG", cluster.kubeconfig_path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for Helm to succeed.
fn succeed(helm: Child) {
    let output = helm.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the revisions and their statuses from `helm history`.
fn history(cluster: &TestCluster, namespace: &Namespace<'_>) -> Vec<String> {
    let output = helm(cluster, namespace, &["history", "web", "-o", "json"]).wait_with_output().unwrap();
    let revisions: Value = serde_json::from_slice(&output.stdout).unwrap();
    let line = |r: &Value| format!("{} {}", r["revision"], r["status"].as_str().unwrap());
    revisions.as_array().unwrap().iter().map(line).collect()
}

#[test]
fn a_hook_survives_restarts_of_the_api_server_and_the_operator() {
    if TestCluster::shared_or_skip().is_none() {
        return;
    }
    let cluster = TestCluster::start(Options { audit: true, ..Options::default() }).unwrap();
    define(&cluster);
    let namespace = cluster.namespace("hook-outlives").unwrap();
    let operator = serve(&cluster, &namespace);
    set(&namespace, "web", json!({"hooks": true, "fate": "stuck"}));
    let pod = pod_of(&namespace, "web-z-first");
    let uid = get(&namespace, ["job", "web-z-first"])["metadata"]["uid"].clone();

    // Several polls fail, because they are at most two seconds apart.
    cluster.kill(Component::ApiServer).unwrap();
    let looks = || {
        let requests = cluster.requests().unwrap();
        requests.iter().filter(|r| is_operators(r) && r.verb == "get" && r.name == "web-z-first").count()
    };
    let before = looks();
    let began = std::time::Instant::now();
    eventually("failing looks", || {
        let passed = began.elapsed();
        if passed.as_secs() >= 5 { Ok(()) } else { Err(passed) }
    });
    cluster.restart(Component::ApiServer).unwrap();
    eventually("the operator to look again", || match looks() {
        more if more > before => Ok(()),
        same => Err(same),
    });
    assert_eq!(get(&namespace, ["job", "web-z-first"])["metadata"]["uid"], uid);

    operator.kill();
    let _operator = serve(&cluster, &namespace);
    wait_said_or_running(&namespace);
    finish(&namespace, &pod);
    wait_for(&namespace, "web", "Ready");
    assert_eq!(runs(&cluster, &namespace, "web-z-first"), (1, 1));
    assert_eq!(runs(&cluster, &namespace, "web-a-second"), (1, 0));
    assert_eq!(revision(&namespace, "web"), 1);
}

/// Waits until the record shows that the install is pending, that is, the hook is still running.
fn wait_said_or_running(namespace: &Namespace<'_>) {
    eventually("a record of a hook that runs", || {
        let record = get(namespace, ["secret", "sh.helm.release.v1.web.v1"]);
        let status = record["metadata"]["labels"]["status"].clone();
        if status == "pending-install" { Ok(()) } else { Err(status) }
    });
}

#[test]
fn another_spec_or_a_deletion_ends_the_wait_for_a_hook_that_never_ends() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("hook-corrected").unwrap();
    let _operator = start(cluster, &namespace);
    set(&namespace, "web", json!({"hooks": true}));
    wait_for(&namespace, "web", "Ready");
    let map = get(&namespace, ["configmap", "web"])["metadata"]["uid"].clone();
    set(&namespace, "web", json!({"hooks": true, "upgrading": "stuck", "colour": "green"}));
    pod_of(&namespace, "web-upgrading");
    let stuck = get(&namespace, ["job", "web-upgrading"])["metadata"]["uid"].clone();
    set(&namespace, "web", json!({"hooks": true, "upgrading": "done", "colour": "blue"}));
    eventually("the corrected revision", || match history(cluster, &namespace) {
        all if all == ["1 superseded", "2 failed", "3 deployed"] => Ok(()),
        all => Err(all),
    });
    wait_for(&namespace, "web", "Ready");
    let live = get(&namespace, ["configmap", "web"]);
    assert_eq!((&live["data"]["colour"], &live["metadata"]["uid"]), (&json!("blue"), &map));
    // There is one Job per revision, and the stuck one is deleted.
    assert_eq!(runs(cluster, &namespace, "web-upgrading").0, 2);
    assert_ne!(get(&namespace, ["job", "web-upgrading"])["metadata"]["uid"], stuck);
    assert_eq!(runs(cluster, &namespace, "web-z-first").0, 1);
    eventually("event", || match events_of(&namespace, "web") {
        events if events.contains("HookInterrupted: ") && events.contains("the spec changed") => Ok(()),
        events => Err(events),
    });

    set(&namespace, "web", json!({"hooks": true, "upgrading": "stuck", "colour": "yellow"}));
    eventually("the next stuck Job", || match runs(cluster, &namespace, "web-upgrading").0 {
        3 => Ok(()),
        count => Err(count),
    });
    namespace.kubectl(["delete", "widget", "web", "--timeout=60s"]).unwrap();
    assert_eq!(get(&namespace, ["job", "web-upgrading"]), Value::Null);
    assert_eq!(get(&namespace, ["configmap", "web"]), Value::Null);
    assert_eq!(runs(cluster, &namespace, "web-farewell").0, 1);
}

#[test]
fn a_wait_for_the_uninstall_does_not_run_its_hooks_again() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("hook-once").unwrap();
    let _operator = start(cluster, &namespace);
    set(&namespace, "web", json!({"hooks": true}));
    wait_for(&namespace, "web", "Ready");
    annotate(&namespace, "web", "helm.sdk.operatorframework.io/uninstall-wait=true");
    let held = r#"{"metadata": {"finalizers": ["test.my.domain/held"]}}"#;
    namespace.kubectl(["patch", "configmap", "web", "--type=merge", "-p", held]).unwrap();
    namespace.kubectl(["delete", "widget", "web", "--wait=false"]).unwrap();
    wait_said(&namespace, "web", "Deployed", "Waiting until all resources are deleted");
    // No event makes the operator run the hooks again.
    for n in 0..20 {
        annotate(&namespace, "web", &format!("helm.sdk.operatorframework.io/test={n}"));
    }
    namespace
        .kubectl(["patch", "configmap", "web", "--type=merge", "-p", r#"{"metadata": {"finalizers": null}}"#])
        .unwrap();
    namespace.kubectl(["wait", "--for=delete", "widget/web", "--timeout=60s"]).unwrap();
    assert_eq!(runs(cluster, &namespace, "web-farewell"), (1, 1));
    assert_eq!(namespace.kubectl(["get", "secret", "-l", "owner=helm", "-o", "name"]).unwrap(), "");
}

#[test]
fn a_post_delete_hook_that_always_fails_is_given_up() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("hook-given-up").unwrap();
    let operator = start(cluster, &namespace);
    set(&namespace, "web", json!({"goodbye": "fails"}));
    wait_for(&namespace, "web", "Ready");
    namespace.kubectl(["delete", "widget", "web", "--wait=false"]).unwrap();
    wait_said(&namespace, "web", "ReleaseFailed", "Job \"web-goodbye\"");
    namespace.kubectl(["wait", "--for=delete", "widget/web", "--timeout=180s"]).unwrap();
    assert_eq!(runs(cluster, &namespace, "web-goodbye").0, 5);
    eventually("event", || match events_of(&namespace, "web") {
        events if events.contains("HookGivenUp: a post-delete hook failed 5 times") => Ok(()),
        events => Err(events),
    });
    operator.logged("Giving up on a hook");
    assert_eq!(get(&namespace, ["configmap", "web"]), Value::Null);
}

#[test]
fn the_time_limit_of_a_hook_can_be_set_and_an_invalid_one_is_reported() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("hook-time").unwrap();
    let _operator = start(cluster, &namespace);
    let widget = |time: &str| {
        let metadata = json!({"name": "web", "annotations": {HOOK_TIMEOUT: time}});
        let widget = json!({
            "apiVersion": "test.my.domain/v1", "kind": "Widget", "metadata": metadata, "spec": {"hooks": true, "fate": "stuck"},
        });
        namespace.apply(&widget.to_string()).unwrap();
    };
    widget("soon");
    let said = wait_said(&namespace, "web", "Irreconcilable", HOOK_TIMEOUT);
    assert!(said.ends_with(r#"time: invalid duration "soon""#), "{said}");
    assert_eq!(get(&namespace, ["job", "web-z-first"]), Value::Null);
    widget("1s");
    let said = wait_said(&namespace, "web", "ReleaseFailed", "did not finish within 1s");
    assert!(said.contains("Job \"web-z-first\" to finish"), "{said}");
}

#[test]
fn a_manual_upgrade_is_left_alone_until_it_ends_and_then_the_resource_wins() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("by-hand").unwrap();
    let _operator = start(cluster, &namespace);
    set(&namespace, "web", json!({"colour": "green"}));
    wait_for(&namespace, "web", "Ready");
    // Helm waits for the hook.
    let upgrade = helm(
        cluster,
        &namespace,
        &["upgrade", "web", CHART, "--set=upgrading=stuck,colour=blue,sealed=theirs", "--timeout=5m"],
    );
    let said = wait_said(&namespace, "web", "Irreconcilable", "a person's helm is running");
    assert!(said.starts_with("revision 2 of release \"web\" is pending-upgrade"), "{said}");
    let pod = pod_of(&namespace, "web-upgrading");
    set(&namespace, "web", json!({"colour": "yellow"}));
    wait_for(&namespace, "web", "Irreconcilable");
    assert_eq!(get(&namespace, ["configmap", "web"])["data"]["colour"], "green");
    finish(&namespace, &pod);
    succeed(upgrade);
    wait_for(&namespace, "web", "Ready");
    assert_eq!(get(&namespace, ["configmap", "web"])["data"]["colour"], "yellow");
    assert_eq!(get(&namespace, ["configmap", "web-sealed"]), Value::Null, "an orphan");
    assert_eq!(history(cluster, &namespace), ["1 superseded", "2 superseded", "3 deployed"]);
}

#[test]
fn a_manual_rollback_works_and_then_the_resource_wins() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("rollback").unwrap();
    let _operator = start(cluster, &namespace);
    set(&namespace, "web", json!({"colour": "green", "sealed": "first"}));
    wait_for(&namespace, "web", "Ready");
    set(&namespace, "web", json!({"colour": "yellow"}));
    wait_for(&namespace, "web", "Ready");
    assert_eq!(revision(&namespace, "web"), 2);
    succeed(helm(cluster, &namespace, &["rollback", "web", "1"]));
    eventually("the resource's values again", || match history(cluster, &namespace) {
        all if all == ["1 superseded", "2 superseded", "3 superseded", "4 deployed"] => Ok(()),
        all => Err(all),
    });
    wait_for(&namespace, "web", "Ready");
    assert_eq!(get(&namespace, ["configmap", "web"])["data"]["colour"], "yellow");
    assert_eq!(get(&namespace, ["configmap", "web-sealed"]), Value::Null, "an orphan");

    // A failed rollback leaves no deployed revision, which the operator also repairs.
    let uid = get(&namespace, ["configmap", "web"])["metadata"]["uid"].clone();
    let server_side = &["rollback", "web", "1", "--server-side=true"];
    assert!(!helm(cluster, &namespace, server_side).wait_with_output().unwrap().status.success());
    eventually("healed", || match history(cluster, &namespace).last() {
        Some(last) if last == "6 deployed" => Ok(()),
        last => Err(last.cloned()),
    });
    wait_for(&namespace, "web", "Ready");
    let map = get(&namespace, ["configmap", "web"]);
    assert_eq!((&map["data"]["colour"], &map["metadata"]["uid"]), (&json!("yellow"), &uid));
    assert_eq!(get(&namespace, ["configmap", "web-sealed"]), Value::Null, "an orphan");
    // The fields of Helm's field manager are ours again.
    let managed = namespace.kubectl([
        "get",
        "configmap",
        "web",
        "--show-managed-fields",
        "-o",
        "jsonpath={.metadata.managedFields[*].manager}",
    ]);
    assert_eq!(managed.unwrap(), "helm-operator");
}
