//! Test charts on a real control plane: failing templates, and hooks.

use std::sync::Once;

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::account::is_operators;
use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::reader::get;
use crate::resource::Kind;

const WIDGET: Kind = Kind("Widget");

/// Starts an operator that serves Widgets, with one worker.
pub(crate) fn start(cluster: &TestCluster, namespace: &Namespace<'_>) -> Operator {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| define(cluster));
    serve(cluster, namespace)
}

/// Creates the kind Widget.
pub(crate) fn define(cluster: &TestCluster) {
    // Concurrent tests may apply the same, which server-side apply allows.
    let apply = ["apply", "--server-side", "-f", "-"];
    cluster.kubectl_with_input(apply, include_str!("fixtures/crds/widget.yaml")).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd/widgets.test.my.domain"]).unwrap();
}

/// Starts an operator; the kind must exist.
pub(crate) fn serve(cluster: &TestCluster, namespace: &Namespace<'_>) -> Operator {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/widget");
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Widget", "chart": chart}]);
    Operator::start_watches(cluster, namespace, &watch.to_string(), &["--max-concurrent-reconciles=1"])
}

pub(crate) fn set(namespace: &Namespace<'_>, name: &str, spec: Value) {
    WIDGET.set(namespace, name, &spec);
}

/// Waits until the widget has this condition for its current generation; returns the condition.
pub(crate) fn wait_for(namespace: &Namespace<'_>, name: &str, kind: &str) -> Value {
    condition(&WIDGET.wait_for(namespace, name, kind), kind).clone()
}

pub(crate) fn events_of(namespace: &Namespace<'_>, name: &str) -> String {
    WIDGET.events_of(namespace, name)
}

/// Returns the operator's writes to Jobs and ConfigMaps, in order: `create jobs`, `patch configmaps/web`.
pub(crate) fn writes(cluster: &TestCluster, namespace: &Namespace<'_>) -> Vec<String> {
    let requests = cluster.requests().unwrap();
    let ours = requests.iter().filter(|r| is_operators(r) && r.namespace == namespace.name() && r.is_write());
    let kinds = ours.filter(|r| ["jobs", "configmaps"].contains(&r.resource.as_str()) && r.code < 300);
    kinds.map(|r| format!("{} {}/{}", r.verb, r.resource, r.name)).collect()
}

#[test]
fn a_failing_template_is_reported_with_its_line_and_blocks_no_other_resource() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("template").unwrap();
    let _operator = start(cluster, &namespace);
    set(&namespace, "bad", json!({"colour": "red"}));
    set(&namespace, "good", json!({"colour": "green"}));
    wait_for(&namespace, "good", "Ready");
    let irreconcilable = wait_for(&namespace, "bad", "Irreconcilable");
    assert_eq!(irreconcilable["reason"], "RenderError");
    let message = irreconcilable["message"].as_str().unwrap();
    assert!(message.contains("widget/templates/configmap.yaml:7:"), "{message}");
    assert!(message.contains("red is sold out"), "{message}");
    let told = format!("RenderError: {message}");
    eventually("event", || match events_of(&namespace, "bad") {
        events if events.contains(&told) => Ok(()),
        events => Err(events),
    });
    set(&namespace, "bad", json!({"colour": "blue"}));
    wait_for(&namespace, "bad", "Ready");

    // A failing change leaves the deployed release unchanged.
    set(&namespace, "good", json!({"colour": "red"}));
    assert_eq!(wait_for(&namespace, "good", "Irreconcilable")["reason"], "RenderError");
    assert_eq!(get(&namespace, ["configmap", "good"])["data"]["colour"], "green");
}

/// Hostile specs for a chart that runs templates from them, and the expected errors.
const HOSTILE: [(&str, &str, &str); 10] = [
    ("endless", "{{ range 1000000000 }}{{ end }}", "limit steps exceeded"),
    ("itself", "{{ tpl .Values.extra . }}", "limit executions exceeded"),
    ("include", "{{ define \"x\" }}{{ include \"x\" . }}{{ end }}{{ include \"x\" . }}", "nested reference name: x"),
    ("text", "{{ repeat 2000000000 \"x\" }}", "limit MAX_STRING_BYTES exceeded"),
    ("list", "{{ until 1000000000 }}", "limit MAX_LIST_ITEMS exceeded"),
    ("output", "{{ range until 100000 }}{{ repeat 100000 \"x\" }}{{ end }}", "limit output exceeded"),
    ("value", "{{ $x := dict }}{{ $_ := set $x \"x\" $x }}{{ deepCopy $x }}", "limit MAX_VALUE_DEPTH exceeded"),
    ("pattern", "{{ regexFindAll \".*[^a]|a\" (repeat 1000000 \"a\") -1 }}", "limit MAX_SEARCH_TIME exceeded"),
    ("deep", "{{ repeat 100000 \"[\" }}", "exceeded max depth"),
    (
        "bomb",
        "a: &a [{{ repeat 99 \"x,\" }}]\nb: &b [{{ repeat 99 \"*a,\" }}]\nc: &c [{{ repeat 99 \"*b,\" }}]\nd: [{{ repeat 99 \"*c,\" }}]",
        "excessive aliasing",
    ),
];

