//! Release records in Secrets, as Helm stores them, so that `helm list`, `history`, `get` and `rollback` work on them.
//!
//! Counterpart: Helm's `pkg/storage/driver/secrets.go`. Our addition is an annotation with [`Marks`], from which a
//! restart knows every release without reading a record.

mod chunked;
mod decode;
mod elsewhere;
mod error;
mod home;
mod left_behind;
mod marks;
mod marks_text;
mod meta;
mod proof;
mod record;
mod seal;
mod secret;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use elsewhere::PATIENCE;
pub(crate) use elsewhere::{Elsewhere, Listing, Unended, Unsuccessful};
pub use error::Error;
pub use home::Home;
pub use left_behind::{Maker, left_behind};
pub use marks::{Before, MARKS_ANNOTATION, MarkedObject, Marks, Rejected, RejectedBy, Tests, former_owners};
pub use meta::{Proof, RecordMeta, RecordSecret};
pub use proof::{Sealed, Stored, Unproven};
pub use record::{Body, Known, Precondition, Record, Written};
pub use seal::{Content, Key, Keyring, SEAL_ANNOTATION};
pub(crate) use secret::check_fits;

use crate::kube::{self, Api, Call, FIELD_MANAGER};
use crate::release::{self, Packed, Release, Status};
use seal::Sealing;
use secret::{
    Secret, fit, labels, metadata_of, path, placed, rewritten, seal_content, secret_labels, set_owner, version_of,
};

/// Maximum size of an encoded record in bytes: the API server's limit for a Secret's data.
pub(crate) const MAX_RECORD: usize = 1 << 20;

/// The type of the Secrets that are release records.
pub const SECRET_TYPE: &str = "helm.sh/release.v1";

/// The key in a record's data that holds what the revision did. Helm neither reads nor copies it.
const PLAN_KEY: &str = "plan";

/// Maximum size of what a revision did, in bytes.
pub const MAX_PLAN: usize = 32 << 10;

/// The label selector of all release records.
pub const SELECTOR: &str = "owner=helm";

/// The label with the uid of the custom resource that owns the release. Helm drops a record's annotations when it
/// writes, but keeps labels and copies them to the revisions it makes.
pub const OWNER_LABEL: &str = "helm.sdk.operatorframework.io/owner";

/// The annotation that names the process that wrote the record last. Helm drops it with all other annotations.
pub const WRITER_ANNOTATION: &str = "helm.sdk.operatorframework.io/writer";

/// Bytes reserved in a record for additions after an action's first write: phases of hooks, and the description of a
/// failure.
const HEADROOM: usize = 16 << 10;

/// Maximum number of concurrent deletions of records.
const MAX_DELETIONS: usize = 8;

/// Reads and writes release records in Secrets. Cheap to clone.
///
/// A record is the Secret `sh.helm.release.v1.<name>.v<revision>` in the release's namespace or at another [`Home`], of
/// type `helm.sh/release.v1`, with Helm's labels and encoding. Methods take the release's own namespace and name. Each
/// method sends one request, unless documented otherwise, and never retries: after an error or a cancellation, the
/// write may or may not have happened. Repeating [`update`](Storage::update), [`mark`](Storage::mark) and the deletions
/// is safe; repeating [`create`](Storage::create) is safe until the record changes, and then fails with a conflict.
#[derive(Clone)]
pub struct Storage {
    api: Arc<dyn Api>,
    keys: Keyring,
    home: Home,
    /// The name of this process on the records that it writes; empty if it has none.
    writer: Arc<str>,
}

impl Storage {
    /// Creates a storage on the server behind `api` that seals and verifies records with these keys.
    pub fn new(api: Arc<dyn Api>, keys: Keyring) -> Storage {
        Storage { api, keys, home: Home::default(), writer: "".into() }
    }

    /// Returns a storage that writes records in the name of this process, so that other processes can tell them from
    /// their own.
    #[must_use]
    pub fn written_by(self, writer: Arc<str>) -> Storage {
        Storage { writer, ..self }
    }

    /// Returns the same storage behind another connection.
    #[must_use]
    pub fn through(self, api: Arc<dyn Api>) -> Storage {
        Storage { api, ..self }
    }

    /// Returns a storage with its records at this home.
    #[must_use]
    pub fn at(self, home: Home) -> Storage {
        Storage { home, ..self }
    }

