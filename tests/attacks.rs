//! Attacks by users who may only create a resource: each attempt is refused by name, and the audit log shows that
//! nothing was written.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use test_cluster::{Namespace, Options, Request, TestCluster};

use crate::account::is_operators;
use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};

/// A chart like many public ones: names, namespaces and additional manifests are values.
const TEMPLATE: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ default .Release.Name .Values.fullnameOverride }}
  namespace: {{ default .Release.Namespace .Values.namespaceOverride }}
data:
  text: {{ tpl .Values.text . | quote }}
{{- range .Values.extra }}
---
{{ toYaml . }}
{{- end }}
";

pub(crate) fn chart(folder: &Path) -> String {
    let chart = folder.join("open");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: open\nversion: 0.1.0\n").unwrap();
    fs::write(chart.join("values.yaml"), "text: ''\nextra: []\n").unwrap();
    fs::write(chart.join("templates/all.yaml"), TEMPLATE).unwrap();
    chart.display().to_string()
}

/// Lets a user create and change Holders in the namespace, but nothing else.
pub(crate) fn let_create(namespace: &Namespace<'_>, user: &str) {
    let role = ["create", "role", user, "--verb=create,get,patch,update", "--resource=holders.test.my.domain"];
    namespace.kubectl(role).unwrap();
    let [role, user] = [format!("--role={user}"), format!("--user={user}")];
    namespace.kubectl(["create", "rolebinding", "holders", &role, &user]).unwrap();
}

/// Creates a Holder as this user.
pub(crate) fn create_as(user: &str, namespace: &Namespace<'_>, name: &str, spec: &Value, annotations: &Value) {
    let metadata = json!({"name": name, "namespace": namespace.name(), "annotations": annotations});
    let holder = json!({"apiVersion": "test.my.domain/v1", "kind": "Holder", "metadata": metadata, "spec": spec});
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("holder.json");
    fs::write(&file, holder.to_string()).unwrap();
    let (user, file) = (format!("--as={user}"), file.display().to_string());
    namespace.kubectl(["apply", &user, "-f", &file]).unwrap();
}

/// Waits until the Holder fails with one of the reasons; returns reason and message.
pub(crate) fn refused(namespace: &Namespace<'_>, name: &str) -> (String, String) {
    eventually(&format!("refusal of {name}"), || {
        let holder = HOLDER.get(namespace, name);
        let ready = condition(&holder, "Ready").clone();
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        let failed =
            ["ReleaseFailed", "Irreconcilable"].iter().any(|kind| condition(&holder, kind)["status"] == "True");
        if failed { Ok((text("reason"), text("message"))) } else { Err(holder["status"].clone()) }
    })
}

/// Returns an object with a fixed name.
fn object(api_version: &str, kind: &str, namespace: Option<&str>) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "attack"}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

fn with(mut object: Value, field: &str, value: Value) -> Value {
    object[field] = value;
    object
}

