//! The tutorial on a real control plane: deployed for one namespace with `config/namespaced`, run with the rights of its own ServiceAccount. On a real
//! node (`make e2e-node` in the repository's root), its application answers.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use test_cluster::{Namespace, Process, TestCluster, eventually};

const SYSTEM: &str = "reverse-words-operator-system";
const ACCOUNT: &str = "reverse-words-operator-controller-manager";
const FINALIZER: &str = "finalizer.reversewordsapp.apps.linuxera.org";

/// Deploys the operator for this namespace, whose pod is simulated, and runs it here with the environment of that pod.
fn start(cluster: &TestCluster, namespace: &Namespace<'_>) -> Process {
    let overlay = format!("{}/config/namespaced", env!("CARGO_MANIFEST_DIR"));
    let manifest = cluster.kubectl(["kustomize", &overlay]).unwrap();
    let here = namespace.name();
    let manifest = manifest.replace("namespace: default", &format!("namespace: {here}"));
    let manifest = manifest.replace("value: default", &format!("value: {here}"));
    cluster.kubectl_with_input(["apply", "--server-side", "--force-conflicts", "-f", "-"], &manifest).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
    let env = "jsonpath={.spec.template.spec.containers[0].env[?(@.name==\"WATCH_NAMESPACE\")].value}";
    let watched = cluster.kubectl(["--namespace", SYSTEM, "get", "deployment", ACCOUNT, "-o", env]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_reverse-words"));
    command.args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    command.env("KUBECONFIG", cluster.kubeconfig_of(SYSTEM, ACCOUNT).unwrap());
    command.env("WATCH_NAMESPACE", watched);
    Process::start(cluster, &mut command).unwrap()
}

fn set(namespace: &Namespace<'_>, spec: Value) {
    let app = json!({"apiVersion": "apps.linuxera.org/v1alpha1", "kind": "ReverseWordsApp",
        "metadata": {"name": "words"}, "spec": spec});
    namespace.apply(&app.to_string()).unwrap();
}

fn get(namespace: &Namespace<'_>, kind: &str, name: &str) -> Value {
    serde_json::from_str(&namespace.kubectl(["get", kind, name, "-o", "json"]).unwrap()).unwrap()
}

/// Waits until the application is ready with this many pods, all listed; returns it.
fn wait_ready(namespace: &Namespace<'_>, pods: usize) -> Value {
    eventually("ready application", || {
        let app = get(namespace, "reversewordsapp", "words");
        let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let says = |type_: &str, status: &str| conditions.iter().any(|c| c["type"] == type_ && c["status"] == status);
        let listed = app["status"]["appPods"].as_array().map(Vec::len);
        let ready = says("Ready", "True") && says("ReverseWordsDeploymentNotReady", "False");
        if ready && listed == Some(pods) { Ok(app) } else { Err(app["status"].clone()) }
    })
}

#[test]
fn an_application_follows_its_resource_in_the_watched_namespace_only() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let (namespace, other) = (cluster.namespace("words").unwrap(), cluster.namespace("unwatched").unwrap());
    let operator = start(cluster, &namespace);
    set(&other, json!({}));
    set(&namespace, json!({}));
    let app = wait_ready(&namespace, 1);
    assert_eq!(app["metadata"]["finalizers"], json!([FINALIZER]));
    let container = &get(&namespace, "deployment", "dp-words")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "quay.io/mavazque/reversewords:latest");
    let probe = json!({"httpGet": {"path": "/health", "port": 8080, "scheme": "HTTP"}, "initialDelaySeconds": 5,
        "timeoutSeconds": 2, "periodSeconds": 15, "successThreshold": 1, "failureThreshold": 3});
    assert_eq!((&container["livenessProbe"], &container["readinessProbe"]), (&probe, &probe));
    let service = &get(&namespace, "service", "service-words")["spec"];
    assert_eq!((&service["type"], &service["ports"][0]["name"]), (&json!("LoadBalancer"), &json!("http")));
    assert_eq!((&service["ports"][0]["port"], &service["selector"]), (&json!(8080), &json!({"app": "words"})));

    set(&namespace, json!({"replicas": 3, "appVersion": "v0.0.2"}));
    wait_ready(&namespace, 3);
    eventually("new version", || {
        let image =
            get(&namespace, "deployment", "dp-words")["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        if image == "quay.io/mavazque/reversewords:v0.0.2" { Ok(()) } else { Err(image) }
    });
    namespace.kubectl(["delete", "service", "service-words"]).unwrap();
    eventually("service that is made again", || namespace.kubectl(["get", "service", "service-words"]));

    namespace.kubectl(["delete", "reversewordsapp", "words", "--timeout=30s"]).unwrap();
    namespace.kubectl(["wait", "--for=delete", "deployment/dp-words", "--timeout=60s"]).unwrap();
    for said in [
        "Created Deployment dp-words with 1 pods",
        "Created Service service-words",
        "Scaled Deployment dp-words from 1 to 3 pods",
        "Successfully finalized ReverseWordsApp",
    ] {
        _ = operator.logged(said);
    }
    let untouched = get(&other, "reversewordsapp", "words");
    assert!(untouched["status"].is_null() && untouched["metadata"]["finalizers"].is_null(), "{untouched}");
    let (status, log) = operator.terminate().unwrap();
    assert!(status.success() && !log.contains("\"level\":\"error\""), "{log}");
}

/// Sends a word to the application's Service on a new connection; returns what it answers. During a rollout, a connection
/// may lead to a pod that ends, and then none of its packets reaches another pod, so it is given up after a second.
fn reverse(address: &str, word: &str) -> io::Result<Value> {
    let address: SocketAddr = format!("{address}:8080").parse().unwrap();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let body = json!({"word": word}).to_string();
    let head = format!("POST / HTTP/1.1\r\nHost: words\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    serde_json::from_str(body).map_err(|error| io::Error::other(format!("{error}: {answer}")))
}

#[test]
#[ignore = "needs a node that runs containers: make e2e-node"]
fn its_application_reverses_words_through_its_service() {
    let cluster = TestCluster::with_real_node();
    let namespace = cluster.namespace("words").unwrap();
    let _operator = start(&cluster, &namespace);
    for (replicas, version) in [(1, "v0.0.2"), (2, "v0.0.3")] {
        set(&namespace, json!({"replicas": replicas, "appVersion": version}));
        let app = wait_ready(&namespace, replicas);
        assert_eq!(app["spec"]["appVersion"], version);
        let address = get(&namespace, "service", "service-words")["spec"]["clusterIP"].as_str().unwrap().to_owned();
        let pods = || namespace.kubectl(["get", "pods,endpointslices", "--output=wide"]);
        let answer = eventually("answer of the Service", || {
            reverse(&address, "PALC").map_err(|error| format!("{address}: {error}\n{:?}", pods()))
        });
        assert_eq!(answer, json!({"reverse_word": "CLAP"}));
    }
    namespace.kubectl(["delete", "reversewordsapp", "words", "--timeout=60s"]).unwrap();
    namespace.kubectl(["wait", "--for=delete", "pods", "--all", "--timeout=60s"]).unwrap();
}
