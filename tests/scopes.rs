//! Kinds that differ in scope, version or group, and kinds that appear later, on a real control plane.

use std::fs;
use std::path::Path;
use std::sync::Once;

use serde_json::{Value, json};
use test_cluster::{Namespace, Options, TestCluster};

use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::reader::get;

pub(crate) fn define(cluster: &TestCluster) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| define_in(cluster));
}

fn define_in(cluster: &TestCluster) {
    cluster.apply(include_str!("fixtures/crds/scopes.yaml")).unwrap();
    let all = ["platforms.test.my.domain", "stores.test.my.domain", "stores.other.my.domain"];
    for crd in all.map(|name| format!("crd/{name}")) {
        cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", &crd]).unwrap();
    }
}

/// Writes a chart with one template; returns its folder.
fn chart(folder: &Path, name: &str, template: &str) -> String {
    let chart = folder.join(name);
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n")).unwrap();
    fs::write(chart.join("templates/all.yaml"), template).unwrap();
    chart.display().to_string()
}

fn resource(api_version: &str, kind: &str, name: &str, spec: &Value) -> String {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}).to_string()
}

/// Waits until this object has this value in its data.
fn wait_for(namespace: &Namespace<'_>, map: &str, key: &str, expected: &str) {
    eventually(map, || match get(namespace, ["configmap", map]) {
        object if object["data"][key] == expected => Ok(()),
        object => Err(object),
    });
}

/// Waits until a condition of the Store `web` has this status and contains `text`.
fn wait_told(namespace: &Namespace<'_>, kind: &str, status: &str, text: &str) {
    eventually(kind, || {
        let store = get(namespace, ["store.test.my.domain", "web"]);
        let found = condition(&store, kind);
        let told = found["message"].as_str().unwrap_or_default().contains(text);
        if found["status"] == status && told { Ok(()) } else { Err(store["status"].clone()) }
    });
}

const PLATFORM: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-home'}
data: {size: '{{ .Values.size }}', namespace: '{{ .Release.Namespace }}'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-tenant', namespace: '{{ .Values.tenant }}'}
data: {size: '{{ .Values.size }}'}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: '{{ .Release.Name }}'}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
";

#[test]
fn a_cluster_scoped_resource_is_installed_repaired_upgraded_and_uninstalled() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define(cluster);
    let (home, tenant) = (cluster.namespace("home").unwrap(), cluster.namespace("tenant").unwrap());
    let charts = tempfile::tempdir().unwrap();
    let chart = chart(charts.path(), "platform", PLATFORM);
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Platform", "chart": chart,
        "releaseNamespace": home.name(), "objects": {"namespaces": [tenant.name()]}}]);
    let operator = Operator::start_in(cluster, &[&home, &tenant], &watch.to_string());
    let name = home.name();
    let set = |size: u32| {
        let spec = json!({"size": size, "tenant": tenant.name()});
        cluster.apply(&resource("test.my.domain/v1", "Platform", name, &spec)).unwrap();
    };
    set(1);
    let (at_home, at_tenant) = (format!("{name}-home"), format!("{name}-tenant"));
    wait_for(&home, &at_home, "namespace", name);
    wait_for(&tenant, &at_tenant, "size", "1");
    let ready = || get(&home, ["platform", name]);
    let resource = eventually("ready platform", || match ready() {
        resource if condition(&resource, "Ready")["status"] == "True" => Ok(resource),
        resource => Err(resource),
    });
    assert_eq!(resource["status"]["deployedRelease"]["revision"], 1);
    let uid = &resource["metadata"]["uid"];
    for object in [
        get(&home, ["configmap", &at_home]),
        get(&tenant, ["configmap", &at_tenant]),
        get(&home, ["clusterrole", name]),
    ] {
        assert_eq!(&object["metadata"]["ownerReferences"][0]["uid"], uid, "{object}");
    }

    tenant.kubectl(["delete", "configmap", &at_tenant]).unwrap();
    wait_for(&tenant, &at_tenant, "size", "1");
    home.kubectl(["patch", "clusterrole", name, "--type=merge", "-p", r#"{"rules": []}"#]).unwrap();
    eventually("repaired role", || match get(&home, ["clusterrole", name]) {
        role if role["rules"][0]["verbs"][0] == "get" => Ok(()),
        role => Err(role),
    });
    set(2);
    wait_for(&tenant, &at_tenant, "size", "2");

    operator.kill();
    let _operator = Operator::start_in(cluster, &[&home, &tenant], &watch.to_string());
    cluster.kubectl(["delete", "platform", name, "--timeout=60s"]).unwrap();
    assert_eq!(get(&tenant, ["configmap", &at_tenant]), Value::Null);
    assert_eq!(get(&home, ["clusterrole", name]), Value::Null);
    assert_eq!(home.kubectl(["get", "secret", "-l", "owner=helm", "-o", "name"]).unwrap(), "");
}

#[test]
fn the_release_namespace_of_a_cluster_scoped_kind_must_be_watched() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define(cluster);
    let namespace = cluster.namespace("elsewhere").unwrap();
    let charts = tempfile::tempdir().unwrap();
    let chart = chart(charts.path(), "platform", PLATFORM);
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Platform", "chart": chart,
        "releaseNamespace": "kube-public"}]);
    let operator = Operator::start_in(cluster, &[&namespace], &watch.to_string());
    operator
        .logged("the namespace of its releases, \\\"kube-public\\\", is not in WATCH_NAMESPACE: set releaseNamespace");
}

