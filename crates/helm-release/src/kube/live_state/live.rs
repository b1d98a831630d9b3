//! Live objects reduced to what the operator keeps: identity, owner, ownership mark, readiness.
//!
//! Parsed from apply responses and watches alike; the rest of spec, status and managed fields is dropped while parsing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use helm::sequence::{self, Verdict};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use outside::intern;
use serde::de::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::kube::live_state::bounds;
use crate::kube::live_state::readiness::{
    READINESS_FIELDS, Readiness, Unready, has_finished, readiness_of, unready_as, unready_of,
};
use crate::kube::objects::decorate::{
    CHART_LABEL, FIELD_MANAGER, HOOK_RUN_ANNOTATION, MANAGED_BY_LABEL, PRIMARY_ANNOTATION, PRIMARY_TYPE_ANNOTATION,
    RELEASE_NAME, RELEASE_NAMESPACE, RESOURCE_POLICY, is_keep,
};
use crate::kube::objects::expiry;

/// The digest of the managed fields that are ours. It changes when another manager takes one over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub u64);

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Mark {
    /// Parses the output of `Display`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Mark> {
        u64::from_str_radix(text, 16).ok().map(Mark)
    }
}

/// A live object, reduced.
#[derive(Clone, Debug)]
pub struct Live {
    /// Name, namespace, uid, resource version and the first finalizers only.
    pub metadata: ObjectMeta,
    /// Our mark; `None` if we never wrote the object, or the server keeps no managed fields.
    pub mark: Option<Mark>,
    /// Whether this operator has written any of its fields since it was created. A backup restores the managed fields
    /// of the object that it replaces, with the times of that one.
    pub is_written: bool,
    /// Whether someone else set its number of replicas through the `scale` subresource.
    pub scaled: bool,
    /// The fields that readiness depends on; `None` if only metadata was read.
    reported: Option<Reported>,
    /// What the conditions in its annotations say; `None` if it has none, or only metadata was read.
    verdict: Option<Verdict>,
    /// Its JSON without managed fields, if it was read as [`Whole`](crate::kube::Whole).
    pub whole: Option<Arc<str>>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The controller among its owner references. In this and the fields below, `…` replaces a text that is too long to
    /// be a name.
    pub controller: Option<OwnerReference>,
    /// The label `app.kubernetes.io/managed-by`.
    pub managed_by: Option<String>,
    /// The label by which watches find the objects of a chart: [`CHART_LABEL`]. Interned: few objects differ in it.
    pub chart: Option<Arc<str>>,
    /// The annotation `meta.helm.sh/release-name`.
    pub release_name: Option<String>,
    /// The annotation `meta.helm.sh/release-namespace`.
    pub release_namespace: Option<String>,
    /// Whether `helm.sh/resource-policy` keeps the object when its release is uninstalled.
    pub kept: bool,
    /// Whether a hook made it, or was the last to apply it.
    pub made_by_hook: bool,
    /// `operator-sdk/primary-resource`: namespace and name of its owner.
    pub primary: Option<String>,
    /// `operator-sdk/primary-resource-type`: kind and group of its owner.
    pub primary_type: Option<String>,
}

/// The identity and state of an object that was proven to belong to this release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// Its uid.
    pub uid: String,
    /// Its resource version when it was checked.
    pub resource_version: String,
}

impl Live {
    /// Returns its readiness. The caller names the kind, because items of a list do not. Always ready if only metadata was
    /// read.
    pub fn readiness(&self, group: &str, kind: &str) -> Readiness {
        self.reported.as_ref().map_or(Readiness::Ready, |r| readiness_of(group, kind, r.generation, &r.spec, &r.status))
    }

    /// Returns why it is not ready; `None` if it is.
    pub fn unready(&self, group: &str, kind: &str) -> Option<Unready> {
        self.reported.as_ref().and_then(|r| unready_of(group, kind, r.generation, &r.spec, &r.status))
    }

