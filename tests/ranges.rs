//! Processes that serve ranges of hashes (`--shard-selector`), on an API server that filters and on one that does not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use test_cluster::{Namespace, Options, TestCluster, eventually_within};

use crate::chart_kinds::define;
use crate::operator::Operator;
use crate::resource::Kind;
use crate::shards::{kubeconfig, list, own_cluster};
use crate::version::shared_since;

const WIDGET: Kind = Kind("Widget");

/// The ranges of the two processes.
const LOW: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
const HIGH: &str = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";

/// How long anything may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// Returns a control plane whose API server filters; `None` without binaries, if another cluster is configured, or with an
/// older API server, which exits if it does not know the feature gate.
fn filtering() -> Option<TestCluster> {
    shared_since(36, "ShardedListAndWatch is a feature gate since")?;
    let feature_gates = vec!["ShardedListAndWatch".to_owned()];
    own_cluster(Options { audit: true, feature_gates, ..Options::default() })
}

/// Starts the process of a range, with an account of this name.
fn start(cluster: &TestCluster, served: &[&Namespace<'_>], (name, range): (&str, &str), folder: &Path) -> Operator {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/widget");
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Widget", "chart": chart}]);
    let file = folder.join("watches.yaml");
    fs::write(&file, watch.to_string()).unwrap();
    let flags = [
        format!("--watches-file={}", file.display()),
        format!("--shard-selector={range}"),
        "--leader-elect".to_owned(),
        "--leader-election-id=ranges".to_owned(),
        format!("--leader-election-namespace={}", served[0].name()),
    ];
    let names: Vec<&str> = served.iter().map(|namespace| namespace.name()).collect();
    let flags = flags.each_ref().map(String::as_str);
    Operator::start_with(&kubeconfig(cluster, served[0], name), &names.join(","), &flags)
}

/// Returns the name of the process whose range contains this uid.
fn owner(uid: &Value) -> &'static str {
    let bytes = uid.as_str().unwrap().bytes();
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    if hash < 1 << 63 { "low" } else { "high" }
}

/// Returns which process is to write for each resource of this kind.
fn owners(namespace: &Namespace<'_>, kind: &str) -> BTreeMap<String, Vec<String>> {
    let of = |resource: Value| {
        let metadata = &resource["metadata"];
        (metadata["name"].as_str().unwrap().to_owned(), vec![owner(&metadata["uid"]).to_owned()])
    };
    list(namespace, kind).into_iter().map(of).collect()
}

/// Returns, for each release, which shards wrote for it, in order: `a b` if a wrote and then b.
fn writers(cluster: &TestCluster, namespace: &Namespace<'_>) -> BTreeMap<String, Vec<String>> {
    let own = format!("system:serviceaccount:{}:", namespace.name());
    let mut writers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for request in cluster.requests().unwrap() {
        let Some(shard) = request.user.strip_prefix(&own).filter(|_| request.is_write()) else { continue };
        let name = request.name.trim_start_matches("sh.helm.release.v1.").split('.').next().unwrap_or_default();
        if !name.starts_with("web-") || request.resource == "events" {
            continue;
        }
        let shards = writers.entry(name.to_owned()).or_default();
        if shards.last().is_none_or(|last| last != shard) {
            shards.push(shard.to_owned());
        }
    }
    writers
}

