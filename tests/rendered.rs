//! Renders charts with real Helm and with our `template` command, with and without a real API server.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use test_cluster::TestCluster;

/// Runs a program's `template` command on the chart; returns its output.
fn template(mut program: Command, chart: &Path) -> String {
    let output = program.args(["template", "rel", "--namespace", "ns"]).arg(chart).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_chart_of_helm_create_renders_as_in_helm() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    if !cluster.bin("helm").is_file() {
        println!("skipped: no helm beside the control plane");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let created = cluster.command("helm").args(["create", "created"]).current_dir(folder.path()).output().unwrap();
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let chart = folder.path().join("created");
    let ours = template(Command::new(env!("CARGO_BIN_EXE_memcached-operator")), &chart);
    assert_eq!(ours, template(cluster.command("helm"), &chart));
}

/// A template that uses the cluster's capabilities, a lookup, and an object for the server to check.
const ASKS: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: asks
data:
  version: {{ .Capabilities.KubeVersion.Version }} {{ .Capabilities.KubeVersion.Minor }}
  serves: {{ range list "apps/v1" "apps/v1/Deployment" "v1/Pod" "apps/v1/Pod" "nope/v1" }}{{ $.Capabilities.APIVersions.Has . }} {{ end }}
  system: {{ (lookup "v1" "Namespace" "" "kube-system").metadata.name }}
  absent: {{ lookup "v1" "ConfigMap" "kube-system" "absent" | toJson | quote }}
  listed: {{ range (lookup "v1" "Namespace" "" "").items }}{{ if hasPrefix "kube-" .metadata.name }}{{ .metadata.name }} {{ end }}{{ end }}
"#;

/// A port that the API server rejects.
const REFUSED: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {ports: [{port: 70000}]}\n";

fn chart(folder: &Path, template: &str) -> std::path::PathBuf {
    let chart = folder.join("asks");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: asks\nversion: 0.1.0\n").unwrap();
    fs::write(chart.join("templates/asks.yaml"), template).unwrap();
    chart
}

#[test]
fn with_a_cluster_charts_see_its_capabilities_and_the_server_checks_objects() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    if !cluster.bin("helm").is_file() {
        println!("skipped: no helm beside the control plane");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |mut program: Command, flag: &str, template: &str| -> Output {
        let chart = chart(folder.path(), template);
        let command = program.args(["template", "rel", flag]).arg(chart).env("KUBECONFIG", cluster.kubeconfig_path());
        command.output().unwrap()
    };
    let ours = || Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    let wanted = run(cluster.command("helm"), "--dry-run=server", ASKS);
    let text = String::from_utf8_lossy(&wanted.stdout).into_owned();
    assert!(text.contains("serves: true true true false false") && text.contains("system: kube-system"), "{wanted:?}");
    for flag in ["--validate", "--dry-run=server"] {
        let got = run(ours(), flag, ASKS);
        assert!(got.status.success(), "{got:?}");
        assert_eq!(String::from_utf8_lossy(&got.stdout), text, "{flag}");
    }
    let refused = run(ours(), "--validate", REFUSED);
    let error = String::from_utf8_lossy(&refused.stderr);
    let names_all =
        ["asks/templates/asks.yaml", "Service \"refused\"", "spec.ports[0].port"].map(|part| error.contains(part));
    assert!(!refused.status.success() && names_all == [true; 3], "{error}");
    assert!(run(ours(), "--dry-run=client", REFUSED).status.success());
}
