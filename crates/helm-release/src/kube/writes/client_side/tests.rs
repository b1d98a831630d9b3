use std::sync::Arc;

use outside::{Disturbance, MemoryApi, Purpose};
use serde_json::{Value, json};

use super::patch::three_way;
use super::schema::Document;
use super::*;
use crate::kube::fields::unapplied::is_unapplied;
use crate::kube::live_state::live::Proven;
use crate::kube::live_state::ownership::{Adopt, Rule};
use crate::kube::objects::decorate::{Decoration, Tie};
use crate::kube::writes::apply::{Applied, ApplyError, Target};
use crate::kube::writes::write::{ApplyMethod, Policy, Previous};
use crate::sample;

/// Returns an excerpt of a real server's `/openapi/v3/apis/apps/v1`.
fn document() -> Document {
    let reference = |name: &str| json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]});
    let list = |of: &str, key: &str, strategy: &str| json!({"type": "array", "items": reference(of), "x-kubernetes-patch-merge-key": key, "x-kubernetes-patch-strategy": strategy});
    let mut strategy = reference("Strategy");
    strategy["x-kubernetes-patch-strategy"] = "retainKeys".into();
    let mut whole = reference("Whole");
    whole["x-kubernetes-patch-strategy"] = "replace".into();
    let finalizers = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"});
    let document = json!({"paths": {"/x": {}}, "components": {"schemas": {
        "com.example.v1.Deployment": {"x-kubernetes-group-version-kind": [{"kind": "Deployment"}]},
        "io.k8s.api.apps.v1.Deployment": {
            "x-kubernetes-group-version-kind": [{"group": "apps", "kind": "Deployment", "version": "v1"}],
            "properties": {"metadata": reference("Meta"), "spec": reference("Spec")},
        },
        "Meta": {"properties": {
            "finalizers": finalizers, "labels": {"additionalProperties": {"type": "string"}},
            "ownerReferences": list("Owner", "uid", "merge"),
        }},
        "Spec": {"properties": {
            "strategy": strategy, "whole": whole, "containers": list("Container", "name", "merge"),
            "volumes": list("Volume", "name", "merge,retainKeys"), "args": {"items": {"type": "string"}},
        }},
        "Strategy": {"properties": {"type": {}, "rollingUpdate": {}}},
        "Container": {"properties": {"env": list("Env", "name", "merge"), "image": {}}},
        "Env": {}, "Owner": {}, "Volume": {}, "Whole": {},
    }}});
    serde_json::from_value(document).unwrap()
}

/// Returns the strategic patch of three `spec`s.
fn strategic(last: Value, new: Value, live: Value) -> Value {
    let document = document();
    let of = |spec: Value| json!({"spec": spec});
    let patch = three_way(Some(&of(last)), &of(new), &of(live), document.schema("Deployment"));
    patch.get("spec").cloned().unwrap_or(Value::Null)
}

fn merge(last: Value, new: Value, live: Value) -> Value {
    three_way(Some(&last), &new, &live, None).into()
}

#[test]
fn structures_get_what_is_new_and_lose_what_only_the_last_manifest_had() {
    type States = [Value; 3];
    let check = |[last, new, live]: States, expected: Value| {
        assert_eq!(merge(last.clone(), new.clone(), live.clone()), expected, "{last} {new} {live}");
    };
    check([json!({}), json!({"a": 1}), json!({})], json!({"a": 1}));
    check([json!({"a": 1}), json!({"a": 1}), json!({"a": 1})], json!({}));
    check([json!({"a": 1}), json!({"a": 2}), json!({"a": 1})], json!({"a": 2}));
    check([json!({"a": 1}), json!({"a": 1}), json!({"a": 3})], json!({"a": 1}));
    check([json!({"a": 1}), json!({}), json!({"a": 1})], json!({"a": null}));
    check([json!({"a": 1}), json!({}), json!({})], json!({}));
    check([json!({}), json!({}), json!({"a": 1})], json!({}));
    check(
        [json!({"a": {"b": 1, "c": 2}}), json!({"a": {"c": 2}}), json!({"a": {"b": 1, "c": 2, "d": 3}})],
        json!({"a": {"b": null}}),
    );
    check([json!({}), json!({"a": {"b": 1}}), json!({"a": "text"})], json!({"a": {"b": 1}}));
    check([json!({}), json!({"a": [1, 2]}), json!({"a": [2, 1]})], json!({"a": [1, 2]}));
    check([json!({}), json!({"a": [1]}), json!({"a": {"b": 1}})], json!({"a": [1]}));
    check([json!({}), json!({"a": null}), json!({})], json!({}));
    check([json!({}), json!({"a": null}), json!({"a": 1})], json!({"a": null}));
    assert_eq!(three_way(None, &json!({"a": 1}), &json!({"b": 1}), None), *json!({"a": 1}).as_object().unwrap());
    assert!(three_way(None, &json!("x"), &json!({}), None).is_empty());
}

#[test]
fn a_union_keeps_only_the_fields_of_the_new_manifest() {
    let rolling = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}});
    let recreate = json!({"strategy": {"type": "Recreate"}});
    assert_eq!(
        strategic(json!({}), recreate.clone(), rolling.clone()),
        json!({"strategy": {"type": "Recreate", "$retainKeys": ["type"]}})
    );
    assert_eq!(strategic(recreate.clone(), recreate.clone(), recreate.clone()), Value::Null);
    // Additional fields that only the server has are also cleared.
    let surplus = json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}});
    assert_eq!(strategic(json!({}), recreate.clone(), surplus), json!({"strategy": {"$retainKeys": ["type"]}}));
    let empty = json!({"strategy": {"type": "Recreate", "rollingUpdate": null}});
    assert_eq!(strategic(json!({}), recreate, empty), Value::Null);
    let volume = |source: &str| json!({"volumes": [{"name": "x", source: {}}]});
    assert_eq!(
        strategic(json!({"volumes": [{"name": "x"}]}), volume("configMap"), volume("emptyDir")),
        json!({"$setElementOrder/volumes": [{"name": "x"}], "volumes": [{"name": "x", "configMap": {}, "$retainKeys": ["configMap", "name"]}]})
    );
}

