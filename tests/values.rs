//! Values end to end, on a real control plane and compared with real Helm: numbers, strings, nulls, Secrets,
//! duplicates.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Once;

use helm_release::kube::{Api, Call, OPEN_FIELDS};
use helm_release::release::{Packed, Release};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_cluster::{Namespace, TestCluster};

use crate::chart::condition;
use crate::chart_kinds::define;
use crate::operator::{Operator, eventually};
use crate::ownership::install_kind;
use crate::reader::get;

/// Writes a chart with these templates.
fn chart(templates: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("templates")).unwrap();
    fs::write(folder.path().join("Chart.yaml"), "apiVersion: v2\nname: exact\nversion: 0.1.0\n").unwrap();
    fs::write(folder.path().join("values.yaml"), "size: 1\n").unwrap();
    for (name, text) in templates {
        fs::write(folder.path().join("templates").join(name), text).unwrap();
    }
    folder
}

/// Starts an operator that serves Widgets with the chart.
fn serve(cluster: &TestCluster, namespace: &Namespace<'_>, chart: &TempDir) -> Operator {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| define(cluster));
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Widget", "chart": chart.path()}]);
    Operator::start_watches(cluster, namespace, &watch.to_string(), &[])
}

/// Creates or replaces a Widget, but not with `kubectl apply`, which would copy it into an annotation.
fn set(cluster: &TestCluster, namespace: &Namespace<'_>, name: &str, spec: &str) {
    let head = format!(r#""apiVersion":"test.my.domain/v1","kind":"Widget","metadata":{{"name":"{name}"}}"#);
    let apply = ["apply", "--server-side", "-n", namespace.name(), "-f", "-"];
    cluster.kubectl_with_input(apply, &format!("{{{head},\"spec\":{spec}}}")).unwrap();
}

/// Waits until the widget has this condition for its current generation; returns its message.
fn wait_for(namespace: &Namespace<'_>, name: &str, kind: &str) -> String {
    eventually(kind, || {
        let widget = get(namespace, ["widget", name]);
        let found = condition(&widget, kind);
        let current = found["observedGeneration"] == widget["metadata"]["generation"];
        let message = found["message"].as_str().unwrap_or_default().to_owned();
        if found["status"] == "True" && current { Ok(message) } else { Err(widget) }
    })
}

fn revision(namespace: &Namespace<'_>, name: &str) -> Value {
    get(namespace, ["widget", name])["status"]["deployedRelease"]["revision"].clone()
}

/// Runs real Helm; returns `None` if it is not installed.
fn helm(cluster: &TestCluster, namespace: &Namespace<'_>, arguments: &[&str]) -> Option<()> {
    let mut command = cluster.command("helm");
    command.args(arguments).args(["-n", namespace.name()]).env("KUBECONFIG", cluster.kubeconfig_path());
    let Ok(output) = command.output() else {
        eprintln!("skipped a comparison: no helm; `make cluster` builds it");
        return None;
    };
    assert!(output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// Returns the data of every ConfigMap and Secret of a chart, by kind and name.
fn data(namespace: &Namespace<'_>) -> BTreeMap<String, Value> {
    let selector = "--selector=app.kubernetes.io/managed-by=Helm";
    let list = namespace.kubectl(["get", "configmaps,secrets", selector, "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let entry = |o: &Value| (format!("{} {}", o["kind"], o["metadata"]["name"]), o["data"].clone());
    list["items"].as_array().unwrap().iter().map(entry).collect()
}

/// Returns the data of the objects that Helm leaves in client-side or server-side mode.
fn data_of_helm(cluster: &TestCluster, chart: &TempDir, server_side: &str) -> Option<BTreeMap<String, Value>> {
    let namespace = cluster.namespace("values-helm").unwrap();
    let server_side = format!("--server-side={server_side}");
    helm(cluster, &namespace, &["install", "web", chart.path().to_str()?, &server_side])?;
    Some(data(&namespace))
}

const NUMBERS: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  million: "{{ .Values.million }}"
  precise: "{{ .Values.precise }}"
  printed: {{ printf "%d" .Values.port | quote }}
  equal: "{{ eq .Values.port 80 }}"
  types: {{ printf "%T %T %T" .Values.port .Values.ratio .Values.size | quote }}
  {{- $service := lookup "v1" "Service" .Release.Namespace "known" }}
  found: {{ range ($service.spec).ports }}{{ printf "%d %T" .port .port | quote }}{{ end }}
  listed: {{ range (lookup "v1" "Service" .Release.Namespace "").items }}{{ .kind | quote }}{{ end }}
  missing: {{ lookup "v1" "Service" .Release.Namespace "no such name" | toJson | quote }}
"#;

#[test]
fn integers_of_a_spec_and_of_lookup_are_exact() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("integers").unwrap();
    namespace.kubectl(["create", "service", "clusterip", "known", "--tcp=8080:8080"]).unwrap();
    let chart = chart(&[("numbers.yaml", NUMBERS)]);
    let spec = r#"{"million":1000000,"precise":9007199254740993,"port":80,"ratio":0.5}"#;
    // The chart renders only with such values, so `generate rbac` needs them.
    fs::create_dir(chart.path().join("ci")).unwrap();
    fs::write(chart.path().join("ci/numbers-values.yaml"), spec).unwrap();
    let _operator = serve(cluster, &namespace, &chart);
    set(cluster, &namespace, "web", spec);
    wait_for(&namespace, "web", "Ready");
    let expected = json!({
        "million": "1000000", "precise": "9007199254740993", "printed": "80", "equal": "true",
        "types": "int64 float64 float64", "found": "8080 int64", "listed": "Service", "missing": "{}",
    });
    assert_eq!(get(&namespace, ["configmap", "web"])["data"], expected);
    let config = record(&namespace, "web").config;
    assert_eq!(config, serde_json::from_str::<Value>(spec).unwrap());
}

/// Returns the release's only record.
fn record(namespace: &Namespace<'_>, name: &str) -> Release {
    let mut secret = get(namespace, ["secret", &format!("sh.helm.release.v1.{name}.v1")]);
    let data: ByteString = serde_json::from_value(secret["data"]["release"].take()).unwrap();
    Packed::from_record(&data.0, BTreeMap::new()).unwrap()
}

/// Block scalars at the end of documents and files, with and without a final newline, and other text that is easily
/// lost.
const TEXTS: [(&str, &str); 9] = [
    ("clip.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: clip}\ndata:\n  x: |\n    text"),
    ("clipped.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: clipped}\ndata:\n  x: |\n    text\n\n\n"),
    ("keep.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: keep}\ndata:\n  x: |+\n    text"),
    (
        "kept.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept1}\ndata:\n  x: |+\n    text\n\n---\n\
        apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept2}\ndata:\n  x: |+\n    text\n\n\n",
    ),
    ("strip.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: strip}\ndata:\n  x: |-\n    text\n"),
    ("fold.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fold}\ndata:\n  x: >\n    a\n    b\n\n    c"),
    ("crlf.yaml", "apiVersion: v1\r\nkind: ConfigMap\r\nmetadata: {name: crlf}\r\ndata:\r\n  x: |\r\n    a\r\n    b"),
    (
        "null.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"null\"}\ndata: {a: null, b: x}\nimmutable: null\n",
    ),
    (
        "list.yaml",
        "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: listed}\n  data: {x: \"\\x07 \\u2028 é 😀\"}\n",
    ),
];

#[test]
fn values_keep_the_characters_that_helm_writes() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("texts").unwrap();
    let chart = chart(&TEXTS);
    let _operator = serve(cluster, &namespace, &chart);
    set(cluster, &namespace, "web", "{}");
    wait_for(&namespace, "web", "Ready");
    let ours = data(&namespace);
    assert_eq!(ours["\"ConfigMap\" \"clip\""]["x"], "text\n");
    assert_eq!(ours["\"ConfigMap\" \"keep\""]["x"], "text\n");
    assert_eq!(ours["\"ConfigMap\" \"listed\""], json!({"x": "\u{7} \u{2028} é 😀"}));
    for server_side in ["false", "true"] {
        let Some(helms) = data_of_helm(cluster, &chart, server_side) else { return };
        assert_eq!(ours, helms, "--server-side={server_side}");
    }
}

#[test]
fn an_apply_keeps_every_character() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("characters").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = kube::config::Kubeconfig::from_yaml(&cluster.kubeconfig().unwrap()).unwrap();
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let plane: String = ('\u{1}'..='\u{FFFF}').map(|c| format!("x {c} y")).collect();
        let beyond: String = ['\u{10000}', '\u{1F600}', '\u{1FFFE}', '\u{10FFFF}'].into_iter().collect();
        for (name, text) in [("plane", &*plane), ("beyond", &*beyond), ("breaks", "\u{85}\u{2028}\u{2029}\u{FEFF}")] {
            let object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": text}});
            let path = format!("/api/v1/namespaces/{}/configmaps/{name}?fieldManager=test", namespace.name());
            let answer = Api::send(&client, Call::apply(path, object.to_string().into_bytes())).await.unwrap();
            assert!(answer.parse::<Value>().unwrap()["data"]["x"] == text, "{name}");
        }
    });
}

