//! Managers of two ranges of hashes on a real control plane, in this process: on an API server that filters, and on one
//! that does not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controller::Manager;
use controller::manager::{Config, Error};
use controller::testing::InProcess;
use serde_json::json;
use test_cluster::{Namespace, Options, TestCluster, eventually_within};

#[path = "../examples/greeter.rs"]
#[allow(dead_code, reason = "its main is not used here")]
mod greeter;

const LOW: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
const HIGH: &str = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";

/// How long anything may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Starts a control plane with these feature gates; returns `None` without binaries, or if another one is configured.
fn start(gates: &[&str]) -> Option<TestCluster> {
    if std::env::var_os("USE_KUBECONFIG").is_some() {
        return None;
    }
    let feature_gates = gates.iter().map(|gate| (*gate).to_owned()).collect();
    match TestCluster::start(Options { audit: true, feature_gates, ..Options::default() }) {
        Ok(cluster) => Some(cluster),
        Err(error) if error.is_no_binaries() && std::env::var_os("CI").is_none() => None,
        Err(error) => panic!("{error}"),
    }
}

/// Runs the manager of a range under an account of this name.
fn serve(cluster: &TestCluster, served: [&Namespace<'_>; 2], (account, range): (&str, &str)) -> InProcess<Error> {
    let home = served[0].name();
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": home});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    let bound = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{home}-{account}")}, "roleRef": role, "subjects": [subject],
    });
    let account_object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}});
    served[0].apply(&account_object.to_string()).unwrap();
    cluster.apply(&bound.to_string()).unwrap();
    let kubeconfig = cluster.kubeconfig_of(home, account).unwrap();
    let mut config = Config {
        metrics_bind_address: "0".into(),
        health_probe_bind_address: "0".into(),
        leader_elect: true,
        leader_election_id: "greeter".into(),
        leader_election_namespace: home.into(),
        ..Config::default()
    };
    config.controllers.namespaces = controller::context::Namespaces::parse(&served.map(Namespace::name).join(","));
    config.controllers.shard_selector = Some(range.parse().unwrap());
    let manager = Manager::new(config).reconciler(greeter::Greeter);
    InProcess::start(&kubeconfig, |client, shutdown| manager.run_until(client, shutdown)).unwrap()
}

/// Creates ten resources in each namespace; returns which process is to greet each of them, by the API server's uids.
fn create(cluster: &TestCluster, namespaces: [&Namespace<'_>; 2], of: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut owners = BTreeMap::new();
    for namespace in namespaces {
        let name = |n: usize| format!("{of}-{n}");
        let item = |n| {
            let metadata = json!({"name": name(n), "labels": {"greet": ""}});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        };
        let items: Vec<_> = (0..10).map(item).collect();
        namespace.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
        for name in (0..10).map(name) {
            let made = cluster.get(&["configmap", &name, "-n", namespace.name()]).unwrap();
            let bytes = made["metadata"]["uid"].as_str().unwrap().bytes();
            let hash = bytes
                .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            let owner = if hash < 1 << 63 { "low" } else { "high" };
            owners.insert(format!("{}/{name}-greeting", namespace.name()), [owner.to_owned()].into());
        }
    }
    owners
}

/// Returns which processes wrote each ConfigMap.
fn writers(cluster: &TestCluster, home: &Namespace<'_>) -> BTreeMap<String, BTreeSet<String>> {
    let own = format!("system:serviceaccount:{}:", home.name());
    let mut writers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for request in cluster.requests().unwrap() {
        let Some(account) = request.user.strip_prefix(&own) else { continue };
        if request.is_write() && request.resource == "configmaps" && !request.is_dry_run {
            let name = format!("{}/{}", request.namespace, request.name);
            writers.entry(name).or_default().insert(account.to_owned());
        }
    }
    writers
}

fn wait_for(cluster: &TestCluster, home: &Namespace<'_>, expected: &BTreeMap<String, BTreeSet<String>>) {
    eventually_within(LIMIT, "one writer for each", || {
        let found = writers(cluster, home);
        if found == *expected { Ok(()) } else { Err(found) }
    });
}

#[test]
fn each_resource_of_two_ranges_has_one_writer_also_after_a_restart() {
    let Some(cluster) = start(&["ShardedListAndWatch"]) else { return };
    let namespaces = ["ranges"; 2].map(|prefix| cluster.namespace(prefix).unwrap());
    let both = [&namespaces[0], &namespaces[1]];
    let low = serve(&cluster, both, ("low", LOW));
    let high = serve(&cluster, both, ("high", HIGH));
    let mut owners = create(&cluster, both, "ada");
    assert_eq!(owners.values().collect::<BTreeSet<_>>().len(), 2, "{owners:?}");
    wait_for(&cluster, both[0], &owners);
    let leases = cluster.kubectl(["get", "leases", "-n", both[0].name(), "-o", "name"]).unwrap();
    assert_eq!(leases.matches("greeter-").count(), 2, "{leases}");

    low.stop().unwrap();
    let low = serve(&cluster, both, ("low", LOW));
    owners.extend(create(&cluster, both, "bob"));
    wait_for(&cluster, both[0], &owners);
    low.stop().unwrap();
    high.stop().unwrap();
    assert_eq!(writers(&cluster, both[0]), owners);
}

#[test]
fn an_api_server_that_does_not_filter_gets_no_write() {
    let Some(cluster) = start(&[]) else { return };
    let namespaces = ["ranges"; 2].map(|prefix| cluster.namespace(prefix).unwrap());
    let both = [&namespaces[0], &namespaces[1]];
    create(&cluster, both, "ada");
    let low = serve(&cluster, both, ("low", LOW));
    // Two lists are those of greetings.
    eventually_within(LIMIT, "lists", || {
        let requests = cluster.requests().unwrap().into_iter();
        let own = requests.filter(|request| request.user.ends_with(":low") && request.resource == "configmaps");
        let lists = own.filter(|request| request.verb == "list").count();
        if lists >= 8 { Ok(()) } else { Err(lists) }
    });
    assert_eq!(writers(&cluster, both[0]), BTreeMap::new());
    low.stop().unwrap();
}
