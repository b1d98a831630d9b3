//! What must hold, at every write and whenever everything is quiet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::world::{Change, RESOURCES};

type Objects = BTreeMap<Arc<str>, Arc<Value>>;

/// What was seen so far.
#[derive(Default)]
pub struct Checks {
    /// Each resource by name.
    resources: BTreeMap<String, Resource>,
}

/// What people wanted of one resource.
#[derive(Default)]
struct Resource {
    /// Whether it exists, and its deletion has not begun.
    exists: bool,
    /// Objects that some values since the last quiet point leave out.
    may_go: BTreeSet<String>,
}

/// Which of a resource's objects there are.
pub const OBJECTS: [&str; 6] = [
    "/api/v1/namespaces/default/configmaps/{}-config",
    "/api/v1/namespaces/default/secrets/{}-random",
    "/api/v1/namespaces/default/secrets/{}-guarded",
    "/api/v1/namespaces/default/persistentvolumeclaims/{}-data",
    "/api/v1/namespaces/default/persistentvolumeclaims/{}-kept",
    "/apis/apps/v1/namespaces/default/deployments/{}-server",
];

/// The Service that only some values ask for.
pub const CACHE: &str = "/api/v1/namespaces/default/services/{}-cache";

impl Checks {
    /// Checks a write; returns what is wrong with it.
    pub fn written(&mut self, change: &Change, _objects: &Objects) -> Option<String> {
        if let Some(name) = change.path.strip_prefix(RESOURCES).and_then(|rest| rest.strip_prefix('/')) {
            self.note_resource(name, change);
        }
        self.identity(change)
    }

    fn note_resource(&mut self, name: &str, change: &Change) {
        let resource = self.resources.entry(name.to_owned()).or_default();
        let after = change.after.as_deref();
        resource.exists = after.is_some_and(|after| after["metadata"]["deletionTimestamp"].is_null());
        if after.is_some_and(|after| after["spec"]["cache"] != true) {
            resource.may_go.insert(CACHE.replace("{}", name));
        }
    }

    /// (a) An object of a resource that exists is not deleted.
    fn identity(&self, change: &Change) -> Option<String> {
        let is_gone = change.after.is_none()
            || change.after.as_ref().is_some_and(|after| after["metadata"]["deletionTimestamp"].is_string());
        let before = change.before.as_ref().filter(|_| is_gone)?;
        if &*change.by == "person" || before["metadata"]["deletionTimestamp"].is_string() {
            return None;
        }
        let (name, resource) = self.resources.iter().find(|(name, _)| is_of(&change.path, name))?;
        let may_go = !resource.exists || resource.may_go.contains(&*change.path);
        (!may_go).then(|| format!("(a) {} deleted {} of resource {name}, which exists", change.by, change.path))
    }

    /// Checks what holds once everything is quiet.
    pub fn quiet(&mut self, objects: &Objects) -> Vec<String> {
        let mut found = Vec::new();
        for (name, resource) in &mut self.resources {
            match objects.get(&*format!("{RESOURCES}/{name}")) {
                Some(object) if resource.exists => found.extend(converged(name, object, objects)),
                Some(_) => found.push(format!("(i) resource {name} is still being deleted")),
                None => found.extend(left_over(name, objects)),
            }
            resource.may_go.clear();
            if objects.get(&*format!("{RESOURCES}/{name}")).is_some_and(|object| object["spec"]["cache"] != true) {
                resource.may_go.insert(CACHE.replace("{}", name));
            }
        }
        found
    }
}

fn is_of(path: &str, name: &str) -> bool {
    OBJECTS.iter().chain([&CACHE]).any(|object| object.replace("{}", name) == path)
}

/// (d), (f), (j) of a resource that exists.
fn converged(name: &str, resource: &Value, objects: &Objects) -> Vec<String> {
    let mut found = Vec::new();
    let spec = &resource["spec"];
    let mut wanted: Vec<String> = OBJECTS.iter().map(|object| object.replace("{}", name)).collect();
    let cache = CACHE.replace("{}", name);
    if spec["cache"] == true {
        wanted.push(cache);
    } else if objects.contains_key(&*cache) {
        found.push(format!("(e) {cache} is left over"));
    }
    found.extend(
        wanted.iter().filter(|path| !objects.contains_key(&***path)).map(|path| format!("(d) {path} is missing")),
    );
    let at = |object: &str, pointer: &str| {
        objects
            .get(&*object.replace("{}", name))
            .and_then(|object| object.pointer(pointer))
            .cloned()
            .unwrap_or_default()
    };
    for (object, pointer, expected) in
        [(OBJECTS[0], "/data/message", &spec["message"]), (OBJECTS[5], "/spec/replicas", &spec["replicas"])]
    {
        let value = at(object, pointer);
        if value != *expected {
            found.push(format!("(d) {}{pointer} is {value}, not {expected}", object.replace("{}", name)));
        }
    }
    let conditions = resource["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").map(|c| c["status"].clone());
    if ready.as_ref().is_none_or(|ready| ready != "True") {
        found.push(format!("(j) resource {name} is as it should be, but its status says {:?}", conditions));
    }
    let deployed = records(name, objects).filter(|record| record["metadata"]["labels"]["status"] == "deployed").count();
    if deployed != 1 {
        found.push(format!("(f) {deployed} revisions of {name} are deployed"));
    }
    found
}

fn records<'o>(name: &'o str, objects: &'o Objects) -> impl Iterator<Item = &'o Arc<Value>> {
    objects.values().filter(move |object| {
        let labels = &object["metadata"]["labels"];
        labels["owner"] == "helm" && labels["name"] == name
    })
}

/// (e) of a resource that is gone.
fn left_over(name: &str, objects: &Objects) -> Vec<String> {
    let kept = OBJECTS[4].replace("{}", name);
    let own = objects.keys().filter(|path| is_of(path, name) && ***path != *kept);
    let mut found: Vec<String> = own.map(|path| format!("(e) {path} is left over")).collect();
    if records(name, objects).next().is_some() {
        found.push(format!("(e) records of {name} are left over"));
    }
    found
}
