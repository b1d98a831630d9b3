//! The objects of a manifest: parsing, identity, digest.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use go_encoding::yaml;
use helm::sequence::Turn;

use super::expiry;
use crate::kube::objects::decorate::{PRIMARY_ANNOTATION, PRIMARY_TYPE_ANNOTATION};
use crate::kube::objects::duplicate::deduplicate;
use crate::kube::objects::order::install_order;
use outside::{NODE_WEIGHT, group_of, intern, weight};

/// The identity of an object. It excludes the version, so that a chart can move an object to another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Creates a key of [interned](intern()) strings: releases and caches hold several keys of each object.
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey { group: intern(group), kind: intern(kind), namespace: intern(namespace), name: intern(name) }
    }

    /// Returns whether the other key names this object in the kind's other scope, with or without a namespace. The
    /// server serves a kind in one scope; objects in the other were deleted with the kind's definition.
    pub fn is_in_other_scope(&self, other: &ObjectKey) -> bool {
        let is_same = (&self.group, &self.kind, &self.name) == (&other.group, &other.kind, &other.name);
        is_same && self.namespace.is_empty() != other.namespace.is_empty()
    }

    /// Returns whether two keys differ only in their API groups. The server may serve one object in both.
    pub fn is_in_other_group(&self, other: &ObjectKey) -> bool {
        let is_same = (&self.kind, &self.namespace, &self.name) == (&other.kind, &other.namespace, &other.name);
        is_same && self.group != other.group
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind, self.name)
    }
}

/// One object of a manifest.
#[derive(Clone, Debug)]
pub struct Object {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `metadata.name`; empty if it is generated.
    pub name: String,
    /// `metadata.namespace`; absent in most charts.
    pub namespace: Option<String>,
    /// The whole object.
    pub body: Value,
    /// The template that rendered it; empty if the manifest does not name it.
    pub template: Arc<str>,
    /// When it is applied, if the release has an order.
    pub turn: Turn,
}

/// Why a document of a manifest is not a Kubernetes object.
#[derive(Debug, thiserror::Error)]
#[error("{}{fault}", place(.template))]
pub struct ObjectError {
    /// The template that rendered it; empty if the manifest does not name it.
    pub template: Arc<str>,
    /// The fault.
    pub fault: ObjectFault,
}

/// The fault of a document.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum ObjectFault {
    #[error("cannot parse manifest: {0}")]
    Yaml(String),
    #[error("manifest has an object without {0}")]
    Missing(&'static str),
    #[error("{field} must be a string, got {got}; quote it in the template")]
    NotString {
        field: &'static str,
        /// The JSON type of its value.
        got: &'static str,
    },
    /// Its name is generated, so later revisions could not find it.
    #[error("{0} has metadata.generateName but no metadata.name: give it a name, because an upgrade could not find it")]
    Generated(String),
    /// Both a name and a prefix are set; Helm's message.
    #[error("metadata.name and metadata.generateName cannot both be set")]
    NameAndGenerateName,
    #[error("the objects take more than {} MiB in memory", .0 >> 20)]
    TooHeavy(u64),
    #[error("annotation {key} must be {allowed}")]
    Annotation { key: &'static str, allowed: &'static str },
}

impl ObjectFault {
    /// Returns whether the only fault is the memory that the objects would use.
    pub fn is_weight(&self) -> bool {
        match self {
            ObjectFault::TooHeavy(_) => true,
            ObjectFault::Yaml(why) => why.contains("exceeded limit MAX_"),
            _ => false,
        }
    }
}

fn place(template: &str) -> String {
    if template.is_empty() { String::new() } else { format!("{template}: ") }
}

impl Object {
    /// Reads one object.
    ///
    /// # Errors
    /// `apiVersion` or `kind` is missing, or one of them, the name or the namespace is not a string.
    pub fn new(body: Value) -> Result<Object, ObjectFault> {
        let api_version = text(body.get("apiVersion"), "apiVersion")?.ok_or(ObjectFault::Missing("apiVersion"))?;
        let kind = text(body.get("kind"), "kind")?.ok_or(ObjectFault::Missing("kind"))?;
        let name = text(body.pointer("/metadata/name"), "metadata.name")?.unwrap_or_default();
        let namespace = text(body.pointer("/metadata/namespace"), "metadata.namespace")?;
        Ok(Object { api_version, kind, name, namespace, body, template: "".into(), turn: Turn::default() })
    }