    /// Judges it by the conditions in its annotations, and otherwise as [`Live::unready`] does.
    pub fn unready_as_annotated(&self, group: &str, kind: &str) -> Option<Unready> {
        let Some((verdict, reported)) = self.verdict.as_ref().zip(self.reported.as_ref()) else {
            return self.unready(group, kind);
        };
        unready_as(verdict, reported.generation, &reported.status)
    }

    /// Returns whether its annotations say when it is ready.
    pub fn has_conditions(&self) -> bool {
        self.verdict.is_some()
    }

    /// Returns whether it is deleted once it finished. Never if only metadata was read.
    pub fn expires(&self, group: &str, kind: &str) -> bool {
        self.reported.as_ref().is_some_and(|reported| expiry::expires(group, kind, &reported.spec))
    }

    /// Returns whether it is a Job that has finished, with whatever result. Never if only metadata was read.
    pub(crate) fn has_finished(&self, group: &str, kind: &str) -> bool {
        self.reported.as_ref().is_some_and(|reported| has_finished(group, kind, &reported.status))
    }

    /// Returns its current state, as the precondition of a deletion.
    pub fn proven(&self) -> Proven {
        let text = |of: &Option<String>| of.clone().unwrap_or_default();
        Proven { uid: text(&self.metadata.uid), resource_version: text(&self.metadata.resource_version) }
    }

    /// Returns the resource version as a number; 0 if it is not a number.
    pub fn resource_version(&self) -> u64 {
        self.metadata.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
    }
}

/// The fields that readiness depends on.
#[derive(Clone, Debug)]
struct Reported {
    generation: Option<i64>,
    /// The fields of [`READINESS_FIELDS`] only.
    spec: Value,
    status: Value,
}

/// Parts that may nest arbitrarily deep are kept as text first, so that one object cannot make a whole list unreadable.
#[derive(serde::Deserialize)]
struct Full {
    #[serde(default)]
    metadata: Meta,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
}