/// `toYaml` fails on such keys, also in Helm, so only a chart's literal text can contain them.
const LONG_KEYS: &str = r#"apiVersion: test.my.domain/v1
kind: Holder
metadata:
  name: held-{{ .Release.Name }}
spec:
  suspended: true
  plain:
    {{ repeat 1000 "a" }}: 1
    ? {{ repeat 1023 "b" }}
    : 2
    ? {{ repeat 5000 "é\"\\" | quote }}
    : three
  nested:
  - ? {{ repeat 2000 "c," | quote }}
    : ? {{ repeat 2000 "d" }}
      : [1, {? {{ repeat 2000 "e" }} : f}]
"#;

#[test]
fn keys_of_any_length_are_applied_as_helm_writes_them() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("long-keys").unwrap();
    install_kind(cluster);
    let chart = chart(&[("held.yaml", LONG_KEYS)]);
    let _operator = serve(cluster, &namespace, &chart);
    set(cluster, &namespace, "ours", "{}");
    wait_for(&namespace, "ours", "Ready");
    let held = namespace.kubectl(["get", "holder", "held-ours", "-o", "json", "--show-managed-fields"]).unwrap();
    let held: Value = serde_json::from_str(&held).unwrap();
    let operations: Vec<_> =
        held["metadata"]["managedFields"].as_array().unwrap().iter().map(|e| &e["operation"]).collect();
    assert_eq!(operations, ["Apply"]);
    assert_eq!(held["spec"]["plain"][&"é\"\\".repeat(5000)], "three");
    assert_eq!(held["spec"]["plain"][&"b".repeat(1023)], 2);
    if helm(cluster, &namespace, &["install", "helm", chart.path().to_str().unwrap(), "--server-side=false"]).is_some()
    {
        assert!(get(&namespace, ["holder", "held-helm"])["spec"] == held["spec"]);
    }
}