/// Returns a template whose ConfigMap names the chart, and another object that only this chart has.
fn naming(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: '{{{{ .Release.Name }}}}'}}\ndata: {{chart: {name}, size: '{{{{ .Values.size }}}}'}}\n\
         ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: '{{{{ .Release.Name }}}}-{name}'}}\n"
    )
}

#[test]
fn each_resource_of_a_kind_with_two_versions_is_served_by_the_chart_of_the_version_it_was_written_in() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define(cluster);
    let namespace = cluster.namespace("versions").unwrap();
    let charts = tempfile::tempdir().unwrap();
    let watches = ["v1", "v2"].map(|version| {
        let name = format!("store-{version}");
        let chart = chart(charts.path(), &name, &naming(&name));
        json!({"group": "test.my.domain", "version": version, "kind": "Store", "chart": chart})
    });
    let operator = Operator::start_watches(cluster, &namespace, &json!(watches).to_string(), &[]);
    for (name, version) in [("a", "v1"), ("b", "v2")] {
        namespace.apply(&resource(&format!("test.my.domain/{version}"), "Store", name, &json!({"size": 1}))).unwrap();
        wait_for(&namespace, name, "chart", &format!("store-{version}"));
    }
    namespace.apply(&resource("test.my.domain/v2", "Store", "a", &json!({"size": 2}))).unwrap();
    wait_for(&namespace, "a", "chart", "store-v2");
    wait_for(&namespace, "a", "size", "2");
    eventually("pruned object", || match get(&namespace, ["configmap", "a-store-v1"]) {
        Value::Null => Ok(()),
        object => Err(object),
    });
    let store = eventually("ready store", || match get(&namespace, ["store.v2.test.my.domain", "a"]) {
        store if store["status"]["deployedRelease"]["chart"] == "store-v2-0.1.0" => Ok(store),
        store => Err(store),
    });
    assert_eq!(store["status"]["deployedRelease"]["revision"], 2, "{}", operator.log());
    // No controllers compete for it.
    let before = get(&namespace, ["configmap", "a"])["metadata"]["resourceVersion"].clone();
    namespace.kubectl(["annotate", "store.v2.test.my.domain", "a", "b", "x=y"]).unwrap();
    namespace.kubectl(["delete", "store.v1.test.my.domain", "b", "--timeout=60s"]).unwrap();
    assert_eq!(get(&namespace, ["configmap", "b"]), Value::Null);
    assert_eq!(get(&namespace, ["configmap", "a"])["metadata"]["resourceVersion"], before);
}

