//! Where release records live: Secrets, as Helm keeps them, so that `helm list`, `history`, `get` and `rollback` work.
//!
//! Its in-memory twin is the API server in memory, [`crate::kube::MemoryApi`]. Counterpart: Helm's `pkg/storage/driver/secrets.go`; what is
//! ours is the annotation with marks ([`Marks`]), which lets a restart know every release without reading one.

mod marks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

pub use marks::{MARKS_ANNOTATION, MarkedObject, Marks};

use crate::kube::{self, Api, Call, FIELD_MANAGER};
use crate::release::{self, Packed, Release, Status};

/// What the server takes as a Secret's data.
pub const MAX_RECORD: usize = 1 << 20;

/// The selector of every release record.
pub const SELECTOR: &str = "owner=helm";

/// The label with the uid of the custom resource that a release belongs to. Helm's writing takes annotations off a record, but keeps labels
/// and hands them on to the revisions that it makes.
pub const OWNER_LABEL: &str = "helm.sdk.operatorframework.io/owner";

/// Labels that are Helm's own.
const SYSTEM_LABELS: [&str; 6] = ["name", "owner", "status", "version", "createdAt", "modifiedAt"];

/// Why a record was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request failed.
    #[error("cannot {verb} release record {key:?}")]
    Api {
        /// `read`, `create`, `update` or `delete`.
        verb: &'static str,
        /// The record.
        key: String,
        /// Why.
        #[source]
        source: kube::Error,
    },
    /// The record cannot be encoded or decoded.
    #[error("cannot encode or decode release record {key:?}")]
    Codec {
        /// The record.
        key: String,
        /// Why.
        #[source]
        source: release::Error,
    },
    /// Even without files and notes it is more than a Secret holds.
    #[error("release {name:?} is too large to record: {size} bytes, and a Secret holds {MAX_RECORD}")]
    TooLarge {
        /// The release.
        name: String,
        /// Its record's size.
        size: usize,
    },
}

/// Release records in Secrets. Cheap to clone.
#[derive(Clone)]
pub struct Storage {
    api: Arc<dyn Api>,
}

/// A record that was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The record, packed.
    pub packed: Packed,
    /// The Secret's resource version, for telling our own writes from others' later ones.
    pub resource_version: u64,
}

/// What a record's metadata says, without reading the record.
#[derive(Clone, Debug)]
pub struct RecordMeta {
    /// The release.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The revision.
    pub version: u32,
    /// Where it is in its life.
    pub status: Status,
    /// The Secret's resource version.
    pub resource_version: u64,
    /// Our annotation.
    pub marks: Option<Marks>,
    /// The uids of the custom resources that it belongs to: our label says so, or, with the upstreams, its owner references.
    pub owners: Vec<String>,
    /// When it was last written, as far as can be told: by the server's clock, or later by the writer's.
    pub written: Option<Timestamp>,
}

impl RecordMeta {
    /// Reads a Secret's metadata; nothing if it is no release record.
    pub fn read(metadata: &ObjectMeta) -> Option<RecordMeta> {
        let labels = metadata.labels.as_ref()?;
        let name = labels.get("name")?;
        let version: u32 = labels.get("version")?.parse().ok()?;
        if metadata.name.as_deref() != Some(release::key(name, version).as_str()) {
            return None;
        }
        let label_owner = labels.get(OWNER_LABEL).cloned().into_iter();
        let annotation = metadata.annotations.as_ref().and_then(|a| a.get(MARKS_ANNOTATION));
        Some(RecordMeta {
            name: name.clone(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            version,
            status: labels.get("status").map_or(Status::Unknown, |s| Status::parse(s)),
            resource_version: metadata.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0),
            marks: annotation.and_then(|text| Marks::parse(text)),
            owners: label_owner.chain(metadata.owner_references.iter().flatten().map(|o| o.uid.clone())).collect(),
            written: written(metadata, Timestamp::now()),
        })
    }
}

/// A writer's clock may be behind, so the server's counts where it is later; or ahead, and then it says nothing.
fn written(metadata: &ObjectMeta, now: Timestamp) -> Option<Timestamp> {
    let labels = metadata.labels.as_ref();
    let label = |key| labels?.get(key)?.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    let labels = ["createdAt", "modifiedAt"].into_iter().filter_map(label).filter(|time| *time <= now);
    labels.chain(metadata.creation_timestamp.as_ref().map(|time| time.0)).max()
}

#[derive(Deserialize)]
struct Secret {
    metadata: ObjectMeta,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct SecretList {
    items: Vec<Secret>,
}

impl Storage {
    /// Storage on the server behind `api`.
    pub fn new(api: Arc<dyn Api>) -> Storage {
        Storage { api }
    }

