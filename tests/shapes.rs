//! Small projects in the forms that operators in the wild have: each is taken over, linted without an error, served and
//! edited.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use test_cluster::TestCluster;

use crate::operator::{Operator, eventually};
use crate::reader::get;

const PROGRAM: &str = env!("CARGO_BIN_EXE_memcached-operator");

/// The files of all projects, unless their form replaces them. KIND and PLURAL stand for the form's own.
const BASE: &[(&str, &str)] = &[
    ("PROJECT", "domain: shapes.dev\nlayout:\n- helm.sdk.operatorframework.io/v1\nprojectName: p\nversion: \"3\"\n"),
    ("watches.yaml", "- group: shapes.dev\n  version: v1\n  kind: KIND\n  chart: helm-charts/web\n"),
    (
        "Dockerfile",
        "FROM quay.io/operator-framework/helm-operator:v1.42.3\nENV HOME=/opt/helm\nCOPY watches.yaml ${HOME}/watches.yaml\nCOPY helm-charts ${HOME}/helm-charts\n",
    ),
    ("helm-charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
    ("helm-charts/web/values.yaml", "size: 1\n"),
    ("helm-charts/web/templates/map.yaml", MAP),
    ("config/crd/bases/kind.yaml", CRD),
    ("config/crd/kustomization.yaml", "resources:\n- bases/kind.yaml\n"),
    ("config/default/kustomization.yaml", "resources:\n- ../crd\n- ../rbac\n- ../manager\n"),
    ("config/manager/kustomization.yaml", "resources:\n- manager.yaml\n"),
    ("config/manager/manager.yaml", MANAGER),
    ("config/rbac/kustomization.yaml", "resources:\n- role.yaml\n"),
    ("config/rbac/role.yaml", ROLES),
    ("config/samples/kind.yaml", "apiVersion: shapes.dev/v1\nkind: KIND\nmetadata: {name: web}\nspec: {size: 1}\n"),
];

const MAP: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {size: '{{ .Values.size }}'}
";

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.shapes.dev}
spec:
  group: shapes.dev
  scope: Namespaced
  names: {kind: KIND, plural: PLURAL}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        description:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

const MANAGER: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager, namespace: system}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers: [{name: manager, image: controller}]
";

/// The account is that of pods that name none; the rules cover whole groups.
const ROLES: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager-role}
rules:
- {apiGroups: ['', apps, rbac.authorization.k8s.io], resources: ['*'], verbs: ['*']}
- {apiGroups: [shapes.dev], resources: ['*', '*/status', '*/finalizers'], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager-role}
subjects:
- {kind: ServiceAccount, name: default, namespace: system}
";

/// A form: the files that it replaces or adds.
struct Shape {
    kind: &'static str,
    plural: &'static str,
    files: &'static [(&'static str, &'static str)],
    without: &'static [&'static str],
}

const SHAPES: &[Shape] = &[
    Shape {
        kind: "Postgres",
        plural: "postgres",
        files: &[
            (
                "PROJECT",
                "domain: shapes.dev\nlayout: helm.sdk.operatorframework.io/v1\nprojectName: p\nversion: \"3\"\n",
            ),
            ("config/default/kustomization.yaml", "bases:\n- ../crd\n- ../rbac\n- ../manager\n"),
        ],
        without: &[],
    },
    Shape {
        kind: "Imaged",
        plural: "imageds",
        files: &[
            ("watches.yaml", "- group: shapes.dev\n  version: v1\n  kind: KIND\n  chart: /opt/helm/helm-charts/web\n"),
            ("deploy/crds/kind_crd.yaml", CRD),
            ("deploy/role.yaml", ROLES),
            ("deploy/operator.yaml", MANAGER),
            (
                "build/Dockerfile",
                "FROM quay.io/operator-framework/helm-operator:v0.13\nCOPY helm-charts/ ${HOME}/helm-charts/\nCOPY watches.yaml ${HOME}/watches.yaml\n",
            ),
        ],
        without: &["PROJECT", "config", "Dockerfile"],
    },
    Shape {
        kind: "Schemed",
        plural: "schemeds",
        files: &[
            ("helm-charts/web/v1/definitions.json", "{\"definitions\": {\"size\": {\"type\": \"integer\"}}}"),
            (
                "helm-charts/web/values.schema.json",
                "{\"properties\": {\"size\": {\"$ref\": \"file://./helm-charts/web/v1/definitions.json#/definitions/size\"}}}",
            ),
        ],
        without: &[],
    },
    Shape {
        kind: "Looker",
        plural: "lookers",
        files: &[
            (
                "helm-charts/web/templates/map.yaml",
                "{{ $found := lookup \"v1\" \"ConfigMap\" .Values.where \"none\" }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata: {size: '{{ .Values.size }}', found: '{{ len $found }}'}\n",
            ),
            ("helm-charts/web/values.yaml", "size: 1\nwhere: elsewhere\n"),
        ],
        without: &[],
    },
    Shape {
        kind: "Overridden",
        plural: "overriddens",
        files: &[
            (
                "watches.yaml",
                "- group: shapes.dev\n  version: v1\n  kind: KIND\n  chart: helm-charts/web\n  overrideValues:\n    flag: false\n",
            ),
            ("helm-charts/web/values.yaml", "size: 1\nflag: true\n"),
            // A non-empty string counts as true.
            (
                "helm-charts/web/templates/map.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata: {size: '{{ .Values.size }}', found: '{{ if .Values.flag }}0{{ end }}'}\n",
            ),
        ],
        without: &[],
    },
];

