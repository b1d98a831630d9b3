//! Adds to each object the metadata that a release needs and the stored manifest does not contain: Helm's ownership
//! metadata, the chart's label, the owner.

use std::sync::Arc;

use helm::sequence::DEPENDS_ON_GROUPS;
use serde_json::{Map, Value, json};

use super::{aggregated, ca_bundle, decoded};
use crate::kube::kinds::resource::Resource;
use crate::kube::objects::object::Object;
use outside::group_of;

/// The field manager of all our writes; the same as that of operator-sdk's binary.
pub const FIELD_MANAGER: &str = "helm-operator";
/// The label by which dependents are watched. Its value is the chart's name: [`label_value`].
pub const CHART_LABEL: &str = "helm.sdk.operatorframework.io/chart";
/// The annotation on a hook's object that identifies its run: revision and recorded start.
pub const HOOK_RUN_ANNOTATION: &str = "helm.sdk.operatorframework.io/hook-run";
/// The owner's `namespace/name`, where Kubernetes allows no owner reference.
pub(crate) const PRIMARY_ANNOTATION: &str = "operator-sdk/primary-resource";
/// The owner's `Kind.group`, where Kubernetes allows no owner reference.
pub(crate) const PRIMARY_TYPE_ANNOTATION: &str = "operator-sdk/primary-resource-type";
pub(crate) const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
pub(crate) const RELEASE_NAME: &str = "meta.helm.sh/release-name";
pub(crate) const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
pub(in crate::kube) const RESOURCE_POLICY: &str = "helm.sh/resource-policy";

/// The custom resource that owns a release.
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
    pub(in crate::kube) fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    /// Returns `namespace/name`, or the name alone for a cluster-scoped owner: the value of [`PRIMARY_ANNOTATION`].
    pub(crate) fn annotated_name(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }

    /// Returns `Kind.group`: the value of the annotation `operator-sdk/primary-resource-type`.
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

/// How objects name the resource that owns their release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tie {
    /// By a controller owner reference, where Kubernetes allows one and the object is not kept; otherwise by
    /// annotations.
    #[default]
    Reference,
    /// By annotations. With a reference, the garbage collector would delete an object as soon as its resource is
    /// deleted in the foreground: before a `pre-delete` hook has run, and the hook itself.
    Annotations,
}

/// A release's identity, and the metadata that it adds to its objects.
#[derive(Clone, Debug)]
pub struct Decoration {
    /// The release's name.
    pub release: String,
    /// The release's namespace.
    pub namespace: String,
    /// The chart's name.
    pub chart: String,
    /// The owner; `None` for a release that no resource owns.
    pub owner: Option<Owner>,
    /// How objects name the owner.
    pub tie: Tie,
    /// Other resources that had the release before: it may have made what belongs to them. What belongs to one that is
    /// missing here counts as somebody else's.
    pub former: Vec<Former>,
}

/// Another resource that had a release before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Former {
    /// Its uid.
    pub uid: Arc<str>,
    /// Its `Kind.group`; empty if unknown.
    pub kind: Arc<str>,
}

/// Metadata that only the server or the release's owner sets.
const SERVER_SIDE: [&str; 5] = ["managedFields", "resourceVersion", "uid", "creationTimestamp", "ownerReferences"];

impl Object {
    /// Returns the object as writes send it, without the release's metadata: decoded as the server would, without
    /// placeholders, without rules that the server aggregates, and without metadata that charts must not set.
    pub fn as_sent(&self) -> Value {
        let mut body = self.body.clone();
        decoded::decode(&mut body);
        ca_bundle::drop_placeholders(&mut body);
        aggregated::drop_rules(&mut body);
        let metadata = child(&mut body, "metadata");
        SERVER_SIDE.iter().for_each(|field| _ = metadata.remove(*field));
        // It only orders the chart's objects, and the server would reject its key as invalid.
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(DEPENDS_ON_GROUPS);
        }
        body
    }
}

