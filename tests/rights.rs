//! Runs the operator with exactly the permissions that `config/rbac` grants its ServiceAccount.

use serde_json::json;
use test_cluster::{Namespace, Request, TestCluster};

use crate::config::deploy;
use crate::operator::{Operator, eventually};

const NAMESPACE: &str = "memcached-operator-system";
const ACCOUNT: &str = "memcached-operator-controller-manager";

#[test]
fn the_operators_own_account_can_install_upgrade_repair_and_uninstall_both_kinds() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    if std::env::var_os("USE_KUBECONFIG").is_some() {
        return;
    }
    deploy(cluster);
    let namespace = cluster.namespace("account").unwrap();
    let id = format!("--leader-election-id={}", namespace.name());
    let lease = ["--leader-elect", &id, "--leader-election-namespace", NAMESPACE];
    let operator = Operator::start_as(&cluster.kubeconfig_of(NAMESPACE, ACCOUNT).unwrap(), &namespace, &lease);

    apply(&namespace, 1);
    wait_until_ready(&namespace, 1);
    apply(&namespace, 2);
    wait_until_ready(&namespace, 2);
    namespace.kubectl(["delete", "service/both-memcached"]).unwrap();
    eventually("repaired service", || namespace.kubectl(["get", "service/both-memcached"]));
    namespace.kubectl(["delete", "memcached/both", "memcachedbackup/both", "--timeout=30s"]).unwrap();
    let left = namespace.kubectl(["get", "service,ingress,hpa,secret", "-o", "name"]).unwrap();
    assert_eq!(left, "", "{}", operator.log());
    let (status, log) = operator.terminate();
    assert!(status.success() && !log.contains("lacks rights"), "{log}");

    let requests = requests_of(cluster, &format!("{NAMESPACE}:{ACCOUNT}"), &[namespace.name(), NAMESPACE]);
    assert!(requests.iter().any(Request::is_write));
    let refused: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn missing_rights_are_named_at_start_with_the_rules_that_grant_them() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    if std::env::var_os("USE_KUBECONFIG").is_some() {
        return;
    }
    deploy(cluster);
    let namespace = cluster.namespace("lacking").unwrap();
    namespace.kubectl(["create", "serviceaccount", "poor"]).unwrap();
    let resources = "--resource=memcacheds.cache.my.domain";
    namespace.kubectl(["create", "role", "poor", "--verb=get,list,watch", resources]).unwrap();
    let account = format!("--serviceaccount={}:poor", namespace.name());
    namespace.kubectl(["create", "rolebinding", "poor", "--role=poor", &account]).unwrap();
    let kubeconfig = cluster.kubeconfig_of(namespace.name(), "poor").unwrap();
    let operator = Operator::start_as(&kubeconfig, &namespace, &[]);
    for rule in [
        "{apiGroups: [cache.my.domain], resources: [memcacheds], verbs: [patch]}",
        "{apiGroups: [cache.my.domain], resources: [memcacheds/status], verbs: [patch]}",
        "resources: [secrets], verbs: [get, list, watch, create, patch, delete]}",
        "{apiGroups: [cache.my.domain], resources: [memcachedbackups], verbs: [get, list, watch, patch]}",
    ] {
        let line = operator.logged(rule);
        assert!(line.contains("The operator lacks rights") && line.contains(namespace.name()), "{line}");
    }
}

/// Applies resources of both kinds, `both`; the chart's has all options enabled.
pub(crate) fn apply(namespace: &Namespace<'_>, size: i32) {
    let (api, metadata) = ("cache.my.domain/v1", json!({"name": "both"}));
    let values = json!({"replicaCount": size, "podAnnotations": {"size": size.to_string()}, "ingress": {"enabled": true}, "autoscaling": {"enabled": true}});
    let chart = json!({"apiVersion": api, "kind": "Memcached", "metadata": metadata, "spec": values});
    let native = json!({"apiVersion": api, "kind": "MemcachedBackup", "metadata": metadata, "spec": {"size": size}});
    namespace.apply(&format!("{chart}\n---\n{native}")).unwrap();
}

pub(crate) fn wait_until_ready(namespace: &Namespace<'_>, generation: i64) {
    for resource in ["memcached/both", "memcachedbackup/both"] {
        let ready = "jsonpath={.metadata.generation} {.status.conditions[?(@.type=='Ready')].status} {.status.conditions[?(@.type=='Ready')].observedGeneration}";
        eventually(resource, || match namespace.kubectl(["get", resource, "-o", ready]) {
            Ok(seen) if seen == format!("{generation} True {generation}") => Ok(()),
            other => Err(other),
        });
    }
}

/// Returns the requests of an account, `NAMESPACE:NAME`, in these namespaces and for cluster-scoped resources.
pub(crate) fn requests_of(cluster: &TestCluster, account: &str, namespaces: &[&str]) -> Vec<Request> {
    let user = format!("system:serviceaccount:{account}");
    let requests = cluster.requests().unwrap().into_iter().filter(|request| request.user == user);
    requests.filter(|r| r.namespace.is_empty() || namespaces.contains(&r.namespace.as_str())).collect()
}
