//! Tests of `status`, `get` and `history` against the API server in memory: the first line for releases that are broken
//! in different ways, what a caller with few rights sees, and hostile content.

use std::sync::Arc;

use futures::future::BoxFuture;
use helm_release::kube::{Api, Call, Error, MemoryApi, Response};
use helm_release::release::{ChartDocument, Hook, HookEvent, HookPhase, Info, Release, Status};
use helm_release::storage::{Key, Keyring, Marks, Storage};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::ask::Asked;
use super::{Get, Output, Target};
use crate::plan::account::{Account, AccountEntry};
use crate::plan::{ChangeKind, Name};

const CR: &str = "/apis/shop.example.com/v1/namespaces/ns/shops/web";
const PODS: &str = "/api/v1/namespaces/ns/pods";

/// The API server in memory, with logs of containers.
struct WithLogs(MemoryApi);

impl Api for WithLogs {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
        if call.path.contains("/log?") {
            let log = b"connecting\n\x1b[2Jno route to database\n".to_vec();
            let refused = self.0.object("/api/v1/namespaces/ns/configmaps/no-logs").is_some();
            let answer =
                if refused { Err(Error::from_status(403, "Forbidden", "no")) } else { Ok(Response::from(log)) };
            return Box::pin(async move { answer });
        }
        self.0.send(call)
    }
}

fn server() -> Arc<WithLogs> {
    let server = MemoryApi::new();
    server.serve("shop.example.com/v1", "Shop", "shops");
    for (api_version, kind, plural) in [
        ("v1", "Event", "events"),
        ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
        ("apps/v1", "ReplicaSet", "replicasets"),
    ] {
        server.serve(api_version, kind, plural);
    }
    Arc::new(WithLogs(server))
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": 1})
}

/// Returns the resource with these conditions and this inventory.
fn shop(conditions: &[Value], inventory: &[&str]) -> Value {
    let entries: Vec<Value> = inventory.iter().map(|id| json!({"id": id, "v": "v1"})).collect();
    json!({
        "apiVersion": "shop.example.com/v1", "kind": "Shop",
        "metadata": {"name": "web", "namespace": "ns", "uid": "cr", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {},
        "status": {
            "observedGeneration": 1, "conditions": conditions, "inventory": {"entries": entries},
            "deployedRelease": {"name": "web", "revision": 2, "chart": "shop-0.2.0", "appVersion": "1.6"},
        },
    })
}

fn served() -> Vec<Value> {
    vec![condition("Initialized", "True", "Served", "this operator serves the resource")]
}

/// Returns the conditions of a release whose objects are not ready.
fn waiting() -> Vec<Value> {
    let mut all = served();
    all.push(condition("Ready", "False", "Progressing", "Deployment \"web\" is not ready: something"));
    all
}

/// Returns the conditions of a failed action.
fn failed(kind: &str, reason: &str, message: &str) -> Vec<Value> {
    let mut all = served();
    all.extend([condition(kind, "True", reason, message), condition("Ready", "False", reason, message)]);
    all
}

fn deployment(conditions: Value) -> Value {
    json!({
        "metadata": {"name": "web", "uid": "d", "generation": 1},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "conditions": conditions},
    })
}

fn replica_set() -> Value {
    json!({"metadata": {"name": "web-1", "uid": "r", "labels": {"app": "web"}, "ownerReferences": [{"uid": "d"}]}})
}

fn pod(status: Value) -> Value {
    let metadata = json!({"name": "web-1-x", "namespace": "ns", "uid": "p", "labels": {"app": "web"}, "ownerReferences": [{"uid": "r"}]});
    let containers = json!([{"name": "app", "readinessProbe": {}, "startupProbe": {}}]);
    json!({"metadata": metadata, "spec": {"nodeName": "n", "containers": containers}, "status": status})
}

/// Returns the status of a pod whose container waits.
fn waits(reason: &str, message: &str) -> Value {
    let state = json!({"waiting": {"reason": reason, "message": message}});
    json!({"phase": "Pending", "containerStatuses": [{"name": "app", "image": "reg/app:2", "ready": false, "restartCount": 0, "state": state}]})
}

