//! Objects that server-side apply rejects, on a real control plane: how they are written, and the state that a
//! rejection leaves.

use std::sync::Once;

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::account::is_operators;
use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::reader::get;
use crate::resource::Kind;

const ODD: Kind = Kind("Odd");

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/odd");

/// Starts an operator that serves Odds; `apply` is the setting in watches.yaml.
fn start(cluster: &TestCluster, namespace: &Namespace<'_>, apply: &str) -> Operator {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        cluster.apply(include_str!("fixtures/crds/odd.yaml")).unwrap();
        let crds = ["crd/odds.test.my.domain", "crd/parts.test.my.domain"];
        cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", crds[0], crds[1]]).unwrap();
    });
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Odd", "chart": CHART, "apply": apply}]);
    Operator::start_watches(cluster, namespace, &watch.to_string(), &[])
}

fn set(namespace: &Namespace<'_>, name: &str, spec: &Value) {
    ODD.set(namespace, name, spec);
}

/// Waits until the resource has this condition for its current generation; returns the condition.
fn wait_for(namespace: &Namespace<'_>, name: &str, kind: &str) -> Value {
    condition(&ODD.wait_for(namespace, name, kind), kind).clone()
}

fn events(namespace: &Namespace<'_>) -> String {
    let columns = "jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}";
    namespace.kubectl(["get", "events", "--field-selector=involvedObject.kind=Odd", "-o", columns]).unwrap()
}

/// Returns the operations of our managed fields entries.
pub(crate) fn operations(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let ours = entries.iter().filter(|e| e["manager"] == "helm-operator");
    ours.map(|e| e["operation"].as_str().unwrap().to_owned()).collect()
}

/// Returns an object with its managed fields.
pub(crate) fn whole(namespace: &Namespace<'_>, what: [&str; 2]) -> Value {
    let answer = namespace.kubectl(["get", what[0], what[1], "-o", "json", "--show-managed-fields"]).unwrap();
    serde_json::from_str(&answer).unwrap()
}

fn spec_of(namespace: &Namespace<'_>, kind: &str, name: &str) -> Value {
    get(namespace, [kind, name])["spec"].clone()
}

/// Creates the object as real Helm leaves it in client-side mode: installed with the first values, upgraded with the
/// others.
fn helms(cluster: &TestCluster, namespace: &Namespace<'_>, name: &str, values: &[Value]) -> bool {
    for (at, values) in values.iter().enumerate() {
        let mut command = cluster.command("helm");
        let verb = if at == 0 { "install" } else { "upgrade" };
        command.args([
            verb,
            name,
            CHART,
            "--server-side=false",
            "--disable-openapi-validation",
            "-n",
            namespace.name(),
        ]);
        for (key, value) in values.as_object().unwrap() {
            command.arg(format!("--set-json={key}={value}"));
        }
        let Ok(output) = command.env("KUBECONFIG", cluster.kubeconfig_path()).output() else { return false };
        assert!(output.status.success(), "helm {verb}: {}", String::from_utf8_lossy(&output.stderr));
    }
    true
}

#[test]
fn objects_that_only_a_client_can_write_are_written_as_helm_writes_them_and_repaired() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let (namespace, helm) = (cluster.namespace("client").unwrap(), cluster.namespace("client-helm").unwrap());
    let _operator = start(cluster, &namespace, "auto");
    for (shape, kind) in
        [("undeclared", "deployment"), ("duplicate", "deployment"), ("lists", "deployment"), ("nulls", "part")]
    {
        let first = json!({"shape": shape, "extra": "x", "colour": "blue"});
        let second = json!({"shape": shape, "extra": "", "colour": "red", "port": 81});
        set(&namespace, shape, &first);
        wait_for(&namespace, shape, "Ready");
        assert_eq!(operations(&whole(&namespace, [kind, shape])), ["Update"], "{shape}");
        assert_eq!(operations(&whole(&namespace, ["service", shape])), ["Apply"], "{shape}");
        let told = || {
            events(&namespace)
                .lines()
                .filter(|l| l.starts_with("ClientSideApply: ") && l.contains(&format!("{shape:?}")))
                .count()
        };
        eventually("event", || if told() == 1 { Ok(()) } else { Err(events(&namespace)) });

        set(&namespace, shape, &second);
        wait_for(&namespace, shape, "Ready");
        assert_eq!(get(&namespace, ["odd", shape])["status"]["deployedRelease"]["revision"], 2, "{shape}");
        // With a duplicate key, Helm's merge mixes old and new entries; only its fresh install equals the chart.
        let values = if kind == "part" || shape == "undeclared" { vec![first, second] } else { vec![second] };
        if helms(cluster, &helm, shape, &values) {
            assert_eq!(spec_of(&namespace, kind, shape), spec_of(&helm, kind, shape), "{shape}");
        }

        let drift =
            if kind == "part" { json!({"spec": {"colour": "green"}}) } else { json!({"spec": {"replicas": 2}}) };
        let before = spec_of(&namespace, kind, shape);
        namespace.kubectl(["patch", kind, shape, "--type=merge", "-p", &drift.to_string()]).unwrap();
        eventually("repair", || match spec_of(&namespace, kind, shape) {
            spec if spec == before => Ok(()),
            spec => Err(spec),
        });
    }
}

