//! A copy of upstream's sample project, and the cluster that it is deployed to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tempfile::TempDir;
use test_cluster::{Request, TestCluster};

use crate::process::{FREE_PORTS, Process};

/// The namespace of `config/default`.
pub(crate) const NAMESPACE: &str = "memcached-operator-system";
/// The account of the project's Deployment.
pub(crate) const ACCOUNT: &str = "memcached-operator-controller-manager";
/// The name of the project's sample resource.
pub(crate) const SAMPLE: &str = "memcached-sample";

/// The lock of a running operator: each watches all namespaces for one kind, so only one may run at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The project in a temporary folder, deployed to the shared cluster with the manifests of `make install deploy`.
pub(crate) struct Project {
    pub(crate) cluster: &'static TestCluster,
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Project {
    /// Deploys the project; without the project or a control plane, prints a message and returns `None`.
    pub(crate) fn deployed() -> Option<Project> {
        let scaffold = shared_cases::path("upstream-state/scaffold")?;
        let cluster = TestCluster::shared_or_skip()?;
        // On other clusters there is no audit log, and the project's pod would not find its image.
        if std::env::var_os("USE_KUBECONFIG").is_some() {
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        copy(&scaffold, folder.path());
        let project = Project { cluster, folder, _turn: turn };
        project.serve_service_monitors();
        project.cluster.apply(&project.kustomized()).unwrap();
        let definition = "crd/memcacheds.cache.example.com";
        project.kubectl(["wait", "--for=condition=Established", "--timeout=30s", definition]);
        Some(project)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn kubectl<const N: usize>(&self, arguments: [&str; N]) -> String {
        self.cluster.kubectl(arguments).unwrap()
    }

    fn kustomized(&self) -> String {
        self.kubectl(["kustomize", self.path().join("config/default").to_str().unwrap()])
    }

    /// Returns the arguments that the project's Deployment passes to the image.
    pub(crate) fn args(&self) -> Vec<String> {
        let deployment = self.kubectl(["-n", NAMESPACE, "get", "deployment", ACCOUNT, "-o", "json"]);
        arguments(&serde_json::from_str::<Value>(&deployment).unwrap()["spec"]["template"])
    }

    /// Returns a kubeconfig for this account, and its token.
    pub(crate) fn account(&self, namespace: &str, name: &str) -> (PathBuf, String) {
        let token = self.kubectl(["-n", namespace, "create", "token", name]).trim().to_owned();
        let path = self.path().join(format!("{name}.kubeconfig"));
        fs::write(&path, self.cluster.kubeconfig_with_token(&token).unwrap()).unwrap();
        (path, token)
    }

    /// Starts `helm-operator` in the project's folder as its image would, with these arguments and this account.
    pub(crate) fn start(&self, args: &[String], lease_namespace: &str, kubeconfig: &Path) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helm-operator"));
        command.args(["run", "--watches-file=./watches.yaml"]).args(args).args(FREE_PORTS);
        command.arg(format!("--leader-election-namespace={lease_namespace}"));
        Process::start(command.current_dir(self.path()).env("KUBECONFIG", kubeconfig).env_remove("WATCH_NAMESPACE"))
    }

    /// Returns the sample's manifest with this many replicas.
    pub(crate) fn sample(&self, replicas: u32) -> String {
        let file = self.path().join("config/samples/cache_v1alpha1_memcached.yaml");
        let text = fs::read_to_string(file).unwrap();
        assert!(text.contains("replicaCount: 3"));
        text.replace("replicaCount: 3", &format!("replicaCount: {replicas}"))
    }

    /// Returns the requests of this account that the server rejected, as `VERB resource`; sorted, without duplicates.
    pub(crate) fn refused(&self, namespace: &str, account: &str) -> Vec<String> {
        let user = format!("system:serviceaccount:{namespace}:{account}");
        let refused = |r: &Request| r.user == user && r.code == 403;
        let requests = self.cluster.requests().unwrap().into_iter().filter(refused);
        let mut lines: Vec<String> = requests.map(|r| format!("{} {}", r.verb, r.resource)).collect();
        lines.sort();
        lines.dedup();
        lines
    }

    /// Serves the kind of the Prometheus operator.
    fn serve_service_monitors(&self) {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let names = json!({"kind": "ServiceMonitor", "plural": "servicemonitors", "singular": "servicemonitor"});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
            "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [version]},
        });
        self.cluster.apply(&crd.to_string()).unwrap();
        self.kubectl([
            "wait",
            "--for=condition=Established",
            "--timeout=30s",
            "crd/servicemonitors.monitoring.coreos.com",
        ]);
    }
}

/// Returns the arguments of the container `manager` in a pod template.
pub(crate) fn arguments(template: &Value) -> Vec<String> {
    let containers = template["spec"]["containers"].as_array().unwrap();
    let manager = containers.iter().find(|container| container["name"] == "manager").unwrap();
    manager["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned()).collect()
}

/// Copies a folder; the copy is writable even if the original is not.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let (from, name) = entry.map(|e| (e.path(), e.file_name())).unwrap();
        let to = to.join(name);
        match from.is_dir() {
            true => {
                fs::create_dir(&to).unwrap();
                copy(&from, &to);
            }
            false => fs::write(&to, fs::read(&from).unwrap()).unwrap(),
        }
    }
}
