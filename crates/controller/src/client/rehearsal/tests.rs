use std::sync::Arc;

use kube::client::Body;
use outside::{Api, Call, Error, MemoryApi, Response};
use serde_json::{Value, json};

use super::*;
use crate::testing;

const MAPS: &str = "/api/v1/namespaces/a/configmaps";
const MAP: &str = "/api/v1/namespaces/a/configmaps/b";

fn server() -> Arc<MemoryApi> {
    let server = Arc::new(MemoryApi::new());
    server.put(MAP, map("1"), "user");
    server
}

fn map(x: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "a"}, "data": {"x": x}})
}

fn rehearsal() -> Arc<Rehearsal> {
    Arc::new(Rehearsal::new(|_| ()))
}

fn client(server: &Arc<MemoryApi>) -> Client {
    Rehearsal::client(testing::client(server, &Arc::default()))
}

async fn send(client: &Client, call: Call) -> Result<Response, Error> {
    Api::send(client, call).await
}

fn merge(x: &str) -> Call {
    Call::merge(MAP, json!({"data": {"x": x}}).to_string().into_bytes())
}

/// Returns `METHOD path: x before -> x after (who checked)`.
fn lines(rehearsal: &Rehearsal) -> Vec<String> {
    let x = |object: Option<&Value>| object.map_or("-".to_owned(), |object| object["data"]["x"].to_string());
    let line = |write: &Write| {
        let after = match &write.after {
            Ok(after) => x(after.as_ref()),
            Err(refused) => format!("{} {}", refused.code, refused.message),
        };
        format!("{} {}: {} -> {after} ({:?})", write.method, write.path, x(write.before.as_ref()), write.checked)
    };
    rehearsal.take_writes().iter().map(line).collect()
}

#[tokio::test]
async fn writes_are_recorded_and_read_back_and_nothing_changes() {
    let (server, rehearsal) = (server(), rehearsal());
    let (client, version) = (client(&server), server.version());
    let read = || async { send(&client, Call::get(MAP)).await.and_then(|answer| answer.parse::<Value>()) };
    rehearsal
        .record(async {
            let version =
                |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
            let live = read().await.unwrap();
            assert_eq!(live["data"]["x"], "1");
            let answer: Value = send(&client, merge("2")).await.unwrap().parse().unwrap();
            let written = read().await.unwrap();
            assert_eq!(written["data"]["x"], "2", "a rehearsal reads its own writes");
            assert!(version(&answer) == version(&written) && version(&written) > version(&live), "newer than caches");
            send(&client, merge("3")).await.unwrap();
            send(&client, Call::delete(MAP, b"{}".to_vec())).await.unwrap();
            assert!(read().await.unwrap_err().is_missing_object());
            send(&client, Call::post(format!("{MAPS}?fieldManager=f"), map("4").to_string().into_bytes()))
                .await
                .unwrap();
            assert_eq!(read().await.unwrap()["data"]["x"], "4");
        })
        .await;
    let expected = [
        format!("PATCH {MAP}: \"1\" -> \"2\" (Server)"),
        format!("PATCH {MAP}: \"2\" -> \"3\" (Nobody)"),
        format!("DELETE {MAP}: \"3\" -> - (Nobody)"),
        format!("POST {MAP}: - -> \"4\" (Server)"),
    ];
    assert_eq!(lines(&rehearsal), expected);
    assert_eq!(read().await.unwrap()["data"]["x"], "1", "outside of the rehearsal nothing happened");
    assert_eq!(server.version(), version);
}

