//! Who acts beside the operator: a kubelet with controllers, a garbage collector, another operator, and people with kubectl.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use helm_release::kube::Call;
use helm_release::outside;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::script::Action;
use crate::world::{API_VERSION, NAMESPACE, RESOURCES, World};

/// How long controllers take to notice a change, at most.
const NOTICE: Duration = Duration::from_millis(400);

/// How often controllers look without a change.
const LOOK: Duration = Duration::from_secs(5);

/// The finalizer of the other operator.
pub const FINALIZER: &str = "other.example.com/hold";

/// The annotation of the other operator.
pub const NOTE: &str = "other.example.com/note";

/// The annotation that keeps an object.
pub const KEEP: &str = "helm.sh/resource-policy";

/// The controllers of the cluster.
struct Controllers {
    world: Arc<World>,
    /// When each Job ends, by uid.
    jobs: BTreeMap<String, Instant>,
}

/// Runs workloads, collects garbage, and lets go of what is being deleted, until it is dropped.
pub async fn control(world: Arc<World>) {
    let (mut known, mut controllers) = (0, Controllers { world: world.clone(), jobs: BTreeMap::new() });
    loop {
        known = timeout(LOOK, world.news(known)).await.unwrap_or(known);
        sleep(world.pause(NOTICE)).await;
        controllers.run_workloads();
        controllers.run_jobs();
        controllers.let_go();
        controllers.collect_garbage();
        let elapsed = world.elapsed();
        world.state().trace.poll(elapsed);
    }
}

