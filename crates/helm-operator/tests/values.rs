//! Tests of `helm-operator values` as a process: on a file without a cluster, and as a person with few rights on a real
//! control plane.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use test_cluster::TestCluster;

/// Runs the command in a project's folder, without a cluster.
fn run(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_helm-operator"))
        .arg("values")
        .args(args)
        .current_dir(folder)
        .env("KUBECONFIG", "/nonexistent/config")
        .env("SHOP_TOKEN", "fr0m-env")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Writes a project that serves Tills with a chart that has a subchart.
fn project() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n"),
        ("shop/values.yaml", "image:\n  tag: '1'\nreplicas: 1\ncache:\n  size: 2\n"),
        (
            "shop/templates/a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-a}\ndata: {a: '{{ .Values.image.tag }}{{ .Values.replicas }}{{ .Values.token }}'}\n",
        ),
        ("shop/charts/cache/Chart.yaml", "apiVersion: v2\nname: cache\nversion: 1.0.0\n"),
        ("shop/charts/cache/values.yaml", "size: 1\n\nport: 80\n"),
        ("shop/charts/cache/templates/a.yaml", "# {{ .Values.size }}{{ .Values.port }}\n"),
        ("watches.yaml", WATCHES),
        ("till.yaml", TILL),
    ] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

const WATCHES: &str = "- group: values.my.domain\n  version: v1\n  kind: Till\n  chart: shop\n  overrideValues: {token: $SHOP_TOKEN}\n  \
    valuesFrom:\n  - {kind: ConfigMap, name: shared}\n  - {kind: Secret, name: $(name)-auth, optional: true}\n";

const TILL: &str =
    "apiVersion: values.my.domain/v1\nkind: Till\nmetadata: {name: web}\nspec:\n  image: {tga: '2'}\n  replicas: 3\n";