#[tokio::test]
async fn a_deletion_and_a_creation_are_checked_by_the_server() {
    let (server, rehearsal) = (server(), rehearsal());
    let (client, version) = (client(&server), server.version());
    rehearsal
        .record(async {
            send(&client, Call::delete(MAP, br#"{"preconditions": {}}"#.to_vec())).await.unwrap();
            let other = map("5").to_string().replace("\"b\"", "\"c\"").into_bytes();
            send(&client, Call::apply(format!("{MAPS}/c?fieldManager=f&force=true"), other)).await.unwrap();
        })
        .await;
    let expected = [format!("DELETE {MAP}: \"1\" -> - (Server)"), format!("PATCH {MAPS}/c: - -> \"5\" (Server)")];
    assert_eq!(lines(&rehearsal), expected);
    assert_eq!((server.version(), server.object(MAP).is_some()), (version, true));
}

#[tokio::test]
async fn an_object_that_is_created_anew_is_checked_under_another_name() {
    let (server, rehearsal) = (server(), rehearsal());
    let client = client(&server);
    let anew = |force: bool| {
        let path = format!("{MAP}?fieldManager=f&force={force}");
        let client = &client;
        async move {
            send(client, Call::delete(MAP, b"{}".to_vec())).await.unwrap();
            let answer = send(client, Call::apply(path, map("4").to_string().into_bytes())).await.unwrap();
            answer.parse::<Value>().unwrap()
        }
    };
    let made = rehearsal.record(anew(true)).await;
    assert_eq!((&made["metadata"]["name"], &made["data"]["x"]), (&json!("b"), &json!("4")));
    assert!(
        server.log().iter().any(|line| line.contains("/b-x7qzk")) && server.object(&format!("{MAP}-x7qzk")).is_none()
    );
    // The plan continues, whatever the API server dislikes about the name.
    server.refuse(|call| call.path.contains("/b-x7qzk").then(|| Error::from_status(422, "Invalid", "no")));
    let made = rehearsal.record(anew(false)).await;
    assert_eq!((&made["metadata"]["name"], &made["data"]["x"]), (&json!("b"), &json!("4")));
    let checked: Vec<Checked> = rehearsal.take_writes().iter().map(|write| write.checked).collect();
    assert_eq!(checked, [Checked::Server, Checked::Server, Checked::Nobody, Checked::Nobody]);
}

#[tokio::test]
async fn what_was_immutable_stays_so_in_an_object_that_is_created_anew() {
    let (server, rehearsal) = (server(), rehearsal());
    let client = client(&server);
    server.make_immutable("configmaps", "/data/x");
    let another = json!({"data": {"y": "2"}}).to_string().into_bytes();
    rehearsal
        .record(async {
            assert!(send(&client, merge("2")).await.unwrap_err().is_immutable());
            send(&client, Call::delete(MAP, b"{}".to_vec())).await.unwrap();
            send(&client, Call::post(MAPS, map("2").to_string().into_bytes())).await.unwrap();
            let back = send(&client, merge("1")).await.unwrap_err();
            assert_eq!((back.is_immutable(), back.fields()), (true, &["data.x".to_owned()][..]));
            send(&client, Call::merge(MAP, another)).await.unwrap();
        })
        .await;
    assert_eq!(rehearsal.take_writes().len(), 5);
}

/// Returns a client of a server that adds a field to maps with this `x`.
fn defaulting(server: &Arc<MemoryApi>, x: &'static str) -> Client {
    let inner = testing::client(server, &Arc::default());
    let service = tower::service_fn(move |request| {
        let inner = inner.clone();
        async move {
            let (head, body) = inner.send(request).await?.into_parts();
            let mut object: Value = serde_json::from_slice(&body.collect_bytes().await?)?;
            if object["data"]["x"] == x {
                object["data"]["default"] = "d".into();
            }
            Ok::<_, tower::BoxError>(http::Response::from_parts(head, Body::from(object.to_string().into_bytes())))
        }
    });
    Rehearsal::client(Client::new(service, "default"))
}

#[tokio::test]
async fn an_object_that_is_applied_again_gets_the_servers_defaults() {
    let (server, rehearsal) = (server(), rehearsal());
    let client = defaulting(&server, "2");
    let label = json!({"metadata": {"labels": {"a": "b"}}}).to_string().into_bytes();
    let applied = rehearsal.record(async {
        let labelled = send(&client, Call::merge(MAP, label)).await.unwrap().parse::<Value>().unwrap();
        let mut object = map("2");
        // The API server has another version: the earlier write did not reach it.
        object["metadata"]["resourceVersion"] = labelled["metadata"]["resourceVersion"].clone();
        let apply = Call::apply(format!("{MAP}?fieldManager=f&force=true"), object.to_string().into_bytes());
        send(&client, apply).await.unwrap().parse::<Value>().unwrap()
    });
    let applied = applied.await;
    assert_eq!(applied["data"], json!({"x": "2", "default": "d"}));
    assert_eq!(applied["metadata"]["labels"], json!({"a": "b"}), "an earlier write counts");
    assert_eq!(rehearsal.object(MAP).unwrap()["data"], applied["data"]);
}

#[tokio::test]
async fn a_refused_write_fails_as_it_would_and_is_recorded() {
    let (server, rehearsal) = (server(), rehearsal());
    server.refuse(|call| (call.method != "GET").then(|| Error::from_status(403, "Forbidden", "no")));
    let client = client(&server);
    let sent = rehearsal.record(send(&client, merge("2"))).await;
    assert!(sent.unwrap_err().is_forbidden());
    assert_eq!(lines(&rehearsal), [format!("PATCH {MAP}: \"1\" -> 403 no (Server)")]);
}

#[tokio::test]
async fn writes_beyond_the_memory_are_refused_and_not_kept() {
    let (server, rehearsal) = (server(), Arc::new(Rehearsal::new(|_| ()).within(1 << 20)));
    let large = format!("{MAPS}/c");
    let data: serde_json::Map<String, Value> = (0..10_000).map(|n| (format!("key{n}"), json!(""))).collect();
    let metadata = json!({"name": "c", "namespace": "a"});
    server.put(&large, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}), "user");
    let (client, before) = (client(&server), server.log().len());
    let refused = |sent: Result<Response, Error>| matches!(sent, Err(Error::Refused { code: 413, .. }));
    rehearsal
        .record(async {
            send(&client, merge("2")).await.unwrap();
            let label = json!({"metadata": {"labels": {"a": "b"}}}).to_string().into_bytes();
            assert!(refused(send(&client, Call::merge(large.clone(), label)).await));
            assert!(refused(send(&client, merge("3")).await), "so that nothing goes on");
        })
        .await;
    assert!(rehearsal.is_too_large() && rehearsal.object(&large).is_none());
    assert_eq!(lines(&rehearsal), [format!("PATCH {MAP}: \"1\" -> \"2\" (Server)")]);
    let log = server.log()[before..].to_vec();
    assert!(!log.iter().any(|line| line.starts_with("PATCH") && line.contains(&large)), "{log:?}");
}

