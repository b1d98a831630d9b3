//! A custom resource, reduced to what the reconciler needs. Managed fields and foreign metadata are dropped while
//! parsing.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller::runtime::key::ResourceKey;
use helm_release::kube::{Owner, intern};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::{DynamicObject, TypeMeta};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::finalizers::{Finalizers, is_ours};
use crate::status::{Fields, ListType, PausedBy, Status};
use crate::values::Spec;
use crate::watches::Field;
use crate::watches::annotations::Annotations;

/// A reduced custom resource. Thousands are cached, so texts that several share are [interned](intern).
#[derive(Clone, Debug)]
pub(crate) struct Primary {
    key: ResourceKey,
    uid: Arc<str>,
    resource_version: Box<str>,
    pub(crate) api_version: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) generation: i64,
    /// The creation time, in seconds since the epoch.
    pub(crate) created: f64,
    pub(crate) deleting: bool,
    pub(crate) finalizers: Finalizers,
    pub(crate) annotations: Annotations,
    /// Parsed into values only for rendering.
    pub(crate) spec: Spec,
    pub(crate) status: Status,
    /// How the schema treats `status.conditions`.
    pub(crate) conditions: ListType,
    /// Whether operator-sdk left the whole manifest, including Secrets, in the status.
    pub(crate) has_manifest: bool,
    /// What about the author's code pauses it. The annotation `pause` then counts as set.
    paused_by_code: Option<PausedBy>,
    /// Whether it is a canary of its kind's rollouts.
    pub(crate) is_canary: bool,
    /// Whether this shard must give it up.
    pub(crate) is_drained: bool,
    /// Whether the author's filters reject it, although it is deleted and has our finalizer.
    pub(crate) is_rejected: bool,
    /// Whether the resource is cluster-scoped; `key.namespace` is then the release's.
    is_cluster_scoped: bool,
    /// The resource as received, for [`crate::reconcile::accept`]. Kept only for the author's code.
    pub(crate) raw: Option<Box<Raw>>,
}

/// A custom resource as the server sent it. [`crate::reconcile::accept`] turns it into a [`Primary`].
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Full")]
pub(crate) struct Received {
    /// Only name, namespace, uid and resource version.
    metadata: ObjectMeta,
    pub(crate) primary: Primary,
    pub(crate) status: Option<Box<RawValue>>,
}

/// The metadata that is needed only to accept a resource, and by the author's code.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Raw {
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// The version in which the `spec` was last written, with the time.
    pub(crate) spec_written: Option<(String, String)>,
}

impl Raw {
    /// Returns the version in which the `spec` was last written.
    pub(crate) fn spec_version(&self) -> Option<&str> {
        self.spec_written.as_ref().map(|(version, _)| version.as_str())
    }
}

impl Primary {
    pub(crate) fn key(&self) -> ResourceKey {
        self.key.clone()
    }

    pub(crate) fn name(&self) -> &str {
        &self.key.name
    }

    /// Returns the deployed revision according to the status; 0 if it names none.
    pub(crate) fn reported(&self) -> u32 {
        self.status.deployed_release.as_ref().map_or(0, |release| release.revision)
    }

    /// Returns whether the status confirms that override values may be strings in its release: operator-sdk wrote it, or this
    /// operator has found it before.
    pub(crate) fn may_have_string_overrides(&self) -> bool {
        self.has_manifest || self.reports_string_overrides()
    }

    /// Returns whether this operator has written into the status that override values are strings in its release.
    pub(crate) fn reports_string_overrides(&self) -> bool {
        self.status.deployed_release.as_ref().is_some_and(|release| release.override_values_are_strings)
    }

    /// Returns the namespace of its release: its own, or the configured one for a cluster-scoped resource.
    pub(crate) fn namespace(&self) -> &str {
        &self.key.namespace
    }

    /// Returns its own namespace; empty for a cluster-scoped resource.
    pub(crate) fn own_namespace(&self) -> &str {
        if self.is_cluster_scoped { "" } else { self.namespace() }
    }

