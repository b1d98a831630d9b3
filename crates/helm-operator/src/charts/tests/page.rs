//! Tests of the page over a controller's caches: who sees what, and that a view sends no request.

use controller::runtime::readiness::Readiness;
use controller::server::{Page, Right, Rights, Site as _, Visit};

use super::*;
use crate::charts::running::Running;
use crate::web::Web;
use crate::web::sight::MAX_NAMESPACES;

/// A caller who may do this, in these namespaces; an empty one means all of them. Notes what was asked.
struct Caller {
    verbs: &'static [&'static str],
    namespaces: &'static [&'static str],
    asked: Mutex<Vec<String>>,
}

impl Caller {
    fn of(verbs: &'static [&'static str], namespaces: &'static [&'static str]) -> Caller {
        Caller { verbs, namespaces, asked: Mutex::default() }
    }
}

impl Rights for Caller {
    fn has<'r>(&'r self, right: Right<'r>) -> BoxFuture<'r, Result<bool, Error>> {
        let Right { verb, group, plural, namespace } = right;
        self.asked.lock().unwrap().push(format!("{verb} {plural}.{group} {namespace}"));
        Box::pin(async move { Ok(self.verbs.contains(&verb) && self.namespaces.contains(&namespace)) })
    }
}

const READ: &[&str] = &["get", "list"];

fn web(world: &World) -> Web {
    let running = Arc::new(Running::default());
    running.add(&world.shared);
    Web::of(running, Readiness::default())
}

async fn load(world: &World, caller: &Caller, address: &str, as_json: bool) -> (u16, String) {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let Page { status, body, .. } = web(world).answer(Visit { path, query, as_json, rights: caller }).await.unwrap();
    (status.as_u16(), String::from_utf8(body).unwrap())
}

/// Returns the names in an overview, after its kinds with their counts.
async fn names(world: &World, caller: &Caller, address: &str) -> Vec<String> {
    let (status, body) = load(world, caller, address, true).await;
    assert_eq!(status, 200, "{body}");
    let overview: Value = serde_json::from_str(&body).unwrap();
    let mut all = Vec::new();
    for kind in overview["kinds"].as_array().unwrap() {
        all.push(format!("{} {}/{}", kind["kind"].as_str().unwrap(), kind["ready"], kind["total"]));
        for row in kind["releases"].as_array().unwrap() {
            let text = |field: &str| row["resource"][field].as_str().unwrap_or_default().to_owned();
            all.push(format!("{}/{}", text("namespace"), text("name")));
        }
    }
    all
}