#[test]
fn keyed_lists_are_merged_by_key() {
    let containers = |all: Value| json!({"containers": all});
    let (a, b) = (json!({"name": "a", "image": "1"}), json!({"name": "b", "image": "1"}));
    let order = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Value>();
    let check = |[last, new, live]: [Value; 3], expected: Value| {
        assert_eq!(strategic(containers(last), containers(new), containers(live)), expected);
    };
    check([json!([a]), json!([a]), json!([{"name": "a", "image": "1", "default": 1}])], Value::Null);
    check(
        [json!([a]), json!([{"name": "a", "image": "2"}]), json!([a])],
        json!({"$setElementOrder/containers": order(&["a"]), "containers": [{"name": "a", "image": "2"}]}),
    );
    check(
        [json!([a]), json!([a, b]), json!([a])],
        json!({"$setElementOrder/containers": order(&["a", "b"]), "containers": [b]}),
    );
    check(
        [json!([a, b]), json!([a]), json!([a, b])],
        json!({"$setElementOrder/containers": order(&["a"]), "containers": [{"$patch": "delete", "name": "b"}]}),
    );
    check([json!([a, b]), json!([a]), json!([a])], Value::Null);
    // Another manager's element stays.
    check([json!([a]), json!([a]), json!([a, b])], Value::Null);
    check([json!([a, b]), json!([b, a]), json!([a, b])], json!({"$setElementOrder/containers": order(&["b", "a"])}));
    let env = |env: Value| json!([{"name": "a", "env": env}]);
    check(
        [
            env(json!([{"name": "X", "value": "1"}, {"name": "Y"}])),
            env(json!([{"name": "X", "value": "2"}])),
            env(json!([{"name": "X", "value": "1"}, {"name": "Y"}])),
        ],
        json!({"$setElementOrder/containers": order(&["a"]), "containers": [{"name": "a", "$setElementOrder/env": order(&["X"]), "env": [
            {"name": "X", "value": "2"}, {"$patch": "delete", "name": "Y"},
        ]}]}),
    );
}

#[test]
fn lists_with_missing_or_duplicate_keys_are_replaced() {
    let containers = |all: Value| json!({"containers": all});
    let check = |new: Value, live: Value| {
        let mut all = new.as_array().unwrap().clone();
        all.push(json!({"$patch": "replace"}));
        assert_eq!(strategic(containers(new.clone()), containers(new), containers(live)), containers(all.into()));
    };
    check(json!([{"name": "a"}, {"name": "a"}]), json!([{"name": "a"}]));
    check(json!([{"name": "a"}]), json!([{"name": "a"}, {"name": "a"}]));
    check(json!([{"name": "a"}]), json!([{"image": "x"}]));
    check(json!([{"name": null}]), json!([{"name": "a"}]));
    let twice = json!([{"name": "a"}, {"name": "a"}]);
    assert_eq!(strategic(containers(twice.clone()), containers(twice.clone()), containers(twice)), Value::Null);
}

#[test]
fn other_lists_are_merged_as_sets_or_replaced() {
    let patch = |last: Value, new: Value, live: Value| {
        let document = document();
        let of = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
        let patch = three_way(Some(&of(last)), &of(new), &of(live), document.schema("Deployment"));
        patch.get("metadata").cloned().unwrap_or(Value::Null)
    };
    let order = |all: Value| json!({"$setElementOrder/finalizers": all});
    assert_eq!(patch(json!(["a"]), json!(["a"]), json!(["b", "a"])), Value::Null);
    let mut added = order(json!(["a", "c"]));
    added["finalizers"] = json!(["c"]);
    assert_eq!(patch(json!(["a"]), json!(["a", "c"]), json!(["a"])), added);
    let mut dropped = order(json!(["a"]));
    dropped["$deleteFromPrimitiveList/finalizers"] = json!(["c"]);
    assert_eq!(patch(json!(["a", "c"]), json!(["a"]), json!(["a", "b", "c"])), dropped);
    assert_eq!(strategic(json!({}), json!({"args": ["a"]}), json!({"args": ["b"]})), json!({"args": ["a"]}));
    assert_eq!(
        strategic(json!({}), json!({"whole": {"a": 1}}), json!({"whole": {"b": 1}})),
        json!({"whole": {"a": 1}})
    );
    assert_eq!(
        strategic(json!({}), json!({"whole": {"a": 1, "b": 1}}), json!({"whole": {"b": 1}})),
        json!({"whole": {"a": 1, "b": 1}}),
        "a field with the strategy replace is sent whole"
    );
    assert_eq!(
        strategic(json!({}), json!({"unknown": {"a": [1]}}), json!({"unknown": {"a": [2]}})),
        json!({"unknown": {"a": [1]}})
    );
    assert!(document().schema("Service").is_none());
}

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/ns/deployments/web";

fn decoration() -> Decoration {
    Decoration { owner: None, ..sample::decoration() }
}

fn deployment(image: &str) -> Object {
    let spec = json!({"image": image});
    Object::new(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}))
        .unwrap()
}

/// A deployed revision with this object.
struct Last(Object);