/// Sets the colour of ten widgets in each namespace, and waits until their ConfigMaps have it.
fn paint(namespaces: &[&Namespace<'_>], colour: &str) {
    for (at, namespace) in namespaces.iter().enumerate() {
        let names = (0..10).map(|n| format!("web-{}", at * 10 + n));
        WIDGET.set_all(namespace, names.map(|name| (name, json!({"colour": colour}))));
    }
    eventually_within(LIMIT, colour, || {
        let maps = namespaces.iter().flat_map(|namespace| list(namespace, "configmaps"));
        let painted = maps.filter(|map| map["data"]["colour"] == colour).count();
        if painted == 20 { Ok(()) } else { Err(painted) }
    });
}

/// Returns how many records of each revision there are.
fn revisions(namespaces: &[&Namespace<'_>]) -> BTreeMap<String, usize> {
    let mut revisions = BTreeMap::new();
    for secret in namespaces.iter().flat_map(|namespace| list(namespace, "secrets")) {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        if let Some((_, revision)) = name.strip_prefix("sh.helm.release.v1.").and_then(|rest| rest.split_once('.')) {
            *revisions.entry(revision.to_owned()).or_default() += 1;
        }
    }
    revisions
}

#[test]
fn two_ranges_share_releases_and_native_resources_and_each_has_one_writer() {
    let Some(cluster) = filtering() else { return };
    define(&cluster);
    cluster.deploy(concat!(env!("CARGO_MANIFEST_DIR"), "/config/crd")).unwrap();
    let (one, two) = (cluster.namespace("ranges").unwrap(), cluster.namespace("ranges").unwrap());
    let (both, folder) = ([&one, &two], tempfile::tempdir().unwrap());
    let [low, high] = [("low", LOW), ("high", HIGH)].map(|range| start(&cluster, &both, range, folder.path()));
    let backup = |n: usize| {
        json!({
            "apiVersion": "cache.my.domain/v1", "kind": "MemcachedBackup",
            "metadata": {"name": format!("web-backup-{n}")}, "spec": {"size": 1},
        })
    };
    let backups: Vec<Value> = (0..8).map(backup).collect();
    one.apply(&json!({"apiVersion": "v1", "kind": "List", "items": backups}).to_string()).unwrap();
    paint(&both, "green");
    assert_eq!(revisions(&both), [("v1".to_owned(), 20)].into());
    eventually_within(LIMIT, "the Deployments of the native resources", || {
        let made = list(&one, "deployments").len();
        if made == 8 { Ok(()) } else { Err(made) }
    });

    let expected = || {
        let kinds = [(&one, "widgets"), (&two, "widgets"), (&one, "memcachedbackups")];
        kinds.into_iter().flat_map(|(namespace, kind)| owners(namespace, kind)).collect::<BTreeMap<_, _>>()
    };
    let owners = expected();
    assert_eq!(owners.len(), 28);
    // The audit log shows a write a moment after its effect.
    eventually_within(LIMIT, "one writer each", || match writers(&cluster, &one) {
        found if found == owners => Ok(()),
        found => Err(found),
    });
    for name in ["low", "high"] {
        assert!(owners.values().any(|owner| owner == &[name]), "{owners:?}");
    }
    let leases = list(&one, "leases");
    let leases = leases.iter().filter(|lease| lease["metadata"]["name"].as_str().unwrap().starts_with("ranges-"));
    assert_eq!(leases.count(), 2);

    // A restart creates no revision, so each release has two after the next change.
    assert!(low.terminate().0.success());
    let low = start(&cluster, &both, ("low", LOW), folder.path());
    paint(&both, "blue");
    assert_eq!(revisions(&both), [("v1".to_owned(), 20), ("v2".to_owned(), 20)].into());
    for namespace in both {
        namespace.kubectl(["delete", "widgets", "--all", "--timeout=300s"]).unwrap();
        let maps = list(namespace, "configmaps");
        assert!(!maps.iter().any(|map| map["data"]["colour"] == "blue"), "{maps:?}");
    }
    assert_eq!(revisions(&both), BTreeMap::new());
    assert_eq!(writers(&cluster, &one), owners, "one writer each, to the end");
    for (operator, name) in [(low, "low"), (high, "high")] {
        let log = operator.log();
        assert!(!log.contains("outside --shard-selector"), "{name}: {log}");
    }
}

#[test]
fn an_api_server_that_does_not_filter_is_reported_and_nothing_is_written() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    if std::env::var_os("USE_KUBECONFIG").is_some() {
        return;
    }
    define(cluster);
    let (namespace, folder) = (cluster.namespace("ranges").unwrap(), tempfile::tempdir().unwrap());
    // At least one in each range.
    for name in (0..).map(|n| format!("web-{n}")) {
        WIDGET.set(&namespace, &name, &json!({"colour": "green"}));
        let owners = owners(&namespace, "widgets");
        if ["low", "high"].into_iter().all(|name| owners.values().any(|owner| owner == &[name])) {
            break;
        }
    }
    let operator = start(cluster, &[&namespace], ("low", LOW), folder.path());
    let line = operator.logged("the API server sends resources outside --shard-selector");
    assert!(line.contains("enable its feature gate ShardedListAndWatch"), "{line}");
    let user = format!("system:serviceaccount:{}:low", namespace.name());
    eventually_within(LIMIT, "another list", || {
        let requests = cluster.requests().unwrap();
        let lists = requests.iter().filter(|r| r.user == user && r.verb == "list" && r.resource == "widgets").count();
        if lists >= 3 { Ok(()) } else { Err(lists) }
    });
    let ready = operator.get("Serving health probes", "/readyz");
    assert!(!ready.contains("200 OK"), "{ready}");
    assert_eq!(writers(cluster, &namespace), BTreeMap::new());
    let widgets = list(&namespace, "widgets");
    assert!(widgets.iter().all(|widget| widget["metadata"]["finalizers"].is_null()), "{widgets:?}");
}
