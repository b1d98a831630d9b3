//! The native controller and the manager: scaling, deletion, restart, leader election, shutdown, metrics and probes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::account::is_operators;
use crate::operator::{Operator, eventually};
use crate::reader::get;

const METRICS: &str = "Serving metrics server";
const PROBES: &str = "Serving health probes";

fn set_size(namespace: &Namespace<'_>, name: &str, size: i32) {
    let backup = json!({"apiVersion": "cache.my.domain/v1", "kind": "MemcachedBackup", "metadata": {"name": name}, "spec": {"size": size}});
    namespace.apply(&backup.to_string()).unwrap();
}

/// Waits until the backup is ready and its nodes are the existing pods, this many; returns its status.
fn wait_ready(namespace: &Namespace<'_>, name: &str, size: usize) -> Value {
    eventually("ready backup", || {
        let backup = get(namespace, ["memcachedbackup", name]);
        let (status, generation) = (backup["status"].clone(), &backup["metadata"]["generation"]);
        let ready = status["conditions"][0]["status"] == "True" && status["observedGeneration"] == *generation;
        let nodes = status["nodes"].as_array().map_or(0, Vec::len);
        if ready && nodes == size && backup["spec"]["size"] == json!(size) { Ok(status) } else { Err(backup) }
    })
}

fn pods(namespace: &Namespace<'_>) -> Vec<String> {
    let template = "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}";
    let answer = namespace.kubectl(["get", "pods", "--sort-by=.metadata.name", "-o", template]).unwrap();
    answer.lines().map(str::to_owned).collect()
}

/// Returns the number of the operator's writes in the namespace, except to its lease.
fn writes(cluster: &TestCluster, namespace: &Namespace<'_>) -> usize {
    let requests = cluster.requests().unwrap();
    let ours = requests.iter().filter(|r| is_operators(r) && r.namespace == namespace.name() && r.is_write());
    ours.filter(|r| r.resource != "leases").count()
}

#[test]
fn a_backup_scales_to_its_size_down_to_zero_and_its_deployment_is_deleted_with_it() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("scale").unwrap();
    let _operator = Operator::start_native(cluster, &namespace, &[]);
    set_size(&namespace, "b", 2);
    let status = wait_ready(&namespace, "b", 2);
    assert_eq!(status["nodes"], json!(pods(&namespace)));
    set_size(&namespace, "b", 4);
    let status = wait_ready(&namespace, "b", 4);
    assert_eq!(status["nodes"], json!(pods(&namespace)));
    set_size(&namespace, "b", 0);
    assert_eq!(wait_ready(&namespace, "b", 0)["nodes"], json!([]));
    namespace.kubectl(["delete", "memcachedbackup", "b", "--timeout=30s"]).unwrap();
    namespace.kubectl(["wait", "--for=delete", "deployment/b", "--timeout=60s"]).unwrap();
}

#[test]
fn a_pod_that_was_evicted_is_no_node() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("evicted").unwrap();
    let _operator = Operator::start_native(cluster, &namespace, &[]);
    set_size(&namespace, "b", 1);
    let evicted = wait_ready(&namespace, "b", 1)["nodes"][0].as_str().unwrap().to_owned();
    let failed = json!({"status": {"phase": "Failed", "reason": "Evicted"}}).to_string();
    namespace.kubectl(["patch", "pod", &evicted, "--subresource=status", "--type=merge", "-p", &failed]).unwrap();
    eventually("another node", || match wait_ready(&namespace, "b", 1)["nodes"].clone() {
        nodes if nodes != json!([evicted]) => Ok(()),
        nodes => Err(nodes),
    });
    assert!(pods(&namespace).contains(&evicted), "it still exists");
}

#[test]
fn foreign_changes_to_our_fields_are_undone_and_the_users_own_fields_stay() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("repair").unwrap();
    let _operator = Operator::start_native(cluster, &namespace, &[]);
    set_size(&namespace, "b", 1);
    wait_ready(&namespace, "b", 1);
    namespace.kubectl(["annotate", "deployment", "b", "mine=yes"]).unwrap();
    namespace.kubectl(["scale", "deployment", "b", "--replicas=3"]).unwrap();
    eventually("repaired size", || match get(&namespace, ["deployment", "b"])["spec"]["replicas"].clone() {
        size if size == json!(1) => Ok(()),
        size => Err(size),
    });
    assert_eq!(get(&namespace, ["deployment", "b"])["metadata"]["annotations"]["mine"], "yes");
    wait_ready(&namespace, "b", 1);
    namespace.kubectl(["delete", "deployment", "b", "--cascade=foreground"]).unwrap();
    wait_ready(&namespace, "b", 1);
}

