//! Tests of `examples/reverse-words-chart`: a project with nothing but a chart, in Handlebars, run with the permissions
//! of its own ServiceAccount.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use test_cluster::TestCluster;

use crate::process::{FREE_PORTS, Process, eventually};

#[test]
fn a_chart_of_handlebars_templates_serves_reverse_words() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/reverse-words-chart");
    let config = |folder: &str| project.join("config").join(folder).display().to_string();
    cluster.deploy(config("default")).unwrap();
    let namespace = cluster.namespace("handlebars").unwrap();
    let account = ["reverse-words-operator-system", "reverse-words-operator-controller-manager"];
    let kubeconfig: PathBuf = cluster.kubeconfig_of(account[0], account[1]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_helm-operator"));
    command.arg("run").args(FREE_PORTS).current_dir(&project);
    let operator = Process::start(command.env("KUBECONFIG", kubeconfig).env("WATCH_NAMESPACE", namespace.name()));
    namespace.kubectl(["apply", "-k", &config("samples")]).unwrap();
    let get = |kind: &str, name: &str| -> Value {
        let found = namespace.kubectl(["get", kind, name, "-o", "json", "--ignore-not-found"]).unwrap();
        serde_json::from_str(&found).unwrap_or_default()
    };
    eventually("ready application", || {
        let conditions = get("reversewordsapp", "reversewordsapp-sample")["status"]["conditions"].clone();
        let ready = conditions.as_array().into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
        if ready { Ok(()) } else { Err(format!("{conditions} {}", operator.log())) }
    });
    let spec = get("deployment", "dp-reversewordsapp-sample")["spec"].clone();
    let container = &spec["template"]["spec"]["containers"][0];
    assert_eq!((&spec["replicas"], &container["image"]), (&json!(2), &json!("quay.io/mavazque/reversewords:v0.0.2")));
    assert_eq!(get("service", "service-reversewordsapp-sample")["spec"]["type"], "LoadBalancer");
    let defaults = json!({"apiVersion": "apps.linuxera.org/v1alpha1", "kind": "ReverseWordsApp",
        "metadata": {"name": "reversewordsapp-sample"}, "spec": {"replicas": 0, "appVersion": ""}});
    namespace.apply(&defaults.to_string()).unwrap();
    eventually("defaults", || {
        let spec = get("deployment", "dp-reversewordsapp-sample")["spec"].clone();
        let image = &spec["template"]["spec"]["containers"][0]["image"];
        if spec["replicas"] == 1 && image == "quay.io/mavazque/reversewords:latest" { Ok(()) } else { Err(spec) }
    });
    namespace.kubectl(["delete", "reversewordsapp", "--all", "--timeout=60s"]).unwrap();
    namespace.kubectl(["wait", "--for=delete", "deployment/dp-reversewordsapp-sample", "--timeout=60s"]).unwrap();
    operator.terminate();
}
