//! The Secret that holds a record: its name, labels and content, and what fits into it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{
    Content, Error, HEADROOM, MAX_RECORD, Marks, OWNER_LABEL, Precondition, SEAL_ANNOTATION, Sealed, WRITER_ANNOTATION,
};
use crate::kube::Response;
use crate::release::{Packed, Release};

/// Labels that Helm sets, and helm-operator-plugins on records in chunks.
const SYSTEM_LABELS: [&str; 8] = ["name", "owner", "status", "version", "createdAt", "modifiedAt", "key", "type"];

#[derive(Deserialize)]
pub(super) struct Secret {
    #[serde(deserialize_with = "without_managed_fields")]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) data: BTreeMap<String, String>,
}

/// What records need of a Secret's metadata.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordObjectMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    creation_timestamp: Option<Time>,
}

impl Secret {
    /// Returns whether it is the record in the body of this request. The seal covers the status and the marks.
    pub(super) fn is_as_sent(&self, body: &Value) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        let is_same = |key: &str| {
            let stored = annotations.and_then(|all| all.get(key)).map(String::as_str);
            stored == body["metadata"]["annotations"][key].as_str()
        };
        let record = self.data.get("release").map(String::as_str);
        record == body["data"]["release"].as_str() && [SEAL_ANNOTATION, WRITER_ANNOTATION].into_iter().all(is_same)
    }
}

/// Returns the release with the identity in the record's own name. The body may claim any other identity, and a rewrite
/// would then replace that release's record.
pub(super) fn placed(release: Release, (namespace, name): (&str, &str), version: u32) -> Release {
    Release { namespace: namespace.to_owned(), name: name.to_owned(), version, ..release }
}

/// Seals the content that a Secret will hold.
pub(super) fn seal_content(packed: Packed) -> Sealed<Packed> {
    let content = Content::of(packed.to_record().as_bytes());
    Sealed::new(packed, content)
}

/// Returns a patch with a record's content, without marks.
pub(super) fn rewritten(release: &Release, name: &str, packed: &Packed) -> Value {
    let mut metadata = json!({"labels": labels(release, name, "modifiedAt"), "ownerReferences": null});
    Precondition::of(release).add_to(&mut metadata);
    json!({"metadata": metadata, "data": {"release": STANDARD.encode(packed.to_record())}})
}

/// Returns the metadata of the Secret in an answer; empty if the answer has none.
pub(super) fn metadata_of(answer: &Response) -> ObjectMeta {
    #[derive(Deserialize)]
    struct Head {
        #[serde(deserialize_with = "without_managed_fields")]
        metadata: ObjectMeta,
    }
    answer.parse::<Head>().map(|head| head.metadata).unwrap_or_default()
}

/// Reads what records need of a Secret's metadata. Skips the managed fields, which are as large as the rest: whoever may
/// write the Secret may nest them too deeply to be read, or give them a time that Rust's type does not have.
pub(super) fn without_managed_fields<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let metadata = RecordObjectMeta::deserialize(from)?;
    Ok(ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        labels: metadata.labels,
        annotations: metadata.annotations,
        owner_references: metadata.owner_references,
        creation_timestamp: metadata.creation_timestamp,
        ..ObjectMeta::default()
    })
}

pub(super) fn version_of(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

pub(super) fn path(namespace: &str, key: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{key}")
}

pub(super) fn labels(release: &Release, name: &str, time: &str) -> Value {
    let mut labels = json!(release.labels);
    labels["name"] = name.into();
    labels["owner"] = "helm".into();
    labels["status"] = release.info.status.as_str().into();
    labels["version"] = release.version.to_string().into();
    labels[time] = outside::now().as_second().to_string().into();
    labels
}

/// Adds the owner label. Without an owner, the patch must not contain `labels` at all: `labels: null` would remove them
/// all.
pub(super) fn set_owner(metadata: &mut Value, marks: &Marks) {
    if !marks.owner.is_empty() {
        metadata["labels"][OWNER_LABEL] = (*marks.owner).into();
    }
}

/// Returns the user's labels on a record.
pub(super) fn secret_labels(metadata: ObjectMeta) -> BTreeMap<String, String> {
    let labels = metadata.labels.unwrap_or_default();
    labels.into_iter().filter(|(key, _)| !SYSTEM_LABELS.contains(&key.as_str())).collect()
}

/// Checks that a revision can be recorded, including the outcome of its hooks and its own, and that its record can be read
/// again.
pub(crate) fn check_fits(release: &Release) -> Result<(), Error> {
    let bound = Packed::bound(release).map_err(|source| Error::Unreadable { name: release.name.clone(), source })?;
    if bound + HEADROOM <= MAX_RECORD {
        return Ok(());
    }
    let size = fit(release)?.to_record().len();
    if size + HEADROOM <= MAX_RECORD { Ok(()) } else { Err(Error::TooLarge { name: release.name.clone(), size }) }
}

/// Packs a release to fit into a Secret: without the chart's other files if necessary, then without notes.
pub(super) fn fit(release: &Release) -> Result<Packed, Error> {
    let codec = |source| Error::Codec { key: release.key(), source };
    let packed = Packed::pack(release).map_err(codec)?;
    if packed.to_record().len() <= MAX_RECORD {
        return Ok(packed);
    }
    let mut smaller = release.clone();
    smaller.chart = Arc::new(release.chart.without_files().map_err(codec)?);
    let packed = Packed::pack(&smaller).map_err(codec)?;
    if packed.to_record().len() <= MAX_RECORD {
        return Ok(packed);
    }
    smaller.info.notes.clear();
    let packed = Packed::pack(&smaller).map_err(codec)?;
    match packed.to_record().len() {
        size if size <= MAX_RECORD => Ok(packed),
        size => Err(Error::TooLarge { name: release.name.clone(), size }),
    }
}
