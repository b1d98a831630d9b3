//! The inputs of a release, on a real control plane: sources of values, control annotations, and cluster faults that
//! only a cluster shows.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::account::is_operators;
use crate::chart::{condition, set, wait_ready};
use crate::operator::{Operator, eventually, install_kinds};
use crate::reader::get;
use crate::scopes;

const PREFIX: &str = "helm.sdk.operatorframework.io";

/// Starts an operator that serves Memcached with its chart and these additional keys.
fn serve(cluster: &TestCluster, namespace: &Namespace<'_>, more: Value) -> Operator {
    install_kinds(cluster);
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/helm-charts/memcached");
    let mut watch = json!({"group": "cache.my.domain", "version": "v1", "kind": "Memcached", "chart": chart});
    watch.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Operator::start_watches(cluster, namespace, &json!([watch]).to_string(), &[])
}

fn secret(namespace: &Namespace<'_>, name: &str, values: &str) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"values.yaml": values}});
    namespace.apply(&secret.to_string()).unwrap();
}

fn annotate(namespace: &Namespace<'_>, name: &str, annotation: &str) {
    namespace.kubectl(["annotate", "memcached", name, "--overwrite", &format!("{PREFIX}/{annotation}")]).unwrap();
}

fn image(namespace: &Namespace<'_>, name: &str) -> Value {
    let deployment = get(namespace, ["deployment", &format!("{name}-memcached")]);
    deployment["spec"]["template"]["spec"]["containers"][0]["image"].clone()
}

/// Returns the number of the operator's writes of Deployments in a namespace.
fn applies(cluster: &TestCluster, namespace: &Namespace<'_>) -> usize {
    let all = cluster.requests().unwrap();
    let ours = all.iter().filter(|r| is_operators(r) && r.namespace == namespace.name());
    ours.filter(|r| r.resource == "deployments" && r.is_write() && r.code < 300).count()
}

#[test]
fn a_changed_secret_upgrades_its_resources_at_once_and_shows_nowhere() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("sources").unwrap();
    // Nothing but the change of the Secret can cause the upgrade.
    let sources = json!({"reconcilePeriod": "1h", "valuesFrom": [{"kind": "Secret", "name": "$(name)-values"}]});
    let operator = serve(cluster, &namespace, sources);
    set(&namespace, "web", json!({"replicaCount": 1}));
    eventually("missing source", || {
        let resource = get(&namespace, ["memcached", "web"]);
        let found = condition(&resource, "Irreconcilable");
        if found["reason"] == "ValuesSourceMissing" { Ok(()) } else { Err(resource) }
    });
    secret(&namespace, "web-values", "image: {tag: 1.6.38}");
    wait_ready(&namespace, "web");
    assert!(image(&namespace, "web").as_str().unwrap().ends_with(":1.6.38"));

    secret(&namespace, "web-values", "image: {tag: 1.6.39}");
    eventually("upgrade", || {
        let image = image(&namespace, "web");
        if image.as_str().unwrap().ends_with(":1.6.39") { Ok(()) } else { Err(image) }
    });
    eventually("revision", || {
        let resource = wait_ready(&namespace, "web");
        if resource["status"]["deployedRelease"]["revision"] == 2 { Ok(()) } else { Err(resource) }
    });
    secret(&namespace, "web-values", "image: {tag: [s3cret\n");
    let told = eventually("invalid source", || {
        let resource = get(&namespace, ["memcached", "web"]);
        let found = condition(&resource, "Irreconcilable")["message"].clone();
        if found.is_string() { Ok(found) } else { Err(resource) }
    });
    assert_eq!(told, "Secret \"web-values\", key \"values.yaml\", line 1: is not valid YAML");
    assert!(!operator.log().contains("s3cret"));
}

