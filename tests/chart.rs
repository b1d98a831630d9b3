//! The chart controller on a real control plane: install, upgrade, repair, bad values, crash, restart, uninstall, and
//! real Helm on its releases.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::account::is_operators;
use crate::operator::{Operator, eventually};
use crate::reader::get;

pub(crate) fn set(namespace: &Namespace<'_>, name: &str, spec: Value) {
    namespace.apply(&memcached(name, &spec).to_string()).unwrap();
}

fn memcached(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn condition<'a>(resource: &'a Value, kind: &str) -> &'a Value {
    let conditions = resource["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|c| c["type"] == kind)).unwrap_or(&Value::Null)
}

/// Waits until the resource's current generation is ready; returns the resource.
pub(crate) fn wait_ready(namespace: &Namespace<'_>, name: &str) -> Value {
    eventually("ready resource", || {
        let resource = get(namespace, ["memcached", name]);
        let ready = condition(&resource, "Ready");
        let current = ready["observedGeneration"] == resource["metadata"]["generation"];
        if ready["status"] == "True" && current { Ok(resource) } else { Err(resource) }
    })
}

/// Waits until the Deployment satisfies `done`; returns the elapsed time.
fn wait_deployment(namespace: &Namespace<'_>, name: &str, what: &str, done: impl Fn(&Value) -> bool) -> Duration {
    let began = Instant::now();
    eventually(what, || {
        let deployment = get(namespace, ["deployment", name]);
        if done(&deployment) { Ok(began.elapsed()) } else { Err(deployment) }
    })
}

/// Returns the names of all remaining objects of a release, including records.
pub(crate) fn left(namespace: &Namespace<'_>) -> String {
    let kinds = "memcached,deployment,service,serviceaccount,secret";
    let names = namespace.kubectl(["get", kinds, "-o", "name"]).unwrap();
    names.lines().filter(|n| !n.ends_with("/default")).collect::<Vec<_>>().join(" ")
}

fn writes(cluster: &TestCluster, namespace: &Namespace<'_>) -> usize {
    let requests = cluster.requests().unwrap();
    requests.iter().filter(|r| is_operators(r) && r.namespace == namespace.name() && r.is_write()).count()
}

#[test]
fn a_release_follows_its_resource_from_install_to_uninstall() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("chart").unwrap();
    let _operator = Operator::start_charts(cluster, &namespace, &[]);
    set(&namespace, "web", json!({"replicaCount": 3}));
    let resource = wait_ready(&namespace, "web");
    assert_eq!(condition(&resource, "Deployed")["reason"], "InstallSuccessful");
    assert_eq!(condition(&resource, "Initialized")["status"], "True");
    assert_eq!(resource["status"]["deployedRelease"]["revision"], 1);
    let deployment = resource["status"]["deployedRelease"]["name"].as_str().unwrap().to_owned() + "-memcached";
    assert_eq!(get(&namespace, ["deployment", &deployment])["status"]["readyReplicas"], 3);

    set(&namespace, "web", json!({"replicaCount": 1, "image": {"tag": "1.6.39"}}));
    let rolled_out = |d: &Value| {
        let image = d["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        image.ends_with(":1.6.39") && d["status"]["readyReplicas"] == 1 && d["status"]["replicas"] == 1
    };
    wait_deployment(&namespace, &deployment, "roll-out", rolled_out);
    let status = wait_ready(&namespace, "web")["status"].clone();
    assert_eq!(status["deployedRelease"]["revision"], 2);
    let ids: Vec<String> =
        status["inventory"]["entries"].as_array().unwrap().iter().map(|e| e["id"].to_string()).collect();
    assert!(ids.contains(&format!("\"{}_{deployment}_apps_Deployment\"", namespace.name())), "{ids:?}");
    let told = |entry: &Value| format!("{} {} {}", entry["revision"], entry["action"], entry["outcome"]);
    let history: Vec<String> = status["history"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(history, [r#"2 "upgrade" "deployed""#, r#"1 "install" "superseded""#]);

    namespace.kubectl(["delete", "memcached", "web", "--timeout=60s"]).unwrap();
    eventually("nothing left", || match left(&namespace) {
        all if all.is_empty() => Ok(()),
        all => Err(all),
    });
}

#[test]
fn foreign_changes_are_undone_within_seconds() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("drift").unwrap();
    let _operator = Operator::start_charts(cluster, &namespace, &[]);
    set(&namespace, "web", json!({"replicaCount": 1}));
    wait_ready(&namespace, "web");
    namespace.kubectl(["scale", "deployment", "web-memcached", "--replicas=3"]).unwrap();
    let scaled = wait_deployment(&namespace, "web-memcached", "repaired size", |d| d["spec"]["replicas"] == 1);
    let old = get(&namespace, ["service", "web-memcached"])["metadata"]["uid"].clone();
    namespace.kubectl(["delete", "service", "web-memcached"]).unwrap();
    let began = Instant::now();
    eventually("repaired service", || match get(&namespace, ["service", "web-memcached"])["metadata"]["uid"].clone() {
        uid if uid.is_string() && uid != old => Ok(()),
        uid => Err(uid),
    });
    eprintln!("repaired a size after {scaled:?}, a service after {:?}", began.elapsed());
    wait_ready(&namespace, "web");
    assert_eq!(get(&namespace, ["memcached", "web"])["status"]["deployedRelease"]["revision"], 1);
}

#[test]
fn invalid_values_are_reported_in_condition_and_event_and_block_no_other_resource() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("bad").unwrap();
    let _operator = Operator::start_charts(cluster, &namespace, &[]);
    let negative = memcached("bad", &json!({"replicaCount": -1}));
    let refused = namespace.apply(&negative.to_string()).unwrap_err().to_string();
    assert!(refused.contains("spec.replicaCount"), "the definition knows the chart's values: {refused}");
    // Definitions are open to fields of later charts, so a misspelt one gets this far.
    set(&namespace, "bad", json!({"replicas": 1}));
    set(&namespace, "good", json!({"replicaCount": 1}));
    wait_ready(&namespace, "good");
    let resource = eventually("condition", || {
        let resource = get(&namespace, ["memcached", "bad"]);
        if condition(&resource, "Irreconcilable")["status"] == "True" { Ok(resource) } else { Err(resource) }
    });
    let irreconcilable = condition(&resource, "Irreconcilable");
    assert_eq!(irreconcilable["reason"], "InvalidValues");
    assert!(irreconcilable["message"].as_str().unwrap().contains("'replicas'"), "{irreconcilable}");
    eventually("event", || {
        let events = namespace.kubectl(["get", "events", "-o", "jsonpath={.items[*].reason}"]).unwrap();
        if events.contains("InvalidValues") { Ok(()) } else { Err(events) }
    });
    set(&namespace, "bad", json!({"replicaCount": 1}));
    assert!(condition(&wait_ready(&namespace, "bad"), "Irreconcilable").is_null());
}

#[test]
fn a_crash_in_the_middle_of_an_install_heals() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("crash").unwrap();
    let operator = Operator::start_charts(cluster, &namespace, &[]);
    operator.logged("Watching resource");
    let names: Vec<String> = (0..10).map(|i| format!("web{i}")).collect();
    names.iter().for_each(|name| set(&namespace, name, json!({"replicaCount": 1})));
    eventually("a first record", || {
        let secrets = namespace.kubectl(["get", "secrets", "-o", "name"]).unwrap();
        if secrets.contains("sh.helm.release") { Ok(()) } else { Err(secrets) }
    });
    operator.kill();
    let _operator = Operator::start_charts(cluster, &namespace, &[]);
    for name in &names {
        let resource = wait_ready(&namespace, name);
        assert_eq!(resource["status"]["deployedRelease"]["revision"], 1, "{name}");
    }
    let records = namespace.kubectl(["get", "secrets", "-l", "owner=helm,status=deployed", "-o", "name"]).unwrap();
    assert_eq!(records.lines().count(), names.len());
}