impl MergeBases for Last {
    fn of<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<Vec<Object>, Error>> {
        Box::pin(async { Ok(vec![self.0.clone()]) })
    }
}

const TYPED: &str =
    "failed to create typed patch object (ns/web; apps/v1, Kind=Deployment): .spec.bogus: field not declared in schema";

/// Returns a server that rejects applying the Deployment with image `odd`, with the error of a typed patch.
fn server() -> (Arc<MemoryApi>, Applier) {
    let server = Arc::new(MemoryApi::new());
    server.refuse(|call| {
        let (content_type, body) = call.body.as_ref()?;
        let odd = *content_type == "application/apply-patch+yaml" && String::from_utf8_lossy(body).contains("odd");
        odd.then(|| Error::from_status(500, "", TYPED))
    });
    (server.clone(), Applier::new(server))
}

/// The known state of the Deployment before a write.
#[derive(Clone, Copy, Debug)]
enum Mode {
    New,
    Ours,
    Adopt,
    Client,
    ClientChanged,
}

async fn apply(
    (server, applier): &(Arc<MemoryApi>, Applier),
    object: &Object,
    policy: Policy,
    last: &dyn MergeBases,
    mode: Mode,
) -> Result<Applied, ApplyError> {
    let gone = Proven { uid: "gone".into(), resource_version: "1".into() };
    let live = server.object(DEPLOYMENT).map(|live| serde_json::from_value::<Live>(live).unwrap().proven());
    let ours = Found::Ours { proven: live.unwrap_or(gone), scaled: false, kept: false };
    let (rule, observed, previous) = match mode {
        Mode::New => (Rule::Import, Found::Absent, Previous::Apply),
        Mode::Ours => (Rule::Keep, ours, Previous::Apply),
        Mode::Adopt => (Rule::Adopt(Adopt::Any), Found::Unknown, Previous::Apply),
        Mode::Client => (Rule::Keep, ours, Previous::Client { changed: false }),
        Mode::ClientChanged => (Rule::Keep, ours, Previous::Client { changed: true }),
    };
    let target = Target { rule, observed, previous, changed: false, ..sample::target(object) };
    Ok(applier.apply(&target, &WriteOptions::new(&decoration(), policy, last)).await?.unwrap())
}

fn log(server: &MemoryApi, from: usize) -> Vec<String> {
    let short = |line: &String| line.replace("/apis/apps/v1/namespaces/ns/deployments", "deployments");
    server.log()[from..].iter().filter(|l| !l.ends_with("/api") && !l.ends_with("/apis")).map(short).collect()
}

#[tokio::test]
async fn objects_that_an_apply_rejects_are_created_and_patched_client_side() {
    let world = server();
    let server = &world.0;
    let made = apply(&world, &deployment("odd1"), Policy::Auto, &(), Mode::New).await.unwrap();
    let refused = "does not fit its schema: .spec.bogus: field not declared in schema".to_owned();
    assert_eq!(made.method, ApplyMethod::Client { refused: Some(refused) });
    assert_eq!(log(server, 0), ["PATCH deployments/web", "POST deployments"]);
    let entries = server.object(DEPLOYMENT).unwrap()["metadata"]["managedFields"].clone();
    assert_eq!((&entries[0]["manager"], &entries[0]["operation"]), (&json!("helm-operator"), &json!("Update")));
    assert!(made.live.mark.is_some(), "its mark digests the client-side entry");

    let previous = server.log().len();
    let last = Last(deployment("odd1"));
    let mut changed = deployment("odd2");
    changed.body["spec"]["size"] = 1.into();
    let again = apply(&world, &changed, Policy::Auto, &last, Mode::ClientChanged).await.unwrap();
    assert!(matches!(again.method, ApplyMethod::Client { refused: Some(_) }));
    let patched = [
        "GET deployments/web",
        "PATCH deployments/web",
        "GET deployments/web",
        "GET /openapi/v3/apis/apps/v1",
        "PATCH deployments/web",
    ];
    assert_eq!(log(server, previous), patched);
    assert_eq!(server.object(DEPLOYMENT).unwrap()["spec"], json!({"image": "odd2", "size": 1}));

    let previous = server.log().len();
    apply(&world, &deployment("odd2"), Policy::Auto, &Last(changed), Mode::Client).await.unwrap();
    assert_eq!(log(server, previous)[0], "GET deployments/web", "a repair does not try server-side apply again");
    assert_eq!(
        server.object(DEPLOYMENT).unwrap()["spec"],
        json!({"image": "odd2"}),
        "what only the last manifest had is gone"
    );
    let previous = server.log().len();
    apply(&world, &deployment("odd2"), Policy::Auto, &(), Mode::Client).await.unwrap();
    assert_eq!(log(server, previous), ["GET deployments/web"], "nothing differs, so nothing is sent");
}

const CLUSTER: &str = "/apis/example.com/v1/namespaces/ns/clusters/web";

/// Returns a custom resource to which the chart gives this finalizer.
fn cluster(finalizer: &str) -> Object {
    let metadata = json!({"name": "web", "finalizers": [finalizer]});
    Object::new(json!({"apiVersion": "example.com/v1", "kind": "Cluster", "metadata": metadata})).unwrap()
}

async fn write_cluster(applier: &Applier, object: &Object, last: &dyn MergeBases) -> Applied {
    let decoration = sample::decoration();
    applier
        .apply(&sample::target(object), &WriteOptions::new(&decoration, Policy::Client, last))
        .await
        .unwrap()
        .unwrap()
}