fn crashes(reason: &str) -> Value {
    let last = json!({"terminated": {"exitCode": 1, "reason": reason, "message": "password=s3cret"}});
    let state = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    json!({"phase": "Running", "containerStatuses": [{"name": "app", "ready": false, "restartCount": 5, "state": state, "lastState": last}]})
}

fn runs(started: bool) -> Value {
    json!({"phase": "Running", "containerStatuses": [{"name": "app", "ready": false, "started": started, "restartCount": 0, "state": {"running": {}}}]})
}

fn unschedulable(message: &str) -> Value {
    json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]})
}

fn event(of: &str, reason: &str, message: &str) -> Value {
    json!({
        "metadata": {"name": format!("{of}-{reason}").to_lowercase()}, "involvedObject": {"uid": of}, "type": "Warning",
        "reason": reason, "message": message, "lastTimestamp": "2026-01-01T00:00:00Z",
    })
}

/// A broken release: what is wrong, its conditions, its pod's status, other objects, and the first line.
struct Broken {
    what: &'static str,
    conditions: Vec<Value>,
    pod: Option<Value>,
    others: Vec<(&'static str, Value)>,
    inventory: &'static [&'static str],
    first: &'static str,
}

const WEB: &[&str] = &["ns_web_apps_Deployment"];

/// Creates a release whose Deployment has this pod.
fn with_pod(what: &'static str, status: Value, first: &'static str) -> Broken {
    Broken { what, conditions: waiting(), pod: Some(status), others: vec![], inventory: WEB, first }
}

/// Creates a release whose action failed.
fn with_fault(what: &'static str, fault: [&str; 3], first: &'static str) -> Broken {
    let conditions = failed(fault[0], fault[1], fault[2]);
    Broken { what, conditions, pod: None, others: vec![], inventory: &[], first }
}

fn put(server: &WithLogs, broken: &Broken) {
    server.0.restore(CR, shop(&broken.conditions, broken.inventory));
    server.0.restore("/apis/apps/v1/namespaces/ns/deployments/web", deployment(json!([])));
    server.0.restore("/apis/apps/v1/namespaces/ns/replicasets/web-1", replica_set());
    if let Some(status) = &broken.pod {
        server.0.restore(&format!("{PODS}/web-1-x"), pod(status.clone()));
    }
    for (path, object) in &broken.others {
        server.0.restore(path, object.clone());
    }
}

fn asked(server: &Arc<WithLogs>, output: Output) -> Asked {
    let target = Target { watches_file: "/nowhere".into(), output, ..Target::default() };
    Asked::new(server.clone(), "ns".into(), &target).unwrap()
}

/// Returns the arguments of `get` for a kind in one namespace.
fn here(kind: &str) -> Get {
    Get { kind: kind.to_owned(), all_namespaces: false, target: Target::default() }
}

/// Returns the answer to `status shop web`, and whether it is ready.
async fn status(server: &Arc<WithLogs>) -> (String, bool) {
    let answer = asked(server, Output::Text).status(&["shop".into(), "web".into()]).await.unwrap();
    (answer.text, answer.is_ready)
}

