//! What is added to an object before it is applied and is no part of the stored manifest: Helm's ownership metadata, the chart's label,
//! the owner.

use serde_json::{Map, Value, json};

use super::{Object, Resource, decoded};

/// The label by which dependents are watched: the chart's name.
pub const CHART_LABEL: &str = "helm.sdk.operatorframework.io/chart";
/// `namespace/name` of the owner, where no owner reference is allowed.
pub const PRIMARY_ANNOTATION: &str = "operator-sdk/primary-resource";
/// `Kind.group` of the owner, where no owner reference is allowed.
pub const PRIMARY_TYPE_ANNOTATION: &str = "operator-sdk/primary-resource-type";
pub(super) const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
pub(super) const RELEASE_NAME: &str = "meta.helm.sh/release-name";
pub(super) const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
pub(super) const RESOURCE_POLICY: &str = "helm.sh/resource-policy";

/// The custom resource that a release belongs to.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; empty if it is cluster-scoped.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
}

impl Owner {
    pub(super) fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// `namespace/name`, or the name alone for a cluster-scoped owner: the value of [`PRIMARY_ANNOTATION`].
    pub fn annotated_name(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }

    /// `Kind.group`: the value of [`PRIMARY_TYPE_ANNOTATION`].
    pub fn annotated_type(&self) -> String {
        format!("{}.{}", self.kind, self.group()).trim_end_matches('.').to_owned()
    }

    fn reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }
}

/// What a release adds to its objects.
#[derive(Clone, Debug)]
pub struct Decoration {
    /// The release's name.
    pub release: String,
    /// The release's namespace.
    pub namespace: String,
    /// The chart's name.
    pub chart: String,
    /// Whose release it is; absent for a release that no resource owns.
    pub owner: Option<Owner>,
}

impl Decoration {
    /// The namespace of an object of this resource; empty if the resource is cluster-scoped.
    pub fn namespace_of<'a>(&'a self, object: &'a Object, resource: &Resource) -> &'a str {
        if !resource.namespaced {
            return "";
        }
        object.namespace.as_deref().unwrap_or(&self.namespace)
    }

    /// The object as it is applied.
    pub fn decorate(&self, object: &Object, resource: &Resource) -> Value {
        let mut body = object.body.clone();
        decoded::decode(&mut body);
        let namespace = self.namespace_of(object, resource).to_owned();
        let metadata = child(&mut body, "metadata");
        for server_side in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "ownerReferences"] {
            metadata.remove(server_side);
        }
        if !namespace.is_empty() {
            metadata.insert("namespace".into(), namespace.as_str().into());
        }
        let labels = child_of(metadata, "labels");
        labels.insert(MANAGED_BY_LABEL.into(), "Helm".into());
        labels.insert(CHART_LABEL.into(), label_value(&self.chart).into());
        let annotations = child_of(metadata, "annotations");
        annotations.insert(RELEASE_NAME.into(), self.release.as_str().into());
        annotations.insert(RELEASE_NAMESPACE.into(), self.namespace.as_str().into());
        if let Some(owner) = &self.owner {
            add_owner(metadata, owner, object, resource, &namespace);
        }
        body
    }
}

fn add_owner(metadata: &mut Map<String, Value>, owner: &Owner, object: &Object, resource: &Resource, namespace: &str) {
    let same_scope = owner.namespace.is_empty() || (resource.namespaced && owner.namespace == namespace);
    if same_scope && !is_kept(object) {
        metadata.insert("ownerReferences".into(), json!([owner.reference()]));
        return;
    }
    let annotations = child_of(metadata, "annotations");
    annotations.insert(PRIMARY_ANNOTATION.into(), owner.annotated_name().into());
    annotations.insert(PRIMARY_TYPE_ANNOTATION.into(), owner.annotated_type().into());
}

/// Whether the object outlives its release: `helm.sh/resource-policy: keep`, in any case, with spaces around.
pub fn is_kept(object: &Object) -> bool {
    object.annotation(RESOURCE_POLICY).is_some_and(says_keep)
}

/// Whether a value of `helm.sh/resource-policy` means that the object stays.
pub(super) fn says_keep(policy: &str) -> bool {
    policy.trim().eq_ignore_ascii_case("keep")
}

/// The value of [`CHART_LABEL`] for a chart: a label's value has at most 63 characters, and chart names may have more.
pub fn label_value(chart: &str) -> &str {
    let mut end = chart.len().min(63);
    while !chart.is_char_boundary(end) {
        end -= 1;
    }
    chart[..end].trim_end_matches(['-', '_', '.'])
}

/// The map under a key of an object; anything else that is there is replaced.
fn child<'a>(body: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    if !body.is_object() {
        *body = Value::Object(Map::new());
    }
    let map = body.as_object_mut().expect("made an object just above");
    child_of(map, key)
}

fn child_of<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object just above")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_sent_as_the_server_decodes_it_and_stays_as_the_chart_says_it() {
        let resource =
            Resource { api_version: "v1".into(), kind: "Secret".into(), plural: "secrets".into(), namespaced: true };
        let decoration = Decoration { release: "r".into(), namespace: "ns".into(), chart: "c".into(), owner: None };
        let said = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": null, "stringData": {"a": "x"}});
        let object = Object::new(said.clone()).unwrap();
        let sent = decoration.decorate(&object, &resource);
        assert_eq!((sent.get("type"), sent.get("stringData"), &sent["data"]), (None, None, &json!({"a": "eA=="})));
        assert_eq!(object.body, said);
    }
}
