//! The charts on a real control plane, installed by Helm and by the operator: what the API server takes, what the
//! rendered account may do, what an upgrade keeps and what an uninstall leaves.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use test_cluster::{Namespace, Request, TestCluster};

use super::{DEFINITIONS, IMAGE, OPERATOR, RIGHTS, helm, root, run, succeeded};
use crate::account::copy;
use crate::operator::{Operator, install_kinds};
use crate::resource::Kind;
use crate::rights::{apply, requests_of, wait_until_ready};

/// The release's name, and how its objects are called.
const RELEASE: &str = "rel";
const NAME: &str = "rel-hybrid-helm-operator";

/// Returns Helm with a cluster of ours, on which accounts count.
fn accounts() -> Option<&'static TestCluster> {
    helm().filter(|_| std::env::var_os("USE_KUBECONFIG").is_none())
}

/// Creates a namespace that admits only pods of the level `restricted`.
pub(crate) fn restricted<'a>(cluster: &'a TestCluster, prefix: &str) -> Namespace<'a> {
    let namespace = cluster.namespace(prefix).unwrap();
    cluster.kubectl(["label", "namespace", namespace.name(), "pod-security.kubernetes.io/enforce=restricted"]).unwrap();
    namespace
}

/// Runs Helm in a namespace.
pub(crate) fn in_namespace(cluster: &TestCluster, namespace: &Namespace<'_>, arguments: &[&str]) -> String {
    let mut helm = cluster.command("helm");
    helm.env("KUBECONFIG", cluster.kubeconfig_path());
    succeeded(&run(helm, arguments.iter().copied().chain(["--namespace", namespace.name()])))
}

fn rolled_out(namespace: &Namespace<'_>) {
    namespace.kubectl(["rollout", "status", &format!("deployment/{NAME}"), "--timeout=60s"]).unwrap();
}

