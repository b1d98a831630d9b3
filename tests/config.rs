//! Applies the manifests in `config` to a real API server.

use std::path::Path;

use test_cluster::TestCluster;

const OPERATOR: &str = "--as=system:serviceaccount:memcached-operator-system:memcached-operator-controller-manager";

/// Values with which the chart renders every object it can.
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

/// Applies `config/default`; several tests may do so at once.
pub(crate) fn deploy(cluster: &TestCluster) {
    in_repository(cluster, ["apply", "--server-side", "-k", "config/default"]).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
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
