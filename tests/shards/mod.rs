//! Shards of a ring on a real control plane, with the real sharder of kubernetes-controller-sharding.

mod edits;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};
use test_cluster::{Namespace, Options, Process, TestCluster, eventually_within};

use crate::chart_kinds::define;
use crate::operator::Operator;
use crate::resource::Kind;
use edits::Edits;

const WIDGET: Kind = Kind("Widget");

/// The port of the sharder's webhook, which it does not let anyone choose.
const WEBHOOK: &str = "https://127.0.0.1:9443";

/// How long a change of shards may take: a silent shard's lease is taken after 30 s, and the processes share two cores.
const LIMIT: Duration = Duration::from_secs(600);

/// How many clients create and change the resources.
const CLIENTS: usize = 4;

/// Why a bench fails where a test is skipped.
const NO_FIGURES: &str = "there are no figures without the sharder and a control plane that the bench starts";

/// Returns a control plane of the test's own; `None` without binaries, or if another cluster is configured.
pub(crate) fn own_cluster(options: Options) -> Option<TestCluster> {
    if std::env::var_os("USE_KUBECONFIG").is_some() {
        return None;
    }
    match TestCluster::start(options) {
        Ok(cluster) => Some(cluster),
        Err(error) if error.is_no_binaries() && std::env::var_os("CI").is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the sharder, built once. Prints a message and returns `None` if it cannot be built and `CI` is not set.
fn sharder(cluster: &TestCluster) -> Option<PathBuf> {
    let runs = |path: &Path| {
        let mut version = Command::new(path);
        version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    };
    let known = cluster.bin("sharder");
    if runs(&known) {
        return Some(known);
    }
    let build = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/test-cluster/tools/build");
    let built = Command::new(build).arg("--sharder").status();
    let known = cluster.bin("sharder");
    if built.is_ok_and(|status| status.success()) && runs(&known) {
        return Some(known);
    }
    assert!(std::env::var_os("CI").is_none(), "the sharder cannot be built here");
    eprintln!("skipped: the sharder cannot be built here");
    None
}

/// Returns a control plane whose audit log has the writes of shards, and the sharder; `None` if either is missing.
fn audited() -> Option<(TestCluster, PathBuf)> {
    let options = Options { audit: true, audit_policy: Some(turns::POLICY.to_owned()), ..Options::default() };
    let cluster = own_cluster(options)?;
    let binary = sharder(&cluster)?;
    Some((cluster, binary))
}

/// Starts the sharder for resources of this namespace.
fn start_sharder(cluster: &TestCluster, binary: &Path, namespace: &Namespace<'_>, folder: &Path) -> Process {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
    fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let authority = base64::engine::general_purpose::STANDARD.encode(made.cert.pem());
    let config = json!({
        "apiVersion": "config.sharding.timebertt.dev/v1alpha1", "kind": "SharderConfig",
        "health": {"bindAddress": "0"}, "metrics": {"bindAddress": "0"},
        "webhook": {
            "server": {"certDir": folder},
            "config": {
                "clientConfig": {"url": WEBHOOK, "caBundle": authority},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
            },
        },
    });
    let file = folder.join("config.yaml");
    fs::write(&file, config.to_string()).unwrap();
    let mut command = Command::new(binary);
    command.arg("--config").arg(file).env("KUBECONFIG", cluster.kubeconfig_path()).env("LEADER_ELECT", "false");
    Process::start(cluster, &mut command).unwrap()
}

/// Defines Widgets, and creates a ring of them, which has the namespace's name, once the rings of other tests are
/// deleted. A sharder answers for all rings, and denies resources for a while if one of these was just deleted.
fn create_ring(cluster: &TestCluster, namespace: &Namespace<'_>) -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    define(cluster);
    cluster.apply(include_str!("../fixtures/crds/controllerring.yaml")).unwrap();
    let crd = "crd/controllerrings.sharding.timebertt.dev";
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", crd]).unwrap();
    let ring = json!({
        "apiVersion": "sharding.timebertt.dev/v1alpha1", "kind": "ControllerRing",
        "metadata": {"name": namespace.name()},
        "spec": {"resources": [{"group": "test.my.domain", "resource": "widgets"}]},
    });
    cluster.apply(&ring.to_string()).unwrap();
    turn
}

/// Returns a kubeconfig with a separate account for each shard, so that the audit log says which shard wrote.
pub(crate) fn kubeconfig(cluster: &TestCluster, namespace: &Namespace<'_>, shard: &str) -> PathBuf {
    let name = format!("{}-{shard}", namespace.name());
    let subject = json!({"kind": "ServiceAccount", "name": shard, "namespace": namespace.name()});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    let bound = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name}, "roleRef": role, "subjects": [subject],
    });
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": shard}});
    namespace.apply(&account.to_string()).unwrap();
    cluster.apply(&bound.to_string()).unwrap();
    cluster.kubeconfig_of(namespace.name(), shard).unwrap()
}

