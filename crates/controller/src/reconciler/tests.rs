//! Tests of reconciles and whole reconcilers against the API server in memory.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::object::HasStatus;
use kube::{CustomResource, Resource as _, ResourceExt as _};
use outside::MemoryApi;
use outside::sync::lock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::ResourceKey;
use crate::context::{ControllerConfig, Namespaces};
use crate::metrics::{Format, Metrics, ReconcileResult};
use crate::reconciler::*;
use crate::report::Reason;
use crate::runtime::priority::Priority;
use crate::runtime::queue::Queue;
use crate::runtime::workers::Reconcile as _;
use crate::shards::ShardSelector;
use crate::testing::{self, Requests, client};
use crate::webhooks::watched;

#[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Note", namespaced, status = "NoteStatus")]
struct NoteSpec {
    text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct NoteStatus {
    text: String,
}

const MAP: &str = "/api/v1/namespaces/ns/configmaps/a";
/// The manager that the server in memory records for every apply.
const MANAGER: &str = "helm-operator";

struct World {
    server: Arc<MemoryApi>,
    asked: Requests,
    context: Context,
}

impl World {
    fn new() -> World {
        let server = Arc::new(MemoryApi::new());
        server.serve("v1", "ConfigMap", "configmaps");
        server.serve("example.com/v1", "Note", "notes");
        server.serve("events.k8s.io/v1", "Event", "events");
        World::on(server)
    }

    /// Creates a process that has just started.
    fn on(server: Arc<MemoryApi>) -> World {
        let asked = Requests::default();
        let (config, shutdown) = (ControllerConfig::default(), CancellationToken::new());
        let context = Context::new(client(&server, &asked), config, Metrics::default(), shutdown);
        World { server, asked, context: context.for_controller(MANAGER) }
    }

    /// Returns this process with watches that deliver changes.
    fn delivering(self) -> World {
        let (config, shutdown) = (ControllerConfig::default(), CancellationToken::new());
        let context = Context::new(watched::client(&self.server), config, Metrics::default(), shutdown);
        World { context: context.for_controller(MANAGER), ..self }
    }

    fn add(&self, name: &str, text: &str) -> Arc<Note> {
        self.add_in("ns", name, text)
    }

    fn add_in(&self, namespace: &str, name: &str, text: &str) -> Arc<Note> {
        let path = format!("/apis/example.com/v1/namespaces/{namespace}/notes/{name}");
        let note = json!({"apiVersion": "example.com/v1", "kind": "Note", "spec": {"text": text},
            "metadata": {"name": name, "namespace": namespace, "generation": 1}});
        self.server.put(&path, note, "user");
        Arc::new(serde_json::from_value(self.server.object(&path).unwrap()).unwrap())
    }

    fn note(&self, name: &str) -> Option<Value> {
        self.server.object(&format!("/apis/example.com/v1/namespaces/ns/notes/{name}"))
    }

    /// Returns a cache that contains the ConfigMap.
    fn cached(&self) -> Cache<ConfigMap> {
        let live = self.server.object(MAP).map(|live| serde_json::from_value(live).unwrap());
        Cache::with(live, |map: &ConfigMap| Some(ResourceKey::new("ns", &map.name_any())))
    }

    /// Returns the published events about a note: `Warning Timeout: …`.
    fn events(&self, name: &str) -> Vec<String> {
        testing::events(&self.server, |on| on == name)
    }

    /// Returns the requests since the last call, as `METHOD path`.
    fn asked(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *lock(&self.asked));
        let plain = |line: &String| line.split('?').next().unwrap_or_default().to_owned();
        asked.iter().map(plain).filter(|line| !line.contains("/events")).collect()
    }
}

fn key(name: &str) -> ResourceKey {
    ResourceKey::new("ns", name)
}

fn map(text: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"text": text}})).unwrap()
}

#[tokio::test]
async fn an_object_is_created_then_left_alone_and_written_only_when_it_differs() {
    let world = World::new();
    let note = world.add("a", "one");
    let scope = Scope::new(&world.context, &note, MANAGER);
    let applied = scope.apply(&world.cached(), map("one")).await.unwrap();
    assert_eq!((applied.change, world.asked()), (Change::Created, vec![format!("GET {MAP}"), format!("PATCH {MAP}")]));
    assert_eq!(applied.object.owner_references()[0].name, "a");
    let again = scope.apply(&world.cached(), map("one")).await.unwrap();
    assert_eq!((again.change, world.asked()), (Change::Unchanged, vec![]));
    let other = scope.apply(&world.cached(), map("two")).await.unwrap();
    assert_eq!((other.change, world.asked()), (Change::Updated, vec![format!("PATCH {MAP}")]));
    let mut foreign = world.server.object(MAP).unwrap();
    foreign["data"]["text"] = "foreign".into();
    world.server.put(MAP, foreign, "user");
    scope.apply(&world.cached(), map("two")).await.unwrap();
    assert_eq!(world.server.object(MAP).unwrap()["data"]["text"], "two");
}

/// An apply's only content type is YAML, which rejects some characters of JSON and changes others.
#[tokio::test]
async fn what_yaml_reads_differently_is_applied_unchanged() {
    let (world, text) = (World::new(), "a\u{85}b\u{7f}\u{2028}\u{feff}\u{ffff}");
    let note = world.add("a", "one");
    let sent = Arc::new(Mutex::new(String::new()));
    let noted = sent.clone();
    world.server.refuse(move |call| {
        if let Some((_, body)) = &call.body {
            lock(&noted).push_str(&String::from_utf8_lossy(body));
        }
        None
    });
    let scope = Scope::new(&world.context, &note, MANAGER);
    scope.apply(&world.cached(), map(text)).await.unwrap();
    assert_eq!(world.server.object(MAP).unwrap()["data"]["text"], text);
    assert_eq!(scope.apply(&world.cached(), map(text)).await.unwrap().change, Change::Unchanged);
    assert!(scope.status(&NoteStatus { text: text.into() }).await.unwrap());
    assert_eq!(world.note("a").unwrap()["status"]["text"], text);
    assert_eq!(lock(&sent).matches(r"a\u0085b\u007f\u2028\ufeff\uffff").count(), 2);
}

#[tokio::test]
async fn an_object_that_the_cache_has_not_seen_yet_is_not_created_twice() {
    let world = World::new();
    let note = world.add("a", "one");
    let scope = Scope::new(&world.context, &note, MANAGER);
    let stale = world.cached();
    scope.apply(&stale, map("one")).await.unwrap();
    assert_eq!(scope.apply(&stale, map("two")).await.unwrap().change, Change::Updated);
    assert_eq!(world.server.object(MAP).unwrap()["data"]["text"], "two");
}

/// The status that a reconcile writes may wake the next one before the cache has seen what it created.
#[tokio::test]
async fn what_is_generated_once_stays_whether_or_not_the_cache_has_seen_it() {
    let world = World::new();
    let (note, other) = (world.add("a", "one"), world.add("b", "one"));
    let scope = Scope::new(&world.context, &note, MANAGER);
    let generated = |text: &str| Apply::from(map(text)).create_only();
    let empty = world.cached();
    assert_eq!(scope.apply(&empty, generated("first")).await.unwrap().change, Change::Created);
    for (cache, asked) in [(&world.cached(), 0), (&empty, 2)] {
        world.asked();
        let again = scope.apply(cache, generated("second")).await.unwrap();
        assert_eq!((again.change, again.object.data.as_ref().unwrap()["text"].as_str()), (Change::Unchanged, "first"));
        assert_eq!(world.asked(), vec![format!("GET {MAP}"); asked]);
        let others = Scope::new(&world.context, &other, MANAGER).apply(cache, generated("theirs")).await;
        assert_eq!(others.unwrap_err().reason(), "ObjectConflict");
    }
    assert_eq!(world.server.object(MAP).unwrap()["data"]["text"], "first");
}

