//! Access past the API, for tests: read objects, and store them unchecked.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::Server;
use crate::fields::Set;
use crate::kinds::Kind;
use crate::managed::{By, update};
use crate::read::as_version;
use crate::request::Target;
use crate::store::Key;

impl Server {
    fn at(&self, path: &str) -> Option<(Key, Arc<Kind>)> {
        let target = Target::of(path)?;
        let known = self.kinds.find(target.api_version, target.plural).cloned();
        let kind = known.unwrap_or_else(|| Arc::new(Kind::of_path(&target)));
        Some((kind.key(target.namespace, target.name), kind))
    }

    /// Returns the object at a path.
    pub fn object(&self, path: &str) -> Option<Value> {
        let (key, kind) = self.at(path)?;
        self.store.get(&key).map(|stored| as_version(&kind, &stored.object))
    }

    /// Returns the paths of all objects, sorted.
    pub fn paths(&self) -> Vec<String> {
        let path = |(key, stored): (&Key, &crate::store::Stored)| stored.kind.path(&key.namespace, &key.name);
        let mut paths: Vec<String> = self.store.iter().map(path).collect();
        paths.sort();
        paths
    }

    /// Stores an object as another manager would, by an update that takes over the fields that differ, including
    /// status. Stores a document if the path is not a resource's, such as that of a pod's log.
    pub fn put(&mut self, path: &str, mut object: Value, manager: &str) {
        let is_log = Target::of(path).is_some_and(|target| target.subresource == "log");
        let Some((key, kind)) = self.at(path).filter(|_| !is_log) else {
            self.documents.insert(path.to_owned(), object);
            return;
        };
        let old = self.store.get(&key).map(|stored| (*stored.object).clone());
        let now = self.now.clone();
        let reset = Set::default();
        let by = By { manager, api_version: &kind.api_version, subresource: "", now: &now, reset: &reset };
        let live = old.clone().unwrap_or_else(|| json!({"metadata": {}}));
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        update(&kind.of(), &live, &mut object, &by);
        let uid = old.map(|old| old["metadata"]["uid"].clone()).filter(Value::is_string);
        object["metadata"]["uid"] = uid.unwrap_or_else(|| self.store.next_uid().into());
        self.store.write(key, kind, object);
    }

    /// Stores an object unchanged, with its own uid, resource version and managed fields.
    pub fn restore(&mut self, path: &str, object: Value) {
        let Some((key, kind)) = self.at(path) else { return };
        let version = object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        self.skip_to(version.unwrap_or(0));
        self.store.put(key, kind, object);
    }

    /// Removes an object, even if it has finalizers.
    pub fn remove(&mut self, path: &str) {
        if let Some((key, _)) = self.at(path) {
            self.take(&key);
        }
    }
}