#[test]
fn two_kinds_of_one_name_in_two_groups_have_their_own_charts() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define(cluster);
    let namespace = cluster.namespace("groups").unwrap();
    let charts = tempfile::tempdir().unwrap();
    let watches = ["test", "other"].map(|group| {
        let chart = chart(charts.path(), group, &naming(group));
        json!({"group": format!("{group}.my.domain"), "version": "v1", "kind": "Store", "chart": chart})
    });
    let _operator = Operator::start_watches(cluster, &namespace, &json!(watches).to_string(), &[]);
    for group in ["test", "other"] {
        namespace.apply(&resource(&format!("{group}.my.domain/v1"), "Store", group, &json!({"size": 1}))).unwrap();
        wait_for(&namespace, group, "chart", group);
    }
    // A release has one owner, even if two resources have its name.
    namespace.apply(&resource("other.my.domain/v1", "Store", "test", &json!({"size": 2}))).unwrap();
    let conflict = eventually("conflict", || {
        let store = get(&namespace, ["store.other.my.domain", "test"]);
        let conflict = condition(&store, "Irreconcilable").clone();
        if conflict["reason"] == "ReleaseConflict" { Ok(conflict) } else { Err(store) }
    });
    assert!(conflict["message"].as_str().unwrap().starts_with("release \"test\""), "{conflict}");
    namespace.kubectl(["delete", "store.other.my.domain", "test", "other", "--timeout=60s"]).unwrap();
    assert_eq!(get(&namespace, ["configmap", "test"])["data"]["size"], "1");
    assert_eq!(get(&namespace, ["configmap", "other"]), Value::Null);
}

#[test]
fn operators_with_disjoint_selectors_share_a_kind_and_a_label_hands_a_resource_over() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define(cluster);
    let namespace = cluster.namespace("selectors").unwrap();
    let charts = tempfile::tempdir().unwrap();
    let _operators = ["left", "right"].map(|side| {
        let chart = chart(charts.path(), side, &naming(side));
        let selector = json!({"matchLabels": {"side": side}});
        let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Store", "chart": chart, "selector": selector}]);
        Operator::start_watches(cluster, &namespace, &watch.to_string(), &[])
    });
    let label = |name: &str, side: &str| {
        namespace.kubectl(["label", "--overwrite", "store.test.my.domain", name, &format!("side={side}")]).unwrap();
    };
    for name in ["a", "b", "c"] {
        namespace.apply(&resource("test.my.domain/v1", "Store", name, &json!({"size": 1}))).unwrap();
    }
    label("a", "left");
    label("b", "right");
    wait_for(&namespace, "a", "chart", "left");
    wait_for(&namespace, "b", "chart", "right");
    let unlabelled = get(&namespace, ["store.test.my.domain", "c"]);
    assert_eq!((&unlabelled["metadata"]["finalizers"], &unlabelled["status"]), (&Value::Null, &Value::Null));
    label("c", "left");
    wait_for(&namespace, "c", "chart", "left");
    label("c", "right");
    wait_for(&namespace, "c", "chart", "right");
    let pruned = || get(&namespace, ["configmap", "c-left"]);
    eventually("pruned object", || if pruned() == Value::Null { Ok(()) } else { Err(pruned()) });
    assert_eq!(get(&namespace, ["configmap", "a"])["data"]["chart"], "left");
    namespace.kubectl(["delete", "store.test.my.domain", "--all", "--timeout=60s"]).unwrap();
    assert_eq!(get(&namespace, ["configmap", "c"]), Value::Null);
}

