//! Tests of the examples that are charts with a watches.yaml: each does on a control plane what its README says.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use test_cluster::{Namespace, TestCluster};

use crate::process::{FREE_PORTS, Process, eventually};

/// An example and the operator that serves it in one namespace.
struct Example<'c> {
    cluster: &'c TestCluster,
    namespace: Namespace<'c>,
    folder: PathBuf,
}

impl<'c> Example<'c> {
    fn of(cluster: &'c TestCluster, name: &str) -> Example<'c> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        let example = Example { cluster, namespace: cluster.namespace(name).unwrap(), folder };
        let definitions = example.path("config/crd/bases");
        cluster.kubectl(["apply", "--server-side", "-f", &definitions]).unwrap();
        cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "-f", &definitions]).unwrap();
        example
    }

    fn path(&self, file: &str) -> String {
        self.folder.join(file).display().to_string()
    }

    fn apply(&self, file: &str) {
        self.namespace.kubectl(["apply", "-f", &self.path(file)]).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helm-operator"));
        command.args(arguments).current_dir(&self.folder).env("KUBECONFIG", self.cluster.kubeconfig_path());
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts the operator with these further arguments.
    fn serve(&self, arguments: &[&str]) -> Process {
        let all: Vec<&str> = ["run"].into_iter().chain(FREE_PORTS).chain(arguments.iter().copied()).collect();
        Process::start(self.command(&all).env("WATCH_NAMESPACE", self.namespace.name()))
    }

    fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.namespace.kubectl(["get", kind, name, "-o", "json", "--ignore-not-found"]).unwrap();
        serde_json::from_str(&found).unwrap_or_default()
    }

    /// Waits until a resource says this in a condition: its status or reason, and then its message.
    fn says(&self, operator: &Process, [kind, name, condition]: [&str; 3], wanted: &str) {
        eventually(&format!("{kind} {name}: {wanted}"), || {
            let resource = self.get(kind, name);
            let conditions = resource["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.iter().find(|one| one["type"] == condition).cloned().unwrap_or_default();
            let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
            let all = [text("status"), text("reason"), text("message")].join(" ");
            if all.contains(wanted) { Ok(()) } else { Err(format!("{conditions:?} {}", operator.log())) }
        });
    }
}

#[test]
fn a_shop_waits_for_its_database_and_the_database_for_the_end_of_the_shop() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let example = Example::of(cluster, "waiting-shop");
    let operator = example.serve(&[]);
    example.apply("shop.yaml");
    example.says(&operator, ["shop", "web", "Reconciling"], "waiting for Database \"web-db\" (does not exist)");
    assert!(example.get("deployment", "web").is_null());
    example.apply("database.yaml");
    example.says(&operator, ["shop", "web", "Ready"], "True Ready");
    example.namespace.kubectl(["delete", "-f", &example.path("database.yaml"), "--wait=false"]).unwrap();
    example.says(&operator, ["database", "web-db", "Reconciling"], "DependentsExist");
    assert!(!example.get("statefulset", "web-db").is_null());
    example.namespace.kubectl(["delete", "-f", &example.path("shop.yaml"), "--timeout=60s"]).unwrap();
    example.namespace.kubectl(["wait", "--for=delete", "database/web-db", "--timeout=60s"]).unwrap();
    operator.terminate();
}

#[test]
fn pages_change_in_steps_and_halt_at_a_bad_greeting() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let example = Example::of(cluster, "stepwise-page");
    let folder = tempfile::tempdir().unwrap();
    let greeting = |text: &str| {
        let watches = std::fs::read_to_string(example.folder.join("watches.yaml")).unwrap();
        let file = folder.path().join("watches.yaml");
        std::fs::write(&file, watches.replace("greeting: hello", &format!("greeting: {text:?}"))).unwrap();
        format!("--watches-file={}", file.display())
    };
    let pages = || ["trial", "blue", "green"].map(|name| example.get("configmap", name)["data"]["index.html"].clone());
    let operator = example.serve(&[]);
    example.apply("pages.yaml");
    for name in ["trial", "blue", "green"] {
        example.says(&operator, ["page", name, "Ready"], "True Ready");
    }
    assert_eq!(pages(), ["hello, us!", "hello, blue!", "hello, green!"]);
    operator.terminate();

    let operator = example.serve(&[&greeting("")]);
    for name in ["blue", "green"] {
        example.says(&operator, ["page", name, "Reconciling"], "RolloutHalted");
        example.says(&operator, ["page", name, "Ready"], "True Ready");
    }
    assert_eq!(pages(), ["hello, us!", "hello, blue!", "hello, green!"]);
    operator.terminate();

    let operator = example.serve(&[&greeting("good morning")]);
    eventually("the next greeting", || {
        let expected = ["good morning, us!", "good morning, blue!", "good morning, green!"];
        if pages() == expected { Ok(()) } else { Err(format!("{:?} {}", pages(), operator.log())) }
    });
    operator.terminate();
}

#[test]
fn patches_set_what_the_chart_has_no_value_for() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let example = Example::of(cluster, "patched-site");
    let chart = ["template", "web", "helm-charts/site", "--watches-file", "watches.yaml"];
    let (plain, patched) = (example.run(&chart[..3]), example.run(&chart));
    assert!(!plain.contains("limits") && patched.contains("memory: 64Mi"), "{patched}");
    assert!(patched.contains("enableServiceLinks: false"), "{patched}");
    let operator = example.serve(&[]);
    example.apply("site.yaml");
    example.says(&operator, ["site", "web", "Ready"], "True Ready");
    let pod = example.get("deployment", "web")["spec"]["template"]["spec"].clone();
    assert_eq!(pod["containers"][0]["resources"].to_string(), r#"{"limits":{"memory":"64Mi"}}"#);
    assert_eq!(pod["enableServiceLinks"], false);
    operator.terminate();
}

#[test]
fn the_order_of_a_shop_is_the_one_in_its_readme() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ordered-shop");
    let mut dag = Command::new(env!("CARGO_BIN_EXE_helm-operator"));
    let output = dag.args(["dag", "helm-charts/shop"]).current_dir(&example).output().unwrap();
    let (printed, readme) =
        (String::from_utf8(output.stdout).unwrap(), std::fs::read_to_string(example.join("README.md")));
    assert!(output.status.success() && readme.unwrap().contains(&printed), "{printed}");
}

#[test]
fn the_definitions_of_the_examples_follow_from_their_charts() {
    for name in ["ordered-shop", "patched-site", "stepwise-page", "waiting-shop"] {
        let mut generate = Command::new(env!("CARGO_BIN_EXE_helm-operator"));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        let output = generate.args(["generate", "crds", "--check"]).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
