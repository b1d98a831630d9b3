//! What is added to an object before it is applied and is no part of the stored manifest: Helm's ownership metadata, the chart's label,
//! the owner.

use serde_json::{Map, Value, json};

use super::{Object, Resource};

/// The label by which dependents are watched: the chart's name.
pub const CHART_LABEL: &str = "helm.sdk.operatorframework.io/chart";
/// `namespace/name` of the owner, where no owner reference is allowed.
pub const PRIMARY_ANNOTATION: &str = "operator-sdk/primary-resource";
/// `Kind.group` of the owner, where no owner reference is allowed.
pub const PRIMARY_TYPE_ANNOTATION: &str = "operator-sdk/primary-resource-type";
const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
const RESOURCE_POLICY: &str = "helm.sh/resource-policy";

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
    fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
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

    /// Whether a live object may be taken into this release, by Helm's rule: it says that it is this release's. The error says why not.
    pub fn check_ownership(&self, live: &Value) -> Result<(), String> {
        let metadata = &live["metadata"];
        let wanted = [
            ("label", "labels", MANAGED_BY_LABEL, "Helm"),
            ("annotation", "annotations", RELEASE_NAME, self.release.as_str()),
            ("annotation", "annotations", RELEASE_NAMESPACE, self.namespace.as_str()),
        ];
        let faults: Vec<String> = wanted
            .iter()
            .filter_map(|(what, map, key, value)| fault(what, metadata[map].get(key), key, value))
            .collect();
        if faults.is_empty() || self.owns(metadata) {
            return Ok(());
        }
        Err(format!("invalid ownership metadata; {}", faults.join("; ")))
    }

    /// Whether the object's controller is our owner: upstream's drift repair loses Helm's annotations, but not this.
    fn owns(&self, metadata: &Value) -> bool {
        let Some(owner) = &self.owner else { return false };
        let references = metadata["ownerReferences"].as_array();
        references.is_some_and(|all| all.iter().any(|r| r["controller"] == true && r["uid"] == owner.uid.as_str()))
    }
}

fn fault(what: &str, actual: Option<&Value>, key: &str, wanted: &str) -> Option<String> {
    match actual.and_then(Value::as_str) {
        Some(actual) if actual == wanted => None,
        Some(actual) => {
            Some(format!("{what} validation error: key {key:?} must equal {wanted:?}: current value is {actual:?}"))
        }
        None => Some(format!("{what} validation error: missing key {key:?}: must be set to {wanted:?}")),
    }
}

fn add_owner(metadata: &mut Map<String, Value>, owner: &Owner, object: &Object, resource: &Resource, namespace: &str) {
    let same_scope = owner.namespace.is_empty() || (resource.namespaced && owner.namespace == namespace);
    if same_scope && !is_kept(object) {
        metadata.insert("ownerReferences".into(), json!([owner.reference()]));
        return;
    }
    let annotations = child_of(metadata, "annotations");
    let name =
        if owner.namespace.is_empty() { owner.name.clone() } else { format!("{}/{}", owner.namespace, owner.name) };
    annotations.insert(PRIMARY_ANNOTATION.into(), name.into());
    annotations.insert(
        PRIMARY_TYPE_ANNOTATION.into(),
        format!("{}.{}", owner.kind, owner.group()).trim_end_matches('.').into(),
    );
}

/// Whether the object outlives its release: `helm.sh/resource-policy: keep`, in any case, with spaces around.
pub fn is_kept(object: &Object) -> bool {
    object.annotation(RESOURCE_POLICY).is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep"))
}

/// A label's value has at most 63 characters; chart names may have more.
fn label_value(chart: &str) -> &str {
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
