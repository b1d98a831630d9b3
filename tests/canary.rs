//! Checks that a secret in every input of a release never appears, at any log level, in what people see: logs, events,
//! statuses and metrics of the running operator, while templates, schemas, the API server and its admission reject with
//! messages that quote it.

use std::fs;
use std::path::Path;
use std::sync::Once;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::chart::condition;
use crate::chart_kinds::define;
use crate::operator::{Operator, eventually};
use crate::reader::get;
use crate::resource::Kind;

const WIDGET: Kind = Kind("Widget");

/// The secret. It has characters that Go, JSON, HTML and URLs escape.
const CANARY: &str = "hunter2 \"<&é>";
/// The part of it that no notation escapes.
const CORE: &str = "hunter2";

/// Makes each resource fail as its value `case` says. All lines but the last ones fail for some case.
const TEMPLATE: &str = r#"
{{- $other := lookup "v1" "Secret" .Release.Namespace "other" | dig "data" "password" "" | b64dec }}
{{- if eq .Values.case "fail" }}{{ fail (printf "bad %s and %q" .Values.own .Values.sourced) }}{{ end }}
{{- if eq .Values.case "json" }}{{ fail (toJson .Values) }}{{ end }}
{{- if eq .Values.case "range" }}{{ range .Values.overridden }}{{ end }}{{ end }}
{{- if eq .Values.case "lookup" }}{{ fail $other }}{{ end }}
{{- if eq .Values.case "yaml" }}
a: {{ .Values.own }}
  b: ][
{{- end }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  labels: {x: {{ eq .Values.case "label" | ternary .Values.own "y" | quote }}}
data:
  x: {{ eq .Values.case "typed" | ternary (dict "y" .Values.sourced) .Values.own | toJson }}
---
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData: {{ dict "own" .Values.own "sourced" .Values.sourced "overridden" .Values.overridden "other" $other | toJson }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: post-install}
  labels: {x: {{ eq .Values.case "hook" | ternary .Values.overridden "y" | quote }}}
"#;

/// The failing cases, with the reason of their condition.
const FAILING: [(&str, &str); 9] = [
    ("fail", "RenderError"),
    ("json", "RenderError"),
    ("range", "RenderError"),
    ("lookup", "RenderError"),
    ("yaml", "RenderError"),
    ("schema", "InvalidValues"),
    ("label", "InstallError"),
    ("typed", "InstallError"),
    ("hook", "InstallError"),
];

fn chart(folder: &Path) -> String {
    let chart = folder.join("canary");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: canary\nversion: 0.1.0\n").unwrap();
    fs::write(chart.join("values.yaml"), "{case: good, own: a, sourced: a, overridden: a}").unwrap();
    fs::write(chart.join("values.schema.json"), r#"{"properties": {"size": {"type": "integer"}}}"#).unwrap();
    fs::write(chart.join("templates/all.yaml"), TEMPLATE).unwrap();
    fs::write(chart.join("templates/NOTES.txt"), "{{ .Values.own }} {{ .Values.sourced }}").unwrap();
    chart.display().to_string()
}

/// Lets admission reject all writes of ConfigMaps in the namespace except the administrator's, and quote their data.
fn refuse(cluster: &TestCluster, namespace: &Namespace<'_>) {
    let name = namespace.name();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]},
            ]},
            "matchConditions": [{"name": "operator", "expression": "request.userInfo.username != 'admin'"}],
            "validations": [{
                "expression": "false",
                "messageExpression": "'refused: ' + (request.operation == 'DELETE' ? oldObject : object).data.x",
            }],
        },
    });
    let within = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}});
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": within},
    });
    cluster.apply(&format!("{policy}\n---\n{binding}")).unwrap();
    // A policy takes effect some time after its creation.
    let other = ["--as=someone", "--as-group=system:masters", "--dry-run=server", "--from-literal=x=y"];
    let create = || namespace.kubectl(["create", "configmap", "any", other[0], other[1], other[2], other[3]]);
    eventually("a refusal", || create().err().ok_or("no refusal"));
}

fn accept(cluster: &TestCluster, namespace: &Namespace<'_>) {
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        cluster.kubectl(["delete", kind, namespace.name()]).unwrap();
    }
}

/// Waits until the failure's condition has this reason and contains `text`.
fn wait_failed(namespace: &Namespace<'_>, name: &str, reason: &str, text: &str) {
    eventually(name, || {
        let widget = WIDGET.get(namespace, name);
        let failed = ["Irreconcilable", "ReleaseFailed"].map(|kind| condition(&widget, kind));
        let is_it = |c: &&Value| c["reason"] == reason && c["message"].as_str().unwrap_or_default().contains(text);
        if failed.iter().any(is_it) { Ok(()) } else { Err(widget["status"].clone()) }
    });
}