#[test]
fn a_restart_does_not_rewrite_client_side_objects() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("client-again").unwrap();
    let operator = start(cluster, &namespace, "auto");
    set(&namespace, "web", &json!({"shape": "duplicate"}));
    wait_for(&namespace, "web", "Ready");
    operator.terminate();
    let version = || get(&namespace, ["odd", "web"])["metadata"]["resourceVersion"].clone();
    let writes = || {
        let requests = cluster.requests().unwrap();
        let ours = requests.into_iter().filter(|r| is_operators(r) && r.namespace == namespace.name());
        ours.filter(|r| r.is_write()).count()
    };
    let before = (version(), writes());
    let operator = start(cluster, &namespace, "auto");
    eventually("reconcile", || {
        let metrics = operator.get("Serving metrics server", "/metrics");
        let counted = r#"controller_runtime_reconcile_total{controller="odd-controller","#;
        if metrics.lines().any(|l| l.starts_with(counted) && !l.ends_with(" 0")) { Ok(()) } else { Err(metrics) }
    });
    operator.terminate();
    assert_eq!((version(), writes()), before);
}

#[test]
fn a_conflicting_server_default_is_cleared_and_the_object_stays_server_side() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("unowned").unwrap();
    let operator = start(cluster, &namespace, "auto");
    set(&namespace, "web", &json!({"update": "default"}));
    wait_for(&namespace, "web", "Ready");
    set(&namespace, "web", &json!({"strategy": "Recreate", "config": "settings", "update": "OnDelete"}));
    wait_for(&namespace, "web", "Ready");
    let deployment = whole(&namespace, ["deployment", "web"]);
    assert_eq!(deployment["spec"]["strategy"], json!({"type": "Recreate"}));
    let volume = &deployment["spec"]["template"]["spec"]["volumes"][0];
    assert_eq!((&volume["configMap"]["name"], &volume["emptyDir"]), (&json!("settings"), &Value::Null));
    assert_eq!(spec_of(&namespace, "statefulset", "web")["updateStrategy"], json!({"type": "OnDelete"}));
    assert_eq!(operations(&deployment), ["Apply"]);
    set(&namespace, "web", &json!({"update": "default"}));
    wait_for(&namespace, "web", "Ready");
    eventually("default strategy", || match spec_of(&namespace, "deployment", "web")["strategy"].clone() {
        strategy if strategy["type"] == "RollingUpdate" => Ok(()),
        strategy => Err(strategy),
    });
    nothing_was_applied_client_side(&namespace, operator);
}

/// Fails if an event reports a client-side apply that the user did not request. Ends the operator, so that it publishes
/// its queued events.
fn nothing_was_applied_client_side(namespace: &Namespace<'_>, operator: Operator) {
    operator.terminate();
    let events = events(namespace);
    assert!(events.contains("Upgraded: ") && !events.contains("ClientSideApply"), "{events}");
}

/// Returns everything that users read: conditions, events, log and the records' descriptions.
fn read(cluster: &TestCluster, namespace: &Namespace<'_>, operator: &Operator, name: &str) -> String {
    let mut command = cluster.command("helm");
    command.args(["history", name, "-n", namespace.name()]).env("KUBECONFIG", cluster.kubeconfig_path());
    let history = command.output().map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    format!("{}\n{}\n{}\n{history}", get(namespace, ["odd", name])["status"], events(namespace), operator.log())
}

const NO_NUMBER: &str =
    "cannot apply Deployment \"web\": does not fit its schema: .spec.replicas: expected number, got string";

const USED: &str = "(spec.replicaCount, used in odd/templates/deployment.yaml:6)";