    /// Sets the namespace of a cluster-scoped resource's release.
    pub(crate) fn set_release_namespace(&mut self, namespace: &str) {
        self.is_cluster_scoped = true;
        self.key.namespace = intern(namespace);
    }

    /// Sets its own namespace, which a file need not contain.
    pub(crate) fn set_namespace(&mut self, namespace: &str) {
        self.key.namespace = intern(namespace);
    }

    pub(crate) fn uid(&self) -> &str {
        &self.uid
    }

    pub(crate) fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// Returns whether it has our finalizer or an upstream's.
    pub(crate) fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|f| is_ours(f))
    }

    /// Returns whether a process has reconciled it before.
    pub(crate) fn was_served(&self) -> bool {
        self.has_finalizer() || !self.status.conditions.is_empty()
    }

    /// Pauses it as the annotation does, because of the author's code.
    pub(crate) fn pause(&mut self, cause: PausedBy) {
        self.annotations.set_pause();
        self.paused_by_code = Some(cause);
    }

    /// Returns what pauses it. The author's code precedes the annotation, which its reader knows of.
    pub(crate) fn paused_by(&self) -> Option<PausedBy> {
        self.paused_by_code.or_else(|| self.annotations.pause().then_some(PausedBy::Annotation))
    }

    /// Returns the finalizers other than ours and the upstreams', as far as they are kept.
    pub(crate) fn other_finalizers(&self) -> Vec<&str> {
        self.finalizers.iter().filter(|f| !is_ours(f)).map(|f| &**f).collect()
    }

    /// Returns the resource with another `spec`.
    pub(crate) fn with_spec(&self, spec: Spec) -> Primary {
        Primary { spec, ..self.clone() }
    }

    /// Returns whether something changed that a reconcile may act on. Our own status writes do not count.
    pub(crate) fn differs_from(&self, older: &Primary) -> bool {
        self.is_edited_since(older)
            || self.has_finalizer() != older.has_finalizer()
            // The status lists the finalizers.
            || (self.deleting && self.finalizers != older.finalizers)
    }

    /// Returns whether something changed that a reconcile may act on and does not write.
    pub(crate) fn is_edited_since(&self, older: &Primary) -> bool {
        let lost_ours = older.has_finalizer() && !self.has_finalizer() && !self.deleting;
        lost_ours
            || (self.deleting && self.finalizers.more != older.finalizers.more)
            || (self.deleting && self.other_finalizers() != older.other_finalizers())
            || self.uid() != older.uid()
            || self.generation != older.generation
            || self.deleting != older.deleting
            || self.annotations != older.annotations
            || self.paused_by_code != older.paused_by_code
            || self.spec.digest() != older.spec.digest()
            || self.raw != older.raw
            || self.is_canary != older.is_canary
            || self.is_drained != older.is_drained
            || self.is_rejected != older.is_rejected
    }

    /// Returns the resource for the author's code, without `spec` and status. Labels and annotations are those that
    /// [`crate::reconcile::accept`] keeps.
    pub(crate) fn object(&self) -> DynamicObject {
        let raw = self.raw.as_deref();
        let created = k8s_openapi::jiff::Timestamp::from_second(self.created as i64).unwrap_or_default();
        let metadata = ObjectMeta {
            namespace: Some(self.own_namespace().to_owned()).filter(|namespace| !namespace.is_empty()),
            generation: Some(self.generation),
            labels: raw.map(|raw| raw.labels.clone()),
            annotations: raw.map(|raw| raw.annotations.clone()),
            finalizers: Some(self.finalizers.iter().map(|finalizer| finalizer.to_string()).collect()),
            creation_timestamp: Some(Time(created)),
            name: Some(self.name().to_owned()),
            uid: Some(self.uid().to_owned()),
            resource_version: Some(self.resource_version().to_owned()),
            ..ObjectMeta::default()
        };
        let types = TypeMeta { api_version: self.api_version.to_string(), kind: self.kind.to_string() };
        DynamicObject { types: Some(types), metadata, data: serde_json::Value::Null }
    }

    /// Returns the reference to the resource for events.
    pub(crate) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.api_version.to_string()),
            kind: Some(self.kind.to_string()),
            name: Some(self.name().to_owned()),
            namespace: Some(self.own_namespace().to_owned()).filter(|n| !n.is_empty()),
            uid: Some(self.uid().to_owned()),
            ..ObjectReference::default()
        }
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner {
            api_version: self.api_version.to_string(),
            kind: self.kind.to_string(),
            name: self.name().to_owned(),
            namespace: self.own_namespace().to_owned(),
            uid: self.uid().to_owned(),
        }
    }
}

