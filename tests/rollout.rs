//! A rollout in steps on a real control plane: thirty releases, with the API server's audit log as the witness of their
//! order; an end in the middle, a canary that fails, and what was rolled out taken back.

use std::process::Command;

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::account;
use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/holder");

/// The number of releases, of which the last are canaries.
const MANY: usize = 30;
const CANARIES: usize = 3;
/// How many of the others each share reaches: 20% and 60% of 27.
const SHARES: [usize; 2] = [6, 17];

fn name(at: usize) -> String {
    format!("r{at:02}")
}

fn holder(at: usize) -> Value {
    let tier = if at < MANY - CANARIES { "other" } else { "canary" };
    let metadata = json!({"name": name(at), "labels": {"tier": tier}});
    let spec = json!({"map": name(at), "value": "own"});
    json!({"apiVersion": "test.my.domain/v1", "kind": "Holder", "metadata": metadata, "spec": spec})
}

/// Returns a watch that overrides the value of every release.
fn watch(value: &str, on_failure: &str) -> String {
    let canary = json!({"matchLabels": {"tier": "canary"}});
    let rollout = json!({"canary": canary, "steps": ["20%", "60%"], "bakeFor": "2s", "onFailure": on_failure});
    json!([{
        "group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": CHART,
        "overrideValues": {"value": value}, "rollout": rollout,
    }])
    .to_string()
}

/// Returns how many ConfigMaps have this value.
fn count(namespace: &Namespace<'_>, value: &str) -> usize {
    let all: Value = serde_json::from_str(&namespace.kubectl(["get", "configmaps", "-o", "json"]).unwrap()).unwrap();
    all["items"].as_array().unwrap().iter().filter(|map| map["data"]["value"] == value).count()
}

fn wait_for_count(namespace: &Namespace<'_>, value: &str, least: usize) {
    eventually(&format!("{least} releases have {value}"), || {
        let found = count(namespace, value);
        if found >= least { Ok(()) } else { Err(found) }
    });
}

fn wait_for_reason(namespace: &Namespace<'_>, name: &str, reason: &str) -> String {
    eventually(&format!("{name} says {reason}"), || {
        let resource = HOLDER.get(namespace, name);
        let told = condition(&resource, "Reconciling");
        let message = told["message"].as_str().unwrap_or_default().to_owned();
        if told["reason"] == reason { Ok(message) } else { Err(resource["status"].to_string()) }
    })
}

/// Returns the places of the releases in the order in which their objects were first written since this many requests.
fn order(cluster: &TestCluster, namespace: &Namespace<'_>, since: usize) -> Vec<usize> {
    let requests = cluster.requests().unwrap();
    let writes = requests[since..].iter().filter(|one| {
        one.namespace == namespace.name() && one.resource == "configmaps" && one.verb == "patch" && one.code < 300
    });
    let mut order = Vec::new();
    for at in writes.filter_map(|one| one.name.strip_prefix('r')?.parse().ok()) {
        if !order.contains(&at) {
            order.push(at);
        }
    }
    order
}

/// Returns the events about the process, which are in its own namespace: type, reason and message.
fn rollout_events(cluster: &TestCluster) -> Vec<String> {
    let all = cluster.kubectl(["get", "events", "--namespace", "default", "-o", "json"]).unwrap();
    let all: Value = serde_json::from_str(&all).unwrap();
    let about = all["items"].as_array().unwrap().iter().filter(|event| event["involvedObject"]["kind"] == "Pod");
    let text =
        |event: &Value| ["type", "reason", "message"].map(|key| event[key].as_str().unwrap().to_owned()).join(" ");
    about.map(text).filter(|text| text.contains("to Holder")).collect()
}

/// Returns what `diff --all` prints for these watches.
fn plan(cluster: &TestCluster, namespace: &Namespace<'_>, watches: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("watches.yaml"), watches).unwrap();
    let kubeconfig = account::kubeconfig(cluster, namespace.name(), Some(watches));
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.args(["diff", "Holder", "--all", "-n", namespace.name(), "--kubeconfig"]).arg(kubeconfig);
    let planned = command.current_dir(folder.path()).output().unwrap();
    assert_eq!(planned.status.code(), Some(1), "something changes: {}", String::from_utf8_lossy(&planned.stderr));
    String::from_utf8(planned.stdout).unwrap()
}

