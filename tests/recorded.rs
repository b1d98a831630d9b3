//! Records the state that the operator leaves in a cluster, as test input for later versions. See
//! `fixtures/recorded/README.md`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::chart::wait_ready;
use crate::operator::{Operator, install_kinds};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recorded");

#[test]
#[ignore = "records a fixture: RECORD_STATE=<version>"]
fn what_the_operator_leaves_is_recorded() {
    let version = std::env::var("RECORD_STATE").expect("RECORD_STATE names the version, as 0.1.0");
    let cluster = TestCluster::shared().unwrap();
    install_kinds(cluster);
    let namespace = cluster.namespace("recorded").unwrap();
    let chart = Path::new(FOLDER).join("chart");
    let watch = json!([{"group": "cache.my.domain", "version": "v1", "kind": "Memcached", "chart": chart,
        "overrideValues": {"image": "memcached:1.6.40"}}]);
    let operator = Operator::start_watches(cluster, &namespace, &watch.to_string(), &[]);
    let spec = json!({"replicaCount": 1, "tuning": {"ratio": 0.5, "threads": 4, "extra": null}});
    let resource =
        json!({"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "metadata": {"name": "web"}, "spec": spec});
    namespace.apply(&resource.to_string()).unwrap();
    wait_ready(&namespace, "web");
    operator.terminate();
    let folder = Path::new(FOLDER).join(version);
    fs::create_dir_all(&folder).unwrap();
    let chart = "helm.sdk.operatorframework.io/chart=unguarded";
    keep(&folder.join("resource.json"), &namespace, "memcached", "");
    keep(&folder.join("records.json"), &namespace, "secret", "owner=helm");
    keep(&folder.join("objects.json"), &namespace, "secret,configmap,deployment", chart);
}

fn keep(file: &Path, namespace: &Namespace<'_>, kinds: &str, selector: &str) {
    let list = namespace.kubectl(["get", kinds, "-l", selector, "-o", "json", "--show-managed-fields"]).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    fs::write(file, format!("{:#}\n", list["items"])).unwrap();
}
