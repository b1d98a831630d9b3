//! Actors other than the operator: the cluster's controllers, another operator, and people who use kubectl.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use helm_release::kube::Call;
use memory_api::controllers::{
    Autoscaler, Collector, Controller, Fate, Kubelet, Namespaces, OtherOperator, TimeToLive,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::names::{self, API_VERSION, NAMES, OTHER};
use crate::others;
use crate::script::Action;
use crate::world::{World, is_going};

/// Maximum time until controllers notice a change.
const NOTICE: Duration = Duration::from_millis(400);

/// Maximum time between two writes of a controller.
const PACE: Duration = Duration::from_millis(60);

/// How often controllers poll without a change.
const LOOK: Duration = Duration::from_secs(5);

/// Maximum duration of a Job in milliseconds.
const JOB: u64 = 8000;

/// The finalizer of the other operator.
pub const FINALIZER: &str = "other.example.com/hold";

/// The annotation of the other operator.
pub const NOTE: &str = "other.example.com/note";

/// The annotation that keeps an object.
pub const KEEP: &str = "helm.sh/resource-policy";

/// The annotation that a webhook adds to Deployments.
pub const INJECTED: &str = "webhook.example.com/injected";

/// How long Deployments take to become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployments {
    /// They are ready at once.
    Prompt,
    /// They take as long as Jobs.
    Slow,
}

/// Runs workloads, scales them, collects garbage, empties namespaces, and removes the other operator's finalizers from
/// deleted objects, until dropped.
pub async fn control(world: Arc<World>, deployments: Deployments) {
    let seed = world.state().random.u64(..);
    let mut all: Vec<(&str, Box<dyn Controller + Send>)> = vec![
        ("kubelet", Box::new(Kubelet::new(fates(world.clone(), seed, deployments)))),
        ("gc", Box::new(Collector)),
        ("ttl", Box::new(TimeToLive)),
        ("namespaces", Box::new(Namespaces)),
        ("hpa", Box::new(Autoscaler::default())),
    ];
    let mut known = 0;
    loop {
        known = timeout(LOOK, world.news(known)).await.unwrap_or(known);
        sleep(world.pause(NOTICE)).await;
        let mut is_busy = true;
        while is_busy {
            is_busy = false;
            let first = world.state().random.usize(0..all.len());
            all.rotate_left(first);
            for (by, controller) in &mut all {
                if world.step(by, &mut **controller) {
                    is_busy = true;
                    sleep(world.pause(PACE)).await;
                }
            }
            is_busy |= let_go(&world) || look_after(&world) || hold(&world);
        }
        let elapsed = world.elapsed();
        world.state().trace.poll(elapsed);
    }
}

/// Decides the outcome of workloads: Jobs succeed after a while, unless hooks have trouble, and Deployments become ready,
/// except those of the chart that never does.
fn fates(world: Arc<World>, seed: u64, deployments: Deployments) -> impl FnMut(&str, &Value) -> Fate + Send {
    let (mut random, mut ends) = (fastrand::Rng::with_seed(seed), BTreeMap::<(String, u64), Instant>::new());
    move |path, object| {
        let is_deployment = path.contains("/deployments/");
        let image = object.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
        if is_deployment && image == Some("web:3.0.0") {
            return Fate::Waits;
        }
        if !(path.contains("/jobs/") || is_deployment && deployments == Deployments::Slow) {
            return Fate::Ready;
        }
        let metadata = &object["metadata"];
        let generation = if is_deployment { metadata["generation"].as_u64().unwrap_or_default() } else { 0 };
        let uid = (metadata["uid"].as_str().unwrap_or_default().to_owned(), generation);
        let end = ends.entry(uid).or_insert_with(|| Instant::now() + Duration::from_millis(random.u64(0..JOB)));
        match *end <= Instant::now() {
            true if names::is_hook(path) => world.state().hooks.fate(),
            true => Fate::Ready,
            false => Fate::Waits,
        }
    }
}

/// Removes the other operator's finalizer from objects that are being deleted, except from Jobs that linger. Returns
/// whether it acted.
fn let_go(world: &World) -> bool {
    let (mut acted, linger) = (false, world.state().hooks.linger());
    for (path, object) in world.objects() {
        let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let is_free = is_going(&object) && !(linger && names::is_hook(&path));
        if is_free && finalizers.iter().any(|one| one == FINALIZER) {
            let others: Vec<Value> = finalizers.into_iter().filter(|one| one != FINALIZER).collect();
            let body = json!({"metadata": {"finalizers": others}}).to_string().into_bytes();
            acted |= world.write("other", &Call::merge(format!("{path}?fieldManager=manager"), body)).is_some();
        }
    }
    acted
}