/// Adds an owner reference and a finalizer to the custom resource, as another controller does.
fn join(server: &MemoryApi, who: &str) {
    let mut live = server.object(CLUSTER).unwrap();
    let reference = json!({"apiVersion": "x.y/v1", "kind": "Fleet", "name": who, "uid": who});
    live["metadata"]["ownerReferences"].as_array_mut().unwrap().push(reference);
    live["metadata"]["finalizers"].as_array_mut().unwrap().push(format!("x.y/{who}").into());
    server.put(CLUSTER, live, who);
}

/// Returns a server with the custom resource, created client-side, that another controller has joined.
async fn joined_cluster() -> (Arc<MemoryApi>, Applier) {
    let server = Arc::new(MemoryApi::new());
    server.serve("example.com/v1", "Cluster", "clusters");
    let applier = Applier::new(server.clone());
    write_cluster(&applier, &cluster("chart/a"), &()).await;
    join(&server, "theirs");
    (server, applier)
}

/// Returns the uids of the custom resource's owners, and its finalizers.
fn owners_and_finalizers(server: &MemoryApi) -> (Value, Value) {
    let metadata = server.object(CLUSTER).unwrap()["metadata"].clone();
    let owners = metadata["ownerReferences"].as_array().unwrap().iter().map(|owner| owner["uid"].clone());
    (owners.collect(), metadata["finalizers"].clone())
}

#[tokio::test]
async fn custom_resources_keep_the_owner_references_and_finalizers_of_others() {
    let (server, applier) = joined_cluster().await;
    let uid = server.object(CLUSTER).unwrap()["metadata"]["uid"].clone();
    let changed = write_cluster(&applier, &cluster("chart/b"), &Last(cluster("chart/a"))).await;
    let finalizers = json!(["x.y/theirs", "chart/b"]);
    assert_eq!(owners_and_finalizers(&server), (json!(["u1", "theirs"]), finalizers.clone()));
    let again = write_cluster(&applier, &cluster("chart/b"), &Last(cluster("chart/b"))).await;
    assert_eq!((changed.changed, again.changed), (true, false));

    let mut live = server.object(CLUSTER).unwrap();
    live["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
    server.put(CLUSTER, live, "kubectl");
    write_cluster(&applier, &cluster("chart/b"), &Last(cluster("chart/b"))).await;
    assert_eq!(owners_and_finalizers(&server), (json!(["theirs"]), finalizers), "only our reference goes");
    assert_eq!(server.object(CLUSTER).unwrap()["metadata"]["uid"], uid);
}

#[tokio::test]
async fn what_others_add_to_a_custom_resource_after_its_read_stays() {
    let (server, applier) = joined_cluster().await;
    let state = Arc::downgrade(&server);
    server.refuse(move |call| {
        let server = state.upgrade().filter(|_| call.method == http::Method::PATCH)?;
        if !owners_and_finalizers(&server).0.as_array()?.contains(&json!("late")) {
            join(&server, "late");
        }
        None
    });
    write_cluster(&applier, &cluster("chart/b"), &Last(cluster("chart/a"))).await;
    let finalizers = json!(["x.y/theirs", "x.y/late", "chart/b"]);
    assert_eq!(owners_and_finalizers(&server), (json!(["u1", "theirs", "late"]), finalizers));
}

#[tokio::test]
async fn a_kept_built_in_object_loses_only_our_owner_reference() {
    let (document, object) = (document(), deployment("a"));
    let kept = Decoration { tie: Tie::Annotations, ..sample::decoration() };
    let body = Applier::new(Arc::new(MemoryApi::new())).body(&object, &kept).await.unwrap();
    let mut live = sample::decoration().decorate(&object, &body.resource);
    (live["metadata"]["uid"], live["metadata"]["resourceVersion"]) = ("d".into(), "7".into());
    live["metadata"]["ownerReferences"].as_array_mut().unwrap().push(json!({"uid": "theirs"}));
    let patch = patch_over(Some(&object), &body, &kept, &live, document.schema("Deployment")).unwrap();
    let (owners, version) = (&patch["metadata"]["ownerReferences"], &patch["metadata"]["resourceVersion"]);
    assert_eq!((owners, version), (&json!([{"$patch": "delete", "uid": "u1"}]), &json!("7")));
}

#[tokio::test]
async fn fields_that_became_ours_for_an_apply_that_is_rejected_are_set_by_the_merge() {
    let world = server();
    let server = &world.0;
    let annotations = json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"});
    let mut helms = deployment("old").body;
    helms["metadata"]["annotations"] = annotations;
    server.put(DEPLOYMENT, helms, "helm");
    let merged = apply(&world, &deployment("odd"), Policy::Auto, &(), Mode::Adopt).await.unwrap();
    assert!(matches!(merged.method, ApplyMethod::Client { refused: Some(_) }), "{:?}", merged.method);
    let live = server.object(DEPLOYMENT).unwrap();
    let managers = &live["metadata"]["managedFields"];
    assert!(managers.as_array().unwrap().iter().all(|entry| entry["manager"] == "helm-operator"), "{managers}");
    assert_eq!((&live["spec"]["image"], is_unapplied(managers)), (&json!("odd"), false));
    let previous = server.log().len();
    apply(&world, &deployment("odd"), Policy::Auto, &(), Mode::Client).await.unwrap();
    assert_eq!(log(server, previous), ["GET deployments/web"], "nothing is left to do");
}

#[tokio::test]
async fn objects_return_to_server_side_apply_once_it_accepts_them() {
    let world = server();
    let server = &world.0;
    apply(&world, &deployment("odd"), Policy::Auto, &(), Mode::New).await.unwrap();
    let previous = server.log().len();
    let back =
        apply(&world, &deployment("fine"), Policy::Auto, &Last(deployment("odd")), Mode::ClientChanged).await.unwrap();
    assert_eq!(back.method, ApplyMethod::Server);
    let dry_run_then_move =
        ["GET deployments/web", "PATCH deployments/web", "PATCH deployments/web", "PATCH deployments/web"];
    assert_eq!(log(server, previous), dry_run_then_move);
    let entries = server.object(DEPLOYMENT).unwrap()["metadata"]["managedFields"].clone();
    assert_eq!((entries.as_array().unwrap().len(), &entries[0]["operation"]), (1, &json!("Apply")));
    // So do objects with the policy `Server`.
    let world = self::server();
    apply(&world, &deployment("odd"), Policy::Client, &(), Mode::New).await.unwrap();
    let moved = apply(&world, &deployment("fine"), Policy::Server, &(), Mode::Client).await.unwrap();
    assert_eq!(moved.method, ApplyMethod::Server);
}

#[tokio::test]
async fn the_policy_selects_the_apply_method() {
    let world = server();
    let server = &world.0;
    let refused = apply(&world, &deployment("odd"), Policy::Server, &(), Mode::New).await.unwrap_err();
    assert!(matches!(&refused, ApplyError::Failed { source, .. } if source.code() == Some(422)), "{refused}");
    assert!(server.object(DEPLOYMENT).is_none());
    let previous = server.log().len();
    let made = apply(&world, &deployment("fine"), Policy::Client, &(), Mode::New).await.unwrap();
    assert_eq!(
        (made.method, log(server, previous)),
        (ApplyMethod::Client { refused: None }, vec!["POST deployments".to_owned()])
    );
    let changed =
        apply(&world, &deployment("other"), Policy::Client, &Last(deployment("fine")), Mode::Ours).await.unwrap();
    assert_eq!(changed.method, ApplyMethod::Client { refused: None });
    let same =
        apply(&world, &deployment("other"), Policy::Client, &Last(deployment("other")), Mode::Ours).await.unwrap();
    assert_eq!((made.changed, changed.changed, same.changed), (true, true, false));
    assert_eq!(server.object(DEPLOYMENT).unwrap()["spec"]["image"], "other");
    server.remove(DEPLOYMENT);
    apply(&world, &deployment("again"), Policy::Client, &(), Mode::Ours).await.unwrap();
    assert_eq!(server.object(DEPLOYMENT).unwrap()["spec"]["image"], "again");
}

#[tokio::test]
async fn client_side_writes_respect_ownership_unless_adopting() {
    let world = server();
    let server = &world.0;
    let annotations = json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "ns"});
    let metadata = json!({"name": "web", "annotations": annotations});
    let foreign =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"image": "theirs"}});
    server.put(DEPLOYMENT, foreign, "kubectl");
    let error = apply(&world, &deployment("odd"), Policy::Auto, &(), Mode::New).await.unwrap_err();
    assert!(matches!(error, ApplyError::Foreign { .. }), "{error}");
    assert_eq!(server.object(DEPLOYMENT).unwrap()["spec"]["image"], "theirs");
    apply(&world, &deployment("odd"), Policy::Auto, &(), Mode::Adopt).await.unwrap();
    assert_eq!(server.object(DEPLOYMENT).unwrap()["spec"]["image"], "odd");
}