/// Starts the operator as the chart would: with its account, its arguments and its namespaces, on free ports and with
/// the repository's watches. Without namespaces, it serves only `served`, because other tests also have resources.
fn start(cluster: &TestCluster, own: &Namespace<'_>, served: &str) -> Operator {
    let pod = &cluster.get(&["deployment", NAME, "-n", own.name()]).unwrap()["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let given = container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
    let cache = format!("--chart-cache={}", cluster.folder().join(own.name()).display());
    let namespace = format!("--leader-election-namespace={}", own.name());
    let ports = ["--metrics-bind-address", "--health-probe-bind-address", "--web-bind-address"];
    let ports = ports.map(|flag| format!("{flag}=127.0.0.1:0"));
    let here = ["--watches-file=watches.yaml", &*cache, &*namespace];
    let flags: Vec<&str> = given.chain(here).chain(ports.iter().map(String::as_str)).collect();
    let account = pod["serviceAccountName"].as_str().unwrap();
    let kubeconfig = cluster.kubeconfig_of(own.name(), account).unwrap();
    let namespaces = container["env"][0]["value"].as_str().unwrap_or(served);
    Operator::start_with(&kubeconfig, namespaces, &flags)
}

/// Returns the uid of each object of the release.
fn uids(own: &Namespace<'_>) -> BTreeMap<String, Value> {
    let kinds =
        "deployment,service,serviceaccount,configmap,role,rolebinding,clusterrole,clusterrolebinding,pdb,networkpolicy";
    let of_release = format!("app.kubernetes.io/instance={RELEASE}");
    let text = own.kubectl(["get", kinds, "-l", &of_release, "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    let mut objects = list["items"].as_array().unwrap().clone();
    // Roles without a namespace may be another test's.
    objects.retain(|object| object["metadata"]["annotations"]["meta.helm.sh/release-namespace"] == own.name());
    let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    objects.iter().map(|object| (name(object), object["metadata"]["uid"].clone())).collect()
}

fn refused(cluster: &TestCluster, own: &Namespace<'_>, served: &[&str]) -> Vec<Request> {
    let namespaces = [served, &[own.name()]].concat();
    let mut requests = requests_of(cluster, &format!("{}:{NAME}", own.name()), &namespaces);
    assert!(requests.iter().any(Request::is_write));
    requests.retain(|request| request.code == 403);
    requests
}

#[test]
fn what_helm_installs_serves_resources_is_upgraded_in_place_and_leaves_no_trace() {
    let Some(cluster) = accounts() else { return };
    install_kinds(cluster);
    let (own, served) = (restricted(cluster, "whole"), cluster.namespace("served").unwrap());
    let values = ["--set", IMAGE, "--set", "replicas=2,networkPolicy.enabled=true,web.enabled=true"];
    let files = ["--set-file", "watches=watches.yaml", "--set-file", RIGHTS[0], "--set-file", RIGHTS[1]];
    let said = in_namespace(cluster, &own, &[&["install", RELEASE, OPERATOR], &values[..], &files].concat());
    assert!(said.contains("kubectl rollout status") && !said.contains("WARNING"), "{said}");
    rolled_out(&own);

    let operator = start(cluster, &own, served.name());
    apply(&served, 1);
    wait_until_ready(&served, 1);
    apply(&served, 2);
    wait_until_ready(&served, 2);
    assert!(operator.terminate().0.success());

    let deployed =
        || cluster.get(&["memcached", "both", "-n", served.name()]).unwrap()["status"]["deployedRelease"].clone();
    let (before, release) = (uids(&own), deployed());
    assert!(before.len() > 9, "{before:?}");
    let newer = tempfile::tempdir().unwrap();
    copy(&root().join(OPERATOR), newer.path());
    let about = newer.path().join("Chart.yaml");
    let text = fs::read_to_string(&about).unwrap().replace("ersion: 0.1.0", "ersion: 0.1.1");
    fs::write(about, text).unwrap();
    let chart = newer.path().to_str().unwrap();
    in_namespace(
        cluster,
        &own,
        &[&["upgrade", RELEASE, chart], &values[..], &files, &["--set", "replicas=3"]].concat(),
    );
    rolled_out(&own);
    assert_eq!(uids(&own), before, "an upgrade replaces nothing");

    let operator = start(cluster, &own, served.name());
    let deployment = || {
        cluster.get(&["deployment", "both-memcached", "-n", served.name()]).unwrap()["metadata"]["generation"].clone()
    };
    let generation = deployment();
    served.kubectl(["delete", "service/both-memcached"]).unwrap();
    crate::operator::eventually("repaired service", || served.kubectl(["get", "service/both-memcached"]));
    assert_eq!((deployed(), deployment()), (release, generation), "no release has a new revision");
    served.kubectl(["delete", "memcached/both", "memcachedbackup/both", "--timeout=30s"]).unwrap();
    let (status, log) = operator.terminate();
    assert!(status.success() && !log.contains("lacks rights"), "{log}");
    let refused = refused(cluster, &own, &[served.name()]);
    assert!(refused.is_empty(), "{refused:?}");

    in_namespace(cluster, &own, &["uninstall", RELEASE, "--wait"]);
    assert!(uids(&own).is_empty());
    let kinds = "deployment,service,serviceaccount,configmap,secret,role,rolebinding,pdb,networkpolicy,lease";
    let left = own.kubectl(["get", kinds, "-o", "name"]).unwrap();
    let of_cluster = ["serviceaccount/default", "configmap/kube-root-ca.crt"];
    let mut left: Vec<&str> = left.lines().filter(|name| !of_cluster.contains(name)).collect();
    left.sort_unstable();
    let lease = format!("lease.coordination.k8s.io/{NAME}");
    assert_eq!(left, [&*lease, "secret/helm-operator-record-key"], "docs/installing.md names what is left");
}

/// Returns the operator's chart as it was before its last change, as an archive in this folder. Without that history,
/// as in a shallow clone, prints that no upgrade from it is tested.
pub(crate) fn chart_before_its_last_change(folder: &Path) -> Option<PathBuf> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root()).output().ok()?;
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    let archive = folder.join("before.tgz");
    let before = git(&["log", "--max-count=1", "--format=%H^", "--", OPERATOR]).and_then(|commit| {
        let (chart, output) = (format!("{commit}:{OPERATOR}"), format!("--output={}", archive.display()));
        git(&["archive", "--format=tar.gz", "--prefix=hybrid-helm-operator/", &output, &chart])
    });
    if before.is_none() {
        eprintln!("skipped: an upgrade from an earlier version of {OPERATOR}, which the history lacks");
    }
    before.map(|_| archive)
}

#[test]
fn an_upgrade_from_the_chart_before_its_last_change_replaces_no_object() {
    let Some(cluster) = helm() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(before) = chart_before_its_last_change(folder.path()) else { return };
    let own = restricted(cluster, "upgraded");
    let values = ["--set", IMAGE, "--set", "replicas=2,networkPolicy.enabled=true,web.enabled=true"];
    let files = ["--set-file", "watches=watches.yaml", "--set-file", RIGHTS[0], "--set-file", RIGHTS[1]];
    let flags = [&values[..], &files].concat();
    in_namespace(cluster, &own, &[&["install", RELEASE, before.to_str().unwrap()], &flags[..]].concat());
    rolled_out(&own);
    let installed = uids(&own);
    assert!(installed.len() > 9, "{installed:?}");
    in_namespace(cluster, &own, &[&["upgrade", RELEASE, OPERATOR], &flags[..]].concat());
    rolled_out(&own);
    let upgraded = uids(&own);
    // A newer chart may add objects, and remove those that it no longer needs.
    for (name, uid) in installed.iter().filter(|(name, _)| upgraded.contains_key(*name)) {
        assert_eq!(uid, &upgraded[name], "{name} is replaced");
    }
    for kind in ["Deployment", "ServiceAccount"] {
        assert!(upgraded.contains_key(&format!("\"{kind}\" \"{NAME}\"")), "{upgraded:?}");
    }
    in_namespace(cluster, &own, &["uninstall", RELEASE, "--wait"]);
}

#[test]
fn two_listed_namespaces_are_served_with_rights_in_these_alone() {
    let Some(cluster) = accounts() else { return };
    install_kinds(cluster);
    let (own, other) = (restricted(cluster, "listed"), cluster.namespace("other").unwrap());
    let served = [cluster.namespace("team-a").unwrap(), cluster.namespace("team-b").unwrap()];
    let namespaces = format!("namespaces={{{},{}}}", served[0].name(), served[1].name());
    let values = ["--set", IMAGE, "--set", &namespaces, "--set-file", RIGHTS[0], "--set-file", RIGHTS[1]];
    in_namespace(cluster, &own, &[&["install", RELEASE, OPERATOR], &values[..]].concat());
    rolled_out(&own);
    let operator = start(cluster, &own, "");
    for namespace in &served {
        apply(namespace, 1);
        wait_until_ready(namespace, 1);
        apply(namespace, 2);
        wait_until_ready(namespace, 2);
        namespace.kubectl(["delete", "memcached/both", "memcachedbackup/both", "--timeout=30s"]).unwrap();
    }
    let (status, log) = operator.terminate();
    assert!(status.success() && !log.contains("lacks rights"), "{log}");
    let refused = refused(cluster, &own, &served.each_ref().map(|namespace| namespace.name()));
    assert!(refused.is_empty(), "{refused:?}");
    let account = format!("--as=system:serviceaccount:{}:{NAME}", own.name());
    for resource in ["memcacheds.cache.my.domain", "secrets", "pods"] {
        assert!(other.kubectl(["auth", "can-i", "list", resource, &account]).is_err(), "{resource}");
    }
    in_namespace(cluster, &own, &["uninstall", RELEASE, "--wait"]);
    for namespace in &served {
        let left = namespace.kubectl(["get", "role,rolebinding,secret", "-o", "name"]).unwrap();
        assert_eq!(left, "", "{}", namespace.name());
    }
}

#[test]
fn the_api_server_takes_every_object_and_the_restricted_level_every_pod() {
    let Some(cluster) = helm() else { return };
    let own = restricted(cluster, "everything");
    let values = format!("{OPERATOR}/ci/everything-values.yaml");
    // The Prometheus operator's kinds are not served here.
    let without = "metrics.serviceMonitor.enabled=false,metrics.alerts.enabled=false";
    in_namespace(cluster, &own, &["install", RELEASE, OPERATOR, "--values", &values, "--set", without]);
    rolled_out(&own);
    let found = uids(&own);
    assert!(found.len() > 15, "{found:?}");
    in_namespace(cluster, &own, &["uninstall", RELEASE, "--wait"]);
}

#[test]
fn the_operator_installs_its_own_chart_as_helm_does() {
    let Some(cluster) = accounts() else { return };
    crate::chart_kinds::define(cluster);
    let (by_helm, by_us) = (restricted(cluster, "by-helm"), restricted(cluster, "by-us"));
    let values = json!({"image": {"repository": "registry.example.com/helm-operator"}, "replicas": 2, "watches": super::read("watches.yaml"), "networkPolicy": {"enabled": true}});
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), values.to_string()).unwrap();
    in_namespace(cluster, &by_helm, &["install", RELEASE, OPERATOR, "--values", file.path().to_str().unwrap()]);

    let chart = root().join(OPERATOR);
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Widget", "chart": chart}]);
    let operator = Operator::start_watches(cluster, &by_us, &watch.to_string(), &[]);
    let widget = Kind("Widget");
    widget.set(&by_us, RELEASE, &values);
    widget.wait_for(&by_us, RELEASE, "Ready");
    // Helm's record has an empty line after each document.
    let manifest = |namespace: &Namespace<'_>| {
        let text = in_namespace(cluster, namespace, &["get", "manifest", RELEASE]);
        text.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    let wanted = manifest(&by_helm).replace(by_helm.name(), by_us.name());
    assert_eq!(manifest(&by_us), wanted);
    by_us.kubectl(["delete", "widget", RELEASE, "--timeout=30s"]).unwrap();
    operator.terminate();
    in_namespace(cluster, &by_helm, &["uninstall", RELEASE, "--wait"]);
    let roles = cluster.kubectl(["get", "clusterrole,clusterrolebinding", "-o", "name"]).unwrap();
    assert!(
        !roles.contains(&format!("{}-{NAME}", by_us.name())) && !roles.contains(&format!("{}-{NAME}", by_helm.name()))
    );
}

