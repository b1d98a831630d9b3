//! Custom resources of test kinds: create them, wait for them, read their events.

use serde_json::{Value, json};
use test_cluster::Namespace;

use crate::chart::condition;
use crate::operator::eventually;
use crate::reader::get;

/// A kind of the group `test.my.domain`.
pub(crate) struct Kind(pub(crate) &'static str);

impl Kind {
    pub(crate) fn set(&self, namespace: &Namespace<'_>, name: &str, spec: &Value) {
        self.set_all(namespace, [(name.to_owned(), spec.clone())]);
    }

    /// Creates or changes resources with these names and specs.
    pub(crate) fn set_all(&self, namespace: &Namespace<'_>, all: impl IntoIterator<Item = (String, Value)>) {
        let resource = |(name, spec): (String, Value)| json!({"apiVersion": "test.my.domain/v1", "kind": self.0, "metadata": {"name": name}, "spec": spec});
        let items: Vec<Value> = all.into_iter().map(resource).collect();
        namespace.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    }

    pub(crate) fn get(&self, namespace: &Namespace<'_>, name: &str) -> Value {
        get(namespace, [self.0, name])
    }

    /// Waits until the resource has this condition for its current generation; returns the resource.
    pub(crate) fn wait_for(&self, namespace: &Namespace<'_>, name: &str, kind: &str) -> Value {
        eventually(kind, || {
            let resource = self.get(namespace, name);
            let found = condition(&resource, kind);
            let current = found["observedGeneration"] == resource["metadata"]["generation"];
            if found["status"] == "True" && current { Ok(resource) } else { Err(resource) }
        })
    }

    /// Returns the resource's events, one per line: `REASON: MESSAGE`.
    pub(crate) fn events_of(&self, namespace: &Namespace<'_>, name: &str) -> String {
        let selector = format!("--field-selector=involvedObject.name={name},involvedObject.kind={}", self.0);
        let columns = "jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}";
        namespace.kubectl(["get", "events", &selector, "-o", columns]).unwrap()
    }

    /// Returns the number of the release's deployed revision.
    pub(crate) fn revision(&self, namespace: &Namespace<'_>, name: &str) -> Value {
        self.get(namespace, name)["status"]["deployedRelease"]["revision"].clone()
    }
}