#[test]
fn a_restart_with_everything_in_place_writes_nothing() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("restart").unwrap();
    let operator = Operator::start_native(cluster, &namespace, &[]);
    set_size(&namespace, "b", 2);
    wait_ready(&namespace, "b", 2);
    let (status, _) = operator.terminate();
    assert_eq!(status.code(), Some(0));
    let before = writes(cluster, &namespace);
    let operator = Operator::start_native(cluster, &namespace, &[]);
    eventually("reconcile", || {
        let metrics = operator.get(METRICS, "/metrics");
        let done = r#"controller_runtime_reconcile_total{controller="memcachedbackup-controller",result="success"}"#;
        let count = metrics.lines().find_map(|line| line.strip_prefix(done)?.trim().parse::<u32>().ok());
        if count > Some(0) { Ok(()) } else { Err(metrics) }
    });
    operator.terminate();
    assert_eq!(writes(cluster, &namespace), before);
}

#[test]
fn metrics_and_probes_are_served() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("metrics").unwrap();
    let operator = Operator::start_native(cluster, &namespace, &[]);
    assert!(operator.get(PROBES, "/healthz").starts_with("HTTP/1.1 200"));
    eventually("readiness", || match operator.get(PROBES, "/readyz") {
        answer if answer.ends_with("ok") => Ok(()),
        answer => Err(answer),
    });
    set_size(&namespace, "b", 1);
    wait_ready(&namespace, "b", 1);
    let created = format!(
        r#"resource_created_at_seconds{{group="cache.my.domain",kind="MemcachedBackup",name="b",namespace="{}",version="v1"}}"#,
        namespace.name()
    );
    let metrics = operator.get(METRICS, "/metrics");
    for name in ["helm_operator_build_info{", &created, r#"rest_client_requests_total{code="201",host="127.0.0.1:"#] {
        assert!(metrics.contains(name), "no {name} in {metrics}");
    }
    namespace.kubectl(["delete", "memcachedbackup", "b", "--timeout=30s"]).unwrap();
    operator.logged(&format!("\"MemcachedBackup {}/b\"", namespace.name()));
    eventually("forgotten resource", || match operator.get(METRICS, "/metrics") {
        metrics if metrics.contains(&created) => Err(metrics),
        _ => Ok(()),
    });
}

#[test]
fn a_leader_that_ends_hands_over_at_once() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("handover").unwrap();
    let (first, second) = leader_and_standby(cluster, &namespace);
    assert!(second.get(METRICS, "/metrics").contains(r#"leader_election_master_status{name="lock"} 0"#));
    let (status, log) = first.terminate();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("All controllers finished") && log.contains("Released lease"), "{log}");
    let asked = Instant::now();
    second.logged("Successfully acquired lease");
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
}

#[test]
fn a_standby_takes_over_from_a_killed_leader_only_after_its_lease_expired() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("takeover").unwrap();
    let (first, second) = leader_and_standby(cluster, &namespace);
    set_size(&namespace, "b", 1);
    wait_ready(&namespace, "b", 1);
    first.kill();
    set_size(&namespace, "b", 2);
    assert!(!second.log().contains("Starting Controller"), "{}", second.log());
    wait_ready(&namespace, "b", 2);
    assert!(second.get(METRICS, "/metrics").contains(r#"leader_election_master_status{name="lock"} 1"#));
}

#[test]
fn a_leader_that_was_frozen_past_its_deadline_writes_nothing_when_it_wakes() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("frozen").unwrap();
    let place = format!("--leader-election-namespace={}", namespace.name());
    let flags = ["--leader-elect", "--leader-election-id=lock", &place];
    let first = Operator::start_charts(cluster, &namespace, &flags);
    first.logged("Successfully acquired lease");
    // Another user, so that the audit log distinguishes the two operators.
    let second = Operator::start_as(cluster.kubeconfig_path(), &namespace, &flags);
    second.logged("Attempting to acquire leader lease");
    set_size(&namespace, "b", 1);
    crate::chart::set(&namespace, "web", json!({}));
    wait_ready(&namespace, "b", 1);
    crate::chart::wait_ready(&namespace, "web");

    first.pause();
    set_size(&namespace, "b", 2);
    crate::chart::set(&namespace, "web", json!({"replicaCount": 2}));
    wait_ready(&namespace, "b", 2);
    crate::chart::wait_ready(&namespace, "web");
    second.logged("Successfully acquired lease");
    let before = writes(cluster, &namespace);
    first.resume();
    let (status, log) = first.wait();
    assert_ne!(status.code(), Some(0), "{log}");
    assert_eq!(writes(cluster, &namespace), before, "{log}");
}

/// Starts two operators for one lease; the first one holds it.
fn leader_and_standby(cluster: &TestCluster, namespace: &Namespace<'_>) -> (Operator, Operator) {
    let place = format!("--leader-election-namespace={}", namespace.name());
    let flags = ["--leader-elect", "--leader-election-id=lock", &place];
    let first = Operator::start_native(cluster, namespace, &flags);
    first.logged("Successfully acquired lease");
    let second = Operator::start_native(cluster, namespace, &flags);
    second.logged("Attempting to acquire leader lease");
    (first, second)
}