/// Reads the fields that watches.yaml defines from a whole status.
pub(crate) fn status_fields(status: Option<&RawValue>, fields: &[Field]) -> Fields {
    let Some(status) = status.filter(|_| !fields.is_empty()) else { return Fields::default() };
    let all: BTreeMap<String, Box<RawValue>> = read(status.get());
    let kept = fields.iter().filter_map(|field| {
        let value = serde_json::from_str(all.get(&*field.name)?.get()).ok()?;
        Some((field.name.clone(), value))
    });
    kept.collect()
}

/// A custom resource with the parts that its author may nest to any depth as text or skipped, so that one resource
/// cannot block a whole list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Full {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    metadata: Meta,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: i64,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
    finalizers: Option<Finalizers>,
    annotations: Option<BTreeMap<String, String>>,
    labels: Option<BTreeMap<String, String>>,
    managed_fields: Vec<Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Entry {
    api_version: String,
    time: Option<String>,
    subresource: String,
    #[serde(rename = "fieldsV1")]
    fields: ManagedFields,
}

#[derive(Default, Deserialize)]
struct ManagedFields {
    #[serde(default, rename = "f:spec")]
    spec: Option<IgnoredAny>,
    #[serde(default, rename = "f:status")]
    status: StatusFields,
}

#[derive(Default, Deserialize)]
struct StatusFields {
    #[serde(rename = "f:conditions")]
    conditions: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
struct UpstreamStatus {
    #[serde(default, rename = "deployedRelease")]
    release: UpstreamRelease,
}

#[derive(Default, Deserialize)]
struct UpstreamRelease {
    manifest: Option<Box<RawValue>>,
}

impl From<Full> for Received {
    fn from(full: Full) -> Received {
        let meta = full.metadata;
        let text = |of: &Option<String>| intern(of.as_deref().unwrap_or_default());
        let one_field = |entry: &Entry| entry.fields.status.conditions.as_ref().is_some_and(|raw| raw.get() == "{}");
        let spec = full.spec.as_deref().map_or("null", RawValue::get);
        let status_text = full.status.as_deref().map_or("null", RawValue::get);
        let spec_written = spec_written(&meta.managed_fields);
        let annotations = meta.annotations.unwrap_or_default();
        let ours = Annotations::new(&annotations);
        let raw = Raw { annotations, labels: meta.labels.unwrap_or_default(), spec_written };
        let created = meta.creation_timestamp.and_then(|t| t.parse::<jiff::Timestamp>().ok());
        let is_one_field = meta.managed_fields.iter().any(one_field);
        let conditions = if is_one_field { ListType::Atomic } else { ListType::Map };
        let mut status: Status = read(status_text);
        status.shrink(conditions);
        let primary = Primary {
            key: ResourceKey { namespace: text(&meta.namespace), name: text(&meta.name) },
            uid: text(&meta.uid),
            resource_version: meta.resource_version.as_deref().unwrap_or_default().into(),
            conditions,
            has_manifest: read::<UpstreamStatus>(status_text).release.manifest.is_some(),
            api_version: intern(&full.api_version),
            kind: intern(&full.kind),
            generation: meta.generation,
            created: created.map_or(0.0, |t| t.as_second() as f64),
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.unwrap_or_default(),
            annotations: ours,
            paused_by_code: None,
            is_canary: false,
            is_drained: false,
            is_rejected: false,
            is_cluster_scoped: false,
            spec: Spec::of_user(spec),
            status,
            raw: Some(Box::new(raw)),
        };
        let metadata = ObjectMeta {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            ..ObjectMeta::default()
        };
        Received { metadata, primary, status: full.status }
    }
}

/// Returns the version and time of the last write to the `spec`, except through subresources such as `scale`. Times are
/// RFC 3339 in UTC, so they sort as text.
fn spec_written(entries: &[Entry]) -> Option<(String, String)> {
    let specs = entries.iter().filter(|entry| entry.fields.spec.is_some() && entry.subresource.is_empty());
    let last = specs.max_by_key(|entry| entry.time.as_deref())?;
    let (_, version) = last.api_version.rsplit_once('/').unwrap_or(("", &last.api_version));
    Some((version.to_owned(), last.time.clone().unwrap_or_default()))
}

/// Parses a status. A status of an unknown shape is not ours, so it counts as empty and will be overwritten.
fn read<T: DeserializeOwned + Default>(status: &str) -> T {
    serde_json::from_str(status).unwrap_or_default()
}

impl Received {
    /// Returns a resource as far as the cache knows it, for views.
    pub(crate) fn known(primary: &Primary) -> Received {
        Received { metadata: ObjectMeta::default(), primary: primary.clone(), status: None }
    }
}

outside::dynamic_resource!(Received);

#[cfg(test)]
mod tests {
    use kube::core::WatchEvent;

