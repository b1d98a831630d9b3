//! Releases that an upstream operator made, and what it needs to take them back.

use helm_release::release::{Info, Packed, Release, Status};
use k8s_openapi::ByteString;

use super::*;
use crate::reconciler::primary::SDK_FINALIZER;

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader";

/// What the chart renders: an object in the namespace and a cluster-scoped one.
const RENDERED: &str = "---\n# Source: memcached/templates/map.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  value: \"1\"\n\
    ---\n# Source: memcached/templates/role.yaml\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: reader\nrules: []\n";

/// The manifest that helm-operator-plugins records for it, with the owner of each object.
const RECORDED_BY_HOP: &str = "---\napiVersion: v1\ndata:\n  value: \"1\"\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: ns\n  ownerReferences:\n  \
    - apiVersion: cache.my.domain/v1\n    blockOwnerDeletion: true\n    controller: true\n    kind: Memcached\n    name: web\n    uid: UID\n\
    ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  annotations:\n    operator-sdk/primary-resource: ns/web\n    \
    operator-sdk/primary-resource-type: Memcached.cache.my.domain\n  name: reader\nrules: []\n";

/// A chart that renders the same text for every resource.
struct Fixed(&'static str);

impl Renderer for Fixed {
    fn digest(&self) -> String {
        "fixed".into()
    }

    fn chart_name(&self) -> &str {
        "memcached"
    }

    fn render(&self, request: Request) -> BoxFuture<'_, Result<Candidate, RenderError>> {
        let objects = objects_of(self.0).unwrap();
        let candidate = super::render(&request).map(|stub| Candidate { manifest: self.0.to_owned(), objects, ..stub });
        Box::pin(async move { candidate })
    }
}

/// A release that helm-operator-plugins installed, and an operator of ours that takes it over.
fn hop_release() -> World {
    let world = World::new(json!({}));
    world.server.serve_cluster_scoped("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles");
    let uid = world.server.object(PRIMARY).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let manifest = RECORDED_BY_HOP.replace("UID", &uid);
    for object in objects_of(&manifest).unwrap() {
        let mut body = object.body.clone();
        let helms = json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"});
        let annotations = body["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        body["metadata"]["annotations"] =
            json!(annotations.into_iter().chain(helms.as_object().unwrap().clone()).collect::<serde_json::Map<_, _>>());
        body["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
        let path = if object.kind == "ClusterRole" { ROLE.to_owned() } else { format!("{MAPS}/a") };
        world.server.put(&path, body, "manager");
    }
    let release = Release {
        name: "web".into(),
        namespace: "ns".into(),
        version: 1,
        info: Info { status: Status::Deployed, ..Info::default() },
        chart: document(),
        config: json!({}),
        manifest,
        hooks: Vec::new(),
        apply_method: String::new(),
        labels: Default::default(),
    };
    let record = Packed::pack(&release).unwrap().to_record().into_bytes();
    let owners = json!([{"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "name": "web", "uid": uid, "controller": true}]);
    let labels = json!({"name": "web", "owner": "helm", "status": "deployed", "version": "1", "createdAt": "1"});
    let metadata = json!({"name": release.key(), "labels": labels, "ownerReferences": owners});
    let data = json!({"release": serde_json::to_value(ByteString(record)).unwrap()});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
    world.server.put(&record_path(), secret, "manager");
    World::rendering(world.server, Arc::new(Fixed(RENDERED)))
}

fn record_path() -> String {
    format!("{SECRETS}/sh.helm.release.v1.web.v1")
}

/// An object without what only the server and field managers see.
fn content(server: &MemoryApi, path: &str) -> Value {
    let mut object = server.object(path).unwrap();
    let metadata = object["metadata"].as_object_mut().unwrap();
    ["managedFields", "resourceVersion"].iter().for_each(|field| _ = metadata.remove(*field));
    object
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_of_helm_operator_plugins_is_no_reason_to_upgrade() {
    let world = hop_release();
    let record = content(&world.server, &record_path())["data"].clone();
    let (role, map) = (content(&world.server, ROLE), content(&world.server, &format!("{MAPS}/a")));
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed"]);
    assert_eq!(content(&world.server, &record_path())["data"], record, "going back costs no revision either");
    for (path, mut before) in [(ROLE.to_owned(), role), (format!("{MAPS}/a"), map)] {
        before["metadata"]["labels"]["helm.sdk.operatorframework.io/chart"] = "memcached".into();
        assert_eq!(content(&world.server, &path), before, "{path}");
    }
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_resource_gets_the_finalizer_that_both_upstreams_remove() {
    let world = World::new(spec());
    world.reconcile().await;
    assert_eq!(world.server.object(PRIMARY).unwrap()["metadata"]["finalizers"], json!(["uninstall-helm-release"]));
}

#[tokio::test(start_paused = true)]
async fn a_resource_keeps_the_finalizer_of_operator_sdk_until_it_is_uninstalled() {
    let world = World::new(spec());
    world.edit(|p| p["metadata"]["finalizers"] = json!([SDK_FINALIZER, "other"]));
    world.reconcile().await;
    assert_eq!(world.server.object(PRIMARY).unwrap()["metadata"]["finalizers"], json!([SDK_FINALIZER, "other"]));
    world.edit(|p| p["metadata"]["finalizers"] = json!([SDK_FINALIZER, FINALIZER]));
    world.delete();
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}