#[test]
fn a_token_is_repeated_once_its_reconcile_is_over_and_a_suspended_resource_says_so() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("tokens").unwrap();
    let operator = serve(cluster, &namespace, json!({}));
    set(&namespace, "web", json!({"replicaCount": 1}));
    wait_ready(&namespace, "web");
    annotate(&namespace, "web", "reconcile-now=one");
    let wait = "--for=jsonpath={.status.lastHandled.reconcileNow}=one";
    namespace.kubectl(["wait", "memcached/web", wait, "--timeout=30s"]).unwrap();
    operator.terminate();
    let before = applies(cluster, &namespace);
    assert_eq!(before, 2, "the install, and the token");
    let _operator = serve(cluster, &namespace, json!({}));
    annotate(&namespace, "web", "suspend=true");
    eventually("suspended", || {
        let table = namespace.kubectl(["get", "memcached", "web", "-o", "wide"]).unwrap();
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        let columns = ["NAME", "READY", "OBJECTS", "CHART", "REVISION", "AGE", "SUSPENDED", "REASON", "MESSAGE"];
        let is_told = rows[0] == columns
            && rows[1][..5] == ["web", "True", "3/3", "memcached-0.1.0", "1"]
            && rows[1][6..8] == ["True", "Ready"];
        if is_told { Ok(()) } else { Err(table) }
    });
    assert_eq!(applies(cluster, &namespace), before, "a handled token is not handled again");
}

#[test]
fn a_resource_deleted_in_the_foreground_takes_its_release_and_its_records_with_it() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("foreground").unwrap();
    let _operator = serve(cluster, &namespace, json!({}));
    set(&namespace, "web", json!({"replicaCount": 1}));
    wait_ready(&namespace, "web");
    namespace.kubectl(["delete", "memcached", "web", "--cascade=foreground", "--timeout=60s"]).unwrap();
    eventually("nothing left", || {
        let left = namespace.kubectl(["get", "memcached,deployment,service,secret", "-o", "name"]).unwrap();
        if left.trim().is_empty() { Ok(()) } else { Err(left) }
    });
}

/// A kind used only by this test, because its definition is deleted.
const GONE: &str = "crd/briefs.brief.my.domain";

fn define(cluster: &TestCluster) {
    let widget = include_str!("fixtures/crds/widget.yaml");
    let brief =
        widget.replace("test.my.domain", "brief.my.domain").replace("widget", "brief").replace("Widget", "Brief");
    cluster.apply(&brief).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", GONE]).unwrap();
}

fn brief(namespace: &Namespace<'_>) {
    let brief = json!({"apiVersion": "brief.my.domain/v1", "kind": "Brief", "metadata": {"name": "web"}, "spec": {}});
    eventually("a resource", || namespace.apply(&brief.to_string()).map_err(|error| error.to_string()));
}

#[test]
fn releases_go_with_their_definition_and_come_back_with_it() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("definition").unwrap();
    define(cluster);
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/helm-charts/memcached");
    let watch = json!([{"group": "brief.my.domain", "version": "v1", "kind": "Brief", "chart": chart}]);
    let _operator = Operator::start_watches(cluster, &namespace, &watch.to_string(), &[]);
    for _ in 0..2 {
        brief(&namespace);
        eventually("installed", || {
            let deployment = get(&namespace, ["deployment", "web-memcached"]);
            if deployment["metadata"]["deletionTimestamp"].is_null() && deployment.is_object() {
                Ok(())
            } else {
                Err(deployment)
            }
        });
        cluster.kubectl(["delete", GONE, "--timeout=60s"]).unwrap();
        eventually("uninstalled", || {
            let left = namespace.kubectl(["get", "deployment,service,secret", "-o", "name"]).unwrap();
            if left.trim().is_empty() { Ok(()) } else { Err(left) }
        });
        define(cluster);
    }
}