fn releases() -> Vec<Broken> {
    let replica_failure = |message: &str| json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}]);
    let quota = replica_failure("pods \"web-1-x\" is forbidden: exceeded quota: small, requested: pods=1");
    let denied = replica_failure("admission webhook \"policy.example.com\" denied the request: no root");
    let deadline = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}]);
    let web = "/apis/apps/v1/namespaces/ns/deployments/web";
    let of_deployment = |what, conditions: Value, first| Broken {
        others: vec![(web, deployment(conditions))],
        pod: None,
        ..with_pod(what, json!({}), first)
    };
    let claim = json!({"metadata": {"name": "data", "uid": "v"}, "status": {"phase": "Pending"}});
    let unbound = event("v", "FailedBinding", "no persistent volumes available and no storage class is set");
    let job = json!({
        "metadata": {"name": "import", "uid": "j"}, "spec": {"selector": {"matchLabels": {"job-name": "import"}}},
        "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}]},
    });
    let init = json!({"phase": "Pending", "initContainerStatuses": [{
        "name": "migrate", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 2}},
    }]});
    let mount =
        event("p", "FailedMount", "MountVolume.SetUp failed for volume \"c\" : configmap \"settings\" not found");
    vec![
        with_pod(
            "image",
            waits("ErrImagePull", "not found"),
            "pod \"web-1-x\": container \"app\" cannot pull image \"reg/app:2\": ErrImagePull: not found (Deployment \"web\": 0 of 1 replicas are available)",
        ),
        with_pod(
            "missing Secret",
            waits("CreateContainerConfigError", "secret \"login\" not found"),
            "pod \"web-1-x\": container \"app\" cannot start: CreateContainerConfigError: secret \"login\" not found (Deployment \"web\": 0 of 1 replicas are available)",
        ),
        Broken {
            others: vec![("/api/v1/namespaces/ns/events/m", mount)],
            ..with_pod(
                "missing ConfigMap",
                waits("ContainerCreating", ""),
                "pod \"web-1-x\": container \"app\" is being created: FailedMount: MountVolume.SetUp failed for volume \"c\" : configmap \"settings\" not found (Deployment \"web\": 0 of 1 replicas are available)",
            )
        },
        with_pod(
            "crash loop",
            crashes("Error"),
            "pod \"web-1-x\": container \"app\" keeps crashing: exit code 1, 5 restarts (Deployment \"web\": 0 of 1 replicas are available)",
        ),
        with_pod(
            "out of memory",
            crashes("OOMKilled"),
            "pod \"web-1-x\": container \"app\" keeps crashing: exit code 1 (OOMKilled), 5 restarts (Deployment \"web\": 0 of 1 replicas are available)",
        ),
        with_pod(
            "init container",
            init,
            "pod \"web-1-x\": init container \"migrate\" keeps crashing: exit code 2, 3 restarts (Deployment \"web\": 0 of 1 replicas are available)",
        ),
        with_pod(
            "too large",
            unschedulable("0/3 nodes are available: 3 Insufficient cpu."),
            "pod \"web-1-x\": Unschedulable: 0/3 nodes are available: 3 Insufficient cpu. (Deployment \"web\": 0 of 1 replicas are available)",
        ),
        with_pod(
            "unbound volume",
            unschedulable("pod has unbound immediate PersistentVolumeClaims"),
            "pod \"web-1-x\": Unschedulable: pod has unbound immediate PersistentVolumeClaims (Deployment \"web\": 0 of 1 replicas are available)",
        ),
        with_pod(
            "readiness probe",
            runs(true),
            "pod \"web-1-x\": container \"app\" runs, but its readiness probe fails (Deployment \"web\": 0 of 1 replicas are available)",
        ),
        with_pod(
            "startup probe",
            runs(false),
            "pod \"web-1-x\": container \"app\" runs, but its startup probe has not succeeded (Deployment \"web\": 0 of 1 replicas are available)",
        ),
        with_pod(
            "evicted",
            json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
            "pod \"web-1-x\": Evicted: low on memory (Deployment \"web\": 0 of 1 replicas are available)",
        ),
        of_deployment(
            "quota",
            quota,
            "Deployment \"web\" is not ready: FailedCreate: pods \"web-1-x\" is forbidden: exceeded quota: small, requested: pods=1",
        ),
        of_deployment(
            "webhook denies pods",
            denied,
            "Deployment \"web\" is not ready: FailedCreate: admission webhook \"policy.example.com\" denied the request: no root",
        ),
        of_deployment("no progress", deadline, "Deployment \"web\" failed: ProgressDeadlineExceeded: timed out"),
        Broken {
            others: vec![
                ("/api/v1/namespaces/ns/persistentvolumeclaims/data", claim),
                ("/api/v1/namespaces/ns/events/b", unbound),
            ],
            inventory: &["ns_data__PersistentVolumeClaim"],
            ..with_pod(
                "pending claim",
                json!({"phase": "Succeeded"}),
                "PersistentVolumeClaim \"data\" is not ready: it is not bound; its phase is Pending: FailedBinding: no persistent volumes available and no storage class is set",
            )
        },
        Broken {
            inventory: &["ns_settings__ConfigMap"],
            ..with_pod("deleted object", json!({"phase": "Succeeded"}), "ConfigMap \"settings\" does not exist")
        },
        Broken {
            others: vec![("/apis/batch/v1/namespaces/ns/jobs/import", job)],
            inventory: &["ns_import_batch_Job"],
            ..with_pod(
                "failed Job",
                json!({"phase": "Succeeded"}),
                "Job \"import\" failed: BackoffLimitExceeded: Job has reached the specified backoff limit",
            )
        },
        with_fault(
            "webhook refuses an object",
            [
                "ReleaseFailed",
                "UpgradeError",
                "cannot apply Service \"web\": admission webhook \"policy.example.com\" denied the request: no NodePort",
            ],
            "cannot apply Service \"web\": admission webhook \"policy.example.com\" denied the request: no NodePort",
        ),
        with_fault(
            "immutable field",
            [
                "ReleaseFailed",
                "UpgradeError",
                "cannot apply Deployment \"web\": spec.selector: Invalid value: field is immutable (spec.name, used in shop/templates/web.yaml:9)",
            ],
            "cannot apply Deployment \"web\": spec.selector: Invalid value: field is immutable (spec.name, used in shop/templates/web.yaml:9)",
        ),
        with_fault(
            "failed hook",
            [
                "ReleaseFailed",
                "InstallError",
                "hook shop/templates/migrate.yaml failed: Job \"migrate\": BackoffLimitExceeded",
            ],
            "hook shop/templates/migrate.yaml failed: Job \"migrate\": BackoffLimitExceeded",
        ),
        with_fault(
            "invalid values",
            [
                "Irreconcilable",
                "InvalidValues",
                "spec.size: got string, want integer\nvalues don't meet the specifications",
            ],
            "spec.size: got string, want integer",
        ),
        with_fault(
            "failing template",
            ["Irreconcilable", "RenderError", "shop/templates/a.yaml:3:4: nil pointer evaluating interface {}.b\nmore"],
            "shop/templates/a.yaml:3:4: nil pointer evaluating interface {}.b",
        ),
        with_fault(
            "missing source of values",
            ["Irreconcilable", "ValuesSourceMissing", "Secret \"login\" of valuesFrom does not exist"],
            "Secret \"login\" of valuesFrom does not exist",
        ),
        with_fault(
            "conflict",
            ["Irreconcilable", "ReleaseConflict", "ConfigMap \"a\" belongs to release \"x\""],
            "ConfigMap \"a\" belongs to release \"x\"",
        ),
        with_fault(
            "missing right",
            [
                "ReleaseFailed",
                "InstallError",
                "cannot create Role \"a\": roles is forbidden: User \"op\" cannot create",
            ],
            "cannot create Role \"a\": roles is forbidden: User \"op\" cannot create",
        ),
    ]
}