    /// Returns a storage with each release's records in the release's namespace; `None` if this storage already keeps
    /// them there.
    pub(crate) fn beside_releases(&self) -> Option<Storage> {
        (self.home != Home::default()).then(|| self.clone().at(Home::default()))
    }

    /// Creates the record of a new revision. Omits the chart's other files, then the notes, if the record would be too
    /// large.
    ///
    /// # Errors
    /// The revision or another Secret of its name exists, the request fails, or the record is too large.
    pub async fn create(&self, release: &Release, marks: &Marks) -> Result<Written, Error> {
        let packed = seal_content(fit(release)?);
        let stored = self.post(release, &packed, marks, true).await?;
        Ok(Written::of(packed, &stored))
    }

    /// Copies a revision that is recorded elsewhere; the copy is as unproven as the original. Returns it with the
    /// Secret's resource version.
    pub(crate) async fn copy(
        &self,
        release: &Unproven<Release>,
        marks: &Marks,
    ) -> Result<(Unproven<Packed>, u64), Error> {
        let packed = seal_content(fit(release.facts())?);
        let stored = self.post(release.facts(), &packed, marks, false).await?;
        let Written { packed, resource_version } = Written::of(packed, &stored);
        Ok((packed.into(), resource_version))
    }

    async fn post(
        &self,
        release: &Release,
        packed: &Sealed<Packed>,
        marks: &Marks,
        seal: bool,
    ) -> Result<ObjectMeta, Error> {
        let (namespace, name) = self.home.record(&release.namespace, &release.name);
        let key = release::key(&name, release.version);
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE,
            "metadata": {"name": key, "labels": labels(release, &name, "createdAt")},
        });
        if seal {
            let body = Body { version: release.version, status: release.info.status, content: packed.content() };
            self.seal(&mut secret["metadata"], (namespace, &key), &body, marks);
        }
        self.name_writer(&mut secret["metadata"]);
        set_owner(&mut secret["metadata"], marks);
        secret["data"] = json!({"release": STANDARD.encode(packed.get().to_record())});
        let path = format!("/api/v1/namespaces/{namespace}/secrets?fieldManager={FIELD_MANAGER}");
        let call = Call::post(path, secret.to_string().into_bytes());
        match self.send("create", &key, call).await {
            Ok(stored) => Ok(metadata_of(&stored)),
            Err(error) if error.is_taken() => self.standing(namespace, key, &secret, error).await,
            Err(error) => Err(error),
        }
    }

    /// Returns the metadata of the record in whose place one was to be created, if it is the one that was sent: its first
    /// answer was lost, and the client has repeated the request.
    ///
    /// # Errors
    /// The name is taken: by another process's record, which a watch reports, or by a Secret that no watch of records
    /// reports.
    async fn standing(&self, namespace: &str, key: String, sent: &Value, conflict: Error) -> Result<ObjectMeta, Error> {
        let read = self.send("read", &key, Call::get(path(namespace, &key))).await;
        let secret = read.ok().and_then(|answer| answer.parse::<Secret>().ok());
        let is_helms = |secret: &Secret| {
            let labels = secret.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get("owner")).is_some_and(|owner| owner == "helm")
        };
        let is_record = |secret: &Secret| is_helms(secret) && self.meta(namespace, &secret.metadata).is_some();
        match secret {
            Some(secret) if !is_record(&secret) => Err(Error::NoRecord { namespace: namespace.to_owned(), key }),
            Some(secret) if secret.is_as_sent(sent) => Ok(secret.metadata),
            _ => Err(conflict),
        }
    }

    /// Rewrites a revision's record and its marks. A record whose uid differs from the release's counts as missing.
    /// Removes an upstream operator's owner reference: through it, a foreground deletion would collect the record
    /// before we uninstall.
    ///
    /// # Errors
    /// The record does not exist, the request fails, or the record is too large.
    pub async fn update(&self, release: &Release, marks: &Marks) -> Result<Written, Error> {
        self.update_with(release, marks, None).await
    }

    /// Rewrites a record as [`update`](Self::update) does, with what the revision did. A plan that is larger than
    /// [`MAX_PLAN`], or that does not fit beside the release, is left out. Other writes keep the recorded plan.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub async fn update_with(&self, release: &Release, marks: &Marks, plan: Option<Vec<u8>>) -> Result<Written, Error> {
        self.update_where(release, marks, plan, &Precondition::None).await
    }

    /// Rewrites a record as [`update`](Self::update) does, if it still has this resource version.
    ///
    /// # Errors
    /// As [`update`](Self::update), or the record has changed since: a conflict.
    pub(crate) async fn update_unchanged(
        &self,
        release: &Release,
        marks: &Marks,
        resource_version: u64,
    ) -> Result<Written, Error> {
        self.update_where(release, marks, None, &Precondition::ResourceVersion(resource_version)).await
    }

    async fn update_where(
        &self,
        release: &Release,
        marks: &Marks,
        plan: Option<Vec<u8>>,
        precondition: &Precondition,
    ) -> Result<Written, Error> {
        let packed = seal_content(fit(release)?);
        let (namespace, name) = self.home.record(&release.namespace, &release.name);
        let key = release::key(&name, release.version);
        let mut patch = rewritten(release, &name, packed.get());
        precondition.add_to(&mut patch["metadata"]);
        let body = Body { version: release.version, status: release.info.status, content: packed.content() };
        self.seal(&mut patch["metadata"], (namespace, &key), &body, marks);
        set_owner(&mut patch["metadata"], marks);
        self.name_writer(&mut patch["metadata"]);
        let room = (MAX_RECORD - HEADROOM).saturating_sub(packed.get().to_record().len());
        let fits = |plan: &Vec<u8>| plan.len() <= MAX_PLAN.min(room);
        if let Some(plan) = plan.filter(fits) {
            patch["data"][PLAN_KEY] = STANDARD.encode(plan).into();
        }
        let stored = self.patch(namespace, &key, &patch).await?;
        Ok(Written::of(packed, &stored))
    }

    /// Sets the status of a record that this operator did not write; the record stays unproven. Returns its resource
    /// version.
    pub(crate) async fn rewrite(&self, facts: &Release, status: Status) -> Result<u64, Error> {
        let mut release = facts.clone();
        release.info.status = status;
        let packed = fit(&release)?;
        let (namespace, name) = self.home.record(&release.namespace, &release.name);
        let mut patch = rewritten(&release, &name, &packed);
        self.name_writer(&mut patch["metadata"]);
        Ok(version_of(&self.patch(namespace, &release::key(&name, release.version), &patch).await?))
    }

    /// Marks a revision superseded and keeps its marks. A record that this operator did not write stays unproven.
    /// Returns its resource version.
    async fn supersede(&self, record: Record) -> Result<u64, Error> {
        match (record.release, record.marks) {
            (Stored::Sealed(old), Some(marks)) => {
                let mut old = old.into_inner();
                old.info.status = Status::Superseded;
                Ok(self.update(&old, &marks).await?.resource_version)
            }
            (old, _) => self.rewrite(old.facts(), Status::Superseded).await,
        }
    }

    /// Writes only a revision's marks, and seals them. The record must have the body's status and content, or the seal
    /// will not be valid. Returns the record's resource version.
    ///
    /// # Errors
    /// The record does not exist, does not meet the precondition, or the request fails.
    pub async fn mark(
        &self,
        (namespace, name): (&str, &str),
        body: &Body,
        marks: &Marks,
        precondition: &Precondition,
    ) -> Result<u64, Error> {
        let (namespace, name) = self.home.record(namespace, name);
        let key = release::key(&name, body.version);
        let mut patch = json!({"metadata": {"ownerReferences": null}});
        precondition.add_to(&mut patch["metadata"]);
        self.seal(&mut patch["metadata"], (namespace, &key), body, marks);
        self.name_writer(&mut patch["metadata"]);
        set_owner(&mut patch["metadata"], marks);
        Ok(version_of(&self.patch(namespace, &key, &patch).await?))
    }

    /// Marks a revision superseded, given the result of reading its record. If the record is damaged or cannot be
    /// rewritten, changes only the status label, provided that it is still the known record. Returns the record's
    /// resource version.
    ///
    /// # Errors
    /// As [`update`](Storage::update), or the record was not read for another reason.
    pub async fn supersede_as_read(
        &self,
        of: (&str, &str),
        known: Known,
        read: Result<Record, Error>,
    ) -> Result<u64, Error> {
        let written = match read {
            Ok(record) => self.supersede(record).await,
            Err(error) => Err(error),
        };
        match (written, known.resource_version) {
            (Err(error), Some(version)) if error.is_damage() || error.is_unrecordable() => {
                self.relabel_superseded(of, known.version, &Precondition::ResourceVersion(version)).await
            }
            (written, _) => written,
        }
    }

    /// Sets only the status label of a revision to superseded. No seal is valid for the record afterwards. Returns the
    /// record's resource version.
    async fn relabel_superseded(
        &self,
        (namespace, name): (&str, &str),
        version: u32,
        precondition: &Precondition,
    ) -> Result<u64, Error> {
        let (namespace, name) = self.home.record(namespace, name);
        let mut patch = json!({"metadata": {"labels": {"status": Status::Superseded.as_str()}}});
        precondition.add_to(&mut patch["metadata"]);
        self.name_writer(&mut patch["metadata"]);
        Ok(version_of(&self.patch(namespace, &release::key(&name, version), &patch).await?))
    }

    /// Reads one revision.
    ///
    /// # Errors
    /// The record does not exist, the request fails, or the record cannot be decoded.
    pub async fn get(&self, namespace: &str, name: &str, version: u32) -> Result<Record, Error> {
        let of = (namespace, name);
        let (namespace, name) = self.home.record(namespace, name);
        let key = release::key(&name, version);
        let answer = self.send("read", &key, Call::get(path(namespace, &key))).await?;
        let secret: Secret = answer.parse().map_err(|source| Error::Api { verb: "read", key: key.clone(), source })?;
        if secret.is_index() {
            let Record { release, .. } = self.read_chunks(namespace, secret).await?;
            return Ok(Record::of(release.map(|release| placed(release, of, version)), None));
        }
        let codec = |source| Error::Codec { key: key.clone(), source };
        let data = secret.data.get("release").map_or("", String::as_str);
        let record = STANDARD.decode(data).map_err(|e| codec(e.into()))?;
        let content = Content::of(&record);
        let meta = self.meta(namespace, &secret.metadata);
        let marks = meta.filter(|meta| meta.proof == Proof::Sealed(content)).and_then(|meta| meta.marks);
        let record_uid = secret.metadata.uid.as_deref().map(Arc::from);
        let resource_version = version_of(&secret.metadata);
        let labels = secret_labels(secret.metadata);
        let release =
            decode::decoded(record.len(), move || Packed::from_record(&record, labels)).await.map_err(codec)?;
        let release = Release { record_uid, ..placed(release, of, version) };
        let release = match &marks {
            Some(_) => Stored::Sealed(Sealed::new(release, content)),
            None => Stored::Unproven(Unproven::new(release, content)),
        };
        let plan = secret.data.get(PLAN_KEY).filter(|text| text.len() <= 2 * MAX_PLAN);
        let plan = plan.and_then(|text| STANDARD.decode(text).ok());
        Ok(Record { release, marks, plan, resource_version })
    }

    /// Lists the metadata of all revisions of a release, oldest first.
    ///
    /// # Errors
    /// The request fails.
    pub async fn history(&self, namespace: &str, name: &str) -> Result<Vec<RecordMeta>, Error> {
        let (namespace, name) = self.home.record(namespace, name);
        let path = format!("/api/v1/namespaces/{namespace}/secrets?labelSelector=name%3D{name},owner%3Dhelm");
        let records = self.list::<RecordSecret>(&name, Call::metadata_list(path)).await?;
        let mut found: Vec<RecordMeta> = records.iter().filter_map(|secret| secret.record(&self.keys)).collect();
        found.sort_by_key(|meta| meta.version);
        Ok(found)
    }

    /// Lists the metadata of the records in all namespaces that name this owner, in their label as well.
    ///
    /// # Errors
    /// The request fails.
    pub async fn owned_anywhere(&self, owner: &str) -> Result<Vec<RecordMeta>, Error> {
        let path = format!("/api/v1/secrets?labelSelector=owner%3Dhelm,{OWNER_LABEL}%3D{owner}");
        let found: Vec<RecordSecret> = self.list(&format!("{OWNER_LABEL}={owner}"), Call::metadata_list(path)).await?;
        let records = found.iter().filter_map(|secret| secret.record(&self.keys));
        Ok(records.filter(|meta| meta.names_owner(owner)).collect())
    }

    /// Returns the names of the records of this owner's release that are still in the release's namespace although this
    /// home is elsewhere: they were imported, and nothing deletes them. Sends one list request if the home is
    /// elsewhere.
    ///
    /// # Errors
    /// The request fails.
    pub async fn left_beside(&self, namespace: &str, name: &str, owner: &str) -> Result<Vec<String>, Error> {
        let Some(beside) = self.beside_releases() else { return Ok(Vec::new()) };
        let all = beside.history(namespace, name).await?;
        let owned = all.iter().filter(|meta| meta.names_owner(owner));
        Ok(owned.map(|meta| release::key(name, meta.version)).collect())
    }

    /// Deletes these revisions, each by its exact name, several at a time and `last` at the end. Succeeds if they do
    /// not exist. Never selects by labels, because people keep copies of records under other names.
    ///
    /// # Errors
    /// A request fails, or a record is no longer the known one; some revisions may be deleted, but `last` is not.
    pub async fn delete_all(&self, namespace: &str, name: &str, revisions: &[Known], last: u32) -> Result<(), Error> {
        let (last, others): (Vec<Known>, Vec<Known>) = revisions.iter().partition(|known| known.version == last);
        let delete = |known: Known| self.delete(namespace, name, known).boxed();
        stream::iter(others).map(delete).buffer_unordered(MAX_DELETIONS).try_collect::<()>().await?;
        for known in last {
            delete(known).await?;
        }
        Ok(())
    }

    /// Deletes one revision if its record is still the known one. Succeeds if it does not exist.
    ///
    /// # Errors
    /// The request fails, or the record is no longer the known one.
    pub async fn delete(&self, namespace: &str, name: &str, known: Known) -> Result<(), Error> {
        let (namespace, name) = self.home.record(namespace, name);
        let key = release::key(&name, known.version);
        let options = match known.resource_version {
            Some(version) => json!({"preconditions": {"resourceVersion": version.to_string()}}),
            None => json!({}),
        };
        match self.send("delete", &key, Call::delete(path(namespace, &key), options.to_string().into_bytes())).await {
            Err(Error::Api { source, .. }) if source.is_missing_object() => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    fn meta(&self, namespace: &str, metadata: &ObjectMeta) -> Option<RecordMeta> {
        let namespace = Some(metadata.namespace.clone().unwrap_or_else(|| namespace.to_owned()));
        RecordMeta::read(&ObjectMeta { namespace, ..metadata.clone() }, &self.keys)
    }

    /// Adds marks, and a seal over them and the body.
    fn seal(&self, metadata: &mut Value, (namespace, key): (&str, &str), body: &Body, marks: &Marks) {
        let (marks, status) = (marks.to_text(), body.status.as_str());
        let seal = self.keys.seal(&Sealing { namespace, key, status, marks: &marks }, body.content);
        metadata["annotations"][MARKS_ANNOTATION] = marks.into();
        metadata["annotations"][SEAL_ANNOTATION] = seal.into();
    }

    /// Records this process as the writer. If it has no name, the patch must not contain `annotations` at all.
    fn name_writer(&self, metadata: &mut Value) {
        if !self.writer.is_empty() {
            metadata["annotations"][WRITER_ANNOTATION] = (*self.writer).into();
        }
    }

    /// Changes a record. A record whose uid differs from the patch's counts as missing.
    async fn patch(&self, namespace: &str, key: &str, patch: &Value) -> Result<ObjectMeta, Error> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", path(namespace, key));
        let call = Call::merge(path, patch.to_string().into_bytes());
        let answer = self.api.send(call).await.map_err(|source| match source.is_replaced() {
            true => kube::Error::from_status(404, "NotFound", "another record has taken its place"),
            false => source,
        });
        let answer = answer.map_err(|source| Error::Api { verb: "update", key: key.to_owned(), source })?;
        Ok(metadata_of(&answer))
    }

    async fn send(&self, verb: &'static str, key: &str, call: Call) -> Result<kube::Response, Error> {
        self.api.send(call).await.map_err(|source| Error::Api { verb, key: key.to_owned(), source })
    }

    async fn list<T: DeserializeOwned + Send>(&self, key: &str, call: Call) -> Result<Vec<T>, Error> {
        let listed = outside::list(&*self.api, call).await;
        listed.map_err(|source| Error::Api { verb: "read", key: key.to_owned(), source })
    }
}
