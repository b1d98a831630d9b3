//! The reasons of readiness, on a real control plane: quota and scheduler are real; the kubelet's part is written into
//! the pods' status.

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::chart::{condition, set, wait_ready};
use crate::operator::{Operator, eventually};
use crate::reader::get;

/// Waits until `Ready` is false and its message contains every word.
pub(crate) fn told(namespace: &Namespace<'_>, name: &str, words: &[&str]) -> Value {
    eventually("the reason", || {
        let resource = get(namespace, ["memcached", name]);
        let ready = condition(&resource, "Ready");
        let message = ready["message"].as_str().unwrap_or_default();
        let all = ready["status"] == "False" && words.iter().all(|word| message.contains(word));
        if all { Ok(resource) } else { Err(resource["status"].clone()) }
    })
}

/// Gives the release's pod this state of its container, as a kubelet would.
fn patch_pod(namespace: &Namespace<'_>, release: &str, container: &Value) -> String {
    let selector = format!("app.kubernetes.io/instance={release}");
    let name = eventually("a running pod", || {
        let running = ["get", "pods", "-l", &selector, "--field-selector=status.phase=Running", "-o", "name"];
        match namespace.kubectl(running).unwrap().lines().next() {
            Some(name) => Ok(name.trim_start_matches("pod/").to_owned()),
            None => Err("no pod"),
        }
    });
    let mut status =
        json!({"name": "memcached", "image": "memcached:1", "imageID": "", "ready": false, "restartCount": 0});
    container.as_object().unwrap().iter().for_each(|(key, value)| status[key] = value.clone());
    let conditions = ["Ready", "ContainersReady"].map(|kind| json!({"type": kind, "status": "False"}));
    let patch = json!({"status": {"conditions": conditions, "containerStatuses": [status]}}).to_string();
    namespace.kubectl(["patch", "pod", &name, "--subresource=status", "--type=merge", "-p", &patch]).unwrap();
    name
}

/// Runs the program as the cluster's administrator; returns its exit code and output.
fn status(cluster: &TestCluster, arguments: &[&str]) -> (Option<i32>, String) {
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    let output = program.args(arguments).env("KUBECONFIG", cluster.kubeconfig_path()).output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (output.status.code(), text)
}

#[test]
fn the_message_of_ready_names_pod_container_and_reason() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let (namespace, full) = (cluster.namespace("why").unwrap(), cluster.namespace("why-quota").unwrap());
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    full.apply(&quota.to_string()).unwrap();
    eventually("the quota", || {
        let quota = get(&full, ["resourcequota", "none"]);
        if quota["status"]["hard"]["pods"] == "0" { Ok(()) } else { Err(quota) }
    });
    crate::operator::install_kinds(cluster);
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/helm-charts/memcached");
    let watch = json!([{"group": "cache.my.domain", "version": "v1", "kind": "Memcached", "chart": chart}]);
    let _operator = Operator::start_in(cluster, &[&namespace, &full], &watch.to_string());
    set(&full, "quota", json!({"replicaCount": 1}));
    set(&namespace, "large", json!({"replicaCount": 1, "resources": {"requests": {"cpu": "100k"}}}));
    ["image", "crash"].iter().for_each(|name| set(&namespace, name, json!({"replicaCount": 1})));
    ["image", "crash"].iter().for_each(|name| _ = wait_ready(&namespace, name));
    let unpulled = json!({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}});
    let image = patch_pod(&namespace, "image", &unpulled);
    let crashing = json!({
        "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
    });
    let crash = patch_pod(&namespace, "crash", &crashing);

    let pod = |name: &str| format!("pod {name:?}: container \"memcached\"");
    told(
        &namespace,
        "image",
        &["Deployment \"image-memcached\"", &pod(&image), "cannot pull image \"memcached:1\": ImagePullBackOff"],
    );
    let resource = told(&namespace, "crash", &[&pod(&crash), "keeps crashing: exit code 137 (OOMKilled), 4 restarts"]);
    assert_eq!(condition(&resource, "Reconciling")["status"], "True");
    told(&namespace, "large", &["Deployment \"large-memcached\"", "Unschedulable: ", "Insufficient cpu"]);
    told(&full, "quota", &["Deployment \"quota-memcached\"", "FailedCreate: ", "exceeded quota: none"]);

    // The command says so in its first line, as far as its user's rights allow.
    let first = |namespace: &Namespace<'_>, name: &str| {
        let (code, text) = status(cluster, &["status", "memcached", name, "-n", namespace.name()]);
        assert_eq!(code, Some(3), "{text}");
        assert!(text.contains("  Deployment") && text.contains("HISTORY\n  1 "), "{text}");
        text.lines().next().unwrap().to_owned()
    };
    for (namespace, name, cause) in [
        (&namespace, "image", format!("{} cannot pull image \"memcached:1\": ImagePullBackOff", pod(&image))),
        (&namespace, "crash", format!("{} keeps crashing: exit code 137 (OOMKilled), 4 restarts", pod(&crash))),
        (
            &full,
            "quota",
            "Deployment \"quota-memcached\" is not ready: FailedCreate: pods \"quota-memcached-".to_owned(),
        ),
    ] {
        let expected = format!("Memcached {}/{name} is not ready: {cause}", namespace.name());
        assert!(first(namespace, name).starts_with(&expected), "{} and not {expected}", first(namespace, name));
    }
    assert!(first(&namespace, "large").contains("Unschedulable: "));
    let (code, text) = status(cluster, &["get", "memcacheds", "-n", namespace.name()]);
    assert!(code == Some(3) && text.contains("Progressing") && text.contains("crash"), "{text}");
    let (code, text) = status(cluster, &["history", "memcached/crash", "-n", namespace.name()]);
    assert!(code == Some(0) && text.contains("installed") && text.contains("Install complete"), "{text}");
    assert!(text.contains(" ~0 -0 "), "{text}");
    let (code, text) = status(cluster, &["history", "memcached/crash", "--diff", "1", "-n", namespace.name()]);
    let (_, did) = text.split_once("\nWHAT REVISION 1 DID: +").unwrap_or_else(|| panic!("{text}"));
    assert!(code == Some(0) && did.contains(&format!("\n  + Deployment {}/crash", namespace.name())), "{text}");

    // `kubectl wait` and the printed columns agree.
    let columns = namespace.kubectl(["get", "memcached", "crash", "--no-headers", "-o", "wide"]).unwrap();
    assert!(columns.contains("False") && columns.contains("Progressing"), "{columns}");
    namespace.kubectl(["delete", "pod", &image, &crash, "--wait=false"]).unwrap();
    let wait = ["wait", "--for=condition=Ready", "--timeout=60s", "memcached/image", "memcached/crash"];
    namespace.kubectl(wait).unwrap();
    full.kubectl(["delete", "resourcequota", "none"]).unwrap();
    namespace.kubectl(["delete", "memcached", "--all", "--timeout=60s"]).unwrap();
    full.kubectl(["delete", "memcached", "--all", "--timeout=60s"]).unwrap();
}

#[test]
fn a_new_resource_is_not_current_before_the_operator_has_seen_it() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("unseen").unwrap();
    crate::operator::install_kinds(cluster);
    set(&namespace, "web", json!({}));
    assert_eq!(get(&namespace, ["memcached", "web"])["status"]["observedGeneration"], -1, "kstatus: in progress");
}