    /// Checks that the object has a fixed name, by which later revisions find it.
    ///
    /// # Errors
    /// The name is missing or generated; Helm rejects both when it applies or upgrades.
    pub fn check_name(&self) -> Result<(), ObjectError> {
        let generated = self.body.pointer("/metadata/generateName").is_some_and(|name| *name != "" && !name.is_null());
        let fault = match (self.name.is_empty(), generated) {
            (false, false) => return Ok(()),
            (false, true) => ObjectFault::NameAndGenerateName,
            (true, true) => ObjectFault::Generated(self.kind.clone()),
            (true, false) => ObjectFault::Missing("metadata.name"),
        };
        Err(ObjectError { template: self.template.clone(), fault })
    }

    /// Returns the API group; empty for the core group.
    pub fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    /// Returns whether it is deleted once it finished, like a Job with `ttlSecondsAfterFinished`.
    pub fn expires(&self) -> bool {
        expiry::expires(self.group(), &self.kind, &self.body["spec"])
    }

    /// Returns its key as written, without discovery. `namespace` is the release's.
    pub(crate) fn key(&self, namespace: &str) -> ObjectKey {
        ObjectKey::new(self.group(), &self.kind, self.namespace.as_deref().unwrap_or(namespace), &self.name)
    }

    /// Returns whether this is its key on the server, without discovery. `namespace` is the release's.
    pub(crate) fn has_key(&self, key: &ObjectKey, namespace: &str) -> bool {
        let own = self.namespace.as_deref().unwrap_or(namespace);
        (&*key.group, &*key.kind, &*key.name) == (self.group(), &*self.kind, &*self.name)
            // A cluster-scoped object may name a namespace, which does not count.
            && (key.namespace.is_empty() || *key.namespace == *own)
    }

    /// Returns an annotation if it is a string.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.body.get("metadata")?.get("annotations")?.get(key)?.as_str()
    }

    /// Digests the object as the chart rendered it, without the additions of this and upstream operators.
    pub fn digest(&self, release_namespace: &str) -> ObjectDigest {
        ObjectDigest(digest(&self.as_rendered(release_namespace)))
    }

    /// Returns whether the chart rendered both objects alike, without the additions of this and upstream operators. Compares
    /// the whole content: a digest is too short to prove what an object of unknown origin contains.
    pub(crate) fn is_rendered_as(&self, other: &Object, release_namespace: &str) -> bool {
        self.as_rendered(release_namespace) == other.as_rendered(release_namespace)
    }

    fn as_rendered(&self, release_namespace: &str) -> Value {
        let mut body = self.body.clone();
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("ownerReferences");
            metadata.remove("creationTimestamp");
            drop_owner_annotations(metadata);
            if metadata.get("namespace").and_then(Value::as_str) == Some(release_namespace) {
                metadata.remove("namespace");
            }
        }
        body
    }
}

/// Removes the annotations that helm-operator-plugins stores in its manifests where an owner reference is not allowed.
fn drop_owner_annotations(metadata: &mut Map<String, Value>) {
    let annotations = metadata.get_mut("annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove(PRIMARY_ANNOTATION);
        annotations.remove(PRIMARY_TYPE_ANNOTATION);
    }
    let is_empty = |annotations: &Value| annotations.as_object().map_or(annotations.is_null(), Map::is_empty);
    if metadata.get("annotations").is_some_and(is_empty) {
        metadata.remove("annotations");
    }
}

/// Returns a string field; `None` if it is missing, null or empty.
fn text(value: Option<&Value>, field: &'static str) -> Result<Option<String>, ObjectFault> {
    let got = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => return Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(Value::Bool(_)) => "bool",
        Some(Value::Number(_)) => "number",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
    };
    Err(ObjectFault::NotString { field, got })
}

/// Reads every object of a manifest as Helm's client does: splits documents at lines of dashes, keeping the newline at
/// the end of each document, splits lists into items, skips empty documents, and keeps integers exact.
///
/// # Errors
/// The first document that is not an object.
pub fn objects_of(manifest: &str) -> Result<Vec<Object>, ObjectError> {
    Weight::unlimited().objects_of(manifest)
}

