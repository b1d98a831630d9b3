//! Recognizes autoscalers, to which `spec.replicas` is handed over: the release's own by its objects, others by their
//! writes.

use std::collections::HashSet;

use outside::{Call, Error, group_of};
use serde_json::Value;

use crate::kube::live_state::live::Live;
use crate::kube::live_state::ownership::Ownership;
use crate::kube::objects::decorate::{Decoration, FIELD_MANAGER};
use crate::kube::objects::object::{Object, ObjectKey};
use crate::kube::writes::apply::Applier;

const GROUP: &str = "autoscaling";
const KIND: &str = "HorizontalPodAutoscaler";

/// The field manager of Kubernetes' own autoscaler.
const CONTROLLER: &str = "kube-controller-manager";

/// The objects that the release's own autoscalers scale.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scaled(HashSet<ObjectKey>);

impl Scaled {
    /// Finds the targets of the release's autoscalers. `namespace` is the release's.
    pub(crate) fn of(objects: &[Object], namespace: &str) -> Scaled {
        let autoscalers = objects.iter().filter(|object| object.group() == GROUP && object.kind == KIND);
        let target = |object: &Object| {
            let target = &object.body["spec"]["scaleTargetRef"];
            let text = |field: &str| target[field].as_str();
            let group = group_of(text("apiVersion").unwrap_or_default());
            Some(ObjectKey::new(group, text("kind")?, object.namespace.as_deref().unwrap_or(namespace), text("name")?))
        };
        Scaled(autoscalers.filter_map(target).collect())
    }

    /// Returns whether an autoscaler of the release scales the object.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.0.contains(key)
    }
}

/// Returns whether an object sets its replicas.
pub(crate) fn has_replicas(body: &Value) -> bool {
    body["spec"]["replicas"].is_number()
}

/// Returns whether another manager set the replicas through the `scale` subresource; `manager` restricts which one.
fn was_scaled(managed_fields: &Value, manager: Option<&str>) -> bool {
    let entries = managed_fields.as_array().into_iter().flatten();
    let mut scalers = entries.filter(|entry| entry["subresource"] == "scale" && entry["manager"] != FIELD_MANAGER);
    scalers.any(|entry| manager.is_none_or(|manager| entry["manager"] == manager))
}

impl Applier {
    /// Returns whether an autoscaler outside the release scales the live object. Costs a request only for an object
    /// that was scaled: a list of the autoscalers in its namespace. If the list is forbidden, the field manager of
    /// Kubernetes' autoscaler is sufficient proof.
    pub(in crate::kube) async fn is_autoscaled(
        &self,
        key: &ObjectKey,
        managed_fields: &Value,
        decoration: &Decoration,
    ) -> Result<bool, Error> {
        if !was_scaled(managed_fields, None) {
            return Ok(false);
        }
        match self.autoscalers(&key.namespace).await {
            Ok(all) => Ok(all.iter().any(|autoscaler| scales(autoscaler, key, decoration))),
            Err(error) if error.is_forbidden() || matches!(error, Error::NoKind { .. }) => {
                Ok(was_scaled(managed_fields, Some(CONTROLLER)))
            }
            Err(error) => Err(error),
        }
    }

    async fn autoscalers(&self, namespace: &str) -> Result<Vec<Value>, Error> {
        let resource = self.mapper.any_version("autoscaling/v2", KIND).await?;
        let mut list: Value = self.api().send(Call::get(resource.collection(namespace)?)).await?.parse()?;
        Ok(serde_json::from_value(list["items"].take()).unwrap_or_default())
    }
}