#[test]
fn a_file_shows_its_values_without_a_cluster() {
    let project = project();
    let output = run(project.path(), &["-f", "till.yaml", "-o", "yaml"]);
    let expected = "\
# Till web, chart shop 1.0.0
cache:
  global: {}  # Helm
  port: 80  # shop/charts/cache/values.yaml:3
  size: 2  # shop/values.yaml:5 (parent) < 1 (shop/charts/cache/values.yaml:1)
image:
  tag: \"1\"  # shop/values.yaml:2
  tga: \"2\"  # spec ! image.tga: no template reads it; did you mean image.tag?
replicas: 3  # spec < 1 (shop/values.yaml:3)
token: \"****\"  # overrideValues token (environment)
";
    assert_eq!((text(&output.stdout), output.status.code()), (expected.to_owned(), Some(0)));
    let notes = text(&output.stderr);
    assert!(notes.contains(r#"Note: ConfigMap "shared", key "values.yaml" is not read without a cluster"#), "{notes}");
    let changed = text(&run(project.path(), &["-f", "till.yaml", "--changed"]).stdout);
    let keys: Vec<&str> = changed.lines().skip(1).take(3).map(|line| &line[3..12]).collect();
    assert_eq!(keys, ["image.tga", "replicas ", "token    "], "{changed}");
}

#[test]
fn what_cannot_be_shown_is_an_error_in_one_line() {
    let project = project();
    fs::write(project.path().join("other.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n").unwrap();
    fs::write(project.path().join("broken.yaml"), "a: [s3cret\nb: c\n").unwrap();
    fs::write(project.path().join("two.yaml"), format!("{TILL}---\n{}", TILL.replace("web", "b"))).unwrap();
    for (args, expected) in [
        (&["-f", "none.yaml"][..], "Error: cannot read none.yaml: No such file or directory (os error 2)\n"),
        (&["-f", "other.yaml"], "Error: other.yaml has no resource that a chart of watches.yaml serves, only Pod a\n"),
        (&["-f", "broken.yaml"], "Error: broken.yaml, line 1, is not valid YAML\n"),
        (&["-f", "two.yaml"], "Error: two.yaml has several resources, Till web, Till b; name one\n"),
        (&["Til", "web"], "Error: no chart serves kind Til; did you mean Till?\n"),
        (&["web", "--kind", "Til"], "Error: no chart serves kind Til; did you mean Till?\n"),
    ] {
        let output = run(project.path(), args);
        assert_eq!((text(&output.stderr).as_str(), output.status.code()), (expected, Some(1)), "{args:?}");
    }
    let one = run(project.path(), &["b", "-f", "two.yaml", "-o", "json"]);
    assert_eq!(serde_json::from_slice::<Value>(&one.stdout).unwrap()["resource"]["name"], "b");
    let unreachable = text(&run(project.path(), &["web"]).stderr);
    assert!(unreachable.starts_with("Error: Kubernetes cluster unreachable: "), "{unreachable}");
}

#[test]
fn in_a_pod_a_broken_kubeconfig_at_home_is_an_error_and_not_the_pods_own_cluster() {
    let project = project();
    let file = project.path().join(".kube/config");
    fs::create_dir(file.parent().unwrap()).unwrap();
    fs::write(file, "token: [s3cret\nc: d: e\n").unwrap();
    for args in [&["values", "web"][..], &["run"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_helm-operator"))
            .args(args)
            .current_dir(project.path())
            .env("HOME", project.path())
            .env_remove("KUBECONFIG")
            .envs([("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "1")])
            .env("SHOP_TOKEN", "fr0m-env")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let error = text(&output.stderr);
        assert!(!output.status.success(), "{args:?}");
        assert!(error.contains("the kubeconfig ~/.kube/config cannot be used: line 2"), "{args:?}: {error}");
        assert!(!error.contains("s3cret"), "{args:?}: {error}");
    }
}

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: tills.values.my.domain}\nspec:\n  \
    group: values.my.domain\n  scope: Namespaced\n  names: {kind: Till, plural: tills, singular: till, listKind: TillList}\n  versions:\n  - name: v1\n    \
    served: true\n    storage: true\n    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n";

/// An account that may read Tills and ConfigMaps, but no Secrets.
const CALLER: &str = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: caller}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n\
    metadata: {name: caller}\nrules:\n- {apiGroups: [values.my.domain], resources: [tills], verbs: [get]}\n- {apiGroups: [''], resources: [configmaps], verbs: [get]}\n---\n\
    apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: caller}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: caller}\n\
    subjects:\n- {kind: ServiceAccount, name: caller}\n";

const SOURCES: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata:\n  values.yaml: 'image: {tag: \"7\"}'\n---\n\
    apiVersion: v1\nkind: Secret\nmetadata: {name: web-auth}\nstringData:\n  values.yaml: 'token: s3cret-word'\n";

#[test]
fn a_live_resource_shows_what_its_caller_may_read() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    cluster.apply(DEFINITION).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd/tills.values.my.domain"]).unwrap();
    let namespace = cluster.namespace("values").unwrap();
    [TILL, SOURCES, CALLER].iter().for_each(|text| drop(namespace.apply(text).unwrap()));
    let project = project();
    let values = |kubeconfig: &Path| {
        let kubeconfig = kubeconfig.display().to_string();
        run(project.path(), &["web", "-n", namespace.name(), "-o", "json", "--kubeconfig", &kubeconfig])
    };
    let of = |output: &Output, path: &str| -> Value {
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = document["values"].as_array().unwrap().iter().find(|one| one["path"] == path).cloned();
        found.unwrap_or_default()
    };
    let all = values(cluster.kubeconfig_path());
    assert_eq!(of(&all, "image.tag")["value"], "7");
    assert_eq!(of(&all, "image.tag")["origin"]["name"], "shared");
    assert_eq!(of(&all, "replicas")["origin"]["from"], "spec");
    assert_eq!(of(&all, "token")["replaced"][0]["origin"]["name"], "web-auth");
    let few = values(&cluster.kubeconfig_of(namespace.name(), "caller").unwrap());
    assert_eq!(few.status.code(), Some(0), "{}", text(&few.stderr));
    assert_eq!(of(&few, "image.tag")["value"], "7");
    assert_eq!(of(&few, "token")["replaced"], Value::Null);
    assert!(text(&few.stderr).contains(r#"Note: you may not read Secret "web-auth", key "values.yaml""#));
    for output in [&all, &few] {
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!shown.contains("s3cret") && !shown.contains("fr0m-env"), "{shown}");
    }
}
