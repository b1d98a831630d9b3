//! Attacks by tenants who may `edit` a whole namespace and the status of their resources, or who reach the operator's
//! ports without any permission: on a real control plane, with an operator that has all permissions.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use test_cluster::{Namespace, Request, TestCluster};

use crate::account::is_operators;
use crate::attacks::{chart, create_as, let_create, refused};
use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};
use crate::reader::get;

const ED: &str = "--as=ed";

/// Writes objects as the tenant, who may do that in the tenant's namespace.
fn write_as_ed(cluster: &TestCluster, namespace: &Namespace<'_>, object: &Value) {
    let args = ["-n", namespace.name(), ED, "apply", "--server-side", "--force-conflicts", "-f", "-"];
    cluster.kubectl_with_input(args, &object.to_string()).unwrap();
}

/// Changes the status of the tenant's resource, as a role with the subresource allows.
fn patch_status(namespace: &Namespace<'_>, status: &Value) {
    let patch = json!({"status": status}).to_string();
    namespace.kubectl([ED, "patch", "holder", "web", "--subresource=status", "--type=merge", "-p", &patch]).unwrap();
}

/// Returns what distinguishes an object from another with its name, and from its own earlier version.
fn identity(namespace: &Namespace<'_>, what: [&str; 2]) -> [Value; 2] {
    let metadata = get(namespace, what)["metadata"].clone();
    assert!(metadata.is_object(), "{what:?} is gone");
    ["uid", "resourceVersion"].map(|field| metadata[field].clone())
}

/// Returns objects in the tenant's own namespace that claim to belong to the victim's release, with its resource as
/// their owner.
fn forged_objects(victim: &Namespace<'_>) -> [Value; 2] {
    let owner = get(victim, ["holder", "web"]);
    let reference = json!([{"apiVersion": "test.my.domain/v1", "kind": "Holder", "name": "web", "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    let metadata = |name: &str| {
        json!({"name": name, "labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {
            "meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": victim.name(),
            "operator-sdk/primary-resource": format!("{}/web", victim.name()),
            "operator-sdk/primary-resource-type": "Holder.test.my.domain",
        }})
    };
    let mut owned = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("forged-owned")});
    owned["metadata"]["ownerReferences"] = reference;
    [owned, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("forged")})]
}

/// Returns a status that names the victim's release and objects.
fn forged_status(victim: &str) -> Value {
    let manifest = format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: precious, namespace: {victim}}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {victim}}}\n"
    );
    json!({"deployedRelease": {"name": "web", "namespace": victim, "revision": 7, "manifest": manifest}, "observedGeneration": 99})
}

