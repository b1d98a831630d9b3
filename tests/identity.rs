//! Releases under ServiceAccounts with few permissions, and Pods under the strictest Pod Security level, on a real
//! control plane.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use test_cluster::{Namespace, Request, TestCluster};

use crate::account::{self, is_operator};
use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::reader::get;
use crate::scopes;

/// A chart whose value `extra` is a template.
const TEMPLATE: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {size: '{{ .Values.size }}', extra: {{ tpl .Values.extra . | quote }}}
{{- if .Values.role }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: '{{ .Release.Name }}'}
rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]
{{- end }}
";

fn chart(folder: &Path) -> String {
    let chart = folder.join("store");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: store\nversion: 0.1.0\n").unwrap();
    fs::write(chart.join("values.yaml"), "size: 1\nextra: ''\nrole: false\n").unwrap();
    fs::write(chart.join("templates/all.yaml"), TEMPLATE).unwrap();
    chart.display().to_string()
}

/// Creates an account with these permissions.
fn create_account(namespace: &Namespace<'_>, name: &str, rules: &[[&str; 2]]) {
    namespace.kubectl(["create", "serviceaccount", name]).unwrap();
    for (at, [verbs, resources]) in rules.iter().enumerate() {
        let role = format!("{name}-{at}");
        let (verbs, resources) = (format!("--verb={verbs}"), format!("--resource={resources}"));
        namespace.kubectl(["create", "role", &role, &verbs, &resources]).unwrap();
        let subject = format!("--serviceaccount={}:{name}", namespace.name());
        namespace.kubectl(["create", "rolebinding", &role, &format!("--role={role}"), &subject]).unwrap();
    }
}

fn set(namespace: &Namespace<'_>, group: &str, name: &str, spec: &Value) {
    let store = json!({"apiVersion": format!("{group}/v1"), "kind": "Store", "metadata": {"name": name}, "spec": spec});
    namespace.apply(&store.to_string()).unwrap();
}

/// Waits until a store's condition has this reason; returns its message.
fn wait_for(namespace: &Namespace<'_>, group: &str, name: &str, [kind, reason]: [&str; 2]) -> String {
    eventually(reason, || {
        let store = get(namespace, [&format!("stores.v1.{group}"), name]);
        let found = condition(&store, kind).clone();
        let is_new = store["status"]["observedGeneration"] == store["metadata"]["generation"];
        if is_new && found["reason"] == reason { Ok(found["message"].as_str().unwrap().to_owned()) } else { Err(store) }
    })
}

const MAPS: [&str; 2] = ["get,create,patch,delete", "configmaps"];

#[test]
fn two_watches_act_as_two_accounts_and_neither_does_more_than_its_account_may() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    scopes::define(cluster);
    let namespace = cluster.namespace("identity").unwrap();
    create_account(&namespace, "maps", &[MAPS]);
    create_account(&namespace, "roles", &[MAPS, ["get,create,patch,delete", "roles.rbac.authorization.k8s.io"]]);
    let charts = tempfile::tempdir().unwrap();
    let chart = chart(charts.path());
    let watch = |group: &str, account: &str| {
        json!({"group": group, "version": "v1", "kind": "Store", "chart": chart, "serviceAccountName": account,
            "lookup": {"all": true}})
    };
    let watches = json!([watch("test.my.domain", "maps"), watch("other.my.domain", "roles")]);
    let operator = Operator::start_watches(cluster, &namespace, &watches.to_string(), &[]);
    let (one, other) = ("test.my.domain", "other.my.domain");
    set(&namespace, one, "a", &json!({"size": 1}));
    set(&namespace, other, "b", &json!({"size": 1}));
    wait_for(&namespace, one, "a", ["Ready", "Ready"]);
    wait_for(&namespace, other, "b", ["Ready", "Ready"]);

    set(&namespace, one, "a", &json!({"size": 2, "role": true}));
    let refused = wait_for(&namespace, one, "a", ["Irreconcilable", "Forbidden"]);
    let user = |account: &str| format!("system:serviceaccount:{}:{account}", namespace.name());
    assert!(refused.contains(&user("maps")) && refused.contains("roles.rbac.authorization.k8s.io"), "{refused}");
    set(&namespace, other, "b", &json!({"size": 2, "role": true}));
    let refused = wait_for(&namespace, other, "b", ["ReleaseFailed", "UpgradeError"]);
    assert!(refused.contains("attempting to grant RBAC permissions not currently held"), "{refused}");
    assert!(refused.contains("the verb escalate on roles"), "{refused}");
    set(&namespace, one, "a", &json!({"size": 3, "extra": "{{ lookup \"v1\" \"Secret\" \"kube-system\" \"x\" }}"}));
    let refused = wait_for(&namespace, one, "a", ["Irreconcilable", "RenderError"]);
    assert!(refused.contains(&user("maps")) && refused.contains("kube-system"), "{refused}");

    namespace.kubectl(["delete", "configmap/b"]).unwrap();
    eventually("repair", || namespace.kubectl(["get", "configmap/b"]));
    for (group, name) in [(one, "a"), (other, "b")] {
        namespace.kubectl(["delete", &format!("stores.v1.{group}"), name, "--timeout=30s"]).unwrap();
    }
    assert_eq!(namespace.kubectl(["get", "configmap", "a", "b", "--ignore-not-found", "-o", "name"]).unwrap(), "");
    drop(operator);
    let all = cluster.requests().unwrap();
    let requests: Vec<&Request> = all.iter().filter(|r| r.namespace == namespace.name()).collect();
    let writers = |resource: &str| -> Vec<&str> {
        let mut users: Vec<&str> =
            requests.iter().filter(|r| r.is_write() && r.resource == resource).map(|r| r.acting_as.as_str()).collect();
        users.sort_unstable();
        users.dedup();
        users.retain(|user| is_operator(user) || user.starts_with("system:serviceaccount:identity"));
        users
    };
    assert_eq!(writers("configmaps"), [user("maps").as_str(), user("roles").as_str()]);
    assert_eq!(writers("secrets"), [account::user(namespace.name()).as_str()], "records");
    assert_eq!(writers("stores/status"), [account::user(namespace.name()).as_str()]);
}

