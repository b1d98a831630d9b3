//! Tests of `run --reload` on a real control plane: a valid save is served, a broken one is not.

use std::fs::{self, File};
use std::process::Command;

use test_cluster::{Process, TestCluster, eventually};

use crate::folder::{Folder, PROGRAM};

const TEMPLATE: &str = "helm-charts/web/templates/more.yaml";

fn template(text: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ .Release.Name }}}}-more\ndata:\n  text: {text}\n")
}

#[test]
fn a_saved_chart_is_served_and_a_broken_save_leaves_the_running_one() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let folder = Folder::new();
    folder.run("init --domain reload.test --project-name reload").unwrap();
    folder.run("create api --group web --version v1 --kind Web").unwrap();
    folder.make(cluster, &["install"]);
    let crd = "crd/webs.web.reload.test";
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", crd]).unwrap();
    let namespace = cluster.namespace("reload").unwrap();
    let printed = folder.path().join("printed");
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--reload", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    command.env("KUBECONFIG", cluster.operator_kubeconfig_path()).env("WATCH_NAMESPACE", namespace.name());
    command.current_dir(folder.path()).stdout(File::create(&printed).unwrap());
    let operator = Process::start(cluster, &mut command).unwrap();
    let save = |text: &str| fs::write(folder.path().join(TEMPLATE), text).unwrap();
    let set = |replicas: u32| {
        let spec = format!("{{replicaCount: {replicas}}}");
        let text = format!("{{apiVersion: web.reload.test/v1, kind: Web, metadata: {{name: one}}, spec: {spec}}}");
        namespace.apply(&text).unwrap();
    };
    let wait = |what: &str, path: &str, expected: &str| {
        eventually(what, || match namespace.kubectl(["get", what, "-o", path]) {
            Ok(found) if found == expected => Ok(()),
            other => Err(format!("{other:?} {}", operator.log())),
        });
    };
    set(1);
    wait("deployment/one-web", "jsonpath={.spec.replicas}", "1");

    save(&template("first"));
    wait("configmap/one-more", "jsonpath={.data.text}", "first");
    assert!(fs::read_to_string(&printed).unwrap().contains("+  text: first"));

    save(&template("{{ fail \"broken\" }}"));
    let error = operator.logged("The saved chart is broken");
    assert!(error.contains("web/templates/more.yaml:6:"), "{error}");
    set(2);
    wait("deployment/one-web", "jsonpath={.spec.replicas}", "2");
    wait("configmap/one-more", "jsonpath={.data.text}", "first");

    save(&template("second"));
    wait("configmap/one-more", "jsonpath={.data.text}", "second");
    let (status, log) = operator.terminate().unwrap();
    assert!(status.success(), "{log}");
}
