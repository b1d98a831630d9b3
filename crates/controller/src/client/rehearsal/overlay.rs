//! The objects that a rehearsal wrote, in an API server in memory.

use std::collections::HashSet;
use std::sync::Mutex;

use super::definitions::Defined;
use outside::sync::lock;
use outside::{Api as _, Call, Error, MemoryApi, Response, Target, object_path};
use serde_json::{Value, json};

/// The objects that were written, deleted ones included.
pub(super) struct Overlay {
    server: MemoryApi,
    /// The paths of all objects that the server decides about.
    written: Mutex<HashSet<String>>,
    /// The kinds that the cluster does not serve, because their definitions were created here.
    defined: Mutex<Vec<Defined>>,
}

impl Default for Overlay {
    fn default() -> Overlay {
        Overlay { server: MemoryApi::cluster(), written: Mutex::default(), defined: Mutex::default() }
    }
}

impl Overlay {
    /// Returns whether the object at this path was written, or a subresource of it.
    pub(super) fn has(&self, path: &str) -> bool {
        lock(&self.written).contains(object_path(path))
    }

    /// Serves the kinds of an object that was created, if it is a definition.
    pub(super) fn define(&self, object: &Value) {
        for one in Defined::of(object) {
            let serve = if one.namespaced { MemoryApi::serve } else { MemoryApi::serve_cluster_scoped };
            serve(&self.server, &one.api_version(), &one.kind, &one.plural);
            lock(&self.defined).push(one);
        }
    }

    /// Returns the kinds that were defined here.
    pub(super) fn defined(&self) -> Vec<Defined> {
        lock(&self.defined).clone()
    }

    /// Returns whether a path leads to objects whose kind was defined here.
    pub(super) fn defines(&self, path: &str) -> bool {
        lock(&self.defined).iter().any(|one| one.has(path))
    }

    /// Returns whether the object that a response with 404 names was written here:
    /// `roles.rbac.authorization.k8s.io "a" not found`.
    pub(super) fn has_missing(&self, body: &[u8]) -> bool {
        let status: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some((kind, rest)) = status["message"].as_str().and_then(|message| message.split_once(" \"")) else {
            return false;
        };
        let plural = kind.rsplit(' ').next().and_then(|kind| kind.split('.').next()).unwrap_or_default();
        self.has_named(plural, rest.split('"').next().unwrap_or_default())
    }

    /// Returns whether the role that a binding refers to was written here. The API server then does not find the
    /// binding itself.
    pub(super) fn has_role_of(&self, binding: &Value) -> bool {
        let role = &binding["roleRef"];
        let plural = format!("{}s", role["kind"].as_str().unwrap_or_default().to_lowercase());
        role["name"].as_str().is_some_and(|name| self.has_named(&plural, name))
    }

    fn has_named(&self, plural: &str, name: &str) -> bool {
        let end = format!("/{plural}/{name}");
        lock(&self.written).iter().any(|path| path.ends_with(&end) && self.server.object(path).is_some())
    }

    /// Returns an object that was written; `None` if it was deleted.
    pub(super) fn object(&self, path: &str) -> Option<Value> {
        self.server.object(object_path(path))
    }

    /// Stores the result of a write with the next resource version, because a dry run does not change the version.
    pub(super) fn store(&self, path: &str, mut object: Value) {
        let path = object_path(path);
        let Some(target) = Target::of(path) else { return };
        self.serve(&target, object["kind"].as_str().unwrap_or_default());
        let version = object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        let next = version.unwrap_or(0).max(self.server.version()) + 1;
        object["metadata"]["resourceVersion"] = next.to_string().into();
        self.server.restore(path, object);
        lock(&self.written).insert(path.to_owned());
    }

    /// Has an object as the API server has it, with its own uid and resource version. It does not count as written.
    pub(super) fn hold(&self, path: &str, object: Value) {
        let path = object_path(path);
        let Some(target) = Target::of(path) else { return };
        self.serve(&target, object["kind"].as_str().unwrap_or_default());
        self.server.restore(path, object);
    }

    /// Records that an object was deleted, regardless of its finalizers, whose owners act only in the cluster.
    pub(super) fn remove(&self, path: &str, kind: &str) {
        let path = object_path(path);
        if let Some(target) = Target::of(path) {
            self.serve(&target, kind);
        }
        self.server.remove(path);
        lock(&self.written).insert(path.to_owned());
    }