    /// Makes the record of a new revision. Fails if there is one.
    pub async fn create(&self, release: &Release, marks: &Marks) -> Result<Written, Error> {
        let packed = fit(release)?;
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
            "metadata": {
                "name": release.key(),
                "labels": labels(release, "createdAt"),
                "annotations": {MARKS_ANNOTATION: marks.to_text()},
            },
        });
        own(&mut secret["metadata"], marks);
        secret["data"] = json!({"release": STANDARD.encode(packed.to_record())});
        let path = format!("/api/v1/namespaces/{}/secrets?fieldManager={FIELD_MANAGER}", release.namespace);
        let call = Call::post(path, secret.to_string().into_bytes());
        let answer = self.send("create", &release.key(), call).await?;
        Ok(Written { packed, resource_version: version_of(&answer) })
    }

    /// Writes a revision's record anew; marks stay as they are unless given. An upstream's owner reference goes: by it, a foreground
    /// deletion would collect the record before we have uninstalled.
    pub async fn update(&self, release: &Release, marks: Option<&Marks>) -> Result<Written, Error> {
        let packed = fit(release)?;
        let mut patch = json!({
            "metadata": {"labels": labels(release, "modifiedAt"), "ownerReferences": null},
            "data": {"release": STANDARD.encode(packed.to_record())},
        });
        if let Some(marks) = marks {
            patch["metadata"]["annotations"] = json!({MARKS_ANNOTATION: marks.to_text()});
            own(&mut patch["metadata"], marks);
        }
        let resource_version = self.patch(&release.namespace, &release.key(), &patch).await?;
        Ok(Written { packed, resource_version })
    }

    /// Writes only the marks of a revision; returns its resource version.
    pub async fn mark(&self, namespace: &str, name: &str, version: u32, marks: &Marks) -> Result<u64, Error> {
        let mut patch =
            json!({"metadata": {"annotations": {MARKS_ANNOTATION: marks.to_text()}, "ownerReferences": null}});
        own(&mut patch["metadata"], marks);
        self.patch(namespace, &release::key(name, version), &patch).await
    }

    /// Reads one revision.
    pub async fn get(&self, namespace: &str, name: &str, version: u32) -> Result<Release, Error> {
        let key = release::key(name, version);
        let answer = self.send("read", &key, Call::get(path(namespace, &key))).await?;
        let secret: Secret = answer.parse().map_err(|source| Error::Api { verb: "read", key: key.clone(), source })?;
        let codec = |source| Error::Codec { key: key.clone(), source };
        let data = secret.data.get("release").map_or("", String::as_str);
        let record = STANDARD.decode(data).map_err(|e| codec(e.into()))?;
        let labels = secret.metadata.labels.unwrap_or_default();
        let labels = labels.into_iter().filter(|(k, _)| !SYSTEM_LABELS.contains(&k.as_str())).collect();
        Packed::from_record(&record, labels).map_err(codec)
    }

    /// The metadata of every revision of a release, oldest first.
    pub async fn history(&self, namespace: &str, name: &str) -> Result<Vec<RecordMeta>, Error> {
        let path = format!("/api/v1/namespaces/{namespace}/secrets?labelSelector=name%3D{name},owner%3Dhelm");
        let answer = self.send("read", name, Call::get(path)).await?;
        let list: SecretList =
            answer.parse().map_err(|source| Error::Api { verb: "read", key: name.to_owned(), source })?;
        let mut found: Vec<RecordMeta> =
            list.items.iter().filter_map(|secret| RecordMeta::read(&secret.metadata)).collect();
        found.sort_by_key(|meta| meta.version);
        Ok(found)
    }

    /// Deletes one revision. Already gone is fine.
    pub async fn delete(&self, namespace: &str, name: &str, version: u32) -> Result<(), Error> {
        let key = release::key(name, version);
        match self.send("delete", &key, Call::delete(path(namespace, &key), b"{}".to_vec())).await {
            Err(Error::Api { source, .. }) if source.is_not_found() => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    /// Deletes these revisions: one request if the server allows to delete by label, else one for each.
    pub async fn delete_all(&self, namespace: &str, name: &str, versions: &[u32]) -> Result<(), Error> {
        if let [only] = versions {
            return self.delete(namespace, name, *only).await;
        }
        let path = format!("/api/v1/namespaces/{namespace}/secrets?labelSelector=name%3D{name},owner%3Dhelm");
        match self.send("delete", name, Call::new(Method::DELETE, path)).await {
            Err(Error::Api { source, .. }) if matches!(source.code(), Some(403 | 405)) => {
                for version in versions {
                    self.delete(namespace, name, *version).await?;
                }
                Ok(())
            }
            answer => answer.map(|_| ()),
        }
    }

    async fn patch(&self, namespace: &str, key: &str, patch: &Value) -> Result<u64, Error> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", path(namespace, key));
        let answer = self.send("update", key, Call::merge(path, patch.to_string().into_bytes())).await?;
        Ok(version_of(&answer))
    }

    async fn send(&self, verb: &'static str, key: &str, call: Call) -> Result<kube::Answer, Error> {
        self.api.send(call).await.map_err(|source| Error::Api { verb, key: key.to_owned(), source })
    }
}

fn version_of(answer: &kube::Answer) -> u64 {
    #[derive(Deserialize)]
    struct Head {
        metadata: ObjectMeta,
    }
    let head: Option<Head> = answer.parse().ok();
    head.and_then(|h| h.metadata.resource_version?.parse().ok()).unwrap_or(0)
}

fn path(namespace: &str, key: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{key}")
}

fn labels(release: &Release, time: &str) -> Value {
    let mut labels = json!(release.labels);
    labels["name"] = release.name.as_str().into();
    labels["owner"] = "helm".into();
    labels["status"] = release.info.status.as_str().into();
    labels["version"] = release.version.to_string().into();
    labels[time] = Timestamp::now().as_second().to_string().into();
    labels
}

/// Says whose the release is. Without an owner the labels are not even named: a patch with `labels: null` would take them all away.
fn own(metadata: &mut Value, marks: &Marks) {
    if !marks.owner.is_empty() {
        metadata["labels"][OWNER_LABEL] = marks.owner.as_str().into();
    }
}

/// Packs a release so that a Secret holds it: without the chart's other files if need be, then without notes.
fn fit(release: &Release) -> Result<Packed, Error> {
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