#[test]
fn a_restart_of_the_operator_with_every_release_in_place_writes_nothing() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("again").unwrap();
    let operator = Operator::start_charts(cluster, &namespace, &[]);
    for name in ["a", "b", "c"] {
        set(&namespace, name, json!({"replicaCount": 1}));
    }
    ["a", "b", "c"].iter().for_each(|name| _ = wait_ready(&namespace, name));
    let (status, _) = operator.terminate();
    assert_eq!(status.code(), Some(0));
    let before = writes(cluster, &namespace);
    let operator = Operator::start_charts(cluster, &namespace, &[]);
    eventually("reconciles", || {
        let metrics = operator.get("Serving metrics server", "/metrics");
        let counted = r#"controller_runtime_reconcile_total{controller="memcached-controller",result="requeue_after"}"#;
        let count = metrics.lines().find_map(|line| line.strip_prefix(counted)?.trim().parse::<u32>().ok());
        if count >= Some(3) { Ok(()) } else { Err(metrics) }
    });
    operator.terminate();
    assert_eq!(writes(cluster, &namespace), before);
}

#[test]
fn real_helm_reads_the_releases() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("helm").unwrap();
    let helm = |arguments: &[&str]| {
        let mut command = cluster.command("helm");
        command.args(arguments).args(["-n", namespace.name()]).env("KUBECONFIG", cluster.kubeconfig_path());
        let output = command.output().ok()?;
        assert!(output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap())
    };
    if helm(&["version"]).is_none() {
        eprintln!("skipped: no helm; `make cluster` builds it");
        return;
    }
    let _operator = Operator::start_charts(cluster, &namespace, &[]);
    set(&namespace, "web", json!({"replicaCount": 1}));
    wait_ready(&namespace, "web");
    set(&namespace, "web", json!({"replicaCount": 2}));
    eventually("second revision", || {
        let resource = wait_ready(&namespace, "web");
        if resource["status"]["deployedRelease"]["revision"] == 2 { Ok(()) } else { Err(resource) }
    });
    let json = |arguments: &[&str]| serde_json::from_str::<Value>(&helm(arguments).unwrap()).unwrap();
    let list = json(&["list", "-o", "json"]);
    assert_eq!(
        (&list[0]["name"], &list[0]["status"], &list[0]["revision"]),
        (&json!("web"), &json!("deployed"), &json!("2"))
    );
    let history = json(&["history", "web", "-o", "json"]);
    assert_eq!((&history[0]["status"], &history[1]["status"]), (&json!("superseded"), &json!("deployed")));
    assert_eq!(json(&["get", "values", "web", "-o", "json"]), json!({"replicaCount": 2}));
    assert!(helm(&["get", "manifest", "web"]).unwrap().contains("kind: Deployment"));
    assert!(helm(&["status", "web"]).unwrap().contains("STATUS: deployed"));
}