const ASKS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {size: '{{ .Values.size }}', later: '{{ .Capabilities.APIVersions.Has \"later.my.domain/v1/Later\" }}'}
{{- if .Capabilities.APIVersions.Has \"later.my.domain/v1/Later\" }}
---
apiVersion: later.my.domain/v1
kind: Later
metadata: {name: '{{ .Release.Name }}'}
{{- end }}
";

const LATER: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: laters.later.my.domain}
spec:
  group: later.my.domain
  scope: Namespaced
  names: {kind: Later, listKind: LaterList, plural: laters, singular: later}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

#[test]
fn kinds_that_come_and_go_are_no_reason_to_upgrade_but_the_next_render_sees_it() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define(cluster);
    let namespace = cluster.namespace("later").unwrap();
    let charts = tempfile::tempdir().unwrap();
    let chart = chart(charts.path(), "asks", ASKS);
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Store", "chart": chart}]);
    let _operator = Operator::start_watches(cluster, &namespace, &watch.to_string(), &[]);
    let set = |name: &str, size: u32| {
        namespace.apply(&resource("test.my.domain/v1", "Store", name, &json!({"size": size}))).unwrap();
        wait_for(&namespace, name, "size", &size.to_string());
        get(&namespace, ["configmap", name])["data"]["later"].clone()
    };
    assert_eq!(set("web", 1), "false");
    let before = get(&namespace, ["configmap", "web"])["metadata"]["resourceVersion"].clone();
    cluster.apply(LATER).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd/laters.later.my.domain"]).unwrap();
    namespace.kubectl(["annotate", "store.test.my.domain", "web", "x=y"]).unwrap();
    assert_eq!(get(&namespace, ["configmap", "web"])["metadata"]["resourceVersion"], before);
    let mut size = 1;
    eventually("a render that knows the kind", || {
        size += 1;
        let seen = set("web", size);
        if seen == "true" { Ok(()) } else { Err(seen) }
    });

    // A release that is rendered before the operator notices the deletion is rendered again.
    let version = || get(&namespace, ["configmap", "web"])["metadata"]["resourceVersion"].clone();
    let before = version();
    cluster.kubectl(["delete", "crd/laters.later.my.domain", "--timeout=30s"]).unwrap();
    set("new", 1);
    wait_for(&namespace, "new", "later", "false");
    assert_eq!(version(), before);
    set("web", size + 1);
    wait_for(&namespace, "web", "later", "false");
    for name in ["web", "new"] {
        namespace
            .kubectl(["wait", "--for=condition=Ready", "--timeout=60s", &format!("store.test.my.domain/{name}")])
            .unwrap();
        namespace.kubectl(["delete", "store.test.my.domain", name, "--timeout=60s"]).unwrap();
    }
}

/// Defines Gear in a group with these versions, each served or not; v1 is stored.
fn define_gears(cluster: &TestCluster, group: &str, versions: [(&str, bool); 2]) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions = versions
        .map(|(name, served)| json!({"name": name, "served": served, "storage": name == "v1", "schema": schema}));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("gears.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": versions,
            "names": {"kind": "Gear", "listKind": "GearList", "plural": "gears", "singular": "gear"},
        },
    });
    cluster.apply(&definition.to_string()).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", &format!("crd/gears.{group}")]).unwrap();
}

const GEAR: &str = "
apiVersion: gone.my.domain/{{ if .Values.beta }}v1beta1{{ else }}v1{{ end }}
kind: Gear
metadata: {name: '{{ .Release.Name }}'}
spec: {size: one}
";