async fn three() -> World {
    let world = World::new(spec());
    for (namespace, name) in [("ns", "shop"), ("other", "web")] {
        world.add(namespace, name, json!({"maps": [format!("{name}-map")], "value": "1"}));
    }
    for key in [key(), ResourceKey::new("ns", "shop"), ResourceKey::new("other", "web")] {
        world.reconcile_one(&key).await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn each_caller_sees_only_what_their_rights_allow_and_nothing_else_counts() {
    let world = three().await;
    for (what, caller, address, expected) in [
        ("everywhere", Caller::of(READ, &[""]), "/", vec!["Memcached 3/3", "ns/shop", "ns/web", "other/web"]),
        ("one namespace", Caller::of(READ, &["other"]), "/", vec!["Memcached 1/1", "other/web"]),
        ("one, named", Caller::of(READ, &["other"]), "/?namespace=other", vec!["Memcached 1/1", "other/web"]),
        ("one, another named", Caller::of(READ, &["other"]), "/?namespace=ns", vec![]),
        ("none", Caller::of(READ, &[]), "/", vec![]),
        ("only get", Caller::of(&["get"], &["", "ns", "other"]), "/", vec![]),
        ("everywhere, one named", Caller::of(READ, &[""]), "/?namespace=ns&q=SHOP", vec!["Memcached 1/1", "ns/shop"]),
        ("another kind", Caller::of(READ, &[""]), "/?kind=Shop", vec![]),
        (
            "a kind with its group",
            Caller::of(READ, &["other"]),
            "/?kind=memcached.cache.my.domain",
            vec!["Memcached 1/1", "other/web"],
        ),
    ] {
        assert_eq!(names(&world, &caller, address).await, expected, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_cannot_be_told_from_what_does_not_exist() {
    let world = three().await;
    for as_json in [false, true] {
        let caller = Caller::of(READ, &["other"]);
        let (status, hidden) = load(&world, &caller, "/Memcached.cache.my.domain/ns/web", as_json).await;
        assert_eq!(status, 404);
        for address in [
            "/Memcached.cache.my.domain/ns/absent",
            "/Memcached.cache.my.domain/nowhere/web",
            "/Memcached.cache.my.domain/other/absent",
            "/Memcached.cache.my.domain/web",
            "/Shop.g/ns/web",
            "/unknown",
        ] {
            assert_eq!(load(&world, &caller, address, as_json).await, (404, hidden.clone()), "{address}");
        }
        let seen = load(&world, &caller, "/Memcached.cache.my.domain/other/web", as_json).await;
        assert!(seen.0 == 200 && seen.1.contains("web-map"), "{}", seen.1);
    }
    // A caller without rights gets the same overview from an operator without resources.
    let caller = Caller::of(READ, &[]);
    let empty = World::on(Arc::new(MemoryApi::new()));
    assert_eq!(load(&world, &caller, "/", false).await, load(&empty, &caller, "/", false).await);
    let list_only = Caller::of(&["list"], &["", "other"]);
    assert_eq!(load(&world, &list_only, "/Memcached.cache.my.domain/other/web", true).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_release_shows_its_objects_and_history_from_the_cache_alone() {
    let world = three().await;
    let before = world.server.log().len();
    let caller = Caller::of(READ, &["ns"]);
    let (status, body) = load(&world, &caller, "/Memcached.cache.my.domain/ns/web", true).await;
    let release: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &release["state"], &release["release"]["revision"]), (200, &json!("ready"), &json!(1)));
    let objects: Vec<String> =
        release["objects"].as_array().unwrap().iter().map(|o| format!("{} {}", o["name"], o["health"])).collect();
    assert_eq!(objects, ["\"a\" \"ready\"", "\"b\" \"ready\"", "\"c\" \"ready\""]);
    assert_eq!(release["history"][0]["outcome"], "deployed");
    assert_eq!(*caller.asked.lock().unwrap(), ["get memcacheds.cache.my.domain ns"]);
    let (_, html) = load(&world, &caller, "/Memcached.cache.my.domain/ns/web", false).await;
    assert!(html.contains("memcached-0.1.0") && html.contains("Deployed") && !html.contains("<script"), "{html}");
    world.server.remove(&format!("{MAPS}/b"));
    world.feed();
    let (_, body) = load(&world, &caller, "/Memcached.cache.my.domain/ns/web", true).await;
    let release: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(release["objects"][1]["health"], "missing");
    assert_eq!(world.server.log().len(), before, "a view sends no request but the questions about rights");
}

#[tokio::test(start_paused = true)]
async fn the_release_of_another_kind_with_the_same_name_shows_no_objects() {
    let world = World::new(spec());
    world.reconcile().await;
    let mut primary = world.server.object(PRIMARY).unwrap();
    world.server.remove(PRIMARY);
    primary["metadata"]["uid"] = "another".into();
    primary["kind"] = "Shop".into();
    primary["metadata"]["generation"] = 1.into();
    world.server.put(PRIMARY, primary, "user");
    world.feed();
    let (status, body) = load(&world, &Caller::of(READ, &["ns"]), "/Memcached.cache.my.domain/ns/web", true).await;
    let release: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &release["objects"]), (200, &json!([])), "{body}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_the_whole_cluster_costs_a_bounded_number_of_questions() {
    let world = World::new(spec());
    (0..2 * MAX_NAMESPACES).for_each(|n| _ = world.add(&format!("n{n:03}"), "web", spec()));
    world.feed();
    let caller = Caller::of(READ, &["n001", "n199"]);
    assert_eq!(names(&world, &caller, "/").await, ["Memcached 0/1", "n001/web"]);
    assert_eq!(caller.asked.lock().unwrap().len(), 1 + MAX_NAMESPACES);
    assert_eq!(names(&world, &caller, "/?namespace=n199").await, ["Memcached 0/1", "n199/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_serves_nothing_says_so() {
    let web = Web::of(Arc::default(), Readiness::default());
    let caller = Caller::of(READ, &[""]);
    let visit = |path| Visit { path, query: "", as_json: false, rights: &caller };
    let page = web.answer(visit("/")).await.unwrap();
    assert_eq!(page.status.as_u16(), 503);
    assert!(String::from_utf8(page.body).unwrap().contains("another one leads"));
    let style = web.answer(visit("/style.css")).await.unwrap();
    assert_eq!((style.status.as_u16(), style.content_type), (200, "text/css; charset=utf-8"));
}