/// Returns the fields of `spec` that readiness needs; drops those nested too deep.
fn readiness_spec(text: Option<&RawValue>) -> Value {
    let fields: Option<BTreeMap<String, Box<RawValue>>> = text.and_then(|text| serde_json::from_str(text.get()).ok());
    let wanted = fields.into_iter().flatten().filter(|(field, _)| READINESS_FIELDS.contains(&field.as_str()));
    Value::Object(wanted.filter_map(|(field, text)| Some((field, serde_json::from_str(text.get()).ok()?))).collect())
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
    finalizers: Option<Vec<String>>,
    owner_references: Vec<OwnerReference>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    managed_fields: Vec<Entry>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Entry {
    manager: String,
    operation: String,
    subresource: String,
    time: Option<String>,
    #[serde(deserialize_with = "fields")]
    fields_v1: Option<Fields>,
}

impl Entry {
    fn is_ours(&self) -> bool {
        self.manager == FIELD_MANAGER && self.subresource.is_empty()
    }
}

fn fields<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Fields>, D::Error> {
    let text = Option::<Box<RawValue>>::deserialize(from)?;
    Ok(text.map(|text| Fields::of(text.get())))
}

impl<'de> Deserialize<'de> for Live {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Live, D::Error> {
        let Full { metadata, spec, status } = Full::deserialize(from)?;
        let spec = readiness_spec(spec.as_deref());
        // A status nested too deep counts as empty.
        let status = status.and_then(|text| serde_json::from_str(text.get()).ok()).unwrap_or_default();
        let reported = Reported { generation: metadata.generation, spec, status };
        Ok(Live::new(metadata, Some(reported)))
    }
}

impl Live {
    fn new(mut meta: Meta, reported: Option<Reported>) -> Live {
        let mark = mark_of(&meta.managed_fields);
        let is_written = mark.is_some() && is_written_since(meta.creation_timestamp.as_deref(), &meta.managed_fields);
        let scaled = meta.managed_fields.iter().any(|e| e.subresource == "scale" && e.manager != FIELD_MANAGER);
        let mut annotations = meta.annotations.take().unwrap_or_default();
        let mut labels = meta.labels.take().unwrap_or_default();
        let annotation = |key: &str| annotations.get(key).map(String::as_str);
        let (success, failure) = (annotation(sequence::SUCCESS), annotation(sequence::FAILURE));
        let verdict = reported.as_ref().and_then(|reported| sequence::judge(success, failure, &reported.status));
        let [release_name, release_namespace, primary, primary_type] =
            [RELEASE_NAME, RELEASE_NAMESPACE, PRIMARY_ANNOTATION, PRIMARY_TYPE_ANNOTATION]
                .map(|key| annotations.remove(key).map(bounds::name));
        let controller = meta.owner_references.into_iter().find(|o| o.controller == Some(true));
        Live {
            verdict,
            mark,
            is_written,
            scaled,
            reported,
            whole: None,
            deleting: meta.deletion_timestamp.is_some(),
            controller: controller.map(bounds::controller),
            managed_by: labels.remove(MANAGED_BY_LABEL).map(bounds::name),
            chart: labels.remove(CHART_LABEL).map(|chart| intern(&bounds::name(chart))),
            release_name,
            release_namespace,
            kept: annotations.get(RESOURCE_POLICY).is_some_and(|policy| is_keep(policy)),
            made_by_hook: annotations.contains_key(HOOK_RUN_ANNOTATION),
            primary,
            primary_type,
            metadata: ObjectMeta {
                name: meta.name,
                namespace: meta.namespace,
                uid: meta.uid,
                resource_version: meta.resource_version,
                finalizers: meta.finalizers.map(bounds::finalizers),
                ..ObjectMeta::default()
            },
        }
    }
}

/// Digests our entries: those of applies, of client-side writes (one per version written), or of both.
fn mark_of(entries: &[Entry]) -> Option<Mark> {
    let digests = entries.iter().filter(|e| e.is_ours()).filter_map(|e| match (&*e.operation, &e.fields_v1) {
        ("Apply", Some(Fields(digest))) => Some(*digest),
        ("Update", Some(Fields(digest))) => Some(mix(digest ^ hash(b"Update"))),
        _ => None,
    });
    digests.reduce(u64::wrapping_add).map(Mark)
}

/// How many seconds the time of a write may precede the creation of which it is part.
const SLACK: i64 = 60;

/// Returns whether any of our entries is as new as the object, which was created at this time. Without times, it counts
/// as new.
fn is_written_since(creation: Option<&str>, entries: &[Entry]) -> bool {
    let seconds = |time: Option<&str>| Some(time?.parse::<jiff::Timestamp>().ok()?.as_second());
    let created = seconds(creation);
    let is_new = |entry: &Entry| {
        let written = seconds(entry.time.as_deref());
        written.zip(created).is_none_or(|(written, created)| written + SLACK >= created)
    };
    entries.iter().filter(|entry| entry.is_ours()).any(is_new)
}

outside::dynamic_resource!(Live);

/// A live object of which only the metadata is requested and read. It always counts as ready.
#[derive(Clone, Debug)]
pub struct LiveMetadata(Live);

impl From<LiveMetadata> for Live {
    fn from(of: LiveMetadata) -> Live {
        of.0
    }
}

impl<'de> Deserialize<'de> for LiveMetadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LiveMetadata, D::Error> {
        Ok(LiveMetadata(Live::new(Full::deserialize(from)?.metadata, None)))
    }
}

outside::dynamic_resource!([] LiveMetadata, true, 0.metadata);

/// The digest of a `fieldsV1`, computed while parsing, independent of the order of keys.
struct Fields(u64);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Fields, D::Error> {
        let fields = BTreeMap::<String, Fields>::deserialize(from)?;
        let digest = |(key, Fields(inner)): (&String, &Fields)| mix(hash(key.as_bytes()) ^ inner.rotate_left(23));
        Ok(Fields(mix(fields.iter().map(digest).fold(1, u64::wrapping_add))))
    }
}

impl Fields {
    /// Digests a `fieldsV1`. A set that is too deep to parse is digested as text; servers sort its keys.
    fn of(text: &str) -> Fields {
        serde_json::from_str(text).unwrap_or_else(|_| Fields(hash(text.as_bytes())))
    }
}

/// Hashes with FNV-1a. Stored marks must be equal in all builds, which the standard library's hashers do not guarantee.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
