//! Timing and reporting that only a cluster can show.

use serde_json::json;
use test_cluster::TestCluster;

use crate::chart::{condition, set, wait_ready};
use crate::operator::{Operator, eventually};
use crate::reader::get;

#[test]
fn after_its_uninstall_a_resource_kept_by_other_finalizers_says_so_and_is_left_alone() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("kept").unwrap();
    let operator = Operator::start_charts(cluster, &namespace, &[]);
    set(&namespace, "web", json!({"replicaCount": 1}));
    wait_ready(&namespace, "web");
    let add = r#"[{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/keep"}]"#;
    namespace.kubectl(["patch", "memcached", "web", "--type=json", "-p", add]).unwrap();
    namespace.kubectl(["delete", "memcached", "web", "--wait=false"]).unwrap();
    let resource = eventually("an uninstalled resource", || {
        let resource = get(&namespace, ["memcached", "web"]);
        if condition(&resource, "Ready")["reason"] == "Uninstalled" { Ok(resource) } else { Err(resource) }
    });
    assert_eq!(condition(&resource, "Ready")["status"], "False");
    assert!(
        condition(&resource, "Ready")["message"]
            .as_str()
            .unwrap()
            .ends_with("other finalizers keep the resource: example.com/keep")
    );
    assert_eq!(condition(&resource, "Deployed")["reason"], "UninstallSuccessful");
    let total = || {
        let metrics = operator.get("Serving metrics server", "/metrics");
        let of =
            |line: &&str| line.starts_with("controller_runtime_reconcile_total{controller=\"memcached-controller\"");
        let counts = metrics.lines().filter(of).filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        counts.sum::<u64>()
    };
    // What the uninstall itself causes does not count. Attempts are a twentieth of a second apart, or more.
    let (mut before, mut same) = (total(), 0);
    eventually("a second without a reconcile", || {
        let now = total();
        same = if now == before { same + 1 } else { 0 };
        before = now;
        if same >= 20 { Ok(()) } else { Err(now) }
    });
    let remove = r#"[{"op": "remove", "path": "/metadata/finalizers"}]"#;
    namespace.kubectl(["patch", "memcached", "web", "--type=json", "-p", remove]).unwrap();
    eventually("nothing left", || match get(&namespace, ["memcached", "web"]) {
        gone if gone.is_null() => Ok(()),
        left => Err(left),
    });
    assert!(total() - before <= 3, "{} reconciles for one change", total() - before);
}
