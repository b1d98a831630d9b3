use serde_json::{Value, json};

use crate::{ChangeKind, Request, Server, Status};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn send(server: &mut Server, line: &str, body: Value) -> Result<Value, Status> {
    let (method, path) = line.split_once(' ').unwrap();
    let (method, content_type) = match method {
        "APPLY" => ("PATCH", "application/apply-patch+yaml"),
        "MERGE" => ("PATCH", "application/merge-patch+json"),
        "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
        "JSON" => ("PATCH", "application/json-patch+json"),
        other => (other, "application/json"),
    };
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    server.serve(&Request { method, path, content_type, body: &body, accept: "" })
}

fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    entries.map(|e| format!("{} {} {}", text(e, "operation"), text(e, "manager"), e["fieldsV1"])).collect()
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data})
}

#[test]
fn an_apply_that_changes_nothing_keeps_the_version() {
    let mut server = Server::cluster();
    let path = format!("APPLY {MAPS}/a?fieldManager=one");
    let first = send(&mut server, &path, map(json!({"a": "1"}))).unwrap();
    assert_eq!(owners(&first), [r#"Apply one {"f:data":{"f:a":{}}}"#]);
    server.set_time(server.time() + 5);
    let second = send(&mut server, &path, map(json!({"a": "1"}))).unwrap();
    assert_eq!(first, second);
}

/// A real server reads the body as YAML, and stores another text or refuses it.
#[test]
fn an_apply_must_escape_what_yaml_reads_differently() {
    let mut server = Server::cluster();
    let path = format!("{MAPS}/a?fieldManager=one");
    for c in ['\u{7F}', '\u{85}', '\u{2028}', '\u{FEFF}', '\u{FFFF}'] {
        let text = format!("a{c}b");
        let refused = send(&mut server, &format!("APPLY {path}"), map(json!({"a": text}))).unwrap_err();
        assert!(refused.code == 400 && refused.message.contains(&format!("{:04X}", u32::from(c))), "{refused:?}");
        let body = map(json!({"a": text})).to_string().replace(c, &format!("\\u{:04x}", u32::from(c)));
        let (method, content_type) = ("PATCH", "application/apply-patch+yaml");
        let escaped = Request { method, path: &path, content_type, body: body.as_bytes(), accept: "" };
        assert_eq!(server.serve(&escaped).unwrap()["data"]["a"], text.as_str());
    }
    let plain = send(&mut server, &format!("APPLY {path}"), map(json!({"a": "~\u{A0}\u{10000}"}))).unwrap();
    assert_eq!(plain["data"]["a"], "~\u{A0}\u{10000}");
}

#[test]
fn what_was_written_since_a_version_is_told_in_order() {
    let mut server = Server::cluster();
    let since = server.version();
    for name in ["b", "a"] {
        send(&mut server, &format!("APPLY {MAPS}/{name}?fieldManager=one"), map(json!({}))).unwrap();
    }
    send(&mut server, &format!("DELETE {MAPS}/b"), Value::Null).unwrap();
    let written = server.written(since);
    let line = |one: &crate::Written| (one.path.clone(), one.before.is_some(), one.after.is_some());
    let path = |name: &str| format!("{MAPS}/{name}");
    let expected = [(path("b"), false, true), (path("a"), false, true), (path("b"), true, false)];
    assert_eq!(written.iter().map(line).collect::<Vec<_>>(), expected);
    assert!(server.written(server.version()).is_empty());
}

#[test]
fn fields_go_when_their_last_manager_drops_them() {
    let mut server = Server::cluster();
    let one = format!("APPLY {MAPS}/a?fieldManager=one");
    let two = format!("APPLY {MAPS}/a?fieldManager=two");
    send(&mut server, &one, map(json!({"a": "1", "b": "2"}))).unwrap();
    let both = send(&mut server, &two, map(json!({"a": "1"}))).unwrap();
    // The second manager changed nothing, so its entry has no time.
    assert_eq!(owners(&both), [r#"Apply two {"f:data":{"f:a":{}}}"#, r#"Apply one {"f:data":{"f:a":{},"f:b":{}}}"#]);
    let shared = send(&mut server, &one, json!({"apiVersion": "v1", "kind": "ConfigMap"})).unwrap();
    assert_eq!(shared["data"], json!({"a": "1"}));
    assert_eq!(owners(&shared), [r#"Apply two {"f:data":{"f:a":{}}}"#]);
    let none = send(&mut server, &two, json!({"apiVersion": "v1", "kind": "ConfigMap"})).unwrap();
    assert_eq!(none.get("data"), None);
}

#[test]
fn conflicts_name_the_managers_and_their_fields() {
    let mut server = Server::cluster();
    send(
        &mut server,
        &format!("POST {MAPS}?fieldManager=kubectl"),
        json!({"metadata": {"name": "a"}, "data": {"a": "1", "b": "1"}}),
    )
    .unwrap();
    let apply = format!("APPLY {MAPS}/a?fieldManager=one");
    let conflict = send(&mut server, &apply, map(json!({"a": "2"}))).unwrap_err();
    let text = r#"Apply failed with 1 conflict: conflict with "kubectl" using v1: .data.a"#;
    assert_eq!((conflict.code, &*conflict.message), (409, text));
    let forced = send(&mut server, &format!("{apply}&force=true"), map(json!({"a": "2"}))).unwrap();
    let kubectl = r#"Update kubectl {"f:data":{".":{},"f:b":{}}}"#;
    assert_eq!(owners(&forced), [r#"Apply one {"f:data":{"f:a":{}}}"#, kubectl]);
}

#[test]
fn fields_from_before_the_first_apply_have_their_manager() {
    let mut server = Server::cluster();
    server.add_kind("example.com/v1", "Thing", "things", crate::Scope::Namespaced);
    let path = "/apis/example.com/v1/namespaces/default/things";
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"a": 1}});
    send(&mut server, &format!("POST {path}"), thing).unwrap();
    send(&mut server, &format!("MERGE {path}/a/status"), json!({"status": {"b": 1}})).unwrap();
    let reset = send(&mut server, &format!("MERGE {path}/a"), json!({"metadata": {"managedFields": [{}]}})).unwrap();
    assert_eq!(owners(&reset), [] as [String; 0]);
    let apply = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"annotations": {"x": "1"}}});
    let applied = send(&mut server, &format!("APPLY {path}/a?fieldManager=one"), apply).unwrap();
    assert_eq!(owners(&applied)[1], r#"Update before-first-apply {"f:spec":{".":{},"f:a":{}}}"#);
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().into_iter().flatten().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

fn create(server: &mut Server, name: &str, chart: &str) {
    let body = json!({"metadata": {"name": name, "labels": {"chart": chart}}});
    send(server, &format!("POST {MAPS}"), body).unwrap();
}

#[test]
fn pages_of_a_list_are_of_one_version_until_it_is_compacted() {
    let mut server = Server::cluster();
    ["a", "b", "c"].iter().for_each(|name| create(&mut server, name, "x"));
    let first = send(&mut server, &format!("GET {MAPS}?limit=2"), Value::Null).unwrap();
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b"], &json!(1)));
    send(&mut server, &format!("DELETE {MAPS}/c"), json!({})).unwrap();
    create(&mut server, "d", "x");
    let next = format!("GET {MAPS}?limit=2&continue={}", first["metadata"]["continue"].as_str().unwrap());
    let second = send(&mut server, &next, Value::Null).unwrap();
    assert_eq!(names(&second), ["c"]);
    assert_eq!(second["metadata"], json!({"resourceVersion": first["metadata"]["resourceVersion"]}));
    server.compact(server.version());
    assert_eq!(send(&mut server, &next, Value::Null).unwrap_err().code, 410);
}

/// The server encodes lists of custom resources without their type, and lists of metadata with it.
#[test]
fn only_whole_lists_of_custom_resources_have_an_empty_token() {
    let mut server = Server::cluster();
    server.add_kind("example.com/v1", "Thing", "things", crate::Scope::Namespaced);
    let path = "/apis/example.com/v1/namespaces/default/things";
    let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    for (accept, token) in [("", Some(&json!(""))), (metadata, None)] {
        let list = server.serve(&Request { method: "GET", path, accept, ..Request::default() }).unwrap();
        assert_eq!(list["metadata"].get("continue"), token, "{accept}");
    }
}

/// Counterpart: `hasMore` in k8s.io/apiserver `pkg/storage/etcd3/store.go` and `pkg/storage/cacher/cacher.go`.
#[test]
fn a_full_page_continues_if_any_object_follows() {
    let mut server = Server::cluster();
    [("a", "x"), ("b", "x"), ("c", "y")].iter().for_each(|(name, chart)| create(&mut server, name, chart));
    let list = |chart: &str, limit: u8| format!("GET {MAPS}?labelSelector=chart%3D{chart}&limit={limit}");
    let first = send(&mut server, &list("x", 2), Value::Null).unwrap();
    assert_eq!((names(&first), first["metadata"].get("remainingItemCount")), (vec!["a", "b"], None));
    let token = first["metadata"]["continue"].as_str().unwrap();
    let last = send(&mut server, &format!("{}&continue={token}", list("x", 2)), Value::Null).unwrap();
    assert_eq!((names(&last), last["metadata"].get("continue")), (vec![], None));
    for (chart, limit) in [("x", 3), ("y", 1)] {
        let only = send(&mut server, &list(chart, limit), Value::Null).unwrap();
        assert_eq!(only["metadata"].get("continue"), None, "{chart}");
    }
}

/// Counterpart: `DeleteCollection` in k8s.io/apiserver `pkg/registry/generic/registry/store.go`.
#[test]
fn the_deletion_of_a_collection_returns_the_objects_as_they_were() {
    let mut server = Server::cluster();
    [("a", "x"), ("b", "y"), ("c", "x")].iter().for_each(|(name, chart)| create(&mut server, name, chart));
    send(&mut server, &format!("MERGE {MAPS}/c"), json!({"metadata": {"finalizers": ["example.com/a"]}})).unwrap();
    let path = format!("DELETE {MAPS}?labelSelector=chart%3Dx");
    let gone = send(&mut server, &path, json!({})).unwrap();
    assert_eq!((&gone["kind"], names(&gone)), (&json!("ConfigMapList"), vec!["a", "c"]));
    assert_eq!(gone["items"][1]["metadata"].get("deletionTimestamp"), None);
    let left = send(&mut server, &format!("GET {MAPS}"), Value::Null).unwrap();
    assert_eq!(names(&left), ["b", "c"]);
    assert!(left["items"][1]["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn a_cache_that_lags_serves_what_was_and_no_cache_serves_what_is_to_come() {
    let mut server = Server::cluster();
    ["a", "b", "c"].iter().for_each(|name| create(&mut server, name, "x"));
    server.set_lag(2);
    let old = send(&mut server, &format!("GET {MAPS}?resourceVersion=0"), Value::Null).unwrap();
    assert_eq!(names(&old), ["a"]);
    let (now, next) = (server.version(), server.version() + 1);
    let at_least = send(&mut server, &format!("GET {MAPS}?resourceVersion={}", now - 1), Value::Null).unwrap();
    assert_eq!(names(&at_least), ["a", "b"]);
    assert_eq!(names(&send(&mut server, &format!("GET {MAPS}"), Value::Null).unwrap()), ["a", "b", "c"]);
    let early = send(&mut server, &format!("GET {MAPS}?resourceVersion={next}"), Value::Null).unwrap_err();
    assert_eq!((early.code, &early.details["causes"][0]["reason"]), (504, &json!("ResourceVersionTooLarge")));
}

#[test]
fn a_backup_returns_and_no_uid_comes_twice() {
    let mut server = Server::cluster();
    create(&mut server, "a", "x");
    let backup = server.backup();
    let version = server.version();
    let path = format!("{MAPS}?watch=true&resourceVersion={version}");
    let mut watch = server.watch(&Request { path: &path, ..Request::default() }).unwrap();
    create(&mut server, "b", "x");
    let uid = server.object(&format!("{MAPS}/b")).unwrap()["metadata"]["uid"].clone();
    assert_eq!(server.changes(MAPS, "chart=x", version).unwrap()[0].kind, ChangeKind::Added);
    server.return_to(&backup);
    assert_eq!((server.version(), server.object(&format!("{MAPS}/b"))), (version, None));
    assert_eq!(watch.next(&server).unwrap_err().code, 410);
    create(&mut server, "b", "x");
    assert_ne!(server.object(&format!("{MAPS}/b")).unwrap()["metadata"]["uid"], uid);
}

#[test]
fn a_removed_definition_takes_its_objects_along() {
    let mut server = Server::cluster();
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}});
    let names = json!({"kind": "Thing", "plural": "things"});
    let spec = json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let things = "/apis/example.com/v1/namespaces/default/things";
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "status": {"a": 1}});
    assert_eq!(send(&mut server, &format!("POST {things}"), thing.clone()).unwrap_err().code, 404);
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": spec});
    send(&mut server, &format!("POST {definitions}"), definition).unwrap();
    let made = send(&mut server, &format!("POST {things}"), thing).unwrap();
    assert_eq!((made.get("status"), &made["metadata"]["generation"]), (None, &json!(1)));
    let stranger = json!({"metadata": {"uid": "another"}});
    let refused = send(&mut server, &format!("MERGE {things}/a"), stranger).unwrap_err();
    assert!(refused.message.starts_with("Thing.example.com \"a\" is invalid: metadata.uid: "), "{}", refused.message);
    send(&mut server, &format!("DELETE {definitions}/things.example.com"), json!({})).unwrap();
    assert_eq!(server.object(&format!("{things}/a")), None);
    assert_eq!(send(&mut server, &format!("GET {things}"), Value::Null).unwrap_err().code, 404);
}
