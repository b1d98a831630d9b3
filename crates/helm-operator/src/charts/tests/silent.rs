//! Tests of installs, upgrades and deletions while an API server does not answer whose kinds the process has never seen.

use std::sync::OnceLock;

use helm::engine::Engine;
use helm_release::kube::Mapper;

use super::failure_policy::retry;
use super::*;
use crate::rendering::discovered::Discovered;
use crate::rendering::renderer::EngineRenderer;

/// The group version of Routes.
const ROUTES: &str = "route.my.domain/v1";

const ROUTE: &str = "/apis/route.my.domain/v1/namespaces/ns/routes/web";

/// A template with an object that it renders only if its kind is served.
const GUARDED: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  value: {{ .Values.value | quote }}\n\
    {{- if .Capabilities.APIVersions.Has \"route.my.domain/v1/Route\" }}\n---\napiVersion: route.my.domain/v1\n\
    kind: Route\nmetadata:\n  name: web\n{{- end }}\n";

/// A renderer that reads with the process's mapper which kinds are served.
struct Discovering {
    renderer: EngineRenderer,
    mapper: OnceLock<Arc<Mapper>>,
}

impl Renderer for Discovering {
    fn digest(&self) -> String {
        self.renderer.digest()
    }

    fn chart_name(&self) -> &str {
        self.renderer.chart_name()
    }

    fn overrides(&self) -> Option<&Overrides> {
        self.renderer.overrides()
    }

    fn render(&self, request: Request) -> BoxFuture<'_, Result<Rendered, RenderError>> {
        Box::pin(async move {
            if let Some(mapper) = self.mapper.get() {
                mapper.refresh().await.unwrap();
            }
            self.renderer.render(request).await
        })
    }
}

/// Starts a process whose chart has a Route if its kind is served.
async fn started(server: Arc<MemoryApi>) -> World {
    let files = [("Chart.yaml", "apiVersion: v2\nname: memcached\nversion: 1.0.0\n"), ("templates/a.yaml", GUARDED)];
    let engine = Arc::new(Engine::new(Chart::from_files(files).unwrap()));
    let discovered = Arc::new(Discovered::read(&Applier::new(server.clone())).await.unwrap());
    let renderer = EngineRenderer::new(engine, Overrides::default(), discovered).unwrap();
    let renderer = Arc::new(Discovering { renderer, mapper: OnceLock::new() });
    let world = World::with_events(server, renderer.clone(), |settings| settings.retries = Some(0));
    assert!(renderer.mapper.set(world.shared.applier.mapper.clone()).is_ok());
    world
}

/// Installs a release, with a Route if its kind is served.
async fn installed(has_route: bool) -> World {
    let server = World::new(json!({"value": "1"})).server;
    if has_route {
        server.serve(ROUTES, "Route", "routes");
    }
    let world = started(server).await;
    world.reconcile().await;
    world
}

/// Returns the uid of the live Route.
fn route(world: &World) -> Value {
    world.server.object(ROUTE).unwrap()["metadata"]["uid"].clone()
}

/// Lets the server of Routes answer.
fn answer(world: &World) {
    world.server.serve(ROUTES, "Route", "routes");
    world.server.accept();
}

/// Stops the server of Routes, starts another process while this group version does not answer, and then edits the
/// resource.
async fn restarted_without_routes(first: World, silent: Option<&str>) -> World {
    first.server.unserve(ROUTES, "Route");
    silent.into_iter().for_each(|version| first.server.serve_stale(version));
    let world = started(first.server).await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    world
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_waits_for_the_kinds_of_deployed_objects_whose_server_does_not_answer() {
    let first = installed(true).await;
    let before = route(&first);
    let world = restarted_without_routes(first, Some(ROUTES)).await;
    // At first, only the render reads that the server does not answer.
    for _ in 0..3 {
        retry(&world).await;
        let condition = world.condition("Irreconcilable").unwrap_or_default();
        let told = "True/Unanswered/cannot make the next revision: the API server behind APIService \"v1.route.my.domain\" does not answer";
        assert!(condition.starts_with(told) && condition.contains("Route \"web\""), "{condition}");
        assert_eq!((world.condition("Stalled"), world.condition("ReleaseFailed")), (None, None));
        assert_eq!((world.value_of("a"), world.history()), (json!("1"), vec!["1 deployed".to_owned()]));
    }
    let mut map = world.server.object(&format!("{MAPS}/a")).unwrap();
    map["data"]["value"] = "drifted".into();
    world.server.put(&format!("{MAPS}/a"), map, "someone");
    world.reconcile().await;
    assert_eq!(world.value_of("a"), json!("1"), "drift is repaired meanwhile");
    answer(&world);
    retry(&world).await;
    assert_eq!((world.value_of("a"), world.history().pop().unwrap().as_str()), (json!("2"), "2 deployed"));
    assert_eq!(route(&world), before, "it was never deleted");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_waits_for_the_kinds_of_what_only_an_unfinished_upgrade_has_made() {
    let first = installed(false).await;
    answer(&first);
    first.server.refuse(|call| {
        let is_end = call.method == http::Method::PATCH && call.path.starts_with(&record_path(2));
        is_end.then(|| Error::Transport("reset".into()))
    });
    first.edit(|p| p["spec"]["value"] = "2".into());
    retry(&first).await;
    assert_eq!(first.history(), ["1 deployed", "2 pending-upgrade"]);
    let before = route(&first);
    first.server.accept();
    let world = restarted_without_routes(first, Some(ROUTES)).await;
    world.edit(|p| p["spec"]["value"] = "3".into());
    for _ in 0..3 {
        retry(&world).await;
        assert!(world.condition("Irreconcilable").unwrap_or_default().contains("APIService"), "{:?}", world.history());
        assert_eq!(world.value_of("a"), json!("2"));
    }
    answer(&world);
    retry(&world).await;
    assert_eq!((world.value_of("a"), route(&world)), (json!("3"), before), "it was never deleted");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_waits_neither_for_a_server_that_is_gone_nor_for_one_of_other_objects() {
    for silent in [None, Some("other.my.domain/v1")] {
        let world = restarted_without_routes(installed(true).await, silent).await;
        world.reconcile().await;
        let newest = world.history().pop().unwrap();
        assert_eq!((world.value_of("a"), newest.as_str()), (json!("2"), "2 deployed"), "{silent:?}");
    }
}

/// Checks that the release waits for the server of Routes, with only these revisions.
async fn waits(world: &World, made: &[&str]) {
    for _ in 0..3 {
        retry(world).await;
        let condition = world.condition("Irreconcilable").unwrap_or_default();
        let told = "the API server behind APIService \"v1.route.my.domain\" does not answer";
        assert!(condition.starts_with("True/Unanswered/") && condition.contains(told), "{condition}");
        assert_eq!((world.condition("Stalled"), world.condition("ReleaseFailed")), (None, None));
        assert_eq!(world.history(), made);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_the_kinds_that_its_chart_asks_for_although_it_has_no_such_object() {
    for (is_new, has_route) in [(true, true), (true, false), (false, true), (false, false)] {
        let world = match is_new {
            false => restarted_without_routes(installed(false).await, Some(ROUTES)).await,
            true => {
                let server = World::new(json!({"value": "2"})).server;
                server.serve_stale(ROUTES);
                started(server).await
            }
        };
        // It stays silent, which concerns nothing of this chart.
        world.server.serve_stale("other.my.domain/v1");
        waits(&world, if is_new { &[] } else { &["1 deployed"] }).await;
        assert_eq!(world.maps().len(), usize::from(!is_new));
        match has_route {
            true => answer(&world),
            false => world.server.delete_service(ROUTES),
        }
        retry(&world).await;
        let newest = world.history().pop().unwrap();
        assert_eq!(newest, if is_new { "1 deployed" } else { "2 deployed" });
        assert_eq!((world.value_of("a"), world.condition("Irreconcilable")), (json!("2"), None));
        assert_eq!(world.server.object(ROUTE).is_some(), has_route, "the next render is the first that knows");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_resource_stays_until_the_objects_of_a_silent_server_are_gone() {
    for answers in [true, false] {
        let world = restarted_without_routes(installed(true).await, Some(ROUTES)).await;
        world.delete();
        for _ in 0..3 {
            retry(&world).await;
            assert!(world.server.object(PRIMARY).is_some(), "its finalizer stays");
            let condition = world.condition("Irreconcilable").unwrap_or_default();
            assert!(condition.contains("APIService \"v1.route.my.domain\" does not answer"), "{condition}");
        }
        match answers {
            true => answer(&world),
            false => world.server.delete_service(ROUTES),
        }
        retry(&world).await;
        assert_eq!((world.server.object(PRIMARY), world.maps()), (None, vec![]));
        if answers {
            assert_eq!(world.server.object(ROUTE), None, "nothing is left behind");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_does_not_wait_like_the_upgrade_before_it() {
    let world = restarted_without_routes(installed(true).await, Some(ROUTES)).await;
    world.reconcile().await;
    world.delete();
    answer(&world);
    world.reconcile().await;
    assert_eq!((world.maps(), world.server.object(ROUTE)), (vec![], None), "the hold of the upgrade does not count");
}