#[test]
fn a_tenant_who_may_edit_his_namespace_changes_nothing_outside_of_it() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    install_kind(cluster);
    let (own, victim) = (cluster.namespace("editor").unwrap(), cluster.namespace("edited").unwrap());
    own.kubectl(["create", "rolebinding", "ed", "--clusterrole=edit", "--user=ed"]).unwrap();
    let_create(&own, "ed");
    let status = ["create", "role", "status", "--verb=get,patch,update", "--resource=holders.test.my.domain/status"];
    own.kubectl(status).unwrap();
    own.kubectl(["create", "rolebinding", "status", "--role=status", "--user=ed"]).unwrap();
    victim.kubectl(["create", "configmap", "precious"]).unwrap();
    victim
        .kubectl(["create", "secret", "generic", "data", "--from-literal=values.yaml=text: hunter2-of-victim"])
        .unwrap();
    let charts = tempfile::tempdir().unwrap();
    let watches = json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": chart(charts.path()), "valuesFromAnnotation": true}]);
    let both = format!("{},{}", own.name(), victim.name());
    let start = || Operator::start_as_in(&cluster.operator_kubeconfig_path(), &both, &watches.to_string());
    let operator = start();
    HOLDER.set(&victim, "web", &json!({}));
    HOLDER.set(&own, "web", &json!({}));
    HOLDER.wait_for(&victim, "web", "Ready");
    HOLDER.wait_for(&own, "web", "Ready");
    let watched =
        || [["configmap", "web"], ["configmap", "precious"], ["secret", "data"]].map(|what| identity(&victim, what));
    let before = (watched(), HOLDER.revision(&victim, "web"));

    // Objects that claim to belong to another release.
    forged_objects(&victim).iter().for_each(|object| write_as_ed(cluster, &own, object));
    // A status that names another release, with and without the tenant's own records, across a restart.
    patch_status(&own, &forged_status(victim.name()));
    HOLDER.set(&own, "web", &json!({"text": "again"}));
    HOLDER.wait_for(&own, "web", "Ready");
    drop(operator);
    patch_status(&own, &forged_status(victim.name()));
    own.kubectl([ED, "delete", "secret", "-l", "owner=helm"]).unwrap();
    own.kubectl([ED, "annotate", "configmap", "web", "meta.helm.sh/release-namespace=elsewhere", "--overwrite"])
        .unwrap();
    let operator = start();
    HOLDER.set(&own, "web", &json!({"text": "anew"}));
    eventually("an answer", || {
        let holder = HOLDER.get(&own, "web");
        let is_new = holder["status"]["observedGeneration"] == holder["metadata"]["generation"];
        if is_new { Ok(()) } else { Err(holder["status"].clone()) }
    });
    claims(&own, victim.name());
    races(&own);

    own.kubectl(["delete", "holders", "--all", "--timeout=60s"]).unwrap();
    let log = operator.terminate().1;
    assert_eq!((watched(), HOLDER.revision(&victim, "web")), before, "{log}");
    assert!(!log.contains("hunter2-of-victim"));
    let seen = own.kubectl(["get", "configmaps,holders,events", "-o", "json"]).unwrap();
    assert!(!seen.contains("hunter2-of-victim"));
    let requests = cluster.requests().unwrap();
    let about_data: Vec<&Request> = requests
        .iter()
        .filter(|one| is_operators(one) && one.namespace == victim.name() && ["data", "precious"].contains(&&*one.name))
        .collect();
    assert_eq!(about_data, Vec::<&Request>::new());
}

/// Tries what the tenant's resources may request by annotations and names.
fn claims(own: &Namespace<'_>, victim: &str) {
    let ours = |key: &str, value: &str| json!({format!("helm.sdk.operatorframework.io/{key}"): value});
    let far = json!({"fullnameOverride": "precious", "namespaceOverride": victim});
    for (name, spec, annotations, reasons) in [
        ("adopts", &far, ours("adopt", "true"), &["OutOfReach"][..]),
        ("forces", &far, ours("rollback-force", "true"), &["OutOfReach"]),
        (
            "reads",
            &json!({}),
            ours("values-from", &format!("[{{kind: Secret, name: data, namespace: {victim}}}]")),
            &["InvalidAnnotation", "ValuesSourceMissing", "ValuesSourceForbidden"],
        ),
        (
            "paths",
            &json!({}),
            ours("values-from", &format!("[{{kind: Secret, name: ../../{victim}/secrets/data}}]")),
            &["InvalidAnnotation", "ValuesSourceMissing", "ValuesSourceForbidden"],
        ),
        ("web.v1", &json!({"fullnameOverride": "web"}), json!({}), &["ReleaseConflict"]),
    ] {
        create_as("ed", own, name, spec, &annotations);
        let (reason, message) = refused(own, name);
        assert!(reasons.contains(&&*reason), "{name}: {reason}: {message}");
    }
    let endless = json!({"text": "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}"});
    create_as("ed", own, "endless", &endless, &json!({}));
    assert!(!refused(own, "endless").1.is_empty());
}

/// Creates two resources that claim one object: one gets it, and the other reports the conflict.
fn races(own: &Namespace<'_>) {
    let same = json!({"fullnameOverride": "contested"});
    HOLDER.set_all(own, ["one", "two"].map(|name| (name.to_owned(), same.clone())));
    let conflicts = |name: &str| condition(&HOLDER.get(own, name), "ReleaseFailed")["reason"] == "ReleaseConflict";
    eventually("one winner", || match ["one", "two"].map(conflicts) {
        [first, second] if first != second => Ok(()),
        both => Err(both),
    });
}