impl Decoration {
    /// Returns the object's namespace; empty if the resource is cluster-scoped.
    pub(crate) fn namespace_of<'a>(&'a self, object: &'a Object, resource: &Resource) -> &'a str {
        if !resource.namespaced {
            return "";
        }
        object.namespace.as_deref().unwrap_or(&self.namespace)
    }

    /// Returns how a live object names the owner.
    pub(in crate::kube) fn tie_of(&self, live: &Value) -> Tie {
        let uid = self.owner.as_ref().map(|owner| owner.uid.as_str());
        let references = live["metadata"]["ownerReferences"].as_array();
        let is_referred = references.into_iter().flatten().any(|reference| reference["uid"].as_str() == uid);
        if is_referred { Tie::Reference } else { Tie::Annotations }
    }

    pub(in crate::kube) fn chart_label(&self) -> &str {
        label_value(&self.chart)
    }

    /// Returns the object as it is applied: [`Object::as_sent`] with namespace, Helm's ownership metadata, chart label
    /// and owner.
    ///
    /// The owner is a controller owner reference or two annotations: [`Tie`].
    pub(crate) fn decorate(&self, object: &Object, resource: &Resource) -> Value {
        let mut body = object.as_sent();
        let namespace = self.namespace_of(object, resource).to_owned();
        let metadata = child(&mut body, "metadata");
        if !namespace.is_empty() {
            metadata.insert("namespace".into(), namespace.as_str().into());
        }
        let labels = child_of(metadata, "labels");
        labels.insert(MANAGED_BY_LABEL.into(), "Helm".into());
        labels.insert(CHART_LABEL.into(), self.chart_label().into());
        let annotations = child_of(metadata, "annotations");
        annotations.insert(RELEASE_NAME.into(), self.release.as_str().into());
        annotations.insert(RELEASE_NAMESPACE.into(), self.namespace.as_str().into());
        if let Some(owner) = &self.owner {
            let in_scope = owner.namespace.is_empty() || (resource.namespaced && owner.namespace == namespace);
            add_owner(metadata, owner, if in_scope && !is_kept(object) { self.tie } else { Tie::Annotations });
        }
        body
    }
}

fn add_owner(metadata: &mut Map<String, Value>, owner: &Owner, tie: Tie) {
    if tie == Tie::Reference {
        metadata.insert("ownerReferences".into(), json!([owner.reference()]));
        return;
    }
    let annotations = child_of(metadata, "annotations");
    annotations.insert(PRIMARY_ANNOTATION.into(), owner.annotated_name().into());
    annotations.insert(PRIMARY_TYPE_ANNOTATION.into(), owner.annotated_type().into());
}

/// Returns whether the object outlives its release: `helm.sh/resource-policy: keep`, in any case, with surrounding
/// spaces.
pub(crate) fn is_kept(object: &Object) -> bool {
    object.annotation(RESOURCE_POLICY).is_some_and(is_keep)
}

/// Returns whether a value of `helm.sh/resource-policy` keeps the object.
pub(in crate::kube) fn is_keep(policy: &str) -> bool {
    policy.trim().eq_ignore_ascii_case("keep")
}

/// Returns the value of [`CHART_LABEL`] for a chart, cut to the 63 bytes that a label value may have.
pub fn label_value(chart: &str) -> &str {
    chart[..chart.floor_char_boundary(63)].trim_end_matches(['-', '_', '.'])
}