/// Returns whether an autoscaler targets the object. The release's own do not count: those in the chart are known from
/// the chart, and any other is about to be pruned.
fn scales(autoscaler: &Value, key: &ObjectKey, decoration: &Decoration) -> bool {
    let target = &autoscaler["spec"]["scaleTargetRef"];
    let is_target = target["kind"] == *key.kind
        && target["name"] == *key.name
        && group_of(target["apiVersion"].as_str().unwrap_or_default()) == &*key.group;
    let live = || serde_json::from_value::<Live>(autoscaler.clone());
    is_target && live().is_ok_and(|live| decoration.ownership(&live) != Ownership::Ours)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use outside::MemoryApi;
    use serde_json::json;

    use super::*;
    use crate::sample::decoration;

    fn key(kind: &str, name: &str) -> ObjectKey {
        ObjectKey { group: "apps".into(), kind: kind.into(), namespace: "ns".into(), name: name.into() }
    }

    fn autoscaler(metadata: Value, kind: &str, name: &str) -> Value {
        let target = json!({"apiVersion": "apps/v1", "kind": kind, "name": name});
        json!({"apiVersion": "autoscaling/v2", "kind": KIND, "metadata": metadata, "spec": {"scaleTargetRef": target}})
    }

    #[test]
    fn the_targets_of_the_releases_autoscalers_are_known_from_its_objects() {
        let objects = [
            autoscaler(json!({"name": "a"}), "Deployment", "web"),
            autoscaler(json!({"name": "b", "namespace": "other"}), "Deployment", "far"),
            json!({"apiVersion": "keda.sh/v1alpha1", "kind": KIND, "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "x"}}}),
            json!({"apiVersion": "autoscaling/v1", "kind": KIND, "metadata": {"name": "c"}}),
        ];
        let scaled = Scaled::of(&objects.map(|body| Object::new(body).unwrap()), "ns");
        assert!(scaled.contains(&key("Deployment", "web")));
        assert_eq!(scaled.0.len(), 2, "{scaled:?}");
        assert!(!scaled.contains(&key("Deployment", "far")) && !scaled.contains(&key("StatefulSet", "web")));
    }

    fn scaled_by(manager: &str) -> Value {
        json!([{"manager": manager, "operation": "Update", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}])
    }

    #[tokio::test]
    async fn an_autoscaler_outside_the_release_is_found_after_its_first_write() {
        let server = Arc::new(MemoryApi::new());
        server.serve("autoscaling/v2", KIND, "horizontalpodautoscalers");
        let applier = Applier::new(server.clone());
        let check = async |managers: &Value| {
            applier.is_autoscaled(&key("Deployment", "web"), managers, &decoration()).await.unwrap()
        };
        let kcm = scaled_by(CONTROLLER);
        assert!(!check(&kcm).await, "the autoscaler is gone");
        let path = |name: &str| format!("/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers/{name}");
        server.put(&path("other"), autoscaler(json!({"name": "other"}), "Deployment", "other"), "user");
        let owned = json!({"name": "own", "annotations": {
            "meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns",
        }});
        server.put(&path("own"), autoscaler(owned, "Deployment", "web"), "user");
        assert!(!check(&kcm).await, "another's target, and one that the release prunes");
        server.put(&path("web"), autoscaler(json!({"name": "web"}), "Deployment", "web"), "user");
        assert!(check(&kcm).await);
        assert!(check(&scaled_by("keda-operator")).await);
        assert!(!check(&json!([{"manager": "kubectl", "operation": "Update"}])).await, "nobody scaled it");
    }

    #[tokio::test]
    async fn without_the_right_to_list_autoscalers_their_field_manager_decides() {
        let server = Arc::new(MemoryApi::new());
        server.serve("autoscaling/v2", KIND, "horizontalpodautoscalers");
        server.refuse(|call| {
            call.path.contains("horizontalpodautoscalers").then(|| Error::from_status(403, "Forbidden", "no"))
        });
        let applier = Applier::new(server.clone());
        let check = async |manager: &str| {
            applier.is_autoscaled(&key("Deployment", "web"), &scaled_by(manager), &decoration()).await.unwrap()
        };
        assert!(check(CONTROLLER).await);
        assert!(!check("kubectl").await);
    }
}