/// Maximum memory of the operator in KiB; its workers do the rendering.
const MEMORY: u64 = 256 << 10;

#[test]
fn hostile_resources_hit_a_named_limit_and_block_no_other() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("hostile").unwrap();
    let operator = start(cluster, &namespace);
    for (name, extra, _) in HOSTILE {
        set(&namespace, name, json!({"extra": extra}));
    }
    set(&namespace, "good", json!({"colour": "green"}));
    wait_for(&namespace, "good", "Ready");
    for (name, _, expected) in HOSTILE {
        let told = wait_for(&namespace, name, "Irreconcilable");
        let message = told["message"].as_str().unwrap();
        // If the engine's limit exceeds the worker's, the kernel's limit applies first.
        let is_engines = told["reason"] == "RenderError" && message.contains(expected);
        let is_kernels = told["reason"] == "RenderLimit" && message.contains("limit --render-memory");
        assert!(is_engines || (name == "output" && is_kernels), "{name}: {told}");
        assert_eq!(get(&namespace, ["configmap", name]), Value::Null);
    }
    set(&namespace, "good", json!({"colour": "blue"}));
    eventually("change", || match &get(&namespace, ["configmap", "good"])["data"]["colour"] {
        colour if colour == "blue" => Ok(()),
        colour => Err(colour.clone()),
    });
    assert!(operator.peak_memory().is_none_or(|peak| peak < MEMORY), "{:?}", operator.peak_memory());
}

#[test]
fn hooks_run_by_weight_around_install_and_uninstall() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("hooks").unwrap();
    let _operator = start(cluster, &namespace);
    set(&namespace, "web", json!({"hooks": true}));
    wait_for(&namespace, "web", "Ready");
    let jobs = namespace.kubectl(["get", "jobs", "-o", "name"]).unwrap();
    assert_eq!(jobs.split_whitespace().collect::<Vec<_>>(), ["job.batch/web-a-second", "job.batch/web-after"]);
    namespace.kubectl(["delete", "widget", "web", "--timeout=60s"]).unwrap();
    let expected = [
        "create jobs/web-z-first",
        "create jobs/web-a-second",
        "delete jobs/web-z-first",
        "patch configmaps/web",
        "create jobs/web-after",
        "create jobs/web-farewell",
        "delete jobs/web-farewell",
        "delete configmaps/web",
    ];
    eventually("writes", || match writes(cluster, &namespace) {
        all if all == expected => Ok(()),
        all => Err(all),
    });
}

#[test]
fn a_hook_that_fails_stops_the_install_and_is_named() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("hook-fails").unwrap();
    let _operator = start(cluster, &namespace);
    set(&namespace, "web", json!({"hooks": true, "fate": "fails"}));
    let failed = wait_for(&namespace, "web", "ReleaseFailed");
    assert_eq!(failed["reason"], "InstallError");
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("widget/templates/hooks.yaml"), "{message}");
    assert!(message.contains("Job \"web-z-first\""), "{message}");
    eventually("event", || match events_of(&namespace, "web") {
        events if events.contains("InstallError: ") && events.contains("web-z-first") => Ok(()),
        events => Err(events),
    });
    assert_eq!(get(&namespace, ["configmap", "web"]), Value::Null);
    set(&namespace, "web", json!({"hooks": true}));
    wait_for(&namespace, "web", "Ready");
}

#[test]
fn waiting_for_a_hook_blocks_no_other_resource() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("hook-waits").unwrap();
    let _operator = start(cluster, &namespace);
    set(&namespace, "slow", json!({"hooks": true, "fate": "stuck"}));
    let pod = eventually("pod of the hook", || {
        let pods = namespace.kubectl(["get", "pods", "-l", "job-name=slow-z-first", "-o", "name"]).unwrap();
        if pods.is_empty() { Err(pods) } else { Ok(pods.trim().to_owned()) }
    });
    set(&namespace, "quick", json!({}));
    wait_for(&namespace, "quick", "Ready");
    assert_eq!(get(&namespace, ["configmap", "slow"]), Value::Null);
    let done = r#"{"status": {"phase": "Succeeded"}}"#;
    namespace.kubectl(["patch", &pod, "--subresource=status", "-p", done]).unwrap();
    wait_for(&namespace, "slow", "Ready");
}