#[tokio::test]
async fn objects_that_are_replaced_or_change_hands_are_judged_again() {
    for is_replaced in [true, false] {
        let world = server();
        let server = &world.0;
        apply(&world, &deployment("odd1"), Policy::Auto, &(), Mode::New).await.unwrap();
        // Between the check and the write, the object becomes another release's, or that one's takes its place.
        let state = Arc::downgrade(server);
        let metadata = json!({"name": "web", "annotations": {"meta.helm.sh/release-name": "other"}});
        let foreign = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata});
        server.refuse(move |call| {
            let server = state.upgrade()?;
            if call.method == http::Method::GET && server.object(DEPLOYMENT)?["spec"]["image"] == "odd1" {
                if is_replaced {
                    server.remove(DEPLOYMENT);
                }
                server.put(DEPLOYMENT, foreign.clone(), "kubectl");
            }
            None
        });
        let error = apply(&world, &deployment("odd1"), Policy::Auto, &(), Mode::Client).await.unwrap_err();
        assert!(matches!(error, ApplyError::Taken(_)), "{error}");
        server.accept();
        // Deleted: created again.
        server.remove(DEPLOYMENT);
        apply(&world, &deployment("odd2"), Policy::Auto, &(), Mode::Client).await.unwrap();
        assert_eq!(server.object(DEPLOYMENT).unwrap()["spec"]["image"], "odd2");
    }
}

#[tokio::test]
async fn the_apply_error_is_reported_when_both_methods_are_rejected() {
    let world = server();
    let server = &world.0;
    server.refuse(|call| {
        (call.method == http::Method::POST).then(|| Error::from_status(400, "BadRequest", "no such type"))
    });
    let error = apply(&world, &deployment("odd"), Policy::Auto, &(), Mode::New).await.unwrap_err();
    assert!(
        matches!(&error, ApplyError::Failed { source, .. } if source.to_string().contains(".spec.bogus")),
        "{error:?}"
    );
    server.refuse(|call| (call.method == http::Method::POST).then(|| Error::from_status(503, "", "away")));
    let error = apply(&world, &deployment("odd"), Policy::Auto, &(), Mode::New).await.unwrap_err();
    assert!(matches!(&error, ApplyError::Failed { source, .. } if source.to_string() == "away"), "{error:?}");
    // An outage during an apply does not lead to a client-side write.
    server.accept();
    server.refuse(|call| {
        (call.method == http::Method::PATCH).then(|| Error::from_status(500, "InternalError", "failed calling webhook"))
    });
    let previous = server.log().len();
    apply(&world, &deployment("fine"), Policy::Auto, &(), Mode::New).await.unwrap_err();
    assert_eq!(log(server, previous), ["PATCH deployments/web"]);
}