const GENERATED: &str = "
apiVersion: v1
kind: Secret
metadata: {name: '{{ .Release.Name }}'}
{{- $old := lookup \"v1\" \"Secret\" .Release.Namespace .Release.Name }}
data: {password: '{{ with $old }}{{ .data.password }}{{ else }}{{ randAlphaNum 12 | b64enc }}{{ end }}'}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: '{{ .Release.Name }}'}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
{{- if ne .Values.text \"\" }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {text: '{{ .Values.text }}'}
{{- end }}
";

/// Writes a chart with this name into the folder, replacing an existing one.
fn write_chart(folder: &Path, name: &str) {
    fs::create_dir_all(folder.join("templates")).unwrap();
    fs::write(folder.join("Chart.yaml"), format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n")).unwrap();
    fs::write(folder.join("values.yaml"), "text: a\n").unwrap();
    fs::write(folder.join("templates/all.yaml"), GENERATED).unwrap();
}

#[test]
fn a_chart_with_another_name_keeps_the_objects_of_its_releases() {
    const STORES: &str = "stores.v1.test.my.domain";
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    scopes::define(cluster);
    let namespace = cluster.namespace("renamed").unwrap();
    let chart = tempfile::tempdir().unwrap();
    let watches =
        json!([{"group": "test.my.domain", "version": "v1", "kind": "Store", "chart": chart.path()}]).to_string();
    let start = || Operator::start_as_in(&cluster.operator_kubeconfig_path(), namespace.name(), &watches);
    let store = |text: &str| {
        let metadata = json!({"name": "web"});
        let store =
            json!({"apiVersion": "test.my.domain/v1", "kind": "Store", "metadata": metadata, "spec": {"text": text}});
        namespace.apply(&store.to_string()).unwrap();
    };
    let ready = |revision: u64| {
        eventually("readiness", || {
            let store = get(&namespace, [STORES, "web"]);
            let is_new = store["status"]["observedGeneration"] == store["metadata"]["generation"];
            let is_done = store["status"]["deployedRelease"]["revision"] == revision;
            let is_installed = condition(&store, "Deployed")["status"] == "True";
            if is_new && is_done && is_installed { Ok(()) } else { Err(store) }
        });
    };
    let facts = || {
        let [secret, claim] = ["secret", "pvc"].map(|kind| get(&namespace, [kind, "web"]));
        (secret["metadata"]["uid"].clone(), secret["data"].clone(), claim["metadata"]["uid"].clone())
    };
    write_chart(chart.path(), "before");
    let operator = start();
    store("a");
    ready(1);
    let before = facts();
    drop(operator);
    let record = || get(&namespace, ["secret", "sh.helm.release.v1.web.v1"])["metadata"]["annotations"].clone();
    let compared = record();
    write_chart(chart.path(), "after");
    let operator = start();
    let drift = || {
        namespace.kubectl(["patch", "secret", "web", "-p", r#"{"data":{"password":"AAAA"}}"#]).unwrap();
        eventually("the repair", || if facts() == before { Ok(()) } else { Err(facts()) });
    };
    // A password that is edited before that would become a value of the release: its template looks it up.
    eventually("the comparison of the release with the new chart", || {
        if record() == compared { Err("no inputs are noted") } else { Ok(()) }
    });
    // The objects keep the label of the chart that made them until they are written again, and are watched under both.
    drift();
    // Objects that it no longer renders are deleted.
    store("");
    ready(2);
    eventually("the removal of the ConfigMap", || {
        match namespace.kubectl(["get", "configmap/web", "--ignore-not-found"]) {
            Ok(found) if found.is_empty() => Ok(()),
            other => Err(other),
        }
    });
    drift();
    drop(operator);
    // The upgrade has written what it did not change, too, so that another process sees it by the new chart's label.
    let label = || get(&namespace, ["pvc", "web"])["metadata"]["labels"]["helm.sdk.operatorframework.io/chart"].clone();
    assert_eq!(label(), "after");
    let operator = start();
    operator.logged("Starting Controller");
    drift();
    ready(2);
    drop(operator);
    // A release of the old name that is deleted while no operator runs.
    write_chart(chart.path(), "third");
    namespace.kubectl(["delete", STORES, "web", "--wait=false"]).unwrap();
    let _operator = start();
    namespace.kubectl(["wait", "--for=delete", &format!("{STORES}/web"), "--timeout=60s"]).unwrap();
    // A claim goes once its controller has removed its finalizer.
    for kind in ["secret", "pvc"] {
        eventually(&format!("the end of the {kind}"), || match get(&namespace, [kind, "web"]) {
            Value::Null => Ok(()),
            left => Err(left),
        });
    }
    let requests = cluster.requests().unwrap();
    let deletions = requests.iter().filter(|r| r.namespace == namespace.name() && r.verb == "delete");
    let claims = deletions.filter(|r| is_operators(r) && r.resource == "persistentvolumeclaims").count();
    assert_eq!(claims, 1, "once, with its resource");
}
