//! Tests of a chart in a real registry: `diff` shows a version before it is served, and an event says once that it is.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::process::{FREE_PORTS, Process, eventually};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/stepwise-page");

/// A registry without encryption, with its files; killed when dropped.
struct Registry {
    process: Child,
    folder: tempfile::TempDir,
    host: String,
}

impl Drop for Registry {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn program(name: &str) -> PathBuf {
    test_cluster::home().join("bin").join(name)
}

impl Registry {
    fn start() -> Registry {
        let folder = tempfile::tempdir().unwrap();
        let host = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let config = folder.path().join("config.yaml");
        let store = folder.path().join("store");
        let text = json!({
            "version": "0.1", "log": {"level": "error"}, "storage": {"filesystem": {"rootdirectory": store}},
            "http": {"addr": host, "secret": "x"},
        });
        std::fs::write(&config, text.to_string()).unwrap();
        let mut command = Command::new(program("registry"));
        command.arg("serve").arg(config).env("OTEL_TRACES_EXPORTER", "none").stdin(Stdio::null());
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        eventually("the registry", || TcpStream::connect(&host).map(drop).map_err(|error| error.to_string()));
        Registry { process, folder, host }
    }

    fn helm(&self, arguments: &[&str]) {
        let mut command = Command::new(program("helm"));
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(name, self.folder.path().join("helm"));
        }
        let output = command.args(arguments).current_dir(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Publishes the example's chart with this greeting.
    fn push(&self, version: &str, greeting: &str) {
        let chart = self.folder.path().join("page");
        std::fs::create_dir_all(chart.join("templates")).unwrap();
        for file in ["Chart.yaml", "values.yaml", "templates/page.yaml"] {
            let text = std::fs::read_to_string(Path::new(EXAMPLE).join("helm-charts/page").join(file)).unwrap();
            let text = text.replace("greeting: hello", &format!("greeting: {greeting}"));
            std::fs::write(chart.join(file), text).unwrap();
        }
        self.helm(&["package", "page", "--version", version]);
        self.helm(&["push", &format!("page-{version}.tgz"), &format!("oci://{}/charts", self.host), "--plain-http"]);
    }

    fn command(&self, cluster: &TestCluster, namespace: &Namespace<'_>, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helm-operator"));
        command.args(arguments).current_dir(self.folder.path()).env("TMPDIR", self.folder.path());
        command.env("KUBECONFIG", cluster.kubeconfig_path()).env("WATCH_NAMESPACE", namespace.name());
        command.env("DOCKER_CONFIG", self.folder.path());
        command
    }
}

#[test]
fn a_version_in_a_registry_is_shown_before_it_is_served_and_published_when_it_is() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    if !program("registry").is_file() {
        eprintln!("skipped: make cluster builds the registry");
        return;
    }
    let (namespace, registry) = (cluster.namespace("pulled").unwrap(), Registry::start());
    let definitions = format!("{EXAMPLE}/config/crd/bases");
    cluster.kubectl(["apply", "--server-side", "-f", &definitions]).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "-f", &definitions]).unwrap();
    let watch = json!([{
        "group": "web.example.com", "version": "v1", "kind": "Page", "chart": format!("oci://{}/charts/page", registry.host),
        "pull": {"version": "^1", "interval": "10s", "plainHttp": true},
    }]);
    std::fs::write(registry.folder.path().join("watches.yaml"), watch.to_string()).unwrap();
    let diff = |more: &[&str]| {
        let arguments: Vec<&str> =
            ["diff", "Page", "--all", "-n", namespace.name()].into_iter().chain(more.iter().copied()).collect();
        let output = registry.command(cluster, &namespace, &arguments).output().unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.code(), said)
    };
    let page = || -> String {
        let map = namespace.kubectl(["get", "configmap", "one", "-o", "json", "--ignore-not-found"]).unwrap();
        let map: Value = serde_json::from_str(&map).unwrap_or_default();
        map["data"]["index.html"].as_str().unwrap_or_default().to_owned()
    };
    let serve = || {
        let mut command = registry.command(cluster, &namespace, &["run"]);
        Process::start(command.args(FREE_PORTS))
    };

    registry.push("1.0.0", "hello");
    let operator = serve();
    let one = json!({"apiVersion": "web.example.com/v1", "kind": "Page", "metadata": {"name": "one"}, "spec": {}});
    namespace.apply(&one.to_string()).unwrap();
    eventually("the first version", || if page() == "hello, world!" { Ok(()) } else { Err(operator.log()) });
    operator.terminate();

    registry.push("1.1.0", "good day");
    let (code, said) = diff(&[]);
    assert!(code == Some(1) && said.contains("+  index.html: good day, world!"), "{said}");
    let chart = |version: &str| format!("oci://{}/charts/page:{version}", registry.host);
    let (code, said) = diff(&["--chart", &chart("1.0.0")]);
    assert!(code == Some(0) && said.contains("no changes"), "{said}");
    let (code, said) = diff(&["--chart", &chart("latest")]);
    assert!(code == Some(2) && said.contains("version must be a version such as 1.2.3"), "{said}");
    assert_eq!(page(), "hello, world!", "nothing is written");

    let operator = serve();
    eventually("the second version", || if page() == "good day, world!" { Ok(()) } else { Err(operator.log()) });
    registry.push("1.2.0", "good night");
    eventually("the third version", || if page() == "good night, world!" { Ok(()) } else { Err(operator.log()) });
    let notes = eventually("the event", || {
        let reason = ["get", "events", "-A", "--field-selector", "reason=ChartUpdated", "-o", "json"];
        let all: Value = serde_json::from_str(&cluster.kubectl(reason).unwrap()).unwrap();
        let notes = all["items"].as_array().unwrap().iter().map(|event| event["message"].as_str().unwrap().to_owned());
        let notes: Vec<String> = notes.collect();
        if notes.is_empty() { Err(operator.log()) } else { Ok(notes) }
    });
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("/charts/page 1.1.0 (sha256:") && notes[0].contains(" → 1.2.0 (sha256:"), "{notes:?}");
    operator.terminate();
}
