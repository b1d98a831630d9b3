//! The ServiceAccount that the operator under test runs as: with the permissions that `generate rbac` writes for its
//! watches, those of its own work in `config/rbac`, and no others. Tests themselves act as the administrator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use test_cluster::{Request, TestCluster};

/// The namespace of the accounts: an operator outlives the namespaces that it serves.
const HOME: &str = "test-operators";
const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/rbac");

/// Creates an account with the permissions for these watches, or for the repository's, for an operator of this
/// namespace; returns its kubeconfig. On an existing cluster, returns the administrator's.
pub(crate) fn kubeconfig(cluster: &TestCluster, namespace: &str, watches: Option<&str>) -> PathBuf {
    if std::env::var_os("USE_KUBECONFIG").is_some() {
        return cluster.operator_kubeconfig_path();
    }
    // Tests keep a lease in the namespace that the operator serves.
    let own = ["role.yaml", "leader_election_role.yaml", "memcachedbackup_role.yaml"];
    let mut rules = own.map(|file| rules(&Path::new(CONFIG).join(file))).concat();
    match watches {
        Some(watches) => rules.extend(generated(watches)),
        None => rules.extend(self::rules(&Path::new(CONFIG).join("memcached_role.yaml"))),
    }
    // Another test may create their common namespace at the same time.
    let manifest = manifest(namespace, &rules).to_string();
    crate::operator::eventually("account", || cluster.apply(&manifest).map(drop).map_err(|error| error.to_string()));
    cluster.kubeconfig_of(HOME, namespace).unwrap()
}

/// Returns the user of this namespace's operator.
pub(crate) fn user(namespace: &str) -> String {
    format!("system:serviceaccount:{HOME}:{namespace}")
}

/// Returns whether an operator under test made this request.
pub(crate) fn is_operators(request: &Request) -> bool {
    is_operator(&request.user)
}

/// Returns whether this is the user of an operator under test.
pub(crate) fn is_operator(user: &str) -> bool {
    user == "operator" || user.starts_with(&self::user(""))
}

/// Returns the account and its roles. An operator that is restarted with other charts keeps its earlier permissions,
/// because it deletes the earlier charts' objects.
fn manifest(namespace: &str, rules: &[Value]) -> Value {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let role = format!("operator-of-{namespace}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let api = "rbac.authorization.k8s.io/v1";
    let subjects = json!([{"kind": "ServiceAccount", "name": namespace, "namespace": HOME}]);
    let bound = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": namespace, "namespace": HOME}},
        {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules},
        {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": role}, "roleRef": bound, "subjects": subjects},
    ]})
}

/// Returns the rules of the roles in a manifest.
fn rules(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    let documents = text.split("---\n").map(|document| serde_yaml::from_str::<Value>(document).unwrap());
    documents.flat_map(|object| object["rules"].as_array().cloned().unwrap_or_default()).collect()
}

/// Returns the rules that `generate rbac` writes for each watch.
fn generated(watches: &str) -> Vec<Value> {
    let watches: Vec<Value> = serde_json::from_str(watches).unwrap();
    watches.iter().flat_map(generated_for).collect()
}

fn generated_for(watch: &Value) -> Vec<Value> {
    let project = tempfile::tempdir().unwrap();
    let mut watch = watch.clone();
    let chart = std::mem::replace(&mut watch["chart"], "chart".into());
    let chart = Path::new(chart.as_str().unwrap());
    if !chart.exists() {
        // Some tests use a chart that no longer exists: an operator that ran before keeps its permissions.
        return Vec::new();
    }
    copy(chart, &project.path().join("chart"));
    // A project's definitions determine the plurals.
    if let Some(definitions) = chart.ancestors().nth(2).map(|root| root.join("config/crd")).filter(|crds| crds.exists())
    {
        copy(&definitions, &project.path().join("config/crd"));
    }
    fs::write(project.path().join("watches.yaml"), json!([watch]).to_string()).unwrap();
    let mut generate = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    let output = generate.args(["generate", "rbac"]).current_dir(project.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = fs::read_dir(project.path().join("config/rbac")).unwrap().map(|entry| entry.unwrap().path());
    let kind = watch["kind"].as_str().unwrap().to_lowercase();
    let role = |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().ends_with(&format!("{kind}_role.yaml"));
    files.filter(role).flat_map(|file| rules(&file)).collect()
}

/// Copies a file, or a folder with all in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}