#[test]
fn a_namespace_is_deleted_with_its_account_and_leaves_no_release() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    scopes::define(cluster);
    let namespace = cluster.namespace("identity-gone").unwrap();
    create_account(&namespace, "maps", &[MAPS]);
    let charts = tempfile::tempdir().unwrap();
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Store", "chart": chart(charts.path()),
        "serviceAccountName": "maps"}]);
    let operator = Operator::start_watches(cluster, &namespace, &watch.to_string(), &[]);
    set(&namespace, "test.my.domain", "a", &json!({}));
    wait_for(&namespace, "test.my.domain", "a", ["Ready", "Ready"]);
    let deleted = cluster.kubectl(["delete", "namespace", namespace.name(), "--timeout=180s"]);
    assert!(deleted.is_ok(), "{deleted:?} {}", operator.log());
}

#[test]
fn an_operator_that_may_not_impersonate_says_which_rule_it_lacks() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    if std::env::var_os("USE_KUBECONFIG").is_some() {
        return;
    }
    scopes::define(cluster);
    let namespace = cluster.namespace("identity-rights").unwrap();
    create_account(&namespace, "maps", &[MAPS]);
    let all = "get,list,watch,create,patch,delete,deletecollection";
    create_account(
        &namespace,
        "operator",
        &[
            [all, "stores.test.my.domain,secrets,configmaps,events"],
            ["get,patch", "stores.test.my.domain/status"],
            ["get", "serviceaccounts"],
        ],
    );
    let charts = tempfile::tempdir().unwrap();
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Store", "chart": chart(charts.path()),
        "serviceAccountName": "maps"}]);
    fs::write(charts.path().join("watches.yaml"), watch.to_string()).unwrap();
    let file = format!("--watches-file={}", charts.path().join("watches.yaml").display());
    let kubeconfig = cluster.kubeconfig_of(namespace.name(), "operator").unwrap();
    // It may write Secrets only there.
    let key = format!("--record-key-namespace={}", namespace.name());
    let _operator = Operator::start_as(&kubeconfig, &namespace, &[&file, &key]);
    set(&namespace, "test.my.domain", "a", &json!({}));
    let refused = wait_for(&namespace, "test.my.domain", "a", ["Irreconcilable", "ImpersonationForbidden"]);
    let rule = "{apiGroups: [\"\"], resources: [serviceaccounts], resourceNames: [maps], verbs: [get, impersonate]}";
    assert!(refused.contains(rule), "{refused}");
    let named =
        ["create", "role", "impersonate", "--verb=impersonate", "--resource=serviceaccounts", "--resource-name=maps"];
    namespace.kubectl(named).unwrap();
    let subject = format!("--serviceaccount={}:operator", namespace.name());
    namespace.kubectl(["create", "rolebinding", "impersonate", "--role=impersonate", &subject]).unwrap();
    wait_for(&namespace, "test.my.domain", "a", ["Ready", "Ready"]);
}
