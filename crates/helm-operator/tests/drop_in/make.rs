//! Tests of `make run` in the project, which prefers `bin/helm-operator`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::process::{FREE_PORTS, Process};
use crate::project::{Project, SAMPLE};

#[test]
fn make_run_runs_the_operator_in_the_projects_bin() {
    let Some(project) = Project::deployed() else { return };
    let namespace = project.cluster.namespace("make").unwrap();
    let binary = project.path().join("bin/helm-operator");
    fs::create_dir(binary.parent().unwrap()).unwrap();
    let script = format!("#!/bin/sh\nexec '{}' \"$@\" {}\n", env!("CARGO_BIN_EXE_helm-operator"), FREE_PORTS.join(" "));
    fs::write(&binary, script).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();

    let mut make = Command::new("make");
    make.arg("run").current_dir(project.path()).env_remove("MAKEFLAGS").env_remove("WATCH_NAMESPACE");
    let operator = Process::start(make.env("KUBECONFIG", project.cluster.operator_kubeconfig_path()));
    operator.logged("Watching all namespaces");
    namespace.apply(&project.sample(1)).unwrap();
    operator.logged("Installed release");
    namespace.kubectl(["delete", "memcached", SAMPLE, "--timeout=60s"]).unwrap();
    operator.logged("Uninstalled release");
}
