//! Reads the records of a release, as `helm history` does. Nothing here proves who wrote them: that needs the
//! operator's key.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use helm_release::kube::{Api, Call, ObjectKey};
use helm_release::release::Release;
use helm_release::storage::{
    Error, Home, Key, Keyring, MARKS_ANNOTATION, Marks, RecordMeta, RecordSecret, SELECTOR, Storage,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;

use crate::inspect::revisions::SeenRevision;
use crate::plan::account::Account;

/// How many records are read at a time.
const AT_A_TIME: usize = 4;

/// The records of one release.
pub(super) struct Records {
    storage: Storage,
    home: Home,
    namespace: String,
    name: String,
}

/// A record's metadata.
pub(super) struct Found {
    pub(super) version: u32,
    /// The objects that its marks name.
    pub(super) objects: Vec<(ObjectKey, String)>,
    meta: RecordMeta,
    /// The digests of its inputs; `None` if this operator did not write it.
    inputs: Option<String>,
}

impl Records {
    /// Names the records of a release.
    pub(super) fn new(api: &Arc<dyn Api>, home: Home, namespace: &str, name: &str) -> Option<Records> {
        let storage = Storage::new(api.clone(), nobody()?).at(home.clone());
        Some(Records { storage, home, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Names what is read, for callers who may not read it.
    pub(super) fn what(&self) -> String {
        let (namespace, _) = self.home.record(&self.namespace, &self.name);
        format!("release records (Secrets) in namespace {namespace:?}")
    }

    /// Lists the metadata of the records, oldest first.
    pub(super) async fn list(&self, api: &dyn Api) -> Result<Vec<Found>, helm_release::kube::Error> {
        let (namespace, name) = self.home.record(&self.namespace, &self.name);
        let selector = format!("{SELECTOR},name={name}").replace('=', "%3D");
        let path = format!("/api/v1/namespaces/{namespace}/secrets?labelSelector={selector}");
        let list: Vec<RecordSecret> = outside::list(api, Call::metadata_list(path)).await?;
        let mut all: Vec<Found> = list.iter().filter_map(|secret| found(secret.meta())).collect();
        all.sort_by_key(|found| found.version);
        Ok(all)
    }

    /// Returns the newest record's metadata; `None` without a release.
    pub(super) async fn newest(&self, api: &dyn Api) -> Result<Option<Found>, helm_release::kube::Error> {
        Ok(self.list(api).await?.pop())
    }

    /// Reads a record, and what the revision did, if that is recorded.
    pub(super) async fn read(&self, version: u32) -> Result<(Release, Option<Account>), Error> {
        let record = self.storage.get(&self.namespace, &self.name, version).await?;
        let did = record.plan.as_deref().and_then(Account::read);
        Ok((record.release.facts().clone(), did))
    }

    /// Reads the last revisions, oldest first. Returns only the metadata of a record that cannot be decoded.
    pub(super) async fn revisions(
        &self,
        api: &dyn Api,
        max: usize,
    ) -> Result<Vec<SeenRevision>, helm_release::kube::Error> {
        let mut all = self.list(api).await?;
        let last = all.split_off(all.len().saturating_sub(max));
        let read = |found: Found| async move {
            let record = self.read(found.version).await.ok();
            revision(found, record)
        };
        Ok(stream::iter(last).map(read).buffered(AT_A_TIME).collect().await)
    }
}

fn found(metadata: &ObjectMeta) -> Option<Found> {
    let meta = RecordMeta::read(metadata, &nobody()?)?;
    let marks = metadata.annotations.as_ref().and_then(|all| Marks::parse(all.get(MARKS_ANNOTATION)?));
    let objects = marks.iter().flat_map(|marks| &marks.objects);
    let objects = objects.map(|object| (object.key.clone(), object.api_version.to_string())).collect();
    Some(Found { version: meta.version, objects, meta, inputs: marks.map(|marks| marks.inputs) })
}

fn revision(found: Found, record: Option<(Release, Option<Account>)>) -> SeenRevision {
    let seen = SeenRevision {
        revision: found.version,
        status: found.meta.status.as_str().to_owned(),
        updated: found.meta.written,
        inputs: found.inputs,
        ..SeenRevision::default()
    };
    let Some((record, did)) = record else { return seen };
    SeenRevision {
        did: did.map(|did| did.summary()).unwrap_or_default(),
        chart: format!("{}-{}", record.chart.name, record.chart.version),
        app_version: record.chart.app_version.clone(),
        updated: record.info.last_deployed.map(in_seconds).or(seen.updated),
        rolled_back_to: record.info.rolled_back_to(),
        description: record.info.description,
        ..seen
    }
}

fn in_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Returns a key that sealed no record.
fn nobody() -> Option<Keyring> {
    Some(Keyring::new(Key::new(&[0; 32])?, Vec::new()))
}