/// Returns an anonymous client's requests, each with the prefixes of acceptable responses.
fn requests() -> Vec<(&'static str, Vec<u8>)> {
    let long = |part: &str, times: usize| part.repeat(times);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").into_bytes();
    let mut all: Vec<(&str, Vec<u8>)> = [
        "/",
        "/metrics/",
        "/metrics/../healthz",
        "//healthz",
        "/debug/pprof/",
        "/healthz/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/healthz?x=1",
        "/readyz#a",
        "/configz",
        "/api",
        "*",
        "http://169.254.169.254/latest/meta-data",
        "/\u{e9}",
    ]
    .map(|path| ("path", get(path)))
    .into();
    for method in ["POST", "PUT", "DELETE", "TRACE", "OPTIONS", "CONNECT", "PATCH", "PRI", "x"] {
        all.push((
            "method",
            format!("{method} /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
                .into_bytes(),
        ));
    }
    all.extend([
        ("long path", get(&format!("/{}", long("a", 100_000)))),
        ("long header", format!("GET /healthz HTTP/1.1\r\nX: {}\r\n\r\n", long("x", 100_000)).into_bytes()),
        ("many headers", format!("GET /healthz HTTP/1.1\r\n{}\r\n", long("A: b\r\n", 5_000)).into_bytes()),
        ("no host", b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n".to_vec()),
        ("two lengths", b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab".to_vec()),
        ("chunks", b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nffffffffffffffff\r\na".to_vec()),
        ("endless number", b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n".to_vec()),
        ("an upgrade", b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n".to_vec()),
        ("http/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec()),
        ("http/0.9", b"GET /healthz\r\n".to_vec()),
        ("http/9", b"GET /healthz HTTP/9.9\r\n\r\n".to_vec()),
        ("tls", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".to_vec()),
        ("nothing but bytes", vec![0xff; 4096]),
        ("pipelined", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".repeat(500)),
        ("a fold", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\nConnection: close\r\n\r\n".to_vec()),
    ]);
    all
}

/// Sends bytes and reads the response, as far as the server answers soon.
fn send(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = vec![0; 64 << 10];
    let read = stream.read(&mut answer).unwrap_or_default();
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[test]
fn an_anonymous_client_gets_nothing_from_the_ports_but_health() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    install_kind(cluster);
    let namespace = cluster.namespace("anonymous").unwrap();
    let charts = tempfile::tempdir().unwrap();
    let watches =
        json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": chart(charts.path())}]);
    let folder = fs::canonicalize(charts.path()).unwrap();
    let secured = ["--metrics-secure", "--metrics-require-rbac"];
    let operator = Operator::start_watches(cluster, &namespace, &watches.to_string(), &secured);
    HOLDER.set(&namespace, "web", &json!({"text": "hunter2-in-values"}));
    HOLDER.wait_for(&namespace, "web", "Ready");
    for server in ["Serving health probes", "Serving metrics server"] {
        let line: Value = serde_json::from_str(&operator.logged(server)).unwrap();
        let address = line["bindAddress"].as_str().unwrap();
        // Slow clients that stay connected, in addition to all others.
        let slow: Vec<TcpStream> = (0..200).filter_map(|_| TcpStream::connect(address).ok()).collect();
        slow.iter().for_each(|mut stream| _ = stream.write_all(b"GET /hea"));
        for (what, bytes) in requests() {
            let answer = send(address, &bytes);
            let status = answer.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).unwrap_or_default().to_owned();
            assert!(!status.starts_with('5'), "{server}, {what}: {answer}");
            assert!(
                !answer.contains("hunter2") && !answer.contains("root:") && !answer.contains("helm_operator_"),
                "{server}, {what}"
            );
            assert!(!answer.contains(folder.to_str().unwrap()), "{server}, {what}: {answer}");
        }
    }
    assert!(operator.get("Serving health probes", "/healthz").starts_with("HTTP/1.1 200"));
    HOLDER.set(&namespace, "web", &json!({"text": "still"}));
    HOLDER.wait_for(&namespace, "web", "Ready");
    let (status, log) = operator.terminate();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}
