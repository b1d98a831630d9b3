//! Tests of `helm-operator template` as a process, compared with the output of Helm v4.3.1 for the same arguments
//! (`golden/README.md`).

#![allow(clippy::unwrap_used)] // A test may panic.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_helm-operator"))
        .arg("template")
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("KUBECONFIG", "/nonexistent/config")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn golden(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    std::fs::read_to_string(path).unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn output_and_errors_match_helm() {
    let cases = golden("cases.tsv");
    assert!(cases.lines().count() > 10);
    for (name, args) in cases.lines().map(|line| line.split_once('\t').unwrap()) {
        let args: Vec<&str> = args.split(' ').collect();
        let output = run(&args);
        let (expected, error) = (golden(&format!("{name}.out")), golden(&format!("{name}.err")));
        assert_eq!(text(&output.stdout), expected, "{name}");
        let stderr = text(&output.stderr);
        // With --debug the excerpt follows.
        let stderr = stderr.split("\n\n --> ").next().unwrap();
        assert_eq!(stderr.trim_end(), error.trim_end(), "{name}");
        assert_eq!(output.status.code(), Some(i32::from(!error.is_empty())), "{name}");
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_helm-operator"))
        .args(["template", "rel", "../../helm-charts/memcached"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(141), String::new()));
}

#[test]
fn an_excerpt_of_the_template_follows_its_error_only_with_debug() {
    let excerpt = "\n\n --> broken/templates/_name.tpl:2:10\n  |\n1 | {{- define \"broken.name\" -}}\n2 | {{ .Values.names.first.text }}\n  |           ^\n3 | {{- end }}\n";
    let debug = text(&run(&["rel", "tests/golden/broken", "--debug"]).stderr);
    assert!(debug.ends_with(excerpt), "{debug}");
    assert!(!text(&run(&["rel", "tests/golden/broken"]).stderr).contains("-->"));
}

#[test]
fn the_cluster_is_contacted_only_with_validate() {
    let chart = "../../helm-charts/memcached";
    for flag in ["--validate", "--dry-run=server"] {
        let output = run(&["rel", chart, flag]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
        let complaint = text(&output.stderr);
        let error = complaint.lines().find(|line| !line.starts_with("Flag --validate has been deprecated"));
        assert!(error.is_some_and(|line| line.starts_with("Error: Kubernetes cluster unreachable: ")), "{complaint}");
    }
    assert!(run(&["rel", chart, "--dry-run=client"]).status.success());
}