/// Returns the map under a key, replacing any other value there.
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
    fn objects_are_sent_decoded_and_keep_their_body() {
        let resource =
            Resource { api_version: "v1".into(), kind: "Secret".into(), plural: "secrets".into(), namespaced: true };
        let rendered = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": null, "stringData": {"a": "x"}});
        let object = Object::new(rendered.clone()).unwrap();
        let sent = unowned().decorate(&object, &resource);
        assert_eq!((sent.get("type"), sent.get("stringData"), &sent["data"]), (None, None, &json!({"a": "eA=="})));
        assert_eq!(object.body, rendered);
    }

    #[test]
    fn the_annotation_of_an_order_that_the_server_would_reject_is_not_sent() {
        let resource =
            Resource { api_version: "v1".into(), kind: "Secret".into(), plural: "secrets".into(), namespaced: true };
        let annotations = json!({"helm.sh/depends-on/resource-groups": "[\"a\"]", "helm.sh/resource-group": "b"});
        let metadata = json!({"name": "s", "annotations": annotations});
        let rendered = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        let object = Object::new(rendered.clone()).unwrap();
        let sent = unowned().decorate(&object, &resource)["metadata"]["annotations"].clone();
        assert_eq!(
            (sent.get("helm.sh/depends-on/resource-groups"), &sent["helm.sh/resource-group"]),
            (None, &json!("b"))
        );
        assert_eq!(object.body, rendered, "the record keeps it");
    }

    #[test]
    fn placeholder_ca_bundles_are_not_applied() {
        let resource = Resource {
            api_version: "apiregistration.k8s.io/v1".into(),
            kind: "APIService".into(),
            plural: "apiservices".into(),
            namespaced: false,
        };
        let rendered = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "s"},
            "spec": {"caBundle": "Cg==", "group": "g"},
        });
        let sent = unowned().decorate(&Object::new(rendered).unwrap(), &resource);
        assert_eq!(sent["spec"], json!({"group": "g"}));
    }

    #[test]
    fn the_rules_of_aggregated_cluster_roles_are_not_applied() {
        let rendered = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"in": "r"}}]}, "rules": [],
        });
        let object = Object::new(rendered.clone()).unwrap();
        let sent = object.as_sent();
        assert_eq!((sent.get("rules"), &sent["aggregationRule"]), (None, &rendered["aggregationRule"]));
        assert_eq!(object.body, rendered, "the record keeps them");
    }

    fn resource(namespaced: bool) -> Resource {
        Resource { api_version: "v1".into(), kind: "Thing".into(), plural: "things".into(), namespaced }
    }

    fn object(metadata: Value) -> Object {
        Object::new(json!({"apiVersion": "v1", "kind": "Thing", "metadata": metadata})).unwrap()
    }

    fn decoration(owner_namespace: &str) -> Decoration {
        let owner = Owner {
            api_version: "x.y/v1".into(),
            kind: "Db".into(),
            name: "db".into(),
            namespace: owner_namespace.into(),
            uid: "u".into(),
        };
        let (release, namespace, chart) = ("r".into(), "ns".into(), "c".into());
        Decoration { release, namespace, chart, owner: Some(owner), tie: Tie::Reference, former: Vec::new() }
    }

    fn unowned() -> Decoration {
        Decoration { owner: None, ..decoration("ns") }
    }

    #[test]
    fn server_side_metadata_is_not_sent() {
        let metadata = json!({
            "name": "a", "managedFields": [], "resourceVersion": "1", "uid": "u", "creationTimestamp": "t",
            "ownerReferences": [{}], "labels": {"a": "b", MANAGED_BY_LABEL: "me"}, "annotations": "none",
        });
        let sent = unowned().decorate(&object(metadata), &resource(true));
        let expected = json!({
            "name": "a", "namespace": "ns", "labels": {"a": "b", MANAGED_BY_LABEL: "Helm", CHART_LABEL: "c"},
            "annotations": {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "ns"},
        });
        assert_eq!(sent["metadata"], expected);
    }

    #[test]
    fn objects_default_to_the_releases_namespace() {
        let namespace = |metadata, namespaced| {
            let (decoration, object, resource) = (decoration("ns"), object(metadata), resource(namespaced));
            let sent = decoration.decorate(&object, &resource)["metadata"]["namespace"].clone();
            (decoration.namespace_of(&object, &resource).to_owned(), sent)
        };
        assert_eq!(namespace(json!({"name": "a"}), true), ("ns".into(), json!("ns")));
        assert_eq!(namespace(json!({"name": "a", "namespace": "other"}), true), ("other".into(), json!("other")));
        assert_eq!(namespace(json!({"name": "a"}), false), (String::new(), Value::Null));
    }

    #[test]
    fn owners_are_references_where_allowed_and_annotations_elsewhere() {
        let keep = json!({"name": "a", "annotations": {"helm.sh/resource-policy": " KEEP "}});
        let reference = json!([{
            "apiVersion": "x.y/v1", "kind": "Db", "name": "db", "uid": "u", "controller": true, "blockOwnerDeletion": true,
        }]);
        let annotated = |name: &str| (Value::Null, json!(name), json!("Db.x.y"));
        let referenced = || (reference.clone(), Value::Null, Value::Null);
        for (owner_namespace, metadata, namespaced, expected) in [
            ("ns", json!({"name": "a"}), true, referenced()),
            ("ns", json!({"name": "a", "namespace": "other"}), true, annotated("ns/db")),
            ("ns", json!({"name": "a"}), false, annotated("ns/db")),
            ("", json!({"name": "a"}), false, referenced()),
            ("", json!({"name": "a"}), true, referenced()),
            ("ns", keep.clone(), true, annotated("ns/db")),
            ("", keep, false, annotated("db")),
        ] {
            let sent = decoration(owner_namespace).decorate(&object(metadata.clone()), &resource(namespaced));
            let annotations = &sent["metadata"]["annotations"];
            let found = (
                sent["metadata"]["ownerReferences"].clone(),
                annotations[PRIMARY_ANNOTATION].clone(),
                annotations[PRIMARY_TYPE_ANNOTATION].clone(),
            );
            assert_eq!(found, expected, "{owner_namespace:?} {metadata} {namespaced}");
        }
    }

    #[test]
    fn a_release_with_hooks_for_its_deletion_ties_its_objects_by_annotations() {
        let decoration = Decoration { tie: Tie::Annotations, ..decoration("ns") };
        let sent = decoration.decorate(&object(json!({"name": "a"})), &resource(true));
        assert_eq!(sent["metadata"]["ownerReferences"], Value::Null);
        assert_eq!(sent["metadata"]["annotations"][PRIMARY_ANNOTATION], "ns/db");
        let live = |uid: &str| json!({"metadata": {"ownerReferences": [{"uid": "x"}, {"uid": uid}]}});
        assert_eq!(decoration.tie_of(&live("u")), Tie::Reference);
        assert_eq!((decoration.tie_of(&live("v")), decoration.tie_of(&sent)), (Tie::Annotations, Tie::Annotations));
    }

    #[test]
    fn only_the_policy_keep_keeps_objects() {
        let kept =
            |policy: Value| is_kept(&object(json!({"name": "a", "annotations": {"helm.sh/resource-policy": policy}})));
        assert!(kept(json!("keep")) && kept(json!("Keep")) && kept(json!("\tkeep\n")));
        assert!(!kept(json!("keeper")) && !kept(json!("")) && !kept(json!(true)));
        assert!(!is_kept(&object(json!({"name": "a"}))));
    }

    #[test]
    fn long_chart_names_are_cut_to_label_length() {
        let cut = |chart: &str| label_value(chart).to_owned();
        assert_eq!(cut("memcached"), "memcached");
        assert_eq!(cut(&"a".repeat(63)), "a".repeat(63));
        assert_eq!(cut(&"a".repeat(64)), "a".repeat(63));
        assert_eq!(cut(&format!("{}-_.b", "a".repeat(60))), "a".repeat(60));
        assert_eq!(cut(&format!("{}é", "a".repeat(62))), "a".repeat(62));
    }

    #[test]
    fn missing_and_mistyped_parents_become_maps() {
        let mut body = json!([1]);
        child(&mut body, "metadata").insert("a".into(), 1.into());
        assert_eq!(body, json!({"metadata": {"a": 1}}));
        child(&mut body, "metadata").insert("b".into(), 2.into());
        assert_eq!(body, json!({"metadata": {"a": 1, "b": 2}}));
        child_of(body.as_object_mut().unwrap(), "metadata").remove("a");
        assert_eq!(body, json!({"metadata": {"b": 2}}));
    }
}
