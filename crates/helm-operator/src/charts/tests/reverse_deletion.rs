//! Tests of `reverseDeletion` with the controllers of two kinds in one process, which do not list at the same time.

use controller::context::{Context, ControllerConfig};
use controller::reconciler::Controller;
use controller::testing::{Requests, client};
use helm_release::kube::Call;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::charts::chart_controller::ChartController;
use crate::dependencies::Node;
use crate::view::dependencies::lists::MayHold;
use crate::watches;

const DATABASE: &str = "/apis/db.example.com/v1/namespaces/ns/databases/db";

/// A process with the controllers of Database and Memcached; a Memcached depends on the Database "db".
struct Process {
    server: Arc<MemoryApi>,
    context: Context,
    running: Vec<JoinHandle<()>>,
}

impl Process {
    /// Creates a process that has prepared both controllers, and runs neither.
    fn new(server: &Arc<MemoryApi>) -> Process {
        let client = client(server, &Requests::default());
        let context = Context::new(client, ControllerConfig::default(), Metrics::default(), CancellationToken::new());
        let process = Process { server: server.clone(), context, running: Vec::new() };
        for (name, controller) in [database(), memcached()] {
            controller.prepare(&process.context.for_controller(name));
        }
        process
    }

    fn run(&mut self, (name, controller): (&'static str, ChartController)) {
        let context = self.context.for_controller(name);
        self.running.push(tokio::spawn(async move { Box::new(controller).run(context).await.unwrap() }));
    }

    /// Waits until this holds, if it does so within a minute.
    async fn until(&self, holds: impl Fn() -> bool) {
        for _ in 0..600 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn stop(self) {
        self.context.shutdown.cancel();
        for running in self.running {
            running.await.unwrap();
        }
    }

    fn maps(&self) -> Vec<String> {
        let paths = self.server.paths().into_iter();
        paths.filter_map(|path| Some(path.strip_prefix(MAPS)?.trim_start_matches('/').to_owned())).collect()
    }

    /// Returns what the Database waits for: `DependentsExist: …`.
    fn waits_for(&self) -> String {
        let status = self.server.object(DATABASE).unwrap_or_default()["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == "Reconciling");
        let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
        found.map(|one| format!("{}: {}", text(one, "reason"), text(one, "message"))).unwrap_or_default()
    }
}

fn controller(text: &str) -> ChartController {
    let watch = watches::parse(text, |_| None).unwrap().watches.remove(0);
    ChartController::with_renderer(watch, Arc::new(Stub::default()))
}

fn database() -> (&'static str, ChartController) {
    ("database-controller", controller("- {group: db.example.com, version: v1, kind: Database, chart: x}"))
}

fn memcached() -> (&'static str, ChartController) {
    let on = "{group: db.example.com, kind: Database, name: db, until: exists, reverseDeletion: true}";
    let watch = format!("- {{group: cache.my.domain, version: v1, kind: Memcached, chart: x, dependsOn: [{on}]}}");
    ("memcached-controller", controller(&watch))
}

fn delete(server: &MemoryApi, path: &str) {
    let mut resource = server.object(path).unwrap();
    resource["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    server.put(path, resource, "user");
}

/// Returns a server with both resources and their releases, after the process has ended and the Database was deleted.
async fn deployed() -> Arc<MemoryApi> {
    let server = World::new(json!({"maps": ["web"], "value": "1"})).server;
    server.serve("v1", "ConfigMap", "configmaps");
    server.serve("v1", "Secret", "secrets");
    server.serve("db.example.com/v1", "Database", "databases");
    let metadata = json!({"name": "db", "namespace": "ns", "generation": 1});
    let spec = json!({"maps": ["db"], "value": "1"});
    let database_resource =
        json!({"apiVersion": "db.example.com/v1", "kind": "Database", "metadata": metadata, "spec": spec});
    server.put(DATABASE, database_resource, "user");
    let mut process = Process::new(&server);
    process.run(database());
    process.run(memcached());
    let is_ready = |path: &str| {
        let status = server.object(path).unwrap()["status"].clone();
        status["conditions"].as_array().into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    process.until(|| is_ready(DATABASE) && is_ready(PRIMARY)).await;
    assert_eq!(process.maps(), ["db", "web"]);
    process.stop().await;
    delete(&server, DATABASE);
    server
}

const UNLISTED: &str = "DependentsUnknown: the release is uninstalled once the operator has listed all resources \
    that may depend on it; not listed yet: Memcached";

const HELD: &str = "DependentsExist: the release is uninstalled once the resources that depend on it are deleted: \
    Memcached \"web\"";

#[tokio::test(start_paused = true)]
async fn after_a_restart_a_deletion_waits_until_what_may_depend_on_it_is_listed() {
    let mut process = Process::new(&deployed().await);
    process.run(database());
    process.until(|| !process.waits_for().is_empty() || process.maps() != ["db", "web"]).await;
    assert_eq!(process.maps(), ["db", "web"]);
    assert_eq!(process.waits_for(), UNLISTED);
    process.run(memcached());
    process.until(|| process.waits_for() == HELD).await;
    assert_eq!((process.maps(), process.waits_for()), (vec!["db".to_owned(), "web".to_owned()], HELD.to_owned()));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_releases_go_in_the_reverse_order() {
    let server = deployed().await;
    delete(&server, PRIMARY);
    let before = server.log().len();
    let mut process = Process::new(&server);
    process.run(database());
    process.until(|| !process.waits_for().is_empty() || process.maps() != ["db", "web"]).await;
    process.run(memcached());
    process.until(|| process.maps().is_empty() && server.object(DATABASE).is_none()).await;
    assert!(process.maps().is_empty() && server.object(DATABASE).is_none() && server.object(PRIMARY).is_none());
    let log = server.log().split_off(before);
    let deleted = |map: &str| log.iter().position(|line| line.starts_with("DELETE") && line.ends_with(map)).unwrap();
    assert!(deleted("configmaps/web") < deleted("configmaps/db"), "{log:#?}");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn while_a_list_is_refused_a_deletion_waits_for_what_it_would_show() {
    let server = deployed().await;
    let is_list = |call: &Call| call.path.contains("/memcacheds") && !call.path.contains("/memcacheds/");
    server.refuse(move |call| is_list(call).then(|| Error::from_status(403, "Forbidden", "no")));
    let mut process = Process::new(&server);
    process.run(memcached());
    process.run(database());
    process.until(|| process.maps() != ["db", "web"]).await;
    assert_eq!((process.maps(), process.waits_for()), (vec!["db".to_owned(), "web".to_owned()], UNLISTED.to_owned()));
    server.accept();
    process.until(|| process.waits_for() == HELD).await;
    assert_eq!((process.maps(), process.waits_for()), (vec!["db".to_owned(), "web".to_owned()], HELD.to_owned()));
    process.stop().await;
}

/// Such a kind has no resources, and may never have any.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_holds_no_deletion() {
    let is_gone = async |server: Arc<MemoryApi>, when: fn(&MemoryApi)| {
        let mut process = Process::new(&server);
        process.run(memcached());
        process.run(database());
        process.until(|| process.waits_for() == UNLISTED || server.object(DATABASE).is_none()).await;
        when(&server);
        process.until(|| server.object(DATABASE).is_none()).await;
        assert!(server.object(DATABASE).is_none(), "{}", process.waits_for());
        process.stop().await;
    };
    let server = deployed().await;
    server.unserve("cache.my.domain/v1", "Memcached");
    is_gone(server, |_| {}).await;
    // Its definition is deleted while its list is refused.
    let server = deployed().await;
    server.refuse(|call| {
        let is_list = call.path.contains("/memcacheds") && !call.path.contains("/memcacheds/");
        is_list.then(|| Error::from_status(404, "NotFound", "the server could not find the requested resource"))
    });
    is_gone(server, |server| server.unserve("cache.my.domain/v1", "Memcached")).await;
}

/// The next controller of the kind lists again. Resources that are created and deleted before then are never seen.
#[tokio::test(start_paused = true)]
async fn a_controller_that_stops_vouches_for_no_resource() {
    let world = World::new(spec());
    let on = "{group: db.example.com, kind: Database, name: db, reverseDeletion: true}";
    let text = format!("- {{group: cache.my.domain, version: v1, kind: Memcached, chart: x, dependsOn: [{on}]}}");
    let watch = watches::parse(&text, |_| None).unwrap().watches.remove(0);
    let (dependencies, controller) = (&world.shared.dependencies, &world.shared.settings.controller);
    dependencies.announce(controller.clone(), "Memcached", MayHold::of(&watch));
    let [group, kind, namespace, name] = ["db.example.com", "Database", "ns", "db"].map(Arc::from);
    let database = Node { group, kind, namespace, name };
    let is_known = || dependencies.unlisted_holders(&database).is_empty();
    assert!(!is_known());
    world.feed();
    assert!(is_known());
    Primaries(world.shared.clone()).lost(&WatchScope::ALL);
    assert!(!is_known(), "the watch is refused");
    world.feed();
    assert!(is_known());
    world.shared.stopping.cancel();
    dependencies.require_lists(controller, [WatchScope::ALL]);
    world.feed();
    assert!(!is_known());
}