/// Reads each document of a manifest, within the limits of [`Weight`].
fn read(manifest: &str, weight: &mut Weight) -> Result<Vec<Object>, ObjectError> {
    let unreadable = |template: Arc<str>, e: yaml::Error, weight: &Weight| ObjectError {
        template,
        fault: weight.fault(e.to_string()),
    };
    let mut objects = Vec::new();
    for document in yaml::split(manifest.as_bytes()).map_err(|e| unreadable("".into(), e, weight))? {
        let template = template_of(&document);
        let value = yaml::parse_preserving_ints_within(&document, weight.most());
        let value = value.map_err(|e| unreadable(template.clone(), e, weight))?;
        let known = objects.len();
        let value = go_encoding::json::to_serde(&value);
        let added = weight.add(&value).and_then(|()| add_objects(value, &mut objects));
        added.map_err(|fault| ObjectError { template: template.clone(), fault })?;
        objects[known..].iter_mut().for_each(|object| object.template = template.clone());
    }
    Ok(objects)
}

/// The memory that objects may use: a small text can contain very many values.
#[derive(Clone, Copy, Debug)]
pub struct Weight {
    most: u64,
    left: u64,
}

impl Weight {
    /// Creates a limit for objects of about this many bytes in total.
    pub fn of(bytes: u64) -> Weight {
        Weight { most: bytes, left: bytes }
    }

    fn unlimited() -> Weight {
        Weight::of(u64::MAX)
    }

    /// Reads objects as [`objects_of`](fn@objects_of) does, within the rest that earlier manifests left.
    ///
    /// # Errors
    /// As [`objects_of`](fn@objects_of); or the objects exceed the limit.
    pub fn objects_of(&mut self, manifest: &str) -> Result<Vec<Object>, ObjectError> {
        read(manifest, self)
    }

    /// Returns the limits of the next document.
    fn most(&self) -> yaml::Most {
        let usual = yaml::Most::default();
        let left = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        yaml::Most {
            values: usual.values.min(left((self.left / NODE_WEIGHT as u64).max(1))),
            repeated: usual.repeated.min(left(self.left)),
        }
    }

    /// Returns the fault of a text that the reader rejected: exceeding any of its limits counts as too much memory.
    fn fault(&self, why: String) -> ObjectFault {
        let is_bounded = self.most != u64::MAX;
        match why.contains("exceeded limit MAX_") && is_bounded {
            true => ObjectFault::TooHeavy(self.most),
            false => ObjectFault::Yaml(why),
        }
    }

    fn add(&mut self, value: &Value) -> Result<(), ObjectFault> {
        self.left = self.left.checked_sub(weight(value) as u64).ok_or(ObjectFault::TooHeavy(self.most))?;
        Ok(())
    }
}

/// Returns the objects of a stored manifest with a fixed name, each once, in install order. Records of other writers
/// may also contain generated names. `namespace` is the release's.
pub(crate) fn recorded_objects(manifest: &str, namespace: &str) -> Result<Vec<Object>, ObjectError> {
    let mut objects = objects_of(manifest)?;
    objects.retain(|object| !object.name.is_empty());
    let (mut objects, _) = deduplicate(objects, namespace);
    install_order(&mut objects);
    Ok(objects)
}

/// Reads Helm's `# Source:` line at the top of a document; the first document of a stream starts with its dashes.
fn template_of(document: &[u8]) -> Arc<str> {
    let first = document.split(|byte| *byte == b'\n').find(|line| !line.starts_with(b"---")).unwrap_or_default();
    let template = first.strip_prefix(b"# Source: ").unwrap_or_default();
    String::from_utf8_lossy(template).into()
}

fn add_objects(mut value: Value, objects: &mut Vec<Object>) -> Result<(), ObjectFault> {
    match items_of(&mut value) {
        Some(items) => items.into_iter().try_for_each(|item| add_objects(item, objects)),
        None if value.is_null() => Ok(()),
        None => {
            objects.push(Object::new(value)?);
            Ok(())
        }
    }
}

/// Splits a list into its items. Items without a kind get the list's, as in Kubernetes' decoder.
fn items_of(value: &mut Value) -> Option<Vec<Value>> {
    let kind = value.get("kind")?.as_str()?.strip_suffix("List")?.to_owned();
    let api_version = value.get("apiVersion").cloned();
    let mut items = match value.get_mut("items")?.take() {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => {
            value["items"] = other;
            return None;
        }
    };
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        if !kind.is_empty() && !item.contains_key("kind") && !item.contains_key("apiVersion") {
            item.insert("kind".into(), kind.as_str().into());
            item.extend(api_version.clone().map(|version| ("apiVersion".into(), version)));
        }
    }
    Some(items)
}