#[test]
fn a_value_of_the_wrong_type_rolls_the_upgrade_back_and_is_never_shown() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("typed").unwrap();
    let operator = start(cluster, &namespace, "auto");
    set(&namespace, "web", &json!({"port": 80}));
    wait_for(&namespace, "web", "Ready");
    set(&namespace, "web", &json!({"port": 81, "replicaCount": "hunter2"}));
    let failed = wait_for(&namespace, "web", "ReleaseFailed");
    assert_eq!(failed["reason"], "UpgradeError");
    assert!(failed["message"].as_str().unwrap().starts_with(NO_NUMBER), "{failed}");
    // The message has the template's line and the field, but not the value.
    assert!(failed["message"].as_str().unwrap().contains(USED), "{failed}");
    assert_eq!(spec_of(&namespace, "service", "web")["ports"][0]["port"], 80);
    let status = get(&namespace, ["odd", "web"])["status"].clone();
    assert_eq!(status["deployedRelease"]["revision"], 3, "{status}");
    set(&namespace, "web", &json!({"port": 81, "colour": 14}));
    eventually("the other error", || {
        let failed = condition(&get(&namespace, ["odd", "web"]), "ReleaseFailed").clone();
        let message = failed["message"].as_str().unwrap_or_default().to_owned();
        if message.contains(".data.colour: expected string, got number; quote it in the template") {
            Ok(())
        } else {
            Err(message)
        }
    });
    let read = read(cluster, &namespace, &operator, "web");
    assert!(!read.contains("hunter2") && !read.contains("Value:"), "{read}");
    set(&namespace, "web", &json!({"port": 81}));
    wait_for(&namespace, "web", "Ready");
    assert_eq!(spec_of(&namespace, "service", "web")["ports"][0]["port"], 81);
}

#[test]
fn a_refused_install_leaves_nothing_that_blocks_another_resource() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("typed-new").unwrap();
    let _operator = start(cluster, &namespace, "auto");
    set(&namespace, "web", &json!({"account": "shared", "replicaCount": "abc"}));
    assert!(wait_for(&namespace, "web", "ReleaseFailed")["message"].as_str().unwrap().starts_with(NO_NUMBER));
    set(&namespace, "other", &json!({"account": "shared"}));
    wait_for(&namespace, "other", "Ready");
    let records = namespace.kubectl(["get", "secrets", "-l", "owner=helm", "-o", "name"]).unwrap();
    assert_eq!(records.trim(), "secret/sh.helm.release.v1.other.v1");
}

#[test]
fn an_outage_of_a_webhook_makes_one_revision() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("outage").unwrap();
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace.name()},
        "webhooks": [{
            "name": "away.my.domain", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
            "rules": [{"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["*"], "resources": ["deployments"]}],
        }],
    });
    let _operator = start(cluster, &namespace, "auto");
    cluster.apply(&webhook.to_string()).unwrap();
    // The API server asks it a moment later.
    eventually("the webhook", || {
        match namespace.kubectl(["create", "deployment", "probe", "--image=probe", "--dry-run=server"]) {
            Err(error) if error.to_string().contains("failed calling webhook") => Ok(()),
            other => Err(other),
        }
    });
    set(&namespace, "web", &json!({}));
    let failed = wait_for(&namespace, "web", "Irreconcilable");
    assert_eq!(failed["reason"], "Unanswered");
    assert!(failed["message"].as_str().unwrap().contains("failed calling webhook"), "{failed}");
    let refused = || {
        let requests = cluster.requests().unwrap();
        requests
            .iter()
            .filter(|r| {
                is_operators(r) && r.namespace == namespace.name() && r.resource == "deployments" && r.code == 500
            })
            .count()
    };
    eventually("further attempts", || if refused() >= 3 { Ok(()) } else { Err(refused()) });
    let records = || namespace.kubectl(["get", "secrets", "-l", "owner=helm", "-o", "name"]).unwrap();
    assert_eq!(records().trim(), "secret/sh.helm.release.v1.web.v1");
    cluster.kubectl(["delete", "validatingwebhookconfiguration", namespace.name()]).unwrap();
    wait_for(&namespace, "web", "Ready");
    assert_eq!(records().trim(), "secret/sh.helm.release.v1.web.v1");
}

#[test]
fn a_watch_can_force_client_side_apply() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let (namespace, helm) = (cluster.namespace("csa").unwrap(), cluster.namespace("csa-helm").unwrap());
    let operator = start(cluster, &namespace, "client");
    let values = [json!({"extra": "x", "config": "a"}), json!({"strategy": "Recreate", "colour": "red", "port": 81})];
    for spec in &values {
        set(&namespace, "web", spec);
        wait_for(&namespace, "web", "Ready");
    }
    assert_eq!(operations(&whole(&namespace, ["configmap", "web"])), ["Update"]);
    assert_eq!(get(&namespace, ["configmap", "web"])["data"], json!({"colour": "red"}));
    nothing_was_applied_client_side(&namespace, operator);
    if helms(cluster, &helm, "web", &values) {
        assert_eq!(spec_of(&namespace, "deployment", "web"), spec_of(&helm, "deployment", "web"));
        assert_eq!(spec_of(&namespace, "service", "web")["ports"], spec_of(&helm, "service", "web")["ports"]);
    }
}