impl Controllers {
    fn run_workloads(&self) {
        for (path, deployment) in self.world.list("/apis/apps/v1/deployments") {
            let replicas = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
            let status = json!({
                "observedGeneration": deployment["metadata"]["generation"], "replicas": replicas,
                "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
                "conditions": [
                    {"type": "Available", "status": "True"},
                    {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
                ],
            });
            self.set_status(&path, &deployment, status);
        }
        for (path, claim) in self.world.list("/api/v1/persistentvolumeclaims") {
            self.set_status(&path, &claim, json!({"phase": "Bound"}));
        }
    }

    fn set_status(&self, path: &str, object: &Value, mut status: Value) {
        if let Some(map) = status.as_object_mut() {
            map.retain(|_, value| !value.is_null());
        }
        if object["status"] != status {
            let body = json!({"status": status}).to_string().into_bytes();
            _ = self.world.write("kubelet", &Call::merge(format!("{path}/status?fieldManager=kubelet"), body));
        }
    }

    /// Jobs succeed after a few seconds; one with a time to live is deleted that long after.
    fn run_jobs(&mut self) {
        let all = self.world.list("/apis/batch/v1/jobs");
        let uids: BTreeSet<&str> = all.iter().filter_map(|(_, job)| job["metadata"]["uid"].as_str()).collect();
        self.jobs.retain(|uid, _| uids.contains(&**uid));
        for (path, job) in &all {
            let uid = job["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let lasts = self.world.pause(Duration::from_secs(8));
            let ends = *self.jobs.entry(uid).or_insert_with(|| Instant::now() + lasts);
            if ends > Instant::now() || job["metadata"]["deletionTimestamp"].is_string() {
                continue;
            }
            if job["status"]["succeeded"].is_null() {
                let status = json!({
                    "succeeded": 1, "startTime": outside::now().to_string(), "completionTime": outside::now().to_string(),
                    "conditions": [{"type": "Complete", "status": "True"}],
                });
                self.set_status(path, job, status);
            }
            let live = job["spec"]["ttlSecondsAfterFinished"].as_u64().map(Duration::from_secs);
            if live.is_some_and(|live| ends + live <= Instant::now()) {
                self.delete("ttl", path, job);
            }
        }
    }

    /// The other operator gives up its finalizer once an object is being deleted.
    fn let_go(&self) {
        let all: Vec<_> = self.objects();
        for (path, object) in all.iter().filter(|(_, object)| object["metadata"]["deletionTimestamp"].is_string()) {
            let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            if finalizers.iter().any(|one| one == FINALIZER) {
                let others: Vec<Value> = finalizers.into_iter().filter(|one| one != FINALIZER).collect();
                let body = json!({"metadata": {"finalizers": others}}).to_string().into_bytes();
                _ = self.world.write("other", &Call::merge(format!("{path}?fieldManager=manager"), body));
            }
        }
    }

    fn objects(&self) -> Vec<(Arc<str>, Arc<Value>)> {
        self.world.state().objects.iter().map(|(path, object)| (path.clone(), object.clone())).collect()
    }

    /// Deletes what no existing object owns any more.
    fn collect_garbage(&self) {
        let all = self.objects();
        let uids: BTreeSet<&str> = all.iter().filter_map(|(_, object)| object["metadata"]["uid"].as_str()).collect();
        for (path, object) in &all {
            let Some(owners) = object["metadata"]["ownerReferences"].as_array().filter(|owners| !owners.is_empty())
            else {
                continue;
            };
            let is_orphan = owners.iter().all(|owner| owner["uid"].as_str().is_none_or(|uid| !uids.contains(uid)));
            if is_orphan && object["metadata"]["deletionTimestamp"].is_null() {
                self.delete("gc", path, object);
            }
        }
    }

    fn delete(&self, by: &str, path: &str, object: &Value) {
        let uid = json!({"preconditions": {"uid": object["metadata"]["uid"]}});
        _ = self.world.write(by, &Call::delete(path, uid.to_string().into_bytes()));
    }
}

/// Does what a person, or another operator, does with the API.
pub fn act(world: &World, action: &Action) {
    match action {
        Action::Put(name, values) => put(world, name, values),
        Action::Delete(name) => {
            _ = world.write("person", &Call::delete(format!("{RESOURCES}/{name}"), b"{}".to_vec()));
        }
        Action::Annotate(name, key, value) => {
            patch(
                world,
                "person",
                "kubectl-annotate",
                &format!("{RESOURCES}/{name}"),
                &json!({"metadata": {"annotations": {key: value}}}),
            );
        }
        Action::Disturb(object) => disturb(world, object),
        Action::Remove(object) => {
            _ = world.write("person", &Call::delete(path_of(object), b"{}".to_vec()));
        }
        Action::Keep(object) => {
            patch(
                world,
                "person",
                "kubectl-annotate",
                &path_of(object),
                &json!({"metadata": {"annotations": {KEEP: "keep"}}}),
            );
        }
        Action::Note(object, manager) => {
            let path = path_of(object);
            let known = world.object(&path).map(|known| known["metadata"]["finalizers"].clone()).unwrap_or_default();
            let mut finalizers = known.as_array().cloned().unwrap_or_default();
            if !finalizers.iter().any(|one| one == FINALIZER) {
                finalizers.push(FINALIZER.into());
            }
            let change = json!({"metadata": {"annotations": {NOTE: "mine"}, "finalizers": finalizers}});
            patch(world, "other", manager, &path, &change);
        }
        Action::Before(object, release) => before(world, object, release),
        Action::Precious(name) => precious(world, name),
        _ => {}
    }
}

fn patch(world: &World, by: &str, manager: &str, path: &str, change: &Value) {
    let is_going = |object: Arc<Value>| object["metadata"]["deletionTimestamp"].is_string();
    if world.object(path).is_none_or(is_going) {
        return;
    }
    _ = world.write(by, &Call::merge(format!("{path}?fieldManager={manager}"), change.to_string().into_bytes()));
}

/// The path of an object like `configmaps/a-config`.
pub fn path_of(object: &str) -> String {
    let root = match object.split('/').next() {
        Some("deployments") => "/apis/apps/v1",
        Some("jobs") => "/apis/batch/v1",
        _ => "/api/v1",
    };
    format!("{root}/namespaces/{NAMESPACE}/{object}")
}

fn put(world: &World, name: &str, values: &Value) {
    let path = format!("{RESOURCES}/{name}");
    let known = world.object(&path);
    if known.as_ref().is_some_and(|known| known["metadata"]["deletionTimestamp"].is_string()) {
        return;
    }
    if known.is_some() {
        return patch(world, "person", "person", &path, &json!({"spec": values}));
    }
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    let object = json!({"apiVersion": API_VERSION, "kind": "Web", "metadata": metadata, "spec": values});
    let call = Call::post(format!("{RESOURCES}?fieldManager=person"), object.to_string().into_bytes());
    _ = world.write("person", &call);
}

/// Changes a field that the chart sets.
fn disturb(world: &World, object: &str) {
    let change = match object.split('/').next() {
        Some("configmaps") => json!({"data": {"message": "disturbed"}}),
        Some("deployments") => json!({"spec": {"replicas": 9}}),
        Some("services") => json!({"spec": {"selector": {"app": "disturbed"}}}),
        _ => json!({"metadata": {"labels": {"note": "someone's"}}}),
    };
    patch(world, "person", "kubectl-edit", &path_of(object), &change);
}

/// Creates an object of the chart before the release, with the metadata by which Helm adopts it.
fn before(world: &World, object: &str, release: &str) {
    let path = path_of(object);
    if world.object(&path).is_some() {
        return;
    }
    let (collection, name) = path.rsplit_once('/').unwrap_or_default();
    let kind = if object.starts_with("secrets/") { "Secret" } else { "PersistentVolumeClaim" };
    let metadata = json!({
        "name": name, "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": NAMESPACE},
    });
    let made = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
    let call = Call::post(format!("{collection}?fieldManager=kubectl-create"), made.to_string().into_bytes());
    _ = world.write("person", &call);
}

/// Creates a Secret that only looks like a release record.
fn precious(world: &World, name: &str) {
    let metadata = json!({"name": format!("precious-{name}"), "labels": {"owner": "helm", "name": name}});
    let made = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata});
    let call = Call::post(
        format!("/api/v1/namespaces/{NAMESPACE}/secrets?fieldManager=kubectl-create"),
        made.to_string().into_bytes(),
    );
    _ = world.write("person", &call);
}
