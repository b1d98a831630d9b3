//! Actions on a recorded revision, of which some objects' versions are served no more.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::kube::{Applier, Decoration, MemoryApi};
use crate::release::{ChartDocument, Info, Release};
use crate::storage::{MarkedObject, Marks};

/// A ConfigMap, a Thing in a version that is served no more, and a kind that is gone.
const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n\
    apiVersion: x/v1beta1\nkind: Thing\nmetadata: {name: b}\nspec: {size: 1}\n---\n\
    apiVersion: y/v1\nkind: Gone\nmetadata: {name: c}\n";

const THING: &str = "/apis/x/v1/namespaces/ns/things/b";

async fn recorded() -> Arc<MemoryApi> {
    let server = Arc::new(MemoryApi::new());
    server.serve("x/v1", "Thing", "things", true);
    let release = Release {
        name: "web".into(),
        namespace: "ns".into(),
        version: 1,
        info: Info::default(),
        chart: Arc::new(ChartDocument::from_json(&json!({"metadata": {"name": "c"}}).to_string()).unwrap()),
        config: json!({}),
        manifest: MANIFEST.into(),
        hooks: Vec::new(),
        apply_method: "ssa".into(),
        labels: Default::default(),
    };
    Storage::new(server.clone()).create(&release, &Marks::default()).await.unwrap();
    server
}

/// Runs with what an action needs.
async fn with<T>(server: &Arc<MemoryApi>, run: impl AsyncFnOnce(&Environment<'_>) -> T) -> T {
    let (applier, storage) = (Applier::new(server.clone()), Storage::new(server.clone()));
    let decoration = Decoration { release: "web".into(), namespace: "ns".into(), chart: "c".into(), owner: None };
    let live: HashMap<ObjectKey, Look> = HashMap::new();
    let (decoration, slot, options) = (&decoration, &(), Options::default());
    run(&Environment { applier: &applier, storage: &storage, decoration, live: &live, slot, options }).await
}

#[tokio::test]
async fn an_inventory_has_what_another_version_serves_and_nothing_that_is_gone() {
    let server = recorded().await;
    let (marks, _) = with(&server, async |env| inventory_of(env, 1).await).await.unwrap();
    let found: Vec<_> = marks.objects.iter().map(|o| (&*o.key.name, &*o.api_version)).collect();
    assert_eq!(found, [("a", "v1"), ("b", "x/v1beta1")]);
    server.refuse(|call| (call.path == "/apis").then(|| crate::kube::Error::answer(503, "", "away")));
    assert!(with(&server, async |env| inventory_of(env, 1).await).await.is_err(), "an outage is no proof");
}

#[tokio::test]
async fn a_repair_is_not_kept_from_its_object_by_others_that_are_served_no_more() {
    let server = recorded().await;
    let repaired = with(&server, async |env| {
        let (marks, _) = inventory_of(env, 1).await.unwrap();
        let drifted: Vec<&MarkedObject> = marks.objects.iter().filter(|o| &*o.key.name == "a").collect();
        repair(env, 1, None, &drifted).await
    });
    let names: Vec<_> = repaired.await.unwrap().into_iter().map(|one| one.key.name.to_string()).collect();
    assert_eq!(names, ["a"]);
}

#[tokio::test]
async fn a_rival_is_named_by_another_version() {
    let server = recorded().await;
    server.put(THING, json!({"metadata": {"name": "b"}, "spec": {"size": 2}}), "scaler");
    let rivals = with(&server, async |env| {
        let (marks, _) = inventory_of(env, 1).await.unwrap();
        let keys: Vec<ObjectKey> = marks.objects.iter().map(|o| o.key.clone()).collect();
        rivals(env, 1, None, &keys[1..]).await
    });
    let told: Vec<_> =
        rivals.await.unwrap().into_iter().map(|(key, rival)| (key.name.to_string(), rival.manager)).collect();
    assert_eq!(told, [("b".to_owned(), Some("scaler".to_owned()))]);
}