#[test]
fn a_change_reaches_the_releases_in_steps_and_stops_or_goes_back_with_a_bad_canary() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("rollout").unwrap();
    crate::operator::install_kinds(cluster);
    install_kind(cluster);
    let start = |value: &str, on_failure: &str| Operator::start_in(cluster, &[&namespace], &watch(value, on_failure));

    let operator = start("one", "halt");
    let items: Vec<Value> = (0..MANY).map(holder).collect();
    namespace.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    wait_for_count(&namespace, "one", MANY);
    (0..MANY).for_each(|at| _ = HOLDER.wait_for(&namespace, &name(at), "Ready"));
    operator.terminate();

    let plan = plan(cluster, &namespace, &watch("two", "halt"));
    let named = |from: usize, to: usize| -> String {
        (from..to).map(|at| format!("{}/{}", namespace.name(), name(at))).collect::<Vec<_>>().join(", ")
    };
    let steps =
        format!("rolls out in 4 steps:\n  1. canaries: {}\n  2. 20% of the others: {}\n", named(27, 30), named(0, 6));
    assert!(plan.contains(&steps), "{plan}");

    // The process ends in the middle, or soon after, and the next one resumes.
    let since = cluster.requests().unwrap().len();
    let operator = start("two", "halt");
    wait_for_count(&namespace, "two", CANARIES + SHARES[0]);
    operator.kill();
    let operator = start("two", "halt");
    wait_for_count(&namespace, "two", MANY);
    let order = order(cluster, &namespace, since);
    let ends = [CANARIES, CANARIES + SHARES[0], CANARIES + SHARES[1], MANY];
    let steps = [MANY - CANARIES..MANY, 0..SHARES[0], SHARES[0]..SHARES[1], SHARES[1]..MANY - CANARIES];
    let mut from = 0;
    for (to, expected) in ends.into_iter().zip(steps) {
        let mut step = order[from..to].to_vec();
        step.sort_unstable();
        assert_eq!(step, expected.collect::<Vec<_>>(), "{order:?}");
        from = to;
    }
    // The rollout is complete once its last step has been observed for a while, and that is published later still.
    eventually("the event of the end", || match rollout_events(cluster) {
        told if told.iter().any(|one| one.contains("Normal RolloutCompleted ")) => Ok(()),
        told => Err(told),
    });
    operator.terminate();

    // A canary whose object cannot be changed.
    namespace.kubectl(["patch", "configmap", "r28", "-p", r#"{"immutable": true}"#]).unwrap();
    let operator = start("three", "halt");
    let told = wait_for_reason(&namespace, "r00", "RolloutHalted");
    assert!(told.contains("halted at step 1 of 4 (canaries)"), "{told}");
    assert!(count(&namespace, "two") > MANY - CANARIES, "those beyond the canaries, and the bad one");
    let metrics = operator.get("Serving metrics server", "/metrics");
    assert!(
        metrics.contains(r#"helm_operator_rollout_phase{controller="holder-controller",phase="halted"} 1"#),
        "{metrics}"
    );
    operator.terminate();
    // Each once, although a process was killed in the middle. What that had not published yet is lost.
    let told = rollout_events(cluster);
    for (text, times) in [
        ("Normal RolloutStarted ", 2..=2),
        ("now step 2 of 4 (20% of the others)", 0..=1),
        ("now step 3 of 4 (60% of the others)", 0..=1),
        ("now step 4 of 4 (the remainder)", 0..=1),
        ("Normal RolloutCompleted ", 1..=1),
        ("Warning RolloutHalted ", 1..=1),
    ] {
        let count = told.iter().filter(|one| one.contains(text)).count();
        assert!(times.contains(&count), "{text}: {told:?}");
    }

    let operator = start("three", "rollback");
    wait_for_reason(&namespace, "r00", "RolloutRolledBack");
    wait_for_count(&namespace, "two", MANY);
    wait_for_reason(&namespace, "r27", "RolloutRolledBack");
    operator.terminate();
    let operator = start("three", "rollback");
    operator.logged("taken back");
    HOLDER.set(&namespace, "r30", &json!({"map": "r30"}));
    HOLDER.wait_for(&namespace, "r30", "Ready");
    assert_eq!((count(&namespace, "two"), count(&namespace, "three")), (MANY, 1), "only what is new has it");
    operator.terminate();

    namespace.kubectl(["delete", "configmap", "r28"]).unwrap();
    let operator = start("four", "rollback");
    wait_for_count(&namespace, "four", MANY + 1);
    let (status, log) = operator.terminate();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}
