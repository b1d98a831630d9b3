//! Who acts beside the operator: a kubelet with controllers, a garbage collector, and people with kubectl.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use helm_release::kube::Call;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::script::Action;
use crate::world::{API_VERSION, NAMESPACE, RESOURCES, World};

/// How long controllers take to notice a change, at most.
const NOTICE: Duration = Duration::from_millis(400);

/// Makes workloads ready, and collects garbage, until it is dropped.
pub async fn control(world: Arc<World>) {
    let mut known = 0;
    loop {
        known = world.news(known).await;
        sleep(world.pause(NOTICE)).await;
        make_ready(&world);
        collect_garbage(&world);
    }
}

fn make_ready(world: &World) {
    for (path, deployment) in world.list("/apis/apps/v1/deployments") {
        let replicas = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
        let status = json!({
            "observedGeneration": deployment["metadata"]["generation"], "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
            "conditions": [{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}],
        });
        set_status(world, &path, &deployment, status);
    }
    for (path, claim) in world.list("/api/v1/persistentvolumeclaims") {
        set_status(world, &path, &claim, json!({"phase": "Bound"}));
    }
}

fn set_status(world: &World, path: &str, object: &Value, mut status: Value) {
    if let Some(map) = status.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    if object["status"] != status {
        let body = json!({"status": status}).to_string().into_bytes();
        _ = world.write("kubelet", &Call::merge(format!("{path}/status?fieldManager=kubelet"), body));
    }
}

/// Deletes what no existing object owns any more.
fn collect_garbage(world: &World) {
    let all: Vec<(Arc<str>, Arc<Value>)> =
        world.state().objects.iter().map(|(path, object)| (path.clone(), object.clone())).collect();
    let uids: BTreeSet<&str> = all.iter().filter_map(|(_, object)| object["metadata"]["uid"].as_str()).collect();
    for (path, object) in &all {
        let Some(owners) = object["metadata"]["ownerReferences"].as_array().filter(|owners| !owners.is_empty()) else {
            continue;
        };
        let is_orphan = owners.iter().all(|owner| owner["uid"].as_str().is_none_or(|uid| !uids.contains(uid)));
        if is_orphan && object["metadata"]["deletionTimestamp"].is_null() {
            let uid = json!({"preconditions": {"uid": object["metadata"]["uid"]}});
            _ = world.write("gc", &Call::delete(&**path, uid.to_string().into_bytes()));
        }
    }
}

/// Does what a person does with kubectl.
pub fn act(world: &World, action: &Action) {
    match action {
        Action::Put(name, values) => put(world, name, values),
        Action::Delete(name) => {
            _ = world.write("person", &Call::delete(format!("{RESOURCES}/{name}"), b"{}".to_vec()));
        }
        Action::Disturb(object) => disturb(world, object),
        _ => {}
    }
}

fn put(world: &World, name: &str, values: &Value) {
    let path = format!("{RESOURCES}/{name}");
    let known = world.object(&path);
    if known.as_ref().is_some_and(|known| known["metadata"]["deletionTimestamp"].is_string()) {
        return;
    }
    let call = match known {
        Some(_) => Call::merge(format!("{path}?fieldManager=person"), json!({"spec": values}).to_string().into_bytes()),
        None => {
            let object = json!({
                "apiVersion": API_VERSION, "kind": "Web", "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": values,
            });
            Call::post(format!("{RESOURCES}?fieldManager=person"), object.to_string().into_bytes())
        }
    };
    _ = world.write("person", &call);
}

/// Changes a field that the chart sets.
fn disturb(world: &World, object: &str) {
    let root = if object.starts_with("deployments/") { "/apis/apps/v1" } else { "/api/v1" };
    let path = format!("{root}/namespaces/{NAMESPACE}/{object}");
    let change = match object.split('/').next() {
        Some("configmaps") => json!({"data": {"message": "disturbed"}}),
        Some("deployments") => json!({"spec": {"replicas": 9}}),
        Some("services") => json!({"spec": {"selector": {"app": "disturbed"}}}),
        _ => json!({"metadata": {"labels": {"note": "someone's"}}}),
    };
    _ = world
        .write("person", &Call::merge(format!("{path}?fieldManager=kubectl-edit"), change.to_string().into_bytes()));
}