#[tokio::test]
async fn a_check_is_no_write_and_what_is_outside_of_a_rehearsal_is_neither_sent_nor_recorded() {
    let (server, rehearsal) = (server(), rehearsal());
    let (client, asked) = (client(&server), server.log().len());
    send(&client, merge("2")).await.unwrap();
    send(&client, Call::delete(MAP, Vec::new())).await.unwrap();
    let created = map("5").to_string().replace("\"b\"", "\"c\"").into_bytes();
    send(&client, Call::post(MAPS, created)).await.unwrap();
    let read: Value = send(&client, Call::get(format!("{MAPS}/c"))).await.unwrap().parse().unwrap();
    assert_eq!((&read["data"]["x"], server.log().len()), (&json!("5"), asked), "what it created can be read");
    let check = Call::merge(format!("{MAP}?dryRun=All"), br#"{"data": {"x": "2"}}"#.to_vec());
    let checked: Value = rehearsal.record(send(&client, check)).await.unwrap().parse().unwrap();
    assert_eq!((checked["data"]["x"].as_str(), rehearsal.take_writes().len()), (Some("2"), 0));
}

#[tokio::test]
async fn written_objects_settle_and_new_namespaces_hold_objects() {
    let server = Arc::new(MemoryApi::cluster());
    let rehearsal = Arc::new(Rehearsal::new(|object| {
        if object["kind"] == "Job" {
            object["status"]["succeeded"] = 1.into();
        }
    }));
    let client = client(&server);
    let create = |path: &str, api_version: &str, kind: &str, name: &str| {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        send(&client, Call::post(path.to_owned(), object.to_string().into_bytes()))
    };
    let job = rehearsal.record(async {
        create("/api/v1/namespaces", "v1", "Namespace", "new").await.unwrap();
        create("/apis/batch/v1/namespaces/new/jobs", "batch/v1", "Job", "j").await.unwrap();
        send(&client, Call::get("/apis/batch/v1/namespaces/new/jobs/j")).await.unwrap().parse::<Value>().unwrap()
    });
    assert_eq!(job.await["status"]["succeeded"], 1);
    let writes = rehearsal.take_writes();
    assert_eq!(writes.iter().map(|write| write.checked).collect::<Vec<_>>(), [Checked::Server, Checked::Nobody]);
    assert!(server.object("/api/v1/namespaces/new").is_none());
}

#[tokio::test]
async fn a_binding_whose_role_is_created_anew_changes_from_what_the_server_has() {
    let (server, rehearsal) = (Arc::new(MemoryApi::cluster()), rehearsal());
    let (client, folder) = (client(&server), "/apis/rbac.authorization.k8s.io/v1/namespaces/default");
    let path = format!("{folder}/rolebindings/b");
    let object = |kind: &str, name: &str, label: &str| {
        let metadata = json!({"name": name, "namespace": "default", "labels": {"a": label}});
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata})
    };
    let mut binding = object("RoleBinding", "b", "1");
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    server.put(&path, binding.clone(), "user");
    let live = server.object(&path).unwrap();
    server.refuse(|call| {
        let is_refused = call.method == "PATCH" && call.path.contains("/rolebindings/b");
        is_refused.then(|| Error::from_status(404, "NotFound", "roles.rbac.authorization.k8s.io \"r\" not found"))
    });
    binding["metadata"]["labels"]["a"] = "2".into();
    binding["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    let apply = |uid: &Value| {
        let mut object = binding.clone();
        object["metadata"]["uid"] = uid.clone();
        send(&client, Call::apply(format!("{path}?fieldManager=f&force=true"), object.to_string().into_bytes()))
    };
    rehearsal
        .record(async {
            let role = object("Role", "r", "2").to_string().into_bytes();
            send(&client, Call::post(format!("{folder}/roles"), role)).await.unwrap();
            assert!(apply(&json!("another")).await.unwrap_err().is_conflict());
            assert!(rehearsal.object(&path).is_none(), "it is not written");
            apply(&live["metadata"]["uid"]).await.unwrap();
        })
        .await;
    assert_eq!(rehearsal.object(&path).unwrap()["metadata"]["labels"]["a"], "2");
    let writes = rehearsal.take_writes();
    let checked: Vec<Checked> = writes.iter().map(|write| write.checked).collect();
    assert_eq!(checked, [Checked::Server, Checked::Nobody, Checked::Nobody]);
    let [before, after] = [writes[2].before.clone(), writes[2].after.clone().unwrap()].map(Option::unwrap);
    assert_eq!((&before["metadata"]["labels"]["a"], &after["metadata"]["labels"]["a"]), (&json!("1"), &json!("2")));
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
}

