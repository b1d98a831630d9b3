//! Charts that real Helm writes at test time, rendered by real Helm and by the operator's own command.

use std::path::Path;
use std::process::Command;

use test_cluster::TestCluster;

/// What `template` prints for the chart, by the program.
fn template(mut program: Command, chart: &Path) -> String {
    let output = program.args(["template", "rel", "--namespace", "ns"]).arg(chart).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_chart_that_helm_create_writes_renders_as_helm_renders_it() {
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