#[tokio::test]
async fn an_object_of_somebody_else_or_of_nobody_is_never_written() {
    let world = World::new();
    let (note, other) = (world.add("a", "one"), world.add("b", "one"));
    let empty = world.cached();
    Scope::new(&world.context, &other, MANAGER).apply(&empty, map("others")).await.unwrap();
    let scope = Scope::new(&world.context, &note, MANAGER);
    let refused = async |cache: &Cache<ConfigMap>| {
        world.asked();
        let (applied, deleted) = (scope.apply(cache, map("one")).await, scope.delete(cache, &key("a")).await);
        assert_eq!(applied.unwrap_err().reason(), "ObjectConflict");
        (deleted.map_err(|error| error.reason()), world.asked())
    };
    assert_eq!(refused(&world.cached()).await, (Err("ObjectConflict"), vec![]));
    assert_eq!(refused(&empty).await, (Ok(false), vec![format!("GET {MAP}")]), "not seen yet");
    let mut orphan = world.server.object(MAP).unwrap();
    orphan["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    world.server.put(MAP, orphan, "user");
    assert_eq!(refused(&world.cached()).await, (Err("ObjectConflict"), vec![]));
    assert_eq!(world.server.object(MAP).unwrap()["data"]["text"], "others");
}

#[tokio::test]
async fn an_object_that_somebody_creates_between_the_read_and_the_write_is_never_written() {
    for ownership in [Ownership::Controller, Ownership::Owner, Ownership::None] {
        let world = World::new();
        let (note, server) = (world.add("a", "one"), world.server.clone());
        world.server.refuse(move |call| {
            if call.method == http::Method::PATCH && server.object(MAP).is_none() {
                let theirs = json!({"metadata": {"name": "a", "namespace": "ns"}, "data": {"more": "theirs"}});
                server.put(MAP, theirs, "user");
            }
            None
        });
        let scope = Scope::new(&world.context, &note, MANAGER);
        let refused = scope.apply(&world.cached(), Apply::from(map("one")).owned(ownership)).await.unwrap_err();
        assert_eq!(world.asked(), [format!("GET {MAP}"), format!("PATCH {MAP}")]);
        assert_eq!((refused.reason(), refused.is_terminal()), ("WriteFailed", false), "the next attempt reads it");
        let live = world.server.object(MAP).unwrap();
        assert_eq!((&live["data"], &live["metadata"]["ownerReferences"]), (&json!({"more": "theirs"}), &json!(null)));
        assert_eq!(live["metadata"]["managedFields"].as_array().unwrap().len(), 1);
        if ownership == Ownership::Controller {
            let refused = scope.apply(&world.cached(), map("one")).await.unwrap_err();
            assert_eq!((refused.reason(), world.asked()), ("ObjectConflict", vec![]));
        }
    }
}

#[tokio::test]
async fn an_object_of_a_resource_that_came_back_under_its_name_is_foreign() {
    let world = World::new();
    let note = world.add("a", "one");
    Scope::new(&world.context, &note, MANAGER).apply(&world.cached(), map("one")).await.unwrap();
    let mut reborn = (*note).clone();
    reborn.metadata.uid = Some("another".into());
    let applied = Scope::new(&world.context, &Arc::new(reborn), MANAGER).apply(&world.cached(), map("two")).await;
    assert_eq!(applied.unwrap_err().reason(), "ObjectConflict");
}

#[tokio::test]
async fn an_object_of_a_deleted_resource_is_none_of_the_new_one_of_its_name() {
    let world = World::new();
    let note = world.add("a", "one");
    Scope::new(&world.context, &note, MANAGER).apply(&world.cached(), map("one")).await.unwrap();
    let mut reborn = (*note).clone();
    reborn.metadata.uid = Some("another".into());
    let belonging = |cache: Cache<ConfigMap>| [&*note, &reborn].map(|note| cache.of(note).len());
    assert_eq!(belonging(world.cached()), [1, 0]);
    let mut mapped = world.server.object(MAP).unwrap();
    mapped["metadata"]["ownerReferences"][0]["kind"] = "Other".into();
    world.server.put(MAP, mapped, "user");
    assert_eq!(belonging(world.cached()), [1, 1], "whose controller is of another kind");
}

#[tokio::test]
async fn an_object_in_another_namespace_is_refused_and_one_that_is_going_is_left() {
    let world = World::new();
    let note = world.add("a", "one");
    let scope = Scope::new(&world.context, &note, MANAGER);
    let mut elsewhere = map("one");
    elsewhere.metadata.namespace = Some("other".into());
    assert_eq!(scope.apply(&world.cached(), elsewhere).await.unwrap_err().reason(), "InvalidObject");
    scope.apply(&world.cached(), map("one")).await.unwrap();
    let mut going: ConfigMap = serde_json::from_value(world.server.object(MAP).unwrap()).unwrap();
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let going = Cache::with([going], |_| None);
    world.asked();
    assert_eq!(scope.apply(&going, map("two")).await.unwrap().change, Change::Unchanged);
    assert!(scope.delete(&going, &key("a")).await.unwrap());
    assert_eq!(world.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn only_the_object_that_was_judged_is_deleted() {
    let world = World::new();
    let note = world.add("a", "one");
    let scope = Scope::new(&world.context, &note, MANAGER);
    scope.apply(&world.cached(), map("one")).await.unwrap();
    let seen = world.cached();
    assert!(scope.delete(&seen, &key("a")).await.unwrap());
    assert!(world.server.object(MAP).is_none());
    world.server.put(MAP, json!({"metadata": {"name": "a", "namespace": "ns"}, "data": {"text": "new"}}), "user");
    assert!(!scope.delete(&seen, &key("a")).await.unwrap(), "another object has its name");
    assert!(world.server.object(MAP).is_some());
    assert!(!scope.delete(&seen, &key("missing")).await.unwrap());
}

#[tokio::test]
async fn an_object_that_does_not_decode_is_deleted_by_its_resource_alone() {
    let world = World::new();
    let (note, other) = (world.add("a", "one"), world.add("b", "one"));
    let scope = Scope::new(&world.context, &note, MANAGER);
    scope.apply(&world.cached(), map("one")).await.unwrap();
    let mut wrong = world.server.object(MAP).unwrap();
    wrong["data"]["text"] = 7.into();
    world.server.put(MAP, wrong, "user");
    let mut watching = Watching::new(Stores::of(&world.context), settings::Settings::<Note>::new(&world.context));
    let cache: Cache<ConfigMap> = watching.owned("");
    cache.store().listed(store::Reach::Everywhere).wait().await;
    assert!(cache.get(&key("a")).is_none());
    assert_eq!((cache.undecodable(), cache.all().len()), (vec![key("a")], 0), "it exists");
    let refused = Scope::new(&world.context, &other, MANAGER).delete(&cache, &key("a")).await.unwrap_err();
    assert_eq!((refused.reason(), world.server.object(MAP).is_some()), ("ObjectConflict", true));
    assert!(scope.delete(&cache, &key("a")).await.unwrap());
    assert!(world.server.object(MAP).is_none());
}

const FORMER: &[&str] = &["notes-controller"];

/// Stores the ConfigMap with a field that only the former name applies, and one of a user.
async fn apply_formerly(world: &World, note: &Arc<Note>) {
    let mut old = map("one");
    old.data.get_or_insert_default().insert("old".into(), "1".into());
    Scope::new(&world.context, note, FORMER[0]).apply(&world.cached(), old).await.unwrap();
    let mut live = world.server.object(MAP).unwrap();
    live["data"]["theirs"] = "2".into();
    world.server.put(MAP, live, "user");
    world.asked();
}

fn managers(object: &Value) -> BTreeSet<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.map(|entry| entry["manager"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_field_that_only_a_former_name_applied_goes_and_a_foreign_one_stays() {
    for is_cached in [true, false] {
        let world = World::new();
        let note = world.add("a", "one");
        let empty = world.cached();
        apply_formerly(&world, &note).await;
        let before = world.server.object(MAP).unwrap();
        let scope = Scope::new(&world.context, &note, MANAGER).formerly(FORMER);
        let trial = scope.apply(&world.cached(), Apply::from(map("one")).dry_run()).await.unwrap();
        assert_eq!(trial.object.data.as_ref().unwrap()["old"], "1");
        assert_eq!(world.server.object(MAP).unwrap(), before, "a trial moves nothing");
        world.asked();
        let applied = scope.apply(&if is_cached { world.cached() } else { empty }, map("one")).await.unwrap();
        let [read, write] = ["GET", "PATCH"].map(|method| format!("{method} {MAP}"));
        let asked = [&read, &read, &write, &write].map(String::clone);
        assert_eq!((applied.change, world.asked()), (Change::Updated, asked[usize::from(is_cached)..].to_vec()));
        let live = world.server.object(MAP).unwrap();
        assert_eq!(
            (&live["data"], &live["metadata"]["uid"]),
            (&json!({"text": "one", "theirs": "2"}), &before["metadata"]["uid"])
        );
        assert_eq!(managers(&live), BTreeSet::from([MANAGER.to_owned(), "user".to_owned()]));
        let again = scope.apply(&world.cached(), map("one")).await.unwrap();
        assert_eq!((again.change, world.asked()), (Change::Unchanged, vec![]));
    }
}

#[tokio::test]
async fn what_a_name_applied_that_is_no_former_one_stays_and_so_does_another_resources_object() {
    let world = World::new();
    let (note, other) = (world.add("a", "one"), world.add("b", "one"));
    apply_formerly(&world, &note).await;
    let unnamed = Scope::new(&world.context, &note, MANAGER);
    unnamed.apply(&world.cached(), map("one")).await.unwrap();
    let before = world.server.object(MAP).unwrap();
    assert_eq!(before["data"]["old"], "1");
    let refused = Scope::new(&world.context, &other, MANAGER).formerly(FORMER).apply(&world.cached(), map("b")).await;
    assert_eq!(refused.unwrap_err().reason(), "ObjectConflict");
    assert_eq!(world.server.object(MAP).unwrap(), before, "another resource's object");
}

#[tokio::test]
async fn an_object_that_is_handed_over_before_its_fields_move_stays_as_it_is() {
    let world = World::new();
    let note = world.add("a", "one");
    apply_formerly(&world, &note).await;
    change_before(&world, http::Method::GET, 1, |map| {
        map["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    });
    let scope = Scope::new(&world.context, &note, MANAGER).formerly(FORMER);
    assert_eq!(scope.apply(&world.cached(), map("one")).await.unwrap_err().reason(), "ObjectConflict");
    let live = world.server.object(MAP).unwrap();
    assert!(live["data"]["old"] == "1" && managers(&live).contains(FORMER[0]), "{live}");
}

#[tokio::test]
async fn a_rename_that_ends_between_its_two_writes_is_completed() {
    let world = World::new();
    let note = world.add("a", "one");
    apply_formerly(&world, &note).await;
    world.server.refuse(|call| {
        let is_apply = call.body.as_ref().is_some_and(|(kind, _)| kind.contains("apply"));
        is_apply.then(|| outside::Error::from_status(403, "Forbidden", "refused"))
    });
    let renamed = Scope::new(&world.context, &note, MANAGER).formerly(FORMER);
    assert_eq!(renamed.apply(&world.cached(), map("one")).await.unwrap_err().reason(), "WriteFailed");
    assert_eq!(world.server.object(MAP).unwrap()["data"]["old"], "1");
    world.server.accept();
    let later = Scope::new(&world.context, &note, MANAGER);
    later.apply(&world.cached(), map("one")).await.unwrap();
    assert_eq!(world.server.object(MAP).unwrap()["data"], json!({"text": "one", "theirs": "2"}), "without the name");
}

#[tokio::test]
async fn an_owner_reference_of_a_former_name_goes_when_it_is_no_longer_wanted() {
    let world = World::new();
    let notes = [world.add("a", "one"), world.add("b", "one")];
    let shared = |ownership| Apply::from(map("ours")).owned(ownership);
    for note in &notes {
        let scope = Scope::new(&world.context, note, FORMER[0]);
        scope.apply(&world.cached(), shared(Ownership::Owner)).await.unwrap();
    }
    let renamed = Scope::new(&world.context, &notes[0], MANAGER).formerly(FORMER);
    renamed.apply(&world.cached(), shared(Ownership::None)).await.unwrap();
    let owners = world.server.object(MAP).unwrap()["metadata"]["ownerReferences"].clone();
    let names: Vec<_> = owners.as_array().into_iter().flatten().map(|owner| &owner["name"]).collect();
    assert_eq!(names, ["b"]);
}

/// Changes the ConfigMap just before each of the next `requests` with this method arrives.
fn change_before(
    world: &World,
    method: http::Method,
    requests: usize,
    change: impl Fn(&mut Value) + Send + Sync + 'static,
) {
    let (server, left) = (world.server.clone(), Mutex::new(requests));
    world.server.refuse(move |call| {
        if call.method == method && *lock(&left) > 0 {
            *lock(&left) -= 1;
            let mut changed = server.object(MAP).unwrap();
            change(&mut changed);
            server.put(MAP, changed, "user");
        }
        None
    });
}

#[tokio::test]
async fn an_object_that_is_handed_over_before_its_deletion_arrives_stays() {
    let world = World::new();
    let note = world.add("a", "one");
    let scope = Scope::new(&world.context, &note, MANAGER);
    scope.apply(&world.cached(), map("one")).await.unwrap();
    change_before(&world, http::Method::DELETE, 1, |map| {
        map["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    });
    world.asked();
    assert_eq!(scope.delete(&world.cached(), &key("a")).await.unwrap_err().reason(), "ObjectConflict");
    assert_eq!(world.asked(), [format!("DELETE {MAP}"), format!("GET {MAP}")]);
    assert!(world.server.object(MAP).is_some());
}

#[tokio::test]
async fn an_object_that_changes_before_its_deletion_arrives_is_deleted_unless_it_never_rests() {
    for (changes, outcome) in [(2, Ok(true)), (99, Err("WriteFailed"))] {
        let world = World::new();
        let note = world.add("a", "one");
        let scope = Scope::new(&world.context, &note, MANAGER);
        scope.apply(&world.cached(), map("one")).await.unwrap();
        change_before(&world, http::Method::DELETE, changes, |map| map["data"]["more"] = "theirs".into());
        let deleted = scope.delete(&world.cached(), &key("a")).await.map_err(|error| error.reason());
        assert_eq!((deleted, world.server.object(MAP).is_none()), (outcome, outcome.is_ok()));
    }
}

#[tokio::test]
async fn an_object_that_is_handed_over_before_its_apply_arrives_is_not_taken_back() {
    for is_dry_run in [false, true] {
        let world = World::new();
        let note = world.add("a", "one");
        let scope = Scope::new(&world.context, &note, MANAGER);
        scope.apply(&world.cached(), map("one")).await.unwrap();
        change_before(&world, http::Method::PATCH, 1, |map| {
            map["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        });
        world.asked();
        let two = Apply::from(map("two"));
        let refused = scope.apply(&world.cached(), if is_dry_run { two.dry_run() } else { two }).await.unwrap_err();
        assert_eq!(
            (refused.reason(), world.asked()),
            ("ObjectConflict", vec![format!("PATCH {MAP}"), format!("GET {MAP}")])
        );
        let live = world.server.object(MAP).unwrap();
        assert_eq!((&live["data"]["text"], &live["metadata"]["ownerReferences"]), (&json!("one"), &json!(null)));
    }
}

#[tokio::test]
async fn an_object_that_changes_before_its_apply_arrives_is_written_even_if_it_never_rests() {
    for changes in [2, 99] {
        let world = World::new();
        let note = world.add("a", "one");
        let scope = Scope::new(&world.context, &note, MANAGER);
        scope.apply(&world.cached(), map("one")).await.unwrap();
        change_before(&world, http::Method::PATCH, changes, |map| map["data"]["more"] = "theirs".into());
        let applied = scope.apply(&world.cached(), map("two")).await;
        assert_eq!(applied.map(|applied| applied.change).map_err(|error| error.reason()), Ok(Change::Updated));
        assert_eq!(world.server.object(MAP).unwrap()["data"], json!({"text": "two", "more": "theirs"}));
    }
}

#[tokio::test]
async fn an_object_that_never_rests_and_is_handed_over_before_the_last_attempt_is_not_taken_back() {
    let world = World::new();
    let note = world.add("a", "one");
    let scope = Scope::new(&world.context, &note, MANAGER);
    scope.apply(&world.cached(), map("one")).await.unwrap();
    let changes = AtomicUsize::new(0);
    change_before(&world, http::Method::PATCH, 4, move |map| {
        let before = changes.fetch_add(1, Ordering::Relaxed);
        map["data"]["more"] = before.to_string().into();
        if before == 3 {
            map["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        }
    });
    world.asked();
    let refused = scope.apply(&world.cached(), map("two")).await.unwrap_err();
    assert_eq!((refused.reason(), world.asked().len()), ("ObjectConflict", 8), "four attempts, and a read after each");
    let live = world.server.object(MAP).unwrap();
    assert_eq!((&live["data"]["text"], &live["metadata"]["ownerReferences"]), (&json!("one"), &json!(null)));
}

#[tokio::test]
async fn a_conflict_over_a_field_is_no_reason_for_another_attempt() {
    let world = World::new();
    let note = world.add("a", "one");
    let scope = Scope::new(&world.context, &note, MANAGER);
    scope.apply(&world.cached(), map("one")).await.unwrap();
    let mut theirs = world.server.object(MAP).unwrap();
    theirs["data"]["text"] = "theirs".into();
    world.server.put(MAP, theirs, "user");
    world.asked();
    let refused = scope.apply(&world.cached(), Apply::from(map("two")).on_conflict(Conflicts::Fail)).await.unwrap_err();
    assert_eq!((refused.reason(), world.asked()), ("WriteFailed", vec![format!("PATCH {MAP}"), format!("GET {MAP}")]));
    assert_eq!(world.server.object(MAP).unwrap()["data"]["text"], "theirs");
}

/// Without a propagation policy, the server keeps a Job until its pods are orphaned.
#[tokio::test]
async fn a_job_is_deleted_with_its_pods() {
    const JOB: &str = "/apis/batch/v1/namespaces/ns/jobs/a";
    let world = World::on(Arc::new(MemoryApi::cluster()));
    world.server.serve("example.com/v1", "Note", "notes");
    let note = world.add("a", "one");
    let owner = note.controller_owner_ref(&());
    let metadata = json!({"name": "a", "namespace": "ns", "ownerReferences": [owner]});
    world.server.put(JOB, json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}), "user");
    let job: Job = serde_json::from_value(world.server.object(JOB).unwrap()).unwrap();
    let jobs = Cache::with([job], |_| None);
    assert!(Scope::new(&world.context, &note, MANAGER).delete(&jobs, &key("a")).await.unwrap());
    assert_eq!(world.server.object(JOB), None);
}

#[tokio::test]
async fn a_status_is_written_once() {
    let world = World::new();
    let note = world.add("a", "one");
    let status = NoteStatus { text: "told".into() };
    assert!(Scope::new(&world.context, &note, MANAGER).status(&status).await.unwrap());
    let note: Note = serde_json::from_value(world.note("a").unwrap()).unwrap();
    assert_eq!(note.status(), Some(&status));
    world.asked();
    assert!(!Scope::new(&world.context, &Arc::new(note), MANAGER).status(&status).await.unwrap());
    assert_eq!(world.asked(), Vec::<String>::new());
}

/// Refuses every write of a status.
fn refuse_status(world: &World, code: u16, reason: &'static str) {
    world.server.refuse(move |call| {
        let is_status = call.path.split('?').next().is_some_and(|path| path.ends_with("/status"));
        is_status.then(|| outside::Error::from_status(code, reason, "refused"))
    });
}

/// Writes a status; returns the reason and text of an error.
async fn tell(world: &World, note: &Arc<Note>) -> Result<bool, (&'static str, String)> {
    let written = Scope::new(&world.context, note, MANAGER).status(&NoteStatus { text: "told".into() }).await;
    written.map_err(|error| (error.reason(), error.to_string()))
}

/// Returns another resource with this one's name.
fn reborn(note: &Note) -> Arc<Note> {
    let mut reborn = note.clone();
    reborn.metadata.uid = Some("another".into());
    Arc::new(reborn)
}

#[tokio::test]
async fn a_kind_without_the_status_subresource_loses_no_status_silently() {
    let world = World::new();
    let note = world.add("a", "one");
    refuse_status(&world, 404, "NotFound");
    let message = "cannot write the status: Note (example.com/v1) has no status subresource in the cluster";
    assert_eq!(tell(&world, &note).await, Err(("StatusFailed", message.to_owned())));
    assert_eq!(tell(&world, &reborn(&note)).await, Ok(false), "another resource has its name");
    world.server.remove("/apis/example.com/v1/namespaces/ns/notes/a");
    assert_eq!(tell(&world, &note).await, Ok(false), "it is gone");
}

/// A webhook may refuse with any code.
#[tokio::test]
async fn a_status_that_is_refused_with_the_code_of_a_conflict_is_not_lost_silently() {
    let world = World::new();
    let note = world.add("a", "one");
    refuse_status(&world, 409, "Conflict");
    assert_eq!(tell(&world, &note).await.map_err(|(reason, _)| reason), Err("StatusFailed"));
    assert_eq!(tell(&world, &reborn(&note)).await, Ok(false), "another resource has its name");
}

/// An event may arrive after the next reconcile, so the last write counts, not the cached state.
#[tokio::test]
async fn a_change_back_to_the_cached_state_is_written_while_the_event_of_the_last_write_is_missing() {
    let world = World::new();
    let status = |text: &str| NoteStatus { text: text.into() };
    let note = world.add("a", "one");
    Scope::new(&world.context, &note, MANAGER).status(&status("one")).await.unwrap();
    let cached: Arc<Note> = Arc::new(serde_json::from_value(world.note("a").unwrap()).unwrap());
    let scope = Scope::new(&world.context, &cached, MANAGER);
    for text in ["two", "one"] {
        assert!(scope.status(&status(text)).await.unwrap());
        assert!(!scope.status(&status(text)).await.unwrap(), "the last write is known");
        assert_eq!(world.note("a").unwrap()["status"]["text"], text);
    }
    let maps = || world.cached();
    scope.apply(&maps(), map("one")).await.unwrap();
    let cached = maps();
    for text in ["two", "one"] {
        let trial = scope.apply(&cached, Apply::from(map("trial")).dry_run()).await.unwrap();
        assert_eq!(trial.change, Change::Updated, "a dry run is no write");
        assert_eq!(scope.apply(&cached, map(text)).await.unwrap().change, Change::Updated);
        assert_eq!(scope.apply(&cached, map(text)).await.unwrap().change, Change::Unchanged);
        assert_eq!(world.server.object(MAP).unwrap()["data"]["text"], text);
    }
}

#[tokio::test]
async fn what_one_reconcile_wrote_counts_in_the_next() {
    let world = World::new();
    let (context, serving, _) = serving_shard(&world, &Notes::default());
    let stored = |text: &str| {
        let note = json!({"apiVersion": "example.com/v1", "kind": "Note", "spec": {"text": text},
            "metadata": {"name": "a", "namespace": "ns", "generation": 1}, "status": {"text": "one"}});
        world.server.put("/apis/example.com/v1/namespaces/ns/notes/a", note, "user");
        Arc::new(serde_json::from_value::<Note>(world.note("a").unwrap()).unwrap())
    };
    let (one, two) = (stored("one"), stored("two"));
    for (cached, text) in [(&two, "two"), (&one, "one")] {
        serving.work(&context, cached).await.ok().unwrap();
        assert_eq!(world.note("a").unwrap()["status"]["text"], text);
    }
}

/// Deployments, because the server in memory knows that their conditions are a map by type.
mod conditions_of_others {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

    use super::*;

    #[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "apps", version = "v1", kind = "Deployment", namespaced, status = "Status", schema = "disabled")]
    pub(super) struct Spec {}

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub(super) struct Status {
        #[serde(default)]
        pub(super) conditions: Vec<Condition>,
    }

    const PATH: &str = "/apis/apps/v1/namespaces/ns/deployments/a";

    /// Stores the deployment with a condition of another manager, if it has one; returns it as a watch delivers it.
    fn stored(world: &World, foreign: Option<&str>) -> Arc<Deployment> {
        let mut object = world.server.object(PATH).unwrap_or_else(|| {
            let metadata = json!({"name": "a", "namespace": "ns"});
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {}})
        });
        let last = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions: Vec<Value> = last.into_iter().filter(|known| known["type"] != "Foo").collect();
        conditions.extend(foreign.map(|status| {
            json!({"type": "Foo", "status": status, "reason": "R", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        }));
        object["status"] = json!({"conditions": conditions});
        world.server.put(PATH, object, "other");
        delivered(world)
    }

    fn delivered(world: &World) -> Arc<Deployment> {
        let live: Deployment = serde_json::from_value(world.server.object(PATH).unwrap()).unwrap();
        store::Store::with([live]).all().remove(0)
    }

    fn statuses(world: &World) -> Vec<String> {
        let live = delivered(world);
        let conditions = live.status.clone().unwrap_or_default().conditions;
        let mut all: Vec<String> = conditions.iter().map(|c| format!("{} {}", c.type_, c.status)).collect();
        all.sort();
        all
    }

    async fn write(world: &World, resource: &Arc<Deployment>, ready: bool) -> bool {
        let last = resource.status.clone().unwrap_or_default().conditions;
        let conditions = Conditions::after(&**resource, &last);
        let conditions = match ready {
            true => conditions.set_true("Ready", "R", "m"),
            false => conditions.set_false("Ready", "R", "m"),
        };
        let status = Status { conditions: conditions.list() };
        Scope::new(&world.context, resource, MANAGER).status(&status).await.unwrap()
    }

    #[tokio::test]
    async fn a_condition_of_another_manager_stays_that_managers() {
        let world = World::new();
        let seen = stored(&world, Some("True"));
        assert!(write(&world, &seen, true).await);
        assert_eq!(statuses(&world), ["Foo True", "Ready True"]);
        assert!(!write(&world, &delivered(&world), true).await, "nothing changed");
        let stale = delivered(&world);
        stored(&world, Some("False"));
        assert!(write(&world, &stale, false).await);
        assert_eq!(statuses(&world), ["Foo False", "Ready False"], "the fresh value stays");
        let stale = delivered(&world);
        stored(&world, None);
        assert_eq!(statuses(&world), ["Ready False"]);
        assert!(write(&world, &stale, true).await);
        assert_eq!(statuses(&world), ["Ready True"], "it does not come back");
        assert!(!write(&world, &delivered(&world), true).await);
    }

    #[tokio::test]
    async fn a_condition_that_only_a_former_name_wrote_goes_and_a_foreign_one_stays() {
        let world = World::new();
        let seen = stored(&world, Some("True"));
        let all = Conditions::after(&*seen, &[]).set_true("Ready", "R", "m").set_true("Old", "R", "m").list();
        let ready = Status { conditions: all.iter().filter(|known| known.type_ == "Ready").cloned().collect() };
        Scope::new(&world.context, &seen, FORMER[0]).status(&Status { conditions: all }).await.unwrap();
        assert_eq!(statuses(&world), ["Foo True", "Old True", "Ready True"]);
        let write = async || {
            let now = delivered(&world);
            world.asked();
            Scope::new(&world.context, &now, MANAGER).formerly(FORMER).status(&ready).await.unwrap()
        };
        assert!(write().await);
        assert_eq!(statuses(&world), ["Foo True", "Ready True"]);
        assert!(!write().await);
        assert_eq!(world.asked(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_reconciler_that_writes_only_its_own_conditions_writes_them_once() {
        let world = World::new();
        let seen = stored(&world, Some("True"));
        let own = Conditions::after(&*seen, &[]).set_true("Ready", "R", "m").list();
        let status = Status { conditions: own };
        assert!(Scope::new(&world.context, &seen, MANAGER).status(&status).await.unwrap());
        let now = delivered(&world);
        assert!(!Scope::new(&world.context, &now, MANAGER).status(&status).await.unwrap());
        assert_eq!(statuses(&world), ["Foo True", "Ready True"]);
    }
}

/// Without a map by type, the list of conditions is one value: who writes it writes all of them.
#[tokio::test]
async fn conditions_in_a_plain_list_are_kept_whole() {
    let world = World::new();
    let condition = json!({"type": "Foo", "status": "True"});
    let mut note = serde_json::to_value(&*world.add("a", "one")).unwrap();
    note["status"] = json!({"text": "", "conditions": [condition]});
    world.server.put("/apis/example.com/v1/namespaces/ns/notes/a", note, "other");
    let live: Note = serde_json::from_value(world.note("a").unwrap()).unwrap();
    let mut known = serde_json::to_value(&*store::Store::with([live]).all()[0]).unwrap();
    known["status"] = json!({"conditions": [condition]});
    let wanted = json!({"conditions": [condition, {"type": "Ready", "status": "True"}]});
    assert_eq!(status::without_copies(wanted.clone(), &known, &known, MANAGER), wanted);
}

/// A reconciler that keeps a ConfigMap for each note, after it has done what the text says.
#[derive(Clone, Default)]
struct Notes {
    finalizers: &'static [&'static str],
    /// What a ConfigMap belongs to. Default: its controller.
    mapping: Option<fn(&ConfigMap) -> Option<ResourceKey>>,
    backoff: Option<Duration>,
    ignores_status: bool,
    allows_undecodable: bool,
    reconciled: Arc<Mutex<Vec<String>>>,
    failed: Arc<Mutex<HashSet<String>>>,
}

impl Reconciler for Notes {
    type Resource = Note;
    type Error = WriteError;
    type Caches = Cache<ConfigMap>;

    fn watch(&self, watching: &mut Watching<Note>) -> Cache<ConfigMap> {
        watching.filter(|note| note.spec.text != "ignored").concurrency(2).timeout(Duration::from_secs(60));
        self.backoff.into_iter().for_each(|wait| _ = watching.backoff(wait, wait));
        if self.ignores_status {
            watching.ignore_status();
        }
        match self.mapping {
            Some(mapping) => watching.mapped("", mapping),
            None if self.allows_undecodable => watching.objects("").allow_undecodable().owned(),
            None => watching.owned(""),
        }
    }

    fn rights(&self) -> Rights {
        Rights::none().status().applies::<ConfigMap>()
    }

    async fn reconcile(&self, scope: &Scope<'_, Note>, maps: &Cache<ConfigMap>) -> Result<Next, WriteError> {
        let note = scope.resource();
        lock(&self.reconciled).push(note.name_any());
        match &*note.spec.text {
            "panic" => panic!("a bug"),
            "fail" => return Err(WriteError::Foreign { kind: "ConfigMap".into(), name: "x".into() }),
            "fail once" if lock(&self.failed).insert(note.name_any()) => {
                return Err(WriteError::Foreign { kind: "ConfigMap".into(), name: "x".into() });
            }
            "count and fail" => {
                let text = format!("attempt {}", lock(&self.reconciled).len());
                scope.status(&NoteStatus { text }).await?;
                return Err(WriteError::Foreign { kind: "ConfigMap".into(), name: "x".into() });
            }
            "count and stop" => {
                let text = format!("attempt {}", lock(&self.reconciled).len());
                scope.status(&NoteStatus { text }).await?;
                return Err(WriteError::NoNamespace { kind: "ConfigMap".into(), name: "x".into() });
            }
            "fail once, then read" if lock(&self.failed).insert(note.name_any()) => {
                return Err(WriteError::Foreign { kind: "ConfigMap".into(), name: "x".into() });
            }
            "fail once, then read" => {
                pass(2).await;
                return Ok(Next::Wait);
            }
            "again" => return Ok(Next::After(Duration::from_secs(30))),
            "at once" => return Ok(Next::After(Duration::ZERO)),
            "invalid" => return Err(WriteError::NoNamespace { kind: "ConfigMap".into(), name: "x".into() }),
            "hang" => std::future::pending().await,
            "lose" if lock(&self.failed).insert(note.name_any()) => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                scope.context().contact.lose();
            }
            _ => {}
        }
        let mut wanted = map(&note.spec.text);
        wanted.metadata.name = Some(note.name_any());
        scope.apply(maps, wanted).await?;
        scope.status(&NoteStatus { text: note.spec.text.clone() }).await?;
        Ok(Next::Wait)
    }

    fn finalizers(&self) -> &[&str] {
        self.finalizers
    }

    async fn cleanup(
        &self,
        finalizer: &str,
        scope: &Scope<'_, Note>,
        _: &Cache<ConfigMap>,
    ) -> Result<Next, WriteError> {
        lock(&self.reconciled).push(format!("{finalizer} of {}", scope.resource().name_any()));
        match &*scope.resource().spec.text {
            "tell" => {
                let text = format!("cleanup {}", lock(&self.reconciled).len());
                scope.status(&NoteStatus { text }).await?;
            }
            "slow" => pass(2).await,
            _ => {}
        }
        Ok(Next::Wait)
    }
}

/// Runs the reconciler for this many seconds.
async fn run(world: &World, notes: &Notes, seconds: u64) {
    let stop = async {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        world.context.shutdown.cancel();
    };
    let served = Box::new(Served::new(notes.clone()));
    let both = async { tokio::join!(served.run(world.context.clone()), stop).0 };
    tokio::time::timeout(Duration::from_secs(1000), both).await.expect("it comes to its end").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconciler_that_starts_ends_with_the_process_although_the_server_does_not_answer() {
    let world = World::new();
    world.server.slow_down(Duration::from_secs(3600));
    run(&world, &Notes::default(), 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_a_failure_delay_their_own_resource_only() {
    let world = World::new();
    for (name, text) in [("a", "panic"), ("b", "fail once"), ("c", "fine"), ("d", "ignored"), ("e", "again")] {
        world.add(name, text);
    }
    let notes = Notes::default();
    run(&world, &notes, 40).await;
    let count = |name: &str| lock(&notes.reconciled).iter().filter(|n| *n == name).count();
    assert_eq!(["a", "b", "c", "d", "e"].map(count), [7, 2, 1, 0, 2], "a is tried after 0.5, 1, 2, … s");
    for name in ["b", "c"] {
        assert!(world.server.object(&format!("/api/v1/namespaces/ns/configmaps/{name}")).is_some(), "{name}");
    }
    let panicked = "Warning Panicked: the reconciler panicked, which is a bug; the log has the message and place";
    assert_eq!(world.events("a"), [panicked]);
    let metrics = world.context.metrics.encode(Format::Classic);
    assert!(metrics.contains(r#"resource_created_at_seconds{group="example.com",kind="Note",name="c""#), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_terminal_failure_waits_for_a_change_a_slow_reconcile_is_stopped_and_none_spins() {
    let world = World::new();
    for (name, text) in [("a", "invalid"), ("b", "hang"), ("c", "at once")] {
        world.add(name, text);
    }
    let notes = Notes::default();
    run(&world, &notes, 70).await;
    let count = |name: &str| lock(&notes.reconciled).iter().filter(|n| *n == name).count();
    assert_eq!(["a", "b"].map(count), [1, 2]);
    assert!((600..=701).contains(&count("c")), "at most ten a second: {}", count("c"));
    assert_eq!(world.events("a"), [r#"Warning InvalidObject: ConfigMap "x" needs a namespace: its resource has none"#]);
    assert_eq!(world.events("b"), ["Warning Timeout: the reconcile took longer than 60s and was stopped"]);
}

#[tokio::test(start_paused = true)]
async fn a_backoff_of_nothing_does_not_spin() {
    let world = World::new();
    world.add("a", "fail");
    let notes = Notes { backoff: Some(Duration::ZERO), ..Notes::default() };
    run(&world, &notes, 10).await;
    let count = lock(&notes.reconciled).len();
    assert!((50..=101).contains(&count), "at most ten a second: {count}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_reported_in_other_words_each_time_does_not_spin() {
    let world = World::new().delivering();
    world.add("a", "count and fail");
    let notes = Notes::default();
    run(&world, &notes, 60).await;
    let count = lock(&notes.reconciled).len();
    assert!((5..=8).contains(&count), "after 0.5, 1, 2, … s: {count}");
    assert_eq!(world.note("a").unwrap()["status"]["text"], format!("attempt {count}"));
}

#[tokio::test(start_paused = true)]
async fn a_terminal_failure_in_other_words_each_time_does_not_spin_and_a_corrected_spec_does_not_wait() {
    let world = World::new().delivering();
    // Otherwise the clock would stand still while it spins.
    world.server.slow_down(Duration::from_millis(10));
    world.add("a", "count and stop");
    let notes = Notes::default();
    let story = async {
        pass(50).await;
        let count = lock(&notes.reconciled).len();
        assert!((5..=8).contains(&count), "after 0.5, 1, 2, … s: {count}");
        let mut corrected = world.note("a").unwrap();
        assert_eq!(corrected["status"]["text"], format!("attempt {count}"));
        (corrected["spec"]["text"], corrected["metadata"]["generation"]) = (json!("fine"), json!(2));
        world.server.put("/apis/example.com/v1/namespaces/ns/notes/a", corrected, "user");
        pass(2).await;
        let (note, map) = (world.note("a").unwrap(), world.server.object(MAP).expect("it did not wait"));
        assert_eq!(note["metadata"]["uid"], map["metadata"]["ownerReferences"][0]["uid"]);
        assert_eq!(note["status"]["text"], "fine");
    };
    tokio::join!(run(&world, &notes, 60), story);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_another_manager_writes_during_the_last_retry_is_seen() {
    let world = World::new().delivering();
    world.add("a", "fail once, then read");
    let story = async {
        pass(1).await;
        let mut told = world.note("a").unwrap();
        told["status"] = json!({"text": "theirs"});
        world.server.put("/apis/example.com/v1/namespaces/ns/notes/a", told, "other");
    };
    let notes = Notes::default();
    tokio::join!(run(&world, &notes, 20), story);
    assert_eq!(lock(&notes.reconciled).len(), 3, "the failure, the retry, and the status");
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_mapping_panics_belongs_to_nothing_and_stops_nothing() {
    let world = World::new();
    world.add("a", "one");
    for (namespace, name) in [("ns", "x"), ("other", "bomb"), ("ns", "y")] {
        let labels = if name == "bomb" { json!({}) } else { json!({"of": "a"}) };
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": namespace, "name": name, "labels": labels}});
        world.server.put(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}"), map, "user");
    }
    let mapping = |map: &ConfigMap| Some(key(&map.metadata.labels.as_ref().expect("a bug")["of"]));
    let notes = Notes { mapping: Some(mapping), ..Notes::default() };
    run(&world, &notes, 60).await;
    assert_eq!(*lock(&notes.reconciled), ["a"]);
    assert!(world.server.object(MAP).is_some());
    assert_eq!(world.events("a"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_began_before_all_watches_were_interrupted_writes_nothing() {
    let world = World::new();
    world.add("a", "lose");
    let notes = Notes::default();
    run(&world, &notes, 40).await;
    let writes: Vec<String> = world.asked().into_iter().filter(|line| line.starts_with("PATCH")).collect();
    assert_eq!((lock(&notes.reconciled).len(), writes.len()), (2, 2), "{writes:?}");
    assert_eq!(world.events("a"), Vec::<String>::new(), "an interruption is no failure");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_does_not_decode_is_reported_and_stops_no_other() {
    let world = World::new();
    world.add("a", "fine");
    let bad = json!({"apiVersion": "example.com/v1", "kind": "Note", "spec": {"text": 7},
        "metadata": {"name": "b", "namespace": "ns", "generation": 1}});
    world.server.put("/apis/example.com/v1/namespaces/ns/notes/b", bad, "user");
    let notes = Notes::default();
    run(&world, &notes, 1000).await;
    assert_eq!(*lock(&notes.reconciled), ["a"]);
    assert!(world.server.object(MAP).is_some());
    let cause = "spec.text: invalid type: integer, expected a string";
    let event = format!(
        "Warning Undecodable: the resource does not fit its type and is left alone until it is corrected: {cause}"
    );
    assert_eq!(world.events("b"), [event]);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_nests_too_deeply_is_reported_at_a_start_and_by_event_and_stops_no_other() {
    let world = World::new().delivering();
    let nest = |name: &str| {
        let deep = (0..200).fold(json!("text"), |inner, _| json!({"a": inner}));
        let note = json!({"apiVersion": "example.com/v1", "kind": "Note", "spec": {"text": deep},
            "metadata": {"name": name, "namespace": "ns", "generation": 1}});
        world.server.put(&format!("/apis/example.com/v1/namespaces/ns/notes/{name}"), note, "user");
    };
    nest("b");
    world.add("a", "fine");
    let story = async {
        pass(10).await;
        nest("d");
        world.add("c", "fine");
    };
    let notes = Notes::default();
    tokio::join!(run(&world, &notes, 60), story);
    let reconciled: BTreeSet<String> = lock(&notes.reconciled).iter().cloned().collect();
    assert_eq!(reconciled, BTreeSet::from(["a".to_owned(), "c".to_owned()]));
    for name in ["a", "c"] {
        let map = world.server.object(&format!("/api/v1/namespaces/ns/configmaps/{name}")).unwrap();
        let uid = &world.note(name).unwrap()["metadata"]["uid"];
        assert_eq!(&map["metadata"]["ownerReferences"][0]["uid"], uid, "{name}");
    }
    let event = "Warning Undecodable: the resource does not fit its type and is left alone until it is corrected: \
                 spec.text: invalid type: map, expected a string";
    for name in ["b", "d"] {
        let events = world.events(name);
        assert!(events.len() == 1 && events[0].starts_with(event), "{name}: {events:?}");
    }
}

/// Go has times that Rust's type does not, and whoever may write an object may set those of its managed fields.
#[tokio::test(start_paused = true)]
async fn a_time_beyond_those_of_rust_stops_nothing_at_a_start_or_by_event() {
    let world = World::new().delivering();
    let date = |path: &str, mut object: Value| {
        let entry = json!({"manager": "x", "operation": "Update", "apiVersion": object["apiVersion"],
            "time": "9999-12-31T23:59:59Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}});
        let version = (world.server.version() + 1).to_string();
        object["metadata"]["managedFields"] = json!([entry]);
        (object["metadata"]["resourceVersion"], object["metadata"]["uid"]) = (version.into(), path.into());
        world.server.restore(path, object);
    };
    let write = |dated: &str, plain: &str| {
        let metadata = json!({"name": dated, "namespace": "ns", "generation": 1});
        let note = json!({"apiVersion": "example.com/v1", "kind": "Note", "metadata": metadata, "spec": {"text": "x"}});
        date(&format!("/apis/example.com/v1/namespaces/ns/notes/{dated}"), note);
        let metadata = json!({"name": format!("other-{dated}"), "namespace": "ns"});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        date(&format!("/api/v1/namespaces/ns/configmaps/other-{dated}"), map);
        world.add(plain, "x");
    };
    write("a", "b");
    let story = async {
        pass(10).await;
        write("c", "d");
    };
    let notes = Notes::default();
    tokio::join!(run(&world, &notes, 60), story);
    for name in ["a", "b", "c", "d"] {
        let map = world.server.object(&format!("/api/v1/namespaces/ns/configmaps/{name}"));
        assert_eq!(map.unwrap()["data"]["text"], "x", "{name}");
        assert_eq!(world.note(name).unwrap()["status"]["text"], "x", "{name}");
        assert_eq!(world.events(name), Vec::<String>::new(), "{name}");
    }
}

/// Sets the time of what a user wrote of an object to one that Rust's type does not have.
fn date(world: &World, path: &str) {
    let mut object = world.server.object(path).unwrap();
    let entries = object["metadata"]["managedFields"].as_array_mut().unwrap();
    let users = entries.iter_mut().filter(|entry| entry["manager"] == "user");
    users.for_each(|entry| entry["time"] = "9999-12-31T23:59:59Z".into());
    object["metadata"]["resourceVersion"] = (world.server.version() + 1).to_string().into();
    world.server.restore(path, object);
}

#[tokio::test]
async fn an_object_with_a_time_beyond_those_of_rust_is_applied_and_deleted() {
    let world = World::new();
    let note = world.add("a", "one");
    let scope = Scope::new(&world.context, &note, MANAGER);
    let unseen = world.cached();
    scope.apply(&unseen, map("one")).await.unwrap();
    let seen = world.cached();
    let mut theirs = world.server.object(MAP).unwrap();
    theirs["data"]["more"] = "theirs".into();
    theirs["metadata"]["finalizers"] = json!(["example.com/theirs"]);
    world.server.put(MAP, theirs, "user");
    date(&world, MAP);
    assert_eq!(scope.apply(&unseen, map("two")).await.unwrap().change, Change::Updated);
    assert_eq!(world.server.object(MAP).unwrap()["data"], json!({"text": "two", "more": "theirs"}));
    world.asked();
    assert!(scope.delete(&seen, &key("a")).await.unwrap());
    assert_eq!(world.asked(), [format!("DELETE {MAP}"), format!("GET {MAP}"), format!("DELETE {MAP}")]);
    assert!(world.server.object(MAP).unwrap()["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_resource_with_a_time_beyond_those_of_rust_gets_its_finalizer_and_is_cleaned_up() {
    let world = World::new().delivering();
    let path = "/apis/example.com/v1/namespaces/ns/notes/a";
    world.add("a", "fine");
    date(&world, path);
    let notes = Notes { finalizers: &["example.com/note"], ..Notes::default() };
    let story = async {
        pass(10).await;
        let mut going = world.note("a").unwrap();
        assert_eq!(going["metadata"]["finalizers"], json!(["example.com/note"]));
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        world.server.put(path, going, "kubectl");
        let managed = world.note("a").unwrap()["metadata"]["managedFields"].to_string();
        assert!(managed.contains("9999-12-31T23:59:59Z"), "{managed}");
    };
    tokio::join!(run(&world, &notes, 40), story);
    assert_eq!((world.note("a"), world.events("a")), (None, Vec::<String>::new()));
    let mut done = lock(&notes.reconciled).clone();
    done.dedup();
    assert_eq!(done, ["a", "example.com/note of a"]);
}

/// Watches that end on request, with 410, so that the objects are listed again; or with 403, as do the lists of
/// ConfigMaps, while those are refused.
#[derive(Clone, Default)]
struct Watches {
    ended: Arc<tokio::sync::watch::Sender<u32>>,
    refused: Arc<AtomicBool>,
    /// The namespaces that are watched, of which the last is refused. Default: all.
    namespaces: &'static [&'static str],
}

impl Watches {
    fn end(&self) {
        self.ended.send_modify(|count| *count += 1);
    }

    fn client(&self, server: &Arc<MemoryApi>, asked: &Requests) -> kube::Client {
        let (watches, inner) = (self.clone(), client(server, asked));
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (watches, inner) = (watches.clone(), inner.clone());
            let uri = request.uri().to_string();
            async move {
                let place = watches.namespaces.last().map(|namespace| format!("/namespaces/{namespace}"));
                let path = format!("{}/configmaps?", place.unwrap_or_default());
                let is_refused = || watches.refused.load(Ordering::SeqCst) && uri.contains(&path);
                let is_watch = uri.contains("watch=true");
                if is_watch && !is_refused() {
                    _ = watches.ended.subscribe().changed().await;
                }
                let code = if is_refused() { 403 } else { 410 };
                if !is_watch && code == 410 {
                    return inner.send(request).await;
                }
                let status =
                    json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "X"});
                let response = http::Response::builder().status(code).body(status.to_string().into_bytes().into());
                Ok(response.unwrap())
            }
        });
        kube::Client::new(service, "default")
    }

    fn world(&self) -> World {
        let world = World::new();
        let namespaces = Namespaces(self.namespaces.iter().map(|name| (*name).to_owned()).collect());
        let (config, shutdown) = (ControllerConfig { namespaces, ..Default::default() }, CancellationToken::new());
        let connection = self.client(&world.server, &world.asked);
        let context = Context::new(connection, config, Metrics::default(), shutdown).for_controller(MANAGER);
        World { context, ..world }
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_on_a_cache_whose_watch_is_refused() {
    let watches = Watches::default();
    let world = watches.world();
    world.add("a", "one");
    let text = || world.server.object(MAP).unwrap()["data"]["text"].clone();
    let story = async {
        pass(10).await;
        assert_eq!(text(), "one");
        watches.refused.store(true, Ordering::SeqCst);
        watches.end();
        pass(60).await;
        world.add("a", "two");
        watches.end();
        pass(60).await;
        assert_eq!(text(), "one");
        let why = "Warning WatchRefused: cannot list and watch ConfigMap (v1) in the whole cluster, so what is cached \
                   may be outdated: nothing is done until it has been listed again";
        assert_eq!(world.events("a"), [why]);
        watches.refused.store(false, Ordering::SeqCst);
        pass(60).await;
        assert_eq!(text(), "two", "it continues");
    };
    let notes = Notes::default();
    tokio::join!(run(&world, &notes, 300), story);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_whose_watch_is_refused_stops_only_its_own_resources() {
    for from_the_start in [false, true] {
        let watches = Watches { namespaces: &["ns", "b"], ..Watches::default() };
        let world = watches.world();
        watches.refused.store(from_the_start, Ordering::SeqCst);
        let write = |text: &str| _ = (world.add("a", text), world.add_in("b", "other", text));
        let text = |path: &str| world.server.object(path).map(|map| map["data"]["text"].clone());
        let texts = || (text(MAP), text("/api/v1/namespaces/b/configmaps/other"));
        let story = async {
            write("one");
            pass(10).await;
            let before = (!from_the_start).then(|| json!("one"));
            assert_eq!(texts(), (Some(json!("one")), before.clone()));
            watches.refused.store(true, Ordering::SeqCst);
            watches.end();
            pass(60).await;
            write("two");
            watches.end();
            pass(60).await;
            assert_eq!(texts(), (Some(json!("two")), before));
            let events = world.events("other");
            assert!(events.len() == 1 && events[0].contains("ConfigMap (v1) in namespace b,"), "{events:?}");
            assert_eq!(world.events("a"), Vec::<String>::new());
            watches.refused.store(false, Ordering::SeqCst);
            pass(60).await;
            assert_eq!(texts(), (Some(json!("two")), Some(json!("two"))), "it continues");
        };
        let notes = Notes::default();
        tokio::join!(run(&world, &notes, 300), story);
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_lost_in_a_restore_from_a_backup_is_written_again() {
    let watches = Watches::default();
    let world = watches.world();
    world.add("a", "one");
    let backup = world.note("a").unwrap();
    let notes = Notes { ignores_status: true, mapping: Some(|_| None), ..Notes::default() };
    let count = || lock(&notes.reconciled).len();
    let status = || world.note("a").unwrap()["status"]["text"].clone();
    let story = async {
        pass(10).await;
        watches.end();
        pass(60).await;
        assert_eq!((status(), count()), (json!("one"), 1), "its own status is no change");
        world.server.restore("/apis/example.com/v1/namespaces/ns/notes/a", backup.clone());
        assert_eq!(status(), json!(null));
        watches.end();
        pass(60).await;
        assert_eq!((status(), count()), (json!("one"), 2));
        assert_eq!(world.note("a").unwrap()["metadata"]["uid"], backup["metadata"]["uid"]);
    };
    tokio::join!(run(&world, &notes, 200), story);
}

#[tokio::test(start_paused = true)]
async fn a_new_owner_is_noticed_where_the_status_is_ignored() {
    let world = World::new().delivering();
    world.add("a", "one");
    let notes = Notes { ignores_status: true, mapping: Some(|_| None), ..Notes::default() };
    let count = || lock(&notes.reconciled).len();
    let story = async {
        pass(5).await;
        assert_eq!(count(), 1, "its own status is no change");
        let mut owned = world.note("a").unwrap();
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o"});
        owned["metadata"]["ownerReferences"] = json!([owner]);
        world.server.put("/apis/example.com/v1/namespaces/ns/notes/a", owned, "user");
        pass(5).await;
        assert_eq!(count(), 2);
    };
    tokio::join!(run(&world, &notes, 20), story);
}

#[tokio::test]
async fn objects_in_their_own_namespace_belong_to_no_resource_elsewhere() {
    let world = World::new();
    let (note, elsewhere) = (world.add("a", "one"), world.add_in("other", "a", "one"));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
    world.server.put(MAP, map, "user");
    let belonging = async |is_own: bool| {
        let mut watching = Watching::new(Stores::of(&world.context), settings::Settings::<Note>::new(&world.context));
        let objects = watching.objects("");
        let objects = if is_own { objects.in_own_namespace() } else { objects };
        let cache: Cache<ConfigMap> = objects.mapped(|_| [key("a"), ResourceKey::new("other", "a")]);
        cache.store().listed(store::Reach::Everywhere).wait().await;
        [&note, &elsewhere].map(|note| cache.of(&**note).len())
    };
    assert_eq!((belonging(false).await, belonging(true).await), ([1, 1], [1, 0]));
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_resource_is_forgotten_with_its_deletion() {
    let watches = Watches::default();
    let world = watches.world();
    let path = "/apis/example.com/v1/namespaces/ns/notes/b";
    let put = || {
        let bad = json!({"apiVersion": "example.com/v1", "kind": "Note", "spec": {"text": 7},
            "metadata": {"name": "b", "namespace": "ns", "generation": 1}});
        world.server.remove(path);
        world.server.put(path, bad, "user");
    };
    let story = async {
        put();
        pass(10).await;
        assert_eq!(world.events("b").len(), 1);
        put();
        watches.end();
        pass(60).await;
        assert_eq!(world.events("b").len(), 2, "another one under its name");
    };
    let notes = Notes::default();
    tokio::join!(run(&world, &notes, 100), story);
}

/// It would look as if it did not exist. The next attempt would otherwise follow after half a minute.
#[tokio::test(start_paused = true)]
async fn a_resource_whose_object_does_not_decode_waits_until_that_is_corrected_or_deleted() {
    for is_corrected in [true, false] {
        let world = World::new().delivering();
        let note = world.add("a", "fine");
        world.add("b", "fine");
        Scope::new(&world.context, &note, MANAGER).apply(&world.cached(), map("fine")).await.unwrap();
        let good = world.server.object(MAP).unwrap();
        let mut wrong = good.clone();
        wrong["data"]["text"] = 7.into();
        world.server.put(MAP, wrong, "user");
        let wrong = world.server.object(MAP).unwrap();
        let notes = Notes::default();
        let reconciled = |name: &str| lock(&notes.reconciled).iter().filter(|known| *known == name).count();
        let story = async {
            pass(100).await;
            assert!(reconciled("a") == 0 && reconciled("b") > 0);
            assert_eq!(world.server.object(MAP).unwrap(), wrong, "it is left alone");
            let why = "Warning OwnedUndecodable: an object that the resource owns does not fit its type, so it would look as \
                       if it did not exist: nothing is done until it is corrected or deleted: ConfigMap ns/a: data.text: \
                       invalid type: integer, expected a string";
            assert_eq!(world.events("a"), [why]);
            match is_corrected {
                true => world.server.put(MAP, good, "user"),
                false => world.server.remove(MAP),
            }
            pass(1).await;
            assert!(reconciled("a") > 0);
            let is_same = world.server.object(MAP).unwrap()["metadata"]["uid"] == wrong["metadata"]["uid"];
            assert_eq!(is_same, is_corrected);
        };
        tokio::join!(run(&world, &notes, 110), story);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_cleaned_up_while_an_owned_object_does_not_decode_unless_the_reconciler_allows_it() {
    for (namespace, allows_undecodable, is_cleaned) in
        [("ns", false, false), ("ns", true, true), ("other", false, true)]
    {
        let world = World::new();
        let note = json!({"apiVersion": "example.com/v1", "kind": "Note", "spec": {"text": "fine"},
            "metadata": {"name": "a", "namespace": "ns", "generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": ["other", "example.com/note"]}});
        world.server.put("/apis/example.com/v1/namespaces/ns/notes/a", note, "user");
        let uid = world.note("a").unwrap()["metadata"]["uid"].clone();
        let owner = json!({"apiVersion": "example.com/v1", "kind": "Note", "name": "a", "uid": uid});
        let metadata = json!({"name": "x", "namespace": namespace, "ownerReferences": [owner]});
        let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": 7}});
        world.server.put(&format!("/api/v1/namespaces/{namespace}/configmaps/x"), wrong, "user");
        let notes = Notes { finalizers: &["example.com/note"], allows_undecodable, ..Notes::default() };
        run(&world, &notes, 1).await;
        let left = if is_cleaned { json!(["other"]) } else { json!(["other", "example.com/note"]) };
        assert_eq!(world.note("a").unwrap()["metadata"]["finalizers"], left, "{namespace} {allows_undecodable}");
        assert_eq!(lock(&notes.reconciled).is_empty(), !is_cleaned);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_resource_has_no_timer() {
    let world = World::new();
    let (context, serving, queue) = serving_shard(&world, &Notes::default());
    queue.push_after(key("gone"), Duration::from_secs(30 * 24 * 3600));
    let permit = context.concurrency.for_controller(1).permit(Priority::Normal).await;
    assert_eq!(serving.reconcile(&key("gone"), &permit).await, ReconcileResult::Success);
    assert_eq!(queue.timers(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_resource_is_cleaned_up_after_by_every_finalizer_even_if_it_is_filtered_out() {
    let world = World::new();
    let path = "/apis/example.com/v1/namespaces/ns/notes/a";
    let note = json!({"apiVersion": "example.com/v1", "kind": "Note", "spec": {"text": "ignored"},
        "metadata": {"name": "a", "namespace": "ns", "generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["example.com/two", "other", "example.com/one"]}});
    world.server.put(path, note, "user");
    let notes = Notes { finalizers: &["example.com/one", "example.com/two"], ..Notes::default() };
    let mut server = world.server;
    for left in [json!(["example.com/two", "other"]), json!(["other"]), json!(["other"])] {
        let world = World::on(server);
        run(&world, &notes, 1).await;
        assert_eq!(world.note("a").unwrap()["metadata"]["finalizers"], left);
        server = world.server;
    }
    assert_eq!(*lock(&notes.reconciled), ["example.com/one of a", "example.com/two of a"]);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_set_before_the_first_reconcile_and_removed_after_the_cleanup() {
    let world = World::new();
    world.add("a", "fine");
    let notes = Notes { finalizers: &["example.com/note"], ..Notes::default() };
    run(&world, &notes, 1).await;
    assert_eq!(world.note("a").unwrap()["metadata"]["finalizers"], json!(["example.com/note"]));
    assert!(lock(&notes.reconciled).is_empty(), "the resource's event starts the first reconcile");
    let path = "/apis/example.com/v1/namespaces/ns/notes/a";
    let mut going = world.note("a").unwrap();
    going["metadata"]["finalizers"] = json!(["other", "example.com/note"]);
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.server.put(path, going, "user");
    let world = World::on(world.server);
    run(&world, &notes, 1).await;
    assert_eq!(*lock(&notes.reconciled), ["example.com/note of a"]);
    assert_eq!(world.note("a").unwrap()["metadata"]["finalizers"], json!(["other"]));
}

/// No event follows a write that changed nothing.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_the_server_drops_is_a_failure_and_tried_again_after_growing_pauses() {
    let world = World::new().delivering();
    world.add("a", "fine");
    let patches = Arc::new(Mutex::new(0));
    let count = patches.clone();
    world.server.refuse(move |call| {
        if call.method == http::Method::PATCH && call.path.contains("/notes/a") {
            *lock(&count) += 1;
        }
        None
    });
    world.server.change(|server| {
        server.mutate(|_, object| {
            object["metadata"].as_object_mut().unwrap().remove("finalizers");
        });
    });
    let notes = Notes { finalizers: &["example.com/note"], ..Notes::default() };
    run(&world, &notes, 40).await;
    let tried = *lock(&patches);
    assert!((5..=8).contains(&tried), "after 0.5, 1, 2, … s: {tried}");
    assert!(lock(&notes.reconciled).is_empty());
    let why = "Warning FinalizerFailed: the API server stores the resource without the finalizer \"example.com/note\", \
               which a webhook may remove: nothing is done until the finalizer stays";
    assert_eq!(world.events("a"), [why]);
}

/// A finalizer that is put back during a deletion is accepted, and no event follows either.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_the_server_keeps_is_a_failure_and_tried_again_after_growing_pauses() {
    let world = World::new().delivering();
    let note = json!({"apiVersion": "example.com/v1", "kind": "Note", "spec": {"text": "fine"},
        "metadata": {"name": "a", "namespace": "ns", "generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["example.com/note"]}});
    world.server.put("/apis/example.com/v1/namespaces/ns/notes/a", note, "user");
    world.server.change(|server| {
        server.mutate(|_, object| {
            if object["metadata"]["deletionTimestamp"].is_string() {
                object["metadata"]["finalizers"] = json!(["example.com/note"]);
            }
        });
    });
    let notes = Notes { finalizers: &["example.com/note"], ..Notes::default() };
    run(&world, &notes, 40).await;
    let cleaned = lock(&notes.reconciled).len();
    assert!((5..=8).contains(&cleaned), "after 0.5, 1, 2, … s: {cleaned}");
    let why = "Warning FinalizerFailed: the API server accepts the removal of the finalizer \"example.com/note\" and \
               stores the resource with it, which a webhook may cause: the cleanup is repeated until the finalizer goes";
    assert_eq!(world.events("a"), [why]);
}

/// A process whose watches deliver, or do not in time, while the cleanup or another manager writes.
#[tokio::test(start_paused = true)]
async fn a_cleanup_is_repeated_after_a_change_of_the_spec_and_after_no_other_write() {
    let path = "/apis/example.com/v1/namespaces/ns/notes/a";
    for (text, generation, delivers, cleanups, status) in [
        ("tell", 1, false, 1, "cleanup 1"),
        ("tell", 1, true, 1, "cleanup 1"),
        ("slow", 1, false, 1, "theirs"),
        ("slow", 1, true, 1, "theirs"),
        ("slow", 2, true, 2, "theirs"),
    ] {
        let case = format!("{text} {generation} {delivers}");
        let mut world = World::new();
        if delivers {
            world = world.delivering();
        }
        let note = json!({"apiVersion": "example.com/v1", "kind": "Note", "spec": {"text": text},
            "metadata": {"name": "a", "namespace": "ns", "generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": ["other", "example.com/note"]}});
        world.server.put(path, note, "user");
        let uid = world.note("a").unwrap()["metadata"]["uid"].clone();
        let story = async {
            pass(1).await;
            if text == "slow" {
                let mut told = world.note("a").unwrap();
                told["status"] = json!({"text": "theirs"});
                told["metadata"]["generation"] = generation.into();
                world.server.put(path, told, "other");
            }
        };
        let notes = Notes { finalizers: &["example.com/note"], ..Notes::default() };
        tokio::join!(run(&world, &notes, 10), story);
        assert_eq!(*lock(&notes.reconciled), vec!["example.com/note of a"; cleanups], "{case}");
        let left = world.note("a").unwrap();
        assert_eq!(left["metadata"]["finalizers"], json!(["other"]), "{case}");
        assert_eq!((&left["metadata"]["uid"], &left["status"]["text"]), (&uid, &json!(status)), "{case}");
        assert_eq!(world.events("a"), Vec::<String>::new(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_does_not_block_the_shutdown() {
    run(&World::on(Arc::new(MemoryApi::new())), &Notes::default(), 5).await;
}

/// A cluster-scoped kind.
#[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Shelf", plural = "shelves")]
struct ShelfSpec {}

#[tokio::test]
async fn a_cluster_scoped_resource_owns_objects_in_the_cluster_and_in_any_namespace() {
    let world = World::new();
    world.server.serve_cluster_scoped("example.com/v1", "Shelf", "shelves");
    let mut shelf = Shelf::new("main", ShelfSpec {});
    shelf.metadata.uid = Some("shelf".into());
    let shelf = Arc::new(shelf);
    let scope = Scope::new(&world.context, &shelf, MANAGER);
    let none: Cache<ConfigMap> = Cache::with([], |_| None);
    assert_eq!(scope.apply(&none, map("one")).await.unwrap_err().reason(), "InvalidObject", "no namespace");
    let mut placed = map("one");
    placed.metadata.namespace = Some("ns".into());
    let applied = scope.apply(&none, placed).await.unwrap();
    assert_eq!(applied.object.owner_references()[0].uid, "shelf");
    let shelves: Cache<Shelf> = Cache::with([], |_| None);
    scope.apply(&shelves, Shelf::new("part", ShelfSpec {})).await.unwrap();
    let part = world.server.object("/apis/example.com/v1/shelves/part").unwrap();
    assert_eq!(part["metadata"]["ownerReferences"][0]["uid"], "shelf");
    let note = world.add("a", "one");
    let refused = Scope::new(&world.context, &note, MANAGER).apply(&shelves, Shelf::new("x", ShelfSpec {})).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.to_string(), r#"Shelf "x" is cluster-scoped: Note cannot own it"#);
    assert!(refused.is_terminal());
}

/// No cache contains objects there, so they would be written in each reconcile and never deleted.
#[tokio::test]
async fn a_cluster_scoped_resource_owns_nothing_in_a_namespace_that_is_not_watched() {
    let world = World::new();
    let (namespaces, shutdown) = (Namespaces::parse("ns"), CancellationToken::new());
    let config = ControllerConfig { namespaces, ..ControllerConfig::default() };
    let context = Context::new(client(&world.server, &world.asked), config, Metrics::default(), shutdown);
    let mut shelf = Shelf::new("main", ShelfSpec {});
    shelf.metadata.uid = Some("shelf".into());
    let shelf = Arc::new(shelf);
    let scope = Scope::new(&context, &shelf, MANAGER);
    let none: Cache<ConfigMap> = Cache::with([], |_| None);
    let placed = |namespace: &str, ownership| {
        let mut placed = map("one");
        placed.metadata.namespace = Some(namespace.into());
        Apply::from(placed).owned(ownership)
    };
    for ownership in [Ownership::Controller, Ownership::Owner] {
        let refused = scope.apply(&none, placed("other", ownership)).await.unwrap_err();
        assert_eq!((refused.reason(), refused.is_terminal(), world.asked()), ("NotWatched", false, vec![]));
    }
    scope.apply(&none, placed("other", Ownership::None)).await.unwrap();
    scope.apply(&none, placed("ns", Ownership::Controller)).await.unwrap();
}

#[tokio::test]
async fn a_controller_reference_leads_to_a_resource_in_a_namespace_or_in_the_cluster() {
    let owned = |kind: &str, namespace: Option<&str>| -> ConfigMap {
        let owner = json!({"apiVersion": "example.com/v1", "kind": kind, "name": "o", "uid": "1", "controller": true});
        let metadata = json!({"name": "a", "namespace": namespace, "ownerReferences": [owner]});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    };
    assert_eq!(kind::owner::<Note, ConfigMap>(&owned("Note", Some("ns"))), Some(ResourceKey::new("ns", "o")));
    assert_eq!(kind::owner::<Shelf, ConfigMap>(&owned("Shelf", Some("ns"))), Some(ResourceKey::new("", "o")));
    assert_eq!(kind::owner::<Shelf, ConfigMap>(&owned("Note", Some("ns"))), None);
}

#[tokio::test]
async fn an_object_may_be_applied_without_owner_beside_others_or_as_a_trial() {
    let world = World::new();
    let note = world.add("a", "one");
    let scope = Scope::new(&world.context, &note, "controller");
    let theirs = json!({"metadata": {"name": "a", "namespace": "ns"}, "data": {"text": "theirs", "more": "theirs"}});
    world.server.put(MAP, theirs, "user");
    let data = || world.server.object(MAP).unwrap()["data"].clone();
    let shared = || Apply::from(map("ours")).owned(Ownership::None);
    let trial = scope.apply(&world.cached(), shared().dry_run()).await.unwrap();
    assert_eq!(trial.object.data.as_ref().unwrap()["text"], "ours");
    assert_eq!(data()["text"], "theirs", "nothing was written");
    let refused = scope.apply(&world.cached(), shared().on_conflict(Conflicts::Fail)).await.unwrap_err();
    assert_eq!((refused.reason(), data()["text"].as_str()), ("WriteFailed", Some("theirs")));
    let applied = scope.apply(&world.cached(), shared()).await.unwrap();
    assert_eq!(data(), json!({"text": "ours", "more": "theirs"}));
    assert!(applied.object.owner_references().is_empty());
    let beside = scope.apply(&world.cached(), Apply::from(map("ours")).owned(Ownership::Owner)).await.unwrap();
    let owner = &beside.object.owner_references()[0];
    assert_eq!((&*owner.name, owner.controller), ("a", None));
}

#[tokio::test]
async fn an_object_of_several_resources_has_a_reference_to_each_whoever_writes_it() {
    let world = World::new();
    let notes = [world.add("a", "one"), world.add("b", "one")];
    let scopes = notes.each_ref().map(|note| Scope::new(&world.context, note, "controller"));
    let shared = |ownership| Apply::from(map("ours")).owned(ownership);
    let owners = || {
        let owners = world.server.object(MAP).unwrap()["metadata"]["ownerReferences"].clone();
        let names = owners.as_array().into_iter().flatten().map(|owner| owner["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let empty = world.cached();
    let trial = scopes[0].apply(&empty, shared(Ownership::Owner).dry_run()).await.unwrap();
    assert_eq!(trial.object.owner_references()[0].name, "a");
    for (scope, change) in scopes.iter().zip([Change::Created, Change::Updated]) {
        let applied = scope.apply(&empty, shared(Ownership::Owner)).await.unwrap();
        assert_eq!(applied.change, change, "neither sees the other's write in its cache");
    }
    assert_eq!(owners(), ["a", "b"]);
    world.asked();
    for scope in &scopes {
        let again = scope.apply(&world.cached(), shared(Ownership::Owner)).await.unwrap();
        assert_eq!((again.change, world.asked()), (Change::Unchanged, vec![]));
    }
    let left = scopes[0].apply(&world.cached(), shared(Ownership::None)).await.unwrap();
    assert_eq!((left.change, owners()), (Change::Updated, vec!["b".into()]));
    let again = scopes[0].apply(&world.cached(), shared(Ownership::None)).await.unwrap();
    assert_eq!(again.change, Change::Unchanged);
}

/// The garbage collector would delete it with its first owner.
#[tokio::test]
async fn an_object_that_somebody_made_gets_no_owner_unless_it_has_one_or_the_reconciler_has_applied_it() {
    let theirs = json!({"metadata": {"name": "a", "namespace": "ns"}, "data": {"text": "theirs"}});
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "1"});
    let mut owned = theirs.clone();
    owned["metadata"]["ownerReferences"] = json!([owner]);
    for (live, is_cached, applied_as, expected) in [
        (&theirs, true, None, Err("ObjectConflict")),
        (&theirs, false, None, Err("ObjectConflict")),
        (&theirs, true, Some("other"), Err("ObjectConflict")),
        (&theirs, true, Some(FORMER[0]), Ok(1)),
        (&theirs, false, Some(MANAGER), Ok(1)),
        (&owned, true, None, Ok(2)),
        (&owned, false, None, Ok(2)),
    ] {
        let world = World::new();
        let (note, empty) = (world.add("a", "one"), world.cached());
        world.server.put(MAP, live.clone(), "user");
        if let Some(manager) = applied_as {
            let scope = Scope::new(&world.context, &note, manager);
            scope.apply(&world.cached(), Apply::from(map("one")).owned(Ownership::None)).await.unwrap();
        }
        let before = world.server.object(MAP).unwrap();
        let scope = Scope::new(&world.context, &note, MANAGER).formerly(FORMER);
        let cache = if is_cached { world.cached() } else { empty };
        let applied = scope.apply(&cache, Apply::from(map("ours")).owned(Ownership::Owner)).await;
        let owners = applied.map(|applied| applied.object.owner_references().len()).map_err(|error| error.reason());
        assert_eq!(owners, expected, "{applied_as:?} {is_cached}");
        let live = world.server.object(MAP).unwrap();
        assert_eq!(live == before, expected.is_err(), "{live}");
    }
}

#[tokio::test]
async fn a_conflict_ends_when_the_foreign_object_goes() {
    let world = World::new();
    let (note, other) = (world.add("a", "one"), world.add("b", "one"));
    Scope::new(&world.context, &other, MANAGER).apply(&world.cached(), map("others")).await.unwrap();
    let foreign: ConfigMap = serde_json::from_value(world.server.object(MAP).unwrap()).unwrap();
    let store = Arc::new(store::Store::with([foreign.clone()]));
    let woken = Arc::new(Mutex::new(Vec::new()));
    let noted = woken.clone();
    let index = cache::Index::new(kind::owner::<Note, ConfigMap>, move |key, _, _| lock(&noted).push(key));
    let cache = Cache::new(store.clone(), index);
    lock(&woken).clear();
    let scope = Scope::new(&world.context, &note, MANAGER);
    assert_eq!(scope.apply(&cache, map("one")).await.unwrap_err().reason(), "ObjectConflict");
    assert!(lock(&woken).is_empty());
    store.remove(&decoded::Decoded::Valid(foreign));
    assert_eq!(*lock(&woken), [ResourceKey::new("ns", "b"), ResourceKey::new("ns", "a")]);
}

#[tokio::test]
async fn a_conflict_ends_with_the_foreign_object_whatever_changes_matter() {
    let world = World::new();
    let (note, other) = (world.add("a", "one"), world.add("b", "one"));
    Scope::new(&world.context, &other, MANAGER).apply(&world.cached(), map("others")).await.unwrap();
    let settings = settings::Settings::<Note>::new(&world.context);
    let queue = settings.queue.clone();
    settings.known.add(&key("a"));
    queue.open();
    let data = |map: Option<&ConfigMap>| map.and_then(|map| map.data.clone());
    let mut watching = Watching::new(Stores::of(&world.context), settings);
    let cache = watching.objects("").when(move |before, now| data(before) != data(now)).owned();
    let foreign: ConfigMap = serde_json::from_value(world.server.object(MAP).unwrap()).unwrap();
    cache.store().listed(store::Reach::Everywhere).wait().await;
    let scope = Scope::new(&world.context, &note, MANAGER);
    assert_eq!(scope.apply(&cache, map("one")).await.unwrap_err().reason(), "ObjectConflict");
    assert_eq!(queue.sizes().waiting, 0);
    cache.store().remove(&decoded::Decoded::Valid(foreign));
    assert_eq!(queue.sizes().waiting, 1);
}

#[tokio::test(start_paused = true)]
async fn a_shard_reconciles_what_bears_its_name_and_gives_up_what_is_drained_in_one_write() {
    let world = World::new();
    let (shard, drain) = ("shard.alpha.sharding.timebertt.dev/ring", "drain.alpha.sharding.timebertt.dev/ring");
    for (name, labels) in [
        ("ours", json!({shard: "a"})),
        ("others", json!({shard: "b"})),
        ("nobodys", json!({})),
        ("drained", json!({shard: "a", drain: "true", "x": "y"})),
    ] {
        world.add(name, "fine");
        let mut note = world.note(name).unwrap();
        note["metadata"]["labels"] = labels;
        world.server.put(&format!("/apis/example.com/v1/namespaces/ns/notes/{name}"), note, "user");
    }
    let mut undecodable = world.note("drained").unwrap();
    undecodable["metadata"] = json!({"name": "undecodable", "namespace": "ns", "labels": {shard: "a", drain: "true"}});
    undecodable["spec"]["text"] = 7.into();
    world.server.put("/apis/example.com/v1/namespaces/ns/notes/undecodable", undecodable, "user");
    let ring = crate::shards::Ring::new("ring", Some("a")).unwrap();
    let config = ControllerConfig { ring: Some(ring), ..ControllerConfig::default() };
    let context = Context::new(client(&world.server, &world.asked), config, Metrics::default(), Default::default());
    let world = World { context: context.for_controller(MANAGER), ..world };
    let notes = Notes::default();
    run(&world, &notes, 5).await;
    assert_eq!(*lock(&notes.reconciled), ["ours"]);
    assert!(world.server.object("/api/v1/namespaces/ns/configmaps/ours").is_some(), "the client of a reconcile writes");
    assert_eq!(world.note("drained").unwrap()["metadata"]["labels"], json!({"x": "y"}));
    let left = world.note("undecodable").unwrap()["metadata"]["labels"].clone();
    assert!(left.as_object().is_none_or(serde_json::Map::is_empty), "{left}");
    assert_eq!(world.events("undecodable"), Vec::<String>::new());
    let asked = lock(&world.asked).clone();
    assert_eq!(
        asked.iter().filter(|line| line.starts_with("PATCH") && line.contains("/drained")).count(),
        1,
        "{asked:?}"
    );
    let selected = "labelSelector=shard.alpha.sharding.timebertt.dev%2Fring%3Da";
    assert!(asked.iter().any(|line| line.contains("/notes?") && line.contains(selected)), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shard_cleans_up_only_what_a_fresh_read_still_shows_as_deleted_and_its_own() {
    let world = World::new();
    let ring = crate::shards::Ring::new("ring", Some("a")).unwrap();
    let config = ControllerConfig { ring: Some(ring), ..ControllerConfig::default() };
    let notes = Notes { finalizers: &["example.com/one"], ..Notes::default() };
    for (shard, cleaned) in [("b", false), ("a", true)] {
        let context =
            Context::new(client(&world.server, &world.asked), config.clone(), Metrics::default(), Default::default());
        let context = context.for_controller(MANAGER);
        let note = json!({"apiVersion": "example.com/v1", "kind": "Note", "spec": {"text": "fine"},
            "metadata": {"name": "n", "namespace": "ns", "generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z",
                "uid": "u", "finalizers": ["example.com/one"],
                "labels": {"shard.alpha.sharding.timebertt.dev/ring": "a"}}});
        let path = "/apis/example.com/v1/namespaces/ns/notes/n";
        world.server.put(path, note, "user");
        // The cache has an older state than the server.
        let mut live = world.server.object(path).unwrap();
        let cached: Arc<Note> = Arc::new(serde_json::from_value(live.clone()).unwrap());
        live["metadata"]["labels"]["shard.alpha.sharding.timebertt.dev/ring"] = shard.into();
        world.server.put(path, live, "user");
        let mut watching = watching::Watching::new(Stores::of(&context), settings::Settings::new(&context));
        let caches = notes.watch(&mut watching);
        let (resources, settings, _) = watching.resources();
        let serving = serving::Serving::new(context.clone(), Served::new(notes.clone()), caches, resources, settings);
        assert!(serving.work(&context, &cached).await.is_ok());
        assert_eq!(!lock(&notes.reconciled).is_empty(), cleaned, "{shard}");
    }
}

/// Returns the handles of the shard `a`.
fn context_of_shard(world: &World) -> Context {
    let ring = Some(crate::shards::Ring::new("ring", Some("a")).unwrap());
    let config = ControllerConfig { ring, ..ControllerConfig::default() };
    let context = Context::new(client(&world.server, &world.asked), config, Metrics::default(), Default::default());
    context.for_controller(MANAGER)
}

/// Returns what serves notes in the shard `a`, with an empty cache, and the queue's timers.
fn serving_shard(world: &World, notes: &Notes) -> (Context, serving::Serving<Notes>, Arc<Queue<ResourceKey>>) {
    let context = context_of_shard(world);
    let (serving, queue, _) = serving_in(&context, notes);
    (context, serving, queue)
}

/// Returns what serves notes beside the process's other controllers, its queue and its shard.
fn serving_in(
    context: &Context,
    notes: &Notes,
) -> (serving::Serving<Notes>, Arc<Queue<ResourceKey>>, crate::shards::Shard) {
    let mut watching = watching::Watching::new(Stores::of(context), settings::Settings::new(context));
    let caches = notes.watch(&mut watching);
    let (resources, settings, _) = watching.resources();
    let (queue, shard) = (settings.queue.clone(), settings.shard.clone().unwrap());
    let serving = serving::Serving::new(context.clone(), Served::new(notes.clone()), caches, resources, settings);
    (serving, queue, shard)
}

/// Stores a note whose status has just changed; returns it as an outdated cache has it, without that status.
fn before_its_status(world: &World, mut note: Value) -> Arc<Note> {
    let path = "/apis/example.com/v1/namespaces/ns/notes/n";
    world.server.put(path, note.clone(), "user");
    let cached = serde_json::from_value(world.server.object(path).unwrap()).unwrap();
    note["status"] = json!({"text": "seven"});
    world.server.put(path, note, "other");
    Arc::new(cached)
}

/// The event of a status is not always queued, so nothing may wait for it.
#[tokio::test(start_paused = true)]
async fn a_write_that_meets_a_new_status_is_tried_again_without_an_event() {
    let world = World::new();
    let notes = Notes { finalizers: &["example.com/one"], ..Notes::default() };
    let (context, serving, queue) = serving_shard(&world, &notes);
    let labels =
        json!({"shard.alpha.sharding.timebertt.dev/ring": "a", "drain.alpha.sharding.timebertt.dev/ring": "x"});
    let note = |labels: Value| {
        json!({"apiVersion": "example.com/v1", "kind": "Note", "spec": {"text": "fine"},
            "metadata": {"name": "n", "namespace": "ns", "generation": 1, "uid": "u", "labels": labels}})
    };
    let cached = before_its_status(&world, note(json!({})));
    let next = serving.work(&context, &cached).await.ok();
    assert_eq!(next, Some(Next::After(Duration::from_secs(1))), "the finalizer is not set yet");

    let (cached, key) = (before_its_status(&world, note(labels)), ResourceKey::new("ns", "n"));
    let shard = crate::shards::Shard::new(crate::shards::Ring::new("ring", Some("a")).unwrap());
    assert_eq!(serving.give_up(&shard, &key, &cached.metadata).await, ReconcileResult::RequeueAfter);
    assert_eq!(queue.timers(), 1);
}

/// Watches lag: the event of a status that the removal of the finalizer met comes after the finalizer has gone. A second
/// cleanup would read that status, so the first one is repeated.
#[tokio::test(start_paused = true)]
async fn a_late_event_of_a_write_that_the_last_release_met_repeats_no_cleanup() {
    let cases: [(&'static [&'static str], &[&str]); 2] = [
        (&["example.com/one"], &["other"]),
        (&["example.com/one", "example.com/two"], &["other", "example.com/one", "example.com/two"]),
    ];
    for (finalizers, left) in cases {
        let world = World::new();
        let notes = Notes { finalizers, ..Notes::default() };
        let all: Vec<&str> = ["other"].iter().chain(finalizers).copied().collect();
        let note = json!({"apiVersion": "example.com/v1", "kind": "Note", "spec": {"text": "fine"},
            "metadata": {"name": "n", "namespace": "ns", "generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": all}});
        let cached = before_its_status(&world, note);
        let theirs: Note = serde_json::from_value(world.note("n").unwrap()).unwrap();
        let mut watching = Watching::new(Stores::of(&world.context), settings::Settings::new(&world.context));
        let caches = notes.watch(&mut watching);
        let resources = Cache::with([(*cached).clone()], |note: &Note| [ResourceKey::of(note)]);
        let (context, served, settings) =
            (world.context.clone(), Served::new(notes.clone()), settings::Settings::new(&world.context));
        let serving = serving::Serving::new(context, served, caches, resources.clone(), settings);
        assert_eq!(serving.work(&world.context, &cached).await.ok(), Some(Next::Wait));
        let stored = world.note("n").unwrap()["metadata"]["finalizers"].clone();
        assert!(!stored.as_array().unwrap().contains(&json!("example.com/one")), "{stored}");
        resources.wrote(theirs);
        assert_eq!(resources.newest(&key("n")).unwrap().finalizers(), left);
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_gives_nothing_up_while_another_one_of_the_kind_writes() {
    let world = World::new();
    let context = context_of_shard(&world);
    let (idle, _, idle_shard) = serving_in(&context, &Notes::default());
    let (busy, _, busy_shard) = serving_in(&context, &Notes::default());
    world.add("a", "fine");
    let (shard, drain) = ("shard.alpha.sharding.timebertt.dev/ring", "drain.alpha.sharding.timebertt.dev/ring");
    let labels = json!({shard: "a", drain: "true", "x": "y"});
    let mut note = world.note("a").unwrap();
    note["metadata"]["labels"] = labels.clone();
    world.server.put("/apis/example.com/v1/namespaces/ns/notes/a", note, "user");
    let note: Arc<Note> = Arc::new(serde_json::from_value(world.note("a").unwrap()).unwrap());
    let holding = busy_shard.begin(&key("a"));
    let writing = context.writing_with(busy_shard.client(&key("a"), context.client.clone()));
    world.server.slow_down(Duration::from_secs(5));
    let story = async {
        // It has read the ConfigMap, and creates it from second 5 to 10.
        pass(6).await;
        assert_eq!(idle.give_up(&idle_shard, &key("a"), &note.metadata).await, ReconcileResult::RequeueAfter);
        assert!(holding.is_leaving() && world.server.object(MAP).is_none());
        assert_eq!(world.note("a").unwrap()["metadata"]["labels"], labels);
        pass(3).await;
        world.server.slow_down(Duration::ZERO);
        assert!(world.server.object(MAP).is_some());
        assert_eq!(idle.give_up(&idle_shard, &key("a"), &note.metadata).await, ReconcileResult::Success);
    };
    let (written, ()) = tokio::join!(busy.work(&writing, &note), story);
    assert!(written.is_err(), "the status is not written any more");
    let left = world.note("a").unwrap();
    assert_eq!((&left["metadata"]["labels"], &left["status"]), (&json!({"x": "y"}), &json!(null)));
}

#[tokio::test(start_paused = true)]
async fn a_shard_keeps_no_right_to_write_for_a_resource_that_leaves_just_before_its_reconcile_begins() {
    let (serving, _, shard) = serving_in(&context_of_shard(&World::new()), &Notes::default());
    shard.follow(&key("a"), crate::shards::Standing::Others);
    shard.begin(&key("a"));
    serving.follow_present(&shard, &key("a"));
    assert_eq!(shard.serving(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_ends_after_its_resource_is_told_in_the_namespace_that_had_it() {
    let world = World::new();
    let (context, serving, _queue) = serving_shard(&world, &Notes::default());
    assert_eq!(serving.panicked(&key("gone")).await, ReconcileResult::Error);
    context.events.flush(Duration::from_secs(2)).await;
    let paths = world.server.paths();
    let events: Vec<_> = paths.iter().filter(|path| path.contains("/events/")).collect();
    assert!(events.len() == 1 && events[0].contains("/namespaces/ns/events/gone."), "{events:?}");
}

/// Refuses patches of notes.
fn refuse_drains(world: &World) {
    world.server.refuse(|call| {
        let is_drain = call.method == http::Method::PATCH && call.path.contains("/notes/");
        is_drain.then(|| outside::Error::from_status(403, "Forbidden", "notes \"a\" is forbidden"))
    });
}

/// No shard serves such a resource, so its owner must learn why.
#[tokio::test(start_paused = true)]
async fn a_resource_that_may_not_be_given_up_says_so_once() {
    let world = World::new();
    let (context, serving, queue) = serving_shard(&world, &Notes::default());
    let shard = crate::shards::Shard::new(crate::shards::Ring::new("ring", Some("a")).unwrap());
    let note = world.add("a", "fine");
    refuse_drains(&world);
    for _ in 0..2 {
        assert_eq!(serving.give_up(&shard, &key("a"), &note.metadata).await, ReconcileResult::Error);
    }
    assert_eq!(queue.timers(), 1, "it is tried again");
    context.events.flush(Duration::from_secs(2)).await;
    let events = world.events("a");
    let why = "Warning DrainFailed: cannot give the resource up to another shard: ";
    assert!(events.len() == 1 && events[0].starts_with(why) && events[0].contains("is forbidden"), "{events:?}");
}

/// No event follows, and no shard serves the resource.
#[tokio::test(start_paused = true)]
async fn a_resource_whose_labels_a_webhook_puts_back_is_not_given_up_and_says_so() {
    let world = World::new();
    let (context, serving, queue) = serving_shard(&world, &Notes::default());
    let shard = crate::shards::Shard::new(crate::shards::Ring::new("ring", Some("a")).unwrap());
    let labels =
        json!({"shard.alpha.sharding.timebertt.dev/ring": "a", "drain.alpha.sharding.timebertt.dev/ring": "x"});
    world.add("a", "fine");
    let mut note = world.note("a").unwrap();
    note["metadata"]["labels"] = labels.clone();
    world.server.put("/apis/example.com/v1/namespaces/ns/notes/a", note, "user");
    let note: Note = serde_json::from_value(world.note("a").unwrap()).unwrap();
    world.server.change(|server| {
        server.mutate(move |plural, object| {
            if plural == "notes" {
                object["metadata"]["labels"] = labels.clone();
            }
        });
    });
    assert_eq!(serving.give_up(&shard, &key("a"), &note.metadata).await, ReconcileResult::Error);
    assert_eq!(queue.timers(), 1, "it is tried again");
    context.events.flush(Duration::from_secs(2)).await;
    let why = "Warning DrainFailed: cannot give the resource up to another shard: the API server accepts the removal of \
               its labels and stores the resource with them, which a webhook may cause";
    assert_eq!(world.events("a"), [why]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_drain_is_tried_again_within_half_a_minute_and_forgotten_once_the_resource_is_given_up_or_gone() {
    for is_deleted in [false, true] {
        let world = World::new();
        let (_, serving, queue) = serving_shard(&world, &Notes::default());
        let shard = crate::shards::Shard::new(crate::shards::Ring::new("ring", Some("a")).unwrap());
        let (note, a) = (world.add("a", "fine"), key("a"));
        queue.open();
        let refused = async || {
            assert_eq!(serving.give_up(&shard, &a, &note.metadata).await, ReconcileResult::Error);
            let failed = tokio::time::Instant::now();
            assert_eq!(queue.next().await, a);
            queue.done(&a);
            failed.elapsed().as_secs()
        };
        refuse_drains(&world);
        for wait in [0, 1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(refused().await, wait);
        }
        world.server.accept();
        if is_deleted {
            world.server.remove("/apis/example.com/v1/namespaces/ns/notes/a");
        }
        assert_eq!(serving.give_up(&shard, &a, &note.metadata).await, ReconcileResult::Success);
        assert_eq!(queue.timers(), 0);
        refuse_drains(&world);
        assert_eq!(refused().await, 0, "it is another failure");
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_of_a_range_asks_for_it_and_serves_nothing_while_the_server_sends_more() {
    let bounds = ["0x0000000000000000', '0x8000000000000000", "0x8000000000000000', '0x10000000000000000"];
    let halves = bounds.map(|both| format!("shardRange(object.metadata.namespace, '{both}')").parse::<ShardSelector>());
    let range = halves.into_iter().flatten().find(|half| half.selects("", "ns")).unwrap();
    for (sends_more, expected) in [(false, &["ours"][..]), (true, &[])] {
        let world = World::new();
        world.add("ours", "fine");
        if sends_more {
            let other = (0..).map(|n| format!("ns-{n}")).find(|namespace| !range.selects("", namespace)).unwrap();
            let mut note = world.note("ours").unwrap();
            note["metadata"] = json!({"name": "other", "namespace": other, "generation": 1});
            world.server.put(&format!("/apis/example.com/v1/namespaces/{other}/notes/other"), note, "user");
        }
        let config = ControllerConfig { shard_selector: Some(range.clone()), ..ControllerConfig::default() };
        let context = Context::new(client(&world.server, &world.asked), config, Metrics::default(), Default::default());
        let world = World { context: context.for_controller(MANAGER), ..world };
        let notes = Notes::default();
        run(&world, &notes, 60).await;
        assert_eq!(*lock(&notes.reconciled), expected, "{sends_more}");
        let asked = lock(&world.asked).clone();
        let lists = asked.iter().filter(|line| line.starts_with("GET") && line.contains("limit="));
        let (of_notes, others): (Vec<_>, Vec<_>) = lists.partition(|line| line.contains("/notes?"));
        assert!(of_notes.iter().all(|line| line.contains("shardSelector=shardRange")), "{asked:?}");
        assert!(!others.is_empty() && !others.iter().any(|line| line.contains("shardSelector")), "{asked:?}");
        assert_eq!(of_notes.len() > 1, sends_more, "{asked:?}");
    }
}
