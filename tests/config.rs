//! Applies the manifests in `config` to a real API server.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::account::copy;
use crate::operator::wait_for_kinds;

const OPERATOR: &str = "--as=system:serviceaccount:memcached-operator-system:memcached-operator-controller-manager";

/// Values with which the chart renders all of its objects.
const EVERY_OPTION: &str = "ingress.enabled=true,autoscaling.enabled=true";

#[test]
fn the_api_server_takes_everything_that_make_deploy_applies() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    deploy(cluster);
    let rollout = [
        "-n",
        "memcached-operator-system",
        "rollout",
        "status",
        "deployment/memcached-operator-controller-manager",
        "--timeout=60s",
    ];
    cluster.kubectl(rollout).unwrap();
}

#[test]
fn both_samples_are_valid_one_by_one_and_as_a_folder() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    deploy(cluster);
    for source in [["-f", "config/samples"], ["-k", "config/samples"]] {
        let said = in_repository(cluster, ["apply", "--dry-run=server"].into_iter().chain(source)).unwrap();
        assert_eq!(said.lines().count(), 2, "{said}");
    }
}

#[test]
fn a_negative_or_missing_size_is_rejected() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    deploy(cluster);
    for (spec, complaint) in [("{size: -1}", "greater than or equal to 0"), ("{}", "spec.size: Required value")] {
        let manifest = format!(
            "{{apiVersion: cache.my.domain/v1, kind: MemcachedBackup, metadata: {{name: wrong}}, spec: {spec}}}"
        );
        let error = cluster.apply(&manifest).unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
    }
}

#[test]
fn the_operators_permissions_cover_every_object_of_the_chart_and_nothing_more() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    deploy(cluster);
    if !cluster.bin("helm").is_absolute() {
        eprintln!("skipped: no helm to render the chart with");
        return;
    }
    let namespace = cluster.namespace("rights").unwrap();
    let helm = ["template", "rights", "helm-charts/memcached", "--skip-tests", "--set", EVERY_OPTION];
    let rendered = cluster.command("helm").args(helm).current_dir(repository()).output().unwrap();
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let manifest = String::from_utf8(rendered.stdout).unwrap();

    let apply =
        ["-n", namespace.name(), OPERATOR, "apply", "--server-side", "--field-manager=helm-operator", "-f", "-"];
    let said = cluster.kubectl_with_input(apply, &manifest).unwrap();
    assert_eq!(said.lines().count(), 5, "{said}");
    for (verb, resource) in [("delete", "nodes"), ("create", "pods"), ("create", "clusterroles"), ("get", "configmaps")]
    {
        assert!(!may(cluster, verb, resource), "the operator may {verb} {resource}");
    }
}

fn may(cluster: &TestCluster, verb: &str, resource: &str) -> bool {
    cluster.kubectl(["auth", "can-i", verb, resource, "--all-namespaces", OPERATOR]).is_ok()
}

#[test]
fn the_pods_of_every_project_run_under_the_restricted_level() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("restricted").unwrap();
    let level = "pod-security.kubernetes.io/enforce=restricted";
    cluster.kubectl(["label", "namespace", namespace.name(), level]).unwrap();
    let refused = create_pod(cluster, &namespace, &json!({"containers": [{"name": "a", "image": "a"}]})).unwrap_err();
    assert!(refused.contains("violates PodSecurity \"restricted"), "{refused}");
    let mut projects = vec![".".to_owned(), "crates/scaffold/templates/project".to_owned()];
    let examples = fs::read_dir(repository().join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let examples = examples.filter(|folder| folder.join("config/manager").is_dir());
    projects.extend(examples.map(|folder| folder.display().to_string()));
    assert!(projects.len() > 4, "{projects:?}");
    for project in projects {
        let text = fs::read_to_string(repository().join(&project).join("config/manager/manager.yaml")).unwrap();
        let deployment = text.split("---\n").find(|document| document.contains("kind: Deployment")).unwrap();
        let deployment: Value = serde_yaml::from_str(deployment).unwrap();
        let mut spec = deployment["spec"]["template"]["spec"].clone();
        spec["serviceAccountName"] = "default".into();
        create_pod(cluster, &namespace, &spec).unwrap_or_else(|refused| panic!("{project}: {refused}"));
    }
}

#[test]
fn one_line_of_the_kustomization_serves_the_page_behind_a_service() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    for project in [".", "crates/scaffold/templates/project"] {
        let folder = tempfile::tempdir().unwrap();
        copy(&repository().join(project).join("config"), folder.path());
        let file = folder.path().join("default/kustomization.yaml");
        let with_page = fs::read_to_string(&file).unwrap().replace("# components:\n# - ", "components:\n- ");
        fs::write(&file, with_page.replace("__project__", "shop")).unwrap();
        let path = folder.path().join("default").display().to_string();
        let texts = cluster.kubectl(["kustomize", &path]).unwrap();
        let objects: Vec<Value> = texts.split("\n---\n").map(|text| serde_yaml::from_str(text).unwrap()).collect();
        let find = |kind: &str, part: &str| -> &Value {
            let is_it = |one: &&Value| one["kind"] == kind && one["metadata"]["name"].as_str().unwrap().contains(part);
            objects.iter().find(is_it).unwrap_or_else(|| panic!("{project}: no {kind} {part}: {texts}"))
        };
        let pod = &find("Deployment", "controller-manager")["spec"]["template"];
        let container = &pod["spec"]["containers"][0];
        assert!(container["args"].as_array().unwrap().contains(&json!("--web-bind-address=:8443")), "{project}");
        let port = json!({"name": "web", "containerPort": 8443, "protocol": "TCP"});
        assert!(container["ports"].as_array().unwrap().contains(&port), "{project}");
        let service = find("Service", "web-service");
        assert_eq!(service["spec"]["ports"][0]["targetPort"], "web", "{project}");
        for (label, value) in service["spec"]["selector"].as_object().unwrap() {
            assert!(pod["metadata"]["labels"][label] == *value || value == "__project__", "{project}: {label}");
        }
        let binding = find("ClusterRoleBinding", "web-reviewer");
        assert_eq!(binding["roleRef"]["name"], "system:auth-delegator", "{project}");
        assert_eq!(binding["subjects"][0], find("ClusterRoleBinding", "manager")["subjects"][0], "{project}");
    }
}

fn create_pod(cluster: &TestCluster, namespace: &Namespace<'_>, spec: &Value) -> Result<(), String> {
    let metadata = json!({"name": "a", "namespace": namespace.name()});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    let arguments = ["create", "--dry-run=server", "-f", "-"];
    cluster.kubectl_with_input(arguments, &pod.to_string()).map(|_| ()).map_err(|error| error.to_string())
}

/// Applies `config/default`; several tests may do so at once.
pub(crate) fn deploy(cluster: &TestCluster) {
    in_repository(cluster, ["apply", "--server-side", "-k", "config/default"]).unwrap();
    wait_for_kinds(cluster);
}

fn in_repository<'a>(
    cluster: &TestCluster,
    arguments: impl IntoIterator<Item = &'a str>,
) -> Result<String, test_cluster::Error> {
    let root = repository().to_str().unwrap();
    let arguments = arguments
        .into_iter()
        .map(|word| if word.starts_with("config/") { format!("{root}/{word}") } else { word.to_owned() });
    cluster.kubectl(arguments)
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