/// Returns the notations of the canary that a text contains.
fn found(text: &str) -> Vec<String> {
    let inside = |before: &str| STANDARD.encode(format!("{before}{CANARY}"))[8..16].to_owned();
    let hexadecimal: String = CORE.bytes().map(|byte| format!("{byte:02x}")).collect();
    let notations = [CORE.to_owned(), hexadecimal, inside(""), inside("x"), inside("xx")];
    notations.into_iter().filter(|notation| text.contains(notation)).collect()
}

/// Fails if one of the places that people see contains the canary.
fn search(namespace: &Namespace<'_>, operator: &Operator) {
    let widgets: Value = serde_json::from_str(&namespace.kubectl(["get", "widgets", "-o", "json"]).unwrap()).unwrap();
    let statuses: Vec<_> = widgets["items"].as_array().unwrap().iter().map(|widget| &widget["status"]).collect();
    let places = [
        ("the log", operator.log()),
        ("events", events(namespace)),
        ("a status", serde_json::to_string(&statuses).unwrap()),
        ("metrics", operator.get("Serving metrics server", "/metrics")),
    ];
    places.iter().for_each(|(place, text)| shows_nothing(place, text));
}

fn events(namespace: &Namespace<'_>) -> String {
    namespace.kubectl(["get", "events", "-o", "json"]).unwrap()
}

fn shows_nothing(place: &str, text: &str) {
    assert!(!text.is_empty());
    let lines: Vec<&str> = text.split(['\n', ',']).filter(|line| !found(line).is_empty()).collect();
    assert!(lines.is_empty(), "{place}: {}", lines.join("\n"));
}

fn secret(namespace: &Namespace<'_>, name: &str, key: &str, text: &str) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: text}});
    namespace.apply(&secret.to_string()).unwrap();
}

/// Makes everything fail in every way at this log level.
fn check(level: &str) {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    static ONCE: Once = Once::new();
    ONCE.call_once(|| define(cluster));
    let namespace = cluster.namespace("canary").unwrap();
    secret(&namespace, "sources", "values.yaml", &json!({"sourced": CANARY}).to_string());
    secret(&namespace, "other", "password", CANARY);
    let charts = tempfile::tempdir().unwrap();
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Widget", "chart": chart(charts.path()),
        "valuesFrom": [{"kind": "Secret", "name": "sources"}], "overrideValues": {"overridden": CANARY}}]);
    let flag = format!("--zap-log-level={level}");
    let operator = Operator::start_watches(cluster, &namespace, &watch.to_string(), &[&flag]);
    let all = FAILING.iter().map(|(case, _)| *case).chain(["good"]);
    WIDGET.set_all(
        &namespace,
        all.map(|case| {
            let size = if case == "schema" { json!(CANARY) } else { json!(1) };
            (case.to_owned(), json!({"case": case, "own": CANARY, "size": size}))
        }),
    );
    WIDGET.wait_for(&namespace, "good", "Deployed");
    for (case, reason) in FAILING {
        wait_failed(&namespace, case, reason, "");
    }
    search(&namespace, &operator);

    refuse(cluster, &namespace);
    namespace.kubectl(["delete", "configmap", "good"]).unwrap();
    wait_failed(&namespace, "good", "ReconcileError", "refused: ");
    search(&namespace, &operator);
    accept(cluster, &namespace);
    eventually("repaired", || match get(&namespace, ["configmap", "good"]) {
        Value::Null => Err("no ConfigMap"),
        _ => Ok(()),
    });
    refuse(cluster, &namespace);
    namespace.kubectl(["delete", "widget", "label", "good", "--wait=false"]).unwrap();
    wait_failed(&namespace, "good", "UninstallError", "refused: ");
    search(&namespace, &operator);
    accept(cluster, &namespace);
    namespace.kubectl(["delete", "widgets", "--all", "--timeout=60s"]).unwrap();
    search(&namespace, &operator);
    // An operator publishes its queued events when it ends.
    let (_, log) = operator.terminate();
    shows_nothing("the log", &log);
    shows_nothing("events", &events(&namespace));
}

#[test]
fn no_value_shows_at_debug_level() {
    check("debug");
}

#[test]
fn no_value_shows_when_everything_is_logged() {
    check("9");
}
