//! Tests of the project's OLM bundle: the account that OLM creates from its permissions can run the operator with its
//! arguments.

use std::fs;

use serde_json::{Value, json};

use crate::project::{Project, SAMPLE, arguments};

const ACCOUNT: &str = "from-the-bundle";

#[test]
fn the_bundles_arguments_and_permissions_suffice() {
    let Some(project) = Project::deployed() else { return };
    let namespace = project.cluster.namespace("olm").unwrap();
    let file = project.path().join("bundle/manifests/memcached-operator.clusterserviceversion.yaml");
    let version: Value = serde_yaml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let install = &version["spec"]["install"]["spec"];
    for object in account(namespace.name(), install) {
        namespace.apply(&object.to_string()).unwrap();
    }
    let (kubeconfig, _) = project.account(namespace.name(), ACCOUNT);
    let args = arguments(&install["deployments"][0]["spec"]["template"]);
    assert!(args.iter().any(|arg| arg == "--metrics-require-rbac"), "{args:?}");
    let operator = project.start(&args, namespace.name(), &kubeconfig);
    operator.logged("Successfully acquired lease");
    namespace.apply(&project.sample(1)).unwrap();
    operator.logged("Installed release");
    assert_eq!(operator.get("Serving metrics server", "/metrics", None).0, http::StatusCode::UNAUTHORIZED);
    namespace.kubectl(["delete", "memcached", SAMPLE, "--timeout=60s"]).unwrap();
    operator.logged("Uninstalled release");
    // An operator that ends publishes the queued events.
    let log = operator.terminate();
    assert_eq!(project.refused(namespace.name(), ACCOUNT), ["create events"], "{log}");
}

/// Creates what OLM does: an account with the bundle's permissions, for the cluster and for its namespace.
fn account(namespace: &str, install: &Value) -> [Value; 5] {
    let object = |kind: &str| json!({"metadata": {"name": ACCOUNT}, "kind": kind});
    let rbac = |kind: &str, fields: Value| {
        let mut object = object(kind);
        object["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        object
    };
    let binding = |role: &str| {
        let subject = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace});
        json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": ACCOUNT}, "subjects": [subject]})
    };
    let mut service_account = object("ServiceAccount");
    service_account["apiVersion"] = "v1".into();
    [
        service_account,
        rbac("ClusterRole", json!({"rules": install["clusterPermissions"][0]["rules"]})),
        rbac("ClusterRoleBinding", binding("ClusterRole")),
        rbac("Role", json!({"rules": install["permissions"][0]["rules"]})),
        rbac("RoleBinding", binding("Role")),
    ]
}