/// Returns a definition with these properties of `spec`.
fn definition(properties: &Value) -> String {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"kind": "Kept", "listKind": "KeptList", "plural": "kepts", "singular": "kept"});
    let spec = json!({"group": "own.my.domain", "scope": "Namespaced", "names": names, "versions": [version]});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "kepts.own.my.domain"}, "spec": spec}).to_string()
}

#[test]
fn definitions_are_upgraded_in_place_and_outlive_their_release() {
    let Some(cluster) = helm() else { return };
    let own = cluster.namespace("definitions").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kepts.yaml");
    let set = format!("definitions.kepts={}", file.display());
    let get = || cluster.get(&["crd", "kepts.own.my.domain"]).unwrap();
    let size = json!({"type": "integer", "maximum": 2_147_483_647});
    cluster.kubectl_with_input(["apply", "--server-side", "-f", "-"], &definition(&json!({}))).unwrap();
    fs::write(&file, definition(&json!({"size": size}))).unwrap();
    let take_over = ["--take-ownership", "--force-conflicts"];
    in_namespace(cluster, &own, &[&["install", "crds", DEFINITIONS, "--set-file", &set], &take_over[..]].concat());
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd/kepts.own.my.domain"]).unwrap();
    own.apply("{apiVersion: own.my.domain/v1, kind: Kept, metadata: {name: a}, spec: {size: 1}}").unwrap();
    let first = get();
    fs::write(&file, definition(&json!({"size": size, "color": {"type": "string"}}))).unwrap();
    in_namespace(cluster, &own, &["upgrade", "crds", DEFINITIONS, "--set-file", &set]);
    let second = get();
    assert_eq!(first["metadata"]["uid"], second["metadata"]["uid"]);
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    assert_eq!(second.pointer(properties), Some(&json!({"size": size, "color": {"type": "string"}})));

    in_namespace(cluster, &own, &["uninstall", "crds", "--wait"]);
    own.kubectl(["get", "kept", "a"]).unwrap();
    in_namespace(cluster, &own, &["install", "crds", DEFINITIONS, "--set-file", &set, "--set", "keep=false"]);
    assert_eq!(get()["metadata"]["uid"], first["metadata"]["uid"], "a new release takes them over");
    in_namespace(cluster, &own, &["uninstall", "crds", "--wait"]);
    assert_eq!(get(), Value::Null, "on request, they are deleted");
}