/// Returns a binding of a role with every permission to the attacker.
fn binding(kind: &str, namespace: Option<&str>) -> Value {
    let subjects = json!([{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    with(with(object("rbac.authorization.k8s.io/v1", kind, namespace), "subjects", subjects), "roleRef", role)
}

/// Returns each attempt with its spec. The attacker may only create a Holder in their own namespace.
fn attempts(victim: &str) -> Vec<(&'static str, Value)> {
    let extra = |object: Value| json!({"extra": [object]});
    let named = |name: &str| extra(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}));
    let hook = |event: &str| {
        let mut hook = object("v1", "ConfigMap", Some(victim));
        hook["metadata"]["annotations"] = json!({"helm.sh/hook": event});
        extra(hook)
    };
    vec![
        ("namespace-by-value", json!({"namespaceOverride": victim})),
        ("name-by-value", json!({"namespaceOverride": victim, "fullnameOverride": "data"})),
        ("manifest", extra(object("v1", "ConfigMap", Some(victim)))),
        ("secret", extra(with(object("v1", "Secret", Some(victim)), "stringData", json!({"a": "b"})))),
        ("hook", hook("pre-install")),
        ("late-hook", hook("post-delete")),
        ("rollback-hook", hook("pre-rollback")),
        ("namespace", extra(object("v1", "Namespace", None))),
        ("administrator", extra(binding("ClusterRoleBinding", None))),
        ("local-administrator", extra(binding("RoleBinding", Some(victim)))),
        ("system-administrator", extra(binding("RoleBinding", Some("kube-system")))),
        ("role", extra(with(object("rbac.authorization.k8s.io/v1", "ClusterRole", None), "rules", json!([])))),
        ("webhook", extra(object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", None))),
        ("priority", extra(with(object("scheduling.k8s.io/v1", "PriorityClass", None), "value", json!(1_000_000)))),
        ("storage", extra(with(object("storage.k8s.io/v1", "StorageClass", None), "provisioner", json!("x")))),
        (
            "list",
            extra(json!({"apiVersion": "v1", "kind": "List", "items": [object("v1", "ConfigMap", Some(victim))]})),
        ),
        ("path", extra(object("v1", "ConfigMap", Some(&format!("x/../{victim}"))))),
        ("name-with-path", named(&format!("../../{victim}/configmaps/attack"))),
        ("escaped-path", named(&format!("..%2f..%2f{victim}%2fconfigmaps%2fattack"))),
        ("version-with-path", extra(object(&format!("v1/namespaces/{victim}"), "ConfigMap", None))),
        ("namespace-with-blanks", extra(object("v1", "ConfigMap", Some(&format!(" {victim}\n"))))),
        ("subresource-as-kind", extra(object("v1", "Namespace/finalize", None))),
        ("definition", extra(object("apiextensions.k8s.io/v1", "CustomResourceDefinition", None))),
        ("aggregation", extra(with(object("apiregistration.k8s.io/v1", "APIService", None), "spec", json!({})))),
        ("policy", extra(object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", None))),
        ("mutation", extra(object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", None))),
        (
            "certificate",
            extra(with(object("certificates.k8s.io/v1", "CertificateSigningRequest", None), "spec", json!({}))),
        ),
        ("volume", extra(with(object("v1", "PersistentVolume", None), "spec", json!({"hostPath": {"path": "/"}})))),
        ("node", extra(object("v1", "Node", None))),
        ("flow", extra(object("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", None))),
        ("review", extra(with(object("authentication.k8s.io/v1", "TokenReview", None), "spec", json!({"token": "x"})))),
        ("account", extra(object("v1", "ServiceAccount", Some("kube-system")))),
        (
            "token",
            extra(with(
                object("v1", "Secret", Some("kube-system")),
                "type",
                json!("kubernetes.io/service-account-token"),
            )),
        ),
        ("far-resource", extra(object("test.my.domain/v1", "Holder", Some(victim)))),
        ("lease", extra(object("coordination.k8s.io/v1", "Lease", Some("kube-node-lease")))),
        (
            "kept",
            extra(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "attack", "namespace": victim,
            "annotations": {"helm.sh/resource-policy": "keep", "meta.helm.sh/release-namespace": victim}}})),
        ),
    ]
}

/// Returns templates in a value that read more than the release, each with a part of its refusal.
fn readings(victim: &str) -> Vec<(&'static str, String, &'static str)> {
    let of = |kind: &str, namespace: &str, name: &str| {
        let api = if kind == "Holder" { "test.my.domain/v1" } else { "v1" };
        format!("{{{{ lookup {api:?} {kind:?} {namespace:?} {name:?} | toJson }}}}")
    };
    vec![
        ("all-namespaces", of("Namespace", "", ""), "lookup: {kinds: [Namespace]}"),
        ("one-namespace", of("Namespace", "", victim), "lookup: {kinds: [Namespace]}"),
        ("nodes", of("Node", "", ""), "lookup: {kinds: [Node]}"),
        ("volumes", of("PersistentVolume", "", ""), "lookup: {kinds: [PersistentVolume]}"),
        ("own-kind", of("Holder", "", ""), "lookup: {kinds: [Holder]}"),
        (
            "neighbour",
            "{{ lookup \"test.my.domain/v1\" \"Holder\" .Release.Namespace \"neighbour\" }}".into(),
            "lookup: {kinds: [Holder]}",
        ),
        ("secret", of("Secret", victim, "data"), "lookup: {namespaces: ["),
        ("secrets", of("Secret", "", ""), "lookup: {all: true}"),
        ("nested", "{{ tpl \"{{ lookup `v1` `Namespace` `` `` }}\" . }}".into(), "lookup: {kinds: [Namespace]}"),
    ]
}

#[test]
fn templates_in_values_read_no_cluster_and_no_other_users_resource() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    install_kind(cluster);
    let (own, victim) = (cluster.namespace("reader").unwrap(), cluster.namespace("read").unwrap());
    victim.kubectl(["create", "secret", "generic", "data", "--from-literal=password=hunter2-of-victim"]).unwrap();
    let_create(&own, "mallory");
    let charts = tempfile::tempdir().unwrap();
    let watches =
        json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": chart(charts.path())}]);
    let operator = Operator::start_in(cluster, &[&own, &victim], &watches.to_string());
    let readings = readings(victim.name());
    for (name, text, _) in &readings {
        create_as("mallory", &own, name, &json!({"text": text}), &json!({}));
    }
    for (name, _, key) in &readings {
        let (_, message) = refused(&own, name);
        assert!(message.contains(key) && message.contains("in watches.yaml opens"), "{name}: {message}");
    }
    let objects = own.kubectl(["get", "configmaps,holders,events", "-o", "json"]).unwrap();
    let log = operator.terminate().1;
    assert!(!objects.contains("hunter2-of-victim") && !log.contains("hunter2-of-victim"));
    let secrets = cluster.requests().unwrap().into_iter();
    let read: Vec<Request> =
        secrets.filter(|one| is_operators(one) && one.namespace == victim.name() && one.name == "data").collect();
    assert_eq!(read, []);
}

/// Returns the operator's successful writes outside the attacker's namespace.
fn written_elsewhere(cluster: &TestCluster, own: &str, victim: &str) -> Vec<Request> {
    let is_elsewhere = |request: &Request| {
        let is_attack = request.name == "attack" && request.namespace != own;
        is_attack || request.namespace == victim
    };
    let all = cluster.requests().unwrap().into_iter();
    all.filter(|one| is_operators(one) && one.is_write() && one.code < 400 && is_elsewhere(one)).collect()
}

#[test]
fn a_user_of_one_namespace_reaches_no_other_through_values() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    install_kind(cluster);
    let (own, victim) = (cluster.namespace("attacker").unwrap(), cluster.namespace("victim").unwrap());
    victim.kubectl(["create", "configmap", "data", "--from-literal=owner=victim"]).unwrap();
    let_create(&own, "mallory");
    let charts = tempfile::tempdir().unwrap();
    let watches =
        json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": chart(charts.path())}]);
    let operator = Operator::start_in(cluster, &[&own, &victim], &watches.to_string());
    let attempts = attempts(victim.name());
    let (adopt, none) = (json!({"helm.sdk.operatorframework.io/adopt": "true"}), json!({}));
    for (name, spec) in &attempts {
        create_as("mallory", &own, name, spec, if *name == "name-by-value" { &adopt } else { &none });
    }
    // Permitted objects still work.
    create_as("mallory", &own, "good", &json!({"extra": [object("v1", "ConfigMap", None)]}), &json!({}));
    HOLDER.wait_for(&own, "good", "Ready");
    for (name, _) in &attempts {
        let (reason, message) = refused(&own, name);
        match *name {
            // The server has no such kind, path or name.
            "list" | "path" | "name-with-path" | "escaped-path" | "version-with-path" | "subresource-as-kind" => {
                assert!(!message.is_empty(), "{name}: {reason}");
            }
            _ => assert!(
                reason == "OutOfReach" && message.contains("in watches.yaml allows it"),
                "{name}: {reason}: {message}"
            ),
        }
    }
    // An upgrade is checked like an install, and the release stays unchanged.
    create_as("mallory", &own, "good", &json!({"namespaceOverride": victim.name()}), &json!({}));
    assert_eq!(refused(&own, "good").0, "OutOfReach");
    assert_eq!(HOLDER.revision(&own, "good"), 1);
    for (name, _) in &attempts {
        own.kubectl(["delete", "holder", name, "--timeout=60s"]).unwrap();
    }
    let log = operator.terminate().1;
    assert_eq!(written_elsewhere(cluster, own.name(), victim.name()), [], "{log}");
    let data = victim.kubectl(["get", "configmap", "data", "-o", "jsonpath={.data.owner} {.metadata.labels}"]).unwrap();
    assert_eq!(data.trim(), "victim");
}

/// Applies an object as a user; returns the server's refusal, if any.
fn refusal_as(user: &str, cluster: &TestCluster, object: &Value) -> Option<String> {
    let user = format!("--as={user}");
    let applied = cluster
        .kubectl_with_input(["apply", "--server-side", "--dry-run=server", &user, "-f", "-"], &object.to_string());
    applied.err().map(|error| error.to_string())
}

/// Writes the policies of an operator in this namespace, and applies them.
fn apply_policies(cluster: &TestCluster, own: &Namespace<'_>, settings: &Value) {
    let folder = tempfile::tempdir().unwrap();
    let mut watch =
        json!({"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": chart(folder.path())});
    settings.as_object().unwrap().iter().for_each(|(key, value)| watch[key] = value.clone());
    watch["chart"] = "open".into();
    fs::write(folder.path().join("watches.yaml"), json!([watch]).to_string()).unwrap();
    fs::create_dir_all(folder.path().join("config/default")).unwrap();
    let named = format!("namespace: {}\n", own.name());
    fs::write(folder.path().join("config/default/kustomization.yaml"), named).unwrap();
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    let ran = program.args(["generate", "policies"]).current_dir(folder.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    for file in ["holder_resources.yaml", "objects.yaml"] {
        cluster.apply(&fs::read_to_string(folder.path().join("config/policies").join(file)).unwrap()).unwrap();
    }
}

#[test]
fn generated_policies_refuse_at_the_api_server_what_the_operator_refuses() {
    if TestCluster::shared_or_skip().is_none() {
        return;
    }
    // Policies apply to every Holder of a cluster.
    let cluster = TestCluster::start(Options::default()).unwrap();
    install_kind(&cluster);
    let (own, victim) = (cluster.namespace("policies").unwrap(), cluster.namespace("victim").unwrap());
    let_create(&own, "mallory");
    let account = format!("system:serviceaccount:{}:controller-manager", own.name());
    let bound = [
        "create",
        "clusterrolebinding",
        "operator-account",
        "--clusterrole=cluster-admin",
        &format!("--user={account}"),
    ];
    cluster.kubectl(bound).unwrap();
    apply_policies(&cluster, &own, &json!({"adopt": "never", "objects": {"clusterScoped": ["PriorityClass"]}}));

    let holder = |name: &str, annotations: Value| {
        let metadata = json!({"name": name, "namespace": own.name(), "annotations": annotations});
        json!({"apiVersion": "test.my.domain/v1", "kind": "Holder", "metadata": metadata, "spec": {}})
    };
    let ours = |key: &str| json!({format!("helm.sdk.operatorframework.io/{key}"): "true"});
    // The server takes a moment to know a policy.
    eventually("policies", || match refusal_as("mallory", &cluster, &holder("early", ours("adopt"))) {
        Some(refusal) if refusal.contains("does not allow the annotation helm.sdk.operatorframework.io/adopt") => {
            Ok(())
        }
        other => Err(other),
    });
    let sources = refusal_as("mallory", &cluster, &holder("sources", ours("values-from")));
    assert!(sources.unwrap().contains("does not allow the annotation"));
    assert_eq!(refusal_as("mallory", &cluster, &holder("good", ours("suspend"))), None);

    let release = json!({"meta.helm.sh/release-namespace": own.name()});
    let of_release = |mut object: Value| {
        object["metadata"]["annotations"] = release.clone();
        object
    };
    let refused = |object: Value| refusal_as(&account, &cluster, &of_release(object));
    eventually("policy of objects", || match refused(object("v1", "ConfigMap", Some(victim.name()))) {
        Some(refusal) if refusal.contains("does not allow this namespace") => Ok(()),
        other => Err(other),
    });
    assert!(refused(object("v1", "Namespace", None)).unwrap().contains("does not allow this kind"));
    assert!(refused(binding("ClusterRoleBinding", None)).unwrap().contains("does not allow this kind"));
    assert_eq!(refused(object("v1", "ConfigMap", Some(own.name()))), None);
    assert_eq!(refused(with(object("scheduling.k8s.io/v1", "PriorityClass", None), "value", json!(1))), None);
    // Objects that belong to no release are not checked.
    assert_eq!(refusal_as(&account, &cluster, &object("v1", "ConfigMap", Some(victim.name()))), None);
}
