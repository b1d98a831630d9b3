//! Normalises live objects: drops fields that differ between servers or belong only to the operator.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

/// API group of the custom resources that the operator serves here.
pub const GROUP: &str = "parity.example.com";

/// The identity of an object. It excludes the version, because an object is the same in all versions of its group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// Empty if the kind is cluster-scoped.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// Objects by identity.
pub type Objects = BTreeMap<Id, Value>;

/// Metadata that the API server sets.
const SERVERS: [&str; 8] = [
    "managedFields",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "selfLink",
    "deletionGracePeriodSeconds",
    "ownerReferences",
];
/// Labels and annotations that the operator sets, as operator-sdk does.
const OPERATORS: [&str; 3] =
    ["helm.sdk.operatorframework.io/chart", "operator-sdk/primary-resource", "operator-sdk/primary-resource-type"];
/// The type of Helm's release records.
const RECORD: &str = "helm.sh/release.v1";

/// Returns the object without status, server-set metadata and the operator's own labels and annotations.
pub fn normalise(mut object: Value) -> Value {
    let Some(whole) = object.as_object_mut() else { return object };
    for key in ["status", "apiVersion", "kind"] {
        whole.remove(key);
    }
    let Some(metadata) = whole.get_mut("metadata").and_then(Value::as_object_mut) else { return object };
    let owners = foreign_owners(metadata);
    SERVERS.iter().for_each(|key| drop(metadata.remove(*key)));
    if !owners.is_empty() {
        metadata.insert("ownerReferences".into(), owners.into());
    }
    for part in ["labels", "annotations"] {
        drop_marks(metadata, part);
    }
    object
}

fn foreign_owners(metadata: &Map<String, Value>) -> Vec<Value> {
    let all = metadata.get("ownerReferences").and_then(Value::as_array);
    let ours = |owner: &&Value| owner["apiVersion"].as_str().is_some_and(|version| version.starts_with(GROUP));
    all.into_iter().flatten().filter(|owner| !ours(owner)).cloned().collect()
}

fn drop_marks(metadata: &mut Map<String, Value>, part: &str) {
    let Some(marks) = metadata.get_mut(part).and_then(Value::as_object_mut) else { return };
    OPERATORS.iter().for_each(|key| drop(marks.remove(*key)));
    if marks.is_empty() {
        metadata.remove(part);
    }
}

/// Returns revision and status if the object is a Helm release record.
pub fn record(object: &Value) -> Option<(u32, String)> {
    if object["type"] != RECORD {
        return None;
    }
    let labels = &object["metadata"]["labels"];
    let revision = labels["version"].as_str()?.parse().ok()?;
    Some((revision, labels["status"].as_str()?.to_owned()))
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if self.group.contains('.') {
            write!(f, ".{}", self.group)?;
        }
        let namespace = if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        write!(f, " {namespace}{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_charts_own_content_remains() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}, "status": {"x": 1},
            "metadata": {
                "name": "x", "uid": "1", "resourceVersion": "2", "generation": 3, "creationTimestamp": "t",
                "managedFields": [], "labels": {"helm.sdk.operatorframework.io/chart": "c"},
                "annotations": {"operator-sdk/primary-resource": "ns/rel", "meta.helm.sh/release-name": "rel"},
                "ownerReferences": [{"apiVersion": "parity.example.com/v1", "kind": "Chart0001"}],
            },
        });
        let left =
            json!({"data": {"a": "b"}, "metadata": {"name": "x", "annotations": {"meta.helm.sh/release-name": "rel"}}});
        assert_eq!(normalise(object), left);
    }

    #[test]
    fn owners_set_by_the_chart_remain() {
        let owners = json!([{"apiVersion": "v1", "kind": "Node"}]);
        let object = json!({"metadata": {"name": "x", "ownerReferences": owners}});
        assert_eq!(normalise(object.clone()), object);
    }

    #[test]
    fn records_are_recognised_by_type() {
        let labels = json!({"owner": "helm", "version": "3", "status": "deployed"});
        let secret = json!({"type": RECORD, "metadata": {"labels": labels}});
        assert_eq!(record(&secret), Some((3, "deployed".to_owned())));
        assert_eq!(record(&json!({"type": "Opaque", "metadata": {"labels": labels}})), None);
    }

    #[test]
    fn an_identity_prints_kind_group_namespace_and_name() {
        let id = |group: &str, namespace: &str| Id {
            group: group.into(),
            kind: "K".into(),
            namespace: namespace.into(),
            name: "n".into(),
        };
        assert_eq!(id("", "ns").to_string(), "K ns/n");
        assert_eq!(id("apps", "").to_string(), "K n");
        assert_eq!(id("x.example", "").to_string(), "K.x.example n");
    }
}