/// Sets a finalizer on the Jobs of hooks while they linger, so that they stay once they are deleted. Returns whether it
/// acted.
fn hold(world: &World) -> bool {
    let mut acted = false;
    if !world.state().hooks.linger() {
        return acted;
    }
    for (path, job) in world.objects() {
        if names::is_hook(&path) && !is_going(&job) && job["metadata"]["finalizers"].is_null() {
            let body = json!({"metadata": {"finalizers": [FINALIZER]}}).to_string().into_bytes();
            acted |= world.write("other", &Call::merge(format!("{path}?fieldManager=manager"), body)).is_some();
        }
    }
    acted
}

/// Lets the other operator manage all ConfigMaps, if the script enables this. Returns whether it acted.
fn look_after(world: &World) -> bool {
    let Some(manager) = world.state().operator.clone() else { return false };
    let mut operator = OtherOperator {
        manager,
        finalizer: FINALIZER.into(),
        kind: ("v1".into(), "configmaps".into()),
        annotation: (NOTE.into(), "mine".into()),
    };
    world.step("other", &mut operator)
}

/// Performs an API action of a person or another operator.
pub fn act(world: &World, action: &Action) {
    match action {
        Action::Put(name, values) => put(world, "Web", &names::resource(name), json!({"spec": values})),
        Action::Delete(name, how) => delete(world, &names::resource(name), how),
        Action::Annotate(name, key, value) => {
            let annotations = json!({"metadata": {"annotations": {key: value}}});
            patch(world, "person", "kubectl-annotate", &names::resource(name), &annotations);
        }
        Action::Unannotate(name, key) => {
            let annotations = json!({"metadata": {"annotations": {key: null}}});
            patch(world, "person", "kubectl-annotate", &names::resource(name), &annotations);
        }
        Action::Free(name) => free(world, &names::resource(name)),
        Action::Claim(name) => {
            let annotations = json!({"helm.sdk.operatorframework.io/adopt": "true"});
            let object = json!({"metadata": {"annotations": annotations}, "spec": {"message": "claimed"}});
            put(world, "Site", &names::claim(name), object);
        }
        Action::Unclaim(name) => delete(world, &names::claim(name), ""),
        Action::Disturb(object) => disturb(world, object),
        Action::Remove(object) => delete(world, &names::object(object), ""),
        Action::Keep(object) => {
            let keep = json!({"metadata": {"annotations": {KEEP: "keep"}}});
            patch(world, "person", "kubectl-annotate", &names::object(object), &keep);
        }
        Action::Note(object, manager) => note(world, object, manager),
        Action::Operator(manager) => world.state().operator = Some(manager.clone()),
        Action::Before(object, release) => before(world, object, release),
        Action::Precious(name) => precious(world, name),
        Action::Source(value) => source(world, value),
        Action::Autoscale(name, replicas) => autoscale(world, name, *replicas),
        Action::Webhook => world.server().mutate(|plural, object| {
            if plural == "deployments" {
                object["metadata"]["annotations"][INJECTED] = "yes".into();
            }
        }),
        Action::DeleteNamespace => delete(world, &format!("/api/v1/namespaces/{OTHER}"), ""),
        Action::AddNamespace => world.add_namespace(OTHER),
        Action::Tidy => tidy(world),
        _ => {}
    }
}

fn patch(world: &World, by: &str, manager: &str, path: &str, change: &Value) {
    if world.object(path).is_none_or(|object| is_going(&object)) {
        return;
    }
    _ = world.write(by, &Call::merge(format!("{path}?fieldManager={manager}"), change.to_string().into_bytes()));
}

/// Removes the finalizers of an object, even if it is being deleted.
fn free(world: &World, path: &str) {
    let change = json!({"metadata": {"finalizers": null}}).to_string().into_bytes();
    _ = world.write("person", &Call::merge(format!("{path}?fieldManager=kubectl-patch"), change));
}

fn delete(world: &World, path: &str, how: &str) {
    let options = if how.is_empty() { json!({}) } else { json!({"propagationPolicy": how}) };
    _ = world.write("person", &Call::delete(path, options.to_string().into_bytes()));
}

fn create(world: &World, path: &str, object: &Value) {
    let (collection, _) = path.rsplit_once('/').unwrap_or_default();
    let call = Call::post(format!("{collection}?fieldManager=kubectl-create"), object.to_string().into_bytes());
    _ = world.write("person", &call);
}

