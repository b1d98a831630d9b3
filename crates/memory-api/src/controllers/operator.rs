//! Another operator: it sets a finalizer, an annotation and a field that it owns on objects, and removes its finalizer
//! when they are deleted.

use serde_json::{Value, json};

use super::{Controller, has_finalizer, is_going, pick, without_finalizer};
use crate::Server;

/// An operator whose field manager and finalizer differ from the release's.
#[derive(Clone, Debug)]
pub struct OtherOperator {
    /// Its field manager; `manager` for every kubebuilder operator.
    pub manager: String,
    /// Its finalizer.
    pub finalizer: String,
    /// The kind that it manages: `("v1", "configmaps")`.
    pub kind: (String, String),
    /// The annotation that it sets, with its value.
    pub annotation: (String, String),
}

impl Controller for OtherOperator {
    fn step(&mut self, server: &mut Server, choice: u64) -> bool {
        let objects = server.objects_of(&self.kind.0, &self.kind.1);
        let late = objects.into_iter().filter_map(|(path, object)| Some((path, self.change(&object)?)));
        let Some((path, body)) = pick(late.collect(), choice) else { return false };
        server.merge(&path, &self.manager, body)
    }
}

impl OtherOperator {
    fn change(&self, object: &Value) -> Option<Value> {
        let has_own = has_finalizer(object, &self.finalizer);
        if is_going(object) {
            return has_own.then(|| without_finalizer(object, &self.finalizer));
        }
        let (key, value) = &self.annotation;
        if has_own && object["metadata"]["annotations"][key] == *value {
            return None;
        }
        let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        if !has_own {
            finalizers.push(self.finalizer.as_str().into());
        }
        let version = &object["metadata"]["resourceVersion"];
        let metadata = json!({"finalizers": finalizers, "annotations": {key: value}, "resourceVersion": version});
        Some(json!({"metadata": metadata}))
    }
}