fn start(cluster: &TestCluster, namespace: &Namespace<'_>, shard: &str, chart: &str) -> Operator {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/charts").join(chart);
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Widget", "chart": chart}]);
    let operator = Operator::start_shard(&kubeconfig(cluster, namespace, shard), namespace, &watch.to_string(), shard);
    operator.logged("Successfully acquired lease");
    operator
}

pub(crate) fn list(namespace: &Namespace<'_>, kind: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(&namespace.kubectl(["get", kind, "-o", "json"]).unwrap()).unwrap();
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Returns how many widgets each shard has; those without a shard, or that are drained, count as `-`.
fn shares(namespace: &Namespace<'_>) -> BTreeMap<String, usize> {
    let (shard, drain) =
        ["shard", "drain"].map(|label| format!("{label}.alpha.sharding.timebertt.dev/{}", namespace.name())).into();
    let mut shares = BTreeMap::new();
    for widget in list(namespace, "widgets") {
        let labels = &widget["metadata"]["labels"];
        let of = labels[&shard].as_str().filter(|_| labels[&drain].is_null()).unwrap_or("-");
        *shares.entry(of.to_owned()).or_default() += 1;
    }
    shares
}

/// Waits until the widgets are assigned to these shards, some to each; returns the seconds that it took. Only
/// [`Edits::serve`] measures when they are served.
fn wait_shared(namespace: &Namespace<'_>, shards: &[&str]) -> u64 {
    let (began, wanted) = (Instant::now(), shards.iter().map(|shard| (*shard).to_owned()).collect::<BTreeSet<_>>());
    eventually_within(LIMIT, "the shares", || {
        let shares = shares(namespace);
        if shares.keys().cloned().collect::<BTreeSet<_>>() == wanted { Ok(()) } else { Err(shares) }
    });
    began.elapsed().as_secs()
}

/// Changes all widgets, and waits until their releases have this colour; returns the seconds that it took.
fn paint(namespace: &Namespace<'_>, releases: usize, colour: &str) -> u64 {
    let began = Instant::now();
    // kubectl applies one after another, so several of it share the work.
    thread::scope(|scope| {
        for first in 0..CLIENTS {
            let part = (first..releases).step_by(CLIENTS);
            let part = part.map(|n| (format!("web-{n}"), json!({"colour": colour})));
            scope.spawn(move || WIDGET.set_all(namespace, part));
        }
    });
    wait_painted(namespace, releases, colour);
    began.elapsed().as_secs()
}

fn wait_painted(namespace: &Namespace<'_>, releases: usize, colour: &str) {
    eventually_within(LIMIT, colour, || {
        let maps = list(namespace, "configmaps");
        let painted = maps.iter().filter(|map| map["data"]["colour"] == colour).count();
        if painted == releases { Ok(()) } else { Err(painted) }
    });
}

/// Returns the identities of the objects of this kind that belong to releases. Those of records say what was ever
/// installed.
fn identities(namespace: &Namespace<'_>, kind: &str) -> BTreeSet<String> {
    let of_releases = list(namespace, kind).into_iter().filter(|object| object.to_string().contains("web-"));
    of_releases.map(|object| format!("{} {}", object["metadata"]["name"], object["metadata"]["uid"])).collect()
}

/// Shares releases among shards while one is killed, one is added and one ends, and while edits go on; prints what it
/// took.
#[allow(clippy::print_stdout)] // The figures, with --nocapture.
fn share(cluster: &TestCluster, binary: &Path, releases: usize) {
    let namespace = cluster.namespace("shards").unwrap();
    let _turn = create_ring(cluster, &namespace);
    let folder = tempfile::tempdir().unwrap();
    let sharder = start_sharder(cluster, binary, &namespace, folder.path());
    let [a, b, c] = ["a", "b", "c"].map(|shard| start(cluster, &namespace, shard, "widget"));
    let installed = paint(&namespace, releases, "green");
    wait_shared(&namespace, &["a", "b", "c"]);
    let memory = [&a, &b, &c].map(|shard| shard.memory().unwrap_or_default() >> 10);
    let (before, records) = (identities(&namespace, "configmaps"), identities(&namespace, "secrets"));
    let firsts = records.iter().filter(|one| one.contains(".v1\"")).count();
    assert_eq!((firsts, records.iter().filter(|one| one.contains("helm.release")).count()), (releases, releases));

    let edits = Edits::new(cluster, &namespace, releases);
    let (crashed, [drained, ended], d) = edits.meanwhile(|| {
        // A crash, perhaps in the middle of upgrades: the sharder takes the lease of the silent shard, and the others
        // serve its releases.
        let of_a = edits.some_of("a");
        edits.edit(&of_a);
        a.kill();
        let crashed = thread::scope(|scope| {
            let served = scope.spawn(|| edits.serve(&of_a));
            (wait_shared(&namespace, &["b", "c"]), served.join().unwrap())
        });
        // A new shard: a share of the others is drained for it, while upgrades are under way.
        let (d, drained) = thread::scope(|scope| {
            scope.spawn(|| edits.edit(&edits.some()));
            let d = start(cluster, &namespace, "d", "widget");
            (d, wait_shared(&namespace, &["b", "c", "d"]))
        });
        // An orderly end: its releases move at once.
        edits.edit(&edits.some_of("b"));
        assert!(b.terminate().0.success());
        (crashed, [drained, wait_shared(&namespace, &["c", "d"])], d)
    });
    edits.wait_served();
    edits.check_revisions();
    assert_eq!(identities(&namespace, "configmaps"), before, "no move made an object");
    let shares = shares(&namespace);
    let upgraded = paint(&namespace, releases, "blue");
    let judged = turns::judge(turns::writes(cluster, &namespace));
    assert!(judged.wrong.is_empty(), "{:#?}", judged.wrong);
    for (from, to) in [(&["a"][..], &["b", "c"][..]), (&["b", "c"], &["d"]), (&["b"], &["c", "d"])] {
        assert!(judged.has_turn(from, to), "nothing was written after a move from {from:?} to {to:?}");
    }
    let figures = json!({
        "releases": releases, "installed_s": installed, "memory_mib": memory, "assigned_after_a_crash_s": crashed.0,
        "served_after_a_crash_s": crashed.1, "drained_for_a_new_shard_s": drained, "assigned_after_an_end_s": ended,
        "shares": shares, "upgraded_s": upgraded, "edits": edits.count(), "writes_judged": judged.writes,
    });
    println!("{figures}");
    drop((c, d));
    cluster.kubectl(["delete", "controllerring", namespace.name()]).unwrap();
    assert!(sharder.terminate().is_ok());
}

#[test]
fn shards_share_releases_that_move_without_a_revision_and_never_have_two_writers() {
    let Some((cluster, binary)) = audited() else { return };
    share(&cluster, &binary, 30);
}

/// The sharder moves the resources of a shard without a lease at once. An API server creates a missing lease even by a
/// replacement, so a renewal must not do that.
#[test]
fn a_shard_whose_lease_is_deleted_ends_and_leaves_a_lease_without_a_holder() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("deleted-lease").unwrap();
    let _turn = create_ring(cluster, &namespace);
    let shard = start(cluster, &namespace, "a", "widget");
    let uid = namespace.kubectl(["get", "lease", "a", "-o", "jsonpath={.metadata.uid}"]).unwrap();
    namespace.kubectl(["delete", "lease", "a"]).unwrap();
    let (status, log) = shard.wait();
    assert!(!status.success(), "{log}");
    let left: Value = serde_json::from_str(&namespace.kubectl(["get", "lease", "a", "-o", "json"]).unwrap()).unwrap();
    assert_ne!(left["metadata"]["uid"], uid);
    assert_eq!(left["spec"]["holderIdentity"].as_str().unwrap_or_default(), "", "{left}");
    cluster.kubectl(["delete", "controllerring", namespace.name()]).unwrap();
}