#[tokio::test]
async fn the_first_line_names_the_cause_of_each_broken_release() {
    let all = releases();
    assert!(all.len() >= 20);
    for broken in &all {
        let server = server();
        put(&server, broken);
        let (text, is_ready) = status(&server).await;
        let first = text.lines().next().unwrap();
        assert_eq!(first, format!("Shop ns/web is not ready: {}", broken.first), "{}: {text}", broken.what);
        assert!(!is_ready && !text.contains("s3cret"), "{}: {text}", broken.what);
    }
}

#[tokio::test]
async fn the_cause_has_a_kind_for_programs() {
    let kinds = [
        "image",
        "configuration",
        "configuration",
        "crash",
        "crash",
        "crash",
        "unschedulable",
        "volume",
        "probe",
        "probe",
        "exit",
        "quota",
        "webhook",
        "other",
        "volume",
        "missing",
        "other",
        "webhook",
        "immutableField",
        "hook",
        "invalidValues",
        "render",
        "configuration",
        "conflict",
        "forbidden",
    ];
    for (broken, expected) in releases().iter().zip(kinds) {
        let server = server();
        put(&server, broken);
        let answer = asked(&server, Output::Json).status(&["shops/web".into()]).await.unwrap();
        let json: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(json["cause"]["kind"], expected, "{}", broken.what);
    }
}