const SECRET: &str = r#"apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}
type: null
data:
  a: b2xk
stringData:
  a: won
  password: {{ .Values.password | quote }}
  empty: null
"#;

#[test]
fn drifted_keys_of_string_data_are_repaired_and_removed_ones_deleted() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("secrets").unwrap();
    let chart = chart(&[("secret.yaml", SECRET)]);
    let _operator = serve(cluster, &namespace, &chart);
    set(cluster, &namespace, "web", r#"{"password":"one"}"#);
    wait_for(&namespace, "web", "Ready");
    let wait_data = |what: &str, expected: Value| {
        eventually(what, || match get(&namespace, ["secret", "web"])["data"].take() {
            found if found == expected => Ok(()),
            found => Err(found),
        });
    };
    let whole = json!({"a": "d29u", "password": "b25l", "empty": ""});
    wait_data("secret", whole.clone());
    for patch in [r#"{"data":{"password":"eA=="}}"#, r#"{"data":{"password":null}}"#] {
        namespace.kubectl(["patch", "secret", "web", "--type=merge", "-p", patch]).unwrap();
        wait_data("repair", whole.clone());
    }
    assert_eq!(revision(&namespace, "web"), 1);
    set(cluster, &namespace, "web", r#"{"password":"two"}"#);
    wait_data("change", json!({"a": "d29u", "password": "dHdv", "empty": ""}));
}

const NULLS: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  annotations: {turn: {{ .Values.turn | quote }}}
spec:
  replicas: {{ .Values.replicas }}
  strategy: {type: Recreate, rollingUpdate: null}
  selector:
    matchLabels: {app: x}
  template:
    metadata:
      creationTimestamp: null
      labels: {app: x}
    spec:
      nodeSelector: null
      containers:
      - {name: c, image: i, resources: null, env: [{name: A, value: null}]}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  turn: {{ .Values.turn | quote }}
  nothing: null
"#;

#[test]
fn a_null_owns_nothing_and_an_autoscaler_is_left_alone() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("nulls").unwrap();
    let chart = chart(&[("nulls.yaml", NULLS)]);
    let _operator = serve(cluster, &namespace, &chart);
    set(cluster, &namespace, "web", r#"{"turn":"1"}"#);
    wait_for(&namespace, "web", "Ready");
    assert_eq!(get(&namespace, ["configmap", "web"])["data"], json!({"turn": "1", "nothing": ""}));
    namespace.kubectl(["scale", "deployment", "web", "--replicas=3"]).unwrap();
    set(cluster, &namespace, "web", r#"{"turn":"2"}"#);
    let deployment = eventually("second turn", || match get(&namespace, ["deployment", "web"]) {
        found if found["metadata"]["annotations"]["turn"] == "2" => Ok(found),
        found => Err(found),
    });
    assert_eq!(deployment["spec"]["replicas"], 3, "{deployment}");
    wait_for(&namespace, "web", "Ready");
    assert_eq!(revision(&namespace, "web"), 2);
}

#[test]
fn the_fields_whose_nulls_stay_are_those_of_the_servers_schema() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let schema: Value = serde_json::from_str(&cluster.kubectl(["get", "--raw", "/openapi/v2"]).unwrap()).unwrap();
    // Fields that charts do not write: status, and objects that only the server creates.
    let of_state = ["Status", "WatchEvent", "NodeAllocatableResourceClaimStatus", "DeviceRequestAllocationResult"];
    let any_json = |reference: &Value| {
        let name = reference.as_str().and_then(|r| r.rsplit('.').next()).unwrap_or_default();
        ["JSON", "RawExtension", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool"].contains(&name)
    };
    let mut missing = Vec::new();
    for (name, definition) in schema["definitions"].as_object().unwrap() {
        let fields = definition["properties"].as_object().into_iter().flatten();
        for (field, what) in fields.filter(|_| !of_state.iter().any(|state| name.ends_with(state))) {
            let open = what.get("additionalProperties").is_some()
                || any_json(&what["$ref"])
                || any_json(&what["items"]["$ref"]);
            if open && !OPEN_FIELDS.contains(&&**field) {
                missing.push(format!("{name}.{field}"));
            }
        }
    }
    assert_eq!(missing, [""; 0]);
}

#[test]
fn of_two_templates_for_one_object_the_last_wins_and_is_repaired_once() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("duplicates").unwrap();
    let map = |text: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {{{{ .Release.Name }}}}}}\ndata: {{{text}}}\n")
    };
    let chart = chart(&[("a.yaml", &map("first: one")), ("b.yaml", &map("second: two"))]);
    let operator = serve(cluster, &namespace, &chart);
    set(cluster, &namespace, "web", "{}");
    wait_for(&namespace, "web", "Ready");
    assert_eq!(get(&namespace, ["configmap", "web"])["data"], json!({"second": "two"}));
    let reported = "exact/templates/a.yaml and exact/templates/b.yaml both render ConfigMap \\\"web\\\"";
    operator.logged(reported);
    eventually("event", || {
        let events = namespace.kubectl(["get", "events", "-o", "json"]).unwrap();
        if events.contains("DuplicateObject") && events.contains(reported) { Ok(()) } else { Err(events) }
    });
    namespace.kubectl(["patch", "configmap", "web", "--type=merge", "-p", r#"{"data":{"second":"z"}}"#]).unwrap();
    eventually("repair", || match get(&namespace, ["configmap", "web"])["data"].take() {
        found if found == json!({"second": "two"}) => Ok(()),
        found => Err(found),
    });
    set(cluster, &namespace, "web", r#"{"other":1}"#);
    wait_for(&namespace, "web", "Ready");
    assert_eq!(revision(&namespace, "web"), 1, "the same objects make no revision");
    assert_eq!(operator.log().matches("Drift: repaired").count(), 1);
    operator.logged(&format!("\"Widget {}/web\"", namespace.name()));
}

#[test]
fn a_generated_name_is_rejected_with_its_template() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("generated").unwrap();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\ndata: {x: s3cret}\n";
    let chart = chart(&[("a.yaml", map)]);
    let _operator = serve(cluster, &namespace, &chart);
    set(cluster, &namespace, "web", "{}");
    let message = wait_for(&namespace, "web", "Irreconcilable");
    assert!(message.contains("exact/templates/a.yaml: ConfigMap has metadata.generateName"), "{message}");
    assert!(!message.contains("s3cret"), "{message}");
}

#[test]
fn an_unreadable_spec_is_reported_without_its_values_and_blocks_no_other_resource() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("specs").unwrap();
    let chart = chart(&[("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n")]);
    let deep = format!("{{\"a\":{}\"s3cret\"{}}}", "[".repeat(600), "]".repeat(600));
    serve(cluster, &namespace, &chart).terminate();
    set(cluster, &namespace, "deep", &deep);
    set(cluster, &namespace, "list", "[\"s3cret\"]");
    set(cluster, &namespace, "good", "{}");
    let operator = serve(cluster, &namespace, &chart);
    wait_for(&namespace, "good", "Ready");
    assert_eq!(wait_for(&namespace, "list", "Irreconcilable"), "spec must be a map of values, got array");
    // The test cannot parse all of it, either.
    let message = "jsonpath={.status.conditions[?(@.type==\"Irreconcilable\")].message}";
    eventually("condition", || match namespace.kubectl(["get", "widget", "deep", "-o", message]).unwrap() {
        told if told == "cannot read spec: it nests too deep (limit MAX_DEPTH of 500)" => Ok(()),
        told => Err(told),
    });
    assert!(!operator.log().contains("s3cret"));
}