#[test]
#[ignore = "takes minutes: make bench-shards"]
fn shards_share_many_releases() {
    let number = std::env::var("N").ok().and_then(|number| number.parse().ok());
    let (cluster, binary) = audited().expect(NO_FIGURES);
    share(&cluster, &binary, number.unwrap_or(3000));
}

/// Installs releases that make a key each, with these shards; returns the seconds that it took, and the processor
/// seconds of all shards.
fn make_keys(cluster: &TestCluster, binary: &Path, releases: usize, shards: &[&str]) -> (f64, f64) {
    let namespace = cluster.namespace("keys").unwrap();
    let _turn = create_ring(cluster, &namespace);
    let folder = tempfile::tempdir().unwrap();
    let sharder = start_sharder(cluster, binary, &namespace, folder.path());
    let shards: Vec<Operator> = shards.iter().map(|shard| start(cluster, &namespace, shard, "keys")).collect();
    let before: f64 = shards.iter().map(|shard| shard.cpu().as_secs_f64()).sum();
    let began = Instant::now();
    WIDGET.set_all(&namespace, (0..releases).map(|n| (format!("web-{n}"), json!({}))));
    eventually_within(LIMIT, "the keys", || {
        let keys = list(&namespace, "secrets").iter().filter(|secret| secret["data"]["key"].is_string()).count();
        if keys == releases { Ok(()) } else { Err(keys) }
    });
    let seconds = began.elapsed().as_secs_f64();
    let cpu: f64 = shards.iter().map(|shard| shard.cpu().as_secs_f64()).sum();
    drop(shards);
    cluster.kubectl(["delete", "controllerring", namespace.name()]).unwrap();
    assert!(sharder.terminate().is_ok());
    (seconds, cpu - before)
}

#[test]
#[ignore = "takes minutes: make bench-shards"]
#[allow(clippy::print_stdout)] // The figures, with --nocapture.
fn shards_make_keys_as_one_process_does() {
    let number = std::env::var("KEYS").ok().and_then(|number| number.parse().ok()).unwrap_or(60);
    let cluster = TestCluster::shared_or_skip().expect(NO_FIGURES);
    let binary = sharder(cluster).expect(NO_FIGURES);
    for shards in [&["a"][..], &["a", "b", "c"]] {
        let (seconds, cpu) = make_keys(cluster, &binary, number, shards);
        println!("{}", json!({"releases": number, "shards": shards.len(), "seconds": seconds, "cpu_s": cpu}));
    }
}