#[tokio::test]
async fn a_resource_that_no_operator_serves_says_since_when() {
    let server = server();
    let mut new = shop(&[], &[]);
    new["status"] = Value::Null;
    let ago = outside::now().checked_sub(jiff::SignedDuration::from_secs(200)).unwrap();
    new["metadata"]["creationTimestamp"] = ago.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
    server.0.restore(CR, new);
    let (text, is_ready) = status(&server).await;
    let expected = "Shop ns/web is not ready: no operator has served this resource for 3 min: is one running that watches its kind and namespace?";
    assert_eq!((text.lines().next().unwrap(), is_ready), (expected, false));
}

#[tokio::test]
async fn a_crash_shows_the_end_of_the_log_to_whoever_may_read_it() {
    let server = server();
    put(&server, &releases()[3]);
    let (text, _) = status(&server).await;
    let log = "  the log of container \"app\" ends with:\n    connecting\n    \u{fffd}[2Jno route to database\n";
    assert!(text.contains(log), "{text}");
    assert!(!text.contains('\u{1b}'));
    server.0.put("/api/v1/namespaces/ns/configmaps/no-logs", json!({"metadata": {"name": "no-logs"}}), "someone");
    let (text, _) = status(&server).await;
    assert!(!text.contains("log of container") && text.contains("keeps crashing"), "{text}");
}

#[tokio::test]
async fn a_ready_release_shows_its_tree_down_to_pods() {
    let server = server();
    let mut conditions = served();
    conditions.push(condition("Ready", "True", "Ready", "2 objects ready"));
    put(
        &server,
        &Broken {
            conditions,
            ..with_pod("", json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}), "")
        },
    );
    let (text, is_ready) = status(&server).await;
    assert!(is_ready);
    let expected = "Shop ns/web is ready: 2 objects ready\n  release web, revision 2, chart shop-0.2.0 (app 1.6)\n\nOBJECTS\n  Deployment web NOT READY: 0 of 1 replicas are available\n    ReplicaSet web-1 ready\n      Pod web-1-x ready\n";
    assert!(text.starts_with(expected), "{text}");
}

#[tokio::test]
async fn what_the_caller_may_not_read_is_named_and_the_operators_words_remain() {
    let server = server();
    put(&server, &releases()[0]);
    server.0.refuse(|call| {
        let is_own = call.path.contains("/shops/")
            || call.path.starts_with("/api?")
            || call.path == "/api"
            || call.path == "/apis";
        (!is_own).then(|| Error::from_status(403, "Forbidden", "x is forbidden: User \"me\" cannot"))
    });
    let (text, _) = status(&server).await;
    assert!(text.starts_with("Shop ns/web is not ready: Deployment \"web\" is not ready: something\n"), "{text}");
    assert!(text.contains("Deployment web unknown: you may not read it"), "{text}");
    let hidden = "Not shown, because you may not read it: deployments.apps in namespace \"ns\", events in namespace \"ns\", release records (Secrets) in namespace \"ns\"";
    assert!(text.contains(hidden), "{text}");
}

#[tokio::test]
async fn a_list_shows_the_worst_first_on_one_line_each() {
    let server = server();
    put(&server, &releases()[20]);
    let mut ready = served();
    ready.push(condition("Ready", "True", "Ready", "4 objects ready"));
    let mut fine = shop(&ready, &[]);
    fine["metadata"]["name"] = "a-fine-one".into();
    server.0.put("/apis/shop.example.com/v1/namespaces/ns/shops/a-fine-one", fine, "operator");
    let answer = asked(&server, Output::Text).get(&here("Shops.shop.example.com")).await.unwrap();
    let lines: Vec<String> =
        answer.text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[1], "ns web Failed - 2 shop-0.2.0 spec.size: got string, want integer");
    assert_eq!(lines[2], "ns a-fine-one Ready - 2 shop-0.2.0 4 objects ready");
    assert!(!answer.is_ready);
}

