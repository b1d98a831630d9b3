//! Webhooks of an operator in a pod: the API server reaches them through their Service, with a certificate that the
//! operator makes. The operator is `examples/teams`, deployed with its `config/default`.

use serde_json::{Value, json};
use test_cluster::{LIMIT, TestCluster, eventually, eventually_within};

use super::cluster;
use crate::own_chart::root;

const SYSTEM: &str = "teams-operator-system";
/// The Service, and both configurations.
const NAME: &str = "teams-operator-webhook";
const CERTIFICATE: [&str; 4] = ["secret", "teams-operator-webhook-certificate", "-n", SYSTEM];

/// Deploys the operator with the image that `hack/e2e-node` made.
fn deploy(cluster: &TestCluster, config: &str) {
    let manifest = cluster.kubectl(["kustomize", config]).unwrap();
    let (scaffolded, ours) = ("image: controller:latest", "image: test-node.local/teams:1");
    assert!(manifest.contains(scaffolded), "{manifest}");
    let manifest = manifest.replace(scaffolded, ours);
    cluster.kubectl_with_input(["apply", "--server-side", "-f", "-"], &manifest).unwrap();
    let kinds = ["crd/teams.platform.example.com", "crd/workspaces.platform.example.com"];
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", kinds[0], kinds[1]]).unwrap();
}

fn team(version: &str, name: &str, members: &Value) -> String {
    let api_version = format!("platform.example.com/{version}");
    let spec = json!({"members": members});
    json!({"apiVersion": api_version, "kind": "Team", "metadata": {"name": name}, "spec": spec}).to_string()
}

/// Has the API server check a team in v2 without storing it. Returns its members, or why it is refused.
fn check(cluster: &TestCluster, members: &Value) -> Result<Value, String> {
    let create = ["create", "--dry-run=server", "--output=json", "-f", "-"];
    let created = cluster.kubectl_with_input(create, &team("v2", "new", members)).map_err(|error| error.to_string())?;
    Ok(serde_json::from_str::<Value>(&created).unwrap()["spec"]["members"].clone())
}

/// Waits until the API server reaches the webhooks: one refuses, one sorts, and both see v1 of a team in v2.
fn all_answer(cluster: &TestCluster) {
    let deployment = "deployment/teams-operator-controller-manager";
    cluster.kubectl(["rollout", "status", deployment, "-n", SYSTEM, "--timeout=120s"]).unwrap();
    eventually("refusal by the webhook", || match check(cluster, &json!([])) {
        Err(why) if why.contains("spec.members: a team has at least one member") => Ok(()),
        other => Err(other),
    });
    let given = json!([{"name": "b", "role": "Owner"}, {"name": "a"}]);
    let sorted = json!([{"name": "a", "role": "Member"}, {"name": "b", "role": "Owner"}]);
    // The configurations are separate objects.
    eventually("change by the webhook", || match check(cluster, &given) {
        Ok(members) if members == sorted => Ok(()),
        other => Err(other),
    });
}

#[test]
#[ignore = "needs a node that runs containers: make e2e-node"]
fn webhooks_in_a_pod_answer_through_their_service_also_with_the_next_certificate_and_in_the_next_pod() {
    let cluster = cluster();
    let config = root().join("examples/teams/config/default");
    let config = config.to_str().unwrap();
    deploy(cluster, config);
    all_answer(cluster);
    for (object, client) in [
        (["validatingwebhookconfiguration", NAME], "/webhooks/0/clientConfig"),
        (["mutatingwebhookconfiguration", NAME], "/webhooks/0/clientConfig"),
        (["crd", "teams.platform.example.com"], "/spec/conversion/webhook/clientConfig"),
    ] {
        let found = cluster.get(&object).unwrap();
        let client = found.pointer(client).unwrap();
        assert_eq!((&client["service"]["name"], &client["url"]), (&json!(NAME), &Value::Null));
    }
    cluster.apply(&team("v1", "red", &json!(["b", "a", "b"]))).unwrap();
    let members = |version: &str| {
        let resource = format!("teams.{version}.platform.example.com");
        cluster.get(&[&*resource, "red"]).unwrap()["spec"]["members"].clone()
    };
    let converted = json!([{"name": "a", "role": "Member"}, {"name": "b", "role": "Member"}]);
    assert_eq!((members("v1"), members("v2")), (json!(["a", "b"]), converted.clone()));

    let certificate = || cluster.get(&CERTIFICATE).unwrap()["data"]["tls.crt"].clone();
    let first = certificate();
    cluster.kubectl(["annotate"].iter().chain(&CERTIFICATE).chain(&["rotate=now"])).unwrap();
    // It is served once the API server has trusted its authority for half a minute.
    let second = eventually_within(2 * LIMIT, "next certificate", || {
        check(cluster, &json!([{"name": "a"}])).unwrap();
        Some(certificate()).filter(|now| *now != first).ok_or("the same")
    });
    cluster.kubectl(["delete", "pod", "--selector=control-plane=controller-manager", "-n", SYSTEM]).unwrap();
    all_answer(cluster);
    assert_eq!((members("v2"), certificate()), (converted, second));

    cluster.kubectl(["delete", "team/red", "--timeout=60s"]).unwrap();
    cluster.kubectl(["delete", "--wait=false", "-k", config]).unwrap();
}
