//! Reads the metadata of a record's Secret, without its content.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::seal::Sealing;
use super::secret::without_managed_fields;
use super::{Content, Keyring, MARKS_ANNOTATION, Marks, OWNER_LABEL, SEAL_ANNOTATION, WRITER_ANNOTATION, version_of};
use crate::release::{self, Status};

/// Limit of the revisions that others recorded. Anyone who can write Secrets can choose the number.
const HIGHEST: u32 = 1 << 30;

/// Limit of the revisions that this operator recorded. They may follow the highest one of others, and must still be read.
const HIGHEST_OWN: u32 = 1 << 31;

/// Maximum number of a record's owners that are kept. Anyone who can write Secrets can add owner references.
const MAX_OWNERS: usize = 8;

/// Maximum length of an owner's uid and of a process's name, in bytes. The API server accepts any uid that is not
/// empty. A process's name is its pod's, of up to 253 bytes, and a number.
const MAX_NAME: usize = 512;

/// Whether this operator wrote a record, as far as its metadata shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It did. The record must have this content.
    Sealed(Content),
    /// It did not: Helm or an upstream operator did.
    Foreign,
    /// The record has marks without a valid seal: it was changed, copied or forged, or the key that sealed it is lost.
    Broken,
}

/// A record's metadata, without its content.
#[derive(Clone, Debug)]
pub struct RecordMeta {
    /// The record's name: the release's, or the one that its [`Home`](super::Home) derives from it.
    pub name: String,
    /// The Secret's namespace.
    pub namespace: String,
    /// The revision.
    pub version: u32,
    /// The revision's status.
    pub status: Status,
    /// The Secret's resource version.
    pub resource_version: u64,
    /// Whether this operator wrote it.
    pub proof: Proof,
    /// Whether its seal names a key that this operator does not have.
    pub has_other_key: bool,
    /// Our annotation; `None` for a record that this operator did not write.
    pub marks: Option<Marks>,
    /// The uids of the custom resources that own the release: from our marks, else from our label or from an upstream
    /// operator's owner references. At most eight, each shortened to 512 bytes.
    pub owners: Vec<String>,
    /// When it was last written: the latest of the server's creation time and the writer's labels.
    pub written: Option<Timestamp>,
    /// The process of this operator that wrote it last, if it has a name of at most 512 bytes.
    pub writer: Option<String>,
}

impl RecordMeta {
    /// Reads a Secret's metadata and verifies it with these keys; `None` if it is not a release record.
    pub fn read(metadata: &ObjectMeta, keys: &Keyring) -> Option<RecordMeta> {
        let labels = metadata.labels.as_ref()?;
        let name = labels.get("name")?;
        let version: u32 = labels.get("version")?.parse().ok().filter(|version| *version < HIGHEST_OWN)?;
        if metadata.name.as_deref() != Some(release::key(name, version).as_str()) {
            return None;
        }
        let annotation = |key| metadata.annotations.as_ref().and_then(|all| all.get(key));
        let proof = proof(metadata, keys);
        let is_sealed = matches!(proof, Proof::Sealed(_));
        if !is_sealed && version >= HIGHEST {
            return None;
        }
        let text = annotation(MARKS_ANNOTATION).filter(|_| is_sealed);
        let marks = text.and_then(|text| Marks::parse(text));
        Some(RecordMeta {
            name: name.clone(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            version,
            status: labels.get("status").map_or(Status::Unknown, |s| Status::parse(s)),
            resource_version: version_of(metadata),
            proof,
            has_other_key: annotation(SEAL_ANNOTATION).is_some_and(|seal| keys.is_anothers(seal)),
            owners: owners(metadata, marks.as_ref()),
            marks,
            written: written(metadata, outside::now()),
            writer: annotation(WRITER_ANNOTATION).filter(|writer| writer.len() <= MAX_NAME).cloned(),
        })
    }

    /// Returns whether this operator wrote it for the resource with this uid.
    pub fn is_written_for(&self, owner: &str) -> bool {
        self.marks.as_ref().is_some_and(|marks| *marks.owner == *owner)
    }

    /// Returns whether the resource with this uid is one of its owners.
    pub(super) fn names_owner(&self, owner: &str) -> bool {
        self.owners.iter().any(|uid| uid == owner)
    }
}

/// Returns the revision in a label of a record that others wrote; `None` if it is beyond any real one.
pub(super) fn revision_of_others(label: &str) -> Option<u32> {
    label.parse().ok().filter(|version| *version < HIGHEST)
}

/// Returns the owners that a record names. A sealed record names its owner in the marks, which take precedence over
/// labels.
fn owners(metadata: &ObjectMeta, marks: Option<&Marks>) -> Vec<String> {
    let sealed = marks.map(|marks| marks.owner.to_string()).filter(|owner| !owner.is_empty());
    if let Some(owner) = sealed {
        return vec![owner];
    }
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(OWNER_LABEL));
    let all = label.into_iter().chain(metadata.owner_references.iter().flatten().map(|o| &o.uid));
    // A uid too long to be real still names another owner.
    all.take(MAX_OWNERS).map(|uid| uid[..uid.floor_char_boundary(MAX_NAME)].to_owned()).collect()
}

/// Returns whether one of these keys sealed a record.
fn proof(metadata: &ObjectMeta, keys: &Keyring) -> Proof {
    let annotation = |key| metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let Some(marks) = annotation(MARKS_ANNOTATION) else { return Proof::Foreign };
    let status = metadata.labels.as_ref().and_then(|labels| labels.get("status")).map_or("", String::as_str);
    let (namespace, key) =
        (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default());
    let content =
        annotation(SEAL_ANNOTATION).and_then(|seal| keys.open(&Sealing { namespace, key, status, marks }, seal));
    content.map_or(Proof::Broken, Proof::Sealed)
}

/// Returns when a record was written. The creation time is a lower bound for a slow writer's clock. Labels in the
/// future are ignored, and a creation time in the future counts as now, so that a clock that was set back cannot stall
/// a release.
pub(super) fn written(metadata: &ObjectMeta, now: Timestamp) -> Option<Timestamp> {
    let labels = metadata.labels.as_ref();
    let label = |key| labels?.get(key)?.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    let labels = ["createdAt", "modifiedAt"].into_iter().filter_map(label).filter(|time| *time <= now);
    labels.chain(metadata.creation_timestamp.as_ref().map(|time| time.0.min(now))).max()
}

/// The metadata of a record's Secret.
#[derive(Clone, Debug, Deserialize)]
pub struct RecordSecret {
    #[serde(deserialize_with = "without_managed_fields")]
    metadata: ObjectMeta,
}

impl RecordSecret {
    /// Reads the record's metadata and verifies it with these keys; `None` if it is not a release record.
    pub fn record(&self, keys: &Keyring) -> Option<RecordMeta> {
        RecordMeta::read(&self.metadata, keys)
    }
}

outside::dynamic_resource!(RecordSecret, metadata only);