#[tokio::test]
async fn a_watches_file_names_the_kinds_and_counts_their_releases() {
    let server = server();
    put(&server, &releases()[20]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watches.yaml");
    let entry = |kind: &str| format!("- group: shop.example.com\n  version: v1\n  kind: {kind}\n  chart: /chart\n");
    std::fs::write(&file, entry("Shop") + &entry("Cart")).unwrap();
    let target = Target { watches_file: file, ..Target::default() };
    let asked = Asked::new(server.clone(), "ns".into(), &target).unwrap();
    let answer = asked.status(&[]).await.unwrap();
    let expected = "KIND  GROUP             READY\nShop  shop.example.com  0/1\nCart  shop.example.com  no matches for kind \"Cart\" in version \"shop.example.com/v1\"\n\nShop ns/web Failed: spec.size: got string, want integer\n";
    assert_eq!((&*answer.text, answer.is_ready), (expected, false));
    std::fs::write(&target.watches_file, entry("Shop")).unwrap();
    let asked = Asked::new(server, "ns".into(), &target).unwrap();
    assert!(asked.status(&["web".into()]).await.unwrap().text.starts_with("Shop ns/web is not ready: spec.size"));
    let missing = asked.status(&["nobody".into()]).await.err().unwrap();
    assert_eq!(missing, "there is no Shop \"nobody\" in namespace \"ns\"");
}

#[tokio::test]
async fn a_word_that_means_no_kind_or_several_is_refused() {
    let server = server();
    server.0.serve("other.example.com/v1", "Shop", "shops");
    let asked = asked(&server, Output::Text);
    assert_eq!(
        asked.get(&here("shop")).await.err().unwrap(),
        "\"shop\" may be any of shops.other.example.com, shops.shop.example.com: name one of these"
    );
    assert_eq!(asked.get(&here("nonsense")).await.err().unwrap(), "the server serves no kind \"nonsense\"");
    let error = asked.status(&["web".into()]).await.err().unwrap();
    assert_eq!(error, "name the kind: there is no /nowhere, which would name the kinds");
}

#[tokio::test]
async fn history_falls_back_to_the_status_for_those_who_may_not_read_secrets() {
    let server = server();
    let mut resource = shop(&waiting(), &[]);
    resource["status"]["history"] = json!([
        {"revision": 2, "chart": "shop-0.2.0", "action": "upgrade", "outcome": "deployed", "updated": "2026-01-01T00:00:00Z"},
    ]);
    server.0.put(CR, resource, "operator");
    server.0.refuse(|call| {
        call.path.contains("/secrets").then(|| Error::from_status(403, "Forbidden", "secrets is forbidden"))
    });
    let answer = asked(&server, Output::Text).history(&["shop".into(), "web".into()], 10).await.unwrap();
    let line = answer.text.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(line, "2 2026-01-01T00:00:00Z deployed shop-0.2.0 from the status; the record may not be read upgrade");
}

/// Records a revision as the operator does.
async fn record(server: &Arc<WithLogs>, version: u32, status: Status, inputs: &str, hooks: Vec<Hook>) {
    record_manifest(server, version, (status, inputs), hooks, "").await;
}

async fn record_manifest(
    server: &Arc<WithLogs>,
    version: u32,
    (status, inputs): (Status, &str),
    hooks: Vec<Hook>,
    manifest: &str,
) {
    let chart = format!("{{\"metadata\":{{\"name\":\"shop\",\"version\":\"0.{version}.0\",\"appVersion\":\"1.6\"}}}}");
    let info = Info { status, description: "Upgrade complete".into(), ..Info::default() };
    let release = Release {
        name: "web".into(),
        namespace: "ns".into(),
        version,
        info,
        chart: Arc::new(ChartDocument::from_json(&chart).unwrap()),
        config: json!({"password": "s3cret"}),
        manifest: manifest.into(),
        hooks,
        apply_method: "ssa".into(),
        labels: Default::default(),
        record_uid: None,
        more: Default::default(),
    };
    let keys = Keyring::new(Key::new(&[7; 32]).unwrap(), Vec::new());
    let marks = Marks { inputs: inputs.into(), owner: "cr".into(), ..Marks::default() };
    Storage::new(server.clone(), keys).create(&release, &marks).await.unwrap();
}

#[tokio::test]
async fn history_names_the_cause_of_each_revision_and_no_value() {
    let server = server();
    server.0.put(CR, shop(&waiting(), &[]), "operator");
    record(&server, 1, Status::Superseded, "2:a.own.chart=1", vec![]).await;
    record(&server, 2, Status::Deployed, "2:b.other.chart=2", vec![]).await;
    let answer = asked(&server, Output::Text).history(&["shop/web".into()], 10).await.unwrap();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = answer.text.lines().map(words).collect();
    assert!(
        lines[1].ends_with("deployed shop-0.2.0 1.6 Upgrade complete spec changed, chart shop-0.1.0 → shop-0.2.0"),
        "{lines:?}"
    );
    assert!(lines[2].ends_with("superseded shop-0.1.0 1.6 Upgrade complete installed"), "{lines:?}");
    assert!(!answer.text.contains("s3cret"));
    let last = asked(&server, Output::Text).history(&["shop/web".into()], 1).await.unwrap();
    assert_eq!(last.text.lines().count(), 2);
}

/// Whoever may write a record's Secret may set such a time in its managed fields.
#[tokio::test]
async fn a_record_with_a_time_beyond_those_of_rust_is_in_the_history() {
    let server = server();
    server.0.put(CR, shop(&waiting(), &[]), "operator");
    record(&server, 1, Status::Deployed, "", vec![]).await;
    let path = "/api/v1/namespaces/ns/secrets/sh.helm.release.v1.web.v1";
    let mut secret = server.0.object(path).unwrap();
    secret["metadata"]["managedFields"][0]["time"] = "9999-12-31T23:59:59Z".into();
    server.0.restore(path, secret);
    let answer = asked(&server, Output::Text).history(&["shop/web".into()], 10).await.unwrap();
    assert!(answer.text.contains("deployed") && answer.text.contains("shop-0.1.0"), "{}", answer.text);
}

#[tokio::test]
async fn two_revisions_are_compared_by_what_they_recorded_without_contents_of_secrets() {
    let server = server();
    server.0.put(CR, shop(&waiting(), &[]), "operator");
    let map = |x: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"x": x}});
    let secret = |p: &str| {
        let metadata = json!({"name": "s", "annotations": {"copy": p}});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"p": p}})
    };
    let manifest = |x: &str, p: &str| format!("---\n{}\n---\n{}\n", map(x), secret(p));
    record_manifest(&server, 1, (Status::Superseded, ""), Vec::new(), &manifest("1", "canary-1")).await;
    record_manifest(&server, 2, (Status::Deployed, ""), Vec::new(), &manifest("2", "canary-2")).await;
    let what = ["shop/web".to_owned()];
    let text = asked(&server, Output::Text).differences(&what, [1, 2]).await.unwrap().text;
    assert!(text.contains("-  x: \"1\"\n+  x: \"2\"\n") && text.contains("+  p: '**** (after)'"), "{text}");
    assert!(text.ends_with("Shop ns/web: +0 ~2 -0\n"), "{text}");
    let first = asked(&server, Output::Json).differences(&what, [0, 1]).await.unwrap().text;
    assert_eq!(serde_json::from_str::<Value>(&first).unwrap()["summary"], "+2 ~0 -0");
    assert!(!text.contains("canary") && !first.contains("canary"), "{text}{first}");
    let error = asked(&server, Output::Text).differences(&what, [2, 7]).await.err().unwrap();
    assert!(error.contains("sh.helm.release.v1.web.v7"), "{error}");
}