    /// Notes which fields of an object the API server refuses to change. Whatever it becomes here, they stay immutable.
    pub(super) fn refused(&self, path: &str, refusal: &Error) {
        let Some(target) = Target::of(path).filter(|_| refusal.is_immutable()) else { return };
        let object = format!("{}/{}/{}", target.plural, target.namespace, target.name);
        for field in refusal.fields() {
            let pointer = format!("/{}", field.replace(['.', '['], "/").replace(']', ""));
            self.server.make_immutable(&object, &pointer);
        }
    }

    /// Answers a request from what was written.
    pub(super) async fn send(&self, call: Call) -> Result<Response, Error> {
        let path = call.path.split('?').next().unwrap_or_default().to_owned();
        if let (Some(target), Some((_, body))) = (Target::of(&path), &call.body) {
            let kind = serde_json::from_slice::<Value>(body).unwrap_or_default();
            self.serve(&target, kind["kind"].as_str().unwrap_or_default());
        }
        self.server.send(call).await
    }

    /// Serves a kind and its namespace.
    fn serve(&self, target: &Target<'_>, kind: &str) {
        if !kind.is_empty() {
            let serve = if target.namespace.is_empty() { MemoryApi::serve_cluster_scoped } else { MemoryApi::serve };
            serve(&self.server, target.api_version, kind, target.plural);
        }
        let path = format!("/api/v1/namespaces/{}", target.namespace);
        if !target.namespace.is_empty() && self.server.object(&path).is_none() {
            let metadata = json!({"name": target.namespace, "uid": target.namespace, "resourceVersion": "1"});
            let status = json!({"phase": "Active"});
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "status": status});
            self.server.restore(&path, namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "/api/v1/namespaces/a/configmaps/b";

    #[tokio::test]
    async fn what_was_written_is_read_patched_and_gone() {
        let overlay = Overlay::default();
        assert!(!overlay.has(MAP));
        let metadata = json!({"name": "b", "namespace": "a", "uid": "u"});
        overlay.store(MAP, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
        let patched = overlay.send(Call::merge(MAP, br#"{"data": {"x": "1"}}"#.to_vec())).await.unwrap();
        assert_eq!(patched.parse::<Value>().unwrap()["data"]["x"], "1");
        assert_eq!(overlay.object(MAP).unwrap()["data"]["x"], "1");
        overlay.remove(MAP, "ConfigMap");
        assert!(overlay.has(MAP) && overlay.object(MAP).is_none());
        assert!(overlay.send(Call::get(MAP)).await.unwrap_err().is_missing_object());
    }

    #[test]
    fn a_missing_object_is_known_by_kind_and_name_while_it_exists_here() {
        let overlay = Overlay::default();
        let role = "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles/r";
        overlay.store(
            role,
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}),
        );
        let message = |name: &str| format!("roles.rbac.authorization.k8s.io \"{name}\" not found");
        let missing = |name: &str| json!({"message": message(name)}).to_string().into_bytes();
        assert!(overlay.has_missing(&missing("r")) && !overlay.has_missing(&missing("s")));
        let binding = |kind: &str| json!({"roleRef": {"kind": kind, "name": "r"}});
        assert!(overlay.has_role_of(&binding("Role")) && !overlay.has_role_of(&binding("ClusterRole")));
        assert!(!overlay.has_role_of(&json!({"data": {}})));
        overlay.remove(role, "Role");
        assert!(!overlay.has_missing(&missing("r")) && !overlay.has_missing(b"404 page not found"));
    }

    #[tokio::test]
    async fn a_custom_kind_is_served_once_it_was_written() {
        let (overlay, path) = (Overlay::default(), "/apis/a.b/v1/namespaces/n/shops/s");
        let object = json!({"apiVersion": "a.b/v1", "kind": "Shop", "metadata": {"name": "s", "namespace": "n"}});
        overlay.store(path, object.clone());
        assert!(overlay.has(&format!("{path}/status")));
        let body = json!({"apiVersion": "a.b/v1", "kind": "Shop", "metadata": {"name": "s"}, "status": {"x": 1}});
        let call = Call::apply(format!("{path}/status?fieldManager=f&force=true"), body.to_string().into_bytes());
        overlay.send(call).await.unwrap();
        assert_eq!(overlay.object(path).unwrap()["status"]["x"], 1);
    }
}