/// The digest of an object as its chart rendered it. Formats as 16 hexadecimal digits.
///
/// It tells the renders of one chart apart. Whoever chooses two objects can find a pair with one digest, so it proves
/// nothing about an object of unknown origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectDigest(u64);

impl fmt::Display for ObjectDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl ObjectDigest {
    /// Parses the output of `Display`; `None` for anything else.
    pub fn parse(text: &str) -> Option<ObjectDigest> {
        u64::from_str_radix(text, 16).ok().map(ObjectDigest).filter(|digest| digest.to_string() == text)
    }
}

/// Returns the first 64 bits of a value's SHA-256 in hexadecimal, independent of the order of keys.
pub fn digest_json(value: &Value) -> String {
    format!("{:016x}", digest(value))
}

fn digest(value: &Value) -> u64 {
    let mut hash = Sha256::new();
    feed(value, &mut hash);
    hash.finalize()[..8].iter().fold(0, |digest, byte| (digest << 8) | u64::from(*byte))
}

fn feed(value: &Value, hash: &mut Sha256) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            hash.update(b"{");
            for key in keys {
                feed_text(key, hash);
                feed(&map[key], hash);
            }
            hash.update(b"}");
        }
        Value::Array(items) => {
            hash.update(b"[");
            items.iter().for_each(|item| feed(item, hash));
            hash.update(b"]");
        }
        Value::String(text) => feed_text(text, hash),
        other => hash.update(other.to_string()),
    }
    hash.update(b",");
}