#[tokio::test]
async fn what_revisions_did_is_shown_for_each_between_two_and_counted_in_the_history() {
    let server = server();
    server.0.put(CR, shop(&waiting(), &[]), "operator");
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": "canary-1"}});
    for version in 1..=4 {
        record_manifest(&server, version, (Status::Superseded, ""), Vec::new(), &secret.to_string()).await;
        if version != 3 {
            keep(&server, version, &[("a\x1b[2J", ChangeKind::Create), ("canary-1", ChangeKind::Update)]);
        }
    }
    let what = ["shop/web".to_owned()];
    let text = asked(&server, Output::Text).differences(&what, [1, 4]).await.unwrap().text;
    let (_, did) = text.split_once("\n\n").unwrap();
    let lines = "  + ConfigMap ns/a\u{fffd}[2J\n  ~ ConfigMap ns/****\n";
    let of = |revision: u32| format!("WHAT REVISION {revision} DID: +1 ~1 -0\n{lines}");
    assert_eq!(did, format!("{}\n{}", of(2), of(4)));
    let json = asked(&server, Output::Json).differences(&what, [1, 4]).await.unwrap().text;
    let json: Value = serde_json::from_str(&json).unwrap();
    let revisions: Vec<&Value> = json["applied"].as_array().unwrap().iter().map(|one| &one["revision"]).collect();
    assert_eq!(revisions, [&json!(2), &json!(4)]);
    assert!(!json.to_string().contains("canary"), "{json}");
    let history = asked(&server, Output::Text).history(&what, 10).await.unwrap().text;
    assert_eq!(history.lines().filter(|line| line.contains(" +1 ~1 -0 ")).count(), 3, "{history}");
}

