//! Tests of the registry: which of contradicting lists, events and reads it trusts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use controller::runtime::freshness::Epoch;
use controller::runtime::namespaces::Namespaces;
use controller::runtime::reflector::WatchScope;
use controller::testing::{Requests, client};
use helm_release::kube::{Applier, MemoryApi, Resource};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::registry::{Dependencies, Reading, User};
use super::seen::tests::PARSED;
use super::seen::{Portion, Seen};
use crate::dependencies::{Missing, Node, Origin, Query, Standing, Wanted, parse, resolve};
use crate::view::coverage::KindKey;

const CONTROLLER: &str = "shop-controller";
const DATABASES: &str = "/apis/db.example.com/v1/namespaces/ns/databases";

struct World {
    registry: Arc<Dependencies>,
    /// The resources that were woken.
    woken: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new() -> World {
        World::over(&Arc::new(MemoryApi::new()), None)
    }

    fn over(server: &Arc<MemoryApi>, client: Option<kube::Client>) -> World {
        let mapper = Applier::new(server.clone()).mapper;
        let registry = Dependencies::new(client, Default::default(), mapper, Arc::default());
        let woken = Arc::<Mutex<Vec<String>>>::default();
        let waking = woken.clone();
        let wake = move |_: &str, name: &str| waking.lock().unwrap().push(name.to_owned());
        registry.connect(CONTROLLER.into(), &databases(), Arc::default(), wake);
        World { registry, woken }
    }

    /// Makes a resource depend on what this entry means; returns the query.
    fn depend(&self, name: &str, entry: &Value) -> Arc<Query> {
        let wanted = wanted(name, entry);
        self.registry.depend(&user(name), vec![wanted.clone()]);
        wanted.query
    }

    /// Stores the result of a read.
    fn store(&self, query: &Query, objects: &[Seen], reading: &Reading) {
        self.registry.store(query, self.registry.judge(query, objects), reading);
    }

    /// Returns the state of a resource's first query.
    fn standing(&self, name: &str) -> Standing {
        self.registry.standings(&user(name)).remove(0).1
    }

    fn missing(&self, name: &str) -> Option<Missing> {
        match self.standing(name) {
            Standing::Lacks(gap) => Some(gap.missing),
            _ => None,
        }
    }
}

fn resource(api_version: &str, kind: &str, plural: &str) -> Resource {
    Resource { api_version: api_version.into(), kind: kind.into(), plural: plural.into(), namespaced: true }
}

fn databases() -> Resource {
    resource("db.example.com/v1", "Database", "databases")
}

fn node(name: &str) -> Node {
    Node { group: "db.example.com".into(), kind: "Database".into(), namespace: "ns".into(), name: name.into() }
}

fn user(name: &str) -> User {
    (CONTROLLER.into(), node(name))
}

fn wanted(name: &str, entry: &Value) -> Wanted {
    wanted_by(Origin::Watch, name, entry)
}

fn wanted_by(origin: Origin, name: &str, entry: &Value) -> Wanted {
    let entries = parse(&json!([entry])).unwrap();
    resolve(&entries, origin, ("ns", name), &|_, _| None).unwrap().remove(0)
}

fn secrets() -> KindKey {
    ("".into(), "Secret".into())
}

/// Returns an entry that means the Secret with this name.
fn on_secret(name: &str) -> Value {
    json!({"kind": "Secret", "name": name, "until": "exists"})
}

fn labelled() -> Value {
    json!({"kind": "Secret", "selector": {"matchLabels": {"tier": "db"}}})
}

fn seen(name: &str, version: u64) -> Seen {
    seen_with(name, version, &json!({"tier": "db"}))
}