/// Creates or changes a resource.
fn put(world: &World, kind: &str, path: &str, mut object: Value) {
    if world.object(path).is_some() {
        return patch(world, "person", "person", path, &object);
    }
    object["apiVersion"] = API_VERSION.into();
    object["kind"] = kind.into();
    object["metadata"]["name"] = path.rsplit('/').next().unwrap_or_default().into();
    create(world, path, &object);
}

/// Changes a field that the chart sets.
fn disturb(world: &World, object: &str) {
    let change = match object.split('/').next() {
        Some("configmaps") => json!({"data": {"message": "disturbed"}}),
        Some("deployments") => json!({"spec": {"replicas": 9}}),
        Some("services") => json!({"spec": {"selector": {"app": "disturbed"}}}),
        _ => json!({"metadata": {"labels": {"note": "someone's"}}}),
    };
    patch(world, "person", "kubectl-edit", &names::object(object), &change);
}

/// Sets the other operator's finalizer, annotation and nested field on one object.
fn note(world: &World, object: &str, manager: &str) {
    let path = names::object(object);
    let known = world.object(&path).map(|known| known["metadata"]["finalizers"].clone()).unwrap_or_default();
    let mut finalizers = known.as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|one| one == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    let change = json!({"metadata": {"annotations": {NOTE: "mine"}, "finalizers": finalizers}});
    patch(world, "other", manager, &path, &change);
    if let Some(more) = others::addition(object) {
        let call = Call::strategic(format!("{path}?fieldManager={manager}"), more.to_string().into_bytes());
        _ = world.write("other", &call);
    }
}

/// Creates one of the chart's objects before the release, with the metadata by which Helm adopts it.
fn before(world: &World, object: &str, release: &str) {
    let is_secret = object.starts_with("secrets/");
    let kind = if is_secret { "Secret" } else { "PersistentVolumeClaim" };
    let (_, name) = object.split_once('/').unwrap_or_default();
    let metadata = json!({
        "name": name, "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {
            "meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": names::namespace(release),
        },
    });
    create(world, &names::object(object), &json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}));
}

/// Creates a Secret that only resembles a release record.
fn precious(world: &World, name: &str) {
    let metadata = json!({"name": format!("precious-{name}"), "labels": {"owner": "helm", "name": name}});
    let path = format!("/api/v1/namespaces/{}/secrets/precious-{name}", names::namespace(name));
    create(world, &path, &json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata}));
}

/// Deletes the records beside releases that are deployed elsewhere, as the operator asks for.
fn tidy(world: &World) {
    let all = world.objects();
    let is_deployed = |record: &Value| record["metadata"]["labels"]["status"] == "deployed";
    for name in NAMES {
        let own = all.iter().filter(|(path, _)| names::record(path).is_some_and(|(release, _)| release == name));
        let (moved, beside): (Vec<_>, Vec<_>) = own.partition(|(path, _)| names::place(path).is_some());
        if moved.iter().any(|(_, record)| is_deployed(record)) {
            beside.into_iter().for_each(|(path, _)| delete(world, path, ""));
        }
    }
}

/// Creates or changes the Secret with values.
fn source(world: &World, value: &str) {
    let path = names::object("secrets/shared");
    let data = json!({"data": {"values.yaml": STANDARD.encode(format!("shared: {value}\n"))}});
    match world.object(&path) {
        Some(_) => patch(world, "person", "kubectl-edit", &path, &data),
        None => {
            let metadata = json!({"metadata": {"name": "shared"}, "apiVersion": "v1", "kind": "Secret"});
            create(world, &path, &merged(metadata, data));
        }
    }
}

fn merged(mut object: Value, more: Value) -> Value {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

/// Creates or changes an autoscaler with this number of replicas.
fn autoscale(world: &World, name: &str, replicas: u8) {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("{name}-server")});
    let spec = json!({"scaleTargetRef": target, "minReplicas": replicas, "maxReplicas": replicas});
    let path = autoscaler(name);
    let object = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name}, "spec": spec,
    });
    match world.object(&path) {
        Some(_) => patch(world, "person", "kubectl-edit", &path, &json!({"spec": spec})),
        None => create(world, &path, &object),
    }
}

/// Returns the path of a resource's autoscaler.
pub fn autoscaler(name: &str) -> String {
    format!("/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers/{name}", names::namespace(name))
}