impl Shape {
    fn write(&self, folder: &Path) {
        let is_left_out = |path: &str| self.without.iter().any(|part| path.split('/').next() == Some(part));
        let base = BASE.iter().filter(|(path, _)| !is_left_out(path));
        for (path, text) in base.chain(self.files) {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.replace("KIND", self.kind).replace("PLURAL", self.plural)).unwrap();
        }
    }

    /// Takes the project over, adds the keys that lint requests, and returns watches.yaml with absolute chart paths.
    fn take_over(&self, folder: &Path) -> String {
        let (fails, said) = run(folder, &["init", "--from-operator-sdk", "."]);
        assert!(!fails, "{}: {said}", self.kind);
        let (fails, said) = run(folder, &["lint"]);
        assert!(!fails && !said.contains("error:"), "{}: {said}", self.kind);
        let text = fs::read_to_string(folder.join("watches.yaml")).unwrap();
        let text = match said.split("add '").nth(1).and_then(|rest| rest.split_once("' to the entry")) {
            Some((key, _)) => text.replace("  chart:", &format!("  {key}\n  chart:")),
            None => text,
        };
        text.replace("/opt/helm/", "")
            .replace("chart: helm-charts", &format!("chart: {}/helm-charts", folder.display()))
    }

    fn sized(&self, size: u32) -> String {
        let metadata = json!({"name": self.plural});
        json!({"apiVersion": "shapes.dev/v1", "kind": self.kind, "metadata": metadata, "spec": {"size": size}})
            .to_string()
    }
}

/// Runs a command of the program; returns whether it fails, and its output.
fn run(folder: &Path, words: &[&str]) -> (bool, String) {
    let output = Command::new(PROGRAM).args(words).current_dir(folder).output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (!output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn projects_of_each_shape_are_taken_over_linted_served_and_edited() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("shapes").unwrap();
    let root = tempfile::tempdir().unwrap();
    let mut watches = String::new();
    for shape in SHAPES {
        let folder = root.path().join(shape.kind);
        shape.write(&folder);
        let definition = ["config/crd/bases/kind.yaml", "deploy/crds/kind_crd.yaml"].map(|path| folder.join(path));
        let definition = definition.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap();
        watches += &shape.take_over(&folder);
        cluster.apply(&definition).unwrap();
    }
    let definitions = SHAPES.iter().map(|shape| format!("crd/{}.shapes.dev", shape.plural));
    let wait = ["wait", "--for=condition=Established", "--timeout=30s"].map(str::to_owned);
    cluster.kubectl(wait.into_iter().chain(definitions)).unwrap();
    let watches: Vec<Value> = serde_yaml::from_str(&watches).unwrap();
    let operator = Operator::start_in(cluster, &[&namespace], &json!(watches).to_string());
    for size in [1, 2] {
        for shape in SHAPES {
            namespace.apply(&shape.sized(size)).unwrap();
        }
        let expected = size.to_string();
        for shape in SHAPES {
            eventually(shape.kind, || match get(&namespace, ["configmap", shape.plural]) {
                map if map["data"]["size"] == expected.as_str() && map["data"]["found"] != "" => Ok(()),
                map => Err((map, get(&namespace, [shape.kind, shape.plural])["status"].clone(), operator.log())),
            });
        }
    }
    for shape in SHAPES {
        namespace.kubectl(["delete", shape.kind, shape.plural, "--timeout=30s"]).unwrap();
        assert_eq!(get(&namespace, ["configmap", shape.plural]), Value::Null, "{}", shape.kind);
    }
    assert!(!operator.log().contains("\"level\":\"error\""), "{}", operator.log());
}