fn seen_with(name: &str, version: u64, labels: &Value) -> Seen {
    let metadata = json!({"name": name, "namespace": "ns", "resourceVersion": version.to_string(), "labels": labels});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn event() -> Epoch {
    Epoch { number: 1, began: Instant::now(), is_list: false }
}

/// Waits until this holds.
async fn eventually(holds: impl Fn() -> bool, asked: &Requests) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{:#?}", asked.lock().unwrap());
}

#[tokio::test]
async fn the_deletion_of_another_object_does_not_make_a_read_outdated() {
    for entry in [on_secret("tls"), labelled()] {
        let world = World::new();
        let query = world.depend("web", &entry);
        let reading = world.registry.begin_read(&query).unwrap();
        world.registry.deleted(&secrets(), &seen("other", 200));
        world.store(&query, &[seen("tls", 100)], &reading);
        assert_eq!(world.standing("web"), Standing::Met, "{entry}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_goes_while_a_read_runs_does_not_come_back_with_it() {
    type Change = fn(&World);
    let changes: [(&str, Change); 4] = [
        ("deleted", |world| world.registry.deleted(&secrets(), &seen("tls", 150))),
        ("relabelled", |world| world.registry.changed(&secrets(), &seen_with("tls", 150, &json!({})), event())),
        ("not in a later list", |world| {
            let list = Epoch { number: 2, ..event() };
            world.registry.sweep(&secrets(), &WatchScope::ALL, list, Portion::Whole);
        }),
        ("refused", |world| world.registry.refused(&secrets(), &WatchScope::ALL, "no")),
    ];
    for (what, change) in changes {
        let world = World::new();
        let query = world.depend("web", &labelled());
        world.registry.serve(&secrets(), Arc::new(resource("v1", "Secret", "secrets")));
        let reading = world.registry.begin_read(&query).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        change(&world);
        world.store(&query, &[seen("tls", 100)], &reading);
        assert_ne!(world.standing("web"), Standing::Met, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_kind_is_woken_once_it_is_served_although_its_objects_are_not_known_yet() {
    type Change = fn(&World);
    let changes: [(&str, Change); 2] = [
        ("a list that began with the query", |world| {
            world.registry.sweep(&secrets(), &WatchScope::ALL, event(), Portion::Whole);
        }),
        ("another resource's look", |world| {
            world.registry.serve(&secrets(), Arc::new(resource("v1", "Secret", "secrets")));
        }),
    ];
    for (what, change) in changes {
        let world = World::new();
        world.depend("web", &on_secret("tls"));
        world.registry.unserved(&secrets());
        assert_eq!(world.missing("web"), Some(Missing::Unserved), "{what}");
        world.woken.lock().unwrap().clear();
        change(&world);
        assert_eq!(world.standing("web"), Standing::Unknown, "{what}");
        assert_eq!(*world.woken.lock().unwrap(), ["web"], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_begins_to_show_whole_objects_misses_no_deletion() {
    let server = Arc::new(MemoryApi::new());
    server.serve("db.example.com/v1", "Database", "databases");
    server.put(&format!("{DATABASES}/db"), json!({"metadata": {"name": "db", "namespace": "ns"}}), "user");
    let asked = Requests::default();
    let world = World::over(&server, Some(client(&server, &asked)));
    let entry =
        |name: &str, until: &str| json!({"group": "db.example.com", "kind": "Database", "name": name, "until": until});
    world.depend("web", &entry("db", "exists"));
    world.registry.serve(&("db.example.com".into(), "Database".into()), Arc::new(databases()));
    let is_met = || world.standing("web") == Standing::Met;
    eventually(is_met, &asked).await;
    // The server deletes it before the new list, and the watch does not show it.
    server.remove(&format!("{DATABASES}/db"));
    world.depend("other", &entry("ready", "ready"));
    let lists_again = || asked.lock().unwrap().iter().filter(|line| line.contains("watch=true")).count() == 2;
    eventually(lists_again, &asked).await;
    assert_eq!(world.missing("web"), Some(Missing::Absent));
}

#[tokio::test]
async fn a_resource_is_woken_once_nothing_depends_on_it_any_longer() {
    let world = World::new();
    let reverse = json!({"group": "db.example.com", "kind": "Database", "name": "db", "reverseDeletion": true});
    world.depend("web", &reverse);
    assert_eq!(world.registry.holders(&node("db")), [node("web")]);
    world.woken.lock().unwrap().clear();
    world.registry.depend(&user("web"), Vec::new());
    assert!(world.registry.holders(&node("db")).is_empty());
    assert_eq!(*world.woken.lock().unwrap(), ["db"]);
}

/// Returns an entry that means another resource of the kind.
fn on_database(name: &str) -> Value {
    json!({"group": "db.example.com", "kind": "Database", "name": name})
}

#[tokio::test]
async fn only_the_members_of_a_cycle_are_woken_when_it_forms_or_ends() {
    let world = World::new();
    let woken = || std::mem::take(&mut *world.woken.lock().unwrap());
    for (name, on) in [("waits", "a"), ("a", "b"), ("b", "c")] {
        world.depend(name, &on_database(on));
    }
    assert_eq!(woken(), [""; 0], "there is no cycle yet");
    for on in ["a", "free"] {
        world.depend("c", &on_database(on));
        assert_eq!(woken(), ["a", "b"], "c waits for {on}");
    }
    world.depend("c", &on_database("other"));
    assert_eq!(woken(), [""; 0]);
}

/// Each of the resources waits for the next twenty.
#[tokio::test]
async fn the_resources_of_a_chain_wake_nobody_in_whatever_order_they_come() {
    let orders: [Vec<usize>; 3] =
        [(0..200).collect(), (0..200).rev().collect(), (0..200).map(|at| at * 77 % 200).collect()];
    for order in orders {
        let world = World::new();
        for at in order {
            let name = format!("db-{at}");
            let on = |next: usize| wanted(&name, &on_database(&format!("db-{next}")));
            world.registry.depend(&user(&name), (at + 1..=at + 20).map(on).collect());
        }
        assert_eq!(world.woken.lock().unwrap().len(), 0);
    }
}

#[tokio::test]
async fn a_watch_ends_with_the_last_query_that_it_covers_and_not_while_its_resource_is_edited() {
    let mapper = Applier::new(Arc::new(MemoryApi::new())).mapper;
    let registry = Dependencies::new(None, Namespaces::parse("ns,other"), mapper, Arc::default());
    let depend = |of: &str, on: &[(&str, &str)]| {
        let entry = |(namespace, name): &(&str, &str)| {
            wanted(of, &json!({"kind": "Secret", "namespace": namespace, "name": name, "until": "exists"}))
        };
        let all: Vec<Wanted> = on.iter().map(entry).collect();
        registry.depend(&user(of), all.clone());
        all
    };
    let watched = || registry.watched(&secrets());
    let [ns, other] = ["ns", "other"].map(WatchScope::namespace);
    depend("web", &[("ns", "a")]);
    registry.serve(&secrets(), Arc::new(resource("v1", "Secret", "secrets")));
    depend("db", &[("other", "a"), ("other", "b")]);
    assert_eq!(watched(), [ns.clone(), other.clone()]);
    registry.refused(&secrets(), &ns, "no");
    let wanted = depend("web", &[("ns", "b")]).remove(0);
    assert_eq!(registry.refusal(&wanted.query).as_deref(), Some("no"), "it is the same watch");
    depend("db", &[("other", "b")]);
    assert_eq!(watched(), [ns.clone(), other]);
    registry.forget(&user("db"));
    assert_eq!(watched(), [ns]);
    registry.forget(&user("web"));
    assert_eq!(watched(), []);
    depend("web", &[("ns", "a")]);
    assert_eq!((watched().len(), registry.refusal(&wanted.query)), (1, None), "another one");
}

#[tokio::test]
async fn an_event_parses_its_object_once_however_many_queries_mean_it() {
    let world = World::new();
    for n in 0..100 {
        let labels = json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": [n.to_string()]}]});
        let ready = format!("self.count > {n}");
        let entry = json!({"group": "db.example.com", "kind": "Database", "selector": labels, "ready": ready});
        world.depend(&format!("web-{n}"), &entry);
    }
    let metadata = json!({"name": "db", "namespace": "ns", "resourceVersion": "1"});
    let seen: Seen = serde_json::from_value(json!({"metadata": metadata, "count": 50})).unwrap();
    let before = PARSED.get();
    world.registry.changed(&("db.example.com".into(), "Database".into()), &seen, event());
    assert_eq!(PARSED.get() - before, 1);
    assert_eq!((world.missing("web-49"), world.missing("web-50")), (None, Some(Missing::Untrue)));
}

#[tokio::test]
async fn an_annotation_holds_no_resource_without_a_namespace() {
    let world = World::new();
    let reverse = json!({"group": "db.example.com", "kind": "Database", "name": "db", "reverseDeletion": true});
    let cluster_scoped = Node { namespace: "".into(), ..node("db") };
    for (origin, held) in [(Origin::Watch, vec![node("web")]), (Origin::Annotation, Vec::new())] {
        world.registry.depend(&user("web"), vec![Wanted { origin, ..wanted("web", &reverse) }]);
        assert_eq!(world.registry.holders(&node("db")), [node("web")], "{origin:?}");
        assert_eq!(world.registry.holders(&cluster_scoped), held, "{origin:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_selector_of_an_annotation_keeps_few_objects_and_is_met_only_by_all() {
    let world = World::new();
    let wanted = wanted_by(Origin::Annotation, "web", &labelled());
    let query = wanted.query.clone();
    world.registry.depend(&user("web"), vec![wanted]);
    tokio::time::advance(Duration::from_secs(1)).await;
    let list = Epoch { is_list: true, ..event() };
    let name = |n: u64| format!("s{n}");
    for n in 1..=1000 {
        world.registry.changed(&secrets(), &seen(&name(n), n), list);
    }
    world.registry.sweep(&secrets(), &WatchScope::ALL, list, Portion::Whole);
    assert_eq!((world.missing("web"), world.registry.kept(&query)), (Some(Missing::TooMany), 101));
    world.woken.lock().unwrap().clear();
    let outdated = world.registry.begin_read(&query).unwrap();
    for n in 1..=50 {
        world.registry.deleted(&secrets(), &seen(&name(n), 1000 + n));
    }
    // Only a list or a read that begins now shows what was left out.
    world.store(&query, &[seen("s51", 51)], &outdated);
    assert_eq!(world.standing("web"), Standing::Unknown);
    world.registry.sweep(&secrets(), &WatchScope::ALL, list, Portion::Whole);
    assert_eq!(world.standing("web"), Standing::Unknown);
    assert_eq!(*world.woken.lock().unwrap(), ["web"]);
    let reading = world.registry.begin_read(&query).unwrap();
    let many: Vec<Seen> = (51..=1000).map(|n| seen(&name(n), n)).collect();
    world.store(&query, &many[..101], &reading);
    assert_eq!((world.missing("web"), world.registry.kept(&query)), (Some(Missing::TooMany), 101));
    for n in 51..=1000 {
        world.registry.deleted(&secrets(), &seen(&name(n), 2000 + n));
    }
    assert_eq!(world.standing("web"), Standing::Unknown);
    let reading = world.registry.begin_read(&query).unwrap();
    world.store(&query, &[seen("last", 3001)], &reading);
    assert_eq!(world.standing("web"), Standing::Met);
}

#[tokio::test]
async fn a_selector_of_the_watch_means_any_number_of_objects() {
    let world = World::new();
    let query = world.depend("web", &labelled());
    let reading = world.registry.begin_read(&query).unwrap();
    let many: Vec<Seen> = (1..=1000).map(|n| seen(&format!("s{n}"), n)).collect();
    world.store(&query, &many, &reading);
    assert_eq!(world.standing("web"), Standing::Met);
}