#[tokio::test]
async fn a_kind_is_served_once_its_definition_was_created() {
    let (server, rehearsal) = (Arc::new(MemoryApi::cluster()), rehearsal());
    let client = client(&server);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "shops.a.b"},
        "spec": {
            "group": "a.b", "scope": "Namespaced", "names": {"kind": "Shop", "plural": "shops"},
            "versions": [{"name": "v1", "served": true}],
        },
    });
    let shop = "/apis/a.b/v1/namespaces/default/shops/s";
    let object = json!({"apiVersion": "a.b/v1", "kind": "Shop", "metadata": {"name": "s", "namespace": "default"}});
    let apply = || Call::apply(format!("{shop}?fieldManager=f"), object.to_string().into_bytes());
    let served = async || {
        let answer = send(&client, Call { accept: Some(outside::DISCOVERY), ..Call::get("/apis") }).await.unwrap();
        answer.parse::<Value>().unwrap().to_string().contains("\"Shop\"")
    };
    rehearsal
        .record(async {
            assert!(!served().await && send(&client, apply()).await.is_err());
            send(&client, Call::post(definitions, definition.to_string().into_bytes())).await.unwrap();
            assert!(served().await);
            assert!(send(&client, Call::get(shop)).await.unwrap_err().is_missing_object());
            send(&client, apply()).await.unwrap();
            assert!(send(&client, Call::get(shop)).await.is_ok());
        })
        .await;
    assert!(!served().await, "nothing of it is outside of the rehearsal");
    let checked: Vec<Checked> = rehearsal.take_writes().iter().map(|write| write.checked).collect();
    assert_eq!(checked, [Checked::Server, Checked::Server, Checked::Nobody]);
}

#[test]
fn reviews_and_checks_are_sent_and_other_writes_are_not() {
    use layer::{Holder, Way};
    let check = format!("{MAP}?dryRun=All");
    for (method, path, holder, expected) in [
        ("GET", MAP, Holder::Server, Way::Sent),
        ("GET", MAP, Holder::Overlay, Way::Kept),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", Holder::Server, Way::Sent),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", Holder::Server, Way::Sent),
        ("POST", "/apis/shop.example.com/v1/namespaces/ns/productreviews", Holder::Server, Way::Rehearsed),
        ("PATCH", &check, Holder::Server, Way::Sent),
        ("PATCH", &check, Holder::Overlay, Way::Kept),
        ("POST", MAPS, Holder::Server, Way::Rehearsed),
        ("DELETE", MAP, Holder::Overlay, Way::Rehearsed),
    ] {
        let way = layer::way(&method.parse().unwrap(), &path.parse().unwrap(), holder);
        assert_eq!(way, expected, "{method} {path}");
    }
}