/// Keeps what a revision did with its record.
fn keep(server: &WithLogs, version: u32, did: &[(&str, ChangeKind)]) {
    let entry = |(name, action): &(&str, ChangeKind)| {
        let object =
            Name { api_version: "v1".into(), kind: "ConfigMap".into(), namespace: "ns".into(), name: (*name).into() };
        AccountEntry::of(object, *action)
    };
    let account = Account { changes: did.iter().map(entry).collect(), ..Account::default() };
    let path = format!("/api/v1/namespaces/ns/secrets/sh.helm.release.v1.web.v{version}");
    let mut secret = server.0.object(&path).unwrap();
    secret["data"]["plan"] = json!(ByteString(account.pack().unwrap()));
    server.0.restore(&path, secret);
}

#[tokio::test]
async fn a_failed_hook_is_explained_by_its_pod() {
    let server = server();
    let message = "hook shop/templates/migrate.yaml failed: Job \"migrate\": BackoffLimitExceeded";
    server.0.restore(CR, shop(&failed("ReleaseFailed", "UpgradeError", message), &[]));
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"}});
    let mut hook = Hook { name: "migrate".into(), kind: "Job".into(), manifest: job.to_string(), ..Hook::default() };
    hook.events = vec![HookEvent::PreUpgrade];
    hook.last_run.phase = HookPhase::Failed;
    let test = Hook { name: "try".into(), kind: "Pod".into(), events: vec![HookEvent::Test], ..Hook::default() };
    record(&server, 1, Status::Failed, "", vec![hook, test]).await;
    let live = json!({
        "metadata": {"name": "migrate", "uid": "j"}, "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]},
    });
    server.0.restore("/apis/batch/v1/namespaces/ns/jobs/migrate", live);
    server.0.restore(&format!("{PODS}/web-1-x"), pod(crashes("Error")));
    let (text, _) = status(&server).await;
    let expected = format!(
        "Shop ns/web is not ready: {message}: pod \"web-1-x\": container \"app\" keeps crashing: exit code 1, 5 restarts\n  the log of container"
    );
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.contains("\nHOOKS\n  Job \"migrate\"  pre-upgrade  Failed\n"), "{text}");
    assert!(!text.contains("Pod \"try\""), "only `helm test` runs it: {text}");
}

/// An operator of an earlier version wrote no inventory; then the records name the objects.
#[tokio::test]
async fn a_release_without_an_inventory_is_shown_from_its_records() {
    let server = server();
    put(&server, &Broken { inventory: &[], ..releases().swap_remove(0) });
    let key = helm_release::kube::ObjectKey::new("apps", "Deployment", "ns", "web");
    let objects = vec![helm_release::storage::MarkedObject::new(key, "apps/v1".into())];
    record(&server, 1, Status::Deployed, "", vec![]).await;
    let path = "/api/v1/namespaces/ns/secrets/sh.helm.release.v1.web.v1";
    let mut secret = server.0.object(path).unwrap();
    let marks = Marks { objects, ..Marks::default() }.to_text();
    secret["metadata"]["annotations"][helm_release::storage::MARKS_ANNOTATION] = marks.into();
    server.0.restore(path, secret);
    let (text, _) = status(&server).await;
    assert!(
        text.starts_with("Shop ns/web is not ready: pod \"web-1-x\": container \"app\" cannot pull image"),
        "{text}"
    );
}