#[test]
fn a_release_with_a_failed_manual_rollback_is_healed_and_loses_nothing() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("rolled").unwrap();
    let operator = start(cluster, &namespace, "auto");
    for colour in ["blue", "red"] {
        set(&namespace, "web", &json!({"colour": colour}));
        wait_for(&namespace, "web", "Ready");
    }
    operator.terminate();
    let mut helm = cluster.command("helm");
    // A conflict with our field manager, or a webhook's rejection: Helm leaves no deployed revision.
    let no = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": namespace.name()},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["deployments"]},
            ]},
            "validations": [{"expression": "false", "message": "frozen"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": namespace.name()},
        "spec": {
            "policyName": namespace.name(), "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}}},
        },
    });
    cluster.apply(&no.to_string()).unwrap();
    cluster.apply(&binding.to_string()).unwrap();
    eventually("a frozen Deployment", || {
        let frozen = namespace.kubectl(["annotate", "deployment", "web", "--overwrite", "frozen=yes"]);
        if frozen.is_err() { Ok(()) } else { Err("not frozen yet") }
    });
    helm.args(["rollback", "web", "1", "-n", namespace.name()]).env("KUBECONFIG", cluster.kubeconfig_path());
    let Ok(output) = helm.output() else { return };
    assert!(!output.status.success(), "the rollback was meant to fail");
    let deployed = || namespace.kubectl(["get", "secrets", "-l", "owner=helm,status=deployed", "-o", "name"]).unwrap();
    assert_eq!(deployed(), "", "nothing is deployed");
    let uid = || get(&namespace, ["deployment", "web"])["metadata"]["uid"].clone();
    let before = uid();

    let _operator = start(cluster, &namespace, "auto");
    set(&namespace, "web", &json!({"replicaCount": "abc"}));
    eventually("the refusal", || {
        let failed = condition(&get(&namespace, ["odd", "web"]), "ReleaseFailed").clone();
        if failed["message"].as_str().is_some_and(|m| m.contains(".spec.replicas")) { Ok(()) } else { Err(failed) }
    });
    assert_eq!(uid(), before);
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        cluster.kubectl(["delete", kind, namespace.name()]).unwrap();
    }
    set(&namespace, "web", &json!({"colour": "green"}));
    wait_for(&namespace, "web", "Ready");
    assert_eq!((uid(), deployed().lines().count()), (before, 1));
    assert_eq!(get(&namespace, ["configmap", "web"])["data"]["colour"], "green");
}

#[test]
fn an_upgrade_that_names_a_key_twice_leaves_what_an_install_leaves() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let (namespace, helm) = (cluster.namespace("twice").unwrap(), cluster.namespace("twice-helm").unwrap());
    let _operator = start(cluster, &namespace, "auto");
    let (once, twice) = (json!({"shape": "", "colour": "blue"}), json!({"shape": "duplicate", "colour": "red"}));
    for (name, steps) in [("grown", vec![&once, &twice]), ("fresh", vec![&twice])] {
        for values in steps {
            set(&namespace, name, values);
            wait_for(&namespace, name, "Ready");
        }
    }
    let env = |name| spec_of(&namespace, "deployment", name)["template"]["spec"]["containers"][0]["env"].clone();
    let red = json!({"name": "COLOUR", "value": "red"});
    assert_eq!((env("grown"), env("fresh")), (json!([red, red]), json!([red, red])));
    for server_side in ["false", "true"] {
        let name = format!("helm-{server_side}");
        let run = |verb: &str, values: &Value| {
            let server_side = format!("--server-side={server_side}");
            let mut command = cluster.command("helm");
            command.args([verb, &name, CHART, &server_side, "--disable-openapi-validation", "-n", helm.name()]);
            for (key, value) in values.as_object().unwrap() {
                command.arg(format!("--set-json={key}={value}"));
            }
            let output = command.env("KUBECONFIG", cluster.kubeconfig_path()).output().ok()?;
            Some((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
        };
        let Some((installed, why)) = run("install", &once) else { return };
        assert!(installed, "{why}");
        let (upgraded, why) = run("upgrade", &twice).unwrap();
        let live = get(&helm, ["deployment", &name])["spec"]["template"]["spec"]["containers"][0]["env"].clone();
        // Helm's client joins the entries, so an upgraded release differs from a newly installed one.
        let blue = json!({"name": "COLOUR", "value": "blue"});
        let expected = if server_side == "false" { (true, json!([red])) } else { (false, json!([blue])) };
        assert_eq!((upgraded, live), expected, "{why}");
    }
}