    use super::*;

    fn primary(rest: &str) -> Primary {
        read_primary(&format!(r#"{{"metadata":{{"name":"web"}}{rest}}}"#))
    }

    fn read_primary(json: &str) -> Primary {
        serde_json::from_str::<Received>(json).unwrap().primary
    }

    #[test]
    fn a_spec_is_the_servers_json_text_in_lists_and_watches() {
        let text = r#"{"n":9007199254740993,"f":1.0,"u":18446744073709551616}"#;
        assert_eq!(primary(&format!(r#","spec":{text}"#)).spec.json(), Ok(text));
        assert_eq!((primary("").spec.json(), primary(r#","spec":null"#).spec.json()), (Ok("null"), Ok("null")));
        let event = format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"web"}},"spec":{text}}}}}"#);
        let WatchEvent::Added(added) = serde_json::from_str::<WatchEvent<Received>>(&event).unwrap() else { panic!() };
        assert_eq!(added.primary.spec.json(), Ok(text));
    }

    #[test]
    fn a_spec_differs_by_its_contents_and_not_by_how_it_is_written() {
        assert!(primary(r#","spec":{"a":1}"#).differs_from(&primary(r#","spec":{"a":2}"#)));
        assert!(!primary(r#","spec":{"a":1}"#).differs_from(&primary(r#","spec":{"a": 1}"#)));
    }

    #[test]
    fn a_deeply_nested_resource_is_still_read() {
        let deep = format!("{}{}", "{\"a\":".repeat(600), "1").to_owned() + &"}".repeat(600);
        let managed = format!(r#"[{{"manager":"x","fieldsV1":{{"f:spec":{deep}}}}}]"#);
        let text = format!(
            r#"{{"metadata":{{"name":"web","managedFields":{managed}}},"spec":{deep},"status":{{"other":{deep}}}}}"#
        );
        let read = read_primary(&text);
        assert_eq!((read.spec.json(), read.status), (Ok(&*deep), Status::default()));
    }

    #[test]
    fn managed_fields_and_status_are_summarised() {
        let with = |conditions: &str| {
            let fields = format!(r#"{{"f:status":{{"f:conditions":{conditions}}}}}"#);
            let text = format!(r#"{{"metadata":{{"managedFields":[{{"fieldsV1":{{}}}},{{"fieldsV1":{fields}}}]}}}}"#);
            read_primary(&text).conditions
        };
        assert_eq!(with("{}"), ListType::Atomic);
        assert_eq!(with(r#"{"k:{\"type\":\"Ready\"}":{}}"#), ListType::Map);
        assert_eq!(primary("").conditions, ListType::Map);
        assert!(primary(r#","status":{"deployedRelease":{"name":"a","manifest":"---"}}"#).has_manifest);
        assert!(!primary(r#","status":{"deployedRelease":{"name":"a"}}"#).has_manifest);
        assert_eq!(
            primary(r#","status":{"deployedRelease":{"name":"a"}}"#).status.deployed_release.unwrap().name,
            "a".into()
        );
        assert_eq!(primary(r#","status":"odd""#).status, Status::default());
    }

    #[test]
    fn the_last_write_of_a_spec_names_its_version() {
        let written = |entries: &str| {
            let read: Received =
                serde_json::from_str(&format!(r#"{{"metadata":{{"managedFields":[{entries}]}}}}"#)).unwrap();
            read.primary.raw.unwrap().spec_version().map(str::to_owned)
        };
        let entry = |version: &str, day: u32, field: &str, subresource: &str| {
            format!(
                r#"{{"apiVersion":"g/{version}","time":"2026-01-0{day}T00:00:00Z","subresource":"{subresource}","fieldsV1":{{"f:{field}":{{}}}}}}"#
            )
        };
        assert_eq!(written(""), None);
        assert_eq!(written(&entry("v2", 1, "metadata", "")), None);
        let all = [entry("v2", 2, "spec", ""), entry("v1", 1, "spec", ""), entry("v3", 3, "status", "status")];
        assert_eq!(written(&all.join(",")).as_deref(), Some("v2"));
        let scaled = [entry("v1", 1, "spec", ""), entry("v2", 2, "spec", "scale")];
        assert_eq!(written(&scaled.join(",")).as_deref(), Some("v1"));
    }

    #[test]
    fn only_what_a_reconcile_acts_on_is_a_difference() {
        let with = |metadata: &str| -> Primary {
            Primary { raw: None, ..read_primary(&format!(r#"{{"metadata":{{"name":"web","uid":"u"{metadata}}}}}"#)) }
        };
        let (ours, others) = (r#","finalizers":["uninstall-helm-release"]"#, r#","finalizers":["other"]"#);
        let deleting = r#","deletionTimestamp":"2026-01-01T00:00:00Z""#;
        for (old, new, differs) in [
            ("", "", false),
            (r#","resourceVersion":"1""#, r#","resourceVersion":"2","labels":{"a":"b"}"#, false),
            ("", r#","generation":2"#, true),
            ("", deleting, true),
            ("", ours, true),
            ("", others, false),
            (deleting, &format!("{deleting}{others}"), true),
            (&format!("{deleting}{others}"), &format!("{deleting}{others}"), false),
            ("", r#","annotations":{"helm.sdk.operatorframework.io/suspend":"true"}"#, true),
        ] {
            assert_eq!(with(new).differs_from(&with(old)), differs, "{old} -> {new}");
        }
        let labels = r#","labels":{"a":"b"}"#;
        let seen = read_primary(&format!(r#"{{"metadata":{{"name":"web","uid":"u"{labels}}}}}"#));
        assert!(seen.differs_from(&with(labels)), "the author's code sees labels");
        assert!(with("").differs_from(&read_primary(r#"{"metadata":{"name":"web","uid":"v"}}"#)));
    }

    #[test]
    fn a_resource_is_named_by_namespace_and_name() {
        assert_eq!(ResourceKey::new("ns", "web").to_string(), "ns/web");
    }

    #[test]
    fn the_kind_comes_from_the_api_resource() {
        let gvk = kube::core::GroupVersionKind::gvk("cache.my.domain", "v1", "Memcached");
        let api = kube::core::ApiResource::from_gvk(&gvk);
        let names = [
            <Received as kube::Resource>::group(&api),
            <Received as kube::Resource>::version(&api),
            <Received as kube::Resource>::kind(&api),
            <Received as kube::Resource>::api_version(&api),
            <Received as kube::Resource>::plural(&api),
        ];
        assert_eq!(names, ["cache.my.domain", "v1", "Memcached", "cache.my.domain/v1", "memcacheds"]);
        let web: Received = serde_json::from_str(r#"{"metadata":{"name":"web","resourceVersion":"7"}}"#).unwrap();
        let metadata = kube::Resource::meta(&web);
        assert_eq!((metadata.name.as_deref(), metadata.resource_version.as_deref()), (Some("web"), Some("7")));
    }
}