#[test]
fn objects_are_repaired_after_their_version_or_definition_went() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define(cluster);
    define_gears(cluster, "gone.my.domain", [("v1beta1", true), ("v1", true)]);
    let namespace = cluster.namespace("gone").unwrap();
    let charts = tempfile::tempdir().unwrap();
    let chart = chart(charts.path(), "gear", GEAR);
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Store", "chart": chart}]);
    let operator = Operator::start_watches(cluster, &namespace, &watch.to_string(), &[]);
    let set = |beta: bool| {
        namespace.apply(&resource("test.my.domain/v1", "Store", "web", &json!({"beta": beta}))).unwrap();
    };
    let told = |kind: &str, status: &str, text: &str| wait_told(&namespace, kind, status, text);
    let repaired = |operator: &Operator| {
        eventually("repair", || match get(&namespace, ["gears.v1.gone.my.domain", "web"]) {
            gear if gear["spec"]["size"] == "one" => Ok(()),
            gear => Err((gear, operator.log())),
        });
    };
    let damage = || {
        let size = r#"{"spec":{"size":"two"}}"#;
        namespace.kubectl(["patch", "gears.v1.gone.my.domain/web", "--type=merge", "-p", size]).unwrap();
    };
    set(true);
    told("Ready", "True", "");
    damage();
    repaired(&operator);

    // Without its version the object cannot be written; the chart's next version takes it over, and it is watched
    // there.
    define_gears(cluster, "gone.my.domain", [("v1beta1", false), ("v1", true)]);
    eventually("the end of v1beta1", || {
        match cluster.kubectl(["get", "--raw", "/apis/gone.my.domain/v1beta1/gears"]) {
            Ok(served) => Err(served),
            Err(_) => Ok(()),
        }
    });
    damage();
    told("Irreconcilable", "True", "no matches for kind \"Gear\" in version \"gone.my.domain/v1beta1\"");
    set(false);
    repaired(&operator);
    told("Ready", "True", "");
    damage();
    repaired(&operator);

    cluster.kubectl(["delete", "crd/gears.gone.my.domain", "--timeout=30s"]).unwrap();
    told("Ready", "False", "Gear \"web\" is not ready: the server does not serve its kind");
    let (_, log) = operator.terminate();
    assert!(!log.contains("which is a bug"), "{log}");
    let operator = Operator::start_watches(cluster, &namespace, &watch.to_string(), &[]);
    operator.logged("Cannot watch the objects of a kind");
    define_gears(cluster, "gone.my.domain", [("v1beta1", true), ("v1", true)]);
    repaired(&operator);
    told("Ready", "True", "");

    cluster.kubectl(["delete", "crd/gears.gone.my.domain", "--timeout=30s"]).unwrap();
    told("Ready", "False", "Gear \"web\" is not ready: the server does not serve its kind");
    define_gears(cluster, "gone.my.domain", [("v1beta1", true), ("v1", true)]);
    repaired(&operator);
    told("Ready", "True", "");
    assert!(!operator.log().contains("which is a bug"), "{}", operator.log());
    namespace.kubectl(["delete", "store.test.my.domain", "web", "--timeout=60s"]).unwrap();
}

#[test]
fn an_uninstall_waits_for_an_api_server_that_does_not_answer() {
    const GROUP: &str = "away.my.domain";
    let Some(_) = TestCluster::shared_or_skip() else { return };
    // APIServices without a backend would disturb other tests.
    let cluster = &TestCluster::start(Options::default()).unwrap();
    define_in(cluster);
    define_gears(cluster, GROUP, [("v1beta1", true), ("v1", true)]);
    let namespace = cluster.namespace("away").unwrap();
    let charts = tempfile::tempdir().unwrap();
    let chart = chart(charts.path(), "away", &GEAR.replace("gone.my.domain", GROUP));
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Store", "chart": chart}]);
    let operator = Operator::start_watches(cluster, &namespace, &watch.to_string(), &[]);
    namespace.apply(&resource("test.my.domain/v1", "Store", "web", &json!({"beta": false}))).unwrap();
    let told = |kind: &str, status: &str, text: &str| wait_told(&namespace, kind, status, text);
    told("Ready", "True", "");
    operator.terminate();
    cluster.kubectl(["delete", "crd/gears.away.my.domain", "--timeout=30s"]).unwrap();
    // The definition's own APIService disappears soon after it.
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.away.my.domain"},
        "spec": {
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
            "service": {"name": "nobody", "namespace": namespace.name()},
        },
    });
    eventually("APIService", || {
        cluster.apply(&service.to_string()).map_err(|error| error.to_string())?;
        let found = cluster.kubectl(["get", "--raw", "/apis/apiregistration.k8s.io/v1/apiservices/v1.away.my.domain"]);
        let found = found.map_err(|error| error.to_string())?;
        if found.contains("nobody") && found.contains("ServiceNotFound") { Ok(()) } else { Err(found) }
    });
    namespace.kubectl(["delete", "store.test.my.domain", "web", "--wait=false"]).unwrap();
    let _operator = Operator::start_watches(cluster, &namespace, &watch.to_string(), &[]);
    told("Irreconcilable", "True", "the API server behind APIService \"v1.away.my.domain\" does not answer");
    cluster.kubectl(["delete", "apiservice", "v1.away.my.domain"]).unwrap();
    namespace.kubectl(["wait", "--for=delete", "store.test.my.domain/web", "--timeout=60s"]).unwrap();
}

