use serde_json::{Value, json};

use memory_api::ChangeKind;

use super::*;

const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

fn map(name: &str, chart: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"chart": chart}}})
}

async fn list(server: &MemoryApi, call: Call) -> Value {
    server.send(call).await.unwrap().parse().unwrap()
}

fn text(events: &[Value]) -> Vec<String> {
    let name = |event: &Value| event["object"]["metadata"]["name"].as_str().unwrap_or("-").to_owned();
    events.iter().map(|event| format!("{} {}", event["type"].as_str().unwrap(), name(event))).collect()
}

#[tokio::test]
async fn a_watch_delivers_what_happened_after_its_list() {
    let server = MemoryApi::new();
    server.put(&format!("{MAPS}/a"), map("a", "x"), "user");
    let listed = list(&server, Call::get("/api/v1/configmaps?labelSelector=chart%3Dx")).await;
    let from = listed["metadata"]["resourceVersion"].as_str().unwrap();
    let call = Call::metadata(format!(
        "/api/v1/configmaps?labelSelector=chart%3Dx&watch=true&resourceVersion={from}&allowWatchBookmarks=true"
    ));
    let mut watch = server.watch(&call).unwrap();
    assert!(server.events(&mut watch).unwrap().is_empty());
    let changed = server.subscribe();
    server.put(&format!("{MAPS}/b"), map("b", "x"), "user");
    server.put(&format!("{MAPS}/c"), map("c", "y"), "user");
    server.put(&format!("{MAPS}/a"), map("a", "y"), "user");
    server.put(&format!("{MAPS}/c"), map("c", "x"), "user");
    server.put(&format!("{MAPS}/b"), json!({"metadata": {"labels": {"chart": "x"}, "name": "b"}, "data": {}}), "user");
    server.remove(&format!("{MAPS}/b"));
    assert!(changed.has_changed().unwrap());
    let events = server.events(&mut watch).unwrap();
    assert_eq!(text(&events), ["ADDED b", "DELETED a", "ADDED c", "MODIFIED b", "DELETED b"]);
    assert_eq!(events[4]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(events[4]["object"]["metadata"]["resourceVersion"], server.version().to_string());
    assert_eq!(watch.bookmark().unwrap()["object"]["metadata"]["resourceVersion"], server.version().to_string());
    assert_eq!(server.changes(MAPS, "chart=x", server.version() - 1).unwrap()[0].kind, ChangeKind::Deleted);
}

#[tokio::test]
async fn a_watch_without_a_version_begins_with_what_is_there() {
    let server = MemoryApi::new();
    server.put(&format!("{MAPS}/a"), map("a", "x"), "user");
    let mut watch = server.watch(&Call::get(format!("{MAPS}?watch=true"))).unwrap();
    assert_eq!(text(&server.events(&mut watch).unwrap()), ["ADDED a"]);
    assert!(watch.bookmark().is_none());
    let call = Call::get(format!("{MAPS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true"));
    let events = server.events(&mut server.watch(&call).unwrap()).unwrap();
    assert_eq!(text(&events), ["ADDED a", "BOOKMARK -"]);
    assert_eq!(events[1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(server.watch(&Call::get("/api/v1/nonsense?watch=true")).unwrap_err().code(), Some(404));
}

#[tokio::test]
async fn a_watch_that_fell_behind_a_compaction_expires() {
    let server = MemoryApi::new();
    let from = server.version();
    let mut watch = server.watch(&Call::get(format!("{MAPS}?watch=true&resourceVersion={from}"))).unwrap();
    server.put(&format!("{MAPS}/a"), map("a", "x"), "user");
    server.compact(server.version());
    let error = server.events(&mut watch).unwrap_err();
    assert_eq!(error.code(), Some(410));
    assert!(server.changes(MAPS, "", server.version()).unwrap().is_empty());
}