fn feed_text(text: &str, hash: &mut Sha256) {
    hash.update(b"\"");
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config_map(text: &str) -> String {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n{text}")
    }

    fn data(manifest: &str) -> Value {
        objects_of(manifest).unwrap().remove(0).body["data"]["x"].clone()
    }

    #[test]
    fn objects_are_read_until_they_weigh_too_much() {
        let object =
            |data: &str| format!("---\napiVersion: v1\nkind: X\nmetadata: {name}\ndata: {data}\n", name = "{name: a}");
        let read =
            |manifest: &str, most| Weight::of(most).objects_of(manifest).map(|all| all.len()).map_err(|e| e.fault);
        assert_eq!(read(&object(&"x".repeat(5000)), 6000), Ok(1));
        assert_eq!(read(&object(&"x".repeat(5000)), 5000), Err(ObjectFault::TooHeavy(5000)));
        assert_eq!(read(&object("1").repeat(3), 2300), Ok(3));
        assert!(read(&object("1").repeat(4), 2300).is_err());
        let many = object(&format!("[{}1]", "1,".repeat(100_000)));
        assert_eq!(read(&many, 1 << 20), Err(ObjectFault::TooHeavy(1 << 20)), "not a count of values");
    }

    #[test]
    fn block_scalars_at_the_end_of_a_document_keep_their_line_ends() {
        for (block, expected) in [
            ("|\n    a", "a\n"),
            ("|\n    a\n", "a\n"),
            ("|\n    a\n\n", "a\n"),
            ("|-\n    a\n", "a"),
            ("|+\n    a", "a\n"),
            ("|+\n    a\n", "a\n\n"),
            ("|+\n    a\n\n", "a\n\n\n"),
            (">\n    a\n    b", "a b\n"),
        ] {
            let document = config_map(&format!("data:\n  x: {block}"));
            for manifest in [
                format!("---\n# Source: c/templates/a.yaml\n{document}\n"),
                format!(
                    "---\n# Source: c/templates/a.yaml\n{document}\n---\n# Source: c/templates/b.yaml\n{document}\n"
                ),
            ] {
                assert_eq!(data(&manifest), expected, "{manifest:?}");
            }
        }
        assert_eq!(data(&config_map("data:\r\n  x: |\r\n    a\r\n    b\r\n")), "a\nb\n");
    }

    #[test]
    fn indented_dashes_do_not_split_documents() {
        assert_eq!(data(&config_map("data:\n  x: |\n    ---\n    a\n")), "---\na\n");
        let error = objects_of("a: b\n--- c\n").unwrap_err();
        assert_eq!(error.to_string(), "cannot parse manifest: invalid Yaml document separator: c");
    }

    #[test]
    fn numbers_follow_kubernetes_decoder() {
        for (text, expected) in [
            ("9007199254740993", json!(9007199254740993_i64)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("18446744073709551615", json!(18446744073709551615.0)),
            ("1000000", json!(1000000)),
            ("1e3", json!(1000)),
            ("1.0", json!(1)),
            ("1.5", json!(1.5)),
            ("0x10", json!(16)),
            ("1e300", json!(1e300)),
        ] {
            assert_eq!(data(&config_map(&format!("data:\n  x: {text}\n"))), expected, "{text}");
        }
    }

    #[test]
    fn lists_are_split_and_items_inherit_the_kind() {
        let names = |manifest: &str| {
            let objects = objects_of(manifest).unwrap();
            objects.iter().map(|o| format!("{} {} {}", o.api_version, o.kind, o.name)).collect::<Vec<_>>()
        };
        let list = "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n- {apiVersion: v1, kind: Secret, metadata: {name: b}}\n";
        assert_eq!(names(list), ["v1 ConfigMap a", "v1 Secret b"]);
        assert_eq!(names("apiVersion: v1\nkind: List\nitems: null\n"), [""; 0]);
        assert_eq!(names("apiVersion: x/v1\nkind: Menu\nitems: [1]\nmetadata: {name: m}\n"), ["x/v1 Menu m"]);
        assert_eq!(
            names("apiVersion: x/v1\nkind: PriceList\nitems: {a: 1}\nmetadata: {name: p}\n"),
            ["x/v1 PriceList p"]
        );
        let nested = "apiVersion: v1\nkind: List\nitems:\n- kind: SecretList\n  apiVersion: v1\n  items: [{metadata: {name: s}}]\n";
        assert_eq!(names(nested), ["v1 Secret s"]);
        let half = "apiVersion: v1\nkind: SecretList\nitems: [{kind: Secret}]\n";
        assert_eq!(objects_of(half).unwrap_err().fault, ObjectFault::Missing("apiVersion"));
        assert!(objects_of("apiVersion: v1\nkind: List\nitems: [{metadata: {name: s}}]\n").is_err());
    }

    #[test]
    fn errors_name_the_template_without_values() {
        let error =
            |text: &str| objects_of(&format!("---\n# Source: c/templates/a.yaml\n{text}")).unwrap_err().to_string();
        assert_eq!(error("kind: X\nsecret: s3\n"), "c/templates/a.yaml: manifest has an object without apiVersion");
        assert_eq!(error("apiVersion: v1\n"), "c/templates/a.yaml: manifest has an object without kind");
        assert!(
            error("a: [\n").starts_with("c/templates/a.yaml: cannot parse manifest: error converting YAML to JSON")
        );
    }

    #[test]
    fn objects_need_a_fixed_name() {
        let check = |metadata: Value| {
            let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            Object { template: "c/a.yaml".into(), ..Object::new(body).unwrap() }.check_name().map_err(|e| e.to_string())
        };
        assert_eq!(check(json!({"name": "a"})), Ok(()));
        assert_eq!(check(json!({"name": "a", "generateName": ""})), Ok(()));
        assert_eq!(check(json!({"name": "a", "generateName": null})), Ok(()));
        let refused = |metadata| check(metadata).unwrap_err();
        assert_eq!(
            refused(json!({"generateName": "a-"})),
            "c/a.yaml: ConfigMap has metadata.generateName but no metadata.name: give it a name, because an upgrade could not find it"
        );
        assert_eq!(
            refused(json!({"name": "a", "generateName": "a-"})),
            "c/a.yaml: metadata.name and metadata.generateName cannot both be set"
        );
        assert_eq!(refused(json!({})), "c/a.yaml: manifest has an object without metadata.name");
        assert_eq!(refused(json!({"generateName": ""})), "c/a.yaml: manifest has an object without metadata.name");
    }

    #[test]
    fn what_upstream_operators_add_to_a_manifest_is_no_change() {
        let of = |metadata: &Value| {
            let body = json!({"apiVersion": "v1", "kind": "Thing", "metadata": metadata});
            Object::new(body).unwrap().digest("ns")
        };
        let (primary, kind) = (PRIMARY_ANNOTATION, PRIMARY_TYPE_ANNOTATION);
        let plain = of(&json!({"name": "a"}));
        for same in [
            json!({"name": "a", "annotations": {primary: "ns/web", kind: "Db.x.y"}}),
            json!({"name": "a", "annotations": {}}),
            json!({"name": "a", "annotations": null}),
            json!({"name": "a", "namespace": "ns", "ownerReferences": [{"uid": "u"}], "creationTimestamp": null}),
        ] {
            assert_eq!(of(&same), plain, "{same}");
        }
        let own = json!({"name": "a", "annotations": {"x": "y"}});
        let both = json!({"name": "a", "annotations": {"x": "y", primary: "ns/web", kind: "Db.x.y"}});
        assert_eq!(of(&both), of(&own));
        assert_ne!(of(&own), plain);
        assert_ne!(of(&json!({"name": "a", "namespace": "other"})), plain);
    }

    #[test]
    fn an_object_is_rendered_as_another_only_if_its_whole_content_is_the_same() {
        let object = |metadata: Value, verbs: &[&str]| {
            let body = json!({"apiVersion": "v1", "kind": "Thing", "metadata": metadata, "rules": [{"verbs": verbs}]});
            Object::new(body).unwrap()
        };
        let chart = object(json!({"name": "a"}), &["get"]);
        let owner = json!([{"uid": "u"}]);
        for (recorded, expected) in [
            (object(json!({"name": "a"}), &["get"]), true),
            (object(json!({"name": "a", "namespace": "ns", "ownerReferences": owner}), &["get"]), true),
            (object(json!({"name": "a", "annotations": {PRIMARY_ANNOTATION: "ns/web"}}), &["get"]), true),
            (object(json!({"name": "a"}), &["*"]), false),
            (object(json!({"name": "a"}), &["get", "list"]), false),
            (object(json!({"name": "a", "annotations": {"x": "y"}}), &["get"]), false),
            (object(json!({"name": "a", "namespace": "other"}), &["get"]), false),
        ] {
            assert_eq!(recorded.is_rendered_as(&chart, "ns"), expected, "{}", recorded.body);
            assert_eq!(recorded.digest("ns") == chart.digest("ns"), expected, "{}", recorded.body);
        }
    }

    #[test]
    fn a_key_is_an_objects_in_every_version() {
        let object = |metadata| json!({"apiVersion": "x.y/v1beta1", "kind": "Thing", "metadata": metadata});
        let named = Object::new(object(json!({"name": "a"}))).unwrap();
        let placed = Object::new(object(json!({"name": "a", "namespace": "other"}))).unwrap();
        for ([group, kind, namespace, name], is_named, is_placed) in [
            (["x.y", "Thing", "ns", "a"], true, false),
            (["x.y", "Thing", "other", "a"], false, true),
            (["x.y", "Thing", "", "a"], true, true),
            (["x.z", "Thing", "ns", "a"], false, false),
            (["x.y", "Other", "ns", "a"], false, false),
            (["x.y", "Thing", "ns", "b"], false, false),
        ] {
            let key = ObjectKey::new(group, kind, namespace, name);
            assert_eq!((named.has_key(&key, "ns"), placed.has_key(&key, "ns")), (is_named, is_placed), "{key:?}");
        }
    }

    #[test]
    fn a_key_is_in_another_group_only_if_nothing_else_differs() {
        let key = |group: &str, name: &str| ObjectKey::new(group, "Gear", "ns", name);
        for (other, expected) in [
            (key("x.z", "a"), true),
            (key("x.y", "a"), false),
            (key("x.z", "b"), false),
            (ObjectKey::new("x.z", "Gear", "", "a"), false),
            (ObjectKey::new("x.z", "Wheel", "ns", "a"), false),
        ] {
            assert_eq!(key("x.y", "a").is_in_other_group(&other), expected, "{other:?}");
        }
    }

    #[test]
    fn a_key_is_in_another_scope_only_if_one_of_two_has_a_namespace() {
        let key = |namespace: &str, name: &str| ObjectKey::new("x.y", "Gear", namespace, name);
        for (one, other, expected) in [
            (key("ns", "a"), key("", "a"), true),
            (key("", "a"), key("ns", "a"), true),
            (key("", "a"), key("", "a"), false),
            (key("ns", "a"), key("other", "a"), false),
            (key("ns", "a"), key("", "b"), false),
            (key("ns", "a"), ObjectKey::new("x.z", "Gear", "", "a"), false),
        ] {
            assert_eq!(one.is_in_other_scope(&other), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn recorded_objects_have_fixed_names_and_install_order() {
        let manifest = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n---\n\
            apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n";
        let manifest = format!("{manifest}---\n{}", manifest.replace("name: d}", "name: d, labels: {x: z}}"));
        let objects = recorded_objects(&manifest, "ns").unwrap();
        assert_eq!(objects.iter().map(|o| &*o.name).collect::<Vec<_>>(), ["s", "d"]);
        assert_eq!(objects[1].body["metadata"]["labels"]["x"], "z");
        assert!(recorded_objects("kind: X\n", "ns").is_err());
    }
}