/// Returns Helm's JSON output.
fn helm(cluster: &TestCluster, namespace: &str, arguments: &[&str]) -> Value {
    let mut command = cluster.command("helm");
    command.args(arguments).args(["-n", namespace, "-o", "json"]).env("KUBECONFIG", cluster.kubeconfig_path());
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn helm_reads_the_records_of_releases_that_share_a_namespace() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define(cluster);
    let [shop, bank, records] = ["shop", "bank", "records"].map(|name| cluster.namespace(name).unwrap());
    let charts = tempfile::tempdir().unwrap();
    let chart = chart(charts.path(), "shared", &naming("shared"));
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Store", "chart": chart,
        "storageNamespace": records.name()}]);
    let _operator = Operator::start_in(cluster, &[&shop, &bank], &watch.to_string());
    let store = |size: u32| resource("test.my.domain/v1", "Store", "web", &json!({"size": size}));
    for (namespace, size) in [(&shop, 1), (&bank, 2)] {
        namespace.apply(&store(size)).unwrap();
        wait_for(namespace, "web", "size", &size.to_string());
    }
    shop.apply(&store(3)).unwrap();
    wait_for(&shop, "web", "size", "3");
    let name = format!("{}.web", shop.name());
    let history = eventually("two revisions", || match helm(cluster, records.name(), &["history", &name]) {
        Value::Array(all) if all.len() == 2 && all[1]["status"] == "deployed" => Ok(all),
        other => Err(other),
    });
    assert_eq!((&history[0]["status"], &history[1]["revision"]), (&json!("superseded"), &json!(2)));
    // What each revision did is beside Helm's own key, which is all that Helm reads.
    for revision in 1..=2 {
        let record = get(&records, ["secret", &format!("sh.helm.release.v1.{name}.v{revision}")]);
        assert!(record["data"]["plan"].is_string(), "revision {revision}");
        let mut command = cluster.command("helm");
        command.args(["get", "manifest", &name, "-n", records.name(), "--revision", &revision.to_string()]);
        let manifest = command.env("KUBECONFIG", cluster.kubeconfig_path()).output().unwrap().stdout;
        assert!(String::from_utf8_lossy(&manifest).contains("kind: ConfigMap"), "revision {revision}");
    }
    let mut listed: Vec<(String, String)> = Vec::new();
    for release in helm(cluster, records.name(), &["list"]).as_array().unwrap() {
        listed.push((release["namespace"].as_str().unwrap().into(), release["name"].as_str().unwrap().into()));
    }
    listed.sort();
    let mut expected = [&shop, &bank].map(|namespace| (namespace.name().to_owned(), "web".to_owned()));
    expected.sort();
    assert_eq!(listed, expected);
    assert_eq!(helm(cluster, records.name(), &["get", "values", &name, "--revision", "1"]), json!({"size": 1}));

    shop.kubectl(["delete", "stores.test.my.domain", "web", "--timeout=60s"]).unwrap();
    let left = records.kubectl(["get", "secret", "-l", "owner=helm", "-o", "name"]).unwrap();
    assert_eq!(left.trim(), format!("secret/sh.helm.release.v1.{}.web.v1", bank.name()));
    assert_eq!(get(&bank, ["configmap", "web"])["data"]["size"], "2");
    for namespace in [&shop, &bank] {
        assert_eq!(namespace.kubectl(["get", "secret", "-l", "owner=helm", "-o", "name"]).unwrap(), "");
    }
}