const JOB: &str = "/apis/batch/v1/namespaces/ns/jobs/web";

fn job(image: &str) -> Object {
    let spec = json!({"template": image});
    Object::new(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec})).unwrap()
}

async fn write_job(applier: &Applier, object: &Object, previous: Previous, last: &dyn MergeBases) -> Applied {
    let decoration = decoration();
    let target = Target { previous, ..sample::target(object) };
    let options = WriteOptions::new(&decoration, Policy::Auto, last);
    applier.apply_all(&[target], &options).await.unwrap().remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_job_that_an_apply_rejects_is_deleted_and_created_client_side_for_its_new_template() {
    let (server, applier) = server();
    server.make_immutable("jobs", "/spec/template");
    write_job(&applier, &job("odd1"), Previous::Apply, &()).await;
    let (uid, since) = (server.object(JOB).unwrap()["metadata"]["uid"].clone(), server.log().len());
    let made = write_job(&applier, &job("odd2"), Previous::Client { changed: true }, &Last(job("odd1"))).await;
    assert!(matches!(made.method, ApplyMethod::Client { refused: Some(_) }), "{:?}", made.method);
    let live = server.object(JOB).unwrap();
    assert!(live["spec"]["template"] == "odd2" && live["metadata"]["uid"] != uid);
    let writes: Vec<String> = server.log()[since..].iter().filter(|line| !line.starts_with("GET")).cloned().collect();
    let (jobs, _) = JOB.rsplit_once('/').unwrap();
    let tried = [format!("PATCH {JOB}"), format!("PATCH {JOB}"), format!("POST {jobs}")];
    let created = [format!("DELETE {JOB}"), format!("PATCH {JOB}"), format!("POST {jobs}")];
    assert_eq!(writes, [tried, created].concat(), "an apply, a merge and a dry run, then the new one");
}

#[tokio::test]
async fn defaults_are_claimed_only_if_the_server_names_fields() {
    let world = server();
    let server = &world.0;
    apply(&world, &deployment("fine"), Policy::Auto, &(), Mode::New).await.unwrap();
    for (fields, expected) in [
        (vec![], vec!["PATCH deployments/web"]),
        (vec!["spec.strategy.type".to_owned()], vec!["PATCH deployments/web", "GET deployments/web"]),
    ] {
        server.refuse(move |call| {
            let refused = || Error::Refused {
                code: 422,
                reason: "Invalid".into(),
                message: "no".into(),
                fields: fields.clone(),
                purpose: Purpose::Write,
            };
            (call.method == http::Method::PATCH).then(refused)
        });
        let previous = server.log().len();
        apply(&world, &deployment("other"), Policy::Server, &(), Mode::Ours).await.unwrap_err();
        assert_eq!(log(server, previous), expected);
        server.accept();
    }
}

#[tokio::test]
async fn blocking_unowned_defaults_are_claimed_and_dropped() {
    let server = Arc::new(MemoryApi::new());
    let world = (server.clone(), Applier::new(server.clone()));
    apply(&world, &deployment("fine"), Policy::Auto, &(), Mode::New).await.unwrap();
    let mut live = server.object(DEPLOYMENT).unwrap();
    live["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1}, "type": "RollingUpdate"});
    server.put(DEPLOYMENT, live, "server");
    let mut live = server.object(DEPLOYMENT).unwrap();
    live["metadata"]["managedFields"].as_array_mut().unwrap().retain(|m| m["manager"] == "helm-operator");
    server.put(DEPLOYMENT, live, "server");
    let state = Arc::downgrade(&server);
    server.refuse(move |call| {
        let (content_type, body) = call.body.as_ref()?;
        let recreate =
            *content_type == "application/apply-patch+yaml" && String::from_utf8_lossy(body).contains("Recreate");
        let live = state.upgrade()?.object(DEPLOYMENT)?;
        let entries = live["metadata"]["managedFields"].as_array()?;
        let claimed = entries.iter().any(|m| !m["fieldsV1"]["f:spec"]["f:strategy"]["f:rollingUpdate"].is_null());
        let fields = vec!["spec.strategy.rollingUpdate".to_owned()];
        let message = "spec.strategy.rollingUpdate: Forbidden".to_owned();
        (recreate && !claimed).then(|| Error::Refused {
            code: 422,
            reason: "Invalid".into(),
            message,
            fields,
            purpose: Purpose::Write,
        })
    });
    let mut changed = deployment("fine");
    changed.body["spec"]["strategy"] = json!({"type": "Recreate"});
    for policy in [Policy::Auto, Policy::Server] {
        let applied = apply(&world, &changed, policy, &(), Mode::Ours).await.unwrap();
        assert_eq!(applied.method, ApplyMethod::Server);
        assert_eq!(server.object(DEPLOYMENT).unwrap()["spec"]["strategy"]["type"], "Recreate");
    }
}

#[tokio::test]
async fn an_outage_while_obstacles_are_looked_for_is_not_a_refusal_of_the_object() {
    let world = server();
    let server = &world.0;
    apply(&world, &deployment("fine"), Policy::Auto, &(), Mode::New).await.unwrap();
    server.refuse(|call| {
        let fields = vec!["spec.strategy.type".to_owned()];
        let (reason, message, purpose) = ("Invalid".into(), "no".into(), Purpose::Write);
        let refusal = Error::Refused { code: 422, reason, message, fields, purpose };
        (call.method == http::Method::PATCH).then_some(refusal)
    });
    server.disturb(&format!("GET {DEPLOYMENT}"), 1, Disturbance::Refused(503));
    let error = apply(&world, &deployment("other"), Policy::Server, &(), Mode::Ours).await.unwrap_err();
    assert!(matches!(error, ApplyError::Failed { source: Error::Refused { code: 503, .. }, .. }), "{error:?}");
}

#[tokio::test]
async fn what_was_claimed_in_vain_is_given_back() {
    let server = Arc::new(MemoryApi::new());
    let world = (server.clone(), Applier::new(server.clone()));
    apply(&world, &deployment("fine"), Policy::Server, &(), Mode::New).await.unwrap();
    let mut live = server.object(DEPLOYMENT).unwrap();
    live["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1}});
    live["metadata"]["managedFields"].as_array_mut().unwrap().retain(|m| m["manager"] == "helm-operator");
    server.put(DEPLOYMENT, live, "helm-operator");
    let managers = || server.object(DEPLOYMENT).unwrap()["metadata"]["managedFields"].clone();
    let (before, writes) = (managers(), server.log().len());
    server.refuse(|call| {
        let (content_type, _) = call.body.as_ref()?;
        let fields = vec!["spec.strategy.rollingUpdate".to_owned()];
        let refusal = Error::Refused {
            code: 422,
            reason: "Invalid".into(),
            message: "no".into(),
            fields,
            purpose: Purpose::Write,
        };
        (*content_type == "application/apply-patch+yaml").then_some(refusal)
    });
    let mut changed = deployment("fine");
    changed.body["spec"]["strategy"] = json!({"type": "Recreate"});
    apply(&world, &changed, Policy::Server, &(), Mode::Ours).await.unwrap_err();
    let claims = server.log()[writes..].iter().filter(|call| call.contains("PATCH")).count();
    assert_eq!((claims, managers()), (4, before), "an apply, a claim, an apply, and the claim undone");
}

#[tokio::test]
async fn what_was_claimed_counts_as_unapplied_until_the_apply_that_follows() {
    let server = Arc::new(MemoryApi::new());
    let world = (server.clone(), Applier::new(server.clone()));
    apply(&world, &deployment("fine"), Policy::Server, &(), Mode::New).await.unwrap();
    let mut live = server.object(DEPLOYMENT).unwrap();
    // No manager owns the server's defaults.
    live["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
    server.restore(DEPLOYMENT, live);
    let patches = std::sync::atomic::AtomicUsize::new(0);
    server.refuse(move |call| {
        let is_patch = call.method == http::Method::PATCH;
        match patches.fetch_add(usize::from(is_patch), std::sync::atomic::Ordering::Relaxed) {
            _ if !is_patch => None,
            0 => {
                let fields = vec!["spec.strategy.rollingUpdate".to_owned()];
                let (reason, message, purpose) = ("Invalid".into(), "no".into(), Purpose::Write);
                Some(Error::Refused { code: 422, reason, message, fields, purpose })
            }
            1 => None,
            // As if the process had died after the claim.
            _ => Some(Error::Transport("reset".into())),
        }
    });
    let mut changed = deployment("fine");
    changed.body["spec"]["strategy"] = json!({"type": "Recreate"});
    apply(&world, &changed, Policy::Server, &(), Mode::Ours).await.unwrap_err();
    server.accept();
    let managers = || server.object(DEPLOYMENT).unwrap()["metadata"]["managedFields"].clone();
    let is_claimed = |entry: &Value| !entry["fieldsV1"]["f:spec"]["f:strategy"]["f:rollingUpdate"].is_null();
    assert!(managers().as_array().unwrap().iter().any(is_claimed) && is_unapplied(&managers()));
    apply(&world, &changed, Policy::Server, &(), Mode::Ours).await.unwrap();
    let strategy = server.object(DEPLOYMENT).unwrap()["spec"]["strategy"].take();
    assert_eq!((strategy, is_unapplied(&managers())), (json!({"type": "Recreate"}), false));
}

#[tokio::test]
async fn an_outage_during_a_client_side_write_is_not_a_conflict() {
    let world = server();
    apply(&world, &deployment("odd"), Policy::Client, &(), Mode::New).await.unwrap();
    world.0.disturb(&format!("GET {DEPLOYMENT}"), 1, Disturbance::Refused(503));
    let error = apply(&world, &deployment("new"), Policy::Client, &(), Mode::Client).await.unwrap_err();
    assert!(matches!(error, ApplyError::Failed { source: Error::Refused { code: 503, .. }, .. }), "{error:?}");
}

#[tokio::test]
async fn an_object_that_goes_between_its_read_and_its_patch_is_created_again() {
    let world = server();
    let server = &world.0;
    apply(&world, &deployment("one"), Policy::Client, &(), Mode::New).await.unwrap();
    let state = Arc::downgrade(server);
    server.refuse(move |call| {
        if call.method == http::Method::PATCH {
            state.upgrade()?.remove(DEPLOYMENT);
        }
        None
    });
    let applied = apply(&world, &deployment("two"), Policy::Client, &(), Mode::Client).await.unwrap();
    assert!(applied.changed);
    assert_eq!(server.object(DEPLOYMENT).unwrap()["spec"]["image"], "two");
}

#[tokio::test]
async fn crds_that_an_apply_rejects_are_created_client_side() {
    let world = server();
    let server = &world.0;
    assert!(world.1.apply_definition(&deployment("fine")).await.unwrap());
    assert!(!world.1.apply_definition(&deployment("fine")).await.unwrap(), "an existing one is unchanged");
    assert!(!world.1.apply_definition(&deployment("odd")).await.unwrap());
    let at = "/apis/apps/v1/deployments/web";
    assert_eq!(server.object(at).unwrap()["spec"]["image"], "fine");
    server.remove(at);
    assert!(world.1.apply_definition(&deployment("odd")).await.unwrap());
    assert_eq!(server.object(at).unwrap()["spec"]["image"], "odd");
    server.remove(at);
    server.refuse(|call| {
        (call.method == http::Method::POST).then(|| Error::from_status(400, "BadRequest", "no such type"))
    });
    let error = world.1.apply_definition(&deployment("odd")).await.unwrap_err();
    assert!(
        matches!(&error, ApplyError::Failed { source, .. } if source.to_string().contains(".spec.bogus")),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn new_crd_fields_are_awaited_before_writing_client_side() {
    let undeclared =
        "failed to create typed patch object (/x; example.com/v1, Kind=Db): .spec.new: field not declared in schema";
    let definition = |kind: &str, group: &str| {
        let spec = json!({"group": group, "names": {"kind": kind}});
        Object::new(
            json!({"apiVersion": "v1", "kind": "CustomResourceDefinition", "metadata": {"name": "dbs"}, "spec": spec}),
        )
        .unwrap()
    };
    let custom = Object::new(json!({"apiVersion": "example.com/v1", "kind": "Db", "metadata": {"name": "x"}})).unwrap();
    let ways = async |definition: Object, refusals: usize| {
        let server = Arc::new(MemoryApi::new());
        server.serve("example.com/v1", "Db", "dbs");
        server.serve_cluster_scoped("v1", "CustomResourceDefinition", "crds");
        let left = std::sync::atomic::AtomicUsize::new(refusals);
        server.refuse(move |call| {
            use std::sync::atomic::Ordering::SeqCst;
            let applies = call.method == http::Method::PATCH && call.path.contains("/dbs/");
            let refused = applies && left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
            refused.then(|| Error::from_status(500, "", undeclared))
        });
        let of =
            |object| Target { rule: Rule::Import, observed: Found::Absent, changed: false, ..sample::target(object) };
        let applier = Applier::new(server);
        let targets = [of(&definition), of(&custom)];
        let applied = applier.apply_all(&targets, &WriteOptions::new(&decoration(), Policy::Auto, &())).await.unwrap();
        applied[1].method == ApplyMethod::Server
    };
    assert!(ways(definition("Db", "example.com"), 6).await);
    assert!(!ways(definition("Db", "example.com"), 7).await, "finally it is written client-side");
    assert!(!ways(definition("Other", "example.com"), 1).await);
    assert!(!ways(definition("Db", "other.com"), 1).await);
}

#[tokio::test]
async fn openapi_documents_are_read_once_and_only_for_built_in_groups() {
    let server = Arc::new(MemoryApi::new());
    let text = json!({"components": {"schemas": {"io.k8s.api.apps.v1.Deployment": {
        "x-kubernetes-group-version-kind": [{"kind": "Deployment"}], "properties": {},
    }}}});
    server.put("/openapi/v3/apis/apps/v1", text, "server");
    let schemas = Schemas::new(server.clone());
    for _ in 0..2 {
        assert!(schemas.document(&resource("apps/v1")).await.unwrap().unwrap().schema("Deployment").is_some());
        assert!(schemas.document(&resource("example.com/v1")).await.unwrap().is_none());
    }
    assert_eq!(server.log(), ["GET /openapi/v3/apis/apps/v1"]);
    server.refuse(|_| Some(Error::from_status(503, "", "away")));
    assert!(schemas.document(&resource("v1")).await.is_err());
}

fn resource(api_version: &str) -> Resource {
    Resource { api_version: api_version.into(), kind: "X".into(), plural: "xs".into(), namespaced: true }
}

/// Makes a server publish no OpenAPI documents.
fn unpublish(server: &MemoryApi) {
    let not_found = || Error::from_status(404, "", "404 page not found");
    server.refuse(move |call| call.path.starts_with("/openapi/").then(not_found));
}

#[tokio::test]
async fn a_server_that_does_not_publish_its_own_groups_yet_is_asked_again() {
    let server = Arc::new(MemoryApi::new());
    unpublish(&server);
    let schemas = Schemas::new(server.clone());
    for own in ["v1", "rbac.authorization.k8s.io/v1"] {
        assert!(schemas.document(&resource(own)).await.is_err_and(|error| error.is_unanswered()), "{own}");
    }
    assert!(schemas.document(&resource("metrics.k8s.io/v1beta1")).await.unwrap().is_none());
    let paths = ["api/v1", "apis/rbac.authorization.k8s.io/v1", "apis/metrics.k8s.io/v1beta1"];
    assert_eq!(server.log(), paths.map(|path| format!("GET /openapi/v3/{path}")));
    server.accept();
    assert!(schemas.document(&resource("v1")).await.unwrap().is_some());
}

#[tokio::test]
async fn nothing_is_patched_before_the_merge_rules_are_published() {
    let world = server();
    let server = &world.0;
    apply(&world, &deployment("one"), Policy::Client, &(), Mode::New).await.unwrap();
    unpublish(server);
    let before = server.object(DEPLOYMENT);
    let error = apply(&world, &deployment("two"), Policy::Client, &(), Mode::Client).await.unwrap_err();
    assert!(matches!(error, ApplyError::Failed { source: Error::Refused { code: 503, .. }, .. }), "{error:?}");
    assert_eq!(server.object(DEPLOYMENT), before);
    server.accept();
    apply(&world, &deployment("two"), Policy::Client, &(), Mode::Client).await.unwrap();
    assert_eq!(server.object(DEPLOYMENT).unwrap()["spec"]["image"], "two");
}
